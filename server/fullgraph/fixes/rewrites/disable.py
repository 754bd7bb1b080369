"""The last resort: move code that cannot be traced to a new function that Dynamo does not trace."""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import descendants, variables_in
from fullgraph.fixes.rewrites.syntax import (
    Syntax,
    assigned_value,
    callee,
    dotted_name,
    import_name,
    names_in,
)
from fullgraph.fixes.site import Change, Replacing, Site

_BUILTINS = frozenset(dir(builtins))


@dataclass(frozen=True)
class _Way:
    """A decorator that prevents Dynamo from tracing a function, with the title of its rewrite."""

    rewrite: str
    decorator: str
    title: str
    gives_up: str
    suggestion: bool = False


_CONSTANT = _Way(
    "assume-constant",
    "torch.compiler.assume_constant_result",
    "Compute `{code}` once, when compiling",
    "Compiled code uses the value from the time of its compilation.",
    suggestion=True,
)
_NONSTRICT = _Way(
    "nonstrict-trace",
    "torch._dynamo.nonstrict_trace",
    "Trace `{code}` without Dynamo, with `nonstrict_trace`",
    "Side effects of the call happen only once, at compilation, and its conditions are decided "
    "then.",
)
_IN_GRAPH = _Way(
    "allow-in-graph",
    "torch.compiler.allow_in_graph",
    "Put `{code}` into the graph as it is, with `allow_in_graph`",
    "Side effects of the call are not checked, and its result must be a function of tensors.",
    suggestion=True,
)
_DISABLE = _Way(
    "disable",
    "torch.compiler.disable",
    "Keep `{code}` out of compiled code, in a function of its own",
    "The graph still breaks here, but only around this call, and the code makes it explicit.",
    suggestion=True,
)


_CHANGING = ("random.", "numpy.random.", "time.", "datetime.", "os.", "uuid.")
"""Beginnings of the names of functions that may return another value in each call."""
_STEADY = (
    *("inspect.", "platform.", "sys.", "hashlib.", "json.loads", "re."),
    *("os.environ.", "os.getenv", "os.path.", "os.cpu_count", "shutil.which", "socket.gethostname"),
)
"""Functions that always return the same value for the same arguments during a program."""


def left_untraced(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that move the call with the finding to a function that Dynamo does not trace.

    Each rewrite uses another decorator that prevents tracing.
    """
    syntax = Syntax(site)
    part = smallest_call(syntax)
    if part is None or _is_disabled(syntax, part):
        return
    names = _used_variables(syntax, part)
    if names is None:
        return
    nonstrict = _NONSTRICT
    if not names or syntax.called(part).startswith(_CHANGING):
        nonstrict = replace(nonstrict, suggestion=True)
    is_statement = isinstance(syntax.text.parent(part), cst.Expr)
    ways = [nonstrict, _DISABLE]
    if not is_statement:
        # A call without a used result has side effects only; a graph would drop the call.
        ways.append(_IN_GRAPH)
    if syntax.called(part).startswith(_STEADY) and not is_statement:
        ways.insert(0, replace(_CONSTANT, suggestion=False))
    elif not names and not is_statement:
        ways.insert(0, _CONSTANT)
    for way in ways:
        text = _extract_function(syntax, part, names, way)
        if text is not None:
            code = " ".join(site.code(part).split())
            short = code if len(code) <= 40 else f"{code[:37]}..."
            yield Candidate(
                way.rewrite,
                way.title.format(code=short),
                text,
                gives_up=way.gives_up,
                suggestion=way.suggestion,
            )


def _is_disabled(syntax: Syntax, part: cst.BaseExpression) -> bool:
    """Whether an expression calls a function of the file that ``torch.compiler.disable`` decorates:
    the graph breaks there on purpose.
    """
    called = dotted_name(part.func) if isinstance(part, cst.Call) else ""
    return any(
        isinstance(one, cst.FunctionDef)
        and one.name.value == called
        and any(
            syntax.name(callee(each.decorator)) == "torch.compiler.disable"
            for each in one.decorators
        )
        for one in syntax.module.body
    )


def smallest_call(syntax: Syntax) -> cst.BaseExpression | None:
    """Return the smallest call that contains the finding; None if there is none."""
    for node in syntax.around:
        if isinstance(node, cst.Call):
            return node
    small = syntax.small
    value = assigned_value(small.node) if small is not None else None
    # Without a column, the finding may be anywhere in the statement.
    return value if isinstance(value, cst.Call) and not syntax.around else None


def _used_variables(syntax: Syntax, part: cst.BaseExpression) -> list[str] | None:
    """Return the local variables that an expression reads; None if the expression cannot be
    moved.
    """
    if syntax.function is None:
        return None
    for node in (part, *syntax.text.ancestors(part)):
        if isinstance(node, (cst.Lambda, cst.CompFor, cst.BaseComp)):
            return None
        if node is syntax.function:
            break
    inner = descendants(part)
    unmovable = (cst.Await, cst.Yield, cst.NamedExpr, cst.StarredElement)
    own: set[str] = set()
    for node in inner:
        if isinstance(node, unmovable) or dotted_name(node) in ("super", "locals", "__class__"):
            return None
        if isinstance(node, (cst.Param, cst.CompFor)):
            target = node.name if isinstance(node, cst.Param) else node.target
            own |= names_in(target)
    elsewhere = (global_names(syntax) | _BUILTINS) - _bound_names(syntax)
    return [name for name in dict.fromkeys(variables_in(part)) if name not in own | elsewhere]


def global_names(syntax: Syntax) -> set[str]:
    """Return the names that module-level statements bind."""
    found: set[str] = set()
    for statement in syntax.module.body:
        if isinstance(statement, (cst.FunctionDef, cst.ClassDef)):
            found.add(statement.name.value)
            continue
        for node in descendants(statement):
            if isinstance(node, (cst.AssignTarget, cst.AnnAssign)):
                found |= names_in(node.target)
            elif isinstance(node, cst.ImportAlias):
                found.add(import_name(node))
    return found


def _bound_names(syntax: Syntax) -> set[str]:
    """Return the names that the functions around the finding bind."""
    found: set[str] = set()
    function = syntax.function
    if function is None:
        return found
    above = syntax.text.ancestors(function)
    outermost = [function, *(one for one in above if isinstance(one, cst.FunctionDef))][-1]
    for node in descendants(outermost):
        if isinstance(node, cst.Param):
            found.add(node.name.value)
        elif isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.AugAssign, cst.For)):
            found |= names_in(node.target)
        elif isinstance(node, cst.AsName):
            found |= names_in(node.name)
        elif isinstance(node, cst.ImportAlias):
            found.add(import_name(node))
    return found


def _extract_function(
    syntax: Syntax, part: cst.BaseExpression, names: Sequence[str], way: _Way
) -> str | None:
    """Return the new text in which a new decorated function contains an expression, and a call
    replaces the expression.

    ``names`` are the variables that the expression reads, and ``way`` is the decorator.
    """
    name = free_name(syntax.site, part, "_untraced_")
    parameters = ", ".join(names)
    body = syntax.site.code(part)
    if "\n" in body:
        body = f"({body})"
    function = f"@{syntax.spelled(way.decorator)}\ndef {name}({parameters}):\n    return {body}\n"
    return in_function(syntax, [(part, f"{name}({parameters})")], function)


def in_function(
    syntax: Syntax, changes: Sequence[tuple[cst.BaseExpression, str]], definition: str
) -> str | None:
    """Return the new source code with the expressions in ``changes`` replaced by other code.

    The code ``definition`` is added before the module-level statement around the expressions.
    """
    top = syntax.text.top_level(changes[0][0])
    parsed = [(part, syntax.expression(code)) for part, code in changes]
    return insert_definitions(syntax, top, definition, parsed)


def insert_definitions(
    syntax: Syntax,
    top: cst.CSTNode,
    definitions: str,
    changes: Sequence[tuple[cst.CSTNode, Change]],
    *,
    blank_first: bool = False,
) -> str:
    """Return the text with ``changes`` of the module-level statement ``top``, and definitions
    before it.

    The first definition gets the blank lines of the statement, or two with ``blank_first``.
    """
    site = syntax.site
    leading = [one for one in getattr(top, "leading_lines", ()) if not one.comment]
    made: list[cst.CSTNode] = []
    for one in cst.parse_module(definitions, site.module.config_for_parsing).body:
        assert isinstance(one, (cst.FunctionDef, cst.SimpleStatementLine))
        made.append(one.with_changes(leading_lines=BLANK if made or blank_first else leading))
    rest = top.visit(Replacing(changes))
    assert isinstance(rest, (cst.BaseCompoundStatement, cst.SimpleStatementLine))
    comments = [one for one in rest.leading_lines if one.comment]
    rest = rest.with_changes(leading_lines=[*BLANK, *comments])
    return site.replaced(
        [(top, cst.FlattenSentinel([*made, rest]))], imports=syntax.lacking("torch")
    )


BLANK = [cst.EmptyLine(indent=False)] * 2
"""Blank lines between definitions."""


def free_name(site: Site, part: cst.BaseExpression, prefix: str) -> str:
    """Return a name for a new function that does not occur in the file yet.

    It begins with ``prefix``, and is derived from the expression ``part``.
    """
    called = part.func if isinstance(part, cst.Call) else part
    last = called.attr.value if isinstance(called, cst.Attribute) else dotted_name(called)
    name = prefix + (last.strip("_") or "value")
    number = 1
    while re.search(rf"\b{name}\b", site.text.text):
        number += 1
        name = re.sub(r"\d*$", "", name) + str(number)
    return name
