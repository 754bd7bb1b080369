"""What graph breaks come from: an identity that stays the same as long as the cause does."""

from __future__ import annotations

import dataclasses
import importlib.util
import linecache
from pathlib import Path

import pytest
import torch

from fullgraph_engine import tracing
from fullgraph_engine.findings import break_causes, breaks
from fullgraph_engine.findings.places import SourceText
from fullgraph_engine.protocol import BreakCause, Frame, Position, Range
from fullgraph_engine.torch_internals.breaks import reading_operation, untraced_callee
from fullgraph_engine.tracing.recording import Break, Cause

FILE = "/home/user/project/model.py"
TEXT = """\
class Net:
    def forward(self, x):
        print(x)
        y = x.item()
        return y + x.item()

    def other(self, x):
        return x.item()
"""
NOWHERE = Range(Position(0, 0), Position(0, 1))


def cause(
    *frames: Frame, text: str = TEXT, context: str = "", hook: str = "", kind: str = "Stop"
) -> BreakCause:
    record = Break(0, "GB1", (Cause(kind, context=context),), "", "resumed", frames, hook=hook)
    source = SourceText(FILE, text)
    place = source.locate(frames, NOWHERE)
    return break_causes.break_cause(f"graph-break/{kind}", record, place, source)


def at(words: str, text: str = TEXT, function: str = "forward", last: bool = False) -> Frame:
    """The frame of the first such code of a text, or of the last."""
    offset = text.rindex(words) if last else text.index(words)
    line = text.count("\n", 0, offset)
    byte = offset - text.rfind("\n", 0, offset) - 1
    return Frame(FILE, function, line, byte, line, byte + len(words))


@pytest.mark.parametrize(
    ("functions", "inlined", "separate"),
    [
        pytest.param(("forward", "<listcomp>"), 1, True, id="a frame of its own"),
        pytest.param(("forward", "<listcomp>"), 2, False, id="in the frame of its function"),
        pytest.param(("forward",), 1, False, id="no comprehension"),
    ],
)
def test_a_comprehension_that_is_traced_by_itself_names_no_remedy(
    functions: tuple[str, ...], inlined: int, separate: bool
) -> None:
    text = TEXT.replace("print(x)", "[one + 1 for one in x]")
    frames = tuple(at("[one + 1 for one in x]", text, function) for function in functions)
    causes = (Cause("Missing tp_iternext", "Dynamo does not support next() on it.", ("Report.",)),)
    record = Break(0, "GB4347", causes, "", "frame-skipped", frames, inlined=inlined)
    found = breaks.break_finding(record, SourceText(FILE, text), NOWHERE)
    assert ("fix that one" in found.message) == separate
    assert found.hints == (() if separate else ("Report.",))


def test_what_comments_and_docstrings_say_leaves_the_identity() -> None:
    said = TEXT.replace(
        "    def forward(self, x):\n", '    def forward(self, x):\n        """x.item()"""\n'
    )
    said = said.replace("print(x)\n", "print(x)  # x.item()\n        # x.item()\n")
    lines = said.split("\n")
    row = next(number for number, line in enumerate(lines) if line.lstrip().startswith("y = "))
    moved = dataclasses.replace(at("x.item()"), line=row, end_line=row)
    assert cause(moved, text=said).identity == cause(at("x.item()")).identity


def test_an_edit_of_something_else_leaves_the_identity() -> None:
    before = cause(at("x.item()"))
    assert (before.kind, before.function, before.path) == ("place", "Net.forward", "")
    moved = f"import torch\n\n{TEXT}".replace("print(x)", "x = x.relu()\n        print(x, x)")
    assert cause(at("x.item()", moved), text=moved).identity == before.identity
    renamed = TEXT.replace("forward", "step")
    other = cause(at("x.item()", renamed, "step"), text=renamed)
    assert other.identity != before.identity


def test_the_layout_of_calls_leaves_the_identity() -> None:
    chained = TEXT.replace("x.item()", "x.sin().item()")
    divided = TEXT.replace("x.item()", "(x.sin()\n        .item())")
    # The instruction of one over several lines begins with the name of the method.
    first, second = (Frame(FILE, "forward", line, 9, line, 15, ".item()") for line in (4, 6))
    assert cause(first, text=divided) == cause(at("x.sin().item()", chained), text=chained)
    row = chained.split("\n")[4]
    whole = Frame(FILE, "forward", 4, row.index("x.sin"), 4, len(row))
    assert cause(second, text=divided) == cause(whole, text=chained)


def test_equal_code_at_two_places_is_two_causes() -> None:
    first = cause(at("x.item()"))
    second = at("x.item()", TEXT.replace("y = x.item()", "y = x-item()"))
    third = at("x.item()", function="other", last=True)
    found = {first.identity, cause(second).identity, cause(third).identity}
    assert len(found) == 3
    assert cause(at("x.item()"), kind="Go").identity not in found


def library(path: Path, function: str = "rearrange") -> Frame:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("import os\n\ndef rearrange(x):\n    return f'{x}'\n")
    return Frame(str(path), function, 3, 11, 3, 17)


def test_a_library_breaks_for_all_its_callers(tmp_path: Path) -> None:
    inner = library(tmp_path / "site-packages" / "einops.py")
    entry = dataclasses.replace(inner, function="reduce", line=0)
    one, two = cause(at("print(x)"), inner), cause(at("x.item()"), entry, inner)
    assert one.identity == two.identity
    assert (one.kind, one.function, one.line) == ("library", "rearrange", 3)
    assert (one.entry, two.entry) == ("rearrange", "reduce")
    elsewhere = library(tmp_path / "other" / "site-packages" / "einops.py")
    assert cause(at("print(x)"), elsewhere).identity == one.identity
    moved = Path(elsewhere.path)
    moved.write_text("import sys\n" + moved.read_text())
    later = dataclasses.replace(elsewhere, line=4, end_line=4)
    linecache.checkcache(elsewhere.path)
    assert cause(at("print(x)"), later).identity == one.identity


def test_another_file_of_the_project_is_no_library(tmp_path: Path) -> None:
    found = cause(at("print(x)"), library(tmp_path / "layers.py"))
    assert (found.kind, found.own) == ("module", True)


def test_a_hook_of_a_library_is_not_the_users(tmp_path: Path) -> None:
    inner = library(tmp_path / "site-packages" / "accelerate.py", "pre_forward")
    found = cause(at("print(x)"), inner, hook="pre_forward")
    assert (found.kind, found.own) == ("hook", False)
    wrapper = library(tmp_path / "site-packages/torch/nn/parallel/distributed.py", "run")
    found = cause(at("print(x)"), wrapper, inner)
    assert (found.kind, found.function, found.path) == ("hook", "run", wrapper.path)


def test_calls_of_one_function_have_one_cause() -> None:
    context = "module: time, qualname: time, skip reason: a C function"
    one, two = cause(at("print(x)"), context=context), cause(at("x.item()"), context=context)
    assert one == two
    assert (one.kind, one.function, one.path) == ("call", "time.time", "")


@pytest.mark.parametrize(
    ("context", "name"),
    [
        ("module: time, qualname: time, skip reason: no source", "time.time"),
        ("module: None, qualname: helper, skip reason: no source", "helper"),
        ("module: <unknown module>, qualname: Tensor.fill_, skip reason: x", "Tensor.fill_"),
        ("qualname: Net.helper, name: helper, filename: `a.py`, skip reason: x", "Net.helper"),
        ("<function statistics at 0x7f01>", "statistics"),
        ("<bound method Net.log of Net() at 0x7f01>", "Net.log"),
        ("LSTM(128, 256, num_layers=6)", "LSTM"),
        ("method: <Logger x (WARNING)>.info, args: [], kwargs: {}", "info"),
        ("builtin print [<class 'ConstantVariable'>] False", "print"),
        ("builtin int [<class 'TensorVariable'>] False", ""),
        ("call_method TensorVariable() item () {}", ""),
        ("", ""),
    ],
)
def test_what_is_called_is_read_off_the_context(context: str, name: str) -> None:
    assert untraced_callee(context) == name


@pytest.mark.parametrize(
    ("title", "context", "reads"),
    [
        ("Unsupported Tensor.item() call with capture_scalar_outputs=False", "", "Tensor.item()"),
        ("Data-dependent branching", "attempted to jump with TensorVariable()", "bool(Tensor)"),
        ("Data-dependent branching", "attempted to jump with SymNodeVariable()", ""),
        ("Dynamic shape operator", "aten.nonzero.default", "aten.nonzero.default"),
        (
            "Failed to trace builtin operator",
            "builtin print [TensorVariable] False",
            "print(Tensor)",
        ),
        ("Failed to trace builtin operator", "builtin print [ConstantVariable] False", ""),
        ("Failed to trace builtin operator", "builtin id [TensorVariable] False", ""),
        ("Call to `torch._dynamo.graph_break()`", "", ""),
    ],
)
def test_what_waits_for_a_value_is_known(title: str, context: str, reads: str) -> None:
    assert reading_operation(title, context) == reads


@pytest.mark.real_engine
@pytest.mark.usefixtures("fresh_tracer")
@pytest.mark.parametrize(("folder", "hook"), [("site-packages", "shout"), ("project", "")])
def test_a_hook_is_recorded_where_it_is_a_librarys(tmp_path: Path, folder: str, hook: str) -> None:
    path = tmp_path / folder / "hooks.py"
    path.parent.mkdir()
    path.write_text("def shout(module, args):\n    print('called')\n")
    spec = importlib.util.spec_from_file_location("hooks", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    layer = torch.nn.Linear(4, 4)
    layer.register_forward_pre_hook(module.shout)

    def run(x: torch.Tensor) -> torch.Tensor:
        called: torch.Tensor = layer(x)
        return called.relu()

    with tracing.tensor_mode(False):
        recording = tracing.trace(run, (torch.ones(2, 4),), {}, file=__file__)
    source = SourceText(__file__, Path(__file__).read_text())
    found = breaks.break_finding(recording.breaks[0], source, NOWHERE)
    assert recording.breaks[0].hook == hook
    assert [one.kind for one in found.causes] == ["hook" if hook else "module"]


def test_comments_of_lines_that_torch_quotes_are_not_told() -> None:
    quoted = 'File "/a.py", line 2, in f, code: {}\n    add: x'
    told = quoted.format(
        'x = g(x)  # a remark\n  # File "/a.py", in f, code: y = "#" + x  # not it'
    )
    kept = quoted.format('x = g(x)\n  # File "/a.py", in f, code: y = "#" + x  # not it')
    record = Break(0, "GB1", (Cause("Stop", told),), "", "resumed", (at("x.item()"),))
    finding = breaks.break_finding(record, SourceText(FILE, TEXT), NOWHERE)
    assert finding.explanation == kept
