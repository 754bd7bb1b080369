"""The calls at the end of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .writing.draft import Draft


@dataclass(frozen=True)
class Input:
    """An argument of a call; ``name`` is a keyword, or only what the parameter is called."""

    value: Any
    name: str = ""
    keyword: bool = False


def inputs_of(args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Input]:
    """The arguments of a call of which the parameters are not known by name."""
    named = [Input(value, name, keyword=True) for name, value in kwargs.items()]
    return [*(Input(value, f"x{n}") for n, value in enumerate(args)), *named]


def call(draft: Draft, entry: str, inputs: Sequence[Input]) -> list[str]:
    """One compiled call."""
    given = [_passed(draft.expression(each.value), each) for each in inputs]
    return [f'torch.compile({entry}, backend="eager")({", ".join(given)})']


def plain_call(draft: Draft, entry: str, inputs: Sequence[Input]) -> list[str]:
    """One call without ``torch.compile``, for what fails with or without it."""
    given = [_passed(draft.expression(each.value), each) for each in inputs]
    return [f"{entry}({', '.join(given)})"]


def calls(draft: Draft, entry: str, several: Iterable[Sequence[Input]]) -> list[str]:
    """One compiled function, called several times."""
    compiled = draft.fresh("compiled")
    statements = [f'{compiled} = torch.compile({entry}, backend="eager")']
    for inputs in several:
        given = [_passed(draft.expression(each.value), each) for each in inputs]
        statements.append(f"{compiled}({', '.join(given)})")
    return statements


def marked_call(
    draft: Draft, entry: str, inputs: Sequence[Input], sizes: frozenset[int]
) -> list[str]:
    """A compiled call for which every dimension of one of the sizes is asked to be dynamic."""
    statements: list[str] = []
    given: list[str] = []
    for each in inputs:
        expression = draft.expression(each.value)
        dims = _dims(each.value, sizes)
        if dims:
            name = draft.fresh(each.name or "x")
            statements.append(f"{name} = {expression}")
            statements += [f"torch._dynamo.mark_dynamic({name}, {dim})" for dim in dims]
            expression = name
        given.append(_passed(expression, each))
    statements.append(f'torch.compile({entry}, backend="eager")({", ".join(given)})')
    return statements


def _dims(value: Any, sizes: frozenset[int]) -> list[int]:
    if not isinstance(value, torch.Tensor):
        return []
    return [dim for dim, size in enumerate(value.shape) if int(size) in sizes]


def _passed(expression: str, each: Input) -> str:
    return f"{each.name}={expression}" if each.keyword else expression
