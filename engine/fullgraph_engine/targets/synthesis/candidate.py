"""Candidates of the search for example inputs: immutable constructor and call arguments of a module
class, to be tried."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Union

from ..notation import (
    Arguments,
    FixedSize,
    LiteralValue,
    Notation,
    Reference,
    TensorText,
    Value,
    inner_values,
    with_parts,
)

Step = Union[str, int]
Path = tuple[Step, ...]
"""Position of a value in a candidate (constructor and call arguments to try): ``("init", "dims",
0)`` is the first item of the constructor's argument ``dims``. Inside a nested call or dictionary,
steps are also numbers, in text order."""


@dataclass(frozen=True)
class InputCandidate:
    """Arguments of a constructor and of a call to try, by parameter name.

    The values of ``*args`` are named ``*0``, ``*1``.
    """

    init: tuple[tuple[str, Value], ...] = ()
    inputs: tuple[tuple[str, Value], ...] = ()

    def arguments_of(self, side: Step) -> tuple[tuple[str, Value], ...]:
        """Return names and values of arguments: the constructor's if ``side`` is ``"init"``, else
        the call's."""
        return self.init if side == "init" else self.inputs

    def get(self, path: Path) -> Value | None:
        """Return the value at a position such as ``("init", "dims", 0)``; None if it is missing."""
        side, name, *steps = path
        found = dict(self.arguments_of(side)).get(str(name))
        for step in steps:
            inner = inner_values(found) if found is not None else ()
            if not isinstance(step, int) or step >= len(inner):
                return None
            found = inner[step]
        return found

    def with_value(self, path: Path, value: Value) -> InputCandidate:
        """Return a copy with the value at a position replaced, or with an argument added if there
        is none at the position."""
        side, name, *steps = path
        pairs = dict(self.arguments_of(side))
        if steps:
            pairs[str(name)] = _replace_part(pairs[str(name)], tuple(steps), value)
        else:
            pairs[str(name)] = value
        return self._with_arguments(side, pairs)

    def without_argument(self, path: Path) -> InputCandidate:
        """Return a copy without the argument at this position."""
        side, name = path
        pairs = {key: value for key, value in self.arguments_of(side) if key != name}
        return self._with_arguments(side, pairs)

    def _with_arguments(self, side: Step, pairs: dict[str, Value]) -> InputCandidate:
        made = tuple(pairs.items())
        return replace(self, init=made) if side == "init" else replace(self, inputs=made)

    def values(self) -> Iterator[tuple[Path, Value]]:
        """Yield the position and value of every value, outer values before the values inside
        them."""
        for side, pairs in (("init", self.init), ("inputs", self.inputs)):
            for name, value in pairs:
                yield from _walk_values((side, name), value)

    def input_tensors(self) -> Iterator[tuple[Path, TensorText, tuple[int, ...]]]:
        """Yield the position, text form and shape of each tensor among the call's arguments."""
        for path, value in self.values():
            if isinstance(value, TensorText) and path[0] == "inputs":
                yield path, value, shape_of_text(value)

    def with_shape(self, path: Path, shape: Iterable[int], dtype: str = "") -> InputCandidate:
        """Return a copy with another shape for the tensor at a position, and with the given dtype
        unless ``dtype`` is empty."""
        value = self.get(path)
        assert dtype or isinstance(value, TensorText)
        kind = dtype or (value.dtype if isinstance(value, TensorText) else "")
        return self.with_value(path, make_tensor_text(kind, *shape))


@dataclass(frozen=True)
class NumberSite:
    """The position of an integer in a candidate (arguments to try): a constant, or with ``dim`` a
    size of a tensor."""

    path: Path
    dim: int | None
    number: int

    def put(self, candidate: InputCandidate, number: int) -> InputCandidate:
        value = candidate.get(self.path)
        if self.dim is None:
            return candidate.with_value(self.path, LiteralValue(number))
        assert isinstance(value, TensorText)
        return candidate.with_value(self.path, with_size(value, self.dim, number))


def number_sites(candidate: InputCandidate) -> list[NumberSite]:
    """Return the positions of all integers in a set of arguments: first in the inputs, because
    these are the easiest to change."""
    found: list[NumberSite] = []
    for path, value in candidate.values():
        if isinstance(value, TensorText):
            numbers = shape_of_text(value)
            found.extend(NumberSite(path, dim, number) for dim, number in enumerate(numbers))
        elif isinstance(value, LiteralValue) and type(value.value) is int:
            found.append(NumberSite(path, None, value.value))
    return sorted(found, key=lambda site: site.path[0] == "init")


def make_tensor_text(dtype: str, *shape: int) -> TensorText:
    """Return a tensor in text form, such as ``f32[2, 16]``, with the given dtype and sizes."""
    return TensorText(dtype, tuple(FixedSize(size) for size in shape))


def shape_of_text(value: TensorText) -> tuple[int, ...]:
    """Return the shape of a tensor in text form; all its sizes must be numbers."""
    return tuple(size.value for size in value.sizes if isinstance(size, FixedSize))


def with_size(value: TensorText, dim: int, number: int) -> TensorText:
    """Return a tensor in text form with ``number`` as the size of dimension ``dim``."""
    shape = list(shape_of_text(value))
    shape[dim] = number
    return make_tensor_text(value.dtype, *shape)


def _replace_part(value: Value, steps: Path, new: Value) -> Value:
    if not steps:
        return new
    inner = list(inner_values(value))
    at = steps[0]
    assert isinstance(at, int)
    inner[at] = _replace_part(inner[at], steps[1:], new)
    return with_parts(value, tuple(inner))


def _walk_values(path: Path, value: Value) -> Iterator[tuple[Path, Value]]:
    yield path, value
    for at, item in enumerate(inner_values(value)):
        yield from _walk_values((*path, at), item)


def with_field(reference: Reference, name: str, value: Value) -> Reference:
    """Return a constructor call in text form, such as ``Config(a=1)``, with a keyword argument
    added or replaced."""
    call = reference.call or Arguments()
    named = dict(call.named)
    named[name] = value
    return Reference(reference.name, Arguments(call.positional, tuple(named.items())))


def candidate_of(said: Notation, positional: tuple[str, ...]) -> InputCandidate:
    """Return the constructor and call arguments that parsed example inputs state; the inverse of
    ``notation_of``.

    ``positional`` names the parameters of inputs that are passed by position.
    """
    init, inputs = said.init or Arguments(), said.inputs or Arguments()
    stars = tuple((f"*{at}", value) for at, value in enumerate(init.positional))
    names = [*positional, *(f"*{at}" for at in range(len(inputs.positional)))]
    placed = tuple(zip(names, inputs.positional))  # noqa: B905 - there are enough names
    return InputCandidate((*stars, *init.named), (*placed, *inputs.named))


def notation_of(
    candidate: InputCandidate, positional: tuple[str, ...], method: str = "forward"
) -> Notation:
    """Return the example inputs that state a candidate's arguments, as the parsed text of a probe
    comment.

    ``positional`` names the parameters that can be passed by position, in order. Inputs are passed
    by position up to the first missing one.
    """
    placed: list[Value] = []
    named = dict(candidate.inputs)
    for name in positional:
        if name not in named:
            break
        placed.append(named.pop(name))
    if not named or len(placed) == len(candidate.inputs):
        while f"*{len(placed)}" in named:
            # Place ``*args`` only after all named parameters.
            placed.append(named.pop(f"*{len(placed)}"))
    rest = [value for name, value in named.items() if name.startswith("*")]
    keywords = tuple((n, value) for n, value in named.items() if not n.startswith("*"))
    stars = [value for name, value in candidate.init if name.startswith("*")]
    init = Arguments(tuple(stars), tuple((n, v) for n, v in candidate.init if n[0] != "*"))
    return Notation(
        init if candidate.init else None,
        method,
        Arguments((*placed, *rest), keywords),
    )
