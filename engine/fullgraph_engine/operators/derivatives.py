"""Determine from derivatives.yaml which overloads are differentiable, and by which formulas.

Follows the rules of ``torchgen.api.autograd.match_differentiability_info``, but reads the YAML
entries directly. An entry applies to the schema named in it, to the in-place variant and the
generated variants of this schema, to the ``_copy`` form of a view and to the ``_foreach_`` form.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from ..protocol.operators import Derivative, Differentiable

Differentiability = tuple[Differentiable, tuple[Derivative, ...]]
"""How autograd supports an overload, and the derivative formulas of the overload."""


class Derivatives:
    """The entries of torch's derivatives.yaml, with a look-up of the derivatives of an overload.

    ``functions`` are torchgen's ``NativeFunction`` objects.
    """

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
            by_signature = self._functional if functional else self._mutating
            by_signature[schema.signature(strip_default=True)] = entry
            self._by_name[str(schema.name)] = entry
            self._references.setdefault(schema.name.name.base, []).append((schema, entry))

    def verdict_for(self, function: Any, *, implicit: bool) -> Differentiability:
        """Return how autograd supports an overload, and its derivative formulas.

        ``function`` is torchgen's ``NativeFunction``. ``implicit`` says whether the overload has a
        ``CompositeImplicitAutograd`` kernel, so that autograd differentiates the operators that the
        kernel calls.
        """
        schema = function.func
        kind = schema.kind().name
        if kind == "out":
            return "no", ()
        entry = self._find_entry(function, kind)
        formulas = entry and _default_formulas(entry)
        if entry is None or formulas is None:
            affects_tensors = (
                any(r.type.is_tensor_like() for r in schema.returns) or kind != "functional"
            )
            return ("composite" if implicit and affects_tensors else "no"), ()
        names = {argument.name for argument in schema.arguments.flat_all}
        names |= {"self"}
        outputs = entry.get("output_differentiability")
        derivatives = tuple(
            Derivative(inputs, str(formula))
            for inputs, formula in formulas.items()
            if isinstance(inputs, str)
            and inputs not in _NOT_INPUTS
            and not _is_forward(inputs, schema)
        )
        has_formula = any(_is_formula(d.formula) for d in derivatives)
        if has_formula and not (outputs and not any(outputs)):
            return "formula", derivatives
        # An entry in derivatives.yaml can be for one backend only, for example nested tensors.
        return ("composite", ()) if implicit and not outputs else ("no", derivatives)

    def _find_entry(self, function: Any, kind: str) -> dict[str, Any] | None:
        schema = function.func
        exact = self._entries.get(str(schema))
        if exact is not None:
            return exact
        foreach = schema.name.name.base.startswith("_foreach_")
        if foreach:
            return self._find_foreach_entry(function, kind)
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

    def _find_foreach_entry(self, function: Any, kind: str) -> dict[str, Any] | None:
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


def _default_formulas(entry: dict[str, Any]) -> dict[str, Any] | None:
    """Return the formulas of a derivatives.yaml entry that apply to all backends.

    The result is None if it does not have any.
    """
    dispatch = entry.get("dispatch")
    if not isinstance(dispatch, dict):
        return entry
    found = dispatch.get("Default")
    return found if isinstance(found, dict) else None


def _is_forward(inputs: str, schema: Any) -> bool:
    """Whether a formula is for forward-mode automatic differentiation.

    The formula's key ``inputs`` in the YAML file then names a result of the schema and not an
    argument.
    """
    first = inputs.split(",")[0].strip()
    return all(first != argument.name for argument in schema.arguments.flat_all) and (
        first.startswith("result") or any(first == r.name for r in schema.returns)
    )


def _is_formula(formula: str) -> bool:
    text = formula.strip()
    return text.lower() != "non_differentiable" and not text.startswith("not_implemented(")
