"""The table of finding codes and its page."""

from pathlib import Path

import pytest

from fullgraph.domain import codes
from fullgraph.domain.codes import Severity


@pytest.mark.parametrize(
    ("code", "row", "severity"),
    [
        ("graph-break/GB0059", "graph-break", "warning"),
        ("graph-break/some-slug", "graph-break", "warning"),
        ("frame-skipped/with-block", "frame-skipped", "warning"),
        ("op/not-pt2-compliant", "op/not-pt2-compliant", "warning"),
        ("guard/specialized-dimension", "guard/specialized-dimension", "warning"),
        ("guard/type-match", "guard", "off"),
        ("recompile/unheard-of", "recompile", "information"),
        ("trace/import-error", "trace/import-error", "error"),
        ("trace/sandboxed", "trace/sandboxed", "information"),
        ("probe/missing", "probe/missing", "hint"),
        ("probe/invalid", "probe/invalid", "error"),
        ("graph-breaks", "", "warning"),
    ],
)
def test_the_longest_row_that_fits_stands_for_a_code(code: str, row: str, severity: str) -> None:
    assert codes.find_row(code).name == row
    assert codes.effective_severity(code, {}) == Severity(severity)


def test_graph_breaks_with_an_id_link_to_pytorch_and_the_rest_to_our_page() -> None:
    site = "https://meta-pytorch.github.io/compile-graph-break-site/gb"
    assert codes.documentation_url("graph-break/GB0059") == f"{site}/gb0059.html"
    assert codes.documentation_url("graph-break/a-slug").endswith("codes.md#graph-break")
    assert codes.documentation_url("op/not-pt2-compliant").endswith("codes.md#opnot-pt2-compliant")
    assert codes.documentation_url("nonsense") == ""


@pytest.mark.parametrize("name", ["graph-break/GB0059", "GB0059"])
def test_the_most_specific_choice_decides_the_severity(name: str) -> None:
    chosen = {"graph-break": Severity.ERROR, name: Severity.OFF}
    assert codes.effective_severity("graph-break/GB0059", chosen) == Severity.OFF
    assert codes.effective_severity("graph-break/GB0060", chosen) == Severity.ERROR
    assert codes.effective_severity("graph-breakage", chosen) == Severity.WARNING


def test_a_code_is_more_specific_than_its_id_and_that_than_a_family() -> None:
    names = ("graph-break/GB0059", "GB0059", "graph-break", "op", "")
    ranks = [codes.specificity("graph-break/GB0059", name) for name in names]
    assert ranks == [3, 2, 1, 0, 0]


@pytest.mark.parametrize(
    ("select", "ignore", "shown"),
    [
        ((), (), True),
        (("graph-break",), (), True),
        (("op",), (), False),
        ((), ("graph-break",), False),
        ((), ("GB0059",), False),
        (("graph-break/GB0059",), ("graph-break",), True),
        (("graph-break",), ("graph-break/GB0059",), False),
        (("graph-break",), ("graph-break",), False),
        (("GB0059",), ("graph-break",), True),
        (("graph-break",), ("GB0059",), False),
        (("GB0059",), ("graph-break/GB0059",), False),
    ],
)
def test_the_more_specific_of_select_and_ignore_decides(
    select: tuple[str, ...], ignore: tuple[str, ...], shown: bool
) -> None:
    assert codes.is_selected("graph-break/GB0059", select, ignore) is shown


@pytest.mark.parametrize("former", ["guard/specialised-dimension", "specialised-dimension"])
def test_the_former_name_of_a_code_still_selects_it(former: str) -> None:
    code = "guard/specialized-dimension"
    assert codes.is_known_selector(former)
    assert codes.matches_selector(code, former)
    assert codes.is_selected(code, (former,), ()) and not codes.is_selected(code, (), (former,))
    assert codes.may_be_selected(code, (former,), (), {})
    assert codes.effective_severity(code, {former: Severity.ERROR}) == Severity.ERROR
    assert codes.specificity(code, former) == codes.specificity(code, codes.current_name(former))
    assert not codes.matches_selector("guard/limited-dimension", former)


def test_every_row_is_explained_and_known_as_a_selector() -> None:
    for code in codes.CODES:
        assert code.title and code.help.endswith("."), code.name
        assert codes.is_known_selector(code.name)
    assert codes.is_known_selector("GB0059")
    assert codes.is_known_selector("specialized-dimension")
    assert not codes.is_known_selector("trace/nonsense")


def test_no_two_rows_share_a_heading() -> None:
    anchors = [code.anchor for code in codes.CODES]
    assert len(set(anchors)) == len(anchors)


def test_the_page_is_as_the_table_says() -> None:
    written = (Path(__file__).parents[2] / "docs" / "codes.md").read_text(encoding="utf-8")
    assert written == codes.codes_page(), "run `python -m fullgraph.domain.codes > docs/codes.md`"
