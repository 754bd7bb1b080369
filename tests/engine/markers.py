"""Fixtures whose comments state the findings that are expected in them.

Below a line of code stand any number of markers::

    print(x.sum())
    #^^^^^^^^^^^^^ graph-break/GB0059 x2 @Net "part of the message" related "other.py"

The carets stand exactly under the finding's range, in bytes. ``<`` in place of the first caret
begins the range in the column of the ``#``; ``>`` behind the last one says that it ends on a later
line, and ``>+2:9`` says where: two lines below, before byte 9. Then come the code, the count (one
if none is given), the target (any), the versions that it is for and quoted parts of what a user
reads: the message, explanation, context, hints and notes, or after ``related`` those of the related
places, each ``file.py:12 words`` with the line counted from one; after ``cause`` what a break comes
from, ``library rearrange einops.py:12``; after ``cost`` what it costs,
``Net.forward 2+1 x3; met 3``.

Where the finding depends on the Python or the torch that does the tracing, markers say for which
they are; those that leave something open share the range::

    total = x.sum().item()
    #       ^^^^^^^^^^^^^^ graph-break/GB0124 before torch 2.14 "Unsupported Tensor.item() call"
    #       ^^^^^^^^^^^^^^ graph-break/GB0124 since torch 2.14 "Data-dependent value"
    #               ^^^^^ graph-break/GB0124 since 3.12 before 3.14 since torch 2.9

``since`` is that version and all after it, ``before`` all that came earlier; a bare number is a
Python.

What only a path beside that of the probe leads to is said so: ``"only in training mode"``.

Comments of their own, anywhere at the beginning of a line, state the rest. ``since`` and
``before`` may end each of them::

    # mode: fake                      fake, real or auto (the default)
    # status: Net failed              how a target ended; to be stated where it is not "traced"
    # graphs: Net 3                   also ops, breaks, skips, chosen, recompiles
    # inputs: Net f32[b=4, 16]        what it was traced with
    # context: Net in eval mode       in which modes and with which settings
    # python: 3.12                    the oldest Python that the file means anything to
    # torch: 2.9 it brought f()       the oldest torch that it means anything to, and why
    # dynamic: off                    no second run with first dimensions dynamic
    # paths: Net 3                    how many other paths were tried
    # lines: Net 41                   also lines_traced: those of its code, and of them the traced
    # forecast: on                    further calls with other sizes and values
    # export: on                      what torch.export refuses as well
    # backend: inductor               what AOTAutograd and Inductor do with the graphs; or aot
    # host: only                      statements of it raise, and only the host goes on after them

Nothing here knows where findings come from: :func:`compare` takes whatever the engine, the host or
the server found. :class:`WarmProcess` is the shortest way to get some.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
import traceback
import types
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ENGINE = Path(__file__).parents[2] / "engine"
if str(ENGINE) not in sys.path:
    sys.path.insert(0, str(ENGINE))

from fullgraph_engine import protocol  # noqa: E402
from fullgraph_engine.protocol import (  # noqa: E402
    BreakCause,
    BreakCost,
    Finding,
    Position,
    Range,
    RunId,
    TargetReport,
)
from fullgraph_engine.protocol.evidence import BreakEvidence  # noqa: E402

SECONDS = 120
"""Longest that one fixture may take before its processes are killed."""

_CARETS = re.compile(
    rb"^(?P<indent>[ \t]*#)(?P<gap> *)(?P<carets><?\^*)"
    rb"(?P<onward>>(?:\+(?P<lines>\d+):(?P<byte>\d+))?)?\s+(?P<words>\S.*)$"
)
_CODE = re.compile(r"(?P<code>[a-z-]+/[\w-]+)(?P<rest>.*)$")
_BOUND = r"(?P<bound>since|before) (?P<torch>torch )?(?P<version>\d+\.\d+)"
_PART = re.compile(
    rf"\s+(?:x(?P<count>\d+)|@(?P<target>\S+)|{_BOUND}"
    r'|(?:(?P<about>related|cause|cost)\s+)?"(?P<text>[^"]*)")'
)
_LAST_BOUND = re.compile(rf"\s+{_BOUND}$")
_HEADER = re.compile(r"^# (?P<key>[a-z]+): (?P<value>.*\S)\s*$", re.M)
_QUOTING = (
    "trace/",
    "export/",
    "backend/",
    "probe/",
    "schema/",
    "guard/data-dependent",
    "program/",
    "recompile/",
    "forecast/",
)
"""Codes whose messages quote exceptions, expressions or values of the file, of any length."""
_NUMBERS = ("graphs", "ops", "breaks", "skips", "chosen", "recompiles", "lines", "lines_traced")


class BadFixture(ValueError):
    """A fixture that does not say what it expects in a way that can be read."""


Version = tuple[int, ...]


@functools.lru_cache(maxsize=1)
def torch_version() -> Version:
    """Major and minor number of the torch that the tests run with, without importing it."""
    return _version(".".join(importlib.metadata.version("torch").split(".")[:2]))


@dataclass(frozen=True)
class Versions:
    """The Pythons and torches that something is for; an empty bound is none."""

    since: Version = ()
    before: Version = ()
    torch_since: Version = ()
    torch_before: Version = ()

    def bounded(self, match: re.Match[str]) -> Versions:
        """With the bound that was read as well."""
        name = f"torch_{match['bound']}" if match["torch"] else match["bound"]
        return dataclasses.replace(self, **{name: _version(match["version"])})

    def are_here(self) -> bool:
        """Whether this Python and its torch are among them."""
        return _within(sys.version_info[:2], self.since, self.before) and (
            not (self.torch_since or self.torch_before)
            or _within(torch_version(), self.torch_since, self.torch_before)
        )


def _within(version: Version, since: Version, before: Version) -> bool:
    return version >= since and (not before or version < before)


def _version(words: str | None) -> Version:
    return tuple(int(part) for part in words.split(".")) if words else ()


@dataclass(frozen=True)
class Marker:
    """One expected finding. ``end`` is None for a range that ends on some later line."""

    line: int
    start: int
    end: Position | None
    code: str
    count: int = 1
    target: str = ""
    texts: tuple[str, ...] = ()
    related: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    versions: Versions = Versions()

    def lies_at(self, found: Range, columns: bool) -> bool:
        if found.start.line != self.line:
            return False
        if not columns:
            return True
        if found.start.byte != self.start:
            return False
        return found.end.line > self.line if self.end is None else found.end == self.end


@dataclass(frozen=True)
class Fixture:
    """A file and what is expected of it."""

    path: Path
    text: str
    markers: tuple[Marker, ...]
    mode: protocol.Mode = "auto"
    unfit: str = ""
    """Why the file means nothing to this Python or torch; empty where it does."""
    try_dynamic: bool = True
    forecast: bool = False
    export: bool = False
    compiler: protocol.CompilerCheck = "off"
    host_only: bool = False
    statuses: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, str, int], ...] = ()
    inputs: tuple[tuple[str, str], ...] = ()
    contexts: tuple[tuple[str, str], ...] = ()

    @property
    def parts(self) -> tuple[protocol.Part, ...]:
        second: tuple[protocol.Part, ...] = ("second",) if self.try_dynamic else ()
        forecast: tuple[protocol.Part, ...] = ("forecast",) if self.forecast else ()
        export: tuple[protocol.Part, ...] = ("export",) if self.export else ()
        return ("first", *second, "paths", *forecast, *export)

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Traced:
    """What came of a fixture, wherever it was traced."""

    findings: tuple[Finding, ...]
    reports: tuple[TargetReport, ...]


# -- reading ----------------------------------------------------------------------------------


def read(path: Path) -> Fixture:
    """The fixture in a file.

    Raises:
        BadFixture: a marker or a header comment that means nothing.
    """
    text = path.read_text(encoding="utf-8")
    headers = list(_headers(text))
    one = dict(headers)
    statuses, numbers, inputs, contexts = [], [], [], []
    for key, value in headers:
        if key == "status":
            name, status = value.rsplit(" ", 1)
            statuses.append((name, status))
        elif key == "inputs":
            name, given = value.split(" ", 1)
            inputs.append((name, given))
        elif key == "context":
            name, given = value.split(" ", 1)
            contexts.append((name, given))
        elif key in (*_NUMBERS, "paths"):
            name, number = value.rsplit(" ", 1)
            numbers.append((key, name, int(number)))
        elif key not in (
            "mode",
            "python",
            "torch",
            "dynamic",
            "forecast",
            "export",
            "backend",
            "host",
            "fullgraph",
        ):
            raise BadFixture(f"{path.name}: no such header comment: {key}")
    mode = one.get("mode", "auto")
    if mode not in ("auto", "fake", "real"):
        raise BadFixture(f"{path.name}: no such mode: {mode}")
    compiler = one.get("backend", "off")
    if compiler not in ("off", "aot", "inductor"):
        raise BadFixture(f"{path.name}: no such backend: {compiler}")
    return Fixture(
        path,
        text,
        tuple(marker for marker in _markers(path, text) if marker.versions.are_here()),
        mode=mode,  # type: ignore[arg-type]
        unfit=_unfit(path, one),
        try_dynamic=one.get("dynamic") != "off",
        forecast=one.get("forecast") == "on",
        export=one.get("export") == "on",
        compiler=compiler,  # type: ignore[arg-type]
        host_only=one.get("host") == "only",
        statuses=tuple(statuses),
        numbers=tuple(numbers),
        inputs=tuple(inputs),
        contexts=tuple(contexts),
    )


def _headers(text: str) -> Iterable[tuple[str, str]]:
    """The header comments that are for this Python and torch."""
    for header in _HEADER.finditer(text):
        value = said_here(header["value"])
        if value is not None:
            yield header["key"], value


def said_here(words: str) -> str | None:
    """Without the ``since`` and ``before`` at their end; None if these are for other versions."""
    versions = Versions()
    while (bound := _LAST_BOUND.search(words)) is not None:
        words, versions = words[: bound.start()], versions.bounded(bound)
    return words if versions.are_here() else None


def _unfit(path: Path, headers: dict[str, str]) -> str:
    if sys.version_info[:2] < _version(headers.get("python")):
        return f"written for Python {headers['python']}"
    oldest, _, why = headers.get("torch", "").partition(" ")
    if oldest and not why:
        raise BadFixture(f"{path.name}: say why it is for torch {oldest}")
    if oldest and torch_version() < _version(oldest):
        return f"written for torch {oldest}: {why}"
    return ""


def _markers(path: Path, text: str) -> Iterable[Marker]:
    code_line = -1
    for number, raw in enumerate(text.encode().split(b"\n")):
        match = _CARETS.match(raw)
        if match is None or not match["carets"]:
            code_line = number
            continue
        here = f"{path.name}:{number + 1}"
        if code_line < 0:
            raise BadFixture(f"{here}: a marker with no code above it")
        words = _CODE.match(match["words"].decode())
        if words is None:
            raise BadFixture(f"{here}: no finding code behind the carets")
        start = match.start("carets")
        if match["carets"].startswith(b"<"):
            if match["gap"]:
                raise BadFixture(f"{here}: `<` stands directly behind the `#`")
            start -= 1
        end: Position | None = Position(code_line, match.end("carets"))
        if match["onward"]:
            end = None
            if match["lines"]:
                end = Position(code_line + int(match["lines"]), int(match["byte"]))
        yield _marker(here, code_line, start, end, words["code"], words["rest"])


def _marker(here: str, line: int, start: int, end: Position | None, code: str, rest: str) -> Marker:
    marker = Marker(line, start, end, code)
    at = 0
    while rest[at:].strip():
        part = _PART.match(rest, at)
        if part is None:
            raise BadFixture(f"{here}: cannot read `{rest[at:].strip()}`")
        at = part.end()
        if part["count"]:
            marker = dataclasses.replace(marker, count=int(part["count"]))
        elif part["target"]:
            marker = dataclasses.replace(marker, target=part["target"])
        elif part["bound"]:
            marker = dataclasses.replace(marker, versions=marker.versions.bounded(part))
        elif part["about"]:
            name = {"related": "related", "cause": "causes", "cost": "costs"}[part["about"]]
            said: dict[str, Any] = {name: (*getattr(marker, name), part["text"])}
            marker = dataclasses.replace(marker, **said)
        else:
            marker = dataclasses.replace(marker, texts=(*marker.texts, part["text"]))
    return marker


# -- comparing --------------------------------------------------------------------------------


def compare(fixture: Fixture, traced: Traced, columns: bool = sys.version_info >= (3, 11)) -> str:
    """What differs between the expected and the found, for a person; empty if nothing does.

    ``columns`` is off where the interpreter does not tell them.
    """
    lines = fixture.text.split("\n")
    open_findings = merged(traced.findings)
    trouble: list[str] = []
    matched = _matched(fixture.markers, open_findings, columns)
    for marker, best in matched:
        if best is None:
            trouble.append(f"missing, line {marker.line + 1}\n{_quoted(lines, marker)}")
            continue
        wrong = list(_differences(marker, best, columns))
        if wrong:
            trouble.append(
                f"differs, line {marker.line + 1}: {'; '.join(wrong)}\n"
                f"{_quoted(lines, marker)}\n{shown(best)}"
            )
    for finding in open_findings:
        line = finding.range.start.line
        code = lines[line] if line < len(lines) else ""
        trouble.append(f"unexpected, line {line + 1}\n{code}\n{shown(finding)}")
    trouble.extend(_report_differences(fixture, traced.reports))
    if not trouble:
        return ""
    return f"{fixture.path.name}\n\n" + "\n\n".join(trouble) + "\n"


def merged(findings: Iterable[Finding]) -> list[Finding]:
    """The last word of every run, and one finding for one identity, in the order of the text."""
    latest = {(f.run, f.code, f.identity or str(n)): f for n, f in enumerate(findings)}
    groups: dict[Any, list[Finding]] = {}
    for finding in latest.values():
        groups.setdefault((finding.code, finding.range, finding.identity), []).append(finding)
    found = [
        dataclasses.replace(group[0], count=sum(f.count for f in group))
        for group in groups.values()
    ]
    told = [finding for finding in found if finding.count]  # what counts 0 was taken back
    return sorted(told, key=lambda f: (f.range.start.line, f.range.start.byte, f.code))


def shown(finding: Finding) -> str:
    """The marker that would expect it, and its words."""
    start, end = finding.range.start, finding.range.end
    several = end.line != start.line
    width = max(end.byte - start.byte, 1) if not several else 3
    onward = f">+{end.line - start.line}:{end.byte}" if several else ""
    if start.byte == 0:
        carets = "#<" + "^" * (width - 2)
    else:
        carets = "#" + " " * (start.byte - 1) + "^" * width
    count = f" x{finding.count}" if finding.count != 1 else ""
    words = [f'{carets}{onward} {finding.code}{count} @{finding.target} "{finding.message}"']
    for name in ("explanation", "context"):
        if getattr(finding, name):
            words.append(f"      {name}: {getattr(finding, name)}")
    words.extend([f"      only {finding.only}"] if finding.only else [])
    words.extend(f"      hint: {hint}" for hint in finding.hints)
    words.extend(f"      note: {note}" for note in finding.notes)
    words.extend(f"      related: {words}" for words in _related(finding))
    words.extend(f"      cause: {_cause(cause)}" for cause in finding.causes)
    words.extend([f"      cost: {_cost(finding.cost)}"] if finding.cost else [])
    return "\n".join(words)


def _matched(
    markers: Sequence[Marker], findings: list[Finding], columns: bool
) -> list[tuple[Marker, Finding | None]]:
    """Each marker with the finding it means, which is taken out of ``findings``.

    First come the pairs that fit in everything, then those at one place, then those on one line.
    """
    chosen: dict[int, Finding] = {}
    for closeness in range(3):
        for number, marker in enumerate(markers):
            if number in chosen:
                continue
            for finding in findings:
                fits = (
                    not list(_differences(marker, finding, columns)),
                    marker.lies_at(finding.range, columns),
                    finding.range.start.line == marker.line,
                )
                if finding.code == marker.code and fits[closeness]:
                    chosen[number] = finding
                    findings.remove(finding)
                    break
    return [(marker, chosen.get(number)) for number, marker in enumerate(markers)]


def _break_words(finding: Finding) -> tuple[str, ...]:
    evidence = finding.evidence
    if not isinstance(evidence, BreakEvidence):
        return ()
    return evidence.title, evidence.consequence


def _differences(marker: Marker, finding: Finding, columns: bool) -> Iterable[str]:
    if not marker.lies_at(finding.range, columns):
        yield "another range"
    if marker.count != finding.count:
        yield f"x{marker.count} expected, x{finding.count} found"
    if marker.target and marker.target != finding.target:
        yield f"@{marker.target} expected, @{finding.target} found"
    words = "\n".join(
        (
            *(finding.message, finding.explanation, finding.context, *finding.hints),
            *(*finding.notes, f"only {finding.only}" if finding.only else ""),
            *_break_words(finding),
        )
    )
    for text in marker.texts:
        if text not in words:
            yield f'not said: "{text}"'
    line = finding.message.partition("\n")[0]
    if len(line) > 100 and not finding.code.startswith(_QUOTING):
        yield f"{len(line)} characters in the first line: {line}"
    if finding.only and not any(text.startswith("only ") for text in marker.texts):
        yield f'to be stated: "only {finding.only}"'
    related = "\n".join(_related(finding))
    for text in marker.related:
        if text not in related:
            yield f'not related: "{text}"'
    causes, cost = "\n".join(map(_cause, finding.causes)), _cost(finding.cost)
    for text in marker.causes:
        if text not in causes:
            yield f'not its cause: "{text}"; it is: "{causes}"'
    for text in marker.costs:
        if text not in cost:
            yield f'not its cost: "{text}"; it is: "{cost}"'


def _related(finding: Finding) -> Iterable[str]:
    for place in finding.related:
        yield f"{Path(place.path).name}:{place.range.start.line + 1} {place.message}"


def _cause(cause: BreakCause) -> str:
    place = f" {Path(cause.path).name}:{cause.line + 1}" if cause.path else ""
    return f"{cause.kind} {cause.function}{place} from {cause.entry}".removesuffix(" from ")


def _cost(cost: BreakCost | None) -> str:
    if cost is None:
        return "unknown"
    parts = [
        f"{cut.function} {cut.before}+{cut.after}" + (f" x{cut.runs}" if cut.runs != 1 else "")
        for cut in cost.cuts
    ]
    parts.append(f"{cost.ops} in {cost.graphs}")
    parts.append(f"met {cost.met}")
    parts.extend([f"{cost.sync} x{cost.syncs}"] if cost.sync else [])
    parts.extend([f"eager {', '.join(cost.eager)} {cost.dropped}"] if cost.eager else [])
    parts.append(f"resumes {cost.resumes}")
    parts.append("worth fixing" if cost.worth_fixing else "not worth it")
    return "; ".join(parts)


def _quoted(lines: Sequence[str], marker: Marker) -> str:
    width = 3 if marker.end is None else max(marker.end.byte - marker.start, 1)
    onward = ">" if marker.end is None or marker.end.line != marker.line else ""
    carets = " " * marker.start + "^" * (3 if onward else width) + onward
    texts = "".join(f' "{text}"' for text in marker.texts)
    return f"{lines[marker.line]}\n{carets} {marker.code} x{marker.count}{texts}"


def _report_differences(fixture: Fixture, reports: Sequence[TargetReport]) -> Iterable[str]:
    stated = {name for name, _ in fixture.statuses}
    for report in reports:
        if report.name not in stated and report.status not in ("traced", "no-probe"):
            yield f"status of {report.name}: {report.status} and not stated ({report.error})"
    for name, status in fixture.statuses:
        found = [report for report in reports if report.name == name]
        if not found:
            yield f"no target {name}; there are: {', '.join(r.name for r in reports) or 'none'}"
        for report in found:
            if report.status != status:
                why = f" ({report.error})" if report.error else ""
                yield f"status of {name}: {status} expected, {report.status} found{why}"
    for name, given in fixture.inputs:
        shown = [r.probe.inputs for r in reports if r.name == name and r.probe is not None]
        if given not in shown:
            yield f"inputs of {name}: {given} expected, {' or '.join(shown) or 'none'} found"
    for name, given in fixture.contexts:
        shown = [r.probe.context for r in reports if r.name == name and r.probe is not None]
        if given not in shown:
            yield f"context of {name}: {given} expected, {' or '.join(shown) or 'none'} found"
    latest = {(report.name, report.probe_number): report for report in reports}
    for key, name, number in fixture.numbers:
        counts = [getattr(r, key) for r in latest.values() if r.name == name]
        total = sum(len(count) if key == "paths" else count for count in counts)
        if total != number:
            yield f"{key} of {name}: {number} expected, {total} found"


# -- tracing ----------------------------------------------------------------------------------


class WarmProcess:
    """A process that has torch imported and warm; every fixture is traced in forks of it."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def trace(self, fixture: Fixture) -> Traced:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {
            "path": str(fixture.path),
            "text": fixture.text,
            "mode": fixture.mode,
            "try_dynamic": fixture.try_dynamic,
            "forecast": fixture.forecast,
            "export": fixture.export,
            "compiler": fixture.compiler,
        }
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline() or b'{"error": "the process is gone"}')
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return Traced(
            tuple(protocol.from_plain(Finding, raw) for raw in answer["findings"]),
            tuple(protocol.from_plain(TargetReport, raw) for raw in answer["reports"]),
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


def serve() -> None:
    """Trace what standard input asks for until it ends."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    import torch
    import torch._dynamo

    from fullgraph_engine import findings, targets, tracing  # noqa: F401

    torch.set_num_threads(1)
    tracing.warm_up()
    orders = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for line in orders:
        answer = forked(execute_and_plan, json.loads(line), seconds=SECONDS)
        answers.write(json.dumps(answer).encode() + b"\n")
        answers.flush()


def forked(work: Any, *args: Any, seconds: float) -> Any:
    """What a function gives in a forked process, as JSON data; ``{"error": words}`` if nothing."""
    come, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(come)
            os.setpgid(0, 0)
            try:
                answer = work(*args)
            except BaseException:
                answer = {"error": traceback.format_exc()}
            with os.fdopen(go, "wb") as pipe:
                pipe.write(json.dumps(answer).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(go)
    parts: list[bytes] = []
    until = time.monotonic() + seconds
    while select.select([come], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(come, 1 << 16)
        if not part:
            break
        parts.append(part)
    else:
        parts = [json.dumps({"error": f"nothing came within {seconds} seconds"}).encode()]
        os.killpg(pid, signal.SIGKILL)
    os.close(come)
    _, status = os.waitpid(pid, 0)
    if not parts:
        return {"error": f"the process ended with status {status} and said nothing"}
    return json.loads(b"".join(parts))


def execute_and_plan(order: dict[str, Any]) -> dict[str, Any]:
    """In a fork: execute the module text, then fork once for each probe of each target."""
    import torch

    from fullgraph_engine import targets
    from fullgraph_engine.operators import definitions

    silence()
    path, text = order["path"], order["text"]
    name = Path(path).stem
    module = types.ModuleType(name)
    module.__file__ = path
    sys.modules[name] = module
    sys.path.insert(0, str(Path(path).parent))
    discovery = targets.discover(text, path)
    # Not by switching Dynamo off: functions called so would never be traced afterwards.
    with torch.compiler.set_stance("force_eager"):
        exec(compile(text, path, "exec"), module.__dict__)
    if order["compiler"] != "off":
        import torch._inductor.compile_fx  # once, and not in each run
    schemas = [wrong.finding for wrong in definitions.find_invalid_definitions(text)]
    schemas += definitions.check_registered_operators(text)
    found = [protocol.to_plain(finding) for finding in (*discovery.findings, *schemas)]
    reports: list[Any] = []
    remembered: dict[str, protocol.FoundProbe] = {}
    # Users first: what a search finds for them shows what the others are called with.
    for target in sorted(discovery.targets, key=lambda one: len(one.used_by)):
        probes = targets.plan_probes(target, module.__dict__, discovery.targets)
        needed = sum(not probe.waits for probe in probes)
        if not probes:
            report = TargetReport(target.name, target.kind, target.range, "no-probe")
            reports.append(protocol.to_plain(report))
            missing = targets.missing_probe(target, text)
            found.append(protocol.to_plain(missing))
        for number, probe in enumerate(probes):
            if number >= needed:
                break
            run = RunId(target.name, number)
            order["found"] = tuple(remembered.values())
            args = (target, probe, module.__dict__, order, run)
            order["raised"] = False
            answer = forked(one_run, *args, order["mode"], seconds=SECONDS / 2)
            if answer.get("needs_real"):
                order["raised"] = answer["raised"]
                answer = forked(one_run, *args, "real", seconds=SECONDS / 2)
            if "error" in answer:
                return dict(answer)
            found.extend(answer["findings"])
            reports.append(answer["report"])
            needed += answer["further"]
            comment = (answer["report"]["probe"] or {}).get("comment", "")
            if comment:
                remembered[target.name] = protocol.FoundProbe(target.name, comment)
    return {"findings": found, "reports": reports}


def one_run(
    target: Any, probe: Any, namespace: dict[str, Any], order: dict[str, Any], run: RunId, mode: Any
) -> dict[str, Any]:
    """In a fork of a fork: one probe of one target in one mode."""
    import torch._dynamo

    from fullgraph_engine.findings import run_target
    from fullgraph_engine.targets import Tracee

    emitted: list[Finding] = []
    tracee = Tracee(target, probe, namespace, order["path"], order["text"], mode, order["found"])
    outcome = run_target(tracee, "first", emitted.append, run)
    if order["try_dynamic"] and outcome.report.status == "traced":
        torch._dynamo.reset()
        run_target(tracee, "second", emitted.append, dataclasses.replace(run, part="second"))
    report = outcome.report
    if outcome.known:
        # With real tensors where fake ones raise; values that they lack are chosen.
        further_mode = "real" if order.get("raised") else order["mode"]
        paths = further_paths(tracee, outcome, run, emitted, further_mode)
        report = dataclasses.replace(
            report,
            coverage=paths.coverage,
            paths=paths.paths,
        )
    if order["forecast"]:
        from fullgraph_engine.findings import forecast
        from fullgraph_engine.host.process_backends.branches import Branches

        torch._dynamo.reset()
        forecast.SHORTEST = SECONDS / 2
        run_target(
            tracee,
            "forecast",
            emitted.append,
            dataclasses.replace(run, part="forecast"),
            branch=Branches(),
            forecast_recompiles=lambda _: None,
        )
    if order["export"]:
        torch._dynamo.reset()
        numbered = dataclasses.replace(run, part="export")
        if run_target(tracee, "export", emitted.append, numbered).needs_real:
            real = dataclasses.replace(tracee, mode="real")
            run_target(real, "export", emitted.append, numbered)
    if order["compiler"] != "off":
        torch._dynamo.reset()
        numbered, compiler = dataclasses.replace(run, part="backend"), order["compiler"]
        made = run_target(tracee, "backend", emitted.append, numbered, compiler=compiler)
        if made.needs_real:
            real = dataclasses.replace(tracee, mode="real")
            made = run_target(real, "backend", emitted.append, numbered, compiler=compiler)
        report = dataclasses.replace(report, compilation=made.report.compilation)
    return {
        "findings": [protocol.to_plain(finding) for finding in emitted],
        "report": protocol.to_plain(report),
        "needs_real": outcome.needs_real,
        "further": outcome.further,
        "raised": outcome.raised,
    }


def further_paths(
    tracee: Any, first: Any, run: RunId, emitted: list[Finding], mode: Any
) -> TargetReport:
    """What the host does with a first run that others may go on from."""
    import torch._dynamo

    from fullgraph_engine.findings import run_target
    from fullgraph_engine.host.process_backends.branches import Branches

    torch._dynamo.reset()
    outcome = run_target(
        dataclasses.replace(tracee, mode=mode),
        "paths",
        emitted.append,
        dataclasses.replace(run, part="paths"),
        branch=Branches(),
        known=first.known,
    )
    if outcome.needs_real:
        return further_paths(tracee, first, run, emitted, "real")
    assert outcome.paths is not None
    for finding in first.findings:
        if finding.identity in outcome.paths.narrowed:
            path = protocol.TracePath(training=outcome.paths.mode)
            emitted.append(dataclasses.replace(finding, path=path))
    return outcome.report


def silence() -> None:
    """What fixtures print and log is not for whoever runs the tests."""
    void = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(void, stream)


if __name__ == "__main__":
    serve()
