"""Replay what Dynamo learned about sizes, over many files, and measure what recording it costs.

    python replay.py FILE...            the files' targets, with their batch dimensions dynamic
    python replay.py --every FILE...    with every dimension dynamic
    python replay.py --cost FILE...     paired runs of one trace with and without recording

For every recording: all events replayed give the state of the live ShapeEnv; a sample of prefixes
replays; every symbol that was specialized is explained. Each file has a process of its own.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import time
import traceback
import types
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine"))
warnings.simplefilter("ignore")

import survey  # noqa: E402
import torch  # noqa: E402

from fullgraph_engine import shapes, targets, tracing  # noqa: E402
from fullgraph_engine.findings.runs import batch_dimensions  # noqa: E402
from fullgraph_engine.shapes import comparison, explanation  # noqa: E402

PREFIXES = 8


def calls(path: str) -> list[tuple[Any, types.ModuleType]]:
    text = Path(path).read_text()
    module = types.ModuleType("traced")
    module.__file__ = path
    sys.modules["traced"] = module
    exec(compile(text, path, "exec"), module.__dict__)
    found = []
    for target in targets.discover(text, path).targets:
        found += [(probe, module) for probe in targets.plan_probes(target, module.__dict__)]
    return found


def wanted(call: Any, every: bool) -> list[tuple[torch.Tensor, int]]:
    if call.dynamic:
        return [(wish.tensor, wish.dim) for wish in call.dynamic]
    if not every:
        return batch_dimensions(call)
    tensors = [t for t in (*call.args, *call.kwargs.values()) if isinstance(t, torch.Tensor)]
    return [(tensor, dim) for tensor in tensors for dim in range(tensor.dim())]


def examine(path: str, every: bool) -> dict[str, Any]:
    count: Counter[str] = Counter()
    failures: list[str] = []
    texts: list[str] = []
    for probe, module in calls(path):
        torch._dynamo.reset()
        with tracing.tensor_mode(True):
            call = probe.build(module.__dict__)
            with shapes.record_tapes() as tapes:
                recording = tracing.trace(
                    call.function, call.args, call.kwargs, dynamic=wanted(call, every)
                )
        failures += recording.losses
        if recording.failure is not None:
            count["traces that raised"] += 1
        for tape in tapes:
            check(tape, count, failures, texts)
    return {"count": count, "failures": failures, "texts": texts}


def check(tape: Any, count: Counter[str], failures: list[str], texts: list[str]) -> None:
    count["recordings"] += 1
    count["events"] += len(tape.events)
    try:
        live, replayed = (
            comparison.summarize(tape, env) for env in (tape.live, shapes.replay_tape(tape))
        )
        different = comparison.first_difference(live, replayed)
        if different is not None:
            words = "; ".join(map(str, different.differences))
            failures.append(f"not equal to the live state: {words}")
        ends = range(1, len(tape.events))
        for end in random.Random(0).sample(ends, min(PREFIXES, len(ends))):
            shapes.replay_tape(tape, end)
            count["prefixes"] += 1
        shapes.build_timeline(tape)
        for found in explanation.explain_all(tape):
            count["explained"] += 1
            texts.append(found.text)
            if found.unexplained:
                failures.append(found.unexplained)
    except Exception as error:
        failures.append(f"{type(error).__name__}: {error}\n{traceback.format_exc()}")


def batches_dynamic(path: str) -> dict[str, Any]:
    return examine(path, every=False)


def everything_dynamic(path: str) -> dict[str, Any]:
    return examine(path, every=True)


def replay(options: argparse.Namespace) -> int:
    tracing.warm_up()
    total: Counter[str] = Counter()
    failed = 0
    work = everything_dynamic if options.every else batches_dynamic
    for path, result in survey.survey(work, options):
        if "error" in result:
            total["files that could not be traced"] += 1
            print(f"{path}: left out: {result['error']}", flush=True)
            continue
        total["files"] += 1
        total.update(result["count"])
        failed += len(result["failures"])
        print(f"{path}: {result['count']}", flush=True)
        for failure in result["failures"]:
            print(f"FAILED {path}: {failure}", flush=True)
        if not options.quiet:
            for text in dict.fromkeys(result["texts"]):
                print(f"{path}: {text}", flush=True)
    print(", ".join(f"{number:,} {name}" for name, number in total.items()), f"{failed} failures")
    return 1 if failed else 0


def cost(paths: list[str], repetitions: int) -> None:
    tracing.warm_up()
    for path in paths:
        probe, module = calls(path)[0]
        ratios, seconds = [], {False: [], True: []}
        for number in range(repetitions + 1):
            pair = {}
            for on in (True, False) if number % 2 else (False, True):
                torch._dynamo.reset()
                with tracing.tensor_mode(True):
                    call = probe.build(module.__dict__)
                    started = time.process_time()
                    if on:
                        with shapes.record_tapes():
                            tracing.trace(
                                call.function, call.args, call.kwargs, dynamic=wanted(call, False)
                            )
                    else:
                        tracing.trace(
                            call.function, call.args, call.kwargs, dynamic=wanted(call, False)
                        )
                    pair[on] = time.process_time() - started
            if number:
                ratios.append(pair[True] / pair[False])
                for on, time_taken in pair.items():
                    seconds[on].append(time_taken)
        print(
            f"{Path(path).name}: median ratio {statistics.median(ratios):.3f} of {len(ratios)} "
            f"pairs; {statistics.median(seconds[False]):.3f} s without, "
            f"{statistics.median(seconds[True]):.3f} s with",
            flush=True,
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    survey.options(parser, seconds=300.0)
    parser.add_argument("--cost", action="store_true", help="measure what recording costs instead")
    parser.add_argument("--every", action="store_true", help="mark every dimension, not batches")
    parser.add_argument("--quiet", action="store_true", help="do not print explanations")
    parser.add_argument("--repetitions", type=int, default=15, help="pairs of runs for the cost")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.cost:
        cost(options.files, options.repetitions)
        return 0
    return replay(options)


if __name__ == "__main__":
    sys.exit(main())
