"""Interface between the process host and the engine's analysis packages.

The host calls only this module for targets, findings and tracing. Tests replace the implementation
(``boot.py --pipeline FILE:NAME``) to test processes without torch.
"""

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
    """A target as the host sees it; ``range`` covers its name, ``body`` its whole statement."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> TargetKind: ...
    @property
    def range(self) -> Range: ...
    @property
    def body(self) -> Range: ...


class PipelineProbe(Protocol):
    """A probe as the host sees it."""

    @property
    def info(self) -> ProbeInfo: ...
    @property
    def waits(self) -> bool:
        """Whether the run of another probe of the target decides if this one is needed."""

    @property
    def after(self) -> tuple[str, ...]:
        """Names of targets whose runs should end before."""

    @property
    def users(self) -> tuple[str, ...]:
        """Names of targets that call this one; one run of them shows the arguments of all their
        callees."""


class DiscoveredTargets(Protocol):
    """The targets found in a text; ``off`` is true if a comment excludes the file."""

    @property
    def targets(self) -> Sequence[PipelineTarget]: ...
    @property
    def off(self) -> bool: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


class RefusedOperator(Protocol):
    """An operator definition that torch will refuse, and the call that will raise."""

    @property
    def finding(self) -> Finding: ...
    @property
    def call(self) -> Range: ...


class Outcome(Protocol):
    """The result of a run; see ``findings.runs.Outcome``."""

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
        """Number of waiting probes to run after this one."""

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

    ``needs_real`` is the reason to repeat the run with real tensors.
    """

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def needs_real(self) -> str | None: ...


class ChosenCases(Protocol):
    """Packed test cases for comparing two texts, or the reason why there are none."""

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...


class BackendAttempt(Protocol):
    """The result of compiling a target with a backend."""

    @property
    def outcome(self) -> BehaviorOutcome: ...
    @property
    def reason(self) -> str: ...


class Operators(Protocol):
    """A builder of the operator index for the installed torch."""

    def write_static_index(self, out: Path) -> None:
        """Write the index from the binding YAML to ``out``, without importing torch."""

    def write_complete_index(
        self, static: Path | None, scratch: Path, say: Callable[[str], None]
    ) -> Path:
        """Write the complete index, including what only the running torch knows; return its path.

        ``static`` is the file that ``write_static_index`` wrote. ``say`` receives progress messages
        for the user.
        """


class Pipeline(Protocol):
    """The operations that the host calls; ``run_target`` passes findings to ``emit`` as they
    occur."""

    def make_operators(self, yaml: str) -> Operators | None:
        """Return the index builder, or None without torch. ``yaml`` is a folder that contains
        PyYAML."""

    def torch_version(self) -> str:
        """Import torch and return its version; errors of the import propagate."""

    def warm_up(self) -> None: ...

    def self_check(self) -> tuple[Hook, ...]:
        """Return the private names of torch that fullgraph uses, and whether they exist."""

    def missing_facts(self) -> tuple[Degraded, ...]:
        """Return the facts that cannot be shown because private names of torch are missing."""

    def prove_facts(self) -> tuple[Degraded, ...]:
        """Trace a test program and return the unobservable facts; call it in a temporary
        process."""

    def build_key(self) -> str:
        """Return a cache key for the result of ``prove_facts``; empty if it must not be cached."""

    def discover(
        self, text: str, path: str, methods: tuple[str, ...] = ()
    ) -> DiscoveredTargets: ...

    def check_text(self, text: str) -> Sequence[RefusedOperator]:
        """Return the wrong operator definitions of a text before it is executed."""

    def check_registered(self, text: str) -> Sequence[Finding]:
        """Return findings about the operators that a text defined, after it was executed."""

    def confirm(self, target: PipelineTarget, namespace: dict[str, Any]) -> bool:
        """Whether a target found in the text really is one, according to the executed module."""

    def plan_probes(
        self,
        target: PipelineTarget,
        namespace: dict[str, Any],
        others: Sequence[PipelineTarget],
        recorded: Sequence[RecordedClass],
        examples: Sequence[ExampleKind],
    ) -> Sequence[PipelineProbe]:
        """Return the probes of a target.

        ``others`` are all targets of the text, ``recorded`` comes from a run of the program, and
        ``examples`` may be executed.
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
        """Execute the callers of targets once, and leave a process at each call of a wanted target.

        At each such call ``stay`` forks and returns True in the process that stays. In that
        process, this method returns the target and the number of the probe whose call is about to
        happen.
        """

    def given_call(self, namespace: dict[str, Any]) -> tuple[GivenCall | None, str]:
        """Return the arguments of the call at which this process has stayed, and a description of
        it."""

    def missing_probe(self, target: PipelineTarget, text: str) -> Finding: ...

    def run_target(
        self,
        tracee: Tracee,
        part: Part,
        emit: Callable[[Finding], None],
        run: RunId,
        **options: Any,
    ) -> Outcome:
        """Trace one part of a run.

        ``options`` has optional arguments: ``documents`` to write, and a stop ``watch``.
        """

    def write_candidates(self, tracee: Tracee, wanted: Wanted, until: float) -> ExtractedCandidates:
        """Trace a target again and write programs that may reproduce the finding, ``until`` a time
        of ``time.monotonic``."""

    def minimize(self, job: MinimizationJob, around: Surroundings, say: Say) -> None:
        """Minimize a program that ``write_candidates`` packed, in a process without user code."""

    def choose_cases(self, tracee: Tracee, order: Observe) -> ChosenCases:
        """Choose inputs for comparing the behavior of a text and its changed version."""

    def record_behavior(self, tracee: Tracee, order: Observe, part: Part, probe: int) -> None:
        """Execute the test cases and write the results to the scratch folder."""

    def try_backend(
        self,
        tracee: Tracee,
        order: Observe,
        probe: int,
        let_start: Callable[[frozenset[str]], bool],
    ) -> BackendAttempt:
        """Compile a target with Inductor and call it on the first test cases."""

    def measure(self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
        """Measure the time of eager and compiled calls of a target."""

    def judge_behavior(
        self,
        texts: tuple[str, str],
        lines: tuple[tuple[int, ...], tuple[int, ...]],
        folders: tuple[str, str],
        cases: tuple[str, ...],
        ended: str,
    ) -> Judged:
        """Judge the recorded behavior of two texts; the first of each pair belongs to the
        original."""

    def is_program(self, text: str, path: str, roots: tuple[str, ...]) -> bool:
        """Whether a text is a program; false for a text with a syntax error."""

    def make_program(
        self,
        path: str,
        text: str,
        request: ProgramRequest,
        stop: Callable[[Any], None],
        lacks: Lack,
    ) -> Any:
        """Return a ``programs.Program``, ready to run; ``stop`` ends the process."""

    def program_results(self, program: Any, ending: Any, text_of: Callable[[str], str]) -> Any:
        """Return the ``programs.results.ProgramResults`` of a run, or of its part so far."""

    def without_tracing(self) -> AbstractContextManager[Any]:
        """Return a context in which ``torch.compile`` returns functions that run eagerly."""

    def fake_mode(self) -> AbstractContextManager[Any]:
        """Return a context with fake tensors; runs of this process enter the same mode."""

    def pass_over(self, code: CodeType) -> None:
        """Make the tracer skip a code object wherever it occurs."""

    def disable_tracing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function with tracing disabled in it and its callees."""

    def audit_native_writes(self) -> None:
        """Make writes through C++ raise the same audit events as Python's own."""

    def note_registrations(self) -> None:
        """Start recording where operators are registered."""

    def may_register(self, text: str) -> bool:
        """Whether a text may register operators, so that it is executed even without targets."""

    def registered_operators(self) -> tuple[Operator, ...]:
        """Return the operators that this process has and the parent process does not have."""

    def note_operator_calls(self) -> None:
        """Start recording the results of operators on fake tensors; call it in a run."""

    def operator_calls(self) -> str:
        """Return the recorded operator calls, packed; empty without any."""

    def repeat_operator_calls(self, packed: str) -> Iterator[None]:
        """Repeat the operator calls of a run, one per step, so that processes forked from this one
        reuse the results."""

    def check_operator_calls(self) -> None:
        """Discard cached operator results that user code may have invalidated since."""

    def before_forks(self) -> None:
        """Prepare a process for forking others."""

    def user_stack(self, frame: FrameType | None) -> tuple[Frame, ...]:
        """Return the user's stack, also while the tracer evaluates a frame symbolically."""


class RealPipeline:
    """The engine's own packages, imported on first use because they import torch."""

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

        # torch.save opens files with this class. Replacing torch.save itself would show in traces.
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

        # A thread pool does not survive a fork; a single thread needs none.
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
    """Read source lines early, since a fake tensor mode formats the stack of its creation in each
    run."""
    own = (__package__, "fullgraph_engine.findings.runs", contextlib.__name__, "__main__")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) if name.startswith(own) else None
        if file is not None:
            linecache.getlines(file)


def choose_pipeline(option: str) -> Pipeline:
    """Return the real pipeline, or the object ``NAME`` of the file in ``FILE:NAME``."""
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
