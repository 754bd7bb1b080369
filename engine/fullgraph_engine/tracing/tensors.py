"""How a run sees tensors: fake ones with an oracle for values, or real ones.

A :class:`RunTensorMode` is PyTorch's FakeTensorMode with two additions. Small tensors whose values
follow from the program alone (``torch.tensor([3, 4])``, ``torch.arange(10)``) keep them, so that
eager code between graphs reads what it would read. Where a value depends on data that a fake
tensor does not have, the *oracle* computes the one operator on stand-in data and the recording
says that a value was chosen. Dynamo's own fake mode, inside which tracing happens, is untouched.
"""

from __future__ import annotations

import contextlib
import copy
import math
import sys
import types
import weakref
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..protocol import Frame
from ..torch_internals import dynamo, fake_tensors, guards
from ..torch_internals.fake_tensors import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedOperatorException,
    unset_fake_temporarily,
)
from ..torch_internals.graphs import HigherOrderOperator
from ..torch_internals.trees import pytree
from . import stacks
from .recording import ChosenValue

KNOWN_NUMEL = 4096
"""Largest tensor whose values are kept, in elements."""

ORACLE_BYTES = 64 << 20
"""Largest operand that the oracle makes stand-in data for."""

_FACTORIES = frozenset(
    f"aten::{name}"
    for name in (
        "arange",
        "eye",
        "full",
        "linspace",
        "logspace",
        "ones",
        "scalar_tensor",
        "tril_indices",
        "triu_indices",
        "zeros",
    )
)
_UNINITIALISED = frozenset(
    f"aten::{name}" for name in ("empty_like", "new_empty", "new_empty_strided", "resize_")
)
_UNKNOWN = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)


class ValueNeeded(BaseException):
    """Raised instead of asking the oracle, where real tensors would be the better answer.

    Not an ``Exception``: user code that catches everything must not catch it.
    """


@dataclass(frozen=True)
class Oracle:
    """How far a fake mode has come with its answers."""

    answers: int
    truths: tuple[int, ...]
    numbers: torch.Tensor
    asked: Counter[Any]


class RunTensorMode(FakeTensorMode):
    """The outer tensor mode of a fake run.

    ``on_chosen`` is told of every value that was chosen. With ``prefer_real`` the first need for
    one raises :class:`ValueNeeded` instead; without ``real_follows`` nobody would take real tensors
    then. A truth value is False unless it is in ``turned``, and where a place has asked very often:
    a loop may wait for another answer. ``answer`` may give another truth or
    number to the code that asks, the innermost of which is outside torch. ``read`` says whether
    there was one to read in a tensor that keeps its values. With ``keeps_dynamic`` what eager code
    makes of a dimension that was marked dynamic is marked as well: the next graph would take it for
    a constant.
    """

    # Their rules are registered for FakeTensorMode itself and not found for a subclass; so they
    # come to dispatch(), which looks them up. A rule may be to have the mode dispatch it, though.
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.on_chosen: Callable[[ChosenValue], None] | None = None
        self.prefer_real = False
        self.real_follows = True
        self.turned: frozenset[int] = frozenset()
        self.truths: list[int] = []
        self.answer: Callable[[Frame | None, float], float] | None = None
        self.read = False
        self.keeps_dynamic = False
        self._answers = 0
        self._asked: Counter[Any] = Counter()
        """How often each place has asked: code and instruction."""
        self._generator = torch.Generator().manual_seed(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> RunTensorMode:
        """Itself: copying a fake tensor copies its attributes, and two modes cannot meet."""
        return self

    def begin(self, turned: frozenset[int] = frozenset()) -> None:
        """Start over: the same questions get the same answers, but for the truths to turn.

        ``turned`` are numbers of earlier answers that were truth values (see ``truths``).
        """
        self.turned, self.truths, self._answers = turned, [], 0
        self._asked.clear()
        self.answer = None
        self._generator.manual_seed(0)

    @property
    def oracle(self) -> Oracle:
        numbers = self._generator.get_state()
        return Oracle(self._answers, tuple(self.truths), numbers, self._asked.copy())

    @oracle.setter
    def oracle(self, before: Oracle) -> None:
        """Go on from there."""
        self._answers, self.truths = before.answers, list(before.truths)
        self._asked = before.asked.copy()
        self._generator.set_state(before.numbers)

    def may_turn_const(self, t: torch.Tensor) -> bool:
        return (
            t.numel() <= KNOWN_NUMEL
            and t.layout is torch.strided
            and not self.is_our_fake(t)
            and t.device.type != "meta"
        )

    # Between graphs Dynamo looks at every frame that is run. Since torch 2.12 it leaves out what
    # a dispatch mode runs; before, it would trace what is below, and find breaks in it.
    @dynamo.disable  # type: ignore[untyped-decorator]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_dispatch__(func, types, args, kwargs)

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator) and not fake_tensors.has_fake_function(func):
            return func.python_key_table[FakeTensorMode](self, *args, **kwargs)
        name = _schema_name(func)
        try:
            out = super().dispatch(func, types, args, kwargs)
        except _UNKNOWN:
            answer = self._ask(func, args, kwargs)
            if answer is _NO_ANSWER:
                raise
            return answer
        if type(out) in (bool, int, float):
            self.read = True
        if name in _UNINITIALISED:
            self._forget((out,))
        elif name in _FACTORIES and isinstance(out, FakeTensor) and out.constant is None:
            return self._known(func, args, kwargs, out)
        if self.keeps_dynamic:
            _keep_dynamic((args, kwargs), out)
        return out

    def forget(self, values: Any) -> None:
        """Drop the kept values of all tensors of nested data: they are to be as unknown as data."""
        self._forget(pytree.tree_leaves(values))

    def _forget(self, tensors: Any) -> None:
        """Drop the kept values of tensors, and of all that share memory with them."""
        for tensor in tensors:
            if isinstance(tensor, FakeTensor) and tensor.constant is not None:
                self.fake_tensor_converter.invalidate_constant_aliases(tensor.constant)
                tensor.constant = None

    def _known(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """A factory's output with its values, where it is small and on the CPU."""
        if out.device.type != "cpu" or out.layout is not torch.strided or kwargs.get("out"):
            return out
        if any(not isinstance(size, int) for size in out.shape) or out.numel() > KNOWN_NUMEL:
            return out
        with unset_fake_temporarily():
            value = func(*args, **kwargs)
        return self.fake_tensor_converter.from_real_tensor(self, value, make_constant=True)

    def _ask(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Compute one operator on stand-in data; ``_NO_ANSWER`` where that cannot be done."""
        initializing = _called_from_init()
        if self.prefer_real and not initializing and not _called_from_loader():
            raise ValueNeeded(str(func))
        device: torch.device | None = None
        failed = False

        def stand_in(value: Any) -> Any:
            nonlocal device, failed
            if not isinstance(value, torch.Tensor):
                return value
            device = device or value.device
            if isinstance(value, FakeTensor):
                if value.constant is not None:
                    return value.constant
                if value.numel() * value.element_size() > ORACLE_BYTES:
                    failed = True
                    return value
                return self._stand_in(value)
            return value

        with unset_fake_temporarily():
            real_args, real_kwargs = pytree.tree_map(stand_in, (args, kwargs))
            if failed:
                return _NO_ANSWER
            if "device" in real_kwargs:
                real_kwargs = {**real_kwargs, "device": torch.device("cpu")}
            try:
                out = func(*real_args, **real_kwargs)
            except Exception:  # whatever the kernel dislikes about the data: no answer
                return _NO_ANSWER
        plain = type(out) in (bool, int, float)
        if plain:
            out = self._chosen(out)
        self._answers += 1
        if self.on_chosen is not None and not initializing:
            stack = stacks.above(None)
            if plain and self.answer is not None:
                out = self.answer(stacks.innermost(stack), out)
            shown = out if not isinstance(out, torch.Tensor) else f"{out.numel()} elements"
            answer = out if plain else None
            self.on_chosen(ChosenValue(str(func), str(shown)[:80], stack, answer))

        def fake(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            made = self.from_tensor(value)
            return made.to(device) if device is not None and device != made.device else made

        return pytree.tree_map(fake, out)

    def _chosen(self, out: float) -> float:
        """The truth or number that a place gets which has asked for it, computed on stand-in data:
        after very many the other truth, or a small and a large number in turn."""
        frame = _asking()
        place = (frame.f_code, frame.f_lasti) if frame is not None else None
        self._asked[place] += 1
        often = max(0, self._asked[place] - _OFTEN)
        if type(out) is not bool:
            return type(out)(often % 2 * _LARGE) if often else out
        # Most truths that code asks for are checks that something is wrong.
        truth = self._answers in self.turned
        self.truths.append(self._answers)
        return truth is not bool(often)

    def _stand_in(self, tensor: FakeTensor) -> torch.Tensor:
        """Values of the shape and dtype of a fake tensor, the same in every run."""
        size, dtype = tuple(tensor.shape), tensor.dtype
        if dtype.is_floating_point or dtype.is_complex:
            kind = torch.complex64 if dtype.is_complex else torch.float32
            return torch.rand(size, generator=self._generator, dtype=kind).to(dtype)
        if dtype is torch.bool:
            return torch.rand(size, generator=self._generator) < 0.5
        return torch.randint(0, 2, size, generator=self._generator).to(dtype)


def _keep_dynamic(inputs: Any, outputs: Any) -> None:
    """Mark the dimensions of outputs that have the place and size of a marked one of an input."""
    marked = {
        (dim, value.shape[dim])
        for value in pytree.tree_leaves(inputs)
        if isinstance(value, torch.Tensor)
        for dim in dynamo.dynamic_dimensions(value)
    }
    if not marked:
        return
    for value in pytree.tree_leaves(outputs):
        if isinstance(value, torch.Tensor):
            for dim, size in enumerate(value.shape):
                if (dim, size) in marked:
                    dynamo.mark_dynamic(value, dim)


class _NoAnswer:
    pass


_NO_ANSWER = _NoAnswer()


def _schema_name(func: Any) -> str:
    return getattr(getattr(func, "_schema", None), "name", "")


def _asking() -> types.FrameType | None:
    """The innermost frame that asks for a value, behind the tracer and us."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and stacks.is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


_OFTEN = 100
"""Answers of one place: loops that wait for another one have hardly more iterations."""
_LARGE = 1000
"""What loops that count wait for; a size as well, which takes no memory to speak of."""


def _called_from_init() -> bool:
    """Whether weight initialization asks: its values matter to no one here."""
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(24):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith("torch/nn/init.py"):
            return True
        frame = frame.f_back
    return False


def _called_from_loader() -> bool:
    """Whether a data loader asks, for a seed or an order: which samples come matters to no one."""
    frame = _asking()
    return frame is not None and frame.f_code.co_filename.endswith(_LOADERS)


_LOADERS = ("torch/utils/data/sampler.py", "torch/utils/data/dataloader.py")


@contextlib.contextmanager
def swappable_parameters() -> Iterator[None]:
    """Let ``module.to("cuda")`` swap fake parameters that the fake mode itself refers to weakly.

    ``torch.utils.swap_tensors`` refuses tensors that have weak references. Under a fake mode
    parameters have some from its own bookkeeping, so that check says nothing about the user's.
    """
    owner: Any = torch.utils
    original = owner.weakref
    owner.weakref = types.SimpleNamespace(getweakrefs=lambda _tensor: [], ref=weakref.ref)
    try:
        yield
    finally:
        owner.weakref = original


@contextlib.contextmanager
def recognised_parameters() -> Iterator[None]:
    """Let Dynamo know fake parameters where it asks for exactly that type.

    It does so where parameters get less: no checks that they are not the same tensor as an input,
    and no symbolic sizes. To Python, a fake parameter is a ``FakeTensor``.
    """

    def istype(original: Callable[..., Any]) -> Callable[..., Any]:
        def is_exactly(value: Any, allowed: Any) -> Any:
            return original(value, allowed) or (
                allowed is torch.nn.Parameter and _is_fake_parameter(value)
            )

        return is_exactly

    def static(original: Callable[..., Any]) -> Callable[..., Any]:
        def has_static_shape(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if _is_fake_parameter(tensor) and dynamo.config.force_parameter_static_shapes:
                return True, fake_tensors.STATIC_REASON.get()
            return original(tensor, *args, **kwargs)

        return has_static_shape

    with contextlib.ExitStack() as put_back:
        for hook, around in (
            (guards.EXACT_TYPE, istype),
            (fake_tensors.STATIC_SHAPE, static),
            (fake_tensors.STATIC_SHAPE_OF_GUARDS, static),
        ):
            undo = hook.wrap(around)
            if undo is not None:
                put_back.callback(undo)
        yield


def _is_fake_parameter(value: Any) -> bool:
    return type(value) is FakeTensor and isinstance(value, torch.nn.Parameter)


@contextlib.contextmanager
def formattable_scalars() -> Iterator[None]:
    """Let ``f"{loss:.3f}"`` ask a fake tensor for its value.

    ``Tensor.__format__`` does so only for tensors that are no subclass, and refuses the format
    for all others.
    """

    def __format__(self: FakeTensor, words: str) -> str:
        if self.dim() == 0 and not self.is_meta:
            return self.detach().item().__format__(words)
        return object.__format__(self, words)

    owner: Any = FakeTensor
    owner.__format__ = __format__
    try:
        yield
    finally:
        del owner.__format__


@contextlib.contextmanager
def copyable_constants() -> Iterator[None]:
    """Let ``copy.deepcopy`` take fake tensors that keep their values.

    It copies a tensor's attributes under the fake mode as well, and the kept values are real.
    """

    def deepcopy(tensor: FakeTensor, memo: dict[int, Any]) -> Any:
        if tensor.constant is None:
            return tensor.__deepcopy__(memo)
        values, tensor.constant = tensor.constant, None
        try:
            copied = tensor.__deepcopy__(memo)
        finally:
            tensor.constant = values
        if copied.constant is None:
            with unset_fake_temporarily():
                copied.constant = values.clone()
            tensor.fake_mode.fake_tensor_converter.add_constant_storage_mapping(copied)
        return copied

    # Not as a method, which Dynamo would find and trace: to it the tensor is no FakeTensor.
    by_type: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    by_type[FakeTensor] = deepcopy
    try:
        yield
    finally:
        del by_type[FakeTensor]


def storage_bytes(values: Any) -> int:
    """Bytes of all tensors and module states in nested data, each storage's tensor once."""
    seen: dict[int, int] = {}
    for tensor in _tensors(values):
        with contextlib.suppress(Exception):
            seen[id(tensor)] = math.prod(tensor.shape) * tensor.element_size()
    return sum(seen.values())


def devices(values: Any) -> set[str]:
    """The device types of all tensors and module states in nested data."""
    return {tensor.device.type for tensor in _tensors(values)}


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, torch.nn.Module):
            # One whose constructor has not called that of Module has no state.
            with contextlib.suppress(AttributeError):
                yield from (*leaf.parameters(), *leaf.buffers())


def has_device(kind: str) -> bool:
    """Whether tensors of a device type can hold values on this machine."""
    if kind == "cpu":
        return True
    module = getattr(torch, kind, None)
    available = getattr(module, "is_available", None)
    return bool(available and available())
