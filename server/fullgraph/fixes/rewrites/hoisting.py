"""Rewrites that compile a function once, instead of in each iteration of a loop or in each call.

Each ``torch.compile`` with a new backend object starts without compiled code.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compile_expressions
from fullgraph.fixes.rewrites.disable import BLANK, free_name
from fullgraph.fixes.rewrites.names import (
    code_of,
    local_names,
    names_bound,
    names_read,
)
from fullgraph.fixes.rewrites.placing import insert_before
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Replacing, Site
from fullgraph_engine.protocol.evidence import RecompileEvidence

_ANOTHER_BACKEND = "BACKEND_MATCH"


def compiled_once(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that move ``torch.compile`` out of a loop, or out of a function to the
    module.

    The finding is that the function was recompiled for another backend object.
    """
    evidence, syntax = site.finding.evidence, Syntax(site)
    if not isinstance(evidence, RecompileEvidence):
        return
    if not any(_ANOTHER_BACKEND in reason for reason in evidence.reasons):
        return
    for call in compile_expressions(syntax, evidence.function):
        if isinstance(call, cst.Call):
            yield from _out_of_loops(syntax, call)
            yield from _to_module(syntax, call)
            yield from _backend_to_module(syntax, call)


def _backend_to_module(syntax: Syntax, call: cst.Call) -> Iterator[Candidate]:
    """Yield a rewrite that makes the backend of a compilation once, at the level of the module.

    It is for a function that compiles what it is called with.
    """
    backends = [one.value for one in call.args if one.keyword and one.keyword.value == "backend"]
    functions = [one for one in syntax.text.ancestors(call) if isinstance(one, cst.FunctionDef)]
    top = syntax.text.top_level(call)
    if not functions or len(backends) != 1 or not isinstance(backends[0], (cst.Call, cst.Lambda)):
        return
    read = set(names_read(backends[0])) - set(names_bound(backends[0]))
    if read & local_names(*functions) or not isinstance(top, (cst.FunctionDef, cst.ClassDef)):
        return
    name = free_name(syntax.site, cst.Name("backend"), "_made_")
    line = cst.SimpleStatementLine(
        [cst.Assign([cst.AssignTarget(cst.Name(name))], backends[0])],
        leading_lines=top.leading_lines,
    )
    below = top.visit(Replacing([(backends[0], cst.Name(name))]))
    assert isinstance(below, (cst.FunctionDef, cst.ClassDef))
    below = below.with_changes(leading_lines=BLANK)
    yield Candidate(
        "backend-once",
        f"Make the backend `{code_of(backends[0])}` once",
        syntax.site.replaced([(top, cst.FlattenSentinel([line, below]))]),
        gives_up="The backend is made when the file is imported.",
        loses=("state",),
    )


def _out_of_loops(syntax: Syntax, call: cst.Call) -> Iterator[Candidate]:
    """Yield a rewrite that moves ``step = torch.compile(f)`` before the outermost loop that does
    not change what it reads."""
    assign = syntax.text.parent(call)
    line = syntax.text.parent(assign) if isinstance(assign, cst.Assign) else None
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return
    read, outermost = _free_names(call), None
    for around in syntax.text.ancestors(line):
        if isinstance(around, (cst.FunctionDef, cst.Lambda, cst.ClassDef)):
            break
        if isinstance(around, (cst.For, cst.While)):
            bound = set(names_bound(around.body))
            bound |= set(names_read(around.target)) if isinstance(around, cst.For) else set()
            if read & bound:
                break
            outermost = around
    if outermost is None:
        return
    changes = insert_before(syntax.site, outermost, [cst.ensure_type(assign, cst.Assign)])
    if changes is None:
        return
    (_, above), *_ = changes
    assert isinstance(above, cst.FlattenSentinel)
    first, *rest = list(above)[:-1]
    # Move the comments of the statement together with it.
    comments = [*first.leading_lines, *line.leading_lines]
    new = [first.with_changes(leading_lines=comments), *rest]
    yield Candidate(
        "compiled-once",
        f"Move `{code_of(call)}` out of the loop",
        _move_line(syntax, outermost, line, new),
        gives_up="`torch.compile` is called even if the loop does not run.",
    )


def _free_names(call: cst.Call) -> set[str]:
    """Return the names that a call reads, without the parameters of lambdas in it."""
    return set(names_read(call)) - set(names_bound(call))


def _move_line(
    syntax: Syntax,
    loop: cst.BaseCompoundStatement,
    line: cst.SimpleStatementLine,
    above: list[cst.CSTNode],
) -> str:
    """Return the text with ``line`` removed from a loop, and the statements ``above`` before the
    loop."""
    changed = loop.visit(Replacing([(line, cst.RemoveFromParent())]))
    assert isinstance(changed, cst.BaseCompoundStatement)
    below = changed.with_changes(leading_lines=())
    return syntax.site.replaced([(loop, cst.FlattenSentinel([*above, below]))])


def _to_module(syntax: Syntax, call: cst.Call) -> Iterator[Candidate]:
    """Yield a rewrite that compiles at the level of the module, before the function that compiles
    in each call."""
    functions = [
        one for one in syntax.text.ancestors(call) if isinstance(one, (cst.FunctionDef, cst.Lambda))
    ]
    if not functions or not isinstance(functions[-1], cst.FunctionDef):
        return
    outer = functions[-1]
    if syntax.text.parent(outer) is not syntax.module:
        return
    if _free_names(call) & local_names(outer) or not call.args:
        return
    named = code_of(call.args[0].value).rpartition(".")[2]
    name = f"_compiled_{named}" if named.isidentifier() else "_compiled"
    line = cst.SimpleStatementLine(
        [cst.Assign([cst.AssignTarget(cst.Name(name))], call)], leading_lines=outer.leading_lines
    )
    lines = [cst.EmptyLine(indent=False), cst.EmptyLine(indent=False)]
    below = outer.with_changes(leading_lines=lines).deep_replace(call, cst.Name(name))
    yield Candidate(
        "compiled-once",
        f"Compile `{named}` once, at the top level of the module",
        syntax.site.replaced([(outer, cst.FlattenSentinel([line, below]))]),
        gives_up="`torch.compile` is called when the file is imported.",
    )
