"""What a program ends with: the calls that show the finding, made in one of several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ..protocol import Finding
from .writing.draft import Draft


@dataclass(frozen=True)
class Input:
    """An argument of a call; ``name`` is a keyword, or only what the parameter is called."""

    value: Any
    name: str = ""
    keyword: bool = False


Inputs = Sequence[Input]


def inputs_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Inputs:
    """The arguments of a call of which the parameters are not known by name."""
    named = [Input(value, name, keyword=True) for name, value in kwargs.items()]
    return [*(Input(value, f"x{n}") for n, value in enumerate(args)), *named]


@dataclass(frozen=True)
class Unit:
    """Something to call: an expression of the draft, and what it is given in each of its calls."""

    entry: str
    calls: tuple[Inputs, ...]


class Act(Protocol):
    """A way to call a unit."""

    def statements(self, draft: Draft, unit: Unit) -> list[str]:
        """The calls, in order; what they need is added to the draft.

        Raises:
            Unwritable: a value has no expression.
        """


@dataclass(frozen=True)
class Eager:
    """Without ``torch.compile``, for what fails with or without it."""

    def statements(self, draft: Draft, unit: Unit) -> list[str]:
        return [f"{unit.entry}({', '.join(given)})" for given in _given(draft, unit)]


@dataclass(frozen=True)
class Compiled:
    """Compiled once, and called as often as the unit was."""

    def statements(self, draft: Draft, unit: Unit) -> list[str]:
        return _compiled(draft, unit.entry, _given(draft, unit))


@dataclass(frozen=True)
class Dynamic:
    """Compiled, and every dimension of one of the sizes is asked to be dynamic."""

    sizes: frozenset[int]

    def statements(self, draft: Draft, unit: Unit) -> list[str]:
        given = _given(draft, unit)
        marks: list[str] = []
        for inputs, expressions in zip(unit.calls, given, strict=True):
            for number, each in enumerate(inputs):
                dims = self._dims(each.value)
                if dims:
                    name = draft.fresh(each.name or "x")
                    marks.append(f"{name} = {expressions[number]}")
                    marks += [f"torch._dynamo.mark_dynamic({name}, {dim})" for dim in dims]
                    expressions[number] = name
        return [*marks, *_compiled(draft, unit.entry, given)]

    def _dims(self, value: Any) -> list[int]:
        if not isinstance(value, torch.Tensor):
            return []
        return [dim for dim, size in enumerate(value.shape) if int(size) in self.sizes]


def acts_for(finding: Finding, dynamic: frozenset[int]) -> tuple[Act, ...]:
    """The ways of calling that may show a finding, the likeliest first.

    ``dynamic``: what the dimensions are long that it has to do with.
    """
    if finding.code == "trace/eager-error":
        return (Eager(),)
    marked = (Dynamic(dynamic),) if dynamic else ()
    return marked if finding.code.startswith("guard/") else (Compiled(), *marked)


def _given(draft: Draft, unit: Unit) -> list[list[str]]:
    """Expressions for the inputs of each call; what several are given is made once."""
    every = [each for inputs in unit.calls for each in inputs]
    texts = iter(draft.expressions([each.value for each in every], [each.name for each in every]))
    return [
        [f"{each.name}={next(texts)}" if each.keyword else next(texts) for each in inputs]
        for inputs in unit.calls
    ]


def _compiled(draft: Draft, entry: str, given: Sequence[Sequence[str]]) -> list[str]:
    called = f'torch.compile({entry}, backend="eager")'
    if len(given) == 1:
        return [f"{called}({', '.join(given[0])})"]
    name = draft.fresh("compiled")
    return [f"{name} = {called}", *(f"{name}({', '.join(each)})" for each in given)]
