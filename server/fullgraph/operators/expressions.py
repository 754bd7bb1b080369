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
from .text import Code, TextPlace, is_name, is_string

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
_BINDINGS_MANY = 12
_DEEP = 12


@dataclass(frozen=True)
class Value:
    """What an expression stands for.

    ``path``: the thing of torch at ``path``. ``tensor``: a tensor. ``tensors``: a tuple of what a
    call returned, ``fields``. ``instance``: one of the class at ``path``. ``self``: an instance
    of the class that the statement ``header`` defines. ``other``: no tensor and nothing of
    torch's. ``foreign``: a module, class or function from elsewhere, and so are its members; a
    builtin class has its name as ``path``. A path below ``torch.Tensor`` is as certain as its
    receiver.
    """

    kind: Literal["path", "tensor", "tensors", "instance", "self", "other", "foreign", "unknown"]
    path: str = ""
    certainty: Certainty = "certain"
    fields: tuple[Field, ...] = ()
    header: int = -1


_UNKNOWN = Value("unknown")
_OTHER = Value("other")
_FOREIGN = Value("foreign")


@dataclass(frozen=True)
class Found:
    """The entries of an index behind a path."""

    name: Name | None = None
    operator: Operator | None = None
    overload: Overload | None = None


class Expressions:
    """Evaluates expressions of one text against one index and one trace."""

    def __init__(self, text: str, index: OperatorIndex, seen: Seen) -> None:
        self.imports = Imports.of(text)
        self.source = self.imports.source
        self.index = index
        self.seen = seen
        self._busy: set[tuple[int, str]] = set()

    # -- paths --------------------------------------------------------------------------------

    def find(self, path: str) -> Found | None:
        """What the index has under a path."""
        if path.startswith(OPS + "."):
            namespace, _, rest = path[len(OPS) + 1 :].partition(".")
            name, dot, rest = rest.partition(".")
            operator = self.index.operator(f"{namespace}::{name}") if name else None
            if operator is None:
                return None
            if not dot:
                return Found(operator=operator)
            wanted = "" if rest == "default" else rest
            for overload in operator.overloads:
                if overload.name == wanted:
                    return Found(operator=operator, overload=overload)
            return None
        found = self.index.target(path)
        return None if found is None else Found(name=found)

    def canonical(self, path: str) -> str:
        """A path under the name that the index has it by: through aliases of modules and classes
        on the way."""
        parent, dot, leaf = path.rpartition(".")
        if not dot or self.index.entry(path) is not None or path.startswith(OPS + "."):
            return path
        above = self.index.target(parent)
        if above is not None and above.path != parent:
            return f"{above.path}.{leaf}"
        return path

    # -- names --------------------------------------------------------------------------------

    def name(self, place: TextPlace, word: int, *, guess: bool = True) -> Value:
        """What the name that ends with a word stands for: a root, or a member of its receiver."""
        code = place.code
        if code.word(word - 1) != ".":
            return self._root(place, word, 0)
        receiver = self.receiver(place, word - 1)
        return self._member(receiver, code.words[word], guess=guess)

    def receiver(self, place: TextPlace, dot: int) -> Value:
        """What is left of a dot."""
        return self._operand(place, dot - 1, 0)

    def _operand(self, place: TextPlace, last: int, deep: int) -> Value:
        code = place.code
        if last < 0 or deep > _DEEP:
            return _UNKNOWN
        first = code.operand(last)
        if first is None:
            return _OTHER if code.words[last][:1].isdigit() else _UNKNOWN
        value, at = self._atom(place, first, deep)
        value = self._as_seen(value, code, first, at)
        while at < last:
            word = code.words[at + 1]
            if word == ".":
                at += 2
                value = self._member(value, code.words[at], guess=False)
            elif word == "(":
                value = self._called(value)
                at = code.partner.get(at + 1, last)
            elif word == "[":
                value = self._subscript(value, code, at + 1)
                at = code.partner.get(at + 1, last)
            else:
                return _UNKNOWN
            value = self._as_seen(value, code, first, at)
        return value

    def _atom(self, place: TextPlace, first: int, deep: int) -> tuple[Value, int]:
        """The value of an operand without what follows it, and its last word."""
        code = place.code
        word = code.words[first]
        if word == "(":
            closing = code.partner[first]
            return self._group(place, first + 1, closing - 1, deep), closing
        if word in "[{":
            return _OTHER, code.partner[first]
        if is_name(word):
            return self._root(place, first, deep), first
        return _OTHER, first

    def _group(self, place: TextPlace, first: int, last: int, deep: int) -> Value:
        """The value of an expression: an operand, or arithmetic with a tensor."""
        code = place.code
        if last < first:
            return _OTHER
        kind = self.seen.spans.get((code.starts[first], code.end(last)))
        if kind is not None:
            return _seen_value(kind)
        bracket = code.parent[first]
        operators = [
            i
            for i in range(first, last + 1)
            if code.parent[i] == bracket and not _operand_part(code, i)
        ]
        if any(code.words[i] == "," for i in operators):
            return _OTHER
        if not all(code.words[i] in _OPERATORS for i in operators):
            return _UNKNOWN
        values = []
        for low, high in zip([first - 1, *operators], [*operators, last + 1], strict=True):
            if low + 1 > high - 1:
                continue  # a sign
            if code.operand(high - 1) == low + 1:
                values.append(self._operand(place, high - 1, deep + 1))
            else:
                number = code.words[low + 1][:1].isdigit()
                values.append(_OTHER if number else _UNKNOWN)
        if len(values) == 1 and not operators:
            return values[0]
        if any(value.kind == "tensor" for value in values):
            return next(value for value in values if value.kind == "tensor")
        return _OTHER if values and all(value.kind == "other" for value in values) else _UNKNOWN

    def _root(self, place: TextPlace, word: int, deep: int) -> Value:
        code = place.code
        name = code.words[word]
        if not is_name(name):
            return _OTHER
        if hidden(place, word, name):
            return _UNKNOWN
        bound = self.imports.bound(name, place, word)
        if bound is None:
            for module in self.imports.stars(place, word):
                if self.index.entry(f"{module}.{name}") is not None:
                    return Value("path", f"{module}.{name}")
            found = getattr(builtins, name, None)
            return Value("foreign", path=name) if isinstance(found, type) else _UNKNOWN
        scopes = self.imports.scopes.around(place, word)
        if (path := self.imports.path(bound, scopes)) is not None:
            return Value("path", self.canonical(path))
        return self._variable(name, bound, deep)

    def _variable(self, name: str, bound: Bound, deep: int) -> Value:
        scope = bound.scope
        if bound.chosen.kind in ("import", "definition"):
            return _FOREIGN
        if scope.kind == "function":
            kind = self.seen.locals.get((scope.qualname, name))
            if kind is not None:
                return _seen_value(kind)
            if (header := self._class_of(scope, bound)) is not None:
                return Value("self", header=header)
        key = (scope.header, name)
        if key in self._busy or deep > _DEEP or len(bound.bindings) > _BINDINGS_MANY:
            return _UNKNOWN
        self._busy.add(key)
        try:
            values = [self._assigned(binding, deep + 1) for binding in bound.bindings]
        finally:
            self._busy.discard(key)
        first = values[0]
        if all(value.kind == "tensor" for value in values):
            return next((value for value in values if value.certainty != "certain"), first)
        if all(value == first for value in values):
            return first
        # An annotation also stands for what is assigned later, unless that is known to differ.
        if all(value.kind in ("tensor", "unknown") for value in values):
            for binding, value in zip(bound.bindings, values, strict=True):
                if binding.kind == "annotated" and value.kind == "tensor":
                    return value
            return _UNKNOWN
        return _OTHER if all(value.kind == "other" for value in values) else _UNKNOWN

    def _class_of(self, scope: Scope, bound: Bound) -> int | None:
        """The class whose method a scope is, if what is bound is the method's first parameter."""
        source = self.source
        code = source.code(scope.header)
        opener = next((i for i, word in enumerate(code.words) if word == "("), None)
        if opener is None or opener + 1 >= len(code):
            return None
        if bound.chosen.offset != code.starts[opener + 1]:
            return None
        statement = scope.header
        column = source.columns[statement]
        while statement > 0:
            statement -= 1
            if source.columns[statement] < column:
                break
        else:
            return None
        if source.words[source.firsts[statement]] != "class":
            return None
        # A function of the class itself has no instance.
        words, before = source.words, source.firsts[scope.header - 1]
        return None if words[before : before + 2] == ["@", "staticmethod"] else statement

    def _assigned(self, binding: Binding, deep: int) -> Value:
        code = binding.code
        if code is None or binding.last < binding.first:
            return _UNKNOWN
        statement = self.source.statement_before(binding.offset)
        place = TextPlace(code, statement, self.source.columns[statement])
        if binding.kind == "annotated":
            return self._annotation(place, binding.first, binding.last, deep)
        return self._group(place, binding.first, binding.last, deep)

    def _annotation(self, place: TextPlace, first: int, last: int, deep: int) -> Value:
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

    def _wraps(self, place: TextPlace, first: int, opener: int) -> bool:
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
        statement = TextPlace(self.source.code(header), header, self.source.columns[header])
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
