"""A graph as a program: a function that a person could have written, its inputs, and the act."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Sequence
from typing import Any

import torch

from ..candidate import Backend, Candidate
from ..emit.program import Draft
from ..inputs import Store
from . import capture, comparison

_PART = re.compile(r"(?:^|_)(?:modules|parameters|buffers|self)(?=_|$)")


def candidate_of(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    backend: Backend,
    *,
    backward: bool = False,
    settings: Sequence[str] = (),
    store: Store | None = None,
) -> Candidate:
    """The program that compiles one graph and runs it.

    Raises:
        Unwritable: something that it uses has no source text.
    """
    draft = Draft(store)
    for name in (comparison.NAME, backend.spelled):
        if name.isidentifier():
            draft.fresh(name)
    numbers = _numbers(graph, inputs)
    name = _Definition(draft, graph, frozenset(numbers)).named("f")
    given = [draft.expression(numbers.get(n, value)) for n, value in enumerate(inputs)]
    dynamic = ["dynamic=True"] if capture.is_dynamic(graph) else []
    if backend.accuracy:
        act = f"{comparison.NAME}({', '.join([name, *given, *dynamic])})"
    else:
        options = ", ".join([name, f"backend={backend.spelled}", *dynamic])
        act = f"torch.compile({options})({', '.join(given)})"
        if backward:
            act = _backward(act, graph)
    return Candidate(draft.text([*settings, act]), "graph", tuple(draft.notes))


def has_gradient(graph: torch.fx.GraphModule) -> bool:
    """Whether something can be differentiated that it returns."""
    return any(getattr(value, "requires_grad", False) for value in capture.outputs(graph))


def _backward(act: str, graph: torch.fx.GraphModule) -> str:
    if len(capture.outputs(graph)) == 1:
        return f"{act}.sum().backward()"
    differentiable = "torch.is_tensor(y) and y.requires_grad"
    return f"sum(y.sum() for y in {act} if {differentiable}).backward()"


def _numbers(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[int, Any]:
    """Inputs that are numbers of the function's, which the tracer hands over as tensors."""
    found: dict[int, Any] = {}
    nodes = graph.graph.find_nodes(op="placeholder")
    for n, (node, value) in enumerate(zip(nodes, inputs, strict=True)):
        is_scalar = isinstance(value, torch.Tensor) and value.dim() == 0 and bool(node.users)
        if is_scalar and all((u.op, u.target) == ("call_method", "item") for u in node.users):
            found[n] = value.item()
    return found


class _Definition(ast.NodeTransformer):
    """Makes of what ``torch.fx`` prints a function that stands alone."""

    def __init__(
        self, draft: Draft, graph: torch.fx.GraphModule, numbers: frozenset[int] = frozenset()
    ) -> None:
        self._draft, self._graph = draft, graph
        code = graph.graph.python_code("self")
        self._globals = code.globals
        self._function = next(
            node for node in ast.parse(code.src).body if isinstance(node, ast.FunctionDef)
        )
        arguments = [each.arg for each in self._function.args.args if each.arg != "self"]
        self._numbers = {arguments[n] for n in numbers}
        self._taken = {node.id for node in ast.walk(self._function) if isinstance(node, ast.Name)}
        self._taken |= {*arguments, *dir(builtins), *keyword.kwlist, *self._globals}
        self._meant: dict[str, str] = {}
        """What stands for a name of the printed function."""
        self._attributes: dict[int, str] = {}
        self._parameters = [self._shortened(name) for name in arguments]
        self._meant.update(zip(arguments, self._parameters, strict=True))

    def named(self, hint: str) -> str:
        """The name of the function, which is now in the draft."""
        body = [done for each in self._function.body for done in self._statement(each)]
        read = {
            node.id
            for each in body
            for node in ast.walk(each)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        name = self._draft.fresh(hint, self._taken)
        lines = [ast.unparse(_without_name(each, read)) for each in body] or ["pass"]
        text = "\n".join(f"    {line}" for part in lines for line in part.split("\n"))
        self._draft.define(name, f"def {name}({', '.join(self._parameters)}):\n{text}")
        return name

    def _shortened(self, name: str) -> str:
        word = _PART.sub("", re.sub(r"^[LG]_", "", name)).strip("_")
        stem = word if word.isidentifier() else "x"
        short, number = stem, 0
        while short in self._taken:
            number += 1
            short = f"{stem}_{number}"
        self._taken.add(short)
        return short

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign([node.target], node.value)
        if isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                return []  # it only lets go of what is not needed any more
            target = node.targets[0]
            if isinstance(target, ast.Name) and self._is_number(node.value):
                assert isinstance(node.value, ast.Call)
                assert isinstance(node.value.func, ast.Attribute)
                node.value = node.value.func.value
            value = self.visit(node.value)
            if isinstance(target, ast.Name) and isinstance(value, ast.Name):
                self._meant[target.id] = value.id
                return []
            node.value = value
            return [ast.fix_missing_locations(node)]
        node = self.visit(node)
        match node:
            case ast.Return(value=ast.Tuple(elts=[result])):
                node = ast.Return(result)
        return [node]

    def _is_number(self, value: ast.expr) -> bool:
        match value:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="item"), args=[]):
                return name in self._numbers or self._is_alias(name)
        return False

    def _is_alias(self, name: str) -> bool:
        return any(self._meant.get(each) == self._meant.get(name, "") for each in self._numbers)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._meant:
            return ast.Name(self._meant[node.id], node.ctx)
        if node.id in self._globals and node.id != "torch":
            return _parsed(self._draft.expression(self._globals[node.id]))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        owned = self._owned(node)
        return owned if owned is not None else self._visited(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        owned = self._owned(node)
        if owned is not None:
            return owned
        text = ast.unparse(node)
        if text.startswith("torch._C._nn."):
            return _parsed(self._draft.refer(eval(text, {"torch": torch})))
        return self._visited(node)

    def _visited(self, node: ast.expr) -> ast.expr:
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.expr)
        return visited

    def _owned(self, node: ast.expr) -> ast.expr | None:
        """The name of what the graph module holds: a constant, a module, a graph for a branch."""
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if "self" not in names or not names <= {"self", "getattr"}:
            return None
        value = eval(ast.unparse(node), {"self": self._graph, "getattr": getattr})
        if id(value) not in self._attributes:
            self._attributes[id(value)] = self._bound(value)
        return ast.Name(self._attributes[id(value)], ast.Load())

    def _bound(self, value: Any) -> str:
        if isinstance(value, torch.fx.GraphModule):
            return _Definition(self._draft, value).named("g")
        name = self._draft.fresh("constant", self._taken)
        self._draft.add(f"{name} = {self._draft.expression(value)}")
        return name


def _without_name(node: ast.stmt, read: set[str]) -> ast.stmt:
    """Without giving its value a name that nothing reads."""
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id not in read:
            return ast.Expr(node.value)
    return node


def _parsed(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body
