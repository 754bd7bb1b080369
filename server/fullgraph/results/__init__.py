"""The results of tracing one file, built from the engine's events.

``Results`` in ``file_results`` is the only object that stores these events. The editor and the
commands ``check``, ``fix`` and ``repro`` read findings and reports from it.
"""

from __future__ import annotations

from .file_results import Results as Results
from .file_results import collect_results as collect_results
