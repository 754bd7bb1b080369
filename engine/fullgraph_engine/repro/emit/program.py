"""A program under construction: its statements, the names they bind, and notes for the reader."""

from __future__ import annotations

import ast
import copy
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TypeVar

from ...placeholder import Placeholder, error_of_use
from ...targets.probes import unwrap_compiled
from ..inputs.store import TensorStore
from ..reduce.program import format_tree
from . import definitions, effects, ordering, paths, sources, values
from .printer import ProgramBuilder
from .sources import ResolvedName
from .unwritable import UnwritableValue

THIRD_PARTY_LINES = 400
"""Maximum number of lines to copy from a third-party package; beyond it, the generated program
imports the package.
"""

T = TypeVar("T")


class _LineLimitExceeded(Exception):
    """Raised if a definition needs more than ``THIRD_PARTY_LINES`` lines of its package."""


class ProgramDraft(ProgramBuilder):
    """A program under construction, which recreates values and copies the definitions they use."""

    def __init__(self, store: TensorStore | None = None) -> None:
        super().__init__(store)
        self._definitions: deque[definitions.WantedDefinition] = deque()
        self._values: deque[tuple[ResolvedName, str]] = deque()
        self._kept: dict[int, tuple[object, str]] = {}
        self._depth = 0
        self._limit: int | None = None

    # -- interface for writers ----------------------------------------------------------------

    def expressions(self, several: Sequence[object], hints: Sequence[str] = ()) -> list[str]:
        texts: dict[int, str] = {}
        rest: list[int] = []
        self._depth += 1
        try:
            for index, value in enumerate(several):
                if definitions.is_referable(value):
                    texts[index] = self.path_of_thing(value)
                else:
                    rest.append(index)
            names = [hints[index] if index < len(hints) else "value" for index in rest]
            written = values.write_expressions(self, [several[index] for index in rest], names)
            texts.update(zip(rest, written, strict=True))
        finally:
            self._depth -= 1
        if not self._depth:
            self._write_queued()
        return [texts[index] for index in range(len(several))]

    def refer_to(self, thing: object) -> str:
        outermost = not self._depth
        self._depth += 1
        try:
            path = self.path_of_thing(thing)
            if outermost:
                self._write_queued(root=path)
        finally:
            self._depth -= 1
        return path

    def method(self, owner: type, name: str) -> str:
        self._depth += 1
        try:
            text = definitions.method_text(self, owner, name)
        finally:
            self._depth -= 1
        if not self._depth:
            self._write_queued()
        return text

    def text(self, calls: Sequence[str]) -> str:
        """Return the source text of the generated program, with the statements ``calls`` at the
        end.
        """
        self._write_queued()
        self._add_effects()
        ending = ast.parse("\n".join(calls)).body
        used: set[str] = set()
        for node in ending:
            piece = ordering.analyze_statement(node)
            used |= piece.eager | piece.lazy
        kept = ordering.select_needed(self._state.pieces, used)
        for piece in kept:
            used |= piece.eager | piece.lazy
        body = [piece.node for piece in ordering.sort_pieces(kept)]
        heads = [text for text, name in self._state.imports.items() if name in used]
        lines = ["import torch", *sorted(heads, key=lambda one: (one.startswith("from"), one))]
        return format_tree(ast.Module([*ast.parse("\n".join(lines)).body, *body, *ending], []))

    def append(self, node: ast.stmt, *, is_effect: bool = False) -> None:
        super().append(node, is_effect=is_effect)
        self._state.operators |= effects.operator_namespaces(node)
        if self._limit is not None:
            self._state.lines += len(ast.unparse(node).splitlines())
            if self._state.lines > self._limit:
                raise _LineLimitExceeded

    # -- names --------------------------------------------------------------------------------

    def path(
        self, found: ResolvedName, attributes: Sequence[str], hidden: Collection[str]
    ) -> tuple[str, int]:
        path, covered = self._path_of_name(found, attributes, hidden)
        head, dot, rest = path.partition(".")
        if head in hidden:
            other = self.fresh_name(head, hidden)
            self.append(ast.parse(f"{other} = {head}").body[0])
            path = other + dot + rest
        return path, covered

    def _path_of_name(
        self, found: ResolvedName, attributes: Sequence[str], hidden: Collection[str]
    ) -> tuple[str, int]:
        value = found.value
        if id(value) in self._aliases:
            return self._aliases[id(value)], 0
        if isinstance(value, types.ModuleType):
            return self._path_through_module(value, found.name, attributes, hidden)
        known = self._state.keys.get(found.key)
        if known is None:
            known = self._state.keys[found.key] = self._new_path(found, hidden)
        return known, 0

    def _new_path(self, found: ResolvedName, hidden: Collection[str]) -> str:
        value = found.value
        if type(value) is Placeholder:
            name = self.fresh_name(found.name, hidden)
            self._add_placeholder(name, str(error_of_use(value)))
            return name
        origin = definitions.import_of(found)
        if origin is not None:
            module, name = origin
            if sources.origin_of(module) in ("torch", "standard"):
                return self._library_path(module, name, value)
            source = sys.modules.get(module)
            if source is not None and vars(source).get(name, Placeholder) is value:
                home = sources.home_of(vars(source))
                third = home.origin == "third-party"
                spelling = found.spelling or ((module, name) if third else None)
                inner = ResolvedName(value, (id(vars(source)), name), name, home, spelling)
                return self._path_of_name(inner, (), hidden)[0]
        if definitions.is_referable(value) or definitions.is_defined(found):
            return self.path_of_thing(value, found, hidden)
        named = self.written.name_of(value)
        if named is None:
            named = self.fresh_name(found.name, hidden)
            self._values.append((found, named))
        return named

    def _path_through_module(
        self,
        module: types.ModuleType,
        name: str,
        attributes: Sequence[str],
        hidden: Collection[str],
    ) -> tuple[str, int]:
        """Return an expression that reads a chain of attributes starting at a module.

        Return also the number of ``attributes`` that the expression reads; it may stop before the
        last. ``name`` is the module's name in the generated program. ``hidden`` are names that the
        expression must not use, because local variables have the same names.
        """
        depth = 0
        inner = module
        while depth < len(attributes):
            following = vars(inner).get(attributes[depth])
            if not isinstance(following, types.ModuleType):
                break
            inner, depth = following, depth + 1
        if self._is_imported(inner) or depth == len(attributes):
            path = self._import_module(module, name)
            if inner is module or sources.origin_of(inner.__name__) != "torch":
                return path, 0
            return self._import_module(inner, name), depth
        attribute = attributes[depth]
        try:
            value = getattr(inner, attribute)
        except AttributeError:
            return self._import_module(module, name), 0
        space = vars(inner)
        home = sources.home_of(space) if attribute in space else None
        found = ResolvedName(value, (id(space), attribute), attribute, home)
        path, covered = self._path_of_name(found, attributes[depth + 1 :], hidden)
        return path, depth + 1 + covered

    def _is_imported(self, module: types.ModuleType) -> bool:
        """Whether the generated program imports a module, instead of copying its definitions."""
        origin = sources.origin_of(module.__name__, getattr(module, "__file__", None))
        if origin in ("torch", "standard"):
            return True
        return sources.has_compiled_parts(module.__name__.partition(".")[0])

    # -- functions, classes and modules -------------------------------------------------------

    def path_of_thing(
        self, thing: object, found: ResolvedName | None = None, avoid: Collection[str] = ()
    ) -> str:
        thing = _uncompiled_original(thing)
        if id(thing) in self._aliases:
            return self._aliases[id(thing)]
        known = self._state.things.get(id(thing)) or self._kept.get(id(thing))
        if known is not None:
            return known[1]
        if isinstance(thing, types.ModuleType):
            return self._import_module(thing, thing.__name__.rpartition(".")[2])
        if isinstance(thing, types.MethodType) and isinstance(thing.__self__, type):
            return f"{self.path_of_thing(thing.__self__)}.{thing.__func__.__name__}"
        public = paths.public_path(thing)
        if public is not None:
            return self._library_path(*public, thing)
        wanted = definitions.describe_definition(thing, found)
        if isinstance(wanted.inside, type):
            # A method or a nested class is an attribute of the class that defines it.
            return f"{self.path_of_thing(wanted.inside)}.{wanted.hint}"
        if wanted.origin == "third-party":
            return self._third_party_path(wanted, avoid)
        return self._queue_definition(wanted, avoid)

    def _queue_definition(
        self, wanted: definitions.WantedDefinition, avoid: Collection[str] = ()
    ) -> str:
        name = self.fresh_name(wanted.hint, avoid)
        self._state.things[id(wanted.thing)] = (wanted.thing, name)
        if wanted.found is not None:
            self._state.keys[wanted.found.key] = name
        self._definitions.append(replace(wanted, name=name))
        return name

    def _third_party_path(
        self, wanted: definitions.WantedDefinition, avoid: Collection[str]
    ) -> str:
        if sources.has_compiled_parts(wanted.module.partition(".")[0]):
            return self._keep_import(wanted, "its package has compiled parts")
        if self._limit is not None:
            return self._queue_definition(wanted, avoid)
        back, waiting = self._make_checkpoint(), (self._definitions, self._values)
        self._definitions, self._values = deque(), deque()
        self._limit = self._state.lines + THIRD_PARTY_LINES
        try:
            name = self._queue_definition(wanted, avoid)
            self._write_queued(root=name)
            return name
        except _LineLimitExceeded:
            reason = f"a copy needs more than {THIRD_PARTY_LINES} lines of its package"
        except UnwritableValue as error:
            reason = error.reason
        finally:
            self._limit = None
            self._definitions, self._values = waiting
        back()
        return self._keep_import(wanted, reason)

    def _keep_import(self, wanted: definitions.WantedDefinition, reason: str) -> str:
        """Import a definition that cannot be copied, and note the ``reason``; return its name."""
        module, name = wanted.module, wanted.qualified
        if wanted.found is not None and wanted.found.spelling is not None:
            module, name = wanted.found.spelling
        if paths.resolve_path(module, name) is not wanted.thing:
            raise UnwritableValue(reason)
        top, dot, rest = name.partition(".")
        statement = f"from {module} import {top}"
        if wanted.name and not rest:
            local = wanted.name
            self._state.imports[statement + ("" if local == top else f" as {local}")] = local
        else:
            local = self._import_name(statement, top)
        self.note(f"`{statement}` is kept: {reason}")
        path = local + dot + rest
        self._kept[id(wanted.thing)] = (wanted.thing, path)
        return path

    # -- imports ------------------------------------------------------------------------------

    def _library_path(self, module: str, name: str, value: object) -> str:
        """Return the dotted name by which the program refers to a value of torch or the standard
        library.
        """
        public = paths.public_path(value)
        if public is not None:
            module, name = public
        if module == "builtins":
            return name
        return f"{self._import_dotted(module)}.{name}"

    def _import_module(self, module: types.ModuleType, hint: str) -> str:
        name = module.__name__
        origin = sources.origin_of(name, getattr(module, "__file__", None))
        if origin in ("torch", "standard"):
            if origin == "standard" and name in ("posixpath", "ntpath"):
                name = "os.path"
            return self._import_dotted(name)
        if origin == "own":
            self.note(f"`import {name}` is kept: the module itself is used as a value")
        else:
            self.note(f"`import {name}` is kept: a third-party module cannot be inlined")
        if hint == name:
            return self._import_name(f"import {name}", name)
        return self._import_name(f"import {name} as {{}}", hint)

    def _import_dotted(self, module: str) -> str:
        top = module.partition(".")[0]
        if top == "torch":
            if paths.needs_import(module) and module in sys.modules:
                self._state.imports.setdefault(f"import {module}", "torch")
            return module
        # `import a` and `import a.b` bind the same name.
        local = self._state.keys.get((0, top))
        if local is None:
            local = self._state.keys[0, top] = self.fresh_name(top)
        if local == top:
            self._state.imports[f"import {module}"] = top
            return module
        if module == top:
            self._state.imports[f"import {module} as {local}"] = local
            return local
        return self._import_name(f"import {module} as {{}}", module.rpartition(".")[2])

    def _import_name(self, statement: str, name: str) -> str:
        """Add an import statement; return the name it binds, which is renamed if it is taken."""
        known = self._state.keys.get((0, statement))
        if known is not None:
            return known
        local = self.fresh_name(name)
        text = statement.format(local)
        if text == statement and local != name:
            text += f" as {local}"
        self._state.imports[text] = local
        self._state.keys[0, statement] = local
        return local

    def _make_checkpoint(self) -> Callable[[], None]:
        """Return a function that resets the generated program to its present state."""
        state, written = _copy_collections(self._state), _copy_collections(self.written)
        waiting = [(queue, len(queue)) for queue in (self._definitions, self._values)]

        def back() -> None:
            self._state, self.written = _copy_collections(state), _copy_collections(written)
            for queue, length in waiting:
                while len(queue) > length:
                    queue.pop()

        return back

    # -- queued definitions and values --------------------------------------------------------

    def _write_queued(self, root: str = "") -> None:
        """Write the queued definitions of functions and classes, then the queued values.

        Functions come first because they decide which attributes of the values are needed. If the
        definition named ``root`` cannot be written, the error propagates. A placeholder replaces
        any other definition that cannot be written.
        """
        self._depth += 1
        try:
            while self._definitions or self._values:
                if self._definitions:
                    self._write_definition(self._definitions.popleft(), root)
                else:
                    self._write_assignment(*self._values.popleft())
        finally:
            self._depth -= 1

    def _write_definition(self, wanted: definitions.WantedDefinition, root: str) -> None:
        back = self._make_checkpoint()
        try:
            definitions.write_definition(self, wanted)
        except UnwritableValue as error:
            back()
            if self._limit is not None:
                raise
            try:
                path = self._keep_import(wanted, error.reason)
            except UnwritableValue:
                if wanted.name == root:
                    raise error from None
                self._add_placeholder(wanted.name, error.reason)
                return
            if path != wanted.name:
                self.append(ast.parse(f"{wanted.name} = {path}").body[0])

    def _write_assignment(self, found: ResolvedName, name: str) -> None:
        back = self._make_checkpoint()
        named = self.written.name_of(found.value)
        try:
            if definitions.is_better_copied(found):
                raise UnwritableValue("")
            text = named or values.write_expressions(self, [found.value], [name])[0]
        except UnwritableValue as error:
            back()
            try:
                if not definitions.copy_binding(self, found):
                    raise error
            except UnwritableValue as second:
                back()
                self._add_placeholder(name, second.reason or error.reason)
            return
        if text != name:
            self.append(ast.parse(f"{name} = {text}").body[0])
        if named is None and _has_identity(found.value):
            self.written.name(found.value, name)

    def _add_placeholder(self, name: str, reason: str) -> None:
        """Bind a name to None because its value cannot be written; the generated program may work
        without it.

        ``reason`` is for a note to the reader.
        """
        self.note(f"`{name}` is left out: {reason}")
        self.append(ast.parse(f"{name} = None").body[0])

    def _add_effects(self) -> None:
        """Add the module-level statements of the user's modules whose effects the generated program
        needs.
        """
        while True:
            count = len(self._state.pieces)
            for home in list(self._state.homes.values()):
                back = self._make_checkpoint()
                try:
                    effects.copy_effects(self, home, self._state.operators)
                    self._write_queued()
                except UnwritableValue as error:
                    back()
                    self._state.homes.pop(id(home.namespace), None)
                    self.note(f"statements of `{home.name}` are left out: {error.reason}")
            if len(self._state.pieces) == count:
                return


def _uncompiled_original(thing: object) -> object:
    """Return the function or module passed to ``torch.compile``; return other values unchanged."""
    if isinstance(thing, type) or getattr(thing, "_torchdynamo_disable", False) is True:
        return thing
    if isinstance(thing, (types.FunctionType, types.MethodType)):
        return unwrap_compiled(thing)
    return thing


def _copy_collections(holder: T) -> T:
    """Return a shallow copy of an object, in which lists, dicts and sets of attributes are copied
    too.
    """
    other = copy.copy(holder)
    for name, value in vars(holder).items():
        if isinstance(value, (set, dict, list)):
            setattr(other, name, type(value)(value))
    return other


def _has_identity(value: object) -> bool:
    return not isinstance(
        value, (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))
    )
