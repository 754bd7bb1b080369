"""Show the interpreter, torch and settings that fullgraph uses here, and whether they work.

Exit status: 0 if everything works, 1 if something is degraded, 2 if fullgraph cannot trace.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from fullgraph.cli import options
from fullgraph.cli.options import Parser
from fullgraph.cli.setting_options import add_settings, given_settings
from fullgraph.cli.terminal import paint_for, write


def configure(parser: Parser) -> None:
    options.add_color(parser)
    add_settings(parser, "doctor")


def run(arguments: Namespace) -> int:
    from fullgraph.cli import interruption
    from fullgraph.cli.doctor import examine
    from fullgraph.cli.project import load_settings

    project, resolved = load_settings(Path.cwd(), given_settings(arguments))
    examination = interruption.run(examine(project, resolved, os.environ))
    write(sys.stdout, examination.format_text(paint_for(sys.stdout, arguments.color)) + "\n")
    return examination.status
