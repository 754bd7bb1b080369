"""Compile with AOTAutograd and Inductor without building C++ code.

Inductor compiles a graph in two steps: it lowers the operators to kernels and writes their source,
then a C++ compiler builds the source. Nearly all errors of Inductor are raised in the first step,
which does not start a program.
"""

from __future__ import annotations

import contextlib
import copy
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

GraphBackend = Callable[..., Callable[..., Any]]
"""A backend of ``torch.compile``: it returns a function that executes the graph it is given."""

CompilerStage = Literal["AOTAutograd", "Inductor", "execution"]
"""Stage after Dynamo: AOTAutograd makes the forward and backward graphs with low-level operators,
Inductor lowers these graphs to kernels, and in the stage ``execution`` the compiled graphs run."""

_clock, _processor_clock = time.perf_counter, time.process_time


@dataclass(frozen=True)
class StageError:
    """An exception of the compiler. ``location`` is the stack text of the graph node at which it
    was raised; empty if the node is unknown."""

    stage: CompilerStage
    error: Exception
    location: str = ""
    backward: bool = False


@dataclass(frozen=True)
class FallbackCall:
    """A call of an operator that Inductor does not lower to a kernel of its own.

    ``location`` is the stack text of the graph node, and ``dtypes`` are the names of the dtypes of
    the node's inputs and results that are tensors.
    """

    operator: Any
    location: str
    dtypes: tuple[str, ...] = ()
    backward: bool = False


@dataclass(frozen=True)
class InputMutation:
    """An input of a graph that the graph changes in place.

    ``node`` is the input's node in Dynamo's graph. ``copied``: AOTAutograd copies the changed value
    back after the compiled graph has run, because autograd must see the change.
    """

    node: Any
    copied: bool
    requires_grad: bool
    static: bool
    """True for parameters and buffers, whose memory does not move between calls."""


@dataclass
class NodeSeconds:
    """Wall times in seconds of tracing a node by AOTAutograd, and of lowering it by Inductor.

    Work on a whole graph, such as the partition, fusion and writing of kernels, is not included.
    """

    aot: float = 0.0
    inductor: float = 0.0


@dataclass
class CompiledGraph:
    """Facts about the compilation of one graph of Dynamo by AOTAutograd and Inductor.

    ``graph`` is Dynamo's graph before the compiler changes it. The seconds are wall times.
    """

    graph: torch.fx.GraphModule
    is_complete: bool = False
    """False while the graph is being compiled."""
    processor_seconds: float = 0.0
    """Processor time in seconds of AOTAutograd and Inductor, including the backward graph."""
    forward_seconds: float = 0.0
    """Wall time in seconds of the whole call of the backend, without backward graphs compiled
    later."""
    aot_seconds: float = 0.0
    inductor_seconds: float = 0.0
    errors: list[StageError] = field(default_factory=list)
    fallbacks: list[FallbackCall] = field(default_factory=list)
    mutations: list[InputMutation] = field(default_factory=list)
    nodes: dict[str, NodeSeconds] = field(default_factory=dict)
    """Times of single nodes, by the stack text of the node."""


def lowering_backend() -> GraphBackend:
    """Return a backend that raises what AOTAutograd and Inductor raise while they compile.

    Its compiled graphs are executed by PyTorch's operators, after the decompositions and the
    partition into forward and backward graphs that Inductor uses. From the first call on, this
    process cannot build C++ code.

    See ``torch._inductor.compile_fx.compile_fx``, whose parameter ``inner_compile`` replaces the
    last step.
    """
    from torch._inductor import compile_fx

    _omit_builds()

    def lower(graph: torch.fx.GraphModule, inputs: list[Any], **options: Any) -> Any:
        executed = _copy_graph(graph)
        compile_fx.compile_fx_inner(graph, inputs, **options)
        return _execute_graph(executed)

    def backend(graph: torch.fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        return compile_fx.compile_fx(graph, inputs, inner_compile=lower)

    return backend


def _copy_graph(graph: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Return a copy of a graph, because Inductor changes the original.

    Constants are shared: they must not be copied while the mode for fake tensors is active.
    """
    return torch.fx.GraphModule(graph, copy.deepcopy(graph.graph))


def _execute_graph(graph: torch.fx.GraphModule) -> Callable[[list[Any]], Any]:
    """Return a function that executes a graph of AOTAutograd with PyTorch's operators."""

    def execute(values: list[Any]) -> Any:
        given = list(values)
        values.clear()
        return graph(*given)

    # AOTAutograd then passes the inputs as one list, which the function may clear.
    execute._boxed_call = True  # type: ignore[attr-defined]
    return execute


class CompilerObserver:
    """A backend of ``torch.compile`` that records what AOTAutograd and Inductor do with each graph.

    After an error of the compiler, the graph runs uncompiled, so that the next graphs are compiled
    as well. ``inductor``: graphs are also lowered by Inductor, not only prepared by AOTAutograd.
    Construct it at most once per process, which cannot build C++ code afterwards.
    """

    def __init__(self, *, inductor: bool) -> None:
        from torch._inductor import compile_fx

        self.compiled: list[CompiledGraph] = []
        """Facts about each graph, in the order in which Dynamo passed the graphs to the backend."""
        self._inductor = inductor
        self._current: CompiledGraph | None = None
        self._backward = self._lowering = self._in_node = False
        self._autograd_location = ""
        """Stack text of the forward node whose backward AOTAutograd is tracing; empty outside of
        backward functions."""
        self._compile = compile_fx.compile_fx
        self._lower_graph = compile_fx.compile_fx_inner
        _omit_builds()
        self._install_hooks()

    def __call__(self, graph: torch.fx.GraphModule, inputs: list[Any], **_: Any) -> Any:
        original = _copy_graph(graph)
        one = CompiledGraph(original)
        self.compiled.append(one)

        def lower(lowered: torch.fx.GraphModule, values: list[Any], **options: Any) -> Any:
            return self._lower(one, lowered, values, options)

        started, used = _clock(), _processor_clock()
        try:
            with self._compiling(one, backward=False):
                made = self._compile(graph, inputs, inner_compile=lower)
            one.mutations += _list_mutations(original)
        except Exception as error:
            self._add_error(one, error, "AOTAutograd")
            made = original.forward
        one.forward_seconds = _clock() - started
        one.processor_seconds += _processor_clock() - used
        one.aot_seconds = one.forward_seconds - one.inductor_seconds
        one.is_complete = True
        return made

    def _lower(
        self,
        one: CompiledGraph,
        graph: torch.fx.GraphModule,
        inputs: list[Any],
        options: dict[str, Any],
    ) -> Any:
        """Lower a forward or backward graph of AOTAutograd with Inductor; record its error."""
        executed, backward = _copy_graph(graph), bool(options.get("is_backward"))
        # A backward graph may be lowered later, in the first backward pass.
        is_late = self._current is None
        if self._inductor:
            started, used = _clock(), _processor_clock()
            try:
                with self._compiling(one, backward=backward, lowering=True):
                    self._lower_graph(graph, inputs, **options)
            except Exception as error:
                self._add_error(one, error, "Inductor", backward=backward)
            one.inductor_seconds += _clock() - started
            if is_late:
                one.processor_seconds += _processor_clock() - used
        run = _execute_graph(executed)

        def execute(values: list[Any]) -> Any:
            given = list(values)
            try:
                return run(values)
            except Exception as error:
                location = _find_failing_node(executed, given)
                if location:
                    one.errors.append(StageError("execution", error, location, backward))
                raise

        execute._boxed_call = True  # type: ignore[attr-defined]
        return execute

    @contextlib.contextmanager
    def _compiling(
        self, one: CompiledGraph, *, backward: bool, lowering: bool = False
    ) -> Iterator[None]:
        before = self._current, self._backward, self._lowering, self._in_node
        self._current, self._backward, self._autograd_location = one, backward, ""
        self._lowering, self._in_node = lowering, False
        try:
            yield
        finally:
            self._current, self._backward, self._lowering, self._in_node = before

    @contextlib.contextmanager
    def _timing(self, node: Any) -> Iterator[None]:
        """Add the time of the ``with`` block to the times of the node. Do nothing if the block is
        inside the block of another node."""
        one = self._current
        if one is None or self._in_node:
            yield
            return
        self._in_node = True
        started = _clock()
        try:
            yield
        finally:
            self._in_node = False
            times = one.nodes.setdefault(node.meta.get("stack_trace") or "", NodeSeconds())
            if self._lowering:
                times.inductor += _clock() - started
            else:
                times.aot += _clock() - started

    def _add_error(
        self, one: CompiledGraph, error: Exception, stage: CompilerStage, *, backward: bool = False
    ) -> None:
        location = _find_location(error)
        if not location and stage == "AOTAutograd":
            location = self._autograd_location
            backward = bool(location)
        one.errors.append(StageError(stage, error, location, backward))

    # -- hooks --------------------------------------------------------------------------------

    def _install_hooks(self) -> None:
        from torch._inductor import ir
        from torch.fx import traceback

        interpreter: Any = torch.fx.Interpreter
        fallback: Any = ir.FallbackKernel
        run_node, create = interpreter.run_node, fallback.create.__func__
        set_stack_trace = traceback.set_stack_trace

        def run_node_noting_errors(runner: Any, node: Any) -> Any:
            try:
                with self._timing(node):
                    return run_node(runner, node)
            except Exception as error:
                with contextlib.suppress(Exception):
                    if not getattr(error, _LOCATION, ""):
                        setattr(error, _LOCATION, node.meta.get("stack_trace") or "")
                raise

        def create_noting_fallback(kind: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
            self._note_fallback(kernel)
            return create(kind, kernel, *args, **kwargs)

        def set_noting_location(stack: list[str]) -> None:
            self._autograd_location = "".join(stack or ())
            set_stack_trace(stack)

        interpreter.run_node = run_node_noting_errors
        fallback.create = classmethod(create_noting_fallback)
        module: Any = traceback
        module.set_stack_trace = set_noting_location

    def _note_fallback(self, kernel: Any) -> None:
        from torch._inductor.virtualized import V

        node = getattr(V.graph, "current_node", None)
        if self._current is None or node is None:
            return
        values = [node.meta.get("val"), *(one.meta.get("val") for one in node.all_input_nodes)]
        tensors = [one for one in _flatten(values) if isinstance(one, torch.Tensor)]
        dtypes = dict.fromkeys(str(one.dtype).removeprefix("torch.") for one in tensors)
        location = node.meta.get("stack_trace") or ""
        self._current.fallbacks.append(
            FallbackCall(kernel, location, tuple(dtypes), self._backward)
        )


_LOCATION = "_fullgraph_node_stack"
"""Attribute of an exception with the stack text of the graph node at which it was raised."""


def _find_location(error: BaseException) -> str:
    """Return the stack text of the graph node at which an exception, or the exception that caused
    it, was raised; empty if unknown."""
    cause: BaseException | None = error
    for _ in range(_MOST_CAUSES):
        if cause is None:
            break
        if location := getattr(cause, _LOCATION, ""):
            return str(location)
        cause = getattr(cause, "inner_exception", None) or cause.__cause__ or cause.__context__
    return ""


_MOST_CAUSES = 8


def _find_failing_node(graph: torch.fx.GraphModule, inputs: list[Any]) -> str:
    """Return the stack text of the node at which a graph raises; empty if it does not raise
    again."""
    try:
        torch.fx.Interpreter(graph).run(*inputs)
    except Exception as error:
        return _find_location(error)
    return ""


def _flatten(values: list[Any]) -> list[Any]:
    return list(torch.utils._pytree.tree_leaves(values))


def _list_mutations(graph: torch.fx.GraphModule) -> list[InputMutation]:
    """Return the inputs that a graph changes in place; empty if this torch does not show them.

    AOTAutograd must have compiled the graph last.
    """
    context = torch._guards.TracingContext.try_get()
    metadata = getattr(context, "fw_metadata", None)
    placeholders = graph.graph.find_nodes(op="placeholder")
    inputs = getattr(metadata, "input_info", None) or []
    if len(inputs) != len(placeholders):
        return []
    static = set(getattr(metadata, "static_input_indices", None) or ())
    return [
        InputMutation(
            node,
            info.mutation_type.name == "MUTATED_OUT_GRAPH",
            bool(info.requires_grad),
            number in static,
        )
        for number, (node, info) in enumerate(zip(placeholders, inputs, strict=True))
        if info.mutates_data
    ]


def _omit_builds() -> None:
    """Replace what starts a C++ compiler in Inductor: kernels, and tests of vector instructions.

    Instead of building a test program, trust the processor's own list of its instructions.
    """
    from torch._inductor import async_compile, config, cpp_builder, cpu_vec_isa

    def no_kernel(*_: Any, **__: Any) -> Callable[..., None]:
        return lambda *_, **__: None

    builds: Any = async_compile.AsyncCompile
    builds.cpp = builds.cpp_pybinding = no_kernel
    config.cpp.vec_isa_ok = True
    instructions: Any = cpu_vec_isa.VecISA
    # Inductor tests some instructions although the setting above is on.
    instructions.check_build = lambda *_: True
    compilers: Any = cpp_builder
    compilers.get_cpp_compiler = lambda: "c++"
