"""What recording adds to a trace, part by part, as ratios of runs that take turns.

    python recording.py [--rounds N] [FILE ...]

Every measured run is a fork of one warm engine process, as the runs of a host are, and traces the
first target of a file under the same tensor mode with a backend that compiles nothing. The plain
trace keeps sizes symbolic behind a graph break, as a run does: by itself Dynamo makes constants of
them there, and traces less. In each round every kind of run has its turn, in an order that changes;
a ratio is the median of those of the rounds. What is measured is processor time, from the fork to
the last result, since other processes may share the machine.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import statistics
import struct
import sys
import time
import types
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal
from unittest import mock

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "engine"))
warnings.simplefilter("ignore")

import torch  # noqa: E402

from fullgraph_engine import protocol, targets, tracing  # noqa: E402
from fullgraph_engine.findings import explanations, runs  # noqa: E402
from fullgraph_engine.host.real_pipeline import RealPipeline  # noqa: E402
from fullgraph_engine.tracing import drive, guards  # noqa: E402

FIXTURES = HERE.parent / "fixtures" / "bench"
FILES = ("breaks.py", "encoder.py", "pinned.py")
AIM = 1.15
"""What recording guards, events and locals may make of a run."""


class Subject:
    """A file whose first target is traced."""

    def __init__(self, path: Path) -> None:
        self.path, text = str(path), path.read_text()
        module = types.ModuleType("traced")
        module.__file__ = self.path
        sys.modules["traced"] = module
        exec(compile(text, self.path, "exec"), module.__dict__)
        target = targets.discover(text, self.path).targets[0]
        probe = targets.plan_probes(target, module.__dict__)[0]
        self.tracee = targets.Tracee(target, probe, module.__dict__, self.path, text, "fake")

    def call(self) -> Any:
        torch.manual_seed(0)
        return self.tracee.call()

    # -- kinds of runs ------------------------------------------------------------------------

    def plain(self, *, symbolic: bool) -> None:
        """``torch.compile`` without a recorder."""
        with tracing.tensor_mode(True) as mode:
            assert mode is not None
            call = self.call()
            for wish in call.dynamic:
                torch._dynamo.maybe_mark_dynamic(wish.tensor, wish.dim)
            backend = drive.NoBackend()
            backend.marks_outputs = mode.keeps_dynamic = symbolic and bool(call.dynamic)
            torch.compile(call.function, backend=backend)(*call.args, **call.kwargs)

    def traced(self, *parts: Part) -> None:
        """Recorded: graphs and breaks, and these parts."""
        with tracing.tensor_mode(True), contextlib.ExitStack() as left_out:
            if "guards" not in parts:
                recorder = guards.GuardRecorder
                for method in ("note_request", "note_location", "record_tree", "record_writes"):
                    left_out.enter_context(mock.patch.object(recorder, method, _nothing))
            call = self.call()
            with explanations.record_tapes("events" in parts):
                tracing.trace(
                    call.function,
                    call.args,
                    call.kwargs,
                    dynamic=[(wish.tensor, wish.dim) for wish in call.dynamic],
                    symbols=[wish.symbol for wish in call.dynamic],
                    file=self.path if "values" in parts else "",
                )

    def whole(self, *, explained: bool) -> None:
        """As a host does it: recorded, turned into findings, and these into lines."""
        lines: list[bytes] = []

        def emit(finding: protocol.Finding) -> None:
            lines.append(protocol.encode(protocol.FindingFound(1, finding)))

        with contextlib.ExitStack() as left_out:
            if not explained:
                left_out.enter_context(mock.patch.object(explanations.Explainer, "_why", _no_why))
            found = runs.run_target(self.tracee, "first", emit)
        name = self.tracee.target.name
        for event in (
            protocol.ValuesSeen.from_values(1, name, found.values),
            protocol.ShapesFound.from_places(1, name, found.shapes, found.shapes_note),
            protocol.GuardsFound.from_frames(1, name, found.guards, found.guards_note),
        ):
            lines.append(protocol.encode(event))


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    pass


def _no_why(*_args: Any) -> explanations.Why:
    return explanations.Why()


Part = Literal["guards", "values", "events"]
PLAIN = "plain trace"
LEAST = "graphs and breaks"
KINDS: dict[str, Callable[[Subject], None]] = {
    f"{PLAIN}, with constants": lambda subject: subject.plain(symbolic=False),
    PLAIN: lambda subject: subject.plain(symbolic=True),
    LEAST: lambda subject: subject.traced(),
    "… and guards": lambda subject: subject.traced("guards"),
    "… and values and shapes": lambda subject: subject.traced("values"),
    "… and ShapeEnv events": lambda subject: subject.traced("events"),
    "… and all of these": lambda subject: subject.traced("guards", "values", "events"),
    "run without explanations": lambda subject: subject.whole(explained=False),
    "run": lambda subject: subject.whole(explained=True),
}


def seconds(subject: Subject, kind: Callable[[Subject], None]) -> float:
    """Processor time of a run in a fork of its own."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            kind(subject)
            os.write(write, struct.pack("d", time.process_time()))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        told = pipe.read()
    os.waitpid(child, 0)
    if not told:
        raise RuntimeError("a run failed")
    return float(struct.unpack("d", told)[0])


def measure(path: Path, rounds: int) -> None:
    subject = Subject(path)
    gc.collect()
    gc.freeze()
    taken: dict[str, list[float]] = {name: [] for name in KINDS}
    names = list(KINDS)
    for number in range(rounds + 1):
        first = number % len(names)
        for name in (names[first:] + names[:first])[:: -1 if number % 2 else 1]:
            took = seconds(subject, KINDS[name])
            if number:  # the first round reads what is not in memory yet
                taken[name].append(took)
    print(f"\n{path.name}: recording, as processor time of a run ({rounds} rounds)")
    print(f"  {'':<28}{'seconds':>9}{'/ plain':>10}{'/ least':>10}   (aim: at most {AIM})")
    for name, values in taken.items():
        columns = [
            statistics.median(one / other for one, other in zip(values, taken[basis], strict=True))
            for basis in (PLAIN, LEAST)
        ]
        print(
            f"  {name:<28}{statistics.median(values):9.3f}{columns[0]:10.2f}{columns[1]:10.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="*", default=[FIXTURES / name for name in FILES])
    parser.add_argument("--rounds", type=int, default=16)
    options = parser.parse_args()
    RealPipeline().warm_up()
    for path in options.files:
        measure(Path(path), options.rounds)


if __name__ == "__main__":
    main()
