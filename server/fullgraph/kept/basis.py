"""What the results of a request follow from, beside the files that its code reads."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph import __version__
from fullgraph.engines import boot_script, packages_state
from fullgraph_engine.protocol import Allowed, Analyze, to_plain

_PASSING = frozenset(
    {
        *("_", "PWD", "OLDPWD", "SHLVL", "COLUMNS", "LINES", "TERM", "TERM_PROGRAM", "COLORTERM"),
        *("TERM_PROGRAM_VERSION", "TERM_SESSION_ID", "WINDOWID", "DISPLAY", "XAUTHORITY", "PS1"),
        *("SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "SSH_AGENT_PID", "TMUX"),
        *("TMUX_PANE", "STY", "WINDOW", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "PAGER", "EDITOR"),
        *("INVOCATION_ID", "JOURNAL_STREAM", "GITHUB_STEP_SUMMARY", "GITHUB_ENV", "GITHUB_PATH"),
        *("VIRTUAL_ENV_PROMPT", "PYTEST_CURRENT_TEST", "MAKEFLAGS", "MAKELEVEL", "MFLAGS"),
    }
)
_PASSING_BEGIN = ("VSCODE_", "XDG_SESSION", "DBUS_", "ITERM_", "VTE_", "KONSOLE_", "GNOME_")
"""Variables that differ from one terminal to the next, and mean nothing to a program."""


@dataclass(frozen=True)
class EngineBasis:
    """An interpreter with its packages, what its code may do, and the fullgraph that runs it.

    ``digest`` differs wherever the results of any text might.
    """

    digest: str


def engine_basis(
    interpreter: Path, allowed: Allowed, processes: str, env: Mapping[str, str] | None = None
) -> EngineBasis:
    """That of an engine as it would be started now."""
    env = os.environ if env is None else env
    parts = (
        __version__,
        _sources(boot_script().parent),
        str(interpreter),
        packages_state(interpreter),
        to_plain(allowed),
        processes,
        sorted(item for item in env.items() if _lasts(item[0])),
    )
    return EngineBasis(_digest(parts))


def request_digest(engine: EngineBasis, request: Analyze) -> str:
    """Differs wherever the request asks for something else, its text aside."""
    asked = dataclasses.replace(
        request,
        request=0,
        generation="",
        text="",
        focus=0,
        jobs=0,
        files=False,
        nice=0,
        # Results that follow from one are not kept.
        open_files=(),
    )
    return _digest((engine.digest, to_plain(asked)))


def text_digest(text: str) -> str:
    """Tells one text from another."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _lasts(name: str) -> bool:
    return name not in _PASSING and not name.startswith(_PASSING_BEGIN)


def _digest(parts: Iterable[object]) -> str:
    words = json.dumps(list(parts), sort_keys=True, default=str)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _sources(engine: Path) -> tuple[tuple[str, int, int], ...]:
    """The engine's own files: an upgrade, or an edit of them, makes what was found uncertain."""
    found = []
    for file in sorted(engine.rglob("*.py")):
        state = file.stat()
        found.append((str(file), state.st_mtime_ns, state.st_size))
    return tuple(found)
