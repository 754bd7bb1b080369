"""The analysed text as a module of Python's own import system, and what is found around it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import Any

from . import syntax

Executor = Callable[[types.ModuleType], None]


@dataclass(frozen=True)
class Place:
    """Where a text belongs: its module name, and the folders that its imports are looked up in."""

    name: str
    package: bool
    """The file is an ``__init__.py``."""
    search: tuple[str, ...]
    also: tuple[str, ...]
    """Searched after everything else: a file in a package is often run from its own folder."""


def place(path: str, roots: Sequence[str], level: int = 0) -> Place:
    """As Python would import the file: with its packages, from the folder above them.

    ``level`` is the highest number of dots in its relative imports: they need packages, which
    without ``__init__.py`` are namespace packages below a root.
    """
    file = Path(path)
    if not file.is_absolute():
        return Place(_free(_stem(path)), False, tuple(roots), ())
    package = file.name == "__init__.py"
    folder = file.parent
    parents: list[str] = []
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parents.insert(0, folder.name)
        folder = folder.parent
    if not parents and level:
        above = [Path(root) for root in roots if Path(root) in folder.parents]
        top = max(above, key=lambda root: len(root.parts), default=folder)
        for _ in range(max(level, len(folder.parts) - len(top.parts))):
            parents.insert(0, folder.name)
            folder = folder.parent
    search = (*roots, str(folder)) if str(folder) not in roots else tuple(roots)
    if not parents or not all(name.isidentifier() for name in parents):
        return Place(_free(_stem(path)), False, search, ())
    parts = parents if package else [*parents, _stem(path)]
    loaded = sys.modules.get(parents[0])
    if loaded is not None and _file_of(loaded) != str(folder / parents[0] / "__init__.py"):
        return Place(_free(_stem(path)), False, search, (str(file.parent),))
    if ".".join(parts) in sys.modules:  # a module of torch itself
        parts, package = [*parents, f"{_stem(path)}__file"], False
    return Place(".".join(parts), package, search, (str(file.parent),))


def _file_of(module: types.ModuleType) -> str:
    return str(getattr(module, "__file__", None))


def _stem(path: str) -> str:
    name = Path(path).stem if "/" in path or path.endswith(".py") else path
    return "".join(char if char.isalnum() or char == "_" else "_" for char in name) or "module"


def _free(name: str) -> str:
    """A file called ``torch.py`` or ``typing.py`` must not become that module."""
    taken = name in sys.modules or name in sys.stdlib_module_names
    return f"{name}__file" if taken else name


class Source(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds and loads one module: the analysed text, whatever is on disk.

    It stands in ``sys.meta_path``, so that a package whose ``__init__`` imports the file gets the
    text that is being edited, too, and circular imports end as they would for Python.
    """

    def __init__(self, name: str, path: str, text: str, package: bool, execute: Executor) -> None:
        self._name, self._path, self._text = name, path, text
        self._package, self._execute = package, execute

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        spec = ModuleSpec(fullname, self, origin=self._path, is_package=self._package)
        spec.has_location = True
        if self._package:
            spec.submodule_search_locations = [os.path.dirname(self._path)]  # noqa: PTH120
        return spec

    def create_module(self, spec: ModuleSpec) -> types.ModuleType | None:
        return None

    def exec_module(self, module: types.ModuleType) -> None:
        module.__file__ = self._path
        module.__loader__ = self._as_of_python()
        self._execute(module)

    def _as_of_python(self) -> SourceFileLoader:
        """What the module would have been loaded by: its globals are looked at by user code, and by
        Dynamo, which says what it finds there."""
        loader = SourceFileLoader(self._name, self._path)
        vars(loader)["get_source"] = self.get_source
        return loader

    def get_source(self, fullname: str) -> str:
        return self._text

    def is_package(self, fullname: str) -> bool:
        return self._package

    def get_filename(self, fullname: str) -> str:
        return self._path

    def replace(self, text: str) -> None:
        """Go on with another text: a snapshot's next generation."""
        self._text = text
        show(self._path, text)


def show(path: str, text: str) -> None:
    """Let tracebacks and ``inspect`` see the text in place of the file."""
    # No modification time: linecache then never compares with the disk.
    linecache.cache[path] = (len(text), None, syntax.lines_of(text), path)


class _WaitingPackage(types.ModuleType):
    """A package above the file, whose own code runs when something of it is asked for.

    ``from .sibling import f`` needs only the package's folder. Its ``__init__`` may import all of a
    library, or fail for want of something that the file does not use.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        child = f"{self.__name__}.{name}"
        if child in sys.modules or importlib.util.find_spec(child) is not None:
            return importlib.import_module(child)
        spec = self.__spec__
        self.__class__ = types.ModuleType  # type: ignore[assignment]
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module(self)
        return getattr(self, name)


def load_packages(name: str) -> None:
    """Put the packages above a module in place, without running their code before it is needed."""
    parts = name.split(".")[:-1]
    for depth in range(1, len(parts) + 1):
        parent = ".".join(parts[:depth])
        if parent in sys.modules:
            continue
        spec = importlib.util.find_spec(parent)
        if spec is None:
            raise ModuleNotFoundError(f"No module named {parent!r}", name=parent)
        package = _WaitingPackage(parent)
        package.__spec__, package.__loader__ = spec, spec.loader
        package.__package__, package.__file__ = parent, spec.origin
        package.__path__ = list(spec.submodule_search_locations or ())
        sys.modules[parent] = package
        if depth > 1:
            setattr(sys.modules[".".join(parts[: depth - 1])], parts[depth - 1], package)


def load(name: str) -> types.ModuleType:
    module = sys.modules.get(name)
    return module if module is not None else importlib.import_module(name)


def load_alone(name: str, path: str) -> types.ModuleType:
    """Import the module with empty packages above it, so that relative imports still work."""
    parts = name.split(".")[:-1]
    folder = Path(path).parent
    for depth in range(len(parts), 0, -1):
        parent = ".".join(parts[:depth])
        hollow = types.ModuleType(parent)
        hollow.__path__ = [str(folder)]
        hollow.__spec__ = ModuleSpec(parent, None, is_package=True)
        sys.modules[parent] = hollow
        folder = folder.parent
    return importlib.import_module(name)
