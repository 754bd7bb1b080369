"""Changes of arguments after a failed trial call: values of another type, or another one of several
choices."""

from __future__ import annotations

import linecache
import re
from collections.abc import Iterator
from typing import Any

import torch

from ..notation import Arguments, LiteralValue, Mapping, Reference, Sequence, TensorText
from .candidate import InputCandidate, Path, make_tensor_text
from .guesses import BATCH, SignatureParameter, compared_in
from .obstacle import WrongChoice, WrongType, error_words, implicated_paths
from .subject import Repair, SearchSubject, put_value
from .trial import TrialOutcome


def try_choices(
    subject: SearchSubject, candidate: InputCandidate, obstacle: WrongChoice
) -> Iterator[Repair]:
    """Yield changed arguments in which a value is one of the choices that the code compares the
    rejected value with."""
    for at, choice in enumerate(obstacle.choices):
        if isinstance(choice, (str, int, float, bool, type(None))):
            yield 0.5 + 0.1 * at, put_value(candidate, obstacle.path, LiteralValue(choice))
    if not obstacle.choices:
        yield from subject.alternatives(candidate, obstacle.path, 1.0)


def try_types(
    subject: SearchSubject, candidate: InputCandidate, obstacle: WrongType
) -> Iterator[Repair]:
    """Yield changed arguments in which a value has one of the types that the code requires."""
    name = str(obstacle.path[-1])
    for kind in obstacle.wanted:
        for value in subject.guesses.of_type(kind, name):
            yield 0.5, put_value(candidate, obstacle.path, value)


def add_missing(
    subject: SearchSubject, candidate: InputCandidate, names: tuple[str, ...], phase: int
) -> Iterator[Repair]:
    """Yield changed arguments with values for the missing parameters ``names``.

    ``phase`` is 0 if the constructor raised and 1 if the call did.
    """
    changed = candidate
    for name in names:
        parameter = SignatureParameter(name, True)
        if phase == 0:
            value = subject.guesses.argument(subject.init.get(name, parameter))[0]
            changed = changed.with_value(("init", name), value)
        else:
            value = subject.input(subject.inputs.get(name, parameter), changed)[0]
            changed = changed.with_value(("inputs", name), value)
    if changed != candidate:
        yield 0.1, changed
    count = sum(name.startswith("*") for name, _ in candidate.inputs)
    if phase == 1:
        value = make_tensor_text("f32", BATCH, subject.width(candidate))
        yield 1.0, candidate.with_value(("inputs", f"*{count}"), value)


def fix_types(subject: SearchSubject, outcome: TrialOutcome) -> Iterator[Repair]:
    """Yield changed arguments in which a value has another type, if the exception is about the type
    of a value."""
    error, candidate = outcome.error, outcome.candidate
    text = error_words(error)
    near = [path for path in implicated_paths(outcome) if candidate.get(path[:2]) is not None]
    if isinstance(error, KeyError):
        yield from _try_keys(outcome, near)
    if isinstance(error, (AttributeError, UnboundLocalError)):
        yield from _try_attributes(subject, outcome, text)
    if match := re.search(r"unsupported operand type\(s\) for \S+ '(\w+)' and '(\w+)'", text):
        at_fault = set(match.groups()) - {"int", "float", "Tensor"}
        near.sort(key=lambda path: type(outcome.made.get(path)).__name__ not in at_fault)
        near.extend(path for path in _of_classes(candidate, at_fault) if path not in near)
    wanted = _wanted_kind(text)
    for at, path in enumerate(near[:8]):
        later = path[0] == "init" and outcome.phase == 1
        far = 0.8 if later or subject.guesses.is_documented(str(path[1])) else 0.0
        for cost, changed in subject.alternatives(candidate, path, 1.0 + far + 0.3 * at):
            value = changed.get(path) if not str(path[-1]).startswith(".") else None
            fits = wanted is not None and value is not None and wanted(value)
            yield cost - (0.8 if fits else 0.0), changed
        known = candidate.get(path)
        if path[0] == "inputs" and isinstance(known, TensorText):
            yield from _try_containers(candidate, path, known, text, 1.0 + 0.3 * at)
    if re.search(
        r"scalar type|dtype|Long|Int\b|Float|Bool|ouble|not implemented for|index|indices", text
    ):
        for path, value, shape in candidate.input_tensors():
            for at, dtype in enumerate(("i64", "f32", "b8")):
                if dtype != value.dtype:
                    cost = 1.0 + 0.5 * at + (0.0 if path in near else 0.5)
                    yield cost, candidate.with_shape(path, shape, dtype)
    # Also try to pass an argument that the call omits.
    lines = _raising_lines(outcome)
    for name in subject.left_out(candidate):
        close = 0.0 if re.search(rf"\b{re.escape(name)}\b", lines) else 2.5
        values = subject.input(subject.inputs[name], candidate)
        for at, value_ in enumerate(values):
            if value_ != LiteralValue(None):
                cost = 1.2 + close + 0.4 * at
                yield cost, candidate.with_value(("inputs", name), value_)
    for name, parameter in subject.init.items():
        unset = candidate.get(("init", name)) is None and not parameter.required
        if unset and re.search(rf"\b{re.escape(name)}\b", lines):
            yield from subject.alternatives(candidate, ("init", name), 2.0)


def _of_classes(candidate: InputCandidate, names: set[str]) -> Iterator[Path]:
    """Yield the positions of arguments that are classes with these names; a function may be
    required instead."""
    for path, value in candidate.values():
        if isinstance(value, Reference) and value.call is None and _last_name(value) in names:
            yield path


def _try_containers(
    candidate: InputCandidate, path: Path, value: TensorText, text: str, cost: float
) -> Iterator[Repair]:
    """Yield changed arguments in which a list, a dictionary, a text or a number replaces a tensor.

    ``text`` is the exception's message, and ``cost`` the cost of an unlikely change.
    """
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


def _try_keys(outcome: TrialOutcome, near: list[Path]) -> Iterator[Repair]:
    """Yield changed arguments for a ``KeyError``, in which an argument becomes a key that the
    dictionary has."""
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
                            yield 0.8, put_value(candidate, path, LiteralValue(one))


def _try_attributes(subject: SearchSubject, outcome: TrialOutcome, text: str) -> Iterator[Repair]:
    """Yield changed arguments in which a string names an attribute that exists, or an object of
    torch.

    ``text`` is the exception's message.
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
                for at, one in enumerate(compared_in(owner)):
                    for path, _ in given:
                        yield 0.8 + 0.1 * at, candidate.with_value(path, LiteralValue(one))
                break
    elif match := re.search(r"module 'torch[\w.]*' has no attribute '(.*)'", text):
        for path, value in given:
            if value == match[1]:
                for at, one in enumerate(
                    subject.guesses.layers(subject.value_name(candidate, path))
                ):
                    yield 0.5 + 0.1 * at, candidate.with_value(path, LiteralValue(one))


def _last_name(reference: Reference) -> str:
    return reference.name.rpartition(".")[2]


def _raising_lines(outcome: TrialOutcome) -> str:
    return " ".join(
        linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
        for frame, line, _ in outcome.frames[-8:]
    )


def _wanted_kind(text: str) -> Any:
    """Return a predicate for values of the type that an error message requires; None if the message
    does not name a type."""
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
