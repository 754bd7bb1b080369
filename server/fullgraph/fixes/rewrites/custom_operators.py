"""Wrap code that Dynamo cannot trace in custom operators, and write fake kernels from recorded
sizes."""

from __future__ import annotations

import builtins
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Union

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import CHOSEN
from fullgraph.fixes.rewrites.disable import (
    BLANK,
    free_name,
    global_names,
    in_function,
    smallest_call,
)
from fullgraph.fixes.rewrites.if_conversion import Outside, Statement
from fullgraph.fixes.rewrites.names import (
    code_of,
    descendants,
    find_all,
    names_bound,
    names_read,
    walk,
)
from fullgraph.fixes.rewrites.operands import (
    PLAIN,
    asked_for,
    kind_of,
    of_locals,
    of_module,
    of_signature,
    tensor_type,
)
from fullgraph.fixes.rewrites.placing import siblings
from fullgraph.fixes.rewrites.syntax import (
    Syntax,
    bound_variables,
    callee,
    dotted_name,
    names_in,
    reads,
    targets,
)
from fullgraph.fixes.site import Change, Replacing, Site
from fullgraph_engine.protocol.evidence import (
    BreakEvidence,
    ExportEvidence,
    OperatorCall,
    TensorForm,
)

_DEFINES = "torch.library.custom_op"
_SKIPPED = (
    "Attempted to call function marked as skipped",
    "Unsupported ndarray attribute access",
)
"""Titles of graph breaks at calls of functions that Dynamo cannot trace."""
_LITERALS = (cst.BaseNumber, cst.SimpleString, cst.UnaryOperation)
_CONSTANTS = ("True", "False", "None")
Several = Union[int, Literal["list"]]
"""Form of an operator's result: a tuple of this many tensors, 0 for a single tensor, or "list" for
a list of any length."""


def wrap_calls(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that wrap a call of a function that Dynamo cannot trace in a custom operator.

    Its fake kernel is added by a later rewrite, :func:`add_fake_kernels`, from recorded calls of
    the operator.
    """
    syntax = Syntax(site)
    call = smallest_call(syntax)
    if not isinstance(call, cst.Call):
        return
    function = dotted_name(call.func)
    root = function.partition(".")[0]
    package = syntax.imported.get(root, "").partition(".")[0]
    evidence = site.finding.evidence
    skipped = isinstance(evidence, BreakEvidence) and evidence.title in _SKIPPED
    if (
        not skipped
        or root not in global_names(syntax)
        or isinstance(syntax.text.parent(call), cst.Expr)
    ):
        return
    # Functions of torch and of the standard library already are operators, or cannot become
    # operators.
    if package in ("", "torch", *sys.stdlib_module_names):
        return
    known = _locals_at(syntax, call)

    def plain_kind(node: cst.BaseExpression) -> str:
        kind = kind_of(syntax, node, known)
        return kind if kind in PLAIN else ""

    wrapped = _arguments(call, plain_kind)
    if all(kind for _, kind in wrapped.parameters):
        return
    name = free_name(site, call, "_")
    tensor = syntax.spelled("torch.Tensor")
    typed = [(one, kind or tensor) for one, kind in wrapped.parameters]
    several = _taken_apart(syntax, call)
    # The function most likely breaks the graph at its other calls, too.
    calls = [call] + [
        one
        for one in descendants(syntax.function or call)
        if isinstance(one, cst.Call)
        and one is not call
        and dotted_name(one.func) == function
        and _constant_arguments(one) == _constant_arguments(call)
        and _kinds(_arguments(one, plain_kind)) == _kinds(wrapped)
    ]
    value = f"{function}({', '.join(wrapped.inside)})"
    plain = _operator_definition(syntax, name, typed, several, value)

    def detach_value(code: str) -> str:
        return f"{syntax.operand(syntax.expression(code))}.detach()"

    def convert_value(code: str) -> str:
        return _as_tensor(syntax, code)

    ways: list[tuple[str, Callable[[str], str], int | None]]
    ways = [(plain, str, None), (plain, detach_value, None)]
    # The function may also have NumPy arrays as arguments and results.
    value = f"{function}({', '.join(_arguments(call, plain_kind, '.numpy()').inside)})"
    for count in (several,) if several else (0, 2):
        result = _as_tensors(syntax, value, count)
        ways.append(
            (_operator_definition(syntax, name, typed, count, result), convert_value, count)
        )
    for definition, give, returned in ways:
        changes: list[tuple[cst.BaseExpression, str]] = []
        for one in calls:
            given = _arguments(one, plain_kind)
            codes = [
                code if kind else give(code)
                for (_, kind), code in zip(given.parameters, given.outside, strict=True)
            ]
            code = f"{name}({', '.join(codes)})"
            changes.append((one, code if returned is None else _as_arrays(code, returned)))
        text = in_function(syntax, changes, definition)
        if text is not None:
            yield Candidate(
                "custom-operator",
                f"Turn `{function}` into a custom operator",
                text,
                gives_up="The operator has no gradient.",
                phases=("export",),
            )


def _locals_at(syntax: Syntax, node: cst.CSTNode) -> dict[str, str]:
    """Return the types of the local variables, except tensors, that the code at a node can read."""
    function, span = syntax.function, syntax.text.span(node)
    return of_locals(syntax, function, span[0]) if function is not None and span is not None else {}


def _as_tensor(syntax: Syntax, code: str) -> str:
    """Return code that converts the NumPy array or tensor ``code`` to a tensor."""
    return f"{syntax.spelled('torch.as_tensor')}({code})"


def _as_tensors(syntax: Syntax, code: str, several: int) -> str:
    """Return code that converts the value of ``code``, an array or a tuple of ``several`` arrays,
    to tensors."""
    if several:
        return f"tuple(map({syntax.spelled('torch.as_tensor')}, {code}))"
    return _as_tensor(syntax, code)


def _as_arrays(code: str, several: int) -> str:
    """Return code that converts the value of ``code``, a tensor or a tuple of ``several`` tensors,
    to NumPy arrays."""
    return f"tuple(one.numpy() for one in {code})" if several else f"{code}.numpy()"


def _operator_definition(
    syntax: Syntax,
    name: str,
    parameters: Sequence[tuple[str, str]],
    several: Several,
    value: str,
    changed: Sequence[str] = (),
) -> str:
    """Return the source code that defines a custom operator.

    ``parameters`` are pairs of name and type. ``several`` is the number of returned tensors, 0 for
    a single tensor, or "list". ``value`` is the code of the returned value. If the operator changes
    parameters in place (``changed``), it returns nothing.
    """
    tensor = syntax.spelled("torch.Tensor")
    if several == "list":
        returned = f"list[{tensor}]"
    else:
        returned = f"tuple[{', '.join([tensor] * several)}]" if several else tensor
    typed = ", ".join(f"{one}: {kind}" for one, kind in parameters)
    mutated = f"({', '.join(map(_quote, changed))}{',' * (len(changed) == 1)})"
    result = f"-> None:\n    {value}" if changed else f"-> {returned}:\n    return {value}"
    return (
        f'@{syntax.spelled(_DEFINES)}("custom::{name.strip("_")}", mutates_args={mutated})\n'
        f"def {name}({typed}) {result}\n"
    )


def _quote(name: str) -> str:
    return f'"{name}"'


_DECORATORS = ("torch.no_grad", "torch.inference_mode")
"""Decorators that do not prevent a function from becoming an operator."""
_NOT_MOVED = (cst.Yield, cst.Await, cst.Global, cst.Nonlocal)


def of_function(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that makes a custom operator of the function with the graph break.

    Its body moves unchanged to a function that Dynamo does not trace. Values that a method reads
    from ``self`` are passed as arguments.
    """
    syntax = Syntax(site)
    function = syntax.function
    if function is None or not site.finding.code.startswith("graph-break"):
        return
    above = [one for one in syntax.text.ancestors(function) if not isinstance(one, cst.BaseSuite)]
    method = isinstance(above[0], cst.ClassDef)
    if above[int(method) :] != [site.module] or function.asynchronous is not None:
        return
    parameters = of_signature(syntax, function)
    moved = [
        one for one in function.decorators if dotted_name(callee(one.decorator)) != "staticmethod"
    ]
    static = len(moved) < len(function.decorators)
    values = _Values([], [])
    if method and not static:
        found = _values(syntax, function, [function.body]) if parameters else None
        if found is None:
            return
        values, parameters = found, parameters[1:]
    returned = _returned_tensors(syntax, function, function.body)
    in_place = _changed_in_place(function.body) if returned is None else set()
    known = all(syntax.name(callee(one.decorator)) in _DECORATORS for one in moved)
    if not (parameters or values.of_module) or not known or (returned is None and not in_place):
        return
    if any(isinstance(one, _NOT_MOVED) for one in descendants(function.body)):
        return
    if "super" in names_in(function.body):
        return
    name = free_name(site, function.name, "_")
    given = [*(one for one, _ in parameters), *(place for _, _, place in values.of_module)]
    parameters = [*parameters, *((one, kind) for one, kind, _ in values.of_module)]
    body = function.body.visit(Replacing(values.changes))
    plain = _plain_function(name, parameters)
    eager = function.with_changes(
        name=plain.name,
        params=plain.params,
        returns=None,
        decorators=moved,
        body=body,
        leading_lines=(),
    )
    mutated = [
        name for (name, _), place in zip(parameters, given, strict=True) if place in in_place
    ]
    leave = "return " if returned is not None else ""
    changed = function.with_changes(
        body=cst.IndentedBlock([cst.parse_statement(f"{leave}{name}({', '.join(given)})")]),
        decorators=[one for one in function.decorators if one not in moved],
    )
    title = f"Turn `{function.name.value}` into a custom operator"
    text = _as_operator(syntax, name, parameters, returned, eager, (function, changed), mutated)
    yield Candidate("operator-of-function", title, text, gives_up=_GIVES_UP, phases=("export",))
    packages = {syntax.imported.get(one, "").partition(".")[0] for one in names_in(function.body)}
    if "numpy" not in packages or "torch" in packages or mutated or returned == "list":
        return
    # The parameters and results are NumPy arrays.
    tensor = syntax.spelled("torch.Tensor")
    arrays = [
        _as_tensor(syntax, one) if kind == tensor else one
        for one, (_, kind) in zip(given, parameters, strict=True)
    ]
    call = _as_arrays(f"{name}({', '.join(arrays)})", returned or 0)
    changed = changed.with_changes(body=cst.IndentedBlock([cst.parse_statement(f"return {call}")]))
    text = _as_operator(
        syntax, name, parameters, returned, eager, (function, changed), of_arrays=True
    )
    yield Candidate("operator-of-function", title, text, gives_up=_GIVES_UP, phases=("export",))


def _changed_in_place(body: cst.CSTNode) -> set[str]:
    """Return the names whose values a function changes in place, by in-place methods or assignments
    to elements.

    The result is empty if the function returns a value.
    """
    found: set[str] = set()
    for one in walk(body):
        if isinstance(one, cst.Return) and one.value is not None and code_of(one.value) != "None":
            return set()
        place: cst.CSTNode | None = None
        if isinstance(one, cst.Call) and isinstance(one.func, cst.Attribute):
            method = one.func.attr.value
            place = one.func.value if method.endswith("_") and method[0] != "_" else None
        elif isinstance(one, (cst.AssignTarget, cst.AugAssign)):
            place = one.target.value if isinstance(one.target, cst.Subscript) else None
        found.add(dotted_name(place).removesuffix(".data"))
    return found - {""}


_GIVES_UP = "Compiled code calls the operator, and nothing in it is compiled."
_LEAVING = (cst.Return, cst.Raise, cst.Import, cst.ImportFrom, cst.Del, *_NOT_MOVED)
_BLOCKS = (cst.If, cst.For, cst.While)


def _enclosing_function(syntax: Syntax) -> tuple[cst.FunctionDef | None, tuple[cst.CSTNode, ...]]:
    """Return the function around a graph break, and the nodes from the break up to that function.

    The first node is the statement with the break. Return None and an empty tuple if no part of the
    function can become an operator.
    """
    function, statement = syntax.function, syntax.site.statement
    if function is None or statement is None or function.asynchronous is not None:
        return None, ()
    if not syntax.site.finding.code.startswith("graph-break"):
        return None, ()
    return function, (statement, *syntax.text.ancestors(statement))


def of_block(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that makes a custom operator of the branch or loop around a graph break.

    Values that it reads become parameters; values that later code reads become results.
    """
    syntax = Syntax(site)
    function, around = _enclosing_function(syntax)
    if function is None:
        return
    for node in around:
        if node is function:
            return
        if isinstance(node, _BLOCKS) and siblings(site, node) is not None:
            text = _operator_of_block(syntax, function, node)
            if text is not None:
                word = {cst.If: "if", cst.For: "for", cst.While: "while"}[type(node)]
                yield Candidate(
                    "operator-of-block",
                    f"Turn the `{word}` into a custom operator",
                    text,
                    gives_up=_GIVES_UP,
                    loses=CHOSEN,
                    phases=("export",),
                )


def _operator_of_block(
    syntax: Syntax, function: cst.FunctionDef, node: cst.BaseCompoundStatement
) -> str | None:
    """Return the new source code in which a call of a custom operator replaces the statement
    ``node``.

    None if the statement does more than assign variables.
    """
    site = syntax.site
    inside = list(descendants(node))
    if any(isinstance(one, (*_LEAVING, cst.FunctionDef, cst.ClassDef)) for one in inside):
        return None
    if _leaves_block(node) or {"super", "locals"} & names_in(node):
        return None
    later = _read_later(syntax, function, node)
    returned = [key for key in names_bound(node) if key.isidentifier() and key in later]
    given = _operator_parameters(syntax, function, [node], returned)
    if not returned or given is None:
        return None
    name = free_name(site, function.name, "_")
    # An operator must not return its inputs, or tensors that share their memory.
    results = ", ".join(f"{key}.clone()" for key in returned)
    plain = _plain_function(name, given.parameters)
    body = node.visit(Replacing(given.changes))
    assert isinstance(body, cst.BaseCompoundStatement)
    end = cst.parse_statement(f"return {results}")
    eager = plain.with_changes(body=cst.IndentedBlock([body.with_changes(leading_lines=()), end]))
    call = cst.parse_statement(f"{', '.join(returned)} = {name}({', '.join(given.arguments)})")
    assert isinstance(call, cst.SimpleStatementLine)
    call = call.with_changes(leading_lines=node.leading_lines)
    several = len(returned) if len(returned) > 1 else 0
    return _as_operator(syntax, name, given.parameters, several, eager, (node, call))


def of_rest(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that make a custom operator of the end of a function, from the graph break on.

    Dynamo can then trace the earlier statements, for example calls of other modules.
    """
    syntax = Syntax(site)
    function, around = _enclosing_function(syntax)
    if function is None:
        return
    body = list(function.body.body)
    at = next((number for number, one in enumerate(body) if one in around), 0)
    # Also try to begin the operator earlier: the statements may fill a tensor created there.
    possible = [
        one for one in range(1, at + 1) if _operator_parameters(syntax, function, body[one:], [])
    ]
    for first in dict.fromkeys(one for one in (at, *possible[:1]) if one in possible):
        text = _operator_of_rest(syntax, function, body, first)
        if text is not None:
            yield Candidate(
                "operator-of-rest",
                f"Turn the rest of `{function.name.value}` into a custom operator",
                text,
                gives_up=_GIVES_UP,
                phases=("export",),
            )


def _operator_of_rest(
    syntax: Syntax, function: cst.FunctionDef, body: Sequence[cst.CSTNode], at: int
) -> str | None:
    """Return the new source code in which a custom operator replaces the end of a function.

    The operator replaces the statements of ``body`` from index ``at`` on. None if they may end
    without a ``return``.
    """
    nodes = body[at:]
    returned = _returned_tensors(syntax, function, *nodes)
    inside = [each for one in nodes for each in descendants(one)]
    unmovable = (cst.FunctionDef, cst.ClassDef, *_NOT_MOVED)
    given = _operator_parameters(syntax, function, nodes, [])
    if returned is None or any(isinstance(one, unmovable) for one in inside) or given is None:
        return None
    if any({"super", "locals"} & names_in(one) for one in nodes):
        return None
    name = free_name(syntax.site, function.name, "_")
    rest = function.body.with_changes(body=nodes).visit(Replacing(given.changes))
    eager = _plain_function(name, given.parameters).with_changes(body=rest)
    call = cst.parse_statement(f"return {name}({', '.join(given.arguments)})")
    changed = function.with_changes(body=function.body.with_changes(body=[*body[:at], call]))
    return _as_operator(syntax, name, given.parameters, returned, eager, (function, changed))


@dataclass(frozen=True)
class _Given:
    """The parameters of a custom operator as (name, type), and the arguments of its call.

    ``changes`` replace expressions in the statements that the operator executes by names of
    parameters.
    """

    parameters: Sequence[tuple[str, str]]
    arguments: Sequence[str]
    changes: Sequence[tuple[cst.CSTNode, Change]]


def _operator_parameters(
    syntax: Syntax,
    function: cst.FunctionDef,
    nodes: Sequence[cst.CSTNode],
    returned: Sequence[str],
) -> _Given | None:
    """Return the parameters of a custom operator that executes ``nodes``; None if impossible.

    The statements cannot become an operator if they do not read values, change what other code
    sees, or use more of ``self`` than tensors and constants. ``returned`` are variables whose
    values are results.
    """
    outside = Outside.of(syntax.site, function, nodes[0])
    inside = [each for one in nodes for each in descendants(one)]
    variables = {
        target for one in inside if isinstance(one, cst.CompFor) for target in names_in(one.target)
    }
    variables |= {one.name.value for one in inside if isinstance(one, cst.Param)}
    stored = list(names_bound(*nodes))
    for key in stored:
        root = re.split(r"[.\[]", key)[0]
        if root not in stored or (key != root and root in outside.before):
            return None
    values = _values(syntax, function, nodes)
    if values is None:
        return None
    itself = {one.name.value for one in function.params.params[:1]} if values.changes else set()
    elsewhere = (
        global_names(syntax) | set(dir(builtins)) | variables | set(stored)
    ) - outside.before
    span = syntax.text.span(nodes[0])
    kinds = of_locals(syntax, function, span[0] if span is not None else 0)
    tensor = syntax.spelled("torch.Tensor")
    read = [key for key in names_read(*nodes) if key.isidentifier() and key not in elsewhere]
    read += [key for key in returned if key in outside.before]
    arguments = [key for key in dict.fromkeys(read) if key not in itself]
    parameters = [(key, kinds.get(key, tensor)) for key in arguments]
    parameters += [(one, kind) for one, kind, _ in values.of_module]
    arguments += [place for _, _, place in values.of_module]
    return _Given(parameters, arguments, values.changes) if parameters else None


def _leaves_block(node: cst.CSTNode) -> bool:
    """Whether a ``break`` or ``continue`` inside a statement belongs to a loop around the
    statement.
    """
    if isinstance(node, (cst.Break, cst.Continue)):
        return True
    if isinstance(node, (cst.For, cst.While)):
        return node.orelse is not None and _leaves_block(node.orelse)
    return any(map(_leaves_block, node.children))


def _read_later(syntax: Syntax, function: cst.FunctionDef, node: cst.CSTNode) -> set[str]:
    """Return the names that code of the function may read after the statement ``node``."""
    above = syntax.text.ancestors(node, until=function)
    loops = [one for one in above if isinstance(one, (cst.For, cst.While))]
    own = syntax.text.span(node) or (0, 0)
    around = syntax.text.span(loops[-1]) if loops else None
    found: set[str] = set()
    for one in descendants(function.body):
        span = syntax.text.span(one)
        if not isinstance(one, cst.Name) or span is None or own[0] <= span[0] < own[1]:
            continue
        if span[0] >= own[1] or (around is not None and span[0] >= around[0]):
            found.add(one.value)
    return found


@dataclass(frozen=True)
class _Values:
    """The values that code reads from ``self``, as parameters of a custom operator.

    Each parameter is (name, type, code that reads the value). ``changes`` replace this code by the
    names of the parameters.
    """

    of_module: Sequence[tuple[str, str, str]]
    changes: Sequence[tuple[cst.CSTNode, Change]]


def _values(
    syntax: Syntax, function: cst.FunctionDef, nodes: Sequence[cst.CSTNode]
) -> _Values | None:
    """Return the values that the statements ``nodes`` of a method read from ``self``.

    None if they do more with ``self`` than read tensors and constants.
    """
    asked = asked_for(syntax, function, nodes)
    found = of_module(syntax, function, nodes, asked)
    if found is None:
        return None
    taken = names_in(function)
    of: list[tuple[str, str, str]] = []
    changes: list[tuple[cst.CSTNode, Change]] = [(call, cst.Name("True")) for call in asked]
    for attribute, (kind, places) in found.items():
        name = attribute.lstrip("_") or "value"
        while name in taken - {attribute} or (name == attribute and _is_variable(function, name)):
            name += "_"
        of.append((name, kind, code_of(places[0])))
        changes += [(place, cst.Name(name)) for place in places]
    return _Values(of, changes)


def _is_variable(function: cst.FunctionDef, name: str) -> bool:
    return name in names_bound(function.params, function.body) or bool(reads(function.body, name))


def _plain_function(name: str, parameters: Sequence[tuple[str, str]]) -> cst.FunctionDef:
    """Return a function with these parameters (name and type) and an empty body."""
    given = ", ".join(one for one, _ in parameters)
    parsed = cst.parse_statement(f"def {name}_eager({given}):\n    pass\n")
    assert isinstance(parsed, cst.FunctionDef)
    return parsed


def _as_operator(
    syntax: Syntax,
    name: str,
    parameters: Sequence[tuple[str, str]],
    returned: Several | None,
    eager: cst.FunctionDef,
    change: tuple[cst.CSTNode, cst.BaseStatement],
    mutated: Sequence[str] = (),
    *,
    of_arrays: bool = False,
) -> str:
    """Return the new source code in which a custom operator named ``name`` calls the function
    ``eager``.

    Both are inserted before the definition that contains the change. ``parameters`` are pairs of
    name and type. ``returned`` is the form of the result. ``change`` is a node of the definition
    with its replacement, which calls the operator. ``mutated`` are the parameters that the
    operator changes in place. With ``of_arrays``, ``eager`` gets and returns NumPy arrays.
    """
    site, (node, changed) = syntax.site, change
    top = syntax.text.top_level(node)
    tensor = syntax.spelled("torch.Tensor")
    given = ", ".join(
        f"{one}.numpy()" if of_arrays and kind == tensor else one for one, kind in parameters
    )
    value = f"{name}_eager({given})"
    if of_arrays and isinstance(returned, int):
        value = _as_tensors(syntax, value, returned)
    leading = getattr(top, "leading_lines", ())
    operator = cst.parse_statement(
        _operator_definition(syntax, name, parameters, returned or 0, value, mutated)
    )
    rest = changed if top is node else top.visit(Replacing([change]))
    assert isinstance(rest, cst.BaseCompoundStatement)
    assert isinstance(operator, cst.FunctionDef)
    new = [
        eager.with_changes(leading_lines=[one for one in leading if not one.comment]),
        operator.with_changes(leading_lines=BLANK),
        # A comment above the definition may be its probe comment (the inputs to trace with), so it
        # stays there.
        rest.with_changes(leading_lines=[*BLANK, *(one for one in leading if one.comment)]),
    ]
    return site.replaced([(top, cst.FlattenSentinel(new))], imports=syntax.lacking("torch"))


def _returned_tensors(
    syntax: Syntax, function: cst.FunctionDef, *nodes: cst.CSTNode
) -> Several | None:
    """Return the form of the tensors that a function returns: the length of a tuple, 0 for a single
    tensor, or "list".

    None if the ``return`` statements have different forms, or if the function may end without
    ``return``.
    """
    listed = f"list[{tensor_type(syntax)}]"
    counts: set[Several | None] = {None} if _is_passed(nodes[-1]) else set()
    for one in walk(*nodes):
        if not isinstance(one, cst.Return):
            continue
        value = one.value
        if isinstance(value, cst.Tuple):
            stars = any(isinstance(each, cst.StarredElement) for each in value.elements)
            counts.add(None if stars else len(value.elements))
        elif value is None or code_of(value) == "None":
            counts.add(None)
        else:
            span = syntax.text.span(one) or (0, 0)
            kind = kind_of(syntax, value, of_locals(syntax, function, span[0]))
            counts.add("list" if kind == listed else 0)
    return counts.pop() if len(counts) == 1 else None


def _is_passed(node: cst.CSTNode) -> bool:
    """Whether execution may go on after a statement: it does not always end with ``return`` or
    ``raise``. Only the syntax is considered.
    """
    if isinstance(node, (cst.IndentedBlock, cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        return _is_passed(node.body[-1])
    if isinstance(node, cst.If):
        return node.orelse is None or _is_passed(node.body) or _is_passed(node.orelse)
    if isinstance(node, (cst.Else, cst.With)):
        return _is_passed(node.body)
    return not isinstance(node, (cst.Return, cst.Raise))


@dataclass(frozen=True)
class _WrappedArguments:
    """The arguments of a call that a custom operator wraps."""

    parameters: tuple[tuple[str, str], ...] = ()
    """Name of each parameter of the operator, and its type; the type is empty for a tensor."""
    outside: tuple[str, ...] = ()
    """Code of the arguments in calls of the operator."""
    inside: tuple[str, ...] = ()
    """Code of the arguments that the operator passes to the function, literals included."""


def _kinds(wrapped: _WrappedArguments) -> list[str]:
    return [kind for _, kind in wrapped.parameters]


def _arguments(
    call: cst.Call, plain_kind: Callable[[cst.BaseExpression], str], suffix: str = ""
) -> _WrappedArguments:
    """Return the arguments for a custom operator that wraps a call; none for a call with starred
    arguments.

    ``plain_kind`` returns the type of an expression for a number or a string, else "". ``suffix``
    is added to tensors inside of the operator.
    """
    parameters: dict[str, str] = {}
    outside: list[str] = []
    inside: list[str] = []
    for number, arg in enumerate(call.args):
        if arg.star:
            return _WrappedArguments()
        keyword = f"{arg.keyword.value}=" if arg.keyword is not None else ""
        code = code_of(arg.value)
        if isinstance(arg.value, _LITERALS) or code in _CONSTANTS:
            inside.append(keyword + code)
            continue
        last = dotted_name(arg.value).rpartition(".")[2]
        name = last if last and last not in parameters else f"input{number}"
        parameters[name] = plain_kind(arg.value)
        outside.append(code)
        inside.append(keyword + name + ("" if parameters[name] else suffix))
    return _WrappedArguments(tuple(parameters.items()), tuple(outside), tuple(inside))


def _constant_arguments(call: cst.Call) -> list[tuple[str, str]]:
    """Return the keyword and the code of each argument of a call; the code is empty unless it is a
    constant."""
    return [
        (
            one.keyword.value if one.keyword is not None else "",
            code if isinstance(one.value, _LITERALS) or code in _CONSTANTS else "",
        )
        for one in call.args
        if (code := code_of(one.value))
    ]


def _taken_apart(syntax: Syntax, call: cst.Call) -> int:
    """Return the number of variables into which an assignment unpacks the result of a call; 0
    without unpacking.
    """
    small = syntax.small
    if small is None or getattr(small.node, "value", None) is not call:
        return 0
    names = [
        bound_variables(one)
        for one in targets(small.node)
        if isinstance(one, (cst.Tuple, cst.List))
    ]
    return len(names[0]) if names and names[0] else 0


def add_fake_kernels(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that adds a fake kernel for a custom operator of the file.

    Each size of its result must be the size of an input, or a constant, in all recorded calls.
    """
    evidence = site.finding.evidence
    if not isinstance(evidence, ExportEvidence) or not evidence.calls:
        return
    namespace, _, rest = evidence.operator.partition(".")
    name = f"{namespace}::{rest.partition('.')[0]}"
    syntax = Syntax(site)
    if name in _registered_kernels(syntax):
        return
    for function in find_all(syntax.module, cst.FunctionDef):
        if name not in (_defined_operator(syntax, one.decorator) for one in function.decorators):
            continue
        parameters = [one.name.value for one in function.params.params]
        formula = _register_derivative(syntax, function, evidence.calls)
        for outputs in _kernel_results(syntax, evidence.calls, parameters):
            kernel = cst.parse_statement(
                f"@{function.name.value}.register_fake\n"
                f"def _({', '.join(parameters)}):\n    return {outputs}\n",
                syntax.module.config_for_parsing,
            )
            assert isinstance(kernel, cst.FunctionDef)
            new: list[Statement] = [_check_results(syntax, function, evidence.calls, outputs)]
            new += [kernel.with_changes(leading_lines=BLANK)]
            yield Candidate(
                "fake-kernel",
                f"Register a fake kernel of `{name}`",
                site.replaced([(function, cst.FlattenSentinel(new))]),
                gives_up="The sizes in the fake kernel are derived from recorded calls.",
                phases=("export",),
            )
            if not formula:
                continue
            new += [one.with_changes(leading_lines=BLANK) for one in formula]
            yield Candidate(
                "fake-kernel-and-gradient",
                f"Register a fake kernel and the gradient of `{name}`",
                site.replaced([(function, cst.FlattenSentinel(new))]),
                gives_up="The sizes in the fake kernel are derived from recorded calls, and the "
                "backward pass repeats the forward computation.",
                phases=("export",),
            )


def _register_derivative(
    syntax: Syntax, function: cst.FunctionDef, calls: Sequence[OperatorCall]
) -> list[Statement]:
    """Return statements that register the gradient of a custom operator; empty if impossible.

    ``torch.func.vjp`` of ``function``, which the operator calls, computes the gradient. This is
    impossible if the function does not have a gradient, or if its conditions depend on data.
    """
    inner = _only_call(function)
    parameters = [one.name.value for one in function.params.params]
    smooth = [
        name
        for at, name in enumerate(parameters)
        if all(_is_float(one.inputs[at]) for one in calls)
    ]
    outputs = [form for one in calls for form in one.outputs]
    plain = inner in global_names(syntax) and not _without_gradient(syntax, inner)
    if any(of for one in calls for of in one.lists):
        return []  # only tensors can be saved for the gradient
    if not plain or not smooth or not all(map(_is_float, outputs)):
        return []
    torch = syntax.spelled("torch.Tensor").rpartition(".")[0]
    name = function.name.value
    backward, count = f"{name}_backward", len(calls[0].outputs)
    grads = [f"grad{number}" for number in range(count)] if calls[0].several else ["grad"]
    tensors = [one for at, one in enumerate(parameters) if calls[0].inputs[at] is not None]
    given = ", ".join(parameters)
    typed = ", ".join(
        [f"{one}: {torch}.Tensor" for one in grads]
        + [
            code_of(one.with_changes(comma=cst.MaybeSentinel.DEFAULT))
            for one in function.params.params
        ]
    )
    of = ", ".join(smooth)
    grad = f"({', '.join(grads)},)" if calls[0].several else "grad"
    saved = "".join(f"    ctx.{one} = {one}\n" for one in parameters if one not in tensors)
    kept = ", ".join(one if one in tensors else f"ctx.{one}" for one in parameters)
    chosen = ", ".join(
        f"gradients[{smooth.index(one)}]" if one in smooth else "None" for one in parameters
    )
    code = f"""\
@{torch}.library.custom_op("custom::{backward.strip("_")}", mutates_args=())
def {backward}({typed}) -> list[{torch}.Tensor]:
    _, pullback = {torch}.func.vjp(lambda {of}: {inner}({given}), {of})
    return [one.clone() for one in pullback({grad})]

@{backward}.register_fake
def _({", ".join(grads)}, {given}):
    return [{torch}.empty_like(one) for one in ({of},)]

def {name}_inputs(ctx, inputs, output):
    {given}{"," if len(parameters) == 1 else ""} = inputs
    ctx.save_for_backward({", ".join(tensors)})
{saved}
def {name}_gradient(ctx, {", ".join(grads)}):
    {", ".join(tensors)}{"," if len(tensors) == 1 else ""} = ctx.saved_tensors
    gradients = {backward}({", ".join(grads)}, {kept})
    return {chosen}

{name}.register_autograd({name}_gradient, setup_context={name}_inputs)
"""
    return list(cst.parse_module(code, syntax.module.config_for_parsing).body)


def _check_results(
    syntax: Syntax, function: cst.FunctionDef, calls: Sequence[OperatorCall], outputs: str
) -> cst.FunctionDef:
    """Return a custom operator that also checks the sizes and dtypes of its results against its
    fake kernel.

    The check raises during execution if they differ. It is needed because the data of tensors may
    decide the sizes. ``outputs`` is the code that creates the results of the fake kernel.
    """
    returned = function.body.body[0] if len(function.body.body) == 1 else None
    called = {dotted_name(one.func) for one in walk(function.body) if isinstance(one, cst.Call)}
    if not m.matches(returned, m.SimpleStatementLine([m.Return()])):  # type: ignore[arg-type]
        return function
    if called.isdisjoint(global_names(syntax)):
        return function
    value = code_of(function.body).strip().removeprefix("return ")
    several = calls[0].several
    torch = syntax.spelled("torch.Tensor").rpartition(".")[0]
    results = [f"result{number}" for number in range(len(calls[0].outputs))]
    made = ", ".join(results) + ("," if len(results) == 1 else "") if several else "result"
    pairs = "".join(
        f"    {torch}._check(({one}.shape, {one}.dtype) == ({other}.shape, {other}.dtype))\n"
        for one, other in (
            [(one, f"expected[{at}]") for at, one in enumerate(results)]
            if several
            else [("result", "expected")]
        )
    )
    body = cst.parse_statement(
        f"def _():\n    {made} = {value}\n    expected = {outputs}\n{pairs}    return {made}\n",
        syntax.module.config_for_parsing,
    )
    assert isinstance(body, cst.FunctionDef)
    return function.with_changes(body=body.body)


def _is_float(form: TensorForm | None) -> bool:
    return form is not None and form.dtype.startswith(("float", "bfloat"))


def _only_call(function: cst.FunctionDef) -> str:
    """Return the name of the function to which ``function`` passes all its arguments.

    Empty if ``function`` does anything else.
    """
    code = code_of(function.body).strip()
    given = ", ".join(one.name.value for one in function.params.params)
    match = re.fullmatch(r"return (\w+)\((.*)\)", code)
    return match[1] if match is not None and match[2] == given else ""


def _without_gradient(syntax: Syntax, name: str) -> bool:
    return any(
        isinstance(one, cst.FunctionDef) and one.name.value == name and bool(one.decorators)
        for one in syntax.module.body
    )


def _defined_operator(syntax: Syntax, decorator: cst.BaseExpression) -> str:
    """Return the name of the custom operator that a decorator defines, or "" for other
    decorators.
    """
    if syntax.called(decorator) != _DEFINES:
        return ""
    first = cst.ensure_type(decorator, cst.Call).args[:1]
    value = first[0].value if first else None
    text = value.evaluated_value if isinstance(value, cst.SimpleString) else ""
    return text if isinstance(text, str) else ""


def _registered_kernels(syntax: Syntax) -> set[str]:
    """Return the custom operators with a fake kernel, each as its registration names it."""
    text = syntax.module.code
    found = set(re.findall(r"""register_fake\(\s*["'](\w+::\w+)["']""", text))
    functions = set(re.findall(r"(\w+)\.register_fake\b", text))
    for function in find_all(syntax.module, cst.FunctionDef):
        if function.name.value in functions:
            found |= {_defined_operator(syntax, one.decorator) for one in function.decorators}
    return found


# -- sizes ----------------------------------------------------------------------------------------


def _kernel_results(
    syntax: Syntax, calls: Sequence[OperatorCall], parameters: Sequence[str]
) -> Iterator[str]:
    """Yield the code of each result of a fake kernel; its sizes are right for all recorded calls.

    Yield nothing if the sizes of inputs do not determine the results.
    """
    first = calls[0]
    alike = all(
        len(one.outputs) == len(first.outputs) and len(one.inputs) == len(first.inputs)
        for one in calls
    )
    if not alike or len(first.inputs) != len(parameters) or any(map(_is_empty, calls)):
        return
    for strided in (False, True):
        made = [
            _kernel_result(syntax, calls, number, parameters, strided=strided)
            for number in range(len(first.outputs))
        ]
        written = [one for one in made if one is not None]
        if len(written) == len(made):
            comma = "," if len(written) == 1 else ""
            yield f"({', '.join(written)}{comma})" if first.several else written[0]


def _is_empty(call: OperatorCall) -> bool:
    return not any(call.inputs) and not any(call.lists)


def _kernel_result(
    syntax: Syntax,
    calls: Sequence[OperatorCall],
    number: int,
    parameters: Sequence[str],
    *,
    strided: bool,
) -> str | None:
    """Return code that creates a tensor with the sizes of the output ``number`` in all ``calls``.

    Return None if the sizes of the inputs do not determine these sizes. With ``strided``, the
    tensor gets the strides of an input with the same sizes.
    """
    outputs = [one.outputs[number] for one in calls]
    given: dict[str, list[TensorForm]] = {}
    lists: dict[str, list[tuple[TensorForm, ...]]] = {}
    for at, name in enumerate(parameters):
        forms = [form for one in calls if (form := one.inputs[at]) is not None]
        if len(forms) == len(calls):
            given[name] = forms
        listed = [one.lists[at] if one.lists else () for one in calls]
        if len({len(one) for one in listed}) == 1:
            for place in range(len(listed[0])):
                given[f"{name}[{place}]"] = [one[place] for one in listed]
        if all(listed):
            lists[name] = listed
    if not given or len({len(one.sizes) for one in outputs}) != 1:
        return None
    dtypes = [one.dtype for one in outputs]
    like = next((name for name in given if [one.dtype for one in given[name]] == dtypes), "")
    if not like and len(set(dtypes)) != 1:
        return None
    if strided and like and [one.sizes for one in given[like]] == [one.sizes for one in outputs]:
        return f"{syntax.spelled('torch.empty_like')}({like})"
    dtype = "" if like else f", dtype={syntax.spelled(f'torch.{dtypes[0]}')}"
    sizes = [
        _size_of_input(wanted, given) or _size_of_list(wanted, lists) or _constant_size(wanted)
        for dim in range(_rank(outputs))
        if (wanted := [one.sizes[dim] for one in outputs])
    ]
    if not all(sizes):
        return None
    comma = "," if len(sizes) == 1 else ""
    return f"{like or next(iter(given))}.new_empty(({', '.join(sizes)}{comma}){dtype})"


def _rank(forms: Sequence[TensorForm]) -> int:
    return min(len(one.sizes) for one in forms)


def _size_of_input(wanted: Sequence[int], given: Mapping[str, Sequence[TensorForm]]) -> str:
    """Return code for the size of an input that equals ``wanted`` in all calls; empty if no input
    has such a size.

    ``wanted`` has the size in each recorded call, ``given`` the inputs in each call by name.
    """
    for name, forms in given.items():
        for axis in range(_rank(forms)):
            if [one.sizes[axis] for one in forms] == wanted:
                return f"{name}.shape[{axis}]"
    return ""


def _size_of_list(
    wanted: Sequence[int], lists: Mapping[str, Sequence[Sequence[TensorForm]]]
) -> str:
    """Return code for a sum that equals ``wanted`` in all calls; empty if there is none.

    The sum is of the sizes, in one dimension, of all tensors in a list. ``wanted`` has the size in
    each recorded call, ``lists`` the lists in each call by name.
    """
    for name, listed in lists.items():
        for axis in range(min(map(_rank, listed))):
            if [sum(one.sizes[axis] for one in forms) for forms in listed] == wanted:
                return f"sum(one.shape[{axis}] for one in {name})"
    return ""


def _constant_size(wanted: Sequence[int]) -> str:
    return str(wanted[0]) if len(set(wanted)) == 1 else ""
