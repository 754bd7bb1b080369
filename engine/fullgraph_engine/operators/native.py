"""Read the operators in torch's native_functions.yaml and the variants that torchgen generates.

torchgen parses the entries one at a time, so an error in one entry does not affect the others.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..protocol.operators import Fake, Operator, OperatorOrigin, Overload, Signature
from .bindings import qualified_overload
from .derivatives import Derivatives

_IMPLICIT = "CompositeImplicitAutograd"
_EXPLICIT = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


@dataclass(frozen=True)
class NativeFunctions:
    """The parsed content of native_functions.yaml."""

    functions: list[Any]
    """torchgen's ``NativeFunction`` objects in the order of the file, followed by generated
    variants."""
    kernels: dict[str, tuple[str, ...]]
    """Dispatch keys with a kernel, by the qualified name of the overload."""
    notes: tuple[str, ...]
    """Sentences for the user about entries that could not be read."""


def parse_native_functions(entries: Iterable[Any], tags: frozenset[str]) -> NativeFunctions:
    """Parse the entries of ``native_functions.yaml`` with torchgen.

    ``tags`` are the tags of ``tags.yaml``. Entries that torchgen refuses are omitted, and mentioned
    in the notes of the result. The result includes the variants that torchgen generates; see
    ``torchgen.native_function_generation.add_generated_native_functions``.
    """
    model = import_module("torchgen.model")
    entries = [entry for entry in entries if isinstance(entry, dict)]
    known_tags = set(tags) | {tag for entry in entries for tag in _tag_names(entry)}
    functions: list[Any] = []
    indices: dict[Any, dict[Any, Any]] = defaultdict(dict)
    refused = 0
    for entry in entries:
        try:
            where = model.Location("native_functions.yaml", 0)
            function, metadata = model.NativeFunction.from_yaml(entry, where, known_tags)
            model.BackendIndex.grow_index(indices, metadata)
        except Exception:
            refused += 1
        else:
            functions.append(function)
    notes = []
    if refused:
        notes.append(f"native_functions.yaml has entries that torchgen cannot read: {refused}.")
    declared = len(functions)
    try:
        generate = import_module("torchgen.native_function_generation")
        generate.add_generated_native_functions(functions, indices)
    except Exception as error:
        del functions[declared:]
        notes.append(
            f"Generated operator variants are not listed: {type(error).__name__}: {error}."
        )
    return NativeFunctions(functions, _kernel_keys(functions, indices), tuple(notes))


def _tag_names(entry: dict[Any, Any]) -> list[str]:
    tags = entry.get("tags", [])
    return [tags] if isinstance(tags, str) else [tag for tag in tags if isinstance(tag, str)]


def _kernel_keys(
    functions: list[Any], indices: dict[Any, dict[Any, Any]]
) -> dict[str, tuple[str, ...]]:
    by_name: dict[Any, list[str]] = {}
    for key, metadata in indices.items():
        for name in metadata:
            by_name.setdefault(name, []).append(key.name)
    found = {}
    for function in functions:
        keys = list(by_name.get(function.func.name, ()))
        if function.structured_delegate is not None:
            keys += by_name.get(function.structured_delegate, ())
        if function.structured or function.structured_delegate is not None:
            # Structured kernels have a Meta function, which computes their shapes.
            keys.append("Meta")
        found[qualified_overload(function)] = tuple(sorted(set(keys)))
    return found


def group_operators(
    native_functions: NativeFunctions, derivatives: Derivatives, names: dict[str, tuple[str, ...]]
) -> Iterator[Operator]:
    """Yield the index entry of each operator, with its overloads.

    ``names`` has the Python names that call an operator, by the qualified name of the operator.
    """
    grouped: dict[str, list[Overload]] = {}
    for function in native_functions.functions:
        full = qualified_overload(function)
        kernels = native_functions.kernels[full]
        verdict, formulas = derivatives.verdict_for(function, implicit=_IMPLICIT in kernels)
        origin: OperatorOrigin = "generated" if "generated" in function.tags else "native"
        name = f"{function.namespace}::{function.func.name.name}"
        grouped.setdefault(name, []).append(
            Overload(
                name=function.func.name.overload_name,
                schema=f"{function.namespace}::{function.func}",
                origin=origin,
                tags=tuple(sorted(function.tags)),
                kernels=kernels,
                fake=_fake_support(kernels),
                differentiable=verdict,
                derivatives=formulas,
            )
        )
    for name, overloads in grouped.items():
        yield Operator(name, tuple(overloads), names.get(name, ()))


def _fake_support(kernels: tuple[str, ...]) -> Fake:
    if _IMPLICIT in kernels or any(key in kernels for key in _EXPLICIT):
        return "composite"
    return "meta" if "Meta" in kernels else "unknown"


def callers_by_operator(
    names: Iterable[tuple[str, tuple[Signature, ...]]],
) -> dict[str, tuple[str, ...]]:
    """Map each qualified operator name to the Python names whose signatures call the operator.

    ``names`` are pairs of a path and its signatures. If a signature comes from a stub, which does
    not name an operator, the ``aten`` operator of the same name is assumed.
    """
    found: dict[str, dict[str, None]] = {}
    for path, signatures in names:
        for signature in signatures:
            by_hand = "" if signature.operator else f"aten::{path.rpartition('.')[2]}"
            for overload in (signature.operator or by_hand, signature.out):
                if overload:
                    namespace, _, rest = overload.partition("::")
                    operator = f"{namespace}::{rest.partition('.')[0]}"
                    found.setdefault(operator, {})[path] = None
    return {operator: tuple(paths) for operator, paths in found.items()}
