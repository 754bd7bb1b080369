"""The command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130


def with_program(arguments: Sequence[str]) -> list[str]:
    """Return the arguments of ``check`` with a program's own arguments as options of ``check``.
    ``-- train.py --steps 2`` names a file and two arguments of its program."""
    at = list(arguments).index("--")
    program = list(arguments[at + 1 :])
    options = [f"--program-arguments={one}" for one in program[1:]]
    return [*arguments[:at], *program[:1], *options]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the ``fullgraph`` script; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if given[:1] == ["server"]:
            # Editors start this one and wait for its first answer: it must not pay for the
            # libraries that only the commands for people use.
            from fullgraph.cli.server import main as server

            return server(given[1:])
        if given[:1] == ["check"] and "--" in given:
            given = with_program(given)
        if given[:1] == ["check"]:
            # Loading the command line's library would take longer than most checks of one file.
            from fullgraph.cli.check_arguments import check

            status = check(given[1:])
            if status is not None:
                return status
        from fullgraph.cli.app import main as app

        return app(given)
    except KeyboardInterrupt:
        return INTERRUPTED
