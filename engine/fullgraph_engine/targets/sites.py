"""Module-level calls of a file that show with which inputs a model or function is called.

``torch.compile(f)(x)``, ``compiled = torch.compile(model); compiled(x)``, ``torch.export.export``,
``torch.onnx.export``, ``torch.jit.trace`` and ``torchinfo.summary`` request a trace explicitly. A
plain ``model(x)`` also counts.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from ..protocol import Range, node_range
from .source import FileDefinitions

Form = Literal["call", "export", "onnx", "trace", "summary", "torchsummary"]


@dataclass(frozen=True)
class CallSite:
    """A module-level call in a file: the called ``subject`` and its ``arguments``, as expressions.

    ``owner`` is the called function or class of the file, empty for anything else. ``explicit``:
    the call requests compilation.
    """

    form: Form
    subject: str
    arguments: str
    owner: str
    explicit: bool
    range: Range
    text: str


@dataclass(frozen=True)
class CompiledName:
    """A callable that the file passes to ``torch.compile`` at module level; ``bound`` is the name
    of the result.

    ``owner`` is the function or class of the file: the callable itself, or the class of an
    instance. It is empty if the file does not define it.
    """

    owner: str
    bound: str
    range: Range
    text: str


_COMPILE = frozenset(
    ("torch.compile", "torch._dynamo.optimize", "torch._dynamo.optimize_assert", "torch.dynamo")
)
_FORMS: dict[str, Form] = {
    "torch.export.export": "export",
    "torch.export.export_for_training": "export",
    "torch.export.export_for_inference": "export",
    "torch.export.draft_export": "export",
    "torch.onnx.export": "onnx",
    "torch.onnx.dynamo_export": "onnx",
    "torch.jit.trace": "trace",
    "torchinfo.summary": "summary",
    "torchsummary.summary": "torchsummary",
}
_FIRST_PARAMETER = ("model", "mod", "func", "f")


def is_compile(
    source: FileDefinitions, expression: ast.expr, known: dict[str, _Bound] | None = None
) -> bool:
    """Whether an expression is a function that compiles its argument: ``torch.compile``, or
    ``torch.compile(mode=…)`` without a model.

    A ``functools.partial`` of it counts too. ``known`` has the values of module-level names.
    """
    if isinstance(expression, ast.Name) and known is not None and expression.id in known:
        return known[expression.id].compiler
    if source.full_dotted_name(expression) in _COMPILE:
        return True
    if isinstance(expression, ast.Name) and expression.id in source.assignments:
        value = source.assignments[expression.id]
        return isinstance(value, ast.Call) and is_compile(source, value, {})
    if not isinstance(expression, ast.Call):
        return False
    function = source.full_dotted_name(expression.func)
    if function in ("functools.partial", "partial") and expression.args:
        return source.full_dotted_name(expression.args[0]) in _COMPILE
    if function.startswith("torch._dynamo.optimize"):
        return True
    return function == "torch.compile" and _call_subject(expression) is None


def _call_subject(call: ast.Call) -> ast.expr | None:
    """Return the model or function that a call such as ``torch.compile(model)`` receives: its first
    argument or keyword; else None."""
    if call.args:
        return None if isinstance(call.args[0], ast.Starred) else call.args[0]
    for keyword in call.keywords:
        if keyword.arg in _FIRST_PARAMETER:
            return keyword.value
    return None


@dataclass(frozen=True)
class _Bound:
    """The callable that a module-level name refers to at some point of the file."""

    owner: str = ""
    compiled: bool = False
    compiler: bool = False


def find_sites(source: FileDefinitions) -> tuple[list[CallSite], list[CompiledName]]:
    """Return the module-level calls of a file, and the names that it assigns from
    ``torch.compile``, in text order."""
    finder = _SiteFinder(source)
    for statement in source.statements:
        finder.statement(statement)
    return finder.sites, finder.compiled


class _SiteFinder:
    def __init__(self, source: FileDefinitions) -> None:
        self.source = source
        self.sites: list[CallSite] = []
        self.compiled: list[CompiledName] = []
        self.bound: dict[str, _Bound] = {}

    def statement(self, statement: ast.stmt) -> None:
        for call in _statement_calls(statement):
            self.call(call)
        if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
            self.bind(statement.targets[0], statement.value)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            self.bind(statement.target, statement.value)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            # ``model.compile()`` compiles in place.
            function = statement.value.func
            if (
                isinstance(function, ast.Attribute)
                and function.attr == "compile"
                and isinstance(function.value, ast.Name)
                and function.value.id in self.bound
            ):
                name = function.value.id
                self.bound[name] = _Bound(self.bound[name].owner, compiled=True)

    def bind(self, target: ast.expr, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            return
        compiled = self.compiled_subject(value)
        if compiled is not None:
            owner = self.owner(compiled)
            self.compiled.append(
                CompiledName(owner, target.id, node_range(target), ast.unparse(value))
            )
            self.bound[target.id] = _Bound(owner, compiled=True)
        elif is_compile(self.source, value, self.bound):
            self.bound[target.id] = _Bound(compiler=True)
        else:
            inner = self.source.without_moves(value)
            known = self.bound.get(inner.id) if isinstance(inner, ast.Name) else None
            owner = self.owner(inner)
            if known is not None:
                self.bound[target.id] = known
            elif owner:
                self.bound[target.id] = _Bound(owner)
            else:
                self.bound.pop(target.id, None)

    def compiled_subject(self, expression: ast.expr) -> ast.expr | None:
        """Return the model or function that ``torch.compile(…)`` in an expression compiles."""
        expression = self.source.without_moves(expression)
        if not isinstance(expression, ast.Call):
            return None
        if not is_compile(self.source, expression.func, self.bound):
            return None
        return _call_subject(expression)

    def owner(self, expression: ast.expr) -> str:
        """Return the name of the file's function or class that an expression refers to or is an
        instance of; else ""."""
        expression = self.source.without_moves(expression)
        if isinstance(expression, ast.Name):
            if expression.id in self.bound:
                return self.bound[expression.id].owner
            return expression.id if expression.id in self.source.functions else ""
        if isinstance(expression, ast.Call):
            compiled = self.compiled_subject(expression)
            if compiled is not None:
                return self.owner(compiled)
            function = expression.func
            if isinstance(function, ast.Name) and function.id in self.source.classes:
                return function.id
        return ""

    def call(self, call: ast.Call) -> None:
        form = _FORMS.get(self.source.full_dotted_name(call.func))
        if form is not None:
            subject = _call_subject(call)
            if subject is not None:
                self.add(form, subject, call, self.owner(subject), explicit=True)
            return
        compiled = self.compiled_subject(call.func)
        if compiled is not None:
            self.add("call", compiled, call, self.owner(compiled), explicit=True)
            return
        if isinstance(call.func, ast.Name):
            known = self.bound.get(call.func.id)
            if known is not None and not known.compiler:
                self.add("call", call.func, call, known.owner, explicit=known.compiled)
            elif known is None and call.func.id in self.source.functions:
                self.add("call", call.func, call, call.func.id, explicit=False)
        elif isinstance(call.func, ast.Call):
            owner = self.owner(call.func)
            if owner in self.source.classes:
                self.add("call", call.func, call, owner, explicit=False)

    def add(
        self, form: Form, subject: ast.expr, call: ast.Call, owner: str, *, explicit: bool
    ) -> None:
        arguments = ast.unparse(ast.Call(ast.Name("_", ast.Load()), call.args, call.keywords))[1:]
        self.sites.append(
            CallSite(
                form=form,
                subject=ast.unparse(subject),
                arguments=arguments,
                owner=owner,
                explicit=explicit,
                range=node_range(call),
                text=ast.unparse(call),
            )
        )


def _statement_calls(statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls in a simple statement, outer ones first; skip calls inside lambdas and
    comprehensions."""
    waiting: list[ast.AST] = [statement]
    while waiting:
        node = waiting.pop(0)
        if (
            isinstance(
                node,
                (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.stmt),
            )
            and node is not statement
        ):
            continue
        if isinstance(node, ast.Call):
            yield node
        waiting.extend(ast.iter_child_nodes(node))
