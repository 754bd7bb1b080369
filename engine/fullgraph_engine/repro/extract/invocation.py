"""The statements at the end of a generated program: calls that show the finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from ...protocol import Finding
from ..emit.program import ProgramDraft

_WRITTEN_OUT = 3
"""Maximum number of calls to write one by one; more calls become a loop."""


@dataclass(frozen=True)
class Input:
    """An argument of a call; ``name`` is its keyword, or its parameter if it is positional."""

    value: Any
    name: str = ""
    keyword: bool = False


@dataclass(frozen=True)
class CallInputs:
    """The arguments of one call, and whether the call records gradients."""

    inputs: tuple[Input, ...]
    grad: bool = True

    @classmethod
    def from_arguments(cls, args: Sequence[Any], kwargs: Mapping[str, Any]) -> CallInputs:
        """Return the inputs of a call; positional arguments are named ``x0``, ``x1`` and so on."""
        named = [Input(value, name, keyword=True) for name, value in kwargs.items()]
        return cls((*(Input(value, f"x{n}") for n, value in enumerate(args)), *named))


@dataclass(frozen=True)
class CallableUnit:
    """A function of a generated program, called at the program's end: its expression, and the
    inputs of each call.
    """

    entry: str
    calls: tuple[CallInputs, ...]


class Invocation(Protocol):
    """Interface for ways to call a function: eager, compiled, or with dynamic sizes.

    It writes the calls at the end of a generated program.
    """

    def statements(self, program: ProgramDraft, unit: CallableUnit) -> list[str]:
        """Return the statements that make the calls; add the inputs to the generated program.

        Raises:
            UnwritableValue: An input cannot be written as source text.
        """


@dataclass(frozen=True)
class EagerInvocation:
    """A way to call a function without ``torch.compile``, for errors of eager mode."""

    def statements(self, program: ProgramDraft, unit: CallableUnit) -> list[str]:
        return [
            _call_text(unit.entry, given, texts)
            for given, texts in zip(unit.calls, _input_texts(program, unit), strict=True)
        ]


@dataclass(frozen=True)
class CompiledInvocation:
    """A way to call a function several times after one ``torch.compile``."""

    def statements(self, program: ProgramDraft, unit: CallableUnit) -> list[str]:
        return _compiled_statements(program, unit, _input_texts(program, unit))


@dataclass(frozen=True)
class ExhaustedInvocation:
    """A way to call a compiled generator and consume its items, because tracing starts only
    then.
    """

    def statements(self, program: ProgramDraft, unit: CallableUnit) -> list[str]:
        *before, last = _compiled_statements(program, unit, _input_texts(program, unit))
        return [*before, f"list({last})"]


@dataclass(frozen=True)
class DynamicInvocation:
    """A way to call a compiled function with all dimensions of the given sizes marked dynamic."""

    sizes: frozenset[int]

    def statements(self, program: ProgramDraft, unit: CallableUnit) -> list[str]:
        several = _input_texts(program, unit)
        marks: list[str] = []
        for given, texts in zip(unit.calls, several, strict=True):
            for number, each in enumerate(given.inputs):
                dims = self._dynamic_dims(each.value)
                if dims:
                    name = program.fresh_name(each.name or "x")
                    marks.append(f"{name} = {texts[number]}")
                    marks += [f"torch._dynamo.mark_dynamic({name}, {dim})" for dim in dims]
                    texts[number] = name
        return [*marks, *_compiled_statements(program, unit, several)]

    def _dynamic_dims(self, value: Any) -> list[int]:
        if not isinstance(value, torch.Tensor):
            return []
        return [dim for dim, size in enumerate(value.shape) if int(size) in self.sizes]


def invocations_for(finding: Finding, dynamic: frozenset[int]) -> tuple[Invocation, ...]:
    """Return the ways of calling a function that may show a finding, most likely first.

    ``dynamic`` are the sizes of the dimensions that the finding is about.
    """
    if finding.code == "trace/eager-error":
        return (EagerInvocation(),)
    if finding.code == "frame-skipped/generator":
        return (ExhaustedInvocation(),)
    marked = (DynamicInvocation(dynamic),) if dynamic else ()
    return marked if finding.code.startswith("guard/") else (CompiledInvocation(), *marked)


def _input_texts(program: ProgramDraft, unit: CallableUnit) -> list[list[str]]:
    """Return the source text of each call's inputs; objects that calls share become variables."""
    every = [each for given in unit.calls for each in given.inputs]
    texts = iter(program.expressions([each.value for each in every], [each.name for each in every]))
    return [[next(texts) for _ in given.inputs] for given in unit.calls]


def _compiled_statements(
    program: ProgramDraft, unit: CallableUnit, several: Sequence[Sequence[str]]
) -> list[str]:
    called = f'torch.compile({unit.entry}, backend="eager")'
    before: list[str] = []
    if len(several) > 1:
        name = program.fresh_name("compiled")
        before, called = [f"{name} = {called}"], name
    if len(several) > _WRITTEN_OUT and len({given.grad for given in unit.calls}) == 1:
        return [*before, _loop_text(program, called, unit.calls[0], several)]
    calls = zip(unit.calls, several, strict=True)
    return [*before, *(_call_text(called, given, texts) for given, texts in calls)]


def _loop_text(
    program: ProgramDraft, called: str, given: CallInputs, several: Sequence[Sequence[str]]
) -> str:
    """Write several calls as one loop over the inputs that differ between them.

    ``called`` is the source of the function, ``given`` the inputs of the first call, and
    ``several`` the source of each call's inputs.
    """
    texts, changing = list(several[0]), []
    for number, each in enumerate(given.inputs):
        if len({call[number] for call in several}) > 1:
            texts[number] = program.fresh_name(each.name or "x")
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
