"""Python's own functions and statements that Dynamo does not trace, by others that it does."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import descendants
from fullgraph.fixes.rewrites.scalars import dotted_of
from fullgraph.fixes.rewrites.syntax import (
    Syntax,
    arguments,
    dotted,
    import_name,
    names_in,
)
from fullgraph.fixes.site import Change, Replacing, Site


def random_numbers(site: Site) -> Iterator[Candidate]:
    """``random.random()`` by a function that Dynamo knows, which draws the same number."""
    syntax = Syntax(site)
    if syntax.imported.get("random") != "random":
        return
    for call in syntax.calls("random.random"):
        yield Candidate(
            "random-uniform",
            "Draw by `random.uniform`",
            # Its definition is ``a + (b - a) * random()``, which is exact for 0 and 1.
            syntax.replaced(call, "random.uniform(0.0, 1.0)"),
            preserves=True,
        )
        return


def copies(site: Site) -> Iterator[Candidate]:
    """``copy.deepcopy`` of tensors by ``clone``."""
    syntax = Syntax(site)
    for call in syntax.calls("copy.deepcopy", "copy.copy"):
        given = arguments(call)
        if given is None or len(given) != 1:
            continue
        of = syntax.operand(given[0])
        if syntax.called(call) == "copy.copy":
            yield Candidate(
                "clone", "Share the data by `detach`", syntax.replaced(call, f"{of}.detach()")
            )
            return
        for code in (f"{of}.detach().clone()", f"{of}.clone()"):
            yield Candidate("clone", f"Copy by `{code[len(of) :]}`", syntax.replaced(call, code))
        each = (
            f"torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.detach().clone(),"
            f" {site.code(given[0])})"
        )
        yield Candidate(
            "clone",
            "Copy the tensors in it by `clone`",
            syntax.replaced(call, each, torch=True),
            gives_up="What is neither a tensor nor a list, a tuple or a dict is not copied.",
        )
        return


def sorted_tensors(site: Site) -> Iterator[Candidate]:
    """``sorted(tensors)`` by ``torch.sort``."""
    syntax = Syntax(site)
    if "sort with" not in getattr(site.finding.evidence, "title", ""):
        return
    for call in syntax.calls("sorted"):
        if len(call.args) == 1 and not call.args[0].star:
            code = f"list(torch.stack({site.code(call.args[0].value)}).sort().values)"
            yield Candidate(
                "sort-tensors", "Sort by `torch.sort`", syntax.replaced(call, code, torch=True)
            )


def inner_class(site: Site) -> Iterator[Candidate]:
    """A class that a function defines, moved in front of the function."""
    if "__build_class__" not in getattr(site.finding.evidence, "title", ""):
        return
    syntax = Syntax(site)
    start = syntax.text.offset(site.finding.range.start)
    defined: cst.ClassDef | None = site.enclosing(cst.ClassDef)
    if defined is None:
        defined = syntax.text.smallest(cst.ClassDef, start, start)
    if defined is None:
        return
    path = list(syntax.text.ancestors(defined))
    function = next((node for node in path if isinstance(node, cst.FunctionDef)), None)
    top = next((node for node in path if node in site.module.body), None)
    if function is None or top is None or isinstance(path[0], cst.Module):
        return
    if names_in(defined) & _locals(function, defined):
        return
    block = syntax.text.parent(defined)
    alone = isinstance(block, cst.IndentedBlock) and len(block.body) == 1
    rest: Change = cst.parse_statement("pass") if alone else cst.RemoveFromParent()
    moved = defined.with_changes(
        leading_lines=[cst.EmptyLine(indent=False), *defined.leading_lines]
    )
    remaining = top.visit(Replacing([(defined, rest)]))
    text = site.replaced([(top, cst.FlattenSentinel([moved, remaining]))])
    yield Candidate(
        "move-class", f"Define `{defined.name.value}` once, outside of the function", text
    )


def _locals(function: cst.FunctionDef, without: cst.ClassDef) -> set[str]:
    """Names that a function may bind, other than in one of its classes."""
    found: set[str] = set()
    inside = {id(node) for node in descendants(without)}
    for node in descendants(function):
        if id(node) in inside:
            continue
        if isinstance(node, cst.Param):
            found.add(node.name.value)
        elif isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.NamedExpr, cst.For)):
            found |= names_in(node.target)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            found.add(node.name.value)
        elif isinstance(node, cst.ImportAlias):
            found.add(import_name(node))
    return found


_DISABLED = re.compile(r"<(?:bound method|function) ([\w.<>]+)")


def disabled_by_decorator(site: Site) -> Iterator[Candidate]:
    """A function of the file that its decorator keeps from being compiled, without that."""
    if "disable" not in getattr(site.finding.evidence, "title", ""):
        return
    syntax = Syntax(site)
    match = _DISABLED.search(site.finding.context)
    names = {match.group(1).rpartition(".")[2]} if match else set()
    names |= {
        dotted(node.func).rpartition(".")[2] for node in syntax.here if isinstance(node, cst.Call)
    }
    for node in descendants(site.module):
        if not isinstance(node, cst.FunctionDef) or node.name.value not in names:
            continue
        for decorator in node.decorators:
            name = dotted_of(decorator)
            root, _, rest = name.partition(".")
            if f"{syntax.imported.get(root, root)}.{rest}" in _DISABLING:
                yield Candidate(
                    "enable",
                    f"Remove the decorator `{name}` of `{node.name.value}`",
                    site.replaced([(decorator, cst.RemoveFromParent())]),
                    gives_up=f"`{node.name.value}` is compiled, which its decorator prevented.",
                )


_DISABLING = frozenset(["torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.skip"])


def products(site: Site) -> Iterator[Candidate]:
    """``np.prod`` of sizes by ``math.prod``."""
    syntax = Syntax(site)
    for call in syntax.calls("numpy.prod"):
        given = arguments(call)
        if given is None or len(given) != 1:
            continue
        parent = syntax.text.parent(call)
        outer = syntax.text.parent(parent) if isinstance(parent, cst.Arg) else None
        is_int = isinstance(outer, cst.Call) and syntax.called(outer) == "int"
        old = outer if is_int and isinstance(outer, cst.Call) and len(outer.args) == 1 else call
        code = f"math.prod({site.code(given[0])})"
        yield Candidate(
            "math-prod",
            "Multiply by `math.prod`",
            site.replaced([(old, syntax.expression(code))], imports=syntax.lacking("math")),
            # Sizes are integers, and so is their product then.
            preserves=old is outer and _is_shape(given[0]),
        )
        return


def _is_shape(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice):
        node = node.value
    if isinstance(node, cst.Call) and not node.args:
        return isinstance(node.func, cst.Attribute) and node.func.attr.value == "size"
    return isinstance(node, cst.Attribute) and node.attr.value == "shape"
