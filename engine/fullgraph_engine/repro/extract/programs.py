"""Programs that may show a finding, from its statement alone to the whole file."""

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
from ..candidate import Candidate, CandidateOrigin
from ..emit.program import Draft
from ..emit.slices import slice_of
from ..emit.unwritable import Unwritable
from ..inputs import Store
from ..verify.finding_signature import own_names
from . import capture, invocation, parts
from .capture import Point
from .invocation import Invocation, Unit
from .repeated_calls import RepeatedCalls

_OUTWARDS = 3
"""Callers of the innermost function that programs are written from."""
_CALLERS = 2
"""Those of which only the call or the statement around it is written as well."""

_Write = Callable[[Draft], Unit]


class Programs:
    """Each is a unit of the user's code and an act that the finding asks for."""

    def __init__(
        self,
        tracee: Tracee,
        finding: Finding,
        settings: Sequence[str],
        further: RepeatedCalls | None = None,
        stores: Sequence[Store | None] = (None,),
    ) -> None:
        """``further``: the finding is about these calls, and not about the one of the probe.

        ``stores`` take the contents of tensors: each program is written once with every one.
        """
        self.tracee, self.finding = tracee, finding
        self._settings, self._further, self._stores = settings, further, stores
        self.left_out: list[str] = []
        """Programs that could not be written, and why."""

    def candidates(self) -> Iterator[Candidate]:
        with tracing.tensor_mode(self.tracee.fake) as mode:
            if mode is not None:
                mode.prefer_real = False  # the run that found it has gone on without real tensors
            yield from self._all()

    def _all(self) -> Iterator[Candidate]:
        yield from self._of_calls() if self._is_of_calls else self._of_one_call()
        yield from self._written("target", self._target)
        yield from self._from_text(sliced=True)
        yield from self._from_text(sliced=False)

    @property
    def _is_of_calls(self) -> bool:
        """Whether it takes several calls to show it."""
        return isinstance(self.finding.evidence, RecompileEvidence)

    @cached_property
    def _acts(self) -> tuple[Invocation, ...]:
        return invocation.acts_for(self.finding, self._dynamic_sizes)

    # -- units --------------------------------------------------------------------------------

    def _of_calls(self) -> Iterator[Candidate]:
        """What the guard was made for, and the function that was recompiled, each time."""
        evidence = self.finding.evidence
        assert isinstance(evidence, RecompileEvidence)
        inner = capture.points(self._frames()[-1:])
        outer = capture.points([Frame(evidence.path, evidence.function, evidence.line)])
        capture.watch(self._eagerly, [*outer, *inner], whole=True)
        for most in (2, capture.MOST):
            yield from self._calls_of(inner, outer, most)

    def _calls_of(
        self, inner: Sequence[Point], outer: Sequence[Point], most: int
    ) -> Iterator[Candidate]:
        """With so many of the last calls."""
        for point in inner:
            if point.layers:
                write = partial(parts.of_statement, point, 0, most=most)
                yield from self._written("statement", write)
            for depth, ahead in sorted(point.before):
                write = partial(parts.of_window, point, depth, ahead, most=most)
                yield from self._written("statement", write)
        for point in outer:
            yield from self._written("statement", partial(parts.of_body, point, most=most))
            yield from self._written("function", partial(parts.of_calls, point, most=most))

    def _of_one_call(self) -> Iterator[Candidate]:
        """The frames on the way to the finding, the innermost first; in pieces at first."""
        points = capture.points(self._frames())
        if not points:
            yield from self._of_any_function()
            return
        capture.watch(self._eagerly, points)
        inwards = [point for point in reversed(points) if point.reached]
        for number, point in enumerate(inwards[: 1 + _CALLERS]):
            yield from self._parts_of(point, innermost=number == 0)
        for point in inwards[: 1 + _OUTWARDS]:
            yield from self._written("function", partial(parts.of_function, point))

    def _frames(self) -> list[Frame]:
        """The user's frames on the way to the finding, outermost first."""
        frames = self.finding.stack
        return [each for each in frames if not is_torch(each.path) and not is_machinery(each.path)]

    def _of_any_function(self) -> Iterator[Candidate]:
        """Every function that the call enters, where nothing says which one it is."""
        points = capture.points(capture.functions(self._eagerly))
        capture.watch(self._eagerly, points, whole=True)
        for point in points:
            yield from self._written("function", partial(parts.of_function, point))

    def _parts_of(self, point: Point, *, innermost: bool) -> Iterator[Candidate]:
        """A function in pieces: an operation, a statement, what is around it."""
        for outwards in range(2 if innermost else 1):
            yield from self._written("expression", partial(parts.of_expression, point, outwards))
        for depth in range(len(point.layers) if innermost else 1):
            for empty in (True, False):
                write = partial(parts.of_statement, point, depth, empty=empty)
                yield from self._written("statement", write)
        for depth, ahead in sorted(point.before):
            write = partial(parts.of_window, point, depth, ahead)
            yield from self._written("statement", write)

    def _target(self, draft: Draft) -> Unit:
        call = self.tracee.call()  # a new object: calls may have changed the one that made them
        return Unit(draft.expression(call.function), self._calls(call))

    def _calls(self, call: Call) -> tuple[invocation.CallInputs, ...]:
        """Those that the finding is about: the one of the probe, or further ones."""
        if self._further is not None:
            return self._further.calls
        return (invocation.CallInputs.of(call.args, call.kwargs),)

    def _eagerly(self) -> Any:
        if self._further is not None:
            return self._further.call_eagerly()
        call = self.tracee.call()
        return tracing.call_eagerly(call.function, call.args, call.kwargs)

    @cached_property
    def _dynamic_sizes(self) -> frozenset[int]:
        """What the dimensions are long that the run had asked to be dynamic."""
        is_guard = self.finding.code.startswith("guard/")
        evidence = self.finding.evidence
        if isinstance(evidence, SpecializationEvidence) and evidence.value.isdigit():
            return frozenset({int(evidence.value)})
        with contextlib.suppress(BaseException):
            call = self.tracee.call()
            wishes = [(wish.tensor, wish.dim) for wish in call.dynamic]
            if is_guard:
                wishes = wishes or batch_dimensions(call)
            return frozenset(int(tensor.shape[dim]) for tensor, dim in wishes)
        return frozenset()

    # -- programs -----------------------------------------------------------------------------

    def _written(self, origin: CandidateOrigin, write: _Write) -> Iterator[Candidate]:
        for way, store in product(self._acts, self._stores):
            draft = Draft(store)
            try:
                statements = way.statements(draft, write(draft))
                text = draft.text([*self._settings, *statements])
            except Exception as error:
                self._leave_out(origin, error)
            else:
                yield Candidate(text, origin, tuple(draft.notes))

    def _from_text(self, *, sliced: bool) -> Iterator[Candidate]:
        """The user's own text with calls below it."""
        origin: CandidateOrigin = "slice" if sliced else "file"
        for way, store in product(self._acts, self._stores):
            draft = Draft(store)
            try:
                statements = [*self._settings, *way.statements(draft, self._of_text())]
                text = _without_docstring(self.tracee.text)
                if sliced:
                    text = slice_of(text, _names(statements))
                # The draft's own definitions are those of the inputs.
                text = f"{text.rstrip()}\n\n{draft.text(statements)}"
            except Exception as error:
                self._leave_out(origin, error)
            else:
                yield Candidate(text, origin, (*draft.notes, *_imported(text)))

    def _leave_out(self, origin: CandidateOrigin, error: Exception) -> None:
        """An object of the user's may raise anything, and so may a mistake of ours."""
        words = f"{type(error).__name__}: {error}"
        self.left_out.append(
            f"{origin}: {error.reason if isinstance(error, Unwritable) else words}"
        )

    def _of_text(self) -> Unit:
        """The target as it is called in its own file."""
        call = self.tracee.call()
        return Unit(self._entry(call), self._calls(call))

    def _entry(self, call: Call) -> str:
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
            raise Unwritable("its constructor is not called with plain values") from None
        return entry


def _names(statements: Sequence[str]) -> set[str]:
    """The names that statements mention."""
    text = "\n".join(statements)
    read = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    return read | own_names(text)


def _without_docstring(text: str) -> str:
    tree = ast.parse(text)
    if ast.get_docstring(tree, clean=False) is None:
        return text
    return "\n".join(text.split("\n")[tree.body[0].end_lineno or 0 :])


def _imported(text: str) -> Iterator[str]:
    """What a text imports besides torch and Python's own modules, each in a sentence."""
    for node in ast.walk(ast.parse(text)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = ["." * node.level + (node.module or "")]
        for name in names:
            if name.partition(".")[0] not in {"torch", *sys.stdlib_module_names}:
                yield f"It imports `{name}`."
