"""Determine statically which torch object, tensor or instance an expression of a text means.

Uses the tokens of the text, its imports, and the types that the last trace recorded.
"""

from __future__ import annotations

import builtins
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from fullgraph_engine.protocol import SeenKind
from fullgraph_engine.protocol.operators import Field, Name, Operator, Overload

from .imports import BoundName, Imports, is_shadowed
from .index import OperatorIndex
from .scopes import Binding, NameScope
from .seen import Seen
from .text import StatementTokens, TextPlace, is_dotted_name, is_name, is_string

Certainty = Literal["certain", "traced", "unambiguous", "guess"]
"""How the code before a name was resolved to a torch object.

``certain``: through imports and aliases. ``traced``: the last trace recorded the type of the
object. ``unambiguous``: only ``torch.Tensor`` has a method of that name. ``guess``: a tensor is
assumed.
"""

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
_MAX_BINDINGS = 12
_MAX_DEPTH = 12


@dataclass(frozen=True)
class TorchValue:
    """The statically known value of an expression.

    Kinds: ``path``: the torch object at ``path``. ``tensor``: a tensor. ``tensors``: the tuple of
    ``fields`` that a call returned. ``instance``: an instance of the class at ``path``. ``self``:
    an instance of the class that the text defines in the statement with the index ``header``.
    ``other``: not a tensor and not part of torch. ``foreign``: an object of another package; for a
    builtin class, ``path`` is its name.
    """

    kind: Literal["path", "tensor", "tensors", "instance", "self", "other", "foreign", "unknown"]
    path: str = ""
    certainty: Certainty = "certain"
    fields: tuple[Field, ...] = ()
    header: int = -1


_UNKNOWN = TorchValue("unknown")
_OTHER = TorchValue("other")
_FOREIGN = TorchValue("foreign")


@dataclass(frozen=True)
class IndexMatch:
    """The result of looking up a dotted name such as ``torch.add`` in the operator index.

    ``name`` is set for functions and classes of torch, ``operator`` for names below ``torch.ops``.
    ``overload`` is set if the dotted name includes an overload, as in
    ``torch.ops.aten.add.Tensor``.
    """

    name: Name | None = None
    operator: Operator | None = None
    overload: Overload | None = None


class ExpressionEvaluator:
    """Evaluates the expressions of one text with an operator index and the types of its last
    trace."""

    def __init__(self, text: str, index: OperatorIndex, seen: Seen) -> None:
        self.imports = Imports.for_text(text)
        self.source = self.imports.source
        self.index = index
        self.seen = seen
        self._busy: set[tuple[int, str]] = set()

    # -- paths --------------------------------------------------------------------------------

    def find_path(self, path: str) -> IndexMatch | None:
        """Return the index entry of a dotted path; None if the index lacks the path.

        Aliases of modules are not followed.
        """
        if path.startswith(OPS + "."):
            namespace, _, rest = path[len(OPS) + 1 :].partition(".")
            name, dot, rest = rest.partition(".")
            operator = self.index.operator(f"{namespace}::{name}") if name else None
            if operator is None:
                return None
            if not dot:
                return IndexMatch(operator=operator)
            overload_name = "" if rest == "default" else rest
            for overload in operator.overloads:
                if overload.name == overload_name:
                    return IndexMatch(operator=operator, overload=overload)
            return None
        found = self.index.target(path)
        return None if found is None else IndexMatch(name=found)

    def canonical_path(self, path: str) -> str:
        """Return the path under which the operator index lists an object, with an alias of its
        module resolved.

        An alias of a class, for example, is replaced by the class. Returns ``path`` itself if the
        index contains it, or if its parent is not an alias.
        """
        parent, dot, leaf = path.rpartition(".")
        if not dot or self.index.entry(path) is not None or path.startswith(OPS + "."):
            return path
        target = self.index.target(parent)
        if target is not None and target.path != parent:
            return f"{target.path}.{leaf}"
        return path

    # -- names --------------------------------------------------------------------------------

    def evaluate_name(self, place: TextPlace, token: int) -> TorchValue:
        """Return the type of the value of a name such as ``x`` or ``x.y``, as far as it is known.

        ``token`` is the index of the last token of the name in the tokens of the file. An unknown
        ``x`` is assumed to be a tensor if tensors have a member ``y``.
        """
        code = place.code
        if code.token_or_empty(token - 1) != ".":
            return self._evaluate_root(place, token, 0)
        receiver = self.evaluate_receiver(place, token - 1)
        return self._member_of(receiver, code.tokens[token], guess=True)

    def evaluate_receiver(self, place: TextPlace, dot: int) -> TorchValue:
        """Evaluate the expression before the dot with the token index ``dot``."""
        return self._evaluate_operand(place, dot - 1, 0)

    def _evaluate_operand(self, place: TextPlace, last: int, depth: int) -> TorchValue:
        code = place.code
        if last < 0 or depth > _MAX_DEPTH:
            return _UNKNOWN
        first = code.operand_start(last)
        if first is None:
            return _OTHER if code.tokens[last][:1].isdigit() else _UNKNOWN
        value, at = self._evaluate_atom(place, first, depth)
        value = self._apply_trace(value, code, first, at)
        while at < last:
            token = code.tokens[at + 1]
            if token == ".":
                at += 2
                value = self._member_of(value, code.tokens[at], guess=False)
            elif token == "(":
                value = self._call_result(value)
                at = code.partner.get(at + 1, last)
            elif token == "[":
                value = self._subscript_result(value, code, at + 1)
                at = code.partner.get(at + 1, last)
            else:
                return _UNKNOWN
            value = self._apply_trace(value, code, first, at)
        return value

    def _evaluate_atom(self, place: TextPlace, first: int, depth: int) -> tuple[TorchValue, int]:
        """Evaluate the first part of an operand, such as ``x`` in ``x.y[0]``.

        Returns its value and the index of its last token.
        """
        code = place.code
        token = code.tokens[first]
        if token == "(":
            closing = code.partner[first]
            return self._evaluate_group(place, first + 1, closing - 1, depth), closing
        if token in "[{":
            return _OTHER, code.partner[first]
        if is_name(token):
            return self._evaluate_root(place, first, depth), first
        return _OTHER, first

    def _evaluate_group(self, place: TextPlace, first: int, last: int, depth: int) -> TorchValue:
        """Evaluate the expression from token ``first`` to ``last``.

        The result of an arithmetic operation is a tensor if one of its operands is a tensor.
        """
        code = place.code
        if last < first:
            return _OTHER
        kind = self.seen.spans.get((code.starts[first], code.end_of(last)))
        if kind is not None:
            return _traced_value(kind)
        bracket = code.parent[first]
        operators = [
            i
            for i in range(first, last + 1)
            if code.parent[i] == bracket and not _is_operand_part(code, i)
        ]
        if any(code.tokens[i] == "," for i in operators):
            return _OTHER
        if not all(code.tokens[i] in _OPERATORS for i in operators):
            return _UNKNOWN
        values = []
        for low, high in zip([first - 1, *operators], [*operators, last + 1], strict=True):
            if low + 1 > high - 1:
                continue  # the operator is a unary sign
            if code.operand_start(high - 1) == low + 1:
                values.append(self._evaluate_operand(place, high - 1, depth + 1))
            else:
                number = code.tokens[low + 1][:1].isdigit()
                values.append(_OTHER if number else _UNKNOWN)
        if len(values) == 1 and not operators:
            return values[0]
        if any(value.kind == "tensor" for value in values):
            return next(value for value in values if value.kind == "tensor")
        return _OTHER if values and all(value.kind == "other" for value in values) else _UNKNOWN

    def _evaluate_root(self, place: TextPlace, token: int, depth: int) -> TorchValue:
        code = place.code
        name = code.tokens[token]
        if not is_name(name):
            return _OTHER
        if is_shadowed(place, token, name):
            return _UNKNOWN
        bound = self.imports.find_binding(name, place, token)
        if bound is None:
            for module in self.imports.star_modules(place, token):
                if self.index.entry(f"{module}.{name}") is not None:
                    return TorchValue("path", f"{module}.{name}")
            found = getattr(builtins, name, None)
            return TorchValue("foreign", path=name) if isinstance(found, type) else _UNKNOWN
        scopes = self.imports.scopes.scopes_at(place, token)
        if (path := self.imports.resolve_binding(bound, scopes)) is not None:
            return TorchValue("path", self.canonical_path(path))
        return self._evaluate_variable(name, bound, depth)

    def _evaluate_variable(self, name: str, bound: BoundName, depth: int) -> TorchValue:
        scope = bound.scope
        if bound.chosen.kind in ("import", "definition"):
            return _FOREIGN
        if scope.kind == "function":
            kind = self.seen.locals.get((scope.qualname, name))
            if kind is not None:
                return _traced_value(kind)
            if (header := self._enclosing_class(scope, bound)) is not None:
                return TorchValue("self", header=header)
        key = (scope.header, name)
        if key in self._busy or depth > _MAX_DEPTH or len(bound.bindings) > _MAX_BINDINGS:
            return _UNKNOWN
        self._busy.add(key)
        try:
            values = [self._evaluate_binding(binding, depth + 1) for binding in bound.bindings]
        finally:
            self._busy.discard(key)
        first = values[0]
        if all(value.kind == "tensor" for value in values):
            return next((value for value in values if value.certainty != "certain"), first)
        if all(value == first for value in values):
            return first
        # An annotation also applies to later assignments, unless their value is known to differ.
        if all(value.kind in ("tensor", "unknown") for value in values):
            for binding, value in zip(bound.bindings, values, strict=True):
                if binding.kind == "annotated" and value.kind == "tensor":
                    return value
            return _UNKNOWN
        return _OTHER if all(value.kind == "other" for value in values) else _UNKNOWN

    def _enclosing_class(self, scope: NameScope, bound: BoundName) -> int | None:
        """Return the class of ``self``, if a variable is the ``self`` of a method.

        The result is the index of the ``class`` statement. ``scope`` is the scope of the method,
        and ``bound`` the variable. Returns None unless the variable is the first parameter of a
        method without ``@staticmethod``.
        """
        source = self.source
        code = source.statement_tokens(scope.header)
        opener = next((i for i, token in enumerate(code.tokens) if token == "("), None)
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
        if source.tokens[source.firsts[statement]] != "class":
            return None
        # The first parameter of a static method is not an instance of the class.
        tokens, before = source.tokens, source.firsts[scope.header - 1]
        return None if tokens[before : before + 2] == ["@", "staticmethod"] else statement

    def _evaluate_binding(self, binding: Binding, depth: int) -> TorchValue:
        code = binding.code
        if code is None or binding.last < binding.first:
            return _UNKNOWN
        statement = self.source.statement_before(binding.offset)
        place = TextPlace(code, statement, self.source.columns[statement])
        if binding.kind == "annotated":
            return self._evaluate_annotation(place, binding.first, binding.last, depth)
        return self._evaluate_group(place, binding.first, binding.last, depth)

    def _evaluate_annotation(
        self, place: TextPlace, first: int, last: int, depth: int
    ) -> TorchValue:
        """Return the value of a variable whose annotation consists of the tokens ``first`` to
        ``last``."""
        code = place.code
        tokens = code.tokens
        if first == last and is_string(tokens[first]):
            inside = tokens[first].strip("\"'")
            if _SHAPED.match(inside):
                return TorchValue("tensor")
            root, dot, rest = inside.strip().partition(".")
            path = self.imports.resolve_root(root, place, first) if root.isidentifier() else None
            return self._instance_of(None if path is None else path + dot + rest)
        union = [
            i for i in range(first, last + 1) if code.parent[i] == code.parent[first]
            and tokens[i] == "|"
        ]  # fmt: skip
        if union:
            edges = [first - 1, *union, last + 1]
            members = [
                self._evaluate_annotation(place, low + 1, high - 1, depth)
                for low, high in itertools.pairwise(edges)
                if low + 1 <= high - 1
            ]
            return next((member for member in members if member.kind == "tensor"), _UNKNOWN)
        if tokens[last] == "]" and (opener := code.partner.get(last)) is not None:
            if self._is_tensor_wrapper(place, first, opener) and opener + 1 < last:
                stop = opener + 1
                while stop + 1 < last and not (
                    tokens[stop + 1] == "," and code.parent[stop + 1] == opener
                ):
                    stop += 1
                return self._evaluate_annotation(place, opener + 1, stop, depth + 1)
            return _UNKNOWN
        if is_dotted_name(tokens[first : last + 1]):
            value = self._evaluate_operand(place, last, depth + 1)
            if value.kind == "path":
                return self._instance_of(value.path)
            # A foreign value with a path is a builtin type, so the variable is an instance of it.
            return _OTHER if value.kind == "foreign" and value.path else _UNKNOWN
        return _UNKNOWN

    def _is_tensor_wrapper(self, place: TextPlace, first: int, opener: int) -> bool:
        """Whether an annotation ``X[Tensor, ...]`` means a tensor, because of ``X``.

        ``X`` must be ``Optional``, ``Union``, ``Annotated``, ``Final`` or a type of jaxtyping.
        ``first`` and ``opener`` are the token indices of ``X`` and its bracket.
        """
        code = place.code
        bound = self.imports.find_binding(code.tokens[first], place, first)
        if bound is None or bound.chosen.kind != "import":
            return False
        path = bound.chosen.path + "".join(code.tokens[first + 1 : opener])
        return path.startswith("jaxtyping.") or path.replace("typing_extensions", "typing") in (
            _WRAPPERS
        )

    def _instance_of(self, path: str | None) -> TorchValue:
        if path is None:
            return _UNKNOWN
        found = self.index.target(path)
        if path == TENSOR or (found is not None and found.path == TENSOR):
            return TorchValue("tensor")
        return TorchValue("instance", path)

    # -- attributes and calls -----------------------------------------------------------------

    def _apply_trace(
        self, value: TorchValue, code: StatementTokens, first: int, last: int
    ) -> TorchValue:
        if value.kind == "path" and self._find_property(value.path) is None:
            return value
        if value.kind == "tensor" and value.certainty == "certain":
            return value
        kind = self.seen.spans.get((code.starts[first], code.end_of(last)))
        return value if kind is None else _traced_value(kind)

    def _find_property(self, path: str) -> Name | None:
        name = self.index.target(path)
        return name if name is not None and name.kind == "property" else None

    def resolve_property(self, value: TorchValue) -> TorchValue:
        """Return the value of an attribute that was looked up in a class: for a property, the value
        that the property returns.

        Values other than properties are returned unchanged.
        """
        if value.kind == "path" and (name := self._find_property(value.path)) is not None:
            return replace(self._return_value(name), certainty=value.certainty)
        return value

    def _member_of(self, receiver: TorchValue, leaf: str, *, guess: bool) -> TorchValue:
        receiver = self.resolve_property(receiver)
        match receiver.kind:
            case "path":
                return TorchValue("path", self.canonical_path(f"{receiver.path}.{leaf}"))
            case "tensor":
                return self._tensor_member(leaf, receiver.certainty)
            case "instance":
                path = f"{receiver.path}.{leaf}"
                return TorchValue("path", path) if self.index.entry(path) is not None else _UNKNOWN
            case "tensors":
                field = next((f for f in receiver.fields if f.name == leaf), None)
                if field is not None and field.type == "Tensor":
                    return TorchValue("tensor", certainty=receiver.certainty)
                return _UNKNOWN
            case "self":
                return self._self_member(receiver.header, leaf)
            case "foreign":
                return _FOREIGN
            case "other":
                return _UNKNOWN
            case "unknown":
                return self._guess_member(leaf, guess)

    def _tensor_member(self, leaf: str, certainty: Certainty) -> TorchValue:
        path = f"{TENSOR}.{leaf}"
        return (
            TorchValue("path", path, certainty) if self.index.entry(path) is not None else _UNKNOWN
        )

    def _self_member(self, header: int, leaf: str) -> TorchValue:
        if self.imports.scopes.defines_name(leaf):
            return _UNKNOWN
        statement = TextPlace(
            self.source.statement_tokens(header), header, self.source.columns[header]
        )
        for code, first, last in self.imports.scopes.base_classes(header):
            if code.operand_start(last) != first:
                continue
            base = self._evaluate_operand(statement, last, 1)
            if base.kind != "path":
                continue
            if self._instance_of(base.path).kind == "tensor":
                return self._tensor_member(leaf, "certain")
            path = f"{base.path}.{leaf}"
            if self.index.entry(path) is not None:
                return TorchValue("path", path)
        return _UNKNOWN

    def _guess_member(self, leaf: str, guess: bool) -> TorchValue:
        """Return the member ``leaf`` of an unknown object, assuming that the object is a tensor.

        The result is unambiguous if only ``torch.Tensor`` has such a member. Otherwise, it is
        unknown unless ``guess`` is true.
        """
        path = f"{TENSOR}.{leaf}"
        if self.index.entry(path) is None:
            return _UNKNOWN
        alone = (
            self.index.paths_ending_with(leaf) == (path,)
            and not any(hasattr(kind, leaf) for kind in _BUILTIN_TYPES)
            and not self.imports.scopes.defines_name(leaf)
        )
        if alone:
            return TorchValue("path", path, "unambiguous")
        return TorchValue("path", path, "guess") if guess else _UNKNOWN

    def _call_result(self, value: TorchValue) -> TorchValue:
        if value.kind != "path":
            return _OTHER if value.kind == "foreign" and value.path else _UNKNOWN
        found = self.find_path(value.path)
        if found is None:
            return _UNKNOWN
        if found.operator is not None:
            overloads = found.operator.overloads if found.overload is None else (found.overload,)
            if overloads and all(_ONE_TENSOR.search(overload.schema) for overload in overloads):
                return TorchValue("tensor", certainty=value.certainty)
            return _UNKNOWN
        name = found.name
        if name is None:
            return _UNKNOWN
        if name.kind == "class":
            return self._instance_of(name.path)
        return replace(self._return_value(name), certainty=value.certainty)

    def _return_value(self, name: Name) -> TorchValue:
        """Return the value of a call of a function; unknown if its signatures return different
        types.
        """
        if not name.signatures:
            return TorchValue("tensor") if _PYTHON_ONE_TENSOR.search(name.python) else _UNKNOWN
        returns = {tuple(f.type for f in signature.returns) for signature in name.signatures}
        if returns == {("Tensor",)}:
            return TorchValue("tensor")
        if len(returns) > 1:
            return _UNKNOWN
        fields = name.signatures[0].returns
        if len(fields) > 1:
            same = all(signature.returns == fields for signature in name.signatures)
            return TorchValue("tensors", fields=fields if same else ())
        return _OTHER if _are_numbers(fields) else _UNKNOWN

    def _subscript_result(
        self, value: TorchValue, code: StatementTokens, opener: int
    ) -> TorchValue:
        value = self.resolve_property(value)
        if value.kind == "tensor":
            return value
        if value.kind == "tensors":
            inside = code.tokens[opener + 1 : code.partner.get(opener, opener + 1)]
            if len(inside) == 1 and inside[0].isdigit():
                at = int(inside[0])
                if at < len(value.fields) and value.fields[at].type == "Tensor":
                    return TorchValue("tensor", certainty=value.certainty)
        return _UNKNOWN


def _is_operand_part(code: StatementTokens, token: int) -> bool:
    spelled = code.tokens[token]
    return code.ends_operand(token) or spelled in ".([{" or spelled[:1].isdigit()


def _are_numbers(fields: Sequence[Field]) -> bool:
    """Whether all values that a call returns are numbers, booleans or None."""
    return all(f.type in ("int", "bool", "float", "SymInt", "None") for f in fields)


def _traced_value(kind: SeenKind) -> TorchValue:
    return TorchValue("tensor", certainty="traced") if kind == "tensor" else _OTHER
