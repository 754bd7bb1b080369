"""Select the findings that some rewrite may fix, without importing modules that parse or rewrite
code."""

from __future__ import annotations

from fullgraph.domain import codes
from fullgraph_engine.protocol import Finding

_FIXABLE = (
    "graph-break",
    "frame-skipped",
    "guard/specialized-dimension",
    "guard/limited-dimension",
    "guard/mutated",
    "recompile",
    "trace/compile-error",
    "export",
    "backend/repeated-block",
)
_LEFT_ALONE = ("frame-skipped/no-ops", "export/dynamic-shapes", "recompile/limit")


def fixable(finding: Finding) -> bool:
    """Whether the catalogue of rewrites has rewrites for findings with this finding's code."""
    if any(codes.matches_selector(finding.code, code) for code in _LEFT_ALONE):
        return False
    return any(codes.matches_selector(finding.code, code) for code in _FIXABLE)
