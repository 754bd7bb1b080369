"""User stacks: the frames of the user's own code in full, those of libraries as a count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fullgraph.domain.paths import below, short_path
from fullgraph_engine.protocol import Frame


@dataclass(frozen=True)
class Folded:
    """Neighboring library frames that are not shown. ``package`` is where the last one is."""

    count: int
    package: str


def is_library(path: str) -> bool:
    """Whether a frame belongs to something installed, or to no file at all."""
    return path.startswith("<") or below(path) is not None


def folded(frames: Sequence[Frame]) -> list[Frame | Folded]:
    """Frames with runs of library frames replaced by a count.

    What libraries did before they came to the user's code says nothing and is dropped. The
    innermost frame is never folded: where it is a library's, it is what there is to know.
    """
    shown: list[Frame | Folded] = []
    outermost = next((i for i, frame in enumerate(frames) if not is_library(frame.path)), 0)
    frames = frames[outermost:]
    for index, frame in enumerate(frames):
        last = shown[-1] if shown else None
        if not is_library(frame.path) or index == len(frames) - 1:
            shown.append(frame)
        elif isinstance(last, Folded):
            shown[-1] = Folded(last.count + 1, _package(frame.path))
        else:
            shown.append(Folded(1, _package(frame.path)))
    return shown


def _package(path: str) -> str:
    if path.startswith("<"):
        return path
    return PurePath(short_path(path)).parts[0].removesuffix(".py")
