"""The interface through which the process host calls the packages that find and trace targets.

A target is a function or module class of the user's file. Tests replace the pipeline, so that
processes can be tested without torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Protocol

from ..protocol import (
    BehaviorOutcome,
    ExampleKind,
    Finding,
    FoundProbe,
    Frame,
    GivenCall,
    Hook,
    Measurement,
    NumericsVerdict,
    Observe,
    Part,
    ProbeInfo,
    ProgramRequest,
    Range,
    RecordedClass,
    RunId,
    SeenValue,
    TargetKind,
    TargetReport,
    TracedPaths,
    UncalledTarget,
    Wanted,
)
from ..protocol.behavior import Judged
from ..protocol.facts import Degraded
from ..protocol.guards import GuardedFrame
from ..protocol.operators import Operator
from ..protocol.regions import Lack
from ..protocol.shapes import PlaceShapes
from ..protocol.timings import DynamoTime, FrameTime
from ..protocol.trace_steps import TraceStep
from ..repro.job import MinimizationJob, Say, Surroundings
from ..targets import Tracee


class PipelineTarget(Protocol):
    """A function, method or module class of the user's file to trace.

    ``range`` covers its name, ``body`` its whole statement.
    """

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> TargetKind: ...
    @property
    def range(self) -> Range: ...
    @property
    def body(self) -> Range: ...
    @property
    def body_of_call(self) -> Range | None:
        """Source range of the function that a call of the target executes; None if it is not
        defined in ``body``."""

    @property
    def used_by(self) -> Sequence[str]:
        """Names of the targets whose code mentions this one, directly or indirectly."""


class PipelineProbe(Protocol):
    """One set of example inputs that a target (a function or module class) is traced with, and
    their origin."""

    @property
    def info(self) -> ProbeInfo: ...
    @property
    def waits(self) -> bool:
        """Whether the target is traced with these inputs only if an earlier run of the same target
        requests it."""

    @property
    def after(self) -> tuple[str, ...]:
        """Names of the targets whose runs must end before, because these inputs may depend on their
        results."""

    @property
    def users(self) -> tuple[str, ...]:
        """Names of the targets that call this one.

        Executing these callers once shows the arguments of every target that they call.
        """

    @property
    def is_guess(self) -> bool:
        """Whether the user did not state the inputs for this target."""


class DiscoveredTargets(Protocol):
    """The targets (functions and module classes) found in a file's text; ``off`` is true if a
    comment excludes the file from analysis."""

    @property
    def targets(self) -> Sequence[PipelineTarget]: ...
    @property
    def off(self) -> bool: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


class RefusedOperator(Protocol):
    """An operator definition that ``torch.library`` will reject, and the call that will raise the
    exception."""

    @property
    def finding(self) -> Finding: ...
    @property
    def call(self) -> Range: ...


class Outcome(Protocol):
    """The interface of the result of one run of a target (a function or module class).
    ``findings.runs.RunOutcome`` implements it."""

    @property
    def report(self) -> TargetReport: ...
    @property
    def findings(self) -> Sequence[Finding]: ...
    @property
    def needs_real(self) -> str | None: ...
    @property
    def values(self) -> Sequence[SeenValue]: ...
    @property
    def shapes(self) -> Sequence[PlaceShapes]: ...
    @property
    def shapes_note(self) -> str: ...
    @property
    def guards(self) -> Sequence[GuardedFrame]: ...
    @property
    def guards_note(self) -> str: ...
    @property
    def steps(self) -> Sequence[TraceStep]: ...
    @property
    def further(self) -> int:
        """Number of the target's further sets of inputs that should now be traced too; they are
        planned, but traced only on request."""

    @property
    def raised(self) -> bool: ...
    @property
    def known(self) -> str: ...
    @property
    def paths(self) -> TracedPaths | None: ...
    @property
    def unfound(self) -> FoundProbe | None: ...
    @property
    def frame_times(self) -> tuple[FrameTime, ...]: ...
    @property
    def dynamo_times(self) -> tuple[DynamoTime, ...]: ...
    @property
    def cache_misses(self) -> int: ...


class ExtractedCandidates(Protocol):
    """Packed programs that may reproduce a finding, or the reason why none could be written.

    ``needs_real`` is the reason to repeat the run with real tensors; None if fake tensors suffice.
    """

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def needs_real(self) -> str | None: ...


class ChosenCases(Protocol):
    """Packed inputs on which two versions of a file are called to compare their behavior, or the
    reason why there are none."""

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...


class BackendAttempt(Protocol):
    """The result of compiling a target with a ``torch.compile`` backend and calling it."""

    @property
    def outcome(self) -> BehaviorOutcome: ...
    @property
    def reason(self) -> str: ...


class JudgedNumerics(Protocol):
    """The comparison of compiled and eager results of a target with float64.

    If results are wrong, ``operation`` is the name of the first wrong operation in Dynamo's graph,
    and ``stack`` the user's stack, without columns; both are empty if unknown.
    ``is_captured_wrong``: Dynamo's graphs give the wrong result even in eager mode.
    """

    @property
    def verdict(self) -> NumericsVerdict: ...
    @property
    def operation(self) -> str: ...
    @property
    def stack(self) -> tuple[Frame, ...]: ...
    @property
    def is_captured_wrong(self) -> bool: ...


class Operators(Protocol):
    """A builder of the index of PyTorch's operators, for the installed version of torch."""

    def write_static_index(self, out: Path) -> None:
        """Write the operators listed in the YAML file of PyTorch's bindings to ``out``, without
        importing torch."""

    def write_complete_index(
        self, static: Path | None, scratch: Path, say: Callable[[str], None]
    ) -> Path:
        """Write the index of all operators, including those known only after importing torch;
        return its path.

        ``static`` is the file that ``write_static_index`` wrote, or None. Temporary files are in
        ``scratch``. ``say`` receives progress messages for the user.
        """


class ProofPipeline(Protocol):
    """Operations that determine which facts about a trace (for example graphs or guards) the
    installed torch can show."""

    def missing_facts(self) -> tuple[Degraded, ...]:
        """Return the facts about a trace that cannot be shown because this torch lacks private
        names that the engine uses."""

    def prove_facts(self) -> tuple[Degraded, ...]:
        """Trace a test program, and return the facts (such as graphs or guards) that this torch
        does not show.

        Call it in a temporary process.
        """

    def build_key(self) -> str:
        """Return a key of the torch installation, under which the result of ``prove_facts`` is
        cached; empty if it must not be cached."""


class EnginePipeline(ProofPipeline, Protocol):
    """The operations of the engine's main process, which need torch but no file of the user."""

    def make_operators(self, yaml: str) -> Operators | None:
        """Return the builder of the operator index, or None if torch is not installed. ``yaml`` is
        a folder that contains PyYAML."""

    def torch_version(self) -> str:
        """Import torch and return its version. Exceptions of the import propagate."""

    def warm_up(self) -> None: ...

    def self_check(self) -> tuple[Hook, ...]:
        """Return the private names of torch that fullgraph uses, each with whether it exists in
        this version."""


class SandboxPipeline(Protocol):
    """The operations that every process with user code needs to set up the sandbox."""

    def pass_over(self, code: CodeType) -> None:
        """Make Dynamo skip frames of ``code``, which is code of the engine."""

    def disable_tracing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a wrapper of ``function``; Dynamo traces neither the function nor the functions
        that it calls."""

    def audit_native_writes(self) -> None:
        """Raise Python's audit event for opening a file also where PyTorch's C++ code writes
        files."""

    def before_forks(self) -> None:
        """Prepare this process for forking; for example, stop threads, which do not survive a
        fork."""


class FilePipeline(SandboxPipeline, Protocol):
    """The operations of every process that executes a file of the user, whether as a module or as a
    program."""

    def check_text(self, text: str) -> Sequence[RefusedOperator]:
        """Return the operator definitions in ``text`` that torch will reject, before the text is
        executed."""

    def check_registered(self, text: str) -> Sequence[Finding]:
        """Return findings about defects of the operators that ``text`` registered, after it was
        executed."""

    def note_registrations(self) -> None:
        """Start recording the source position at which each operator is registered."""

    def may_register(self, text: str) -> bool:
        """Whether executing ``text`` may register operators. Then it is executed even without
        targets."""


class RunPipeline(Protocol):
    """The operations of a run, a process that traces one target (a function or module class) with
    one set of inputs."""

    def run_target(
        self,
        tracee: Tracee,
        part: Part,
        emit: Callable[[Finding], None],
        run: RunId,
        **options: Any,
    ) -> Outcome:
        """Trace or execute a target for the purpose ``part``, such as a forecast of recompiles;
        return the result.

        Each finding is passed to ``emit`` as soon as it occurs. ``run`` identifies the run.
        ``options`` may hold ``documents`` (documents to write) and ``watch`` (a stopwatch of the
        run's phases).
        """

    def write_candidates(self, tracee: Tracee, wanted: Wanted, until: float) -> ExtractedCandidates:
        """Trace a target again, and return programs that may reproduce the finding ``wanted``.

        Stop at ``until``, a time of ``time.monotonic``.
        """

    def choose_cases(self, tracee: Tracee, order: Observe) -> ChosenCases:
        """Choose inputs with which the original and a changed version of the file are called, to
        compare their behavior.

        ``order`` describes the comparison.
        """

    def record_behavior(self, tracee: Tracee, order: Observe, part: Part, probe: int) -> None:
        """Call a target with inputs chosen before, and write what the calls did to files in the
        scratch folder.

        ``order`` has the inputs, and ``probe`` is the number of the target's example call that they
        belong to.
        """

    def try_backend(
        self,
        tracee: Tracee,
        order: Observe,
        probe: int,
        let_start: Callable[[frozenset[str]], bool],
    ) -> BackendAttempt:
        """Compile a target with Inductor, and call it with the first inputs in ``order``.

        ``probe`` is the number of its example call. ``let_start`` allows user code to start the
        named programs, such as a C++ compiler, and returns whether it does.
        """

    def prepare_compiler(self, let_start: Callable[[frozenset[str]], bool]) -> None:
        """Fill the caches that Inductor needs before its first compilation, such as precompiled
        headers, so that later processes of the engine find them.

        ``let_start`` allows this process to start the named programs, such as a C++ compiler, and
        returns whether it does.
        """

    def measure(self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
        """Measure how long eager and compiled calls of a target take.

        ``let_start`` allows user code to start the named programs, such as a C++ compiler, and
        returns whether it does.
        """

    def judge_numerics(
        self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]
    ) -> JudgedNumerics:
        """Compare compiled and eager results of a target with float64.

        ``let_start`` allows user code to start the named programs, such as a C++ compiler, and
        returns whether it does.
        """

    def note_operator_calls(self) -> None:
        """Start recording the calls of operators on fake tensors in this process, so that other
        processes can repeat them."""

    def operator_calls(self) -> str:
        """Return the recorded calls of operators on fake tensors, packed as text; empty if there
        are none."""

    def user_stack(self, frame: FrameType | None) -> tuple[Frame, ...]:
        """Return the stack of user code. While Dynamo traces a function, the stack includes the
        frames that Dynamo is evaluating."""


class ModulePipeline(FilePipeline, RunPipeline, Protocol):
    """The operations of the process that executes the user's file, which also becomes a run."""

    def discover(
        self, text: str, path: str, methods: tuple[str, ...] = (), functions: tuple[str, ...] = ()
    ) -> DiscoveredTargets: ...

    def confirm(self, target: PipelineTarget, namespace: dict[str, Any]) -> bool:
        """Whether ``target``, found in the text, exists in the executed file's ``namespace`` as a
        function or module class to trace."""

    def plan_probes(
        self,
        target: PipelineTarget,
        namespace: dict[str, Any],
        others: Sequence[PipelineTarget],
        recorded: Sequence[RecordedClass],
        examples: Sequence[ExampleKind],
        callers: Sequence[str],
    ) -> Sequence[PipelineProbe]:
        """Return the sets of inputs that a target can be traced with.

        ``others`` are all targets of the file, ``recorded`` are calls recorded in a run of the
        user's program, and ``examples`` are the kinds of example code that may be executed to see
        its calls. ``callers`` are paths of programs that may be executed for the same purpose.
        """

    def leave_snapshots(
        self,
        wanted: Sequence[tuple[PipelineTarget, PipelineProbe]],
        namespace: dict[str, Any],
        text: str,
        stay: Callable[[], bool],
        *,
        fake: bool,
        found: Sequence[FoundProbe],
    ) -> tuple[PipelineTarget, int] | tuple[UncalledTarget, ...]:
        """Execute the callers of some targets, and fork a waiting copy of the process at each call
        of a target in ``wanted``.

        ``stay`` performs the fork; it returns True in the copy. In the copy, this method then
        returns the target and the number of the call. In the original process, this method returns
        the targets that were not called, when all callers were executed. ``fake`` selects fake
        tensors; ``found`` are inputs that searches found.
        """

    def given_call(self, namespace: dict[str, Any]) -> tuple[GivenCall | None, str]:
        """Return a digest of the arguments of the call at which this copy of the process waits, and
        the source text of the call.

        The digest is None if some arguments cannot be read.
        """

    def missing_probe(self, target: PipelineTarget, text: str) -> Finding: ...

    def registered_operators(self) -> tuple[Operator, ...]:
        """Return the custom operators that were registered with torch since this process was
        forked."""

    def without_tracing(self) -> AbstractContextManager[Any]:
        """Return a context manager under which functions made by ``torch.compile`` run eagerly."""

    def fake_mode(self) -> AbstractContextManager[Any]:
        """Return a context manager under which tensors are fake.

        All processes forked from this one share its fake tensor mode.
        """

    def repeat_operator_calls(self, packed: str) -> Iterator[None]:
        """Repeat packed calls of operators on fake tensors, one per step of the iterator, to fill
        torch's fake tensor cache.

        Processes forked afterwards reuse the cached results.
        """

    def check_operator_calls(self) -> None:
        """Discard cached results of operators that the user's file may have redefined since they
        were cached."""


class ProgramPipeline(FilePipeline, Protocol):
    """The operations of a process that executes the user's file as a program."""

    def is_program(self, text: str, path: str, roots: tuple[str, ...]) -> bool:
        """Whether a text does something when executed and may compile or export something; False if
        it has a syntax error."""

    def make_program(
        self,
        path: str,
        text: str,
        request: ProgramRequest,
        stop: Callable[[Any], None],
        lacks: Lack,
    ) -> Any:
        """Return an object (``programs.Program``) that runs the user's file as a program.

        ``stop`` is called to end the process. ``lacks`` is a resource missing on this machine, such
        as a GPU, because of which fake tensors are used.
        """

    def program_results(self, program: Any, ending: Any, text_of: Callable[[str], str]) -> Any:
        """Return the results (``programs.results.ProgramResults``) of a program's run so far;
        ``ending`` describes how it ended, and ``text_of`` returns the text of a file."""


class ReproPipeline(SandboxPipeline, Protocol):
    """The operations of a process that minimizes a program, or that compares two versions of a
    file."""

    def minimize(self, job: MinimizationJob, around: Surroundings, say: Say) -> None:
        """Minimize one of the programs packed by ``write_candidates``.

        ``around`` executes the smaller versions, and ``say`` reports progress. The calling process
        has not executed user code.
        """

    def judge_behavior(
        self,
        texts: tuple[str, str],
        lines: tuple[tuple[int, ...], tuple[int, ...]],
        folders: tuple[str, str],
        cases: tuple[str, ...],
        ended: str,
    ) -> Judged:
        """Compare what two versions of a file did in their recorded calls.

        The first of each pair belongs to the original version. ``lines`` are the line numbers that
        only one version has. ``ended`` is the reason why the changed version's run ended early, or
        empty.
        """


class Pipeline(EnginePipeline, ModulePipeline, ProgramPipeline, ReproPipeline, Protocol):
    """All operations that the process host calls to find, trace, execute and measure targets."""
