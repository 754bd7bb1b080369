"""Changes of arguments after a failed trial call: other shapes of tensors and lengths of lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch

from ..notation import Sequence, TensorText
from .candidate import InputCandidate, number_sites
from .guesses import BATCH, LENGTH, SIDE, WIDTH
from .obstacle import WrongShape, implicated_paths
from .repair_sizes import equalize_sizes
from .subject import Repair, SearchSubject
from .trial import FailedCall, TrialOutcome

_CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
_TRANSPOSED = {"conv_transpose1d": 1, "conv_transpose2d": 2, "conv_transpose3d": 3}
_ELEMENTWISE = frozenset(
    ["add", "sub", "rsub", "mul", "div", "add_", "mul_", "sub_", "maximum", "minimum", "where"]
)
_SPATIAL = {1: (64,), 2: (SIDE, SIDE), 3: (8, 8, 8)}


def fit_layer(subject: SearchSubject, outcome: TrialOutcome, call: FailedCall) -> Iterator[Repair]:
    """Yield changed arguments in which an input gets a shape that fits the weights of the layer
    that raised."""
    candidate = outcome.candidate
    yield from _copy_shapes(outcome, call)
    given = (*call.args, *call.kwargs.values())
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    if not tensors:
        return
    first = tensors[0]
    rank, path = first.dim(), outcome.leaves.get(id(first))
    for dtype, shape in _layer_inputs(call, tensors):
        if path is not None:
            known = candidate.get(path)
            old = known.dtype if isinstance(known, TensorText) else "f32"
            kind = dtype or (old if old != "i64" else "f32")
            yield 0.2, candidate.with_shape(path, shape, kind)
            continue
        for leaf, _, known_shape in candidate.input_tensors():
            if dtype and tuple(first.shape) == known_shape:
                yield 1.0, candidate.with_shape(leaf, shape, dtype)
            if len(shape) != rank and len(known_shape) == rank:
                yield 1.0, candidate.with_shape(leaf, shape)
        if len(shape) == rank:
            # The height and width of images may differ.
            fixed = 2 if "conv" in call.name else len(shape)
            for met, right in itertools.islice(zip(first.shape, shape, strict=True), fixed):
                if met != right and isinstance(met, int):
                    yield from equalize_sizes(subject, candidate, met, right, 1)


def _layer_inputs(
    call: FailedCall, tensors: list[torch.Tensor]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the dtype and shape of inputs that a layer accepts, judging by its weights; an empty
    dtype means any.

    ``tensors`` are the arguments of the layer's function, first the input.
    """
    first, *weights = tensors
    if call.name in _CONVOLUTIONS and weights:
        groups = call.kwargs.get("groups", call.args[6] if len(call.args) > 6 else 1)
        channels = weights[0].shape[1] * (groups if isinstance(groups, int) else 1)
        yield "", (BATCH, channels, *_SPATIAL[_CONVOLUTIONS[call.name]])
    elif call.name in _TRANSPOSED and weights:
        yield "", (BATCH, weights[0].shape[0], *_SPATIAL[_TRANSPOSED[call.name]])
    elif call.name == "linear" and weights:
        yield "", (*(first.shape[:-1] or (BATCH,)), weights[0].shape[-1])
    elif call.name == "embedding":
        if first.dim() < 3:
            yield "i64", tuple(first.shape)
        yield "i64", (BATCH, LENGTH)
    elif call.name == "layer_norm" and len(call.args) > 1:
        ends = tuple(call.args[1]) if isinstance(call.args[1], (tuple, list)) else ()
        yield "", (*(first.shape[: max(first.dim() - len(ends), 0)] or (BATCH, LENGTH)), *ends)
    elif call.name in ("batch_norm", "group_norm", "instance_norm"):
        channel = next((one.shape[0] for one in weights if one.dim() == 1), None)
        if channel is not None and first.dim() >= 2:
            yield "", (first.shape[0], channel, *first.shape[2:])


def _copy_shapes(outcome: TrialOutcome, call: FailedCall) -> Iterator[Repair]:
    """Yield changed arguments in which an input gets the shape of another one, for functions that
    need equal shapes.

    In a concatenation, the dimension along which tensors are joined may differ.
    """
    candidate = outcome.candidate
    joins = call.name in ("cat", "concat", "concatenate")
    given = call.args[:1] if joins else call.args if call.name in _ELEMENTWISE else ()
    tensors = [
        one
        for value in given
        for one in (value if isinstance(value, (list, tuple)) else (value,))
        if isinstance(one, torch.Tensor)
    ]
    along = call.kwargs.get("dim", call.args[1] if len(call.args) > 1 else 0) if joins else None
    for one, other in itertools.permutations(tensors[:4], 2):
        path = outcome.leaves.get(id(one))
        value = candidate.get(path) if path is not None else None
        if path is None or path[0] != "inputs" or not isinstance(value, TensorText):
            continue
        shape = list(other.shape)
        if type(along) is int and one.dim() == other.dim() and -one.dim() <= along < one.dim():
            shape[along] = one.shape[along]
        yield 0.4, candidate.with_shape(path, shape)


def add_input(subject: SearchSubject, outcome: TrialOutcome, width: int) -> Iterator[Repair]:
    """Yield changed arguments with one more input, with the ``width`` features that a concatenation
    lacks."""
    candidate = outcome.candidate
    given = [shape for _, _, shape in candidate.input_tensors()]
    if not given or width not in {site.number for site in number_sites(candidate)} | {
        default for _, default in subject.integer_defaults(candidate)
    }:
        return
    shape = (*given[0][:-1], width)
    if outcome.failed is not None and outcome.failed.name in _CONVOLUTIONS:
        met = outcome.failed.args[0].shape
        shape = (met[0], width, *met[2:])
    for name in subject.left_out(candidate):
        yield 0.9, candidate.with_shape(("inputs", name), shape, "f32")


def reshape_input(
    subject: SearchSubject, candidate: InputCandidate, obstacle: WrongShape
) -> Iterator[Repair]:
    """Yield changed arguments in which an input with the rejected shape gets the required one."""
    changed = candidate
    met, wanted = obstacle.met, obstacle.wanted
    known = [shape for _, _, shape in candidate.input_tensors()]
    if len(met) == len(wanted) and met not in known:
        # A layer may have added a dimension before it checks the rank.
        kept = [at for at, pair in enumerate(zip(met, wanted, strict=True)) if pair != (1, 1)]
        met, wanted = tuple(met[at] for at in kept), tuple(wanted[at] for at in kept)
    for path, _, shape in candidate.input_tensors():
        if shape == met:
            yield 0.4, candidate.with_shape(path, wanted)
            changed = changed.with_shape(path, wanted)
    yield 0.3, changed
    if len(obstacle.met) == len(obstacle.wanted):
        for one, other in zip(obstacle.met, obstacle.wanted, strict=True):
            if one != other:
                yield from equalize_sizes(subject, candidate, one, other, 1)


def change_ranks(outcome: TrialOutcome, met: int | None, wanted: int) -> Iterator[Repair]:
    """Yield changed arguments in which a tensor has ``wanted`` dimensions instead of ``met``, or a
    list has ``wanted`` items."""
    candidate = outcome.candidate
    near = [path for path in implicated_paths(outcome) if path[0] == "inputs"]
    for path, _, shape in candidate.input_tensors():
        rank = len(shape)
        target = wanted if met is None or rank == met else rank + wanted - met
        if not 0 <= target <= 6 or target == rank:
            continue
        cost = 0.4 if path in near else 0.9
        cost += 0.0 if rank == met else 1.0
        for at, other in enumerate(shapes_of_rank(shape, target)):
            yield cost + 0.3 * at, candidate.with_shape(path, other)
    several = [(path, one) for path, _, one in candidate.input_tensors() if len(one) == met]
    if len(several) > 1 and wanted <= 6:
        changed = candidate
        for path, shape in several:
            changed = changed.with_shape(path, shapes_of_rank(shape, wanted)[0])
        yield 0.5, changed
    for path, found in candidate.values():
        if not isinstance(found, Sequence) or not found.items or wanted > 16:
            continue
        if len(found.items) != wanted:
            yield 1.2, candidate.with_value(path, of_length(found, wanted))
    for path in near:
        value_ = candidate.get(path)
        if isinstance(value_, TensorText) and len(path) == 2 and 1 < wanted <= 8:
            yield 2.0, candidate.with_value(path, Sequence("tuple", (value_,) * wanted))


def usual_ranks(candidate: InputCandidate, width: int) -> Iterator[Repair]:
    """Yield changed arguments with one more dimension, or with square images, for inputs that
    worked but are unusual.

    ``width`` is the number of features that inputs should have.
    """
    for path, _, shape in candidate.input_tensors():
        if len(shape) in (1, 2, 3):
            for at, other in enumerate(shapes_of_rank(shape, len(shape) + 1)[:2]):
                yield 0.3 + 0.1 * at, candidate.with_shape(path, other)
            yield 0.3, candidate.with_shape(path, (BATCH, *shape))
        if len(shape) == 2:
            yield 0.3, candidate.with_shape(path, (BATCH, width, *shape))
            yield 0.5, candidate.with_shape(path, shapes_of_rank(shape, 4)[0])
        if len(shape) == 4 and shape[2] != shape[3]:
            for side in dict.fromkeys((max(shape[2:]), SIDE)):
                yield 0.2, candidate.with_shape(path, (*shape[:2], side, side))


def of_length(found: Sequence, count: int) -> Sequence:
    """Return a list of ``count`` items in text form: the items of another list, repeated."""
    items = tuple(found.items[at % len(found.items)] for at in range(count))
    return Sequence(found.kind, items)


def shapes_of_rank(shape: tuple[int, ...], rank: int) -> list[tuple[int, ...]]:
    """Return shapes with ``rank`` dimensions derived from ``shape``, which keep the number of
    features."""
    width = shape[-1] if shape else WIDTH
    if len(shape) >= 4:
        width = shape[1]
    batch = shape[0] if len(shape) > 1 else BATCH
    if rank == 0:
        return [()]
    if rank == 1:
        return [(width,), (batch,)]
    if rank == 2:
        return [(batch, width), (batch, LENGTH)]
    if rank == 3:
        return [(batch, LENGTH, width), (batch, width, 64), (width, SIDE, SIDE)]
    if rank == 4:
        channels = width if width != SIDE else 3
        return [
            (batch, channels, SIDE, SIDE),
            (batch, LENGTH, LENGTH, width),
            (batch, 3, SIDE, SIDE),
        ]
    if rank == 5:
        return [(batch, width, 8, 8, 8), (batch, 4, width, SIDE, SIDE)]
    return [(batch, 2, width, 4, 16, 16)]
