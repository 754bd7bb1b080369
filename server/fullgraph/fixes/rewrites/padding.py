"""Sizes that code needs as numbers, rounded up, so that a few of them are all that is compiled."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.constants import SIZE
from fullgraph.fixes.rewrites.syntax import Syntax
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import ForecastEvidence

_MULTIPLE = 32
"""Of which padded sizes are multiples; whoever takes the snippet chooses another one."""


def buckets(site: Site) -> Iterator[Candidate]:
    """Pad what each new size recompiles a target for, where it begins."""
    evidence = site.finding.evidence
    if site.finding.code != "recompile/every-size" or not isinstance(evidence, ForecastEvidence):
        return
    sizes = [SIZE.fullmatch(one) for one in evidence.changed]
    function = _function(site.module, site.finding.target)
    if function is None or not isinstance(function.body, cst.IndentedBlock) or not all(sizes):
        return
    params = {one.name.value for one in (*function.params.posonly_params, *function.params.params)}
    syntax = Syntax(site)
    pad = syntax.spelled("torch.nn.functional.pad")
    lines = [
        f"{name} = {pad}({name}, [0, 0] * ({name}.dim() - {int(axis) + 1})"
        f" + [0, -{name}.shape[{axis}] % {_MULTIPLE}])"
        for one in sizes
        if one is not None
        for name, axis in [(one["name"], one["axis"])]
        if name in params
    ]
    if len(lines) < len(sizes):
        return
    body = function.body
    first = 1 if function.get_docstring() is not None else 0
    new = [cst.parse_statement(line, syntax.module.config_for_parsing) for line in lines]
    changed = body.with_changes(body=[*body.body[:first], *new, *body.body[first:]])
    names = ", ".join(dict.fromkeys(f"`{one['name']}`" for one in sizes if one is not None))
    yield Candidate(
        "padding",
        f"Pad {names} to a multiple of {_MULTIPLE}",
        site.replaced([(body, changed)], imports=syntax.imports_for(pad)),
        gives_up="Results have the padded sizes: cut them, and mask what looks at other places.",
        suggestion=True,
    )


def _function(module: cst.Module, target: str) -> cst.FunctionDef | None:
    """The function of the file that the call of a target begins with."""
    for one in module.body:
        if isinstance(one, cst.FunctionDef) and one.name.value == target:
            return one
        if isinstance(one, cst.ClassDef) and one.name.value == target:
            methods = (each for each in one.body.body if isinstance(each, cst.FunctionDef))
            return next((each for each in methods if each.name.value == "forward"), None)
    return None
