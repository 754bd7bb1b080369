"""The engine with torch in it: a few whole ways through, each with something that goes wrong."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from fullgraph_engine import protocol
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Event,
    Finding,
    FindingFound,
    Limits,
    Log,
    Ready,
    Starting,
    TargetDone,
    TargetReport,
)

if str(Path(__file__).parents[1]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parents[1]))

from markers import torch_version
from reproducing import Host

BOOT = Path(__file__).resolve().parents[3] / "engine" / "fullgraph_engine" / "boot.py"
KERNELS = Path(__file__).resolve().parents[2] / "fixtures" / "triton" / "kernels.py"
PATIENCE = 120.0

pytestmark = pytest.mark.timeout(300)


class Engine:
    def __init__(self, processes: str) -> None:
        theirs, self.write = os.pipe()
        self.read, answers = os.pipe()
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(BOOT), "--read", str(theirs), "--write", str(answers)),
                *("--processes", processes),
            ],
            pass_fds=(theirs, answers),
        )
        os.close(theirs)
        os.close(answers)
        self.requests = 0
        self.printed = ""
        """What the last text that was analyzed has printed."""
        self.forks = processes == "fork"
        self._buffer = b""

    parts: tuple[protocol.Part, ...] = ("first", "second")

    def event(self) -> Event:
        while b"\n" not in self._buffer:
            assert select.select([self.read], [], [], PATIENCE)[0], "the engine says nothing"
            data = os.read(self.read, 1 << 16)
            assert data, "the engine died"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return protocol.decode(line)  # type: ignore[return-value]

    def analyze(
        self,
        text: str,
        path: str = "/nowhere/model.py",
        limits: Limits | None = None,
        only: tuple[str, ...] = (),
        mode: protocol.Mode = "auto",
        examples: tuple[protocol.ExampleKind, ...] = ("main", "docstring"),
        *,
        tentative: bool = False,
        nested: bool = True,
    ) -> tuple[dict[str, TargetReport], list[Finding]]:
        self.requests += 1
        self.printed = ""
        request = Analyze(
            self.requests,
            "v",
            path,
            textwrap.dedent(text),
            mode=mode,
            only=only,
            limits=limits or Limits(),
            parts=self.parts,
            examples=examples,
            tentative=tentative,
            nested=nested,
        )
        os.write(self.write, protocol.encode(request))
        reports: dict[str, TargetReport] = {}
        findings: list[Finding] = []
        while not isinstance(event := self.event(), Analyzed):
            assert not isinstance(event, protocol.Failed), event
            if isinstance(event, TargetDone):
                reports[event.report.name] = event.report
            elif isinstance(event, FindingFound):
                findings.append(event.finding)
            elif isinstance(event, Log) and event.stream == "stdout":
                self.printed += event.text
        return reports, findings


@contextlib.contextmanager
def started_engine(processes: str) -> Iterator[Engine]:
    started = Engine(processes)
    assert isinstance(started.event(), Starting)
    # Before torch is imported, where the operator index is kept; behind it, where it is not.
    while isinstance(event := started.event(), protocol.IndexWritten):
        pass
    assert isinstance(event, Ready)
    yield started
    os.close(started.write)
    assert started.process.wait(PATIENCE) == 0
    with contextlib.suppress(OSError):
        os.close(started.read)


@pytest.fixture(scope="module", params=["fork", "spawn"])
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    with started_engine(request.param) as started:
        if request.param == "spawn":
            # The second part is one more spare for each test, and no test is about it alone.
            started.parts = ("first",)
        yield started


def places(findings: list[Finding]) -> set[tuple[str, int]]:
    return {(finding.code, finding.range.start.line) for finding in findings}


HEAD = "import torch\nfrom torch import nn\n"


@pytest.mark.slow
def test_a_break_at_its_place(engine: Engine) -> None:
    reports, findings = engine.analyze(
        HEAD
        + """\
class Net(nn.Module):
    # fullgraph: f32[4, 4]
    def forward(self, x):
        print("here")
        return x + 1
"""
    )
    assert reports["Net"].status == "traced"
    assert reports["Net"].breaks == 1
    found = next(finding for finding in findings if finding.code.startswith("graph-break/"))
    assert (found.range.start.line, found.range.start.byte) == (5, 8)


ENCLOSING = (
    HEAD
    + """\
class Part(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.size = size
    def forward(self, x, twice=False):
        return x * (2 if twice else 1)
class Spare(nn.Module):
    def forward(self, x):
        raise ValueError("not today")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part, self.spare = Part(size=3), Spare()
    # fullgraph: f32[4, 5]
    def forward(self, x):
        for twice in (False, True, False):
            x = self.part(x, twice=twice)
        return x
"""
)


@pytest.mark.slow
def test_probes_from_an_enclosing_run(engine: Engine) -> None:
    reports, findings = engine.analyze(ENCLOSING)
    part = reports["Part"]
    assert part.probe == protocol.ProbeInfo(
        "harvest", "f32[4, 5], twice=True", "size=3", "as called by Net.forward, line 19"
    )
    assert (part.status, part.probe_number) == ("traced", 1)
    assert (reports["Spare"].status, reports["Spare"].probe) == ("no-probe", None)
    without = "Net ran, and did not call Spare. No inputs were found"
    assert (reports["Spare"].error or "").startswith(without)
    assert (reports["Spare"].uncalled, part.uncalled) == (True, False)
    assert places(findings) == {("probe/missing", 8)}


def test_other_sizes_are_tried_of_inputs_that_were_found_late(engine: Engine) -> None:
    reports, findings = engine.analyze(
        HEAD
        + """\
class Part(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, 4)
    def forward(self, x):
        return self.linear(x + torch.zeros(2, 3))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part(3)
    # fullgraph: f32[4, 3]
    def forward(self, x):
        return self.part(x.view(3, 5))
"""
    )
    assert (reports["Part"].status, reports["Part"].uncalled) == ("traced", True)
    tried = "second" in engine.parts
    assert (("guard/specialized-dimension", 7) in places(findings)) == tried


LAYERS = tuple(f"Layer{number}" for number in range(10))
TEN = (
    "import os\n"
    + HEAD
    + "".join(
        f"""\
class {name}(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.linear = nn.Linear(size, size)
    def forward(self, x):
        return self.linear(x).relu()
"""
        for name in LAYERS
    )
    + f"""\
# fullgraph: init(4) f32[2, 4]
class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        os.write(1, b"made by %d\\n" % os.getpid())
        self.layers = nn.ModuleList(one(size) for one in ({", ".join(LAYERS)}))
    def forward(self, x):
        for layer in self.layers:
            x = layer(x) + torch.rand(4)
        return x
"""
)


MAIN = 'if __name__ == "__main__":\n    Net(4)(torch.rand(2, 4))\n'


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "program"), [("fake", ""), ("real", ""), ("fake", MAIN)])
def test_a_model_is_made_once_for_the_ten_classes_in_it(
    engine: Engine, mode: protocol.Mode, program: str
) -> None:
    if not engine.forks:
        pytest.skip("each run makes it for itself")
    reports, _ = engine.analyze(TEN + program, only=LAYERS, mode=mode)
    assert [reports[name].status for name in LAYERS] == ["traced"] * 10
    assert {reports[name].mode for name in LAYERS} == {mode}
    assert {reports[name].probe for name in LAYERS} == {
        protocol.ProbeInfo("harvest", "f32[2, 4]", "4", "as called by Net.forward, line 72")
    }
    assert engine.printed.count("made") == 1


@pytest.mark.slow
def test_a_model_that_is_found_by_trying_is_made_once_for_the_ten_classes_in_it(
    engine: Engine,
) -> None:
    if not engine.forks:
        pytest.skip("each run makes it for itself")
    reports, _ = engine.analyze(TEN.replace("# fullgraph: init(4) f32[2, 4]\n", ""))
    assert [reports[name].status for name in ("Net", *LAYERS)] == ["traced"] * 11
    probe = reports["Layer9"].probe
    assert probe is not None and "Net.forward" in probe.source
    # The two runs of the model itself, of which the first tries more than once.
    assert len(set(engine.printed.splitlines())) == 3


def test_callers_that_do_not_call_a_class_are_not_executed_to_count_calls(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not engine.forks:
        pytest.skip("each run executes them for itself")
    monkeypatch.setattr(engine, "parts", ("first",))
    text = """\
class Part(nn.Module):
    def forward(self, x):
        return x + 1
# fullgraph: f32[4, 3]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        os.write(1, b"made")
        self.part = Part()
    def forward(self, x):
        return self.part(x) if x is None else x
"""
    reports, _ = engine.analyze(f"import os\n{HEAD}{text}", only=("Part",))
    assert (reports["Part"].status, reports["Part"].uncalled) == ("traced", True)
    # In the process that all classes share; the run that then searches for inputs knows the result.
    assert engine.printed.count("made") == 1


CHANGING = (
    "import os\n"
    + HEAD
    + """\
class Shift(nn.Module):
    def forward(self, x):
        return x - 1
class Cached(nn.Module):
    def __init__(self, shift):
        super().__init__()
        self.known, self.shift = None, shift.forward
    def forward(self, x, seen):
        if self.known is not None:
            print("known")
        if seen:
            print("seen")
        self.known = x.sum()
        return self.shift(x) + torch.rand(())
class Behind(nn.Module):
    def __init__(self):
        super().__init__()
        self.times = 0
    def forward(self, x):
        if self.times:
            print("again")
        return x * 2
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = Shift()
        self.cached, self.behind = Cached(self.shift), Behind()
    # fullgraph: f32[3]
    def forward(self, x):
        seen = []
        x = self.behind(self.cached(x, seen))
        seen.append(1)
        self.behind.times += 1
        x = self.shift(self.behind(x))
        return x if MORE else x[9]
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("more", [True, False])
def test_what_a_model_does_later_does_not_matter_to_what_it_has_called(
    engine: Engine, more: bool
) -> None:
    """Nor that it raises in the end."""
    text = CHANGING.replace("MORE", str(more))
    reports, findings = engine.analyze(text, only=("Cached", "Behind", "Shift"))
    assert places(findings) == {("guard/mutated", 11)}
    said = {name: (one.status, one.breaks, one.ops) for name, one in reports.items()}
    assert said == {
        "Cached": ("traced", 0, 4),
        "Behind": ("traced", 0, 1),
        "Shift": ("traced", 0, 1),
    }
    probe = reports["Shift"].probe
    assert probe is not None and probe.source == "as called by Cached.forward, line 17"


@pytest.mark.slow
def test_a_part_alone(engine: Engine) -> None:
    """What encloses it is run for it, and not traced."""
    reports, _ = engine.analyze(ENCLOSING, only=("Part",))
    assert [(report.name, report.probe_number) for report in reports.values()] == [("Part", 1)]


PROGRAM = (
    HEAD
    + """\
class Part(nn.Module):
    def forward(self, x, factor):
        return x * factor.value
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
    def forward(self, x, factor):
        return self.part(x, factor)
class Factor:
    value = 3
if __name__ == "__main__":
    pass
    while True:
        Net()(torch.ones(4, 5), Factor())
"""
)


@pytest.mark.slow
def test_probes_from_the_main_block(engine: Engine) -> None:
    reports, _ = engine.analyze(PROGRAM, examples=("docstring",))
    assert reports["Net"].probe is not None and reports["Net"].probe.origin == "synthesis"
    # What a search has found is of no interest any more.
    reports, findings = engine.analyze(PROGRAM)
    places_of_calls = {"Net": "__main__, line 17", "Part": "Net.forward, line 11, in __main__"}
    for name, place in places_of_calls.items():
        assert reports[name].status == "traced"
        assert reports[name].probe == protocol.ProbeInfo(
            "harvest", "f32[4, 5], Factor(…)", source=f"as called by {place}"
        )
    # Before torch 2.9 Dynamo compiles in what an object of the program has.
    values = {"guard/value"} if torch_version() < (2, 9) else set()
    assert {finding.code for finding in findings} == values


UNFOUND = (
    HEAD
    + """\
import time
class Config:
    width = 4
class Part(nn.Module):
    def forward(self):
        raise RuntimeError(f"not at {time.time_ns()}")
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.part = Part()
    def forward(self):
        return self.part()
class Other(nn.Module):
    def forward(self, x):
        return x + 1
"""
)


def test_inputs_are_searched_for_again_where_what_is_imported_has_changed(
    engine: Engine, tmp_path: Path
) -> None:
    model, parts = tmp_path / "model.py", tmp_path / "parts_of_it.py"
    text = (
        HEAD
        + """\
from parts_of_it import scale
class Net(nn.Module):
    def forward(self, x: torch.Tensor):
        return scale(x)
"""
    )
    said = []
    for changed in (
        "def scale(x):\n    raise ValueError('today not')\n",
        "def scale(x):\n    raise ValueError('nor tomorrow')\n",
        "def scales(x):\n    return x\n",
        "raise RuntimeError('on and ' * 100)\n",
        "raise RuntimeError('no more')\n",
        "def scale(x):\n    return x * 2\n",
    ):
        parts.write_text(changed)
        reports, _ = engine.analyze(text, path=str(model))
        said.append(reports["Net"].error or reports["Net"].status)
    assert "today not" in said[0]
    assert "nor tomorrow" in said[1]
    assert "`scale` is not available" in said[2]
    assert "on and" in said[3]
    assert "no more" in said[4]
    assert said[5] == "traced"


def test_nothing_is_searched_for_again_by_an_edit_elsewhere(engine: Engine) -> None:
    if not engine.forks:
        pytest.skip("what is remembered has nothing to do with how processes start")

    def obstacles(text: str) -> list[str]:
        reports, _ = engine.analyze(text, path="/nowhere/unfound.py")
        assert reports["Other"].status == "traced"
        return [reports[name].error or reports[name].status for name in ("Net", "Part")]

    before = obstacles(UNFOUND)
    assert all("not at 1" in one for one in before)
    assert obstacles("# new\n" + UNFOUND.replace("x + 1", "x + 2")) == before
    # What it calls, and what might be given to it.
    for old, new in (("not at", "not at 1"), ("width = 4", "width = 5")):
        other = obstacles(UNFOUND.replace(old, new))
        assert other[0] != before[0]
    fixed = UNFOUND.replace("raise RuntimeError(", "return (torch.ones(2), ")
    assert obstacles(fixed) == ["traced", "traced"]


def test_a_text_that_is_only_tried_leaves_the_inputs_that_were_found(engine: Engine) -> None:
    if not engine.forks:
        pytest.skip("what is remembered has nothing to do with how processes start")
    text = HEAD + "class Net(nn.Module):\n    def forward(self, x):\n        return {}\n"
    path = "/nowhere/tried.py"

    def traced(value: str, *, tentative: bool = False) -> protocol.TargetReport:
        asked = text.format(value)
        return engine.analyze(asked, path=path, tentative=tentative)[0]["Net"]

    found = traced("x.unflatten(-1, (5, 7))")
    assert found.status == "traced" and found.probe is not None
    assert traced("x.no_such_method()", tentative=True).status == "no-probe"
    # A search of its own would begin with other sizes.
    again = traced("x + 1", tentative=True)
    assert (again.status, again.probe) == (found.status, found.probe)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "words"),
    [
        (
            "import urllib.request; urllib.request.urlopen('http://example.org/weights')",
            "does not let this code use the network: example.org",
        ),
        ("open('/nowhere/x', 'w')", "does not let this code change files: /nowhere/x"),
        ("import os; os.system('true')", "does not let this code start processes: os.system"),
        ("input('Which model? ')", "EOFError"),
    ],
)
def test_what_the_main_block_must_not_do(engine: Engine, deed: str, words: str) -> None:
    """It is as if it had not called the target: a search is the last resort."""
    reports, findings = engine.analyze(
        HEAD
        + f"""\
SIZES = {{}}
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = SIZES["here"]
    def forward(self, x):
        return x + self.size
if __name__ == "__main__":
    {deed}
    SIZES["here"] = 4
    Net()(torch.ones(4))
"""
    )
    assert reports["Net"].status == "no-probe"
    assert places(findings) == {("probe/missing", 3)}
    error = reports["Net"].error or ""
    assert error.startswith("__main__ raised before it called Net: ")
    assert words in error and "No inputs were found" in error


@pytest.mark.slow
def test_a_target_that_does_not_need_the_missing_import(engine: Engine) -> None:
    reports, findings = engine.analyze(
        "import absent\n"
        + HEAD
        + """\
class Needs(nn.Module):
    # fullgraph: f32[4, 4]
    def forward(self, x):
        return absent.norm(x)
class Other(nn.Module):
    # fullgraph: f32[4, 4]
    def forward(self, x):
        return x + 1
"""
    )
    assert reports["Other"].status == "traced"
    assert reports["Needs"].status == "failed"
    assert "line 1" in (reports["Needs"].error or "")
    assert places(findings) == {("trace/import-error", 0)}


@pytest.mark.slow
def test_module_level_tensors_without_a_device_or_room(engine: Engine) -> None:
    reports, findings = engine.analyze(
        HEAD
        + """\
scale = torch.ones(4, device="cuda")
table = torch.empty(1 << 40)
class Net(nn.Module):
    # fullgraph: f32[4, 4]@cuda
    def forward(self, x):
        return x * scale + table.shape[0]
"""
    )
    assert not [finding for finding in findings if finding.code.startswith("trace/")]
    assert reports["Net"].status == "traced"
    assert reports["Net"].graphs == 1


def test_statements_that_need_a_gpu_are_no_mistakes(engine: Engine) -> None:
    reports, findings = engine.analyze(
        HEAD
        + """\
assert torch.cuda.is_available(), "this needs a GPU"
name = torch.cuda.get_device_name()
if torch.cuda.device_count() == 0:
    raise SystemError("none found")
class Net(nn.Module):
    # fullgraph: f32[4, 4]@cuda
    def forward(self, x):
        return x + 1
# fullgraph: f32[4, 4]@cuda
def measured(x):
    return x + torch.cuda.mem_get_info()[0]
"""
    )
    assert places(findings) == {("trace/sandboxed", line) for line in (2, 3, 5, 12)}
    assert all(one.message.startswith("fullgraph runs code without a GPU") for one in findings)
    assert reports["Net"].status == "traced"
    assert reports["measured"].status == "failed"


def test_no_gpu_is_found_whatever_the_file_says(engine: Engine) -> None:
    engine.analyze(
        HEAD
        + """\
import os
print(os.environ["CUDA_VISIBLE_DEVICES"])
os.environ["CUDA_VISIBLE_DEVICES"] = "0"
print(torch.cuda._cached_device_count)
class Net(nn.Module):
    # fullgraph: f32[4]
    def forward(self, x):
        return x
"""
    )
    assert engine.printed == "-1\n0\n"


def test_kernels_of_triton_are_traced_and_not_launched(engine: Engine) -> None:
    reports, findings = engine.analyze(KERNELS.read_text(), str(KERNELS))
    breaks = [one for one in findings if one.code.startswith("graph-break/")]
    assert {one.stack[-1].function for one in breaks} == {"twice", "counted", "forward"}
    told = {one.identity: one for one in findings if one.code.startswith("trace/")}
    assert not [one for one in told.values() if one.count]
    kinds = {name: (one.status, one.breaks, one.mode) for name, one in reports.items()}
    assert kinds == {
        "launches": ("traced", 0, "fake"),
        "twice": ("traced", 1, "fake"),
        "counted": ("traced", 2, "fake"),
        "Layer": ("traced", 2, "fake"),
    }


def test_module_level_compile_does_not_trace(engine: Engine) -> None:
    reports, findings = engine.analyze(
        HEAD
        + """\
@torch.compile(fullgraph=True)
def inner(x):
    print("would be an error")
    return x + 1
y = inner(torch.ones(3))
class Net(nn.Module):
    # fullgraph: f32[3]
    def forward(self, x):
        return x + y
"""
    )
    assert reports["Net"].status == "traced"
    assert not [finding for finding in findings if finding.code == "trace/eager-error"]


@pytest.mark.slow
def test_a_loop_that_the_tracer_unrolls(engine: Engine) -> None:
    reports, findings = engine.analyze(
        HEAD
        + """\
class Net(nn.Module):
    # fullgraph: f32[4]
    def forward(self, x):
        while True:
            x = x + 1
        return x
""",
        limits=Limits(seconds=2.0),
    )
    assert reports["Net"].status == "timeout"
    assert len(findings) == 1
    assert findings[0].code == "trace/timeout"
    assert findings[0].range.start.line in (5, 6)


def test_what_would_fit_is_told_where_a_comment_does_not(engine: Engine) -> None:
    reports, findings = engine.analyze(
        HEAD
        + """\
# fullgraph: f32[4, 5]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(4, 8)
    def forward(self, x):
        return self.up(x)
# fullgraph: f32[4, 4]
class Broken(Net):
    def forward(self, x):
        return self.up(self.up(x))
"""
    )
    given = {name: report.probe and report.probe.comment for name, report in reports.items()}
    assert given == {"Net": "f32[4, 4]", "Broken": ""}
    assert {report.status for report in reports.values()} == {"failed"}
    assert {finding.code for finding in findings} == {"trace/eager-error"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("deed", "status", "code"),
    [
        ("import sys; sys.exit(2)", "failed", "trace/eager-error"),
        ("import os; os._exit(2)", "crashed", "trace/crashed"),
        ("import ctypes; ctypes.string_at(0)", "crashed", "trace/crashed"),
        ("import time; time.sleep(600)", "timeout", "trace/timeout"),
        ("y = [bytearray(1 << 26) for _ in range(1 << 12)]", "failed", "trace/eager-error"),
        ("open('/nowhere/x', 'w')", "failed", "trace/sandboxed"),
    ],
)
def test_misdeed_in_forward(engine: Engine, deed: str, status: str, code: str) -> None:
    reports, findings = engine.analyze(
        HEAD
        + f"""\
class Net(nn.Module):
    # fullgraph: f32[4]
    def forward(self, x):
        {deed}
        return x + 1
""",
        limits=Limits(seconds=6.0, memory=600),
    )
    assert reports["Net"].status == status
    assert (code, 5) in places(findings)
    if code == "trace/sandboxed":
        refused = [one.message for one in findings if one.code == code]
        beginning = "Refused while this code was traced: PermissionError"
        assert all(words.startswith(beginning) for words in refused)


@pytest.mark.slow
def test_a_checkpoint_is_not_overwritten(engine: Engine, tmp_path: Path) -> None:
    kept = tmp_path / "model.pt"
    kept.write_text("precious")
    reports, findings = engine.analyze(
        HEAD
        + f"""\
torch.save({{}}, {str(kept)!r})
class Net(nn.Module):
    # fullgraph: f32[4]
    def forward(self, x):
        return x + 1
"""
    )
    assert kept.read_text() == "precious"
    assert places(findings) == {("trace/sandboxed", 2)}
    assert "does not let this code change files" in findings[0].message
    assert reports["Net"].status == "traced"


PARENTS = """
import os, sys

sys.path.insert(0, sys.argv[1])

import torch

from fullgraph_engine import tracing
from fullgraph_engine.host import real_pipeline
from fullgraph_engine.host.process_backends import processes


def backward():
    with tracing.tensor_mode(fake=True):
        x = torch.randn(8).requires_grad_()
        (x * x).sum().backward()


def fork(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    os.waitpid(pid, 0)


def branch():
    backward()
    print("branch", processes.count_threads(), flush=True)


def run():
    backward()
    print("run", processes.count_threads(), flush=True)
    fork(branch)


real_pipeline.choose_pipeline("").warm_up()
print("engine", processes.count_threads(), flush=True)
fork(run)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="threads are counted in /proc")
def test_what_forks_has_one_thread_even_after_backward() -> None:
    """A build for CUDA on a machine without it would start a thread for every device."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    done = subprocess.run(
        [sys.executable, "-c", PARENTS, str(BOOT.parents[1])],
        env={**os.environ, **one},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.stdout.split("\n") == ["engine 1", "run 1", "branch 1", ""], done.stderr


DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo" / "tiny_gpt.py"


@pytest.mark.slow
def test_both_ways_to_start_processes_find_the_same() -> None:
    said = []
    for processes in ("fork", "spawn"):
        with started_engine(processes) as engine:
            reports, findings = engine.analyze(DEMO.read_text(), str(DEMO))
            said.append(
                (
                    {name: replace(report, seconds=0.0) for name, report in reports.items()},
                    sorted(findings, key=lambda finding: (finding.run, finding.identity)),
                )
            )
    forked, spawned = said
    assert len(forked[1]) > 5
    assert spawned == forked


GROWING = """\
import torch


# fullgraph: f32[4, 6]
def steps(x):
    state = x.new_zeros(4)
    for step in range(x.shape[1]):
        state = state + x[:, step]
    return state


# fullgraph: f32[4]
def prints(x):
    print("here")
    return x + 1
"""


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with a size that each call with another one recompiles for, and a graph break."""
    path = tmp_path_factory.mktemp("growing") / "model.py"
    path.write_text(GROWING)
    return path


@pytest.fixture(scope="module")
def hosts() -> Iterator[dict[str, Host]]:
    started = {processes: Host(processes) for processes in ("fork", "spawn")}
    yield started
    for host in started.values():
        host.close()


@pytest.mark.slow
def test_a_forecast_is_the_same_where_nothing_is_forked(
    hosts: dict[str, Host], growing: Path
) -> None:
    forked, spawned = (
        hosts[processes].findings(growing, "steps", parts=("forecast",))
        for processes in ("fork", "spawn")
    )
    assert [finding.code for finding in forked] == ["recompile/every-size"]
    assert spawned == forked


BRANCHING = """\
import torch


# fullgraph: f32[4]
class Net(torch.nn.Module):
    def forward(self, x, loud=False):
        x = x + 1
        if not self.training:
            print("evaluated")
        if loud:
            print("loud")
        if x.sum() > 1e9:
            print("large")
        return x - 1
"""
MODE, FLAG, DATA = "in evaluation mode", "if `loud` is True", "where `x.sum() > 1e9` is true"


@pytest.fixture(scope="module")
def branching(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with breaks in one mode, behind a flag, and behind a condition on data."""
    path = tmp_path_factory.mktemp("branching") / "model.py"
    path.write_text(BRANCHING)
    return path


@pytest.mark.slow
def test_other_paths_are_the_same_where_nothing_is_forked(
    hosts: dict[str, Host], branching: Path
) -> None:
    forked, spawned = (
        hosts[processes].findings(branching, "Net", parts=("first", "paths"))
        for processes in ("fork", "spawn")
    )
    assert {finding.only: finding.range.start.line for finding in forked} == {
        "": 11,
        MODE: 8,
        FLAG: 10,
        DATA: 12,
    }
    assert {finding.identity: finding for finding in spawned} == {
        finding.identity: finding for finding in forked
    }


@pytest.mark.slow
def test_a_repro_goes_the_path_of_its_finding(hosts: dict[str, Host], branching: Path) -> None:
    host = hosts["fork"]
    found = {f.only: f for f in host.findings(branching, "Net", parts=("first", "paths"))}
    for only in (MODE, FLAG):
        made = host.reproduce(branching, found[only], 90.0)
        assert made.verified, made
    # What was answered for data is in no inputs that are known.
    made = host.reproduce(branching, found[DATA], 90.0)
    assert made.found is None
    assert DATA in made.reason
    assert "write a probe comment" in made.reason


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_repro_is_made_where_nothing_is_forked(hosts: dict[str, Host], growing: Path) -> None:
    host = hosts["spawn"]
    finding = next(f for f in host.findings(growing, "prints") if f.code.startswith("graph-break/"))
    made = host.reproduce(growing, finding, 180.0)
    assert made.verified, made
    assert made.found is not None
    assert "print(" in made.found.script
    assert made.tried > 2


def traced(engine: Engine, before: str, body: str) -> tuple[TargetReport, list[Finding]]:
    text = f"{HEAD}{before}\n# fullgraph: f32[4]\ndef f(x):\n    {body}\n    return x + 1\n"
    reports, findings = engine.analyze(text)
    return reports["f"], findings


def test_a_target_is_not_clean_where_dynamo_is_disabled(engine: Engine) -> None:
    report, findings = traced(engine, "torch._dynamo.config.disable = True", "print(x.sum())")
    assert report.status == "failed"
    assert [finding.code for finding in findings] == ["trace/disabled"]
    assert places(findings) == {("trace/disabled", HEAD.count("\n"))}


def test_builtins_that_a_module_replaced_are_put_back(engine: Engine) -> None:
    replaced = "import builtins; builtins.isinstance = None; builtins.len = lambda x: 1 / 0"
    report, findings = traced(engine, replaced, "print(x.sum())")
    assert report.status == "traced"
    assert {finding.code for finding in findings} == {
        "graph-break/GB0059",
        "trace/replaced-builtins",
    }
    assert "`isinstance`, `len`" in str([finding.message for finding in findings])


@pytest.mark.parametrize("at_module_level", [True, False])
def test_what_was_refused_before_an_error_is_in_its_notes(
    engine: Engine, at_module_level: bool
) -> None:
    before = "import subprocess\n" + (
        "def build():\n    try:\n        subprocess.run(['ninja'])\n"
        "    except OSError:\n        raise RuntimeError('ninja is required') from None\n"
    )
    if at_module_level:
        before += "build()\n"
    _, findings = traced(engine, before, "pass" if at_module_level else "build()")
    errors = [finding for finding in findings if "ninja is required" in finding.message]
    assert {finding.code for finding in errors} == {"trace/eager-error"}
    words = "does not let this code start processes: subprocess.Popen"
    assert any(words in note for finding in errors for note in finding.notes)


NESTED = """
    import torch
    from torch import nn

    class Config:
        def __init__(self, num_layers: int = 9):
            self.num_layers = num_layers

    class Layer(nn.Module):
        def forward(self, x: torch.Tensor):
            print("layer")
            return x + 1

    class Head(nn.Module):
        def forward(self, x: torch.Tensor):
            return x * 2

    class Model(nn.Module):
        dummy_inputs = {"x": torch.ones(2, 3)}

        def __init__(self, config: Config):
            super().__init__()
            self.layers = nn.ModuleList([Layer() for _ in range(config.num_layers)])
            self.head = Head() if config.num_layers > 5 else None

        def forward(self, x: torch.Tensor):
            for layer in self.layers:
                x = layer(x)
            return x if self.head is None else self.head(x)
"""


def test_targets_within_the_trace_of_a_model_with_few_layers(engine: Engine) -> None:
    reports, findings = engine.analyze(NESTED, nested=False)
    model, layer, head = (reports[name] for name in ("Model", "Layer", "Head"))
    assert model.probe is not None
    assert model.probe.init == "config=Config(num_layers=2)"
    assert model.probe.shortened == "`num_layers` is 2 instead of 9"
    assert (layer.status, layer.within, layer.is_inside_region) == ("traced", "Model", True)
    assert layer.lines_traced == 2
    # With two layers the model does not call it, so its inputs are those of the full model.
    assert (head.status, head.within) == ("traced", "")
    assert head.probe is not None and head.probe.source.startswith("as called by Model.forward")
    assert {one.target for one in findings if one.code.startswith("graph-break/")} == {"Model"}
    separate, _ = engine.analyze(NESTED)
    assert [one.within for one in separate.values()] == ["", "", ""]
