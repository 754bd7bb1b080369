"""The server of one client: messages in, a session behind, notifications out."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from fullgraph import __version__
from fullgraph.engines import EarlyEngine
from fullgraph.lsp import methods
from fullgraph.lsp.configuration import Configuration
from fullgraph.lsp.progress import Progress
from fullgraph.lsp.protocol import Protocol
from fullgraph.lsp.publication import Publication
from fullgraph.lsp.repros import Repros
from fullgraph.lsp.server_capabilities import STATUS
from fullgraph.lsp.virtual_documents import Reading
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.documents import Document
from fullgraph.session.session import Loudness, Session, SessionStatus
from fullgraph_engine.protocol import Event

logger = logging.getLogger(__name__)

MOST_LOG = 64 * 1024
"""Characters of user output that go to the client's log for one run."""

_PARENT_WATCH = 3.0

_LOUDNESS = {
    Loudness.ERROR: types.MessageType.Error,
    Loudness.WARNING: types.MessageType.Warning,
    Loudness.INFORMATION: types.MessageType.Info,
}


class Server(LanguageServer):
    protocol: Protocol

    def __init__(
        self,
        *,
        boot: Path | None = None,
        answered: frozenset[int | str] = frozenset(),
        early: EarlyEngine | None = None,
    ) -> None:
        super().__init__(
            "fullgraph",
            __version__,
            protocol_cls=Protocol,
            converter_factory=default_converter,
        )
        # At INFO pygls writes the body of every message.
        logging.getLogger("pygls").setLevel(logging.ERROR)
        self.session = Session(self, boot=boot, early=early)
        self.publication = Publication(self)
        self.bars = Progress(self)
        self.reading = Reading(self)
        self.repros = Repros(self)
        self.configuration = Configuration(self)
        self.protocol.answered |= answered
        self.protocol.on_broken = self.stop
        self._stopped = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._logged = 0
        methods.register(self)

    # -- life ---------------------------------------------------------------------------------

    async def run(self, reader: asyncio.StreamReader) -> int:
        """Handle messages until ``exit``, or until the client is gone; the exit status."""
        import threading

        messages = asyncio.create_task(
            run_async(
                stop_event=threading.Event(),
                reader=reader,
                protocol=self.protocol,
                logger=logging.getLogger("pygls"),
                error_handler=self.report_server_error,
            )
        )
        stopped = asyncio.create_task(self._stopped.wait())
        await asyncio.wait({messages, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        messages.cancel()
        await asyncio.gather(messages, stopped, return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        self.reading.close()
        return 0 if self.protocol.is_shut_down else 1

    def stop(self) -> None:
        self._stopped.set()

    def watch_parent(self, pid: int | None) -> None:
        """Stop when the client's process is gone, should it leave its pipes open."""
        # A client elsewhere, in another container, has a number that means nothing here.
        if pid is not None and pid > 0 and _alive(pid):
            self.in_background(self._watch(pid))

    async def _watch(self, pid: int) -> None:
        while _alive(pid):
            await asyncio.sleep(_PARENT_WATCH)
        self.stop()

    def ready(self) -> None:
        """Capabilities are known."""
        self.publication = Publication(self)

    # -- what methods use ---------------------------------------------------------------------

    def unit(self, uri: str) -> Unit | None:
        return self.session.units.get(uri)

    def documents(self) -> dict[str, Document]:
        return {uri: unit.document for uri, unit in self.session.units.items()}

    def plain(self, value: Any) -> Any:
        """A type of the protocol as the JSON that it is sent as."""
        return self.protocol._converter.unstructure(value)

    def say(self, method: str, params: Any) -> None:
        self.protocol.say(method, params)

    def request(self, method: str, params: Any) -> None:
        """Ask the client for something whose answer does not matter."""

        async def ask() -> None:
            try:
                await self.protocol.ask(method, params)
            except JsonRpcException as error:
                logger.info("%s was refused: %s", method, error)

        self.in_background(ask())

    async def show(self, uri: str) -> bool:
        """Have the client open a document; says whether it did."""
        if not self.session.client.show_document or self.protocol.is_shut_down:
            return False
        params = types.ShowDocumentParams(uri, external=False, take_focus=True)
        try:
            result = await self.protocol.ask(types.WINDOW_SHOW_DOCUMENT, params)
        except JsonRpcException:
            return False
        return bool(getattr(result, "success", False))

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("In the background: %s", error, exc_info=error)

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log only: telling the client of an error in telling the client never ends."""
        logger.error("%s: %s", getattr(source, "__name__", source), error, exc_info=error)

    # -- what the session says ----------------------------------------------------------------

    def results_changed(self, unit: Unit, *, final: bool) -> None:
        self.publication.changed(unit, final=final)

    def run_began(self, unit: Unit) -> None:
        self._logged = 0
        if self.session.client.work_done_progress:
            self.bars.began(unit)

    def run_advanced(self, unit: Unit, event: Event) -> None:
        self.bars.advanced(unit, event)

    def run_ended(self, unit: Unit) -> None:
        self.bars.ended(unit)
        self.reading.run_ended(unit)

    def unit_closed(self, unit: Unit) -> None:
        self.publication.closed(unit.document.uri)
        self.reading.unit_closed(unit)

    def status_changed(self, status: SessionStatus) -> None:
        self.say(
            STATUS,
            {
                "state": status.state.value,
                "message": status.message,
                "nextStep": status.next_step,
                "torch": status.torch,
                "python": status.python,
                "interpreter": status.interpreter,
                "why": status.why,
                "busy": status.busy,
            },
        )

    def log(self, text: str) -> None:
        if self._logged > MOST_LOG:
            return
        self._logged += len(text)
        if self._logged > MOST_LOG:
            text = f"{text[:1000]}\n... The rest of the output of this run is not shown."
        self.say(types.WINDOW_LOG_MESSAGE, types.LogMessageParams(types.MessageType.Log, text))

    def tell(self, loudness: Loudness, message: str) -> None:
        self.say(
            types.WINDOW_SHOW_MESSAGE,
            types.ShowMessageParams(_LOUDNESS[loudness], f"fullgraph: {message}"),
        )


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
