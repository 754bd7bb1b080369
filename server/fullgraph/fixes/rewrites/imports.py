"""Imports of what may be missing, moved out of functions."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.disable import BLANK, global_names
from fullgraph.fixes.rewrites.names import names_bound
from fullgraph.fixes.rewrites.syntax import Syntax, dotted
from fullgraph.fixes.site import Replacing, Site


def tried_at_the_top(site: Site) -> Iterator[Candidate]:
    """An import in a ``try`` of a function, which fails: tried once, where the module is imported.
    The function raises what the import has raised."""
    if getattr(site.finding.evidence, "title", "") != "Import failure":
        return
    syntax = Syntax(site)
    small, function = syntax.small, syntax.function
    if (
        small is None
        or function is None
        or not isinstance(small.node, (cst.Import, cst.ImportFrom))
    ):
        return
    if isinstance(small.node.names, cst.ImportStar) or len(small.block.body) != 1:
        return
    above = list(syntax.text.ancestors(small.node))
    handled = any(isinstance(one, cst.Try) for one in above[: above.index(function)])
    top = next((one for one in above if one in site.module.body), None)
    names = list(names_bound(small.node))
    others = function.visit(Replacing([(small.block, cst.SimpleStatementLine([cst.Pass()]))]))
    assert isinstance(others, cst.FunctionDef)
    taken = {*global_names(syntax), *names_bound(others)}
    if not handled or top is None or not names or taken & set(names):
        return
    code = site.code(small.node)
    missing = (
        dotted(small.node.module)
        if isinstance(small.node, cst.ImportFrom)
        else dotted(small.node.names[0].name)
    )
    tried = cst.parse_statement(
        f"try:\n    {code}\nexcept ImportError:\n    {' = '.join(names)} = None\n",
        site.module.config_for_parsing,
    )
    asked = cst.parse_statement(
        f"if {names[0]} is None:\n    raise ModuleNotFoundError(\"No module named '{missing}'\")\n",
        site.module.config_for_parsing,
    )
    assert isinstance(tried, cst.Try)
    leading = getattr(top, "leading_lines", ())
    rest = top.visit(Replacing([(small.block, asked)]))
    assert isinstance(rest, (cst.FunctionDef, cst.ClassDef))
    yield Candidate(
        "import-at-top",
        f"Try `{code}` once, where the module is imported",
        site.replaced(
            [
                (
                    top,
                    cst.FlattenSentinel(
                        [
                            tried.with_changes(
                                leading_lines=[one for one in leading if not one.comment]
                            ),
                            rest.with_changes(
                                leading_lines=[*BLANK, *(one for one in leading if one.comment)]
                            ),
                        ]
                    ),
                )
            ]
        ),
        gives_up="What can be imported only later is missing for the whole program.",
    )
