"""Run a program and record the inputs of its modules.

The inputs are written to fullgraph.probes.json in the root folder. Later checks and editors trace
the modules with them. The program runs as usual, outside of the sandbox.

Exit status: that of the program; 2 if the recording could not be written.
"""

from __future__ import annotations

import argparse
from argparse import Namespace
from pathlib import Path

from fullgraph.cli import options
from fullgraph.cli.options import Parser, UsageError


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "command",
        nargs=argparse.REMAINDER,
        metavar="COMMAND",
        help="Command that starts the program, such as `python train.py --steps 2`.",
    )
    parser.options.add_argument(
        "--root",
        metavar="FOLDER",
        type=Path,
        help="Folder with the modules to record. Default: the current folder.",
    )
    options.add_flag(
        parser,
        "--eager",
        help="Run without torch.compile, to also record modules that compiled modules call.",
    )
    options.add_flag(parser, "-q", "--quiet", help="Print no summary.")


def run(arguments: Namespace) -> int:
    from fullgraph.cli.record import record_program

    command = arguments.command[1:] if arguments.command[:1] == ["--"] else arguments.command
    if not command:
        raise UsageError(
            "Give the command of the program, as in `fullgraph record -- python train.py`."
        )
    folder = (arguments.root or Path.cwd()).absolute()
    if not folder.is_dir():
        raise UsageError(f"--root: {arguments.root} is not a folder.")
    return record_program(command, folder, eager=arguments.eager, quiet=arguments.quiet)
