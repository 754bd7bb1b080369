"""Guards in the server: kept with the text, read as a tree, hovered over, shown as diagnostics."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fullgraph.domain.codes import Severity
from fullgraph.incremental.relocation import Relocation
from fullgraph.incremental.text_maps import AppliedEdit
from fullgraph.lsp.hovers import expression_at
from fullgraph.render.guards import GuardQuery, answer_text, find_guards, guards_text
from fullgraph.results.file_results import Results
from fullgraph.results.guards import GuardsByTarget, ProbeGuards, guard_findings
from fullgraph.results.located import Located
from fullgraph_engine.protocol import (
    Position,
    Range,
    TargetDone,
    TargetReport,
    TargetsFound,
    decode,
    encode,
)
from fullgraph_engine.protocol.guards import FoundGuard, GuardedFrame, GuardsFound
from fullgraph_engine.protocol.sources import condition_in_user_words, in_user_words

TEXT = """\
CFG = {"k": 3}

class Net(Module):
    def forward(self, x):
        y = self.block(x)
        if self.training:
            y = y + CFG["k"]
        return y
"""


def range_(line: int, start: int, end: int) -> Range:
    return Range(Position(line, start), Position(line, end))


X = FoundGuard("TENSOR_MATCH", "L['x']", ("check_tensor(L['x'], 8)",), "torch.Tensor", 0, True)
TRAINING = FoundGuard(
    "TRUE_MATCH", "L['self'].training", ("L['self'].training == True",), "bool", 1
)
KEY = FoundGuard("EQUALS_MATCH", "G['CFG']['k']", ("G['CFG']['k'] == 3",), "int", 2)
HEADS = FoundGuard(
    "EQUALS_MATCH",
    "L['self']._modules['block'].heads",
    ("L['self']._modules['block'].heads == 2",),
    "int",
    0,
)
LIBRARY = FoundGuard(
    "ID_MATCH", "G['__import_a_dot_b'].c", ("G['__import_a_dot_b'].c",), "f", -1, True
)
GLOBAL_STATE = FoundGuard("GLOBAL_STATE", "", ("___check_global_state()",))
FRAME = GuardedFrame(
    "forward",
    "",
    3,
    range_(7, 8, 16),
    "0/0",
    2,
    (range_(4, 12, 25), range_(5, 11, 24), range_(6, 20, 28)),
    (GLOBAL_STATE, X, TRAINING, KEY, HEADS, LIBRARY),
)
EVENT = GuardsFound.from_frames(1, "Net", [FRAME], "Not all.")
GUARDS = GuardsByTarget((ProbeGuards(0, (FRAME,), "Not all."),))


def test_packing() -> None:
    again = decode(encode(EVENT))
    assert isinstance(again, GuardsFound)
    assert again.unpack_frames() == (FRAME,)
    assert again.note == "Not all."


@pytest.mark.parametrize("packed", ["", "[]", "{}", "[[], [[1]]]", "[[], [[]]]", "7"])
def test_what_cannot_be_unpacked_is_nothing(packed: str) -> None:
    assert GuardsFound(1, "Net", packed).unpack_frames() == ()


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("L['x'].size()[0]", "x.shape[0]"),
        ("L['self']._modules['blocks']._modules['2'].training", "self.blocks[2].training"),
        ("L['self']._parameters['weight']", "self.weight"),
        ("L['self'].__dict__['step']", "self.step"),
        ("G['CFG']['k']", "CFG['k']"),
        ("G['__builtins_dict___1']['iter']", "iter"),
        ("G['__import_torch_dot_nn_dot_modules_dot_linear'].F", "torch.nn.modules.linear.F"),
        ("L['___stack0'].size()[1]", "(…).shape[1]"),
    ],
)
def test_sources_in_user_words(source: str, words: str) -> None:
    assert in_user_words(source) == words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("___check_type_id(L['l'], 139857569870656), type=<class 'list'>", "type(l) is list"),
        ("___check_obj_id(L['f'], 13985), type=<class 'm.F'>", "f is the same object (m.F)"),
        (
            "___check_obj_id(L['f'].__code__, 13985), "
            'type=<code object f at 0x7f4c, file "/m.py", line 3>',
            "f.__code__ is the same object (code object f)",
        ),
        (
            "___check_obj_id(L['m'], 13985), type=Sequential(\n  (0): ReLU()\n)",
            "m is the same object (Sequential( (0): ReLU() ))",
        ),
        ("not ___dict_contains('a', L['s'].__dict__)", "'a' not in s.__dict__"),
        ("len(L['l']) == 2", "len(l) == 2"),
        (
            "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect), torch.float32, "
            "device=None, requires_grad=False, size=[None, 4], stride=[4, 1])",
            "x is a Tensor: float32[any, 4], stride [4, 1], requires_grad=False, device index None",
        ),
    ],
)
def test_conditions_in_user_words(expression: str, words: str) -> None:
    assert condition_in_user_words(expression) == words


def test_the_tree_goes_by_frame_and_line() -> None:
    lines = TEXT.split("\n")
    assert guards_text([FRAME], "Not all.", lambda line: lines[line]) == (
        "forward, lines 4-8 [0/0]: 6 guards, entered 2 times\n"
        "  line 5: y = self.block(x)\n"
        "    EQUALS_MATCH: self.block.heads == 2\n"
        "    in library code that is called here: 1 guard\n"
        "      TENSOR_MATCH: check_tensor(x, 8)\n"
        "  line 6: if self.training:\n"
        "    TRUE_MATCH: self.training == True\n"
        '  line 7: y = y + CFG["k"]\n'
        "    EQUALS_MATCH: CFG['k'] == 3\n"
        "  only in library code: 1 guard\n"
        "    ID_MATCH: a.b.c\n"
        "  from no line: 1 guard\n"
        "    GLOBAL_STATE: ___check_global_state()\n"
        "\n"
        "Not all.\n"
    )
    assert guards_text([]) == "There are no guards.\n"


# -- with the text ----------------------------------------------------------------------------


@pytest.mark.parametrize("read_before", [True, False])
def test_guards_move_with_the_text(read_before: bool) -> None:
    guards = Located(lambda: GUARDS)
    if read_before:
        assert guards.current.frames == (FRAME,)
    # Insert a line above everything, then edit the condition in line 6 (then 7).
    for edit in (
        AppliedEdit(Position(0, 0), Position(0, 0), Position(1, 0)),
        AppliedEdit(Position(6, 12), Position(6, 13), Position(6, 14)),
    ):
        guards = guards.relocate_later([Relocation("/net.py", edit)])
    (frame,) = guards.current.frames
    assert (frame.first_line, frame.last_line) == (4, 8)
    assert frame.causes == (range_(5, 12, 25), None, range_(7, 20, 28))
    assert frame.guards == FRAME.guards
    assert guards.current.runs[0].note == "Not all."


def test_results_keep_guards_of_targets_that_are_there() -> None:
    results = Results()
    results.begin_run()
    results.apply_event(EVENT)
    results.apply_event(dataclasses.replace(EVENT, probe_number=1))
    assert len(results.guards["Net"].frames) == 2
    results.apply_event(TargetDone(1, TargetReport("Net", "module", range_(2, 6, 9), "traced")))
    results.complete_run()
    results.apply_edits([AppliedEdit(Position(0, 0), Position(0, 0), Position(2, 0))], "net.py")
    assert results.snapshot().guards["Net"].frames[0].first_line == 5
    results.begin_run()
    results.apply_event(TargetsFound(1, ()))
    assert not results.guards


# -- hover ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("at", "length", "expected"),
    [
        ("x)\n        if", 0, "x"),
        ("self.training", 2, "self"),
        ("self.training", 7, "self.training"),
        ('CFG["k"]', 1, "CFG"),
        ('CFG["k"]', 6, 'CFG["k"]'),
    ],
)
def test_the_expression_under_the_cursor(at: str, length: int, expected: str) -> None:
    found = expression_at(TEXT, TEXT.index(at) + length)
    assert found is not None
    assert TEXT[slice(*found)] == expected


def test_no_expression_in_a_comment() -> None:
    assert expression_at("a = 1  # about a", 15) is None


def told(words: str, line: int) -> str:
    asked = GuardQuery(words, line)
    return answer_text(asked, find_guards(asked, [FRAME]))


def test_guards_on_an_expression() -> None:
    assert "TRUE_MATCH" in told("self.training", 5)
    assert "forward [0/0] was entered 2 times" in told("self.training", 5)
    assert "x" in told("x", 3)
    # In another function `x` is another one; a global is the same everywhere.
    assert told("x", 30) == ""
    assert "CFG['k'] == 3" in told("CFG['k']", 30)
    assert "1 guard on its attributes and items" in told("CFG", 0)
    # `heads` of the block, where the line is that which called it.
    assert "self.block.heads == 2" in told("self.heads", 4)
    assert told("self.heads", 6) == ""


# -- diagnostics ------------------------------------------------------------------------------


def test_all_guards_as_hints() -> None:
    report = TargetReport("Net", "module", range_(2, 6, 9), "traced")
    found = list(guard_findings(["Net", "Gone"], {"Net": GUARDS}, [report]))
    assert {item.severity for item in found} == {Severity.HINT}
    at = {(item.finding.code, item.finding.range.start.line) for item in found}
    assert at == {
        ("guard/tensor-match", 4),
        ("guard/equals-match", 4),
        ("guard/true-match", 5),
        ("guard/equals-match", 6),
        ("guard/id-match", 2),
        ("guard/global-state", 2),
    }
    (training,) = [item for item in found if item.finding.range.start.line == 5]
    assert training.finding.message == "TRUE_MATCH: self.training == True"


# -- through an editor ------------------------------------------------------------------------

NET = """\
import torch.nn as nn
class Net(nn.Module):
    def forward(self, x, n):
        return x * n  # guarded: L['n']
"""


@pytest.mark.asyncio
async def test_hover_and_toggle(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_state("ready")
    await editor.until(lambda: editor.statuses)
    page = await editor.until(lambda: editor.hover(uri, "x * ", "n  #"))
    assert "n == 3" in page.contents.value and "EQUALS_MATCH" in page.contents.value
    assert editor.at(uri, page.range) == "n"

    title = "all guards of Net as diagnostics"
    (show,) = [one for one in await editor.actions(uri, "Net") if one.title == f"Show {title}"]
    assert await editor.command(show.command.command, *show.command.arguments) is True
    await editor.until_seen(uri, ("EQUALS_MATCH: n == 3", "return x * n"))
    (hide,) = [one for one in await editor.actions(uri, "Net") if one.title == f"Hide {title}"]
    assert await editor.command(hide.command.command, *hide.command.arguments) is False
    await editor.until_seen(uri)
