"""What the engine is asked, the same for the editor and for ``fullgraph check``."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from pathlib import Path

from fullgraph.session.recordings import recording_of
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze, OpenFile, Part

# Text without any of these holds no target: no class, no mention of torch, no probe comment, no
# annotation with a shape.
_TARGET_WORDS = re.compile(
    r"""torch|fullgraph|jaxtyping|^[ \t]*class\s|["'][^"'\n]*\w\[""", re.MULTILINE
)


NICE = 15
"""How far forecasts that nobody waits for give way to everything else."""

FORECAST_SECONDS = 120.0
"""What those of one text may take together."""

PATH_SECONDS = 60.0
"""The same for the paths that probes do not lead along."""

_TORCH = re.compile(r"\btorch")


def mentions_torch(text: str) -> bool:
    """Whether its names may be torch's, so that somebody may ask what they are."""
    return _TORCH.search(text) is not None


def may_have_targets(text: str) -> bool:
    """False only where it is certain that the engine would find nothing to trace."""
    return _TARGET_WORDS.search(text) is not None


def forecast_request(request: Analyze) -> Analyze:
    """One for forecasts alone, of what was traced by requests like this one."""
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
    """A request to trace one text. ``name`` is its absolute path, or a bare name."""
    wanted: dict[Part, bool] = {
        "first": True,
        "second": settings.try_dynamic,
        "paths": settings.try_paths,
        "forecast": forecast,
        "export": settings.export,
    }
    roots = list(settings.import_roots(project))
    if project is not None:
        # As a program started in the project would find its own packages.
        roots += [str(folder) for folder in (project, project / "src") if folder.is_dir()]
    return Analyze(
        request=0,
        generation=generation,
        path=name,
        text=text,
        mode=settings.mode,
        only=tuple(only),
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
        open_files=open_files,
        files=True,
        calls=True,
        program=settings.program_request(),
    )
