"""An engine that traces nothing: what it says is written in the text that it is given.

Speaks the protocol of the real one, so that the server can be tested in milliseconds. In a text:

``class Net(nn.Module):``   a target; ``# stub: STATUS`` at the end of the line gives its status,
                          ``# stub: found`` says that its inputs were found by trying,
                          ``# stub: late`` that the time of the file is up before it,
                          ``# stub: program`` that only the run of a program calls it
``# break: MESSAGE``        a graph break on the code of the line, in the class around it
``# file: CODE MESSAGE``    a finding of no target
``# fix: TEXT``             the finding on the line before gets a fix that replaces its range
``# related: MESSAGE``      the finding on the line before gets related information at this line
``# cause: IDENTITY``       the finding on the line before is a break with this cause
``# cost: BEFORE AFTER``    it cuts a graph into parts of so many operators
``# unnecessary``           the finding on the line before is grayed
``# allow: KIND VALUE``     the finding on the line before is of something that this would allow
``# slow: SECONDS``         the run stops there for a while
``# until: FILE``           the run stops there until there is this file
``# stub: files NAMES``      the text reads these files, which stand beside it; ``files-late``: says
                          so after what is above the first target
``# stub: too-many``      there were more values than are told
``# seen: ROLE CODE: VALUES``  what the first such code of the line was; between distinct values
                          stands `` | ``; one in brackets, as ``(16)``, is a constant
``# print: TEXT``           output of user code
``# imports: NAME``         the import of this module goes on
``# die``                   the engine ends at once; ``# die: garbage`` says nonsense first
``# registers: ns::name``   executing the text registers this operator
``# forecast: NAME``        each new NAME recompiles, and the code of the line is why;
                          ``# forecast: NAME slow`` takes a second for it
``# deaf``                  the run goes on until it is killed, and does not hear a cancel
``# repro: STEPS``          how repros go on, see ``stub_repros``

``STUB_ENGINE`` in the environment: ``unusable``, ``crash``, ``slow=SECONDS``, ``waits=FILE`` (the
import of torch goes on until there is this file), ``helper`` (it has a process beside),
``python=VERSION``,
``count=FILE`` (a line for each start and each request), ``index=FILE`` (of operators; ``static=``
for one that is incomplete), separated by commas.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import cast, get_args

sys.path.insert(0, str(Path(__file__).parents[2] / "engine"))

from stub_repros import reproduce

from fullgraph_engine import protocol as p
from fullgraph_engine.protocol.files import OPEN, FileState, file_state
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame
from fullgraph_engine.protocol.operators import Operator, Overload
from fullgraph_engine.protocol.sandbox import AllowanceKind, SandboxLayer
from fullgraph_engine.protocol.shapes import PlaceShapes, ShapeRole, ShapeSeen, ShapesFound
from fullgraph_engine.protocol.timings import FrameTime, PhaseTime

SEEN = re.compile(r"#\s*seen:\s*(\w+) (.+?): (.*)$")
BEHAVIOR = re.compile(r"#\s*behavior: (\w+)(?:: (.*))?$", re.MULTILINE)
FORECAST = re.compile(r"#\s*forecast: (\S+)( slow)?$")
PATTERN = re.compile(
    r"#\s*(break|file|fix|related|cause|cost|unnecessary|allow|slow|until|print|imports|die|deaf|registers)\b:?\s*(.*)$"
)


_EXTENSIONS = ("fix", "related", "cause", "cost", "unnecessary", "allow")


def width(text: str) -> int:
    """Bytes; an editor may hold half of a surrogate pair."""
    return len(text.encode(errors="surrogatepass"))


LONG_ERROR = (
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x16 and 8x8), which is a sentence "
    "that has no end"
)


class Stub:
    def __init__(self, read: int, write: int, allowed: str) -> None:
        self.allowed = allowed
        self.read = os.fdopen(read, "rb", 0)
        self.write = os.fdopen(write, "wb", 0)
        self.lock = threading.Lock()
        self.cancelled: set[int] = set()
        flags = os.environ.get("STUB_ENGINE", "").split(",")
        self.options = dict(flag.partition("=")[::2] for flag in flags if flag)

    def say(self, message: p.Event) -> None:
        with self.lock:
            self.write.write(p.encode(message))

    def count(self, line: str) -> None:
        if path := self.options.get("count"):
            with Path(path).open("a") as file:
                file.write(line + "\n")

    def serve(self) -> None:
        self.count(f"start {os.getpid()} {self.allowed}")
        python = self.options.get("python", platform.python_version())
        self.say(p.Starting(p.VERSION, os.getpid(), python, sys.executable))
        for option, complete in (("static", False), ("index", True)):
            if path := self.options.get(option):
                self.say(p.IndexWritten(path, complete))
        if "crash" in self.options:
            print("cannot import torch: libtorch.so is missing", file=sys.stderr, flush=True)
            os._exit(3)
        if "unusable" in self.options:
            self.say(p.Unusable("There is no torch in this interpreter.", "Install torch in it."))
            return
        time.sleep(float(self.options.get("slow", "0")))
        if "helper" in self.options and not os.fork():
            signal.alarm(60)
            signal.pause()
        while (path := self.options.get("waits")) and not Path(path).exists():
            time.sleep(0.005)
        layers = (SandboxLayer("audit hook"), SandboxLayer("Landlock", "there is none"))
        self.say(p.Ready("2.13.0", 0.01, sandbox=p.SandboxLevel(layers)))
        for line in self.read:
            message = p.decode(line)
            if isinstance(message, p.Analyze):
                without = [f"-{name}" for name in message.without]
                what = " ".join([",".join((*message.only, *without)), *message.documents])
                own = {
                    "forecast": self.forecast,
                    "prepare": self.prepare,
                    "measure": self.measure,
                }
                work = own.get(message.parts[0], self.analyze)
                self.count(f"{work.__name__} {message.generation} {what}")
                threading.Thread(target=work, args=(message,), daemon=True).start()
            elif isinstance(message, p.Reproduce):
                wanted, only = message.wanted, ",".join(message.analyze.only)
                data = " with data" if wanted.data else ""
                what = f"{wanted.code or wanted.backend} {wanted.target} {only}{data}"
                self.count(f"reproduce {what}")
                threading.Thread(target=self.reproduce, args=(message,), daemon=True).start()
            elif isinstance(message, p.Compare):
                self.count(f"compare {message.target} {','.join(message.analyze.only)}")
                threading.Thread(target=self.compare, args=(message,), daemon=True).start()
            elif isinstance(message, p.Cancel):
                self.count("cancel")
                self.cancelled.add(message.request)
            elif isinstance(message, p.Prioritize):
                self.count(f"prioritize {message.first} {message.last}")
            elif isinstance(message, p.SelfCheck):
                hook = p.Hook("convert_frame", True, "graphs")
                self.say(p.SelfChecked(message.request, "2.13.0", "3.11.0", (hook,)))
            elif isinstance(message, p.Shutdown):
                return

    def reproduce(self, request: p.Reproduce) -> None:
        reproduce(
            request,
            self.say,
            lambda: request.request in self.cancelled,
            lambda: self.die(""),
            lambda: self.count("reproduce-waits"),
        )

    def compare(self, request: p.Compare) -> None:
        """``# behavior: differs: REASON`` in the changed text says what comes of it, ``wait`` goes
        on until it is cancelled, ``die`` ends the engine, ``compiled`` differs only in compiled
        code; without one it is the same, exactly."""
        number, match = request.request, BEHAVIOR.search(request.changed)
        word, reason = (match[1], match[2] or "") if match else ("exact", "")
        if word == "die":
            self.die("")
        while word in ("wait", "deaf") and not (word == "wait" and number in self.cancelled):
            time.sleep(0.005)
        cancelled = number in self.cancelled
        outcomes: dict[str, p.BehaviorOutcome] = {
            "exact": "same",
            "same": "same",
            "differs": "differs",
            "compiled": "differs" if request.compiled_by else "same",
        }
        outcome = outcomes.get(word, "unverified")
        packed = ("cases",) if word == "compiled" else ()
        case = p.ComparedCase("x=f32[4]", same=outcome == "same", exact=word == "exact")
        exact = word == "exact"
        self.say(
            p.Compared(number, outcome, exact, (case,), reason, 0.5, cancelled, packed_cases=packed)
        )

    def analyze(self, request: p.Analyze) -> None:
        began = time.monotonic()
        number = request.request
        lines = re.split(r"\r\n|\r|\n", request.text)
        targets = [
            (row, match)
            for row, line in enumerate(lines)
            if (match := re.match(r"class (\w+)\(nn\.Module\):\s*(?:# stub: ([\w-]+))?", line))
        ]
        if any("def broken(" in line for line in lines):
            row = next(row for row, line in enumerate(lines) if "def broken(" in line)
            self.say(p.FindingFound(number, self.syntax(row)))
            self.say(
                p.Failed(
                    number, "The file does not parse.", "Correct the syntax error to get findings."
                )
            )
            return
        names = [
            p.TargetInfo(match[1], "module", self.name(row, lines[row], match[1]))
            for row, match in targets
        ]
        self.say(p.TargetsFound(number, tuple(names)))
        read = re.search(r"# stub: files(-late)?(.*)", request.text) if request.files else None
        files = tuple(self.files_read(request, read[2].split())) if read else ()
        if read and not read[1]:
            self.say(p.FilesRead.from_files(number, files))
        ends = [row for row, _ in targets[1:]] + [len(lines)] * bool(targets)
        self.scan(request, lines, 0, targets[0][0] if targets else len(lines), "")
        if read and read[1]:
            self.say(p.FilesRead.from_files(number, files))
        for info, (row, match), end in zip(names, targets, ends, strict=True):
            others = request.only and info.name not in request.only
            if others or info.name in request.without:
                continue
            self.say(p.TargetStarted(number, info.name))
            breaks = self.scan(request, lines, row, end, info.name)
            where = range(row, end)
            places = [place for at in where for place in self.seen(at, lines[at])]
            if places and number not in self.cancelled:
                note = "Not all." if any("# stub: too-many" in lines[at] for at in where) else ""
                self.say(ShapesFound.from_places(number, info.name, places, note))
            if (asked := list(self.guards(lines, row, end))) and number not in self.cancelled:
                self.say(p.GuardsFound.from_frames(number, info.name, asked))
            if number in self.cancelled:
                self.say(p.Analyzed(number, request.generation, 0.0, cancelled=True))
                return
            for kind in request.documents:
                # Twice: what a later attempt writes counts.
                for attempt, words in (("1", "wrong"), ("2", lines[row])):
                    part = p.documents.DocumentPart(kind, f"The {kind}", f"# {words}\n")
                    run = p.RunId(info.name)
                    self.say(p.DocumentsWritten(number, info.name, run, attempt, (part,)))
            never = tuple(at for at in where if lines[at].endswith("# never"))
            # An editor may have joined the next line to it.
            known = match[2] in get_args(p.Status)
            status: p.Status = cast("p.Status", match[2]) if known else "traced"
            if match[2] == "late" and request.limits.file_seconds and not request.only:
                status = "skipped"
            probe = p.ProbeInfo("convention", "f32[4, 16]", source="get_inputs")
            if match[2] == "found":
                probe = p.ProbeInfo("synthesis", "f32[4, 16]", comment="f32[4, 16]")
            region = None
            if match[2] == "program":
                probe = p.ProbeInfo("program", "")
                site = p.regions.CompileSite(request.path, info.range)
                region = p.Region(request.path, "torch.compile", site, calls=1)
            above = [at for at in range(row) if lines[at].startswith(f"# fullgraph: {match[1]}(")]
            for written, at in enumerate(above):
                source = f"line {at + 1}"
                if written:
                    raised = p.Finding(
                        "trace/eager-error",
                        f"The code raises here, with or without torch.compile: {LONG_ERROR}",
                        info.range,
                        info.name,
                        run=p.RunId(info.name, written),
                    )
                    self.say(p.FindingFound(number, raised))
                self.say(
                    p.TargetDone(
                        number,
                        p.TargetReport(
                            info.name,
                            "module",
                            info.range,
                            "traced" if written == 0 else "failed",
                            probe=p.ProbeInfo("comment", "f32[4, 16]", source=source),
                            graphs=1,
                            guards=41,
                            error=None if written == 0 else LONG_ERROR,
                            probe_number=written,
                        ),
                    )
                )
            if above:
                continue
            self.say(
                p.TargetDone(
                    number,
                    p.TargetReport(
                        info.name,
                        "module",
                        info.range,
                        status,
                        probe=None if match[2] == "no-probe" else probe,
                        graphs=breaks + 1,
                        breaks=breaks,
                        guards=41,
                        coverage=self.covered(where, never) if never else None,
                        region=region,
                    ),
                )
            )
        seconds = time.monotonic() - began
        if request.timings:
            for info in names:
                if info.name not in request.without:
                    line = info.range.start.line
                    frame = FrameTime("forward", request.path, line, "compiled", 0.2)
                    phases = (PhaseTime("trace", 0.25),)
                    self.say(p.Timings(number, p.RunId(info.name), 0.25, phases, (frame,)))
            self.say(p.Timings(number, None, seconds, (PhaseTime("module", seconds / 2),)))
        self.say(p.Analyzed(number, request.generation, seconds))

    def prepare(self, request: p.Analyze) -> None:
        self.say(p.Analyzed(request.request, request.generation, 0.0))

    def measure(self, request: p.Analyze) -> None:
        """One call takes 2 ms eagerly; compiled 1 ms, or if there is a ``print`` 4 ms."""
        number = request.request
        while "# measure: wait" in request.text and number not in self.cancelled:
            time.sleep(0.005)
        compiled = 0.004 if "print" in request.text else 0.001
        for name in request.only:
            measurement = p.Measurement("cpu", 2, 0.002, compiled, 3.0, 1)
            self.say(p.Measured(number, name, p.RunId(name, 0, "measure"), measurement))
        cancelled = number in self.cancelled
        self.say(p.Analyzed(number, request.generation, 0.0, cancelled))

    def forecast(self, request: p.Analyze) -> None:
        """What else an analysis says is left out; the server must not need it."""
        number = request.request
        target, cancelled = "", False
        told: dict[str, list[tuple[p.ForecastRow, p.Finding]]] = {}
        for row, line in enumerate(request.text.split("\n")):
            if match := re.match(r"class (\w+)", line):
                target = match[1]
            match = FORECAST.search(line)
            if target in request.only:
                told.setdefault(target, [])
            if match is None or target not in request.only or number in self.cancelled:
                continue
            until = time.monotonic() + (1.0 if match[2] else 0.0)
            while time.monotonic() < until and number not in self.cancelled:
                time.sleep(0.005)
            where = self.code(row, line, match.start())
            made = p.ForecastRow("size", match[1], "4", ("5", "6"), "always", ("too big",), where)
            words = f"Each new value of `{match[1]}` recompiles"
            same = f"every {match[1]}"
            found = p.Finding("recompile/every-size", words, where, target, identity=same)
            told[target].append((made, found))
        cancelled = number in self.cancelled
        for name, pairs in told.items():
            if not cancelled:
                rows, findings = zip(*pairs, strict=True) if pairs else ((), ())
                self.say(
                    p.ForecastFound(number, name, p.RunId(name, 0, "forecast"), rows, findings)
                )
        self.count(f"forecast-{'cancelled' if cancelled else 'made'}")
        self.say(p.Analyzed(number, request.generation, 0.0, cancelled))

    @staticmethod
    def covered(lines: Collection[int], never: Collection[int]) -> p.Coverage:
        places = [
            [p.Range(p.Position(line, 0), p.Position(line, 1)) for line in some]
            for some in (set(lines) - set(never), never)
        ]
        return p.Coverage.from_ranges(*places)

    def guards(self, lines: list[str], first: int, last: int) -> Iterator[GuardedFrame]:
        """``guarded: L['x']`` in a comment is a guard that the line asks for."""
        for row in range(first, last):
            code, _, source = lines[row].partition("# guarded: ")
            if source:
                start, end = len(code) - len(code.lstrip()), len(code.rstrip())
                cause = p.Range(p.Position(row, start), p.Position(row, end))
                guard = FoundGuard("EQUALS_MATCH", source, (f"{source} == 3",), "int", 0)
                place = p.Range(p.Position(last, 0), p.Position(last, 0))
                yield GuardedFrame("forward", "", first, place, "0/0", 1, (cause,), (guard,))

    def files_read(self, request: p.Analyze, names: list[str]) -> Iterator[FileState]:
        edited = {file.path for file in request.open_files}
        for name in names:
            path = str(Path(request.path).with_name(name))
            yield FileState(path, OPEN, OPEN) if path in edited else file_state(path)

    def scan(self, request: p.Analyze, lines: list[str], first: int, last: int, name: str) -> int:
        number = request.request
        held: p.Finding | None = None
        breaks = 0
        for row in range(first, last):
            match = PATTERN.search(lines[row])
            if match is None or number in self.cancelled:
                continue
            word, rest = match[1], match[2].strip()
            if held is not None and word in _EXTENSIONS:
                held = self.extended(held, word, rest, request.path, row, lines)
                continue
            if held is not None:
                self.say(p.FindingFound(number, held))
                held = None
            if word == "break":
                breaks += 1
                held = p.Finding(
                    "graph-break/GB0059",
                    rest,
                    self.code(row, lines[row], match.start()),
                    name,
                    explanation="Dynamo does not know this.",
                    hints=("Do not do this.",),
                    href="https://meta-pytorch.github.io/compile-graph-break-site/gb/gb0059.html",
                    evidence=p.evidence.BreakEvidence(rest[:100]),
                )
            elif word == "file":
                code, _, message = rest.partition(" ")
                held = p.Finding(code, message, self.code(row, lines[row], match.start()))
            elif word == "imports":
                self.say(p.Importing(number, rest))
            elif word == "slow":
                seconds = re.match(r"\d+(\.\d+)?", rest)
                until = time.monotonic() + (float(seconds[0]) if seconds else 0.0)
                while time.monotonic() < until and number not in self.cancelled:
                    time.sleep(0.005)
            elif word == "until":
                while not Path(rest).exists() and number not in self.cancelled:
                    time.sleep(0.005)
            elif word == "print":
                self.say(p.Log(number, "stdout", rest + "\n"))
            elif word == "registers":
                overload = Overload("", f"{rest}(Tensor x) -> Tensor", "registered")
                self.say(p.OperatorsRegistered(number, (Operator(rest, (overload,)),)))
            elif word == "die":
                self.die(rest)
            elif word == "deaf":
                threading.Event().wait()
        if held is not None and number not in self.cancelled:
            self.say(p.FindingFound(number, held))
        return breaks

    def extended(
        self, held: p.Finding, word: str, rest: str, path: str, row: int, lines: list[str]
    ) -> p.Finding:
        from dataclasses import replace

        if word == "fix":
            fix = p.Fix(f"Write {rest}", (p.TextEdit(held.range, rest),), preferred=True)
            return replace(held, fixes=(*held.fixes, fix))
        if word == "related":
            place = self.code(row, lines[row], len(lines[row]))
            return replace(held, related=(*held.related, p.Related(path, place, rest)))
        if word == "cause":
            cause = p.BreakCause(rest, "call", rest)
            return replace(held, causes=(*held.causes, cause))
        if word == "cost":
            before, after = map(int, rest.split())
            cut = p.GraphCut("forward", before, after)
            cost = p.BreakCost(held.target, cuts=(cut,), graphs=2, ops=before + after)
            return replace(held, cost=cost)
        if word == "allow":
            kind, _, value = rest.partition(" ")
            return replace(held, allowance=p.Allowance(cast("AllowanceKind", kind), value))
        return replace(held, unnecessary=True)

    def die(self, how: str) -> None:
        if how == "garbage":
            with self.lock:
                self.write.write(b"this is no JSON\n")
            threading.Event().wait()
        sys.stderr.write("the last words of the engine\n")
        sys.stderr.flush()
        os.kill(os.getpid(), signal.SIGKILL)

    def seen(self, row: int, line: str) -> list[PlaceShapes]:
        match = SEEN.search(line)
        if match is None:
            return []
        code, words = match[2], match[3]
        values = tuple(
            ShapeSeen("constant", text.strip("()"), source="n")
            if text.startswith("(")
            else ShapeSeen("tensor", text, device="cpu", stride="(1)", graph=2, node="node")
            for text in words.split(" | ")
        )
        name = code if code.isidentifier() else ""
        role = cast("ShapeRole", match[1])
        return [PlaceShapes(self.name(row, line, code), role, values, name, "Net.forward")]

    def syntax(self, row: int) -> p.Finding:
        place = p.Range(p.Position(row, 0), p.Position(row, 3))
        return p.Finding("trace/syntax-error", "invalid syntax", place)

    def name(self, row: int, line: str, name: str) -> p.Range:
        start = width(line[: line.index(name)])
        return p.Range(p.Position(row, start), p.Position(row, start + width(name)))

    def code(self, row: int, line: str, comment: int) -> p.Range:
        code = line[:comment].rstrip()
        start = len(code) - len(code.lstrip())
        return p.Range(p.Position(row, width(code[:start])), p.Position(row, width(code)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--read", type=int, required=True)
    parser.add_argument("--yaml", default="")
    parser.add_argument("--index", default="yes")
    parser.add_argument("--processes", default="auto")
    parser.add_argument("--allowed", default="")
    parser.add_argument("--write", type=int, required=True)
    options = parser.parse_args()
    Stub(options.read, options.write, options.allowed).serve()
    # Threads may be deaf.
    os._exit(0)
