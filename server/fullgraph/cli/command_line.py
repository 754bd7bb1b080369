"""The commands of ``fullgraph``: parse a command line and run the command that it names."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Sequence
from typing import Protocol, cast

from fullgraph import __version__
from fullgraph.cli.exit_status import BROKEN_PIPE, UNABLE, Interrupted
from fullgraph.cli.options import Parser, UsageError

COMMANDS = (
    *(
        "check",
        "merge",
        "diff",
        "fix",
        "repro",
        "show",
        "explain",
        "op",
        "record",
        "doctor",
        "engine",
    ),
    "trust",
    "server",
    "mcp",
)

_HELP = (
    "See what torch.compile will do with your code: graph breaks, recompilations, operators that "
    "it does not support, each at its line."
)


class CommandModule(Protocol):
    """Interface of a module of :mod:`fullgraph.cli.commands`, which implements one command."""

    __doc__: str

    def configure(self, parser: Parser) -> None:
        """Add the arguments and options of the command to its parser."""

    def run(self, arguments: argparse.Namespace) -> int:
        """Run the command and return its exit status.

        Raises:
            UsageError: The arguments do not fit together.
            Interrupted: A signal cancelled the command.
        """


def run_command(words: Sequence[str]) -> int:
    """Run the command in ``words``, the arguments of ``fullgraph``, and return its exit status."""
    if not words or words[0] not in COMMANDS:
        return _run_without_command(words)
    name, *arguments = words
    if name == "check":
        from fullgraph.cli.interruption import delay_signals  # not part of the VS Code extension

        # A signal during the imports still leads to a report.
        with delay_signals():
            return _run_named_command(name, arguments)
    return _run_named_command(name, arguments)


def _run_named_command(name: str, arguments: Sequence[str]) -> int:
    if name == "check" and "--" in arguments:
        arguments = convert_program_arguments(arguments)
    module = load_command(name)
    parser = command_parser(name, module)
    parsed = parser.parse(arguments)
    try:
        return module.run(parsed)
    except UsageError as error:
        parser.error(str(error))
    except Interrupted as end:
        return end.status
    except BrokenPipeError:
        # Redirect the output, because Python would report the broken pipe again at exit.
        with contextlib.suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def load_command(name: str) -> CommandModule:
    """Import and return the module that implements the command ``name``."""
    return cast("CommandModule", importlib.import_module(f"fullgraph.cli.commands.{name}"))


def command_parser(name: str, module: CommandModule) -> Parser:
    """Return the parser for the arguments of the command ``name``, as its module configures it."""
    parser = Parser(name, module.__doc__)
    module.configure(parser)
    return parser


def convert_program_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert the program and its arguments after ``--`` to a path and options of ``check``.

    For example, ``-- train.py --steps 2`` becomes ``train.py --program-arguments=--steps
    --program-arguments=2``.
    """
    separator = list(arguments).index("--")
    program = list(arguments[separator + 1 :])
    options = [f"--program-arguments={argument}" for argument in program[1:]]
    return [*arguments[:separator], *program[:1], *options]


def _run_without_command(words: Sequence[str]) -> int:
    """Print the version, the list of commands, or an error about an unknown command."""
    parser = Parser("", _HELP)
    parser.options.add_argument(
        "-V",
        "--version",
        action="version",
        version=f"fullgraph {__version__}",
        help="Show the version and exit.",
    )
    commands = parser.add_subparsers(
        title="commands", metavar="COMMAND", parser_class=argparse.ArgumentParser
    )
    for name in COMMANDS:
        summary = load_command(name).__doc__.partition("\n\n")[0]
        commands.add_parser(name, help=" ".join(summary.split()))
    parser.parse(words)
    parser.print_help()
    return UNABLE
