"""A rewrite that compiles a module class once, although a graph contains many of its objects."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import BackendEvidence

_DECORATOR = "torch.compiler.nested_compile_region"


def compile_block_once(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that makes ``forward`` of a repeated module class a nested region, if the
    class is defined in this file."""
    evidence = site.finding.evidence
    if not isinstance(evidence, BackendEvidence) or not evidence.class_name:
        return
    forward = _find_forward(site.module, evidence.class_name.split("."))
    if forward is None:
        return
    syntax = Syntax(site)
    decorator = syntax.expression(syntax.spelled(_DECORATOR))
    changed = forward.with_changes(decorators=[cst.Decorator(decorator), *forward.decorators])
    yield Candidate(
        "nested-region",
        f"Compile `{evidence.class_name}.forward` once, and call it for each object",
        site.replaced([(forward, changed)], imports=syntax.imports_for(code_of(decorator))),
        gives_up="Operations of different objects are not fused with each other.",
        is_same_eagerly=True,
        compiles_faster=True,
    )


def _find_forward(module: cst.Module, names: list[str]) -> cst.FunctionDef | None:
    """Return the method ``forward`` of the class with these qualified names; None without one."""
    body: object = module
    for name in (*names, "forward"):
        inner = getattr(body, "body", ())
        statements = getattr(inner, "body", inner)
        kind = cst.FunctionDef if name == "forward" else cst.ClassDef
        found = [one for one in statements if isinstance(one, kind) and one.name.value == name]
        if len(found) != 1:
            return None
        body = found[0]
    return body if isinstance(body, cst.FunctionDef) else None
