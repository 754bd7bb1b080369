"""What ``torch.export`` cannot decide, said by ``torch._check`` in front of the statement."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.placing import before
from fullgraph.fixes.rewrites.syntax import Syntax, names_in
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import ExportEvidence


def checked(site: Site) -> Iterator[Candidate]:
    """``torch._check`` of what has to hold, before the statement that needs it."""
    evidence = site.finding.evidence
    if not isinstance(evidence, ExportEvidence) or evidence.problem != "data-dependent":
        return
    if not evidence.check:
        return
    syntax = Syntax(site)
    # The names of the check are those of the function: not of what is nested in an expression.
    if _has_one_value(evidence.check) or not isinstance(site.function, cst.FunctionDef):
        return
    condition = syntax.expression(evidence.check)
    if site.enclosing((cst.BaseComp,)) is not None and _binds(site, names_in(condition)):
        return
    call = cst.Call(
        cst.ensure_type(syntax.expression(syntax.spelled("torch._check")), cst.Attribute),
        [cst.Arg(condition)],
    )
    here = site.expression or site.statement
    changes = before(site, here, [cst.Expr(call)]) if here is not None else None
    if changes is None:
        return
    spelled = f"`torch._check({evidence.check})`"
    yield Candidate(
        "check",
        f"State what always holds by {spelled}",
        site.replaced(changes, imports=syntax.imports_for(code_of(call.func))),
        gives_up=f"It raises where `{evidence.check}` is not true.",
        restricts=True,
    )


def equal_sizes(site: Site) -> Iterator[Candidate]:
    """One ``Dim`` for sizes that have to be equal, in the ``dynamic_shapes`` of the file's own
    export: that of the earlier input."""
    evidence = site.finding.evidence
    if not isinstance(evidence, ExportEvidence) or evidence.problem != "constraint":
        return
    sizes = _EQUAL.match(evidence.check)
    if sizes is None:
        return
    syntax = Syntax(site)
    for call in m.findall(syntax.module, m.Call()):
        assert isinstance(call, cst.Call)
        given = [
            arg.value
            for arg in call.args
            if arg.keyword is not None and arg.keyword.value == "dynamic_shapes"
        ]
        if syntax.called(call) != "torch.export.export" or not given:
            continue
        one = _entry(given[0], sizes["one"], sizes["axis"])
        other = _entry(given[0], sizes["other"], sizes["other_axis"])
        if one is None or other is None:
            continue
        span = syntax.text.span
        first, second = sorted((one, other), key=lambda entry: span(entry) or (0, 0))
        yield Candidate(
            "equal-sizes",
            f"Use `{site.code(first)}` for both sizes in `dynamic_shapes`",
            site.replaced([(second, first)]),
            preserves=True,
            gives_up=f"The exported program takes only inputs with `{evidence.check}`.",
        )


_EQUAL = re.compile(
    r"(?P<one>\w+)\.shape\[(?P<axis>\d+)\] == (?P<other>\w+)\.shape\[(?P<other_axis>\d+)\]$"
)


def _entry(shapes: cst.BaseExpression, name: str, axis: str) -> cst.BaseExpression | None:
    """What literal ``dynamic_shapes`` say of a dimension of an input."""
    key: str | int
    for key in (name, int(axis)):
        entries = shapes.elements if isinstance(shapes, cst.Dict) else ()
        found = [
            entry.value
            for entry in entries
            if isinstance(entry, cst.DictElement)
            and isinstance(entry.key, (cst.SimpleString, cst.Integer))
            and entry.key.evaluated_value == key
        ]
        if len(found) != 1:
            return None
        shapes = found[0]
    return shapes


def read(site: Site) -> Iterator[Candidate]:
    """``int(n)``, which export needs the value for, as ``n.item()``, which is a symbol."""
    evidence = site.finding.evidence
    if not isinstance(evidence, ExportEvidence) or not _SYMBOL.match(evidence.expression):
        return
    syntax = Syntax(site)
    small = syntax.statement
    for call in m.findall(small.node, _INT) if small is not None else ():
        assert isinstance(call, cst.Call)
        item = f"{syntax.operand(call.args[0].value)}.item()"
        yield Candidate("item", f"Read it by `{item}`", syntax.replaced(call, item))


_SYMBOL = re.compile(r"u\d+$")
_INT = m.Call(func=m.Name("int"), args=[m.Arg(keyword=None, star="")])


def _has_one_value(check: str) -> bool:
    """Whether an expression is equal to a number: the size would be a constant."""
    tree = ast.parse(check, mode="eval").body
    if not isinstance(tree, ast.Compare) or not isinstance(tree.ops[0], ast.Eq):
        return False
    sides = tree.left, *tree.comparators
    return any(all(not isinstance(one, ast.Name) for one in ast.walk(side)) for side in sides)


def _binds(site: Site, names: set[str]) -> bool:
    """Whether a comprehension around the finding has one of these names for itself."""
    here = site.expression
    for above in (here, *site.text.ancestors(here)) if here is not None else ():
        if isinstance(above, cst.BaseStatement):
            break
        if isinstance(above, cst.BaseComp):
            part: cst.CompFor | None = above.for_in
            while part is not None:
                if names & names_in(part.target):
                    return True
                part = part.inner_for_in
    return False
