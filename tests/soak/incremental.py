"""Edits files at random, and compares what is known after each edit, most of it from before, with a
trace of the whole text.

``python tests/soak/incremental.py [--steps N] [--seed N] [FILES]`` prints each difference, and how
many runs the edits needed of those that a trace of everything is. Status 1 if anything differs.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import dataclasses
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak.edits import comment, insert, remove
from soak.window import ROOT

from fullgraph.domain.findings import latest
from fullgraph.domain.positions import Encoding
from fullgraph.engines import Engine, EngineListener
from fullgraph.kept import SETTLED
from fullgraph.session.analysis_unit import TraceInputs, Unit
from fullgraph.session.documents import Change, Document
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings
from fullgraph.session.unit_events import ResultsChanged, RunBegan, TraceDue, UnitEvent
from fullgraph_engine.protocol import Finding, Log, TargetReport, TargetStarted

FIXTURES = ROOT / "tests" / "fixtures"
FILES = (FIXTURES / "demo" / "tiny_gpt.py", FIXTURES / "bench" / "breaks.py")
FURTHEST = 8
"""Edits by which a text is away from the original before they are undone."""

_TIMELY = re.compile(r"\b\d{9,}\b|(?<=; the last try: ).*")

_T = TypeVar("_T")
_Told = TypeVar("_Told", TargetReport, Finding)


def note(chance: random.Random, text: str) -> str:
    """A comment or an empty line, at any place."""
    lines = text.split("\n")
    row = chance.randrange(len(lines))
    new = chance.choice(["", "# note", "        # another note", "#"])
    return "\n".join([*lines[:row], new, *lines[row:]])


def remark(chance: random.Random, text: str) -> str:
    """A comment behind a line."""
    lines = text.split("\n")
    row = chance.randrange(len(lines))
    lines[row] = lines[row].partition("  #")[0] + chance.choice(["", "  # a remark"])
    return "\n".join(lines)


def constant(chance: random.Random, text: str) -> str:
    """Another number."""
    places = [
        node
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    ]
    if not places:
        return text
    node = chance.choice(places)
    lines = text.split("\n")
    line = lines[node.lineno - 1].encode()
    new = str(chance.choice([0, 1, 2, 8, 0.5])).encode()
    lines[node.lineno - 1] = (line[: node.col_offset] + new + line[node.end_col_offset :]).decode()
    return "\n".join(lines)


def blanks(chance: random.Random, text: str) -> str:
    """More or fewer blanks on a line, or in front of every line."""
    lines = text.split("\n")
    if chance.random() < 0.2:
        return "\n".join(re.sub("^ +", lambda found: found[0] * 2, line) for line in lines)
    row = chance.randrange(len(lines))
    indent = lines[row][: len(lines[row]) - len(lines[row].lstrip())]
    old, new = chance.choice([(" = ", "="), ("=", " = "), (", ", ","), (",", ",  "), ("(", "( ")])
    lines[row] = indent + lines[row].lstrip().replace(old, new)
    return "\n".join(lines)


def rename(chance: random.Random, text: str) -> str:
    """Another name for something at the top of the module, wherever it is mentioned by it."""
    names = [node.name for node in ast.parse(text).body if isinstance(node, ast.ClassDef)]
    if not names:
        return text
    name = chance.choice(names)
    return text.replace(name, f"{name}X") if chance.random() < 0.5 else text.replace("X", "")


def swap(chance: random.Random, text: str) -> str:
    """A definition changes places with its neighbor."""
    lines, body = text.split("\n"), ast.parse(text).body
    spans = [
        (min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1, node.end_lineno)
        for node in body
        if isinstance(node, (ast.ClassDef, ast.FunctionDef))
    ]
    if len(spans) < 2:
        return text
    at = chance.randrange(len(spans) - 1)
    (a, b), (c, d) = spans[at], spans[at + 1]
    return "\n".join([*lines[:a], *lines[c:d], *lines[b:c], *lines[a:b], *lines[d:]])


def define(chance: random.Random, text: str) -> str:
    """A function or a constant that nothing uses, or that something already does."""
    new = chance.choice(
        ["def unused(x):\n    return x", "UNUSED = 3", "class Unused:\n    pass", "import os"]
    )
    return f"{text}\n\n{new}\n"


def document(chance: random.Random, text: str) -> str:
    """Another docstring."""
    nodes = [
        node.body[0]
        for node in ast.walk(ast.parse(text))
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.lineno < node.body[0].lineno
    ]
    node = chance.choice(nodes)
    lines = text.split("\n")
    row, indent = node.lineno - 1, " " * node.col_offset
    return "\n".join([*lines[:row], f'{indent}"""Some words."""', *lines[row:]])


def layout(chance: random.Random, text: str) -> str:
    """Other lines, quotes and commas, as formatters make them."""
    options = {
        "line-length": chance.choice([30, 60, 79, 88, 100, 120, 320]),
        "format.quote-style": chance.choice(['"single"', '"double"', '"preserve"']),
        "format.skip-magic-trailing-comma": chance.choice(["true", "false"]),
        "format.preview": chance.choice(["true", "false"]),
    }
    settings = [word for name, value in options.items() for word in ("--config", f"{name}={value}")]
    ruff = [sys.executable, "-m", "ruff", "format", "--isolated", *settings, "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


EDITS: tuple[Callable[[random.Random, str], str], ...] = (
    *(insert, insert, constant, constant, remove, comment, note, note, remark, blanks),
    *(rename, swap, define, document, layout, layout, layout),
)


class Traced:
    """One file in a unit, of which each run is counted."""

    def __init__(self, engine: Engine, path: Path, text: str, settings: Settings) -> None:
        self.engine, self.settings = engine, settings
        self.targets = 0
        self.began = False
        document = Document(path.as_uri(), text, 1, "python", Encoding.UTF8)
        self.unit = Unit(document, TraceInputs(settings, ()), self._heard)

    def _heard(self, unit: Unit, event: UnitEvent) -> None:
        if isinstance(event, TraceDue):
            document = unit.document
            request = analyze_request(
                name=document.name,
                text=document.text,
                generation=document.generation,
                settings=self.settings,
                project=Path(document.name).parent,
                focus=document.focus,
                only=event.only,
            )
            unit.trace(event, self.engine, request)
        elif isinstance(event, RunBegan):
            self.began = True
        elif not isinstance(event, ResultsChanged) and isinstance(
            getattr(event, "event", None), TargetStarted
        ):
            self.targets += 1

    async def settled(self) -> None:
        while self.unit.busy or self.unit.waiting:
            await asyncio.sleep(0.01)

    def told(self) -> dict[str, Any]:
        """By target what is known of it. Of one whose run ended too early, what values were may be
        from before, to help."""
        results = self.unit.results
        told: dict[str, Any] = {"": {}}
        for shown in self.unit.reports():
            # What it is called with is that of when it was traced.
            report = dataclasses.replace(shown.report, called=None)
            told.setdefault(report.name, {})[report.probe_number] = [timeless(untraced(report))]
        for name, reports in told.items():
            found = (one for one in latest(results.findings()) if one.target == name)
            reports["findings"] = sorted((timeless(untraced(one)) for one in found), key=repr)
            if all(one[0].status in SETTLED for key, one in reports.items() if key != "findings"):
                for kind in ("shapes", "seen", "guards", "trace_steps"):
                    known = getattr(results.told(name), kind)
                    known = getattr(known, "by_probe", known)
                    reports[kind] = timeless(tuple(known.items()) if type(known) is dict else known)
        return told


def timeless(value: _T) -> _T:
    """Without how long anything took, numbers of requests, and addresses; nor which of the tries to
    find inputs came farthest: how many are made depends on the time that each takes."""
    if isinstance(value, tuple):
        return type(value)(timeless(item) for item in value)  # type: ignore[return-value]
    if isinstance(value, str):
        return _TIMELY.sub("…", value)  # type: ignore[return-value]
    if not dataclasses.is_dataclass(value):
        return value
    changed = {
        field.name: 0 if field.name in ("seconds", "request") else timeless(old)
        for field in dataclasses.fields(value)
        if not callable(old := getattr(value, field.name))
    }
    return dataclasses.replace(value, **changed)  # type: ignore[type-var]


def untraced(told: _Told) -> _Told:
    """Of a target without inputs, what they were tried with says nothing of it."""
    none = (
        told.status == "no-probe"
        if isinstance(told, TargetReport)
        else told.code == "probe/missing"
    )
    return dataclasses.replace(told, mode="fake") if none else told


def searched(told: dict[Any, Any]) -> list[Any] | None:
    """The inputs of a target that were found by trying; None where it has others."""
    probes = [one[0].probe for key, one in told.items() if type(key) is int]
    found = [probe for probe in probes if probe]
    return found if all(probe.origin == "synthesis" for probe in found) else None


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Where two values differ, as deep as it can be said."""
    if one == other:
        return
    if type(one) is type(other) and dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            ours, theirs = getattr(one, field.name), getattr(other, field.name)
            yield from differences(ours, theirs, f"{where}.{field.name}")
    elif isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        for key in one:
            yield from differences(one[key], other[key], f"{where}[{key!r}]")
    elif isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        if len(one) == len(other):
            for number, (ours, theirs) in enumerate(zip(one, other, strict=True)):
                yield from differences(ours, theirs, f"{where}[{number}]")
        else:
            ours, theirs = (
                [str(x) for x in one if x not in other],
                [str(x) for x in other if x not in one],
            )
            yield f"{where}: only after edits {ours[:2]}; only anew {theirs[:2]}"[:1500]
    elif isinstance(one, str) and isinstance(other, str):
        pairs = enumerate(zip(one, other, strict=False))
        same = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
        yield f"{where}, from character {same}: {one[same:][:120]!r} != {other[same:][:120]!r}"
    else:
        yield f"{where}: {one!r} != {other!r}"[:600]


def edited(chance: random.Random, text: str) -> tuple[str, str]:
    """A text that parses, and what was done."""
    for _ in range(20):
        edit = chance.choice(EDITS)
        try:
            new = edit(chance, text)
            ast.parse(new)
        except (SyntaxError, ValueError, IndexError):
            continue
        if new != text:
            return new, edit.__name__
    return text, "nothing"


async def soak(
    engine: Engine, path: Path, steps: int, chance: random.Random, *, verbose: bool
) -> tuple[int, ...]:
    """Differences, runs, targets that were traced, those of traces of everything, targets of which
    other inputs were found, changes of the layout, and those of them that needed a run."""
    # What further parts find follows from the same: they take most of the time.
    settings = Settings(
        trace_on="change", forecast=False, try_paths=False, try_dynamic=False, timeout=120.0
    )
    original = text = path.read_text()
    traced = Traced(engine, path, text, settings)
    traced.unit.open()
    await traced.settled()
    failures = runs = targets = whole = others = layouts = layout_runs = 0
    history = [text]
    for step in range(steps):
        if len(history) > FURTHEST or (len(history) > 1 and chance.random() < 0.1):
            history = history[:-1] if chance.random() < 0.5 else [original]
            text, what = history[-1], "undo"
        else:
            text, what = edited(chance, text)
            history.append(text)
        traced.began, traced.targets = False, 0
        traced.unit.change([Change(text)], step + 2)
        await traced.settled()
        anew = Traced(engine, path, text, settings)
        anew.unit.open()
        await anew.settled()
        runs, targets = runs + traced.began, targets + traced.targets
        layouts, layout_runs = (
            layouts + (what == "layout"),
            layout_runs + (what == "layout" and traced.began),
        )
        whole += anew.targets
        ours, theirs = traced.told(), anew.told()
        for name in ours.keys() & theirs.keys():
            # What was found by trying may be something else when it is tried again.
            tried = searched(ours[name]), searched(theirs[name])
            if None not in tried and tried[0] != tried[1]:
                others += 1
                del ours[name], theirs[name]
        found = list(differences(ours, theirs))
        if found:
            failures += 1
            shown = [line[:300] for line in found[:3]]
            print(f"{path.name}, step {step} ({what}):", *shown, sep="\n  ", flush=True)
            kept = Path(tempfile.gettempdir()) / f"incremental-{path.stem}-{step}"
            kept.with_suffix(".before.py").write_text(history[-2] if len(history) > 1 else original)
            kept.with_suffix(".after.py").write_text(text)
        anew.unit.close()
        if verbose:
            print(f"  {step}: {what}, {traced.targets} of {anew.targets} targets", flush=True)
    traced.unit.close()
    return failures, runs, targets, whole, others, layouts, layout_runs


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("files", nargs="*", type=Path, default=FILES)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="fullgraph-incremental-"))

    def log(event: Log) -> None:
        if event.stream == "engine":
            print(event.text, file=sys.stderr, end="")

    engine = Engine(Path(options.python), EngineListener(log=log), processes="auto")
    await engine.start()
    await engine.ready()
    failures = steps = 0
    try:
        for number, file in enumerate(options.files):
            path = Path(shutil.copy(file, folder))
            chance = random.Random(options.seed + number)
            wrong, runs, targets, whole, others, layouts, layout_runs = await soak(
                engine, path, options.steps, chance, verbose=options.verbose
            )
            failures, steps = failures + wrong, steps + options.steps
            print(
                f"{file.name}: {options.steps} edits, {wrong} differences; {runs} needed a run, "
                f"{targets} targets were traced, {whole} without reuse; "
                f"other inputs were found {others} times; "
                f"{layout_runs} of {layouts} changes of the layout needed a run",
                flush=True,
            )
    finally:
        await engine.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{steps} edits, {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
