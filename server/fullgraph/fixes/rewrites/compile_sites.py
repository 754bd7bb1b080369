"""Places where a file compiles a function, and where it calls the compiled function."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.rewrites.names import code_of, find_all, named_parameters
from fullgraph.fixes.rewrites.syntax import Syntax, callee, dotted_name
from fullgraph_engine.protocol import Finding
from fullgraph_engine.protocol.evidence import GuardFailure, RecompileEvidence

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(\w+)_at_\d+$")
_MOST_PLACES = 4
"""Maximum number of ``torch.compile`` calls or decorators of a function that rewrites change."""


def guard_of(finding: Finding) -> GuardFailure | None:
    """Return the failed guard that a finding of a recompile is about; None for other findings."""
    evidence = finding.evidence
    if not isinstance(evidence, RecompileEvidence):
        return None
    words = [one.words for one in finding.names]
    return next((one for one in evidence.guards if one.words in words), None)


def compiled_name(function: str) -> str:
    """Return the name that the file gives to a compiled function.

    After a graph break, Dynamo compiles the rest of the function under a generated name. For this
    name, the name of the original function is returned.
    """
    resumed = _RESUMED.match(function)
    return resumed[1] if resumed else function


def compiled_function(syntax: Syntax, function: str, target: str) -> cst.FunctionDef | None:
    """Return the definition of a compiled function; None without one, or if there are several.

    ``target`` is the function or class that the program compiles, such as ``Net`` or
    ``Net.update``; it selects one of several methods ``forward``.
    """
    named = m.FunctionDef(name=m.Name(compiled_name(function)))
    found = [*find_all(syntax.module, cst.FunctionDef, named)]
    if len(found) > 1:
        kinds = [syntax.text.around(one, cst.ClassDef) for one in found]
        path = target.split(".")
        pairs = zip(found, kinds, strict=True)
        found = [one for one, kind in pairs if kind is not None and kind.name.value in path]
    return found[0] if len(found) == 1 else None


def compile_expressions(syntax: Syntax, function: str) -> list[cst.BaseExpression]:
    """Return the expressions that compile ``function``: a decorator, or calls of ``torch.compile``
    or of ``Module.compile``.
    """
    function = compiled_name(function)
    found: list[cst.BaseExpression] = []
    for node in m.findall(syntax.module, m.FunctionDef(name=m.Name(function))):
        decorators = [one.decorator for one in cst.ensure_type(node, cst.FunctionDef).decorators]
        found += [one for one in decorators if _is_compile(syntax, one)]
    for call in find_all(syntax.module, cst.Call):
        given = _compiled_argument(syntax, call)
        if given is not None and (function == "forward" or _is_called(given, function)):
            # Compiling a module compiles its ``forward``.
            found.append(call)
        elif function == "forward" and _is_module_compile(syntax, call):
            found.append(call)
    if not found:
        # If the function is not compiled itself, a compiled function may call it after a graph
        # break.
        found = [
            call
            for call in find_all(syntax.module, cst.Call)
            if _compiled_argument(syntax, call) is not None
        ]
    return found[:_MOST_PLACES]


def _compiled_argument(syntax: Syntax, call: cst.Call) -> cst.BaseExpression | None:
    if syntax.called(call) != "torch.compile" or not call.args:
        return None
    first = call.args[0]
    is_model = first.keyword is None or first.keyword.value == "model"
    return first.value if is_model else None


def _is_called(given: cst.BaseExpression, function: str) -> bool:
    if isinstance(given, cst.Lambda):
        return function == "<lambda>"
    return dotted_name(given).rpartition(".")[2] == function


def _is_compile(syntax: Syntax, node: cst.BaseExpression) -> bool:
    return syntax.name(callee(node)) == "torch.compile"


def _is_module_compile(syntax: Syntax, call: cst.Call) -> bool:
    named = isinstance(call.func, cst.Attribute) and call.func.attr.value == "compile"
    return named and syntax.called(call) not in ("torch.compile", "re.compile")


@dataclass(frozen=True)
class CompiledCallSite:
    """A call of a compiled function, with its arguments by the names of parameters."""

    node: cst.Call
    arguments: dict[str, cst.BaseExpression]


def compiled_calls(syntax: Syntax, function: str) -> list[CompiledCallSite]:
    """Return the calls of a compiled function in the file, in the order of the text.

    Without a definition of the function in the file, there are none.
    """
    function = compiled_name(function)
    parameters = _parameters(syntax, function)
    if parameters is None:
        return []
    called = {function, *_compiled_names(syntax, function)}
    found = []
    for call in find_all(syntax.module, cst.Call):
        is_library = syntax.called(call).startswith("torch.")
        is_named = dotted_name(call.func).rpartition(".")[2] in called and not is_library
        if is_named or _is_compiled_here(syntax, call):
            found.append(CompiledCallSite(call, _arguments_by_name(call, parameters)))
    return found


def _is_compiled_here(syntax: Syntax, call: cst.Call) -> bool:
    """Whether a call is of the form ``torch.compile(f)(x)``."""
    return isinstance(call.func, cst.Call) and _compiled_argument(syntax, call.func) is not None


def _parameters(syntax: Syntax, function: str) -> list[str] | None:
    """Return the names of a function's parameters.

    If the file defines the name several times, such as ``forward`` in several classes, the
    definition around the finding counts. None if the file does not have such a definition.
    """
    if function == "<lambda>":
        compiled = [_compiled_argument(syntax, one) for one in _compiling(syntax)]
        lambdas = [one for one in compiled if isinstance(one, cst.Lambda)]
        return [one.name.value for one in lambdas[0].params.params] if len(lambdas) == 1 else None
    defined = m.findall(syntax.module, m.FunctionDef(name=m.Name(function)))
    if len(defined) > 1:
        defined = [one for one in defined if one is syntax.site.function]
    if len(defined) != 1:
        return None
    return named_parameters(cst.ensure_type(defined[0], cst.FunctionDef))


def _compiling(syntax: Syntax) -> Iterator[cst.Call]:
    for call in find_all(syntax.module, cst.Call):
        if syntax.called(call) == "torch.compile":
            yield call


def _compiled_names(syntax: Syntax, function: str) -> Iterator[str]:
    """Yield the names of the variables and attributes that hold the compiled version of
    ``function``.

    For ``forward``, these are the names of all compiled modules, because modules are not named
    after it.
    """
    for assign in find_all(syntax.module, cst.Assign, m.Assign(value=m.Call())):
        value = cst.ensure_type(assign.value, cst.Call)
        given = _compiled_argument(syntax, value)
        if given is not None and (function == "forward" or _is_called(given, function)):
            yield from (dotted_name(one.target).rpartition(".")[2] for one in assign.targets)
    if function == "forward":
        yield from _names_of_objects(syntax)
    for call in m.findall(syntax.module, m.Call()) if function == "forward" else ():
        if isinstance(call, cst.Call) and _is_module_compile(syntax, call):
            owner = cst.ensure_type(call.func, cst.Attribute).value
            yield dotted_name(owner).rpartition(".")[2]


def _names_of_objects(syntax: Syntax) -> Iterator[str]:
    """Yield the variables and attributes that hold an object of a class whose ``forward`` is
    decorated with ``torch.compile``."""
    kinds = set()
    for method in m.findall(syntax.module, m.FunctionDef(name=m.Name("forward"))):
        decorators = cst.ensure_type(method, cst.FunctionDef).decorators
        kind = syntax.text.around(method, cst.ClassDef)
        if kind is not None and any(_is_compile(syntax, one.decorator) for one in decorators):
            kinds.add(kind.name.value)
    for assign in find_all(syntax.module, cst.Assign, m.Assign(value=m.Call())):
        if dotted_name(cst.ensure_type(assign.value, cst.Call).func) in kinds:
            yield from (dotted_name(one.target).rpartition(".")[2] for one in assign.targets)


def _arguments_by_name(call: cst.Call, names: Sequence[str]) -> dict[str, cst.BaseExpression]:
    """Return the arguments of a call by parameter name, up to the first starred argument.

    ``names`` are the parameters in order.
    """
    if list(names[:1]) == ["self"]:
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


def with_option(node: cst.BaseExpression, name: str, value: str) -> cst.Call | None:
    """Return the decorator or call of ``torch.compile`` in ``node`` with an option, such as
    ``dynamic=True``, added or replaced.

    None if the option already has the value ``value``, or if ``node`` has arguments such as
    ``**options`` that may contain the option.
    """
    argument = cst.Arg(
        cst.parse_expression(value),
        cst.Name(name),
        equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
    )
    if not isinstance(node, cst.Call):
        return cst.Call(node, [argument])
    if any(arg.star for arg in node.args):
        return None
    for number, arg in enumerate(node.args):
        if arg.keyword is not None and arg.keyword.value == name:
            if code_of(arg.value) == value:
                return None
            changed = arg.with_changes(value=argument.value)
            return node.with_changes(args=[*node.args[:number], changed, *node.args[number + 1 :]])
    return _with_argument(node, argument)


def _with_argument(node: cst.Call, argument: cst.Arg) -> cst.Call:
    """Return a call with one more argument, formatted as its other arguments."""
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
