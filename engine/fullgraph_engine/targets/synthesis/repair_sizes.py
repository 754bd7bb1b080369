"""Changes of arguments after a failed trial call: other sizes of inputs and other integer
arguments."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..notation import LiteralValue, TensorText
from .candidate import InputCandidate, NumberSite, Path, number_sites, shape_of_text, with_size
from .guesses import SIDE
from .obstacle import Unequal, find_obstacles
from .subject import Repair, SearchSubject
from .trial import TrialOutcome

_SIDES = (64, 224, 128, 28, 96, 256, 299, 112, 16, 84, 384, 512, 8)
_MOST_KNOWN = 6
"""Maximum number of the constructor's integer arguments tried as sizes of inputs."""
_CLOSER = 1.5
"""Amount by which a change gets cheaper if the previous change has reduced the difference of two
numbers that should be equal."""
_LONGEST = 1 << 17
"""Maximum size to try for an image or sequence."""


@dataclass(frozen=True)
class Gap:
    """The difference ``width`` between two numbers that should be equal, at one place of the code
    in a trial call."""

    candidate: InputCandidate
    place: tuple[object, ...]
    width: int


def gap_of(outcome: TrialOutcome) -> Gap | None:
    """Return the difference between two numbers that most likely made a trial call fail; None for
    other failures."""
    unequal = next((one for one in find_obstacles(outcome) if isinstance(one, Unequal)), None)
    if unequal is None:
        return None
    function = outcome.failed.name if outcome.failed is not None else ""
    place = (*outcome.place, function)
    return Gap(outcome.candidate, place, unequal.met - unequal.wanted)


def solve_between(one: Gap, other: Gap) -> Iterator[Repair]:
    """Yield changed arguments with a size at which two numbers should be equal, computed from the
    differences in two trial calls.

    The difference is assumed to depend linearly on the size.
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
    for at, number_ in enumerate(dict.fromkeys((round(solved), math.ceil(solved), int(solved)))):
        if 0 < number_ <= _LONGEST and number_ not in (before, now):
            cost = (-_CLOSER if closer else 0.3) + 0.2 * at
            yield cost, _put_all(other.candidate, changed, number_)


def equalize_sizes(
    subject: SearchSubject,
    candidate: InputCandidate,
    met: int,
    wanted: int,
    phase: int,
    *,
    sized: bool = True,
) -> Iterator[Repair]:
    """Yield changed arguments in which the number ``met`` becomes ``wanted``, or at a higher cost
    ``wanted`` becomes ``met``.

    ``phase`` is 0 if the constructor raised and 1 if the call did. ``sized``: the number may depend
    on sizes of images and sequences.
    """
    if met <= 0 or wanted <= 0:
        return
    found = [one for one in number_sites(candidate) if phase == 1 or one.path[0] == "init"]
    for cost, a, b in ((0.5, met, wanted), (1.2, wanted, met)):
        same = [site for site in found if site.number == a]
        for site in same:
            square = _resize_square(candidate, site, b)
            if square is not None:
                yield cost + _site_distance(site, phase), square
            apart = 0.0 if square is None else 0.7
            yield cost + apart + _site_distance(site, phase), site.put(candidate, b)
        several = [site for site in same if site.path[0] == "inputs"]
        if len(several) > 1:
            yield cost + 0.6, _put_all(candidate, several, b)
        for path, default in subject.integer_defaults(candidate):
            if default == a:
                yield cost + 1.0, candidate.with_value(path, LiteralValue(b))
    for site in found:
        yield from _scale_size(candidate, site, met, wanted)
    # Repeat the trial with changed sizes, to see which numbers depend on them.
    together: dict[tuple[int, int], list[NumberSite]] = {}
    for site in found:
        if site.dim and site.path[0] == "inputs" and site.number > 1:
            together.setdefault((site.dim, site.number), []).append(site)
    for (_, number_), equal in together.items():
        yield 2.4, _put_all(candidate, equal, 2 * number_)
    if sized:
        yield from _resize_images(candidate, met, wanted)
    yield from _match_products(candidate, met, wanted)
    yield from _match_sums(candidate, met, wanted)
    yield from _try_known_numbers(subject, candidate) if phase == 1 else ()


def _match_products(candidate: InputCandidate, met: int, wanted: int) -> Iterator[Repair]:
    """Yield changed arguments in which the product of two dimensions becomes ``wanted``, since the
    code may flatten them together."""
    for path, value, shape in candidate.input_tensors():
        for dim, (one, other) in enumerate(itertools.pairwise(shape)):
            if one * other != met or 1 in (one, other):
                continue
            for last in dict.fromkeys((2, other, 1, one)):
                if wanted % last == 0:
                    changed = with_size(with_size(value, dim, wanted // last), dim + 1, last)
                    yield 1.6, candidate.with_value(path, changed)


def _match_sums(candidate: InputCandidate, met: int, wanted: int) -> Iterator[Repair]:
    """Yield changed arguments in which the sum of dimensions of two inputs becomes ``wanted``,
    since the code may concatenate them."""
    found = [site for site in number_sites(candidate) if site.dim and site.path[0] == "inputs"]
    for one, other in itertools.combinations(found, 2):
        if one.dim == other.dim and one.number + other.number == met and wanted > 1:
            for part in dict.fromkeys((wanted // 2, wanted - 1, 1)):
                yield 1.3, other.put(one.put(candidate, part), wanted - part)


def _try_known_numbers(subject: SearchSubject, candidate: InputCandidate) -> Iterator[Repair]:
    """Yield changed arguments in which the last size of an input is an integer argument of the
    constructor.

    Also try the number of frequencies that a Fourier transform of that length has.
    """
    known: dict[int, None] = {}
    for name, number_ in subject.constructor_numbers(candidate).items():
        known[number_ // 2 + 1 if "fft" in name.lower() else number_] = None
    large = [number_ for number_ in known if number_ > 8][:_MOST_KNOWN]
    for site in number_sites(candidate):
        if site.dim and site.path[0] == "inputs" and site.number > 2:
            for number_ in large:
                if number_ != site.number:
                    yield 2.0 + 0.1 * site.dim, site.put(candidate, number_)


def _resize_square(
    candidate: InputCandidate, site: NumberSite, number_: int
) -> InputCandidate | None:
    """Return changed arguments in which a square image has sides of another length; None if
    ``site`` is not a side of such an image."""
    value = candidate.get(site.path)
    if not isinstance(value, TensorText):
        return None
    shape = shape_of_text(value)
    dims = _side_dims(shape)
    if site.dim not in dims or len({shape[dim] for dim in dims}) > 1:
        return None
    return _with_sides(candidate, site.path, value, number_)


def _scale_size(
    candidate: InputCandidate, site: NumberSite, met: int, wanted: int
) -> Iterator[Repair]:
    """Yield changed arguments with one size scaled so that ``met`` becomes ``wanted``.

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
    for token in (-1, 1):  # the code may add a token to a sequence, or remove one
        inner = site.number + token
        if inner > 1 and met % inner == 0 and inner * wanted % met == 0:
            number_ = inner * wanted // met - token
            yield 2.0 + _site_distance(site, 1), site.put(candidate, number_)
    number_ = site.number + wanted - met
    if site.number <= met + 4 and number_ > 0:
        near = 0.0 if abs(met - site.number) <= 4 else 0.8
        yield 2.0 + near + _site_distance(site, 1), site.put(candidate, number_)


def _resize_images(candidate: InputCandidate, met: int, wanted: int) -> Iterator[Repair]:
    """Yield changed arguments with images whose area is scaled by ``wanted / met``, and with longer
    sequences."""
    for side in dict.fromkeys(side for _, _, side in _image_inputs(candidate)):
        if abs(met - wanted) == 1:  # the code may halve an odd number, rounded down or up
            yield 1.0, _with_all_sides(candidate, side + 1, side)
            yield 1.1, _with_all_sides(candidate, side - 1, side)
        one = math.isqrt(side * side * wanted // met)
        for number_ in (one, one - one % 2, one + one % 2):
            if 0 < number_ <= 1024 and number_ != side:
                yield 1.8, _with_all_sides(candidate, number_, side)
    for path, value, shape in candidate.input_tensors():
        if len(shape) == 3:
            length = shape[2] * wanted // met
            if 0 < length <= 4096 and length != shape[2]:
                yield 2.2, candidate.with_value(path, with_size(value, 2, length))


def enlarge_images(subject: SearchSubject, candidate: InputCandidate) -> Iterator[Repair]:
    """Yield changed arguments with other, mostly larger, images and sequences."""
    for at, side in enumerate(_SIDES):
        changed = _with_all_sides(candidate, side)
        if changed != candidate:
            yield 1.0 + 0.2 * at, changed
    shapes = {shape for _, _, shape in candidate.input_tensors()}
    for shape in sorted(shapes - {one for one in shapes if _side_dims(one) or not one}):
        last = len(shape) - 1
        for dim in range(min(last, 1), len(shape)):
            for at, factor in enumerate((4, 16, 64) if shape[dim] > 3 else ()):
                bigger = candidate
                for path, value, known in candidate.input_tensors():
                    if known == shape:
                        enlarged = with_size(value, dim, shape[dim] * factor)
                        bigger = bigger.with_value(path, enlarged)
                yield 1.5 + 0.5 * at + 0.3 * (last - dim), bigger
    yield from _try_known_numbers(subject, candidate)


def shrink_sizes(subject: SearchSubject, candidate: InputCandidate) -> Iterator[Repair]:
    """Yield changed arguments with smaller numbers, for modules that need too much memory or
    time."""
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
    for path, default in subject.integer_defaults(candidate):
        if default > 4:
            yield 1.5, candidate.with_value(path, LiteralValue(max(2, default // 4)))


def make_divisible(
    subject: SearchSubject, candidate: InputCandidate, number_: int, divisor: int
) -> Iterator[Repair]:
    """Yield changed arguments in which ``divisor`` divides ``number_``; either of the two may
    change."""
    if number_ <= 0 or divisor <= 0:
        return
    for path, value, shape in candidate.input_tensors():
        # In ``x.view(-1, 784)`` the free dimension is most often the batch.
        between = math.prod(shape[1:-1])
        if len(shape) > 1 and math.prod(shape) == number_ and divisor % between == 0:
            last = with_size(value, len(shape) - 1, divisor // between)
            yield 0.7, candidate.with_value(path, last)
    found = number_sites(candidate)
    for site in found:
        if site.number == number_:
            near = max(divisor, number_ // divisor * divisor)
            yield 0.8 + _site_distance(site, 1), site.put(candidate, near)
        if site.number == divisor:
            for one in (1, 2, 4, 8, 16):
                if number_ % one == 0 and one < divisor:
                    yield 1.0 + _site_distance(site, 1), site.put(candidate, one)
    for path, default in subject.integer_defaults(candidate):
        if default == divisor:
            for one in (4, 2, 1):
                if number_ % one == 0:
                    yield 1.5, candidate.with_value(path, LiteralValue(one))
        elif default == number_:
            yield 1.5, candidate.with_value(path, LiteralValue(divisor))
    yield from equalize_sizes(subject, candidate, number_, divisor, 1)


def divide_sizes(candidate: InputCandidate, wanted: int) -> Iterator[Repair]:
    """Yield changed arguments with a size that can be split into ``wanted`` equal parts."""
    for path, value, shape in candidate.input_tensors():
        for dim in range(1, len(shape)):
            if shape[dim] % wanted:
                larger = with_size(value, dim, shape[dim] * wanted)
                yield 1.4, candidate.with_value(path, larger)


def _site_distance(site: NumberSite, phase: int) -> float:
    """Return the additional cost of changing a number: 0 if it belongs to the part of the trial
    that raised (constructor or call), else more."""
    return 0.0 if site.path[0] == ("inputs" if phase == 1 else "init") else 0.8


def _put_all(candidate: InputCandidate, found: list[NumberSite], number_: int) -> InputCandidate:
    for site in found:
        candidate = site.put(candidate, number_)
    return candidate


def _side_dims(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the dimensions of a shape for the sides of an image or a volume; empty for other
    shapes.

    They are the last dimensions, after the channels. If only the dimensions before the last are
    equal, the channels are assumed to be last.
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
    """Yield the position, text form and last side of each image or volume among the inputs."""
    for path, value, shape in candidate.input_tensors():
        if dims := _side_dims(shape):
            yield path, value, shape[dims[-1]]


def _with_all_sides(
    candidate: InputCandidate, side: int, before: int | None = None
) -> InputCandidate:
    """Return changed arguments in which all images have sides of length ``side``.

    With ``before``, only images with sides of that length change.
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
