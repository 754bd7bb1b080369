"""The language server: connects an analysis session to an editor by the Language Server
Protocol."""

from __future__ import annotations

from pathlib import Path


def serve(
    *,
    tcp: tuple[str, int] | None = None,
    boot: Path | None = None,
    engine: str = "",
    other: tuple[str, ...] = (),
) -> int:
    """Serve one client over standard streams, or over the TCP address ``tcp``; return the exit
    status.

    ``boot`` is a script that tests start instead of the engine. ``engine`` is an interpreter whose
    engine is started immediately; it only applies to standard streams. ``other`` is the command of
    another language server, which the client gets as well; only over standard streams.

    Raises:
        OSError: The server cannot listen on the address.
        CannotStart: The command of the other server cannot be executed.
    """
    # The imports are delayed so that the answer to ``initialize`` does not wait for the protocol
    # library.
    from fullgraph.lsp.transport import (
        StandardStreams,
        serve_joined,
        serve_socket,
        serve_streams,
    )

    if other:
        return serve_joined(StandardStreams.reserve(), other)
    if tcp is not None:
        return serve_socket(*tcp, boot=boot)
    return serve_streams(StandardStreams.reserve(), boot=boot, engine=engine)


__all__ = ["serve"]
