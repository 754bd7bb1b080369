"""Fixes that shorten compile times: a repeated module class becomes a nested region."""

from __future__ import annotations

import dataclasses

import pytest
from tests.server.test_fixes import ORIGIN, Asked, Engine, compares_as, report

from fullgraph.fixes.rewrites.regions import compile_block_once
from fullgraph.fixes.site import Site, Text
from fullgraph.fixes.verification import Verifier
from fullgraph.render.fixes import fix_json, verification_words
from fullgraph_engine.protocol import Analyze, Analyzed, Finding, FindingFound, RunId, TargetDone
from fullgraph_engine.protocol.compilation import Compilation
from fullgraph_engine.protocol.evidence import BackendEvidence

MODEL = """\
import torch
from torch import nn

class Outer:
    class Block(nn.Module):
        # The comment stays.
        def forward(self, x):
            return x + 1

class Block(nn.Module):
    pass
"""
CHANGED = MODEL.replace(
    "        def forward", "        @torch.compiler.nested_compile_region\n        def forward"
)


def repeated(class_name: str) -> Finding:
    return Finding(
        "backend/repeated-block",
        "repeated",
        ORIGIN,
        target="f",
        run=RunId("f", part="backend"),
        evidence=BackendEvidence("repeated-block", class_name=class_name),
    )


class CompilingEngine(Engine):
    """An engine that finds a repeated block unless the text has a nested region."""

    def __init__(self, before: Compilation | None, after: Compilation | None) -> None:
        super().__init__(compares_as("same"))
        self._before, self._after = before, after

    def analyze(self, request: Analyze) -> Asked:
        changed = "nested_compile_region" in request.text
        compilation = self._after if changed else self._before
        done = dataclasses.replace(report(), compilation=compilation)
        found = () if changed else (FindingFound(0, repeated("Outer.Block")),)
        return Asked([*found, TargetDone(0, done), Analyzed(0, request.generation, 0.1)])


def compiled_in(seconds: float) -> Compilation:
    return Compilation("inductor", processor_seconds=seconds)


@pytest.mark.parametrize("name", ["Block", "Elsewhere", "Outer.Missing"])
def test_a_class_without_forward_in_the_file_has_no_rewrite(name: str) -> None:
    assert not list(compile_block_once(Site(Text(MODEL), repeated(name))))


async def test_a_block_that_compiles_faster_as_a_region_is_fixed() -> None:
    engine = CompilingEngine(compiled_in(9.0), compiled_in(3.0))
    verifier = Verifier(engine, Analyze(0, "1", "/model.py", MODEL))
    (fix,) = (await verifier.fixes(repeated("Outer.Block"), ["f"])).fixes
    assert (fix.candidate.text, fix.grade) == (CHANGED, "unsafe")
    assert "compiles in 3.0 s, not 9.0 s (3.0x)" in verification_words(fix)
    assert fix_json(fix, MODEL)["compile_seconds"] == {"before": 9.0, "after": 3.0}


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (compiled_in(8.0), "does not compile much faster: in 8.0 s, and the original in 9.0 s"),
        (Compilation("inductor", "failed"), "not compiled to the end"),
        (None, "not compiled to the end"),
    ],
)
async def test_a_region_that_does_not_compile_faster_is_refused(
    after: Compilation | None, why: str
) -> None:
    verifier = Verifier(
        CompilingEngine(compiled_in(9.0), after), Analyze(0, "1", "/model.py", MODEL)
    )
    search = await verifier.fixes(repeated("Outer.Block"), ["f"])
    assert search.fixes == ()
    assert why in search.refused[0].why
