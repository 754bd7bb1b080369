"""Which names of a text stand for torch and what is in it."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from .scopes import Binding, Scope, Scopes, bound_inside
from .text import Code, SourceText, TextPlace, is_name

ROOT = "torch"
_ALIASES_DEEP = 8


@dataclass(frozen=True)
class Bound:
    """What a root name is where it stands: all bindings of its scope, and the one that counts."""

    scope: Scope
    bindings: tuple[Binding, ...]
    chosen: Binding


class Imports:
    """What the imports and aliases of a text bind, found without parsing it."""

    def __init__(self, text: str) -> None:
        self.source = SourceText.of(text)
        self.scopes = Scopes(self.source)

    @classmethod
    def of(cls, text: str) -> Imports:
        """Of a text whose last few versions are remembered."""
        return _imports(text)

    def resolve(self, dotted: str, offset: int | None = None) -> str | None:
        """The path that a dotted name stands for at an offset, or at the end of the module.

        None where it does not stand for anything in torch. Whether the path exists is for the
        index to say.
        """
        root, dot, rest = dotted.partition(".")
        place = None if offset is None else self.source.place(offset)
        if place is None:
            place = TextPlace(Code("", (), ()), len(self.source.firsts) - 1, 0)
        word = max(place.code.before(offset + 1), 0) if offset is not None else 0
        found = self.root(root, place, word)
        return None if found is None else found + dot + rest

    def bound(self, name: str, place: TextPlace, word: int) -> Bound | None:
        """What binds a name where a word of a place uses it."""
        scopes = self.scopes.around(place, word)
        code = place.code
        offset = code.starts[word] if word < len(code) else len(self.source.text)
        return self._bound(name, scopes, offset)

    def root(self, name: str, place: TextPlace, word: int) -> str | None:
        """The path in torch that a name stands for where a word of a place uses it."""
        if hidden(place, word, name):
            return None
        found = self.bound(name, place, word)
        return None if found is None else self.path(found, self.scopes.around(place, word))

    def path(self, bound: Bound, scopes: Sequence[Scope]) -> str | None:
        """The path in torch that a binding stands for, through aliases."""
        return self._path(bound, scopes, _ALIASES_DEEP)

    def stars(self, place: TextPlace, word: int) -> tuple[str, ...]:
        """The modules of torch from which everything is imported where a word is."""
        return tuple(
            module
            for scope in reversed(self.scopes.around(place, word))
            for module in scope.stars
            if is_torch(module)
        )

    def _bound(self, name: str, scopes: Sequence[Scope], offset: int) -> Bound | None:
        for depth, scope in enumerate(reversed(scopes)):
            if depth and scope.kind == "class":
                continue
            if bindings := scope.bindings.get(name):
                strong = [binding for binding in bindings if not binding.weak] or list(bindings)
                chosen = strong[-1]
                if not depth:
                    before = [binding for binding in strong if binding.offset <= offset]
                    chosen = before[-1] if before else strong[0]
                return Bound(scope, tuple(strong), chosen)
        return None

    def _path(self, bound: Bound, scopes: Sequence[Scope], deep: int) -> str | None:
        binding = bound.chosen
        if binding.kind == "import":
            return binding.path if is_torch(binding.path) else None
        if binding.kind != "value" or binding.code is None or not deep:
            return None
        words = binding.code.words[binding.first : binding.last + 1]
        # A dotted name and nothing else.
        if not all(w.isidentifier() if i % 2 == 0 else w == "." for i, w in enumerate(words)):
            return None
        if not words or len(words) % 2 == 0 or not is_name(words[0]):
            return None
        # The name itself, if it is in the value, is what it was before.
        inner = scopes[: scopes.index(bound.scope) + 1] if bound.scope in scopes else scopes
        found = self._bound(words[0], inner, binding.offset - 1)
        if found is None or found.chosen is binding:
            return None
        path = self._path(found, inner, deep - 1)
        return None if path is None else path + "".join(words[1:])


def is_torch(path: str) -> bool:
    """Whether a dotted path is ``torch`` or something in it."""
    return path == ROOT or path.startswith(ROOT + ".")


def hidden(place: TextPlace, word: int, name: str) -> bool:
    """Whether a comprehension or a lambda around a word means something else by a name."""
    if word < len(place.code) and bound_inside(place.code, word, name):
        return True
    outer = place.outer
    if outer is None or not place.code.starts:
        return False
    at = outer.code.before(place.code.starts[0])
    return at >= 0 and hidden(outer, at, name)


@functools.lru_cache(maxsize=4)
def _imports(text: str) -> Imports:
    return Imports(text)
