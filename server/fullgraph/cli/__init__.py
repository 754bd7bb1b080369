"""The command line of fullgraph."""

from __future__ import annotations

import sys
from collections.abc import Sequence

INTERRUPTED = 130
"""Exit status after Ctrl-C, as shells report it."""


def convert_program_arguments(arguments: Sequence[str]) -> list[str]:
    """Convert the program and its arguments after ``--`` to a path and options of ``check``.

    For example, ``check -- train.py --steps 2`` becomes ``check train.py
    --program-arguments=--steps --program-arguments=2``.
    """
    separator = list(arguments).index("--")
    program = list(arguments[separator + 1 :])
    options = [f"--program-arguments={argument}" for argument in program[1:]]
    return [*arguments[:separator], *program[:1], *options]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the ``fullgraph`` script and return its exit status; ``arguments`` default to
    ``sys.argv``."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["server"]:
            # Editors wait for the first response of the server, so it must not import the libraries
            # that only other commands need.
            from fullgraph.cli.server import main as server

            return server(words[1:])
        if words[:1] == ["check"] and "--" in words:
            words = convert_program_arguments(words)
        if words[:1] == ["check"]:
            # Importing the command line library takes longer than most checks of one file.
            from fullgraph.cli.check_arguments import run_check

            status = run_check(words[1:])
            if status is not None:
                return status
        from fullgraph.cli.app import main as app

        return app(words)
    except KeyboardInterrupt:
        return INTERRUPTED
