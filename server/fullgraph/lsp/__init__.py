"""The language server: a session, spoken to in LSP."""

from __future__ import annotations

from pathlib import Path


def serve(*, tcp: tuple[str, int] | None = None, boot: Path | None = None, engine: str = "") -> int:
    """Serve one client over standard streams, or over a socket; returns the exit status.

    ``boot`` starts something else than the engine that belongs to this server, for tests.
    ``engine`` is an interpreter whose engine is started at once, over standard streams.

    Raises:
        OSError: the address cannot be listened on.
    """
    # Imported here, and in this order: the first answer must not wait for the protocol library.
    from fullgraph.lsp.transport import StandardStreams, serve_socket, serve_streams

    if tcp is not None:
        return serve_socket(*tcp, boot=boot)
    return serve_streams(StandardStreams.take(), boot=boot, engine=engine)


__all__ = ["serve"]
