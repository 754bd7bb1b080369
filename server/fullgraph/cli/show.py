"""``fullgraph show``: print the graphs, guards, bytecode or symbolic shape events of a target."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli import sources
from fullgraph.cli.check import CheckEngine, running_engine
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.domain.positions import text_hash
from fullgraph.engines import sentences
from fullgraph.render.documents import DocumentDraft, document_request
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    Analyze,
    Failed,
    Importing,
    TargetsFound,
    TargetStarted,
    from_plain,
    to_plain,
)
from fullgraph_engine.protocol.documents import DocumentKind, SavedEvents


@dataclass(frozen=True)
class ChosenPlace:
    """A file, with a line or a target (a function or class) in it: ``FILE``, ``FILE:LINE`` or
    ``FILE::TARGET``.

    ``line`` is counted from 1; 0 means without a line. ``target`` is empty without a target.
    """

    file: str
    target: str = ""
    line: int = 0

    @classmethod
    def parse(cls, text: str) -> ChosenPlace:
        """Parse a command-line argument. If a file's name ends with ``:LINE``, this is not a line
        number."""
        file, separator, target = text.partition("::")
        if separator:
            return cls(file, target=target)
        line = re.search(r":(\d+)$", text)
        if line is not None and not Path(text).exists():
            return cls(text[: line.start()], line=int(line[1]))
        return cls(text)

    def restrict_request(self, request: Analyze) -> Analyze:
        """Return the trace request, restricted to the named target (function or class), or to the
        target nearest to the line.
        """
        if self.target:
            return dataclasses.replace(request, only=(self.target,))
        if self.line:
            limits = dataclasses.replace(request.limits, targets=1)
            return dataclasses.replace(request, limits=limits, focus=self.line - 1)
        return request


class NoTarget(Exception):
    """Raised if a file does not have the requested target (function or class), or does not have
    any.
    """


@dataclass(frozen=True)
class ShownDocuments:
    """The text that ``fullgraph show`` prints about one or more targets.

    ``complete`` is false if a trace ended early. ``saved`` are the symbolic shape events, if they
    were requested. ``differs`` is true if they differ from the events to compare with.
    """

    text: str
    complete: bool
    saved: tuple[SavedEvents, ...] = ()
    differs: bool = False


_VERSION = 1


def serialize_events(saved: tuple[SavedEvents, ...]) -> str:
    """Convert symbolic shape events to JSON, which ``read_events`` reads."""
    events = [to_plain(event) for event in saved]
    return json.dumps({"version": _VERSION, "events": events}) + "\n"


def read_events(path: Path) -> tuple[SavedEvents, ...]:
    """Read the symbolic shape events from a file that ``fullgraph show --save`` wrote.

    Raises:
        UnreadableFile: The file does not contain saved events.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        version = raw["version"]
        events = tuple(from_plain(SavedEvents, event) for event in raw["events"])
    except OSError as error:
        raise UnreadableFile(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise UnreadableFile(
            f"{path} does not contain saved events; write them with `--save`."
        ) from None
    if version != _VERSION:
        raise UnreadableFile(f"{path} has format {version}; save the events again.")
    return events


async def write_documents(
    kind: DocumentKind,
    chosen: ChosenPlace,
    *,
    settings: Settings,
    project: Path,
    tracer: Callable[[], CheckEngine],
    show_progress: Callable[[str], None],
    save: bool = False,
    compare: tuple[SavedEvents, ...] = (),
) -> ShownDocuments:
    """Trace the chosen targets and return a document of the given kind about each.

    ``tracer`` creates the engine. ``save`` also returns the symbolic shape events; ``compare`` are
    earlier events to compare them with.

    Raises:
        UnreadableFile: The file cannot be read.
        EngineUnusable: The engine cannot trace files, for example without torch.
        NoTarget: The file does not have the target, or has a syntax error.
    """
    source = SourceFile(chosen.file, Path.cwd() / chosen.file, named=True)
    text = sources.read_source(source)
    request = analyze_request(
        name=str(source.absolute),
        text=text,
        generation=text_hash(text),
        settings=settings,
        project=project,
    )
    show_progress("Importing torch")
    engine = tracer()
    async with running_engine(engine):
        return await trace_documents(
            kind, chosen, request, engine, show_progress, save=save, compare=compare
        )


async def trace_documents(
    kind: DocumentKind,
    chosen: ChosenPlace,
    request: Analyze,
    engine: CheckEngine,
    show_progress: Callable[[str], None],
    *,
    save: bool = False,
    compare: tuple[SavedEvents, ...] = (),
) -> ShownDocuments:
    """Trace the chosen targets of the text in ``request`` with a running engine, and return a
    document of the given kind about each.

    ``save`` also returns the symbolic shape events; ``compare`` are earlier events to compare them
    with.

    Raises:
        NoTarget: The text does not have the target, or has a syntax error.
    """
    drafts: dict[str, DocumentDraft] = {}
    request = chosen.restrict_request(document_request(request, kind))
    request = dataclasses.replace(request, save_events=save, compare_events=compare)
    problem = ""
    async for event in engine.analyze(request):
        if isinstance(event, TargetsFound):
            named = [saved_event.name for saved_event in event.targets]
            names = [chosen.target] if chosen.target else named
            drafts = {name: DocumentDraft(kind, name, request.text) for name in names}
        elif isinstance(event, Importing):
            show_progress(f"Importing {event.module}")
        elif isinstance(event, TargetStarted):
            show_progress(f"Tracing {event.name}")
        elif isinstance(event, Failed):
            problem = sentences(event.reason, event.next_step)
        for draft in drafts.values():
            draft.apply_event(event)
    if not drafts:
        raise NoTarget(problem or f"{chosen.file} has no function or class to trace.")
    if chosen.target and not drafts[chosen.target].found:
        raise NoTarget(drafts[chosen.target].problem)
    return ShownDocuments(
        "\n\n".join(draft.build_text(Path(request.path).name) for draft in drafts.values()),
        all(draft.complete for draft in drafts.values()),
        tuple(saved_event for draft in drafts.values() for saved_event in draft.saved),
        any(draft.differs for draft in drafts.values()),
    )
