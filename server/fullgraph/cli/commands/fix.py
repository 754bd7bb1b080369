"""Fix graph breaks by rewriting code, if the rewrite was traced and gives the same results.

Each rewrite is compared with the original code in eager mode on real tensors. Files are changed in
place. Without --unsafe, only safe fixes are applied.

Exit status: 0 if no graph break remains, 1 if some remain, 2 if something could not be done.
"""

from __future__ import annotations

import dataclasses
import sys
from argparse import Namespace

from fullgraph.cli import options
from fullgraph.cli.exit_status import CLEAN, FOUND, UNABLE
from fullgraph.cli.options import Parser
from fullgraph.cli.setting_options import add_settings, given_settings
from fullgraph.cli.terminal import as_utf8, paint_for, write


def configure(parser: Parser) -> None:
    options.add_paths(
        parser,
        "Files and folders. FILE::TARGET traces only one function or class and fixes its "
        "findings, which is faster in a long file.",
    )
    options.add_flag(parser, "--diff", help="Print the changes, and do not write them.")
    options.add_flag(
        parser,
        "--unsafe",
        help="Also apply unsafe fixes: fixes that were verified only for the inputs tried, or that "
        "have a disadvantage, such as slower code.",
    )
    options.add_flag(
        parser,
        "--backend",
        help="Also build and execute the C++ code of Inductor, and compare its results.",
    )
    options.add_flag(
        parser,
        "--compile-time",
        help="Also compile with Inductor, and offer changes that shorten the compile time.",
    )
    parser.add_argument(
        "--recompile-time",
        metavar="SECONDS",
        type=float,
        help="Maximum time of searches for recompiles of a program that find no fix. Each rewrite "
        "that is tried executes the program. Default: 90.",
    )
    options.add_choice(parser, "--format", ("text", "json"), "Format of the fixes.")
    options.add_forecast(parser)
    options.add_color(parser)
    options.add_flag(parser, "-q", "--quiet", help="Print no progress.")
    options.add_flag(
        parser, "-v", "--verbose", help="Also print the rewrites that were rejected, and why."
    )
    options.add_flag(
        parser,
        "--timings",
        help="Also print the seconds of each step. For steps that run at the same time, the "
        "full time of each is shown.",
    )
    add_settings(parser, "fix")


def run(arguments: Namespace) -> int:
    from fullgraph.cli import interruption, sources
    from fullgraph.cli.check import EngineUnusable
    from fullgraph.cli.fix import file_diff, fix_files
    from fullgraph.cli.progress import ProgressLine
    from fullgraph.cli.project import common_folder, engine_for, load_settings
    from fullgraph.render.fixes import FixedFile, fixed_json, fixed_text
    from fullgraph.render.paint import Style

    targets = sources.split_targets(arguments.paths)
    paths = tuple(targets)
    project, resolved = load_settings(common_folder(paths), given_settings(arguments))
    settings = resolved.settings
    if arguments.compile_time:
        settings = dataclasses.replace(settings, backend="inductor")
    found = sources.find_sources(paths, settings.exclude, project.root)
    files = [
        dataclasses.replace(source, targets=targets.get(source.path, ())) for source in found.files
    ]
    progress = ProgressLine(wanted=not arguments.quiet)
    out, err = (paint_for(stream, arguments.color) for stream in (sys.stdout, sys.stderr))

    def print_problem(sentence: str) -> None:
        write(sys.stderr, f"{err(Style.ERROR, 'error:')} {sentence}\n")

    def print_result(file: FixedFile) -> None:
        progress.hide()
        if arguments.format == "json":
            return
        text = file_diff(file) if arguments.diff else ""
        summary = fixed_text(file, out, verbose=arguments.verbose)
        write(sys.stdout, text)
        write(sys.stderr if arguments.diff else sys.stdout, f"{summary}\n" if summary else "")
        if arguments.timings and file.times is not None:
            write(sys.stderr, f"{file.path}: {file.times.words} · {file.seconds:.1f} s in all\n")

    for sentence in (*resolved.problems, *found.problems):
        print_problem(sentence)
    try:
        result = interruption.run(
            fix_files(
                files,
                settings=settings,
                project=project.root,
                engine=lambda: engine_for(settings, project),
                grades=("safe", "unsafe") if arguments.unsafe else ("safe",),
                backend=arguments.backend,
                forecast=bool(arguments.forecast),
                recompile_seconds=arguments.recompile_time,
                write=not arguments.diff,
                show_progress=progress.show,
                on_file_done=print_result,
            )
        )
    except EngineUnusable as error:
        print_problem(str(error))
        return UNABLE
    finally:
        progress.hide()
    for file in result.files:
        if file.problem or file.fixed.problem:
            print_problem(file.problem or file.fixed.problem)
    if arguments.format == "json":
        with as_utf8(sys.stdout) as stream:
            stream.write(fixed_json(result.files, result.torch, found.problems) + "\n")
    if result.incomplete or found.problems:
        return UNABLE
    return FOUND if result.left else CLEAN
