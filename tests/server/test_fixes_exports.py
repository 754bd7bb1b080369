"""What is tried where ``torch.export`` cannot decide, and what becomes of inputs it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import pytest
from tests.server.test_fixes import Engine, break_at, request_of

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.exports import add_checks
from fullgraph.fixes.site import Site, Text
from fullgraph.fixes.tracing import Traced, judge_rewrite
from fullgraph.fixes.verification import Verifier
from fullgraph_engine.protocol import (
    Compare,
    Compared,
    ComparedCase,
    Finding,
    Position,
    Range,
    TargetReport,
)
from fullgraph_engine.protocol.behavior import BehaviorOutcome
from fullgraph_engine.protocol.evidence import ExportEvidence

IMPORTS = "import torch\n"


def site_of(marked: str, evidence: ExportEvidence, imports: str = IMPORTS) -> Site:
    """The site of a finding at what is between « and »."""
    marked = imports + marked
    start, end = marked.index("«"), marked.index("»") - 1
    text = marked.replace("«", "").replace("»", "")
    positions = TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(end))
    return Site(Text(text), Finding("export/data-dependent", "", range_, evidence=evidence))


def tried(marked: str, check: str, imports: str = IMPORTS) -> list[str]:
    """The texts that are tried."""
    evidence = ExportEvidence("data-dependent", "u0 > 2", check)
    found = list(add_checks(site_of(marked, evidence, imports)))
    assert all(one.restricts and not one.preserves and one.gives_up for one in found)
    return [one.text.removeprefix(imports) for one in found]


@pytest.mark.parametrize(
    ("source", "check", "expected"),
    [
        pytest.param(
            "def f(z):\n    # none left\n    if «z.shape[0] == 0»:  # why\n        z = z + 1\n",
            "z.shape[0] != 0",
            "def f(z):\n    torch._check(z.shape[0] != 0)\n    # none left\n"
            "    if z.shape[0] == 0:  # why\n        z = z + 1\n",
            id="comments stay with the statement",
        ),
        pytest.param(
            "def f(k):\n    a = 1\n\n    return (\n        «g(k)»\n    )\n",
            "k > 2",
            "def f(k):\n    a = 1\n\n    torch._check(k > 2)\n    return (\n        g(k)\n    )\n",
            id="several lines, below an empty one",
        ),
        pytest.param(
            "class M:\n\tdef f(self, k):\n\t\twhile «k > 2»:\n\t\t\tk = k - 1\n",
            "k <= 2",
            "class M:\n\tdef f(self, k):\n\t\ttorch._check(k <= 2)\n\t\twhile k > 2:\n"
            "\t\t\tk = k - 1\n",
            id="tabs",
        ),
        pytest.param(
            "def f(n):\n    k = n.item(); y = «g(k)»; return y  # c\n",
            "k > 2",
            "def f(n):\n    k = n.item(); torch._check(k > 2); y = g(k); return y  # c\n",
            id="several on a line",
        ),
        pytest.param(
            "def f(k):\n    if True: return «g(k)»\n",
            "k > 2",
            "def f(k):\n    if True: torch._check(k > 2); return g(k)\n",
            id="one-line body",
        ),
        pytest.param(
            "def f(a, b):\n    return [«g(a, b, c)» for c in a]\n",
            "a == b",
            "def f(a, b):\n    torch._check(a == b)\n    return [g(a, b, c) for c in a]\n",
            id="two sizes that are equal, of the function",
        ),
    ],
)
def test_the_check_stands_before_the_statement(source: str, check: str, expected: str) -> None:
    assert tried(source, check) == [expected]


@pytest.mark.parametrize(
    ("imports", "call", "added"),
    [
        ("import math\n", "torch._check", "import torch\n\n"),
        ("import torch as th\n", "th._check", ""),
    ],
)
def test_torch_has_a_name(imports: str, call: str, added: str) -> None:
    (text,) = tried("def f(k):\n    return «g(k)»\n", "k > 2", imports)
    body = f"def f(k):\n    {call}(k > 2)\n    return g(k)\n"
    assert text == added + body


@pytest.mark.parametrize(
    ("source", "check"),
    [
        pytest.param("def f(k):\n    return «g(k)»\n", "", id="no check is known"),
        pytest.param("def f(k):\n    return «g(k)»\n", "4 * k == 12", id="the probe's own size"),
        pytest.param("def f(k):\n    return «g(k)»\n", "1 == k", id="one value"),
        pytest.param(
            "def f(k):\n    if a:\n        pass\n    elif «k > 2»:\n        pass\n",
            "k > 2",
            id="before an elif",
        ),
        pytest.param(
            "def f(z):\n    return [«g(k)» for k in z]\n", "k > 2", id="a loop's own name"
        ),
        pytest.param("def f(z):\n    return map(lambda k: «g(k)», z)\n", "k > 2", id="a lambda"),
    ],
)
def test_no_check_is_tried(source: str, check: str) -> None:
    assert tried(source, check) == []


def cases(*several: ComparedCase) -> Compared:
    same = all(one.same for one in several)
    aspects = tuple(dict.fromkeys(each for one in several for each in one.aspects))
    outcome: BehaviorOutcome = "same" if same else "differs"
    return Compared(0, outcome, True, several, "" if same else "It raises.", aspects=aspects)


FINE = ComparedCase("f32[4]")
ACCEPTED = ComparedCase("f32[8]", "random", same=False, aspects=("outcome",))
RAISING = ComparedCase("f32[8]", "random", outcome="raised", same=False, aspects=("outcome",))
OTHER = ComparedCase("f32[8]", "random", same=False, aspects=("result",))


@pytest.mark.parametrize(
    ("compared", "grades", "doubt"),
    [
        pytest.param(
            [FINE], ["unsafe"], "The code raises an error if `k > 2` is false.", id="same"
        ),
        pytest.param(
            [FINE, RAISING],
            ["unsafe"],
            "The code raises an error if `k > 2` is false.",
            id="raises both",
        ),
        pytest.param(
            [FINE, ACCEPTED],
            ["suggestion"],
            "Some inputs that were tried do not satisfy the check. It raises.",
            id="an input that the original accepts",
        ),
        pytest.param([ACCEPTED], [], "", id="the probe's own input"),
        pytest.param([FINE, OTHER], [], "", id="another result"),
    ],
)
def test_what_a_check_refuses(
    monkeypatch: pytest.MonkeyPatch, compared: Sequence[ComparedCase], grades: list[str], doubt: str
) -> None:
    def rewrite(site: Site) -> Iterator[Candidate]:
        yield Candidate(
            "check", "Check", "pass\n", gives_up="The code raises an error if `k > 2` is false.",
            restricts=True,
        )  # fmt: skip

    def compare(request: Compare) -> Compared:
        return cases(*compared)

    monkeypatch.setattr("fullgraph.fixes.catalogue.REWRITES", (rewrite,))
    verifier = Verifier(Engine(compare), request_of("break_ = 2\n"))
    search = asyncio.run(verifier.fixes(break_at(0, "break_ = 2"), ["f"]))
    assert [(one.grade, one.doubt) for one in search.fixes] == [(one, doubt) for one in grades]


def failing(line: int, words: str) -> Finding:
    return Finding("trace/eager-error", words, Range(Position(line, 0), Position(line, 1)))


@pytest.mark.parametrize(("after", "better"), [(1, True), (2, False)])
def test_a_module_that_fails_further_on_fails_no_more_than_before(after: int, better: bool) -> None:
    report = TargetReport("f", "function", Range(Position(0, 0), Position(0, 1)), "traced")
    text = "a\nexport(f)\nexport(g)\n"
    wanted = break_at(0, "a")
    before = Traced(text, (wanted, failing(1, "It fails (line 2)")), (report,))
    fails = tuple(failing(3 + number, f"It fails ({number})") for number in range(after))
    changed = Traced(f"check\nb\n{text[2:]}", fails, (report,))
    assert judge_rewrite(before, changed, wanted).better is better
