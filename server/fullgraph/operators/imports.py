"""Resolve names of a text to paths in torch, through its imports and assignments.

An example is ``F = torch.nn.functional``.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

from .scopes import Binding, NameScope, ScopeFinder, is_bound_inside
from .text import StatementTokens, TextPlace, TokenizedText, is_dotted_name, is_name

ROOT = "torch"
_MAX_ALIASES = 8


@dataclass(frozen=True)
class BoundName:
    """The statements that bind a name, and the one that applies at a certain use of the name."""

    scope: NameScope
    """Innermost scope that binds the name."""
    bindings: tuple[Binding, ...]
    """All bindings of the name in its scope, except fallbacks such as ``x = None`` for a failed
    import."""
    chosen: Binding
    """Binding, among ``bindings``, that applies where the name is used."""


class Imports:
    """The imports and aliases of a text, which may have syntax errors."""

    def __init__(self, text: str) -> None:
        self.source = TokenizedText.for_text(text)
        self.scopes = ScopeFinder(self.source)

    @classmethod
    def for_text(cls, text: str) -> Imports:
        """Return the imports of a text; the last four texts are cached."""
        return _cached_imports(text)

    def resolve_name(self, dotted: str, offset: int | None = None) -> str | None:
        """Return the path in torch that a dotted name means at an offset.

        Without an offset, the name is resolved at the end of the module. Returns None for names
        outside of torch. Whether torch has the path is not checked.
        """
        root, dot, rest = dotted.partition(".")
        place = None if offset is None else self.source.place_at(offset)
        if place is None:
            place = TextPlace(StatementTokens("", (), ()), len(self.source.firsts) - 1, 0)
        token = max(place.code.last_before(offset + 1), 0) if offset is not None else 0
        found = self.resolve_root(root, place, token)
        return None if found is None else found + dot + rest

    def find_binding(self, name: str, place: TextPlace, token: int) -> BoundName | None:
        """Find the statements that bind a name used at a token; None if the text does not bind
        it.
        """
        scopes = self.scopes.scopes_at(place, token)
        code = place.code
        offset = code.starts[token] if token < len(code) else len(self.source.text)
        return self._find_in_scopes(name, scopes, offset)

    def resolve_root(self, name: str, place: TextPlace, token: int) -> str | None:
        """Return the path in torch that a name without dots means at a token; None if it is not
        part of torch."""
        if is_shadowed(place, token, name):
            return None
        found = self.find_binding(name, place, token)
        return (
            None
            if found is None
            else self.resolve_binding(found, self.scopes.scopes_at(place, token))
        )

    def resolve_binding(self, bound: BoundName, scopes: Sequence[NameScope]) -> str | None:
        """Return the path in torch that a bound name means, through aliases such as ``t = torch``;
        None outside of torch.

        ``scopes`` are the scopes where the name is used, outermost first.
        """
        return self._follow_aliases(bound, scopes, _MAX_ALIASES)

    def star_modules(self, place: TextPlace, token: int) -> tuple[str, ...]:
        """Return the modules of torch whose members ``import *`` makes visible at a token."""
        return tuple(
            module
            for scope in reversed(self.scopes.scopes_at(place, token))
            for module in scope.stars
            if is_torch(module)
        )

    def _find_in_scopes(
        self, name: str, scopes: Sequence[NameScope], offset: int
    ) -> BoundName | None:
        for depth, scope in enumerate(reversed(scopes)):
            if depth and scope.kind == "class":
                continue
            if bindings := scope.bindings.get(name):
                strong = [binding for binding in bindings if not binding.is_fallback] or list(
                    bindings
                )
                chosen = strong[-1]
                if not depth:
                    before = [binding for binding in strong if binding.offset <= offset]
                    chosen = before[-1] if before else strong[0]
                return BoundName(scope, tuple(strong), chosen)
        return None

    def _follow_aliases(
        self, bound: BoundName, scopes: Sequence[NameScope], aliases_left: int
    ) -> str | None:
        binding = bound.chosen
        if binding.kind == "import":
            return binding.path if is_torch(binding.path) else None
        if binding.kind != "value" or binding.code is None or not aliases_left:
            return None
        tokens = binding.code.tokens[binding.first : binding.last + 1]
        if not is_dotted_name(tokens) or not is_name(tokens[0]):
            return None
        # In `x = x.y`, the `x` on the right is the previous value.
        inner = scopes[: scopes.index(bound.scope) + 1] if bound.scope in scopes else scopes
        found = self._find_in_scopes(tokens[0], inner, binding.offset - 1)
        if found is None or found.chosen is binding:
            return None
        path = self._follow_aliases(found, inner, aliases_left - 1)
        return None if path is None else path + "".join(tokens[1:])


def is_torch(path: str) -> bool:
    """Whether a dotted path is ``torch`` or begins with ``torch.``, as ``torch.nn`` does."""
    return path == ROOT or path.startswith(ROOT + ".")


def is_shadowed(place: TextPlace, token: int, name: str) -> bool:
    """Whether a comprehension or lambda around a token binds ``name``, and so hides outer
    bindings."""
    if token < len(place.code) and is_bound_inside(place.code, token, name):
        return True
    outer = place.outer
    if outer is None or not place.code.starts:
        return False
    at = outer.code.last_before(place.code.starts[0])
    return at >= 0 and is_shadowed(outer, at, name)


@functools.lru_cache(maxsize=4)
def _cached_imports(text: str) -> Imports:
    return Imports(text)
