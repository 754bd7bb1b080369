"""List or stop the engines, processes with torch imported that stay to make later commands faster.

Exit status: 0 if all engines answered, 2 if one did not.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace

from fullgraph.cli import options
from fullgraph.cli.exit_status import CLEAN, UNABLE
from fullgraph.cli.options import Parser
from fullgraph.cli.terminal import write


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "action",
        nargs="?",
        type=options.one_of(("status", "stop")),
        default="status",
        metavar="status|stop",
        help="List the background engines, or stop them. Default: status.",
    )


def run(arguments: Namespace) -> int:
    from fullgraph.cli import interruption
    from fullgraph.cli.kept_engines import kept_engines
    from fullgraph.engines.background import BackgroundUnavailable

    stop = arguments.action == "stop"
    try:
        found = interruption.run(kept_engines(os.environ, stop=stop))
    except BackgroundUnavailable as error:
        write(sys.stderr, f"error: {error}\n")
        return UNABLE
    for kept_engine in found:
        if kept_engine.problem:
            write(sys.stderr, f"error: {kept_engine.problem}\n")
        else:
            write(sys.stdout, f"{'Stopped ' if stop else ''}{kept_engine.format_line()}\n")
    if not found:
        write(sys.stdout, "No engine is running in the background.\n")
    return UNABLE if any(kept_engine.problem for kept_engine in found) else CLEAN
