"""Locate the installed torch, torchgen's YAML files and a PyYAML to read them with."""

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
    """Raised if this interpreter does not have torch installed."""


@dataclass(frozen=True)
class TorchSources:
    """The files of the installed torch that the operator index is built from without importing
    torch."""

    torch: Path
    """Folder of the torch package."""
    version: str
    yaml_folder: Path | None
    """Folder of torchgen's YAML files; None if they cannot be read."""
    notes: tuple[str, ...]
    """Sentences for the user about missing sources."""

    def read_text(self, path: str) -> str:
        """Return the text of a file in torch's folder; empty if it does not exist."""
        return _read_or_empty(self.torch / path)

    def read_yaml_list(self, path: str) -> list[Any]:
        """Read a YAML file in ``yaml_folder`` that contains a list.

        Raises:
            OSError: the file cannot be read.
            ValueError: the file does not contain a list.
            yaml.YAMLError: the file does not parse.
        """
        assert self.yaml_folder is not None
        yaml = import_module("yaml")
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        found = yaml.load((self.yaml_folder / path).read_text("utf-8"), Loader=loader)
        if not isinstance(found, list):
            raise ValueError(f"{path} is not a list")
        return found


def find_sources(yaml: Path | None) -> TorchSources:
    """Locate the files of torch and torchgen without importing torch.

    ``yaml`` is a folder with PyYAML for interpreters without it.

    Raises:
        NoTorch: torch is not installed.
    """
    torch = package_folder("torch")
    if torch is None:
        raise NoTorch("This interpreter has no torch")
    notes = []
    packaged = None
    if importlib.util.find_spec("yaml") is None and (
        yaml is None or not make_yaml_importable(yaml)
    ):
        notes.append("PyYAML was not found, so native_functions.yaml was not read.")
    else:
        packaged, note = _find_packaged_yaml(torch)
        notes += [note] if note else []
    return TorchSources(torch, torch_version(torch), packaged, tuple(notes))


def package_folder(name: str) -> Path | None:
    """Return the folder of the package that ``import name`` would load; None if it is not
    installed."""
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return Path(places[0]) if places else None


def _find_packaged_yaml(torch: Path) -> tuple[Path | None, str]:
    folder = package_folder("torchgen")
    if folder is None:
        return (
            None,
            "This torch comes without torchgen, so operators are listed only after "
            "torch is imported.",
        )
    if folder.parent.resolve() != torch.parent.resolve():
        return None, f"torchgen in {folder} does not belong to torch in {torch}, so it is not used."
    code = folder / "packaged" / "autograd" / "gen_python_functions.py"
    packaged = folder / "packaged"
    if not code.exists() or not (packaged / "ATen" / "native" / "native_functions.yaml").exists():
        return None, f"torchgen in {folder} comes without its YAML files."
    return packaged, ""


def torch_version(torch: Path) -> str:
    """Read the version of torch from version.py in its folder ``torch``; empty if it is unknown."""
    found = re.search(
        r"""^__version__\s*=\s*["']([^"']+)""", _read_or_empty(torch / "version.py"), re.M
    )
    return found.group(1) if found else ""


def make_yaml_importable(folder: Path) -> bool:
    """Let ``import yaml`` load PyYAML from a folder, without making the folder's other packages
    importable.

    ``folder`` is the package itself or its parent folder. Returns False if it contains no PyYAML.
    """
    if not (folder / "__init__.py").exists():
        folder = folder / "yaml"
    if not (folder / "__init__.py").exists():
        return False
    sys.meta_path.append(_PackageFinder("yaml", folder))
    return True


class _PackageFinder:
    """A ``sys.meta_path`` finder that finds one package only."""

    def __init__(self, name: str, folder: Path) -> None:
        self._name, self._folder = name, folder

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name != self._name:
            return None  # Submodules are found through the package's own path.
        return PathFinder.find_spec(name, [str(self._folder.parent)])


def _read_or_empty(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
