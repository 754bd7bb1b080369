"""Merge the reports of all shards of a check into the report of the whole check.

Each report was written by `fullgraph check --format json --shard NUMBER/COUNT`. The result is the
report that one check of all files writes, apart from measured times.

Exit status: the status of the check of all files; 2 also if a shard is missing or does not fit.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import get_args

from fullgraph.cli import options
from fullgraph.cli.options import Parser
from fullgraph.cli.terminal import Format


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "reports", nargs="+", metavar="REPORTS", type=Path, help="JSON reports of all shards."
    )
    options.add_choice(parser, "--format", get_args(Format), "Format of the merged report.")
    options.add_output(parser)
    options.add_color(parser)
    options.add_flag(parser, "-q", "--quiet", help="Print only findings: no summary.")


def run(arguments: Namespace) -> int:
    import sys

    from fullgraph.cli.check_command import exit_status, open_output
    from fullgraph.cli.exit_status import UNABLE
    from fullgraph.cli.report import CheckPrinter
    from fullgraph.cli.shards import merge_reports
    from fullgraph.cli.sources import UnreadableFile
    from fullgraph.cli.terminal import write

    try:
        # Read all reports first: the output may replace one of them.
        checked = merge_reports(tuple(dict.fromkeys(arguments.reports)))
        with open_output(arguments.output, arguments.format) as out:
            report = CheckPrinter(out, arguments.format, arguments.color, quiet=arguments.quiet)
            for file in checked.files:
                report.on_file_done(file)
            report.finish(checked)
    except UnreadableFile as error:
        write(sys.stderr, f"error: {error}\n")
        return UNABLE
    return exit_status(checked)
