"""Test calls (cases) on which the original and the changed code of a file are compared.

A case describes how its call differs from a base call, whose inputs the user gave in a comment (the
probe). A case is plain data: with both versions of the code, the base call is built with the same
random numbers, and the same changes are applied.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Union

import torch

from ..protocol import Fill
from ..protocol.packing import unpack
from ..targets import Call, notation_parser, tensors
from ..tracing.variations import Inputs, can_be_resized, resize_tensor
from .iterables import bind_arguments, rebuild_iterators

SEED_FACTOR = 7919
"""Factor that makes the seeds of a test call's random inputs differ from the seeds of modules and
of other arguments.
"""


@dataclass(frozen=True)
class LeafChange:
    """A different value for one leaf of the arguments (a tensor or a plain value).

    ``leaf`` is the index of the leaf in the flattened arguments. ``sizes`` are pairs of a dimension
    and its new size. ``number`` is the value of all elements if the fill is "constant". ``other``
    is the source code of the new value, for leaves other than tensors. ``same_as`` is the index of
    another leaf, whose tensor is passed for this leaf as well.
    """

    leaf: int
    fill: Fill = "given"
    number: float = 0.0
    sizes: tuple[tuple[int, int], ...] = ()
    other: str = ""
    same_as: Union[int, None] = None


@dataclass(frozen=True)
class Case:
    """One test call (case), stored as its differences from the call with the user's example inputs.

    ``fill`` is the kind of values for all tensors. ``training`` is the mode of the module, None to
    keep it. ``parameters`` says how its floating-point parameters are filled. ``dtype`` is used for
    all floating-point inputs and the module. ``grad``: floating-point inputs require gradients.
    ``strided``: tensors of two and more dimensions are not contiguous. ``recording``: autograd
    records the call; False runs it inside ``torch.no_grad()``.
    """

    seed: int = 0
    fill: Fill = "given"
    changes: tuple[LeafChange, ...] = ()
    training: Union[bool, None] = None
    parameters: Fill = "given"
    dtype: str = ""
    grad: bool = False
    strided: bool = False
    recording: bool = True

    @property
    def fills(self) -> set[Fill]:
        """Kinds of values, such as random or NaN, that fill the tensors of this call."""
        return {self.fill, *(change.fill for change in self.changes)}

    @property
    def is_finite(self) -> bool:
        """Whether all inputs of this test call are free of NaN and infinity.

        Gradients are compared only then. Otherwise, NaN in an input reaches the gradient even
        through the branch that ``torch.where`` does not select, and through every nonlinear
        function.
        """
        return not self.fills & {"nan", "infinite"}

    @property
    def conditions(self) -> str:
        """Unusual conditions of the call, such as another dtype, in words for the user; "" if
        none.
        """
        words = [
            f"dtype {self.dtype}" if self.dtype else "",
            "inputs require gradients" if self.grad else "",
            "not contiguous" if self.strided else "",
            "inside torch.no_grad()" if not self.recording else "",
            f"parameters {self.parameters}" if self.parameters != "given" else "",
            "the same tensor for two inputs"
            if any(change.same_as is not None for change in self.changes)
            else "",
        ]
        return ", ".join(filter(None, words))


@dataclass(frozen=True)
class CasePlan:
    """All test calls (cases) that vary one set of example inputs, and how to execute them.

    ``shared``: the module is built only once, and each call continues from the state that the
    previous one left. ``twice``: each call is made a second time.
    """

    cases: tuple[Case, ...] = ()
    shared: bool = False
    twice: bool = True

    @classmethod
    def unpack(cls, text: str) -> CasePlan:
        """Parse a plan from its serialized form; an invalid text gives a plan without test
        calls.
        """
        try:
            plan: CasePlan = unpack(cls, text)
        except ValueError:
            return cls()
        return plan


@dataclass
class PreparedCall:
    """The arguments of one test call (case), ready to be passed.

    ``arguments`` maps parameter names to arguments. ``differentiated`` maps names of inputs to the
    tensors whose gradients are compared.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arguments: dict[str, Any]
    differentiated: dict[str, torch.Tensor]
    words: str
    """Names and values of the inputs as Python source, for the user."""
    outside: bool = False
    """True if a tensor has numbers outside of the range that the example suggests."""


def is_floating(value: Any) -> bool:
    """Whether a value is a floating-point or complex tensor. Only such tensors can have
    gradients.
    """
    return (
        isinstance(value, torch.Tensor)
        and can_be_resized(value)
        and (value.is_complex() or (value.is_floating_point() and value.dtype.itemsize >= 2))
    )


def prepare_call(
    call: Call, case: Case, alter: Callable[[torch.Tensor], torch.Tensor] | None
) -> PreparedCall:
    """Build new arguments for one test call (case). ``call`` is the call with the user's example
    inputs, which the case varies. ``alter``, if given, converts the floating-point tensors last,
    for example to double precision.

    Raises:
        ProbeError, ValueError, RuntimeError: The case cannot be applied to this call.
    """
    inputs = Inputs(call.function, call.args, call.kwargs)
    values: dict[int, Any] = {}
    changes = {change.leaf: change for change in case.changes}
    differentiated: dict[str, torch.Tensor] = {}
    dtype = tensors.dtype_of(case.dtype) if case.dtype else None
    built: dict[tuple[int, tuple[tuple[int, int], ...]], torch.Tensor] = {}
    outside = False
    for number, leaf in enumerate(inputs.leaves):
        change = changes.get(number, LeafChange(number, case.fill))
        value = leaf.value
        if change.same_as is not None:
            continue
        if change.other:
            values[number] = tensors.build_value(notation_parser.parse_value(change.other))
            continue
        if not isinstance(value, torch.Tensor) or not can_be_resized(value):
            continue
        key = id(value), change.sizes
        if key in built and change == LeafChange(number, case.fill, sizes=change.sizes):
            values[number] = built[key]  # two inputs share this tensor, so build it only once
            continue
        made = _fill_like(value, change, _seeded_generator(case.seed, number))
        outside |= _is_outside(value, made)
        if is_floating(value):
            made = made.to(dtype) if dtype is not None and not made.is_complex() else made
            made = alter(made) if alter is not None else made
        if case.strided and made.dim() > 1:
            order = tuple(reversed(range(made.dim())))
            made = made.permute(order).contiguous().permute(order)
        requires_grad = value.requires_grad or case.grad
        if requires_grad and is_floating(made):
            leaf_tensor = made.requires_grad_(True)
            differentiated[leaf.name] = leaf_tensor
            # Pass a copy instead of the autograd leaf itself, because the code may write to its
            # argument.
            made = leaf_tensor.clone() if case.grad else leaf_tensor
        values[number] = built[key] = made
    for change in case.changes:
        if change.same_as is not None:
            values[change.leaf] = values[change.same_as]
    args, kwargs = _replace_leaves(inputs, values)
    named_values = {
        leaf.name: values.get(number, leaf.value)
        for number, leaf in enumerate(inputs.leaves)
        if leaf.given or number in values
    }
    words = ", ".join(
        f"`{name}` = {tensors.describe_inputs((value,), {})}"
        for name, value in list(named_values.items())[:6]
    )
    bound = bind_arguments(call.function, args, kwargs)
    arguments = {"args": args, "kwargs": kwargs} if bound is None else dict(bound.arguments)
    args, kwargs = rebuild_iterators(call, args, kwargs)
    return PreparedCall(call.function, args, kwargs, arguments, differentiated, words, outside)


def _limits_of(example: torch.Tensor) -> tuple[float, float] | None:
    """Return the smallest and the largest number of a user's example, if they suggest that the code
    is defined only for such numbers: none is negative, and they are not all equal. Else None."""
    if not example.is_floating_point() or not example.numel():
        return None
    least, most = float(example.min()), float(example.max())
    return (least, most) if 0 <= least < most < math.inf else None


def _is_outside(example: torch.Tensor, made: torch.Tensor) -> bool:
    """Whether a tensor has numbers outside of the range that the user's example of it suggests.

    The range is 0 to 1 if the example's numbers are; else it has only the lower limit 0. It
    includes 0 and 1 only if the example does.
    """
    limits = _limits_of(example)
    if limits is None:
        return False
    least, most = limits
    is_within = made > 0 if least > 0 else made >= 0
    if most <= 1:
        is_within &= made < 1 if most < 1 else made <= 1
    return not bool(is_within.all())


def _replace_leaves(
    inputs: Inputs, values: dict[int, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return copies of positional and keyword arguments, with some leaves replaced.

    ``values`` maps the index of a leaf in the flattened arguments to its new value.
    """
    stand_ins = {
        number: _UncopiedTensor(value) if isinstance(value, torch.Tensor) else value
        for number, value in values.items()
    }
    args, kwargs, _ = inputs.make_arguments(values=stand_ins)
    return _unwrap_stand_ins(args), _unwrap_stand_ins(kwargs)


class _UncopiedTensor:
    """A wrapper that protects a tensor argument from being copied when the arguments are copied."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self.tensor = tensor


def _unwrap_stand_ins(tree: Any) -> Any:
    from ..torch_internals.trees import pytree

    return pytree.tree_map(
        lambda leaf: leaf.tensor if isinstance(leaf, _UncopiedTensor) else leaf, tree
    )


def _seeded_generator(seed: int, leaf: int) -> torch.Generator:
    return torch.Generator().manual_seed(SEED_FACTOR * (seed + 1) + leaf)


def _fill_like(value: torch.Tensor, change: LeafChange, generator: torch.Generator) -> torch.Tensor:
    """Create a tensor like ``value``, with the sizes and the kind of elements in ``change``;
    ``generator`` draws random elements.
    """
    sizes = dict(change.sizes)
    shape = tuple(sizes.get(dim, size) for dim, size in enumerate(value.shape))
    if change.fill == "given":
        if sizes and (value.numel() == 0 or 0 in shape):
            return torch.zeros(shape, dtype=value.dtype)
        return resize_tensor(value.detach(), sizes)
    dtype = value.dtype
    if dtype == torch.bool:
        return _fill_bools(shape, change.fill, generator)
    if not dtype.is_floating_point and not dtype.is_complex:
        return _fill_integers(value, shape, change, generator).to(dtype)
    limits = _limits_of(value) if change.fill == "random" else None
    if limits is not None:
        least, most = limits
        return (least + (most - least) * torch.rand(shape, generator=generator)).to(dtype)
    made = torch.randn(shape, generator=generator, dtype=torch.float32)
    if dtype.is_complex:
        made = torch.complex(made, torch.randn(shape, generator=generator))
        return made.to(dtype)
    return _fill_floats(made, change, generator).to(dtype)


def _fill_floats(
    made: torch.Tensor, change: LeafChange, generator: torch.Generator
) -> torch.Tensor:
    fill = change.fill
    if fill == "positive":
        return made.abs() + 0.1
    if fill == "negative":
        return -made.abs() - 0.1
    if fill == "zero":
        return torch.zeros_like(made)
    if fill == "equal":
        return torch.full_like(made, 0.5)
    if fill == "constant":
        return torch.full_like(made, change.number)
    if fill == "large":
        return made * 1e4
    if fill == "small":
        return made * 1e-4
    if fill in ("nan", "infinite") and made.numel():
        few = torch.rand(made.shape, generator=generator) < 0.25
        few.view(-1)[int(torch.randint(made.numel(), (), generator=generator))] = True
        special = torch.full_like(made, math.nan)
        if fill == "infinite":
            special = torch.copysign(torch.full_like(made, math.inf), made)
        return torch.where(few, special, made)
    return made


def _fill_bools(shape: tuple[int, ...], fill: Fill, generator: torch.Generator) -> torch.Tensor:
    if fill in ("zero", "negative"):
        return torch.zeros(shape, dtype=torch.bool)
    if fill in ("equal", "positive"):
        return torch.ones(shape, dtype=torch.bool)
    return torch.randint(0, 2, shape, generator=generator).to(torch.bool)


def _fill_integers(
    value: torch.Tensor, shape: tuple[int, ...], change: LeafChange, generator: torch.Generator
) -> torch.Tensor:
    fill = change.fill
    largest = max(int(value.to(torch.int64).max()) if value.numel() else 1, 1)
    if fill in ("zero", "equal"):
        return torch.full(shape, int(fill == "equal"))
    if fill == "constant":
        return torch.full(shape, round(change.number))
    if fill == "negative":
        return torch.randint(-3, 0, shape, generator=generator)
    if fill == "positive":
        return torch.full(shape, largest)
    if fill in ("range", "large"):
        return torch.randint(0, 8 if fill == "range" else 100, shape, generator=generator)
    return torch.randint(0, largest + 1, shape, generator=generator)


def apply_to_module(
    module: torch.nn.Module, case: Case, alter: Callable[[torch.Tensor], torch.Tensor] | None
) -> None:
    """Apply the training mode, the dtype and the parameter values of a test call to a module.

    ``alter``, if given, converts the floating-point parameters and buffers.
    """
    if case.training is not None:
        module.train(case.training)
    if case.dtype:
        module.to(tensors.dtype_of(case.dtype))
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            if case.parameters == "given" or not is_floating(parameter):
                continue
            if case.parameters == "negative":
                parameter.neg_()
            else:
                filled = _fill_like(
                    parameter,
                    LeafChange(0, case.parameters),
                    _seeded_generator(case.seed, -1 - number),
                )
                parameter.copy_(filled)
        if alter is not None:
            for tensor in (*module.parameters(), *module.buffers()):
                if is_floating(tensor):
                    tensor.data = alter(tensor.data)
