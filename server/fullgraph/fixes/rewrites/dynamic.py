"""Rewrites that make sizes dynamic from the first call on; Dynamo does so only at the second
call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.placing import insert_before
from fullgraph.fixes.rewrites.syntax import Syntax, callee, dotted_name
from fullgraph.fixes.site import Site
from fullgraph_engine.protocol.evidence import RecompileEvidence

_LOCAL = re.compile(r"^L\['(?P<name>\w+)'\]$")
_SIZE = re.compile(r"^`(?P<name>\w+)\.shape\[(?P<axis>\d+)\]` was (?P<size>\d+),")
_MARKS = {False: "torch._dynamo.mark_dynamic", True: "torch._dynamo.decorators.mark_unbacked"}
"""Name of the function that marks a size as dynamic, by whether the size at the first call is 0 or
1."""
_NEEDS_CONSTANT = "Compiling raises where code needs such a size to be a constant."
_NEEDS_TO_KNOW = "Compiling raises where code depends on such a size."
_MOST_PLACES = 4
"""Maximum number of calls of ``torch.compile``, or of the function, to try."""


def dynamic(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that make a size dynamic from the first call on.

    A rewrite uses ``dynamic=True`` where the file compiles the function, or ``mark_dynamic`` where
    the file calls the function. ``mark_unbacked`` is for a first size of 0 or 1, which Dynamo
    otherwise makes a constant.
    """
    evidence = site.finding.evidence
    if not isinstance(evidence, RecompileEvidence) or not evidence.detail.startswith("size "):
        return
    syntax = Syntax(site)
    for node in _compile_calls(syntax, evidence.function)[:_MOST_PLACES]:
        new = _with_dynamic(node)
        if new is not None:
            yield Candidate(
                "dynamic",
                f"Compile `{evidence.function}` with `dynamic=True`",
                site.replaced([(node, new)]),
                preserves=True,
                gives_up="All its sizes are dynamic, so that the compiled code may be slower.",
            )
    yield from _mark_arguments(syntax, evidence)


def _compile_calls(syntax: Syntax, function: str) -> list[cst.BaseExpression]:
    """Return the expressions that compile ``function``: a decorator or calls of
    ``torch.compile``.
    """
    found: list[cst.BaseExpression] = []
    for node in m.findall(syntax.module, m.FunctionDef(name=m.Name(function))):
        decorators = [one.decorator for one in cst.ensure_type(node, cst.FunctionDef).decorators]
        found += [one for one in decorators if _is_compile(syntax, one)]
    for call in m.findall(syntax.module, m.Call()):
        assert isinstance(call, cst.Call)
        if syntax.called(call) == "torch.compile" and call.args:
            given = dotted_name(call.args[0].value).rpartition(".")[2]
            # Compiling a module compiles its ``forward``.
            if given == function or (function == "forward" and call.args[0].keyword is None):
                found.append(call)
    return found


def _is_compile(syntax: Syntax, node: cst.BaseExpression) -> bool:
    return syntax.name(callee(node)) == "torch.compile"


def _with_dynamic(node: cst.BaseExpression) -> cst.Call | None:
    """Return a ``torch.compile`` expression with ``dynamic=True``; None if it has that argument
    already.
    """
    argument = cst.Arg(
        cst.Name("True"),
        cst.Name("dynamic"),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if not isinstance(node, cst.Call):
        return cst.Call(node, [argument])
    if any(arg.star or (arg.keyword and arg.keyword.value == "dynamic") for arg in node.args):
        return None
    if not node.args:
        return node.with_changes(args=[argument])
    *first, last = node.args
    if not isinstance(last.comma, cst.Comma):
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        return node.with_changes(args=[*first, last.with_changes(comma=comma), argument])
    # Text after the last comma, for example a comment, stays with the argument before it.
    after, indent = last.comma.whitespace_after, node.whitespace_before_args
    end = last.comma
    if isinstance(after, cst.ParenthesizedWhitespace):
        end = end.with_changes(
            whitespace_after=after.with_changes(
                first_line=after.first_line.with_changes(
                    whitespace=cst.SimpleWhitespace(""), comment=None
                ),
                empty_lines=[],
            )
        )
        if isinstance(indent, cst.ParenthesizedWhitespace):
            after = after.with_changes(last_line=indent.last_line)
    else:
        after = cst.SimpleWhitespace(" ")
    between = last.comma.with_changes(whitespace_after=after)
    return node.with_changes(
        args=[*first, last.with_changes(comma=between), argument.with_changes(comma=end)]
    )


def _mark_arguments(syntax: Syntax, evidence: RecompileEvidence) -> Iterator[Candidate]:
    """Yield rewrites that mark the arguments of a function as dynamic before it is called.

    ``evidence`` names the function and the argument that recompiles.
    """
    sizes: dict[tuple[str, str], bool] = {}
    for guard in evidence.guards:
        local, size = _LOCAL.match(guard.source), _SIZE.match(guard.words)
        if local and size:
            key = local["name"], size["axis"]
            sizes[key] = size["size"] in ("0", "1") or sizes.get(key, False)
    defined = m.findall(syntax.module, m.FunctionDef(name=m.Name(evidence.function)))
    if not sizes or len(defined) != 1:
        return
    params = cst.ensure_type(defined[0], cst.FunctionDef).params
    names = [one.name.value for one in (*params.posonly_params, *params.params)]
    called = {evidence.function, *_compiled_names(syntax, evidence.function)}
    calls = [
        call
        for call in m.findall(syntax.module, m.Call())
        if isinstance(call, cst.Call) and dotted_name(call.func).rpartition(".")[2] in called
    ]
    for call in calls[:_MOST_PLACES]:
        given = _arguments_by_name(call, names)
        tensors = [(given.get(name), axis, small) for (name, axis), small in sizes.items()]
        if any(not isinstance(tensor, cst.Name) for tensor, _, _ in tensors):
            continue
        marks = {small: syntax.spelled(_MARKS[small]) for _, _, small in tensors}
        codes = [
            f"{marks[small]}({syntax.site.code(one)}, {axis})"
            for one, axis, small in tensors
            if one is not None
        ]
        lines = [cst.Expr(syntax.expression(code)) for code in codes]
        # If the caller is traced as well, Dynamo refuses to trace the call that marks a size.
        test = syntax.expression(f"not {syntax.spelled('torch.compiler.is_compiling')}()")
        eager = cst.If(test, cst.IndentedBlock([cst.SimpleStatementLine([one]) for one in lines]))
        imports = [one for mark in marks.values() for one in syntax.imports_for(mark)]
        for new in (lines, [eager]):
            changes = insert_before(syntax.site, call, new)
            if changes is not None:
                yield Candidate(
                    "mark-unbacked" if True in marks else "mark-dynamic",
                    f"Mark what varies by `{codes[0]}`",
                    syntax.site.replaced(changes, imports=list(dict.fromkeys(imports))),
                    preserves=True,
                    gives_up=_NEEDS_TO_KNOW if True in marks else _NEEDS_CONSTANT,
                )


def _compiled_names(syntax: Syntax, function: str) -> Iterator[str]:
    """Yield the names that the file gives to the compiled version of ``function``."""
    for assign in m.findall(syntax.module, m.Assign(value=m.Call())):
        assert isinstance(assign, cst.Assign)
        value = cst.ensure_type(assign.value, cst.Call)
        given = value.args[0].value if value.args else None
        compiled = syntax.called(value) == "torch.compile"
        if compiled and dotted_name(given).rpartition(".")[2] == function:
            yield from (dotted_name(one.target).rpartition(".")[2] for one in assign.targets)


def _arguments_by_name(call: cst.Call, names: list[str]) -> dict[str, cst.BaseExpression]:
    """Return the arguments of a call by parameter name, up to the first starred argument.

    ``names`` are the parameters in order.
    """
    if isinstance(call.func, cst.Attribute) and names[:1] == ["self"]:
        names = names[1:]
    found: dict[str, cst.BaseExpression] = {}
    for number, arg in enumerate(call.args):
        if arg.star:
            break
        if arg.keyword is not None:
            found[arg.keyword.value] = arg.value
        elif number < len(names):
            found[names[number]] = arg.value
    return found
