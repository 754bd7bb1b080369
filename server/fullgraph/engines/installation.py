"""Find the package folders of an interpreter, and whether torch is in them.

This module never imports torch, which takes seconds. Looking at files takes a millisecond; if they
do not decide it, the interpreter executes a short script.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

WINDOWS = os.name == "nt"

PATIENCE = 5.0
"""Maximum seconds until an interpreter answers whether it has torch."""

_YES, _NO = 42, 43
# The script ignores packages in the current folder, as the engine does, and runs on any Python
# version.
_QUESTION = f"""
import os, sys
path = sys.path[:] = [entry for entry in sys.path if entry]
found = any(os.path.exists(os.path.join(entry, "torch", "version.py")) for entry in path)
if not found:
    try:
        from importlib.util import find_spec
        spec = find_spec("torch")
        found = bool(spec and spec.origin and spec.submodule_search_locations)
    except Exception:
        pass
sys.exit({_YES} if found else {_NO})
"""

_VERSIONED = re.compile(r"python(3\.\d+t?)(?:\.exe)?")

# Files that setuptools and virtualenv write into most environments; they add no packages.
_ADDS_NOTHING = frozenset({"distutils-precedence.pth", "_virtualenv.pth"})


def pythons_of(environment: Path, *, windows: bool = WINDOWS) -> tuple[Path, ...]:
    """Return the paths at which an environment may have its Python; conda on Windows has it
    directly in the environment's folder.
    """
    names = ("Scripts/python.exe", "python.exe") if windows else ("bin/python", "bin/python3")
    return tuple(environment / name for name in names)


def prefix_of(python: Path, *, windows: bool = WINDOWS) -> Path:
    """Return the folder of the installation or environment that a Python executable belongs to,
    without resolving links.
    """
    at_the_top = windows and python.parent.name.lower() != "scripts"
    return python.parent if at_the_top else python.parent.parent


def package_folders(prefix: Path, version: str, *, windows: bool = WINDOWS) -> tuple[Path, ...]:
    """Return the folders in which packages may be installed, for the Python in the installation or
    environment ``prefix``.

    ``version`` has the form ``3.12`` or ``3.13t``. The folders include the differently named ones
    of Debian's Python.
    """
    if windows:
        return (prefix / "Lib" / "site-packages",)
    return (
        prefix / "lib" / f"python{version}" / "site-packages",
        prefix / "lib64" / f"python{version}" / "site-packages",
        prefix / "local" / "lib" / f"python{version}" / "dist-packages",
        prefix / "lib" / "python3" / "dist-packages",
    )


def packages_state(python: Path) -> object:
    """Return a value that changes when packages of a Python are installed or removed.

    It consists of the modification times of a few folders, so it can miss changes.
    """
    prefixes = _python_prefixes(python)
    folders = [Path(python), *(prefix / "pyvenv.cfg" for prefix in prefixes)]
    folders += _any_package_folders(prefixes)
    places = [part for folder in folders for part in (folder, folder / "torch")]
    return tuple((str(place), _modified_time(place)) for place in sorted(places))


def _python_prefixes(python: Path) -> set[Path]:
    return {prefix_of(python), prefix_of(Path(os.path.realpath(python)))}


def _any_package_folders(prefixes: Iterable[Path]) -> Iterator[Path]:
    """Yield the existing package folders of all Python versions below ``prefixes``."""
    for pattern in ("lib*/python3*/*-packages", "local/lib/python3*/*-packages", "Lib/*-packages"):
        for prefix in prefixes:
            yield from prefix.glob(pattern)


def torch_folders(python: Path, env: Mapping[str, str]) -> tuple[Path, ...]:
    """Return the folders that may contain an interpreter's torch, with links resolved; empty if a
    ``.pth`` file or import hook provides torch.
    """
    listed = [Path(entry) for entry in env.get("PYTHONPATH", "").split(os.pathsep) if entry]
    folders = (*listed, *_any_package_folders(_python_prefixes(python)))
    found = (Path(os.path.realpath(one / "torch")) for one in folders if _holds_torch(one))
    return tuple(sorted(set(found)))


def file_states(folders: Iterable[Path]) -> Iterator[tuple[str, int, int]]:
    """Yield path, modification time and size of each Python or machine code file in the folders."""
    waiting = [str(folder) for folder in folders]
    while waiting:
        try:
            with os.scandir(waiting.pop()) as entries:
                for entry in sorted(entries, key=lambda one: one.name):
                    if entry.name.endswith((".py", ".so")):
                        found = entry.stat()
                        yield entry.path, found.st_mtime_ns, found.st_size
                    elif entry.name != "__pycache__" and entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
        except OSError:
            continue


def _modified_time(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def has_torch(python: Path, env: Mapping[str, str]) -> bool | None:
    """Return whether an interpreter has torch; None if unknown. Blocks up to ``PATIENCE``
    seconds."""
    found = torch_on_disk(python, env)
    return _ask_python(python, env) if found is None else found


def torch_on_disk(python: Path, env: Mapping[str, str], *, windows: bool = WINDOWS) -> bool | None:
    """Return whether an interpreter has torch, judged by files alone; None if they do not decide
    it.

    The result can only be False for a virtual environment that cannot import packages of its base
    interpreter.
    """
    listed = env.get("PYTHONPATH", "").split(os.pathsep)
    if any(_holds_torch(Path(entry)) for entry in listed if entry):
        return True
    prefix = prefix_of(python, windows=windows)
    environment = VirtualEnvironment.read_config(python.parent) or VirtualEnvironment.read_config(
        prefix
    )
    base = Path(os.path.realpath(python))
    named = _VERSIONED.fullmatch(base.name)
    if environment is None:
        if named is None and not windows:
            return None
        prefix, version = prefix_of(base, windows=windows), named[1] if named else ""
    else:
        version = named[1] if named else environment.version
    folders = package_folders(prefix, version, windows=windows)
    if any(map(_holds_torch, folders)):
        return True
    if environment is None or environment.sees_base or not any(map(Path.is_dir, folders)):
        return None
    return _torch_of_path_files(folders)


@dataclass(frozen=True)
class VirtualEnvironment:
    """The description of a virtual environment in its file ``pyvenv.cfg``."""

    version: str
    """Version of Python, such as ``3.12``; empty if unknown."""
    sees_base: bool
    """True if code in the environment can import packages of its base interpreter."""
    by_uv: bool
    """True if uv made the environment, which then lacks pip."""

    @staticmethod
    def read_config(folder: Path) -> VirtualEnvironment | None:
        try:
            text = (folder / "pyvenv.cfg").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        pairs = (line.partition("=") for line in text.splitlines())
        keys = {key.strip().lower(): value.strip() for key, _, value in pairs}
        version = keys.get("version", keys.get("version_info", ""))
        return VirtualEnvironment(
            ".".join(version.split(".")[:2]),
            keys.get("include-system-site-packages", "").lower() == "true",
            "uv" in keys,
        )


def _torch_of_path_files(folders: tuple[Path, ...]) -> bool | None:
    """Return whether a ``.pth`` file adds a folder that contains torch; None if a ``.pth`` file
    executes code that may add packages."""
    uncertain = False
    try:
        for folder, file in _path_files(folders):
            for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
                if line.startswith(("import ", "import\t")):
                    uncertain = uncertain or file.name not in _ADDS_NOTHING
                elif not line.startswith("#") and _holds_torch(folder / line.strip()):
                    return True
    except OSError:
        uncertain = True
    return None if uncertain else False


def _path_files(folders: tuple[Path, ...]) -> Iterator[tuple[Path, Path]]:
    for folder in folders:
        for file in sorted(folder.glob("*.pth")):
            yield folder, file


def _holds_torch(folder: Path) -> bool:
    try:
        return (folder / "torch" / "version.py").is_file()
    except (OSError, ValueError):
        return False


def _ask_python(python: Path, env: Mapping[str, str]) -> bool | None:
    try:
        ended = subprocess.run(
            [str(python), "-c", _QUESTION],
            env=dict(env),
            # Use the exit status as the answer, because a process that the interpreter started
            # could keep a pipe open.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PATIENCE,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return None
    return {_YES: True, _NO: False}.get(ended.returncode)
