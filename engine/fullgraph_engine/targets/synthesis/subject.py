"""The module class whose arguments a search looks for, and the values that could replace an
argument."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..notation import LiteralValue, Mapping, Reference, Value
from .candidate import InputCandidate, Path, with_field
from .guesses import WIDTH, Guesses, SignatureParameter, is_width

Repair = tuple[float, InputCandidate]
"""Cost of a change, and the changed constructor and call arguments (a candidate); lower costs are
tried first."""


class SearchSubject:
    """A module class whose constructor and call arguments are searched for, with guesses for each
    of them."""

    def __init__(
        self,
        guesses: Guesses,
        init: tuple[SignatureParameter, ...],
        inputs: tuple[SignatureParameter, ...],
    ) -> None:
        self.guesses = guesses
        self.init = {one.name: one for one in init}
        self.inputs = {one.name: one for one in inputs}

    def input(self, parameter: SignatureParameter, candidate: InputCandidate) -> list[Value]:
        """Return guesses for an input of the module, given a candidate's constructor arguments."""
        return self.guesses.input(
            parameter, self.width(candidate), self.constructor_numbers(candidate)
        )

    def width(self, candidate: InputCandidate) -> int:
        """Return the number of features that inputs should have, judging by a candidate's
        constructor arguments."""
        numbers = self.constructor_numbers(candidate).items()
        return next((number for name, number in numbers if is_width(name) and number > 0), WIDTH)

    def constructor_numbers(self, candidate: InputCandidate) -> dict[str, int]:
        """Return the integer arguments of the constructor by parameter, including defaults that the
        candidate does not override."""
        found: dict[str, int] = {}
        for name, parameter in self.init.items():
            given = candidate.get(("init", name))
            value: Any = given.value if isinstance(given, LiteralValue) else parameter.default
            if type(value) is int:
                found[name] = value
        return found

    def integer_defaults(self, candidate: InputCandidate) -> Iterator[tuple[Path, int]]:
        """Yield the position and default of each integer parameter of the constructor that
        ``candidate`` leaves out."""
        for name, parameter in self.init.items():
            path = ("init", name)
            if type(parameter.default) is int and candidate.get(path) is None:
                yield path, parameter.default

    def left_out(self, candidate: InputCandidate) -> Iterator[str]:
        """Yield the names of optional inputs that ``candidate``, a set of arguments to try, leaves
        out."""
        for name, parameter in self.inputs.items():
            given = candidate.get(("inputs", name))
            if given == LiteralValue(None) or (given is None and parameter.default is None):
                yield name

    def value_name(self, candidate: InputCandidate, path: Path) -> str:
        """Return a name for the value at a position: of its parameter, its field or its dictionary
        key."""
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
        return self.value_name(candidate, path[:-1]) if len(path) > 2 else str(last)

    def alternatives(self, candidate: InputCandidate, path: Path, cost: float) -> Iterator[Repair]:
        """Yield changed arguments with another guess for the value at a position; ``cost`` is the
        cost of the first."""
        values: list[Value]
        last = path[-1]
        if path[0] == "inputs" and len(path) == 2:
            parameter = self.inputs.get(str(last), SignatureParameter(str(last), True))
            values = self.input(parameter, candidate)
        else:
            name = self.value_name(candidate, path)
            known = self.init.get(name) if len(path) == 2 else None
            values = self.guesses.argument(known or SignatureParameter(name, True))
        for at, value in enumerate(values):
            changed = put_value(candidate, path, value)
            if changed != candidate:
                yield cost + 0.25 * at, changed


def put_value(candidate: InputCandidate, path: Path, value: Value) -> InputCandidate:
    """Return a copy of a set of arguments in which ``value`` is at the position ``path``.

    The position may be a field of a configuration object that was not given a value before.
    """
    last = path[-1]
    if isinstance(last, str) and last.startswith(".") and len(path) > 2:
        owner = candidate.get(path[:-1])
        if not isinstance(owner, Reference):
            return candidate
        return candidate.with_value(path[:-1], with_field(owner, last[1:], value))
    return candidate.with_value(path, value)
