"""How small the reducer makes programs with a planted graph break, and in how many tries.

python tests/benchmarks/reduction.py MODEL.py... [--plant print] [--seconds 20] [--show]

A file that defines ``Model``, ``get_inputs`` and ``get_init_inputs`` gets a statement that breaks
the graph into the middle of ``forward``. Of one with ``build`` and ``example_input`` (or
``build_this`` and ``example_input_this``, given as FILE:this) the breaks that it has are taken.
Every candidate is executed in a fork, two at a time.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import select
import signal
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "engine"))

import torch
import torch._dynamo
from torch._subclasses import FakeTensorMode

from fullgraph_engine.repro.reduce import count_lines, reduce_program

# Those of benchmark models are too large to be computed.
SEED = ""

PLANTS = {
    "print": "print({x})",
    "item": "{x}.sum().item()",
    "break": "torch._dynamo.graph_break()",
    "builtin": "id({x})",
    "branch": "if {x}.sum() > 0:\n    {x} = {x} + 1",
}


class Verdict:
    def __init__(self, interesting: bool) -> None:
        self.interesting = interesting


class Forks:
    """The reason of the break has to stay the same, but for what is quoted in it."""

    def __init__(self, wanted: str, capacity: int = 2) -> None:
        self.capacity = capacity
        self._wanted = wanted
        self._running: dict[int, int] = {}
        self.count = 0

    def submit(self, text: str) -> int:
        self.count += 1
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(reading)
                code = 0 if self._wanted in reasons(text) else 1
            finally:
                os._exit(code)
        os.close(writing)
        self._running[reading] = child
        return child

    def wait(self) -> tuple[int, Verdict]:
        ready, _, _ = select.select(list(self._running), [], [], 20)
        reading = ready[0] if ready else next(iter(self._running))
        child = self._running.pop(reading)
        if not ready:
            os.kill(child, signal.SIGKILL)
        os.close(reading)
        _, status = os.waitpid(child, 0)
        return child, Verdict(status == 0)

    def kill(self, ticket: int) -> None:
        for reading, child in list(self._running.items()):
            if child == ticket:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                os.close(reading)
                del self._running[reading]


def reasons(text: str) -> set[str]:
    """The first lines of why graphs break in a program."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    torch.manual_seed(0)
    fake = FakeTensorMode() if "get_init_inputs" in SEED else contextlib.nullcontext()
    with contextlib.suppress(BaseException), fake:
        exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})
    return {str(reason).split("\n")[0] for reason in torch._dynamo.utils.counters["graph_break"]}


def whole(text: str, name: str) -> str:
    """The file, and a call of what it builds."""
    inputs = f"example_input{name}"
    return (
        f"{text}\n_given = {inputs}()\n"
        f"torch.compile(build{name}(), backend='eager')"
        "(*(_given if isinstance(_given, (tuple, list)) else [_given]))\n"
    )


def seed_of(text: str, plant: str) -> str:
    tree = ast.parse(text)
    forward = next(
        function
        for node in tree.body
        if isinstance(node, ast.ClassDef) and node.name == "Model"
        for function in node.body
        if isinstance(function, ast.FunctionDef) and function.name == "forward"
    )
    first = forward.args.args[1].arg
    start = 0 if ast.get_docstring(forward) is None else 1
    middle = start + (len(forward.body) - start) // 2
    for statement in forward.body[:middle]:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            first = statement.targets[0].id
    forward.body[middle:middle] = ast.parse(PLANTS[plant].format(x=first)).body
    act = "\ntorch.compile(Model(*get_init_inputs()), backend='eager')(*get_inputs())"
    return ast.unparse(tree) + act


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("files", nargs="+")
    parser.add_argument("--plant", default="print", choices=PLANTS)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warm()
    lines, tries, seconds = [], [], []
    for given in options.files:
        file, _, name = given.partition(":")
        path = Path(file)
        text = path.read_text()
        if "get_init_inputs" in text:
            seed = seed_of(text, options.plant)
        else:
            seed = whole(text, name and f"_{name}")
        globals()["SEED"] = seed
        reading, writing = os.pipe()
        if (child := os.fork()) == 0:
            os.write(writing, "\n".join(sorted(reasons(seed))).encode())
            os._exit(0)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            seen = pipe.read().split("\n")
        os.waitpid(child, 0)
        if not seen[0]:
            print(f"{path.name}: no break in the seed")
            continue
        progress = [0]
        forks = Forks(seen[0])
        began = time.monotonic()
        found = reduce_program(
            seed,
            forks,
            deadline=began + options.seconds,
            report=lambda _, number, last=progress: last.append(number),
        )
        took = time.monotonic() - began
        before, after = count_lines(seed), count_lines(found)
        print(
            f"{path.name}: {before} -> {after} lines, {forks.count} tries"
            f" ({progress[-1]} until the last success), {took:.1f} s"
        )
        if options.show:
            print(found)
        lines.append(count_lines(found))
        tries.append(forks.count)
        seconds.append(took)
    print(
        f"median: {statistics.median(lines)} lines, {statistics.median(tries)} tries,"
        f" {statistics.median(seconds):.1f} s; largest {max(lines)}"
    )


def warm() -> None:
    """Loads what a first trace would load in every fork."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        print(x)
        return torch.nn.functional.relu(x) + 1

    with FakeTensorMode(), contextlib.redirect_stdout(None):
        model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.TransformerEncoderLayer(4, 2))
        torch.compile(broken, backend="eager")(torch.ones(2, 2))
        torch.compile(model[1], backend="eager")(torch.ones(2, 2, 4))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()


if __name__ == "__main__":
    main()
