"""Find expressions with known integer values in a function, and describe sizes that became
constants.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.rewrites.names import descendants, find_all
from fullgraph.fixes.rewrites.syntax import reads, targets
from fullgraph.fixes.site import Site

SIZE = re.compile(r"(?P<name>\w+)\.shape\[(?P<axis>\d+)\]")
"""Pattern for the size of an input in the data of a finding, such as ``x.shape[0]``."""


@dataclass(frozen=True)
class Size:
    """A size that became a constant: name of the tensor argument, dimension and value."""

    name: str
    axis: int
    value: int

    @property
    def code(self) -> str:
        return f"{self.name}.shape[{self.axis}]"

    @property
    def node(self) -> cst.BaseExpression:
        return cst.parse_expression(self.code)


def constants(site: Site, function: cst.FunctionDef) -> Iterator[tuple[cst.BaseExpression, int]]:
    """Yield (expression, value) for each expression in a function whose value is a known integer.

    The expressions are literals, names that the module assigns once, entries of the module's
    dictionaries, defaults of arguments, and attributes that the constructor assigns a number.
    """
    values = _of_module(site) | _of_arguments(function) | _of_class(site)
    bound = {
        name.value
        for one in descendants(function.body)
        if isinstance(one, cst.BaseSmallStatement)
        for target in targets(one)
        for name in find_all(target, cst.Name)
    }
    yield from _known_constants(
        function.body, {key: values[key] for key in values if key not in bound}
    )


def _known_constants(
    node: cst.CSTNode, values: dict[str, int]
) -> Iterator[tuple[cst.BaseExpression, int]]:
    """Yield the expressions inside ``node`` whose value is a known integer, with the value.

    ``values`` has known integers by the code that reads them. Names of keywords and attributes are
    skipped.
    """
    if isinstance(node, cst.Integer):
        yield node, node.evaluated_value
        return
    if isinstance(node, (cst.Name, cst.Attribute, cst.Subscript)):
        value = values.get(_dictionary_key(node))
        if value is not None:
            yield node, value
            return
    if isinstance(node, (cst.Attribute, cst.Arg)):
        yield from _known_constants(node.value, values)
        return
    if isinstance(node, (cst.AssignTarget, cst.FunctionDef, cst.ClassDef)):
        return
    for child in node.children:
        yield from _known_constants(child, values)


def _dictionary_key(node: cst.CSTNode) -> str:
    return "".join(cst.Module([]).code_for_node(node).split()).replace("'", '"')


def _of_module(site: Site) -> dict[str, int]:
    """Return the integers that module-level statements assign to names or dictionary entries.

    The keys are the code that reads them, such as ``CONFIG["size"]``.
    """
    found: dict[str, int] = {}
    several: set[str] = set()
    for assign in m.findall(site.module, m.Assign(targets=[m.AssignTarget(m.Name())])):
        if site.text.parent(site.text.parent(assign) or assign) is not site.module:
            continue
        assert isinstance(assign, cst.Assign)
        name = cst.ensure_type(assign.targets[0].target, cst.Name)
        if name.value in found:
            several.add(name.value)
        if isinstance(assign.value, cst.Integer):
            found[name.value] = assign.value.evaluated_value
        for entry in assign.value.elements if isinstance(assign.value, cst.Dict) else ():
            if m.matches(entry, m.DictElement(m.SimpleString(), m.Integer())):
                key = cst.ensure_type(entry, cst.DictElement).key
                number = cst.ensure_type(entry.value, cst.Integer)
                found[f"{name.value}[{_dictionary_key(key)}]"] = number.evaluated_value
    return {key: value for key, value in found.items() if key not in several}


def _of_arguments(function: cst.FunctionDef) -> dict[str, int]:
    """Return the integer defaults of a function's arguments by name.

    An argument has its default only in calls that do not pass it.
    """
    params = function.params
    return {
        param.name.value: param.default.evaluated_value
        for param in (*params.params, *params.kwonly_params)
        if isinstance(param.default, cst.Integer)
    }


def _of_class(site: Site) -> dict[str, int]:
    """Return the attributes to which the constructor of the module class assigns a known integer.

    The keys are the code that reads them, such as ``self.heads``.
    """
    found: dict[str, int] = {}
    for made in site.constructors:
        defaults = _of_arguments(made)
        to_self = m.AssignTarget(m.Attribute(m.Name("self")))
        for assign in find_all(made.body, cst.Assign, m.Assign(targets=[to_self])):
            value = assign.value
            number = (
                value.evaluated_value
                if isinstance(value, cst.Integer)
                else defaults.get(value.value)
                if isinstance(value, cst.Name) and reads(made.body, value.value)
                else None
            )
            if number is not None:
                found[_dictionary_key(assign.targets[0].target)] = number
    return found
