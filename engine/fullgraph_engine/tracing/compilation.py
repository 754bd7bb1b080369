"""Compile the graphs of one call with AOTAutograd and Inductor, and record problems with the stacks
of the user's code."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from .. import texts
from ..protocol.compilation import LineCompilation, RegionCompilation
from ..torch_internals.graphs import OpOverload
from ..torch_internals.lowering import (
    CompiledGraph,
    CompilerObserver,
    CompilerStage,
    InputMutation,
    NodeSeconds,
)
from ..torch_internals.trees import pytree
from . import nodes
from .recording import Recording, Stack, TracedFrame
from .repetition import RepeatedBlock, find_repeated_blocks

_MARK = "  fullgraph node "
"""Beginning of a line that is added to the stack text of each node of Dynamo's graph, followed by
the node's number. The compiler copies stack texts to the nodes of its own graphs."""
_MARKED = re.compile(rf"\n?{_MARK}(\d+)\n?")


@dataclass(frozen=True)
class CompilerError:
    """An exception that AOTAutograd or Inductor raised; ``kind`` is its type, ``message`` its text.

    ``backward``: it was raised while the compiler processed the backward graph.
    """

    stage: CompilerStage
    kind: str
    message: str
    stack: Stack
    backward: bool = False
    out_of_memory: bool = False


@dataclass(frozen=True)
class OperatorFallback:
    """A call of ``operator`` (such as ``aten.linalg_eig``) for which Inductor has no kernel.

    ``dtypes`` are the names of the dtypes of its inputs and results.
    """

    operator: str
    dtypes: tuple[str, ...]
    stack: Stack
    backward: bool = False


@dataclass(frozen=True)
class ChangedInput:
    """A tensor that comes from outside of a graph and that the graph changes in place.

    ``name`` is Dynamo's name for the tensor, such as ``L['x']``. ``stack`` is the stack of the
    change. ``copied``: the new value is copied back after the graph has run.
    """

    name: str
    stack: Stack
    copied: bool
    requires_grad: bool


@dataclass(frozen=True)
class CompilationRecord:
    """All that was recorded while graphs were compiled.

    ``processor_seconds`` is the processor time of AOTAutograd and Inductor. ``is_complete`` is
    false if a graph was still being compiled.
    """

    errors: tuple[CompilerError, ...] = ()
    fallbacks: tuple[OperatorFallback, ...] = ()
    changed: tuple[ChangedInput, ...] = ()
    repeated: tuple[RepeatedBlock, ...] = ()
    regions: tuple[RegionCompilation, ...] = ()
    processor_seconds: float = 0.0
    is_complete: bool = True

    @classmethod
    def join(cls, records: Iterable[CompilationRecord]) -> CompilationRecord:
        """Return one record with the facts of several compilation records."""
        made = tuple(records)
        return cls(
            tuple(error for one in made for error in one.errors),
            tuple(call for one in made for call in one.fallbacks),
            tuple(change for one in made for change in one.changed),
            tuple(block for one in made for block in one.repeated),
            tuple(region for one in made for region in one.regions),
            sum(one.processor_seconds for one in made),
            all(one.is_complete for one in made),
        )


class GraphCompiler:
    """A backend that compiles graphs with AOTAutograd, and with Inductor if ``inductor`` is true.

    Create at most one per process.
    """

    def __init__(self, *, inductor: bool) -> None:
        self._observer = CompilerObserver(inductor=inductor)

    def __call__(self, graph: torch.fx.GraphModule, inputs: Any, **options: Any) -> Any:
        for number, node in enumerate(_all_nodes(graph)):
            text = node.meta.get("stack_trace") or ""
            node.meta["stack_trace"] = f"{text}\n{_MARK}{number}\n"
        return self._observer(graph, inputs, **options)

    def take_records(self, recording: Recording, path: str) -> tuple[CompilationRecord, ...]:
        """Return the facts about each graph compiled since the last call of this method, in the
        order in which Dynamo captured the graphs.

        ``recording`` is Dynamo's recording of the calls that compiled them. Times are listed for
        the lines of the file ``path``. Times are missing if the recording lacks the graphs, as with
        some releases of torch.
        """
        compiled = list(self._observer.compiled)
        self._observer.compiled.clear()
        frames = {frame.id: frame for frame in recording.frames}
        captured: list[TracedFrame | None] = [None] * len(compiled)
        if len(compiled) == len(recording.graphs):
            captured = [frames.get(graph.frame) for graph in recording.graphs]
        return tuple(
            _make_record(one, frame, path) for one, frame in zip(compiled, captured, strict=True)
        )


def _make_record(one: CompiledGraph, frame: TracedFrame | None, path: str) -> CompilationRecord:
    """Return the facts about one graph that Dynamo captured from ``frame``."""
    known = _all_nodes(one.graph)
    errors = tuple(
        CompilerError(
            problem.stage,
            type(problem.error).__name__,
            _without_marks(texts.error_message(problem.error)),
            _find_stack(problem.location, known),
            problem.backward,
            texts.is_out_of_memory(problem.error),
        )
        for problem in one.errors
    )
    fallbacks = tuple(
        OperatorFallback(
            _operator_name(call.operator),
            call.dtypes,
            _find_stack(call.location, known),
            call.backward,
        )
        for call in one.fallbacks
        if _is_avoidable(call.operator)
    )
    changed = tuple(
        ChangedInput(
            _source_name(mutation),
            _stack_of_change(mutation.node),
            mutation.copied,
            mutation.requires_grad,
        )
        for mutation in one.mutations
        if not mutation.static
    )
    regions: tuple[RegionCompilation, ...] = ()
    if frame is not None:
        times = (max(frame.seconds - one.forward_seconds, 0.0), one.aot_seconds)
        dynamo, aot, inductor = (round(seconds, 4) for seconds in (*times, one.inductor_seconds))
        lines = _list_lines(one, known, path)
        regions = (RegionCompilation(frame.function, frame.line, dynamo, aot, inductor, lines),)
    return CompilationRecord(
        errors,
        fallbacks,
        changed,
        find_repeated_blocks(one.graph),
        regions,
        round(one.processor_seconds, 4),
        one.is_complete,
    )


def differentiate(result: Any) -> bool:
    """Compute the gradients of the sum of all tensors in a result that require gradients.

    Return whether any tensor does.
    """
    ends = [
        tensor
        for tensor in pytree.tree_leaves(result)
        if isinstance(tensor, torch.Tensor) and tensor.requires_grad
    ]
    if ends:
        torch.autograd.backward(ends, [torch.ones_like(tensor) for tensor in ends])
    return bool(ends)


_LEAST_SECONDS = 0.001
"""Minimum compile time in seconds for a line to be listed."""


def _list_lines(
    one: CompiledGraph, known: list[torch.fx.Node], path: str
) -> tuple[LineCompilation, ...]:
    """Return the compile times of the lines of the file ``path``, the slowest line first.

    ``known`` are all nodes of the graph.
    """
    by_line: dict[int, NodeSeconds] = defaultdict(NodeSeconds)
    for location, seconds in one.nodes.items():
        frames = [frame for frame in _find_stack(location, known) if frame.path == path]
        if frames:
            times = by_line[frames[-1].line]
            times.aot += seconds.aot
            times.inductor += seconds.inductor
    lines = (
        LineCompilation(line, round(times.aot, 4), round(times.inductor, 4))
        for line, times in by_line.items()
    )
    listed = [one for one in lines if one.seconds >= _LEAST_SECONDS]
    return tuple(sorted(listed, key=lambda one: -one.seconds))


def _all_nodes(graph: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Return the nodes of a graph and of the graphs inside it, such as bodies of ``cond``."""
    modules = [one for one in graph.modules() if isinstance(one, torch.fx.GraphModule)]
    return [node for module in modules for node in module.graph.nodes]


def _without_marks(text: str) -> str:
    return _MARKED.sub("\n", text).strip()


def _find_stack(location: str, known: list[torch.fx.Node]) -> Stack:
    """Return the stack of user code for the stack text of a compiler's node; empty if unknown.

    The text has marks if the node descends from ``known``, the nodes of Dynamo's graph.
    """
    marks = _MARKED.findall(location)
    if marks:
        number = int(marks[-1])
        if number < len(known) and (stack := nodes.location_of(known[number])):
            return stack
    return nodes.parse_stack_text(location)


def _operator_name(operator: Any) -> str:
    """Return ``aten.linalg_eig`` for the overload ``aten.linalg_eig.default``."""
    name = str(operator)
    return name.rpartition(".")[0] if isinstance(operator, OpOverload) else name


_FAST_KERNELS = re.compile(
    r"^(_?scaled_dot_product|_flash_attention|_efficient_attention|_?cudnn|_thnn|_?convolution"
    r"|miopen|mkldnn|_weight_int4pack|_?embedding_bag)"
)
"""Names of operators whose kernel in PyTorch is faster than generated code, so that Inductor calls
it on purpose."""


def _is_avoidable(operator: Any) -> bool:
    """Whether a user may care that Inductor calls an operator of PyTorch: it is part of PyTorch,
    and its kernel is not the fastest choice."""
    if not isinstance(operator, OpOverload):
        return False
    namespace, _, name = operator.name().partition("::")
    builtin = namespace in ("aten", "prims", "quantized", "quantized_decomposed")
    return builtin and _FAST_KERNELS.match(name) is None


def _source_name(mutation: InputMutation) -> str:
    source = getattr(mutation.node.meta.get("grapharg"), "source", None)
    try:
        name = source.name() if callable(getattr(source, "name", None)) else source.name  # type: ignore[union-attr]
    except Exception:  # in some releases of torch, a source may not have a name
        return ""
    return str(name)


def _stack_of_change(placeholder: torch.fx.Node) -> Stack:
    """Return the stack of the first operation that changes an input, or a view of it, in place;
    empty if none is found."""
    aliases = {placeholder}
    for node in placeholder.graph.nodes:
        if node.op not in ("call_function", "call_method") or aliases.isdisjoint(
            node.all_input_nodes
        ):
            continue
        first = node.args[0] if node.args else None
        out = node.kwargs.get("out")
        if (first in aliases and _changes_in_place(node)) or out in aliases:
            return nodes.location_of(node)
        if first in aliases and _may_be_view(node, first):
            aliases.add(node)
    return ()


def _changes_in_place(node: torch.fx.Node) -> bool:
    name = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
    if name in ("setitem", "__setitem__") or node.kwargs.get("inplace") is True:
        return True
    if name.startswith("i") and getattr(node.target, "__module__", "") == "_operator":
        return name not in ("index", "indexOf", "invert", "inv", "is_", "is_not", "itemgetter")
    return name.partition(".")[0].endswith("_") and not name.endswith("__")


def _may_be_view(node: torch.fx.Node, base: Any) -> bool:
    """Whether the result of a node shares memory with its input ``base``."""
    value, original = node.meta.get("example_value"), base.meta.get("example_value")
    if not isinstance(value, torch.Tensor) or not isinstance(original, torch.Tensor):
        return False
    try:
        return bool(value.untyped_storage()._cdata == original.untyped_storage()._cdata)
    except Exception:  # some tensors do not have storage
        return False
