"""The language server of one client: passes messages of the client to an analysis session, and
shows the events of the session."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

from pygls.exceptions import JsonRpcException, JsonRpcInternalError
from pygls.io_ import run_async
from pygls.lsp.server import LanguageServer
from pygls.protocol import default_converter

from fullgraph import __version__
from fullgraph.engines import EarlyEngine
from fullgraph.lsp import methods
from fullgraph.lsp.connection import ClientConnection
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.framing import MessageReader
from fullgraph.lsp.protocol import ClientErrorFilter, Protocol
from fullgraph.lsp.server_capabilities import STATUS
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.listener import MessageLevel, SessionStatus
from fullgraph.session.session import Session
from fullgraph_engine.protocol import Event

logger = logging.getLogger(__name__)


class Server(LanguageServer):
    """Runs the handlers in ``methods`` for messages of the client, and shows the events of the
    analysis session to the client."""

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
        # pygls logs the body of every message at INFO.
        logging.getLogger("pygls").setLevel(logging.ERROR)
        logging.getLogger("pygls.protocol.json_rpc").addFilter(ClientErrorFilter())
        self.protocol.answered |= answered
        self.session = Session(self, boot=boot, early=early)
        self._connection = ClientConnection(self.protocol)
        self._context = ServerContext.create(self._connection, self.session)
        for method, handler in methods.bind_handlers(self._context):
            self.feature(method)(handler)

    async def run(self, reader: asyncio.StreamReader) -> int:
        """Handle messages until the client sends ``exit`` or disconnects; return the exit status of
        the process."""
        import threading

        messages = asyncio.create_task(
            run_async(
                stop_event=threading.Event(),
                reader=MessageReader(reader),
                protocol=self.protocol,
                logger=logging.getLogger("pygls"),
                error_handler=self.report_server_error,
            )
        )
        stopped = asyncio.create_task(self._connection.wait_until_stopped())
        await asyncio.wait({messages, stopped}, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        messages.cancel()
        await asyncio.gather(messages, stopped, return_exceptions=True)
        self._connection.close()
        self._context.documents.close()
        self._context.fixes.close()
        return 0 if self.protocol.is_shut_down else 1

    async def close(self) -> None:
        """Close all files and engines, after the repro jobs have saved their best scripts."""
        await self.session.close()
        await self._context.repros.jobs.wait_until_saved()

    def report_server_error(self, error: Exception, source: Any) -> None:
        """Log an error without a message to the client: a message about a failed message would
        cause the next failure."""
        if isinstance(error, JsonRpcException) and not isinstance(error, JsonRpcInternalError):
            return  # the client has received the error as the answer to its request
        logger.error("%s: %s", getattr(source, "__name__", source), error, exc_info=error)

    # -- events of the session ----------------------------------------------------------------

    def results_changed(self, unit: AnalysisUnit, *, final: bool) -> None:
        self._context.publication.publish_changes(unit, final=final)
        self._context.fixes.update_findings(unit, final=final)

    def run_began(self, unit: AnalysisUnit, *, asked: bool) -> None:
        self._connection.reset_log()
        self._context.progress.start_run(unit, cancellable=asked)

    def run_asked(self, unit: AnalysisUnit) -> None:
        self._context.progress.make_cancellable(unit)

    def run_advanced(self, unit: AnalysisUnit, event: Event) -> None:
        self._context.progress.advance_run(unit, event)

    def run_ended(self, unit: AnalysisUnit) -> None:
        self._context.progress.end_run(unit)
        self._context.documents.run_ended(unit)
        self._context.fixes.run_ended()

    def unit_closed(self, unit: AnalysisUnit) -> None:
        self._context.publication.clear_file(unit.document.uri)
        self._context.documents.unit_closed(unit)
        self._context.fixes.forget_unit(unit)

    def status_changed(self, status: SessionStatus) -> None:
        self._connection.notify(
            STATUS,
            {
                "state": status.state.value,
                "message": status.message,
                "nextStep": status.next_step,
                "torch": status.torch,
                "python": status.python,
                "interpreter": status.interpreter,
                "why": status.why,
                "sandbox": status.sandbox,
                "busy": status.busy,
            },
        )

    def log(self, text: str) -> None:
        self._connection.log(text)

    def show_message(self, level: MessageLevel, message: str) -> None:
        self._connection.show_message(level, message)
