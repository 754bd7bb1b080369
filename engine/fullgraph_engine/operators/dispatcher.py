"""What the running dispatcher knows of operators that no file says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..protocol.operators import Differentiable, Fake, Overload
from ..torch_internals import dispatcher as upstream
from .fake import fake_of

_COMPOSITES = (
    "CompositeImplicitAutograd",
    "CompositeImplicitAutogradNestedTensor",
    "CompositeExplicitAutograd",
    "CompositeExplicitAutogradNonFunctional",
)
_UNLISTED = ("MkldnnCPU",)
"""Keys that the enumeration in Python leaves out."""
_BUILT_IN = frozenset({"aten", "prim", "prims"})


def schemas() -> dict[str, dict[str, Any]]:
    """Schemas by operator and overload, in the order in which resolution tries the overloads.

    Those that only TorchScript has are among them.
    """
    found: dict[str, dict[str, Any]] = {}
    for schema in upstream.jit_schemas():
        found.setdefault(schema.name, {})[schema.overload_name] = schema
    return found


def qualified(operator: str, overload: str) -> str:
    """``aten::max.dim``; just ``aten::max`` for an overload without a name, the default one."""
    return f"{operator}.{overload}" if overload else operator


def kernel_keys() -> tuple[str, ...]:
    """The dispatch keys that stand for a kernel: composite ones, and those of a backend.

    Between two markers of the enumeration are the keys of one functionality, in the order of the
    backends: so ``SparseCsrCUDA`` is told from keys that only take part in dispatching.
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
class Facts:
    """Registrations of all operators at one moment, asked for by key rather than by operator."""

    registered: frozenset[str]
    kernels: dict[str, list[str]] = field(default_factory=dict)
    decomposed: frozenset[str] = frozenset()

    @classmethod
    def gather(cls) -> Facts:
        kernels: dict[str, list[str]] = {}
        for key in kernel_keys():
            try:
                holders = upstream.registered_overloads(key)
            except RuntimeError:  # this torch cannot parse the key
                continue
            for name in holders:
                kernels.setdefault(name, []).append(key)
        return cls(frozenset(upstream.operator_names()), kernels, _decomposed())

    @classmethod
    def gather_for(cls, wanted: Iterable[str]) -> Facts:
        """As ``gather``, for a few operators."""
        chosen = frozenset(wanted)
        has = upstream.has_kernel
        # Aliases and markers raise, and so do keys that another torch has.
        keys = [key for key in kernel_keys() if _askable(key)]
        kernels = {name: [key for key in keys if has(name, key)] for name in chosen}
        return cls(chosen, kernels, _decomposed() & chosen)

    def kernels_of(self, name: str) -> tuple[str, ...]:
        return tuple(sorted(self.kernels.get(name, ())))

    def fake_of(self, name: str) -> Fake:
        """As :func:`fake.fake_of` says it, without asking for each operator of torch's own."""
        if name.partition("::")[0] != "aten":
            return fake_of(name)
        keys = self.kernels.get(name, ())
        if "CompositeImplicitAutograd" in keys:
            return "composite"
        if "Meta" in keys:
            return "meta"
        if "CompositeExplicitAutograd" in keys or "CompositeExplicitAutogradNonFunctional" in keys:
            return "composite"
        return fake_of(name)

    def differentiable(self, name: str) -> Differentiable:
        """For operators that derivatives.yaml does not tell of."""
        keys = self.kernels.get(name, ())
        if "CompositeImplicitAutograd" in keys:
            return "composite"
        definition = upstream.custom_definition(name)
        if definition is not None:
            # It has an autograd kernel in any case, which raises where there is no formula.
            return "registered" if getattr(definition, "_backward_fn", None) else "no"
        if name.partition("::")[0] in _BUILT_IN:
            return "unknown"
        return "registered" if any(key.startswith("Autograd") for key in keys) else "no"


def overload(name: str, schema: Any, facts: Facts, place: str = "") -> Overload:
    """A registered overload, as far as the running torch knows it."""
    operator, _, own = name.partition(".")
    return Overload(
        own,
        str(schema),
        "registered",
        upstream.tags_of(operator, own),
        facts.kernels_of(name),
        facts.fake_of(name),
        name in facts.decomposed,
        facts.differentiable(name),
        place=place,
    )


def _decomposed() -> frozenset[str]:
    return frozenset(
        operator.name()
        for operator in upstream.decomposition_table()
        if isinstance(operator, upstream.OpOverload)
    )


def _askable(key: str) -> bool:
    try:
        upstream.has_kernel("aten::add.Tensor", key)
    except RuntimeError:
        return False
    return True
