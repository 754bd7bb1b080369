"""Tell errors that the user's code raises with any plausible inputs from errors of wrongly guessed
inputs.

Only errors of the first kind are reported to the user. They name something that does not exist, or
remain with all other sizes of the inputs and all other numbers for the constructor.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from ..notation import LiteralValue, Notation, TensorText
from .candidate import InputCandidate, number_sites
from .guesses import is_width
from .obstacle import error_words
from .subject import SearchSubject
from .trial import TrialOutcome

_ELEMENTWISE = frozenset(["add", "sub", "mul", "div", "__add__", "__mul__", "add_", "mul_"])
_MOST_TRIALS = 48
"""Maximum number of calls with other arguments to test whether one error depends on them."""


_BUGS = (TypeError, AttributeError, NameError)
"""Types of exceptions by which a constructor fails because of a bug, rather than a missing file or
network."""


@dataclass(frozen=True)
class CertainError:
    """An error that the code raises with any inputs; ``notation`` has inputs, in parsed text form,
    with which it can be seen."""

    notation: Notation
    obstacle: str


def is_about_names(subject: SearchSubject, outcome: TrialOutcome) -> bool:
    """Whether a trial call failed because the code names something that does not exist.

    Attributes count if their owner is a Python module, or a complete ``nn.Module`` and the file
    never assigns the attribute. An input may lack an attribute because it was guessed.
    """
    error = outcome.error
    if not isinstance(error, (NameError, ImportError, AttributeError)):
        return False
    name = str(getattr(error, "name", None) or "")
    if not name or _is_guessed(name, outcome.candidate):
        return False
    if not isinstance(error, AttributeError):
        return True
    owner = getattr(error, "obj", None)
    if isinstance(owner, torch.nn.Module):
        return _is_complete(owner) and not subject.guesses.is_assigned(name)
    return isinstance(owner, types.ModuleType)


def _is_complete(module: torch.nn.Module) -> bool:
    """Whether a module's class is made for direct use, rather than a base class whose subclasses
    add attributes."""
    kind = type(module)
    return "__init__" in vars(kind) and not kind.__subclasses__()


def _is_guessed(name: str, candidate: InputCandidate) -> bool:
    """Whether an undefined name in the code comes from a guessed argument, as in ``getattr(nn,
    activation)``."""
    return any(
        isinstance(value, LiteralValue) and isinstance(value.value, str) and value.value in name
        for _, value in candidate.values()
    )


def is_without_arguments(subject: SearchSubject, outcome: TrialOutcome) -> bool:
    """Whether a trial call failed by a bug in a constructor without required arguments, so that no
    guess can be wrong.

    Exceptions about the surroundings, such as missing files, and abstract classes do not count.
    """
    error = outcome.error
    plain = not outcome.candidate.init and not any(one.required for one in subject.init.values())
    if outcome.phase != 0 or not plain or not isinstance(error, _BUGS):
        return False
    if isinstance(error, AttributeError):
        return is_about_names(subject, outcome)
    return "abstract" not in error_words(error)


def is_shape_error(subject: SearchSubject, outcome: TrialOutcome) -> bool:
    """Whether a trial call stopped in ``forward`` because two sizes differ, although its arguments
    are plain.

    Plain arguments are numbers for the constructor, and one tensor for each input.
    """
    candidate = outcome.candidate
    if outcome.phase != 1 or outcome.failed is None or outcome.unusual:
        return False
    plain = all(isinstance(value, LiteralValue) for _, value in candidate.init)
    tensors = all(isinstance(value, TensorText) for _, value in candidate.inputs)
    if not plain or not tensors or any(subject.left_out(candidate)):
        return False
    return unequal_sizes(outcome) is not None


def is_certain(
    subject: SearchSubject,
    outcome: TrialOutcome,
    run: Callable[[InputCandidate], TrialOutcome],
) -> bool:
    """Whether the shape error of a trial call remains with other sizes, so that the code is wrong;
    ``run`` tries other arguments.

    With other sizes of the inputs, the call must raise the same error, or another one before that
    line. With other numbers for the constructor, it must not get past that line.
    """
    same = 0
    for number, (varies_inputs, candidate) in enumerate(_variations(subject, outcome)):
        if number >= _MOST_TRIALS:
            break
        other = run(candidate)
        if other.phase == 2:
            return False
        if other.phase == 0:
            continue
        if _is_same_stop(other, outcome):
            if varies_inputs and unequal_sizes(other) != unequal_sizes(outcome):
                return False  # the code computes the size from the inputs
            same += varies_inputs
        elif not _is_before(other, outcome):
            return False
    return same > 0


def _variations(
    subject: SearchSubject, outcome: TrialOutcome
) -> Iterator[tuple[bool, InputCandidate]]:
    """Yield arguments with one number changed; the first item is True if the number is a size of an
    input."""
    candidate = outcome.candidate
    wrong = unequal_sizes(outcome) or ()
    for site in number_sites(candidate):
        others = (site.number + 1, 2 * site.number, *wrong)
        if site.path[0] == "init":
            name = subject.value_name(candidate, site.path)
            others = (2 * site.number, *wrong) if is_width(name) else others
        for other in dict.fromkeys(others):
            if other != site.number:
                yield site.path[0] == "inputs", site.put(candidate, other)
    for path, default in subject.integer_defaults(candidate):
        for other in dict.fromkeys((2 * default, *wrong)):
            if other != default and other > 0:
                yield False, candidate.with_value(path, LiteralValue(other))


def unequal_sizes(outcome: TrialOutcome) -> tuple[int, int] | None:
    """Return the two sizes that should be equal in the torch call that raised; None if it raised
    for another reason."""
    call = outcome.failed
    given = (*call.args, *call.kwargs.values()) if call is not None else ()
    joins = call is not None and call.name in ("cat", "concat", "concatenate")
    values = given[0] if joins and isinstance(given[0], (list, tuple)) else given
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    if call is None or len(tensors) < 2:
        return None
    one, other = tensors[0].shape, tensors[1].shape
    if call.name == "linear" and one and other:
        pairs = [(one[-1], other[-1])]
    elif call.name in ("conv1d", "conv2d", "conv3d") and len(one) == len(other):
        groups = call.kwargs.get("groups", call.args[6] if len(call.args) > 6 else 1)
        pairs = [(one[1], other[1] * groups)]
    elif call.name in ("batch_norm", "group_norm", "instance_norm") and len(one) > 1:
        weight = next((tensor.shape for tensor in tensors[1:] if tensor.dim() == 1), (one[1],))
        pairs = [(one[1], weight[0])]
    elif call.name in ("matmul", "bmm", "__matmul__") and len(one) > 1 and len(other) > 1:
        pairs = [(one[-1], other[-2])]
    elif joins:
        along = call.kwargs.get("dim", given[1] if len(given) > 1 else 0)
        if type(along) is not int or len(one) != len(other):
            return None
        pairs = [
            pair
            for at, pair in enumerate(zip(one, other, strict=True))
            if at != along % max(len(one), 1)
        ]
    elif call.name in _ELEMENTWISE:
        ends = zip(reversed(one), reversed(other))  # noqa: B905 - shapes broadcast from their ends
        pairs = [pair for pair in ends if 1 not in pair]
    else:
        return None
    return next((pair for pair in pairs if pair[0] != pair[1]), None)


def _is_same_stop(one: TrialOutcome, other: TrialOutcome) -> bool:
    """Whether two trial calls raised exceptions of one type at the same call of torch."""
    names = [trial.failed.name if trial.failed is not None else "" for trial in (one, other)]
    same_call = names[0] == names[1] and one.calls == other.calls
    return same_call and one.path == other.path and one.place == other.place


def _is_before(one: TrialOutcome, other: TrialOutcome) -> bool:
    """Whether a trial call stopped on an earlier line than another one, in the same functions."""
    for (function, line), (other_function, other_line) in zip(one.path, other.path):  # noqa: B905
        if function is not other_function:
            return False
        if line != other_line:
            return line < other_line
    return one.calls <= other.calls
