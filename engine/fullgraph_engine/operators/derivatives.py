"""Which overloads are differentiable, and by which formulas, from derivatives.yaml.

The rules are those of ``torchgen.api.autograd.match_differentiability_info``, on the YAML as it
stands: an entry is for the schema that it names, for the in-place variant and generated variants
of it, for the ``_copy`` of a view, and for the ``_foreach_`` form.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from ..protocol.operators import Derivative, Differentiable

Verdict = tuple[Differentiable, tuple[Derivative, ...]]


class Derivatives:
    """The entries of derivatives.yaml for a set of native functions."""

    def __init__(self, entries: Iterable[Any], functions: Iterable[Any]) -> None:
        self._autograd = import_module("torchgen.api.autograd")
        self._entries: dict[str, dict[str, Any]] = {
            entry["name"]: entry
            for entry in entries
            if isinstance(entry, dict) and isinstance(entry.get("name"), str)
        }
        self._functional: dict[Any, dict[str, Any]] = {}
        self._mutating: dict[Any, dict[str, Any]] = {}
        self._by_name: dict[str, dict[str, Any]] = {}
        self._references: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
        for function in functions:
            entry = self._entries.get(str(function.func))
            if entry is None:
                continue
            schema = function.func
            functional = schema.kind().name == "functional"
            known = self._functional if functional else self._mutating
            known[schema.signature(strip_default=True)] = entry
            self._by_name[str(schema.name)] = entry
            self._references.setdefault(schema.name.name.base, []).append((schema, entry))

    def of(self, function: Any, *, implicit: bool) -> Verdict:
        """What is known of an overload; ``implicit``: its kernel is composed of other operators."""
        schema = function.func
        kind = schema.kind().name
        if kind == "out":
            return "no", ()
        entry = self._entry(function, kind)
        formulas = entry and _formulas(entry)
        if entry is None or formulas is None:
            touches = any(r.type.is_tensor_like() for r in schema.returns) or kind != "functional"
            return ("composite" if implicit and touches else "no"), ()
        names = {argument.name for argument in schema.arguments.flat_all}
        names |= {"self"}
        outputs = entry.get("output_differentiability")
        derivatives = tuple(
            Derivative(inputs, str(formula))
            for inputs, formula in formulas.items()
            if isinstance(inputs, str)
            and inputs not in _NOT_INPUTS
            and not _is_forward(inputs, formula, schema)
        )
        some = any(_is_formula(d.formula) for d in derivatives)
        if some and not (outputs and not any(outputs)):
            return "formula", derivatives
        # An entry may be there for one backend alone, as those for nested tensors.
        return ("composite", ()) if implicit and not outputs else ("no", derivatives)

    def _entry(self, function: Any, kind: str) -> dict[str, Any] | None:
        schema = function.func
        exact = self._entries.get(str(schema))
        if exact is not None:
            return exact
        foreach = schema.name.name.base.startswith("_foreach_")
        if foreach:
            return self._foreach(function, kind)
        signature = schema.signature(strip_default=True)
        found = self._functional.get(signature)
        if found is None and "generated" in function.tags:
            found = self._mutating.get(signature)
        if found is None and "view_copy" in function.tags and kind == "functional":
            name = schema.name
            if name.name.base.endswith("_copy"):
                view = name.name.base[: -len("_copy")]
                overload = name.overload_name
                found = self._by_name.get(f"{view}.{overload}" if overload else view)
        return found

    def _foreach(self, function: Any, kind: str) -> dict[str, Any] | None:
        base = function.func.name.name.base[len("_foreach_") :]
        candidates = self._references.get(base, ())
        for functional in (True, False):
            if not functional and kind != "inplace":
                break
            for schema, entry in candidates:
                if (schema.kind().name == "functional") is functional and (
                    self._autograd.is_reference_for_foreach(function, schema)
                ):
                    return entry
        return None


_NOT_INPUTS = frozenset({"name", "dispatch", "output_differentiability"})


def _formulas(entry: dict[str, Any]) -> dict[str, Any] | None:
    """The formulas of the autograd key that backends share; None if there are only others."""
    dispatch = entry.get("dispatch")
    if not isinstance(dispatch, dict):
        return entry
    found = dispatch.get("Default")
    return found if isinstance(found, dict) else None


def _is_forward(inputs: str, formula: object, schema: Any) -> bool:
    """A formula is one of forward mode if what it is for is no argument."""
    first = inputs.split(",")[0].strip()
    return all(first != argument.name for argument in schema.arguments.flat_all) and (
        first.startswith("result") or any(first == r.name for r in schema.returns)
    )


def _is_formula(formula: str) -> bool:
    text = formula.strip()
    return text.lower() != "non_differentiable" and not text.startswith("not_implemented(")
