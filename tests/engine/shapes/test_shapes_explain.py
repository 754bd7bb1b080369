"""Why a size is what it is: the fixtures say on their lines what pins them and where they begin.

``# creates: x.shape[1]`` the line that first asks for the input; ``# pins: x.shape[1] = 16`` the
line after which it is a number, ``# merges:`` another size, ``# bounds: … in [2, 5]``
narrower, ``# guards: … has …`` checked before every call of the compiled code;
``# needs: x.shape[1]`` an earlier line without which it would not have come to that;
``# violates: x.shape[0]`` the line that breaks the promise of ``mark_dynamic``.
"""

from __future__ import annotations

import re
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fullgraph_engine import shapes, targets, tracing
from fullgraph_engine.protocol import Frame
from fullgraph_engine.shapes import explanation, words

pytestmark = [pytest.mark.real_engine, pytest.mark.usefixtures("fresh_tracer")]
FIXTURES = Path(__file__).parents[2] / "fixtures" / "shapes"
MARKER = re.compile(r"# (creates|pins|needs|merges|bounds|guards|violates): ([^#]+)")
KINDS = {"value": "pins", "equal": "merges", "range": "bounds", "guard": "guards"}
SEPARATORS = {"value": " = ", "equal": " = ", "range": " in ", "guard": " has "}


def record(path: Path) -> list[shapes.Tape]:
    """Trace the one target of a fixture; the recordings of its last attempts."""
    text = path.read_text()
    module = types.ModuleType(path.stem)
    sys.modules[path.stem] = module
    exec(compile(text, str(path), "exec"), module.__dict__)
    probes: list[Any] = []
    for target in targets.discover(text, str(path)).targets:
        found = targets.plan_probes(target, module.__dict__)
        probes += [probe for probe in found if probe.info.origin != "synthesis"]
    (probe,) = probes
    with tracing.tensor_mode(False):
        call = probe.build(module.__dict__)
        dynamic = [(wish.tensor, wish.dim) for wish in call.dynamic]
        with shapes.record_tapes() as tapes:
            tracing.trace(call.function, call.args, call.kwargs, dynamic=dynamic)
    return tapes


def told(tape: shapes.Tape) -> set[tuple[str, int, str]]:
    found: set[tuple[str, int, str]] = set()
    names = sorted({name for event in shapes.build_timeline(tape).events for name in event.symbols})
    for name in names:
        explanation = shapes.explain_symbol(tape, name)
        if explanation is None:
            continue
        *earlier, last = explanation.steps
        said = f"{explanation.source}{SEPARATORS[explanation.kind]}{explanation.value}"
        found.add((KINDS[explanation.kind], line(last), said))
        found.add(("creates", line(explanation.created), explanation.source))
        found |= {("needs", line(step), explanation.source) for step in earlier}
    for violation in shapes.find_violations(tape):
        step = violation.explanation.steps[-1]
        found.add(("violates", line(step), violation.source))
    return found


def line(step: shapes.Step) -> int:
    assert step.frame is not None
    return step.frame.line + 1


def test_an_expression_over_lines_is_told_in_one(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def f(x, y):\n    return stack(\n        [x,\n         y],\n    )\n")
    whole = Frame(str(path), "f", 1, byte=11, end_line=4, end_byte=5)
    assert words.source_text(whole) == "stack([x, y])"
    assert words.source_text(replace(whole, end_line=1, end_byte=16)) == "stack"
    statement = replace(whole, byte=4)
    assert words.source_text(statement) == "return stack("


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("*.py")), ids=lambda path: path.stem)
def test_what_is_explained_stands_on_the_lines(path: Path) -> None:
    expected = {
        (kind, number, words.strip())
        for number, text in enumerate(path.read_text().split("\n"), 1)
        for kind, words in MARKER.findall(text)
    }
    tape = record(path)[-1]
    found = told(tape)
    # Sizes that nothing was learned about need no marker for where they began.
    assert found == expected, "\n".join(e.text for e in explanation.explain_all(tape))
