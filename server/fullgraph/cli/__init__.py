"""The command line of fullgraph."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from fullgraph.cli.exit_status import INTERRUPTED


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``fullgraph`` script and return its exit status; ``arguments`` default to
    ``sys.argv``."""
    try:
        from fullgraph.cli.command_line import run_command

        return run_command(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception as error:
        from fullgraph.cli.defects import report_defect

        return report_defect(error)
