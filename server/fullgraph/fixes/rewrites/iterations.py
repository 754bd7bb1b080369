"""Rewrites that compile each iteration of a loop, because the number of iterations varies.

Dynamo unrolls a loop, so that each number of iterations recompiles the function around it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compiled_function, guard_of
from fullgraph.fixes.rewrites.disable import free_name, insert_definitions
from fullgraph.fixes.rewrites.if_conversion import statements_of
from fullgraph.fixes.rewrites.left_out import (
    SOURCE,
    comparing_dynamic,
    variables_around,
)
from fullgraph.fixes.rewrites.names import (
    code_of,
    descendants,
    find_all,
    names_bound,
    names_read,
    names_read_first,
    variables_in,
)
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Change, Replacing, Site
from fullgraph_engine.protocol.evidence import RecompileEvidence

_CODES = ("recompile/size", "recompile/value", "recompile/structure")
_DISABLED = "torch.compiler.disable"
_GIVES_UP = (
    "The graph breaks at the loop: the body is compiled, and Python runs it for each iteration."
)


def compiled_iterations(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that move a loop of a compiled function to a function that Dynamo does not
    trace; this function calls a compiled one for each iteration."""
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or guard is None:
        return
    found = SOURCE.search(guard.source)
    function = compiled_function(syntax, evidence.function, site.finding.target)
    if site.finding.code not in _CODES or found is None or function is None:
        return
    for loop in statements_of(function.body):
        if not isinstance(loop, cst.For) or found["root"] not in variables_in(loop.iter):
            continue
        unmovable = (cst.Return, cst.Yield, cst.Await)
        if any(isinstance(one, unmovable) for one in descendants(loop)):
            continue
        for iteration in (True, False):
            made = _move_loop(syntax, function, loop, iteration)
            if made is not None:
                text, name = made
                yield from comparing_dynamic(
                    site,
                    Candidate(
                        "compiled-iterations",
                        "Compile each iteration of the loop, and not the whole loop",
                        text,
                        gives_up=_GIVES_UP,
                        left_out=(name,),
                    ),
                )


def _move_loop(
    syntax: Syntax, function: cst.FunctionDef, loop: cst.For, iteration: bool
) -> tuple[str, str] | None:
    """Return the text with the loop in a function of its own, and the name of this function.

    With ``iteration``, the assignments of the loop's body become a function as well, which Dynamo
    compiles. Without, Dynamo compiles the functions that the body calls.
    """
    site, local = syntax.site, variables_around(syntax, function)
    body: list[cst.BaseStatement] = [*statements_of(loop.body)]
    definitions: list[str] = []
    if iteration:
        split = _split_iteration(syntax, loop, body, local)
        if split is None:
            return None
        body, definitions = split
    lines = [*statements_of(function.body)]
    at = lines.index(loop)
    before, after = names_bound(*lines[:at]).keys(), lines[at + 1 :]
    kept: list[cst.BaseStatement] = [
        loop.with_changes(body=cst.IndentedBlock(body), leading_lines=())
    ]
    # A list has as many elements as the loop has iterations, so code that reads it moves as well.
    moves_rest = bool(_containers(loop) & before & set(names_read(*after)))
    if moves_rest:
        kept += after
    bound = [name for name in names_bound(loop) if name.isidentifier()]
    returned = [name for name in bound if name in names_read(*after) and not moves_rest]
    read = dict.fromkeys(name for one in kept for name in variables_in(one))
    given = [name for name in read if name in local]
    known = before | names_bound(function.params).keys() | (local - set(names_bound(function.body)))
    given = [name for name in given if name in known]
    name = free_name(site, cst.Name("loop"), "_run_")
    call = f"{name}({', '.join(given)})"
    ends = f"    return {', '.join(returned)}\n" if returned else ""
    code = "".join(map(code_of, kept)).strip("\n")
    loop_code = "".join(f"    {line}".rstrip() + "\n" for line in code.split("\n"))
    decorator = f"@{syntax.spelled(_DISABLED)}(recursive=False)\n"
    definitions.append(f"{decorator}def {name}({', '.join(given)}):\n{loop_code}{ends}")
    instead = f"{', '.join(returned)} = {call}" if returned else call
    if moves_rest:
        instead = f"return {call}"
    line = syntax.line(instead).with_changes(leading_lines=loop.leading_lines)
    gone: list[tuple[cst.CSTNode, Change]] = [(one, cst.RemoveFromParent()) for one in after]
    changes: list[tuple[cst.CSTNode, Change]] = [(loop, line), *(gone if moves_rest else [])]
    top = syntax.text.top_level(loop)
    return insert_definitions(syntax, top, "".join(definitions), changes, blank_first=True), name


def _containers(loop: cst.For) -> set[str]:
    """Return the variables whose methods a loop calls without using the result, such as lists."""
    found = set()
    for one in descendants(loop.body):
        call = one.value if isinstance(one, cst.Expr) else None
        if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute):
            found |= {code_of(call.func.value)}
    return found


def _split_iteration(
    syntax: Syntax, loop: cst.For, body: Sequence[cst.BaseStatement], local: set[str]
) -> tuple[list[cst.BaseStatement], list[str]] | None:
    """Return the body of a loop in which functions do the assignments, and their definitions; None
    if the body does not assign to variables.

    Elements with the variable of the loop as index are read outside of the functions.
    """
    new: list[cst.BaseStatement] = []
    definitions: list[str] = []
    for moved, group in itertools.groupby(body, _only_assigns):
        lines = list(group)
        if not moved:
            new += lines
            continue
        counted = set(names_read(loop.target)) if isinstance(loop.iter, cst.Call) else set()
        elements = [
            one
            for line in lines
            for one in find_all(line, cst.Subscript)
            if counted & set(variables_in(one))
        ]
        values = list(dict.fromkeys(code_of(one) for one in elements))
        names = {code: f"value{number or ''}" for number, code in enumerate(values)}
        if local & set(names.values()):
            return None
        changes: list[tuple[cst.CSTNode, Change]] = [
            (one, cst.Name(names[code_of(one)])) for one in elements
        ]
        replaced: list[cst.CSTNode] = []
        for one in lines:
            changed = one.visit(Replacing(changes))
            assert isinstance(changed, cst.CSTNode)
            replaced.append(changed)
        code = "".join(f"    {code_of(one).strip()}\n" for one in replaced)
        bound = [one for one in names_bound(*lines) if one.isidentifier()]
        inside = {name for one in replaced for name in variables_in(one)}
        early = names_read_first(*lines)
        given = {one: one for one in sorted(inside & local) if one not in bound or one in early}
        given |= {name: code for code, name in names.items()}
        name = free_name(syntax.site, cst.Name("iteration"), "_run_")
        name += str(len(definitions) + 1) if definitions else ""
        ends = f"    return {', '.join(bound)}\n"
        definitions.append(f"def {name}({', '.join(given)}):\n{code}{ends}")
        call = f"{', '.join(bound)} = {name}({', '.join(given.values())})"
        new.append(cst.parse_statement(call))
    return (new, definitions) if definitions else None


def _only_assigns(line: cst.BaseStatement) -> bool:
    """Whether a line only assigns to variables."""
    if not isinstance(line, cst.SimpleStatementLine):
        return False
    targets = [
        one.target if isinstance(one, cst.AugAssign) else one.targets[0].target
        for one in line.body
        if isinstance(one, (cst.Assign, cst.AugAssign))
    ]
    return len(targets) == len(line.body) and all(isinstance(one, cst.Name) for one in targets)
