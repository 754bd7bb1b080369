"""Which Python, and so which torch, traces the code."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

_ELSEWHERE: tuple[str, ...] = ("Scripts/python.exe",) if os.name == "nt" else ()

InterpreterOrigin = Literal["setting", "VIRTUAL_ENV", ".venv", "PATH"]


@dataclass(frozen=True)
class Interpreter:
    path: Path
    origin: InterpreterOrigin


class InterpreterNotFound(Exception):
    """One sentence with the next step."""


def find_interpreter(setting: str | None, root: Path | None, env: Mapping[str, str]) -> Interpreter:
    """The setting, else the active environment, ``.venv`` beside ``root``, ``python3`` on PATH.

    Paths are kept as they are written: resolving the link that a virtual environment's python
    is would leave the environment.
    """
    if setting and setting.strip():
        return Interpreter(_from_setting(setting.strip(), root, env), "setting")
    active = env.get("VIRTUAL_ENV")
    if active and (python := _of_environment(Path(active))):
        return Interpreter(python, "VIRTUAL_ENV")
    if root is not None and _is_environment(root / ".venv"):
        return Interpreter(_of_own_environment(root / ".venv"), ".venv")
    for name in ("python3", "python"):
        if found := shutil.which(name, path=env.get("PATH")):
            return Interpreter(Path(found), "PATH")
    raise InterpreterNotFound(
        "No Python interpreter was found: set `fullgraph.interpreter` to the one that has torch."
    )


def stale_environment(env: Mapping[str, str]) -> str:
    """A sentence about an active environment that has no Python, so that another is taken."""
    active = env.get("VIRTUAL_ENV")
    if not active or _of_environment(Path(active)):
        return ""
    return (
        f"The active environment {active} (VIRTUAL_ENV) has no Python that can be executed here, "
        "so another one is used; run `deactivate`, or activate one that exists"
    )


def _from_setting(setting: str, root: Path | None, env: Mapping[str, str]) -> Path:
    if root is not None:
        setting = setting.replace("${workspaceFolder}", str(root))
    if "/" not in setting and os.sep not in setting and not setting.startswith("~"):
        # A bare word is a command; a folder of that name in the project is an environment.
        if root is not None and (python := _of_environment(root / setting)):
            return python
        if found := shutil.which(setting, path=env.get("PATH")):
            return Path(found)
        raise InterpreterNotFound(
            f"The interpreter {setting!r} of the setting `fullgraph.interpreter` is not on PATH: "
            "give the full path of a Python that has torch."
        )
    path = Path(setting)
    # "No such user" is no such file, which is what is said below.
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    if not path.is_absolute() and root is not None:
        path = root / path
    if python := _of_environment(path):
        return python
    if path.is_dir():
        raise InterpreterNotFound(
            f"The folder {path} of the setting `fullgraph.interpreter` holds no environment with a "
            "Python that can be executed here: point the setting to a Python executable."
        )
    if not path.is_file():
        raise InterpreterNotFound(
            f"The interpreter {path} of the setting `fullgraph.interpreter` does not exist: "
            "correct the setting, or clear it to use the project's own environment."
        )
    if not os.access(path, os.X_OK):
        raise InterpreterNotFound(
            f"The interpreter {path} of the setting `fullgraph.interpreter` cannot be executed: "
            "point the setting to a Python executable."
        )
    return path.absolute()


def _is_environment(folder: Path) -> bool:
    """Also of another platform, or one whose Python was removed since."""
    return any((folder / name).exists() for name in ("pyvenv.cfg", "bin", "Scripts"))


def _of_own_environment(folder: Path) -> Path:
    """The python of a project's environment; another would not have what the project needs."""
    if python := _of_environment(folder):
        return python
    raise InterpreterNotFound(
        f"The environment {folder} has no Python that can be executed on this machine: create it "
        "anew here, or set `fullgraph.interpreter` to a Python that has torch."
    )


def _of_environment(folder: Path) -> Path | None:
    """The python of a virtual environment's folder, if it is one."""
    for relative in ("bin/python", "bin/python3", *_ELSEWHERE):
        python = folder / relative
        if python.is_file() and os.access(python, os.X_OK):
            return python.absolute()
    return None
