"""Check that a changed function or module compiles, and compare its results with eager calls."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from .. import texts, tracing
from ..protocol import BehaviorOutcome, Observe
from ..protocol.behavior import CompilationMethod
from ..repro.candidate import Backend
from ..repro.graphs.minimize import prepare_process, warm_up
from ..repro.job import Surroundings
from ..targets import Tracee
from ..torch_internals import backends
from ..torch_internals.lowering import lowering_backend
from ..tracing.drive import use_real_backends
from .budget import ProcessorBudget
from .cases import Case, CasePlan
from .compiled_calls import (
    call_case,
    call_in_double,
    calls_to_compile,
    describe_call,
    describe_deviation,
    equal_tensors,
    error_text,
    prepare_comparison,
)
from .observing import (
    CallBuilder,
    add_rounding_noise,
    to_double,
)


@dataclass(frozen=True)
class CompilationResult:
    """Outcome of comparing a compiled function or module with eager execution.

    ``reason`` is a sentence that explains the outcome; it is empty for the outcome "same".
    """

    outcome: BehaviorOutcome = "same"
    reason: str = ""


def _refuse_trials(*_: Any) -> NoReturn:
    raise NotImplementedError("this process compiles the code itself and starts no trial processes")


class _CompiledDifference(Exception):
    """Raised with a description of the first difference between compiled and eager results."""


def check_compiled(
    tracee: Tracee, request: Observe, probe: int, let_start: Callable[[frozenset[str]], bool]
) -> CompilationResult:
    """Compile a function or module, and compare its results and gradients with eager calls.

    ``tracee`` is the function or module. ``request`` contains the test calls (cases) and the
    compilation method. The compared inference and training calls are made from these cases.
    ``probe`` is the index of the example inputs that the cases vary. ``let_start`` is called with
    names of programs that Inductor starts, such as a C++ compiler, and permits this process to
    start them. The caller must end this process after the call.
    """
    packed = request.cases[probe] if probe < len(request.cases) else ""
    cases = CasePlan.unpack(packed).cases
    method = request.compiled_by or "lowered"
    if method == "lowered":
        backends.compile_in_this_process(backends.scratch_folder())
    elif obstacle := prepare_inductor(let_start):
        return CompilationResult("unverified", obstacle)
    prepare_comparison()
    try:
        with use_real_backends():
            calls = _compare_calls(tracee, cases, method, ProcessorBudget(request.seconds))
    except _CompiledDifference as difference:
        return CompilationResult("differs", str(difference))
    except MemoryError:
        reason = "Memory ran out while the changed code was compiled."
        return CompilationResult("unverified", reason)
    if not calls:
        return CompilationResult("unverified", "The changed code raises in every call.")
    return CompilationResult()


def prepare_inductor(let_start: Callable[[frozenset[str]], bool]) -> str:
    """Prepare this process to compile with Inductor; return the reason if this is impossible, else
    "".

    ``let_start`` is called with names of programs and permits this process to start them. It
    returns False if the operating system does not support such permissions.
    """
    surroundings = Surroundings(_refuse_trials, lambda _: None, tempfile.gettempdir(), let_start)
    obstacle = prepare_process(Backend("inductor", "inductor", False), surroundings)
    if not obstacle:
        # Processes of an engine share the precompiled headers and the detected processor features,
        # but not the kernels, whose compile time is measured.
        warm_up("inductor")
        backends.compile_in_this_process(backends.scratch_folder())
    return obstacle


def _compare_calls(
    tracee: Tracee, cases: tuple[Case, ...], method: CompilationMethod, budget: ProcessorBudget
) -> int:
    """Compare compiled with eager calls of ``tracee``, a function or module; return the number of
    equal calls.

    The calls are made from ``cases`` until the time limit ``budget`` is reached. ``method`` says
    how the function is compiled.

    Raises:
        _CompiledDifference: A compiled call raises or has other results.
        MemoryError: The compiler ran out of memory.
    """
    eager_calls, compiled_calls = CallBuilder(tracee, shared=True), CallBuilder(tracee, shared=True)
    function = compiled_calls.build_call().function
    backend: Any = "inductor" if method == "inductor" else lowering_backend()
    compiled: Any = torch.compile(function, backend=backend)
    number = 0
    for case in calls_to_compile(function, cases):
        words, left = call_case(eager_calls.build_call(), case, tracing.call_eagerly)
        if isinstance(left, Exception):
            continue
        _, right = call_case(
            compiled_calls.build_call(), case, lambda _, args, kwargs: compiled(*args, **kwargs)
        )
        beginning = f"{describe_call(words, case)}, the compiled code"
        if isinstance(right, Exception):
            if texts.is_out_of_memory(right):
                raise MemoryError from right
            raise _CompiledDifference(f"{beginning} raises {error_text(right)}.")
        difference = _first_difference(tracee, case, left, right)
        if difference:
            raise _CompiledDifference(f"{beginning} {difference}.")
        number += 1
        if budget.spent:
            break
    return number


def _first_difference(tracee: Tracee, case: Case, left: list[Any], right: list[Any]) -> str:
    """Describe the first difference between eager values ``left`` and compiled values ``right``; ""
    if they agree.
    """
    if len(left) != len(right):
        return f"returns {len(right)} tensors instead of {len(left)}"
    references: list[list[Any]] = []
    for number, (eager_value, compiled_value) in enumerate(zip(left, right, strict=True)):
        if equal_tensors(eager_value, compiled_value):
            continue
        if not references and isinstance(eager_value, torch.Tensor):
            references = [
                call_in_double(tracee, case, alter) for alter in (to_double, add_rounding_noise)
            ]
        exact, near = (one[number:] for one in references) if references else ([], [])
        difference = describe_deviation(eager_value, compiled_value, exact, near)
        if difference:
            return f"returns results that differ from eager mode: {difference}"
    return ""
