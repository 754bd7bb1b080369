"""Rewrites that give objects or calls of different kinds compiled code of their own.

Dynamo keeps the compiled versions of a function in one place for all objects and calls.
``torch.compile(..., isolate_recompiles=True)``, since torch 2.13, keeps its versions apart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import (
    CompiledCallSite,
    compile_expressions,
    compiled_calls,
    guard_of,
    with_option,
)
from fullgraph.fixes.rewrites.disable import BLANK
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.placing import insert_before
from fullgraph.fixes.rewrites.syntax import Syntax, dotted_name, free_variable
from fullgraph.fixes.site import Change, Replacing, Site
from fullgraph_engine.protocol.evidence import RecompileEvidence

_OPTION = "isolate_recompiles"
_OF_OBJECTS = ("recompile/structure", "recompile/identity", "recompile/type", "recompile/tensor")
_OF_CALLS = ("recompile/size", "recompile/type", "recompile/tensor", "recompile/mode")
_SOURCE = re.compile(r"^L\['(?P<name>\w+)'\](?P<path>(?:\.\w+|\[\d+\]|\['\w+'\])*)$")
_AT_LEAST_2 = re.compile(r"^`2 <= (?P<name>\w+)\.shape\[(?P<axis>\d+)\]")
_REGISTERED = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")
_REPEATING = (cst.For, cst.While, cst.FunctionDef, cst.Lambda, cst.CompFor, cst.BaseComp)
_MOST_CALLS = 4
"""Maximum number of places with calls; each but the first is tried with a second compilation."""
_Changes = list[tuple[cst.CSTNode, Change]]


def isolated_objects(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that compiles each of several objects on its own, because the objects differ
    in a value that does not change in one object."""
    evidence, syntax = site.finding.evidence, Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or site.finding.code not in _OF_OBJECTS:
        return
    compiling = compile_expressions(syntax, evidence.function)
    if len(compiling) < 2 and not any(_may_run_again(syntax, one) for one in compiling):
        return
    changes = [(one, with_option(one, _OPTION, "True")) for one in compiling]
    yield Candidate(
        "isolated-objects",
        f"Compile each object on its own, with `{_OPTION}=True`",
        site.replaced([(one, new) for one, new in changes if new is not None]),
        preserves=True,
        gives_up="Objects do not share compiled code: the function is compiled for each of them.",
    )


def _may_run_again(syntax: Syntax, compiling: cst.BaseExpression) -> bool:
    """Whether an expression that compiles may compile several objects."""
    around = list(syntax.text.ancestors(compiling))
    if isinstance(around[0], cst.Decorator):
        around = around[2:]
    return any(isinstance(one, _REPEATING) for one in around)


def isolated_calls(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that compile a function once more for one of several places that call it, such
    as the place that reads a prompt and the place that generates the next token."""
    evidence, syntax = site.finding.evidence, Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or site.finding.code not in _OF_CALLS:
        return
    calls = compiled_calls(syntax, evidence.function)
    for call in calls[1:_MOST_CALLS]:
        second = _compile_again(syntax, evidence.function, call.node)
        if second is not None:
            name, changes = second
            yield _candidate(
                syntax,
                f"Compile `{syntax.site.one_line(call.node)}` on its own",
                [*changes, (call.node.func, syntax.expression(name))],
            )


def isolated_kinds(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that compiles a function once more for calls of one kind, if Dynamo needs
    other code for it: a cache is still None, a flag is set, a size is 1.
    """
    evidence, syntax = site.finding.evidence, Syntax(site)
    condition = _condition(site)
    if not isinstance(evidence, RecompileEvidence) or condition is None:
        return
    function, words = evidence.function, ""
    changes: dict[int, tuple[cst.CSTNode, Change]] = {}
    for call in compiled_calls(syntax, function):
        second = _compile_again(syntax, function, call.node)
        changed = _choose(syntax, function, call, condition, second[0]) if second else None
        if second is not None and changed is not None:
            words, more = changed
            changes |= {id(one[0]): one for one in (*second[1], *more)}
    if changes:
        yield _candidate(syntax, f"Compile calls with `{words}` on their own", [*changes.values()])


def _candidate(syntax: Syntax, words: str, changes: _Changes) -> Candidate:
    return Candidate(
        "isolated-calls",
        words,
        syntax.site.replaced(changes),
        preserves=True,
        gives_up="The function is compiled twice from the start.",
    )


def _condition(site: Site) -> tuple[str, str] | None:
    """Return the parameter that the finding is about, and a test that differs between the two
    kinds of calls, with ``{}`` for the argument; None if the kinds are more than two."""
    evidence, guard = site.finding.evidence, guard_of(site.finding)
    if not isinstance(evidence, RecompileEvidence) or guard is None:
        return None
    if found := _AT_LEAST_2.match(guard.words):
        return found["name"], f"{{}}.shape[{found['axis']}] == 1"
    found = _SOURCE.match(guard.source)
    if found is None:
        return None
    value = "{}" + _REGISTERED.sub(r".\1", found["path"])
    kind, _, axis = evidence.detail.partition(" ")
    seen = {guard.was, guard.now}
    if site.finding.code == "recompile/type" and "None" in seen:
        test = f"{value} is None"
    elif kind == "requires_grad":
        test = f"{value}.requires_grad"
    elif kind == "dtype":
        test = f"{value}.dtype == {guard.was}"
    elif kind == "size" and "1" in seen:
        test = f"{value}.shape[{axis}] == 1"
    elif seen == {"True", "False"}:
        test = value
    else:
        return None
    return found["name"], test


def _choose(
    syntax: Syntax, function: str, call: CompiledCallSite, condition: tuple[str, str], second: str
) -> tuple[str, _Changes] | None:
    """Return the condition of one call, and the changes by which the call uses the compiled
    function ``second`` if the condition is true.

    ``condition`` is a parameter of ``function`` and a test of it.
    """
    name, test = condition
    called = code_of(call.node.func)
    given = call.arguments.get(name)
    changes: _Changes = []
    if name == "self":
        # The object of a compiled module, or of a method.
        argument = called if function == "forward" else called.rpartition(".")[0]
    elif given is None:
        return None
    else:
        argument = code_of(given)
        if not dotted_name(given):
            argument = free_variable(syntax, name)
            changes.append((given, cst.Name(argument)))
    if not argument:
        return None
    words = test.replace("{}", argument)
    chosen = syntax.expression(f"({second} if {words} else {called})")
    changes.append((call.node.func, chosen))
    if len(changes) == 1:
        return words, changes
    assert given is not None
    assign = cst.Assign([cst.AssignTarget(cst.Name(argument))], given)
    placed = insert_before(syntax.site, call.node, [assign])
    if placed is None:
        return None
    (old, above), *_ = placed
    assert isinstance(above, cst.FlattenSentinel)
    *first, last = above
    return words, [(old, cst.FlattenSentinel([*first, last.visit(Replacing(changes))]))]


def _compile_again(syntax: Syntax, function: str, call: cst.Call) -> tuple[str, _Changes] | None:
    """Return the name of a second compiled version of the function that ``call`` calls, and the
    changes that define it after the first; None if the file does not compile it by a decorator or
    in an assignment."""
    name = dotted_name(call.func)
    for compiling in compile_expressions(syntax, function) if name else ():
        line = syntax.text.around(compiling, (cst.SimpleStatementLine, cst.FunctionDef))
        small = syntax.text.parent(compiling)
        isolated = with_option(compiling, _OPTION, "True")
        lines: list[cst.CSTNode] = [line]
        if isolated is None:
            continue
        if isinstance(small, cst.Decorator) and line.name.value == name:
            original, options = name, isolated.args
        elif isinstance(small, cst.Assign) and code_of(small.targets[0].target) == name:
            assert isinstance(compiling, cst.Call)
            original, options = code_of(compiling.args[0].value), isolated.args[1:]
            if original == name or not dotted_name(compiling.args[0].value):
                # The first version replaces the original, or is made together with it.
                kept = free_variable(syntax, f"uncompiled_{name.rpartition('.')[2]}")
                first = line.with_deep_changes(compiling.args[0], value=cst.Name(kept))
                assign = syntax.line(f"{kept} = {original}")
                assign = assign.with_changes(leading_lines=line.leading_lines)
                lines = [assign, first.with_changes(leading_lines=())]
                original = kept
        else:
            continue
        second = free_variable(syntax, name.rpartition(".")[2])
        target = name[: name.rfind(".") + 1] + second
        made = cst.Call(isolated.func, [cst.Arg(syntax.expression(original)), *options])
        added = syntax.line(f"{target} = {code_of(made)}")
        blank = BLANK if isinstance(line, cst.FunctionDef) else ()
        lines.append(added.with_changes(leading_lines=blank))
        return target, [(line, cst.FlattenSentinel(lines))]
    return None
