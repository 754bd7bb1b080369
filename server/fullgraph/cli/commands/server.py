"""Start the language server; editors do this."""

from __future__ import annotations

import argparse
import shlex
import sys
from argparse import Namespace

from fullgraph.cli.exit_status import UNABLE
from fullgraph.cli.options import Parser, UsageError


def configure(parser: Parser) -> None:
    streams = parser.options.add_mutually_exclusive_group()
    # Some client libraries always append --stdio.
    streams.add_argument(
        "--stdio", action="store_true", help="Use standard input and output (default)."
    )
    streams.add_argument(
        "--tcp",
        metavar="HOST:PORT",
        type=_parse_address,
        help="Listen on a socket for one client; port 0 selects a free port.",
    )
    # This option is not in the group of transports, because a client may append --stdio to it.
    parser.options.add_argument(
        "--with",
        dest="other",
        metavar="COMMAND",
        default="",
        help="Also start another language server, for clients with one server per language, and "
        'merge its answers: --with "pyright-langserver --stdio".',
    )
    parser.options.add_argument(
        "--engine",
        metavar="PYTHON",
        default="",
        help="Import torch with this interpreter immediately, before a file needs it. Only for "
        "trusted workspaces.",
    )


def run(arguments: Namespace) -> int:
    from fullgraph.lsp import serve

    try:
        other = tuple(shlex.split(arguments.other))
    except ValueError as error:
        raise UsageError(f"--with: {error}.") from None
    if other and arguments.tcp is not None:
        raise UsageError("--with: Only possible on standard input and output, without --tcp.")
    if other:
        return _serve_with(other, arguments.engine)
    try:
        return serve(tcp=arguments.tcp, engine=arguments.engine)
    except OSError as error:
        if arguments.tcp is None:
            raise
        host, port = arguments.tcp
        print(
            f"fullgraph: Cannot listen on {host}:{port}: {error.strerror or error}; "
            "choose another address.",
            file=sys.stderr,
        )
        return UNABLE


def _serve_with(other: tuple[str, ...], engine: str) -> int:
    """Serve one client together with another language server, whose command is ``other``."""
    from fullgraph.lsp import serve
    from fullgraph.lsp.joined import CannotStart

    try:
        return serve(engine=engine, other=other)
    except CannotStart as error:
        print(f"fullgraph: {error}", file=sys.stderr)
        return UNABLE


def _parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:2087")
    return host.strip("[]") or "127.0.0.1", int(port)
