"""Find the files of a project that changes of other files can affect.

Imports are followed name by name: a changed function affects the files whose code uses the
function, and not every file that imports something from the same module. Modules that are found
while a program runs, with ``importlib`` or through a registry, are not followed.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from fullgraph.incremental.alignment import align_versions, parse_text
from fullgraph.incremental.statements import ParsedText

_INIT = "__init__"
_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class ChangedFile:
    """A file of a project with two versions of its text.

    ``path`` is relative to the project, with ``/`` between folders. ``before`` is None for a new
    file, ``after`` for a removed one.
    """

    path: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class _Affected:
    """The names of a module that a change affects; all names if ``everything`` is true."""

    names: frozenset[str] = frozenset()
    everything: bool = False

    def includes(self, name: str) -> bool:
        return self.everything or name in self.names

    def join(self, other: _Affected) -> _Affected:
        return _Affected(self.names | other.names, self.everything or other.everything)


_EVERYTHING = _Affected(everything=True)


@dataclass(frozen=True)
class _Import:
    """One name that a statement imports.

    ``level`` is the number of leading dots of a relative import. ``name`` is the imported name,
    ``*`` for all names, or empty for the module itself. ``bound`` is the name that the statement
    assigns, empty for ``*``. ``statement`` is the index of the top-level statement with the import.
    ``inner`` is true if the import is inside a function or class.
    """

    module: str
    level: int
    name: str
    bound: str
    statement: int
    inner: bool

    @property
    def submodule(self) -> str:
        """Dotted name that the import refers to if ``name`` is a module: `from package import
        module`.
        """
        return f"{self.module}.{self.name}" if self.module else self.name


def find_affected_files(files: Mapping[str, str], changes: Sequence[ChangedFile]) -> frozenset[str]:
    """Return the paths of the files whose traces the changes can affect.

    ``files`` maps the path of each Python file of the project to its current text. Changed files
    count as affected, unless only comments, docstrings or layout differ. If a changed file is a
    program, the files that it imports are affected too, because it may provide their inputs.
    """
    return _Search(files).run(changes)


class _Search:
    """A search for affected files, from changed files to the files that import them."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self._files = files
        self._parsed: dict[str, _ParsedFile | None] = {}
        self._found: set[str] = set()
        self._affected: dict[str, _Affected] = {}
        self._waiting: list[str] = []

    def run(self, changes: Sequence[ChangedFile]) -> frozenset[str]:
        for change in changes:
            affected = _changed_names(change)
            if affected is None:
                continue
            self._add_names(change.path, affected)
            if change.after is not None:
                self._found.add(change.path)
        # Resolving imports needs the paths of all changed files, because removed files count too.
        for path in list(self._found):
            self._add_used_files(path)
        while self._waiting:
            self._visit_importers(self._waiting.pop())
        return frozenset(self._found & self._files.keys())

    def _add_names(self, path: str, more: _Affected) -> None:
        known = self._affected.get(path, _Affected())
        joined = known.join(more)
        if joined != known:
            self._affected[path] = joined
            self._waiting.append(path)

    def _visit_importers(self, path: str) -> None:
        for importer in self._mentions.get(_module_word(path), ()):
            parsed = self._parse(importer)
            if importer != path and parsed is not None:
                statements, names = parsed.find_uses(self._affected_imports(importer, path, parsed))
                if statements:
                    self._found.add(importer)
                if statements or names.names or names.everything:
                    self._add_names(importer, names)

    def _affected_imports(
        self, importer: str, path: str, parsed: _ParsedFile
    ) -> Iterator[tuple[_Import, _Affected]]:
        """Yield (import, affected names) for each import in ``importer`` that the change of the
        file ``path`` affects.

        The names are the changed names that can be accessed through the import. ``parsed`` is the
        parsed text of ``importer``.
        """
        affected = self._affected[path]
        for one in parsed.imports:
            if path in self._resolve(importer, one.module, one.level):
                if one.name in ("", "*"):
                    yield one, affected
                elif affected.includes(one.name):
                    yield one, _EVERYTHING
            elif one.name not in ("", "*") and path in self._resolve(
                importer, one.submodule, one.level
            ):
                yield one, affected

    def _add_used_files(self, path: str) -> None:
        """Add the files that a changed program imports: the program may provide their inputs."""
        parsed = self._parse(path)
        if parsed is None or not parsed.is_program:
            return
        for one in parsed.imports:
            self._found |= self._resolve(path, one.module, one.level)
            self._found |= self._resolve(path, one.submodule, one.level) if one.name else set()

    def _resolve(self, importer: str, module: str, level: int) -> set[str]:
        """Return the files that an import of ``module`` in the file ``importer`` may mean."""
        relative = module.replace(".", "/")
        if level:
            folders = importer.split("/")
            if level > len(folders):
                return set()
            return set(self._module_files("/".join(filter(None, [*folders[:-level], relative]))))
        # The folder that Python searches is unknown: it may be the folder of the importing file, or
        # any of its parent folders, such as `src`.
        return set(self._modules.get(relative, ()))

    def _module_files(self, base: str) -> Iterator[str]:
        for path in (f"{base}.py", f"{base}/{_INIT}.py" if base else f"{_INIT}.py"):
            if path in self._files or path in self._affected:
                yield path

    @cached_property
    def _modules(self) -> Mapping[str, set[str]]:
        """Files by module path: ``a/b/c.py`` has the keys ``a/b/c``, ``b/c`` and ``c``.

        The folder that the project is imported from is unknown.
        """
        found: dict[str, set[str]] = defaultdict(set)
        for path in (*self._files, *self._affected):
            parts = path.removesuffix(".py").removesuffix(f"/{_INIT}").split("/")
            for start in range(len(parts)):
                found["/".join(parts[start:])].add(path)
        return found

    @cached_property
    def _mentions(self) -> Mapping[str, list[str]]:
        """Files by the words that they contain. Only the last part of the name of a module or
        package counts as a word.
        """
        wanted = {_module_word(path) for path in (*self._files, *self._affected)}
        found: dict[str, list[str]] = defaultdict(list)
        for path, text in self._files.items():
            for word in wanted.intersection(_WORD.findall(text)):
                found[word].append(path)
            if "from ." in text:
                # In `from .. import name`, the name of the package does not occur.
                for package in wanted.intersection(path.split("/")[:-1]):
                    if path not in found[package]:
                        found[package].append(path)
        return found

    def _parse(self, path: str) -> _ParsedFile | None:
        if path not in self._parsed:
            text = self._files.get(path)
            parsed = parse_text(text) if text is not None else None
            self._parsed[path] = _ParsedFile(parsed) if parsed is not None else None
        return self._parsed[path]


class _ParsedFile:
    """A file with its imports, and the statements that mention each name."""

    def __init__(self, text: ParsedText) -> None:
        self._text = text

    @cached_property
    def imports(self) -> tuple[_Import, ...]:
        return tuple(
            found
            for number, statement in enumerate(self._text.statements)
            for node in statement.nodes
            for found in _imports_in(node, number)
        )

    @property
    def is_program(self) -> bool:
        """Whether executing the file does more than defining names."""
        roles = {statement.names.role for statement in self._text.statements}
        return "main" in roles

    def find_uses(
        self, imports: Iterable[tuple[_Import, _Affected]]
    ) -> tuple[frozenset[int], _Affected]:
        """Return the statements that use affected imports, and the names of this file that the
        imports affect.

        ``imports`` are imports with the affected names that they provide. An imported module
        affects only statements that mention one of these names.
        """
        direct: set[int] = set()
        names: set[str] = set()
        modules: set[str] = set()
        for one, affected in imports:
            if not one.bound:
                if affected.everything:
                    return frozenset({one.statement}), _EVERYTHING
                names |= affected.names
            elif affected.everything and not one.inner:
                names.add(one.bound)
            else:
                users = {one.statement} if one.inner else self._mentioning[one.bound]
                direct |= {number for number in users if self._mentions_any(number, affected)}
                modules |= {one.bound} if one.name else set()
        direct |= {number for name in names for number in self._mentioning[name]}
        return self.follow_uses(direct, names | modules)

    def follow_uses(
        self, direct: Iterable[int], names: Iterable[str] = ()
    ) -> tuple[frozenset[int], _Affected]:
        """Follow the uses of the statements ``direct``; return (statements, names).

        The statements are ``direct``, and all statements that use them directly or indirectly. The
        names are ``names``, and the names that these statements bind.
        """
        found: set[int] = set()
        bound = set(names)
        waiting = list(direct)
        while waiting:
            number = waiting.pop()
            if number in found:
                continue
            found.add(number)
            binds = self._text.statements[number].names.binds
            bound |= binds
            waiting += (user for name in binds for user in self._mentioning[name])
        everything = any(map(self._acts_on_import, found))
        return frozenset(found), _Affected(frozenset(bound), everything)

    def _acts_on_import(self, number: int) -> bool:
        """Whether the only effect of a statement is to call code at import, which may change any
        name of the module.
        """
        names = self._text.statements[number].names
        return names.role == "other" and not names.binds and bool(names.executed)

    def _mentions_any(self, number: int, affected: _Affected) -> bool:
        if affected.everything:
            return True
        lines = self._text.statements[number].lines
        return any(not affected.names.isdisjoint(_WORD.findall(line)) for line in lines)

    @cached_property
    def _mentioning(self) -> Mapping[str, set[int]]:
        """Indices of the statements, except imports, that mention a name, by name."""
        found: dict[str, set[int]] = defaultdict(set)
        for number, statement in enumerate(self._text.statements):
            # `__all__` names everything that a module exports, but does not use it.
            if statement.names.role != "import" and statement.names.binds != {"__all__"}:
                for name in statement.names.mentions:
                    found[name].add(number)
        return found


def _changed_names(change: ChangedFile) -> _Affected | None:
    """Return the names of the file that a change affects; None if the code is the same."""
    if change.before is None or change.after is None:
        return _EVERYTHING
    before, after = parse_text(change.before), parse_text(change.after)
    if before is None or after is None:
        return _EVERYTHING
    alignment = align_versions(before, after)
    if alignment is None:
        return _EVERYTHING
    if alignment.is_same:
        return None
    _, old = _ParsedFile(before).follow_uses(alignment.changed_before)
    _, new = _ParsedFile(after).follow_uses(alignment.changed_after)
    return old.join(new)


def _imports_in(node: ast.stmt, statement: int) -> Iterator[_Import]:
    inner = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
        return  # imports under ``if TYPE_CHECKING`` are not executed
    for child in ast.walk(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                bound = alias.asname or alias.name.partition(".")[0]
                yield _Import(alias.name, 0, "", bound, statement, inner)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                bound = "" if alias.name == "*" else alias.asname or alias.name
                yield _Import(child.module or "", child.level, alias.name, bound, statement, inner)


def _module_word(path: str) -> str:
    """Return the last part of the dotted name of a file's module."""
    parts = path.removesuffix(".py").split("/")
    return parts[-2] if parts[-1] == _INIT and len(parts) > 1 else parts[-1]
