"""Repairs: changed arguments to try after a failed trial call, with their costs."""

from __future__ import annotations

from collections.abc import Iterator

from ..notation import Sequence
from .candidate import number_sites
from .guesses import WIDTH
from .obstacle import (
    Indivisible,
    MissingArguments,
    Obstacle,
    TooLarge,
    TooSmall,
    Unequal,
    Unexpected,
    WrongChoice,
    WrongCount,
    WrongRank,
    WrongShape,
    WrongType,
    find_obstacles,
)
from .repair_shapes import (
    add_input,
    change_ranks,
    fit_layer,
    of_length,
    reshape_input,
    shapes_of_rank,
)
from .repair_sizes import divide_sizes, enlarge_images, equalize_sizes, make_divisible, shrink_sizes
from .repair_values import add_missing, fix_types, try_choices, try_types
from .subject import Repair, SearchSubject
from .trial import TrialOutcome


def repairs_for(subject: SearchSubject, outcome: TrialOutcome) -> Iterator[Repair]:
    """Yield changed arguments that may avoid the exception of a trial call, each with a cost; low
    costs are tried first."""
    if outcome.failed is not None and outcome.phase == 1:
        yield from fit_layer(subject, outcome, outcome.failed)
    for rank, obstacle in enumerate(find_obstacles(outcome)):
        for cost, step in _remove_obstacle(subject, outcome, obstacle):
            yield cost + min(rank, 10) * 0.3, step
    yield from fix_types(subject, outcome)
    yield from _try_other_guesses(subject, outcome)


def _remove_obstacle(
    subject: SearchSubject, outcome: TrialOutcome, obstacle: Obstacle
) -> Iterator[Repair]:
    candidate = outcome.candidate
    match obstacle:
        case Unequal(met, wanted):
            # If a convolution failed, do not resize images: the number of channels is wrong, not
            # the size.
            sized = outcome.failed is None or "conv" not in outcome.failed.name
            yield from equalize_sizes(subject, candidate, met, wanted, outcome.phase, sized=sized)
            if outcome.phase == 1 and wanted > met:
                yield from add_input(subject, outcome, wanted - met)
        case Indivisible(number, divisor):
            yield from make_divisible(subject, candidate, number, divisor)
        case WrongRank(rank, wanted):
            yield from change_ranks(outcome, rank, wanted)
        case WrongCount(wanted):
            yield from divide_sizes(candidate, wanted)
        case WrongShape():
            yield from reshape_input(subject, candidate, obstacle)
        case WrongChoice():
            yield from try_choices(subject, candidate, obstacle)
        case WrongType():
            yield from try_types(subject, candidate, obstacle)
        case TooSmall():
            yield from enlarge_images(subject, candidate)
        case TooLarge():
            yield from shrink_sizes(subject, candidate)
        case MissingArguments(names):
            yield from add_missing(subject, candidate, names, outcome.phase)
        case Unexpected(name):
            side = "init" if outcome.phase == 0 else "inputs"
            yield 0.5, candidate.without_argument((side, name))


def _try_other_guesses(subject: SearchSubject, outcome: TrialOutcome) -> Iterator[Repair]:
    """Yield changed arguments with another guess for any one of them, at a high cost, in case
    nothing better is known."""
    candidate = outcome.candidate
    if outcome.phase == 1:
        for path, value, shape in candidate.input_tensors():
            for rank in (3, 4, 2, 1, 5):
                if rank != len(shape):
                    cost = 3.0 + 0.3 * abs(rank - len(shape))
                    yield cost, candidate.with_shape(path, shapes_of_rank(shape, rank)[0])
            other = "i64" if value.dtype != "i64" else "f32"
            yield 4.0, candidate.with_shape(path, shape, other)
        for cost, changed in enlarge_images(subject, candidate):
            yield cost + 3.0, changed
        for name, _ in candidate.inputs:
            yield from subject.alternatives(candidate, ("inputs", name), 4.0)
    for name, _ in candidate.init:
        yield from subject.alternatives(candidate, ("init", name), 4.0 + 2.0 * outcome.phase)
    for path, found in candidate.values():
        if isinstance(found, Sequence) and found.items and path[0] == "init":
            for count in (4, 3, 2, 1, 5):
                if count != len(found.items):
                    cost = 3.0 + 0.3 * count + outcome.phase
                    yield cost, candidate.with_value(path, of_length(found, count))
    for site in number_sites(candidate):
        if site.path[0] == "init" and site.dim is None:
            for one in (1, 2, 4, 8, WIDTH):
                if one != site.number:
                    yield 5.0 + outcome.phase, site.put(candidate, one)
