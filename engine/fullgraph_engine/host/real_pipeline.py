"""The pipeline that calls the engine's own packages; only tests replace it.

The packages import torch, so each function imports what it needs on first use. There is one class
for each part of the interface in ``pipeline``.
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
from typing import Any

from ..protocol import (
    ExampleKind,
    Finding,
    FoundProbe,
    Frame,
    GivenCall,
    Hook,
    Measurement,
    Observe,
    Part,
    ProgramRequest,
    RecordedClass,
    RunId,
    UncalledTarget,
    Wanted,
)
from ..protocol.behavior import Judged
from ..protocol.facts import Degraded
from ..protocol.operators import Operator
from ..protocol.regions import Lack
from ..repro.job import MinimizationJob, Say, Surroundings
from ..targets import Tracee
from . import frames
from .pipeline import (
    BackendAttempt,
    ChosenCases,
    DiscoveredTargets,
    ExtractedCandidates,
    JudgedNumerics,
    Operators,
    Outcome,
    Pipeline,
    PipelineProbe,
    PipelineTarget,
    RefusedOperator,
)


class _Engine:
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


class _Sandbox:
    def pass_over(self, code: CodeType) -> None:
        from ..torch_internals import frames as upstream

        upstream.skip_code(code)

    def disable_tracing(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        return torch.compiler.disable(function)  # type: ignore[no-any-return]

    def audit_native_writes(self) -> None:
        import torch

        # torch.save opens files with this class. Do not replace torch.save itself, because Dynamo
        # would see the replacement.
        writer = getattr(torch.serialization, "_open_zipfile_writer_file", None)
        if writer is None:
            return
        original = writer.__init__

        def init_with_audit(self: Any, name: Any) -> None:
            sys.audit("open", name, "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            original(self, name)

        writer.__init__ = init_with_audit

    def before_forks(self) -> None:
        import torch

        # A forked process does not have the threads of a thread pool, so use a single thread.
        torch.set_num_threads(1)


class _File:
    def check_text(self, text: str) -> Sequence[RefusedOperator]:
        from ..operators import definitions

        return definitions.find_invalid_definitions(text)

    def check_registered(self, text: str) -> Sequence[Finding]:
        from ..operators import definitions

        return definitions.check_registered_operators(text)

    def note_registrations(self) -> None:
        from ..operators import registered

        registered.record_definition_places()

    def may_register(self, text: str) -> bool:
        from ..operators import registered

        return registered.may_register(text)


class _Run:
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

    def prepare_compiler(self, let_start: Callable[[frozenset[str]], bool]) -> None:
        from ..behavior import backend

        backend.prepare_inductor(let_start)

    def measure(self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
        from ..behavior import speed

        return speed.measure_calls(tracee, let_start)

    def judge_numerics(
        self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]
    ) -> JudgedNumerics:
        from ..behavior import numerics

        return numerics.judge_numerics(tracee, let_start)

    def note_operator_calls(self) -> None:
        from ..tracing import operator_calls

        operator_calls.begin_recording()

    def operator_calls(self) -> str:
        from ..tracing import operator_calls

        return operator_calls.pack_calls()

    def user_stack(self, frame: FrameType | None) -> tuple[Frame, ...]:
        from ..torch_internals.frames import find_translator
        from ..tracing import stacks

        live = tuple(f for f in frames.of_stack(frame) if not stacks.is_machinery(f.path))
        translator = find_translator(frame)
        if translator is None:
            return live
        return stacks.join_stacks(live, stacks.stack_of_translator(translator))


class _Module:
    def discover(
        self, text: str, path: str, methods: tuple[str, ...] = (), functions: tuple[str, ...] = ()
    ) -> DiscoveredTargets:
        from .. import targets

        return targets.discover(text, path, methods, functions)

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
        callers: Sequence[str],
    ) -> Sequence[PipelineProbe]:
        from .. import targets

        return targets.plan_probes(target, namespace, others, recorded, examples, callers)

    def leave_snapshots(
        self,
        wanted: Sequence[tuple[Any, Any]],
        namespace: dict[str, Any],
        text: str,
        stay: Callable[[], bool],
        *,
        fake: bool,
        found: Sequence[FoundProbe],
    ) -> tuple[PipelineTarget, int] | tuple[UncalledTarget, ...]:
        from .. import tracing
        from ..targets import enclosing, searched

        tracing.want_cuda_for(text)
        searched.remember_found(found)
        called, calls = [target for target, _ in wanted], wanted[0][1].enclosing()
        at = enclosing.leave_snapshots(called, calls, namespace, stay, fake=fake)
        return (at.target, at.number) if isinstance(at, enclosing.EnclosingSnapshot) else at

    def given_call(self, namespace: dict[str, Any]) -> tuple[GivenCall | None, str]:
        from ..targets import enclosing, given_calls

        snapshot = enclosing.current_snapshot()
        if snapshot is None:
            return None, ""
        return given_calls.digest_snapshot(snapshot, namespace), snapshot.call.source

    def missing_probe(self, target: Any, text: str) -> Finding:
        from .. import targets

        return targets.missing_probe(target, text)

    def registered_operators(self) -> tuple[Operator, ...]:
        from ..operators import registered

        return registered.operators_since_baseline()

    def without_tracing(self) -> AbstractContextManager[Any]:
        import torch

        eager: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return eager

    def fake_mode(self) -> AbstractContextManager[Any]:
        from .. import tracing

        return tracing.tensor_mode(True)

    def repeat_operator_calls(self, packed: str) -> Iterator[None]:
        from ..tracing import operator_calls

        return operator_calls.repeat_calls(packed)

    def check_operator_calls(self) -> None:
        from ..tracing import operator_calls

        operator_calls.drop_outdated_entries()


class _Program:
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


class _Repro:
    def minimize(self, job: MinimizationJob, around: Surroundings, say: Say) -> None:
        from ..repro.candidate import Candidates
        from ..repro.reduce import minimize

        candidates = Candidates.from_json(job.packed)
        kind = minimize.ProgramMinimizer
        if candidates.backend is not None:
            from ..repro import graphs

            kind = graphs.GraphMinimizer
        kind(candidates, job, around, say).run()

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


class RealPipeline(_Engine, _Sandbox, _File, _Run, _Module, _Program, _Repro):
    """The implementation of the interface in ``pipeline`` by the engine's own packages."""


def _read_own_lines() -> None:
    """Cache the source lines of the engine's modules before forking. Each new fake tensor mode
    formats a stack; without the cache, every run would read these lines from disk."""
    own = (__package__, "fullgraph_engine.findings.runs", contextlib.__name__, "__main__")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) if name.startswith(own) else None
        if file is not None:
            linecache.getlines(file)


def choose_pipeline(option: str) -> Pipeline:
    """Return the pipeline that an option names: for an empty option, the engine's own packages.

    For ``FILE:NAME``, call the function ``NAME`` of that file and return its result, which replaces
    them in tests.
    """
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
