"""How many kinds of sizes that became constants, and of recompiles, a verified fix makes dynamic.

    .venv/bin/python tests/benchmarks/adviser.py [--verbose] [NAME…]

``adviser/`` has a small file for each kind, in the form that public code has. ``fullgraph fix
--unsafe`` is applied to each, with forecasts. Then a fresh Python calls the file, before and after,
with other sizes or values, compiled with a back end that counts. What is expected stands in the
file's docstring:

- ``target``: what is compiled, an expression of names of the file; ``call``: its arguments, a line
  for each call, in this order. It ended dynamic if no call raises or breaks the graph, the results
  are those of the original in eager mode where that returns one, the last two calls compile
  nothing, and all of them no more than ``most`` graphs (2: one for the first size, one for any).
- ``main``: in place of that, a function that compiles and calls by itself; ``most`` is of all.
- ``line``: a part of the line that a finding should be on.
- ``meant``: why the author wants it as it is. Such a file should have no fix, and is counted apart.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from fullgraph.engines import Engine
from fullgraph.fixes.fixing import Fixed, fixed
from fullgraph.fixes.tracing import Asked, events
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze, Compare, Event, Finding, FindingFound, ForecastFound

FOLDER = Path(__file__).parent / "adviser"

MEASURE = """
import json, logging, os, runpy, sys, warnings
import torch
import torch._dynamo
from torch.utils._pytree import tree_flatten

torch.set_num_threads(1)
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
graphs, compile = 0, torch.compile

def backend(graph, inputs):
    global graphs
    graphs += 1
    return graph.forward

def counting(*args, **kwargs):
    return compile(*args, **{**kwargs, "backend": backend})

def called(given, path, compiled):
    torch.manual_seed(0)
    names = runpy.run_path(path)
    torch.manual_seed(0)
    thing = eval(given["target"], names)
    if compiled:
        thing = compile(thing, backend=backend, fullgraph=True)
    for call in given["calls"]:
        args = eval(f"({call},)", {"torch": torch})
        before = graphs
        try:
            result = thing(*args)
        except Exception as error:
            if compiled:
                raise
            result = error
        yield result, graphs - before

def check(result, expected):
    if isinstance(expected, Exception):
        return
    (new, form), (old, expected_form) = tree_flatten(result), tree_flatten(expected)
    assert form == expected_form, "a result of another form"
    for one, other in zip(new, old):
        torch.testing.assert_close(one, other, equal_nan=True)

def measure(given):
    if not given["target"]:
        torch.compile = counting
        runpy.run_path(given["changed"])[given["main"]]()
        return {"counts": [graphs, 0, 0]}
    expected = [result for result, _ in called(given, given["original"], False)]
    counts = []
    for (result, count), old in zip(called(given, given["changed"], True), expected):
        check(result, old)
        counts.append(count)
    return {"counts": counts}

for line in sys.stdin:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        continue
    try:
        answer = measure(json.loads(line))
    except BaseException as error:
        answer = {"error": f"{type(error).__name__}: {error}".strip().split(chr(10))[0][:120]}
    print(json.dumps(answer), flush=True)
    os._exit(0)
"""
"""A Python that has imported torch and nothing else; each file is called in a fork of it."""


@dataclass(frozen=True)
class Planted:
    """A file, and what its docstring says of it."""

    path: Path
    text: str
    target: str
    main: str
    calls: tuple[str, ...]
    line: str
    meant: str
    most: int

    @classmethod
    def read(cls, path: Path) -> Planted:
        text = path.read_text(encoding="utf-8")
        said: dict[str, list[str]] = {}
        for key, value in re.findall(r"^(\w+): (.*)$", text.split('"""')[1], re.M):
            said.setdefault(key, []).append(value)

        def one(key: str, default: str = "") -> str:
            return said.get(key, [default])[0]

        return cls(
            path,
            text,
            one("target"),
            one("main"),
            tuple(said.get("call", ())),
            one("line"),
            one("meant"),
            int(one("most", "2")),
        )

    @property
    def export(self) -> bool:
        return "torch.export" in self.text


class Measure:
    """Calls texts in a plain Python."""

    def __init__(self, python: Path) -> None:
        command = [str(python), "-c", MEASURE]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def dynamic(self, planted: Planted, changed: str) -> tuple[bool, str]:
        """Whether a text compiles for no further size; and what was counted."""
        given = {"target": planted.target, "main": planted.main, "calls": planted.calls}
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("original", planted.text), ("changed", changed)):
                path = Path(folder, f"{name}.py")
                path.write_text(text, encoding="utf-8")
                given[name] = str(path)
            print(json.dumps(given), file=self._process.stdin, flush=True)
            while not (line := self._process.stdout.readline()).startswith('{"'):
                assert line, "the process has ended"
        answer = json.loads(line)
        if "error" in answer:
            return False, answer["error"]
        counts = answer["counts"]
        words = "graphs: " + ", ".join(map(str, counts if planted.target else counts[:1]))
        return not any(counts[-2:]) and sum(counts) <= planted.most, words

    def close(self) -> None:
        self._process.communicate()


@dataclass
class Noting:
    """A tracer that notes the findings of one text."""

    engine: Engine
    planted: Planted
    findings: dict[tuple[int, str, str], bool] = field(default_factory=dict)
    """Line, code and message of each, and whether it is on the line that it should be on."""

    def analyze(self, request: Analyze) -> Asked:
        asked = self.engine.analyze(request)
        return Noted(asked, self) if request.text == self.planted.text else asked

    def compare(self, request: Compare) -> Asked:
        return self.engine.compare(request)

    def note(self, finding: Finding) -> None:
        line = finding.range.start.line
        key = line + 1, finding.code, finding.message
        self.findings[key] = self.planted.line in self.planted.text.split("\n")[line]


@dataclass
class Noted:
    """The events of a request, noted as they pass."""

    asked: Asked
    by: Noting

    async def __aiter__(self) -> AsyncIterator[Event]:
        async for event in events(self.asked):
            found = [event.finding] if isinstance(event, FindingFound) else []
            found += event.findings if isinstance(event, ForecastFound) else []
            for one in found:
                self.by.note(one)
            yield event

    def cancel(self) -> None:
        self.asked.cancel()


def request_of(planted: Planted) -> Analyze:
    return analyze_request(
        name=str(planted.path),
        text=planted.text,
        generation="1",
        settings=Settings(export=planted.export),
        project=FOLDER,
        forecast=True,
    )


def shown(result: Fixed) -> None:
    for fix in result.applied:
        print(f"    {fix.grade}: {fix.candidate.rewrite}: {fix.candidate.title}")
    for offered in result.left:
        print(f"    left, line {offered.finding.range.start.line + 1}: {offered.finding.message}")
        for other in offered.search.fixes:
            print(f"      {other.grade}: {other.candidate.title}: {other.doubt}")
        for refused in offered.search.refused:
            print(f"      refused: {refused.candidate.title}: {refused.why}")


async def run(options: argparse.Namespace) -> int:
    paths = [path for path in sorted(FOLDER.glob("*.py")) if path.stem in options.names]
    if not options.names:
        paths = sorted(FOLDER.glob("*.py"))
    engine = Engine(options.python)
    await engine.start()
    await engine.ready()
    measure = Measure(options.python)
    ended: list[bool] = []
    right: list[bool] = []
    meant: list[bool] = []
    try:
        for path in paths:
            planted = Planted.read(path)
            was, before = measure.dynamic(planted, planted.text)
            tracer = Noting(engine, planted)
            began = time.monotonic()
            result = await fixed(tracer, request_of(planted), grades=("safe", "unsafe"))
            took = time.monotonic() - began
            now, after = measure.dynamic(planted, result.text)
            if planted.meant:
                meant.append(not result.applied)
                verdict = "CHANGED" if result.applied else "left as it is"
            else:
                ended.append(now and not was)
                verdict = "dynamic before" if was else "dynamic" if now else "NOT"
            print(f"{path.stem:16} {verdict}: {before} -> {after}, {took:.1f} s", flush=True)
            right.append(any(tracer.findings.values()))
            if not right[-1]:
                print("    no finding on its line")
            for (line, code, message), is_right in tracer.findings.items():
                if options.verbose and not code.startswith("probe"):
                    print(f"    {line} {code}: {message}{'' if is_right else ' (elsewhere)'}")
            if options.verbose:
                shown(result)
            if options.texts:
                print(result.text)
    finally:
        measure.close()
        await engine.close()
    share = 100 * sum(ended) / max(len(ended), 1)
    print(f"{sum(ended)} of {len(ended)} kinds ended dynamic ({share:.0f} %)")
    print(f"{sum(meant)} of {len(meant)} that are meant were left as they are")
    print(f"{sum(right)} of {len(right)} have a finding on the line that caused it")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--verbose", action="store_true", help="findings, and what was tried")
    parser.add_argument("--texts", action="store_true", help="the fixed texts")
    return asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
