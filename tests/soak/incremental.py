"""Edits files at random, and compares what is known after each edit, most of it from before, with a
trace of the whole text.

``python tests/soak/incremental.py [--steps N] [--seed N] [--imported] [--fresh] [FILES]`` prints
each difference, and how many runs the edits needed of those that a trace of everything is. Status 1
if anything differs. ``--imported`` moves definitions to a module that the file imports, which is
edited as well, in its editor or on disk; ``--fresh`` compares with an engine that was just started.
``--parts`` traces what else follows from the same as well, other paths and sizes, and takes longer.
Of folders, ``--draw`` says how many files are edited.
"""

from __future__ import annotations

import argparse
import ast
import asyncio
import contextlib
import dataclasses
import random
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from soak.drawn import drawn
from soak.edits import comment, insert, remove
from soak.window import ROOT

from fullgraph.domain.findings import keep_latest
from fullgraph.domain.positions import Encoding
from fullgraph.engines import Engine, EngineListener
from fullgraph.results.file_results import SETTLED
from fullgraph.results.seen import SeenByTarget
from fullgraph.session.analysis_unit import AnalysisUnit
from fullgraph.session.documents import Document, TextChange
from fullgraph.session.request import TraceInputs, analyze_request
from fullgraph.session.settings import Settings
from fullgraph.session.unit_events import ResultsChanged, RunBegan, TraceDue, UnitEvent
from fullgraph.store.files import is_on_disk
from fullgraph_engine.protocol import Finding, Log, OpenFile, TargetReport, TargetStarted

FIXTURES = ROOT / "tests" / "fixtures"
FILES = (FIXTURES / "demo" / "tiny_gpt.py", FIXTURES / "bench" / "breaks.py")
FURTHEST = 8
"""Edits by which a text is away from the original before they are undone."""

_TIMELY = re.compile(
    r"(?<!\d)\d{7,}(?!\d)|\b\d+ failed\b|(?<=; the last try: ).*|/fullgraph-engine-[\w-]+/tmp\w+"
)

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


def divided(text: str, module: str) -> tuple[str, str] | None:
    """A text that imports the first of its definitions, and the module that has them; None where
    there are too few."""
    lines, body = text.split("\n"), ast.parse(text).body
    last = max((n for n, node in enumerate(body) if isinstance(node, ast.ClassDef)), default=0)
    imports = (ast.Import, ast.ImportFrom)
    header = next((n for n, node in enumerate(body) if isinstance(node, _DEFINES)), last)
    moved = [node for node in body[header:last] if not isinstance(node, imports)]
    names = dict.fromkeys(
        name
        for node in moved
        for name in (
            [node.name]
            if isinstance(node, (ast.ClassDef, ast.FunctionDef))
            else [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and _is_set(one)]
        )
    )
    if not names:
        return None
    start, end = _first_line(body[header]), _first_line(body[last])
    shared = [node for node in body[header:last] if isinstance(node, imports)]
    above = [*lines[: start - 1], *(line for node in shared for line in _lines(lines, node))]
    taken = f"from {module} import {', '.join(names)}"
    return "\n".join([*above, taken, "", *lines[end - 1 :]]), "\n".join(lines[: end - 1])


def _is_divisible(text: str) -> bool:
    try:
        return divided(text, "parts") is not None
    except SyntaxError:
        return False


_DEFINES = (ast.ClassDef, ast.FunctionDef, ast.Assign, ast.AnnAssign)


def _is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _first_line(node: ast.stmt) -> int:
    return min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])


def _lines(lines: list[str], node: ast.stmt) -> list[str]:
    return lines[node.lineno - 1 : node.end_lineno]


class Imported:
    """A module that the file imports."""

    def __init__(self, path: Path, text: str) -> None:
        self.path, self.original, self.text = path, text, text
        path.write_text(text)

    @property
    def open_files(self) -> tuple[OpenFile, ...]:
        if is_on_disk(self.path, self.text):
            return ()
        return (OpenFile(str(self.path), self.text),)

    def edit(self, chance: random.Random) -> str:
        """What was done: the text is edited or taken back, and saved or not."""
        if chance.random() < 0.2:
            self.text, what = self.original, "undo"
        else:
            self.text, what = edited(chance, self.text)
        saved = chance.random() < 0.5
        if saved:
            self.path.write_text(self.text)
        return f"{what} of what is imported, {'saved' if saved else 'not saved'}"


class Traced:
    """One file in a unit, of which each run is counted."""

    def __init__(
        self, engine: Engine, path: Path, text: str, settings: Settings, imported: Imported | None
    ) -> None:
        self.engine, self.settings, self.imported = engine, settings, imported
        self.targets = 0
        self.began = False
        document = Document(path.as_uri(), text, 1, Encoding.UTF8)
        self.unit = AnalysisUnit(document, self.inputs, self._handle_event)

    @property
    def inputs(self) -> TraceInputs:
        return TraceInputs(self.settings, (), self.imported.open_files if self.imported else ())

    def _handle_event(self, unit: AnalysisUnit, event: UnitEvent) -> None:
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
                open_files=self.unit.inputs.open_files,
            )
            unit.traces.begin(event, self.engine, request)
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
        for shown in self.unit.view.reports():
            # What it is called with is that of when it was traced.
            report = dataclasses.replace(shown.report, called=None)
            told.setdefault(report.name, {})[report.probe_number] = [timeless(untraced(report))]
        for name, reports in told.items():
            found = (one for one in keep_latest(results.findings()) if one.target == name)
            reports["findings"] = sorted((timeless(untraced(one)) for one in found), key=repr)
            if all(one[0].status in SETTLED for key, one in reports.items() if key != "findings"):
                for kind in ("shapes", "seen", "guards", "trace_steps"):
                    known = getattr(results.target_details(name), kind)
                    known = timeless(known.current) if known is not None else None
                    if isinstance(known, SeenByTarget):
                        known = SeenByTarget(tuple(sorted(known.values, key=repr)))
                    reports[kind] = known
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


def called_by(told: dict[Any, Any]) -> set[str]:
    """The targets that call one, in whose words its inputs come from there."""
    probes = [one[0].probe for key, one in told.items() if type(key) is int]
    words = " ".join(probe.source for probe in probes if probe)
    return set(re.findall(r"called by ([\w.]+?)(?:\.\w+)?,", words))


def differences(one: Any, other: Any, where: str = "") -> Iterator[str]:
    """Where two values differ, as deep as it can be said."""
    if one == other:
        return
    if type(one) is type(other) and dataclasses.is_dataclass(one):
        for field in dataclasses.fields(one):
            ours, theirs = getattr(one, field.name), getattr(other, field.name)
            yield from differences(ours, theirs, f"{where}.{field.name}")
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from differences(one.get(key), other.get(key), f"{where}[{key!r}]")
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


class Engines:
    """The one that hears of all edits, and one of which the same is asked anew."""

    def __init__(self, python: Path, *, fresh: bool) -> None:
        self._python, self.fresh = python, fresh
        self._next: asyncio.Task[Engine] | None = None
        self.first: Engine

    async def start(self) -> None:
        self.first = await self._started()

    async def _started(self) -> Engine:
        def log(event: Log) -> None:
            if event.stream == "engine":
                print(event.text, file=sys.stderr, end="")

        engine = Engine(self._python, EngineListener(log=log), processes="auto")
        await engine.start()
        await engine.ready()
        return engine

    @contextlib.asynccontextmanager
    async def other(self) -> AsyncIterator[Engine]:
        """The first, or one that has traced nothing; the next is started meanwhile."""
        if not self.fresh:
            yield self.first
            return
        engine = await (self._next or self._started())
        self._next = asyncio.create_task(self._started())
        try:
            yield engine
        finally:
            await engine.close()

    async def close(self) -> None:
        await self.first.close()
        if self._next is not None:
            await (await self._next).close()


@dataclass
class Tally:
    """Edits, differences, runs, targets that were traced, those of traces of everything, targets of
    which other inputs were found, changes of the layout, and those of them that needed a run."""

    edits: int = 0
    differences: int = 0
    runs: int = 0
    targets: int = 0
    whole: int = 0
    others: int = 0
    layouts: int = 0
    layout_runs: int = 0


async def soak(
    engines: Engines,
    path: Path,
    steps: int,
    chance: random.Random,
    *,
    imported: bool,
    parts: bool,
    verbose: bool,
) -> Tally:
    settings = Settings(
        trace_on="change", forecast=False, try_paths=parts, try_dynamic=parts, timeout=120.0
    )
    original, module = path.read_text(), None
    if imported:
        name = f"parts_of_{re.sub(r'[^0-9A-Za-z]', '_', path.stem)}"
        both = divided(original, name)
        if both is None:
            return Tally()
        original, module = both[0], Imported(path.with_name(f"{name}.py"), both[1])
    text = original
    path.write_text(text)
    traced = Traced(engines.first, path, text, settings, module)
    traced.unit.open()
    await traced.settled()
    tally = Tally(steps)
    history, undone = [text], False
    for step in range(steps):
        traced.began, traced.targets = False, 0
        if module is not None and chance.random() < 0.4:
            what = module.edit(chance)
            traced.unit.inputs = traced.inputs
            traced.unit.reconsider()
        else:
            if len(history) > FURTHEST or (len(history) > 1 and chance.random() < 0.1):
                history = history[:-1] if chance.random() < 0.5 else [original]
                text, what, undone = history[-1], "undo", True
            else:
                text, what = edited(chance, text)
                history.append(text)
            traced.unit.change([TextChange(text)], step + 2)
        await traced.settled()
        async with engines.other() as second:
            anew = Traced(second, path, text, settings, module)
            anew.unit.open()
            await anew.settled()
            ours, theirs = traced.told(), anew.told()
            anew.unit.close()
        tally.runs, tally.targets = tally.runs + traced.began, tally.targets + traced.targets
        tally.layouts += what == "layout"
        tally.layout_runs += what == "layout" and traced.began
        tally.whole += anew.targets
        if engines.fresh or undone:
            # What was found by trying may be something else where that is not known, or is what
            # was found for a text that was undone.
            both = ours.keys() & theirs.keys()
            tried = {name: (searched(ours[name]), searched(theirs[name])) for name in both}
            others = {
                name
                for name, (one, other) in tried.items()
                if None not in (one, other) and one != other
            }
            tally.others += len(others)
            for name in both:
                if name in others or called_by(ours[name]) & others:
                    del ours[name], theirs[name]
        found = list(differences(ours, theirs))
        if found:
            tally.differences += 1
            shown = [line[:300] for line in found[:3]]
            print(f"{path.name}, step {step} ({what}):", *shown, sep="\n  ", flush=True)
            kept = Path(tempfile.gettempdir()) / f"incremental-{path.stem}-{step}"
            kept.with_suffix(".before.py").write_text(history[-2] if len(history) > 1 else original)
            kept.with_suffix(".after.py").write_text(text)
            if module is not None:
                kept.with_suffix(".imported.py").write_text(module.text)
        if verbose:
            print(f"  {step}: {what}, {traced.targets} of {anew.targets} targets", flush=True)
    traced.unit.close()
    return tally


async def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--imported", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--parts", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--draw", type=int, default=50)
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("files", nargs="*", type=Path, default=FILES)
    options = parser.parse_args()
    folders = [path for path in options.files if path.is_dir()]
    files = [path for path in options.files if path not in folders]
    usable = _is_divisible if options.imported else bool
    files += drawn(random.Random(options.seed), folders, options.draw, usable)
    folder = Path(tempfile.mkdtemp(prefix="fullgraph-incremental-"))
    engines = Engines(Path(options.python), fresh=options.fresh)
    await engines.start()
    failures = steps = 0
    try:
        for number, file in enumerate(files):
            tally = await soak(
                engines,
                Path(shutil.copy(file, folder)),
                options.steps,
                random.Random(options.seed + number),
                imported=options.imported,
                parts=options.parts,
                verbose=options.verbose,
            )
            failures, steps = failures + tally.differences, steps + tally.edits
            print(
                f"{file.name}: {tally.edits} edits, {tally.differences} differences; "
                f"{tally.runs} needed a run, {tally.targets} targets were traced, "
                f"{tally.whole} without reuse; other inputs were found {tally.others} times; "
                f"{tally.layout_runs} of {tally.layouts} changes of the layout needed a run",
                flush=True,
            )
    finally:
        await engines.close()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"{steps} edits, {failures} differences")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
