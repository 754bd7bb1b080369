"""The only place where the host meets what it is there for: targets, findings and the tracer.

Tests replace all of it (``boot.py --pipeline FILE:NAME``) to see the processes alone, without
torch.
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
from ..repro.job import Job, Say, Surroundings
from ..targets import Tracee
from . import frames


class Target(Protocol):
    """What the host uses of a target; ``range`` covers its name, ``body`` its whole statement."""

    @property
    def name(self) -> str: ...
    @property
    def kind(self) -> TargetKind: ...
    @property
    def range(self) -> Range: ...
    @property
    def body(self) -> Range: ...


class Probe(Protocol):
    """What the host uses of a probe."""

    @property
    def info(self) -> ProbeInfo: ...
    @property
    def waits(self) -> bool:
        """The run of another probe of the target says whether it is needed."""

    @property
    def after(self) -> tuple[str, ...]:
        """Targets whose runs should have ended before."""

    @property
    def users(self) -> tuple[str, ...]:
        """Targets that call its target; one run of these shows what all call that have the same."""


class Discovery(Protocol):
    """What the host uses of the targets of a text; ``off``: a comment excludes the file."""

    @property
    def targets(self) -> Sequence[Target]: ...
    @property
    def off(self) -> bool: ...
    @property
    def findings(self) -> Sequence[Finding]: ...


class Wrong(Protocol):
    """An operator definition that torch will refuse, and the call that will raise."""

    @property
    def finding(self) -> Finding: ...
    @property
    def call(self) -> Range: ...


class Outcome(Protocol):
    """What the host uses of the result of a run: see ``findings.runs.Outcome``."""

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
        """How many of the probes that wait for this one are needed."""

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


class Extracted(Protocol):
    """Programs that may show a finding, packed; or why there are none; or why the run should be
    repeated with real tensors."""

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...
    @property
    def needs_real(self) -> str | None: ...


class Chosen(Protocol):
    """Cases to compare two texts on, packed; or why there are none."""

    @property
    def packed(self) -> str: ...
    @property
    def reason(self) -> str: ...


class Tried(Protocol):
    """What came of compiling a target with a backend."""

    @property
    def outcome(self) -> BehaviorOutcome: ...
    @property
    def reason(self) -> str: ...


class Operators(Protocol):
    """The operator index of this interpreter's torch, and how it is made."""

    def write_static_index(self, out: Path) -> None:
        """Write to ``out`` what the binding YAML says. Imports no torch."""

    def write_complete_index(
        self, static: Path | None, scratch: Path, say: Callable[[str], None]
    ) -> Path:
        """Write the complete index, with what the running torch knows, and return where it is.

        ``static`` is the file that ``write_static_index`` wrote. ``say`` receives a sentence for
        the user.
        """


class Pipeline(Protocol):
    """Everything the host calls. ``run_target`` streams findings to ``emit``."""

    def operators(self, yaml: str) -> Operators | None:
        """None where no torch is to be found. ``yaml`` is a folder that holds PyYAML."""

    def torch_version(self) -> str:
        """Imports torch. Raises what the import raises."""

    def warm(self) -> None: ...

    def self_check(self) -> tuple[Hook, ...]:
        """Which private names of torch there are."""

    def missing(self) -> tuple[Degraded, ...]:
        """What the names that are not there are needed for."""

    def prove(self) -> tuple[Degraded, ...]:
        """What is not seen of a program that has everything; call it in a process that ends."""

    def build(self) -> str:
        """Differs wherever the outcome of ``prove`` might; empty: it is not to be kept."""

    def discover(self, text: str, path: str, methods: tuple[str, ...] = ()) -> Discovery: ...

    def check_text(self, text: str) -> Sequence[Wrong]:
        """The operator definitions of a text that are wrong, before it is executed."""

    def check_registered(self, text: str) -> Sequence[Finding]:
        """What the operators that a text has defined lack, after it was executed."""

    def confirm(self, target: Target, namespace: dict[str, Any]) -> bool:
        """False for what looked like a target in the text and is none."""

    def plan(
        self,
        target: Target,
        namespace: dict[str, Any],
        others: Sequence[Target],
        recorded: Sequence[RecordedClass],
        examples: Sequence[ExampleKind],
    ) -> Sequence[Probe]:
        """``others`` are all targets of the text; ``recorded`` is from a run of a program;
        ``examples`` may be executed."""

    def leave_snapshots(
        self,
        wanted: Sequence[tuple[Target, Probe]],
        namespace: dict[str, Any],
        text: str,
        stay: Callable[[], bool],
        *,
        fake: bool,
        found: Sequence[FoundProbe],
    ) -> tuple[Target, int] | None:
        """Run the users of targets, once. At each call that is a probe of theirs ``stay`` is asked:
        it forks, and says True in a process that is to stay there. In such a process, gives the
        target and the number of its probe, whose call is there to be traced."""

    def given_call(self, namespace: dict[str, Any]) -> tuple[GivenCall | None, str]:
        """What the call is made with at which this process has stayed, and where, in words."""

    def missing_probe(self, target: Target, text: str) -> Finding: ...

    def run_target(
        self,
        tracee: Tracee,
        part: Part,
        emit: Callable[[Finding], None],
        run: RunId,
        **asked: Any,
    ) -> Outcome:
        """``asked`` is what few requests ask for: ``documents``, a commission; and a ``watch``."""

    def extract(self, tracee: Tracee, wanted: Wanted, until: float) -> Extracted:
        """Look for a finding again and write programs that may show it, as long as there is time:
        ``until`` is in ``time.monotonic``."""

    def minimize(self, job: Job, around: Surroundings, say: Say) -> None:
        """Make the smallest script of what ``extract`` packed, in a process without user code."""

    def choose_cases(self, tracee: Tracee, order: Observe) -> Chosen:
        """Look for inputs on which to compare the behavior of a text with that of a changed one."""

    def observe(self, tracee: Tracee, order: Observe, part: Part, probe: int) -> None:
        """Execute cases and write down in the scratch folder what they did."""

    def try_backend(
        self,
        tracee: Tracee,
        order: Observe,
        probe: int,
        let_start: Callable[[frozenset[str]], bool],
    ) -> Tried:
        """Compile a target with Inductor and call it on the first cases."""

    def measure(self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
        """Take the time of calls of a target, plain ones and compiled ones."""

    def compare(
        self,
        texts: tuple[str, str],
        lines: tuple[tuple[int, ...], tuple[int, ...]],
        folders: tuple[str, str],
        cases: tuple[str, ...],
        ended: str,
    ) -> Judged:
        """What follows from what runs have written down. The first of each pair is of the
        original."""

    def is_program(self, text: str, path: str, roots: tuple[str, ...]) -> bool:
        """Whether a text is a program; false for a text with a syntax error."""

    def program(
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

    def untraced(self) -> AbstractContextManager[Any]:
        """Inside, ``torch.compile`` gives functions that run as they are."""

    def fake_mode(self) -> AbstractContextManager[Any]:
        """Inside, tensors have no data; the mode that runs of this process enter as well."""

    def pass_over(self, code: CodeType) -> None:
        """Have the tracer run this code as it is whenever it comes across it."""

    def untouched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, with the tracer switched off in it and in all it calls."""

    def audit_native_writes(self) -> None:
        """Have writes that go through C++ raise the audit event that Python's own would."""

    def note_registrations(self) -> None:
        """From here on remember where operators are registered."""

    def registers(self, text: str) -> bool:
        """Whether a text may register operators, so that it is executed also without targets."""

    def registered(self) -> tuple[Operator, ...]:
        """The operators that this process has and the warm one had not."""

    def note_operator_calls(self) -> None:
        """From here on take note of what is worked out for fake tensors. Called in a run."""

    def operator_calls(self) -> str:
        """What was noted, packed; empty if it was nothing."""

    def repeat_operator_calls(self, packed: str) -> Iterator[None]:
        """Make the calls of a run again, one each step: what is forked off this process has them
        worked out."""

    def check_operator_calls(self) -> None:
        """Forget what was worked out, if operators may give something else by now. Called when user
        code was executed since then."""

    def before_forks(self) -> None:
        """Called in every process that is about to fork others."""

    def where(self, frame: FrameType | None) -> tuple[Frame, ...]:
        """The user's stack, also when the tracer only pretends to be in it."""


class RealPipeline:
    """The engine's own packages. They import torch, so they are imported when first needed."""

    def operators(self, yaml: str) -> Operators | None:
        from ..operators.stages import InstalledOperators

        return InstalledOperators.find_installed(yaml)

    def torch_version(self) -> str:
        import torch

        return str(torch.__version__)

    def warm(self) -> None:
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

    def missing(self) -> tuple[Degraded, ...]:
        from ..torch_internals import census

        return census.find_degraded_facts()

    def prove(self) -> tuple[Degraded, ...]:
        from ..tracing import proof

        return proof.prove()

    def build(self) -> str:
        from ..tracing import proof

        return proof.installation_digest()

    def discover(self, text: str, path: str, methods: tuple[str, ...] = ()) -> Discovery:
        from .. import targets

        return targets.discover(text, path, methods)

    def check_text(self, text: str) -> Sequence[Wrong]:
        from ..operators import definitions

        return definitions.find_invalid_definitions(text)

    def check_registered(self, text: str) -> Sequence[Finding]:
        from ..operators import definitions

        return definitions.check_registered_operators(text)

    def confirm(self, target: Any, namespace: dict[str, Any]) -> bool:
        from .. import targets

        return targets.is_confirmed(target, namespace)

    def plan(
        self,
        target: Any,
        namespace: dict[str, Any],
        others: Sequence[Any],
        recorded: Sequence[RecordedClass],
        examples: Sequence[ExampleKind],
    ) -> Sequence[Probe]:
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
    ) -> tuple[Target, int] | None:
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
        **asked: Any,
    ) -> Outcome:
        from ..findings import run_target

        return run_target(tracee, part, emit, run, **asked)

    def extract(self, tracee: Tracee, wanted: Wanted, until: float) -> Extracted:
        from ..repro.extract import candidates

        return candidates.extract(tracee, wanted, until)

    def minimize(self, job: Job, around: Surroundings, say: Say) -> None:
        from ..repro.candidate import Candidates
        from ..repro.reduce import minimize

        candidates = Candidates.unpacked(job.packed)
        kind = minimize.Minimizer
        if candidates.backend is not None:
            from ..repro import graphs

            kind = graphs.Minimizer
        kind(candidates, job, around, say).run()

    def choose_cases(self, tracee: Tracee, order: Observe) -> Chosen:
        from ..behavior import search

        return search.choose_cases(tracee, order)

    def observe(self, tracee: Tracee, order: Observe, part: Part, probe: int) -> None:
        from ..behavior import observing

        observing.observe_cases(tracee, order, part, probe)

    def try_backend(
        self,
        tracee: Tracee,
        order: Observe,
        probe: int,
        let_start: Callable[[frozenset[str]], bool],
    ) -> Tried:
        from ..behavior import backend

        return backend.check_compiled(tracee, order, probe, let_start)

    def measure(self, tracee: Tracee, let_start: Callable[[frozenset[str]], bool]) -> Measurement:
        from ..behavior import speed

        return speed.measure_calls(tracee, let_start)

    def compare(
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

    def program(
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

    def untraced(self) -> AbstractContextManager[Any]:
        import torch

        eager: AbstractContextManager[Any] = torch.compiler.set_stance("force_eager")
        return eager

    def fake_mode(self) -> AbstractContextManager[Any]:
        from .. import tracing

        return tracing.tensor_mode(True)

    def pass_over(self, code: CodeType) -> None:
        from ..torch_internals import frames as upstream

        upstream.skip_code(code)

    def untouched(self, function: Callable[..., Any]) -> Callable[..., Any]:
        import torch

        return torch.compiler.disable(function)  # type: ignore[no-any-return]

    def audit_native_writes(self) -> None:
        import torch

        # What torch.save opens a file with. Replacing torch.save itself would show in traces.
        writer = getattr(torch.serialization, "_open_zipfile_writer_file", None)
        if writer is None:
            return
        original = writer.__init__

        def audited(self: Any, name: Any) -> None:
            sys.audit("open", name, "wb", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            original(self, name)

        writer.__init__ = audited

    def note_registrations(self) -> None:
        from ..operators import registered

        registered.record_definition_places()

    def registers(self, text: str) -> bool:
        from ..operators import registered

        return registered.may_register(text)

    def registered(self) -> tuple[Operator, ...]:
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

        # A pool of threads does not survive a fork; one thread needs no pool.
        torch.set_num_threads(1)

    def where(self, frame: FrameType | None) -> tuple[Frame, ...]:
        from ..torch_internals.frames import find_translator
        from ..tracing import stacks

        live = tuple(f for f in frames.of_stack(frame) if not stacks.is_machinery(f.path))
        translator = find_translator(frame)
        if translator is None:
            return live
        return stacks.join_stacks(live, stacks.stack_of_translator(translator))


def _read_own_lines() -> None:
    """A fake tensor mode notes the stack that it is made in with the text of its lines: read now,
    they need not be read in each run."""
    own = (__package__, "fullgraph_engine.findings.runs", contextlib.__name__, "__main__")
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None) if name.startswith(own) else None
        if file is not None:
            linecache.getlines(file)


def chosen(option: str) -> Pipeline:
    """The real pipeline, or the object ``NAME`` of the file in ``FILE:NAME``."""
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
