"""Write programs that may show a finding, from a single operation to the whole file."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from itertools import product
from typing import Any

from ... import tracing
from ...findings.runs import batch_dimensions
from ...protocol import Finding, Frame
from ...protocol.evidence import RecompileEvidence, SpecializationEvidence
from ...targets import Call, Tracee
from ...tracing.stacks import is_machinery, is_torch
from ..candidate import CandidateOrigin, ReproCandidate
from ..emit.program import ProgramDraft
from ..emit.sources import is_main_guard
from ..emit.unwritable import UnwritableValue
from ..inputs import TensorStore
from ..reduce.program import is_text
from . import capture, invocation, parts
from .capture import CapturedFrame
from .invocation import CallableUnit, Invocation
from .repeated_calls import RepeatedCalls

_OUTWARDS = 3
"""Number of callers of the function with the finding to write as whole functions."""
_CALLERS = 2
"""Number of callers whose single statements around the call are written as programs, too."""

_Write = Callable[[ProgramDraft], CallableUnit]


class CandidatePrograms:
    """A generator of programs that may show a finding: each has a part of the user's code and calls
    of this part.
    """

    def __init__(
        self,
        tracee: Tracee,
        finding: Finding,
        settings: Sequence[str],
        further: RepeatedCalls | None = None,
        stores: Sequence[TensorStore | None] = (None,),
    ) -> None:
        """Prepare to write programs for a finding of the function or module ``tracee``.

        ``settings`` are statements that change torch's settings. If the finding was predicted for
        later calls, these are ``further``; they replace the call with the user's inputs. ``stores``
        save tensor contents: each program is written once per store.
        """
        self.tracee, self.finding = tracee, finding
        self._settings, self._further, self._stores = settings, further, stores
        self.left_out: list[str] = []
        """Messages about programs that could not be written, with the reasons."""

    def candidates(self) -> Iterator[ReproCandidate]:
        with tracing.tensor_mode(self.tracee.fake) as mode:
            if mode is not None:
                mode.prefer_real = False  # the finding came from a run without real tensors
            yield from self._all_candidates()

    def _all_candidates(self) -> Iterator[ReproCandidate]:
        yield from (
            self._candidates_of_calls()
            if self._needs_several_calls
            else self._candidates_of_one_call()
        )
        yield from self._write_candidates("target", self._target_unit)
        yield from self._candidates_from_text()

    @property
    def _needs_several_calls(self) -> bool:
        """Whether the finding appears only after several calls, like a recompile."""
        return isinstance(self.finding.evidence, RecompileEvidence)

    @cached_property
    def _invocations(self) -> tuple[Invocation, ...]:
        return invocation.invocations_for(self.finding, self._dynamic_sizes)

    # -- parts of the user's code to call -----------------------------------------------------

    def _candidates_of_calls(self) -> Iterator[ReproCandidate]:
        """Yield programs that call a function several times, for findings such as a recompile.

        The function has the guard that fails, or contains the code that causes the recompile.
        """
        evidence = self.finding.evidence
        assert isinstance(evidence, RecompileEvidence)
        inner = capture.find_capturable_frames(self._user_frames()[-1:])
        outer = capture.find_capturable_frames(
            [Frame(evidence.path, evidence.function, evidence.line)]
        )
        capture.watch_call(self._call_eagerly, [*outer, *inner], whole=True)
        for most in (2, capture.MOST):
            yield from self._candidates_of_last_calls(inner, outer, most)

    def _candidates_of_last_calls(
        self, inner: Sequence[CapturedFrame], outer: Sequence[CapturedFrame], most: int
    ) -> Iterator[ReproCandidate]:
        """Yield programs that repeat the last calls of a user's function, at most ``most`` calls
        each.

        ``inner`` are the stack frames of the code that causes the recompile, ``outer`` the stack
        frames of the recompiled function.
        """
        for captured in inner:
            if captured.layers:
                write = partial(parts.statement_unit, captured, 0, most=most)
                yield from self._write_candidates("statement", write)
            for depth, ahead in sorted(captured.before):
                write = partial(parts.window_unit, captured, depth, ahead, most=most)
                yield from self._write_candidates("statement", write)
        for captured in outer:
            yield from self._write_candidates(
                "statement", partial(parts.body_unit, captured, most=most)
            )
            yield from self._write_candidates(
                "function", partial(parts.calls_unit, captured, most=most)
            )

    def _candidates_of_one_call(self) -> Iterator[ReproCandidate]:
        """Yield programs with one call, for the frames on the finding's stack, innermost first."""
        captures = capture.find_capturable_frames(self._user_frames())
        if not captures:
            yield from self._candidates_of_any_function()
            return
        capture.watch_call(self._call_eagerly, captures)
        inwards = [captured for captured in reversed(captures) if captured.reached]
        for number, captured in enumerate(inwards[: 1 + _CALLERS]):
            yield from self._candidates_of_parts(captured, innermost=number == 0)
        for captured in inwards[: 1 + _OUTWARDS]:
            yield from self._write_candidates("function", partial(parts.function_unit, captured))

    def _user_frames(self) -> list[Frame]:
        """Return the frames of user code on the finding's stack, outermost first."""
        frames = self.finding.stack
        return [each for each in frames if not is_torch(each.path) and not is_machinery(each.path)]

    def _candidates_of_any_function(self) -> Iterator[ReproCandidate]:
        """Yield a repro script for each function that is executed while the traced function is
        called; used if the user's stack of the finding is not known.
        """
        captures = capture.find_capturable_frames(capture.find_functions(self._call_eagerly))
        capture.watch_call(self._call_eagerly, captures, whole=True)
        for captured in captures:
            yield from self._write_candidates("function", partial(parts.function_unit, captured))

    def _candidates_of_parts(
        self, captured: CapturedFrame, *, innermost: bool
    ) -> Iterator[ReproCandidate]:
        """Yield programs with an operation, a statement, or a block from the code of one frame.

        ``innermost`` is True for the frame with the finding.
        """
        for outwards in range(2 if innermost else 1):
            yield from self._write_candidates(
                "expression", partial(parts.expression_unit, captured, outwards)
            )
        for depth in range(len(captured.layers) if innermost else 1):
            for empty in (True, False):
                write = partial(parts.statement_unit, captured, depth, empty=empty)
                yield from self._write_candidates("statement", write)
        for depth, ahead in sorted(captured.before):
            write = partial(parts.window_unit, captured, depth, ahead)
            yield from self._write_candidates("statement", write)

    def _target_unit(self, program: ProgramDraft) -> CallableUnit:
        # Build a new object, because calls may have changed the previous one.
        call = self.tracee.call()
        return CallableUnit(program.expression(call.function), self._calls_to_make(call))

    def _calls_to_make(self, call: Call) -> tuple[invocation.CallInputs, ...]:
        """Return the calls that programs make: one with the user's inputs, or the predicted later
        calls.
        """
        if self._further is not None:
            return self._further.calls
        return (invocation.CallInputs.from_arguments(call.args, call.kwargs),)

    def _call_eagerly(self) -> Any:
        if self._further is not None:
            return self._further.call_eagerly()
        call = self.tracee.call()
        return tracing.call_eagerly(call.function, call.args, call.kwargs)

    @cached_property
    def _dynamic_sizes(self) -> frozenset[int]:
        """Sizes of the dimensions that were marked dynamic in the run with the finding."""
        is_guard = self.finding.code.startswith("guard/")
        evidence = self.finding.evidence
        if isinstance(evidence, SpecializationEvidence) and evidence.value.isdigit():
            return frozenset({int(evidence.value)})
        with contextlib.suppress(BaseException):
            call = self.tracee.call()
            requests = [(request.tensor, request.dim) for request in call.dynamic]
            if is_guard:
                requests = requests or batch_dimensions(call)
            return frozenset(int(tensor.shape[dim]) for tensor, dim in requests)
        return frozenset()

    # -- programs -----------------------------------------------------------------------------

    def _write_candidates(self, origin: CandidateOrigin, write: _Write) -> Iterator[ReproCandidate]:
        for way, store in product(self._invocations, self._stores):
            program = ProgramDraft(store)
            try:
                statements = way.statements(program, write(program))
                text = program.text([*self._settings, *statements])
            except Exception as error:
                self._leave_out(origin, error)
            else:
                yield ReproCandidate(text, origin, tuple(program.notes))

    def _candidates_from_text(self) -> Iterator[ReproCandidate]:
        """Yield the user's whole file, followed by calls of the function or module."""
        for way, store in product(self._invocations, self._stores):
            program = ProgramDraft(store)
            try:
                statements = [*self._settings, *way.statements(program, self._text_unit())]
                # The program under construction defines only the inputs of the calls.
                text = f"{_imported_part(self.tracee.text)}\n\n{program.text(statements)}"
            except Exception as error:
                self._leave_out("file", error)
            else:
                yield ReproCandidate(text, "file", (*program.notes, *_import_notes(text)))

    def _leave_out(self, origin: CandidateOrigin, error: Exception) -> None:
        """Record why a program could not be written; ``origin`` is the part of the user's code that
        it is from.

        Any exception is accepted, because methods of user objects may raise it.
        """
        words = f"{type(error).__name__}: {error}"
        self.left_out.append(
            f"{origin}: {error.reason if isinstance(error, UnwritableValue) else words}"
        )

    def _text_unit(self) -> CallableUnit:
        """Return the analyzed function or module by its name in the user's file, with the inputs of
        its calls.
        """
        call = self.tracee.call()
        return CallableUnit(self._entry_text(call), self._calls_to_make(call))

    def _entry_text(self, call: Call) -> str:
        target = self.tracee.target
        name = target.definition or target.name
        if target.kind == "call" and target.name.endswith(")"):
            return target.name
        is_class = isinstance(self.tracee.namespace.get(name), type)
        entry = f"{name}({call.init})" if is_class else name
        if is_class and not getattr(call.function, "training", True):
            entry += ".eval()"
        try:
            ast.parse(entry, mode="eval")
        except SyntaxError:
            raise UnwritableValue("its constructor is not called with plain values") from None
        return entry


def _imported_part(text: str) -> str:
    """Return the statements of a file that run when it is imported, without docstring."""
    body = [
        node
        for node in ast.parse(text).body
        if not (isinstance(node, ast.If) and is_main_guard(node.test) and not node.orelse)
        and not is_text(node)
    ]
    return ast.unparse(ast.Module(body, []))


def _import_notes(text: str) -> Iterator[str]:
    """Yield a note for each import of a third-party module or of another module of the user."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            if name.partition(".")[0] not in {"torch", *sys.stdlib_module_names}:
                yield f"It imports `{name}`."
