"""Find the finding again in a run of the user's code, and write programs that may show it."""

from __future__ import annotations

import ast
import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import PurePath
from typing import Any

import torch
import torch._dynamo

from .. import tracing
from ..findings import run_target
from ..findings.places import SourceText
from ..findings.runs import batch_dimensions
from ..protocol import Finding, Frame, Mode, Part, Wanted
from ..targets import Call, Probe, Target
from ..tracing.stacks import is_machinery, is_torch
from . import act, capture, further, units
from .capture import Point
from .check import Check
from .further import Further
from .likeness import Likeness, own_names
from .observation import findings_of
from .seed import Origin, Seed, Seeds
from .writing.draft import Draft
from .writing.slices import slice_of
from .writing.unwritable import Unwritable

_ODDS = 5
"""How often a finding that was not there again is looked for."""
_OUTWARDS = 3
"""Callers of the innermost function that programs are written from."""
_CALLERS = 2
"""Those of which only the call or the statement around it is written as well."""


@dataclass(frozen=True)
class Sown:
    """What came of it: seeds, packed; or why there are none, with the next step; or why the run
    should be repeated with real tensors."""

    packed: str = ""
    reason: str = ""
    needs_real: str | None = None


def sow(
    target: Target,
    probe: Probe,
    namespace: dict[str, Any],
    *,
    path: str,
    text: str,
    mode: Mode,
    wanted: Wanted,
) -> Sown:
    """Seeds for a finding of a target. The text was executed; ``namespace`` is what it has made."""
    if wanted.backend:
        return _sow_graphs(target, probe, namespace, text, mode, wanted)
    part: Part = "second" if wanted.run.endswith("+") else "first"
    fake = mode != "real"
    if wanted.run.endswith("~"):
        return _sow_further(target, probe, namespace, path, text, wanted, fake=fake)

    def look() -> tuple[Finding | None, str | None]:
        torch._dynamo.reset()
        outcome = run_target(
            target, probe, namespace, path=path, text=text, mode=mode, part=part, emit=_ignored
        )
        return _matching(outcome.findings, wanted), outcome.needs_real

    found, needs_real = look()
    if needs_real:
        return Sown(needs_real=needs_real)
    flaky = ""
    if found is None:
        again = [look()[0] for _ in range(_ODDS)]
        found = next((each for each in again if each is not None), None)
        seen = sum(each is not None for each in again)
        flaky = f"It is flaky: of {_ODDS + 1} runs that looked for it again {seen} have found it."
    if found is None:
        return Sown(
            reason=f"`{wanted.code}` was not found again at line {wanted.range.start.line + 1} in "
            f"{_ODDS + 1} runs; save the file, wait for its findings and try again."
        )
    return _sown(_Writer(target, probe, namespace, path, text, found, fake=fake), flaky=flaky)


def _sow_further(
    target: Target,
    probe: Probe,
    namespace: dict[str, Any],
    path: str,
    text: str,
    wanted: Wanted,
    *,
    fake: bool,
) -> Sown:
    """Seeds for what a forecast has found: its calls, made for real."""
    with tracing.tensor_mode(fake):
        torch.manual_seed(0)
        calls = further.calls_of(wanted, probe.build(namespace))
        recordings = calls.trace() if calls is not None else []
    source = SourceText(path, text)
    findings = [
        finding
        for recording in reversed(recordings)
        for finding in findings_of(recording, source)
        if finding.code.startswith("recompile/") and finding.code != "recompile/limit"
    ]
    line = wanted.range.start.line
    near = [finding for finding in findings if finding.range.start.line == line]
    if calls is None or not findings:
        return Sown(
            reason="The calls of the forecast compile nothing again this time; wait for the next "
            "forecast and try again."
        )
    found = (near or findings)[0]
    likeness, own = Likeness.of(found), own_names(text)
    times = sum(Likeness.of(each).equals(likeness, own) for each in findings)
    writer = _Writer(target, probe, namespace, path, text, found, fake=fake, calls=calls)
    return _sown(writer, title=wanted.message, times=times)


def _sown(writer: _Writer, *, flaky: str = "", title: str = "", times: int = 1) -> Sown:
    found = writer.finding
    return Sown(
        Seeds(
            tuple(sorted(writer.seeds(), key=lambda seed: seed.text.count("\n"))),
            Likeness.of(found),
            Check.of(found, times),
            tuple(sorted(own_names(writer.text))),
            title or found.message,
            found.explanation,
            _place(found, writer.path),
            found.href,
            flaky,
            tuple(writer.left_out),
            times,
        ).packed()
    )


def _sow_graphs(
    target: Target, probe: Probe, namespace: dict[str, Any], text: str, mode: Mode, wanted: Wanted
) -> Sown:
    if mode != "real":
        return Sown(needs_real=f"`{wanted.backend}` compiles for real tensors.")
    from . import graphs  # what it imports of torch nothing else needs

    found = graphs.sow(target, probe, namespace, text, wanted)
    return Sown(reason=found) if isinstance(found, str) else Sown(found.packed())


def _ignored(_: Finding) -> None:
    pass


def _matching(findings: list[Finding], wanted: Wanted) -> Finding | None:
    """The finding that is meant: by its range, else by its line, else by its message."""
    alike = [each for each in findings if each.code == wanted.code]
    same = (
        [each for each in alike if each.range == wanted.range],
        [each for each in alike if each.range.start.line == wanted.range.start.line],
        [each for each in alike if each.message == wanted.message],
    )
    return next((each for found in same for each in found), None)


def _place(finding: Finding, path: str) -> str:
    name, line = PurePath(path).name, finding.range.start.line + 1
    inside = next((f.function for f in reversed(finding.stack) if f.path == path), "")
    place = f"{name}:{line}" + (f" in `{inside}`" if inside else "")
    return f"{place}, target `{finding.target}`" if finding.target else place


class _Writer:
    """Writes the seeds of one finding, from the smallest to the whole file."""

    def __init__(
        self,
        target: Target,
        probe: Probe,
        namespace: dict[str, Any],
        path: str,
        text: str,
        finding: Finding,
        *,
        fake: bool,
        calls: Further | None = None,
    ) -> None:
        """``calls``: the finding is about these, and not about the one of the probe."""
        self.calls = calls
        self.target, self.probe, self.namespace = target, probe, namespace
        self.path, self.text, self.finding, self.fake = path, text, finding, fake
        self.settings = settings()
        self.left_out: list[str] = []
        """Programs that could not be written, and why."""

    def seeds(self) -> Iterator[Seed]:
        known: set[str] = set()
        with tracing.tensor_mode(self.fake) as mode:
            if mode is not None:
                mode.prefer_real = False  # the run that found it has gone on without real tensors
            for seed in self._all():
                if seed.text not in known:
                    known.add(seed.text)
                    yield seed

    def _all(self) -> Iterator[Seed]:
        recompile = self.finding.code.startswith("recompile/")
        points = self._points()
        anywhere = [] if points else capture.points(capture.functions(self._eagerly))
        capture.watch(self._eagerly, points or anywhere, whole=recompile or not points)
        inwards = [point for point in reversed(points) if point.reached]
        if recompile:
            for point in inwards[:1]:
                yield from self._attempt("function", partial(self._again, point))
        elif anywhere:
            for point in anywhere:
                yield from self._compiled("function", partial(units.of_function, point))
        else:
            for number, point in enumerate(inwards[: 1 + _CALLERS]):
                yield from self._parts_of(point, innermost=number == 0)
            for point in inwards[: 1 + _OUTWARDS]:
                yield from self._compiled("function", partial(units.of_function, point))
        if self.calls is not None:
            yield from self._attempt("target", self._further)
        else:
            yield from self._compiled("target", self._target)
        yield from self._from_text(sliced=True)
        yield from self._from_text(sliced=False)

    def _parts_of(self, point: Point, *, innermost: bool) -> Iterator[Seed]:
        """A function in pieces: an operation, a statement, what is around it."""
        for outwards in range(2 if innermost else 1):
            yield from self._compiled("expression", partial(units.of_expression, point, outwards))
        for depth in range(len(point.layers) if innermost else 1):
            for empty in (True, False):
                write = partial(units.of_statement, point, depth, empty=empty)
                yield from self._compiled("statement", write)
        for depth, ahead in sorted(point.before):
            write = partial(units.of_window, point, depth, ahead)
            yield from self._compiled("statement", write)

    # -- frames -------------------------------------------------------------------------------

    def _points(self) -> list[Point]:
        """The user's frames on the way to the finding, outermost first."""
        data = self.finding.data
        if self.finding.code.startswith("recompile/") and "path" in data:
            frames = [Frame(data["path"], data["function"], data["line"])]
        else:
            frames = [
                frame
                for frame in self.finding.stack
                if not is_torch(frame.path) and not is_machinery(frame.path)
            ]
        return capture.points(frames)

    def _eagerly(self) -> Any:
        if self.calls is not None:
            return self.calls.call_eagerly()
        call = self.probe.build(self.namespace)
        return tracing.call_eagerly(call.function, call.args, call.kwargs)

    def _again(self, point: Point, draft: Draft) -> list[str]:
        """All the calls of one function."""
        given = [units.of_function(point, draft, names) for names in point.entries]
        if len({unit.entry for unit in given}) != 1:
            raise Unwritable("the function is called on different objects")
        return act.calls(draft, given[0].entry, [unit.inputs for unit in given])

    def _further(self, draft: Draft) -> list[str]:
        """All the calls of the target."""
        assert self.calls is not None
        return act.calls(draft, draft.expression(self.calls.function), self._several())

    def _several(self) -> list[list[act.Input]]:
        given = self.calls.arguments if self.calls is not None else []
        return [act.inputs_of(args, kwargs) for args, kwargs in given]

    def _target(self, draft: Draft) -> units.Unit:
        call = self._call()
        inputs = act.inputs_of(call.args, call.kwargs)
        return units.Unit(draft.expression(call.function), tuple(inputs))

    def _call(self) -> Call:
        torch.manual_seed(0)
        return self.probe.build(self.namespace)

    # -- programs -----------------------------------------------------------------------------

    def _compiled(self, origin: Origin, write: Callable[[Draft], units.Unit]) -> Iterator[Seed]:
        """A unit that is compiled and called once; with dynamic dimensions where that matters."""

        def plain(draft: Draft) -> list[str]:
            unit = write(draft)
            return self._called(draft, unit.entry, unit.inputs)

        def marked(draft: Draft) -> list[str]:
            unit = write(draft)
            return act.marked_call(draft, unit.entry, unit.inputs, sizes)

        sizes = self._dynamic_sizes
        if not self.finding.code.startswith("guard/"):
            yield from self._attempt(origin, plain)
        if sizes:
            yield from self._attempt(origin, marked)

    def _called(self, draft: Draft, entry: str, inputs: Sequence[act.Input]) -> list[str]:
        if self.finding.code == "trace/eager-error":
            return act.plain_call(draft, entry, inputs)
        return act.call(draft, entry, inputs)

    def _attempt(self, origin: Origin, write: Callable[[Draft], list[str]]) -> Iterator[Seed]:
        draft = Draft()
        try:
            statements = write(draft)
            text = draft.text([*self.settings, *statements])
        except Unwritable as error:
            self.left_out.append(f"{origin}: {error.reason}")
            return
        except Exception as error:  # objects of the user's, or a mistake of ours
            self.left_out.append(f"{origin}: {type(error).__name__}: {error}")
            return
        yield Seed(text, origin, tuple(draft.notes))

    @cached_property
    def _dynamic_sizes(self) -> frozenset[int]:
        """What the dimensions are long that the run had asked to be dynamic."""
        value = self.finding.data.get("value")
        if self.finding.code.startswith("guard/") and str(value).isdigit():
            return frozenset({int(str(value))})
        with contextlib.suppress(BaseException):
            call = self._call()
            wishes = [(wish.tensor, wish.dim) for wish in call.dynamic]
            if self.finding.code.startswith("guard/"):
                wishes = wishes or batch_dimensions(call)
            return frozenset(int(tensor.shape[dim]) for tensor, dim in wishes)
        return frozenset()

    def _from_text(self, *, sliced: bool) -> Iterator[Seed]:
        """The user's own text with a call below it."""

        def write(draft: Draft) -> list[str]:
            call = self._call()
            entry = self._entry(call)
            inputs = act.inputs_of(call.args, call.kwargs)
            if self.calls is not None:
                return act.calls(draft, entry, self._several())
            if self.finding.code.startswith("guard/"):
                return act.marked_call(draft, entry, inputs, self._dynamic_sizes)
            return self._called(draft, entry, inputs)

        draft = Draft()
        try:
            statements = [*self.settings, *write(draft)]
            text = _without_docstring(self.text)
            if sliced:
                text = slice_of(text, own_names("\n".join(statements)) | self._read(statements))
        except Exception as error:  # objects of the user's, or a mistake of ours
            self.left_out.append(f"file: {type(error).__name__}: {error}")
            return
        # The draft's own definitions are those of the inputs.
        below = draft.text(statements)
        seed = Seed(f"{text.rstrip()}\n\n{below}", "slice" if sliced else "file")
        yield replace(seed, notes=(*draft.notes, *_imported(text)))

    def _entry(self, call: Call) -> str:
        """How the target is called in its own file."""
        name = self.target.definition or self.target.name
        if self.target.kind == "call" and self.target.name.endswith(")"):
            return self.target.name
        is_class = isinstance(self.namespace.get(name), type)
        entry = f"{name}({call.init})" if is_class else name
        try:
            ast.parse(entry, mode="eval")
        except SyntaxError:
            raise Unwritable("its constructor is not called with plain values") from None
        return entry

    @staticmethod
    def _read(statements: list[str]) -> set[str]:
        tree = ast.parse("\n".join(statements))
        return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


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


def settings() -> tuple[str, ...]:
    """Statements for those of torch's settings that user code has changed."""
    import torch._functorch.config

    found: list[str] = []
    for module in (torch._dynamo.config, torch._functorch.config):
        for line in module.codegen_config().split("\n"):
            try:
                ast.parse(line)
            except SyntaxError:
                continue
            if line.startswith("torch.") and line not in _OURS and "unsafe_data_ptr" not in line:
                found.append(line)
    return tuple(found)


def remember_settings() -> None:
    """Call before user code: what is set by then is nobody's choice."""
    _OURS.update(settings())


_OURS: set[str] = set()
