"""Show the documentation of an operator or a name of torch, with its schemas, kernels and tags.

Editors show the same on hover.

Exit status: 0 if it was found, 1 if torch does not have the name, 2 if torch is not installed.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from fullgraph.cli import options
from fullgraph.cli.exit_status import CLEAN, FOUND, UNABLE
from fullgraph.cli.options import Parser
from fullgraph.cli.setting_options import add_settings, given_settings
from fullgraph.cli.terminal import as_utf8, paint_for, write


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "name",
        metavar="NAME",
        help="Function, method or operator, for example torch.max, "
        "Tensor.add_, F.gelu, aten::max.dim or max.",
    )
    options.add_flag(parser, "--json", help="Print JSON.")
    options.add_color(parser)
    add_settings(parser, "op")


def run(arguments: Namespace) -> int:
    from fullgraph.cli import interruption
    from fullgraph.cli.op import NoIndex, UnknownName, look_up_pages
    from fullgraph.cli.project import load_settings
    from fullgraph.engines import InterpreterNotFound, find_interpreter

    project, resolved = load_settings(Path.cwd(), given_settings(arguments))
    try:
        interpreter = find_interpreter(resolved.settings.interpreter, project.root, os.environ)
        pages = interruption.run(look_up_pages(arguments.name, interpreter.path, project.root))
    except UnknownName as error:
        write(sys.stderr, f"{error}\n")
        return FOUND
    except (InterpreterNotFound, NoIndex) as error:
        write(sys.stderr, f"error: {error}\n")
        return UNABLE
    if arguments.json:
        with as_utf8(sys.stdout) as out:
            out.write(pages.format_json() + "\n")
    else:
        write(sys.stdout, pages.format_text(paint_for(sys.stdout, arguments.color)) + "\n")
    return CLEAN
