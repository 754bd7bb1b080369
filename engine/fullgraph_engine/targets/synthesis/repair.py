"""Repairs: candidates derived from a failed trial call, by cost, cheapest first."""

from __future__ import annotations

import itertools
import linecache
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..notation import Arguments, LiteralValue, Mapping, Reference, Sequence, TensorText, Value
from .candidate import (
    InputCandidate,
    NumberSite,
    Path,
    make_tensor_text,
    number_sites,
    shape_of_text,
    with_field,
    with_size,
)
from .guesses import BATCH, LENGTH, SIDE, WIDTH, Guesses, SignatureParameter, is_width
from .obstacle import (
    Indivisible,
    MissingArguments,
    TooLarge,
    TooSmall,
    Unequal,
    Unexpected,
    WrongChoice,
    WrongCount,
    WrongRank,
    WrongShape,
    WrongType,
    error_words,
    find_obstacles,
    implicated_paths,
)
from .trial import FailedCall, TrialOutcome

_SIDES = (64, 224, 128, 28, 96, 256, 299, 112, 16, 84, 384, 512, 8)
_CONVOLUTIONS = {"conv1d": 1, "conv2d": 2, "conv3d": 3}
_TRANSPOSED = {"conv_transpose1d": 1, "conv_transpose2d": 2, "conv_transpose3d": 3}
_MOST_KNOWN = 6
"""Maximum number of the constructor's integer arguments tried as sizes of inputs."""
_CLOSER = 1.5
"""Value of a smaller difference between two numbers that should be equal, in units of cost."""
_LONGEST = 1 << 17
"""Largest number for which the size of an image or sequence is computed."""
_ELEMENTWISE = {
    "add",
    "sub",
    "rsub",
    "mul",
    "div",
    "add_",
    "mul_",
    "sub_",
    "maximum",
    "minimum",
    "where",
}
_SPATIAL = {1: (64,), 2: (SIDE, SIDE), 3: (8, 8, 8)}

Step = tuple[float, InputCandidate]


@dataclass(frozen=True)
class Gap:
    """Two numbers that differed at one place in a trial call and should be equal."""

    candidate: InputCandidate
    place: tuple[object, ...]
    width: int


def gap_of(outcome: TrialOutcome) -> Gap | None:
    """Return the most likely pair of numbers that differed in a trial call, if any."""
    unequal = next((one for one in find_obstacles(outcome) if isinstance(one, Unequal)), None)
    if unequal is None:
        return None
    function = outcome.failed.name if outcome.failed is not None else ""
    place = (*outcome.place, function)
    return Gap(outcome.candidate, place, unequal.met - unequal.wanted)


class Repairs:
    """Repairs of candidates (constructor and call arguments) for one class."""

    def __init__(
        self,
        guesses: Guesses,
        init: tuple[SignatureParameter, ...],
        inputs: tuple[SignatureParameter, ...],
    ) -> None:
        self.guesses = guesses
        self.init = {one.name: one for one in init}
        self.inputs = {one.name: one for one in inputs}

    def repairs_for(self, outcome: TrialOutcome) -> Iterator[Step]:
        candidate = outcome.candidate
        if outcome.failed is not None and outcome.phase == 1:
            yield from self._of_call(outcome, outcome.failed)
        # The size of an image does not change how many channels it has.
        channels = outcome.failed is not None and "conv" in outcome.failed.name
        for rank, obstacle in enumerate(find_obstacles(outcome)):
            extra = min(rank, 10) * 0.3
            if isinstance(obstacle, Unequal):
                steps = self._equalize_sizes(
                    candidate, obstacle.met, obstacle.wanted, outcome.phase, sized=not channels
                )
                if outcome.phase == 1 and obstacle.wanted > obstacle.met:
                    more = self._add_input(outcome, obstacle.wanted - obstacle.met)
                    steps = itertools.chain(steps, more)
            elif isinstance(obstacle, Indivisible):
                steps = self._make_divisible(candidate, obstacle.number, obstacle.divisor)
            elif isinstance(obstacle, WrongRank):
                steps = self._change_ranks(outcome, obstacle.met, obstacle.wanted)
            elif isinstance(obstacle, WrongCount):
                steps = self._divide_sizes(candidate, obstacle.wanted)
            elif isinstance(obstacle, WrongShape):
                steps = self._reshape_input(candidate, obstacle)
            elif isinstance(obstacle, WrongChoice):
                steps = self._try_choices(candidate, obstacle)
            elif isinstance(obstacle, WrongType):
                steps = self._try_types(candidate, obstacle)
            elif isinstance(obstacle, TooSmall):
                steps = self._enlarge_images(candidate)
            elif isinstance(obstacle, TooLarge):
                steps = self._shrink_sizes(candidate)
            elif isinstance(obstacle, MissingArguments):
                steps = self._add_missing(candidate, obstacle.names, outcome.phase)
            else:
                assert isinstance(obstacle, Unexpected)
                side = "init" if outcome.phase == 0 else "inputs"
                steps = iter([(0.5, candidate.without_argument((side, obstacle.name)))])
            for cost, step in steps:
                yield cost + extra, step
        yield from self._of_types(outcome)
        yield from self._try_other_guesses(outcome)

    def solve_between(self, one: Gap, other: Gap) -> Iterator[Step]:
        """Yield candidates with a size, computed from two trial calls, at which the numbers
        should be equal.

        The number is assumed to depend linearly on the size.
        """
        if one.place != other.place:
            return
        numbers = {(site.path, site.dim): site.number for site in number_sites(one.candidate)}
        changed = [
            site
            for site in number_sites(other.candidate)
            if numbers.get((site.path, site.dim), site.number) != site.number
        ]
        values = {(numbers[site.path, site.dim], site.number) for site in changed}
        if len(values) != 1 or one.width == other.width:
            return
        ((before, now),) = values
        closer = abs(other.width) < abs(one.width)
        solved = now - other.width * (now - before) / (other.width - one.width)
        for at, number_ in enumerate(
            dict.fromkeys((round(solved), math.ceil(solved), int(solved)))
        ):
            if 0 < number_ <= _LONGEST and number_ not in (before, now):
                cost = (-_CLOSER if closer else 0.3) + 0.2 * at
                yield cost, _put_all(other.candidate, changed, number_)

    # -- a function of torch that raised ------------------------------------------------------

    def _of_call(self, outcome: TrialOutcome, call: FailedCall) -> Iterator[Step]:
        """Yield changes of a layer's input that follow from the shapes of its weights."""
        candidate = outcome.candidate
        yield from self._like_others(outcome, call)
        given = (*call.args, *call.kwargs.values())
        tensors = [value for value in given if isinstance(value, torch.Tensor)]
        if not tensors:
            return
        first = tensors[0]
        path = outcome.leaves.get(id(first))
        weight = tensors[1] if len(tensors) > 1 else None
        wanted: list[tuple[str | None, tuple[int, ...]]] = []
        if call.name in _CONVOLUTIONS and weight is not None:
            n = _CONVOLUTIONS[call.name]
            groups = call.kwargs.get("groups", call.args[6] if len(call.args) > 6 else 1)
            channels = weight.shape[1] * (groups if isinstance(groups, int) else 1)
            wanted.append((None, (BATCH, channels, *_SPATIAL[n])))
        elif call.name in _TRANSPOSED and weight is not None:
            wanted.append((None, (BATCH, weight.shape[0], *_SPATIAL[_TRANSPOSED[call.name]])))
        elif call.name == "linear" and weight is not None:
            shape = tuple(first.shape[:-1]) or (BATCH,)
            wanted.append((None, (*shape, weight.shape[-1])))
        elif call.name == "embedding":
            index = first
            path = outcome.leaves.get(id(index))
            shape = tuple(index.shape) if index.dim() < 3 else (BATCH, LENGTH)
            wanted.append(("i64", shape))
            wanted.append(("i64", (BATCH, LENGTH)))
        elif call.name == "layer_norm" and len(call.args) > 1:
            ends = tuple(call.args[1]) if isinstance(call.args[1], (tuple, list)) else ()
            keep = tuple(first.shape[: max(first.dim() - len(ends), 0)]) or (BATCH, LENGTH)
            wanted.append((None, (*keep, *ends)))
        elif call.name in ("batch_norm", "group_norm", "instance_norm"):
            channel = next((one.shape[0] for one in tensors[1:] if one.dim() == 1), None)
            if channel is not None and first.dim() >= 2:
                wanted.append((None, (first.shape[0], channel, *first.shape[2:])))
        for dtype, shape in wanted:
            if path is not None:
                known = candidate.get(path)
                old = known.dtype if isinstance(known, TensorText) else "f32"
                kind = dtype or (old if old != "i64" else "f32")
                yield 0.2, candidate.with_value(path, make_tensor_text(kind, *shape))
                continue
            for leaf, value in candidate.tensors():
                if leaf[0] != "inputs":
                    continue
                if dtype is not None and tuple(first.shape) == shape_of_text(value):
                    yield 1.0, candidate.with_value(leaf, make_tensor_text(dtype, *shape))
                if len(shape) != first.dim() and len(shape_of_text(value)) == first.dim():
                    yield 1.0, candidate.with_value(leaf, make_tensor_text(value.dtype, *shape))
            if len(shape) == first.dim():
                fixed = 2 if "conv" in call.name else len(shape)  # images may have any size
                for met, right in itertools.islice(zip(first.shape, shape, strict=True), fixed):
                    if met != right and isinstance(met, int):
                        yield from self._equalize_sizes(candidate, met, right, 1)

    def _like_others(self, outcome: TrialOutcome, call: FailedCall) -> Iterator[Step]:
        """Yield inputs with the shape of the other inputs, for functions that need equal shapes.

        For concatenations the joined dimension may differ.
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
            yield 0.4, candidate.with_value(path, make_tensor_text(value.dtype, *shape))

    # -- numbers ------------------------------------------------------------------------------

    def _equalize_sizes(
        self, candidate: InputCandidate, met: int, wanted: int, phase: int, *, sized: bool = True
    ) -> Iterator[Step]:
        """Yield candidates with ``met`` changed to ``wanted``, or at a higher cost the other way.

        ``sized``: the number may depend on sizes of images and sequences.
        """
        if met <= 0 or wanted <= 0:
            return
        found = [one for one in number_sites(candidate) if phase == 1 or one.path[0] == "init"]
        for cost, a, b in ((0.5, met, wanted), (1.2, wanted, met)):
            same = [site for site in found if site.number == a]
            for site in same:
                square = self._resize_square(candidate, site, b)
                if square is not None:
                    yield cost + _site_distance(site, phase), square
                apart = 0.0 if square is None else 0.7
                yield cost + apart + _site_distance(site, phase), site.put(candidate, b)
            several = [site for site in same if site.path[0] == "inputs"]
            if len(several) > 1:
                yield cost + 0.6, _put_all(candidate, several, b)
            for path, default in self._integer_defaults(candidate):
                if default == a:
                    yield cost + 1.0, candidate.with_value(path, LiteralValue(b))
        for site in found:
            yield from self._scale_size(candidate, site, met, wanted)
        # Another trial with changed sizes shows which numbers depend on them.
        together: dict[tuple[int, int], list[NumberSite]] = {}
        for site in found:
            if site.dim and site.path[0] == "inputs" and site.number > 1:
                together.setdefault((site.dim, site.number), []).append(site)
        for (_, number_), equal in together.items():
            yield 2.4, _put_all(candidate, equal, 2 * number_)
        if sized:
            yield from self._resize_images(candidate, met, wanted)
        yield from self._match_products(candidate, met, wanted)
        yield from self._match_sums(candidate, met, wanted)
        yield from self._try_known_numbers(candidate) if phase == 1 else ()

    def _match_products(self, candidate: InputCandidate, met: int, wanted: int) -> Iterator[Step]:
        """Yield candidates in which a product of two dimensions, which the code flattens together,
        fits.
        """
        for path, value in candidate.tensors():
            shape = shape_of_text(value) if path[0] == "inputs" else ()
            for dim, (one, other) in enumerate(itertools.pairwise(shape)):
                if one * other != met or 1 in (one, other):
                    continue
                for last in dict.fromkeys((2, other, 1, one)):
                    if wanted % last == 0:
                        changed = with_size(with_size(value, dim, wanted // last), dim + 1, last)
                        yield 1.6, candidate.with_value(path, changed)

    def _match_sums(self, candidate: InputCandidate, met: int, wanted: int) -> Iterator[Step]:
        """Yield candidates in which a sum of dimensions of two inputs, which the code concatenates,
        fits.
        """
        found = [site for site in number_sites(candidate) if site.dim and site.path[0] == "inputs"]
        for one, other in itertools.combinations(found, 2):
            if one.dim == other.dim and one.number + other.number == met and wanted > 1:
                for part in dict.fromkeys((wanted // 2, wanted - 1, 1)):
                    yield 1.3, other.put(one.put(candidate, part), wanted - part)

    def _try_known_numbers(self, candidate: InputCandidate) -> Iterator[Step]:
        """Yield inputs whose last sizes are integer arguments of the constructor.

        Also yield inputs with as many values as a Fourier transform of that length has
        frequencies.
        """
        known: dict[int, None] = {}
        for name, number_ in self._constructor_numbers(candidate).items():
            known[number_ // 2 + 1 if "fft" in name.lower() else number_] = None
        large = [number_ for number_ in known if number_ > 8][:_MOST_KNOWN]
        for site in number_sites(candidate):
            if site.dim and site.path[0] == "inputs" and site.number > 2:
                for number_ in large:
                    if number_ != site.number:
                        yield 2.0 + 0.1 * site.dim, site.put(candidate, number_)

    def _add_input(self, outcome: TrialOutcome, width: int) -> Iterator[Step]:
        """Yield candidates with one more input, which has the features missing from a
        concatenation.
        """
        candidate = outcome.candidate
        given = [value for path, value in candidate.tensors() if path[0] == "inputs"]
        if not given or width not in {site.number for site in number_sites(candidate)} | {
            default for _, default in self._integer_defaults(candidate)
        }:
            return
        shape = (*shape_of_text(given[0])[:-1], width)
        if outcome.failed is not None and outcome.failed.name in _CONVOLUTIONS:
            met = outcome.failed.args[0].shape
            shape = (met[0], width, *met[2:])
        for name in self._left_out(candidate):
            yield 0.9, candidate.with_value(("inputs", name), make_tensor_text("f32", *shape))

    def _left_out(self, candidate: InputCandidate) -> Iterator[str]:
        """Yield the names of optional inputs that the candidate leaves at None."""
        for name, parameter in self.inputs.items():
            given = candidate.get(("inputs", name))
            if given == LiteralValue(None) or (given is None and parameter.default is None):
                yield name

    def _resize_square(
        self, candidate: InputCandidate, site: NumberSite, number_: int
    ) -> InputCandidate | None:
        """Return a candidate with both sides of a square image changed to a number; None for other
        sizes.
        """
        value = candidate.get(site.path)
        if not isinstance(value, TensorText):
            return None
        shape = shape_of_text(value)
        dims = _side_dims(shape)
        if site.dim not in dims or len({shape[dim] for dim in dims}) > 1:
            return None
        return _with_sides(candidate, site.path, value, number_)

    def _scale_size(
        self, candidate: InputCandidate, site: NumberSite, met: int, wanted: int
    ) -> Iterator[Step]:
        """Yield candidates with a scaled size, so that ``met`` becomes ``wanted``.

        ``met`` is assumed to be a multiple of the size, or slightly more.
        """
        if site.number < 2 or site.number == met:
            return
        if met % site.number == 0 and site.number * wanted % met == 0:
            number_ = site.number * wanted // met
            # It is rarely right to change only one side of an image.
            image = site.dim is not None and site.dim > 1
            if number_ > 0:
                yield 1.5 + 2.0 * image + _site_distance(site, 1), site.put(candidate, number_)
        for token in (-1, 1):  # a token that the code adds to a sequence or removes from it
            inner = site.number + token
            if inner > 1 and met % inner == 0 and inner * wanted % met == 0:
                yield (
                    2.0 + _site_distance(site, 1),
                    site.put(candidate, inner * wanted // met - token),
                )
        if site.number <= met + 4 and site.number + wanted - met > 0:
            near = 0.0 if abs(met - site.number) <= 4 else 0.8
            yield (
                2.0 + near + _site_distance(site, 1),
                site.put(candidate, site.number + wanted - met),
            )

    def _resize_images(self, candidate: InputCandidate, met: int, wanted: int) -> Iterator[Step]:
        """Yield candidates with images whose area scales like the numbers, and with longer
        sequences.
        """
        for side in dict.fromkeys(side for _, _, side in _image_inputs(candidate)):
            if abs(met - wanted) == 1:  # halves of an odd number, rounded down or up
                yield 1.0, _with_all_sides(candidate, side + 1, side)
                yield 1.1, _with_all_sides(candidate, side - 1, side)
            one = math.isqrt(side * side * wanted // met)
            for number_ in (one, one - one % 2, one + one % 2):
                if 0 < number_ <= 1024 and number_ != side:
                    yield 1.8, _with_all_sides(candidate, number_, side)
        for path, value in candidate.tensors():
            shape = shape_of_text(value)
            if path[0] == "inputs" and len(shape) == 3:
                length = shape[2] * wanted // met
                if 0 < length <= 4096 and length != shape[2]:
                    yield 2.2, candidate.with_value(path, with_size(value, 2, length))

    def _enlarge_images(self, candidate: InputCandidate) -> Iterator[Step]:
        for at, side in enumerate(_SIDES):
            changed = _with_all_sides(candidate, side)
            if changed != candidate:
                yield 1.0 + 0.2 * at, changed
        shapes = {
            shape_of_text(value) for path, value in candidate.tensors() if path[0] == "inputs"
        }
        for shape in sorted(shapes - {one for one in shapes if _side_dims(one) or not one}):
            last = len(shape) - 1
            for dim in range(min(last, 1), len(shape)):
                for at, factor in enumerate((4, 16, 64) if shape[dim] > 3 else ()):
                    bigger = candidate
                    for path, value in candidate.tensors():
                        if path[0] == "inputs" and shape_of_text(value) == shape:
                            changed_ = with_size(value, dim, shape[dim] * factor)
                            bigger = bigger.with_value(path, changed_)
                    yield 1.5 + 0.5 * at + 0.3 * (last - dim), bigger
        yield from self._try_known_numbers(candidate)

    def _shrink_sizes(self, candidate: InputCandidate) -> Iterator[Step]:
        large = [site for site in number_sites(candidate) if site.number > 2]
        everything = candidate
        for site in large:
            if site.path[0] == "init" and site.number > 8:
                everything = site.put(everything, 8)
        if everything != candidate:
            yield 0.4, everything
        for site in large:
            yield 1.0 + _site_distance(site, 0), site.put(candidate, 2)
            if site.number > 16:
                yield 1.0 + _site_distance(site, 0), site.put(candidate, 16)
        changed = _with_all_sides(candidate, SIDE)
        if changed != candidate:
            yield 0.5, changed
        for path, default in self._integer_defaults(candidate):
            if default > 4:
                yield 1.5, candidate.with_value(path, LiteralValue(max(2, default // 4)))

    def _make_divisible(
        self, candidate: InputCandidate, number_: int, divisor: int
    ) -> Iterator[Step]:
        if number_ <= 0 or divisor <= 0:
            return
        found = number_sites(candidate)
        for site in found:
            if site.number == number_:
                near = max(divisor, number_ // divisor * divisor)
                yield 0.8 + _site_distance(site, 1), site.put(candidate, near)
            if site.number == divisor:
                for one in (1, 2, 4, 8, 16):
                    if number_ % one == 0 and one < divisor:
                        yield 1.0 + _site_distance(site, 1), site.put(candidate, one)
        for path, default in self._integer_defaults(candidate):
            if default == divisor:
                for one in (4, 2, 1):
                    if number_ % one == 0:
                        yield 1.5, candidate.with_value(path, LiteralValue(one))
            elif default == number_:
                yield 1.5, candidate.with_value(path, LiteralValue(divisor))
        yield from self._equalize_sizes(candidate, number_, divisor, 1)

    def _integer_defaults(self, candidate: InputCandidate) -> Iterator[tuple[Path, int]]:
        """Yield the positions and defaults of the constructor's integer parameters that keep their
        defaults.
        """
        for name, parameter in self.init.items():
            path = ("init", name)
            if type(parameter.default) is int and candidate.get(path) is None:
                yield path, parameter.default

    # -- ranks --------------------------------------------------------------------------------

    def _reshape_input(self, candidate: InputCandidate, obstacle: WrongShape) -> Iterator[Step]:
        changed = candidate
        met, wanted = obstacle.met, obstacle.wanted
        if len(met) == len(wanted) and not any(
            shape_of_text(v) == met for _, v in candidate.tensors()
        ):
            # A layer may have added a dimension before it checks the rank.
            kept = [at for at, pair in enumerate(zip(met, wanted, strict=True)) if pair != (1, 1)]
            met, wanted = tuple(met[at] for at in kept), tuple(wanted[at] for at in kept)
        for path, value in candidate.tensors():
            if shape_of_text(value) == met and path[0] == "inputs":
                new = make_tensor_text(value.dtype, *wanted)
                yield 0.4, candidate.with_value(path, new)
                changed = changed.with_value(path, new)
        yield 0.3, changed
        if len(obstacle.met) == len(obstacle.wanted):
            for one, other in zip(obstacle.met, obstacle.wanted, strict=True):
                if one != other:
                    yield from self._equalize_sizes(candidate, one, other, 1)

    def _change_ranks(self, outcome: TrialOutcome, met: int | None, wanted: int) -> Iterator[Step]:
        candidate = outcome.candidate
        near = [path for path in implicated_paths(outcome) if path[0] == "inputs"]
        for path, value in candidate.tensors():
            if path[0] != "inputs":
                continue
            rank = len(shape_of_text(value))
            target = wanted if met is None or rank == met else rank + wanted - met
            if not 0 <= target <= 6 or target == rank:
                continue
            cost = 0.4 if path in near else 0.9
            cost += 0.0 if rank == met else 1.0
            for at, shape in enumerate(_shapes_of_rank(shape_of_text(value), target)):
                yield (
                    cost + 0.3 * at,
                    candidate.with_value(path, make_tensor_text(value.dtype, *shape)),
                )
        several = [
            (p, v)
            for p, v in candidate.tensors()
            if p[0] == "inputs" and len(shape_of_text(v)) == met
        ]
        if len(several) > 1 and wanted <= 6:
            changed = candidate
            for path, value in several:
                changed = changed.with_value(
                    path,
                    make_tensor_text(
                        value.dtype, *_shapes_of_rank(shape_of_text(value), wanted)[0]
                    ),
                )
            yield 0.5, changed
        for path, found in candidate.values():
            if not isinstance(found, Sequence) or not found.items or wanted > 16:
                continue
            if len(found.items) != wanted:
                yield 1.2, candidate.with_value(path, _of_length(found, wanted))
        for path in near:
            value_ = candidate.get(path)
            if isinstance(value_, TensorText) and len(path) == 2 and 1 < wanted <= 8:
                yield 2.0, candidate.with_value(path, Sequence("tuple", (value_,) * wanted))

    def _divide_sizes(self, candidate: InputCandidate, wanted: int) -> Iterator[Step]:
        """Yield candidates with sizes that can be split into the wanted number of equal parts."""
        for path, value in candidate.tensors():
            shape = shape_of_text(value)
            for dim in range(1, len(shape)) if path[0] == "inputs" else ():
                if shape[dim] % wanted:
                    larger = with_size(value, dim, shape[dim] * wanted)
                    yield 1.4, candidate.with_value(path, larger)

    # -- choices and types --------------------------------------------------------------------

    def _try_choices(self, candidate: InputCandidate, obstacle: WrongChoice) -> Iterator[Step]:
        for at, choice in enumerate(obstacle.choices):
            if isinstance(choice, (str, int, float, bool, type(None))):
                yield (
                    0.5 + 0.1 * at,
                    self._put_value(candidate, obstacle.path, LiteralValue(choice)),
                )
        if not obstacle.choices:
            yield from self._try_alternatives(candidate, obstacle.path, 1.0)

    def _try_types(self, candidate: InputCandidate, obstacle: WrongType) -> Iterator[Step]:
        name = str(obstacle.path[-1])
        for kind in obstacle.wanted:
            for value in self.guesses.of_type(kind, name):
                yield 0.5, self._put_value(candidate, obstacle.path, value)

    def _add_missing(
        self, candidate: InputCandidate, names: tuple[str, ...], phase: int
    ) -> Iterator[Step]:
        changed = candidate
        for name in names:
            parameter = SignatureParameter(name, True)
            if phase == 0:
                value = self.guesses.argument(self.init.get(name, parameter))[0]
                changed = changed.with_value(("init", name), value)
            else:
                value = self.input(self.inputs.get(name, parameter), changed)[0]
                changed = changed.with_value(("inputs", name), value)
        if changed != candidate:
            yield 0.1, changed
        count = sum(name.startswith("*") for name, _ in candidate.inputs)
        if phase == 1:
            value = make_tensor_text("f32", BATCH, self.width(candidate))
            yield 1.0, candidate.with_value(("inputs", f"*{count}"), value)

    def _put_value(self, candidate: InputCandidate, path: Path, value: Value) -> InputCandidate:
        """Return a candidate with the value at a path, which may be a configuration's field with a
        default.
        """
        last = path[-1]
        if isinstance(last, str) and last.startswith(".") and len(path) > 2:
            owner = candidate.get(path[:-1])
            if not isinstance(owner, Reference):
                return candidate
            return candidate.with_value(path[:-1], with_field(owner, last[1:], value))
        return candidate.with_value(path, value)

    def _try_alternatives(
        self, candidate: InputCandidate, path: Path, cost: float
    ) -> Iterator[Step]:
        """Yield candidates with other guesses for the value at a path."""
        values: list[Value]
        last = path[-1]
        if path[0] == "inputs" and len(path) == 2:
            parameter = self.inputs.get(str(last), SignatureParameter(str(last), True))
            values = self.input(parameter, candidate)
        else:
            name = self._value_name(candidate, path)
            known = self.init.get(name) if len(path) == 2 else None
            values = self.guesses.argument(known or SignatureParameter(name, True))
        for at, value in enumerate(values):
            changed = self._put_value(candidate, path, value)
            if changed != candidate:
                yield cost + 0.25 * at, changed

    def _value_name(self, candidate: InputCandidate, path: Path) -> str:
        """Return the name of the value at a path: its parameter, its field or its key."""
        last = path[-1]
        if isinstance(last, str):
            return last.lstrip(".")
        owner = candidate.get(path[:-1])
        if isinstance(owner, Reference) and owner.call is not None:
            at = last - len(owner.call.positional)
            if 0 <= at < len(owner.call.named):
                return owner.call.named[at][0]
        if isinstance(owner, Mapping):
            key = owner.items[last][0]
            if isinstance(key, LiteralValue):
                return str(key.value)
        return self._value_name(candidate, path[:-1]) if len(path) > 2 else str(last)

    def _of_types(self, outcome: TrialOutcome) -> Iterator[Step]:
        """Yield candidates that avoid an exception about the type of a value."""
        error, candidate = outcome.error, outcome.candidate
        text = error_words(error)
        near = [path for path in implicated_paths(outcome) if candidate.get(path[:2]) is not None]
        if isinstance(error, KeyError):
            yield from self._try_keys(outcome, near)
        if isinstance(error, (AttributeError, UnboundLocalError)):
            yield from self._try_attributes(outcome, text)
        if match := re.search(r"unsupported operand type\(s\) for \S+ '(\w+)' and '(\w+)'", text):
            at_fault = set(match.groups()) - {"int", "float", "Tensor"}
            near.sort(key=lambda path: type(outcome.made.get(path)).__name__ not in at_fault)
            near.extend(path for path in self._of_classes(candidate, at_fault) if path not in near)
        wanted = _wanted_kind(type(error).__name__, text)
        for at, path in enumerate(near[:8]):
            later = path[0] == "init" and outcome.phase == 1
            far = 0.8 if later or self.guesses.is_documented(str(path[1])) else 0.0
            for cost, changed in self._try_alternatives(candidate, path, 1.0 + far + 0.3 * at):
                value = changed.get(path) if not str(path[-1]).startswith(".") else None
                fits = wanted is not None and value is not None and wanted(value)
                yield cost - (0.8 if fits else 0.0), changed
            known = candidate.get(path)
            if path[0] == "inputs" and isinstance(known, TensorText):
                yield from self._try_containers(candidate, path, known, text, 1.0 + 0.3 * at)
        if re.search(
            r"scalar type|dtype|Long|Int\b|Float|Bool|ouble|not implemented for|index|indices", text
        ):
            for path, value in candidate.tensors():
                for at, dtype in enumerate(("i64", "f32", "b8")):
                    if dtype != value.dtype and path[0] == "inputs":
                        cost = 1.0 + 0.5 * at + (0.0 if path in near else 0.5)
                        yield (
                            cost,
                            candidate.with_value(
                                path, make_tensor_text(dtype, *shape_of_text(value))
                            ),
                        )
        # The call may need an argument that it omits.
        lines = _raising_lines(outcome)
        for name in self._left_out(candidate):
            close = 0.0 if re.search(rf"\b{re.escape(name)}\b", lines) else 2.5
            values = self.input(self.inputs[name], candidate)
            for at, value_ in enumerate(values):
                if value_ != LiteralValue(None):
                    cost = 1.2 + close + 0.4 * at
                    yield cost, candidate.with_value(("inputs", name), value_)
        for name, parameter in self.init.items():
            unset = candidate.get(("init", name)) is None and not parameter.required
            if unset and re.search(rf"\b{re.escape(name)}\b", lines):
                yield from self._try_alternatives(candidate, ("init", name), 2.0)

    def _of_classes(self, candidate: InputCandidate, names: set[str]) -> Iterator[Path]:
        """Yield positions of arguments that refer to classes with these names, for which
        functions can be tried.
        """
        for path, value in candidate.values():
            if isinstance(value, Reference) and value.call is None and _last_name(value) in names:
                yield path

    def _try_containers(
        self, candidate: InputCandidate, path: Path, value: TensorText, text: str, cost: float
    ) -> Iterator[Step]:
        """Yield candidates in which a container or a number replaces a tensor."""
        if re.search(r"slice|interpreted as an integer|converted to an index|ambiguous|int", text):
            yield cost, candidate.with_value(path, LiteralValue(4))
        if re.search(r"str|key|indices|items|keys|values|get", text):
            yield cost, candidate.with_value(path, Mapping(()))
        match = re.search(r"has no attribute '(\w+)'", text)
        if (match and hasattr(str, match[1])) or re.search(r"expected str|must be str", text):
            yield cost, candidate.with_value(path, LiteralValue("text"))
        if match:
            near = -0.8 if not hasattr(torch.Tensor, match[1]) else 0.0
            yield cost + near, candidate.with_value(path, Reference("SimpleNamespace", Arguments()))
        likely = re.search(r"iterable|unpack|append|extend|list|tuple|sequence|0-d", text)
        for count in (2, 3, 4):
            items = (value,) * count
            extra = 0.2 if likely else 2.0
            yield cost + extra + 0.2 * count, candidate.with_value(path, Sequence("list", items))

    def _try_keys(self, outcome: TrialOutcome, near: list[Path]) -> Iterator[Step]:
        """Yield candidates in which an existing key of a dictionary replaces a missing key."""
        error, candidate = outcome.error, outcome.candidate
        key = error.args[0] if error is not None and error.args else None
        for frame, _, _ in reversed(outcome.frames[-6:]):
            for value in [*frame.f_locals.values(), *frame.f_globals.values()]:
                if type(value) is dict and value and key not in value and len(value) < 200:
                    if not all(type(one) is type(key) for one in list(value)[:4]):
                        continue
                    for path in near[:4]:
                        for one in list(value)[:3]:
                            if isinstance(one, (str, int)):
                                yield 0.8, self._put_value(candidate, path, LiteralValue(one))

    def _try_attributes(self, outcome: TrialOutcome, text: str) -> Iterator[Step]:
        """Yield candidates with strings that select an existing attribute or name an object of
        torch.
        """
        candidate = outcome.candidate
        given = [
            (path, value.value)
            for path, value in candidate.values()
            if isinstance(value, LiteralValue) and isinstance(value.value, str)
        ]
        unset = re.search(r"'(\w+)' object has no attribute", text)
        if unset or isinstance(outcome.error, UnboundLocalError):
            for frame, _, _ in reversed(outcome.frames):
                owner = type(frame.f_locals.get("self"))
                if unset is None or owner.__name__ == unset[1]:
                    for at, one in enumerate(self.guesses.compared_in(owner)):
                        for path, _ in given:
                            yield 0.8 + 0.1 * at, candidate.with_value(path, LiteralValue(one))
                    break
        elif match := re.search(r"module 'torch[\w.]*' has no attribute '(.*)'", text):
            for path, value in given:
                if value == match[1]:
                    for at, one in enumerate(
                        self.guesses.layers(self._value_name(candidate, path))
                    ):
                        yield 0.5 + 0.1 * at, candidate.with_value(path, LiteralValue(one))

    # -- when nothing is known ----------------------------------------------------------------

    def _try_other_guesses(self, outcome: TrialOutcome) -> Iterator[Step]:
        candidate = outcome.candidate
        if outcome.phase == 1:
            for path, value in candidate.tensors():
                if path[0] != "inputs":
                    continue
                shape = shape_of_text(value)
                for rank in (3, 4, 2, 1, 5):
                    if rank != len(shape):
                        first = _shapes_of_rank(shape, rank)[0]
                        cost = 3.0 + 0.3 * abs(rank - len(shape))
                        yield (
                            cost,
                            candidate.with_value(path, make_tensor_text(value.dtype, *first)),
                        )
                other = "i64" if value.dtype != "i64" else "f32"
                yield 4.0, candidate.with_value(path, make_tensor_text(other, *shape))
            for cost, changed in self._enlarge_images(candidate):
                yield cost + 3.0, changed
            for name, _ in candidate.inputs:
                yield from self._try_alternatives(candidate, ("inputs", name), 4.0)
        for name, _ in candidate.init:
            yield from self._try_alternatives(candidate, ("init", name), 4.0 + 2.0 * outcome.phase)
        for path, found in candidate.values():
            if isinstance(found, Sequence) and found.items and path[0] == "init":
                for count in (4, 3, 2, 1, 5):
                    if count != len(found.items):
                        cost = 3.0 + 0.3 * count + outcome.phase
                        yield cost, candidate.with_value(path, _of_length(found, count))
        for site in number_sites(candidate):
            if site.path[0] == "init" and site.dim is None:
                for one in (1, 2, 4, 8, WIDTH):
                    if one != site.number:
                        yield 5.0 + outcome.phase, site.put(candidate, one)

    def input(self, parameter: SignatureParameter, candidate: InputCandidate) -> list[Value]:
        """Return guesses for an input of the module that a candidate's arguments construct."""
        return self.guesses.input(
            parameter, self.width(candidate), self._constructor_numbers(candidate)
        )

    def width(self, candidate: InputCandidate) -> int:
        """Return the number of features that inputs should have, from the constructor's
        arguments.
        """
        numbers = self._constructor_numbers(candidate).items()
        return next((number for name, number in numbers if is_width(name) and number > 0), WIDTH)

    def _constructor_numbers(self, candidate: InputCandidate) -> dict[str, int]:
        """Return the integer arguments of the constructor by parameter, also where they are
        defaults.
        """
        found: dict[str, int] = {}
        for name, parameter in self.init.items():
            given = candidate.get(("init", name))
            value: Any = given.value if isinstance(given, LiteralValue) else parameter.default
            if type(value) is int:
                found[name] = value
        return found


def _site_distance(site: NumberSite, phase: int) -> float:
    """Return the cost of changing a number, which is higher for the constructor once that
    succeeds.
    """
    return 0.0 if site.path[0] == ("inputs" if phase == 1 else "init") else 0.8


def _put_all(candidate: InputCandidate, found: list[NumberSite], number_: int) -> InputCandidate:
    for site in found:
        candidate = site.put(candidate, number_)
    return candidate


def _side_dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions of a shape for the sides of an image or a volume.

    They follow the channels or, if only the leading ones are equal, precede them. Other shapes have
    none.
    """
    rank = len(shape)
    if rank < 4:
        return ()
    if len(set(shape[2:])) == 1:
        return tuple(range(2, rank))
    for dims in ((rank - 2, rank - 1), (rank - 3, rank - 2)):
        if shape[dims[0]] == shape[dims[1]] > 3:
            return dims
    return (2, 3) if rank == 4 else ()


def _image_inputs(candidate: InputCandidate) -> Iterator[tuple[Path, TensorText, int]]:
    """Yield the images and volumes among the inputs, with their position and the length of the
    last side.
    """
    for path, value in candidate.tensors():
        dims = _side_dims(shape_of_text(value)) if path[0] == "inputs" else ()
        if dims:
            yield path, value, shape_of_text(value)[dims[-1]]


def _with_all_sides(
    candidate: InputCandidate, side: int, before: int | None = None
) -> InputCandidate:
    """Return a candidate whose images all have another side.

    With ``before``, only images with that side change.
    """
    for path, value, known in _image_inputs(candidate):
        if before is None or known == before:
            candidate = _with_sides(candidate, path, value, side)
    return candidate


def _with_sides(
    candidate: InputCandidate, path: Path, value: TensorText, side: int
) -> InputCandidate:
    for dim in _side_dims(shape_of_text(value)):
        value = with_size(value, dim, side)
    return candidate.with_value(path, value)


def _of_length(found: Sequence, count: int) -> Sequence:
    """Return a list of ``count`` items: the items of another list, repeated."""
    items = tuple(found.items[at % len(found.items)] for at in range(count))
    return Sequence(found.kind, items)


def _shapes_of_rank(shape: tuple[int, ...], rank: int) -> list[tuple[int, ...]]:
    """Return shapes with ``rank`` dimensions that keep the number of features."""
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


def _last_name(reference: Reference) -> str:
    return reference.name.rpartition(".")[2]


def _raising_lines(outcome: TrialOutcome) -> str:
    return " ".join(
        linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
        for frame, line, _ in outcome.frames[-8:]
    )


def _wanted_kind(kind: str, text: str) -> Any:
    """Return a test for values of the type that an error message requires; None if it names
    none.
    """
    if re.search(
        r"not subscriptable|not iterable|non-iterable|has no len|object is not a sequence", text
    ):
        return lambda value: isinstance(value, (Sequence, Mapping, TensorText))
    if re.search(r"not callable|is not a Module subclass|cannot assign", text):
        return lambda value: isinstance(value, Reference)
    if re.search(r"has no attribute", text):
        return lambda value: isinstance(value, Reference) and value.call is not None
    if re.search(
        r"unsupported operand|as an integer|must be (?:real )?number|must be int|not supported "
        r"between|expected int|must be tuple of ints",
        text,
    ):
        return lambda value: (
            isinstance(value, LiteralValue) and isinstance(value.value, (int, float))
        )
    if re.search(r"must be Tensor|argument must be Tensor|'NoneType'", text):
        return lambda value: isinstance(value, TensorText)
    return None
