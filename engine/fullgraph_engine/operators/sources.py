"""Where the facts are: torch's folder, torchgen's YAML, and a PyYAML to read it with."""

from __future__ import annotations

import importlib.util
import re
import sys
from dataclasses import dataclass
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import Any


class NoTorch(Exception):
    """This interpreter has no torch."""


@dataclass(frozen=True)
class Sources:
    """``packaged`` is torchgen's folder of YAML, None where it cannot be read."""

    torch: Path
    version: str
    packaged: Path | None
    notes: tuple[str, ...]

    def read(self, path: str) -> str:
        """A file of torch as text; empty where there is none."""
        return _text(self.torch / path)

    def yaml(self, path: str) -> list[Any]:
        """A file of torchgen that holds a list.

        Raises:
            OSError, ValueError: there is no such list.
        """
        assert self.packaged is not None
        yaml = import_module("yaml")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        text = (self.packaged / path).read_text("utf-8")
        try:
            found = yaml.load(text, Loader=loader)
        except yaml.YAMLError:
            found = _piecewise(text, yaml, loader)
        if not isinstance(found, list):
            raise ValueError(f"{path} is no list")
        return found


def sources(yaml: Path | None, packaged: Path | None) -> Sources:
    """Find what this interpreter has, without importing torch.

    Raises:
        NoTorch: torch is not installed.
    """
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise NoTorch("This interpreter has no torch")
    torch = Path(next(iter(spec.submodule_search_locations)))
    notes = []
    if importlib.util.find_spec("yaml") is None and (yaml is None or not bring_yaml(yaml)):
        notes.append("There is no PyYAML to read native_functions.yaml with.")
        packaged = None
    else:
        packaged, note = _packaged(torch, packaged)
        notes += [note] if note else []
    return Sources(torch, version_of(torch), packaged, tuple(notes))


def _packaged(torch: Path, given: Path | None) -> tuple[Path | None, str]:
    spec = importlib.util.find_spec("torchgen")
    if spec is None or not spec.submodule_search_locations:
        return None, "This torch comes without torchgen, so operators wait for the running torch."
    folder = Path(next(iter(spec.submodule_search_locations)))
    if folder.parent.resolve() != torch.parent.resolve():
        return None, f"torchgen in {folder} does not belong to torch in {torch}, so it is not used."
    code = folder / "packaged" / "autograd" / "gen_python_functions.py"
    packaged = given or folder / "packaged"
    if not code.exists() or not (packaged / "ATen" / "native" / "native_functions.yaml").exists():
        return None, f"torchgen in {folder} comes without its YAML."
    return packaged, ""


def version_of(torch: Path) -> str:
    """``torch.__version__``, read from the text of torch/version.py."""
    found = re.search(r"""^__version__\s*=\s*["']([^"']+)""", _text(torch / "version.py"), re.M)
    return found.group(1) if found else ""


def bring_yaml(folder: Path) -> bool:
    """Let ``import yaml`` load a PyYAML; nothing beside it becomes importable.

    ``folder`` is the package itself, or the folder that it is in.
    """
    if not (folder / "__init__.py").exists():
        folder = folder / "yaml"
    if not (folder / "__init__.py").exists():
        return False
    sys.meta_path.append(_PackageFinder("yaml", folder))
    return True


class _PackageFinder:
    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._name:
            return None  # Submodules are found through the package's own path.
        return PathFinder.find_spec(name, [str(self._folder.parent)])


def _piecewise(text: str, yaml: Any, loader: Any) -> list[Any]:
    """The items of a list that parse by themselves."""
    found: list[Any] = []
    for item in re.split(r"^(?=- )", text, flags=re.M):
        try:
            parsed = yaml.load(item, Loader=loader)
        except yaml.YAMLError:
            parsed = None
        found += parsed if isinstance(parsed, list) else [None]
    return found


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
