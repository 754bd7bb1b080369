"""The batch sizes that a call accepts, found by repeating the call without Dynamo with other sizes.

A layer's weight and a number in the code can both fix a size, but the user can act only on the
number. The repeated calls tell them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from .. import tracing
from ..targets import Call
from ..torch_internals.trees import pytree
from ..tracing.variations import Inputs
from .call_changes import CallChanges

BatchVerdict = Literal["varies", "constant", "fixed", "unknown"]
"""Result of repeating a call with other batch sizes. ``varies``: the calls work. ``constant``: they
raise because of a number in the code. ``fixed``: they raise because of a parameter, a layer or
another input. ``unknown``: the reason is not certain.
"""

Dimension = tuple[int, int]
"""A dimension of an input, as two numbers: the index of the tensor among the flattened arguments,
and the dimension."""

_LAYERS = "/torch/nn/modules/"
_AROUND = ("module.py", "container.py")
"""Names of torch's files whose frames surround the call of any module, so that they do not identify
a layer."""


@dataclass(frozen=True)
class BatchTrial:
    """The result of repeating a call with other batch sizes.

    ``dimensions`` are the dimensions that had to change together.
    """

    verdict: BatchVerdict
    dimensions: tuple[Dimension, ...] = ()


class BatchSizes:
    """A tester of the batch sizes that a call accepts.

    Create it before the call is traced, since the traced code may change the inputs.
    """

    def __init__(self, call: Call, batch: Sequence[tuple[torch.Tensor, int]]) -> None:
        self.call = call
        self._inputs = Inputs(call.function, call.args, call.kwargs)
        self._changes = CallChanges(call, self._inputs)
        wished = {(id(tensor), dim) for tensor, dim in batch}
        self._group = [
            (at, 0) for at, leaf in enumerate(self._inputs.leaves) if (id(leaf.value), 0) in wished
        ]
        self._size = batch[0][0].shape[0] if batch else 0

    def try_sizes(self) -> BatchTrial:
        """Repeat the call with other sizes of the batch dimensions, and return whether it works.

        First only the dimensions given to the constructor change, then all dimensions of the same
        size. Runs user code.
        """
        if not self._group:
            return BatchTrial("unknown")
        verdicts: list[BatchVerdict] = []
        for change in self._changes.resize_options(self._group):
            verdict = self._try_change(change.sizes[0])
            if verdict == "varies":
                return BatchTrial("varies", tuple(change.sizes[0]))
            verdicts.append(verdict)
        for verdict in ("unknown", "fixed"):
            if verdict in verdicts[:2]:
                return BatchTrial(verdict)
        return self._try_without_indices() or BatchTrial("constant", tuple(self._group))

    def _try_without_indices(self) -> BatchTrial | None:
        """Repeat the call, and resize the batch dimension only in floating-point inputs; None if
        this call raises.

        The first dimension of an integer tensor may have the batch size by chance. For example, it
        may be the two rows in ``i64[2, 8]``.
        """
        leaves = self._inputs.leaves
        group = [(at, dim) for at, dim in self._group if leaves[at].value.is_floating_point()]
        if not 0 < len(group) < len(self._group):
            return None
        changes = self._changes.resize_options(group)[:2]
        works = any(self._try_change(change.sizes[0]) == "varies" for change in changes)
        return BatchTrial("varies", tuple(group)) if works else None

    def find_tensors(
        self, call: Call, dimensions: Sequence[Dimension]
    ) -> list[tuple[torch.Tensor, int]]:
        """Return pairs of a tensor and a dimension number for ``dimensions``, with the tensors of
        ``call``.

        ``call`` is another instance of the tested call, with arguments of the same structure.
        """
        leaves = Inputs(call.function, call.args, call.kwargs).leaves
        found = [(leaves[at].value, dim) for at, dim in dimensions if at < len(leaves)]
        return [(value, dim) for value, dim in found if isinstance(value, torch.Tensor)]

    def _try_change(self, sizes: dict[Dimension, int]) -> BatchVerdict:
        args, kwargs, _ = self._inputs.make_arguments(sizes)
        watch = _OriginWatch(self.call.function, (args, kwargs))
        try:
            with watch:
                tracing.call_eagerly(self.call.function, args, kwargs)
        except tracing.ValueNeeded:
            return "unknown"
        except BaseException as error:  # the user's code may raise any exception
            return "constant" if watch.is_constant_wrong(error, self._size) else "fixed"
        return "varies"


@dataclass(frozen=True)
class _Origin:
    """The origin of a tensor during a repeated call.

    ``of_input``: it was computed from inputs. ``widths``: all sizes of the parameters and buffers
    that it was computed from.
    """

    of_input: bool = False
    widths: frozenset[int] = frozenset()


class _OriginWatch(TorchFunctionMode):
    """A mode that records what each tensor was computed from, and the last torch call that
    raised."""

    def __init__(self, function: Any, inputs: Any) -> None:
        super().__init__()
        self._origins = WeakTensorKeyDictionary()
        self._failed: tuple[list[_Origin], BaseException] | None = None
        module = getattr(function, "__self__", function)
        if isinstance(module, torch.nn.Module):
            for tensor in (*module.parameters(), *module.buffers()):
                self._origins[tensor] = _Origin(widths=frozenset(tensor.shape))
        for leaf in pytree.tree_leaves(inputs):
            if isinstance(leaf, torch.Tensor):
                self._origins[leaf] = _Origin(of_input=True)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        tensors = [
            leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)
        ]
        origins = [self._origin(tensor) for tensor in tensors]
        try:
            out = func(*args, **kwargs)
        except BaseException as error:
            self._failed = origins, error
            raise
        merged = _Origin(
            any(one.of_input for one in origins),
            frozenset(width for one in origins for width in one.widths),
        )
        for leaf in pytree.tree_leaves(out):
            if isinstance(leaf, torch.Tensor) and leaf not in self._origins:
                self._origins[leaf] = merged
        return out

    def _origin(self, tensor: torch.Tensor) -> _Origin:
        known: _Origin | None = self._origins.get(tensor)
        if known is not None:
            return known
        # This is a parameter that does not belong to the called module, such as a global one.
        widths = tensor.shape if isinstance(tensor, torch.nn.Parameter) else ()
        return _Origin(widths=frozenset(widths))

    def is_constant_wrong(self, error: BaseException, size: int) -> bool:
        """Whether a torch call raised ``error`` because of a number in the code.

        This is not so if a layer raised it, if a parameter has a dimension of the given ``size``,
        or if two inputs do not fit each other.
        """
        if self._failed is None or self._failed[1] is not error or _is_in_layer(error):
            return False
        origins = self._failed[0]
        others = [one for one in origins if not one.of_input]
        if any(size in one.widths for one in others):
            return False
        return len(origins) - len(others) < 2 or bool(others)


def _is_in_layer(error: BaseException) -> bool:
    """Whether an exception was raised while a layer of ``torch.nn`` was executing."""
    trace = error.__traceback__
    while trace is not None:
        path = trace.tb_frame.f_code.co_filename.replace("\\", "/")
        if _LAYERS in path and not path.endswith(_AROUND):
            return True
        trace = trace.tb_next
    return False
