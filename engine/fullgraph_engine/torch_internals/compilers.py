"""Programs and packages that Inductor needs to build kernels: a C++ compiler, and Triton for GPUs.

Nothing is started: the checks look for files and packages only.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from .backends import inductor_config

_MACOS_TOOLS = ("/Library/Developer/CommandLineTools", "/Applications/Xcode.app")
_LINUX_COMMANDS = (
    ("apt-get", "`sudo apt install g++`"),
    ("dnf", "`sudo dnf install gcc-c++`"),
    ("zypper", "`sudo zypper install gcc-c++`"),
    ("pacman", "`sudo pacman -S gcc`"),
    ("apk", "`sudo apk add g++`"),
)
"""Package managers of Linux, each with the command that installs a C++ compiler."""


@dataclass(frozen=True)
class MissingCompiler:
    """A compiler that Inductor needs for a device and that is not installed.

    ``install`` is the command, or a short instruction, that installs it.
    """

    name: str
    device: str
    install: str


def find_missing_compilers(devices: Collection[str]) -> tuple[MissingCompiler, ...]:
    """Return the compilers that Inductor lacks for code on these device types (``cpu``,
    ``cuda``)."""
    missing = []
    if (not devices or "cpu" in devices) and not _has_cpp_compiler():
        missing.append(MissingCompiler("a C++ compiler", "the CPU", _install_command()))
    if "cuda" in devices and importlib.util.find_spec("triton") is None:
        package = "triton-windows" if sys.platform == "win32" else "triton"
        missing.append(MissingCompiler("Triton", "CUDA", f"`pip install {package}`"))
    return tuple(missing)


def _has_cpp_compiler() -> bool:
    names = [name for name in inductor_config().cpp.cxx if name]
    if sys.platform == "win32":
        names.append("cl")
    found = [path for path in map(shutil.which, names) if path is not None]
    if sys.platform == "darwin":
        # `/usr/bin/clang++` exists without the tools, and then only offers to install them.
        has_tools = any(Path(folder).exists() for folder in _MACOS_TOOLS)
        return any(has_tools or not path.startswith("/usr/bin/") for path in found)
    return bool(found)


def _install_command() -> str:
    if sys.platform == "darwin":
        return "`xcode-select --install`"
    if sys.platform == "win32":
        return (
            "the workload Desktop development with C++ of Visual Studio Build Tools, then start "
            "the editor from its Developer Command Prompt"
        )
    commands = (words for program, words in _LINUX_COMMANDS if shutil.which(program))
    return next(commands, "g++ or clang++, with the package manager of your system")
