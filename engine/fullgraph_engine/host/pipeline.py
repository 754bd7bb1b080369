"""The interface through which the process host calls the packages that find and trace targets."""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
import os
import sys
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
from . import frames


class PipelineTarget(Protocol):
    """A function, method or module to trace; ``range`` covers its name, ``body`` its whole
    statement."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> TargetKind: ...
    @property
    def range(self) -> Range: ...
    @property
    def body(self) -> Range: ...


class PipelineProbe(Protocol):
    """The inputs that a target is traced with, and where they come from."""

    @property
    def info(self) -> ProbeInfo: ...
    @property
    def waits(self) -> bool:
        """Whether these inputs are used only if an earlier run of the same target requests them."""

    @property
    def after(self) -> tuple[str, ...]:
        """Names of the targets whose runs should end before this run begins."""

    @property
    def users(self) -> tuple[str, ...]:
        """Names of the targets that call this one. Executing the callers once shows the arguments
        of all targets in them."""


class DiscoveredTargets(Protocol):
    """The targets found in a file's text; ``off`` is true if a comment excludes the file from
    analysis."""

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
    """The result of tracing a target once; the implementation is ``findings.runs.Outcome``."""

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
        """Number of the target's waiting inputs to trace after this run."""

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
    """Packed programs that may reproduce a finding, or the reason why there are none.

    ``needs_real`` is the reason to repeat the run with real tensors; None if fake tensors suffice.
    """

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def needs_real(self) -> str | None: ...


class ChosenCases(Protocol):
    """Packed inputs for comparing the behavior of two versions of a file, or the reason why there
    are none."""

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...


class BackendAttempt(Protocol):
    """The result of compiling a target with a ``torch.compile`` backend."""

    @property
    def outcome(self) -> BehaviorOutcome: ...
    @property
    def reason(self) -> str: ...


class Operators(Protocol):
    """A builder of the index of PyTorch's operators, for the installed version."""

    def write_static_index(self, out: Path) -> None:
        """Write the operators listed in the YAML file of PyTorch's bindings to ``out``, without
        importing torch."""

    def write_complete_index(
        self, static: Path | None, scratch: Path, say: Callable[[str], None]
    ) -> Path:
        """Write the index of all operators, including those known only after importing torch;
        return its path.

        ``static`` is the file that ``write_static_index`` wrote, or None. ``say`` receives progress
        messages for the user.
        """


class Pipeline(Protocol):
    """The operations that the process host calls to find, trace, execute and measure targets."""

    def make_operators(self, yaml: str) -> Operators | None:
        """Return the builder of the operator index, or None if torch is not installed. ``yaml`` is
        a folder that contains PyYAML."""

    def torch_version(self) -> str:
        """Import torch and return its version. Exceptions of the import propagate."""

    def warm_up(self) -> None: ...

    def self_check(self) -> tuple[Hook, ...]:
        """Return the private names of torch that fullgraph uses, each with whether it exists in
        this version."""

    def missing_facts(self) -> tuple[Degraded, ...]:
        """Return the kinds of information that cannot be shown because private names of torch are
        missing."""

    def prove_facts(self) -> tuple[Degraded, ...]:
        """Trace a test program and return the kinds of information that this torch version does not
        provide. Call it in a temporary process."""

    def build_key(self) -> str:
        """Return the cache key for the result of ``prove_facts``, which identifies the
        installation; empty if the result must not be cached."""

    def discover(
        self, text: str, path: str, methods: tuple[str, ...] = ()
    ) -> DiscoveredTargets: ...

    def check_text(self, text: str) -> Sequence[RefusedOperator]:
        """Return the operator definitions in ``text`` that torch will reject, before the text is
        executed."""

    def check_registered(self, text: str) -> Sequence[Finding]:
        """Return findings about defects of the operators that ``text`` registered, after it was
        executed."""

    def confirm(self, target: PipelineTarget, namespace: dict[str, Any]) -> bool:
        """Whether ``target``, found by parsing, exists in the executed module's ``namespace`` as a
        function or module to trace."""

    def plan_probes(
        self,
        target: PipelineTarget,
        namespace: dict[str, Any],
        others: Sequence[PipelineTarget],
        recorded: Sequence[RecordedClass],
        examples: Sequence[ExampleKind],
    ) -> Sequence[PipelineProbe]:
        """Return the inputs that a target can be traced with.

        ``others`` are all targets of the file, ``recorded`` are classes seen in a run of the user's
        program, and ``examples`` are the kinds of example code that may be executed.
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
    ) -> tuple[PipelineTarget, int] | None:
        """Execute the callers of targets once, and keep a forked copy of the process at each call
        of a wanted target.

        At each such call ``stay`` forks; it returns True in the copy. There, this method returns
        the target and the number of the inputs of the call. In the original process, it returns
        None at the end.
        """

    def given_call(self, namespace: dict[str, Any]) -> tuple[GivenCall | None, str]:
        """Return a digest of the arguments of the call at which this copy of the process stopped,
        and the source text of the call."""

    def missing_probe(self, target: PipelineTarget, text: str) -> Finding: ...

    def run_target(
        self,
        tracee: Tracee,
        part: Part,
        emit: Callable[[Finding], None],
        run: RunId,
        **options: Any,
    ) -> Outcome:
        """Trace or execute a target; ``part`` is the kind of run. Each finding is passed to
        ``emit`` as soon as it occurs.

        ``options`` may hold ``documents`` (reports to write) and ``watch`` (a stopwatch of the
        run's phases).
        """

    def write_candidates(self, tracee: Tracee, wanted: Wanted, until: float) -> ExtractedCandidates:
        """Trace a target again and write programs that may reproduce the finding. Stop at
        ``until``, a time of ``time.monotonic``."""

    def minimize(self, job: MinimizationJob, around: Surroundings, say: Say) -> None:
        """Minimize a program that ``write_candidates`` packed. The calling process has not executed
        user code."""

    def choose_cases(self, tracee: Tracee, order: Observe) -> ChosenCases:
        """Choose inputs with which to compare the behavior of the original file and its changed
        version."""

    def record_behavior(self, tracee: Tracee, order: Observe, part: Part, probe: int) -> None:
        """Call a target with the chosen inputs and write the results to the scratch folder named in
        ``order``."""

    def try_backend(
        self,
        tracee: Tracee,
        order: Observe,
        probe: int,
        let_start: Callable[[frozenset[str]], bool],
    ) -> BackendAttempt:
        """Compile a target with Inductor and call it with the first chosen inputs. ``let_start``
        permits programs, such as a C++ compiler, to be started."""

    def measure(self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
        """Measure how long eager and compiled calls of a target take. ``let_start`` permits
        programs, such as a C++ compiler, to be started."""

    def judge_behavior(
        self,
        texts: tuple[str, str],
        lines: tuple[tuple[int, ...], tuple[int, ...]],
        folders: tuple[str, str],
        cases: tuple[str, ...],
        ended: str,
    ) -> Judged:
        """Compare the recorded behavior of two versions of a file. The first of each pair belongs
        to the original version."""

    def is_program(self, text: str, path: str, roots: tuple[str, ...]) -> bool:
        """Whether a text is a program to run rather than a module to import; False if it has a
        syntax error."""

    def make_program(
        self,
        path: str,
        text: str,
        request: ProgramRequest,
        stop: Callable[[Any], None],
        lacks: Lack,
    ) -> Any:
        """Return the ``programs.Program`` that runs the user's file; ``stop`` is called to end the
        process."""

    def program_results(self, program: Any, ending: Any, text_of: Callable[[str], str]) -> Any:
        """Return the ``programs.results.ProgramResults`` of a program's run, which may still be
        incomplete."""

    def without_tracing(self) -> AbstractContextManager[Any]:
        """Return a context manager under which functions made by ``torch.compile`` run eagerly."""

    def fake_mode(self) -> AbstractContextManager[Any]:
        """Return a context manager that makes tensors fake. All runs forked from this process share
        its mode."""

    def pass_over(self, code: CodeType) -> None:
        """Make Dynamo skip the frames of ``code``."""

    def disable_tracing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a version of ``function`` that Dynamo does not trace, and neither the functions it
        calls."""

    def audit_native_writes(self) -> None:
        """Raise Python's audit event for opening a file also where PyTorch's C++ code writes
        files."""

    def note_registrations(self) -> None:
        """Start recording the source position at which each operator is registered."""

    def may_register(self, text: str) -> bool:
        """Whether executing ``text`` may register operators. Then it is executed even without
        targets."""

    def registered_operators(self) -> tuple[Operator, ...]:
        """Return the operators that were registered since this process was forked."""

    def note_operator_calls(self) -> None:
        """Start recording the results of operators on fake tensors in the process of a run."""

    def operator_calls(self) -> str:
        """Return the recorded results of operators on fake tensors, packed; empty if none were
        recorded."""

    def repeat_operator_calls(self, packed: str) -> Iterator[None]:
        """Repeat the operator calls that a run packed, one per step of the iterator. Processes
        forked afterwards reuse the cached results."""

    def check_operator_calls(self) -> None:
        """Discard cached results of operators that user code may have redefined since they were
        recorded."""

    def before_forks(self) -> None:
        """Prepare this process for forking; for example, stop threads, which do not survive a
        fork."""

    def user_stack(self, frame: FrameType | None) -> tuple[Frame, ...]:
        """Return the stack of user code. While Dynamo traces a function, the stack includes the
        frames that Dynamo is evaluating."""


class RealPipeline:
    """A pipeline that calls the engine's own packages. They import torch, so each is imported on
    first use."""

    def make_operators(self, yaml: str) -> Operators | None:
        from ..operators.stages import InstalledOperators

        return InstalledOperators.find_installed(yaml)

    def torch_version(self) -> str:
        import torch

        return str(torch.__version__)

    def warm_up(self) -> None:
        import torch

        from .. import targets, tracing  # noqa: F401
        from ..behavior import comparing, search  # noqa: F401
        from ..findings import run_target  # noqa: F401
        from ..operators import definitions, registered  # noqa: F401
        from ..programs import results  # noqa: F401
        from ..repro import settings

        torch.set_num_threads(1)
        settings.remember_settings()
        tracing.warm_up()
        _read_own_lines()
        registered.take_baseline()

    def self_check(self) -> tuple[Hook, ...]:
        from ..torch_internals import census

        return census.list_hooks()

    def missing_facts(self) -> tuple[Degraded, ...]:
        from ..torch_internals import census

        return census.find_degraded_facts()

    def prove_facts(self) -> tuple[Degraded, ...]:
        from ..tracing import proof

        return proof.prove()

    def build_key(self) -> str:
        from ..tracing import proof

        return proof.installation_digest()

    def discover(self, text: str, path: str, methods: tuple[str, ...] = ()) -> DiscoveredTargets:
        from .. import targets

        return targets.discover(text, path, methods)

    def check_text(self, text: str) -> Sequence[RefusedOperator]:
        from ..operators import definitions

        return definitions.find_invalid_definitions(text)

    def check_registered(self, text: str) -> Sequence[Finding]:
        from ..operators import definitions

        return definitions.check_registered_operators(text)

    def confirm(self, target: Any, namespace: dict[str, Any]) -> bool:
        from .. import targets

        return targets.is_confirmed(target, namespace)

    def plan_probes(
        self,
        target: Any,
        namespace: dict[str, Any],
        others: Sequence[Any],
        recorded: Sequence[RecordedClass],
        examples: Sequence[ExampleKind],
    ) -> Sequence[PipelineProbe]:
        from .. import targets

        return targets.plan_probes(target, namespace, others, recorded, examples)

    def leave_snapshots(
        self,
        wanted: Sequence[tuple[Any, Any]],
        namespace: dict[str, Any],
        text: str,
        stay: Callable[[], bool],
        *,
        fake: bool,
        found: Sequence[FoundProbe],
    ) -> tuple[PipelineTarget, int] | None:
        from .. import tracing
        from ..targets import enclosing, searched

        tracing.want_cuda_for(text)
        searched.remember_found(found)
        called, calls = [target for target, _ in wanted], wanted[0][1].enclosing()
        at = enclosing.leave_snapshots(called, calls, namespace, stay, fake=fake)
        return (at.target, at.number) if at is not None else None

    def given_call(self, namespace: dict[str, Any]) -> tuple[GivenCall | None, str]:
        from ..targets import enclosing, given_calls

        snapshot = enclosing.current_snapshot()
        if snapshot is None:
            return None, ""
        return given_calls.digest_snapshot(snapshot, namespace), snapshot.call.source

    def missing_probe(self, target: Any, text: str) -> Finding:
        from .. import targets

        return targets.missing_probe(target, text)

    def run_target(
        self,
        tracee: Tracee,
        part: Part,
        emit: Callable[[Finding], None],
        run: RunId,
        **options: Any,
    ) -> Outcome:
        from ..findings import run_target

        return run_target(tracee, part, emit, run, **options)

    def write_candidates(self, tracee: Tracee, wanted: Wanted, until: float) -> ExtractedCandidates:
        from ..repro.extract import candidates

        return candidates.extract_candidates(tracee, wanted, until)

    def minimize(self, job: MinimizationJob, around: Surroundings, say: Say) -> None:
        from ..repro.candidate import Candidates
        from ..repro.reduce import minimize

        candidates = Candidates.from_json(job.packed)
        kind = minimize.ProgramMinimizer
        if candidates.backend is not None:
            from ..repro import graphs

            kind = graphs.GraphMinimizer
        kind(candidates, job, around, say).run()

    def choose_cases(self, tracee: Tracee, order: Observe) -> ChosenCases:
        from ..behavior import search

        return search.choose_cases(tracee, order)

    def record_behavior(self, tracee: Tracee, order: Observe, part: Part, probe: int) -> None:
        from ..behavior import observing

        observing.observe_cases(tracee, order, part, probe)

    def try_backend(
        self,
        tracee: Tracee,
        order: Observe,
        probe: int,
        let_start: Callable[[frozenset[str]], bool],
    ) -> BackendAttempt:
        from ..behavior import backend

        return backend.check_compiled(tracee, order, probe, let_start)

    def measure(self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
        from ..behavior import speed

        return speed.measure_calls(tracee, let_start)

    def judge_behavior(
        self,
        texts: tuple[str, str],
        lines: tuple[tuple[int, ...], tuple[int, ...]],
        folders: tuple[str, str],
        cases: tuple[str, ...],
        ended: str,
    ) -> Judged:
        from ..behavior import comparing

        return comparing.compare_folders(texts, lines, folders, cases, ended)

    def is_program(self, text: str, path: str, roots: tuple[str, ...]) -> bool:
        from .. import programs

        try:
            return programs.is_program(text, path, roots)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False

    def make_program(
        self,
        path: str,
        text: str,
        request: ProgramRequest,
        stop: Callable[[Any], None],
        lacks: Lack,
    ) -> Any:
        from .. import programs

        return programs.Program(path, text, request, stop, lacks)

    def program_results(self, program: Any, ending: Any, text_of: Callable[[str], str]) -> Any:
        from ..programs.results import ProgramResults

        return ProgramResults(program, ending, text_of)

    def without_tracing(self) -> AbstractContextManager[Any]:
        import torch

        eager: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return eager

    def fake_mode(self) -> AbstractContextManager[Any]:
        from .. import tracing

        return tracing.tensor_mode(True)

    def pass_over(self, code: CodeType) -> None:
        from ..torch_internals import frames as upstream

        upstream.skip_code(code)

    def disable_tracing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        return torch.compiler.disable(function)  # type: ignore[no-any-return]

    def audit_native_writes(self) -> None:
        import torch

        # torch.save opens files with this class. Replacing torch.save itself would be visible to
        # Dynamo.
        writer = getattr(torch.serialization, "_open_zipfile_writer_file", None)
        if writer is None:
            return
        original = writer.__init__

        def init_with_audit(self: Any, name: Any) -> None:
            sys.audit("open", name, "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            original(self, name)

        writer.__init__ = init_with_audit

    def note_registrations(self) -> None:
        from ..operators import registered

        registered.record_definition_places()

    def may_register(self, text: str) -> bool:
        from ..operators import registered

        return registered.may_register(text)

    def registered_operators(self) -> tuple[Operator, ...]:
        from ..operators import registered

        return registered.operators_since_baseline()

    def note_operator_calls(self) -> None:
        from ..tracing import operator_calls

        operator_calls.begin_recording()

    def operator_calls(self) -> str:
        from ..tracing import operator_calls

        return operator_calls.pack_calls()

    def repeat_operator_calls(self, packed: str) -> Iterator[None]:
        from ..tracing import operator_calls

        return operator_calls.repeat_calls(packed)

    def check_operator_calls(self) -> None:
        from ..tracing import operator_calls

        operator_calls.drop_outdated_entries()

    def before_forks(self) -> None:
        import torch

        # A forked process does not have the threads of a thread pool, so use a single thread.
        torch.set_num_threads(1)

    def user_stack(self, frame: FrameType | None) -> tuple[Frame, ...]:
        from ..torch_internals.frames import find_translator
        from ..tracing import stacks

        live = tuple(f for f in frames.of_stack(frame) if not stacks.is_machinery(f.path))
        translator = find_translator(frame)
        if translator is None:
            return live
        return stacks.join_stacks(live, stacks.stack_of_translator(translator))


def _read_own_lines() -> None:
    """Cache the source lines of the engine's modules before forking. Each new fake tensor mode
    formats a stack, which would read them in every run."""
    own = (__package__, "fullgraph_engine.findings.runs", contextlib.__name__, "__main__")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) if name.startswith(own) else None
        if file is not None:
            linecache.getlines(file)


def choose_pipeline(option: str) -> Pipeline:
    """Return the engine's own pipeline for an empty option. For ``FILE:NAME``, call ``NAME`` of
    that file and return the result."""
    if not option:
        return RealPipeline()
    file, _, name = option.rpartition(":")
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return getattr(module, name)()  # type: ignore[no-any-return]
