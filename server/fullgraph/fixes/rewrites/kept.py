"""Rewrites of values that a call caches for later calls of the same size, such as a mask.

The rewritten code computes the values in each call. This costs little in compiled code. A cache
costs more, because Dynamo guards it: each new size recompiles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.if_conversion import add_comments, statements_of
from fullgraph.fixes.rewrites.names import code_of, descendants, find_all, names_bound, names_read
from fullgraph.fixes.rewrites.placing import in_place_of, siblings
from fullgraph.fixes.rewrites.syntax import names_in, reads, targets
from fullgraph.fixes.site import Change, Replacing, Site
from fullgraph_engine.protocol.evidence import (
    ForecastEvidence,
    GuardEvidence,
    RecompileEvidence,
    SpecializationEvidence,
)

_OF_SIZES = ("shape", "device", "dtype", "ndim", "size", "dim")
"""Attributes and methods of a tensor that do not read its elements."""


_KINDS = (ForecastEvidence, GuardEvidence, RecompileEvidence, SpecializationEvidence)
_ASSIGNS = (cst.Assign, cst.AnnAssign, cst.AugAssign)


def recompute_cached(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that compute a value in each call instead of caching it.

    They remove the condition of ``if self.mask is None or …: self.mask = …``.
    """
    evidence = site.finding.evidence
    function = site.function
    if not isinstance(evidence, _KINDS):
        return
    if not isinstance(function, cst.FunctionDef):
        return
    for branch in _caching_branches(site, function):
        if branch.orelse is not None or siblings(site, branch) is None:
            continue
        body = statements_of(branch.body)
        if not _of_sizes(function, body):
            continue
        yield from _by_key(site, function, branch)
        if _is_kept(branch, body):
            first, *rest = body
            changes = in_place_of(site, branch, [add_comments(first, branch.leading_lines), *rest])
            yield _candidate(site, changes)


def _candidate(site: Site, changes: Sequence[tuple[cst.CSTNode, Change]]) -> Candidate:
    return Candidate(
        "not-kept",
        "Compute the cached value in each call",
        site.replaced(changes),
        gives_up="The value is computed in each call, also in eager mode.",
        loses=("state",),
        extends=True,
    )


def _caching_branches(site: Site, function: cst.FunctionDef) -> Iterator[cst.If]:
    """Yield the ``if`` statements that may fill a cache.

    This is the ``if`` around the finding. Without one, these are the ``if`` statements that test a
    variable which the statement with the finding assigns.
    """
    branch = site.enclosing((cst.If,))
    if branch is not None:
        yield branch
        return
    here = site.statement
    small = here.body[0] if isinstance(here, cst.SimpleStatementLine) else None
    names = {code_of(one) for one in targets(small)} if small is not None else set()
    for one in find_all(function.body, cst.If):
        if names & names_in(one.test):
            yield one


def _is_kept(branch: cst.If, body: Sequence[cst.CSTNode]) -> bool:
    """Whether an ``if`` fills a cache: it tests an attribute or entry that its body assigns.

    The attribute or entry must keep its value until later calls of the function.
    """
    bound = [name for name in names_bound(*body) if not name.isidentifier()]
    asked = set(names_read(branch.test))
    return bool(bound) and any(
        name in asked or any(one.startswith(f"{name}.") for one in asked) for name in bound
    )


def _by_key(site: Site, function: cst.FunctionDef, branch: cst.If) -> Iterator[Candidate]:
    """Yield a rewrite that replaces a cache entry by a local variable.

    The branch is ``if n not in self.masks: self.masks[n] = …``.
    """
    asked = m.Comparison(comparisons=[m.ComparisonTarget(m.NotIn())])
    if not m.matches(branch.test, asked):
        return
    assert isinstance(branch.test, cst.Comparison)
    key = branch.test.left
    place = f"{code_of(branch.test.comparisons[0].comparator)}[{code_of(key)}]"
    *_, last = body = statements_of(branch.body)
    small = last.body[0] if isinstance(last, cst.SimpleStatementLine) else None
    if not isinstance(small, cst.Assign) or [code_of(one) for one in targets(small)] != [place]:
        return
    name = "kept"
    uses = [
        one
        for one in descendants(function.body)
        if isinstance(one, cst.BaseExpression) and code_of(one) == place
    ]
    uses = [one for one in uses if all(one is not each for each in descendants(branch))]
    if name in names_in(function) or not uses or names_in(key) - names_read(key).keys():
        return
    made = small.with_changes(targets=[cst.AssignTarget(cst.Name(name))])
    *before, _ = body
    new = [*before, cst.SimpleStatementLine([made])]
    changes = in_place_of(site, branch, [add_comments(new[0], branch.leading_lines), *new[1:]])
    changes += [(one, cst.Name(name)) for one in uses]
    removed = _key_alone(function, key, branch, uses)
    if removed is not None:
        changes.append((removed, cst.RemoveFromParent()))
    yield _candidate(site, changes)


def _key_alone(
    function: cst.FunctionDef,
    key: cst.BaseExpression,
    branch: cst.If,
    uses: Sequence[cst.CSTNode],
) -> cst.SimpleStatementLine | None:
    """Return the statement that computes the key of a cache. None if other code also uses the key.

    ``uses`` are the nodes that use the cache.
    """
    if not isinstance(key, cst.Name):
        return None
    inside = sum(len(reads(one, key.value)) for one in uses)
    body = statements_of(branch.body)
    value = cst.ensure_type(cst.ensure_type(body[-1], cst.SimpleStatementLine).body[0], cst.Assign)
    elsewhere = [value.value, *body[:-1]]
    if any(reads(one, key.value) for one in elsewhere):
        return None
    made = m.SimpleStatementLine([m.Assign([m.AssignTarget(m.Name(key.value))])])
    found = m.findall(function.body, made)
    known = inside + len(reads(branch, key.value)) + 1
    if len(found) != 1 or len(reads(function.body, key.value)) != known:
        return None
    return cst.ensure_type(found[0], cst.SimpleStatementLine)


def _of_sizes(function: cst.FunctionDef, body: Sequence[cst.CSTNode]) -> bool:
    """Whether statements only read the sizes of a function's arguments, so that their results
    depend on the sizes alone.
    """
    params = function.params
    given = {one.name.value for one in (*params.posonly_params, *params.params)}
    data = (given | {one.name.value for one in params.kwonly_params}) - {"self"}
    inside = {id(node) for one in body for node in descendants(one)}
    for small in descendants(function.body):
        made = small.value if isinstance(small, _ASSIGNS) and id(small) not in inside else None
        if made is not None and isinstance(small, _ASSIGNS) and data & _read(made):
            data |= {name for one in targets(small) for name in names_in(one)} - {"self"}
    return not data & {name for one in body for name in _read(one)}


def _read(node: cst.CSTNode) -> set[str]:
    """Return the variables whose elements the code reads; reading only a tensor's size does not
    count.
    """
    asked: list[tuple[cst.CSTNode, Change]] = [
        (one, cst.Name("_"))
        for one in descendants(node)
        if m.matches(one, m.Attribute(m.Name(), m.OneOf(*map(m.Name, _OF_SIZES))))
        or m.matches(one, m.Call(m.Name("len"), [m.Arg(m.Name())]))
    ]
    rest = node.visit(Replacing(asked))
    return names_in(rest) if isinstance(rest, cst.CSTNode) else set()
