"""Explain a finding code: what happened, and what to do about it.

A code may be written in full (graph-break/GB0170), as an id (GB0170) or as a family (graph-break).

Exit status: 0 if the code is known, 1 if it is not.
"""

from __future__ import annotations

import sys
from argparse import Namespace

from fullgraph.cli.exit_status import CLEAN, FOUND
from fullgraph.cli.options import Parser
from fullgraph.cli.terminal import write


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "code",
        metavar="CODE",
        help="Code of a finding, for example GB0170, graph-break or recompile/size.",
    )


def run(arguments: Namespace) -> int:
    from fullgraph.cli.explain import UnknownCode, explain_code

    try:
        text = explain_code(arguments.code)
    except UnknownCode as error:
        write(sys.stderr, f"{error}\n")
        return FOUND
    write(sys.stdout, text + "\n")
    return CLEAN
