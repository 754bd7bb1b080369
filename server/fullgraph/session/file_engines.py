"""The engines that trace the open files, and the status of the session."""

from __future__ import annotations

from pathlib import Path

from fullgraph.domain.phrases import amount
from fullgraph.domain.sandbox import level_line
from fullgraph.engines import (
    AnyEngine,
    EarlyEngine,
    EngineState,
    EngineStatus,
    InterpreterNotFound,
    sentences,
)
from fullgraph.operators.index import OperatorIndex
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.engine_pool import EngineKey, EnginePool
from fullgraph.session.listener import (
    MessageLevel,
    Messages,
    SessionListener,
    SessionState,
    SessionStatus,
)
from fullgraph.session.open_files import OpenFiles
from fullgraph.session.permission import UNTRUSTED, TracePermission
from fullgraph.session.request import mentions_torch
from fullgraph.session.settings import Settings
from fullgraph.session.unit_events import Reason
from fullgraph.session.unseen import hidden_facts, hidden_warning
from fullgraph.session.workspace import Workspace
from fullgraph.store.disk import ResultFile

LONGEST_READ = 300_000
"""Maximum number of characters of a file in which names are resolved after each edit; longer files
would block the event loop.
"""


class FileEngines:
    """The engines of a session: chooses the engine that traces each file, and reports the engines'
    status to the user.
    """

    def __init__(
        self,
        workspace: Workspace,
        files: OpenFiles,
        permission: TracePermission,
        messages: Messages,
        listener: SessionListener,
        *,
        boot: Path | None,
        early: EarlyEngine | None,
    ) -> None:
        self._workspace = workspace
        self._files = files
        self._permission = permission
        self._messages = messages
        self._listener = listener
        self.pool = EnginePool(
            self._engine_changed, self._engine_recovered, listener.log, boot=boot, early=early
        )
        self._status = SessionStatus(SessionState.STOPPED, "The engine is not running.")

    # -- the engine of a file -----------------------------------------------------------------

    def get_engine(self, unit: AnalysisUnit) -> AnyEngine | str:
        """Return the engine that traces a file (a process in the file's interpreter), or a sentence
        why it is unavailable.
        """
        try:
            interpreter = self._workspace.choose_interpreter(unit.document)
        except InterpreterNotFound as error:
            self._report_status(SessionStatus(SessionState.UNUSABLE, str(error)))
            self._messages.show(MessageLevel.WARNING, str(error))
            return str(error)
        settings = self._workspace.settings(unit.document)
        allowed = self._workspace.resolve_allowed(unit.document)
        return self.pool.get_engine(
            interpreter, settings.engine_processes, allowed, settings.engine_keep_seconds
        )

    def engine_on_demand(self, unit: AnalysisUnit) -> AnyEngine | str:
        """Return the engine for a request that the user made by command, or a sentence why it is
        unavailable.
        """
        return self._permission.explain_refusal(unit, Reason.ASKED) or self.get_engine(unit)

    def prepare_engine(self, unit: AnalysisUnit) -> None:
        """Start the engine for a file that uses torch, even if it has nothing to trace.

        The engine executes no code of the file, but the interpreter may belong to the workspace.
        """
        if self._permission.may_execute and mentions_torch(unit.document.text):
            self.get_engine(unit)

    def find_key(self, unit: AnalysisUnit) -> EngineKey | None:
        """Return the key of the engine that traces a file; None if no interpreter was found."""
        try:
            interpreter = self._workspace.choose_interpreter(unit.document).path
        except InterpreterNotFound:
            return None
        return EngineKey(interpreter, self._workspace.resolve_allowed(unit.document))

    def find_result_file(self, unit: AnalysisUnit) -> ResultFile | None:
        """Return the file on disk for the results of a file's current settings; None if it may not
        be used."""
        settings, key = self._workspace.settings(unit.document), self.find_key(unit)
        if not settings.cache or self._permission.explain_refusal(unit, Reason.OPENED):
            return None
        if key is None:
            return None
        request, processes = self._files.build_request(unit, ()), settings.engine_processes
        return ResultFile.of_request(key.interpreter, key.allowed, processes, request)

    def find_status(self, unit: AnalysisUnit) -> EngineStatus | None:
        """Return the status of the engine that traces a file; None if it was not started."""
        key = self.find_key(unit)
        return self.pool.find_status(key) if key is not None else None

    def find_index(self, unit: AnalysisUnit) -> OperatorIndex | None:
        """Return the index of torch's operators for a file, extended by operators that the file
        registers.

        None until the engine has reported the index, and for files too long to resolve names in.
        """
        self.prepare_engine(unit)
        if len(unit.document.text) > LONGEST_READ:
            self._messages.log(
                f"{unit.document.name}: names of torch are explained and completed only in files "
                f"of up to {LONGEST_READ:,} characters."
            )
            return None
        key = self.find_key(unit)
        index = self.pool.find_index(key.interpreter) if key is not None else None
        if index is None:
            return None
        return unit.extended.extend_index(index, unit.results.operators)

    # -- all engines --------------------------------------------------------------------------

    def _used_keys(self) -> set[EngineKey]:
        return {key for unit in self._files.units.values() if (key := self.find_key(unit))}

    def close_unused(self) -> None:
        """Close the engines that no open file uses."""
        self.pool.keep_only(self._used_keys())

    async def restart_all(self) -> None:
        """Search for torch again, and restart every engine that an open file uses."""
        self._workspace.interpreters.forget_all()
        if used := self._used_keys():
            self.pool.keep_only(used)
        await self.pool.restart_all()

    def retry_failed(self) -> None:
        """Start each failed engine again if its interpreter's packages have changed, or if its
        waiting time has passed.
        """
        failed = (EngineState.UNUSABLE, EngineState.CRASHED)
        for unit in self._files.update_all():
            status = self.find_status(unit)
            if status is None or status.state in failed:
                unit.reconsider()

    def _engine_recovered(self, key: EngineKey) -> None:
        """Trace the files again that could not be traced while the engine with this key was
        unavailable.
        """
        for unit in self._files.update_all():
            if self.find_key(unit) == key:
                unit.reconsider()

    def _engine_changed(
        self, key: EngineKey, status: EngineStatus, before: EngineStatus | None
    ) -> None:
        if self._permission.closed:
            return
        self._report_status(self._session_status(status))
        sentence = sentences(status.message, status.next_step)
        if status.state is EngineState.UNUSABLE:
            self._messages.show(MessageLevel.WARNING, sentence)
        elif status.state is EngineState.STARTING and status.next_step:
            self._messages.show(MessageLevel.INFORMATION, sentence)
        elif status.state is EngineState.CRASHED and not status.quiet:
            level = MessageLevel.ERROR if status.final else MessageLevel.WARNING
            self._listener.show_message(level, sentence)
        elif status.state is EngineState.READY:
            for one in status.degraded:
                self._messages.log(f"{one.words}.")
            hidden = hidden_warning(status, hidden_facts(status, Settings()))
            if hidden:
                self._messages.show(MessageLevel.WARNING, hidden)
        if before is None or before.state is not status.state:
            self._listener.log(f"{key.interpreter}: {sentence}")

    # -- status -------------------------------------------------------------------------------

    @property
    def status(self) -> SessionStatus:
        """The status that was reported last."""
        return self._status

    def refresh_status(self, unit: AnalysisUnit) -> None:
        """Report the status after a trace of a file began or ended."""
        status = self.find_status(unit)
        if status is not None and self._workspace.trusted:
            self._report_status(self._session_status(status))

    def check_trust(self) -> None:
        """Report the status if the workspace is not trusted."""
        if not self._workspace.trusted:
            self._report_status(
                SessionStatus(
                    SessionState.UNTRUSTED,
                    UNTRUSTED,
                    "Trust the workspace in the editor, or run `fullgraph trust` in its folder.",
                )
            )

    def _session_status(self, status: EngineStatus) -> SessionStatus:
        busy = self._files.is_busy()
        state = SessionState(status.state.value)
        message = status.message
        if state is SessionState.READY and busy:
            state, message = SessionState.TRACING, f"Tracing with torch {status.torch}."
        elif state is SessionState.READY and (skipped := self._skipped_words()):
            message = f"{message} {skipped}"
        return SessionStatus(
            state,
            message,
            status.next_step,
            status.torch,
            status.python,
            status.interpreter,
            self.pool.explain_choice(status.interpreter),
            level_line(status.sandbox),
            busy,
        )

    def _skipped_words(self) -> str:
        """Return a sentence about targets that were not traced because their file reached the time
        limit; empty if there are none.
        """
        left_out = {
            unit.document.name.rsplit("/", 1)[-1]: number
            for unit in self._files.units.values()
            if (number := sum(one.report.status == "skipped" for one in unit.view.reports()))
        }
        return " ".join(
            f"{amount(number, 'target')} of {name} {'was' if number == 1 else 'were'} not traced: "
            "the file reached its time limit (`file-timeout`)."
            for name, number in left_out.items()
        )

    def _report_status(self, status: SessionStatus) -> None:
        if status != self._status:
            self._status = status
            self._listener.status_changed(status)
