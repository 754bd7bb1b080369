"""The first guess of a probe, for targets that have none."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest
from torch._subclasses.fake_tensor import FakeTensorMode

from fullgraph_engine.protocol import Finding
from fullgraph_engine.targets import confirm, discover, missing_probe, parse, plan

FIXTURE = Path(__file__).parents[1] / "fixtures" / "targets" / "without_probes.py"


def apply(text: str, finding: Finding, fix: int = 0) -> str:
    (edit,) = finding.fixes[fix].edits
    assert edit.range.start == edit.range.end
    lines = text.encode().split(b"\n")
    line = lines[edit.range.start.line]
    at = edit.range.start.byte
    lines[edit.range.start.line] = line[:at] + edit.text.encode() + line[at:]
    return b"\n".join(lines).decode()


def execute(text: str) -> dict[str, Any]:
    module = types.ModuleType("guessed")
    sys.modules["guessed"] = module
    exec(compile(text, "guessed.py", "exec"), module.__dict__)
    return module.__dict__


TEXT = FIXTURE.read_text(encoding="utf-8")
# Every class and function of the fixture states the guess above it.
EXPECTED = {
    name: guess for guess, name in re.findall(r"# guess: (.*)\n(?:@.*\n)?(?:class|def) (\w+)", TEXT)
}


@pytest.mark.parametrize("name", EXPECTED)
def test_the_guess_and_that_it_runs(name: str) -> None:
    target = next(one for one in discover(TEXT).targets if one.name == name)
    finding = missing_probe(target, None, TEXT)
    assert finding.code == "probe/missing"
    assert finding.range == target.range
    assert finding.data["probe"] == EXPECTED[name]
    parse(EXPECTED[name])

    edited = apply(TEXT, finding)
    namespace = execute(edited)
    again = next(one for one in discover(edited).targets if one.name == name)
    assert confirm(again, namespace)
    (probe,) = plan(again, namespace)
    with FakeTensorMode(allow_non_fake_inputs=True):
        call = probe.build(namespace)
        call.function(*call.args, **call.kwargs)


def test_every_target_of_the_fixture_is_tested() -> None:
    assert {target.name for target in discover(TEXT).targets} == set(EXPECTED)


def test_the_edit_keeps_indentation_decorators_and_line_ends() -> None:
    text = "import torch\r\nif True:\r\n    @torch.compile\r\n    def f(x):\r\n        return x\r\n"
    finding = missing_probe(discover(text).targets[0], None, text)
    assert apply(text, finding) == text.replace(
        "    @torch", "    # fullgraph: f32[b, 16]\r\n    @torch"
    )
    off = discover(apply(text, finding, fix=1))
    assert (off.targets, off.off) == ((), False)


def test_the_words_say_what_is_missing() -> None:
    text = (
        "from torch import nn\nclass A(nn.Module):\n    def __init__(self, d): pass\n"
        "    def forward(self, x: 'f32[b, 16]'): return x\n"
    )
    finding = missing_probe(discover(text).targets[0], None, text)
    assert "nothing gives the constructor's d" in finding.explanation
    assert finding.data["probe"] == "init(d=16) forward(f32[b, 16])"
    assert finding.hints[0].endswith("# fullgraph: init(d=16) forward(f32[b, 16])")
