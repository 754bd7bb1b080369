"""``fullgraph explain``: the documentation of a code in the terminal."""

from __future__ import annotations

import pytest

from fullgraph.cli.explain import UnknownCode, explain_code
from fullgraph.domain.codes import CODES, documentation_url


@pytest.mark.parametrize("code", CODES, ids=lambda code: code.name)
def test_each_code_is_explained(code: object) -> None:
    (known,) = [one for one in CODES if one is code]
    text = explain_code(known.name)
    assert text.startswith(f"{known.name}: {known.title}\n")
    assert " ".join(known.help.split()) in " ".join(text.split())
    assert text.endswith(documentation_url(known.name))


@pytest.mark.parametrize("selector", ["GB0170", "graph-break/GB0170"])
def test_an_id_leads_to_the_page_of_pytorch(selector: str) -> None:
    text = explain_code(selector)
    assert text.startswith("graph-break/GB0170: Dynamo ended a graph here\n")
    assert text.endswith("/gb0170.html")


def test_a_family_lists_its_codes() -> None:
    below = [code for code in CODES if code.name.startswith("recompile/")]
    text = explain_code("recompile")
    assert all(code.name in text and code.title in text for code in below)


def test_the_last_part_of_a_code_is_enough() -> None:
    assert explain_code("not-pt2-compliant").startswith("op/not-pt2-compliant: ")


def test_a_former_name_is_explained_under_the_new_one() -> None:
    assert explain_code("guard/specialised-dimension").startswith("guard/specialized-dimension: ")


def test_an_unknown_code_has_similar_ones() -> None:
    with pytest.raises(
        UnknownCode, match=r"no finding code `op/not-compliant`.*op/not-pt2-compliant"
    ):
        explain_code("op/not-compliant")
