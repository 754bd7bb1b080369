"""Shorten stacks for display: frames of user code stay, consecutive frames of libraries become a
count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fullgraph.domain.paths import match_library_folder, short_path
from fullgraph_engine.protocol import Frame


@dataclass(frozen=True)
class FoldedFrames:
    """Consecutive stack frames of library code, displayed as one line. ``package`` is the package
    of the frame called last."""

    count: int
    package: str


def is_library(path: str) -> bool:
    """Whether a path is in an installed package, or is not a file (``<string>``)."""
    return path.startswith("<") or match_library_folder(path) is not None


def fold_stack(frames: Sequence[Frame]) -> list[Frame | FoldedFrames]:
    """Replace consecutive stack frames of library code by a count.

    Library frames before the first user frame are dropped. The most recent call is never replaced,
    because it is where the finding is.
    """
    shown: list[Frame | FoldedFrames] = []
    outermost = next((i for i, frame in enumerate(frames) if not is_library(frame.path)), 0)
    frames = frames[outermost:]
    for index, frame in enumerate(frames):
        last = shown[-1] if shown else None
        if not is_library(frame.path) or index == len(frames) - 1:
            shown.append(frame)
        elif isinstance(last, FoldedFrames):
            shown[-1] = FoldedFrames(last.count + 1, _package_name(frame.path))
        else:
            shown.append(FoldedFrames(1, _package_name(frame.path)))
    return shown


def _package_name(path: str) -> str:
    if path.startswith("<"):
        return path
    return PurePath(short_path(path)).parts[0].removesuffix(".py")
