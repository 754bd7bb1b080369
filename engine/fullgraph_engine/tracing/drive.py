"""Drive Dynamo once over one call."""

from __future__ import annotations

import contextlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

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
from .scalars import readable_scalars
from .tensors import (
    RunTensorMode,
    ValueNeeded,
    copyable_constants,
    formattable_scalars,
    recognised_parameters,
    swappable_parameters,
)

_fake: RunTensorMode | None = None


def fake_mode() -> RunTensorMode:
    """The fake tensor mode of this process: tensors of two modes cannot meet in one operator."""
    global _fake
    if _fake is None:
        _fake = RunTensorMode()
    return _fake


@contextlib.contextmanager
def tensor_mode(fake: bool) -> Iterator[RunTensorMode | None]:
    """Everything inside sees fake tensors, or real ones."""
    if not fake:
        yield None
        return
    if absent_cuda.is_wanted():
        absent_cuda.pretend()
    mode = fake_mode()
    triton_kernels.launch_nothing()
    fake_tensors.find_higher_order_rules(RunTensorMode)
    recurrent.shorten(mode)
    with (
        mode,
        swappable_parameters(),
        recognised_parameters(),
        copyable_constants(),
        formattable_scalars(),
        readable_scalars(),
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
) -> Recording:
    """Call ``function`` under ``torch.compile`` with a backend that compiles nothing.

    Call it inside :func:`tensor_mode`. ``dynamic`` are dimensions to try as symbolic; Dynamo may
    still specialize them, and then that is recorded. ``symbols`` are what the user
    calls them. What the call raises becomes the recording's ``failure``; only :class:`ValueNeeded`
    passes through. Of the code of ``file`` it is written down what values were.
    """
    install()
    for tensor, dim in dynamic:
        dynamo.mark_dynamic(tensor, dim)
    backend = NoBackend()
    backend.marks_outputs = bool(dynamic)
    if _fake is not None:
        _fake.keeps_dynamic = bool(dynamic)
    watch = recorder.Recorder(BOTTOM, on_break, file, witness)
    for (tensor, dim), symbol in zip(dynamic, symbols, strict=False):
        watch.shapes.name(tensor, dim, symbol)
    started = time.perf_counter()
    with watch.listen() as recording, _report_chosen(recording):
        try:
            # A module without what `nn.Module.__init__` makes raises here.
            compiled = torch.compile(function, backend=backend)
            _call(compiled, args, kwargs)
        except ValueNeeded:
            raise
        except BaseException as error:
            recording.failure = failure_of(error)
        finally:
            recording.seconds = time.perf_counter() - started
    return recording


def call_eagerly(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """The same call without Dynamo; raises what it raises."""
    with dynamo.config.patch(disable=True):
        return _call(function, args, kwargs)


def failure_of(error: BaseException) -> Failure:
    """What to remember of an exception; tracer errors bring the user's stack along."""
    traced = getattr(error, "_fullgraph_stack", None) or stacks.of_summary(
        getattr(error, "real_stack", None)
    )
    live = stacks.of_traceback(error.__traceback__)
    # Mistakes of Dynamo's own, such as a guard that fails at once, are plain exceptions.
    in_tracer = (
        isinstance(error, _TRACER_ERRORS)
        or bool(traced)
        or stacks.leads_into_tracer(error.__traceback__)
    )
    cause = getattr(error, "inner_exception", None) or error
    # Errors that are a break first and are then raised as one text.
    broken = error.__context__
    chain: tuple[Cause, ...] = ()
    if broken is not None and getattr(broken, "_fullgraph_cause", None) is not None:
        if isinstance(error, TorchRuntimeError):
            # An operator failed on fake tensors: the error of that operator says the most.
            cause = getattr(broken, "_fullgraph_source", None) or cause
            chain = causes.of_error(broken)
        elif isinstance(error, UncapturedHigherOrderOpError):
            chain = causes.of_error(broken)
    elif isinstance(error, TorchRuntimeError):
        # The same up to torch 2.10, where it is no break first.
        cause = error.__cause__ or getattr(error.__context__, "__cause__", None) or cause
    original = causes.behind_fake_error(error)
    if original is not None:
        cause, chain = original, (causes.of_message(error),)
    words = _words(cause)
    return Failure(
        "tracer" if in_tracer else "eager",
        type(cause).__name__,
        words.partition(" Got graph break/error:")[0] if chain else words,
        stacks.join(live, traced),
        chain,
        str(getattr(error, "_hop_name", "")),
    )


_TRACER_ERRORS = (TorchDynamoException, ConstraintViolationError)


def _words(error: BaseException) -> str:
    """The message without the stack that Dynamo appends to it."""
    text = texts.error_message(error)
    for marker in ("\n\nfrom user code:", "\n\nSet TORCHDYNAMO_VERBOSE"):
        text = text.partition(marker)[0]
    return text.strip()


def _call(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


BOTTOM = _call.__code__
"""Makes every traced call: the frames that called it are not the user's."""


@contextlib.contextmanager
def _report_chosen(recording: Recording) -> Iterator[None]:
    mode = _fake
    if mode is None:
        yield
        return

    def note(chosen: ChosenValue) -> None:
        recording.chosen.append(chosen)

    mode.on_chosen = note
    try:
        yield
    finally:
        mode.on_chosen = None


class NoBackend:
    """A Dynamo backend that runs the captured graph as it is.

    It also stands in for the backend wrappers that ``torch.compile`` makes, so that what the
    user's file compiles is traced and not compiled. All instances are equal: Dynamo throws its
    cache away when the backend changes.

    With ``marks_outputs`` a size that is symbolic when a graph ends stays so behind the break:
    Dynamo would start the next graph with it as a constant, and make that symbolic only when
    another size comes along.
    """

    compiler_name = "fullgraph"
    calls_own = False
    """True in programs: a backend written as a function of the user is called, and different
    options make different backends, as for ``torch.compile``."""

    def __init__(self, wrapped: Any = None, *args: Any, **_kwargs: Any) -> None:
        self.wrapped = wrapped
        self.key = (wrapped if callable(wrapped) else repr(wrapped), repr(args))
        self.dynamic = None
        self.config: dict[str, Any] = {}
        self.own: Any = wrapped if NoBackend.calls_own and callable(wrapped) else None
        self.marks_outputs = bool(getattr(wrapped, "marks_outputs", False))

    def __call__(self, module: Any, inputs: Any, **kwargs: Any) -> Any:
        if self.own is not None:
            return self.own(module, inputs, **kwargs)
        symbolic = _symbolic_outputs(module) if self.marks_outputs else ()
        if not symbolic:
            return module.forward

        watch = recorder.active()
        named = [
            (number, dim, watch.shapes.words(size) if watch is not None else "")
            for number, dim, size in symbolic
        ]

        def forward(*args: Any) -> Any:
            outputs = module.forward(*args)
            for number, dim, name in named:
                dynamo.mark_dynamic(outputs[number], dim)
                if watch is not None:
                    watch.shapes.name(outputs[number], dim, name)
            return outputs

        return forward

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, NoBackend):
            return False
        return self.key == other.key or not NoBackend.calls_own

    def __hash__(self) -> int:
        return hash(NoBackend)

    def get_compiler_config(self) -> None:
        return None

    def reset(self) -> None:
        return None


class NoInductor(NoBackend):
    """A stand-in for Inductor's wrapper, whose arguments are a mode and options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # The fourth is a name for logs.
        super().__init__("inductor", *args[:3], **kwargs)


def _symbolic_outputs(module: Any) -> tuple[tuple[int, int, Any], ...]:
    """Which dimensions of which outputs of a graph have no fixed size, and the size."""
    (outputs,) = module.graph.output_node().args
    found: list[tuple[int, int, Any]] = []
    for number, node in enumerate(outputs):
        value = getattr(node, "meta", {}).get("example_value")
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.maybe_as_int() is None:
                    found.append((number, dim, size))
    return tuple(found)


def install() -> None:
    """Put all hooks in place, once per process, as far as this torch has them."""
    global _installed
    if not _installed:
        hooks.install()
        operator_calls.install()
        backends.GET_COMPILER.wrap(_around_get_compiler)
        stand_ins = {backends.INDUCTOR_WRAPPER: NoInductor, backends.BACKEND_WRAPPER: NoBackend}
        for wrapper, stand_in in stand_ins.items():
            _wrappers[wrapper] = wrapper.get()
            wrapper.replace(stand_in)
        # Dynamo times every new set of guards on a flushed cache, for its logs: it allocates and
        # touches 32 MiB, most of the time that a small frame takes, and nothing depends on it.
        guards.PROFILE.wrap(lambda _original: lambda *_args: 0.0)
        # For debug logs it reads and tokenizes each file that a traced function is in, torch's own
        # as well.
        guards.FUNCTION_NAME.wrap(lambda _original: lambda *_args: None)
        triton_kernels.install()
        _installed = True


_installed = False


def _around_get_compiler(original: Callable[..., Any]) -> Callable[..., Any]:
    def get_compiler_fn(compiler_fn: Any) -> Any:
        is_named = isinstance(compiler_fn, str) and not _compiling
        return original(NoBackend() if is_named else compiler_fn)

    return get_compiler_fn


@contextlib.contextmanager
def real_backends() -> Iterator[None]:
    """Inside, ``torch.compile`` compiles with the backend that it is given."""
    global _compiling
    put_back = [wrapper.replace(original) for wrapper, original in _wrappers.items()]
    _compiling = True
    try:
        yield
    finally:
        _compiling = False
        for undo in put_back:
            if undo is not None:
                undo()


_compiling = False
_wrappers: dict[Internal, Any] = {}
"""What ``torch.compile`` makes of a backend's name, as torch has it."""


def _start_autograd() -> None:
    """Have autograd count its devices, as it does once per process, while there are none.

    A CUDA build without a device gets one that does nothing when the first fake mode begins. From
    then on autograd would start a thread for each device that it could be: in every run that calls
    ``backward``, which then cannot fork, and may abort when several of them find that the pool of
    threads that a fork has lost is not yet replaced (``caffe2::pthreadpool``).

    C++ keeps the count of CUDA's, ``c10::cuda::device_count``, so it stays at none in all forks.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a driver may say why it finds none
        torch.ones((), requires_grad=True).backward()


def warm() -> None:
    """Import and build what the first trace would: call once, before forking.

    Traces a little of everything that is common in models, on fake tensors, and forgets it. No
    kernel of note runs, so no thread pool starts that a fork would break.
    """
    install()

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
    without_gpu.never_ask()
    # What sympy has worked out about symbols it knows in every fork.
    backend.marks_outputs = mode.keeps_dynamic = True
    with mode, contextlib.suppress(Exception):
        x = torch.randn(4, 3, 8)
        recorder_only = recorder.Recorder(BOTTOM)
        dynamo.mark_dynamic(x, 0)
        with recorder_only.listen():
            _call(torch.compile(Model(), backend=backend), (x,), {})
    dynamo.reset()
    dynamo.counters.clear()
    breaks.registry()
