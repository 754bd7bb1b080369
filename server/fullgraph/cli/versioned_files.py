"""Read and write files that users keep under version control: baselines and expectations."""

from __future__ import annotations

import os
import re
from pathlib import Path

_CONFLICT = re.compile(r"^(<{7}|>{7}|={7})( |$)", re.MULTILINE)


def has_conflict_markers(text: str) -> bool:
    """Whether a text contains lines with which git marks a conflict of a merge."""
    return _CONFLICT.search(text) is not None


def replace_text(path: Path, text: str) -> None:
    """Write a file completely or not at all, so that an interruption cannot damage it.

    Raises:
        OSError: The file cannot be written.
    """
    draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)
