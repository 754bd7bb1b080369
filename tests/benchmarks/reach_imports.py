"""Whether files of real packages are imported as Python imports them, and bind the same names.

    PYTHON tests/benchmarks/reach_imports.py torchvision.models timm.models transformers.models:a-l

PYTHON is an interpreter that has the packages; it is both the one that traces and the one that is
compared with. Each argument is a package whose files are compared, with a range of first letters
for the folders below it where only some are meant. Plain Python imports each module in a fork of a
process that has torch; the engine analyses its file with a pipeline that only reports the names.
``--warm`` imports modules in both before, for packages that would otherwise import them for seconds
for each of hundreds of files; ``--warm-others`` does so with all that a package imports of others.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import select
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ENGINE = ROOT / "engine"
if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry != str(Path(__file__).parent)]
    sys.path.append(str(ENGINE))

from fullgraph_engine import protocol  # noqa: E402
from fullgraph_engine.host.real_pipeline import RealPipeline  # noqa: E402
from fullgraph_engine.protocol import (  # noqa: E402
    Analyze,
    Analyzed,
    Failed,
    Finding,
    FindingFound,
    Limits,
    Position,
    Range,
    Ready,
    Unusable,
)

_WARM = "REACH_IMPORTS_WARM"
_START = Range(Position(0, 0), Position(0, 0))


# -- in the engine ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Names:
    """The only target of a file: its namespace."""

    name: str = "names"
    kind: str = "function"
    range: Range = _START
    body: Range = _START
    definition: str = ""


@dataclass
class Discovery:
    targets: list[Names]
    off: bool = False
    findings: list[Finding] = field(default_factory=list)


class Pipeline(RealPipeline):
    """Executes files as ever, and traces nothing in them."""

    def warm_up(self) -> None:
        super().warm_up()
        _import_all(os.environ[_WARM].split())

    def discover(self, text: str, path: str, methods: tuple[str, ...] = ()) -> Any:
        return Discovery([Names()])

    def check_text(self, text: str) -> Any:
        return ()

    def check_registered(self, text: str) -> Any:
        return ()

    def confirm(self, target: Any, namespace: dict[str, Any]) -> bool:
        return True

    def plan_probes(self, target: Any, namespace: dict[str, Any], *_others: Any) -> Any:
        self.namespace = namespace
        return ()

    def missing_probe(self, target: Any, text: str) -> Finding:
        # A module may put another one in its place.
        module = sys.modules.get(self.namespace.get("__name__", ""))
        names = described(vars(module) if module is not None else self.namespace)
        return Finding("reach/names", "", _START, context=json.dumps(names))


def described(namespace: dict[str, Any]) -> dict[str, str]:
    """Names with what they are bound to, as far as that is the same in two processes."""
    return {name: _kind(value) for name, value in namespace.items() if name not in _OWN}


_OWN = ("__loader__", "__spec__", "__warningregistry__", "__builtins__")


def _kind(value: object) -> str:
    kind = type(value)
    words = f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(value, type) or words in ("builtins.function", "builtins.module"):
        own = vars(value)
        module = own.get("__module__", getattr(value, "__module__", ""))
        words += f" {module}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"
    return words


# -- plain Python -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    names: dict[str, str]
    errors: tuple[str, ...]
    seconds: float


def _import_all(names: list[str]) -> None:
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def others(package: str) -> list[str]:
    """The modules of other packages that importing one brings along, found in a fork."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.dup2(os.open(os.devnull, os.O_RDWR), 1)
            before = set(sys.modules)
            _import_all([package])
            top = package.partition(".")[0]
            names = [name for name in sys.modules if name.partition(".")[0] != top]
            found = [name for name in names if name not in before]
            with os.fdopen(write, "w") as out:
                out.write(json.dumps(found))
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answers:
        text = answers.read()
    os.waitpid(pid, 0)
    return json.loads(text) if text else []


def plain(name: str) -> tuple[int, int]:
    """A fork that imports a module and writes what came of it; its pid and where to read that."""
    read, write = os.pipe()
    pid = os.fork()
    if pid:
        os.close(write)
        return pid, read
    try:
        os.close(read)
        void = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(void, number)
        began = time.monotonic()
        names: dict[str, str] = {}
        errors: list[str] = []
        try:
            names = described(vars(importlib.import_module(name)))
        except BaseException as error:
            errors.append(f"{type(error).__name__}: {error}")
        answer = json.dumps([names, errors, time.monotonic() - began])
        with os.fdopen(write, "w") as out:
            out.write(answer)
    finally:
        os._exit(0)


def outcome_of(pid: int, read: int) -> Outcome:
    with os.fdopen(read) as answers:
        text = answers.read()
    os.waitpid(pid, 0)
    if not text:
        return Outcome({}, ("the process ended",), 0.0)
    names, errors, seconds = json.loads(text)
    return Outcome(names, tuple(errors), seconds)


# -- ours ---------------------------------------------------------------------------------------


class Engine:
    def __init__(self, processes: str) -> None:
        theirs, self._write = os.pipe()
        self._read, answers = os.pipe()
        boot = ENGINE / "fullgraph_engine" / "boot.py"
        command = [sys.executable, str(boot), "--read", str(theirs), "--write", str(answers)]
        command += ["--index", "no", "--processes", processes]
        command += ["--pipeline", f"{Path(__file__).resolve()}:Pipeline"]
        self._process = subprocess.Popen(
            command, pass_fds=(theirs, answers), stdin=subprocess.DEVNULL
        )
        os.close(theirs)
        os.close(answers)
        self._buffer = b""
        self._number = 0
        while not isinstance(event := self._event(), Ready):
            if event is None or isinstance(event, Unusable):
                raise SystemExit(f"The engine does not start: {event}")

    def begin(self, path: Path, added: str = "") -> None:
        self._number += 1
        text = path.read_text(encoding="utf-8") + added
        limits = Limits(module_seconds=120.0)
        request = Analyze(self._number, "0", str(path), text, limits=limits, parts=("first",))
        os.write(self._write, protocol.encode(request))

    def outcome(self) -> Outcome:
        began = time.monotonic()
        names: dict[str, str] = {}
        errors: list[str] = []
        while True:
            event = self._event()
            if event is None:
                raise SystemExit("The engine died")
            if isinstance(event, FindingFound):
                if event.finding.code == "reach/names":
                    names = json.loads(event.finding.context)
                elif event.finding.code.startswith("trace/"):
                    where = event.finding.range.start.line + 1
                    errors.append(f"line {where}: {event.finding.message}")
            elif isinstance(event, (Analyzed, Failed)) and event.request == self._number:
                if isinstance(event, Failed):
                    errors.append(event.reason)
                return Outcome(names, tuple(errors), time.monotonic() - began)

    def close(self) -> None:
        os.close(self._write)
        self._process.wait(30)

    def _event(self) -> Any:
        while b"\n" not in self._buffer:
            if not select.select([self._read], [], [], 300)[0]:
                raise SystemExit("The engine says nothing")
            data = os.read(self._read, 1 << 16)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return protocol.decode(line)


# -- the comparison -----------------------------------------------------------------------------


def modules_of(argument: str) -> Iterator[tuple[str, Path]]:
    """The modules below a package, by their names; ``argument`` is as on the command line."""
    package, _, letters = argument.partition(":")
    # Found without importing anything: every comparison begins without the package.
    top, *below = package.split(".")
    spec = PathFinder.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit(f"There is no package {top} in {sys.executable}.")
    folder = Path(next(iter(spec.submodule_search_locations)), *below)
    first, _, last = (letters or "\0-\U0010ffff").partition("-")
    for path in sorted(folder.rglob("*.py")):
        parts = list(path.relative_to(folder).with_suffix("").parts)
        if letters and (len(parts) < 2 or not first <= parts[0][0].lower() <= (last or first)):
            continue
        if parts[-1] == "__init__":
            parts.pop()
        if all(part.isidentifier() for part in parts):
            yield ".".join([package, *parts]), path


def differences(python: Outcome, own: Outcome) -> list[str]:
    """What the two do not agree on."""
    if bool(python.errors) != bool(own.errors):
        return [f"Python: {python.errors or 'imports it'}", f"here: {own.errors or 'imports it'}"]
    if python.errors:
        # Python stops at the first error; here other statements may have errors of their own.
        same = python.errors[0].partition(": ")[2] in own.errors[0]
        imports = [error for error in own.errors if "Cannot import" in error]
        return [] if same and len(imports) <= 1 else [f"Python: {python.errors}", f"{own.errors}"]
    found = []
    if lacking := sorted(python.names.keys() - own.names.keys()):
        found.append(f"only in Python: {', '.join(lacking)}")
    if more := sorted(own.names.keys() - python.names.keys()):
        found.append(f"only here: {', '.join(more)}")
    for name in sorted(python.names.keys() & own.names.keys()):
        if python.names[name] != own.names[name]:
            found.append(f"{name}: {python.names[name]} in Python, {own.names[name]} here")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("packages", nargs="+", help="such as timm.models, transformers.models:a-l")
    parser.add_argument("--warm", nargs="*", default=[], help="modules that both import before")
    parser.add_argument("--warm-others", action="store_true")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth file")
    parser.add_argument("--match", default="", help="only modules whose names have this")
    parser.add_argument("--edits", type=int, default=0, help="compare after so many edits, too")
    parser.add_argument("--processes", choices=("fork", "spawn"), default="fork")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    warm = list(given.warm)
    if given.warm_others:
        _import_all(["torch"])
        warm += [name for argument in given.packages for name in others(argument.partition(":")[0])]
    os.environ[_WARM] = " ".join(warm)
    # As for the code that is analyzed.
    os.environ.update({"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "MPLBACKEND": "Agg"})
    engine = Engine(given.processes)
    with open(os.devnull, "w") as void, contextlib.redirect_stdout(void):  # noqa: PTH123
        _import_all(["torch", *warm])
    sys.path.remove(str(ENGINE))
    worst = 0
    for argument in given.packages:
        total = agreed = imported = left_out = 0
        seconds = [0.0, 0.0]
        edits: list[float] = []
        for name, path in list(modules_of(argument))[:: given.every]:
            if given.match not in name:
                continue
            if name in sys.modules:
                left_out += 1
                continue
            engine.begin(path)
            python, own = outcome_of(*plain(name)), engine.outcome()
            found = differences(python, own)
            for number in range(given.edits):
                engine.begin(path, f"\n# {number}\n")
                after = engine.outcome()
                found += [f"after edit {number + 1}: {line}" for line in differences(python, after)]
                edits.append(after.seconds)
            if given.edits:
                taken = ", ".join(f"{seconds:.2f}" for seconds in edits[-given.edits :])
                print(f"  {name}: {own.seconds:.2f} s, then {taken}", flush=True)
            total, agreed = total + 1, agreed + (not found)
            imported += not python.errors
            seconds = [seconds[0] + python.seconds, seconds[1] + own.seconds]
            for line in found:
                print(f"  {name}: {line}", flush=True)
            if total % 10 == 0:
                print(f"  {argument}: {agreed} of {total} so far", file=sys.stderr)
        worst += total - agreed
        if left_out:
            print(f"{argument}: {left_out} files left out that --warm imports")
        print(
            f"{argument}: {total} files, {imported} of them imported by Python; agree {agreed}, "
            f"disagree {total - agreed} ({seconds[0]:.0f} s in Python, {seconds[1]:.0f} s here)",
            flush=True,
        )
    engine.close()
    return min(worst, 1)


if __name__ == "__main__":
    sys.exit(main())
