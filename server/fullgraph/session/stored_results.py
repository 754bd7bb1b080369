"""Results of the open files on disk, from earlier sessions and for later ones."""

from __future__ import annotations

import asyncio

from fullgraph.kept import EngineStore, KeptResults, ResultStore, engine_basis
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.file_engines import FileEngines
from fullgraph.session.open_files import OpenFiles
from fullgraph.session.permission import TracePermission
from fullgraph.session.unit_events import Reason
from fullgraph.session.workspace import Workspace


class StoredResults:
    """The results on disk of open files that may be traced."""

    def __init__(
        self,
        workspace: Workspace,
        files: OpenFiles,
        permission: TracePermission,
        engines: FileEngines,
    ) -> None:
        self._workspace = workspace
        self._files = files
        self._permission = permission
        self._engines = engines
        self._store = ResultStore()

    def find(self, unit: AnalysisUnit) -> KeptResults | None:
        """Return the results of a file with its current text and settings; None if it has none."""
        store = self._store_of(unit)
        return store.find(self._files.build_request(unit, ())) if store is not None else None

    def save(self, unit: AnalysisUnit, results: KeptResults) -> None:
        """Save the results of a file."""
        store = self._store_of(unit)
        if store is not None:
            # Write in a thread, so that requests such as hovers do not wait for the disk.
            loop = asyncio.get_running_loop()
            loop.run_in_executor(None, store.keep, self._files.build_request(unit, ()), results)

    def _store_of(self, unit: AnalysisUnit) -> EngineStore | None:
        """Return the results of the file's engine; None if they may not be used."""
        settings = self._workspace.settings(unit.document)
        key = self._engines.find_key(unit)
        if (
            not settings.cache
            or key is None
            or self._permission.explain_refusal(unit, Reason.OPENED)
        ):
            return None
        basis = engine_basis(key.interpreter, key.allowed, settings.engine_processes)
        return EngineStore(self._store, basis)
