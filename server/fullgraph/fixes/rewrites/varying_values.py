"""Rewrites that replace a Python number by a tensor, because each value of the number recompiles.

The number may be an argument, an attribute, a global or closure variable, or a part of an object
that the caller creates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.compile_sites import compiled_calls, compiled_function, guard_of
from fullgraph.fixes.rewrites.left_out import comparing_dynamic
from fullgraph.fixes.rewrites.names import code_of, descendants, find_all, variables_in
from fullgraph.fixes.rewrites.syntax import Syntax, bound_variables
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import RecompileEvidence

_ARGUMENT = re.compile(r"^L\['(?P<name>\w+)'\]$")
_GLOBAL = re.compile(r"^G\['(?P<name>\w+)'\]$")
_PART = re.compile(r"(?:\.(?P<attribute>\w+)|\['(?P<key>\w+)'\])$")
_WHOLE = re.compile(r"^(?:True|False|-?\d+)$")
_FLOAT = re.compile(r"^-?(?:(?:\d+\.\d*|inf|nan)(?:e[-+]?\d+)?|\d+e[-+]?\d+)$")
_TENSOR = "The value becomes a tensor, and code that needs a Python number must call `.item()`."

_Changes = list[tuple[cst.CSTNode, Change]]


def varying_values(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that keep a number in a tensor, so that compiled code does not depend on it.

    The finding is that a function was recompiled for another value of the number.
    """
    evidence, syntax = site.finding.evidence, Syntax(site)
    guard = guard_of(site.finding)
    if not isinstance(evidence, RecompileEvidence) or guard is None or evidence.detail:
        return
    values = guard.was, guard.now
    if not all(_WHOLE.match(one) or _FLOAT.match(one) for one in values):
        return
    is_float = any(map(_FLOAT.match, values))
    numbers = _Numbers(syntax, is_float)
    if found := _ARGUMENT.match(guard.source):
        yield from _arguments(numbers, evidence, found["name"])
        yield from _closure_variables(numbers, found["name"])
        yield from _indices(numbers, evidence, found["name"])
    elif found := _GLOBAL.match(guard.source):
        yield from _global_variable(numbers, found["name"])
    elif found := _PART.search(guard.source):
        yield from _attribute(numbers, found["attribute"] or found["key"])
        yield from _created_parts(numbers, found["attribute"] or found["key"])


class _Numbers:
    """Creates the expressions and candidates for rewrites that replace numbers by tensors.

    ``is_float`` is true if the varying number is a float.
    """

    def __init__(self, syntax: Syntax, is_float: bool) -> None:
        self.syntax, self.is_float = syntax, is_float
        self.torch = syntax.spelled("torch.tensor")

    def tensor(self, value: cst.BaseExpression) -> cst.BaseExpression:
        """Return an expression for a tensor with a number; a float keeps its 64 bits."""
        kind = self.syntax.spelled("torch.float64")
        more = f", dtype={kind}" if self.is_float else ""
        return self.syntax.expression(f"{self.torch}({code_of(value)}{more})")

    def candidate(self, words: str, changes: _Changes, gives_up: str = _TENSOR) -> Candidate:
        site = self.syntax.site
        return Candidate(
            "number-in-a-tensor",
            words,
            site.replaced(changes, imports=self.syntax.imports_for(self.torch)),
            gives_up=gives_up,
            loses=("state",),
        )


def _arguments(numbers: _Numbers, evidence: RecompileEvidence, name: str) -> Iterator[Candidate]:
    """Yield a rewrite that passes a tensor for the parameter ``name`` in each call of the compiled
    function."""
    changes: _Changes = []
    for call in compiled_calls(numbers.syntax, evidence.function):
        value = call.arguments.get(name)
        if value is not None:
            changes.append((value, numbers.tensor(value)))
    if changes:
        yield numbers.candidate(f"Pass a tensor for `{name}`", changes)


def _indices(numbers: _Numbers, evidence: RecompileEvidence, name: str) -> Iterator[Candidate]:
    """Yield rewrites that use a tensor as index, because Dynamo specializes the number in an
    index."""
    syntax = numbers.syntax
    function = compiled_function(syntax, evidence.function, syntax.site.finding.target)
    changes: _Changes = []
    for node in descendants(function) if function is not None and not numbers.is_float else ():
        if not isinstance(node, cst.Subscript):
            continue
        parts = [one.slice for one in node.slice]
        axes = [axis for axis, one in enumerate(parts) if isinstance(one, cst.Index)]
        if len(axes) == 1 and name in variables_in(parts[axes[0]]):
            index = cst.ensure_type(parts[axes[0]], cst.Index)
            new = index.with_changes(
                value=syntax.expression(f"{numbers.torch}([{code_of(index)}])")
            )
            one_long = code_of(node.with_deep_changes(node.slice[axes[0]], slice=new))
            changes.append((node, syntax.expression(f"{one_long}.squeeze({axes[0]})")))
    if changes:
        yield from comparing_dynamic(
            syntax.site,
            numbers.candidate(
                f"Use a tensor with `{name}` as index",
                changes,
                "The indexed element is a copy, and not a view.",
            ),
        )


def _closure_variables(numbers: _Numbers, name: str) -> Iterator[Candidate]:
    """Yield a rewrite that turns a closure variable into a tensor where the enclosing function or
    loop binds it.
    """
    syntax, site = numbers.syntax, numbers.syntax.site
    made = numbers.tensor(cst.Name(name))
    line = cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], made)])
    start = site.expression or site.statement
    for around in syntax.text.ancestors(start) if start is not None else ():
        is_loop = isinstance(around, cst.For) and name in (bound_variables(around.target) or ())
        is_function = isinstance(around, cst.FunctionDef) and any(
            one.name.value == name for one in (*around.params.params, *around.params.kwonly_params)
        )
        body = around.body if isinstance(around, (cst.For, cst.FunctionDef)) else None
        if not (is_loop or is_function) or not isinstance(body, cst.IndentedBlock):
            continue
        if around is site.function and not is_loop:
            return  # the number is an argument of the compiled function, not a closure variable
        first, words = body.body[0], f"Turn `{name}` into a tensor"
        yield numbers.candidate(words, [(first, cst.FlattenSentinel([line, first]))])
        return


def _global_variable(numbers: _Numbers, name: str) -> Iterator[Candidate]:
    """Yield a rewrite that turns a global variable into a tensor. Later assignments fill the tensor
    in place.
    """
    module = numbers.syntax.module
    changes: _Changes = []
    for assign in find_all(module, cst.Assign, m.Assign([m.AssignTarget(m.Name(name))])):
        line = numbers.syntax.text.parent(assign)
        if line is not None and numbers.syntax.text.parent(line) is module and not changes:
            changes.append((assign.value, numbers.tensor(assign.value)))
        else:
            changes.append((assign, _fill(cst.Name(name), assign.value)))
    if changes:
        yield numbers.candidate(f"Turn `{name}` into a tensor", changes)


def _fill(place: cst.BaseExpression, value: cst.BaseExpression) -> cst.Expr:
    return cst.Expr(cst.parse_expression(f"{code_of(place)}.fill_({code_of(value)})"))


def _attribute(numbers: _Numbers, name: str) -> Iterator[Candidate]:
    """Yield rewrites that keep an attribute in a buffer, or in a tensor if its class is not a
    module.

    Assignments outside the constructor change the element of the tensor.
    """
    syntax = numbers.syntax
    for kind in find_all(syntax.module, cst.ClassDef):
        made = [
            assign
            for one in m.findall(kind, m.FunctionDef(m.Name("__init__")))
            for assign in find_all(
                one, cst.Assign, m.Assign([m.AssignTarget(_attribute_named(name))])
            )
        ]
        if len(made) != 1:
            continue
        place, value = made[0].targets[0].target, made[0].value
        if code_of(place) != f"self.{name}":
            continue
        tensor = numbers.tensor(value)
        new: cst.BaseSmallStatement = made[0].with_changes(value=tensor)
        is_module = any("Module" in code_of(base.value) for base in kind.bases)
        if is_module:
            call = f'self.register_buffer("{name}", {code_of(tensor)}, persistent=False)'
            new = cst.Expr(cst.parse_expression(call))
        changes: _Changes = [(made[0], new), *_later_assignments(numbers, name, made[0])]
        words = f"Turn `self.{name}` into a {'buffer' if is_module else 'tensor'}"
        yield numbers.candidate(words, changes)


def _attribute_named(name: str) -> m.Attribute:
    return m.Attribute(attr=m.Name(name))


def _later_assignments(
    numbers: _Numbers, name: str, made: cst.Assign
) -> Iterator[tuple[cst.CSTNode, Change]]:
    """Yield the changes of later assignments to an attribute that became a tensor: they fill the
    tensor in place.

    ``made`` is the assignment in the constructor; it is not changed here.
    """
    target = m.AssignTarget(_attribute_named(name))
    for assign in find_all(numbers.syntax.module, cst.Assign, m.Assign([target])):
        if assign is not made:
            yield assign, _fill(assign.targets[0].target, assign.value)


def _created_parts(numbers: _Numbers, name: str) -> Iterator[Candidate]:
    """Yield a rewrite of the places that create an object with the number: ``Config(scale=x)``,
    ``{"alpha": x}``, ``partial(f, scale=x)``.
    """
    syntax = numbers.syntax
    keyword = m.Arg(keyword=m.Name(name))
    changes: _Changes = []
    for arg in find_all(syntax.module, cst.Arg, keyword):
        changes.append((arg.value, numbers.tensor(arg.value)))
    for element in find_all(syntax.module, cst.DictElement, m.DictElement(key=m.SimpleString())):
        if cst.ensure_type(element.key, cst.SimpleString).evaluated_value == name:
            changes.append((element.value, numbers.tensor(element.value)))
    if changes:
        yield numbers.candidate(f"Turn `{name}` into a tensor", changes)
    key = m.SubscriptElement(m.Index(m.SimpleString()))
    written: _Changes = []
    for assign in find_all(
        syntax.module, cst.Assign, m.Assign([m.AssignTarget(m.Subscript(slice=[key]))])
    ):
        if code_of(assign.targets[0].target).endswith((f'["{name}"]', f"['{name}']")):
            written.append((assign.value, numbers.tensor(assign.value)))
    if written:
        yield numbers.candidate(f"Turn `{name}` into a tensor", [*changes, *written])
