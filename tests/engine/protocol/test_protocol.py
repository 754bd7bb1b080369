"""Messages as JSON lines and back."""

from __future__ import annotations

import json
import typing
from typing import Any

import pytest

from fullgraph_engine.protocol import (
    Coverage,
    Finding,
    FindingFound,
    Position,
    ProtocolError,
    Range,
    decode,
    encode,
    evidence,
)

NOWHERE = Range(Position(0, 0), Position(0, 0))
GUARD = evidence.GuardFailure(
    "0/0",
    "EQUALS_MATCH",
    "L['n']",
    "L['n'] == 3",
    "was 3",
    "3",
    "4",
    (evidence.GuardFrame("m.py", 1, "f"),),
)
EVIDENCE = (
    evidence.BreakEvidence("Unsupported Tensor.item() call", "rest-skipped"),
    evidence.SkipEvidence("it is a generator"),
    evidence.OperatorEvidence("mine::op", "resolved packet"),
    evidence.DefinitionEvidence("mine::op"),
    evidence.SpecializationEvidence("s0", "L['x'].size()[0]", "8", tried=True),
    evidence.EqualityEvidence("s0", "2*s1"),
    evidence.GuardEvidence("L['n']"),
    evidence.RecompileEvidence("f", "m.py", 3, (GUARD, GUARD), "size 0", ("why",), "limit 8"),
    evidence.ForecastEvidence((GUARD,), ("n",), "3", ("4", "5")),
    evidence.FailureEvidence("ValueError", "tracer", "title"),
    evidence.CompilerCheckEvidence("torch.compiler.is_compiling"),
    evidence.ImportEvidence("numpy"),
    evidence.BackendEvidence("error", "Inductor", "InductorError", ("aten.sort",), backward=True),
    evidence.ExportEvidence(
        "data-dependent",
        "u0 > 3",
        "n > 3",
        "mine::op",
        "{}",
        calls=(
            evidence.OperatorCall(
                (evidence.TensorForm("float32", (4, 8)), None),
                (evidence.TensorForm("bool", ()),),
                several=True,
            ),
        ),
    ),
    None,
)


def test_every_kind_of_evidence_is_here() -> None:
    assert {type(one) for one in EVIDENCE if one} == set(typing.get_args(evidence.Evidence))
    kinds = [one.kind for one in EVIDENCE if one]
    assert len(set(kinds)) == len(kinds)


@pytest.mark.parametrize("one", EVIDENCE, ids=lambda one: one.kind if one else "none")
def test_evidence_comes_back_as_it_was(one: Any) -> None:
    message = FindingFound(1, Finding("code", "message", NOWHERE, evidence=one))
    assert decode(encode(message)) == message


def test_evidence_of_an_unknown_kind_is_refused() -> None:
    raw = json.loads(encode(FindingFound(1, Finding("code", "m", NOWHERE, evidence=EVIDENCE[0]))))
    raw["finding"]["evidence"]["kind"] = "guess"
    with pytest.raises(ProtocolError, match="there is no kind 'guess'"):
        decode(json.dumps(raw))


def test_a_place_was_traced_once_or_not_at_all() -> None:
    first, second = (Range(Position(0, at), Position(0, at + 1)) for at in range(2))
    covered = Coverage.from_ranges((first, first), (first, second, second))
    assert covered.unpack_ranges() == ((first,), (second,))
