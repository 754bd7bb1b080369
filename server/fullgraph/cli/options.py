"""The parser of command lines, and options that several commands share."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn, TypeVar, get_args

from fullgraph.cli.exit_status import UNABLE
from fullgraph.cli.terminal import Color

_Word = TypeVar("_Word", bound=str)


_IN_USAGE: dict[object, str] = {
    None: "{}",
    argparse.ZERO_OR_MORE: "[{}...]",
    argparse.ONE_OR_MORE: "{}...",
    argparse.OPTIONAL: "[{}]",
    argparse.REMAINDER: "-- {}...",
    argparse.PARSER: "{}",
}
"""Format of an argument in the usage line of the help, by its number of values (``nargs``)."""


class UsageError(Exception):
    """Raised if the arguments of a command are wrong; the message says why."""


class _HelpFormatter(argparse.HelpFormatter):
    """A formatter that keeps paragraphs, and shows the value of an option only once: ``-o, --output
    FILE``."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=32)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = text.strip().split("\n\n")
        return "\n\n".join(
            super(_HelpFormatter, self)._fill_text(p, width, indent) for p in paragraphs
        )

    def _format_action_invocation(self, action: argparse.Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        value = self._format_args(action, action.dest.upper())
        return f"{', '.join(action.option_strings)} {value}"


class Parser(argparse.ArgumentParser):
    """The parser of one command, or of ``fullgraph`` without a command.

    Options and other arguments may be in any order, except before an argument that takes the whole
    rest of the line.
    """

    def __init__(self, name: str, help: str) -> None:
        super().__init__(
            f"fullgraph {name}".rstrip(),
            description=help,
            formatter_class=_HelpFormatter,
            allow_abbrev=False,
            add_help=False,
        )
        self.arguments = self.add_argument_group("arguments")
        self.options = self.add_argument_group("options")

    def parse(self, words: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments; exit if they are wrong or ask for help."""
        self.options.add_argument("-h", "--help", action="help", help="Show this message and exit.")
        arguments = [action for action in self._actions if not action.option_strings]
        shown = (_IN_USAGE[one.nargs].format(one.metavar) for one in arguments)
        self.usage = " ".join((self.prog, "[OPTIONS]", *shown))
        ordered = any(one.nargs in (argparse.REMAINDER, argparse.PARSER) for one in arguments)
        parse = self.parse_known_args if ordered else self.parse_known_intermixed_args
        options, unknown = parse(words)
        if unknown:
            given = unknown[0].partition("=")[0]
            close = difflib.get_close_matches(given, self._option_string_actions, n=1)
            hint = f"; did you mean {close[0]}?" if close else "."
            self.error(f"There is no option or argument {given}{hint}")
        return options

    def error(self, message: str) -> NoReturn:
        message = message.removeprefix("argument ")
        self.exit(UNABLE, f"error: {message}\nSee `{self.prog} --help`.\n")


def one_of(words: Sequence[_Word]) -> Callable[[str], _Word]:
    """Return a function that converts an argument: it returns the text if it is one of ``words``,
    and else raises an error.
    """

    def parse_word(text: str) -> _Word:
        for word in words:
            if text == word:
                return word
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(words)}.")

    return parse_word


def add_choice(parser: Parser, name: str, words: Sequence[str], help: str) -> None:
    """Add to a parser an option whose value is one of ``words``; the first of them is the
    default.
    """
    parser.options.add_argument(
        name,
        type=one_of(words),
        default=words[0],
        metavar="|".join(words),
        help=f"{help} Default: {words[0]}.",
    )


def add_flag(parser: Parser, *names: str, help: str) -> None:
    """Add to a parser an option without a value; ``names`` are its spellings, and ``help`` its text
    in the help.
    """
    parser.options.add_argument(*names, action="store_true", help=help)


def add_color(parser: Parser) -> None:
    """Add to a parser the option ``--color``, which selects when output is colored."""
    add_choice(parser, "--color", get_args(Color), "When to color the output.")


def add_forecast(parser: Parser) -> None:
    """Add to a parser the option ``--forecast``, which also predicts recompilations.

    Its value is None if the command line has neither ``--forecast`` nor ``--no-forecast``.
    """
    parser.options.add_argument(
        "--forecast",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="Predict recompilations: call the code again with other sizes and values. Takes three "
        "to four times as long.",
    )


def add_output(parser: Parser) -> None:
    """Add to a parser the option ``--output``, the file to write the findings to."""
    parser.options.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        type=Path,
        help="Write the findings to a file instead of standard output.",
    )


def add_paths(parser: Parser, help: str = "Files and folders.", *, required: bool = True) -> None:
    """Add to a parser the argument ``PATHS``: files and folders, at least one if ``required``."""
    parser.arguments.add_argument(
        "paths", nargs="+" if required else "*", metavar="PATHS", help=help
    )
