"""Arguments that Dynamo cannot iterate over, changed where the file passes them."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import descendants
from fullgraph.fixes.rewrites.syntax import Syntax, dotted, targets, words
from fullgraph.fixes.site import Change, Site

_ITERATING = ("tp_iter", "__iter__", "__next__", "__contains__")
_ITERATORS = words("zip map filter enumerate reversed iter")
_VIEWS = words(
    """
    items values parameters named_parameters buffers named_buffers modules named_modules children
    named_children
    """
)
"""Methods of dictionaries and modules."""


def tuples_of_iterators(site: Site) -> Iterator[Candidate]:
    """``f(zip(a, b))``, of a function that iterates over it, as ``f(tuple(zip(a, b)))``."""
    title = getattr(site.finding.evidence, "title", "")
    if not any(one in title or one in site.finding.context for one in _ITERATING):
        return
    syntax = Syntax(site)
    function = syntax.function
    if function is None:
        return
    names = _names_of(syntax, function.name.value)
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in descendants(site.module):
        if not isinstance(call, cst.Call) or not _calls(syntax, call.func, names):
            continue
        for arg in call.args:
            if not arg.star and _is_iterator(syntax, arg.value):
                changes.append((arg.value, _tuple_of(arg.value)))
    if changes:
        given = " and ".join(dict.fromkeys(f"`{site.code(old)}`" for old, _ in changes))
        yield Candidate(
            "tuple-argument",
            f"Pass a tuple of {given} to `{function.name.value}`",
            site.replaced(changes),
        )


def _names_of(syntax: Syntax, name: str) -> set[str]:
    """Names under which the file calls a function: its own, and those of it compiled."""
    names = {name}
    for one in m.findall(syntax.module, m.Assign()):
        assert isinstance(one, cst.Assign)
        if _compiles(syntax, one.value, names):
            names |= {dotted(target).rpartition(".")[2] for target in targets(one)}
    return names - {""}


def _compiles(syntax: Syntax, node: cst.CSTNode, names: set[str]) -> bool:
    if not isinstance(node, cst.Call) or syntax.called(node) != "torch.compile" or not node.args:
        return False
    return dotted(node.args[0].value).rpartition(".")[2] in names


def _calls(syntax: Syntax, called: cst.BaseExpression, names: set[str]) -> bool:
    return dotted(called).rpartition(".")[2] in names or _compiles(syntax, called, names)


def _is_iterator(syntax: Syntax, node: cst.BaseExpression) -> bool:
    """Whether an expression makes an iterator or a view, which nothing else can use then."""
    if isinstance(node, cst.GeneratorExp):
        return True
    if not isinstance(node, cst.Call):
        return False
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in _VIEWS:
        return True
    return syntax.called(node) in _ITERATORS


def _tuple_of(node: cst.BaseExpression) -> cst.Call:
    return cst.Call(cst.Name("tuple"), [cst.Arg(node)])
