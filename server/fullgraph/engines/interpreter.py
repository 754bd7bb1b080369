"""Choose the Python interpreter, and so the torch, that traces the code."""

from __future__ import annotations

import contextlib
import enum
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from fullgraph.engines.installation import (
    VirtualEnvironment,
    has_torch,
    prefix_of,
    pythons_of,
)

InterpreterOrigin = Literal[
    "setting", "editor", "VIRTUAL_ENV", ".venv", "CONDA_PREFIX", "own", "PATH"
]

_HOW: Mapping[InterpreterOrigin, str] = {
    "setting": "from the setting `interpreter`",
    "editor": "the environment that is active in the editor",
    "VIRTUAL_ENV": "the active environment, from VIRTUAL_ENV",
    ".venv": "from .venv of the project",
    "CONDA_PREFIX": "conda's active environment, from CONDA_PREFIX",
    "own": "the Python that fullgraph is installed in",
    "PATH": "from PATH",
}

# An editor extension may start its bundled server with any Python, without site-packages. Such a
# Python does not have fullgraph installed.
OWN = Path(sys.executable) if sys.executable and not sys.flags.no_site else None
"""The Python that fullgraph is installed in."""


class WhyPassedOver(enum.Enum):
    """The reason why a possible interpreter was not chosen, as the end of a sentence."""

    TORCH = "has no torch"
    PYTHON = "has no Python that can be executed here"
    ANSWER = "did not say whether it has torch"


@dataclass(frozen=True)
class PassedOver:
    """An interpreter that was not chosen, and the reason."""

    path: Path
    """Path of the Python executable, or of an environment folder without a Python."""
    origin: InterpreterOrigin
    reason: WhyPassedOver

    @property
    def named(self) -> str:
        return f"{self.path} ({_HOW[self.origin]})"


@dataclass(frozen=True)
class Interpreter:
    """The Python whose torch traces the code, and how it was found."""

    path: Path
    origin: InterpreterOrigin
    passed_over: tuple[PassedOver, ...] = ()
    """Interpreters that were tried before this one and not chosen."""

    @property
    def how(self) -> str:
        """Where the interpreter was found, as a short phrase to put in brackets."""
        return _HOW[self.origin]

    @property
    def why(self) -> str:
        """Explanation of the choice as a part of a sentence, with the interpreters that were not
        chosen.
        """
        reasons = self._unused_reasons()
        return f"{self.how}, since {reasons}" if reasons else self.how

    @property
    def remark(self) -> str:
        """Sentence for the user if the choice may be unexpected; else empty."""
        reasons = self._unused_reasons()
        return (
            f"The torch of {self.path} ({self.how}) is used, because {reasons}." if reasons else ""
        )

    def _unused_reasons(self) -> str:
        # Leave out fullgraph's own Python: it often has a separate environment, so users do not
        # expect its packages.
        expected = (passed for passed in self.passed_over if passed.origin != "own")
        return " and ".join(f"{passed.named} {passed.reason.value}" for passed in expected)


class InterpreterNotFound(Exception):
    """An error if no interpreter was found; its message says in a sentence what the user can do."""


def find_interpreter(
    setting: str | None,
    root: Path | None,
    env: Mapping[str, str],
    *,
    active: str = "",
    own: Path | None = OWN,
) -> Interpreter:
    """Return the configured interpreter, or the first one with torch in a list of possible ones.

    The possible interpreters in order: ``active``, selected in the editor; the active virtual
    environment; ``.venv`` in ``root`` or the nearest folder above; the active conda environment;
    ``own``, the Python of fullgraph; ``python3`` and ``python`` on PATH. An interpreter whose
    packages cannot be determined is used only if none with torch was found.

    Links are not resolved, because the link of a virtual environment identifies the environment.
    The search may execute interpreters and block for seconds.

    Raises:
        InterpreterNotFound: The setting is wrong, or none of the interpreters has torch.
    """
    if setting and setting.strip():
        return Interpreter(_from_setting(setting.strip(), root, env), "setting")
    passed: list[PassedOver] = []
    for candidate in _unique_candidates(root, env, active, own):
        if isinstance(candidate, PassedOver):
            passed.append(candidate)
            continue
        found = has_torch(candidate.path, env)
        if found:
            return Interpreter(candidate.path, candidate.origin, tuple(passed))
        reason = WhyPassedOver.ANSWER if found is None else WhyPassedOver.TORCH
        passed.append(PassedOver(candidate.path, candidate.origin, reason))
    for silent in passed:
        if silent.reason is WhyPassedOver.ANSWER:
            others = tuple(other for other in passed if other.reason is not WhyPassedOver.ANSWER)
            return Interpreter(silent.path, silent.origin, others)
    raise InterpreterNotFound(_none_has_torch(passed))


def _unique_candidates(
    root: Path | None, env: Mapping[str, str], active: str, own: Path | None
) -> Iterator[Interpreter | PassedOver]:
    """Yield each possible interpreter once, in the order of preference, and environments without a
    Python as ``PassedOver``.

    ``root`` is where the search for a ``.venv`` begins, ``active`` the Python selected in
    the editor, and ``own`` the Python of fullgraph.
    """
    seen: set[tuple[str, str]] = set()
    for candidate in _named_candidates(root, env, active, own):
        folder, file = candidate.path.parent, os.path.realpath(candidate.path)
        # Two environments may link to the same Python file, but are different interpreters.
        if (str(folder), file) not in seen:
            seen.add((str(folder), file))
            yield candidate


def _named_candidates(
    root: Path | None, env: Mapping[str, str], active: str, own: Path | None
) -> Iterator[Interpreter | PassedOver]:
    if active:
        path = Path(active)
        if _is_executable(path):
            yield Interpreter(path.absolute(), "editor")
        else:
            yield PassedOver(prefix_of(path), "editor", WhyPassedOver.PYTHON)
    yield from _active_environment("VIRTUAL_ENV", env)
    environment = find_environment(root) if root is not None else None
    if environment is not None:
        yield Interpreter(_of_own_environment(environment), ".venv")
    yield from _active_environment("CONDA_PREFIX", env)
    if own is not None:
        yield Interpreter(own, "own")
    for name in ("python3", "python"):
        if found := shutil.which(name, path=env.get("PATH")):
            yield Interpreter(Path(found), "PATH")


def find_environment(root: Path) -> Path | None:
    """Return the ``.venv`` in ``root`` or in the nearest folder above it."""
    folders = (folder / ".venv" for folder in (root, *root.parents))
    return next((folder for folder in folders if _is_environment(folder)), None)


def _active_environment(
    name: Literal["VIRTUAL_ENV", "CONDA_PREFIX"], env: Mapping[str, str]
) -> Iterator[Interpreter | PassedOver]:
    if folder := env.get(name):
        if python := _of_environment(Path(folder)):
            yield Interpreter(python, name)
        else:
            yield PassedOver(Path(folder), name, WhyPassedOver.PYTHON)


def _none_has_torch(passed: list[PassedOver]) -> str:
    without = [candidate for candidate in passed if candidate.reason is WhyPassedOver.TORCH]
    if not without:
        return (
            "No Python interpreter was found: set `fullgraph.interpreter` to the one that has "
            "torch."
        )
    *names, last = (candidate.named for candidate in without)
    named = f"{', '.join(names)} or {last}" if names else last
    gone = "".join(
        f"; {candidate.named} {candidate.reason.value}"
        for candidate in passed
        if candidate.reason is WhyPassedOver.PYTHON
    )
    return (
        f"No torch in {named}{gone}: install it with `{_install_command(without[0].path)}`, or set "
        "`fullgraph.interpreter` to a Python that has it."
    )


def _install_command(python: Path) -> str:
    """Return the command that installs torch into an interpreter."""
    quoted = shlex.quote(str(python))
    environment = VirtualEnvironment.read_config(prefix_of(python))
    if environment is not None and environment.by_uv:
        return f"uv pip install --python {quoted} torch"
    return f"{quoted} -m pip install torch"


def _from_setting(setting: str, root: Path | None, env: Mapping[str, str]) -> Path:
    if root is not None:
        setting = setting.replace("${workspaceFolder}", str(root))
    if "/" not in setting and os.sep not in setting and not setting.startswith("~"):
        # A setting without a slash names a command, unless the project has an environment folder
        # with this name.
        if root is not None and (python := _of_environment(root / setting)):
            return python
        if found := shutil.which(setting, path=env.get("PATH")):
            return Path(found)
        raise InterpreterNotFound(
            f"The interpreter {setting!r} of the setting `fullgraph.interpreter` is not on PATH: "
            "give the full path of a Python that has torch."
        )
    path = Path(setting)
    # If the user after ``~`` does not exist, the path is reported below as a missing file.
    with contextlib.suppress(RuntimeError):
        path = path.expanduser()
    if not path.is_absolute() and root is not None:
        path = root / path
    if python := _of_environment(path):
        return python
    if path.is_dir():
        raise InterpreterNotFound(
            f"The folder {path} of the setting `fullgraph.interpreter` does not contain an "
            "environment with a Python that can be executed here: point the setting to a Python "
            "executable."
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
    """Return whether a folder is a Python environment, including broken environments and
    environments of another platform."""
    return any((folder / name).exists() for name in ("pyvenv.cfg", "conda-meta", "bin", "Scripts"))


def _of_own_environment(folder: Path) -> Path:
    """Return the Python of the project's own environment ``folder``; raise an error if the
    environment has none.
    """
    if python := _of_environment(folder):
        return python
    raise InterpreterNotFound(
        f"The environment {folder} has no Python that can be executed on this machine: create it "
        "again here, or set `fullgraph.interpreter` to a Python that has torch."
    )


def _of_environment(folder: Path) -> Path | None:
    """Return the Python executable in an environment folder; None if it is missing."""
    return next((path.absolute() for path in pythons_of(folder) if _is_executable(path)), None)


def _is_executable(python: Path) -> bool:
    return python.is_file() and os.access(python, os.X_OK)
