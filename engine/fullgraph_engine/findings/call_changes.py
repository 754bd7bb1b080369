"""Changed calls for a forecast of recompiles: other sizes, values and modes with which a target is
called again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..protocol.recompiles import ForecastKind
from ..targets import Call
from ..tracing.variations import Inputs, can_be_resized

CALLS = 3
"""Number of calls after the first one, each with other sizes or values. This is one more than
Dynamo needs to make sizes dynamic.
"""


@dataclass(frozen=True)
class CallChange:
    """An experiment to forecast recompiles: a first call, then calls with other sizes, values or
    another mode.

    ``name`` is the changed input in the user's words, ``first`` its value in the first call, and
    ``tried`` its values later. ``sizes`` and ``values`` have the changes for each later call.
    """

    kind: ForecastKind
    name: str
    first: str
    tried: tuple[str, ...]
    sizes: tuple[dict[tuple[int, int], int], ...] = ()
    values: tuple[dict[int, Any], ...] = ()
    training: bool | None = None
    of_note: bool = True
    """True if recompiling on each call of the experiment deserves a finding, not only a row in the
    forecast."""

    @property
    def identity(self) -> str:
        return f"{self.kind} {self.name}: {', '.join(self.tried)}"

    def sizes_used(self) -> set[int]:
        return {size for sizes in self.sizes for size in sizes.values()}


class CallChanges:
    """A planner of the experiments that forecast recompiles: it chooses which inputs of a call to
    change, and how."""

    def __init__(self, call: Call, inputs: Inputs) -> None:
        self.call, self.inputs = call, inputs
        self._taken: set[int] = set()
        """Sizes used in other experiments. They are not used again, because Dynamo could treat two
        equal sizes as one dimension.
        """

    def resize_options(self, group: list[tuple[int, int]]) -> list[CallChange]:
        """Return alternative experiments that change the size of a group of dimensions, given as
        (tensor, dimension) pairs.

        There are several, to be tried in order, because the code may reject some sizes. For
        example, a size may have to be even or to match another size.
        """
        options = [
            self._resize_group(group, 1),
            self._resize_group(group, 0),
            *self._wider_changes(group),
        ]
        self._taken.update(size for one in options for size in one.sizes_used())
        return options

    def size_groups(self) -> list[list[tuple[int, int]]]:
        """Return groups of dimensions that must have equal sizes, as (tensor, dimension) pairs.

        The dimensions of a group share a symbolic name, or have equal size and index.
        """
        letters = {(id(wish.tensor), wish.dim): wish.symbol for wish in self.call.dynamic}
        groups: dict[object, list[tuple[int, int]]] = {}
        for at, dim in self._input_dimensions():
            tensor = self.inputs.leaves[at].value
            letter = letters.get((id(tensor), dim))
            key = letter or (dim, tensor.shape[dim])
            groups.setdefault(key, []).append((at, dim))
        return list(groups.values())

    def _input_dimensions(self) -> Iterator[tuple[int, int]]:
        for at, leaf in enumerate(self.inputs.leaves):
            if can_be_resized(leaf.value):
                for dim, size in enumerate(leaf.value.shape):
                    if type(size) is int and size > 1:
                        yield at, dim

    def _wider_changes(self, group: list[tuple[int, int]]) -> Iterator[CallChange]:
        """Yield experiments that change every dimension with the same size as ``group``, in all
        inputs.

        ``group`` has (input number, dimension) pairs. To avoid duplicates, only the first group of
        each size yields experiments.
        """
        size = self._group_size(group)
        same = [one for one in self._input_dimensions() if self._group_size([one]) == size]
        if len(same) > len(group) and same[0] == group[0]:
            yield self._resize_group(same, 1)
            yield self._resize_group(same, 0)

    def _resize_group(self, group: list[tuple[int, int]], step: int) -> CallChange:
        """Return an experiment that calls the target with larger sizes of a group of dimensions
        that must be equal.

        ``group`` has (tensor, dimension) pairs. The sizes grow by ``step`` from call to call, or
        are multiples of the first size if ``step`` is 0.
        """
        size = self._group_size(group)
        taken = self._taken | {self._group_size([one]) for one in self._input_dimensions()}
        larger = (size + n * step if step else size * (n + 1) for n in range(1, 99))
        # Avoid sizes of other dimensions: Dynamo could treat two equal sizes as one dimension.
        sizes = [number for number in larger if number not in taken][:CALLS]
        return CallChange(
            "size",
            self.name_of_sizes(group),
            str(size),
            tuple(map(str, sizes)),
            sizes=tuple(dict.fromkeys(group, number) for number in sizes),
            of_note=True,
        )

    def _group_size(self, group: list[tuple[int, int]]) -> int:
        at, dim = group[0]
        return int(self.inputs.leaves[at].value.shape[dim])

    def name_of_sizes(self, group: list[tuple[int, int]]) -> str:
        return ", ".join(f"{self.inputs.leaves[at].name}.shape[{dim}]" for at, dim in group)

    def value_changes(self) -> Iterator[CallChange]:
        for at, leaf in enumerate(self.inputs.leaves):
            value, kind = leaf.value, type(leaf.value)
            others: tuple[Any, ...] = ()
            if kind is bool:
                others = (not value,)
            elif kind is int:
                others = tuple(value + n for n in range(1, CALLS + 1))
            elif kind is float:
                others = tuple(value + n / 2 for n in range(1, CALLS + 1))
            elif leaf.optional and value is not None:
                others = (None,)
            if not others:
                continue
            shown = repr(value) if kind in (bool, int, float) else kind.__name__
            yield CallChange(
                "value" if kind in (int, float) else "flag",
                leaf.name,
                shown.replace("FakeTensor", "Tensor"),
                tuple(map(repr, others)),
                values=tuple({at: other} for other in others),
                of_note=leaf.given,
            )

    def mode_changes(self) -> Iterator[CallChange]:
        function = self.call.function
        if isinstance(function, torch.nn.Module):
            words = "train()", "eval()"
            first, other = words if function.training else words[::-1]
            yield CallChange("mode", "training", first, (other,), training=not function.training)
