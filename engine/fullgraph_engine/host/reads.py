"""Which files a process that executes a text has read: what it did follows from them as well."""

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


class Unfound(importlib.abc.MetaPathFinder):
    """Last in ``sys.meta_path``: notes where a module was looked for that nobody has found."""

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
    """Those of one process since this was made, and of each that is forked off it.

    ``path`` is the file whose text is executed in place of what is on disk: saving it changes
    nothing. ``scratch`` is the folder of the engine, where nothing lasts.
    """

    def __init__(self, path: str, user_path: list[str], scratch: str) -> None:
        self._path, self._user_path, self._scratch = path, user_path, scratch
        self.open_files: Collection[str] = ()
        """Those of which the same holds: that they were read is told, and not what they are."""
        self._before = frozenset(sys.modules)
        self._last = next(reversed(sys.modules.items()))
        self.unfound = Unfound()
        self.opened: set[str] = set()
        """Also folders whose entries were listed, and what has an editor's text."""
        self.discarded: Collection[str] = ()
        """Files that the process itself has changed: what it read there was its own."""
        self._told: set[str] = set()

    def states(self) -> tuple[FileState, ...]:
        """The files as they are now; of installed packages, other than the one that the text is in,
        only their folders."""
        return tuple(map(self._state, sorted(self._names())))

    def untold(self) -> tuple[FileState, ...]:
        """Those that were not given before."""
        new = self._names() - self._told
        self._told |= new
        return tuple(map(self._state, sorted(new)))

    def _state(self, name: str) -> FileState:
        return FileState(name, OPEN, OPEN) if name in self.open_files else file_state(name)

    def _names(self) -> set[str]:
        loaded = self._loaded()
        installed = [entry for entry in self._user_path if entry.endswith(INSTALLED)]
        beneath = (*installed, _STANDARD)
        # Others that user code opens may be gone by then, and threads may open some meanwhile.
        files = {_abspath(_source(name)) for name in list(self.opened)}
        files.update(_files(loaded))
        files.discard(self._path)
        files.difference_update(self.discarded)
        around = next(
            (_package(self._path, entry) for entry in installed if self._path.startswith(entry)), ""
        )
        own = {
            name
            for name in files
            if not name.startswith((*_UNREAL, self._scratch))
            and (not name.startswith(beneath) or (around and name.startswith(around)))
            and (name in self._told or _exists(name))
        }
        return {*own, *installed, *self.unfound.places}

    def _loaded(self) -> list[object]:
        """Modules that are new, which stand behind those that were there.

        The others are not looked at: in a forked process that would copy the memory they are in.
        """
        last, found = self._last, list[object]()
        try:
            for name, module in reversed(sys.modules.items()):
                if name is last[0] and module is last[1]:
                    break
                if name not in self._before:
                    found.append(module)
        except RuntimeError:  # a thread imports something meanwhile
            return self._loaded()
        return found


def _package(path: str, folder: str) -> str:
    """The folder of the outermost package of a path below ``folder``."""
    return f"{folder}/{path[len(folder) :].strip('/').partition('/')[0]}/"


@functools.cache
def _source(name: str) -> str:
    """What bytecode was compiled from; a module that failed is known by that alone."""
    try:
        return source_from_cache(name) if name.endswith(".pyc") else name
    except ValueError:  # it stands in place of the source
        return name


def _files(modules: Iterable[object]) -> Iterator[str]:
    for module in modules:
        try:
            # Not getattr: lazy modules import more when they are asked.
            file = object.__getattribute__(module, "__dict__").get("__file__")
        except AttributeError:
            continue
        if isinstance(file, str):
            yield _abspath(file)
