"""What an expression of a text is in terms of torch, as far as its words and the last trace say."""

from __future__ import annotations

import builtins
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fullgraph_engine.protocol import SeenKind
from fullgraph_engine.protocol.operators import Field, Name, Operator, Overload

from .imports import Bound, Imports, hidden
from .index import OperatorIndex
from .scopes import Binding, Scope
from .seen import Seen
from .text import Code, Place, is_name, is_string

Certainty = Literal["certain", "traced", "unambiguous", "guess"]
"""How a name was resolved: through imports and aliases; by what the last trace saw its receiver to
be; because only ``torch.Tensor`` has a method of that name; or for want of anything better."""

TENSOR = "torch.Tensor"
OPS = "torch.ops"

_BUILTIN_TYPES = (
    object, str, bytes, bytearray, int, float, complex, bool, list, tuple, dict, set, frozenset,
    range, slice, type,
)  # fmt: skip
_ONE_TENSOR = re.compile(r"-> Tensor(?:\([^)]*\))?$")
_PYTHON_ONE_TENSOR = re.compile(r"->\s*['\"]?(?:torch\.)?Tensor['\"]?\s*$")
_SHAPED = re.compile(r"\s*(?:f|bf|c|i|u|b)\d+\w*\[")
_WRAPPERS = ("typing.Optional", "typing.Union", "typing.Annotated", "typing.Final")
_OPERATORS = frozenset(
    ("+", "-", "*", "/", "//", "@", "**", "%", "&", "|", "^", "~", "<", ">", "<=", ">=", "==", "!=")
)
        if binding.kind == "annotated":
            return self._annotation(place, binding.first, binding.last, deep)
        return self._group(place, binding.first, binding.last, deep)

    def _annotation(self, place: Place, first: int, last: int, deep: int) -> Value:
        """What a variable with an annotation is."""
        code = place.code
        words = code.words
        if first == last and is_string(words[first]):
            inside = words[first].strip("\"'")
            if _SHAPED.match(inside):
                return Value("tensor")
            root, dot, rest = inside.strip().partition(".")
            path = self.imports.root(root, place, first) if root.isidentifier() else None
            return self._is_tensor(None if path is None else path + dot + rest)
        union = [
            i for i in range(first, last + 1) if code.parent[i] == code.parent[first]
            and words[i] == "|"
        ]  # fmt: skip
        if union:
            edges = [first - 1, *union, last + 1]
            return self._any_tensor(
                [
                    self._annotation(place, low + 1, high - 1, deep)
                    for low, high in itertools.pairwise(edges)
                    if low + 1 <= high - 1
                ]
            )
        if words[last] == "]" and (opener := code.partner.get(last)) is not None:
            if self._wraps(place, first, opener) and opener + 1 < last:
                stop = opener + 1
                while stop + 1 < last and not (
                    words[stop + 1] == "," and code.parent[stop + 1] == opener
                ):
                    stop += 1
                return self._annotation(place, opener + 1, stop, deep + 1)
            return _UNKNOWN
        if all(w.isidentifier() if i % 2 == 0 else w == "." for i, w in
               enumerate(words[first : last + 1])):  # fmt: skip
            value = self._operand(place, last, deep + 1)
            if value.kind == "path":
                return self._is_tensor(value.path)
            # An instance of a builtin type.
            return _OTHER if value.kind == "foreign" and value.path else _UNKNOWN
        return _UNKNOWN

    def _wraps(self, place: Place, first: int, opener: int) -> bool:
        """Whether ``X[Tensor, ...]`` is a tensor: Optional and the like, and jaxtyping's types."""
        code = place.code
        bound = self.imports.bound(code.words[first], place, first)
        if bound is None or bound.chosen.kind != "import":
            return False
        path = bound.chosen.path + "".join(code.words[first + 1 : opener])
        return path.startswith("jaxtyping.") or path.replace("typing_extensions", "typing") in (
            _WRAPPERS
        )

    def _is_tensor(self, path: str | None) -> Value:
        if path is None:
            return _UNKNOWN
        found = self.index.target(path)
        if path == TENSOR or (found is not None and found.path == TENSOR):
            return Value("tensor")
        return Value("instance", path)

    def _any_tensor(self, values: Sequence[Value]) -> Value:
        return next((value for value in values if value.kind == "tensor"), _UNKNOWN)

    # -- steps --------------------------------------------------------------------------------

    def _as_seen(self, value: Value, code: Code, first: int, last: int) -> Value:
        if value.kind == "path" and self._property(value.path) is None:
            return value
        if value.kind == "tensor" and value.certainty == "certain":
            return value
        kind = self.seen.spans.get((code.starts[first], code.end(last)))
        return value if kind is None else _seen_value(kind)

    def _property(self, path: str) -> Name | None:
        name = self.index.target(path)
        return name if name is not None and name.kind == "property" else None

    def settled(self, value: Value) -> Value:
        """What a property returns, in place of the property."""
        if value.kind == "path" and (name := self._property(value.path)) is not None:
            return replace(self._returned(name), certainty=value.certainty)
        return value

    def _member(self, receiver: Value, leaf: str, *, guess: bool) -> Value:
        receiver = self.settled(receiver)
        match receiver.kind:
            case "path":
                return Value("path", self.canonical(f"{receiver.path}.{leaf}"))
            case "tensor":
                return self._of_tensor(leaf, receiver.certainty)
            case "instance":
                path = f"{receiver.path}.{leaf}"
                return Value("path", path) if self.index.entry(path) is not None else _UNKNOWN
            case "tensors":
                field = next((f for f in receiver.fields if f.name == leaf), None)
                if field is not None and field.type == "Tensor":
                    return Value("tensor", certainty=receiver.certainty)
                return _UNKNOWN
            case "self":
                return self._of_self(receiver.header, leaf)
            case "foreign":
                return _FOREIGN
            case "other":
                return _UNKNOWN
            case "unknown":
                return self._of_unknown(leaf, guess)

    def _of_tensor(self, leaf: str, certainty: Certainty) -> Value:
        path = f"{TENSOR}.{leaf}"
        return Value("path", path, certainty) if self.index.entry(path) is not None else _UNKNOWN

    def _of_self(self, header: int, leaf: str) -> Value:
        if self.imports.scopes.defines(leaf):
            return _UNKNOWN
        statement = Place(self.source.code(header), header, self.source.columns[header])
        for code, first, last in self.imports.scopes.bases(header):
            if code.operand(last) != first:
                continue
            base = self._operand(statement, last, 1)
            if base.kind != "path":
                continue
            if self._is_tensor(base.path).kind == "tensor":
                return self._of_tensor(leaf, "certain")
            path = f"{base.path}.{leaf}"
            if self.index.entry(path) is not None:
                return Value("path", path)
        return _UNKNOWN

    def _of_unknown(self, leaf: str, guess: bool) -> Value:
        """A member of nobody knows what, which may be a tensor."""
        path = f"{TENSOR}.{leaf}"
        if self.index.entry(path) is None:
            return _UNKNOWN
        alone = (
            self.index.called(leaf) == (path,)
            and not any(hasattr(kind, leaf) for kind in _BUILTIN_TYPES)
            and not self.imports.scopes.defines(leaf)
        )
        if alone:
            return Value("path", path, "unambiguous")
        return Value("path", path, "guess") if guess else _UNKNOWN

    def _called(self, value: Value) -> Value:
        if value.kind != "path":
            return _OTHER if value.kind == "foreign" and value.path else _UNKNOWN
        found = self.find(value.path)
        if found is None:
            return _UNKNOWN
        if found.operator is not None:
            overloads = found.operator.overloads if found.overload is None else (found.overload,)
            if overloads and all(_ONE_TENSOR.search(overload.schema) for overload in overloads):
                return Value("tensor", certainty=value.certainty)
            return _UNKNOWN
        name = found.name
        if name is None:
            return _UNKNOWN
        if name.kind == "class":
            return self._is_tensor(name.path)
        return replace(self._returned(name), certainty=value.certainty)

    def _returned(self, name: Name) -> Value:
        """What all signatures of a name return."""
        if not name.signatures:
            return Value("tensor") if _PYTHON_ONE_TENSOR.search(name.python) else _UNKNOWN
        returns = {tuple(f.type for f in signature.returns) for signature in name.signatures}
        if returns == {("Tensor",)}:
            return Value("tensor")
        if len(returns) > 1:
            return _UNKNOWN
        fields = name.signatures[0].returns
        if len(fields) > 1:
            same = all(signature.returns == fields for signature in name.signatures)
            return Value("tensors", fields=fields if same else ())
        return _OTHER if _plain(fields) else _UNKNOWN

    def _subscript(self, value: Value, code: Code, opener: int) -> Value:
        value = self.settled(value)
        if value.kind == "tensor":
            return value
        if value.kind == "tensors":
            inside = code.words[opener + 1 : code.partner.get(opener, opener + 1)]
            if len(inside) == 1 and inside[0].isdigit():
                at = int(inside[0])
                if at < len(value.fields) and value.fields[at].type == "Tensor":
                    return Value("tensor", certainty=value.certainty)
        return _UNKNOWN


def _operand_part(code: Code, word: int) -> bool:
    spelled = code.words[word]
    return code.ends_operand(word) or spelled in ".([{" or spelled[:1].isdigit()


def _plain(fields: Sequence[Field]) -> bool:
    """Whether what is returned is nothing at all or a number."""
    return all(f.type in ("int", "bool", "float", "SymInt", "None") for f in fields)


def _seen_value(kind: SeenKind) -> Value:
    return Value("tensor", certainty="traced") if kind == "tensor" else _OTHER
