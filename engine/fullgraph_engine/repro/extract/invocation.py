"""What a program ends with: the calls that show the finding, made in one of several ways."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ...protocol import Finding
from ..emit.program import ProgramDraft

_WRITTEN_OUT = 3
"""More calls than these are made in a loop."""


@dataclass(frozen=True)
class Input:
    """An argument of a call; ``name`` is a keyword, or only what the parameter is called."""

    value: Any
    name: str = ""
    keyword: bool = False


@dataclass(frozen=True)
class CallInputs:
    """What is given in one call, and whether gradients are recorded in it."""

    inputs: tuple[Input, ...]
    grad: bool = True

    @classmethod
    def from_arguments(cls, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallInputs:
        """The arguments of a call of which the parameters are not known by name."""
        named = [Input(value, name, keyword=True) for name, value in kwargs.items()]
        return cls((*(Input(value, f"x{n}") for n, value in enumerate(args)), *named))


@dataclass(frozen=True)
class CallableUnit:
    """Something to call: an expression of the draft, and what it is given in each of its calls."""

    entry: str
    calls: tuple[CallInputs, ...]


class Invocation(Protocol):
    """A way to call a unit."""

    def statements(self, draft: ProgramDraft, unit: CallableUnit) -> list[str]:
        """The calls, in order; what they need is added to the draft.

        Raises:
            Unwritable: a value has no expression.
        """


@dataclass(frozen=True)
class EagerInvocation:
    """Without ``torch.compile``, for what fails with or without it."""

    def statements(self, draft: ProgramDraft, unit: CallableUnit) -> list[str]:
        return [
            _call_text(unit.entry, given, texts)
            for given, texts in zip(unit.calls, _input_texts(draft, unit), strict=True)
        ]


@dataclass(frozen=True)
class CompiledInvocation:
    """Compiled once, and called as often as the unit was."""

    def statements(self, draft: ProgramDraft, unit: CallableUnit) -> list[str]:
        return _compiled_statements(draft, unit, _input_texts(draft, unit))


@dataclass(frozen=True)
class ExhaustedInvocation:
    """Compiled, and what the call generates is asked for: before that nothing is traced."""

    def statements(self, draft: ProgramDraft, unit: CallableUnit) -> list[str]:
        *before, last = _compiled_statements(draft, unit, _input_texts(draft, unit))
        return [*before, f"list({last})"]


@dataclass(frozen=True)
class DynamicInvocation:
    """Compiled, and every dimension of one of the sizes is asked to be dynamic."""

    sizes: frozenset[int]

    def statements(self, draft: ProgramDraft, unit: CallableUnit) -> list[str]:
        several = _input_texts(draft, unit)
        marks: list[str] = []
        for given, texts in zip(unit.calls, several, strict=True):
            for number, each in enumerate(given.inputs):
                dims = self._dynamic_dims(each.value)
                if dims:
                    name = draft.fresh_name(each.name or "x")
                    marks.append(f"{name} = {texts[number]}")
                    marks += [f"torch._dynamo.mark_dynamic({name}, {dim})" for dim in dims]
                    texts[number] = name
        return [*marks, *_compiled_statements(draft, unit, several)]

    def _dynamic_dims(self, value: Any) -> list[int]:
        if not isinstance(value, torch.Tensor):
            return []
        return [dim for dim, size in enumerate(value.shape) if int(size) in self.sizes]


def invocations_for(finding: Finding, dynamic: frozenset[int]) -> tuple[Invocation, ...]:
    """The ways of calling that may show a finding, the likeliest first.

    ``dynamic``: what the dimensions are long that it has to do with.
    """
    if finding.code == "trace/eager-error":
        return (EagerInvocation(),)
    if finding.code == "frame-skipped/generator":
        return (ExhaustedInvocation(),)
    marked = (DynamicInvocation(dynamic),) if dynamic else ()
    return marked if finding.code.startswith("guard/") else (CompiledInvocation(), *marked)


def _input_texts(draft: ProgramDraft, unit: CallableUnit) -> list[list[str]]:
    """Expressions for the inputs of each call; what several are given is made once."""
    every = [each for given in unit.calls for each in given.inputs]
    texts = iter(draft.expressions([each.value for each in every], [each.name for each in every]))
    return [[next(texts) for _ in given.inputs] for given in unit.calls]


def _compiled_statements(
    draft: ProgramDraft, unit: CallableUnit, several: Sequence[Sequence[str]]
) -> list[str]:
    called = f'torch.compile({unit.entry}, backend="eager")'
    before: list[str] = []
    if len(several) > 1:
        name = draft.fresh_name("compiled")
        before, called = [f"{name} = {called}"], name
    if len(several) > _WRITTEN_OUT and len({given.grad for given in unit.calls}) == 1:
        return [*before, _loop_text(draft, called, unit.calls[0], several)]
    calls = zip(unit.calls, several, strict=True)
    return [*before, *(_call_text(called, given, texts) for given, texts in calls)]


def _loop_text(
    draft: ProgramDraft, called: str, given: CallInputs, several: Sequence[Sequence[str]]
) -> str:
    """Calls that differ in nothing but some of their inputs."""
    texts, changing = list(several[0]), []
    for number, each in enumerate(given.inputs):
        if len({call[number] for call in several}) > 1:
            texts[number] = draft.fresh_name(each.name or "x")
            changing.append(number)
    if not changing:
        return f"for _ in range({len(several)}):\n    {_call_text(called, given, texts)}"
    target = ", ".join(texts[number] for number in changing)
    items = [", ".join(call[number] for number in changing) for call in several]
    if len(changing) > 1:
        items = [f"({item})" for item in items]
    return f"for {target} in [{', '.join(items)}]:\n    {_call_text(called, given, texts)}"


def _call_text(called: str, given: CallInputs, texts: Sequence[str]) -> str:
    passed = [
        f"{each.name}={text}" if each.keyword else text
        for each, text in zip(given.inputs, texts, strict=True)
    ]
    called = called if given.grad else f"torch.no_grad()({called})"
    return f"{called}({', '.join(passed)})"
