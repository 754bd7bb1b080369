"""Rewrites that compile a module class once, although a graph contains many of its objects."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compile_expressions
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.syntax import Syntax, names_in
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
        f"Compile `{evidence.class_name}.forward` once for all objects",
        site.replaced([(forward, changed)], imports=syntax.imports_for(code_of(decorator))),
        gives_up="Operations of different objects are not fused with each other.",
        is_same_eagerly=True,
        compiles_faster=True,
    )


def compile_each_block(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that compile each object of a repeated module class instead of the whole
    model.

    Each rewrite changes one statement that compiles a model. Only a run of the program can verify
    the rewrites, so the finding must come from a run of a program.
    """
    evidence = site.finding.evidence
    if not isinstance(evidence, BackendEvidence) or not evidence.container:
        return
    syntax = Syntax(site)
    calls = compile_expressions(syntax, "forward") if site.finding.calls else ()
    used = names_in(site.module) if calls else set()
    variable = next((name for name in _LOOP_NAMES if name not in used), None)
    for call in calls:
        line = site.text.around(call, cst.SimpleStatementLine)
        if variable is None or line is None:
            continue
        changed = _compile_in_loop(syntax, line, call, evidence.container, variable)
        if changed is not None:
            yield Candidate(
                "compile-each-block",
                f"Compile each `{evidence.class_name}`, and not the whole model",
                site.replaced([(line, cst.FlattenSentinel(changed))]),
                gives_up="Code outside of these objects runs uncompiled.",
                is_same_eagerly=True,
                compiles_faster=True,
                uncompiles_target=True,
            )


def _compile_in_loop(
    syntax: Syntax,
    line: cst.SimpleStatementLine,
    call: cst.BaseExpression,
    container: str,
    variable: str,
) -> list[cst.BaseStatement] | None:
    """Return statements that compile the items of ``container``, an attribute of the model that
    ``call`` compiles. None if ``line`` is not ``name = torch.compile(model)`` or
    ``model.compile()``, which the statements replace.

    ``variable`` is the name for the variable of the loop.
    """
    small = line.body[0]
    if not isinstance(call, cst.Call) or len(line.body) != 1:
        return None
    if syntax.text.parent(call) is not small:
        return None
    before: list[cst.BaseStatement] = []
    if isinstance(small, cst.Expr) and isinstance(call.func, cst.Attribute):
        model, arguments = call.func.value, list(call.args)
    elif isinstance(small, cst.Assign) and len(small.targets) == 1 and call.args:
        model, arguments = small.targets[0].target, list(call.args[1:])
        if call.args[0].keyword is not None or call.args[0].star:
            return None
        if not call.args[0].value.deep_equals(model):
            assigned = small.with_changes(value=call.args[0].value)
            before.append(line.with_changes(body=[assigned]))
    else:
        return None
    if not isinstance(model, (cst.Name, cst.Attribute)):
        return None
    listed = syntax.expression(f"{code_of(model)}.{container}")
    compiled = cst.Call(cst.Attribute(cst.Name(variable), cst.Name("compile")), arguments)
    loop = cst.For(
        cst.Name(variable),
        listed,
        cst.IndentedBlock([cst.SimpleStatementLine([cst.Expr(compiled)])]),
        leading_lines=() if before else line.leading_lines,
    )
    return [*before, loop]


_LOOP_NAMES = ("block", "layer", "compiled_block", "compiled_layer", "_compiled_block")
"""Names for the variable of a new loop; the first that the file does not use is taken."""


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
