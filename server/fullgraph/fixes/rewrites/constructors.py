"""Rewrites that move work from a method of a module to its constructor, if the work depends on
nothing that changes between calls."""

from __future__ import annotations

import builtins
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.if_conversion import statements_of
from fullgraph.fixes.rewrites.names import code_of, descendants, find_all
from fullgraph.fixes.rewrites.syntax import Syntax, bound_variables, reads
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import BreakEvidence

_SELF = m.Attribute(m.Name("self"), m.Name())


def moved_to_constructor(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that computes an expression once, in the constructor.

    The expression breaks the graph, and only reads attributes that only the constructor assigns,
    and names of the module.
    """
    syntax = Syntax(site)
    function, kind = syntax.function, site.enclosing(cst.ClassDef)
    if not isinstance(site.finding.evidence, BreakEvidence) or function is None or kind is None:
        return
    made = [one for one in site.constructors if syntax.text.around(one, cst.ClassDef) is kind]
    if len(made) != 1 or function is made[0] or not isinstance(made[0].body, cst.IndentedBlock):
        return
    constant = _Constant(syntax, kind, made[0], function)
    chosen = [one for one in syntax.here if constant.holds(one)]
    if not chosen:
        return
    expression = max(chosen, key=lambda one: len(code_of(one)))
    name = _name_for(syntax, expression)
    if any(code_of(one) == f"self.{name}" for one in m.findall(kind, _SELF)):
        return
    last = statements_of(made[0].body)[-1]
    line = cst.parse_statement(
        f"self.{name} = {code_of(expression)}", site.module.config_for_parsing
    )
    yield Candidate(
        "in-constructor",
        f"Compute `{code_of(expression)}` once, in the constructor",
        site.replaced(
            [
                (expression, cst.parse_expression(f"self.{name}")),
                (last, cst.FlattenSentinel([last, line])),
            ]
        ),
        gives_up="Later changes of the attributes that the expression reads have no effect. A "
        "tensor stays on the device on which the constructor made it.",
        loses=("state",),
    )


def _name_for(syntax: Syntax, expression: cst.BaseExpression) -> str:
    """Return a name for the new attribute: the name of the assigned variable, or of the called
    function."""
    parent = syntax.text.parent(expression)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1:
        names = bound_variables(parent.targets[0].target)
        if names and len(names) == 1:
            return names[0]
    called = code_of(expression.func) if isinstance(expression, cst.Call) else ""
    return called.rpartition(".")[2].strip("_") or "value"


class _Constant:
    """Decides whether an expression has the same value in each call of a method."""

    def __init__(
        self,
        syntax: Syntax,
        kind: cst.ClassDef,
        constructor: cst.FunctionDef,
        function: cst.FunctionDef,
    ) -> None:
        self._syntax, self._function = syntax, function
        inside = {id(one) for one in descendants(constructor)}
        assigned = m.AssignTarget(_SELF)
        targets = m.findall(kind, assigned)
        augmented = m.findall(kind, m.AugAssign(target=_SELF))
        self._changing = {
            code_of(cst.ensure_type(one, cst.AssignTarget).target)
            for one in targets
            if id(one) not in inside
        } | {code_of(cst.ensure_type(one, cst.AugAssign).target) for one in augmented}
        self._attributes = {
            code_of(cst.ensure_type(one, cst.AssignTarget).target)
            for one in targets
            if id(one) in inside
        } - self._changing
        self._known = {*syntax.imported, *dir(builtins), *_module_names(syntax)}

    def holds(self, expression: cst.BaseExpression) -> bool:
        """Whether an expression only reads constants: attributes that only the constructor assigns,
        and names of the module."""
        inside = list(descendants(expression))
        if any(isinstance(one, (cst.Await, cst.Yield, cst.Lambda)) for one in inside):
            return False
        if not any(isinstance(one, cst.Call) for one in inside):
            return False
        rest = [*find_all(expression, cst.Attribute)]
        attributes = {code_of(one) for one in rest if m.matches(one, _SELF)}
        if not attributes or attributes - self._attributes:
            return False
        mentions = len(reads(expression, "self"))
        own = sum(m.matches(one, _SELF) for one in rest)
        names = {one.value for one in find_all(expression, cst.Name)}
        used = {name for name in names if reads(expression, name)} - {"self"}
        return mentions == own and used <= self._known


def _module_names(syntax: Syntax) -> set[str]:
    """Return the names of functions and classes that the module defines."""
    found = set()
    for one in syntax.module.body:
        if isinstance(one, (cst.FunctionDef, cst.ClassDef)):
            found.add(one.name.value)
    return found
