"""Show documents about traced functions in a way that the client supports: by a URI scheme, as a
file, or as text.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote, unquote, urlsplit

from lsprotocol import types

from fullgraph.lsp.connection import ClientConnection
from fullgraph.lsp.document_service import DocumentService, short_name
from fullgraph.lsp.progress import ClientProgress
from fullgraph.render.documents import EXTENSIONS
from fullgraph.render.measured import measured_document
from fullgraph.render.timings import timings_document
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.session import Session
from fullgraph_engine.protocol.documents import DOCUMENT_KINDS, DocumentKind

if TYPE_CHECKING:
    from fullgraph.fixes.measuring import Timed

SCHEME = "fullgraph"

VirtualKind = DocumentKind | Literal["timings", "measured"]
"""Kind of a document. Documents of the kinds "timings" and "measured" are about a whole file. Their
addresses have its name instead of a function's name, and they do not need the engine."""
_KINDS: tuple[VirtualKind, ...] = (*DOCUMENT_KINDS, "timings", "measured")


@dataclass(frozen=True)
class DocumentAddress:
    """The URI of a document, such as ``fullgraph:/graph/Net/Net.graph.py?file%3A///model.py``.

    An editor uses the last part of the path as title and to detect the language. A document about
    the trace with one set of inputs is ``fullgraph:/graph/Net/1/Net.probe2.graph.py?…``.
    """

    kind: VirtualKind
    target: str
    uri: str
    probe: int | None = None

    @property
    def name(self) -> str:
        which = "" if self.probe is None else f".probe{self.probe + 1}"
        if self.kind == "timings" or self.kind == "measured":
            extension = f"{self.kind}.txt"
        else:
            extension = EXTENSIONS[self.kind]
        return f"{_plain_name(self.target)}{which}.{extension}"

    def __str__(self) -> str:
        which = () if self.probe is None else (str(self.probe),)
        parts = (self.kind, self.target, *which, self.name)
        path = "/".join(quote(part, safe="") for part in parts)
        return f"{SCHEME}:/{path}?{quote(self.uri, safe='/')}"

    @classmethod
    def parse(cls, text: str) -> DocumentAddress | None:
        """Parse a URI, however the client escaped it; None if it is not the address of a
        document."""
        parts = urlsplit(text)
        path = parts.path.split("/")
        probe = path[3] if len(path) == 5 else ""
        if parts.scheme != SCHEME or len(path) not in (4, 5) or (probe and not probe.isdecimal()):
            return None
        kind, target = unquote(path[1]), unquote(path[2])
        for known in _KINDS:
            if known == kind and target:
                which = int(probe) if probe else None
                return cls(known, target, unquote(parts.query), which)
        return None


class VirtualDocuments:
    """Opens documents in one client, and refreshes them when their content changes."""

    def __init__(
        self, connection: ClientConnection, session: Session, progress: ClientProgress
    ) -> None:
        self._connection = connection
        self._session = session
        self._folder: Path | None = None
        self._open: dict[str, DocumentAddress] = {}
        """URIs of documents that the client has requested, so that it can be notified of
        changes."""
        self._measurements: dict[str, tuple[str, Sequence[Timed]]] = {}
        """Measurements by the URI of the measured file, with the text that was measured."""
        self._service = DocumentService(
            session, lambda key, cancel: progress.start_document(key.target, key.kind, cancel)
        )

    async def read_content(self, uri: str) -> str:
        """Return the text of the document with this URI; problems are described in the text."""
        address = DocumentAddress.parse(uri)
        if address is None:
            return f"{uri} is not an address of a document of fullgraph.\n"
        unit = self._session.files.units.get(address.uri)
        if unit is None:
            return "Open the file that this document is about; then open the document again.\n"
        self._open[uri] = address
        return await self._document_text(unit, address)

    async def show_target(
        self, unit: AnalysisUnit, kind: DocumentKind, target: str, probe: int | None = None
    ) -> dict[str, Any]:
        """Open a document about the traced function ``target``; the answer contains the text if the
        client cannot open it.

        ``probe`` is the number of the inputs whose trace the document describes; None for all.
        """
        address = DocumentAddress(kind, target, unit.document.uri, probe)
        return await self._show_address(unit, address, focus=True)

    async def show_timings(self, unit: AnalysisUnit) -> dict[str, Any]:
        """Open a document that shows where the last trace of a file spent its time, without moving
        the focus to it."""
        address = DocumentAddress("timings", short_name(unit), unit.document.uri)
        return await self._show_address(unit, address, focus=False)

    async def show_measured(
        self, unit: AnalysisUnit, text: str, timed: Sequence[Timed]
    ) -> dict[str, Any]:
        """Open a document with measurements of a file's functions; ``text`` is the source text that
        was measured."""
        self._measurements[unit.document.uri] = text, timed
        address = DocumentAddress("measured", short_name(unit), unit.document.uri)
        self._refresh_open([str(address)])
        return await self._show_address(unit, address, focus=False)

    def find_measurements(self, unit: AnalysisUnit, target: str = "") -> Sequence[Timed]:
        """Return the measurements of a function, or of all functions if ``target`` is empty, for
        the current text of a file. They are empty if the text has changed since."""
        text, timed = self._measurements.get(unit.document.uri, ("", ()))
        if text != unit.document.text:
            return ()
        return [one for one in timed if target in ("", one.target)]

    async def _document_text(self, unit: AnalysisUnit, address: DocumentAddress) -> str:
        document = unit.document
        if address.kind == "measured":
            text, timed = self._measurements.get(document.uri, ("", ()))
            return measured_document(document.name, timed, text, current=text == document.text)
        if address.kind == "timings":
            last = unit.traces.timings
            current = last.text == document.text
            return timings_document(document.name, last.timings, current=current)
        return await self._service.read_text(unit, address.kind, address.target, address.probe)

    async def _show_address(
        self, unit: AnalysisUnit, address: DocumentAddress, *, focus: bool
    ) -> dict[str, Any]:
        client = self._session.client
        if client.text_document_content:
            shown = await self._connection.show_document(str(address), client, focus=focus)
            return {"uri": str(address), "shown": shown}
        text = await self._document_text(unit, address)
        if client.show_document:
            uri = self._write_file(address, text).as_uri()
            if await self._connection.show_document(uri, client, focus=False):
                return {"uri": uri, "shown": True}
        return {"uri": str(address), "shown": False, "text": text}

    def run_ended(self, unit: AnalysisUnit) -> None:
        """Refresh the open documents about a file because a trace of the file has ended."""
        uri = unit.document.uri
        self._service.discard_finished(uri)
        self._refresh_open([shown for shown, address in self._open.items() if address.uri == uri])

    def _refresh_open(self, uris: Sequence[str]) -> None:
        """Ask the client to reload open documents: it requests the text of each URI again."""
        if not self._session.client.text_document_content:
            return
        for uri in uris:
            if uri in self._open:
                self._connection.request_in_background(
                    types.WORKSPACE_TEXT_DOCUMENT_CONTENT_REFRESH,
                    types.TextDocumentContentRefreshParams(uri),
                )

    def unit_closed(self, unit: AnalysisUnit) -> None:
        uri = unit.document.uri
        self._service.discard_file(uri)
        self._measurements.pop(uri, None)
        self._open = {shown: a for shown, a in self._open.items() if a.uri != uri}

    def close(self) -> None:
        """Delete the files with documents that were written; editors that show a file keep its
        text."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    def _write_file(self, address: DocumentAddress, text: str) -> Path:
        """Write a document to a read-only file in a temporary folder; return the file's path."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="fullgraph-"))
        # Each source file gets a folder, because functions of several files may have the same name.
        folder = self._folder / _plain_name(address.uri.rsplit("/", 1)[-1])
        folder.mkdir(exist_ok=True)
        path = folder / address.name
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400)
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
        return path


def _plain_name(name: str) -> str:
    """Convert a name to a valid file name on every file system."""
    return re.sub(r"[^\w.-]+", "_", unquote(name)).strip("_.")[:80] or "target"
