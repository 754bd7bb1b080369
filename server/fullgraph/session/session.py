"""All that one editor window has open, and the engines that trace it.

Knows nothing of LSP: whoever speaks to the editor calls in, and hears back through a listener.
"""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from fullgraph.engines import (
    EarlyEngine,
    Engine,
    EngineListener,
    EngineState,
    EngineStatus,
    Interpreter,
    InterpreterNotFound,
    sentences,
    working_folder,
)
from fullgraph.operators.index import OperatorIndex
from fullgraph.session.analysis_unit import Reason, Unit, is_due
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import Change, Document, path_of
from fullgraph.session.indices import Indices
from fullgraph.session.interpreters import Interpreters
from fullgraph.session.recordings import recording_of
from fullgraph.session.request import analyze_request, mentions_torch
from fullgraph.session.scheduling import Turns
from fullgraph.session.settings import (
    Project,
    Resolved,
    Settings,
    editor_source,
    find_project,
    resolve,
    without_section,
)
from fullgraph.session.unseen import unseen, warning
from fullgraph_engine.protocol import Analyze, Event, Failed, Log, RecordedClass

_INSTALLED = frozenset({"site-packages", "dist-packages"})

LONGEST_READ = 300_000
"""Characters up to which a text is read for what its names mean: on the loop, after each edit."""

ACTIVE_INTERPRETER = "activeInterpreter"
"""Beside its settings, an editor may say which Python its user has active in a folder."""

_LOCAL = frozenset({"file", "untitled", "buffer"})
"""Kinds of URIs of files, and of texts that are nowhere else yet: ``buffer`` is Sublime Text's."""


class State(enum.Enum):
    """What a status bar shows."""

    STOPPED = "stopped"
    UNTRUSTED = "untrusted"
    STARTING = "starting"
    READY = "ready"
    TRACING = "tracing"
    UNUSABLE = "unusable"
    CRASHED = "crashed"


@dataclass(frozen=True)
class SessionStatus:
    """What a status bar shows; ``message`` and ``next_step`` are sentences.

    ``busy``: something is being traced. Versions are empty until the engine reports them.
    """

    state: State
    message: str
    next_step: str = ""
    torch: str = ""
    python: str = ""
    interpreter: str = ""
    why: str = ""
    """Why it is this interpreter, and which were passed over."""
    busy: bool = False


class MessageLevel(enum.Enum):
    """The severity of a message to the user, as ``MessageType`` of LSP."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"


class Listener(Protocol):
    """Whoever speaks to the editor."""

    def results_changed(self, unit: Unit, *, final: bool) -> None: ...

    def run_began(self, unit: Unit) -> None: ...

    def run_advanced(self, unit: Unit, event: Event) -> None: ...

    def run_ended(self, unit: Unit) -> None: ...

    def unit_closed(self, unit: Unit) -> None: ...

    def status_changed(self, status: SessionStatus) -> None: ...

    def log(self, text: str) -> None: ...

    def show_message(self, level: MessageLevel, message: str) -> None:
        """Something that the user should read now, once."""


@dataclass(frozen=True)
class _Folder:
    """A workspace folder and what the editor says is set in it."""

    uri: str
    path: Path | None


class Session:
    """The folders, settings and open files of one editor window, and the engines in use."""

    def __init__(
        self, listener: Listener, *, boot: Path | None = None, early: EarlyEngine | None = None
    ) -> None:
        self.client = ClientCapabilities()
        self.units: dict[str, Unit] = {}
        self._listener = listener
        self._boot = boot
        self._early = early
        """Until some text needs an engine: it is this one, or not of the right interpreter."""
        self._folders: dict[str, _Folder] = {}
        self._options: Mapping[str, Any] = {}
        self._configuration: dict[str, Any] = {}
        self._configured = asyncio.Event()
        self._trusted = True
        self._engines: dict[Path, Engine] = {}
        self._statuses: dict[Path, EngineStatus] = {}
        self._whys: dict[Path, str] = {}
        self._interpreters = Interpreters()
        self._indices = Indices(listener.log)
        self._turns = Turns(lambda: any(unit.busy for unit in self.units.values()))
        self._starts: set[asyncio.Task[None]] = set()
        self._resolved: dict[str, tuple[Project, Resolved]] = {}
        self._manifests: dict[Path, float] = {}
        self._last: SessionStatus | None = None
        self._shown: set[str] = set()
        self._closed = False

    # -- the editor's window ------------------------------------------------------------------

    def initialize(
        self, client: ClientCapabilities, options: object, folders: Iterable[str]
    ) -> None:
        """What the editor says of itself. Nothing is traced before ``configure``."""
        self.client = client
        if isinstance(options, Mapping):
            self._options = without_section(options)
            self._trusted = self._options.get("trusted") is not False
        for uri in folders:
            self._folders[uri] = _Folder(uri, path_of(uri))

    def change_folders(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Nothing is traced before ``configure`` says what is set in the new folders."""
        self._configured.clear()
        for uri in removed:
            self._folders.pop(uri, None)
        for uri in added:
            self._folders[uri] = _Folder(uri, path_of(uri))

    @property
    def folders(self) -> tuple[str, ...]:
        return tuple(self._folders)

    def configure(self, by_scope: Mapping[str, object]) -> None:
        """The editor's settings: by folder, and under the empty name those of no folder."""
        self._configuration = {scope: without_section(raw) for scope, raw in by_scope.items()}
        trusts = [
            raw["trusted"]
            for raw in (self._options, *self._configuration.values())
            if isinstance(raw.get("trusted"), bool)
        ]
        if trusts:
            self._trusted = trusts[-1]
        waited = not self._configured.is_set()
        self._configured.set()
        self._reconsider()
        if waited:
            for unit in self.units.values():
                unit.open()

    async def configured(self) -> None:
        """Wait for the editor's settings, without which nothing may be executed."""
        await self._configured.wait()

    def trust(self, trusted: bool) -> None:
        """The user granted or withdrew trust in the code of this window."""
        self._options = {**self._options, "trusted": trusted}
        self._trusted = trusted
        if trusted:
            self._reconsider(again=True)
        else:
            for unit in self.units.values():
                unit.cancel()
            self._check_trust()

    def manifest_changed(self) -> None:
        """A pyproject.toml was written."""
        self._reconsider()

    def recording_changed(self) -> None:
        """A recording was written: trace what it says something else of than before."""
        for unit in self.units.values():
            unit.reconsider()

    def _check_trust(self) -> None:
        if not self._trusted:
            self._report(
                SessionStatus(
                    State.UNTRUSTED,
                    "This workspace is not trusted, so none of its code is executed.",
                    "Trust the workspace to trace its code.",
                )
            )

    def _reconsider(self, *, again: bool = False) -> None:
        """Settings may have changed: show findings anew, and trace again what depends on them."""
        before = {uri: self._resolve(unit) for uri, unit in self.units.items()}
        self._forget_settings()
        if not self._configured.is_set():
            return
        self._check_trust()
        used = set()
        for uri, unit in self.units.items():
            now, (project, old) = self.settings(unit), before[uri]
            if interpreter := self._interpreter(unit):
                used.add(interpreter)
            moved = project.root != self.project(unit)
            if again or moved or _traced_differently(old.settings, now):
                unit.refresh()
            elif old.settings != now:
                unit.want_forecast()
                self._listener.results_changed(unit, final=True)
            self._prepare(unit)
        self._close_engines([path for path in self._engines if path not in used])

    def _close_engines(self, interpreters: Iterable[Path]) -> None:
        """Those that no text needs any more."""
        for path in interpreters:
            engine = self._engines.pop(path)
            self._statuses.pop(path, None)
            self._indices.forget(path)
            self._in_background(engine.close())

    # -- texts --------------------------------------------------------------------------------

    def open(self, uri: str, text: str, version: int, language: str) -> None:
        """A text appeared. Only Python is ours; notebook cells and our documents are not files."""
        if language.lower() != "python" or uri.startswith(("vscode-notebook-cell:", "fullgraph:")):
            return
        if (old := self.units.pop(uri, None)) is not None:
            old.close()
        unit = Unit(Document(uri, text, version, language, self.client.encoding), self)
        self.units[uri] = unit
        if self._configured.is_set():
            unit.open()
            self._prepare(unit)

    def change(self, uri: str, changes: Sequence[Change], version: int) -> None:
        if (unit := self.units.get(uri)) is not None:
            unit.change(changes, version)

    def save(self, uri: str) -> None:
        unit = self.units.get(uri)
        if unit is not None:
            unit.save()
        path = path_of(uri)
        if path is None:
            return
        module = path.parent.name if path.stem == "__init__" else path.stem
        imported = re.compile(rf"^[ \t]*(?:from|import)\b[^\n#]*\b{re.escape(module)}\b", re.M)
        for other in self.units.values():
            if other is not unit and imported.search(other.document.text):
                other.refresh()

    def close_text(self, uri: str) -> None:
        self._resolved.pop(uri, None)
        unit = self.units.pop(uri, None)
        if unit is not None:
            unit.close()
            self._listener.unit_closed(unit)

    def documents(self) -> dict[str, Document]:
        """The open texts by URI."""
        return {uri: unit.document for uri, unit in self.units.items()}

    # -- what a unit needs --------------------------------------------------------------------

    def settings(self, unit: Unit) -> Settings:
        return self._resolve(unit)[1].settings

    def project(self, unit: Unit) -> Path:
        return self._resolve(unit)[0].root

    def permits(self, unit: Unit, reason: Reason) -> str:
        if self._closed or not self._configured.is_set():
            return "The server is starting; try again in a moment."
        if not self._trusted:
            return "This workspace is not trusted, so none of its code is executed."
        self._reread_manifest(unit)
        if reason is Reason.ASKED:
            return ""
        trace_on = self.settings(unit).trace_on
        if not is_due(reason, trace_on):
            # It was not known yet when the text was edited.
            return f"The setting `trace-on` is {trace_on!r}."
        path = unit.document.path
        if path is not None and not _INSTALLED.isdisjoint(path.parts):
            return "Installed packages are traced only on command."
        if urlsplit(unit.document.uri).scheme not in _LOCAL:
            return "What is no file of this machine is traced only on command."
        if path is not None and self._excluded(unit, path):
            return "The setting `exclude` leaves this file to be traced only on command."
        return ""

    def refused(self, unit: Unit, why: str) -> None:
        if self._trusted and self._configured.is_set() and not self._closed:
            self._show_once(MessageLevel.INFORMATION, f"{unit.document.name}: {why}", quiet=True)

    def engine(self, unit: Unit) -> Engine | str:
        try:
            interpreter = self._find_interpreter(unit)
        except InterpreterNotFound as error:
            self._report(SessionStatus(State.UNUSABLE, str(error)))
            self._show_once(MessageLevel.WARNING, str(error))
            return str(error)
        processes = self.settings(unit).engine_processes
        engine = self._engines.get(interpreter.path)
        if engine is None:
            return self._begun(interpreter, processes)
        engine.processes = processes
        return engine

    def _begun(self, interpreter: Interpreter, processes: str) -> Engine:
        path = interpreter.path
        self._whys[path] = interpreter.why
        self._listener.log(f"Tracing with {path}: {interpreter.why}.")
        hearing = EngineListener(
            lambda status: self._engine_said(path, status),
            self._logged,
            lambda event: self._in_background(self._indices.read(path, event)),
        )
        early, self._early = self._early, None
        fits = early is not None and early.engine.processes == processes
        if early is not None and fits and early.engine.interpreter == path:
            self._engines[path] = early.engine
            early.hear(hearing)
            return early.engine
        if early is not None:
            self._in_background(early.engine.close())
        engine = self._engines[path] = hearing.engine(path, self._boot, processes)
        self._in_background(engine.start())
        return engine

    def index(self, unit: Unit) -> OperatorIndex | None:
        """The operators of the unit's torch, and those that its file registered.

        None before they are known, and for a text in which it takes too long to find out what a
        name means.
        """
        self._prepare(unit)
        if len(unit.document.text) > LONGEST_READ:
            self._show_once(
                MessageLevel.INFORMATION,
                f"{unit.document.name}: names of torch are explained and completed only in files "
                f"of up to {LONGEST_READ:,} characters.",
                quiet=True,
            )
            return None
        path = self._interpreter(unit)
        index = self._indices.of(path) if path is not None else None
        if index is None:
            return None
        return unit.extended.of(index, unit.results.operators)

    def _prepare(self, unit: Unit) -> None:
        """Start the engine for a text that uses torch, whether there is anything to trace or not.

        The engine executes nothing of the text, but its interpreter may be the workspace's.
        """
        if self._closed or not self._trusted or not self._configured.is_set():
            return
        if mentions_torch(unit.document.text):
            self.engine(unit)

    def recorded(self, unit: Unit) -> tuple[RecordedClass, ...]:
        recording = recording_of(unit.document.name, self.project(unit))
        if recording.problem:
            self._show_once(MessageLevel.WARNING, recording.problem)
        return recording.classes

    def request(self, unit: Unit, only: tuple[str, ...]) -> Analyze:
        document = unit.document
        return analyze_request(
            name=document.name,
            text=document.text,
            generation=document.generation,
            settings=self.settings(unit),
            project=self.project(unit),
            focus=document.focus,
            only=only,
        )

    def run_began(self, unit: Unit) -> None:
        self._listener.run_began(unit)
        self._refresh_status(unit)

    def run_advanced(self, unit: Unit, event: Event) -> None:
        if isinstance(event, Log):
            self._logged(event)
        self._listener.run_advanced(unit, event)

    def forecast_due(self, unit: Unit, when: float) -> None:
        self._turns.want(unit, when)

    def forecast_withdrawn(self, unit: Unit) -> None:
        self._turns.withdraw(unit)

    def forecast_ended(self, unit: Unit, failure: Failed | None) -> None:
        self._turns.ended(unit)
        if failure is not None:
            reason = sentences(failure.reason, failure.next_step)
            self._listener.log(f"{unit.document.name} has no forecast: {reason}")

    def run_ended(self, unit: Unit, failure: Failed | None) -> None:
        self._listener.run_ended(unit)
        self._refresh_status(unit)
        self._turns.next()
        if failure is None:
            return
        path = self._interpreter(unit)
        status = self._statuses.get(path) if path is not None else None
        if status is not None and status.state is EngineState.READY and not unit.unparsed:
            # Otherwise the engine's own state has been told, or a finding says it at its place.
            words = sentences(failure.reason, failure.next_step)
            self._listener.log(words)
            self._show_once(MessageLevel.ERROR, words)

    def results_changed(self, unit: Unit, *, final: bool) -> None:
        if self.units.get(unit.document.uri) is unit:
            self._listener.results_changed(unit, final=final)

    # -- settings -----------------------------------------------------------------------------

    def _resolve(self, unit: Unit) -> tuple[Project, Resolved]:
        uri = unit.document.uri
        known = self._resolved.get(uri)
        if known is None:
            folder = self._folder_of(unit.document.path)
            project = _project(unit.document.path, folder.path if folder else None)
            configured = self._configured_in(folder)
            sources = (self._options, configured)
            known = (
                project,
                resolve(project.source, *(editor_source(_ours(raw)) for raw in sources)),
            )
            self._resolved[uri] = known
            manifest = project.root / "pyproject.toml"
            self._manifests[manifest] = _modified(manifest)
            for problem in (*project.problems, *known[1].problems):
                self._show_once(MessageLevel.WARNING, problem)
        return known

    def _configured_in(self, folder: _Folder | None) -> Mapping[str, Any]:
        """What the editor says is set in a folder."""
        nowhere: Mapping[str, Any] = self._configuration.get("", {})
        return self._configuration.get(folder.uri, nowhere) if folder else nowhere

    def _reread_manifest(self, unit: Unit) -> None:
        """Not every editor watches files for us, so look before each run."""
        manifest = self.project(unit) / "pyproject.toml"
        if self._manifests.get(manifest) != _modified(manifest):
            self._forget_settings()

    def _forget_settings(self) -> None:
        self._resolved.clear()
        self._manifests.clear()

    def _folder_of(self, path: Path | None) -> _Folder | None:
        """The innermost workspace folder around a path; for a text without one, the first."""
        if path is None:
            return next(iter(self._folders.values()), None)
        around = [
            folder
            for folder in self._folders.values()
            if folder.path is not None and path.is_relative_to(folder.path)
        ]
        return max(around, key=lambda folder: len(str(folder.path)), default=None)

    def _excluded(self, unit: Unit, path: Path) -> bool:
        patterns = self.settings(unit).exclude
        root = self.project(unit)
        if not patterns or not path.is_relative_to(root):
            return False
        from pathspec import GitIgnoreSpec

        return GitIgnoreSpec.from_lines(patterns).match_file(str(path.relative_to(root)))

    # -- engines ------------------------------------------------------------------------------

    def _interpreter(self, unit: Unit) -> Path | None:
        try:
            return self._find_interpreter(unit).path
        except InterpreterNotFound:
            return None

    def _find_interpreter(self, unit: Unit) -> Interpreter:
        """The Python that traces a text.

        Raises:
            InterpreterNotFound: there is none, or none is known yet and nothing is trusted.
        """
        root = self.project(unit)
        folder = self._folder_of(unit.document.path)
        if not (root / ".venv").is_dir() and folder is not None and folder.path is not None:
            root = folder.path
        active = self._configured_in(folder).get(ACTIVE_INTERPRETER)
        return self._interpreters.find(
            self.settings(unit).interpreter,
            root,
            active if isinstance(active, str) else "",
            trusted=self._trusted,
        )

    def _engine_said(self, path: Path, status: EngineStatus) -> None:
        before = self._statuses.get(path)
        self._statuses[path] = status
        if self._closed or path not in self._engines:
            return
        self._report(self._of_engine(status))
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
            hidden = warning(status, unseen(status, Settings()))
            if hidden:
                self._show_once(MessageLevel.WARNING, hidden)
        if before is None or before.state is not status.state:
            self._listener.log(f"{path}: {sentence}")

    def _of_engine(self, status: EngineStatus) -> SessionStatus:
        busy = any(unit.busy for unit in self.units.values())
        state = State(status.state.value)
        message = status.message
        if state is State.READY and busy:
            state, message = State.TRACING, f"Tracing with torch {status.torch}."
        return SessionStatus(
            state,
            message,
            status.next_step,
            status.torch,
            status.python,
            status.interpreter,
            self.why(status.interpreter),
            busy,
        )

    def _refresh_status(self, unit: Unit) -> None:
        path = self._interpreter(unit)
        if path is not None and path in self._statuses and self._trusted:
            self._report(self._of_engine(self._statuses[path]))

    def _report(self, status: SessionStatus) -> None:
        if status != self._last:
            self._last = status
            self._listener.status_changed(status)

    @property
    def status(self) -> SessionStatus:
        return self._last or SessionStatus(State.STOPPED, "The engine is not running.")

    def why(self, interpreter: str) -> str:
        """How an interpreter that traces was found, and which were passed over."""
        return self._whys.get(Path(interpreter), "")

    def engine_statuses(self) -> tuple[EngineStatus, ...]:
        return tuple(engine.status for engine in self._engines.values())

    async def restart_engines(self) -> None:
        """Look for torch again, start every engine afresh and trace again what is open."""
        self._shown.clear()
        self._interpreters.forget()
        used = {path for unit in self.units.values() if (path := self._interpreter(unit))}
        if used:
            self._close_engines([path for path in self._engines if path not in used])
        await asyncio.gather(*(engine.restart() for engine in self._engines.values()))
        for unit in self.units.values():
            unit.refresh()

    async def close(self) -> None:
        """End all that runs."""
        self._closed = True
        for unit in self.units.values():
            unit.close()
        for task in list(self._starts):
            task.cancel()
        await asyncio.gather(
            *(engine.close() for engine in self._all_engines()), return_exceptions=True
        )

    def kill(self) -> None:
        """End the engines at once, where there is no loop any more to wait on."""
        for engine in self._all_engines():
            engine.kill()

    def _all_engines(self) -> tuple[Engine, ...]:
        early = (self._early.engine,) if self._early is not None else ()
        return (*self._engines.values(), *early)

    def _in_background(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._starts.add(task)
        task.add_done_callback(self._starts.discard)

    # -- words --------------------------------------------------------------------------------

    def _logged(self, log: Log) -> None:
        self._listener.log(log.text.rstrip("\n"))

    def _show_once(self, level: MessageLevel, message: str, *, quiet: bool = False) -> None:
        if message in self._shown:
            return
        self._shown.add(message)
        if quiet:
            self._listener.log(message)
        else:
            self._listener.show_message(level, message)


def _ours(raw: Mapping[str, Any]) -> dict[str, Any]:
    """Without what is not a setting: whether to execute code is for the client to know."""
    theirs = ("trusted", "commands", ACTIVE_INTERPRETER)
    return {key: value for key, value in raw.items() if key not in theirs}


def _project(path: Path | None, folder: Path | None) -> Project:
    """The project of a file; the workspace folder where nothing on disk marks one."""
    start = path if path is not None else folder
    if start is None:
        return find_project(working_folder())
    project = find_project(start)
    marked = any((project.root / name).exists() for name in ("pyproject.toml", ".git"))
    if marked or folder is None:
        return project
    return dataclasses.replace(project, root=folder)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _traced_differently(before: Settings, now: Settings) -> bool:
    return (before.tracing(), before.exclude) != (now.tracing(), now.exclude)
