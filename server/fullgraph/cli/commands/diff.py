"""Show which findings another torch, or a change of the code, adds and removes.

Checks the same files twice, with two interpreters or in two revisions, or compares two reports.

Exit status: 0 without new findings at or above --exit-severity, 1 if there are such findings or
something is not traced anymore, 2 if a side could not be checked.
"""

from __future__ import annotations

import dataclasses
import os
from argparse import Namespace
from pathlib import Path

from fullgraph.cli import options, sources
from fullgraph.cli.exit_status import UNABLE
from fullgraph.cli.options import Parser, UsageError
from fullgraph.cli.setting_options import add_settings, given_settings, option_of


def configure(parser: Parser) -> None:
    options.add_paths(parser, required=False)
    parser.options.add_argument(
        "--python",
        action="append",
        default=[],
        metavar="PYTHON",
        help="Python interpreter whose torch traces both sides. Give the option twice to trace the "
        "two sides with different interpreters, first the old side.",
    )
    parser.options.add_argument(
        "--rev",
        action="append",
        default=[],
        metavar="REVISION",
        help="Git revision of the old side; the new side is the current files. Give the option "
        "twice to compare two revisions, first the old side.",
    )
    parser.options.add_argument(
        "--report",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="Report of `fullgraph check --format json`. Give two, old and new, instead of PATHS.",
    )
    options.add_choice(
        parser, "--format", ("text", "json", "markdown"), "Format of the differences."
    )
    options.add_forecast(parser)
    parser.options.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="Write the differences to a file instead of standard output.",
    )
    options.add_color(parser)
    options.add_flag(
        parser, "-q", "--quiet", help="Print only the differences: no progress, no notes."
    )
    add_settings(parser, "diff")


def run(arguments: Namespace) -> int:
    from fullgraph.cli.diff.command import DiffChecks, DiffOutput, Variant, compare_reports
    from fullgraph.cli.project import common_folder, engine_for, load_settings
    from fullgraph.engines import InterpreterNotFound, find_interpreter
    from fullgraph.render.paint import Style
    from fullgraph.session.effort import apply_effort, wants_forecast
    from fullgraph.session.setting_kinds import resolve_here

    flags = given_settings(arguments)
    _check_sides(arguments, [name for name in flags if name != "exit-severity"])
    output = DiffOutput(arguments.format, arguments.output, arguments.color, arguments.quiet)
    pythons = arguments.python
    if len(pythons) == 1:
        flags["interpreter"] = resolve_here(pythons[0])
    project, resolved = load_settings(common_folder(arguments.paths), flags)
    for problem in resolved.problems:
        output.print_message("warning", Style.WARNING, problem)
    resolved = apply_effort(resolved)
    settings = resolved.settings
    if arguments.report:
        return compare_reports(arguments.report, output, settings.exit_severity)
    both = pythons if len(pythons) == 2 else [settings.interpreter] * 2
    found = []
    for text in both:
        try:
            found.append(find_interpreter(resolve_here(text), project.root, os.environ).path)
        except InterpreterNotFound as error:
            output.print_error(str(error))
            return UNABLE
    names = pythons if len(pythons) == 2 else ["", ""]
    old, new = (
        Variant(name, path, revision)
        for name, path, revision in zip(names, found, [*arguments.rev, "", ""][:2], strict=True)
    )
    checks = DiffChecks(
        paths=tuple(dict.fromkeys(arguments.paths)),
        variants=(old, new),
        settings=settings,
        project=project.root,
        forecast=wants_forecast(settings, arguments.forecast),
        engine=lambda settings, root: engine_for(settings, dataclasses.replace(project, root=root)),
        output=output,
    )
    return checks.run()


def _check_sides(arguments: Namespace, settings: list[str]) -> None:
    """Check that the arguments describe two sides: interpreters, revisions or reports.

    ``settings`` are the names of the given settings, which reports do not need.

    Raises:
        UsageError: The arguments describe fewer or more than two sides.
    """
    if arguments.report:
        if len(arguments.report) != 2:
            raise UsageError("--report: Give two reports, old and new.")
        unused = {
            "PATHS": arguments.paths,
            "--python": arguments.python,
            "--rev": arguments.rev,
            **{option_of(name): True for name in settings},
            "--forecast": arguments.forecast,
        }
        for name, value in unused.items():
            if value:
                raise UsageError(f"--report: {name} has no effect on reports of finished checks.")
        return
    if len(arguments.python) > 2:
        raise UsageError("--python: Give at most two, old and new.")
    if len(arguments.rev) > 2:
        raise UsageError("--rev: Give at most two, old and new.")
    if len(arguments.python) < 2 and not arguments.rev:
        raise UsageError(
            "Give two sides: --python OLD --python NEW, --rev OLD, or --report OLD --report NEW."
        )
    if not arguments.paths:
        raise UsageError("PATHS: Name the files and folders to check.")
    if sources.STANDARD_INPUT in arguments.paths:
        raise UsageError("PATHS: Standard input cannot be compared; name files.")
