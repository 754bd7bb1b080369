"""Rewrites of Python functions and statements that Dynamo does not trace."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import code_of, descendants
from fullgraph.fixes.rewrites.operands import is_shape, is_size
from fullgraph.fixes.rewrites.syntax import (
    Syntax,
    arguments,
    names_in,
    words,
)
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import BreakEvidence


def random_numbers(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of ``random.random()`` as a function that Dynamo traces, with equal
    results.
    """
    syntax = Syntax(site)
    if syntax.imported.get("random") != "random":
        return
    for call in syntax.calls("random.random"):
        yield Candidate(
            "random-uniform",
            "Draw random numbers with `random.uniform`",
            # `random.uniform(a, b)` is defined as `a + (b - a) * random()`, so 0 and 1 give
            # `random()`.
            syntax.replaced(call, "random.uniform(0.0, 1.0)"),
            preserves=True,
        )
        return


def lists_for_generators(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that passes a list to a function instead of a generator expression, which
    Dynamo cannot rebuild after a graph break in the function.
    """
    syntax = Syntax(site)
    evidence = site.finding.evidence
    if not isinstance(evidence, BreakEvidence) or evidence.title != _NOT_REBUILT:
        return
    for call in syntax.here:
        for given in call.args if isinstance(call, cst.Call) else ():
            if isinstance(given.value, cst.GeneratorExp):
                made = cst.ListComp(given.value.elt, given.value.for_in)
                yield Candidate(
                    "list-comprehension",
                    f"Pass a list to `{syntax.called(call) or 'the function'}`, not a generator",
                    syntax.replaced(given.value, code_of(made)),
                )


_NOT_REBUILT = "Generator reconstruction with mutations"
"""Title of the graph break in Dynamo's registry."""


_DRAWN = words(
    """
    random.random numpy.random.rand numpy.random.random numpy.random.random_sample
    numpy.random.uniform torch.rand
    """
)
"""Functions that return random numbers of at least 0 and less than 1 if called without bounds."""
_NO_SIZES = ("", "1", "()", "[]", "[1]", "(1,)")
"""Arguments with which a function in ``_DRAWN`` returns a single number."""


def certain_draws(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of ``random.random() < p`` that draw a number only if ``p`` is between 0 and
    1.

    The graph does not break where ``p`` is a constant outside of these bounds.
    """
    syntax = Syntax(site)
    statement = site.statement
    for node in descendants(statement) if statement is not None else ():
        if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
            continue
        drawn, (side,) = node.left, node.comparisons
        limit = side.comparator
        if isinstance(side.operator, cst.GreaterThan):
            drawn, limit = limit, drawn
        elif not isinstance(side.operator, cst.LessThan):
            continue
        if not isinstance(limit, (cst.Name, cst.Attribute)) or not _is_drawn(syntax, drawn):
            continue
        name = site.code(limit)
        code = f"({name} > 0 and ({name} >= 1 or {site.code(node)}))"
        yield Candidate(
            "certain-draw",
            f"Draw a random number only if `{name}` is between 0 and 1",
            syntax.replaced(node, code),
            gives_up=f"No number is drawn if `{name}` is 0 or 1, so later random numbers differ.",
            loses=("random",),
        )


def _is_drawn(syntax: Syntax, node: cst.BaseExpression) -> bool:
    """Whether an expression is a call that draws one random number from 0 to 1."""
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and not node.args:
        node = node.func.value if node.func.attr.value == "item" else node
    if not isinstance(node, cst.Call) or syntax.called(node) not in _DRAWN:
        return False
    return ", ".join(map(syntax.site.code, node.args)) in _NO_SIZES


_FAMILIES = words(
    """
    bernoulli beta binomial categorical dirichlet exponential gamma geometric gumbel laplace
    multivariatenormal normal poisson uniform onehotcategorical independent transformed
    """
)


def divergences(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of ``kl_divergence(p, q)`` as the function that torch registers for two
    distributions of one family.

    There is one rewrite for each family that the file mentions, such as ``normal``.
    """
    syntax = Syntax(site)
    for call in syntax.calls(
        "torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"
    ):
        mentioned = {name.lower() for name in names_in(site.module)}
        for family in sorted(_FAMILIES & mentioned):
            code = f"torch.distributions.kl._kl_{family}_{family}"
            yield Candidate(
                "kl-of-families",
                f"Call the function for two `{family}` distributions instead of `kl_divergence`",
                syntax.replaced(call.func, code, torch=True),
                gives_up=f"The new code works only for `{family}` distributions.",
            )
        return


def products(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of ``np.prod`` of sizes as ``math.prod``."""
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
            "Multiply with `math.prod`",
            site.replaced([(old, syntax.expression(code))], imports=syntax.lacking("math")),
            # Sizes are integers, so their product is an integer.
            preserves=old is outer and is_shape(given[0]),
        )
        return


_ARANGE = frozenset(["torch.arange", "numpy.arange"])
_INTEGERS = words("int torch.int torch.int32 torch.int64 torch.long numpy.int32 numpy.int64")


def ranges(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite of ``torch.arange(…).tolist()`` as ``range``, if its numbers are integers."""
    syntax = Syntax(site)
    for call in syntax.here:
        made = _before_tolist(call)
        if made is None or syntax.called(made) not in _ARANGE:
            continue
        given = [one.value for one in made.args if one.keyword is None and not one.star]
        options = {one.keyword.value: one.value for one in made.args if one.keyword is not None}
        if len(given) + len(options) != len(made.args) or not 1 <= len(given) <= 3:
            return
        if not options.keys() <= {"dtype", "device"} or any(map(_may_be_fraction, given)):
            return
        if "dtype" in options and syntax.name(options["dtype"]) not in _INTEGERS:
            return
        code = f"list(range({', '.join(map(site.code, given))}))"
        yield Candidate(
            "range",
            "Count with `range`",
            syntax.replaced(call, code),
            preserves=len(given) == 1
            and (isinstance(given[0], cst.Integer) or is_size(syntax, given[0])),
            # `arange` raises where the end is before the start.
            extends=True,
        )
        return


def _before_tolist(node: cst.CSTNode) -> cst.Call | None:
    """Return ``call`` for an expression of the form ``call.tolist()``; None for other
    expressions.
    """
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute):
        made = node.func.value
        if node.func.attr.value == "tolist" and isinstance(made, cst.Call):
            return made
    return None


def _may_be_fraction(node: cst.CSTNode) -> bool:
    """Whether the value of an expression may be a fraction, judging by its code."""
    return any(
        isinstance(one, (cst.Float, cst.Divide))
        or (isinstance(one, cst.Name) and one.value == "float")
        for one in descendants(node)
    )
