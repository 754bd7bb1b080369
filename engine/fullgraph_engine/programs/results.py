"""Convert one run of a program to findings and reports, for each workspace file that took part."""

from __future__ import annotations

import ast
import dataclasses
import functools
import os
import types
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from .. import texts, tracing
from ..findings import breaks, failures, guards, operators, recompiles, shapes, trace_steps, values
from ..findings.break_costs import BreakCosts
from ..findings.compilation import compilation_findings
from ..findings.compiler_conditions import CompilerConditions
from ..findings.guard_names import GuardNames, merge_findings
from ..findings.places import SourceText, finding_identity, related_to
from ..protocol import (
    BreakCost,
    Finding,
    Frame,
    Position,
    ProbeInfo,
    Range,
    Region,
    RunId,
    SeenValue,
    Status,
    TargetInfo,
    TargetKind,
    TargetReport,
    TraceMode,
)
from ..protocol.compilation import Compilation, CompilationStatus
from ..protocol.coverage import Coverage
from ..protocol.evidence import BreakEvidence, FailureEvidence
from ..protocol.guards import GuardedFrame
from ..protocol.regions import CompileSite, ProgramEnd, RegionCalls, merge_calls
from ..protocol.shapes import PlaceShapes
from ..protocol.trace_steps import TraceStep
from ..targets import Discovery, Target, discover
from ..targets.comments import first_line
from ..tracing import stacks
from ..tracing.compilation import CompilationRecord
from ..tracing.recording import Failure, Graph, Recompile, Stack
from .execution import Ending, Program, stop_words
from .regions import LiveRegion, RegionFailure, is_own
from .watching import RegionWork

_MOST_PATHS = 40
"""Maximum number of files for which one run of a program reports findings."""

_ARGUMENTS = (
    "If the program needs arguments, write them in a comment, `# fullgraph: run(--steps 2)`, or on "
    "the command line: `fullgraph check -- train.py --steps 2`."
)
_FAKE = {
    "gpu": (
        "The program needs a GPU, so it ran on fake CUDA tensors: sizes, dtypes and devices are as "
        "in a real run, but values are made up and gradients are not computed."
    ),
    "memory": (
        "The program needs more memory than the setting `memory-limit` allows, so it ran on fake "
        "tensors: sizes and dtypes are as in a real run, but values are made up."
    ),
}
_NOT_COMPILED = (
    "AOTAutograd and Inductor did not compile its graphs, because they have fake tensors."
)
_NO_BACKEND = "The backend `{}` was not used, because it cannot compile graphs with fake tensors."
_STOPPED_COMPILING = "The program was stopped while a graph was being compiled."
_STOPPED = "the program stopped before it compiled this code"
_CODES_OF_REGION = ("backend/error", "backend/repeated-block")
_NEVER_CALLED = "the program never called this compiled function"
_STOPPED_FIRST = "the program was stopped before it called this compiled function"
_NOT_CALLED: dict[ProgramEnd, str] = {
    "raised": "the program raised before it called this compiled function",
    "exited": "the program exited before it called this compiled function",
    "time": _STOPPED_FIRST,
    "quiet": _STOPPED_FIRST,
    "killed": _STOPPED_FIRST,
}
_NOWHERE = Range(Position(-1, 0), Position(-1, 0))

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda


@dataclass(frozen=True)
class RegionResult:
    """The report about one compiled callable (region) in one file, with the region's guards and
    trace steps.
    """

    report: TargetReport
    guards: tuple[GuardedFrame, ...] = ()
    guards_note: str = ""
    steps: tuple[TraceStep, ...] = ()


@dataclass(frozen=True)
class FileResults:
    """The results of a program's run for one file.

    ``regions`` are reports about compiled callables that the file defines or compiles. ``reached``
    are reports about other functions and module classes of the file: Dynamo traced their code
    inside a compiled callable, or the program does not compile them. ``is_off``: a comment in the
    file turns fullgraph off.
    """

    findings: tuple[Finding, ...]
    regions: tuple[RegionResult, ...]
    reached: tuple[TargetReport, ...]
    shapes: tuple[PlaceShapes, ...] = ()
    shapes_note: str = ""
    values: tuple[SeenValue, ...] = ()
    deeper: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Other workspace files whose code is called from this file's frame in the stack of a finding,
    by ``Finding.identity``.
    """
    is_off: bool = False

    @property
    def reports(self) -> tuple[TargetReport, ...]:
        return (*(one.report for one in self.regions), *self.reached)

    @property
    def infos(self) -> tuple[TargetInfo, ...]:
        """Names, kinds and name ranges of the reported functions and module classes."""
        return tuple(TargetInfo(one.name, one.kind, one.range) for one in self.reports)


class ProgramResults:
    """Converts what was recorded in one run of a program to findings, for any file of the
    workspace.
    """

    def __init__(self, program: Program, ending: Ending, text_of: Callable[[str], str]) -> None:
        program.settle()
        self.program, self.ending = program, ending
        self.text_of = text_of
        self.names = _unique_names(program.regions.all)
        self.parts = {region: program.work_of(region) for region in program.regions.all}
        graphs = program.recording.graphs
        self._compiled = {
            id(graph): record for graph, record in zip(graphs, program.compiled, strict=False)
        }

    @property
    def paths(self) -> list[str]:
        """Workspace files that took part in the run, the program's own file first.

        A file took part if Dynamo traced code in it, or if it defines or compiles a region (a
        compiled callable).
        """
        found = dict.fromkeys([self.program.path])
        for region in self.program.regions.all:
            found.update(dict.fromkeys(one.path for one in region.site))
            if region.code is not None:
                found[region.code.co_filename] = None
        found.update((code.co_filename, None) for code in self.program.recorder.entered_code)
        return [path for path in found if is_own(path)][:_MOST_PATHS]

    @property
    def called(self) -> list[LiveRegion]:
        """Regions (compiled callables) that the program called, or that Dynamo traced inside
        another region."""
        return [one for one in self.program.regions.all if one.calls or self.is_inlined(one)]

    @property
    def mode(self) -> TraceMode:
        """ "fake" if the program ran on fake tensors, else "real"."""
        return "fake" if self.program.lacks else "real"

    @property
    def note(self) -> str:
        """Sentences on how the run differs from running the program without the engine; may be
        empty."""
        fake = _FAKE.get(self.program.lacks, "")
        name = self.program.request.backend
        unused = _NO_BACKEND.format(name) if name and self.program.lacks else ""
        if self.program.request.compiler != "off" and self.program.lacks and not name:
            unused = _NOT_COMPILED
        stopped = stop_words(self.ending, self.program.seconds, len(self.called))
        return " ".join(filter(None, (fake, unused, stopped)))

    def compiled_graphs(self, part: RegionWork) -> list[tuple[Graph, CompilationRecord]]:
        """Return the graphs of a region that AOTAutograd and Inductor compiled, with what was
        recorded for each."""
        records = ((graph, self._compiled.get(id(graph))) for graph in part.graphs)
        return [(graph, record) for graph, record in records if record is not None]

    def compilation_of(self, part: RegionWork) -> Compilation | None:
        """Return the outcome of compiling the graphs of a region; None if they were not
        compiled."""
        record = CompilationRecord.join(one for _, one in self.compiled_graphs(part))
        compiler = self.program.request.compiler
        if not record.is_complete:
            return Compilation(compiler, "not-computed", reason=_STOPPED_COMPILING)
        if not record.regions:
            return None
        status: CompilationStatus = "failed" if record.errors else "compiled"
        seconds = record.processor_seconds
        return Compilation(compiler, status, record.regions, processor_seconds=seconds)

    def is_inlined(self, region: LiveRegion) -> bool:
        """Whether Dynamo traced the code of a compiled callable, either in its own call or inside a
        call of another one.
        """
        return region.code in self.program.recorder.entered_code

    def of_file(self, path: str) -> FileResults:
        """Return the results for one file; they are empty if a comment turns fullgraph off
        in it."""
        file = _File(self, path, self.text_of(path))
        return FileResults((), (), (), is_off=True) if file.discovery.off else file.results()


class _File:
    def __init__(self, whole: ProgramResults, path: str, text: str) -> None:
        self.whole, self.path, self.text = whole, path, text
        self.program = whole.program
        self.is_main = path == self.program.path
        self.source = SourceText(path, text)
        self.guard_names = GuardNames(self.source)
        self.conditions = CompilerConditions(self.source)
        self.found: dict[str, Finding] = {}
        self.deeper: dict[str, tuple[str, ...]] = {}
        self.below: tuple[str, ...] = ()
        """Other files whose functions are called, directly or indirectly, by this file's innermost
        frame in the current stack.
        """

    def results(self) -> FileResults:
        regions = []
        for region in self.program.regions.all:
            place = self.place_of(region)
            part = self.whole.parts[region]
            target = self.whole.names[region] if place is not None else ""
            self.findings_of(part, place, target, region)
            if place is not None and (self.whole.ending.how != "running" or region.calls):
                regions.append(self.region_result(region, place, part))
        self.findings_of(self.program.work_of(None), None, "", None)
        for region in self.program.regions.all:
            self.without_effect(region)
        self.warnings()
        for region in self.program.regions.all:
            self.failures_of(region)
        if self.is_main and self.whole.ending.error is not None:
            self.end()
        elif self.is_main and self.whole.ending.how == "exited":
            self.report_exit(self.whole.ending.status)
        shapes_found: tuple[PlaceShapes, ...] = ()
        note = ""
        values_seen: tuple[SeenValue, ...] = ()
        if self.is_main and regions:
            recording = self.program.recording
            values_seen = values.seen_values(recording, self.source)
            shapes_found, note = shapes.limit_places(
                shapes.seen_shapes(recording, self.source), recording
            )
        reached = list(self.reached_targets({one.report.range for one in regions}))
        if regions or reached:
            reached += self.uncompiled_targets({one.report.range for one in regions}, reached)
        return FileResults(
            (*self.found.values(), *self.discovery.findings),
            tuple(regions),
            tuple(reached),
            shapes_found,
            note,
            values_seen,
            self.deeper,
        )

    # -- which file reports a finding ------------------------------------------------------------

    def is_shown_here(self, stack: Stack) -> bool:
        """Whether a stack has a frame in this file.

        Stores in ``below`` which other files have frames further inside.
        """
        below: list[str] = []
        for frame in reversed(stack):
            if frame.path == self.path:
                self.below = tuple(dict.fromkeys(below))
                return True
            if is_own(frame.path):
                below.append(frame.path)
        self.below = ()
        return False

    def add(self, finding: Finding, target: str, calls: Iterable[RegionCalls] = ()) -> None:
        finding = dataclasses.replace(finding, calls=merge_calls(calls))
        known = self.found.get(finding.identity)
        if known is not None:
            self.found[finding.identity] = merge_findings(known, finding)
            return
        if self.below:
            self.deeper[finding.identity] = self.below
        target = target or self.target_around(finding.range)
        run = RunId(target) if target else None
        finding = dataclasses.replace(finding, target=target, run=run, mode=self.whole.mode)
        self.found[finding.identity] = finding

    def calls_of(self, region: LiveRegion | None, *numbers: int) -> Iterator[RegionCalls]:
        """Yield a region (compiled callable) together with the ``numbers`` of some of its calls.

        The number 0 stands for work outside of all calls and is left out. Yield nothing if
        ``region`` is None or no number is left.
        """
        known = tuple(one for one in numbers if one)
        if region is not None and known:
            yield RegionCalls(self.whole.names[region], known)

    def target_around(self, where: Range) -> str:
        """Return the name of the function or module class of this file that contains a range, or
        "".
        """
        inside = (one.name for one in self.targets if _contains(one.body, where.start.line))
        return next(inside, "")

    # -- findings -------------------------------------------------------------------------------

    def findings_of(
        self, part: RegionWork, place: Range | None, target: str, region: LiveRegion | None
    ) -> None:
        def calls(record: object) -> Iterator[RegionCalls]:
            return self.calls_of(region, part.call_of(record))

        fallback = place if place is not None else _NOWHERE
        self.breaks_of(part, fallback, target, region)
        self.below = ()
        for skip in part.skips:
            skipped = breaks.skip_finding(skip, self.source)
            if skipped is not None:
                self.add(skipped, target, calls(skip))
        for op in part.custom_ops:
            if not op.compliant and self.is_shown_here(op.stack):
                self.add(operators.operator_finding(op, self.source, fallback), target, calls(op))
        self.compiler_findings_of(part, place, target, region)
        self.different_code_of(part, target, region)
        for recompile in part.recompiles:
            if not self.is_shown_here(_places_of(recompile)):
                continue
            shown = recompile
            if stacks.is_torch(recompile.path):
                # Dynamo compiles torch's wrapper around a library's module; name the module.
                shown = dataclasses.replace(recompile, function=target)
            for finding in recompiles.findings_of_recompile(shown, self.guard_names, fallback):
                self.add(finding, target, calls(recompile))

    def compiler_findings_of(
        self, part: RegionWork, place: Range | None, target: str, region: LiveRegion | None
    ) -> None:
        """Report problems that AOTAutograd and Inductor have with the graphs of a region (compiled
        callable).

        ``part`` has the records of the region. Problems in code of libraries are left out, except
        errors and repeated blocks, which are reported at ``place``, the range of the region.
        """
        for graph, record in self.whole.compiled_graphs(part):
            for finding in compilation_findings(record, self.source, place or _NOWHERE):
                in_library = not self.is_shown_here(finding.stack)
                if in_library and (place is None or finding.code not in _CODES_OF_REGION):
                    continue
                self.add(finding, target, self.calls_of(region, part.call_of(graph)))
        self.below = ()

    def different_code_of(self, part: RegionWork, target: str, region: LiveRegion | None) -> None:
        """Report conditions on whether code is compiled, such as ``if
        torch.compiler.is_compiling()``.

        Each call of a region (compiled callable) that traces such a condition gives one finding.
        ``part`` has the records of the region.
        """
        is_export = region is not None and region.is_export
        tool = "torch.export" if is_export else "torch.compile"
        found: dict[str, Finding] = {}
        numbers: dict[str, set[int]] = defaultdict(set)
        for check in part.compiler_checks:
            if (finding := self.conditions.finding(check, tool)) is not None:
                found[finding.identity] = finding
                numbers[finding.identity].add(part.call_of(check))
        for key, finding in found.items():
            counted = dataclasses.replace(finding, count=len(numbers[key]))
            self.add(counted, target, self.calls_of(region, *numbers[key]))

    def breaks_of(
        self, part: RegionWork, fallback: Range, target: str, region: LiveRegion | None
    ) -> None:
        strict = "fullgraph=True"
        if region is not None and region.is_export:
            strict = region.api
        calls = region.calls if region is not None else 1
        tally = breaks.Tally()
        found: dict[str, Finding] = {}
        below: dict[str, tuple[str, ...]] = {}
        numbers: dict[str, list[int]] = defaultdict(list)
        for record in part.breaks:
            if not self.is_shown_here(record.stack):
                continue
            finding = breaks.break_finding(record, self.source, fallback, strict)
            again = tally.add(finding.identity, record)
            numbers[finding.identity].append(part.call_of(record))
            if finding.identity not in found or again:
                found[finding.identity] = finding
                below[finding.identity] = self.below
        if not found:
            return
        costs = BreakCosts(part, self.source, fallback, target)
        counts = tally.counts()
        for key, finding in found.items():
            amended = dataclasses.replace(
                finding,
                count=counts.get(key, 1),
                causes=costs.causes(key) or finding.causes,
                # A break that raises an exception ends the call, so it does not have a cost.
                cost=_per_call(costs.cost(finding), calls) if _continues_after(finding) else None,
            )
            self.below = below[key]
            self.add(amended, target, self.calls_of(region, *numbers[key]))

    def without_effect(self, region: LiveRegion) -> None:
        """Report a ``torch.compile`` call whose result the program never calls."""
        part = self.whole.parts[region]
        if part.graphs or part.breaks or self.whole.is_inlined(region) or region.failures:
            return
        if region.is_export or not self.is_shown_here(region.site):
            return
        place = self.source.locate(region.site, _NOWHERE)
        if region.calls:
            code = "compile/no-graph"
            times = "once" if region.calls == 1 else f"{region.calls} times"
            words = f"`{region.name}` was called {times}, but Dynamo compiled no graph for it"
        elif self.whole.ending.how == "finished":
            code = "compile/never-called"
            words = f"`{region.name}` is compiled here, but the compiled object is never called"
        else:
            return
        self.add(
            Finding(
                code=code,
                message=words,
                range=place.range,
                explanation="\n".join(dict.fromkeys(skip.reason for skip in part.skips)),
                stack=place.stack,
                identity=finding_identity(code, place.range),
            ),
            self.whole.names[region],
        )

    def warnings(self) -> None:
        for warning in self.program.warnings:
            if not self.is_shown_here(warning.stack):
                continue
            place = self.source.locate(warning.stack, _NOWHERE)
            first, _, rest = warning.message.partition(". ")
            if self._is_break_explanation(first, place.range):
                continue
            code = "compile/warning"
            call = warning.call
            self.add(
                Finding(
                    code=code,
                    message=first.rstrip("."),
                    range=place.range,
                    explanation=rest,
                    stack=place.stack,
                    related=related_to(place),
                    identity=f"{finding_identity(code, place.range)} {first}",
                ),
                "",
                self.calls_of(call.region, call.number) if call is not None else (),
            )

    def _is_break_explanation(self, words: str, place: Range) -> bool:
        """Whether the finding of a graph break at ``place`` already contains ``words``, a warning
        of Dynamo.
        """
        return any(
            finding.code.startswith("graph-break/")
            and finding.range == place
            and words in finding.explanation
            for finding in self.found.values()
        )

    def failures_of(self, region: LiveRegion) -> None:
        """Report exceptions that calls of a compiled callable raised.

        Graph breaks and the exception that ended the program are left out, because other methods
        report them.
        """
        for failure in region.failures:
            ended = failure.error is self.whole.ending.error
            if getattr(failure.error, "_fullgraph_recorded", False) or ended:
                continue
            self.report_exception(failure.error, region, failure)

    def end(self) -> None:
        """Report the exception that ended the program, if there is one."""
        error = self.whole.ending.error
        if error is None or getattr(error, "_fullgraph_recorded", False):
            return
        found = self._region_of(error)
        self.report_exception(error, *found)

    def _region_of(self, error: BaseException) -> tuple[LiveRegion | None, RegionFailure | None]:
        """Return the innermost compiled callable (region) from which an exception came, and the
        failed call.

        Both are None if the exception did not leave a call of a compiled callable.
        """
        for region in reversed(self.program.regions.all):
            for failure in region.failures:
                if failure.error is error:
                    return region, failure
        return None, None

    def report_exception(
        self, error: BaseException, region: LiveRegion | None, failed: RegionFailure | None
    ) -> None:
        if isinstance(error, SystemExit):
            self.report_exit(error.code)
            return
        if isinstance(error, ImportError) and not self.whole.called:
            return  # a trace of this file without its program reports the import error
        failure = tracing.failure_of(error)
        if failure.kind == "ConstraintViolationError" and region is not None:
            pins = self.whole.parts[region].specializations
            failure = dataclasses.replace(failure, stack=pins[-1].stack) if pins else failure
        if not self.is_shown_here(failure.stack):
            return
        fallback = self.source.line_range(max(self.whole.ending.line, 0))
        if region is None or failed is None or failed.call is None:
            code, words = failures.RAISES, "The program raises here"
        elif _raises_eagerly(failed):
            used = "torch.export" if region.is_export else "torch.compile"
            code, words = failures.RAISES, f"The code raises here, with or without {used}"
        else:
            code = "trace/compile-error"
            outer = type(error).__name__
            raises = "fails" if outer == failure.kind else f"raises {outer}"
            words = f"{region.api} {raises} here, but the same call runs without it"
        calls = self.calls_of(region, failed.number) if failed is not None else ()
        self.add(_of_failure(failure, code, words, self.source, fallback), "", calls)

    def report_exit(self, status: object) -> None:
        """Report that the program exited early with a nonzero status."""
        self.below = ()
        where = self.source.line_range(max(self.whole.ending.line, 0))
        code = "program/exited"
        self.add(
            Finding(
                code=code,
                message=f"The program exits here with status {texts.safe_repr(status)}",
                range=where,
                hints=(_ARGUMENTS,) if status == 2 else (),
                identity=finding_identity(code, where),
            ),
            "",
        )

    # -- regions --------------------------------------------------------------------------------

    def place_of(self, region: LiveRegion) -> Range | None:
        """Return the source range in this file at which to report about a compiled callable
        (region).

        The range is the name in the callable's definition, else the call that compiles the
        callable; None if this file has neither.
        """
        if _home_of(region) == self.path:
            return self.defined_at(region)
        last = next((one for one in reversed(region.site) if is_own(one.path)), None)
        if last is None or last.path != self.path:
            return None
        return self.source.range_of(last)

    def defined_at(self, region: LiveRegion) -> Range | None:
        line = region.code.co_firstlineno if region.code is not None else 0
        wanted = region.name.rpartition(".")[2]
        for node in self.definitions:
            if region.kind is not None:
                inside = node.lineno <= line <= (node.end_lineno or node.lineno)
                if isinstance(node, ast.ClassDef) and node.name == wanted and inside:
                    return self.source.name_of(node)  # type: ignore[arg-type]
            elif line in _lines_of(node):
                if isinstance(node, ast.Lambda):
                    return self.source.line_range(node.lineno - 1)
                return self.source.name_of(node)  # type: ignore[arg-type]
        return self.source.header(max(line - 1, 0))

    @cached_property
    def definitions(self) -> list[Definition]:
        tree = self.source.tree
        nodes = ast.walk(tree) if tree is not None else iter(())
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
        return [node for node in nodes if isinstance(node, kinds)]

    def region_result(self, region: LiveRegion, place: Range, part: RegionWork) -> RegionResult:
        breaks_here = {
            (one.id, one.stack[-1] if one.stack else None, one.causes[0].kind)
            for one in part.breaks
        }
        status: Status = "traced"
        error = None
        inlined = not region.calls and self.whole.is_inlined(region)
        if not region.calls and not inlined:
            status, error = "failed", _NOT_CALLED.get(self.whole.ending.how, _NEVER_CALLED)
        elif region.failures and not (part.frames or part.skips or inlined or region.is_export):
            status, error = (
                "failed",
                texts.type_and_message(region.failures[0].error).split("\n")[0],
            )
        site = next(one for one in reversed(region.site) if is_own(one.path))
        report = TargetReport(
            name=self.whole.names[region],
            kind=_region_kind(region),
            range=place,
            status=status,
            mode=self.whole.mode,
            probe=ProbeInfo("program", inputs="", source=self.compiled_by(site)),
            graphs=len(part.graphs),
            ops=part.op_count,
            breaks=len(breaks_here),
            skips=sum(breaks.skip_finding(one, self.source) is not None for one in part.skips),
            guards=part.guard_count,
            recompiles=len(part.recompiles),
            seconds=round(sum(one.seconds for one in part.frames), 4),
            error=error,
            coverage=self.coverage_of(place),
            region=Region(
                program=self.program.path,
                api=region.api,
                site=CompileSite(site.path, self.site_range(site)),
                options=region.options,
                calls=region.calls,
                inlined=inlined,
                is_target=place in (target.range for target in self.targets),
            ),
            compiled=True,
            compilation=self.whole.compilation_of(part),
        )
        return RegionResult(
            report,
            guards.guarded_frames(part, self.source),
            guards.omission_note(part),
            trace_steps.steps_of_recording(part, self.source, place),
        )

    def compiled_by(self, site: Frame) -> str:
        """Describe the other file that compiles a callable; "" if this file compiles it.

        ``site`` is the frame of the ``torch.compile`` call.
        """
        if site.path == self.path:
            return ""
        return f"compiled by {os.path.basename(site.path)}:{site.line + 1}"  # noqa: PTH119

    def site_range(self, site: Frame) -> Range:
        if site.path == self.path:
            return self.source.range_of(site)
        return Range(Position(site.line, 0), Position(site.line, 0))

    def coverage_of(self, place: Range) -> Coverage | None:
        if not self.is_main:
            return None
        body = self.body_at(place)
        lines = self.program.recording.lines
        traced = [one for one in lines.traced if _contains(body, one.start.line)]
        entered = [one for one in lines.entered if _contains(body, one.start.line)]
        return Coverage.from_ranges(traced, entered) if entered else None

    def body_at(self, place: Range) -> Range:
        """Return the range of the whole function or class whose name is at ``place``."""
        for node in self.definitions:
            if node.lineno - 1 <= place.start.line <= (node.end_lineno or node.lineno) - 1:
                named = isinstance(node, ast.Lambda) or self.source.name_of(node) == place  # type: ignore[arg-type]
                if named:
                    end = (node.end_lineno or node.lineno) - 1
                    return Range(Position(node.lineno - 1, 0), Position(end + 1, 0))
        return place

    # -- functions that Dynamo traced inside regions -------------------------------------------

    @property
    def discovery(self) -> Discovery:
        return _discover_targets(self.text, self.path)

    @property
    def targets(self) -> Sequence[Target]:
        return self.discovery.targets

    def reached_targets(self, regions: set[Range]) -> Iterator[TargetReport]:
        """Yield reports about functions and module classes that Dynamo traced inside a region.

        ``regions`` are the ranges of this file that already have a report.
        """
        lines = [
            code.co_firstlineno - 1
            for code in self.program.recorder.entered_code
            if code.co_filename == self.path
        ]
        for target in self.targets:
            if (
                target.kind == "call"
                or target.range in regions
                or not any(_contains(target.body, one) for one in lines)
            ):
                continue
            inside = [
                one
                for one in self.found.values()
                if one.code.startswith("graph-break/")
                and _contains(target.body, one.range.start.line)
            ]
            yield TargetReport(
                name=target.name,
                kind=target.kind,
                range=target.range,
                status="traced",
                mode=self.whole.mode,
                probe=ProbeInfo("program", inputs="", source="inside compiled code"),
                breaks=len(inside),
                compiled=True,
            )

    def uncompiled_targets(
        self, regions: set[Range], reached: list[TargetReport]
    ) -> Iterator[TargetReport]:
        """Yield reports about functions and module classes that the program does not compile.

        Functions in ``reached``, which Dynamo traced inside a compiled callable, are left out, and
        so are the ranges ``regions``. Reports are not made before the program has ended, or if the
        request traces such functions separately.
        """
        how = self.whole.ending.how
        if self.program.request.uncompiled or how == "running":
            return
        error = None if how in ("finished", "quiet") else _STOPPED
        known = regions | {one.range for one in reached}
        for target in self.targets:
            if target.range not in known and target.kind != "call":
                yield TargetReport(
                    name=target.name,
                    kind=target.kind,
                    range=target.range,
                    status="no-probe",
                    mode=self.whole.mode,
                    error=error,
                    compiled=False,
                )


@functools.lru_cache(maxsize=_MOST_PATHS)
def _discover_targets(text: str, path: str) -> Discovery:
    """Find the functions and module classes that can be traced in a file; none if it does not
    parse.
    """
    try:
        return discover(text, path)
    except (SyntaxError, ValueError, RecursionError):
        return Discovery()


def _of_failure(
    failure: Failure, code: str, words: str, source: SourceText, fallback: Range
) -> Finding:
    place = source.locate(failure.stack, fallback)
    return Finding(
        code=code,
        message=f"{words}: {failures.failure_words(failure)}",
        range=place.range,
        explanation=failure.message if "\n" in failure.message else "",
        stack=place.stack,
        related=related_to(place),
        identity=finding_identity(code, place.range),
        evidence=FailureEvidence(failure.kind, failure.phase),
    )


def _continues_after(finding: Finding) -> bool:
    """Whether the call that had a graph break continues after it."""
    return not (
        isinstance(finding.evidence, BreakEvidence) and finding.evidence.outcome == "raised"
    )


def _per_call(cost: BreakCost | None, calls: int) -> BreakCost | None:
    """Convert the cost of a graph break in ``calls`` calls to the average cost in one call."""
    if cost is None or calls < 2:
        return cost

    def mean(total: int) -> int:
        return max(round(total / calls), 1) if total else 0

    cuts = tuple(dataclasses.replace(cut, runs=mean(cut.runs)) for cut in cost.cuts)
    return dataclasses.replace(
        cost,
        met=mean(cost.met),
        cuts=cuts,
        graphs=mean(cost.graphs),
        ops=mean(cost.ops),
        syncs=mean(cost.syncs),
    )


def _raises_eagerly(failed: RegionFailure) -> bool:
    """Whether a failed call raises the same kind of exception when it is repeated without
    Dynamo."""
    call = failed.call
    if call is None:
        return False
    try:
        tracing.call_eagerly(call.function, call.args, call.kwargs)
    except BaseException as error:
        kinds = {type(failed.error).__name__, tracing.failure_of(failed.error).kind}
        return type(error).__name__ in kinds
    return False


def _places_of(recompile: Recompile) -> Stack:
    """Return the locations at which a recompile may be reported, the preferred one last.

    The locations are the callers, the failed guard and the recompiled function. The guard's
    location is not preferred, because it may be in a library that many programs share.
    """
    failed = next((one for one in recompile.failures if one.stack), None)
    function = Frame(recompile.path, recompile.function, recompile.line)
    return (*recompile.stack, *(failed.stack if failed is not None else ()), function)


def _home_of(region: LiveRegion) -> str | None:
    return region.code.co_filename if region.code is not None else None


def _region_kind(region: LiveRegion) -> TargetKind:
    return "module" if region.kind is not None else "function"


def _unique_names(regions: Sequence[LiveRegion]) -> dict[LiveRegion, str]:
    """Give each compiled callable a unique name: the second one called ``name`` is ``name[2]``.

    Callables of the same code object share one name.
    """
    names: dict[LiveRegion, str] = {}
    by_name: dict[str, list[types.CodeType | type | None]] = {}
    for region in regions:
        known = by_name.setdefault(region.name, [])
        same = region.kind or region.code
        known.append(same)
        names[region] = region.name if len(known) == 1 else f"{region.name}[{len(known)}]"
    return names


def _lines_of(node: Definition) -> range:
    """Return the one-based lines at which the code object of a definition may begin; decorators
    count."""
    return range(first_line(node) + 1, node.lineno + 1)


def _contains(body: Range, line: int) -> bool:
    return body.start.line <= line <= body.end.line
