"""Incremental tracing: find the targets (functions and modules) whose traces an edit can affect.

Results of all other targets are moved to their new lines, without another trace.
"""

from __future__ import annotations

from .affected import Inputs as Inputs
from .affected import KnownTarget as KnownTarget
from .affected import find_unaffected as find_unaffected
from .affected import unless_called_otherwise as unless_called_otherwise
from .alignment import Alignment as Alignment
from .alignment import align_statements as align_statements
from .alignment import align_versions as align_versions
from .alignment import may_be_same_code as may_be_same_code
from .alignment import parse_text as parse_text
from .alignment import same_code as same_code
from .moves import Moves as Moves
from .statements import ParsedText as ParsedText
