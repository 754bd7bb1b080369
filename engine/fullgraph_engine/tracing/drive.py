"""Trace one call with Dynamo, and prepare the process for tracing."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

from .. import devices, texts
from ..torch_internals import backends, breaks, dynamo, fake_tensors, guards, without_gpu
from ..torch_internals.binding import Internal
from ..torch_internals.exceptions import (
    ConstraintViolationError,
    TorchDynamoException,
    TorchRuntimeError,
    UncapturedHigherOrderOpError,
)
from . import (
    absent_cuda,
    causes,
    hooks,
    operator_calls,
    recorder,
    recurrent,
    stacks,
    triton_kernels,
)
from .observer import Witness
from .recording import Break, Cause, ChosenValue, Failure, Recording
from .scalars import allow_scalar_reads
from .tensors import (
    RunTensorMode,
    ValueNeeded,
    allow_constant_copies,
    allow_parameter_swaps,
    allow_scalar_formatting,
    recognize_parameters,
)

_fake_mode: RunTensorMode | None = None


def fake_mode() -> RunTensorMode:
    """Return the fake tensor mode that all runs in this process share.

    Operators refuse tensors from two different modes.
    """
    global _fake_mode
    if _fake_mode is None:
        _fake_mode = RunTensorMode()
    return _fake_mode


class FurtherCall(Protocol):
    """A call of the traced object after its first call, with modes of its own, such as
    ``torch.no_grad``.
    """

    @property
    def function(self) -> Callable[..., Any]: ...

    @property
    def args(self) -> tuple[Any, ...]: ...

    @property
    def kwargs(self) -> dict[str, Any]: ...

    def enter(self) -> AbstractContextManager[None]:
        """Return a context manager that activates the modes of the call, such as
        ``torch.no_grad``."""
        ...


@contextlib.contextmanager
def tensor_mode(fake: bool) -> Iterator[RunTensorMode | None]:
    """Activate the fake tensor mode inside the ``with`` block and yield it.

    If ``fake`` is false, yield None and use real tensors.
    """
    if not fake:
        yield None
        return
    if absent_cuda.is_requested():
        absent_cuda.install_cuda_guard()
    mode = fake_mode()
    triton_kernels.skip_fake_launches()
    fake_tensors.register_higher_order_rules(RunTensorMode)
    recurrent.skip_time_steps(mode)
    with (
        mode,
        allow_parameter_swaps(),
        recognize_parameters(),
        allow_constant_copies(),
        allow_scalar_formatting(),
        allow_scalar_reads(),
    ):
        yield mode


def trace(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    *,
    dynamic: Sequence[tuple[torch.Tensor, int]] = (),
    symbols: Sequence[str] = (),
    on_break: Callable[[Break], None] | None = None,
    file: str = "",
    witness: Witness | None = None,
    enter: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext,
    then: Sequence[FurtherCall] = (),
    on_result: Callable[[Any], None] | None = None,
) -> Recording:
    """Call ``function`` under ``torch.compile`` with a backend that compiles nothing; return what
    Dynamo did.

    The call is made inside ``enter()``. The calls of ``then`` follow it, up to the first one to
    raise an exception. The caller must be inside :func:`tensor_mode`. ``dynamic`` lists pairs of a
    tensor and a dimension to mark as dynamic; Dynamo may still specialize the dimension, and the
    recording says so. ``symbols`` are the user's names of these dimensions, in the same order.
    ``on_break`` is called for each graph break. ``witness`` observes Dynamo's events. The recording
    contains the values seen in the code of ``file``. An exception of the call becomes the
    recording's ``failure``; only :class:`ValueNeeded` propagates.
    """
    install_hooks()
    for tensor, dim in dynamic:
        dynamo.mark_dynamic(tensor, dim)
    backend = NoBackend()
    backend.marks_outputs = bool(dynamic)
    if _fake_mode is not None:
        _fake_mode.keeps_dynamic = bool(dynamic)
    active_recorder = recorder.Recorder(BOTTOM, on_break, file, witness)
    for (tensor, dim), symbol in zip(dynamic, symbols, strict=False):
        active_recorder.shapes.set_size_name(tensor, dim, symbol)
    start = time.perf_counter()
    with active_recorder.listen() as recording, _record_chosen_values(recording):
        try:
            # `torch.compile` raises for a module that did not call `nn.Module.__init__`.
            compiled = torch.compile(function, backend=backend)
            with enter():
                result = _make_call(compiled, args, kwargs)
            if on_result is not None:
                on_result(result)
            for one in then:
                again = compiled
                if one.function != function:
                    again = torch.compile(one.function, backend=backend)
                with one.enter():
                    _make_call(again, one.args, one.kwargs)
        except ValueNeeded:
            raise
        except BaseException as error:
            recording.failure = failure_of(error)
        finally:
            recording.seconds = time.perf_counter() - start
    return recording


def call_eagerly(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call ``function`` with Dynamo disabled; exceptions propagate."""
    with dynamo.config.patch(disable=True):
        return _make_call(function, args, kwargs)


def failure_of(error: BaseException) -> Failure:
    """Convert an exception to a :class:`Failure` record.

    An error that Dynamo itself raised gets the stack of the user code that was being traced.
    """
    traced = getattr(error, "_fullgraph_stack", None) or stacks.stack_of_summary(
        getattr(error, "real_stack", None)
    )
    live = stacks.stack_of_traceback(error.__traceback__)
    # Dynamo's internal errors, such as a guard that fails immediately, are plain exceptions.
    in_tracer = (
        isinstance(error, _TRACER_ERRORS)
        or bool(traced)
        or stacks.passes_through_tracer(error.__traceback__)
    )
    cause = getattr(error, "inner_exception", None) or error
    # For some breaks, Dynamo raises an error with the same text while it handles the break's own
    # error.
    context = error.__context__
    chain: tuple[Cause, ...] = ()
    if context is not None and getattr(context, "_fullgraph_cause", None) is not None:
        if isinstance(error, TorchRuntimeError):
            # An operator failed on fake tensors: report the operator's own error.
            cause = getattr(context, "_fullgraph_source", None) or cause
            chain = causes.cause_chain(context)
        elif isinstance(error, UncapturedHigherOrderOpError):
            chain = causes.cause_chain(context)
    elif isinstance(error, TorchRuntimeError):
        # Up to torch 2.10 Dynamo raises this error without a break.
        cause = error.__cause__ or getattr(error.__context__, "__cause__", None) or cause
    original = causes.find_operator_error(error)
    if original is not None:
        cause, chain = original, (causes.parse_message(error),)
    message = _strip_tracer_stack(cause)
    return Failure(
        "tracer" if in_tracer else "eager",
        type(cause).__name__,
        message.partition(" Got graph break/error:")[0] if chain else message,
        stacks.join_stacks(live, traced),
        chain,
        str(getattr(error, "_hop_name", "")),
    )


_TRACER_ERRORS = (TorchDynamoException, ConstraintViolationError)


def _strip_tracer_stack(error: BaseException) -> str:
    """Return the message of an error without the stack that Dynamo appends to it."""
    text = texts.error_message(error)
    for marker in ("\n\nfrom user code:", "\n\nSet TORCHDYNAMO_VERBOSE"):
        text = text.partition(marker)[0]
    return text.strip()


def _make_call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


BOTTOM = _make_call.__code__
"""Code object of the function that makes every traced call; stack frames outside its frame are not
the user's."""


@contextlib.contextmanager
def _record_chosen_values(recording: Recording) -> Iterator[None]:
    mode = _fake_mode
    if mode is None:
        yield
        return

    def record(chosen: ChosenValue) -> None:
        recording.chosen.append(chosen)

    mode.on_chosen = record
    try:
        yield
    finally:
        mode.on_chosen = None


def _without_bases(forward: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that calls ``forward`` and changes its results as Inductor does: a
    view of an intermediate tensor does not refer to this tensor.

    Otherwise a call with this result as an argument has guards for the sizes of the intermediate
    tensor.
    """

    def call(*args: Any) -> Any:
        inputs = {id(one) for arg in args for one in (arg, getattr(arg, "_base", None))}

        def result(one: Any) -> Any:
            is_view = type(one) is torch.Tensor and one._is_view() and not one.requires_grad
            return one.data if is_view and id(one._base) not in inputs else one

        results = forward(*args)
        return (
            type(results)(map(result, results)) if isinstance(results, (tuple, list)) else results
        )

    return call


class NoBackend:
    """A Dynamo backend that runs the captured graph without compiling it.

    It also replaces torch's own backend wrappers, so that all code that the user's file compiles is
    traced but not compiled. All instances are equal, because Dynamo discards its cache when the
    backend changes.

    With ``marks_outputs``, a size that is symbolic at the end of a graph stays symbolic after the
    break. By default Dynamo would start the next graph with it as a constant, and make it symbolic
    only for a second size.
    """

    compiler_name = "fullgraph"
    calls_user_backend = False
    """True while a program runs. A backend that is a Python function of the user is then called.
    Backends with different options count as different, as in ``torch.compile``.
    """
    compiler: Callable[..., Any] | None = None
    """Backend that compiles all captured graphs; None to run them without compilation."""

    def __init__(self, wrapped: Any = None, *args: Any, **_kwargs: Any) -> None:
        self.wrapped = wrapped
        self.key = (wrapped if callable(wrapped) else repr(wrapped), repr(args))
        self.dynamic = None
        self.config: dict[str, Any] = {}
        self.kwargs: dict[str, Any] = {}
        self.user_backend: Any = (
            wrapped if NoBackend.calls_user_backend and callable(wrapped) else None
        )
        self.marks_outputs = bool(getattr(wrapped, "marks_outputs", False))

    def __call__(self, module: Any, inputs: Any, **kwargs: Any) -> Any:
        compiler = self.user_backend or self.chosen_compiler()
        if compiler is None and _has_nested_regions(module):
            compiler = backends.find_backend("aot_eager")
        if compiler is not None:
            return compiler(module, inputs, **kwargs)
        symbolic = _symbolic_outputs(module) if self.marks_outputs else ()
        if not symbolic:
            keeps_bases = not NoBackend.calls_user_backend or self.wrapped == "eager"
            return module.forward if keeps_bases else _without_bases(module.forward)

        active_recorder = recorder.active_recorder()
        symbolic_with_names = [
            (
                number,
                dim,
                active_recorder.shapes.format_size(size) if active_recorder is not None else "",
            )
            for number, dim, size in symbolic
        ]

        def forward(*args: Any) -> Any:
            outputs = module.forward(*args)
            for number, dim, name in symbolic_with_names:
                dynamo.mark_dynamic(outputs[number], dim)
                if active_recorder is not None:
                    active_recorder.shapes.set_size_name(outputs[number], dim, name)
            return outputs

        return forward

    def chosen_compiler(self) -> Callable[..., Any] | None:
        """Return the backend that compiles the graphs of this instance; None to run them
        uncompiled."""
        return NoBackend.compiler

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoBackend):
            return False
        return self.key == other.key or not NoBackend.calls_user_backend

    def __hash__(self) -> int:
        return hash(NoBackend)

    def get_compiler_config(self) -> None:
        return None

    def reset(self) -> None:
        return None


class NoInductor(NoBackend):
    """A replacement for torch's Inductor wrapper; it runs graphs uncompiled unless a backend was
    chosen."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The fourth argument is only a name for logs, so it must not make two backends different.
        super().__init__("inductor", *args[:3], **kwargs)
        self._arguments, self._named = args, kwargs

    def chosen_compiler(self) -> Callable[..., Any] | None:
        """Return the backend that compiles graphs, or None.

        If it is Inductor, it gets the mode and options that the user passed to ``torch.compile``.
        """
        chosen = NoBackend.compiler
        if chosen is None or chosen is not backends.find_backend("inductor"):
            return chosen
        wrapper = _original_wrappers[backends.INDUCTOR_WRAPPER]
        return wrapper(*self._arguments, **self._named)  # type: ignore[no-any-return]


def _has_nested_regions(module: Any) -> bool:
    """Whether a graph calls regions of ``torch.compiler.nested_compile_region``, whose gradients
    only AOTAutograd can compute."""
    region = torch.ops.higher_order.invoke_subgraph
    return bool(module.graph.find_nodes(op="call_function", target=region))


def _symbolic_outputs(module: Any) -> tuple[tuple[int, int, Any], ...]:
    """Return the symbolic sizes of a graph's outputs, as (output index, dimension, size)
    triples."""
    (outputs,) = module.graph.output_node().args
    found: list[tuple[int, int, Any]] = []
    for number, node in enumerate(outputs):
        value = getattr(node, "meta", {}).get("example_value")
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None:
                    found.append((number, dim, size))
    return tuple(found)


def install_hooks() -> None:
    """Install wrappers around all private names of torch that the engine observes, once per
    process."""
    global _installed
    if not _installed:
        hooks.install_hooks()
        operator_calls.install_hook()
        backends.GET_COMPILER.wrap(_wrap_get_compiler)
        replacements = {backends.INDUCTOR_WRAPPER: NoInductor, backends.BACKEND_WRAPPER: NoBackend}
        for wrapper, replacement in replacements.items():
            _original_wrappers[wrapper] = wrapper.get()
            wrapper.replace(replacement)
        # Dynamo measures the speed of each new guard tree on a flushed cache, only for its logs.
        # That allocates and writes 32 MiB, which is most of the time of a small frame.
        guards.PROFILE_TREE.wrap(lambda _original: lambda *_args: 0.0)
        # For debug logs Dynamo reads and tokenizes the file of every traced function, including
        # torch's.
        guards.FUNCTION_NAME.wrap(lambda _original: lambda *_args: None)
        triton_kernels.install_hook()
        _installed = True


_installed = False


def _wrap_get_compiler(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_compiler_fn(compiler_fn: Any) -> Any:
        is_named = isinstance(compiler_fn, str) and not _uses_real_backends
        return original(NoBackend() if is_named else compiler_fn)

    return get_compiler_fn


@contextlib.contextmanager
def compile_graphs_with(compiler: Callable[..., Any]) -> Iterator[None]:
    """Let the backend ``compiler`` compile all graphs that Dynamo captures inside the ``with``
    block.
    """
    before, NoBackend.compiler = NoBackend.compiler, compiler
    try:
        yield
    finally:
        NoBackend.compiler = before


@contextlib.contextmanager
def use_real_backends() -> Iterator[None]:
    """Let ``torch.compile`` use its real backends instead of :class:`NoBackend` inside the ``with``
    block.
    """
    global _uses_real_backends
    undo_functions = [wrapper.replace(original) for wrapper, original in _original_wrappers.items()]
    _uses_real_backends = True
    try:
        yield
    finally:
        _uses_real_backends = False
        for undo in undo_functions:
            if undo is not None:
                undo()


_uses_real_backends = False
_original_wrappers: dict[Internal, Any] = {}
"""Torch's own backend wrapper classes, which :class:`NoBackend` replaced, by their private name."""


def _start_autograd() -> None:
    """Make autograd count its devices now, before the first fake mode begins.

    Autograd counts once per process. On a CUDA build without a device, the first fake mode
    registers a device that does nothing. If autograd counted after that, it would start a thread
    per possible device in every run that calls ``backward``. Such a run cannot fork. It may also
    abort if several threads find that the fork lost the thread pool (``caffe2::pthreadpool``).

    C++ caches the number of CUDA devices (``c10::cuda::device_count``), so it stays zero in all
    forks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver may warn that it does not find a device
        torch.ones((), requires_grad=True).backward()


def warm_up() -> None:
    """Import and build everything that the first trace needs. Call it once, before the process
    forks.

    It traces a small model with the most common operators on fake tensors and discards the result.
    The kernels are too small to start a thread pool, which a fork would break.
    """
    install_hooks()

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(8)
            self.linear = torch.nn.Linear(8, 8)
            self.drop = torch.nn.Dropout(0.1)
            self.conv = torch.nn.Conv1d(3, 3, 1)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.conv(torch.nn.functional.pad(x, (0, 0)))
            y: torch.Tensor = self.drop(torch.nn.functional.relu(self.linear(self.norm(x))))
            return x + y.view(x.shape[0], -1, 8).transpose(0, 1).transpose(0, 1)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block() for _ in range(2))

        def forward(self, x: torch.Tensor, flag: bool = True) -> torch.Tensor:
            for block in self.blocks:
                x = block(x)
            dynamo.graph_break()
            out = torch.cat([x, x], dim=-1).softmax(-1)
            total: torch.Tensor = out.sum()
            return total if flag else total * 2

    mode = RunTensorMode()
    backend = NoBackend()
    devices.hide_gpus()
    _start_autograd()
    without_gpu.report_no_gpu()
    # Fill sympy's caches for symbols, so that every fork has them.
    backend.marks_outputs = mode.keeps_dynamic = True
    with mode, contextlib.suppress(Exception):
        x = torch.randn(4, 3, 8)
        warmup_recorder = recorder.Recorder(BOTTOM)
        dynamo.mark_dynamic(x, 0)
        with warmup_recorder.listen():
            _make_call(torch.compile(Model(), backend=backend), (x,), {})
    dynamo.reset()
    dynamo.counters.clear()
    breaks.break_numbers()
