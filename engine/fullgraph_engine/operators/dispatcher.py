"""Read from torch's running dispatcher the properties of operators that torch's files do not
list."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..protocol.operators import Differentiable, Fake, Overload
from ..torch_internals import dispatcher as upstream
from .fake import fake_support

_COMPOSITES = (
    "CompositeImplicitAutograd",
    "CompositeImplicitAutogradNestedTensor",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)
_UNLISTED = ("MkldnnCPU",)
"""Dispatch keys that torch's Python enumeration of dispatch keys does not contain."""
_BUILT_IN = frozenset({"aten", "prim", "prims"})


def all_schemas() -> dict[str, dict[str, Any]]:
    """Return the schemas of all registered operators, by operator name and then by overload name.

    Overloads are in the order in which a call tries them. Operators of TorchScript are included.
    """
    found: dict[str, dict[str, Any]] = {}
    for schema in upstream.jit_schemas():
        found.setdefault(schema.name, {})[schema.overload_name] = schema
    return found


def qualified_name(operator: str, overload: str) -> str:
    """Join ``aten::max`` and an overload name to ``aten::max.dim``; the default overload is
    ``aten::max``."""
    return f"{operator}.{overload}" if overload else operator


def kernel_keys() -> tuple[str, ...]:
    """Return the dispatch keys that a kernel can be registered for: backends, composites and
    Autograd.

    Torch lists the backend keys of a functionality between two marker keys. The markers tell
    ``SparseCsrCUDA``, which can have a kernel, from keys that only take part in dispatching.
    """
    keys: list[str] = []
    inside = False
    for name in upstream.dispatch_keys():
        if name.startswith("StartOf") and name.endswith("Backends"):
            inside = True
        elif name.startswith("EndOf") and name.endswith("Backends"):
            inside = False
        elif inside or name in _COMPOSITES or name == "Autograd":
            keys.append(name)
    return (*keys, *_UNLISTED)


@dataclass(frozen=True)
class DispatcherSnapshot:
    """The kernels and decompositions of operators, as registered at one moment."""

    overloads: frozenset[str]
    """Qualified names of the registered overloads."""
    kernels: dict[str, list[str]] = field(default_factory=dict)
    """Dispatch keys with a kernel, by qualified overload name."""
    with_decomposition: frozenset[str] = frozenset()
    """Qualified names of the overloads with a decomposition."""

    @classmethod
    def of_all_operators(cls) -> DispatcherSnapshot:
        """Read the kernels of all registered operators, with one query for each dispatch key."""
        kernels: dict[str, list[str]] = {}
        for key in kernel_keys():
            try:
                names = upstream.registered_overloads(key)
            except RuntimeError:  # the installed torch cannot parse the key
                continue
            for name in names:
                kernels.setdefault(name, []).append(key)
        return cls(frozenset(upstream.operator_names()), kernels, _decomposed_overloads())

    @classmethod
    def of_operators(cls, names: Iterable[str]) -> DispatcherSnapshot:
        """Read the kernels of the overloads with these qualified names, such as
        ``aten::add.Tensor``.
        """
        chosen = frozenset(names)
        has = upstream.has_kernel
        # Omit alias keys, marker keys and keys of other torch versions, because queries for them
        # raise.
        keys = [key for key in kernel_keys() if _can_query_key(key)]
        kernels = {name: [key for key in keys if has(name, key)] for name in chosen}
        return cls(chosen, kernels, _decomposed_overloads() & chosen)

    def kernels_of(self, name: str) -> tuple[str, ...]:
        """Return the sorted dispatch keys for which an overload has a kernel."""
        return tuple(sorted(self.kernels.get(name, ())))

    def fake_support(self, name: str) -> Fake:
        """Return by which mechanism torch runs an overload on fake tensors.

        The result equals the result of :func:`.fake.fake_support`. This method is faster for aten
        operators with a composite or Meta kernel, because the recorded kernels suffice.
        """
        if name.partition("::")[0] != "aten":
            return fake_support(name)
        keys = self.kernels.get(name, ())
        if "CompositeImplicitAutograd" in keys:
            return "composite"
        if "Meta" in keys:
            return "meta"
        if "CompositeExplicitAutograd" in keys or "CompositeExplicitAutogradNonFunctional" in keys:
            return "composite"
        return fake_support(name)

    def differentiability_of(self, name: str) -> Differentiable:
        """Return how autograd supports an overload without an entry in derivatives.yaml.

        Uses the recorded kernels and the registered backward function.
        """
        keys = self.kernels.get(name, ())
        if "CompositeImplicitAutograd" in keys:
            return "composite"
        definition = upstream.custom_definition(name)
        if definition is not None:
            # A custom operator always has an autograd kernel, which raises if no backward formula
            # is registered.
            return "registered" if getattr(definition, "_backward_fn", None) else "no"
        if name.partition("::")[0] in _BUILT_IN:
            return "unknown"
        return "registered" if any(key.startswith("Autograd") for key in keys) else "no"


def describe_overload(
    name: str, schema: Any, snapshot: DispatcherSnapshot, place: str = ""
) -> Overload:
    """Build the index entry of an overload from its schema and its registered kernels in
    ``snapshot``.

    ``name`` is the qualified name. ``place`` is the ``path:line`` that defines the overload; empty
    if unknown.
    """
    operator, _, overload_name = name.partition(".")
    return Overload(
        overload_name,
        str(schema),
        "registered",
        upstream.tags_of(operator, overload_name),
        snapshot.kernels_of(name),
        snapshot.fake_support(name),
        name in snapshot.with_decomposition,
        snapshot.differentiability_of(name),
        place=place,
    )


def _decomposed_overloads() -> frozenset[str]:
    return frozenset(
        operator.name()
        for operator in upstream.decomposition_table()
        if isinstance(operator, upstream.OpOverload)
    )


def _can_query_key(key: str) -> bool:
    try:
        upstream.has_kernel("aten::add.Tensor", key)
    except RuntimeError:
        return False
    return True
