"""Formulas of docstrings in plain characters."""

# ruff: noqa: RUF001

from __future__ import annotations

import pytest

from fullgraph_engine.operators import documentation
from fullgraph_engine.operators.formulas import plain_formula


@pytest.mark.parametrize(
    ("latex", "plain"),
    [
        (
            r"\left\lceil \frac{\text{end} - \text{start}}{\text{step}} \right\rceil",
            "ceil((end - start) / step)",
        ),
        (r"(N, C_{in}, H_{\text{out}})", "(N, C_in, H_out)"),
        (r"\frac{1}{\sigma_i}", "1 / σ_i"),
        (r"\text{input} \leq \text{other}", "input ≤ other"),
        (r"\mathbb{R}^{n \times m}", "ℝ^(n × m)"),
        (r"(\text{window\_length},)", "(window_length,)"),
        (r"\\mathcal{U}(-\\sqrt{k}, \\sqrt{k})", "U(-sqrt(k), sqrt(k))"),
        (r"W_{hn} h_{(t-1)}", "W_hn h_(t-1)"),
        ("x + 1", "x + 1"),
        (r"\begin{cases} 1 & x \\ 0 & y \end{cases}", ""),
        (r"\unheardof{x}", ""),
        (r"\frac{a", ""),
        ("a}b", ""),
    ],
)
def test_formulas(latex: str, plain: str) -> None:
    assert plain_formula(latex) == plain


def test_a_summary_has_no_commands() -> None:
    doc = r"Returns a tensor of size :math:`\left\lceil \frac{n}{2} \right\rceil` with values."
    summary = documentation.summarize_docstring(doc)
    assert summary == "Returns a tensor of size `ceil(n / 2)` with values."
    doc = r"Solves :math:`\begin{cases} x \end{cases}` for :attr:`x`."
    assert documentation.summarize_docstring(doc) == "Solves … for `x`."
