"""Outcomes of compilers in summaries, and the backend that a repro of an error uses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fullgraph.render.summary import compilation_details, lens_tooltip, target_line
from fullgraph.session.repro import is_reproducible
from fullgraph_engine.protocol import Compilation, Finding, Position, Range, TargetReport
from fullgraph_engine.protocol.compilation import (
    CompilationStatus,
    LineCompilation,
    RegionCompilation,
)
from fullgraph_engine.protocol.evidence import BackendEvidence

PLACE = Range(Position(0, 4), Position(0, 5))
REPORT = TargetReport("f", "function", PLACE, "traced")
REGIONS = (RegionCompilation("f", 0, 0.5, 0.25, 0.25), RegionCompilation("f", 3, 0.5, 0.5, 0.0))


@pytest.mark.parametrize(
    ("status", "words"),
    [
        ("compiled", "compiled by Inductor in 2.00 s"),
        ("failed", "Inductor fails"),
        ("not-computed", "not compiled by Inductor"),
    ],
)
def test_the_summary_says_what_the_compiler_did(status: CompilationStatus, words: str) -> None:
    compiled = replace(REPORT, compilation=Compilation("inductor", status, REGIONS))
    assert f" · {words} · " in target_line(compiled)
    assert "compile" not in target_line(REPORT) and "Inductor" not in target_line(REPORT)


def test_the_tooltip_has_the_seconds_of_each_stage_or_the_reason() -> None:
    compiled = Compilation("inductor", "compiled", REGIONS)
    stages = "(Dynamo 1.00 s, AOTAutograd 0.75 s, Inductor 0.25 s"
    assert compilation_details(compiled).endswith(f"{stages})")
    lines = (LineCompilation(8, 0.1, 0.2), LineCompilation(7, 0.1, 0.0))
    timed = replace(compiled, regions=(replace(REGIONS[0], lines=lines), REGIONS[1]))
    assert "slowest: line 9, 0.30 s)" in compilation_details(timed)
    missing = Compilation("aot", "not-computed", reason="It crashed.")
    assert compilation_details(missing) == "not compiled by AOTAutograd: It crashed."
    assert lens_tooltip(replace(REPORT, compilation=missing)).endswith("It crashed.")


@pytest.mark.parametrize(
    ("stage", "backend"), [("AOTAutograd", "aot_eager"), ("Inductor", "inductor")]
)
def test_a_repro_of_an_error_compiles_with_the_stage_that_raised(stage: str, backend: str) -> None:
    evidence = BackendEvidence("error", stage)  # type: ignore[arg-type]
    finding = Finding("backend/error", "words", PLACE, "f", evidence=evidence)
    assert is_reproducible(finding.code)
    assert finding.to_wanted().backend == backend
    assert not is_reproducible("backend/fallback")
