"""Programs of a workspace: files that import another file and do something when executed."""

from __future__ import annotations

import fnmatch
import os
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fullgraph_engine.protocol import Analyze

MOST_PROGRAMS = 3
"""Maximum number of programs run for one file."""
_MOST_FILES = 2_000
"""Maximum number of files to search for imports in one workspace."""
_LONGEST = 500_000
"""Maximum size in bytes of a searched file."""
_DEPTH = 4
"""Maximum length of a chain of imports from a program to the file that it uses."""
_FRESH = 2.0
"""Maximum age in seconds of a workspace's list of files before it is read again."""

_LEFT_OUT = frozenset({"node_modules", "site-packages", "__pycache__", "build", "dist", "venv"})
_IMPORT = re.compile(
    r"(?:^|;)[ \t]*(?:"
    r"from[ \t]+([.\w]+)[ \t]+import[ \t]*(\([^)]*\)|[^#\n;]+)|import[ \t]+([^#\n;]+))",
    re.MULTILINE,
)
_MAIN = re.compile(r"\b__main__\b")
_ACTS = re.compile(
    r"^(?:[A-Za-z_][\w, ]*=[ \t]*)?[A-Za-z_][\w.]*(?:\[[^\]\n]*\])?\(|^(?:for|with|while)\b",
    re.MULTILINE,
)
_CONTINUED = re.compile(r"\\\n")


@dataclass(frozen=True)
class _Source:
    """The imports of a file and what executing it does. Imports are dotted names, relative ones
    with their dots. Two flags say whether executing the file may do something, and whether it has a
    ``__main__`` block."""

    path: str
    modified: int
    imports: frozenset[str]
    acts: bool
    has_main: bool


@dataclass(frozen=True)
class _ImportGraph:
    """The imports between the files of one workspace, by path. Only module names are compared, so a
    name may mean several files."""

    sources: Mapping[str, _Source]
    imported: Mapping[str, Sequence[str]]
    """Files that each file imports."""
    importers: Mapping[str, Sequence[str]]
    """Files that import each file."""

    @classmethod
    def build(cls, sources: Iterable[_Source]) -> _ImportGraph:
        by_path = {one.path: one for one in sources}
        by_name: dict[str, list[str]] = {}
        by_stem: dict[str, list[str]] = {}
        for path in by_path:
            by_stem.setdefault(_stem_of(path), []).append(path)
            for name in _module_names(path):
                by_name.setdefault(name, []).append(path)
        imported: dict[str, list[str]] = {}
        importers: dict[str, list[str]] = {}
        for one in by_path.values():
            found = dict[str, None]()
            for name in one.imports:
                stem = _relative_stem(one, name)
                paths = by_name.get(name) if stem is None else by_stem.get(stem)
                found.update(dict.fromkeys(paths or ()))
            imported[one.path] = list(found)
            for path in found:
                importers.setdefault(path, []).append(one.path)
        return cls(by_path, imported, importers)

    def find_importers(self, path: str) -> Sequence[str]:
        """Return the files that import ``path``, which may be outside of the listed folders."""
        if path in self.sources:
            return self.importers.get(path, ())
        return [one.path for one in self.sources.values() if _imports_file(one, path)]

    def find_imported(self, paths: Iterable[str]) -> frozenset[str]:
        """Return the files that ``paths`` import, directly or through other files."""
        found = set[str]()
        waiting = list(paths)
        while waiting:
            new = [one for one in self.imported.get(waiting.pop(), ()) if one not in found]
            found.update(new)
            waiting += new
        return frozenset(found)


class WorkspacePrograms:
    """A search for the programs that import a file, directly or through other files.

    With ``list_once``, the files of a workspace are listed once, and later files are ignored.
    """

    def __init__(self, *, list_once: bool = False) -> None:
        self._list_once = list_once
        self._sources: dict[str, _Source] = {}
        self._listed: dict[str, tuple[float, _ImportGraph]] = {}

    def find_importers(
        self, path: str, project: Path, patterns: Sequence[str] = ()
    ) -> tuple[str, ...]:
        """Return paths of programs that import ``path``, the most recently changed first, at most
        ``MOST_PROGRAMS``. ``patterns`` are globs relative to the project that limit the programs; a
        pattern after ``!`` excludes its matches."""
        graph = self._graph_of(project)
        wanted, found = [path], dict[str, _Source]()
        for _ in range(_DEPTH):
            names = dict.fromkeys(one for name in wanted for one in graph.find_importers(name))
            wanted = [one for one in names if one not in found]
            if not wanted:
                break
            found.update((one, graph.sources[one]) for one in wanted)
        found.pop(path, None)
        programs = [
            one for one in found.values() if one.acts and _is_chosen(one.path, project, patterns)
        ]
        programs.sort(key=lambda one: (not one.has_main, -one.modified, one.path))
        return tuple(one.path for one in programs[:MOST_PROGRAMS])

    def find_imported(self, paths: Iterable[str], project: Path) -> frozenset[str]:
        """Return the workspace files that ``paths`` import, directly or through other files."""
        return self._graph_of(project).find_imported(paths)

    def _graph_of(self, project: Path) -> _ImportGraph:
        listed = self._listed.get(str(project))
        now = time.monotonic()
        if listed is not None and (self._list_once or now - listed[0] < _FRESH):
            return listed[1]
        sources = [one for one in map(self._read_source, _python_files(project)) if one is not None]
        # Building the graph takes longer than reading the states of unchanged files.
        same = listed is not None and list(listed[1].sources.values()) == sources
        graph = listed[1] if listed is not None and same else _ImportGraph.build(sources)
        self._listed[str(project)] = now, graph
        return graph

    def _read_source(self, path: str) -> _Source | None:
        try:
            state = os.stat(path)  # noqa: PTH116
            known = self._sources.get(path)
            if known is not None and known.modified == state.st_mtime_ns:
                return known
            if state.st_size > _LONGEST:
                return None
            text = Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
        has_main = _MAIN.search(text) is not None
        acts = not _is_test(path) and (has_main or _ACTS.search(text) is not None)
        imports = frozenset(_imported_names(text))
        source = _Source(path, state.st_mtime_ns, imports, acts, has_main)
        self._sources[path] = source
        return source


def with_programs(
    request: Analyze,
    programs: WorkspacePrograms,
    project: Path | None,
    patterns: Sequence[str],
    shown: Iterable[str],
) -> Analyze:
    """Return the trace request, extended by workspace programs that may compile functions of the
    traced file.

    ``programs`` searches the workspace folder ``project``; ``patterns`` are globs that limit the
    search. ``shown`` are paths of other files that show their own findings. The request contains
    only the paths that the programs import, so that a new file does not change all requests.
    """
    if not request.may_run_programs:
        return request
    candidates: tuple[str, ...] = ()
    others = frozenset(shown) - {request.path}
    if project is not None and os.path.isabs(request.path):  # noqa: PTH117
        candidates = programs.find_importers(request.path, project, patterns)
        others &= programs.find_imported((request.path, *candidates), project)
    elsewhere = tuple(sorted(others))
    return replace(
        request, program=replace(request.program, candidates=candidates, elsewhere=elsewhere)
    )


def _python_files(project: Path) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(project):
        folders[:] = sorted(
            name for name in folders if name not in _LEFT_OUT and not name.startswith(".")
        )
        for name in sorted(names):
            if name.endswith(".py"):
                count += 1
                if count > _MOST_FILES:
                    return
                yield os.path.join(folder, name)  # noqa: PTH118


def _imported_names(text: str) -> Iterator[str]:
    """Yield the dotted names that a text imports, with the packages that contain them; relative
    names keep their dots.
    """
    for found in _IMPORT.finditer(_CONTINUED.sub(" ", text)):
        module, names, plain = found.groups()
        if plain is not None:
            for one in plain.split(","):
                yield from _with_packages(one.split()[0] if one.split() else "")
            continue
        yield from _with_packages(module)
        for name in re.sub(r"#[^\n]*", "", names).strip("() \t\n").split(","):
            if name.split():
                joint = "" if module.endswith(".") else "."
                yield f"{module}{joint}{name.split()[0]}"


def _with_packages(name: str) -> Iterator[str]:
    yield name
    while "." in name.lstrip("."):
        name = name.rpartition(".")[0]
        yield name


def _is_test(path: str) -> bool:
    """Return whether pytest or an installer executes the file, so that it is not a program."""
    name = os.path.basename(path)  # noqa: PTH119
    fixed = ("conftest.py", "setup.py", "__init__.py")
    return name.startswith("test_") or name.endswith("_test.py") or name in fixed


def _stem_of(path: str) -> str:
    """Return the path of a module without its suffix; for a package, the path of its folder."""
    return path.removesuffix("/__init__.py").removesuffix(".py")


def _module_names(path: str) -> frozenset[str]:
    """Return the dotted names under which an absolute import may refer to the file at ``path``."""
    parts = _stem_of(path).strip("/").split("/")
    return frozenset(".".join(parts[at:]) for at in range(max(len(parts) - 6, 0), len(parts)))


def _relative_stem(source: _Source, name: str) -> str | None:
    """Return the path, without suffix, of the module that a relative import in ``source`` refers
    to; None for an absolute import."""
    dots = len(name) - len(name.lstrip("."))
    if not dots:
        return None
    # Strings, because creating a path object takes longer than the rest of the search.
    folder = "/".join(source.path.split("/")[:-dots])
    return "/".join((folder, *filter(None, name[dots:].split("."))))


def _imports_file(source: _Source, path: str) -> bool:
    """Return whether a file imports the file at ``path``, judged only by the module names in its
    imports.
    """
    if not _module_names(path).isdisjoint(source.imports):
        return True
    stem = _stem_of(path)
    return any(_relative_stem(source, name) == stem for name in source.imports)


def _is_chosen(path: str, project: Path, patterns: Sequence[str]) -> bool:
    if not patterns:
        return path.startswith(f"{str(project).rstrip('/')}/")
    try:
        name = Path(path).relative_to(project).as_posix()
    except ValueError:
        return False
    excluded = [one[1:] for one in patterns if one.startswith("!")]
    wanted = [one for one in patterns if not one.startswith("!")]
    if any(fnmatch.fnmatch(name, one) for one in excluded):
        return False
    return not wanted or any(fnmatch.fnmatch(name, one) for one in wanted)
