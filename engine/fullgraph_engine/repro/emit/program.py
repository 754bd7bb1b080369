"""One program in the making: statements, the names they bind, and what a reader should know."""

from __future__ import annotations

import ast
import builtins
import copy
import keyword
import sys
import types
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from ...placeholder import Placeholder, describe
from ...targets.probes import unwrap
from ..inputs.loading import NAME as STORED
from ..reduce.program import formatted
from . import definitions, effects, ordering, paths, sources
from .sources import Found, Home, Key
from .unwritable import Unwritable

if TYPE_CHECKING:
    from ..inputs.store import Store
    from .values import NamedValues

THIRD_PARTY_LINES = 400
"""So many lines of another package are inlined; if it needs more it stays an import."""

_RESERVED = frozenset(dir(builtins)) | frozenset(keyword.kwlist) | {"torch", STORED}

T = TypeVar("T")


@dataclass
class _State:
    """What a failed attempt takes back."""

    names: set[str] = field(default_factory=lambda: set(_RESERVED))
    things: dict[int, tuple[object, str]] = field(default_factory=dict)
    keys: dict[Key, str] = field(default_factory=dict)
    pieces: list[ordering.Piece] = field(default_factory=list)
    imports: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    homes: dict[int, Home] = field(default_factory=dict)
    copied: set[int] = field(default_factory=set)
    made: set[Key] = field(default_factory=set)
    """What is bound by copied statements, so that others that change it must be copied, too."""
    operators: set[str] = field(default_factory=set)
    lines: int = 0


@dataclass(frozen=True)
class _Before:
    """How a draft was before an attempt."""

    state: _State
    written: NamedValues | None
    definitions: int
    values: int


class _TooLong(Exception):
    """More lines of other packages than are worth inlining."""


class Draft:
    """Accumulates one program. With a ``store`` its tensors have their real contents."""

    def __init__(self, store: Store | None = None) -> None:
        self.store = store
        self._state = _State()
        self._definitions: deque[definitions.Wanted] = deque()
        self._values: deque[tuple[Found, str]] = deque()
        self._kept: dict[int, tuple[object, str]] = {}
        self._aliases: dict[int, str] = {}
        self._depth = 0
        self._limit: int | None = None
        self._written: NamedValues | None = None

    # -- what others call ---------------------------------------------------------------------

    @property
    def notes(self) -> list[str]:
        return self._state.notes

    @property
    def written(self) -> NamedValues:
        """The values that the program has already."""
        if self._written is None:
            from .values import NamedValues

            self._written = NamedValues()
        return self._written

    def expression(self, value: object, hint: str = "value") -> str:
        """A Python expression for a value; what it needs is added to the program.

        Raises:
            Unwritable: something in it has no source text.
        """
        return self.expressions([value], [hint])[0]

    def expressions(self, several: Sequence[object], hints: Sequence[str] = ()) -> list[str]:
        """Expressions for values that may share objects, as the arguments of one call do.

        Raises:
            Unwritable: something in them has no source text.
        """
        from . import values

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
            written = values.expressions(self, [several[index] for index in rest], names)
            texts.update(zip(rest, written, strict=True))
        finally:
            self._depth -= 1
        if not self._depth:
            self._drain()
        return [texts[index] for index in range(len(several))]

    def named(self, value: object, hint: str = "value") -> str:
        """The variable of the program that holds a value, added where there is none.

        Raises:
            Unwritable: something in it has no source text.
        """
        text = self.expression(value, hint)
        name = self.written.named(value)
        if name is None:
            name = self.fresh(hint)
            self.add(f"{name} = {text}")
            self.written.name(value, name)
        return name

    def refer(self, thing: object) -> str:
        """The name by which a class, function or module can be used in the program.

        Raises:
            Unwritable: it has no source text, and cannot be imported either.
        """
        outermost = not self._depth
        self._depth += 1
        try:
            path = self.path_of_thing(thing)
            if outermost:
                self._drain(root=path)
        finally:
            self._depth -= 1
        return path

    def add(self, statement: str) -> None:
        """Statements keep the order in which they are added, as far as they share values."""
        for node in ast.parse(statement).body:
            self.written.mention(node)
            self.append(node)

    def fresh(self, hint: str, avoid: Collection[str] = ()) -> str:
        """A name that is not used yet, for the caller to bind."""
        stem = "".join(char if char.isalnum() or char == "_" else "_" for char in hint)
        if not stem.isidentifier():
            stem = "value"
        name, number = stem, 0
        while name in self._state.names or name in avoid:
            number += 1
            name = f"{stem}_{number}"
        self._state.names.add(name)
        return name

    def knows(self, thing: object) -> bool:
        """Whether a class or function has a name in the program already."""
        return id(thing) in self._state.things

    def bind(self, thing: object, name: str) -> None:
        """From now on ``name`` stands for a class or function that the caller defines."""
        self._state.names.add(name)
        self._state.things[id(thing)] = (thing, name)

    def define(self, name: str, text: str) -> None:
        """Add a definition under a name that the caller got from ``fresh``."""
        for node in ast.parse(text).body:
            self.append(node)

    def method(self, owner: type, name: str) -> str:
        """The source text of a method as it stands in a class body, with decorators.

        A property's setter comes with it. What the code reaches is added to the program.

        Raises:
            Unwritable: it has no source text.
        """
        self._depth += 1
        try:
            text = definitions.method(self, owner, name)
        finally:
            self._depth -= 1
        if not self._depth:
            self._drain()
        return text

    @contextmanager
    def alias(self, thing: object, name: str) -> Iterator[None]:
        """For the time being ``name`` stands for ``thing``."""
        outer = self._aliases.get(id(thing))
        self._aliases[id(thing)] = name
        try:
            yield
        finally:
            if outer is None:
                del self._aliases[id(thing)]
            else:
                self._aliases[id(thing)] = outer

    def text(self, act: Sequence[str]) -> str:
        """The program, which ends with the statements ``act``."""
        self._drain()
        self._complete()
        ending = ast.parse("\n".join(act)).body
        used: set[str] = set()
        for node in ending:
            part = ordering.piece(node)
            used |= part.eager | part.lazy
        kept = ordering.needed(self._state.pieces, used)
        for part in kept:
            used |= part.eager | part.lazy
        body = [part.node for part in ordering.in_order(kept)]
        heads = [text for text, name in self._state.imports.items() if name in used]
        lines = ["import torch", *sorted(heads, key=lambda one: (one.startswith("from"), one))]
        return formatted(ast.Module([*ast.parse("\n".join(lines)).body, *body, *ending], []))

    # -- what definitions call ----------------------------------------------------------------

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def append(self, node: ast.stmt, *, is_effect: bool = False) -> None:
        self._state.pieces.append(ordering.piece(node, is_effect=is_effect))
        self._state.operators |= effects.namespaces(node)
        if self._limit is not None:
            self._state.lines += len(ast.unparse(node).splitlines())
            if self._state.lines > self._limit:
                raise _TooLong

    def visit(self, home: Home) -> None:
        """The module's own statements may matter, now that something of it is in the program."""
        self._state.homes.setdefault(id(home.namespace), home)

    def mention(self, function: object) -> None:
        """A function's code is in the program: what it speaks of is needed of the values."""
        if isinstance(function, types.FunctionType):
            self.written.mention(function)

    def mark_copied(self, node: ast.AST) -> bool:
        """Whether a statement of some module was not in the program before."""
        if id(node) in self._state.copied:
            return False
        self._state.copied.add(id(node))
        return True

    def key_name(self, key: Key, avoid: Collection[str] = ()) -> str:
        """The name of a variable that a copied statement binds."""
        if key not in self._state.keys:
            self._state.keys[key] = self.fresh(key[1], avoid)
            self._state.made.add(key)
        return self._state.keys[key]

    def makes(self, home: Home, name: str) -> bool:
        """Whether the program has a module's class, function or copied variable."""
        known = self._state.things.get(id(home.namespace.get(name)))
        if known is not None and known[1].isidentifier():
            return True
        return (id(home.namespace), name) in self._state.made

    def path(
        self, found: Found, attributes: Sequence[str], hidden: Collection[str]
    ) -> tuple[str, int]:
        """How the program says a name with its attributes; how many attributes that covers."""
        path, covered = self._path(found, attributes, hidden)
        head, dot, rest = path.partition(".")
        if head in hidden:
            other = self.fresh(head, hidden)
            self.append(ast.parse(f"{other} = {head}").body[0])
            path = other + dot + rest
        return path, covered

    def _path(
        self, found: Found, attributes: Sequence[str], hidden: Collection[str]
    ) -> tuple[str, int]:
        value = found.value
        if id(value) in self._aliases:
            return self._aliases[id(value)], 0
        if isinstance(value, types.ModuleType):
            return self._through(value, found.name, attributes, hidden)
        known = self._state.keys.get(found.key)
        if known is not None:
            return known, 0
        if type(value) is Placeholder:
            return self._absent(found, str(describe(value)), hidden), 0
        origin = definitions.import_of(found)
        if origin is not None:
            module, name = origin
            if sources.origin_of(module) in ("torch", "standard"):
                path = self._outside(module, name, value)
                self._state.keys[found.key] = path
                return path, 0
            source = sys.modules.get(module)
            if source is not None and vars(source).get(name, Placeholder) is value:
                home = sources.home_of(vars(source))
                third = home.origin == "third-party"
                spelling = found.spelling or ((module, name) if third else None)
                inner = Found(value, (id(vars(source)), name), name, home, spelling)
                path = self._path(inner, (), hidden)[0]
                self._state.keys[found.key] = path
                return path, 0
        if definitions.is_referable(value) or definitions.is_defined(found):
            path = self.path_of_thing(value, found, hidden)
            self._state.keys[found.key] = path
            return path, 0
        named = self.written.named(value)
        if named is None:
            named = self.fresh(found.name, hidden)
            self._values.append((found, named))
        self._state.keys[found.key] = named
        return named, 0

    def _through(
        self,
        module: types.ModuleType,
        name: str,
        attributes: Sequence[str],
        hidden: Collection[str],
    ) -> tuple[str, int]:
        """An attribute chain that begins at a module."""
        depth = 0
        inner = module
        while depth < len(attributes):
            following = vars(inner).get(attributes[depth])
            if not isinstance(following, types.ModuleType):
                break
            inner, depth = following, depth + 1
        if self._stays(inner) or depth == len(attributes):
            path = self._import_module(module, name)
            if inner is not module and sources.origin_of(inner.__name__) != "torch":
                return path, 0
            if inner is not module:
                return self._import_module(inner, name), depth
            return path, 0
        attribute = attributes[depth]
        try:
            value = getattr(inner, attribute)
        except AttributeError:
            return self._import_module(module, name), 0
        space = vars(inner)
        home = sources.home_of(space) if attribute in space else None
        found = Found(value, (id(space), attribute), attribute, home)
        path, covered = self._path(found, attributes[depth + 1 :], hidden)
        return path, depth + 1 + covered

    def _stays(self, module: types.ModuleType) -> bool:
        """Whether a module is imported by the program."""
        origin = sources.origin_of(module.__name__, getattr(module, "__file__", None))
        if origin in ("torch", "standard"):
            return True
        return sources.has_compiled_parts(module.__name__.partition(".")[0])

    # -- things -------------------------------------------------------------------------------

    def path_of_thing(
        self, thing: object, found: Found | None = None, avoid: Collection[str] = ()
    ) -> str:
        thing = _original(thing)
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
            return self._outside(*public, thing)
        wanted = definitions.wanted(thing, found)
        if isinstance(wanted.inside, type):
            # A method or an inner class.
            return f"{self.path_of_thing(wanted.inside)}.{wanted.hint}"
        if wanted.origin == "third-party":
            return self._third_party(wanted, avoid)
        return self._want(wanted, avoid)

    def _want(self, wanted: definitions.Wanted, avoid: Collection[str] = ()) -> str:
        name = self.fresh(wanted.hint, avoid)
        self._state.things[id(wanted.thing)] = (wanted.thing, name)
        if wanted.found is not None:
            self._state.keys[wanted.found.key] = name
        self._definitions.append(replace(wanted, name=name))
        return name

    def _third_party(self, wanted: definitions.Wanted, avoid: Collection[str]) -> str:
        if sources.has_compiled_parts(wanted.module.partition(".")[0]):
            return self._keep(wanted, "it is not Python alone")
        if self._limit is not None:
            return self._want(wanted, avoid)
        before, waiting = self._before(), (self._definitions, self._values)
        self._definitions, self._values = deque(), deque()
        self._limit = self._state.lines + THIRD_PARTY_LINES
        try:
            name = self._want(wanted, avoid)
            self._drain(root=name)
            return name
        except _TooLong:
            reason = f"it needs more than {THIRD_PARTY_LINES} lines of its package"
        except Unwritable as error:
            reason = error.reason
        finally:
            self._limit = None
            self._definitions, self._values = waiting
        self._back(before)
        return self._keep(wanted, reason)

    def _keep(self, wanted: definitions.Wanted, reason: str) -> str:
        """Import it, and say so."""
        module, name = wanted.module, wanted.qualified
        if wanted.found is not None and wanted.found.spelling is not None:
            module, name = wanted.found.spelling
        if paths.reach(module, name) is not wanted.thing:
            raise Unwritable(reason)
        top, dot, rest = name.partition(".")
        statement = f"from {module} import {top}"
        if wanted.name and not rest:
            local = wanted.name
            self._state.imports[statement + ("" if local == top else f" as {local}")] = local
        else:
            local = self._import_name(statement, top)
        self.note(f"keeps `{statement}`: {reason}")
        path = local + dot + rest
        self._kept[id(wanted.thing)] = (wanted.thing, path)
        return path

    # -- imports ------------------------------------------------------------------------------

    def _outside(self, module: str, name: str, value: object) -> str:
        """Something of torch or the standard library, by the best path that there is."""
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
            self.note(f"keeps `import {name}`: the module itself is used as a value")
        else:
            self.note(f"keeps `import {name}`: a third-party module that cannot be inlined")
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
            local = self._state.keys[0, top] = self.fresh(top)
        if local == top:
            self._state.imports[f"import {module}"] = top
            return module
        if module == top:
            self._state.imports[f"import {module} as {local}"] = local
            return local
        return self._import_name(f"import {module} as {{}}", module.rpartition(".")[2])

    def _import_name(self, statement: str, name: str) -> str:
        """The name that an import statement binds, which is another one where that is taken."""
        known = self._state.keys.get((0, statement))
        if known is not None:
            return known
        local = self.fresh(name)
        text = statement.format(local)
        if text == statement and local != name:
            text += f" as {local}"
        self._state.imports[text] = local
        self._state.keys[0, statement] = local
        return local

    def _before(self) -> _Before:
        written = None if self._written is None else _copied(self._written)
        waiting = (len(self._definitions), len(self._values))
        return _Before(_copied(self._state), written, *waiting)

    def _back(self, before: _Before) -> None:
        self._state = _copied(before.state)
        self._written = None if before.written is None else _copied(before.written)
        while len(self._definitions) > before.definitions:
            self._definitions.pop()
        while len(self._values) > before.values:
            self._values.pop()

    # -- work ---------------------------------------------------------------------------------

    def _drain(self, root: str = "") -> None:
        """Write what was referred to. Values come last: functions say what is needed of them."""
        self._depth += 1
        try:
            while self._definitions or self._values:
                if self._definitions:
                    self._define(self._definitions.popleft(), root)
                else:
                    self._assign(*self._values.popleft())
        finally:
            self._depth -= 1

    def _define(self, wanted: definitions.Wanted, root: str) -> None:
        before = self._before()
        try:
            definitions.write(self, wanted)
        except Unwritable as error:
            self._back(before)
            if self._limit is not None:
                raise
            try:
                path = self._keep(wanted, error.reason)
            except Unwritable:
                if wanted.name == root:
                    raise error from None
                self._stand_in(wanted.name, error.reason)
                return
            if path != wanted.name:
                self.append(ast.parse(f"{wanted.name} = {path}").body[0])

    def _assign(self, found: Found, name: str) -> None:
        from . import values

        before = self._before()
        named = self.written.named(found.value)
        try:
            if definitions.is_better_copied(found):
                raise Unwritable("")
            text = named or values.expression(self, found.value, name)
        except Unwritable as error:
            self._back(before)
            try:
                if not definitions.copy_binding(self, found):
                    raise error
            except Unwritable as second:
                self._back(before)
                self._stand_in(name, second.reason or error.reason)
            return
        if text != name:
            self.append(ast.parse(f"{name} = {text}").body[0])
        if named is None and isinstance(found.value, object) and _has_identity(found.value):
            self.written.name(found.value, name)

    def _absent(self, found: Found, reason: str, avoid: Collection[str]) -> str:
        name = self.fresh(found.name, avoid)
        self._state.keys[found.key] = name
        self._stand_in(name, reason)
        return name

    def _stand_in(self, name: str, reason: str) -> None:
        """A name that perhaps is never used when the program runs."""
        self.note(f"`{name}` is left out: {reason}")
        self.append(ast.parse(f"{name} = None").body[0])

    def _complete(self) -> None:
        """Add the statements that modules execute besides definitions, where they matter."""
        while True:
            count = len(self._state.pieces)
            for home in list(self._state.homes.values()):
                before = self._before()
                try:
                    effects.copy(self, home, self._state.operators)
                    self._drain()
                except Unwritable as error:
                    self._back(before)
                    self._state.homes.pop(id(home.namespace), None)
                    self.note(f"statements of `{home.name}` are left out: {error.reason}")
            if len(self._state.pieces) == count:
                return


def _original(thing: object) -> object:
    """The function or module that was compiled."""
    if isinstance(thing, type) or getattr(thing, "_torchdynamo_disable", False) is True:
        return thing
    if isinstance(thing, (types.FunctionType, types.MethodType)):
        return unwrap(thing)
    return thing


def _copied(holder: T) -> T:
    """With collections of its own."""
    other = copy.copy(holder)
    for name, value in vars(holder).items():
        if isinstance(value, (set, dict, list)):
            setattr(other, name, type(value)(value))
    return other


def _has_identity(value: object) -> bool:
    return not isinstance(
        value, (bool, int, float, complex, str, bytes, tuple, frozenset, type(None))
    )
