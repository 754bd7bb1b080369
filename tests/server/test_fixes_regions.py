"""Fixes that shorten compile times: a repeated module class becomes a nested region."""

from __future__ import annotations

import dataclasses

import pytest
from tests.server.test_fixes import ORIGIN, Asked, Engine, compares_as, report

from fullgraph.fixes.outcomes import CompileTimes
from fullgraph.fixes.rewrites.regions import compile_block_once, compile_each_block
from fullgraph.fixes.site import Site, Text
from fullgraph.fixes.verification import Verifier
from fullgraph.render.fixes import fix_json, verification_words
from fullgraph_engine.protocol import (
    Analyze,
    Analyzed,
    Finding,
    FindingFound,
    ObservedValue,
    ProgramObserved,
    ProgramRequest,
    Region,
    RunId,
    TargetDone,
)
from fullgraph_engine.protocol.compilation import Compilation
from fullgraph_engine.protocol.evidence import BackendEvidence
from fullgraph_engine.protocol.packing import pack
from fullgraph_engine.protocol.regions import CompileSite, RegionCalls

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


def make_finding(class_name: str, container: str = "", *, calls: bool = False) -> Finding:
    return Finding(
        "backend/repeated-block",
        "repeated",
        ORIGIN,
        target="f",
        run=RunId("f", part="backend"),
        calls=(RegionCalls("Net", (1,)),) if calls else (),
        evidence=BackendEvidence("repeated-block", class_name=class_name, container=container),
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
        found = () if changed else (FindingFound(0, make_finding("Outer.Block")),)
        return Asked([*found, TargetDone(0, done), Analyzed(0, request.generation, 0.1)])


def compiled_in(seconds: float) -> Compilation:
    return Compilation("inductor", processor_seconds=seconds)


@pytest.mark.parametrize("name", ["Block", "Elsewhere", "Outer.Missing"])
def test_a_class_without_forward_in_the_file_has_no_rewrite(name: str) -> None:
    assert not list(compile_block_once(Site(Text(MODEL), make_finding(name))))


async def test_a_block_that_compiles_faster_as_a_region_is_fixed() -> None:
    engine = CompilingEngine(compiled_in(9.0), compiled_in(3.0))
    verifier = Verifier(engine, Analyze(0, "1", "/model.py", MODEL))
    (fix,) = (await verifier.fixes(make_finding("Outer.Block"), ["f"])).fixes
    assert (fix.candidate.text, fix.grade) == (CHANGED, "unsafe")
    assert "compiles in 3.0 s, not 9.0 s (3.0x)" in verification_words(fix)
    assert fix_json(fix, MODEL)["compile_seconds"] == {"before": 9.0, "after": 3.0}


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (compiled_in(8.0), "does not compile much faster: 8.0 s instead of 9.0 s"),
        (
            Compilation("inductor", "failed"),
            "Compiling the original or the changed code did not finish",
        ),
        (None, "Compiling the original or the changed code did not finish"),
    ],
)
async def test_a_region_that_does_not_compile_faster_is_refused(
    after: Compilation | None, why: str
) -> None:
    verifier = Verifier(
        CompilingEngine(compiled_in(9.0), after), Analyze(0, "1", "/model.py", MODEL)
    )
    search = await verifier.fixes(make_finding("Outer.Block"), ["f"])
    assert search.fixes == ()
    assert why in search.refused[0].why


# -- each block, and not the model --------------------------------------------------------------

SCRIPT = "import torch\nmodel = Net()\nx = torch.ones(2)\n{}\nmodel(x)\n"
LOOP = "for block in {}.layers:\n    block.compile({})"


@pytest.mark.parametrize(
    ("code", "changed"),
    [
        ("model = torch.compile(model)", LOOP.format("model", "")),
        (
            "# fast\nfast = torch.compile(model, dynamic=True)  # c",
            "# fast\nfast = model  # c\n" + LOOP.format("fast", "dynamic=True"),
        ),
        (
            "net = torch.compile(Net(2), mode='default')",
            "net = Net(2)\n" + LOOP.format("net", "mode='default'"),
        ),
        ("# why\nmodel.compile(dynamic=False)", "# why\n" + LOOP.format("model", "dynamic=False")),
        (
            "block = 1; layer = 2\nmodel = torch.compile(model)",
            "block = 1; layer = 2\n" + LOOP.format("model", "").replace("block", "compiled_block"),
        ),
        ("torch.compile(model)(x)", None),
        ("a = b = torch.compile(model)", None),
        ("a = 1; model = torch.compile(model)", None),
        ("a, model = 1, torch.compile(model)", None),
        ("model = torch.compile(model=model)", None),
    ],
)
def test_statements_that_compile_a_model_compile_its_blocks(code: str, changed: str | None) -> None:
    finding = make_finding("Layer", "layers", calls=True)
    found = [one.text for one in compile_each_block(Site(Text(SCRIPT.format(code)), finding))]
    assert found == ([SCRIPT.format(changed)] if changed is not None else [])


@pytest.mark.parametrize(("container", "calls"), [("", True), ("layers", False)])
def test_blocks_are_compiled_only_in_programs_with_a_known_container(
    container: str, calls: bool
) -> None:
    text = Text(SCRIPT.format("model = torch.compile(model)"))
    finding = make_finding("Layer", container, calls=calls)
    assert not list(compile_each_block(Site(text, finding)))


class ProgramEngine(Engine):
    """An engine that runs programs: a compiled model has a repeated block, compiled blocks do
    not."""

    def __init__(self, seconds: dict[bool, float]) -> None:
        super().__init__(compares_as("same"))
        self._seconds = seconds
        self.compilers: list[str] = []
        self.observed: list[tuple[str, ...]] = []

    def analyze(self, request: Analyze) -> Asked:
        self.compilers.append(request.program.compiler)
        self.observed.append(request.program.observed_modules)
        changed = "block.compile" in request.text
        region = Region(request.path, "torch.compile", CompileSite(request.path, ORIGIN))
        done = dataclasses.replace(report(), region=region, graphs=1)
        found = () if changed else (FindingFound(0, make_finding("Layer", "layers", calls=True)),)
        values = (ObservedValue("result", "result 1 of Net", "f32[2]", "1"),)
        seconds = self._seconds[changed]
        return Asked(
            [
                *found,
                TargetDone(0, done),
                ProgramObserved(0, pack(values), compile_seconds=seconds, graphs=1),
                Analyzed(0, request.generation, 0.1),
            ]
        )


@pytest.mark.parametrize(("after", "offered"), [(2.0, True), (7.9, False), (0.0, False)])
async def test_compiled_blocks_are_offered_if_the_program_compiles_faster(
    after: float, offered: bool
) -> None:
    engine = ProgramEngine({False: 8.0, True: after})
    text = SCRIPT.format("model = torch.compile(model)")
    program = ProgramRequest(seconds=20.0, compiler="inductor")
    request = Analyze(0, "1", "/train.py", text, compiler="inductor", program=program)
    finding = make_finding("Layer", "layers", calls=True)
    search = await Verifier(engine, request).fixes(finding, ["f"])
    assert engine.compilers == ["inductor", "inductor"]
    assert engine.observed == [(), (finding.target,)]
    assert [one.compile_times for one in search.fixes] == (
        [CompileTimes(8.0, after)] if offered else []
    )
    assert len(search.refused) == (0 if offered else 1)
    if offered:
        words = verification_words(search.fixes[0])
        assert "identical output in the run of the program" in words
        assert "compiles in 2.0 s, not 8.0 s (4.0x)" in words
