"""Trial calls: construct a module with the arguments of a candidate, call it, and record where it
stops."""

from __future__ import annotations

import contextlib
import dis
import functools
import math
import pathlib
import sys
import types
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from ... import devices, texts
from ...torch_internals.fake_tensors import unset_fake_temporarily
from .. import rng
from ..deadline import limit_seconds
from ..notation import LiteralValue, Mapping, Reference, Sequence, TensorText, Value, inner_values
from ..tensors import example_tensor, look_up
from .candidate import InputCandidate, Path, shape_of_text, with_field
from .guesses import WIDTH, Guesses, Namespace, SignatureParameter

_REAL_SECONDS = 1.5
"""Maximum seconds of a trial call with real tensors; slower ones are made with fake tensors."""
_SMALL = 4096
"""Maximum number of elements of a parameter to initialize when a module is constructed for a trial
call; larger ones stay uninitialized."""
_RANDOM = frozenset(
    f"{name}_" for name in ("normal", "uniform", "random", "log_normal", "exponential", "bernoulli")
)
_INITIAL = _RANDOM | {"fill_", "zero_", "erfinv_", "mul_", "add_", "clamp_"}
"""Names of methods that initialize tensors. The random methods always do; the others count only if
the tensor is a parameter."""
_BYTES, _REAL_BYTES = 1 << 27, 1 << 24
"""Maximum bytes of a tensor in a trial call, if fake and if real. They limit the duration, because
a deadline cannot interrupt a convolution."""
_REAL_MODULE = 1 << 28
"""Maximum bytes of the parameters of a module called with real tensors, since a call reads them
all.
"""


_USUAL_RANKS = {
    "conv1d": 3,
    "conv2d": 4,
    "conv3d": 5,
    "conv_transpose1d": 3,
    "conv_transpose2d": 4,
    "conv_transpose3d": 5,
    "linear": 2,
    "layer_norm": 2,
}
"""Number of dimensions that a layer's input usually has at least."""
_RECURRENT = "rnn.py"
_BROADCASTING = frozenset(["add", "sub", "rsub", "mul", "div"])


_ENGINE = str(pathlib.Path(__file__).parents[2])


class TimeIsUp(BaseException):
    """Raised when a trial call takes too long; user code cannot catch it as an ``Exception``."""


@dataclass(frozen=True)
class FailedCall:
    """A call of a torch function that raised during a trial call, with its arguments."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


@dataclass
class TrialOutcome:
    """The result and progress of a trial call, with the exception ``error`` or None.

    ``candidate`` are the tried arguments, with configuration attributes that the code requested.
    ``phase`` is 0 during construction, 1 during the call and 2 at the end. ``calls`` counts the
    torch functions called in that phase.
    """

    candidate: InputCandidate
    phase: int = 0
    calls: int = 0
    error: BaseException | None = None
    failed: FailedCall | None = None
    leaves: dict[int, Path] = field(default_factory=dict)
    """Positions of the tensors among the tried arguments, by the ``id`` of the tensor."""
    made: dict[Path, Any] = field(default_factory=dict)
    """Object made for each position of the tried arguments; the references keep the ids unique."""
    used: bool = False
    """True if the module was reused from an earlier trial call, which had called it."""
    unusual: str = ""
    """Reason why the inputs are unusual although the code may accept them, in words; empty if they
    are not."""

    @property
    def frames(self) -> list[tuple[types.FrameType, int, int]]:
        """Stack frames of the traceback with their lines and instruction offsets, outermost
        first.
        """
        found = []
        trace = self.error.__traceback__ if self.error is not None else None
        while trace is not None:
            line: int | None = trace.tb_lineno  # None if the line is unknown
            found.append((trace.tb_frame, line or 0, trace.tb_lasti))
            trace = trace.tb_next
        return found

    @functools.cached_property
    def path(self) -> tuple[tuple[types.CodeType, int], ...]:
        """Functions of the user on the stack where the trial call raised, each with its line,
        outermost first."""
        return tuple(
            (frame.f_code, line)
            for frame, line, _ in self.frames
            if "/torch/" not in (path := frame.f_code.co_filename) and not path.startswith(_ENGINE)
        )

    @property
    def place(self) -> tuple[object, ...]:
        """Key of the place and type of the exception; trial calls that fail alike have equal
        keys."""
        return self.phase, type(self.error).__name__, self.path[-1:]

    @property
    def score(self) -> tuple[int, int, int]:
        """Progress of the trial call: phase, number of torch calls and line.

        A larger tuple means more progress.
        """
        line = 0
        for frame, number, _ in self.frames:
            if frame.f_code.co_name in ("__init__", "forward"):
                line = number - frame.f_code.co_firstlineno
                break
        return self.phase, self.calls, line


@dataclass(frozen=True)
class _Built:
    """The module that the last trial call constructed, with its constructor arguments, for reuse by
    the next one."""

    init: tuple[tuple[str, Value], ...]
    module: Any
    made: dict[Path, Any]
    leaves: dict[int, Path]


class InputTrials:
    """A runner of trial calls of one module class, which also limits their time and memory.

    Tensors are fake inside a fake mode, otherwise real.
    """

    def __init__(
        self,
        subject: Any,
        namespace: Namespace,
        guesses: Guesses,
        inputs: tuple[SignatureParameter, ...],
        method: str = "forward",
    ) -> None:
        """Prepare trial calls; ``inputs`` are the parameters of the called method."""
        self.method = method
        self.subject, self.namespace, self.guesses = subject, namespace, guesses
        self.positional = tuple(one.name for one in inputs if one.positional)
        self.count = 0
        self.real = True
        """True to use real tensors in trial calls: small ones are several times faster than fake
        ones and run all code."""
        self._built: _Built | None = None

    def run(
        self, candidate: InputCandidate, seconds: float, *, afresh: bool = False
    ) -> TrialOutcome:
        """Construct and call the module with the candidate's arguments; return the result,
        including any exception.

        ``seconds`` limits the processor time. The module of an earlier trial with equal constructor
        arguments is used again, although calls may have changed it; with ``afresh``, a new one is
        constructed.
        """
        if self.real and _largest_tensor(candidate) > _REAL_BYTES:
            self.real, self._built = False, None
        outcome = self._run_trial(candidate, seconds, afresh)
        # Construction is not faster with fake tensors.
        too_large = isinstance(outcome.error, TimeIsUp) and outcome.phase == 0
        if self.real and _wants_fake(outcome.error) and not too_large:
            self.real, self._built = False, None
            outcome = self._run_trial(candidate, seconds, afresh)
        return outcome

    def _run_trial(self, candidate: InputCandidate, seconds: float, afresh: bool) -> TrialOutcome:
        self.count += 1
        rng.seed_generators()
        outcome = TrialOutcome(candidate)
        maker = _Maker(self.namespace, self.guesses, outcome)
        watch = _TorchCallWatch()
        built = self._built
        if afresh or (built is not None and built.init != candidate.init):
            built = None
        try:
            with self._tensor_mode(), watch, torch.no_grad(), _limit_time(seconds):
                if built is None:
                    args, kwargs = self._make_arguments(maker, candidate.init, "init")
                    module = self.subject(*args, **kwargs)
                    grown = outcome.candidate.init
                    built = self._built = _Built(grown, module, outcome.made, outcome.leaves)
                    if self.real and _module_bytes(module) > _REAL_MODULE:
                        raise MemoryError
                else:
                    outcome.used = True
                outcome.made, outcome.leaves = dict(built.made), dict(built.leaves)
                module = built.module
                args, kwargs = self._make_arguments(maker, candidate.inputs, "inputs")
                outcome.phase, watch.count, watch.constructs = 1, 0, False
                watch.leaves = outcome.leaves
                with _limit_time(_REAL_SECONDS if self.real else seconds):
                    called = module if self.method == "forward" else getattr(module, self.method)
                    called(*args, **kwargs)
                outcome.phase = 2
        except (Exception, TimeIsUp, SystemExit) as error:
            outcome.error = error
        outcome.calls, outcome.unusual = watch.count, watch.unusual
        if watch.failed is not None and _leads_to(outcome.error, watch.error):
            outcome.failed = watch.failed
        return outcome

    def _tensor_mode(self) -> contextlib.AbstractContextManager[Any]:
        return unset_fake_temporarily() if self.real else contextlib.nullcontext()

    def _make_arguments(
        self, maker: _Maker, pairs: tuple[tuple[str, Value], ...], side: str
    ) -> tuple[list[Any], dict[str, Any]]:
        named = {name: maker.make(value, (side, name)) for name, value in pairs}
        args: list[Any] = []
        for name in self.positional if side == "inputs" else ():
            if name not in named:
                break
            args.append(named.pop(name))
        stars = [name for name in named if name.startswith("*")]
        return [*args, *(named.pop(name) for name in stars)], named


def _tensor_bytes(value: TensorText) -> int:
    """Return the number of bytes of a tensor in text form, at most."""
    return 8 * math.prod(max(size, 1) for size in shape_of_text(value))


def _limit_time(seconds: float) -> contextlib.AbstractContextManager[None]:
    """Limit the processor time of the ``with`` block; the limit of wall time is longer, for busy
    machines."""
    return limit_seconds(TimeIsUp, 4 * seconds, processor=seconds)


def _module_bytes(module: Any) -> int:
    """Return the number of bytes of a module's parameters."""
    parameters = module.parameters() if isinstance(module, torch.nn.Module) else ()
    return sum(one.numel() * one.element_size() for one in parameters)


def _largest_tensor(candidate: InputCandidate) -> int:
    tensors = (value for _, value in candidate.values() if isinstance(value, TensorText))
    return max(map(_tensor_bytes, tensors), default=0)


def _wants_fake(error: BaseException | None) -> bool:
    """Whether a call with real tensors failed for lack of memory, time or a device."""
    if isinstance(error, (TimeIsUp, MemoryError)):
        return True
    if not isinstance(error, (RuntimeError, AssertionError, NotImplementedError)):
        return False
    text = texts.error_message(error)
    return devices.is_missing_gpu_error(text) or any(
        word in text for word in ("allocate memory", "not enough memory", "CUDA", "NVIDIA")
    )


def _leads_to(error: BaseException | None, cause: BaseException | None) -> bool:
    """Whether the exception ``error`` is ``cause``, or was raised while ``cause`` was handled."""
    for _ in range(8):
        if error is None:
            return False
        if error is cause:
            return True
        error = error.__cause__ or error.__context__
    return False


class _TorchCallWatch(TorchFunctionMode):
    """A counter of calls of torch functions during a trial call; it keeps the last call that
    raised.

    While the module is constructed it also leaves large tensors uninitialized, because libraries
    call the initializers by other names than ``skip_initialization`` replaces.
    """

    def __init__(self) -> None:
        super().__init__()
        self.constructs = True
        self.count = 0
        self.failed: FailedCall | None = None
        self.error: BaseException | None = None
        self.leaves: Collection[int] = ()
        """The ``id`` of each input tensor of the call."""
        self.unusual = ""
        """Reason why the inputs are unusual, in words; empty if they are not."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if self.constructs:
            large = _initialize_small(func, args, kwargs)
            if large is not None:
                self.count += 1
                return large
        try:
            out = func(*args, **kwargs)
        except Exception as error:
            name = getattr(func, "__name__", "")
            self.failed, self.error = FailedCall(name, tuple(args), kwargs), error
            self.unusual = self.unusual or _unusual_input(func, args, None, self.leaves)
            raise
        if getattr(func, "__name__", "") != "__get__":
            self.count += 1
        if not self.constructs and not self.unusual:
            self.unusual = _unusual_input(func, args, out, self.leaves)
        return out


def _unusual_input(func: Any, args: tuple[Any, ...], out: Any, leaves: Collection[int]) -> str:
    """Return why the input of a torch call that worked is unusual, in words; empty if it is not.

    Layers accept inputs without a batch dimension, and operators broadcast parameters, but few
    models rely on this.
    """
    name = getattr(func, "__name__", "")
    tensors = [one for one in args if isinstance(one, torch.Tensor)]
    if not tensors:
        return ""
    first = tensors[0]
    if name in _USUAL_RANKS:
        is_input = id(first) in leaves
        own = isinstance(first, torch.nn.Parameter)
        if first.dim() < _USUAL_RANKS[name] and not own:
            return f"`{name}` gets {first.dim()} dimensions instead of {_USUAL_RANKS[name]}"
        if name == "conv2d" and is_input and first.shape[-1] != first.shape[-2]:
            return "the image is not square"
    elif name == "unsqueeze":
        # Recurrent layers add a batch dimension to inputs that lack one.
        if id(first) in leaves and sys._getframe(2).f_code.co_filename.endswith(_RECURRENT):
            return f"a recurrent layer gets {first.dim()} dimensions instead of 3"
    elif name in _BROADCASTING and len(tensors) > 1 and isinstance(out, torch.Tensor):
        for one, other in (tensors[:2], tensors[1::-1]):
            is_own = isinstance(other, torch.nn.Parameter) and not isinstance(
                one, torch.nn.Parameter
            )
            if is_own and 1 < one.dim() < other.dim():
                return f"`{name}` gets fewer dimensions than the weight has"
    return ""


def _initialize_small(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> torch.Tensor | None:
    """Return the large tensor that a call of ``func`` would initialize, so that the call is skipped
    to save time.

    Return None for small tensors and other functions, which must be called.
    """
    name = getattr(func, "__name__", "")
    tensor = args[0] if args else kwargs.get("tensor")
    if not isinstance(tensor, torch.Tensor) or tensor.numel() <= _SMALL:
        return None
    if name in _RANDOM or getattr(func, "__module__", "") == "torch.nn.init":
        return tensor
    return tensor if name in _INITIAL and isinstance(tensor, torch.nn.Parameter) else None


@contextlib.contextmanager
def skip_initialization(trials: InputTrials) -> Iterator[None]:
    """Leave large parameters uninitialized in the ``with`` block to save time, since their values
    are unused.

    Small parameters are initialized, because code that samples from results needs valid numbers.
    """
    names = [name for name in dir(torch.nn.init) if name.endswith("_") and name[0] != "_"]
    before = {name: getattr(torch.nn.init, name) for name in names}

    def instead_of(function: Any) -> Any:
        @functools.wraps(function)
        def as_it_is(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
            if trials.real and tensor.numel() <= _SMALL:
                return function(tensor, *args, **kwargs)
            return tensor

        return as_it_is

    try:
        for name, function in before.items():
            setattr(torch.nn.init, name, instead_of(function))
        yield
    finally:
        for name, function in before.items():
            setattr(torch.nn.init, name, function)


class _Maker:
    """A converter of the arguments of a trial call from text form to objects, which records the
    position of each tensor."""

    def __init__(self, namespace: Namespace, guesses: Guesses, outcome: TrialOutcome) -> None:
        self.namespace, self.guesses, self.outcome = namespace, guesses, outcome

    def make(self, value: Value, path: Path) -> Any:
        made = self.outcome.made[path] = self._make_value(value, path)
        return made

    def _make_value(self, value: Value, path: Path) -> Any:
        if isinstance(value, TensorText):
            return self._make_tensor(value, path)
        if isinstance(value, LiteralValue):
            return value.value
        if isinstance(value, Sequence):
            items = [self.make(item, (*path, at)) for at, item in enumerate(value.items)]
            return items if value.kind == "list" else tuple(items)
        if isinstance(value, Mapping):
            made = _Asked(lambda key: self._grow_mapping(path, key))
            for at, (key, item) in enumerate(value.items):
                made[self.make(key, path)] = self.make(item, (*path, at))
            return made
        assert isinstance(value, Reference)
        if value.call is None:
            return look_up(value.name, self.namespace)
        count = len(value.call.positional)
        args = [self.make(item, (*path, at)) for at, item in enumerate(value.call.positional)]
        kwargs = {
            name: self.make(item, (*path, count + at))
            for at, (name, item) in enumerate(value.call.named)
        }
        if value.name == "SimpleNamespace":
            return _Bag(lambda name: self._grow_bag(path, name), **kwargs)
        return look_up(value.name, self.namespace)(*args, **kwargs)

    def _make_tensor(self, value: TensorText, path: Path) -> torch.Tensor:
        if _tensor_bytes(value) > _BYTES:
            raise ValueError("the size of an input is very much larger than expected")
        made = example_tensor(value.dtype, shape_of_text(value))
        self.outcome.leaves[id(made)] = path
        return made

    def _guess_attribute(self, path: Path, name: str) -> Value:
        parameter = SignatureParameter(name, True)
        if path[0] == "init":
            declared = self.guesses.declared.get(name)
            return declared if declared is not None else self.guesses.argument(parameter)[0]
        return self.guesses.input(parameter, WIDTH)[0]

    def _grow_bag(self, path: Path, name: str) -> Any:
        candidate = self.outcome.candidate
        value, owner = self._guess_attribute(path, name), candidate.get(path)
        if not isinstance(owner, Reference):
            # The code has changed the tensor, so the candidate cannot set its value.
            raise AttributeError(name)
        self.outcome.candidate = candidate.with_value(path, with_field(owner, name, value))
        return self.make(value, (*path, len(inner_values(owner))))

    def _grow_mapping(self, path: Path, key: object) -> Any:
        candidate = self.outcome.candidate
        owner = candidate.get(path)
        if not isinstance(owner, Mapping) or not isinstance(key, str):
            raise KeyError(key)
        value = self._guess_attribute(path, key)
        grown = Mapping((*owner.items, (LiteralValue(key), value)))
        self.outcome.candidate = candidate.with_value(path, grown)
        return self.make(value, (*path, len(owner.items)))


class _Bag(types.SimpleNamespace):
    """A configuration object for trial calls that creates an attribute when code reads a missing
    one.

    With ``getattr``, code gets its own default.
    """

    def __init__(self, grow: Any, **fields: Any) -> None:
        super().__init__(**fields)
        object.__setattr__(self, "_grow", grow)

    def __getattr__(self, name: str) -> Any:
        frame = sys._getframe(1)
        code = frame.f_code.co_code
        at = frame.f_lasti
        plain = 0 <= at < len(code) and dis.opname[code[at]].startswith(
            ("LOAD_ATTR", "LOAD_METHOD")
        )
        if name.startswith("_") or not plain:
            raise AttributeError(f"'SimpleNamespace' object has no attribute '{name}'")
        value = self._grow(name)
        setattr(self, name, value)
        return value


class _Asked(dict):  # type: ignore[type-arg]
    """A dictionary for trial calls that creates a value when code reads a missing key."""

    def __init__(self, grow: Any) -> None:
        super().__init__()
        self._grow = grow

    def __missing__(self, key: object) -> Any:
        value = self[key] = self._grow(key)
        return value


# Messages of exceptions contain these names, so use the standard ones.
_Bag.__name__, _Asked.__name__ = types.SimpleNamespace.__name__, dict.__name__
