"""Engine requests, built in the same way for the editor and for ``fullgraph check``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from fullgraph.session.recordings import recording_of
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze, OpenFile, Part, RecordedClass

# A text without a match cannot contain targets: it lacks classes, the words torch and jaxtyping,
# comments with inputs, and string annotations with a shape.
_TARGET_WORDS = re.compile(
    r"""torch|fullgraph|jaxtyping|^[ \t]*class\s|["'][^"'\n]*\w\[""", re.MULTILINE
)


NICE = 15
"""Nice value (operating system priority) of processes that forecast recompiles, so that they do not
slow other work.
"""

FORECAST_SECONDS = 120.0
"""Time limit in seconds for all forecasts of one file."""

PATH_SECONDS = 60.0
"""Time limit in seconds for tracing alternative execution paths of the targets in one file."""

_TORCH = re.compile(r"\btorch")


@dataclass(frozen=True)
class TraceInputs:
    """Everything that a trace of a file depends on other than its text: settings, recorded classes
    and other open files.
    """

    settings: Settings
    recorded: tuple[RecordedClass, ...]
    """Classes of this file whose real inputs ``fullgraph record`` recorded."""
    open_files: tuple[OpenFile, ...] = ()
    """Other open files whose text differs from the file on disk."""
    folder: str = ""
    """Folder that paths in findings are relative to."""


def mentions_torch(text: str) -> bool:
    """Return whether names in the text may belong to torch."""
    return _TORCH.search(text) is not None


def may_have_targets(text: str) -> bool:
    """Return False only if the engine would certainly find nothing to trace."""
    return _TARGET_WORDS.search(text) is not None


def forecast_request(request: Analyze) -> Analyze:
    """Return a request to forecast recompiles of the targets that ``request`` traced."""
    return dataclasses.replace(
        request, parts=("forecast",), forecast_seconds=FORECAST_SECONDS, nice=NICE
    )


def analyze_request(
    *,
    name: str,
    text: str,
    generation: str,
    settings: Settings,
    project: Path | None,
    focus: int = 0,
    only: Iterable[str] = (),
    forecast: bool = False,
    open_files: tuple[OpenFile, ...] = (),
) -> Analyze:
    """Return the engine request that traces one text; ``name`` is the text's absolute path, or a
    bare name.

    ``only`` are the names of the targets (functions and module classes) to trace, empty for all;
    targets near the line ``focus`` are traced first. ``forecast`` also predicts recompiles.
    ``open_files`` are other files whose unsaved text is imported.
    """
    wanted: dict[Part, bool] = {
        "first": True,
        "second": settings.try_dynamic,
        "paths": settings.try_paths,
        "forecast": forecast,
        "export": settings.export,
        "backend": settings.backend != "off",
    }
    roots = list(settings.import_roots(project))
    if project is not None:
        # A program started in the project's folder can import the project's packages, so traced
        # code must be able to import them as well.
        roots += [str(folder) for folder in (project, project / "src") if folder.is_dir()]
    return Analyze(
        request=0,
        generation=generation,
        path=name,
        text=text,
        mode=settings.mode,
        only=tuple(only),
        nested=settings.trace_nested,
        focus=focus,
        roots=tuple(dict.fromkeys(roots)),
        cwd=str(project) if project is not None else "",
        limits=settings.run_limits(),
        jobs=settings.parallel,
        parts=tuple(part for part, is_wanted in wanted.items() if is_wanted),
        recorded=recording_of(name, project).classes,
        methods=settings.methods,
        examples=settings.example_kinds(),
        path_seconds=PATH_SECONDS,
        compiler=settings.backend,
        compiler_seconds=settings.backend_timeout,
        open_files=open_files,
        files=True,
        calls=True,
        program=settings.program_request(),
    )
