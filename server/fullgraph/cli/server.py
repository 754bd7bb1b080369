"""``fullgraph server``: run the language server over standard streams or a socket."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str]) -> int:
    """Serve one client until it exits; return the exit status, 2 if the address cannot be used."""
    parser = argparse.ArgumentParser(
        prog="fullgraph server", description="Start the language server. Editors do this."
    )
    streams = parser.add_mutually_exclusive_group()
    # Some client libraries always append --stdio.
    streams.add_argument("--stdio", action="store_true", help="use standard streams (default)")
    streams.add_argument(
        "--tcp",
        metavar="HOST:PORT",
        type=_parse_address,
        help="listen on a socket for one client; port 0 picks a free one",
    )
    parser.add_argument(
        "--engine",
        metavar="PYTHON",
        default="",
        help="import torch with this interpreter at once, whether or not it turns out to be the "
        "one of the file; only for workspaces that are trusted",
    )
    options = parser.parse_args(arguments)

    from fullgraph.lsp import serve

    try:
        return serve(tcp=options.tcp, engine=options.engine)
    except OSError as error:
        if options.tcp is None:
            raise
        host, port = options.tcp
        print(
            f"fullgraph: Cannot listen on {host}:{port}: {error.strerror or error}; "
            "choose another address.",
            file=sys.stderr,
        )
        return 2


def _parse_address(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not HOST:PORT, for example 127.0.0.1:2087")
    return host.strip("[]") or "127.0.0.1", int(port)
