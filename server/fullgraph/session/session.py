"""The open files and engines of one editor window.

This module is independent of LSP: the protocol layer calls its methods and listens for events.
"""

from __future__ import annotations

import asyncio
import enum
import re
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

from fullgraph.domain.sandbox import level_line
from fullgraph.engines import (
    AnyEngine,
    EarlyEngine,
    EngineState,
    EngineStatus,
    InterpreterNotFound,
    sentences,
)
from fullgraph.kept import EngineStore, KeptResults, ResultStore, engine_basis
from fullgraph.operators.index import OperatorIndex
from fullgraph.session.analysis_unit import AnalysisUnit, RunEnding, TraceInputs
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import Document, TextChange, path_of
from fullgraph.session.engine_pool import EngineKey, EnginePool
from fullgraph.session.programs import WorkspacePrograms, with_programs
from fullgraph.session.recordings import recording_of
from fullgraph.session.request import analyze_request, mentions_torch
from fullgraph.session.scheduling import Turns
from fullgraph.session.settings import Settings
from fullgraph.session.unit_events import (
    ForecastDue,
    ForecastEnded,
    ForecastWithdrawn,
    Reason,
    ResultsChanged,
    ResultsSettled,
    RunAdvanced,
    RunAsked,
    RunBegan,
    RunEnded,
    TraceDue,
    UnitEvent,
    is_due,
)
from fullgraph.session.unseen import hidden_facts, hidden_warning
from fullgraph.session.workspace import Workspace
from fullgraph_engine.protocol import Analyze, Event, Failed, Log, OpenFile

_INSTALLED = frozenset({"site-packages", "dist-packages"})

LONGEST_READ = 300_000
"""Maximum length in characters of a file whose names are resolved on the event loop after each
edit.
"""

_LOCAL = frozenset({"file", "untitled", "buffer"})
"""URI schemes of documents to trace: files and unsaved documents. Sublime Text uses ``buffer``."""


class SessionState(enum.Enum):
    """The state of fullgraph for one file, as shown in a status bar."""

    STOPPED = "stopped"
    UNTRUSTED = "untrusted"
    STARTING = "starting"
    READY = "ready"
    TRACING = "tracing"
    UNUSABLE = "unusable"
    CRASHED = "crashed"


@dataclass(frozen=True)
class SessionStatus:
    """The status shown in a status bar; ``message`` and ``next_step`` are sentences.

    ``busy``: a file is being traced. Versions are empty until the engine reports them.
    """

    state: SessionState
    message: str
    next_step: str = ""
    torch: str = ""
    python: str = ""
    interpreter: str = ""
    why: str = ""
    """Reason for the choice of the interpreter, with the interpreters that were tried before it."""
    sandbox: str = ""
    """Short description of the sandbox; empty until the engine reports it."""
    busy: bool = False


class MessageLevel(enum.Enum):
    """Severity of a message to the user, with the values of ``MessageType`` in LSP."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


class SessionListener(Protocol):
    """The receiver of a session's events, which forwards them to the editor."""

    def results_changed(self, unit: AnalysisUnit, *, final: bool) -> None: ...

    def run_began(self, unit: AnalysisUnit, *, asked: bool) -> None: ...

    def run_asked(self, unit: AnalysisUnit) -> None: ...

    def run_advanced(self, unit: AnalysisUnit, event: Event) -> None: ...

    def run_ended(self, unit: AnalysisUnit) -> None: ...

    def unit_closed(self, unit: AnalysisUnit) -> None: ...

    def status_changed(self, status: SessionStatus) -> None: ...

    def log(self, text: str) -> None: ...

    def show_message(self, level: MessageLevel, message: str) -> None:
        """Show a message to the user immediately."""


class Session:
    """The workspace, open files and engines of one editor window."""

    def __init__(
        self,
        listener: SessionListener,
        *,
        boot: Path | None = None,
        early: EarlyEngine | None = None,
    ) -> None:
        self.client = ClientCapabilities()
        self.units: dict[str, AnalysisUnit] = {}
        self._listener = listener
        self._configured = asyncio.Event()
        self._workspace = Workspace(lambda why: self._show_once(MessageLevel.WARNING, why))
        self._engines = EnginePool(
            self._engine_changed, self._engine_recovered, listener.log, boot=boot, early=early
        )
        self._store = ResultStore()
        self._turns = Turns(self.is_busy, self._begin_forecast)
        self._last: SessionStatus | None = None
        self._programs = WorkspacePrograms()
        self._shown: set[str] = set()
        self._closed = False

    # -- events of the editor window ----------------------------------------------------------

    def initialize(
        self, client: ClientCapabilities, options: object, folders: Iterable[str]
    ) -> None:
        """Store the capabilities, options and folders of the ``initialize`` request; nothing is
        traced before ``configure`` is called.
        """
        self.client = client
        self._workspace.initialize(options, folders, user_settings=client.user_settings)

    def change_folders(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Change the workspace folders; nothing is traced before ``configure`` is called again."""
        self._configured.clear()
        self._workspace.change_folders(added, removed)

    @property
    def folders(self) -> tuple[str, ...]:
        return self._workspace.folders

    def configure(self, by_scope: Mapping[str, object]) -> None:
        """Apply the editor's settings, by folder; the empty name is for files outside of all
        folders."""
        self._workspace.configure(by_scope)
        waited = not self._configured.is_set()
        self._configured.set()
        self._apply_settings()
        if waited:
            for unit in self._updated_units():
                self._open_unit(unit)

    async def wait_until_configured(self) -> None:
        """Wait until the editor has sent its settings; no code may be executed before."""
        await self._configured.wait()

    def trust(self, trusted: bool) -> None:
        """Grant or withdraw the permission to execute code of the workspace."""
        try:
            self._workspace.trust(trusted)
        except OSError as error:
            why = error.strerror or str(error)
            self._listener.log(f"Trust holds until the server ends; it cannot be kept: {why}.")
        if trusted:
            self._apply_settings(again=True)
        else:
            for unit in self.units.values():
                unit.cancel()
            self._check_trust()

    def handle_focus(self) -> None:
        """Start failed engines again if possible, because the user returned to the window and may
        have fixed the cause.
        """
        failed = (EngineState.UNUSABLE, EngineState.CRASHED)
        for unit in self._updated_units():
            key = self._engine_key(unit)
            status = self._engines.find_status(key) if key is not None else None
            if status is None or status.state in failed:
                unit.reconsider()

    def manifest_changed(self) -> None:
        """Reload the settings after a change of a pyproject.toml."""
        self._apply_settings()

    def recording_changed(self) -> None:
        """Trace the files again whose recording by ``fullgraph record`` has changed."""
        for unit in self._updated_units():
            unit.reconsider()

    def files_changed(self, uris: Iterable[str]) -> None:
        """Trace the open files again whose runs read, or looked for, one of the files that changed
        on disk.

        Open files on the list are ignored, because the editor reports their edits.
        """
        paths = {str(path) for uri in uris if uri not in self.units and (path := path_of(uri))}
        self._reconsider_readers(paths)

    def _check_trust(self) -> None:
        if not self._workspace.trusted:
            self._report_status(
                SessionStatus(
                    SessionState.UNTRUSTED,
                    "This workspace is not trusted, so none of its code is executed.",
                    "Trust the workspace in the editor, or run `fullgraph trust` in its folder.",
                )
            )

    def _apply_settings(self, *, again: bool = False) -> None:
        """Reload the settings, update the findings, and trace files again if a changed setting
        affects their traces.
        """
        before = {unit: (self.project(unit), self.settings(unit)) for unit in self.units.values()}
        self._workspace.forget_settings()
        if not self._configured.is_set():
            return
        self._check_trust()
        for unit in self._updated_units():
            (root, old), now = before[unit], unit.inputs.settings
            if again or root != self.project(unit) or _traced_differently(old, now):
                unit.refresh()
            elif old != now:
                unit.want_forecast()
                self._listener.results_changed(unit, final=True)
                if old.trace_on != now.trace_on:
                    unit.reconsider()
            self._prepare_engine(unit)
        self._engines.keep_only(self._engine_keys())

    # -- open files ---------------------------------------------------------------------------

    def open(self, uri: str, text: str, version: int, language: str) -> None:
        """Handle the opening of a document in the editor; all but Python files are ignored, and so
        are notebook cells and fullgraph's own documents.
        """
        # A client may open a file again without having closed it.
        self.close_text(uri)
        if language.lower() != "python" or uri.startswith(("vscode-notebook-cell:", "fullgraph:")):
            return
        document = Document(uri, text, version, language, self.client.encoding)
        unit = self.units[uri] = AnalysisUnit(
            document, self._trace_inputs(document), self._unit_reported
        )
        if self._configured.is_set():
            self._open_unit(unit)

    def _open_unit(self, unit: AnalysisUnit) -> None:
        kept = self._stored_results(unit)
        found = kept.find(self.build_request(unit, ())) if kept is not None else None
        if found is not None:
            unit.show_kept(found)
        unit.open()
        self._prepare_engine(unit)

    def _stored_results(self, unit: AnalysisUnit) -> EngineStore | None:
        """Return the results on disk for the engine of an open file; None if they may not be
        shown.
        """
        settings, key = self.settings(unit), self._engine_key(unit)
        if not settings.cache or key is None or self.explain_refusal(unit, Reason.OPENED):
            return None
        basis = engine_basis(key.interpreter, key.allowed, settings.engine_processes)
        return EngineStore(self._store, basis)

    def _store_results(self, unit: AnalysisUnit, results: KeptResults) -> None:
        kept = self._stored_results(unit)
        if kept is not None:
            # Write in a thread, so that requests such as hovers do not wait for the disk.
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, kept.keep, self.build_request(unit, ()), results)

    def change(self, uri: str, changes: Sequence[TextChange], version: int) -> None:
        if (unit := self.units.get(uri)) is not None:
            self._update_inputs(unit).change(changes, version)

    def save(self, uri: str) -> None:
        unit = self.units.get(uri)
        if unit is not None:
            self._update_inputs(unit).save()
        path = path_of(uri)
        if path is None:
            return
        module = path.parent.name if path.stem == "__init__" else path.stem
        imported = re.compile(rf"^[ \t]*(?:from|import)\b[^\n#]*\b{re.escape(module)}\b", re.M)
        for other in self._updated_units():
            if other is unit or not imported.search(other.document.text):
                continue
            if unit is not None and other.reads is not None:
                other.reconsider()
            else:
                other.refresh()

    def analyze(self, unit: AnalysisUnit, only: tuple[str, ...] = ()) -> asyncio.Future[RunEnding]:
        """Trace a file now, even if its results are known; ``only`` are names of targets to trace,
        empty for all.

        The returned future resolves when the run ends.
        """
        return self._update_inputs(unit).analyze(only)

    def close_text(self, uri: str) -> None:
        self._workspace.forget_settings(uri)
        unit = self.units.pop(uri, None)
        if unit is not None:
            unit.close()
            self._listener.unit_closed(unit)
            self._reconsider_importers(unit)

    def documents(self) -> dict[str, Document]:
        """Return the open documents by URI."""
        return {uri: unit.document for uri, unit in self.units.items()}

    def _trace_inputs(self, document: Document) -> TraceInputs:
        recording = recording_of(document.name, self._workspace.project(document))
        if recording.problem:
            self._show_once(MessageLevel.WARNING, recording.problem)
        settings = self._workspace.settings(document)
        folder = str(self._workspace.project(document))
        return TraceInputs(settings, recording.classes, self._open_files(document), folder)

    def _open_files(self, document: Document) -> tuple[OpenFile, ...]:
        """Return the other open files whose text differs from the file on disk."""
        others = (unit for unit in self.units.values() if unit.document.uri != document.uri)
        return tuple(file for unit in others if (file := unit.unsaved) is not None)

    def _reconsider_importers(self, unit: AnalysisUnit) -> None:
        """Trace the open files again that import the file of ``unit``."""
        self._reconsider_readers({unit.document.name})

    def _reconsider_readers(self, paths: Set[str]) -> None:
        for unit in self.units.values():
            if unit.depends_on(paths - {unit.document.name}):
                self._update_inputs(unit).reconsider()

    def _update_inputs(self, unit: AnalysisUnit) -> AnalysisUnit:
        """Update the settings, recorded classes and other open files of one open file, and return
        it.
        """
        unit.inputs = self._trace_inputs(unit.document)
        return unit

    def _updated_units(self) -> list[AnalysisUnit]:
        """Return all open files with updated settings and recorded classes."""
        return [self._update_inputs(unit) for unit in self.units.values()]

    # -- events of the units ------------------------------------------------------------------

    def _unit_reported(self, unit: AnalysisUnit, event: UnitEvent) -> None:
        match event:
            case TraceDue():
                self._trace_unit(unit, event)
            case ResultsChanged(final):
                if self.units.get(unit.document.uri) is unit:
                    self._listener.results_changed(unit, final=final)
            case ResultsSettled(kept):
                self._store_results(unit, kept)
            case RunBegan(asked):
                self._listener.run_began(unit, asked=asked)
                self._refresh_status(unit)
            case RunAsked():
                self._listener.run_asked(unit)
            case RunAdvanced(advance):
                if isinstance(advance, Log):
                    self._engines.log_output(advance)
                self._listener.run_advanced(unit, advance)
            case RunEnded(failure):
                self._run_ended(unit, failure)
            case ForecastDue(when):
                self._turns.request_turn(unit, when)
            case ForecastWithdrawn():
                self._turns.withdraw(unit)
            case ForecastEnded(failure):
                self._forecast_ended(unit, failure)

    def _trace_unit(self, unit: AnalysisUnit, due: TraceDue) -> None:
        refusal = self.explain_refusal(unit, due.reason)
        if refusal:
            if self._may_execute:
                words = f"{unit.document.name}: {refusal}"
                self._show_once(MessageLevel.INFORMATION, words, quiet=True)
            # Without a trace, results stored by an earlier session cannot be confirmed, so discard
            # them.
            unit.leave_untraced(refusal, forget=due.reason is Reason.OPENED)
            return
        if self._update_inputs(unit).settle_without_engine(due):
            self._reconsider_importers(unit)
            return
        engine = self.get_engine(unit)
        if isinstance(engine, str):
            unit.leave_untraced(engine, forget=True)
        else:
            unit.begin_trace(due, engine, self.build_request(unit, due.only))

    def _begin_forecast(self, unit: AnalysisUnit) -> bool:
        targets = unit.forecasts_due
        if not targets or self.explain_refusal(unit, Reason.ASKED):
            return False
        engine = self.get_engine(unit)
        if isinstance(engine, str):
            return False
        self._update_inputs(unit).trace_forecast(engine, self.build_request(unit, targets))
        return True

    def _forecast_ended(self, unit: AnalysisUnit, failure: Failed | None) -> None:
        self._turns.turn_ended(unit)
        if failure is not None:
            reason = sentences(failure.reason, failure.next_step)
            self._listener.log(f"{unit.document.name} has no forecast: {reason}")

    def _run_ended(self, unit: AnalysisUnit, failure: Failed | None) -> None:
        self._listener.run_ended(unit)
        self._refresh_status(unit)
        self._reconsider_importers(unit)
        self._update_inputs(unit).compare_imports()
        self._turns.begin_next()
        if failure is None:
            return
        key = self._engine_key(unit)
        status = self._engines.find_status(key) if key is not None else None
        if status is not None and status.state is EngineState.READY and not unit.unparsed:
            # In all other cases the engine's status or a finding reports the failure.
            words = sentences(failure.reason, failure.next_step)
            self._listener.log(words)
            self._show_once(MessageLevel.ERROR, words)

    # -- queries of other parts ---------------------------------------------------------------

    def settings(self, unit: AnalysisUnit) -> Settings:
        return self._workspace.settings(unit.document)

    def project(self, unit: AnalysisUnit) -> Path:
        return self._workspace.project(unit.document)

    @property
    def _may_execute(self) -> bool:
        return self._workspace.trusted and self._configured.is_set() and not self._closed

    def explain_refusal(self, unit: AnalysisUnit, reason: Reason) -> str:
        """Return a sentence why a file may not be traced now for this reason; empty if it may."""
        if self._closed or not self._configured.is_set():
            return "The server is starting; try again in a moment."
        if not self._workspace.trusted:
            return "This workspace is not trusted, so none of its code is executed."
        if not self._workspace.is_current(unit.document):
            self._workspace.forget_settings()
            self._updated_units()
        if reason is Reason.ASKED:
            return ""
        trace_on = self.settings(unit).trace_on
        if not is_due(reason, trace_on):
            # The setting may have arrived after the text was edited.
            return f"The setting `trace-on` is {trace_on!r}."
        path = unit.document.path
        if path is not None and not _INSTALLED.isdisjoint(path.parts):
            return "Installed packages are traced only on command."
        if urlsplit(unit.document.uri).scheme not in _LOCAL:
            return "What is no file of this machine is traced only on command."
        if self._workspace.is_excluded(unit.document):
            return "The setting `exclude` leaves this file to be traced only on command."
        return ""

    def get_engine(self, unit: AnalysisUnit) -> AnyEngine | str:
        """Return the engine of the interpreter that traces a file, or a sentence why it is
        unavailable.
        """
        try:
            interpreter = self._workspace.choose_interpreter(unit.document)
        except InterpreterNotFound as error:
            self._report_status(SessionStatus(SessionState.UNUSABLE, str(error)))
            self._show_once(MessageLevel.WARNING, str(error))
            return str(error)
        settings = self.settings(unit)
        allowed = self._workspace.resolve_allowed(unit.document)
        return self._engines.get_engine(
            interpreter, settings.engine_processes, allowed, settings.engine_keep_seconds
        )

    def engine_on_demand(self, unit: AnalysisUnit) -> AnyEngine | str:
        """Return the engine for a request that the user made by command, or a sentence why it is
        unavailable.
        """
        return self.explain_refusal(unit, Reason.ASKED) or self.get_engine(unit)

    def build_request(self, unit: AnalysisUnit, only: tuple[str, ...]) -> Analyze:
        """Return a request to trace the targets ``only`` (empty for all) in the current text of a
        file.
        """
        document = unit.document
        settings, project = self.settings(unit), self.project(unit)
        request = analyze_request(
            name=document.name,
            text=document.text,
            generation=document.generation,
            settings=settings,
            project=project,
            focus=document.focus,
            only=only,
            open_files=self._imported_open_files(unit),
        )
        shown = (one.document.name for one in self.units.values())
        return with_programs(request, self._programs, project, settings.program_files, shown)

    def _imported_open_files(self, unit: AnalysisUnit) -> tuple[OpenFile, ...]:
        """Return the other open files with unsaved changes that a file may import."""
        files, reads = self._open_files(unit.document), unit.reads
        return tuple(file for file in files if reads is None or file.path in reads)

    def find_index(self, unit: AnalysisUnit) -> OperatorIndex | None:
        """Return the index of the operators in the torch that traces a file, and of the operators
        that the file registers.

        Return None while they are unknown, and for files too long to resolve names in.
        """
        self._prepare_engine(unit)
        if len(unit.document.text) > LONGEST_READ:
            self._show_once(
                MessageLevel.INFORMATION,
                f"{unit.document.name}: names of torch are explained and completed only in files "
                f"of up to {LONGEST_READ:,} characters.",
                quiet=True,
            )
            return None
        key = self._engine_key(unit)
        index = self._engines.find_index(key.interpreter) if key is not None else None
        if index is None:
            return None
        return unit.extended.extend_index(index, unit.results.operators)

    def _prepare_engine(self, unit: AnalysisUnit) -> None:
        """Start the engine for a file that uses torch, even if it has nothing to trace.

        The engine executes no code of the file, but the interpreter may belong to the workspace.
        """
        if self._may_execute and mentions_torch(unit.document.text):
            self.get_engine(unit)

    # -- engines ------------------------------------------------------------------------------

    def _engine_key(self, unit: AnalysisUnit) -> EngineKey | None:
        """Return the key of the engine that traces a file; None if no interpreter was found."""
        try:
            interpreter = self._workspace.choose_interpreter(unit.document).path
        except InterpreterNotFound:
            return None
        return EngineKey(interpreter, self._workspace.resolve_allowed(unit.document))

    def _engine_keys(self) -> set[EngineKey]:
        return {key for unit in self.units.values() if (key := self._engine_key(unit))}

    def _engine_changed(
        self, key: EngineKey, status: EngineStatus, before: EngineStatus | None
    ) -> None:
        if self._closed:
            return
        self._report_status(self._session_status(status))
        sentence = sentences(status.message, status.next_step)
        if status.state is EngineState.UNUSABLE:
            self._show_once(MessageLevel.WARNING, sentence)
        elif status.state is EngineState.STARTING and status.next_step:
            self._show_once(MessageLevel.INFORMATION, sentence)
        elif status.state is EngineState.CRASHED and not status.quiet:
            level = MessageLevel.ERROR if status.final else MessageLevel.WARNING
            self._listener.show_message(level, sentence)
        elif status.state is EngineState.READY:
            for one in status.degraded:
                self._show_once(MessageLevel.INFORMATION, f"{one.words}.", quiet=True)
            hidden = hidden_warning(status, hidden_facts(status, Settings()))
            if hidden:
                self._show_once(MessageLevel.WARNING, hidden)
        if before is None or before.state is not status.state:
            self._listener.log(f"{key.interpreter}: {sentence}")

    def _engine_recovered(self, key: EngineKey) -> None:
        """Trace the files again that could not be traced while the engine with this key was
        unavailable.
        """
        for unit in self._updated_units():
            if self._engine_key(unit) == key:
                unit.reconsider()

    def is_busy(self) -> bool:
        """Return whether a file is being traced."""
        return any(unit.busy for unit in self.units.values())

    def _session_status(self, status: EngineStatus) -> SessionStatus:
        busy = self.is_busy()
        state = SessionState(status.state.value)
        message = status.message
        if state is SessionState.READY and busy:
            state, message = SessionState.TRACING, f"Tracing with torch {status.torch}."
        return SessionStatus(
            state,
            message,
            status.next_step,
            status.torch,
            status.python,
            status.interpreter,
            self.explain_interpreter(status.interpreter),
            level_line(status.sandbox),
            busy,
        )

    def _refresh_status(self, unit: AnalysisUnit) -> None:
        key = self._engine_key(unit)
        status = self._engines.find_status(key) if key is not None else None
        if status is not None and self._workspace.trusted:
            self._report_status(self._session_status(status))

    def _report_status(self, status: SessionStatus) -> None:
        if status != self._last:
            self._last = status
            self._listener.status_changed(status)

    @property
    def status(self) -> SessionStatus:
        return self._last or SessionStatus(SessionState.STOPPED, "The engine is not running.")

    def explain_interpreter(self, interpreter: str) -> str:
        """Return how the interpreter was found, and which other interpreters were tried before
        it.
        """
        return self._engines.explain_choice(interpreter)

    def engine_statuses(self) -> tuple[EngineStatus, ...]:
        return self._engines.all_statuses()

    async def restart_engines(self) -> None:
        """Search for torch again, restart every engine and trace the open files again."""
        self._shown.clear()
        self._workspace.interpreters.forget_all()
        if used := self._engine_keys():
            self._engines.keep_only(used)
        await self._engines.restart_all()
        for unit in self._updated_units():
            unit.refresh()

    async def close(self) -> None:
        """Close all open files and engines."""
        for unit in self.units.values():
            unit.close()
        self._closed = True
        await self._engines.close_all()

    def kill(self) -> None:
        """Kill the engines immediately, without an event loop."""
        self._engines.kill_all()

    # -- messages -----------------------------------------------------------------------------

    def _show_once(self, level: MessageLevel, message: str, *, quiet: bool = False) -> None:
        if message in self._shown:
            return
        self._shown.add(message)
        if quiet:
            self._listener.log(message)
        else:
            self._listener.show_message(level, message)


def _traced_differently(before: Settings, now: Settings) -> bool:
    return (before.tracing_key(), before.exclude) != (now.tracing_key(), now.exclude)
