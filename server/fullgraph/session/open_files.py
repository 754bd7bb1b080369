"""The open Python files of an editor window, and their effects on each other."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence, Set

from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.documents import Document, TextChange, path_of
from fullgraph.session.listener import MessageLevel, Messages
from fullgraph.session.programs import WorkspacePrograms, with_programs
from fullgraph.session.recordings import recording_of
from fullgraph.session.request import TraceInputs, analyze_request
from fullgraph.session.unit_events import UnitEvent
from fullgraph.session.workspace import Workspace
from fullgraph_engine.protocol import Analyze, OpenFile


class OpenFiles:
    """The open Python files, by URI. A file that imports another one is traced with the unsaved
    text of that file, and again after it changes.
    """

    def __init__(
        self,
        workspace: Workspace,
        messages: Messages,
        report: Callable[[AnalysisUnit, UnitEvent], None],
    ) -> None:
        self.units: dict[str, AnalysisUnit] = {}
        self._workspace = workspace
        self._messages = messages
        self._report = report
        self._programs = WorkspacePrograms()

    def add(self, document: Document) -> AnalysisUnit:
        """Add a document that the editor opened; return its ``AnalysisUnit``, which traces it."""
        unit = AnalysisUnit(document, self._trace_inputs(document), self._report)
        self.units[document.uri] = unit
        return unit

    def remove(self, uri: str) -> AnalysisUnit | None:
        """Remove and close a file, and return its unit; None if it is not open."""
        self._workspace.forget_settings(uri)
        unit = self.units.pop(uri, None)
        if unit is not None:
            unit.close()
        return unit

    def change(self, uri: str, changes: Sequence[TextChange], version: int) -> None:
        """Apply the edits that the editor sent for the open file ``uri``; ``version`` is the
        version of the text after them.
        """
        if (unit := self.units.get(uri)) is not None:
            self.update(unit).change(changes, version)

    def save(self, uri: str) -> None:
        """Handle that the user saved a file: trace it if due, and trace the open files that import
        it again.
        """
        unit = self.units.get(uri)
        if unit is not None:
            self.update(unit).save()
        path = path_of(uri)
        if path is None:
            return
        module = path.parent.name if path.stem == "__init__" else path.stem
        imported = re.compile(rf"^[ \t]*(?:from|import)\b[^\n#]*\b{re.escape(module)}\b", re.M)
        for other in self.update_all():
            if other is unit or not imported.search(other.document.text):
                continue
            if unit is not None and other.traces.reads is not None:
                other.reconsider()
            else:
                other.refresh()

    def documents(self) -> dict[str, Document]:
        """Return the open documents by URI."""
        return {uri: unit.document for uri, unit in self.units.items()}

    def is_busy(self) -> bool:
        """Return whether a file is being traced."""
        return any(unit.busy for unit in self.units.values())

    # -- inputs of traces ---------------------------------------------------------------------

    def update(self, unit: AnalysisUnit) -> AnalysisUnit:
        """Update the settings, recorded inputs and other open files that the unit's traces use;
        return the unit.
        """
        unit.inputs = self._trace_inputs(unit.document)
        return unit

    def update_all(self) -> list[AnalysisUnit]:
        """Update the settings, recorded inputs and other open files that each unit's traces use;
        return the units.
        """
        return [self.update(unit) for unit in self.units.values()]

    def build_request(self, unit: AnalysisUnit, only: tuple[str, ...]) -> Analyze:
        """Return an engine request that traces the targets named in ``only`` (empty for all) in a
        file's current text.
        """
        document = unit.document
        settings, project = self._workspace.settings(document), self._workspace.project(document)
        reads = unit.traces.reads
        request = analyze_request(
            name=document.name,
            text=document.text,
            generation=document.generation,
            settings=settings,
            project=project,
            focus=document.focus,
            only=only,
            open_files=tuple(
                file
                for file in self._unsaved_files(document)
                if reads is None or file.path in reads
            ),
        )
        limits = dataclasses.replace(request.limits, file_seconds=settings.file_timeout)
        request = dataclasses.replace(request, limits=limits)
        shown = (one.document.name for one in self.units.values())
        return with_programs(request, self._programs, project, settings.program_files, shown)

    def _trace_inputs(self, document: Document) -> TraceInputs:
        project = self._workspace.project(document)
        recording = recording_of(document.name, project)
        if recording.problem:
            self._messages.show(MessageLevel.WARNING, recording.problem)
        settings = self._workspace.settings(document)
        return TraceInputs(settings, recording.classes, self._unsaved_files(document), str(project))

    def _unsaved_files(self, document: Document) -> tuple[OpenFile, ...]:
        """Return the open files other than ``document`` whose text differs from the file on
        disk.
        """
        others = (unit for unit in self.units.values() if unit.document.uri != document.uri)
        return tuple(
            file for unit in others if (file := unit.traces.importable.unsaved) is not None
        )

    # -- files that read others ---------------------------------------------------------------

    def reconsider_importers(self, unit: AnalysisUnit) -> None:
        """Trace the files again that import the file of ``unit``."""
        self._reconsider_readers({unit.document.name})

    def reconsider_changed(self, uris: Sequence[str]) -> None:
        """Trace the files again whose runs read, or looked for, one of the files that changed on
        disk.

        Open files on the list are ignored, because the editor reports their edits.
        """
        changed = [path_of(uri) for uri in uris if uri not in self.units]
        self._reconsider_readers({str(path) for path in changed if path is not None})

    def _reconsider_readers(self, paths: Set[str]) -> None:
        for unit in self.units.values():
            if unit.traces.depends_on(paths - {unit.document.name}):
                self.update(unit).reconsider()

    def reconsider_all(self) -> None:
        """Trace files again that depend on something that changed outside of the open files, such
        as a recording.
        """
        for unit in self.update_all():
            unit.reconsider()
