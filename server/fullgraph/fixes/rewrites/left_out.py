"""Rewrites that leave code out of the graph, because the code needs a value that varies.

A graph break there compiles the rest once. Dynamo otherwise recompiles the whole function for each
value, and runs it uncompiled after the recompile limit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compiled_function, guard_of
from fullgraph.fixes.rewrites.disable import free_name, insert_definitions
from fullgraph.fixes.rewrites.dynamic import dynamic_changes
from fullgraph.fixes.rewrites.names import (
    code_of,
    descendants,
    find_all,
    local_names,
    names_bound,
    variables_in,
)
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Change, Replacing, Site, Text, Unparsable
from fullgraph_engine.protocol.evidence import RecompileEvidence

SOURCE = re.compile(r"[LG]\['(?P<root>\w+)'\](?P<attributes>(?:\.\w+)*)")
_CODES = ("recompile/value", "recompile/structure", "recompile/identity")
_DECORATOR = "torch.compiler.disable"
_GIVES_UP = "The graph breaks here; the code before and after the break is compiled only once."
_MOST_LEVELS = 3
"""Maximum number of expressions around a mention of the value to try."""
_Part = cst.BaseExpression | cst.BaseSmallStatement


def left_out_of_graph(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that move code which reads a varying Python value, or which changes a
    container of varying length, to a function that Dynamo does not trace.
    """
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or guard is None or evidence.detail:
        return
    found = SOURCE.search(guard.source)
    function = compiled_function(syntax, evidence.function, site.finding.target)
    if site.finding.code not in _CODES or found is None or function is None:
        return
    path = [found["root"], *found["attributes"].split(".")[1:]]
    for length in range(len(path), 0, -1):
        words = ".".join(path[:length])
        if words == "self":
            continue
        mentions = _find_mentions(function, words)
        groups = [[one] for one in mentions] if len(mentions) > 1 else []
        for level in range(_MOST_LEVELS):
            for group in [mentions, *groups]:
                yield from _leave_out(syntax, function, group, level)


def _find_mentions(function: cst.FunctionDef, words: str) -> list[cst.BaseExpression]:
    """Return the expressions in a function that read ``words``, a variable or attribute; also
    reads of a variable that only has its value."""
    nodes = [one for one in descendants(function.body) if isinstance(one, cst.BaseExpression)]
    found = [one for one in nodes if isinstance(one, (cst.Name, cst.Attribute))]
    copies = {
        small.targets[0].target.value
        for small in find_all(function.body, cst.Assign)
        if code_of(small.value) == words
        if isinstance(small.targets[0].target, cst.Name)
    }
    return [one for one in found if code_of(one) in {words, *copies}]


def _leave_out(
    syntax: Syntax,
    function: cst.FunctionDef,
    mentions: Sequence[cst.BaseExpression],
    level: int,
) -> Iterator[Candidate]:
    """Yield the rewrite that leaves out the code around each of ``mentions``, and the same with
    ``dynamic=True``.

    ``level`` is the number of smaller expressions around a mention that stay in the graph.
    """
    parts: list[_Part] = []
    for mention in mentions:
        around = list(_parts_around(syntax, mention))
        if around and all(one is not around[min(level, len(around) - 1)] for one in parts):
            parts.append(around[min(level, len(around) - 1)])
    inside = {id(node) for part in parts for node in descendants(part) if node is not part}
    parts = [part for part in parts if id(part) not in inside]
    moved = [_move(syntax, function, part, mentions) for part in parts]
    made = _replace_parts(syntax, parts, [one for one in moved if one is not None])
    if made is None or None in moved:
        return
    text, names = made
    code = syntax.site.one_line(parts[0])
    short = code if len(code) <= 40 else f"{code[:37]}..."
    candidate = Candidate(
        "left-out-of-graph",
        f"Keep `{short}` out of the graph",
        text,
        gives_up=_GIVES_UP,
        left_out=tuple(names),
    )
    yield from comparing_dynamic(syntax.site, candidate)


def comparing_dynamic(site: Site, candidate: Candidate) -> Iterator[Candidate]:
    """Yield a candidate for the finding at ``site``, and the same with ``dynamic=True``."""
    yield candidate
    try:
        changed = Site(Text(candidate.text), site.finding)
    except Unparsable:
        return
    evidence = site.finding.evidence
    assert isinstance(evidence, RecompileEvidence)
    changes = dynamic_changes(Syntax(changed), evidence.function)
    if changes:
        words = f"Compile `{evidence.function}` with `dynamic=True`"
        yield candidate.then(Candidate("dynamic", words, changed.replaced(changes)))


def _parts_around(syntax: Syntax, mention: cst.BaseExpression) -> Iterator[_Part]:
    """Yield the calls, elements and changes of containers around an expression, from the smallest
    to the largest of its statement."""
    for node in syntax.text.ancestors(mention):
        if isinstance(node, (cst.Lambda, cst.FunctionDef, cst.BaseCompoundStatement)):
            return
        if isinstance(node, (cst.Assign, cst.AugAssign, cst.Expr)):
            if not isinstance(node, cst.Expr):
                target = node.target if isinstance(node, cst.AugAssign) else node.targets[0].target
                if isinstance(target, (cst.Subscript, cst.Attribute)):
                    yield node
            return
        is_target = isinstance(syntax.text.parent(node), cst.AssignTarget)
        is_part = isinstance(node, (cst.Call, cst.Subscript, cst.ListComp, cst.SetComp))
        if is_part and not is_target and not _inside_comprehension(syntax, node):
            assert isinstance(node, cst.BaseExpression)
            yield node


def _inside_comprehension(syntax: Syntax, node: cst.CSTNode) -> bool:
    comprehension = (cst.BaseComp, cst.CompFor)
    around = syntax.text.around(node, (*comprehension, cst.BaseStatement))
    return isinstance(around, comprehension)


@dataclass(frozen=True)
class _Moved:
    """The body of a new function, its parameters with their arguments, and whether the body is a
    statement."""

    body: str
    parameters: dict[str, str]
    is_statement: bool


def _move(
    syntax: Syntax,
    function: cst.FunctionDef,
    part: _Part,
    mentions: Sequence[cst.BaseExpression],
) -> _Moved | None:
    """Return the code of a function that does the work of ``part``; None if it cannot be moved.

    Calls and arithmetic in its arguments stay in the graph: their results become parameters.
    """
    unmovable = (cst.Await, cst.Yield, cst.NamedExpr, cst.StarredElement)
    inner = list(descendants(part))
    if any(isinstance(one, unmovable) or code_of(one) == "super" for one in inner):
        return None
    reading = {id(one) for one in mentions}
    kept = list(_kept_arguments(part, reading))
    names = [f"value{number or ''}" for number, _ in enumerate(kept)]
    replaced: list[tuple[cst.CSTNode, Change]] = [
        (old, cst.Name(name)) for old, name in zip(kept, names, strict=True)
    ]
    changed = part.visit(Replacing(replaced))
    assert isinstance(changed, cst.CSTNode)
    parameters = {name: code_of(old) for old, name in zip(kept, names, strict=True)}
    local = variables_around(syntax, function)
    own = set(names_bound(changed)) if isinstance(changed, cst.BaseComp) else set()
    for node in descendants(changed):
        if isinstance(node, cst.CompFor):
            own |= {one.value for one in find_all(node.target, cst.Name)}
    read = dict.fromkeys(variables_in(changed))
    for name in read:
        if name in parameters and name in local:
            return None
        if name in local and name not in own and name not in parameters:
            parameters[name] = name
    return _Moved(code_of(changed), parameters, isinstance(part, cst.BaseSmallStatement))


def _kept_arguments(part: _Part, reading: set[int]) -> Iterator[cst.BaseExpression]:
    """Yield the arguments of a moved call, or the assigned value, that compute something which
    does not need the varying value."""
    given: list[cst.BaseExpression] = []
    if isinstance(part, cst.Call):
        given = [one.value for one in part.args if not one.star]
    elif isinstance(part, (cst.Assign, cst.AugAssign)):
        yield part.value
    for one in given:
        inner = list(descendants(one))
        computes = any(isinstance(node, (cst.Call, cst.BinaryOperation)) for node in inner)
        if computes and not any(id(node) in reading for node in inner):
            yield one


def variables_around(syntax: Syntax, function: cst.FunctionDef) -> set[str]:
    """Return the variables of a function and of the functions around it."""
    around = (function, *syntax.text.ancestors(function))
    found = local_names(*(one for one in around if isinstance(one, cst.FunctionDef)))
    return {name for name in found if name.isidentifier()}


def _replace_parts(
    syntax: Syntax, parts: Sequence[_Part], moved: Sequence[_Moved]
) -> tuple[str, list[str]] | None:
    """Return the text in which disabled functions do the work of ``parts``, and
    the names of these functions."""
    site = syntax.site
    tops = {syntax.text.top_level(part) for part in parts}
    if len(tops) != 1 or len(parts) != len(moved):
        return None
    (top,) = tops
    names: dict[tuple[str, tuple[str, ...]], str] = {}
    changes: list[tuple[cst.CSTNode, Change]] = []
    definitions: list[str] = []
    for part, one in zip(parts, moved, strict=True):
        key = one.body, tuple(one.parameters)
        if key not in names:
            called = part if isinstance(part, cst.BaseExpression) else cst.Name("value")
            name = free_name(site, called, "_uncompiled_")
            while name in names.values():
                name += "_"
            names[key] = name
            body = one.body if one.is_statement else f"return {one.body}"
            head = f"def {name}({', '.join(one.parameters)}):"
            definitions.append(f"@{syntax.spelled(_DECORATOR)}\n{head}\n    {body}\n")
        call = syntax.expression(f"{names[key]}({', '.join(one.parameters.values())})")
        changes.append((part, cst.Expr(call) if one.is_statement else call))
    code = "".join(definitions)
    text = insert_definitions(syntax, top, code, changes, blank_first=True)
    return text, list(names.values())
