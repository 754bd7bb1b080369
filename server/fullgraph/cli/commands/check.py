"""Trace Python files and report what torch.compile would do with them.

A file that is a program is run, and what it compiles is reported. Arguments for the program follow
its path: `fullgraph check -- train.py --steps 2`.

The code is executed in separate processes with limits on time, memory and access.

Exit status: 0 without findings at or above --exit-severity, 1 with such findings, 2 if something
could not be analyzed, such as a function without example inputs, 101 after a defect of fullgraph.
"""

from __future__ import annotations

import argparse
import re
from argparse import Namespace
from pathlib import Path
from typing import get_args

from fullgraph.cli import options
from fullgraph.cli.options import Parser, UsageError
from fullgraph.cli.setting_options import add_settings, given_settings
from fullgraph.cli.shard import Shard
from fullgraph.cli.sources import STANDARD_INPUT
from fullgraph.cli.terminal import Format


def configure(parser: Parser) -> None:
    options.add_paths(parser, "Files and folders; - is standard input.")
    options.add_choice(parser, "--format", get_args(Format), "Format of the findings.")
    options.add_forecast(parser)
    options.add_flag(
        parser,
        "--measure",
        help="Also measure how fast each function or module is: in eager mode, compiled with "
        "Inductor, and compiled with its verified fixes.",
    )
    options.add_flag(
        parser,
        "--numerics",
        help="Also compile each function or module with Inductor, and say whether its results and "
        "gradients are wrong, or differ from eager mode only by rounding.",
    )
    options.add_flag(parser, "--timings", help="Also show what took time, by file and by trace.")
    parser.options.add_argument(
        "--baseline",
        metavar="FILE",
        type=Path,
        help="Hide findings that are listed in FILE, which --update-baseline or --format json "
        "wrote. Default: the setting baseline.",
    )
    options.add_flag(
        parser,
        "--update-baseline",
        help="Accept all findings: write them to the baseline, and remove findings that no longer "
        "occur. Reasons and dates in the file are kept.",
    )
    options.add_flag(
        parser,
        "--fix",
        help="Remove ignore comments that hide nothing, and entries of the baseline that no longer "
        "occur. `fullgraph fix` repairs graph breaks.",
    )
    parser.options.add_argument(
        "--changed-since",
        metavar="REV",
        default="",
        help="Check only files that the changes since this git revision can affect, for example "
        "origin/main.",
    )
    parser.options.add_argument(
        "--stdin-filename",
        metavar="PATH",
        default="<stdin>",
        help="Name of standard input in findings.",
    )
    options.add_output(parser)
    parser.options.add_argument(
        "--shard",
        metavar="NUMBER/COUNT",
        type=Shard.parse,
        help="Check only one part of the files, for example 2/8 for the second of eight. "
        "`fullgraph merge` merges the JSON reports of all parts.",
    )
    parser.options.add_argument(
        "--scheduler",
        metavar="ADDRESS",
        type=scheduler_address,
        help="Trace the files on the workers of the Dask cluster with this scheduler, for example "
        "tcp://head:8786. Workers need the same files at the same paths, and execute their code.",
    )
    options.add_color(parser)
    options.add_flag(parser, "-q", "--quiet", help="Print only findings: no summary, no progress.")
    options.add_flag(
        parser, "-v", "--verbose", help="Print the output of the traced code on standard error."
    )
    add_settings(parser, "check")


def scheduler_address(text: str) -> str:
    """Return the address of a Dask scheduler.

    Raises:
        argparse.ArgumentTypeError: The text is not an address.
    """
    if re.fullmatch(r"[a-z]+://[^/\s]+:\d+", text):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} must be an address such as tcp://head:8786.")


def run(arguments: Namespace) -> int:
    from fullgraph.cli.check_command import CheckJob

    baseline, output = arguments.baseline, arguments.output
    if baseline is not None and output is not None and baseline.resolve() == output.resolve():
        raise UsageError(
            f"--output: {output} is also the baseline, which would be overwritten with only the "
            "new findings; to write a new baseline, leave out --baseline."
        )
    compiling = "--measure" if arguments.measure else "--numerics" if arguments.numerics else ""
    if arguments.shard is not None and compiling:
        raise UsageError(
            f"--shard: Results of {compiling} cannot be merged; leave out {compiling}."
        )
    if arguments.fix and STANDARD_INPUT in arguments.paths:
        raise UsageError("--fix: fullgraph cannot write to standard input; name a file.")
    if arguments.scheduler and (compiling or arguments.verbose):
        option = compiling or "--verbose"
        raise UsageError(f"--scheduler: {option} works only on this machine; leave it out.")
    settings = given_settings(arguments)
    if compiling:
        settings["engine-keep"] = 0
    job = CheckJob(
        paths=tuple(dict.fromkeys(arguments.paths)),
        stdin_name=arguments.stdin_filename,
        form=arguments.format,
        color=arguments.color,
        quiet=arguments.quiet,
        verbose=arguments.verbose,
        forecast=arguments.forecast,
        measure=arguments.measure,
        numerics=arguments.numerics,
        timings=arguments.timings,
        baseline=baseline,
        update_baseline=arguments.update_baseline,
        fix=arguments.fix,
        output=output,
        changed_since=arguments.changed_since,
        shard=arguments.shard,
        scheduler=arguments.scheduler or "",
    )
    return job.run(settings)
