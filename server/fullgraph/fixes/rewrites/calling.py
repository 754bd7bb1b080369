"""Rewrites of calls of compiled functions that recompile because arguments or modes vary.

After the rewrite, all calls pass arguments with the same strides or defaults, or run in the same
mode.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compiled_calls, guard_of
from fullgraph.fixes.rewrites.if_conversion import statements_of
from fullgraph.fixes.rewrites.names import code_of, descendants, names_read
from fullgraph.fixes.rewrites.syntax import Syntax, callee
from fullgraph.fixes.site import Change, Replacing, Site
from fullgraph_engine.protocol.evidence import RecompileEvidence

_ARGUMENT = re.compile(r"^L\['(?P<name>\w+)'\]$")
_WITHOUT_GRADIENTS = ("torch.no_grad", "torch.inference_mode")


def contiguous_arguments(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that passes a contiguous tensor, if the strides of an argument vary."""
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    if not isinstance(evidence, RecompileEvidence) or guard is None:
        return
    found = _ARGUMENT.match(guard.source)
    if found is None or not evidence.detail.startswith("stride"):
        return
    name = found["name"]
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in compiled_calls(syntax, evidence.function):
        value = call.arguments.get(name)
        if value is not None:
            code = f"{syntax.operand(value)}.contiguous()"
            changes.append((value, syntax.expression(code)))
    if changes:
        yield Candidate(
            "contiguous",
            f"Pass a contiguous `{name}`",
            site.replaced(changes),
            gives_up=f"A call with another layout of `{name}` copies it.",
        )


def uncompiled_evaluation(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that runs evaluation without gradients in eager mode, by ``set_stance``.

    The finding is a recompile because gradients were turned off or on, or because the mode of a
    module changed.
    """
    evidence, syntax = site.finding.evidence, Syntax(site)
    words = " ".join(one.words for one in getattr(evidence, "guards", ()))
    if not isinstance(evidence, RecompileEvidence) or not (
        site.finding.code == "recompile/mode" or ".training" in words
    ):
        return
    stance = f'{syntax.spelled("torch.compiler.set_stance")}("force_eager")'
    changes: list[tuple[cst.CSTNode, Change]] = []
    for block in m.findall(site.module, m.With()):
        assert isinstance(block, cst.With)
        if any(syntax.name(callee(one.item)) in _WITHOUT_GRADIENTS for one in block.items):
            comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
            first = [
                one if isinstance(one.comma, cst.Comma) else one.with_changes(comma=comma)
                for one in block.items
            ]
            items = [*first, cst.WithItem(syntax.expression(stance))]
            for old, new in zip(block.items, items, strict=False):
                changes.append((old, new))
            last = block.items[-1]
            changes = [one for one in changes if one[0] is not last]
            changes.append((last, cst.FlattenSentinel(items[-2:])))
    if changes:
        yield Candidate(
            "uncompiled-evaluation",
            "Do not compile in evaluation mode",
            site.replaced(changes),
            gives_up="Evaluation runs in eager mode, which may be slower.",
        )


def default_arguments(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of calls that pass None for an argument in some cases: they pass a default
    value instead.

    The default is the expression that the compiled function assigns: ``if state is None: state =
    zeros_like(x)``.
    """
    evidence, guard, syntax = site.finding.evidence, guard_of(site.finding), Syntax(site)
    function = site.function
    found = _ARGUMENT.match(guard.source) if guard is not None else None
    if not isinstance(evidence, RecompileEvidence) or found is None:
        return
    if site.finding.code != "recompile/type" or not isinstance(function, cst.FunctionDef):
        return
    name = found["name"]
    default = _default_value(function, name)
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in compiled_calls(syntax, evidence.function):
        value = call.arguments.get(name)
        if default is None or value is None or not isinstance(value, cst.Name):
            continue
        needed = names_read(default).keys() & _parameter_names(function)
        given = {one: call.arguments.get(one) for one in needed}
        if not all(isinstance(one, cst.Name) for one in given.values()):
            continue
        renamed = [
            (node, new)
            for node in descendants(default)
            if isinstance(node, cst.Name) and (new := given.get(node.value)) is not None
        ]
        passed = code_of(default.visit(Replacing(renamed)))  # type: ignore[arg-type]
        code = f"({passed} if {value.value} is None else {value.value})"
        changes.append((value, syntax.expression(code)))
    if changes:
        yield Candidate(
            "default-argument",
            f"Pass a tensor for `{name}` also where it is None",
            site.replaced(changes),
            gives_up=f"The caller computes the value for a missing `{name}`.",
        )


def _default_value(function: cst.FunctionDef, name: str) -> cst.BaseExpression | None:
    """Return the expression ``value`` if the function contains ``if name is None: name = value``;
    None otherwise.
    """
    test = m.Comparison(m.Name(name), [m.ComparisonTarget(m.Is(), m.Name("None"))])
    for branch in m.findall(function.body, m.If(test=test, orelse=None)):
        assert isinstance(branch, cst.If)
        lines = statements_of(branch.body)
        small = lines[0].body[0] if isinstance(lines[0], cst.SimpleStatementLine) else None
        if len(lines) != 1 or not isinstance(small, cst.Assign):
            continue
        if code_of(small.targets[0].target) == name:
            return small.value
    return None


def _parameter_names(function: cst.FunctionDef) -> set[str]:
    params = function.params
    given = (*params.posonly_params, *params.params, *params.kwonly_params)
    return {one.name.value for one in given}
