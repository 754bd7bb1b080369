"""Write a graph as a readable program: a function, its inputs and the compiled call."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Sequence
from typing import Any

import torch

from ..candidate import Backend, ReproCandidate
from ..emit.definitions import parse_expression
from ..emit.program import ProgramDraft
from ..inputs import TensorStore
from . import capture, comparison

_PART = re.compile(r"(?:^|_)(?:modules|parameters|buffers|self)(?=_|$)")


def write_candidate(
    graph: torch.fx.GraphModule,
    inputs: Sequence[Any],
    backend: Backend,
    *,
    backward: bool = False,
    settings: Sequence[str] = (),
    store: TensorStore | None = None,
) -> ReproCandidate:
    """Return a program that compiles one graph with a backend and runs it.

    ``backward`` adds a backward pass. ``settings`` are statements that change torch's settings.
    A ``store`` saves the contents of the inputs.

    Raises:
        UnwritableValue: Something that the graph uses cannot be written as source text.
    """
    draft = ProgramDraft(store)
    for name in (comparison.NAME, backend.spelled):
        if name.isidentifier():
            draft.fresh_name(name)
    numbers = _scalar_inputs(graph, inputs)
    name = _GraphFunction(draft, graph, frozenset(numbers)).add_to_draft("f")
    given = [draft.expression(numbers.get(n, value)) for n, value in enumerate(inputs)]
    dynamic = ["dynamic=True"] if capture.is_dynamic(graph) else []
    if backend.accuracy:
        call_text = f"{comparison.NAME}({', '.join([name, *given, *dynamic])})"
    else:
        options = ", ".join([name, f"backend={backend.spelled}", *dynamic])
        call_text = f"torch.compile({options})({', '.join(given)})"
        if backward:
            call_text = _backward_text(call_text, graph)
    return ReproCandidate(draft.text([*settings, call_text]), "graph", tuple(draft.notes))


def has_gradient(graph: torch.fx.GraphModule) -> bool:
    """Whether any result of a graph requires a gradient."""
    return any(getattr(value, "requires_grad", False) for value in capture.output_examples(graph))


def _backward_text(call_text: str, graph: torch.fx.GraphModule) -> str:
    if len(capture.output_examples(graph)) == 1:
        return f"{call_text}.sum().backward()"
    differentiable = "torch.is_tensor(y) and y.requires_grad"
    return f"sum(y.sum() for y in {call_text} if {differentiable}).backward()"


def _scalar_inputs(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[int, Any]:
    """Return inputs that the user passed as numbers and Dynamo passes as tensors, by index."""
    found: dict[int, Any] = {}
    nodes = graph.graph.find_nodes(op="placeholder")
    for n, (node, value) in enumerate(zip(nodes, inputs, strict=True)):
        is_scalar = isinstance(value, torch.Tensor) and value.dim() == 0 and bool(node.users)
        if is_scalar and all((u.op, u.target) == ("call_method", "item") for u in node.users):
            found[n] = value.item()
    return found


class _GraphFunction(ast.NodeTransformer):
    """A transformer that turns the code that ``torch.fx`` prints for a graph into a plain
    function.
    """

    def __init__(
        self,
        draft: ProgramDraft,
        graph: torch.fx.GraphModule,
        numbers: frozenset[int] = frozenset(),
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
        self._new_names: dict[str, str] = {}
        """Names in the program, by the names in the printed code."""
        self._attributes: dict[int, str] = {}
        self._parameters = [self._shorten_name(name) for name in arguments]
        self._new_names.update(zip(arguments, self._parameters, strict=True))

    def add_to_draft(self, hint: str) -> str:
        """Add the function to the program and return its name, which is derived from ``hint``."""
        body = [done for each in self._function.body for done in self._rewrite_statement(each)]
        read = {
            node.id
            for each in body
            for node in ast.walk(each)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        name = self._draft.fresh_name(hint, self._taken)
        lines = [ast.unparse(_drop_unread_name(each, read)) for each in body] or ["pass"]
        text = "\n".join(f"    {line}" for part in lines for line in part.split("\n"))
        self._draft.define(name, f"def {name}({', '.join(self._parameters)}):\n{text}")
        return name

    def _shorten_name(self, name: str) -> str:
        word = _PART.sub("", re.sub(r"^[LG]_", "", name)).strip("_")
        stem = word if word.isidentifier() else "x"
        short, number = stem, 0
        while short in self._taken:
            number += 1
            short = f"{stem}_{number}"
        self._taken.add(short)
        return short

    def _rewrite_statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            node = ast.Assign([node.target], node.value)
        if isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Constant) and node.value.value is None:
                # Skip the assignment of None, which only frees the memory of an unused value.
                return []
            target = node.targets[0]
            if isinstance(target, ast.Name) and self._is_number(node.value):
                assert isinstance(node.value, ast.Call)
                assert isinstance(node.value.func, ast.Attribute)
                node.value = node.value.func.value
            value = self.visit(node.value)
            if isinstance(target, ast.Name) and isinstance(value, ast.Name):
                self._new_names[target.id] = value.id
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
        return any(
            self._new_names.get(each) == self._new_names.get(name, "") for each in self._numbers
        )

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self._new_names:
            return ast.Name(self._new_names[node.id], node.ctx)
        if node.id in self._globals and node.id != "torch":
            return parse_expression(self._draft.expression(self._globals[node.id]))
        return node

    def visit_Call(self, node: ast.Call) -> ast.expr:
        owned = self._attribute_name(node)
        return owned if owned is not None else self._visit_children(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        owned = self._attribute_name(node)
        if owned is not None:
            return owned
        text = ast.unparse(node)
        if text.startswith("torch._C._nn."):
            return parse_expression(self._draft.refer_to(eval(text, {"torch": torch})))
        return self._visit_children(node)

    def _visit_children(self, node: ast.expr) -> ast.expr:
        visited = self.generic_visit(node)
        assert isinstance(visited, ast.expr)
        return visited

    def _attribute_name(self, node: ast.expr) -> ast.expr | None:
        """Return the program's name for a constant or submodule of the graph, if ``node`` reads
        one.
        """
        names = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if "self" not in names or not names <= {"self", "getattr"}:
            return None
        value = eval(ast.unparse(node), {"self": self._graph, "getattr": getattr})
        if id(value) not in self._attributes:
            self._attributes[id(value)] = self._add_attribute(value)
        return ast.Name(self._attributes[id(value)], ast.Load())

    def _add_attribute(self, value: Any) -> str:
        if isinstance(value, torch.fx.GraphModule):
            return _GraphFunction(self._draft, value).add_to_draft("g")
        name = self._draft.fresh_name("constant", self._taken)
        self._draft.add(f"{name} = {self._draft.expression(value)}")
        return name


def _drop_unread_name(node: ast.stmt, read: set[str]) -> ast.stmt:
    """Replace an assignment by its value if names in ``read`` do not include the assigned variable.

    Other statements are returned unchanged.
    """
    if isinstance(node, ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id not in read:
            return ast.Expr(node.value)
    return node
