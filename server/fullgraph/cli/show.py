"""``fullgraph show``: print a document about a target, as editors show it."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli import sources
from fullgraph.cli.check import Tracer, working
from fullgraph.cli.sources import SourceFile, Unreadable
from fullgraph.domain.positions import text_hash
from fullgraph.engines import sentences
from fullgraph.render.documents import Draft, document_request
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
class Chosen:
    """A parsed place: ``FILE``, ``FILE:LINE`` or ``FILE::TARGET``.

    ``line`` is counted from 1; 0 means without a line.
    """

    file: str
    target: str = ""
    line: int = 0

    @classmethod
    def read(cls, written: str) -> Chosen:
        file, separator, target = written.partition("::")
        if separator:
            return cls(file, target=target)
        line = re.search(r":(\d+)$", written)
        if line is not None and not Path(written).exists():
            return cls(written[: line.start()], line=int(line[1]))
        return cls(written)

    def request(self, request: Analyze) -> Analyze:
        """Restrict a request to the named target, or to the target nearest to the line."""
        if self.target:
            return dataclasses.replace(request, only=(self.target,))
        if self.line:
            limits = dataclasses.replace(request.limits, targets=1)
            return dataclasses.replace(request, limits=limits, focus=self.line - 1)
        return request


class NoTarget(Exception):
    """Raised if the file does not have the target; the message is one sentence."""


@dataclass(frozen=True)
class Shown:
    """Documents of one or more targets.

    ``complete`` is false if a run ended early. ``saved`` are the events, if they were requested;
    ``differs`` is true if they differ from the events that they were compared with.
    """

    text: str
    complete: bool
    saved: tuple[SavedEvents, ...] = ()
    differs: bool = False


_VERSION = 1


def written_events(saved: tuple[SavedEvents, ...]) -> str:
    """Serialize saved events for a file."""
    events = [to_plain(one) for one in saved]
    return json.dumps({"version": _VERSION, "events": events}) + "\n"


def read_events(path: Path) -> tuple[SavedEvents, ...]:
    """Read the events of a file that ``--save`` wrote.

    Raises:
        Unreadable: The file does not contain saved events.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
        version = raw["version"]
        events = tuple(from_plain(SavedEvents, one) for one in raw["events"])
    except OSError as error:
        raise Unreadable(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Unreadable(f"{path} holds no saved events; `--save` writes them.") from None
    if version != _VERSION:
        raise Unreadable(f"{path} has format {version}; save the events again.")
    return events


async def documents_of(
    kind: DocumentKind,
    chosen: Chosen,
    *,
    settings: Settings,
    project: Path,
    tracer: Callable[[], Tracer],
    tell: Callable[[str], None],
    save: bool = False,
    compare: tuple[SavedEvents, ...] = (),
) -> Shown:
    """Trace the chosen targets and write a document about each.

    Raises:
        Unreadable: The file cannot be read.
        Unusable: The engine cannot work.
        NoTarget: The file does not have the target, or has a syntax error.
    """
    source = SourceFile(chosen.file, Path.cwd() / chosen.file, named=True)
    text = sources.read(source)
    request = analyze_request(
        name=str(source.absolute),
        text=text,
        generation=text_hash(text),
        settings=settings,
        project=project,
    )
    tell("Importing torch")
    engine = tracer()
    async with working(engine):
        drafts: dict[str, Draft] = {}
        request = chosen.request(document_request(request, kind))
        request = dataclasses.replace(request, save_events=save, compare_events=compare)
        problem = ""
        async for event in engine.analyze(request):
            if isinstance(event, TargetsFound):
                named = [one.name for one in event.targets]
                names = [chosen.target] if chosen.target else named
                drafts = {name: Draft(kind, name, text) for name in names}
            elif isinstance(event, Importing):
                tell(f"Importing {event.module}")
            elif isinstance(event, TargetStarted):
                tell(f"Tracing {event.name}")
            elif isinstance(event, Failed):
                problem = sentences(event.reason, event.next_step)
            for draft in drafts.values():
                draft.apply(event)
    if not drafts:
        raise NoTarget(problem or f"{chosen.file} has no target.")
    if chosen.target and not drafts[chosen.target].found:
        raise NoTarget(drafts[chosen.target].problem)
    return Shown(
        "\n\n".join(draft.text(source.absolute.name) for draft in drafts.values()),
        all(draft.complete for draft in drafts.values()),
        tuple(one for draft in drafts.values() for one in draft.saved),
        any(draft.differs for draft in drafts.values()),
    )
