"""Import hooks that make Python import the editor's unsaved text of files instead of the files on
disk."""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from typing import Any

from ..protocol import OpenFile
from . import syntax

INSTALLED = ("site-packages", "dist-packages")
"""Names of folders that packages are installed in."""

Executor = Callable[[types.ModuleType], None]


@dataclass(frozen=True)
class ModulePlace:
    """The name under which Python would import a file as a module, and the folders to search for
    its imports."""

    name: str
    package: bool
    """True if the file is an ``__init__.py``."""
    search: tuple[str, ...]
    beside: str = ""
    """Folder of a file inside a package, appended to ``sys.path`` for imports of neighboring files
    by their bare names; empty for none."""


def locate_module(
    path: str, roots: Sequence[str], user_path: Sequence[str] = (), tree: ast.Module | None = None
) -> ModulePlace:
    """Return the module name and the search path with which Python would import the file ``path``.

    ``roots`` are folders of the project to search first. ``user_path`` is the interpreter's own
    ``sys.path``. ``tree`` is the syntax tree of the file. Folders without ``__init__.py`` count as
    namespace packages if the file's imports need that.
    """
    file = Path(path)
    if not file.is_absolute():
        return ModulePlace(_unused_name(_module_stem(path)), False, tuple(roots))
    package = file.name == "__init__.py"
    installed = _editable_name(file)
    if installed and installed not in sys.modules:
        return ModulePlace(installed, package, tuple(roots), str(file.parent))
    folder = file.parent
    parents: list[str] = []
    while (folder / "__init__.py").is_file() and folder.name.isidentifier():
        parents.insert(0, folder.name)
        folder = folder.parent
    spaces = _namespace_folders(folder, len(parents), roots, user_path, tree)
    parents = [*spaces, *parents]
    for _ in spaces:
        folder = folder.parent
    search = tuple(dict.fromkeys((*roots, str(folder))))
    if not parents or not all(name.isidentifier() for name in parents):
        # For a script, its own folder is searched first, as when Python starts it.
        search = tuple(dict.fromkeys((str(file.parent), *roots)))
        return ModulePlace(_unused_name(_module_stem(path)), False, search)
    parts = parents if package else [*parents, _module_stem(path)]
    beside = str(file.parent)
    loaded = sys.modules.get(parents[0])
    if loaded is not None and not _is_at(loaded, folder / parents[0]):
        return ModulePlace(_unused_name(_module_stem(path)), False, search, beside)
    if ".".join(parts) in sys.modules:  # the name of a module that torch itself uses
        parts, package = [*parents, f"{_module_stem(path)}__file"], False
    if loaded is None and not _is_first(folder / parents[0], (*search, *user_path)):
        search = tuple(dict.fromkeys((str(folder), *search)))
    return ModulePlace(".".join(parts), package, search, beside)


def _editable_name(file: Path) -> str:
    """Return the module name of a file that belongs to an editable install with a mapping of
    packages to folders; otherwise an empty string.

    setuptools creates such a mapping if the name of a folder differs from its package.
    """
    for finder in sys.meta_path:
        owner = sys.modules.get(getattr(finder, "__module__", ""))
        mapping = getattr(owner, "MAPPING", None)
        for name, folder in mapping.items() if isinstance(mapping, dict) else ():
            if Path(folder) in file.parents:
                parts = list(file.relative_to(folder).with_suffix("").parts)
                if parts[-1] == "__init__":
                    parts.pop()
                if all(part.isidentifier() for part in parts):
                    return ".".join([name, *parts])
    return ""


def _namespace_folders(
    folder: Path,
    packages: int,
    roots: Sequence[str],
    user_path: Sequence[str],
    tree: ast.Module | None,
) -> list[str]:
    """Return the names of the folders that must be namespace packages (packages without
    ``__init__.py``) so that the file's imports work.

    ``tree`` is the syntax tree of the file, and ``packages`` is the number of packages between
    ``folder`` and the file. Python looks for modules in ``roots`` and ``user_path``. The result
    ends with ``folder``; it is empty if no folder must be one.
    """
    search = (*roots, *user_path)
    if str(folder) in search:
        return []
    above = [Path(entry) for entry in search if Path(entry) in folder.parents]
    top = max(above, key=lambda entry: len(entry.parts), default=None)
    names = list(folder.relative_to(top).parts) if top is not None else []
    if top is None or not all(name.isidentifier() for name in names):
        names = []
    level = syntax.relative_level(tree) if tree is not None else 0
    named = bool(names) and tree is not None and names[0] in syntax.imported_names(tree)
    installed = str(top).endswith(INSTALLED)
    count = 0
    if installed or level > packages or (top and named and _is_first(top / names[0], search)):
        count = max(len(names), level - packages)
    return list(folder.parts[len(folder.parts) - count :])


def _is_at(module: types.ModuleType, folder: Path) -> bool:
    if _file_of(module) == str(folder / "__init__.py"):
        return True
    # A namespace package has a path but not a file.
    return str(folder) in list(getattr(module, "__path__", ()))


def _is_first(folder: Path, search: Sequence[str]) -> bool:
    """Whether Python, which searches the folders ``search`` in order, imports this folder and no
    other package with its name."""
    spec = PathFinder.find_spec(folder.name, list(search))
    return spec is None or str(folder) in list(spec.submodule_search_locations or ())


def _file_of(module: types.ModuleType) -> str:
    return str(getattr(module, "__file__", None))


def _module_stem(path: str) -> str:
    name = Path(path).stem if "/" in path or path.endswith(".py") else path
    return "".join(char if char.isalnum() or char == "_" else "_" for char in name) or "module"


def _unused_name(name: str) -> str:
    """Return ``name``, or a changed name if a module of that name exists.

    A user's file ``torch.py`` must not replace the real ``torch``.
    """
    taken = name in sys.modules or name in sys.stdlib_module_names
    return f"{name}__file" if taken else name


class TextImporter(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """An import hook that loads one module from the editor's text instead of from the file on disk.

    It is in ``sys.meta_path``, so that a package whose ``__init__`` imports the file gets the
    edited text too. Circular imports behave as they do in Python.
    """

    def __init__(
        self,
        name: str,
        path: str,
        text: str,
        package: bool,
        execute: Executor,
        looked_for: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._name, self._path, self._text = name, path, text
        self._package, self._execute = package, execute
        self._looked_for = looked_for
        """Callback that gets the name of each module that Python searches for, before it is
        loaded."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname != self._name:
            self._looked_for(fullname)
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
        """Return the loader that Python would put into the module's globals, since user code and
        Dynamo inspect them."""
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
        """Use the new version ``text`` of the file from now on, in a process that was forked to
        execute it."""
        self._text = text
        cache_source(self._path, text)


class OpenTexts(importlib.abc.MetaPathFinder):
    """An import hook that loads the modules open in an editor from their unsaved texts, except the
    analyzed file."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.loaded: set[str] = set()
        """Paths of the open files that were imported, successfully or not."""
        self._names: frozenset[str] = frozenset()

    def replace(self, files: Iterable[OpenFile]) -> None:
        """Replace the set of files open in the editor. Modules that were already imported stay
        unchanged."""
        self.texts = {file.path: file.text for file in files}
        self._names = frozenset(map(_module_name, self.texts))

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: types.ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname.rpartition(".")[2] not in self._names:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        text = self.texts.get(spec.origin or "") if spec is not None else None
        if spec is None or text is None or not isinstance(spec.loader, SourceFileLoader):
            return None
        self.loaded.add(str(spec.origin))
        spec.loader = _OpenTextLoader(fullname, str(spec.origin), text)
        return spec


class _OpenTextLoader(SourceFileLoader):
    def __init__(self, fullname: str, path: str, text: str) -> None:
        super().__init__(fullname, path)
        self._text = text

    def get_source(self, fullname: str) -> str:
        return self._text

    def get_code(self, fullname: str) -> types.CodeType:
        cache_source(self.path, self._text)
        code: types.CodeType = self.source_to_code(self._text, self.path)
        return code


def _module_name(path: str) -> str:
    file = Path(path)
    return file.parent.name if file.stem == "__init__" else file.stem


def cache_source(path: str, text: str) -> None:
    """Make tracebacks and ``inspect`` show ``text`` as the source of ``path``, instead of the file
    on disk."""
    # Without a modification time, linecache never compares the entry with the disk.
    linecache.cache[path] = (len(text), None, syntax.lines_of(text), path)


class FailedPackage(types.ModuleType):
    """A module that replaces a parent package whose code raised an exception.

    It has the names that were bound before the exception. Access to any other name raises
    ``AttributeError`` with ``reason``.
    """

    reason = ""
    line = 0
    """Zero-based line of the analyzed file where the failure was reported."""

    def __getattr__(self, name: str) -> Any:
        child = f"{self.__name__}.{name}"
        if child in sys.modules or importlib.util.find_spec(child) is not None:
            return importlib.import_module(child)
        raise AttributeError(
            f"`{child}` is not available, because importing its package failed ({self.reason})",
            name=name,
            obj=self,
        )


def failed_package(error: BaseException) -> FailedPackage | None:
    """Return the ``FailedPackage`` (a replacement for a package that raised) whose missing name
    caused ``error``; None for other errors."""
    owner: object = None
    if isinstance(error, AttributeError):
        owner = error.obj
    elif isinstance(error, ImportError):
        owner = sys.modules.get(error.name or "")
    return owner if isinstance(owner, FailedPackage) else None


def load_module(name: str) -> types.ModuleType:
    """Return a module from ``sys.modules``, or import it. Exceptions of the import propagate."""
    module = sys.modules.get(name)
    return module if module is not None else importlib.import_module(name)


def stand_in(name: str, path: str, error: BaseException | None, reason: str, line: int = 0) -> None:
    """Put a ``FailedPackage`` into ``sys.modules`` for each parent package of the module ``name``
    that failed to import.

    ``error`` is the exception of the import; ``reason`` and ``line`` tell users what failed and
    where it was reported.
    """
    left = _left_by(error)
    parts = name.split(".")
    folder = Path(path).parent
    if Path(path).name == "__init__.py":
        folder = folder.parent
    for depth in range(len(parts) - 1, 0, -1):
        parent = ".".join(parts[:depth])
        if parent not in sys.modules:
            package = FailedPackage(parent)
            package.__path__ = [str(folder)]
            package.__spec__ = ModuleSpec(parent, None, is_package=True)
            package.__dict__.update(left.get(parent, {}))
            package.reason, package.line = reason, line
            sys.modules[parent] = package
        folder = folder.parent
    for depth in range(2, len(parts)):
        above = sys.modules[".".join(parts[: depth - 1])]
        setattr(above, parts[depth - 1], sys.modules[".".join(parts[:depth])])


def _left_by(error: BaseException | None) -> dict[str, dict[str, Any]]:
    """Return the global variables of each module that appears in the traceback of ``error``, by
    module name."""
    found: dict[str, dict[str, Any]] = {}
    trace = error.__traceback__ if error is not None else None
    while trace is not None:
        frame = trace.tb_frame
        if frame.f_code.co_name == "<module>":
            found[str(frame.f_globals.get("__name__"))] = frame.f_globals
        trace = trace.tb_next
    return found
