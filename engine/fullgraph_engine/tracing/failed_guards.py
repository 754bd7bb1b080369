"""Find all guards of earlier compilations that fail for the values of a call.

Dynamo itself stops at the first failing guard. Dynamo's guards form a tree that mirrors the values:
each node is the manager of one value, with the guards of that value and the managers of its
attributes and items. This module checks every value separately. If a value fails, its attributes
and items are skipped.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch

from . import stacks
from .recording import FailedGuard, Guard, GuardFamily, Stack

MAX_FAILED_GUARDS = 64
"""Maximum number of failed guards reported per earlier compilation."""

_STATEFUL = frozenset(
    ("NO_TENSOR_ALIASING", "OBJECT_ALIASING", "STORAGE_OVERLAPPING", "SYMBOLIC_SHAPE_GUARD")
)
"""Classes of guards that remember the values they were called with until the whole tree is
checked.
"""

_REPR_SAFE_TYPES = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
_TENSOR_CHECK = re.compile(
    r"check_tensor\(.*?, (?P<type>\w+), (?P<keys>DispatchKeySet\(.*?\)), (?P<dtype>torch\.\w+), "
    r"device=(?P<device>\S+), requires_grad=(?P<grad>\w+), "
    r"size=\[(?P<size>.*?)\], stride=\[(?P<stride>.*?)\]\)"
)
_FAMILIES: dict[str, GuardFamily] = {
    "EQUALS_MATCH": "value",
    "TRUE_MATCH": "value",
    "FALSE_MATCH": "value",
    "RANGE_ITERATOR_MATCH": "value",
    "FLOAT_IS_NAN": "value",
    "COMPLEX_IS_NAN": "value",
    "NONE_MATCH": "type",
    "NOT_NONE": "type",
    "TYPE_MATCH": "type",
    "FAKE_SCRIPT_TYPE_MATCH": "type",
    "ID_MATCH": "identity",
    "LENGTH_CHECK": "structure",
    "DICT_LENGTH": "structure",
    "DICT_CONTAINS": "structure",
    "DICT_VERSION": "structure",
    "MAPPING_KEYS_MATCH": "structure",
    "SET_CONTAINS": "structure",
    "TUPLE_ITERATOR_LEN": "structure",
    "NO_HASATTR": "structure",
    "GLOBAL_STATE": "mode",
    "DEFAULT_DEVICE": "mode",
    "DUAL_LEVEL_MATCH": "mode",
    "TORCH_FUNCTION_MODE_STACK": "mode",
    "DISPATCH_KEY_SET_MATCH": "tensor",
    "DIMENSION_DYNAMIC_MARKING_GUARD": "tensor",
    "SYMBOLIC_SHAPE_GUARD": "size",
    "LAMBDA_GUARD": "size",
}


def store_guards(manager: Any, guards: Sequence[Guard]) -> None:
    """Store the recorded guards of a compilation on its guard tree, for :func:`find_failed_guards`.

    The user's stack of a guard can then be found. ``manager`` is the root of the tree.
    """
    manager._fullgraph_guards = tuple(guards)


def find_failed_guards(entry: Any, local_values: dict[str, Any]) -> tuple[FailedGuard, ...]:
    """Return the guards of one cache entry (one compilation) that fail for a call, in tree order.

    ``local_values`` are the local variables of the called frame by name.
    """
    manager = entry.guard_manager
    compiled = str(getattr(entry, "compile_id", ""))
    invalidation = getattr(manager, "invalidation_reason", "")
    if invalidation:
        return (FailedGuard(compiled, "identity", "DELETED", "", str(invalidation)),)
    search = _FailedGuardSearch(manager, local_values, compiled)
    search.check_values(manager.root)
    search.check_conditions(manager.root)
    if not search.found:
        search.use_dynamo_check()
    return tuple(search.found[:MAX_FAILED_GUARDS])


class _FailedGuardSearch:
    def __init__(self, manager: Any, local_values: dict[str, Any], compiled: str) -> None:
        self.found: list[FailedGuard] = []
        self._manager = manager
        self._locals = local_values
        self._compiled = compiled
        self._globals = dict(manager.global_scope)
        self._scope = {
            **self._globals,
            **manager.closure_vars,
            "L": local_values,
            "G": manager.global_scope["G"],
        }
        self._expressions: set[str] = set()
        self._origins: dict[tuple[str, str, str], Stack] | None = None

    def check_values(self, manager: Any) -> None:
        source = str(manager.get_source() or "")
        if source in ("", "L"):
            value: Any = self._locals
        else:
            try:
                value = eval(source, self._scope)
            except Exception:
                # The object to which a guard refers no longer has this attribute or item.
                self._add_missing_value(manager, source)
                return
        for leaf in manager.get_leaf_guards():
            if type(leaf).__name__ not in _STATEFUL and not self._check_leaf(leaf, source, value):
                return
        for child in _child_managers(manager):
            if len(self.found) >= MAX_FAILED_GUARDS:
                return
            self.check_values(child)

    def check_conditions(self, root: Any) -> None:
        """Check the conditions on sizes one by one, because a single guard contains many of
        them.
        """
        for leaf in root.get_epilogue_lambda_guards():
            for part in leaf.verbose_code_parts():
                self._check_condition(leaf, part)

    def use_dynamo_check(self) -> None:
        """Add the guard at which Dynamo's own check stops, if separate checks of each value found
        no failing guard.
        """
        info = self._manager.check_verbose(self._locals)
        if info.result:
            return
        stack = stacks.merge_resumed(stacks.stack_of_summary(getattr(info, "user_stack", None)))
        for part in info.verbose_code_parts[:1]:
            expression = _strip_comment(part)
            self._add("other", "CHECK", "", expression, stack=stack)

    # -- one guard ----------------------------------------------------------------------------

    def _check_leaf(self, leaf: Any, source: str, value: Any) -> bool:
        kind = type(leaf).__name__
        try:
            if leaf(value):
                return True
        except Exception:  # the guard does not support a value of this type
            return True
        parts = leaf.verbose_code_parts()
        expression = _strip_comment(parts[0]) if parts else kind
        stack = self._find_stack(kind, source, expression)
        if kind == "TENSOR_MATCH":
            self._add_tensor_differences(source, value, expression, stack)
        elif kind == "LAMBDA_GUARD" and len(parts) > 1:
            for part in parts:
                self._check_condition(leaf, part)
        elif kind == "GLOBAL_STATE":
            changed = _changed_state(leaf, value)
            self._add("mode", kind, "", expression, detail=changed, stack=stack)
        else:
            family = _FAMILIES.get(kind, "other")
            if (
                kind == "LAMBDA_GUARD"
                and ".size()" not in expression
                and ".stride()" not in expression
            ):
                family = "other"
            was, now = _expected_and_actual(kind, expression, value)
            self._add(family, kind, source, expression, was=was, now=now, stack=stack)
        return False

    def _add_missing_value(self, manager: Any, source: str) -> None:
        leaves = manager.get_leaf_guards()
        parts = leaves[0].verbose_code_parts() if leaves else []
        if parts:
            expression = _strip_comment(parts[0])
            stack = self._find_stack(type(leaves[0]).__name__, source, expression)
            self._add("structure", "MISSING", source, expression, now="missing", stack=stack)

    def _check_condition(self, leaf: Any, part: str) -> None:
        expression = _strip_comment(part)
        if expression in self._expressions:
            return
        self._expressions.add(expression)
        try:
            holds = eval(expression, self._scope)
        except Exception:  # the condition uses a value that fails its own guard
            return
        if holds is False or isinstance(holds, str):
            stack = self._find_stack(type(leaf).__name__, "", expression)
            of_tensor = ".size()" in expression or ".stride()" in expression
            family: GuardFamily = "size" if of_tensor else "value"
            source, was = _parse_equality(expression)
            now = str(eval(source, self._scope)) if source else ""
            self._add(family, "SHAPE_ENV", source, expression, was=was, now=now, stack=stack)

    def _add_tensor_differences(
        self, source: str, value: Any, expression: str, stack: Stack
    ) -> None:
        match = _TENSOR_CHECK.search(expression)
        if not isinstance(value, torch.Tensor) or match is None:
            now = type(value).__name__
            self._add(
                "type", "TENSOR_MATCH", source, expression, was="Tensor", now=now, stack=stack
            )
            return
        differences = list(_differences(match, value))
        for family, detail, was, now in differences:
            self._add(
                family,
                "TENSOR_MATCH",
                source,
                expression,
                detail=detail,
                was=was,
                now=now,
                stack=stack,
            )
        if not differences:
            self._add("tensor", "TENSOR_MATCH", source, expression, detail="keys", stack=stack)

    def _add(
        self,
        family: GuardFamily,
        kind: str,
        source: str,
        expression: str,
        *,
        detail: str = "",
        was: str = "",
        now: str = "",
        stack: Stack = (),
    ) -> None:
        self.found.append(
            FailedGuard(self._compiled, family, kind, source, expression, detail, was, now, stack)
        )

    # -- stacks of guards ---------------------------------------------------------------------

    def _find_stack(self, kind: str, source: str, text: str) -> Stack:
        """Return the user's stack at which Dynamo created a guard; empty if it was not recorded.

        ``kind`` is the class of the guard, ``source`` the expression of its value, and ``text`` the
        guard as Dynamo prints it.
        """
        if self._origins is None:
            guards: tuple[Guard, ...] = getattr(self._manager, "_fullgraph_guards", ())
            self._origins = {}
            for guard in guards:
                for expression in ("", *guard.expressions):
                    key = guard.kind, guard.source, _strip_comment(expression)
                    self._origins.setdefault(key, guard.stack)
        found = self._origins.get((kind, source, text))
        return found if found else self._origins.get((kind, source, ""), ())


def _child_managers(manager: Any) -> Iterator[Any]:
    pairs = getattr(manager, "get_key_value_managers", None)
    if pairs is not None:
        for key, value in pairs().values():
            yield from (child for child in (key, value) if child is not None)
    yield from manager.get_child_managers() if pairs is None else ()


def _strip_comment(part: str) -> str:
    """Return a guard's expression without the comment and hint that Dynamo appends."""
    words = part.partition("  # ")[0]
    return words.partition(" (HINT: ")[0].strip()


def _changed_state(leaf: Any, value: Any) -> str:
    try:
        (text,) = leaf.check_verbose(value).verbose_code_parts
    except Exception:
        return ""
    return str(text).rpartition("changed:")[2].strip()


def _expected_and_actual(kind: str, expression: str, value: Any) -> tuple[str, str]:
    """Return (expected, actual): the expected and the actual value of a guard as text.

    Each is empty if it does not have a short form. ``kind`` is the class of the guard,
    ``expression`` its condition, and ``value`` the actual value.
    """
    _, equals, expected = expression.rpartition(" == ")
    if kind in ("LENGTH_CHECK", "DICT_LENGTH", "TUPLE_ITERATOR_LEN"):
        if not equals:
            expected = "not empty" if not expression.startswith("not ") else "0"
        try:
            return expected, str(len(value))
        except Exception:
            return expected, ""
    if kind in ("TYPE_MATCH", "NONE_MATCH", "NOT_NONE"):
        found = re.search(r"type=<class '(?:.*\.)?(\w+)'>", expression)
        was = found[1] if found else "None" if kind == "NONE_MATCH" else "not None"
        return ("None" if was == "NoneType" else was), _type_text(value)
    if kind in ("EQUALS_MATCH", "TRUE_MATCH", "FALSE_MATCH"):
        return _shorten(expected) if equals else "", _repr_if_safe(value)
    if kind == "MAPPING_KEYS_MATCH":
        is_mapping = hasattr(value, "keys")
        return "", _shorten(", ".join(map(_repr_if_safe, value))) if is_mapping else ""
    return "", ""


def _parse_equality(condition: str) -> tuple[str, str]:
    """Parse a condition that compares an expression with a constant.

    Return (left side, right side) as text, or two empty strings for any other condition.
    """
    match ast.parse(condition, mode="eval").body:
        case ast.Compare(left=left, ops=[ast.Eq()], comparators=[ast.Constant() as constant]):
            return ast.unparse(left), ast.unparse(constant)
    return "", ""


def _type_text(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def _repr_if_safe(value: Any) -> str:
    """Return the ``repr`` of a value whose type is built-in or torch's, else an empty string.

    The ``repr`` of other types would run the user's code.
    """
    if type(value) in _REPR_SAFE_TYPES:
        return _shorten(repr(value))
    if type(value) in (tuple, list, torch.Size) and all(
        type(item) in _REPR_SAFE_TYPES for item in value
    ):
        return _shorten(repr(value))
    return ""


def _shorten(text: str) -> str:
    return text if len(text) <= 60 else text[:57] + "…"


_Difference = tuple[GuardFamily, str, str, str]


def _differences(expected: re.Match[str], value: torch.Tensor) -> Iterable[_Difference]:
    """Yield each property in which a tensor differs from the tensor that a guard expects.

    Each item is a tuple of the guard family, the property, the expected value and the actual value.
    ``expected`` is the regular-expression match of the guard's text.
    """
    if str(value.dtype) != expected["dtype"]:
        yield "tensor", "dtype", expected["dtype"], str(value.dtype)
    if value.requires_grad != (expected["grad"] == "True"):
        yield "tensor", "requires_grad", expected["grad"], str(value.requires_grad)
    kind, device = expected["device"], value.device
    if kind not in ("None", str(device.index)):
        yield "tensor", "device", kind, str(device)
    sizes, strides = _parse_numbers(expected["size"]), _parse_numbers(expected["stride"])
    if len(sizes) != value.dim():
        yield "size", "dim", str(len(sizes)), str(value.dim())
        return
    changed = False
    for axis, (size, now) in enumerate(zip(sizes, value.shape, strict=True)):
        if size is not None and now != size:
            changed = True
            yield "size", f"size {axis}", str(size), str(now)
    if changed or value.layout is not torch.strided:
        return
    for axis, (stride, now) in enumerate(zip(strides, value.stride(), strict=True)):
        if stride is not None and now != stride:
            yield "tensor", f"stride {axis}", str(stride), str(now)


def _parse_numbers(text: str) -> list[int | None]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    return [int(part) if re.fullmatch(r"-?\d+", part) else None for part in parts]
