"""What the engine is asked, the same for the editor and for ``fullgraph check``."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyse

# Text without any of these holds no target: no class, no mention of torch, no probe comment, no
# annotation with a shape.
_TARGET_WORDS = re.compile(
    r"""torch|fullgraph|jaxtyping|^\s*class\s|["'][^"'\n]*\w\[""", re.MULTILINE
)


_TORCH = re.compile(r"\btorch")


def mentions_torch(text: str) -> bool:
    """Whether its names may be torch's, so that somebody may ask what they are."""
    return _TORCH.search(text) is not None


def may_have_targets(text: str) -> bool:
    """False only where it is certain that the engine would find nothing to trace."""
    return _TARGET_WORDS.search(text) is not None


def analyse_request(
    *,
    name: str,
    text: str,
    generation: str,
    settings: Settings,
    project: Path | None,
    focus: int = 0,
    only: Iterable[str] = (),
    forecast: bool = False,
) -> Analyse:
    """A request to trace one text. ``name`` is its absolute path, or a bare name."""
    roots = list(settings.roots(project))
    if project is not None:
        # As a program started in the project would find its own packages.
        roots += [str(folder) for folder in (project, project / "src") if folder.is_dir()]
    return Analyse(
        request=0,
        generation=generation,
        path=name,
        text=text,
        mode=settings.mode,
        only=tuple(only),
        focus=focus,
        roots=tuple(dict.fromkeys(roots)),
        cwd=str(project) if project is not None else "",
        limits=settings.limits(),
        jobs=settings.parallel,
        try_dynamic=settings.try_dynamic,
        forecast=forecast,
    )
