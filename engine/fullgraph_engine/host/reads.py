"""Record the files that a process reads while it executes user code, because its results depend on
their contents."""

from __future__ import annotations

import functools
import importlib.abc
import os
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from importlib.util import source_from_cache

from ..protocol.files import OPEN, FileState, file_state
from .import_hook import INSTALLED

_STANDARD = sysconfig.get_path("stdlib")
_UNREAL = ("/proc/", "/dev/", "/sys/")

_abspath, _exists = os.path.abspath, os.path.exists


class UnfoundModules(importlib.abc.MetaPathFinder):
    """A finder at the end of ``sys.meta_path`` that finds no module. It records the places where
    Python searched for a missing module.

    If a file is created at such a place later, the results become outdated.
    """

    def __init__(self) -> None:
        self.places: set[str] = set()

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: object = None
    ) -> ModuleSpec | None:
        name = fullname.rpartition(".")[2]
        for folder in sys.path if path is None else path:
            if not folder.endswith(INSTALLED):
                self.places.update((f"{folder}/{name}", f"{folder}/{name}.py"))
        return None


class Reads:
    """The files that this process, and the processes it was forked from, have read since the object
    was created.

    ``path`` is the analyzed file, which is left out because its text comes from the editor.
    ``scratch``, the engine's own folder, is left out too.
    """

    def __init__(self, path: str, user_path: list[str], scratch: str) -> None:
        self._path, self._user_path, self._scratch = path, user_path, scratch
        self.open_files: Collection[str] = ()
        """Paths of files open in the editor. If user code reads one of them, only its path is
        reported, because its state on disk does not matter."""
        self._before = frozenset(sys.modules)
        self._last = next(reversed(sys.modules.items()))
        self.unfound = UnfoundModules()
        self.opened: set[str] = set()
        """Paths that user code opened, including listed folders and files with unsaved text in the
        editor."""
        self.discarded: Collection[str] = ()
        """Paths of files changed by the process itself, whose changes do not make its results
        outdated."""
        self._told: set[str] = set()

    def set_path(self, path: str) -> None:
        """Set the path of the analyzed file, in a process forked for another file."""
        self._path = path

    def imported_files(self) -> frozenset[str]:
        """Return the paths of the files that were imported as modules."""
        return frozenset(_module_files(self._new_modules()))

    def file_states(self) -> tuple[FileState, ...]:
        """Return the current state (such as the modification time) of every file read.

        For installed packages, only the folders are included, except for the package that contains
        the analyzed file.
        """
        return tuple(map(self._state, sorted(self._read_names())))

    def new_states(self) -> tuple[FileState, ...]:
        """Return the states of the files that earlier calls did not return."""
        new = self._read_names() - self._told
        self._told |= new
        return tuple(map(self._state, sorted(new)))

    def _state(self, name: str) -> FileState:
        return FileState(name, OPEN, OPEN) if name in self.open_files else file_state(name)

    def _read_names(self) -> set[str]:
        loaded = self._new_modules()
        installed = [entry for entry in self._user_path if entry.endswith(INSTALLED)]
        beneath = (*installed, _STANDARD)
        # Files opened by user code may be deleted, and threads may open more during the iteration.
        files = {_abspath(_source_path(name)) for name in list(self.opened)}
        files.update(_module_files(loaded))
        files.discard(self._path)
        files.difference_update(self.discarded)
        around = next(
            (
                _outermost_package(self._path, entry)
                for entry in installed
                if self._path.startswith(entry)
            ),
            "",
        )
        own = {
            name
            for name in files
            if not name.startswith((*_UNREAL, self._scratch))
            and (not name.startswith(beneath) or (around and name.startswith(around)))
            and (name in self._told or _exists(name))
        }
        return {*own, *installed, *self.unfound.places}

    def _new_modules(self) -> list[object]:
        """Return newly imported modules, which come last in ``sys.modules``.

        Older modules are not accessed: in a forked process that would copy their memory pages.
        """
        last, found = self._last, list[object]()
        try:
            for name, module in reversed(sys.modules.items()):
                if name is last[0] and module is last[1]:
                    break
                if name not in self._before:
                    found.append(module)
        except RuntimeError:  # a thread imported a module during the iteration
            return self._new_modules()
        return found


def _outermost_package(path: str, folder: str) -> str:
    """Return the folder directly below ``folder`` in which ``path`` lies."""
    return f"{folder}/{path[len(folder) :].strip('/').partition('/')[0]}/"


@functools.cache
def _source_path(name: str) -> str:
    """Return the source file for the path of a bytecode file; any other path is returned
    unchanged."""
    try:
        return source_from_cache(name) if name.endswith(".pyc") else name
    except ValueError:  # bytecode without a source file
        return name


def _module_files(modules: Iterable[object]) -> Iterator[str]:
    for module in modules:
        try:
            # Avoid getattr, because lazy modules import more on attribute access.
            file = object.__getattribute__(module, "__dict__").get("__file__")
        except AttributeError:
            continue
        if isinstance(file, str):
            yield _abspath(file)
