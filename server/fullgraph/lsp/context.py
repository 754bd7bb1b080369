"""What the handlers of LSP methods work with."""

from __future__ import annotations

from dataclasses import dataclass

from fullgraph.lsp.configuration import Configuration
from fullgraph.lsp.connection import Connection
from fullgraph.lsp.measures import Measures
from fullgraph.lsp.progress import Progress
from fullgraph.lsp.publication import Publication
from fullgraph.lsp.repros import Repros
from fullgraph.lsp.virtual_documents import VirtualDocuments
from fullgraph.session.analysis_unit import Unit
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph.session.fix_jobs import FixJobs
from fullgraph.session.session import Session


@dataclass(frozen=True)
class Context:
    """What handlers need for one client: its connection, its session and what it displays."""

    connection: Connection
    session: Session
    publication: Publication
    progress: Progress
    documents: VirtualDocuments
    repros: Repros
    measures: Measures
    fixes: FixJobs
    configuration: Configuration

    @classmethod
    def of(cls, connection: Connection, session: Session) -> Context:
        progress = Progress(connection, session)
        repros = Repros(connection, session, progress)
        documents = VirtualDocuments(connection, session, progress)
        return cls(
            connection,
            session,
            Publication(connection, session),
            progress,
            documents,
            repros,
            Measures(connection, session, progress, documents),
            FixJobs(session),
            Configuration(connection, session, repros.jobs.settings_changed),
        )

    @property
    def client(self) -> ClientCapabilities:
        return self.session.client

    def unit(self, uri: str) -> Unit | None:
        """Return the open Python file with this URI; None if it is not open."""
        return self.session.units.get(uri)
