"""The session of one editor window: its open files are traced as they change.

This module is independent of LSP: the protocol layer calls its methods and listens for events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path

from fullgraph.engines import EarlyEngine, EngineState, sentences
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.documents import Document
from fullgraph.session.file_engines import FileEngines
from fullgraph.session.listener import MessageLevel, Messages, SessionListener
from fullgraph.session.open_files import OpenFiles
from fullgraph.session.permission import TracePermission
from fullgraph.session.request import TraceInputs
from fullgraph.session.runs import RunEnding
from fullgraph.session.scheduling import Turns
from fullgraph.session.unit_events import (
    ForecastDue,
    ForecastEnded,
    ForecastWithdrawn,
    Reason,
    ResultsChanged,
    ResultsToSave,
    RunAdvanced,
    RunAsked,
    RunBegan,
    RunEnded,
    TraceDue,
    UnitEvent,
)
from fullgraph.session.workspace import Workspace
from fullgraph_engine.protocol import Failed, Log


class Session:
    """The session of one editor window: connects its workspace, open files and engines.

    The parts have the methods that concern one of them: ``workspace``, ``files``, ``engines`` and
    ``permission``.
    """

    def __init__(
        self,
        listener: SessionListener,
        *,
        boot: Path | None = None,
        early: EarlyEngine | None = None,
    ) -> None:
        self.client = ClientCapabilities()
        self._listener = listener
        self._messages = Messages(listener)
        self.workspace = Workspace(lambda why: self._messages.show(MessageLevel.WARNING, why))
        self.files = OpenFiles(self.workspace, self._messages, self._unit_reported)
        self.permission = TracePermission(self.workspace, self.files)
        self.engines = FileEngines(
            self.workspace,
            self.files,
            self.permission,
            self._messages,
            listener,
            boot=boot,
            early=early,
        )
        self._turns = Turns(self.files.is_busy, self._begin_forecast)

    # -- events of the editor window ----------------------------------------------------------

    def initialize(
        self, client: ClientCapabilities, options: object, folders: Iterable[str]
    ) -> None:
        """Store the capabilities, options and folders of the ``initialize`` request; nothing is
        traced before ``configure`` is called.
        """
        self.client = client
        self.workspace.initialize(options, folders, user_settings=client.user_settings)

    def change_folders(self, added: Iterable[str], removed: Iterable[str]) -> None:
        """Add and remove workspace folders, given by URI; nothing is traced before ``configure`` is
        called again.
        """
        self.permission.configured.clear()
        self.workspace.change_folders(added, removed)

    def configure(self, by_scope: Mapping[str, object]) -> None:
        """Apply the editor's settings; ``by_scope`` maps a folder, or the empty name for files
        outside of all folders, to its settings.
        """
        self.workspace.configure(by_scope)
        waited = not self.permission.configured.is_set()
        self.permission.configured.set()
        self.apply_settings()
        if waited:
            for unit in self.files.update_all():
                self._open_unit(unit)

    def trust(self, trusted: bool) -> None:
        """Grant or withdraw the permission to execute code of the workspace."""
        try:
            self.workspace.trust(trusted)
        except OSError as error:
            why = error.strerror or str(error)
            self._listener.log(
                f"Cannot save that this workspace is trusted ({why}); it is trusted until the "
                "server ends."
            )
        if trusted:
            self.apply_settings(again=True)
        else:
            for unit in self.files.units.values():
                unit.cancel()
            self.engines.check_trust()

    def apply_settings(self, *, again: bool = False) -> None:
        """Read all settings again, update the shown findings, and trace files whose results a
        changed setting affects.

        With ``again``, trace all files.
        """
        before = {unit: unit.inputs for unit in self.files.update_all()}
        self.workspace.forget_settings()
        if not self.permission.configured.is_set():
            return
        self.engines.check_trust()
        for unit in self.files.update_all():
            old, now = before[unit], unit.inputs
            if again or _traced_differently(old, now):
                unit.refresh()
            elif old.settings != now.settings:
                unit.forecasts.update()
                self._listener.results_changed(unit, final=True)
                if old.settings.trace_on != now.settings.trace_on:
                    unit.reconsider()
            self.engines.prepare_engine(unit)
        self.engines.close_unused()

    async def restart_engines(self) -> None:
        """Search for torch again, restart every engine and trace the open files again."""
        self._messages.forget_all()
        await self.engines.restart_all()
        for unit in self.files.update_all():
            unit.refresh()

    async def close(self) -> None:
        """Close all open files and engines."""
        for unit in self.files.units.values():
            unit.close()
        self.permission.closed = True
        await self.engines.pool.close_all()

    # -- open files ---------------------------------------------------------------------------

    def open(self, uri: str, text: str, version: int, language: str) -> None:
        """Begin to analyze a document that the editor opened.

        Only Python files are analyzed; notebook cells and fullgraph's own documents are ignored.
        """
        # A client may open a file again without having closed it.
        self.close_text(uri)
        if language.lower() != "python" or uri.startswith(("vscode-notebook-cell:", "fullgraph:")):
            return
        unit = self.files.add(Document(uri, text, version, self.client.encoding))
        if self.permission.configured.is_set():
            self._open_unit(unit)

    def _open_unit(self, unit: AnalysisUnit) -> None:
        file = self.engines.find_result_file(unit)
        unit.open(file.read(unit.current_basis().settings) if file is not None else None)
        self.engines.prepare_engine(unit)

    def close_text(self, uri: str) -> None:
        """Handle the closing of a document in the editor."""
        unit = self.files.remove(uri)
        if unit is not None:
            self._listener.unit_closed(unit)
            self.files.reconsider_importers(unit)

    def analyze(self, unit: AnalysisUnit, only: tuple[str, ...] = ()) -> asyncio.Future[RunEnding]:
        """Trace the file ``unit`` now, even if its results are known; the returned future resolves
        when the run ends.

        ``only`` are the names of the targets (functions and module classes) to trace; empty for
        all.
        """
        return self.files.update(unit).analyze(only)

    # -- events of the units ------------------------------------------------------------------

    def _unit_reported(self, unit: AnalysisUnit, event: UnitEvent) -> None:
        match event:
            case TraceDue():
                self._trace_unit(unit, event)
            case ResultsChanged(final):
                if self.files.units.get(unit.document.uri) is unit:
                    self._listener.results_changed(unit, final=final)
            case ResultsToSave(run):
                if (file := self.engines.find_result_file(unit)) is not None:
                    # Write in a thread, so that requests such as hovers do not wait for the disk.
                    asyncio.get_running_loop().run_in_executor(None, file.write, run)
            case RunBegan(asked):
                self._listener.run_began(unit, asked=asked)
                self.engines.refresh_status(unit)
            case RunAsked():
                self._listener.run_asked(unit)
            case RunAdvanced(advance):
                if isinstance(advance, Log):
                    self.engines.pool.log_output(advance)
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
        refusal = self.permission.explain_refusal(unit, due.reason)
        if refusal:
            if self.permission.may_execute:
                self._messages.log(f"{unit.document.name}: {refusal}")
            # Without a trace, results stored by an earlier session cannot be confirmed, so discard
            # them.
            unit.traces.leave_untraced(refusal, forget=due.reason is Reason.OPENED)
            if self.permission.may_execute:
                # The file is not about to be traced any more, and clients show why.
                self._listener.results_changed(unit, final=True)
            return
        if self.files.update(unit).traces.finish_without_engine(due):
            self.files.reconsider_importers(unit)
            return
        engine = self.engines.get_engine(unit)
        if isinstance(engine, str):
            unit.traces.leave_untraced(engine, forget=True)
        else:
            unit.traces.begin(due, engine, self.files.build_request(unit, due.only))

    def _run_ended(self, unit: AnalysisUnit, failure: Failed | None) -> None:
        self._listener.run_ended(unit)
        self.engines.refresh_status(unit)
        self.files.reconsider_importers(unit)
        self.files.update(unit).compare_imports()
        self._turns.begin_next()
        if failure is None:
            return
        status = self.engines.find_status(unit)
        if status is not None and status.state is EngineState.READY and not unit.traces.unparsed:
            # In all other cases the engine's status or a finding reports the failure.
            words = sentences(failure.reason, failure.next_step)
            self._listener.log(words)
            self._messages.show(MessageLevel.ERROR, words)

    def _begin_forecast(self, unit: AnalysisUnit) -> bool:
        targets = unit.forecasts.due
        if not targets or self.permission.explain_refusal(unit, Reason.ASKED):
            return False
        engine = self.engines.get_engine(unit)
        if isinstance(engine, str):
            return False
        self.files.update(unit).forecasts.begin(engine, self.files.build_request(unit, targets))
        return True

    def _forecast_ended(self, unit: AnalysisUnit, failure: Failed | None) -> None:
        self._turns.turn_ended(unit)
        if failure is not None:
            reason = sentences(failure.reason, failure.next_step)
            self._listener.log(f"{unit.document.name} has no forecast of recompilations: {reason}")


def _traced_differently(before: TraceInputs, now: TraceInputs) -> bool:
    old, new = (
        (one.folder, one.settings.tracing_key(), one.settings.exclude) for one in (before, now)
    )
    return old != new
