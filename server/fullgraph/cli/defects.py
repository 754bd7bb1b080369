"""Report unexpected exceptions of fullgraph itself."""

from __future__ import annotations

import sys
import traceback

from fullgraph.cli.exit_status import DEFECT

ASK_FOR_REPORT = (
    "Please report it with the traceback at https://github.com/fullgraph/fullgraph/issues."
)


def report_defect(error: Exception) -> int:
    """Print the traceback of an unexpected exception and a request to report it; return the exit
    status.
    """
    traceback.print_exception(error)
    sys.stderr.write(f"error: This is a defect of fullgraph. {ASK_FOR_REPORT}\n")
    return DEFECT
