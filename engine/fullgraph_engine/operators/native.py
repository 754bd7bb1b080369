"""Operators that native_functions.yaml declares, and those that torchgen adds to them.

torchgen parses one entry at a time: an entry that it refuses costs this entry only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from ..protocol.operators import Fake, Operator, OperatorOrigin, Overload, Signature
from .bindings import operator_of
from .derivatives import Derivatives

_IMPLICIT = "CompositeImplicitAutograd"
_EXPLICIT = ("CompositeExplicitAutograd", "CompositeExplicitAutogradNonFunctional")


@dataclass(frozen=True)
class Natives:
    """torchgen's ``NativeFunction``\\ s in the order of the YAML, generated ones last."""

    functions: list[Any]
    kernels: dict[str, tuple[str, ...]]
    """Dispatch keys with a kernel, by overload."""
    notes: tuple[str, ...]


def natives(entries: Iterable[Any], tags: frozenset[str]) -> Natives:
    """The operators that the entries of ``native_functions.yaml`` declare, parsed by torchgen.

    ``tags`` are those of ``tags.yaml``. An entry that torchgen refuses is parsed again without the
    keys that no accepted entry has, and left out if it is refused again; ``notes`` say so. Variants
    are added by ``torchgen.native_function_generation.add_generated_native_functions``.
    """
    model = import_module("torchgen.model")
    entries = [entry for entry in entries if isinstance(entry, dict)]
    known_tags = set(tags) | {tag for entry in entries for tag in _tags(entry)}
    functions: list[Any] = []
    indices: dict[Any, dict[Any, Any]] = defaultdict(dict)
    keys: set[Any] = set()
    refused: list[dict[Any, Any]] = []

    def parse(entry: dict[Any, Any]) -> bool:
        try:
            where = model.Location("native_functions.yaml", 0)
            function, metadata = model.NativeFunction.from_yaml(entry, where, known_tags)
            model.BackendIndex.grow_index(indices, metadata)
        except Exception:
            return False
        functions.append(function)
        return True

    for entry in entries:
        if parse(entry):
            keys.update(entry)
        else:
            refused.append(entry)
    # A key that no other entry has is one that this torchgen does not know.
    lost = [e for e in refused if not parse(_understood(e, keys, model))]
    notes = []
    if len(refused) > len(lost):
        notes.append(
            "native_functions.yaml has keys that torchgen does not know, left out for "
            f"{_count(len(refused) - len(lost), 'operator')}."
        )
    if lost:
        notes.append(
            f"native_functions.yaml has {_count(len(lost), 'entry')} that torchgen refuses."
        )
    declared = len(functions)
    try:
        generate = import_module("torchgen.native_function_generation")
        generate.add_generated_native_functions(functions, indices)
    except Exception as error:
        del functions[declared:]
        notes.append(f"Generated variants are not listed: {type(error).__name__}: {error}.")
    return Natives(functions, _kernels(functions, indices), tuple(notes))


def _count(number: int, noun: str) -> str:
    plural = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"


def _understood(entry: dict[Any, Any], keys: set[Any], model: Any) -> dict[Any, Any]:
    kept = {key: value for key, value in entry.items() if key in keys}
    dispatch = kept.get("dispatch")
    if isinstance(dispatch, dict):
        kept["dispatch"] = {
            key: value for key, value in dispatch.items() if _parses(str(key), model)
        }
    return kept


def _parses(keys: str, model: Any) -> bool:
    try:
        return all(model.DispatchKey.parse(key.strip()) for key in keys.split(","))
    except Exception:
        return False


def _tags(entry: dict[Any, Any]) -> list[str]:
    tags = entry.get("tags", [])
    return [tags] if isinstance(tags, str) else [tag for tag in tags if isinstance(tag, str)]


def _kernels(
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
            # Structured kernels have their shapes from a function for Meta.
            keys.append("Meta")
        found[operator_of(function)] = tuple(sorted(set(keys)))
    return found


def operators(
    known: Natives, derivatives: Derivatives, names: dict[str, tuple[str, ...]]
) -> Iterator[Operator]:
    """All operators with their overloads; ``names`` are the Python names by operator."""
    grouped: dict[str, list[Overload]] = {}
    for function in known.functions:
        full = operator_of(function)
        kernels = known.kernels[full]
        verdict, formulas = derivatives.of(function, implicit=_IMPLICIT in kernels)
        origin: OperatorOrigin = "generated" if "generated" in function.tags else "native"
        name = f"{function.namespace}::{function.func.name.name}"
        grouped.setdefault(name, []).append(
            Overload(
                name=function.func.name.overload_name,
                schema=f"{function.namespace}::{function.func}",
                origin=origin,
                tags=tuple(sorted(function.tags)),
                kernels=kernels,
                fake=_fake(kernels),
                differentiable=verdict,
                derivatives=formulas,
            )
        )
    for name, overloads in grouped.items():
        yield Operator(name, tuple(overloads), names.get(name, ()))


def _fake(kernels: tuple[str, ...]) -> Fake:
    if _IMPLICIT in kernels or any(key in kernels for key in _EXPLICIT):
        return "composite"
    return "meta" if "Meta" in kernels else "unknown"


def callers(names: Iterable[tuple[str, tuple[Signature, ...]]]) -> dict[str, tuple[str, ...]]:
    """The Python names whose signatures call an operator, by operator.

    What is bound by hand does not say which overload it calls: it is listed under its own name.
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
