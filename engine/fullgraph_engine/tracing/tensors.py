"""Fake tensors of a run, with chosen values where the program needs some.

A :class:`RunTensorMode` is PyTorch's FakeTensorMode with two additions. Small tensors whose values
follow from the program alone (``torch.tensor([3, 4])``, ``torch.arange(10)``) keep them, so that
eager code between graphs reads the true values. If the program reads a value that a fake tensor
does not have, the *oracle* runs that one operator on generated data, and the recording states that
a value was chosen. Dynamo's own fake mode, which is active during tracing, is not changed.
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
"""Maximum number of elements of a tensor whose values are kept."""

ORACLE_BYTES = 64 << 20
"""Maximum size in bytes of a tensor for which values are generated to run an operator."""

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
_UNINITIALIZED = frozenset(
    f"aten::{name}" for name in ("empty_like", "new_empty", "new_empty_strided", "resize_")
)
_UNKNOWN_VALUE_ERRORS = (
    DataDependentOutputException,
    DynamicOutputShapeException,
    UnsupportedOperatorException,
)


class ValueNeeded(BaseException):
    """An exception raised instead of choosing a value, if a run with real tensors would be better.

    Derives from BaseException so that ``except Exception`` in user code cannot swallow it.
    """


@dataclass(frozen=True)
class ChosenState:
    """The values that a :class:`RunTensorMode` has chosen so far, from which another run can
    continue.
    """

    choice_count: int
    bool_choices: tuple[int, ...]
    generator_state: torch.Tensor
    reads_by_place: Counter[Any]


class RunTensorMode(FakeTensorMode):
    """The fake tensor mode that is active during a run, which chooses values that the program
    reads.

    - ``on_chosen`` is called with every chosen value.
    - ``prefer_real``: raise :class:`ValueNeeded` at the first value to choose.
    - ``real_follows``: a run with real tensors would follow after :class:`ValueNeeded`.
    - ``inverted_choices``: numbers of the choices that are True; a chosen bool is False otherwise.
      An instruction that reads very many values gets the opposite, because a loop may wait for it.
    - ``bool_choices``: numbers of the choices so far that were a bool.
    - ``override_choice`` may replace a chosen bool or number; its first argument is the user's
      innermost frame on the stack of the read.
    - ``has_read_kept_value``: the program has read a known value of a fake tensor.
    - ``keeps_dynamic``: code outside graphs may derive a dimension from one marked as dynamic; mark
      it as dynamic too. Otherwise the next graph would take it for a constant.
    """

    # torch registers rules of higher-order operators for FakeTensorMode itself, not for a subclass.
    # With this attribute, such an operator reaches dispatch(), which looks its rule up. Rules that
    # leave the dispatch to the mode are an exception.
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__(allow_non_fake_inputs=True)
        self.on_chosen: Callable[[ChosenValue], None] | None = None
        self.prefer_real = False
        self.real_follows = True
        self.inverted_choices: frozenset[int] = frozenset()
        self.bool_choices: list[int] = []
        self.override_choice: Callable[[Frame | None, float], float] | None = None
        self.has_read_kept_value = False
        self.keeps_dynamic = False
        self._choice_count = 0
        self._reads_by_place: Counter[Any] = Counter()
        """Number of values that each instruction has read, by code object and instruction."""
        self._generator = torch.Generator().manual_seed(0)

    def __deepcopy__(self, memo: dict[int, Any]) -> RunTensorMode:
        """Return the mode itself: a copy of a fake tensor copies its mode, and two modes cannot be
        mixed."""
        return self

    def restart(self, inverted_choices: frozenset[int] = frozenset()) -> None:
        """Forget all choices before a new run, so that reads in the same order get the same values.

        ``inverted_choices`` are the numbers of earlier bool choices that become True instead.
        """
        self.inverted_choices, self.bool_choices, self._choice_count = inverted_choices, [], 0
        self._reads_by_place.clear()
        self.override_choice = None
        self._generator.manual_seed(0)

    @property
    def oracle(self) -> ChosenState:
        numbers = self._generator.get_state()
        return ChosenState(
            self._choice_count, tuple(self.bool_choices), numbers, self._reads_by_place.copy()
        )

    @oracle.setter
    def oracle(self, before: ChosenState) -> None:
        """Take over the choices in ``before``, as if this mode had made them."""
        self._choice_count, self.bool_choices = before.choice_count, list(before.bool_choices)
        self._reads_by_place = before.reads_by_place.copy()
        self._generator.set_state(before.generator_state)

    def may_turn_const(self, t: torch.Tensor) -> bool:
        return (
            t.numel() <= KNOWN_NUMEL
            and t.layout is torch.strided
            and not self.is_our_fake(t)
            and t.device.type != "meta"
        )

    # Dynamo traces every frame that runs between graphs. Before torch 2.12 it would also trace the
    # code of a dispatch mode and find breaks in it.
    @dynamo.disable  # type: ignore[untyped-decorator]
    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return super().__torch_dispatch__(func, types, args, kwargs)

    def dispatch(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if isinstance(func, HigherOrderOperator) and not fake_tensors.has_fake_function(func):
            return func.python_key_table[FakeTensorMode](self, *args, **kwargs)
        name = getattr(getattr(func, "_schema", None), "name", "")
        try:
            out = super().dispatch(func, types, args, kwargs)
        except _UNKNOWN_VALUE_ERRORS:
            answer = self._choose_output(func, args, kwargs)
            if answer is _NO_ANSWER:
                raise
            return answer
        if type(out) in (bool, int, float):
            self.has_read_kept_value = True
        if name in _UNINITIALIZED:
            self._drop_constants((out,))
        elif name in _FACTORIES and isinstance(out, FakeTensor) and out.constant is None:
            return self._compute_factory(func, args, kwargs, out)
        if self.keeps_dynamic:
            _keep_dynamic((args, kwargs), out)
        return out

    def drop_values(self, values: Any) -> None:
        """Remove the known values of all tensors in nested data, so that the program cannot read
        them."""
        self._drop_constants(pytree.tree_leaves(values))

    def _drop_constants(self, tensors: Any) -> None:
        """Remove the known values of tensors and of all tensors that share memory with them."""
        for tensor in tensors:
            if isinstance(tensor, FakeTensor) and tensor.constant is not None:
                self.fake_tensor_converter.invalidate_constant_aliases(tensor.constant)
                tensor.constant = None

    def _compute_factory(self, func: Any, args: Any, kwargs: Any, out: Any) -> Any:
        """Return the output of a factory, such as ``torch.arange``, with its values if it is small.

        Only outputs on the CPU get values.
        """
        if out.device.type != "cpu" or out.layout is not torch.strided or kwargs.get("out"):
            return out
        if any(not isinstance(size, int) for size in out.shape) or out.numel() > KNOWN_NUMEL:
            return out
        with unset_fake_temporarily():
            value = func(*args, **kwargs)
        return self.fake_tensor_converter.from_real_tensor(self, value, make_constant=True)

    def _choose_output(self, func: Any, args: Any, kwargs: Any) -> Any:
        """Run the operator ``func`` on generated data and return its result; ``_NO_ANSWER`` if it
        fails.

        The inputs are fake tensors, so the generated data replaces their missing values.
        """
        initializing = _called_from_init()
        if self.prefer_real and not initializing and not _called_from_loader():
            raise ValueNeeded(str(func))
        device: torch.device | None = None
        failed = False

        def replace_fake(value: Any) -> Any:
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
                return self._generate_data(value)
            return value

        with unset_fake_temporarily():
            real_args, real_kwargs = pytree.tree_map(replace_fake, (args, kwargs))
            if failed:
                return _NO_ANSWER
            if "device" in real_kwargs:
                real_kwargs = {**real_kwargs, "device": torch.device("cpu")}
            try:
                out = func(*real_args, **real_kwargs)
            except Exception:  # the kernel does not accept the generated data
                return _NO_ANSWER
        is_scalar = type(out) in (bool, int, float)
        if is_scalar:
            out = self._choose_scalar(out)
        self._choice_count += 1
        if self.on_chosen is not None and not initializing:
            stack = stacks.caller_stack(None)
            if is_scalar and self.override_choice is not None:
                out = self.override_choice(stacks.innermost_user_frame(stack), out)
            shown = out if not isinstance(out, torch.Tensor) else f"{out.numel()} elements"
            answer = out if is_scalar else None
            self.on_chosen(ChosenValue(str(func), str(shown)[:80], stack, answer))

        def make_fake(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            converted = self.from_tensor(value)
            return (
                converted.to(device)
                if device is not None and device != converted.device
                else converted
            )

        return pytree.tree_map(make_fake, out)

    def _choose_scalar(self, out: float) -> float:
        """Choose the bool or number that the program reads from a fake tensor without values.

        ``out`` is the operator's result on generated data. A number is kept, a bool becomes False.
        After very many reads by the same instruction, return the other bool, or alternate between a
        small and a large number.
        """
        frame = _reading_frame()
        place = (frame.f_code, frame.f_lasti) if frame is not None else None
        self._reads_by_place[place] += 1
        extra_reads = max(0, self._reads_by_place[place] - _NORMAL_READS)
        if type(out) is not bool:
            return type(out)(extra_reads % 2 * _LARGE_NUMBER) if extra_reads else out
        # Most bools that code reads are checks whether something is wrong, so the default is False.
        default = self._choice_count in self.inverted_choices
        self.bool_choices.append(self._choice_count)
        return default is not bool(extra_reads)

    def _generate_data(self, tensor: FakeTensor) -> torch.Tensor:
        """Generate values for the shape and dtype of a fake tensor, the same in every run."""
        size, dtype = tuple(tensor.shape), tensor.dtype
        if dtype.is_floating_point or dtype.is_complex:
            kind = torch.complex64 if dtype.is_complex else torch.float32
            return torch.rand(size, generator=self._generator, dtype=kind).to(dtype)
        if dtype is torch.bool:
            return torch.rand(size, generator=self._generator) < 0.5
        return torch.randint(0, 2, size, generator=self._generator).to(dtype)


def _keep_dynamic(inputs: Any, outputs: Any) -> None:
    """Mark a dimension of an operator's outputs as dynamic, if it probably comes from a dynamic
    dimension of an input.

    This is assumed if an input has a dimension with this mark and the same index and size.
    """
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


_NO_ANSWER = object()


def _reading_frame() -> types.FrameType | None:
    """Return the innermost live frame of code that reads a value of a fake tensor.

    Frames of Dynamo and the engine are skipped.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and stacks.is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


_NORMAL_READS = 100
"""Maximum number of values that one instruction reads normally. After more reads, a loop is assumed
to wait for another value.
"""
_LARGE_NUMBER = 1000
"""Number returned to end loops that count up. It can also serve as a size, because it is small."""


def _called_from_init() -> bool:
    """Whether weight initialization is reading the value, which does not affect the trace."""
    frame: types.FrameType | None = sys._getframe(2)
    for _ in range(24):
        if frame is None:
            return False
        if frame.f_code.co_filename.endswith("torch/nn/init.py"):
            return True
        frame = frame.f_back
    return False


def _called_from_loader() -> bool:
    """Whether a data loader is reading a seed or an order, which does not affect the trace."""
    frame = _reading_frame()
    return frame is not None and frame.f_code.co_filename.endswith(_LOADERS)


_LOADERS = ("torch/utils/data/sampler.py", "torch/utils/data/dataloader.py")


@contextlib.contextmanager
def allow_parameter_swaps() -> Iterator[None]:
    """Let ``module.to("cuda")`` swap fake parameters although they have weak references.

    ``torch.utils.swap_tensors`` refuses tensors with weak references. For parameters of a fake run,
    the fake mode itself creates these references, so the check reveals nothing about the user's
    code.
    """
    owner: Any = torch.utils
    original = owner.weakref
    owner.weakref = types.SimpleNamespace(getweakrefs=lambda _tensor: [], ref=weakref.ref)
    try:
        yield
    finally:
        owner.weakref = original


@contextlib.contextmanager
def recognize_parameters() -> Iterator[None]:
    """Make Dynamo treat fake parameters as parameters, although their type is ``FakeTensor``.

    For tensors of exactly the type ``Parameter``, Dynamo omits symbolic sizes. It also omits guards
    against aliasing with inputs.
    """

    def wrap_type_check(original: Callable[..., Any]) -> Callable[..., Any]:
        def is_exactly(value: Any, allowed: Any) -> Any:
            return original(value, allowed) or (
                allowed is torch.nn.Parameter and _is_fake_parameter(value)
            )

        return is_exactly

    def wrap_static_shape(original: Callable[..., Any]) -> Callable[..., Any]:
        def has_static_shape(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            if _is_fake_parameter(tensor) and dynamo.config.force_parameter_static_shapes:
                return True, fake_tensors.STATIC_REASON.get()
            return original(tensor, *args, **kwargs)

        return has_static_shape

    with contextlib.ExitStack() as undo_stack:
        for hook, around in (
            (guards.EXACT_TYPE, wrap_type_check),
            (fake_tensors.STATIC_SHAPE, wrap_static_shape),
            (fake_tensors.STATIC_SHAPE_OF_GUARDS, wrap_static_shape),
        ):
            undo = hook.wrap(around)
            if undo is not None:
                undo_stack.callback(undo)
        yield


def _is_fake_parameter(value: Any) -> bool:
    return type(value) is FakeTensor and isinstance(value, torch.nn.Parameter)


@contextlib.contextmanager
def allow_scalar_formatting() -> Iterator[None]:
    """Let ``f"{loss:.3f}"`` read the value of a fake tensor.

    ``Tensor.__format__`` reads the value only of exact tensors; it refuses the format for
    subclasses.
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
def allow_constant_copies() -> Iterator[None]:
    """Let ``copy.deepcopy`` copy fake tensors that keep their values.

    It copies the attributes of a tensor under the fake mode, which refuses the kept real values.
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

    # Registered in `copy` and not defined as a method, which Dynamo would find and trace.
    by_type: dict[type, Any] = copy._deepcopy_dispatch  # type: ignore[attr-defined]
    by_type[FakeTensor] = deepcopy
    try:
        yield
    finally:
        del by_type[FakeTensor]


REAL_BYTES = 512 << 20
"""Maximum total bytes of parameters, buffers and inputs for which a target is executed with real
tensors."""


def storage_bytes(values: Any) -> int:
    """Return the total size in bytes of all tensors in nested data, each counted once.

    States of modules are included.
    """
    seen: dict[int, int] = {}
    for tensor in _iterate_tensors(values):
        with contextlib.suppress(Exception):
            seen[id(tensor)] = math.prod(tensor.shape) * tensor.element_size()
    return sum(seen.values())


def device_types(values: Any) -> set[str]:
    """Return the device types (``cpu``, ``cuda``) of all tensors in nested data, including states
    of modules."""
    return {tensor.device.type for tensor in _iterate_tensors(values)}


def _iterate_tensors(values: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(values):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif isinstance(leaf, torch.nn.Module):
            # A module that did not call `Module.__init__` does not have state.
            with contextlib.suppress(AttributeError):
                yield from (*leaf.parameters(), *leaf.buffers())


def has_device(kind: str) -> bool:
    """Whether this machine can allocate real tensors on a device type."""
    if kind == "cpu":
        return True
    module = getattr(torch, kind, None)
    available = getattr(module, "is_available", None)
    return bool(available and available())
