"""Export a function or module with ``torch.export``: as a draft that continues after errors, and in
strict mode."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .. import tracing
from ..targets import Call
from ..torch_internals import export as upstream
from ..torch_internals.export import DraftProblem
from ..torch_internals.trees import pytree
from ..tracing.recording import Failure
from .expressions import local_names, rewrite_expression, source_names


@dataclass(frozen=True)
class ExportRefusal:
    """A condition in the user's code that prevents ``torch.export`` because torch cannot decide it.

    ``words`` is the condition, in names of the user's function. ``check`` is the condition that
    ``torch._check`` could assert there. Both may be empty.
    """

    problem: DraftProblem
    words: str = ""
    check: str = ""


@dataclass(frozen=True)
class ExportResult:
    """The result of exporting a function or module.

    ``failure`` is the error that ended the export early. ``strict`` is an error that only strict
    mode raises. ``shapes`` is Python source of ``dynamic_shapes`` with the sizes that may vary.
    """

    refusals: tuple[ExportRefusal, ...] = ()
    failure: Failure | None = None
    strict: Failure | None = None
    shapes: str = ""


def export_target(call: Call, *, real: bool) -> ExportResult:
    """Export a function or module with ``torch.export``, called with its example inputs.

    ``real``: the tensors have values, which draft export needs; without them the first problem ends
    the export. Symbolic sizes in the example inputs (``b`` in ``f32[b, 4]``) become dimensions that
    must be dynamic. Without symbolic sizes, every size that can vary becomes dynamic.
    """
    module = _as_module(call.function)
    # Arguments by parameter name, in the form that ``dynamic_shapes`` uses.
    bound = dict(inspect.signature(module.forward).bind(*call.args, **call.kwargs).arguments)
    requested: dict[int, dict[int, Any]] = {id(dimension.tensor): {} for dimension in call.dynamic}
    for dimension in call.dynamic:
        requested[id(dimension.tensor)][dimension.dim] = torch.export.Dim(dimension.symbol)
    shapes = _map_tensors(
        bound, lambda tensor: _dynamic_dims(tensor, requested, only_requested=bool(call.dynamic))
    )
    problems: tuple[DraftProblem, ...] = ()
    try:
        draft = upstream.draft_export(module, call.args, call.kwargs, shapes) if real else None
        if draft is not None:
            program, problems = draft
        else:
            program = upstream.plain_export(module, call.args, call.kwargs, shapes, strict=False)
    except Exception as error:
        return ExportResult(failure=tracing.failure_of(error))
    refusals = tuple(dict.fromkeys(_describe_problem(problem) for problem in problems))
    if refusals:
        return ExportResult(refusals)
    strict = None
    try:
        upstream.plain_export(module, call.args, call.kwargs, shapes, strict=True)
    except Exception as error:
        strict = tracing.failure_of(error)
    return ExportResult(strict=strict, shapes=_format_dynamic_shapes(program, bound))


def _as_module(function: Callable[..., Any]) -> torch.nn.Module:
    if isinstance(function, torch.nn.Module):
        return function
    module = torch.nn.Module()
    module.forward = function
    return module


def _dynamic_dims(
    tensor: torch.Tensor, requested: Mapping[int, Mapping[int, Any]], *, only_requested: bool
) -> dict[int, Any] | None:
    if only_requested:
        return dict(requested.get(id(tensor), {})) or None
    auto = torch.export.Dim.AUTO
    return {dim: auto for dim, size in enumerate(tensor.shape) if size not in (0, 1)} or None


def _map_tensors(
    bound: Mapping[str, Any], convert: Callable[[torch.Tensor], Any]
) -> dict[str, Any]:
    def leaf(value: Any) -> Any:
        return convert(value) if isinstance(value, torch.Tensor) else None

    return {name: pytree.tree_map(leaf, value) for name, value in bound.items()}


def _describe_problem(problem: DraftProblem) -> ExportRefusal:
    names = {**source_names(problem.sources), **local_names(problem.locals)}
    words = rewrite_expression(problem.expression, names)
    check = rewrite_expression(problem.expression, names, holds=problem.holds)
    return ExportRefusal(problem, words, check if problem.kind == "data-dependent" else "")


def _format_dynamic_shapes(program: Any, bound: Mapping[str, Any]) -> str:
    """Return the ``dynamic_shapes`` of an exported program as Python source, with a ``Dim`` for
    each symbolic size.

    ``bound`` are the arguments of the exported call by parameter name.
    """
    sizes = [
        node.meta["val"].shape
        for node in program.graph.nodes
        if node.op == "placeholder"
        and node.name in set(program.graph_signature.user_inputs)
        and isinstance(node.meta.get("val"), torch.Tensor)
    ]
    tensors = [value for value in pytree.tree_leaves(bound) if isinstance(value, torch.Tensor)]
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

    written = {name: _format_value(value, dims) for name, value in bound.items()}
    if not names:
        return ""
    return "{" + ", ".join(f'"{name}": {value}' for name, value in written.items()) + "}"


def _format_value(value: Any, dims: Callable[[torch.Tensor], str]) -> str:
    if isinstance(value, torch.Tensor):
        return dims(value)
    if isinstance(value, (tuple, list)):
        items = ", ".join(_format_value(each, dims) for each in value)
        comma = "," if isinstance(value, tuple) and len(value) == 1 else ""
        return f"({items}{comma})" if isinstance(value, tuple) else f"[{items}]"
    if isinstance(value, dict):
        items = ", ".join(f"{key!r}: {_format_value(each, dims)}" for key, each in value.items())
        return "{" + items + "}"
    return "None"
