"""Choose between a background engine, shared by a user's commands and editors, and a private one, a
child process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from fullgraph.engines.engine import AnyEngine, Engine, EngineListener
from fullgraph.engines.process import working_folder
from fullgraph_engine.protocol import Allowed


def shared_or_own(
    listener: EngineListener,
    interpreter: Path,
    *,
    keep: float,
    cwd: Path | None = None,
    boot: Path | None = None,
    processes: str = "auto",
    allowed: Allowed = Allowed(),  # noqa: B008 - it is frozen
    on_note: Callable[[str], None] = lambda note: None,
) -> AnyEngine:
    """Return an engine, not yet started, for an interpreter: shared with other commands and editors
    if possible.

    Its process stays ``keep`` seconds after its last client; with 0, or if sharing is impossible,
    it is private to this process. ``processes``: setting that selects how the engine starts
    processes. ``allowed``: permissions of user code. ``on_note`` receives a sentence if the shared
    engine is unavailable.
    """

    def own(processes: str = processes) -> Engine:
        return Engine(
            interpreter,
            listener,
            cwd=cwd,
            boot=boot,
            processes=processes,
            allowed=allowed,
        )

    if not keep or sys.platform == "win32":
        return own()
    from fullgraph.engines.background import BackgroundEngine, EngineLaunch

    folder = cwd or working_folder()
    launch = EngineLaunch.for_project(
        interpreter, folder, os.environ, processes=processes, allowed=allowed
    )
    return BackgroundEngine(launch, listener, keep=keep, own=own, on_note=on_note, boot=boot)
