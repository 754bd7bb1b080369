"""One target through ``torch.export``, as a draft that goes on behind errors, and strictly."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import tracing
from ..targets import Call
from ..torch_internals import export as upstream
from ..torch_internals.export import DraftProblem
from ..torch_internals.trees import pytree
from ..tracing.recording import Failure
from .expressions import in_names, names_of, sources_in_names


@dataclass(frozen=True)
class Refusal:
    """Something that export refuses. ``words`` is the expression in names of the user's function,
    ``check`` what has to hold there so that it can be decided; both empty where there is none."""

    problem: DraftProblem
    words: str = ""
    check: str = ""


@dataclass(frozen=True)
class Exported:
    """What export came to. ``failure`` ended it before the end; ``strict`` is what only the strict
    mode refuses. ``shapes`` are ``dynamic_shapes`` in Python that say which sizes may vary."""

    refusals: tuple[Refusal, ...] = ()
    failure: Failure | None = None
    strict: Failure | None = None
    shapes: str = ""


def exported(call: Call, *, real: bool) -> Exported:
    """Export what a probe calls.

    ``real``: its tensors have values, which a draft needs. Without them the first refusal ends it.
    Symbolic sizes of the probe are dimensions that must be dynamic; without any, every size that
    can vary may.
    """
    module = _module(call.function)
    bound = _bound(module, call.args, call.kwargs)
    wished: dict[int, dict[int, Any]] = {id(wish.tensor): {} for wish in call.dynamic}
    for wish in call.dynamic:
        wished[id(wish.tensor)][wish.dim] = torch.export.Dim(wish.symbol)
    shapes = _shapes(bound, lambda tensor: _wanted(tensor, wished, asked=bool(call.dynamic)))
    problems: tuple[DraftProblem, ...] = ()
    try:
        drafted = upstream.draft_export(module, call.args, call.kwargs, shapes) if real else None
        if drafted is not None:
            program, problems = drafted
        else:
            program = upstream.plain_export(module, call.args, call.kwargs, shapes, strict=False)
    except Exception as error:
        return Exported(failure=tracing.failure_of(error))
    refusals = tuple(dict.fromkeys(_refusal(problem) for problem in problems))
    if refusals:
        return Exported(refusals)
    strict = None
    try:
        upstream.plain_export(module, call.args, call.kwargs, shapes, strict=True)
    except Exception as error:
        strict = tracing.failure_of(error)
    return Exported(strict=strict, shapes=_dynamic(program, bound))


def _module(function: Callable[..., Any]) -> torch.nn.Module:
    if isinstance(function, torch.nn.Module):
        return function
    module = torch.nn.Module()
    module.forward = function
    return module


def _bound(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments by the names of parameters, as ``dynamic_shapes`` are written."""
    return dict(inspect.signature(module.forward).bind(*args, **kwargs).arguments)


def _wanted(
    tensor: torch.Tensor, wished: Mapping[int, Mapping[int, Any]], *, asked: bool
) -> dict[int, Any] | None:
    if asked:
        return dict(wished.get(id(tensor), {})) or None
    auto = torch.export.Dim.AUTO
    return {dim: auto for dim, size in enumerate(tensor.shape) if size not in (0, 1)} or None


def _shapes(bound: Mapping[str, Any], of: Callable[[torch.Tensor], Any]) -> dict[str, Any]:
    def leaf(value: Any) -> Any:
        return of(value) if isinstance(value, torch.Tensor) else None

    return {name: pytree.tree_map(leaf, value) for name, value in bound.items()}


def _refusal(problem: DraftProblem) -> Refusal:
    names = {**sources_in_names(problem.sources), **names_of(problem.locals)}
    words = in_names(problem.expression, names)
    check = in_names(problem.expression, names, holds=problem.holds)
    return Refusal(problem, words, check if problem.kind == "data-dependent" else "")


def _dynamic(program: Any, bound: Mapping[str, Any]) -> str:
    """``dynamic_shapes`` with a ``Dim`` for each size that is symbolic in the program."""
    sizes = [
        node.meta["val"].shape
        for node in program.graph.nodes
        if node.op == "placeholder"
        and node.name in set(program.graph_signature.user_inputs)
        and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    tensors = [one for one in pytree.tree_leaves(bound) if isinstance(one, torch.Tensor)]
    if len(sizes) != len(tensors):
        return ""
    by_tensor = {id(tensor): shape for tensor, shape in zip(tensors, sizes, strict=True)}
    names: dict[str, str] = {}

    def dims(tensor: torch.Tensor) -> str:
        parts = []
        for dim, size in enumerate(by_tensor[id(tensor)]):
            if isinstance(size, torch.SymInt) and str(size).isidentifier():
                name = names.setdefault(str(size), f"d{len(names)}")
                parts.append(f'{dim}: Dim("{name}")')
            elif isinstance(size, torch.SymInt) and not str(size).isdigit():
                parts.append(f"{dim}: Dim.AUTO")
        return "{" + ", ".join(parts) + "}" if parts else "None"

    written = {name: _written(value, dims) for name, value in bound.items()}
    if not names:
        return ""
    return "{" + ", ".join(f'"{name}": {value}' for name, value in written.items()) + "}"


def _written(value: Any, dims: Callable[[torch.Tensor], str]) -> str:
    if isinstance(value, torch.Tensor):
        return dims(value)
    if isinstance(value, (tuple, list)):
        inside = ", ".join(_written(each, dims) for each in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"({inside}{comma})" if isinstance(value, tuple) else f"[{inside}]"
    if isinstance(value, dict):
        inside = ", ".join(f"{key!r}: {_written(each, dims)}" for key, each in value.items())
        return "{" + inside + "}"
    return "None"
