"""The summary of a whole file: what was traced, what was not, why, and what to do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from fullgraph.domain.codes import Severity
from fullgraph.domain.file_summary import FileSummary, FindingCounts, Gap, NotTraced, Obstacle
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import line_blocks
from fullgraph.render.file_summary import finding_words, summary_lines, summary_title
from fullgraph.render.summary import ShownBreaks, lens_title, lens_tooltip, target_line
from fullgraph.session.definitions import is_switched_off, list_definitions
from fullgraph_engine.protocol import Coverage, Finding, Position, ProbeInfo, Range, TargetReport

NET = "class Net(nn.Module):\n    call()  # break: A break\n"
OTHER = "class Other(nn.Module):  # stub: no-probe\n    pass\n"


async def summary(editor: Any, uri: str) -> dict[str, Any]:
    found = await editor.client.protocol.send_request_async("fullgraph/file", {"uri": uri})
    return dict(found._asdict())


async def until_lens(editor: Any, uri: str, beginning: str) -> types.Command:
    async def found() -> types.Command | None:
        lenses = await editor.lenses(uri)
        return next(
            (one.command for one in lenses if one.command.title.startswith(beginning)), None
        )

    lens = await editor.until(found)
    assert isinstance(lens, types.Command)
    return lens


# -- the words ----------------------------------------------------------------------------------


def test_a_file_that_was_not_traced_has_no_clean_words() -> None:
    untraced = FileSummary(obstacle=Obstacle("Installed packages are traced only on command."))
    assert finding_words(untraced) == ""
    assert summary_title(untraced) == "not traced"
    assert summary_lines(untraced)[0] == (
        "Not traced: installed packages are traced only on command."
    )
    assert finding_words(FileSummary(traced=1)) == "no findings"


def test_the_title_says_how_much_was_traced_and_why_not_the_rest() -> None:
    gaps = (Gap.NO_INPUTS, Gap.NO_INPUTS, Gap.FAILED, Gap.METHOD)
    some = FileSummary(
        traced=3, not_traced=tuple(NotTraced(f"n{at}", at, gap) for at, gap in enumerate(gaps))
    )
    assert summary_title(some) == "3 of 6 traced, 2 without inputs, 1 failed, 1 not reached"
    assert summary_lines(some) == [
        "No inputs are known for n0 and n1. To trace one, write a probe comment above it.",
        "Failed: n2. The code lens above each shows the error.",
        "No trace calls these methods: n3. To trace one, write a probe comment above it.",
    ]


def test_lines_that_no_trace_reached_are_named_in_blocks() -> None:
    assert line_blocks((3,)) == "line 4"
    assert line_blocks((1, 2, 3, 7)) == "lines 2-4 and 8"
    assert line_blocks((0, 2, 4, 6, 8)) == "lines 1, 3, 5, 7 and more"
    assert summary_lines(FileSummary(traced=1, missed_lines=(1, 2))) == [
        "2 lines were not reached: lines 2-3."
    ]


def test_every_display_counts_problems_notes_and_repeats_alike() -> None:
    def finding(severity: Severity, same_as: Range | None = None) -> FileFinding:
        place = Range(Position(0, 0), Position(0, 1))
        return FileFinding(Finding("a/b", "words", place), severity, (), "", same_as=same_as)

    first = Range(Position(0, 0), Position(0, 1))
    found = (
        finding(Severity.ERROR),
        finding(Severity.WARNING),
        finding(Severity.WARNING, first),
        finding(Severity.INFORMATION),
        finding(Severity.HINT),
    )
    counts = FindingCounts.count(found)
    assert counts == FindingCounts(problems=2, notes=1, repeats=1)
    # What an editor counts for the name of the file are the severities that it is sent.
    sent = [one.shown_severity for one in found]
    assert counts.problems == sum(one in (Severity.ERROR, Severity.WARNING) for one in sent)


@pytest.mark.parametrize(
    ("shown", "words"),
    [
        (None, "2 breaks"),
        (ShownBreaks(2), "2 breaks"),
        (ShownBreaks(1), "2 breaks on 1 line"),
        (ShownBreaks(0), "2 breaks (not shown)"),
        (ShownBreaks(2, 1), "2 breaks, 1 more on other paths"),
    ],
)
def test_a_lens_agrees_with_the_lines_that_are_underlined(
    shown: ShownBreaks | None, words: str
) -> None:
    place = Range(Position(0, 0), Position(0, 1))
    report = TargetReport("Net", "module", place, "traced", graphs=3, breaks=2)
    assert lens_title(report, shown=shown) == f"3 graphs · {words}"


def test_the_lens_of_a_function_inside_compiled_code_does_not_hide_its_breaks() -> None:
    place = Range(Position(0, 0), Position(0, 1))
    probe = ProbeInfo("program", inputs="", source="inside compiled code")
    report = TargetReport("Block", "module", place, "traced", probe=probe, breaks=1, compiled=True)
    # The finding on its line is one of the function that is compiled.
    assert lens_title(report, shown=ShownBreaks(0)) == "1 break · inside compiled code"
    assert "hides" not in lens_tooltip(report, shown=ShownBreaks(0))


def test_the_lens_of_a_target_within_a_trace_names_the_traced_target() -> None:
    place = Range(Position(0, 0), Position(0, 1))
    probe = ProbeInfo("harvest", inputs="", source="as called by Net")
    lines = Coverage.from_ranges([Range(Position(2, 0), Position(2, 5))], ())
    report = TargetReport("Block", "module", place, "traced", probe=probe, within="Net")
    report = replace(report, coverage=lines)
    assert lens_title(report, shown=ShownBreaks(0)) == "traced as part of Net"
    assert target_line(report) == "traced as part of Net · lines traced 1 of 1"


# -- definitions --------------------------------------------------------------------------------

DEFINITIONS = """\
import enum

import torch.nn as nn
from transformers import GPT2Model


class Base(nn.Module):
    def __init__(self):
        self.apply(self.init_weights)

    def init_weights(self, module):
        self.scale(module)

    def scale(self, module):
        pass

    def forward(self, x):
        return self.step(x)

    def step(self, x):
        return x

    def __len__(self):
        return 1


class Child(Base):
    def __init__(self):
        super().__init__()


class Grandchild(Child):
    pass


class Mine(GPT2Model):
    pass


class Linear(nn.Linear):
    pass


class Color(enum.Enum):
    RED = 1


# fullgraph: off
def hidden(x):
    return x


if True:
    def helper(x):
        return x
"""


def test_definitions_that_may_be_left_out() -> None:
    found = [(one.name, one.gap) for one in list_definitions(DEFINITIONS)]
    assert found == [
        ("Base.step", Gap.METHOD),
        ("Child", Gap.INHERITED),
        ("Grandchild", Gap.INHERITED),
        ("Mine", Gap.INHERITED),
        ("helper", Gap.FUNCTION),
    ]
    assert list_definitions("def f(:\n") == ()


@pytest.mark.parametrize(
    ("text", "off"),
    [
        ("# fullgraph: off\nimport torch\n", True),
        ("#!/usr/bin/python\n\n# fullgraph: off\n", True),
        ("import torch\n# fullgraph: off\ndef f(x): ...\n", False),
        ("", False),
    ],
)
def test_a_comment_that_excludes_the_whole_file(text: str, off: bool) -> None:
    assert is_switched_off(text) is off


# -- an editor ----------------------------------------------------------------------------------


async def test_a_file_is_summarized(editor: Any) -> None:
    uri = editor.open(
        "model.py", f"def helper(x):\n    return x\n\n{NET}    rest()  # never\n{OTHER}"
    )
    await editor.until_state("ready")
    found = await summary(editor, uri)
    assert found["title"] == "1 of 2 traced, 1 without inputs, 1 not reached"
    assert (found["problems"], found["findings"]) == (1, "1 finding")
    names = [(one.name, one.line) for one in found["notTraced"]]
    assert names == [("Other", 6), ("helper", 0)]
    errors = {types.DiagnosticSeverity.Error, types.DiagnosticSeverity.Warning}
    shown = await editor.diagnostics(uri)
    assert found["problems"] == sum(one.severity in errors for one in shown)


async def test_lines_that_no_trace_reached(editor: Any) -> None:
    text = "class Net(nn.Module):\n    call()\n    rest()  # never\n"
    uri = editor.open("model.py", text)
    await editor.until_state("ready")
    assert (await summary(editor, uri))["missedLines"] == [2]
    tooltip = (await editor.lenses(uri))[0].command.tooltip
    assert tooltip.split("\n")[0] == "1 of 4 lines was not reached: line 3"


async def test_without_trust_no_function_has_a_reason_of_its_own(open_editor: Any) -> None:
    editor = await open_editor(says_trusted=False)
    uri = editor.open("model.py", f"def helper(x):\n    return x\n\n{NET}")
    await editor.until_state("untrusted")
    found = await summary(editor, uri)
    assert found["lines"][0].startswith("Not traced: this workspace is not trusted")
    assert found["notTraced"] == []


async def test_an_ignored_break_has_a_lens_that_agrees(editor: Any) -> None:
    text = NET.replace("call()", "call()  # fullgraph: ignore #")
    uri = editor.open("model.py", text)
    await editor.until_state("ready")
    assert await editor.diagnostics(uri) == []
    lens = (await editor.lenses(uri))[0].command
    assert "· 1 break (not shown) ·" in lens.title
    assert "a comment or a setting hides them" in lens.tooltip
    assert (await summary(editor, uri))["findings"] == "no findings"


async def test_an_installed_package_says_that_it_is_not_traced(editor: Any) -> None:
    folder = Path(editor.root) / ".venv" / "lib" / "site-packages"
    folder.mkdir(parents=True)
    uri = editor.open(".venv/lib/site-packages/package.py", NET)
    words = "Not traced: installed packages are traced only on command"
    lens = await until_lens(editor, uri, words)
    assert (lens.title, lens.command) == (words, "fullgraph.server.analyze")
    found = await summary(editor, uri)
    assert (found["title"], found["findings"]) == ("not traced", "")
    assert found["lines"][1] == "Analyze the file by command to trace it anyway."
    # The command does what the lens says.
    await editor.command("fullgraph.server.analyze", *(lens.arguments or ()))
    assert (await summary(editor, uri))["title"] == "1 of 1 traced"


async def test_a_file_that_a_setting_excludes(open_editor: Any) -> None:
    editor = await open_editor(configuration={"exclude": ["generated/"]})
    uri = editor.open("generated/model.py", NET)
    await until_lens(editor, uri, "Not traced: the setting `exclude` matches this file")


async def test_files_without_targets_say_why(editor: Any) -> None:
    off = editor.open("off.py", "# fullgraph: off\nimport torch\n")

    async def explained() -> bool:
        return any("`# fullgraph: off`" in line for line in (await summary(editor, off))["lines"])

    await editor.until(explained)
    assert await editor.lenses(off) == []  # the text says so itself
    loose = editor.open("loose.py", "import torch\n\ndef f(x):\n    return torch.relu(x)\n")
    await until_lens(editor, loose, "Not traced: the file has no module")
    plain = editor.open("plain.py", "words = 1\n")
    await editor.until_rest()
    assert await editor.lenses(plain) == []
    assert (await summary(editor, plain))["lines"] == ["This file has no PyTorch code to trace."]


async def test_what_the_time_limit_left_out_has_not_failed(editor: Any) -> None:
    uri = editor.open("model.py", NET + "class Other(nn.Module):  # stub: late\n    pass\n")
    await editor.until_state("ready")
    await editor.until_rest()
    found = await summary(editor, uri)
    assert found["title"] == "1 of 2 traced, 1 over the time limit"
    words = (
        "Not traced, because the time limit of the file was reached: Other. To trace "
        "one, click the code lens above it."
    )
    assert words in found["lines"]
