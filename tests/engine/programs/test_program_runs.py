"""Programs that run under the recorder: what is reported of every region that they compile.

Fixtures state their findings as :mod:`markers` describes, and besides, as comments of their own:

    # region f: torch.compile x3 fullgraph=True, dynamic=False
    # region g: torch.compile inlined
    # limit of the run: 3 s
    # note of the run: The program was stopped after 3 s

A region has its API, the number of its calls and its options. All regions are to be stated. Without
a note the run has none.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.engine.hosts import Engine, Result

from fullgraph_engine.protocol import (
    Allowance,
    Analyzed,
    Failed,
    FilesRead,
    Finding,
    Limits,
    OpenFile,
    ProgramRequest,
    Ready,
    Region,
    Starting,
    TargetsFound,
    ValuesSeen,
)
from fullgraph_engine.protocol.evidence import BackendEvidence, BreakEvidence

if str(Path(__file__).parents[1]) not in sys.path:
    sys.path.insert(0, str(Path(__file__).parents[1]))

import markers

FIXTURES = sorted((Path(__file__).parents[2] / "fixtures" / "programs").glob("*.py"))
_REGION = re.compile(r"^# region (?P<name>\S+): (?P<words>.*\S)\s*$", re.M)
_NOTE = re.compile(r"^# note of the run: (.*\S)\s*$", re.M)
_LIMIT = re.compile(r"^# limit of the run: (\d+) s$", re.M)

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(120)]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    started = Engine(pipeline="")
    assert isinstance(started.event(), Starting)
    while not isinstance(event := started.event(), Ready):
        assert event is not None
    yield started
    assert started.close() == 0


def run(
    engine: Engine,
    path: Path,
    text: str = "",
    ends: type[Analyzed] | type[Failed] = Analyzed,
    **options: object,
) -> Result:
    """Analyze a file, or another text of it, as the server does."""
    asked = {"seconds": 20.0, "limits": Limits(), **options}
    changes = {name: asked.pop(name) for name in ("open_files", "limits") if name in asked}
    result = engine.analyze(
        text or path.read_text(),
        path=str(path),
        cwd=str(path.parent),
        parts=("first",),
        program=ProgramRequest(**asked),  # type: ignore[arg-type]
        **changes,
    )
    assert isinstance(result.end, ends)
    return result


def note(result: Result) -> str:
    notes = [event.note for event in result.events if isinstance(event, TargetsFound)]
    return notes[-1] if notes else ""


def regions(result: Result) -> dict[str, Region]:
    return {one.name: one.region for one in result.all_reports if one.region is not None}


def region_words(region: Region) -> str:
    how = "inlined" if region.inlined else f"x{region.calls}"
    return f"{region.api} {how} {region.option_words}".strip()


def codes(result: Result) -> list[tuple[str, int]]:
    """The code and the line, from one, of each finding."""
    return [(one.code, one.range.start.line + 1) for one in markers.merged(result.findings)]


def only(result: Result, code: str) -> Finding:
    (finding,) = [one for one in markers.merged(result.findings) if one.code == code]
    return finding


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_fixture(path: Path, engine: Engine) -> None:
    fixture = markers.read(path)
    if fixture.unfit:
        pytest.skip(fixture.unfit)
    limit = _LIMIT.search(fixture.text)
    result = run(engine, path, seconds=float(limit[1]) if limit else 20.0)
    found = {name: region_words(region) for name, region in regions(result).items()}
    assert found == dict(_REGION.findall(fixture.text))
    traced = markers.Traced(tuple(result.findings), tuple(result.all_reports))
    difference = markers.compare(fixture, traced)
    assert not difference, f"\n{difference}"
    noted = _NOTE.search(fixture.text)
    assert note(result).startswith(noted[1]) if noted else note(result) == ""
    for region in regions(result).values():
        assert region.program == region.site.path == str(path)


def test_a_function_inside_another_is_not_a_target(engine: Engine, program: Program) -> None:
    inner = (
        "def train():\n    @torch.compile\n    def step(x):\n        return x + 1\n    step(x)\n\n"
    )
    path = program(f"x = torch.ones(2)\n\n{inner}double(x)\ntrain()\n")
    reports = {one.name: one for one in run(engine, path).all_reports}
    assert not reports["double"].needs_program
    assert reports["train.step"].needs_program


Program = Callable[[str], Path]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    """Write a program whose function ``double`` breaks in line 5."""
    head = "import sys, torch\n\n@torch.compile\ndef double(x):\n    print('doubling')\n"

    def write(text: str) -> Path:
        path = tmp_path / "train.py"
        path.write_text(f"{head}    return x * 2\n\n{text}")
        return path

    return write


BREAK = ("graph-break/GB0059", 5)
CALL = "double(torch.ones(2))\n"


# -- what is reported ---------------------------------------------------------------------------


def test_a_break_under_fullgraph_raises(engine: Engine, program: Program) -> None:
    path = program("")
    strict = path.read_text().replace("@torch.compile", "@torch.compile(fullgraph=True)")
    path.write_text(f"{strict}if __name__ == '__main__':\n    {CALL}    print('not reached')\n")
    result = run(engine, path)
    assert codes(result) == [BREAK]
    evidence = only(result, BREAK[0]).evidence
    assert isinstance(evidence, BreakEvidence) and evidence.outcome == "raised"
    assert "not reached" not in result.log("stdout")


def test_a_break_without_fullgraph_does_not_raise(engine: Engine, program: Program) -> None:
    result = run(engine, program(f"{CALL}print('reached')\n"))
    evidence = only(result, BREAK[0]).evidence
    assert isinstance(evidence, BreakEvidence) and evidence.outcome == "resumed"
    assert result.log("stdout") == "doubling\nreached\n"


def test_a_program_shows_the_kinds_of_values_in_its_compiled_functions(
    engine: Engine, program: Program
) -> None:
    result = run(engine, program(CALL))
    (seen,) = (event for event in result.events if isinstance(event, ValuesSeen))
    kinds = {(one.function, one.name, one.kind) for one in seen.unpack_values() if one.name}
    assert kinds == {("double", "x", "tensor")}


def test_the_call_that_compiles_is_the_site(engine: Engine, program: Program) -> None:
    result = run(engine, program("fast = torch.compile(torch.neg, dynamic=True)\nfast(x := 1)\n"))
    site = regions(result)["double"].site
    assert (site.range.start.line, site.range.start.byte, site.range.end.byte) == (2, 1, 14)
    path = program(f"def halve(x):\n    return x / 2\n\ny = torch.compile(halve)\ny(1)\n{CALL}")
    region = regions(run(engine, path))["halve"]
    assert (region.site.range.start.line, region.site.range.start.byte) == (10, 4)
    assert region.site.range.end.byte == 24


def test_what_the_program_does_not_compile_is_not_traced(engine: Engine, program: Program) -> None:
    eager = "# fullgraph: f32[2]\ndef eager(x):\n    print(x)\n    return x\n\n"
    path = program(f"{eager}eager(torch.ones(2))\n{CALL}")
    plain = run(engine, path)
    assert codes(plain) == [BREAK]
    assert (plain.reports["double"].compiled, plain.reports["eager"].compiled) == (True, False)
    more = run(engine, path, uncompiled=True)
    assert more.reports["double"].region is not None
    assert more.reports["eager"].status == "traced" and more.reports["eager"].compiled is False
    assert BREAK in codes(more) and ("graph-break/GB0059", 10) in codes(more)


def test_a_program_is_not_run_without_time(engine: Engine, program: Program) -> None:
    path = program(f"print('running')\n# fullgraph: double f32[2]\n{CALL}sys.exit(2)\n")
    result = run(engine, path, seconds=0.0)
    assert not regions(result)
    assert "program/exited" not in dict(codes(result))
    assert "program/exited" in dict(codes(run(engine, path)))


def test_a_program_that_compiles_nothing_is_traced_as_any_file(
    engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        "import re, torch\n\n# fullgraph: f32[2]\ndef f(x):\n    print(x)\n    return x\n\n"
        "if __name__ == '__main__':\n    f(torch.ones(2))\n    sys.exit(2)\n"
    )
    result = run(engine, path)
    assert codes(result) == [("graph-break/GB0059", 5)]
    assert (result.reports["f"].compiled, result.reports["f"].region) == (None, None)


# -- how the program is run ---------------------------------------------------------------------

STEPS = f"for _ in range(int(sys.argv[1])):\n    {CALL}"


def test_arguments_of_the_request(engine: Engine, program: Program) -> None:
    result = run(engine, program(STEPS), arguments=("3",))
    assert regions(result)["double"].calls == 3
    assert regions(run(engine, program(STEPS), arguments=("1",)))["double"].calls == 1


def test_a_comment_has_precedence_over_the_arguments_of_the_request(
    engine: Engine, program: Program
) -> None:
    path = program(f"# fullgraph: run(2)\n{STEPS}")
    assert regions(run(engine, path, arguments=("3",)))["double"].calls == 2


def test_the_program_is_the_main_module(engine: Engine, program: Program, tmp_path: Path) -> None:
    (tmp_path / "beside.txt").write_text("in the folder of the program")
    (tmp_path / "helper.py").write_text("def words(): return 'imported'\n")
    path = program(
        "import pickle\nfrom pathlib import Path\n\nimport helper\n\n"
        "class Config:\n    size = 2\n\n"
        "assert __name__ == '__main__' and sys.modules['__main__'].Config is Config\n"
        "assert pickle.loads(pickle.dumps(Config())).size == 2\n"
        "print(sys.argv == [__file__], Path(__file__).name)\n"
        f"print(Path('beside.txt').read_text(), helper.words())\n{CALL}"
    )
    result = run(engine, path)
    assert result.log("stdout").split("\n") == [
        "True train.py",
        "in the folder of the program imported",
        "doubling",
        "",
    ]
    assert codes(result) == [BREAK]


def test_the_text_of_the_editor_is_run(engine: Engine, program: Program) -> None:
    path = program(CALL)
    text = path.read_text()
    result = run(engine, path, text.replace("    print('doubling')\n", ""))
    assert codes(result) == [] and regions(result)["double"].calls == 1
    assert codes(run(engine, path)) == [BREAK]


def test_files_that_the_program_writes_are_discarded(
    engine: Engine, program: Program, tmp_path: Path
) -> None:
    (tmp_path / "kept.txt").write_text("as it was")
    path = program(
        "import os\nfrom pathlib import Path\n\n"
        "torch.save({'a': torch.ones(2)}, 'checkpoint.pt')\n"
        "double(torch.load('checkpoint.pt')['a'])\n"
        "Path('kept.txt').write_text('changed')\n"
        "os.makedirs('runs/1')\n"
        "Path('runs/1/log').write_text(Path('kept.txt').read_text())\n"
        "print(Path('runs/1/log').read_text())\n"
    )
    result = run(engine, path)
    assert codes(result) == [BREAK]
    assert result.log("stdout") == "doubling\nchanged\n"
    assert sorted(one.name for one in tmp_path.iterdir()) == ["kept.txt", "train.py"]
    assert (tmp_path / "kept.txt").read_text() == "as it was"


def test_a_program_that_asks_the_network_is_refused(engine: Engine, program: Program) -> None:
    path = program(
        f"{CALL}import urllib.request\nurllib.request.urlopen('http://127.0.0.1:9/', timeout=2)\n"
        "double(torch.ones(3))\n"
    )
    result = run(engine, path)
    assert codes(result) == [BREAK, ("program/refused", 10)]
    assert only(result, "program/refused").allowance == Allowance("network")
    assert regions(result)["double"].calls == 1


def test_standard_input_is_empty(engine: Engine, program: Program) -> None:
    path = program(f"{CALL}name = input()\ndouble(torch.ones(3))\n")
    result = run(engine, path)
    assert codes(result) == [BREAK, ("program/no-input", 9)]
    assert regions(result)["double"].calls == 1


@pytest.mark.parametrize(
    ("ending", "found"),
    [
        ("sys.exit()", []),
        ("sys.exit(0)", []),
        ("sys.exit('no data')", [("program/exited", 9)]),
        ("raise SystemExit(3)", [("program/exited", 9)]),
        ("raise KeyboardInterrupt", [("trace/eager-error", 9)]),
        ("undefined", [("trace/eager-error", 9)]),
        ("open('absent.csv')", [("program/data-missing", 9)]),
        ("import os; os._exit(0)", []),
        ("import os; os._exit(3)", [("program/exited", 9)]),
        ("import ctypes; ctypes.string_at(0)", [("trace/crashed", 9)]),
    ],
)
def test_ends_of_a_program(
    engine: Engine, program: Program, ending: str, found: list[tuple[str, int]]
) -> None:
    result = run(engine, program(f"{CALL}{ending}\ndouble(torch.ones(3))\n"))
    assert codes(result) == [BREAK, *found]
    assert regions(result)["double"].calls == 1
    assert note(result) == ""


# -- more than one file -------------------------------------------------------------------------

MODEL = """\
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        x = self.linear(x)
        print("forward")
        return x
"""
TRAIN = """\
import torch
from lib.model import Net

if __name__ == "__main__":
    print("running")
    net = torch.compile(Net())
    for _ in range(2):
        net(torch.ones(2, 4))
"""

SETTINGS = """\
import torch
from lib.model import scaled

class Settings:
    def __init__(self, factor):
        self.factor = factor

@torch.compile(dynamic=False)
def step(x, settings):
    x = x + 1
    return scaled(x, settings)

if __name__ == "__main__":
    for factor in (True, False):
        step(torch.ones(2), Settings(factor))
"""


@pytest.fixture
def project(tmp_path: Path) -> tuple[Path, Path]:
    """A program, and the file that defines what it compiles."""
    train, model = tmp_path / "train.py", tmp_path / "lib" / "model.py"
    model.parent.mkdir()
    train.write_text(TRAIN)
    model.write_text(MODEL)
    return train, model


def analyze(engine: Engine, path: Path, root: Path, **asked: object) -> Result:
    return engine.analyze(
        path.read_text(),
        path=str(path),
        cwd=str(root),
        roots=(str(root),),
        parts=("first",),
        limits=Limits(),
        program=ProgramRequest(seconds=20.0, **asked),  # type: ignore[arg-type]
    )


def test_a_program_shows_what_it_does_to_a_file_that_it_imports(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    of_model = analyze(engine, model, tmp_path, candidates=(str(train),))
    assert codes(of_model) == [("graph-break/GB0059", 11)]
    report = of_model.reports["Net"]
    assert (report.status, report.breaks, report.compiled) == ("traced", 1, True)
    region = regions(of_model)["Net"]
    assert (region.program, region.site.path, region.calls) == (str(train), str(train), 2)
    assert region.site.range.start.line == 5
    of_train = analyze(engine, train, tmp_path, elsewhere=(str(model),))
    assert codes(of_train) == []
    assert region_words(regions(of_train)["Net"]) == region_words(region)
    # Each request shows the same run of the program.
    printed = [of_model.log("stdout"), of_train.log("stdout")]
    assert printed == ["running\nforward\nforward\n", ""]


def test_a_break_in_a_file_that_is_not_shown_is_at_the_call(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    alone = analyze(engine, train, tmp_path)
    assert codes(alone) == [("graph-break/GB0059", 8)]
    (finding,) = markers.merged(alone.findings)
    assert (str(model), 10) in [(one.path, one.range.start.line) for one in finding.related]
    assert codes(analyze(engine, train, tmp_path, elsewhere=(str(model),))) == []
    assert codes(analyze(engine, train, tmp_path, elsewhere=("/other.py",))) == codes(alone)


def test_a_run_is_repeated_only_for_a_change(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    first = analyze(engine, train, tmp_path)
    again = analyze(engine, train, tmp_path)
    assert (first.log("stdout").count("running"), again.log("stdout")) == (1, "")
    assert codes(again) == codes(first) != []
    model.write_text(MODEL.replace('        print("forward")\n', ""))
    changed = analyze(engine, train, tmp_path)
    assert changed.log("stdout") == "running\n" and codes(changed) == []
    other = analyze(engine, train, tmp_path, arguments=("--other",))
    assert other.log("stdout") == "running\n"


def test_a_run_has_the_unsaved_text_of_a_file_that_it_imports(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    text = MODEL.replace('        print("forward")\n', "        y = x.sum().item()\n")
    result = engine.analyze(
        train.read_text(),
        path=str(train),
        cwd=str(tmp_path),
        roots=(str(tmp_path),),
        parts=("first",),
        limits=Limits(),
        open_files=(OpenFile(str(model), text),),
        program=ProgramRequest(seconds=20.0),
    )
    assert result.log("stdout") == "running\n"
    (finding,) = markers.merged(result.findings)
    assert (finding.code, finding.range.start.line) != ("graph-break/GB0059", 7)
    assert finding.code.startswith("graph-break/")


def test_the_first_candidate_that_compiles_is_enough(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    eager, later = tmp_path / "eager.py", tmp_path / "later.py"
    eager.write_text(TRAIN.replace("torch.compile(Net())", "Net()  # torch.compile"))
    later.write_text(TRAIN.replace("running", "later"))
    candidates = (str(tmp_path / "absent.py"), str(eager), str(train), str(later))
    result = analyze(engine, model, tmp_path, candidates=candidates)
    assert regions(result)["Net"].program == str(train)
    assert result.log("stdout").count("running") == 2
    assert "later" not in result.log("stdout")


def test_a_recompile_is_in_the_file_of_the_function(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    model.write_text("def scaled(x, by):\n    return x * by.factor\n")
    train.write_text(SETTINGS)
    for elsewhere in ((), (str(model),)):
        of_train = analyze(engine, train, tmp_path, elsewhere=elsewhere)
        assert codes(of_train) == [("recompile/value", 11)]
        (finding,) = of_train.findings
        assert (str(model), 1) in [(one.path, one.range.start.line) for one in finding.related]
    of_model = analyze(engine, model, tmp_path, candidates=(str(train),), elsewhere=(str(train),))
    assert codes(of_model) == []
    of_model = analyze(engine, model, tmp_path, candidates=(str(train),))
    assert codes(of_model) == [("recompile/value", 2)]


def test_another_program_may_run_a_file_that_stops_by_itself(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    stops = '\nif __name__ == "__main__":\n    from pathlib import Path\n'
    stops += '    assert Path("weights.pt").is_file(), "weights"\n    torch.compile(Net())\n'
    model.write_text(MODEL + stops)
    alone = analyze(engine, model, tmp_path)
    assert "program/data-missing" in [code for code, _ in codes(alone)]
    other = analyze(engine, model, tmp_path, candidates=(str(train),))
    assert codes(other) == [("graph-break/GB0059", 11)]
    absent = analyze(engine, model, tmp_path, candidates=(str(tmp_path / "absent.py"),))
    assert codes(absent) == codes(alone)


def test_nothing_is_shown_in_a_file_that_a_comment_turns_off(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    model.write_text(f"# fullgraph: off\n{MODEL}")
    of_model = analyze(engine, model, tmp_path, candidates=(str(train),))
    assert (codes(of_model), of_model.reports) == ([], {})
    train.write_text(f"# fullgraph: off\n{TRAIN}")
    of_train = analyze(engine, train, tmp_path)
    assert (codes(of_train), of_train.reports, of_train.log("stdout")) == ([], {}, "")


def test_a_faulty_probe_comment_of_a_program_is_reported(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    model.write_text(MODEL.replace("class Net", "# fullgraph: f32[\nclass Net"))
    of_model = analyze(engine, model, tmp_path, candidates=(str(train),))
    assert [code.partition("/")[0] for code, _ in codes(of_model)] == ["probe", "graph-break"]


def test_a_file_that_no_program_compiles_is_traced_as_any_file(
    engine: Engine, project: tuple[Path, Path], tmp_path: Path
) -> None:
    train, model = project
    model.write_text(f"{MODEL}\n\ndef get_inputs():\n    return []\n")
    train.write_text(TRAIN.replace("torch.compile(Net())", "Net()  # torch.compile"))
    model.write_text(
        MODEL.replace("    def forward", "    # fullgraph: f32[2, 4]\n    def forward")
    )
    result = analyze(engine, model, tmp_path, candidates=(str(train),))
    assert codes(result) == [("graph-break/GB0059", 12)]
    report = result.reports["Net"]
    assert (report.region, report.compiled) == (None, None)
    assert report.probe is not None and report.probe.origin == "comment"


def test_what_a_program_has_read_holds_after_it_has_written(
    engine: Engine, program: Program, tmp_path: Path
) -> None:
    written = "open('log.txt', 'w').write('x')\nimport os\nlist(os.scandir('.'))\n"
    result = run(engine, program(f"{written}{CALL}"))
    events = [event for event in result.events if isinstance(event, FilesRead)]
    files = [file for event in events for file in event.unpack_files()]
    assert {file.path for file in files} >= {str(tmp_path)}
    assert "/tmp" not in {file.path for file in files}
    assert [file.path for file in files if not file.is_unchanged()] == []
    assert not (tmp_path / "log.txt").exists()


CUDA = """
net = torch.compile(torch.nn.Linear(4, 4).cuda())
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for size in (2, 3):
    loss = net(torch.ones(size, 4, device="cuda")).sum()
    loss.backward()
    opt.step()
    torch.cuda.synchronize()
    print(loss.item())
"""


def test_a_program_that_needs_a_gpu_runs_on_fake_tensors(engine: Engine, program: Program) -> None:
    result = run(engine, program(CUDA))
    report = result.reports["Linear"]
    assert (report.status, report.mode) == ("traced", "fake")
    assert report.region is not None and report.region.calls == 2
    assert (report.graphs, report.recompiles) == (2, 1)
    assert note(result).startswith("The program needs a GPU, so it ran on fake CUDA tensors")
    assert not [one for one in result.findings if one.code.startswith("trace/")]


def test_a_model_too_large_for_memory_runs_on_fake_tensors(
    engine: Engine, program: Program
) -> None:
    large = (
        "net = torch.compile(torch.nn.Linear(40_000, 40_000))\n"
        "for size in (2, 3):\n"
        "    net(torch.ones(size, 40_000)).sum().backward()\n"
    )
    result = run(engine, program(large), limits=Limits(memory=4096))
    report = result.reports["Linear"]
    assert (report.status, report.mode, report.recompiles) == ("traced", "fake", 1)
    assert note(result).startswith("The program needs more memory than the setting")
    assert not [one for one in result.findings if one.code.startswith(("trace/", "program/"))]


def test_memory_that_runs_out_after_a_call_ends_the_program(
    engine: Engine, program: Program
) -> None:
    result = run(engine, program(f"{CALL}torch.ones(40_000, 40_000)\n"))
    assert codes(result)[-1] == ("program/limit", 9)
    assert result.reports["double"].mode == "real"


def test_a_function_that_is_passed_as_a_backend_is_called(engine: Engine, program: Program) -> None:
    own = (
        "graphs = []\n"
        "def backend(module, inputs):\n"
        "    graphs.append(module)\n"
        "    return module.forward\n"
        "torch.compile(lambda x: x + 1, backend=backend)(torch.ones(2))\n"
        "assert len(graphs) == 1\n"
    )
    result = run(engine, program(own))
    assert regions(result)["<lambda>"].option_words == "backend=backend"
    assert not [one for one in result.findings if one.code.startswith("trace/")]


def test_a_chosen_backend_compiles_every_graph(engine: Engine, program: Program) -> None:
    counted = (
        "torch.compile(torch.nn.Linear(2, 2), mode='reduce-overhead')(torch.ones(1, 2))\n"
        "done = torch._dynamo.utils.counters['aot_autograd']['total']\n"
        "assert done == 2, done\n"
    )
    result = run(engine, program(f"{CALL}{counted}"), backend="aot_eager")
    assert codes(result) == [BREAK]
    assert regions(result)["Linear"].option_words == "mode='reduce-overhead'"


def test_an_unknown_backend_is_an_error(engine: Engine, program: Program) -> None:
    result = run(engine, program(CALL), ends=Failed, backend="nosuch")
    assert isinstance(result.end, Failed)
    assert result.end.reason.startswith("torch has no backend `nosuch`")
    assert result.all_reports == [] and "--program-backend" in result.end.next_step


def test_a_region_that_the_program_did_not_reach_says_why(engine: Engine, program: Program) -> None:
    result = run(engine, program(f"{CALL}torch.compile(torch.nn.Linear(2, 2))\nraise OSError\n"))
    report = result.reports["Linear"]
    error = "the program raised before it called this compiled function"
    assert (report.status, report.error) == ("failed", error)


def test_a_crash_keeps_what_was_recorded(engine: Engine, program: Program) -> None:
    crash = "import ctypes\nctypes.string_at(0)\n"
    result = run(engine, program(f"{CALL}{crash}"))
    assert result.reports["double"].status == "traced"
    assert [code for code, _ in codes(result) if code.startswith("trace/")] == ["trace/crashed"]


# -- the calls of a finding ---------------------------------------------------------------------


def calls(result: Result) -> dict[tuple[str, int], dict[str, tuple[int, ...]]]:
    """The numbers of the calls by region, of each finding by its code and its line from one."""
    return {
        (one.code, one.range.start.line + 1): {c.region: c.numbers for c in one.calls}
        for one in markers.merged(result.findings)
    }


def test_findings_have_the_calls_that_they_were_seen_in(engine: Engine) -> None:
    (path,) = (one for one in FIXTURES if one.stem == "later_calls")
    assert calls(run(engine, path)) == {
        ("recompile/value", 9): {"Trainer.update": (6,)},
        ("graph-break/GB0059", 11): {"Trainer.update": (6,)},
        ("recompile/value", 13): {"Trainer.update": (3, 4)},
    }


def test_a_finding_of_two_regions_has_the_calls_of_each(engine: Engine, program: Program) -> None:
    other = "@torch.compile\ndef halve(x, twice):\n    return double(x) / 2 if twice else x / 2\n\n"
    called = "halve(torch.ones(2), False)\nhalve(torch.ones(2), True)\n"
    result = run(engine, program(f"{other}{CALL}double(torch.ones(3))\n{called}"))
    assert calls(result)[BREAK] == {"double": (1,), "halve": (2,)}


def test_exceptions_and_breaks_that_raise_have_their_call(engine: Engine, program: Program) -> None:
    again = f"try:\n    {CALL}except Exception:\n    pass\n"
    path = program(f"{again}{again}")
    path.write_text(path.read_text().replace("@torch.compile", "@torch.compile(fullgraph=True)"))
    assert calls(run(engine, path)) == {BREAK: {"double": (1, 2)}}
    raising = "@torch.compile\ndef root(x, n):\n    assert n < 2\n    return x + n\n\n"
    path = program(f"{raising}root(torch.ones(2), 1)\nroot(torch.ones(2), 2)\n")
    assert calls(run(engine, path))["trace/eager-error", 10] == {"root": (2,)}


def test_a_guard_that_two_regions_share_is_one_finding(engine: Engine) -> None:
    (path,) = (one for one in FIXTURES if one.stem == "shared_function")
    result = run(engine, path)
    shared = [one for one in result.findings if one.range.start.line == 6][-1]
    assert [(one.name, one.function, one.words) for one in shared.names] == [
        ("name", "update", "`name` was 'a', now 'ab'"),
        ("word", "evaluate", "`word` was 'a', now 'ab'"),
    ]
    assert calls(result)["recompile/value", 7] == {"update": (2,), "evaluate": (2, 3)}


# -- compilers ----------------------------------------------------------------------------------

REPEATED = """\
import torch
from torch import nn

class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        for _ in range(4):
            x = torch.sin(self.linear(x))
        return x

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(5))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return torch.linalg.eigvals(x)

net = torch.compile(Net())
net(torch.ones(4, 4))
"""


def test_graphs_of_a_program_are_compiled_on_request(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(REPEATED)
    plain = run(engine, tmp_path / "train.py")
    assert codes(plain) == []
    assert all(one.compilation is None for one in plain.all_reports)

    result = run(engine, tmp_path / "train.py", seconds=80.0, compiler="inductor")
    assert codes(result) == [("backend/repeated-block", 21), ("backend/fallback", 22)]
    finding = only(result, "backend/repeated-block")
    assert isinstance(finding.evidence, BackendEvidence)
    assert (finding.evidence.class_name, finding.evidence.container) == ("Layer", "layers")
    assert [(one.region, one.numbers) for one in finding.calls] == [("Net", (1,))]
    (report,) = [one for one in result.all_reports if one.region is not None]
    assert report.compilation is not None
    assert (report.compilation.status, report.compilation.compiler) == ("compiled", "inductor")
    (region,) = report.compilation.regions
    assert region.aot > 0 and region.inductor > 0
    assert report.compilation.processor_seconds > 0
