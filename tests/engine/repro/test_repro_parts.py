"""The parts of a repro: what must stay the same, what a script checks, where values come from."""

from __future__ import annotations

import ast
import dataclasses
import linecache
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from fullgraph_engine.host.process_backends.trials import TrialPool
from fullgraph_engine.protocol import Finding, Frame, Position, Range, RunId, Wanted
from fullgraph_engine.protocol.evidence import BreakEvidence, FailureEvidence, RecompileEvidence
from fullgraph_engine.repro.candidate import Candidates, ReproCandidate
from fullgraph_engine.repro.emit.program import ProgramDraft
from fullgraph_engine.repro.emit.script import assemble_script
from fullgraph_engine.repro.extract import capture, invocation, parts
from fullgraph_engine.repro.extract.candidates import count_calls_with
from fullgraph_engine.repro.extract.repeated_calls import repeated_calls_of
from fullgraph_engine.repro.extract.statements import function_around, layers_around
from fullgraph_engine.repro.job import MinimizationJob, Surroundings
from fullgraph_engine.repro.reduce import count_lines, minimize
from fullgraph_engine.repro.reduce.minimize import seed_program
from fullgraph_engine.repro.verify.check import ScriptCheck, assemble_check
from fullgraph_engine.repro.verify.finding_signature import FindingSignature, own_names
from fullgraph_engine.repro.verify.oracle import Verdict
from fullgraph_engine.targets import Call, comments

NOWHERE = Range(Position(0, 0), Position(0, 0))
NONE: frozenset[str] = frozenset()


def shown(path: str, text: str) -> str:
    """Have the text stand for a file."""
    text = textwrap.dedent(text)
    linecache.cache[path] = (len(text), None, text.splitlines(keepends=True), path)
    return text


def break_at(
    text: str, part: str, context: str, kind: str = "Unsupported method call"
) -> FindingSignature:
    """That of a break at the first occurrence of ``part``."""
    shown("/user/model.py", text)
    lines = text.split("\n")
    line = next(n for n, each in enumerate(lines) if part in each)
    start = lines[line].index(part)
    frame = Frame("/user/model.py", "f", line, start, line, start + len(part))
    finding = Finding(
        "graph-break/GB0156", "", NOWHERE, context=context, evidence=BreakEvidence(kind)
    )
    return FindingSignature.from_finding(dataclasses.replace(finding, stack=(frame,)))


# -- signature ---------------------------------------------------------------------------------


def test_what_is_behind_an_exception_counts() -> None:
    kind = "UncapturedHigherOrderOpError"
    message = f"torch.compile fails here: {kind}: This operator doesn't work unless captured."
    titles = ("Call to `torch._dynamo.graph_break()`", "Unsupported context manager")
    findings = [
        Finding(
            "trace/compile-error",
            message,
            NOWHERE,
            evidence=FailureEvidence(kind, "tracer", title),
        )
        for title in titles
    ]
    asked, other = map(FindingSignature.from_finding, findings)
    assert not asked.is_similar_to(other, NONE)
    check = ScriptCheck.for_finding(findings[0])
    for title, expected in zip(titles, (True, False), strict=True):
        error = f"{kind}: This operator doesn't work unless captured. Got: {title}"
        assert eval(check.found, {"error": error}) is expected
    assert check.what == f"{kind}: {titles[0]}"


def test_what_differs_in_a_tensor_counts_and_not_what_else_is_compared() -> None:
    def compiled_again(detail: str, dtype: str) -> FindingSignature:
        context = f"check_tensor(L['x'], Tensor, torch.{dtype}, device=None)"
        evidence = RecompileEvidence("f", "f.py", 0, detail=detail)
        finding = Finding("recompile/tensor", "", NOWHERE, context=context, evidence=evidence)
        return FindingSignature.from_finding(finding)

    asked = compiled_again("stride 0", "int64")
    assert asked.is_equal_to(compiled_again("stride 1", "float32"), NONE)
    assert not asked.is_equal_to(compiled_again("dtype", "int64"), NONE)


def test_how_a_tensor_changed_counts() -> None:
    longer, same, deeper = (
        FindingSignature.from_finding(Finding("recompile/size", "", NOWHERE, evidence=evidence))
        for evidence in (
            RecompileEvidence("f", "f.py", 0, detail=detail)
            for detail in ("size 1", "size 0", "dim")
        )
    )
    assert longer.is_equal_to(same, NONE)
    assert not longer.is_similar_to(deeper, NONE)


def test_a_call_counts_once_in_however_many_layers_it_is_found() -> None:
    found = Finding("recompile/value", "", NOWHERE, context="self.layers[0].calibrated")
    again = dataclasses.replace(found, context="self.layers[1].calibrated")
    other = dataclasses.replace(found, code="recompile/type")
    assert (
        count_calls_with(
            FindingSignature.from_finding(found), NONE, [[found, again], [other], [again, other]]
        )
        == 2
    )


def test_names_sizes_and_arguments_may_differ() -> None:
    big = break_at(
        "out = self.cache.store(key, x)",
        "self.cache.store(key, x)",
        "call_method UserDefinedObjectVariable(Cache) store [TensorVariable(), 12] {}",
    )
    small = break_at(
        "c.store()", "c.store()", "call_method UserDefinedObjectVariable(C) store [] {}"
    )
    assert big.is_equal_to(small, frozenset({"Cache", "C"}))
    assert not big.is_equal_to(small, NONE)


@pytest.mark.parametrize(
    ("text", "context", "kind"),
    [
        ("x.load()", "call_method TensorVariable() store [] {}", "Unsupported method call"),
        ("x.store()", "call_method TensorVariable() load [] {}", "Unsupported method call"),
        ("x.store()", "call_method TensorVariable() store [] {}", "Another title"),
        ("x + x", "call_method TensorVariable() store [] {}", "Unsupported method call"),
    ],
)
def test_another_method_reason_title_or_construct_is_another_finding(
    text: str, context: str, kind: str
) -> None:
    same = break_at("x.store()", "x.store()", "call_method TensorVariable() store [] {}")
    assert same.is_equal_to(same, NONE)
    assert not same.is_equal_to(break_at(text, text, context, kind), NONE)


def test_names_of_the_program_are_those_that_it_binds() -> None:
    text = "class A:\n def f(self, x, *, k=1):\n  self.y = x\n  print(x)\n  return len(x.z)\n"
    assert own_names(text) == {"A", "f", "self", "x", "k", "y"}


# -- the check of a script --------------------------------------------------------------------

BREAK = Finding("graph-break/GB0059", "m", NOWHERE, evidence=BreakEvidence("Failed to trace it"))


def test_the_calls_at_the_end_stand_inside_of_the_check() -> None:
    head = '"""Text."""\nfrom __future__ import annotations\nimport torch\nx = 1\n'
    program = f"{head}f(x)\ng(\n  x)\n"
    lines = assemble_check(program, ScriptCheck.for_finding(BREAK)).split("\n")
    assert lines[:5] == [
        '"""Text."""',
        "from __future__ import annotations",
        "import sys",
        "import torch",
        "x = 1",
    ]
    assert lines[6:11] == ["try:", "    f(x)", "    g(", "      x)", "finally:"]
    compile("\n".join(lines), "script", "exec")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ("torch._dynamo.graph_break()", 1, "Call to `torch._dynamo.graph_break()`"),
        ("x + 1", 0, "None"),
        ("raise KeyError('else')", 0, "'else'"),
    ],
)
def test_a_script_exits_1_only_if_it_shows_the_finding(
    tmp_path: Path, body: str, status: int, words: str
) -> None:
    kind = "Call to `torch._dynamo.graph_break()`"
    finding = Finding("graph-break/GB0025", "m", NOWHERE, evidence=BreakEvidence(kind))
    invocation = "torch.compile(f, backend='eager')(torch.ones(2))"
    program = f"import torch\n\ndef f(x):\n    {body}\n\n{invocation}"
    path = tmp_path / "repro.py"
    path.write_text(assemble_script(program, candidates(finding)))
    ended = subprocess.run([sys.executable, str(path)], capture_output=True, text=True)
    assert ended.returncode == status, ended.stderr
    assert ended.stdout.startswith("Looked for graph break: ")
    assert words in ended.stdout.partition("Seen:")[2]


def test_an_error_is_recognised_by_its_class_and_the_words_that_cannot_vary() -> None:
    message = "The code raises here: RuntimeError: mat1 and mat2 shapes cannot be multiplied (2x3)"
    evidence = FailureEvidence("RuntimeError")
    finding = Finding("trace/eager-error", message, NOWHERE, evidence=evidence)
    check = ScriptCheck.for_finding(finding)
    error = "RuntimeError('mat1 and mat2 shapes cannot be multiplied (7x8 and 9x9)')"
    assert eval(check.found, {"error": error})
    assert not eval(check.found, {"error": "RuntimeError('something else (7x8 and 9x9)')"})
    assert not eval(check.found, {"error": error.replace("RuntimeError", "ValueError")})


def candidates(finding: Finding, flaky: str = "") -> Candidates:
    return Candidates(
        programs=(),
        signature=FindingSignature.from_finding(finding),
        check=ScriptCheck.for_finding(finding),
        own=(),
        title='a "quoted" \\title',
        explanation='three """ quotes',
        place="model.py:3",
        flaky=flaky,
    )


def test_random_numbers_are_chosen_below_the_imports() -> None:
    program = "import random\nimport torch\nimport numpy as np\n\nx = torch.rand(1)\nf(x)\n"
    chosen = "\n\ntorch.manual_seed(3)\nrandom.seed(3)\nnp.random.seed(3)\nx = "
    assert seed_program(program, 3) == program.replace("\n\nx = ", chosen)
    without = "from torch import rand\n\nf(rand(1))\n"
    assert seed_program(without, 3) == without


class Answers:
    """Trials that show the finding with some candidates only."""

    capacity = 1

    def __init__(self, *shown: int) -> None:
        self.shown, self.text = [f"manual_seed({number})" for number in shown], ""

    def submit(self, text: str) -> int:
        self.text = text
        return 1

    def wait(self) -> tuple[int, bytes]:
        shows = any(number in self.text for number in self.shown)
        return 1, minimize.encode_verdict(Verdict(shows), None)

    def kill(self, number: int) -> None:
        raise AssertionError("nothing is left to be killed")


@pytest.mark.parametrize(
    ("shown", "chosen"), [((0, 1, 2, 3), False), ((0, 1, 3), True), ((1, 2), False)]
)
def test_random_numbers_are_chosen_where_others_do_not_show_it(
    shown: tuple[int, ...], chosen: bool
) -> None:
    around = Surroundings(lambda *_: Answers(*shown), lambda _: None, "")
    job = MinimizationJob(1, "", 0.0, 30.0)
    shrink = minimize.ProgramMinimizer(candidates(BREAK), job, around, lambda event: None)
    program = "import torch\n\nf(torch.rand(1))\n"
    shrink.history.append(program)
    shrink.fix_seed(Answers(*shown))
    assert (shrink.history[-1] == seed_program(program, 0)) == chosen
    assert shrink.history[0] == program and len(shrink.history) == 1 + chosen


def test_the_header_holds_any_words_and_counts_as_no_code() -> None:
    flaky = candidates(BREAK, flaky="Flaky: 2 of 8.")
    text = assemble_script("import torch\nf()", flaky, ("A note.",))
    for words in ("model.py:3", "Flaky: 2 of 8.", "A note.", "exit status is 1", "torch 2."):
        assert words in text
    compile(text, "script", "exec")
    assert comments.file_off(comments.read_comments(text), ast.parse(text)) is not None
    plain = assemble_script("import torch\nf()", candidates(BREAK))
    assert count_lines(text) == count_lines(plain) == 8


def test_header_and_check_are_a_few_lines() -> None:
    """Those of a break besides its program, none of them blank."""
    finding = dataclasses.replace(
        candidates(BREAK),
        title="Graph break: Failed to trace it",
        href="https://pytorch.org/gb0059",
    )
    text = assemble_script("import torch\nf()", finding)
    lines = [line for line in text.split("\n") if line.strip()]
    program = ("import torch", "    f()")
    assert len([line for line in lines if line not in program]) == 10
    evidence = FailureEvidence("RuntimeError")
    raised = Finding("trace/compile-error", "RuntimeError: bad", NOWHERE, evidence=evidence)
    with_error = dataclasses.replace(finding, check=ScriptCheck.for_finding(raised))
    text = assemble_script("import torch\nf()", with_error)
    assert len([line for line in text.split("\n") if line.strip()]) == 11
    assert "import sys" not in text


@pytest.mark.parametrize(
    ("body", "status"),
    [("raise RuntimeError('bad', 1)", 1), ("raise KeyError('bad')", 0), ("x", 0)],
)
def test_the_check_of_an_error_is_about_what_is_raised(body: str, status: int) -> None:
    check = ScriptCheck.for_error("RuntimeError", "RuntimeError: bad words")
    check = dataclasses.replace(check, found='"RuntimeError" in error')
    printed: list[str] = []
    namespace = {"print": lambda *words, sep: printed.extend(words)}
    program = f"def f(x):\n    {body}\n\nf(1)\n"
    code = compile(assemble_check(program, check), "script", "exec")
    try:
        exec(code, namespace)
        left = 0
    except SystemExit as leaving:
        left = int(leaving.code or 0)
    assert left == status
    assert bool(printed) == ("raise" in body)


def test_seeds_travel_as_text() -> None:
    given = candidates(BREAK)
    there = Candidates.from_json(given.to_json())
    assert there == given
    full = Candidates(
        (ReproCandidate("f()", "statement", ("n",)),),
        given.signature,
        given.check,
        ("a",),
        "t",
        "e",
        "p",
    )
    assert Candidates.from_json(full.to_json()) == full


# -- where values come from -------------------------------------------------------------------

FUNCTION = """\
def outer(x):
    total = 0
    for n in range(3):
        if n == 1:
            total = inner(x, n,
                          k=[n])
    return total

def inner(x, n, *, k):
    y = x + n
    with open(__file__ if n < 0 else "/dev/null"):
        z = y * 2
    return z
"""


def test_a_line_belongs_to_its_statement_and_those_around_it() -> None:
    shown("/user/f.py", FUNCTION)
    function = function_around("/user/f.py", "outer", 6)
    assert function is not None
    found = layers_around(function, 6)
    assert [(type(each.node).__name__, each.first, each.head, each.last) for each in found] == [
        ("Assign", 5, 6, 6),
        ("If", 4, 4, 6),
        ("For", 3, 3, 6),
    ]


def frames(path: str) -> list[Frame]:
    return [Frame(path, "outer", 4), Frame(path, "inner", 11)]


def test_variables_are_those_before_each_statement_around_the_line() -> None:
    text = shown("/user/f.py", FUNCTION)
    namespace: dict[str, Any] = {"__file__": "/dev/null"}
    exec(compile(text, "/user/f.py", "exec"), namespace)
    points = capture.find_capturable_frames(frames("/user/f.py"))
    ended = []
    capture.watch_call(lambda: ended.append(namespace["outer"](10)), points)
    assert not ended, "it goes no further than the line"
    outer, inner = points
    assert outer.entered == {"x": 10}
    assert outer.variables_at(0) == {"x": 10, "total": 0, "n": 1}
    assert outer.variables_at(2) == {"x": 10, "total": 0}
    assert inner.entered == {"x": 10, "n": 1, "k": [1]}
    assert inner.variables_at(0) == {"x": 10, "n": 1, "k": [1], "y": 11}
    assert inner.variables_at(1) == inner.variables_at(0)
    assert sys.gettrace() is None


def test_all_entries_of_a_function_are_seen_if_asked_for() -> None:
    text = shown("/user/g.py", "def g(x):\n    return x\n\ndef call():\n    return g(1), g(2)\n")
    namespace: dict[str, Any] = {}
    exec(compile(text, "/user/g.py", "exec"), namespace)
    points = capture.find_capturable_frames([Frame("/user/g.py", "g", 1)])
    capture.watch_call(namespace["call"], points, whole=True)
    assert list(points[0].entries) == [{"x": 1}, {"x": 2}]


def test_a_line_that_is_not_reached_leaves_its_point_empty() -> None:
    text = shown("/user/h.py", "def h(x):\n    if x:\n        return 1\n    return 2\n")
    namespace: dict[str, Any] = {}
    exec(compile(text, "/user/h.py", "exec"), namespace)
    points = capture.find_capturable_frames([Frame("/user/h.py", "h", 3)])
    capture.watch_call(lambda: namespace["h"](1), points)
    assert points[0].reached
    assert 0 not in points[0].visits


SCALED = """\
import torch

class Scaled:
    def __init__(self, by):
        self.by = by

    def of(self, x):
        y = x + 1
        return y * self.by

def call():
    for by in range(2, 6):
        with torch.set_grad_enabled(by > 3):
            Scaled(by).of(by)
"""


def called_on_several_objects() -> capture.CapturedFrame:
    text = shown("/user/s.py", SCALED)
    namespace: dict[str, Any] = {"__file__": "/user/s.py", "__name__": "s"}
    exec(compile(text, "/user/s.py", "exec"), namespace)
    (point,) = capture.find_capturable_frames([Frame("/user/s.py", "of", 8)])
    capture.watch_call(namespace["call"], [point], whole=True)
    return point


def test_every_visit_of_a_statement_is_a_call_with_what_its_object_has() -> None:
    point, draft = called_on_several_objects(), ProgramDraft()
    unit = parts.statement_unit(point, 0, draft, most=12)
    lines = draft.text(invocation.CompiledInvocation().statements(draft, unit)).split("\n")
    assert lines[2:4] == ["def f(by, y):", "    return y * by"]
    assert lines[5:10] == [
        'compiled = torch.compile(f, backend="eager")',
        "torch.no_grad()(compiled)(2, 3)",
        "torch.no_grad()(compiled)(3, 4)",
        "compiled(4, 5)",
        "compiled(5, 6)",
    ]


def test_many_calls_are_a_loop_over_what_differs() -> None:
    given = tuple(invocation.CallInputs.from_arguments((number, "same"), {}) for number in range(5))
    draft = ProgramDraft()
    unit = invocation.CallableUnit("f", given)
    text = "\n".join(invocation.CompiledInvocation().statements(draft, unit))
    assert text.split("\n")[1:] == ["for x0 in [0, 1, 2, 3, 4]:", "    compiled(x0, 'same')"]


def test_one_function_of_several_objects_is_given_them() -> None:
    point, draft = called_on_several_objects(), ProgramDraft()
    unit = parts.calls_unit(point, draft, most=12)
    assert unit.entry == "Scaled.of"
    assert [len(given.inputs) for given in unit.calls] == [2] * 4


# -- trials -----------------------------------------------------------------------------------


def work(text: str) -> bytes:
    if text == "sleep":
        time.sleep(600)
    if text == "large":
        return b"x" * 200_000
    assert text != "raise"
    return text.encode()


@pytest.fixture
def trials() -> TrialPool:
    return TrialPool(work, capacity=2, seconds=2.0, memory=1024)


def test_trials_give_what_the_work_gives_whatever_the_order(trials: TrialPool) -> None:
    first, second = trials.submit("a"), trials.submit("large")
    assert trials.free == 0
    assert dict([trials.wait(), trials.wait()]) == {first: b"a", second: b"x" * 200_000}
    with pytest.raises(LookupError):
        trials.wait()


def test_a_trial_that_raises_hangs_or_is_killed_gives_nothing(trials: TrialPool) -> None:
    number = trials.submit("raise")
    assert trials.wait() == (number, None)
    number = trials.submit("sleep")
    assert trials.wait() == (number, None)
    killed, other = trials.submit("sleep"), trials.submit("b")
    trials.kill(killed)
    assert trials.wait() == (other, b"b")
    assert trials.free == 2


# -- further calls ----------------------------------------------------------------------------


def wanted(code: str, *changed: str) -> Wanted:
    return Wanted(code, NOWHERE, "f", RunId("f", 0, "forecast"), changed=changed)


def test_the_calls_of_a_forecast_are_made_again() -> None:
    def f(x: Any, k: int = 2) -> Any:
        return x * k

    call = Call(f, (torch.ones(4, 6), 3), {})
    sizes = repeated_calls_of(wanted("recompile/every-size", "x.shape[1]"), call)
    assert sizes is not None
    shapes = [tuple(args[0].shape) for args, _ in sizes.arguments]
    assert shapes == [(4, 6), (4, 7), (4, 8), (4, 9)]
    values = repeated_calls_of(wanted("recompile/value", "k"), call)
    assert values is not None
    assert [args[1] for args, _ in values.arguments] == [3, 4, 5, 6]
    same = repeated_calls_of(wanted("recompile/every-call"), call)
    assert same is not None
    assert [tuple(args[0].shape) for args, _ in same.arguments] == [(4, 6)] * 4
    assert len({id(args[0]) for args, _ in same.arguments}) == 4


def test_sizes_that_the_code_refuses_are_not_tried() -> None:
    def halves(x: Any) -> Any:
        return x.view(2, -1)

    call = Call(halves, (torch.ones(4),), {})
    found = repeated_calls_of(wanted("recompile/every-size", "x.shape[0]"), call)
    assert found is not None
    assert [args[0].shape[0] for args, _ in found.arguments] == [4, 8, 12, 16]


def test_what_is_no_input_gives_no_calls() -> None:
    call = Call(torch.sin, (torch.ones(4),), {})
    assert repeated_calls_of(wanted("recompile/value", "training"), call) is None
    assert repeated_calls_of(wanted("recompile/value"), call) is None
