"""The objects that handlers of LSP methods use."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fullgraph.lsp.configuration import Configuration
from fullgraph.lsp.connection import ClientConnection
from fullgraph.lsp.measures import Measures
from fullgraph.lsp.progress import ClientProgress
from fullgraph.lsp.publication import Publication
from fullgraph.lsp.repros import Repros
from fullgraph.lsp.virtual_documents import VirtualDocuments
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.fix_jobs import FixJobs
from fullgraph.session.session import Session


@dataclass(frozen=True)
class ServerContext:
    """The objects that handlers need for one client: its connection, session and displays."""

    connection: ClientConnection
    session: Session
    publication: Publication
    progress: ClientProgress
    documents: VirtualDocuments
    repros: Repros
    measures: Measures
    fixes: FixJobs
    configuration: Configuration

    @classmethod
    def create(cls, connection: ClientConnection, session: Session) -> ServerContext:
        progress = ClientProgress(connection, session)
        repros = Repros(connection, session, progress)
        documents = VirtualDocuments(connection, session, progress)
        publication = Publication(connection, session)
        fixes = FixJobs(session, progress.start_fixes, publication.notify_changed)
        return cls(
            connection,
            session,
            publication,
            progress,
            documents,
            repros,
            Measures(connection, session, progress, documents, fixes),
            fixes,
            Configuration(connection, session, repros.jobs.settings_changed),
        )

    @property
    def client(self) -> ClientCapabilities:
        return self.session.client

    def find_unit(self, uri: str) -> AnalysisUnit | None:
        """Return the analysis of the open Python file with this URI; None if the file is not
        open.
        """
        return self.session.files.units.get(uri)

    async def find_configured(self, params: Any) -> AnalysisUnit | None:
        """Return the analysis of the file that a request of a client names by ``uri``, as soon as
        the session has its settings. Before, it is unknown whether the file may be traced.
        """
        await self.session.permission.configured.wait()
        uri = getattr(params, "uri", None)
        return self.find_unit(uri) if isinstance(uri, str) else None
