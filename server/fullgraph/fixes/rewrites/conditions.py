"""Conditions on tensors, converted to expressions whose value is a tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Union

import libcst as cst

from fullgraph.fixes.rewrites.names import code_of, names_bound, walk
from fullgraph.fixes.rewrites.syntax import words
from fullgraph.fixes.site import Site


@dataclass(frozen=True)
class Plain:
    """A condition, or part of one, that Python can decide without reading a tensor's data."""

    code: str


@dataclass(frozen=True)
class OfTensor:
    """A condition on the data of a tensor. ``code`` is an expression for a boolean tensor, with
    parentheses if an operator needs them."""

    code: str


@dataclass(frozen=True)
class Both:
    """A conjunction (``and``): all conditions in ``parts`` must hold."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True)
class Either:
    """A disjunction (``or``): at least one of the conditions in ``parts`` must hold."""

    parts: tuple[Condition, ...]


Condition = Union[Plain, OfTensor, Both, Either]


_SIZES = words(
    "size dim numel nelement ndimension element_size stride is_contiguous is_floating_point"
    " is_complex get_device type storage_offset data_ptr"
)
"""Methods of a tensor whose results do not depend on its data."""
_FACTS = words(
    "shape dtype device ndim requires_grad is_cuda is_sparse layout training names itemsize"
    " is_leaf grad_fn nbytes config"
)
_BOOLEAN = words(
    "any all eq ne lt le gt ge isnan isinf isfinite isneginf isposinf isclose isin logical_and"
    " logical_or logical_not logical_xor bool less greater less_equal greater_equal not_equal"
    " signbit"
)
"""Functions of torch, and methods of tensors, that return boolean tensors."""
_REDUCTIONS = _BOOLEAN | words(
    "sum max min mean median amax amin norm std var prod abs argmax argmin item tolist nonzero"
    " count_nonzero detach cpu equal allclose"
)
_NOT_TENSORS = (
    "torch.is_",
    "torch.cuda.",
    "torch.jit.",
    "torch.compiler.",
    "torch.onnx.",
    "torch.backends.",
    "torch.distributed.",
    "torch.version.",
    "torch.finfo",
    "torch.iinfo",
    "torch.get_",
    "torch.are_",
    "torch._dynamo.",
)
_OF_ARGUMENTS = ("bool", "float", "int", "any", "all", "abs", "max", "min", "sum")
_CONVERSIONS = ("bool", "float", "int")
_MATH = ("isnan", "isinf", "isfinite")
_ATOMS = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BaseNumber, cst.BaseString)
_COMPARED: dict[type[cst.BaseCompOp], str] = {
    cst.Equal: "==",
    cst.NotEqual: "!=",
    cst.LessThan: "<",
    cst.LessThanEqual: "<=",
    cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=",
}


def operand(code: str) -> str:
    """Return the code of an expression for use as an operand of an operator.

    Parentheses are added if the operator needs them, or if the code spans several lines.
    """
    try:
        node = cst.parse_expression(code)
    except cst.ParserSyntaxError:
        return f"({code})"
    closed = isinstance(node, _ATOMS) or bool(getattr(node, "lpar", ()))
    return code if closed else f"({code})"


def argument(code: str) -> str:
    """Return the source code of an expression as an argument, without parentheses around the
    whole.
    """
    node = cst.parse_expression(code)
    bare = len(node.lpar) == 1 and "\n" not in code
    if not bare or isinstance(node, (cst.Tuple, cst.GeneratorExp, cst.NamedExpr)):
        return code
    return code_of(node.with_changes(lpar=[], rpar=[]))


def negation(condition: Condition) -> Condition:
    """Return the condition that holds exactly if ``condition`` does not hold."""
    if isinstance(condition, Plain):
        return Plain(
            condition.code[4:] if condition.code.startswith("not ") else _negate(condition)
        )
    if isinstance(condition, OfTensor):
        code = condition.code
        return OfTensor(code[1:] if code.startswith("~") else f"~{operand(code)}")
    parts = tuple(negation(part) for part in condition.parts)
    return Either(parts) if isinstance(condition, Both) else Both(parts)


def _negate(condition: Plain) -> str:
    return f"not {operand(condition.code)}"


class Conditions:
    """A parser for conditions in the function around a finding.

    It splits a condition into the parts that depend on the data of tensors and the parts that
    Python can decide.
    """

    def __init__(self, site: Site) -> None:
        self._site = site

    def read(self, test: cst.BaseExpression, *, broke: bool = True) -> Condition:
        """Parse the expression ``test``, which is used as a condition.

        ``broke`` is true if the condition caused the graph break. Then it must depend on the data
        of a tensor, although the code may not show this.
        """
        found = self._read(test, self.is_tensor)
        if not _asks(found) and broke:
            found = self._read(test, lambda part: not self._is_plain(part))
        if not _asks(found) and broke:
            found = OfTensor(operand(self.tensor(test)))
        return self._of_numbers(test, found) if broke else found

    def _of_numbers(self, test: cst.BaseExpression, found: Condition) -> Condition:
        """Return the condition with its numbers converted to tensors, if the finding is about such
        numbers.

        Dynamo does not know the value of a number that comes from a tensor or from ``random``.
        Operators such as ``&`` need a tensor.
        """
        context = self._site.finding.context
        if not any(kind in context for kind in ("SymNodeVariable", "UnspecializedPythonVariable")):
            return found
        return self._number_parts(test)

    def _number_parts(self, test: cst.BaseExpression) -> Condition:
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return negation(self._number_parts(test.expression))
        if isinstance(test, cst.BooleanOperation):
            sides = self._number_parts(test.left), self._number_parts(test.right)
            return _join_parts(sides, isinstance(test.operator, cst.And))
        code = self._site.code(test)
        if self._is_plain(test) or isinstance(test, cst.Attribute):
            # A test such as ``self.training and …``.
            return Plain(code)
        return OfTensor(f"torch.tensor({code})")

    def asks(self, test: cst.BaseExpression) -> bool:
        """Whether the value of the expression ``test`` seems to depend on the data of a tensor,
        judging by the code.
        """
        return _asks(self.read(test, broke=False))

    def _read(
        self, test: cst.BaseExpression, tensor: Callable[[cst.BaseExpression], bool]
    ) -> Condition:
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            return negation(self._read(test.expression, tensor))
        if isinstance(test, cst.BooleanOperation):
            sides = self._read(test.left, tensor), self._read(test.right, tensor)
            return _join_parts(sides, isinstance(test.operator, cst.And))
        if tensor(test):
            return OfTensor(operand(self.tensor(test)))
        return Plain(self._site.code(test))

    def _is_plain(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Comparison):
            if any(isinstance(one.operator, (cst.Is, cst.IsNot)) for one in node.comparisons):
                return True
            sides = (node.left, *(one.comparator for one in node.comparisons))
            return any(map(self._is_count, sides)) and not any(map(self.is_tensor, sides))
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Name):
            return node.func.value in ("isinstance", "hasattr", "callable", "issubclass")
        return isinstance(node, cst.Attribute) and node.attr.value in _FACTS

    def _is_count(self, node: cst.BaseExpression) -> bool:
        """Whether ``node`` is a local variable to which the function assigns only integers."""
        function = self._site.function
        if not isinstance(node, cst.Name) or function is None:
            return False
        bound = [
            one
            for one in walk(*function.children)
            if isinstance(one, (cst.BaseSmallStatement, cst.Param, cst.For, cst.NamedExpr))
            and node.value in names_bound(one.target if isinstance(one, cst.For) else one)
        ]
        return bool(bound) and all(
            isinstance(one, (cst.Assign, cst.AugAssign)) and isinstance(one.value, cst.Integer)
            for one in bound
        )

    def is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an expression seems to be a tensor, or a Python value computed from a tensor's
        data.
        """
        if isinstance(node, cst.Name):
            function = self._site.function
            return isinstance(function, cst.FunctionDef) and (
                self._site.text.kind_of_local(function, node.value) == "tensor"
            )
        if isinstance(node, cst.Attribute):
            return node.attr.value not in _FACTS and self.is_tensor(node.value)
        if isinstance(node, cst.Call):
            return self._call_is_tensor(node)
        if isinstance(node, cst.Subscript):
            return self.is_tensor(node.value)
        if isinstance(node, (cst.BinaryOperation, cst.BooleanOperation)):
            return self.is_tensor(node.left) or self.is_tensor(node.right)
        if isinstance(node, cst.UnaryOperation):
            return self.is_tensor(node.expression)
        if isinstance(node, cst.Comparison) and not self._is_plain(node):
            sides = (node.left, *(one.comparator for one in node.comparisons))
            return any(self.is_tensor(side) for side in sides)
        if isinstance(node, cst.GeneratorExp):
            return self.is_tensor(node.elt)
        return False

    def _call_is_tensor(self, node: cst.Call) -> bool:
        called = self._site.code(node.func)
        if isinstance(node.func, cst.Name):
            if called == "len" and node.args:
                return self._count_code(node) is not None
            return called in _OF_ARGUMENTS and any(self.is_tensor(a.value) for a in node.args)
        if not isinstance(node.func, cst.Attribute):
            return False
        name = node.func.attr.value
        if called.startswith(("torch.", "F.")):
            return not called.startswith(_NOT_TENSORS)
        if called.startswith("math."):
            return any(self.is_tensor(argument.value) for argument in node.args)
        if called.startswith(("np.", "os.", "self.config.")):
            return False
        if name in _SIZES:
            return self._count_code(node) is not None
        return name in _REDUCTIONS or self.is_tensor(node.func.value)

    def tensor(self, node: cst.BaseExpression) -> str:
        """Return code for a boolean tensor with the truth value of ``node`` in Python."""
        if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
            return f"~{operand(self.tensor(node.expression))}"
        if isinstance(node, cst.BooleanOperation):
            sign = "&" if isinstance(node.operator, cst.And) else "|"
            left, right = (operand(self.tensor(side)) for side in (node.left, node.right))
            return f"{left} {sign} {right}"
        if isinstance(node, cst.Comparison):
            return self._read_comparison(node)
        if isinstance(node, cst.Call) and (code := self._read_predicate(node)) is not None:
            return code
        value = self.value(node)
        return value if self._is_boolean(node) else f"{operand(value)} != 0"

    def _read_comparison(self, node: cst.Comparison) -> str:
        left, parts = node.left, []
        for one in node.comparisons:
            right = one.comparator
            if isinstance(one.operator, (cst.In, cst.NotIn)):
                code = self._read_membership(left, right)
                parts.append(f"~({code})" if isinstance(one.operator, cst.NotIn) else code)
            elif type(one.operator) in _COMPARED:
                sign = _COMPARED[type(one.operator)]
                parts.append(f"{self.value(left)} {sign} {self.value(right)}")
            else:
                return self._site.code(node)
            left = right
        return parts[0] if len(parts) == 1 else " & ".join(map(operand, parts))

    def _read_membership(self, left: cst.BaseExpression, right: cst.BaseExpression) -> str:
        if isinstance(right, (cst.Tuple, cst.List, cst.Set)) and right.elements:
            left_code = operand(self.value(left))
            options = [operand(self._site.code(one.value)) for one in right.elements]
            return " | ".join(f"({left_code} == {option})" for option in options)
        return f"({operand(self.value(right))} == {operand(self.value(left))}).any()"

    def _read_predicate(self, node: cst.Call) -> str | None:
        """Return code for a boolean tensor that replaces a call such as ``bool(x)``, ``any(x)`` or
        ``x.item()``.

        None for calls of other functions.
        """
        called = self._site.code(node.func)
        arguments = [argument.value for argument in node.args]
        if called in ("any", "all") and len(arguments) == 1:
            return self._of_each(called, arguments[0])
        if called == "bool" and len(arguments) == 1:
            return self.tensor(arguments[0])
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "item":
            return self.tensor(node.func.value)
        if called == "torch.equal" and len(arguments) == 2:
            first, second = (operand(self._site.code(one)) for one in arguments)
            return f"({first} == {second}).all()"
        if called == "torch.allclose":
            given = ", ".join(self._site.code(argument).rstrip(", ") for argument in node.args)
            return f"torch.isclose({given}).all()"
        name = called.rpartition(".")[2]
        if called in tuple(f"math.{one}" for one in _MATH) and arguments:
            return f"torch.{name}({self.value(arguments[0])})"
        return None

    def _of_each(self, called: str, over: cst.BaseExpression) -> str:
        if isinstance(over, (cst.GeneratorExp, cst.ListComp)):
            code = self.tensor(over.elt)
            loop = self._site.code(over.for_in).strip()
            return f"torch.stack([{code} {loop}]).{called}()"
        if isinstance(over, (cst.List, cst.Tuple)):
            sign = " | " if called == "any" else " & "
            return sign.join(operand(self.tensor(one.value)) for one in over.elements)
        return f"{operand(self.value(over))}.{called}()"

    def _is_boolean(self, node: cst.BaseExpression) -> bool:
        if isinstance(node, cst.Comparison):
            return True
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            name = node.func.attr.value
            passes = ("item", "detach", "cpu", "squeeze", "view", "reshape", "flatten")
            return name in _BOOLEAN or (name in passes and self._is_boolean(node.func.value))
        if isinstance(node, cst.UnaryOperation):
            return self._is_boolean(node.expression)
        if isinstance(node, cst.BinaryOperation):
            bits = isinstance(node.operator, (cst.BitAnd, cst.BitOr))
            return bits and self._is_boolean(node.left) and self._is_boolean(node.right)
        return False

    def value(self, node: cst.BaseExpression) -> str:
        """Return the code of an expression without conversions of tensors to numbers, such as
        ``.item()``.
        """
        code = self._site.code(node)
        if isinstance(node, cst.BinaryOperation):
            left, right = operand(self.value(node.left)), operand(self.value(node.right))
            changed = left != self._site.code(node.left) or right != self._site.code(node.right)
            return f"{left} {code_of(node.operator).strip()} {right}" if changed else code
        if not isinstance(node, cst.Call):
            return code
        counted = self._count_code(node)
        if counted is not None:
            return counted
        called = self._site.code(node.func)
        if called in _CONVERSIONS and len(node.args) == 1 and self.is_tensor(node.args[0].value):
            return operand(self.value(node.args[0].value))
        if isinstance(node.func, cst.Attribute) and node.func.attr.value == "item":
            return operand(self.value(node.func.value))
        return code

    def _count_code(self, node: cst.BaseExpression) -> str | None:
        """Return code that counts the elements selected by ``x[mask]`` without selecting them.

        ``node`` is ``len(x[mask])`` or ``x[mask].numel()``; None for other expressions.
        """
        if not isinstance(node, cst.Call):
            return None
        sized: cst.BaseExpression | None = None
        if isinstance(node.func, cst.Name) and node.func.value == "len" and len(node.args) == 1:
            sized = node.args[0].value
        elif isinstance(node.func, cst.Attribute) and node.func.attr.value in ("numel", "size"):
            sized = node.func.value
        if isinstance(sized, cst.Subscript) and len(sized.slice) == 1:
            chosen = sized.slice[0].slice
            if not isinstance(chosen, cst.Index):
                return None
            inner = sized.value
            if isinstance(inner, cst.Call) and self._site.code(inner.func) == "torch.where":
                return self._counting_call(inner.args[0].value)
            mask = chosen.value
            if isinstance(mask, cst.Comparison) or self._is_boolean(mask):
                return self._counting_call(mask)
            if sized is self._site.expression:
                # The graph broke at this expression, so the index selects elements like a mask.
                return self._counting_call(mask)
        if isinstance(sized, cst.Call):
            called = self._site.code(sized.func)
            if called == "torch.nonzero" and sized.args:
                return self._counting_call(sized.args[0].value)
            if called.endswith(".nonzero") and isinstance(sized.func, cst.Attribute):
                return self._counting_call(sized.func.value)
        return None

    def _counting_call(self, mask: cst.BaseExpression) -> str:
        return f"torch.count_nonzero({self._site.code(mask)})"


def _asks(condition: Condition) -> bool:
    if isinstance(condition, (Both, Either)):
        return any(_asks(part) for part in condition.parts)
    return isinstance(condition, OfTensor)


def _join_parts(parts: Sequence[Condition], conjunction: bool) -> Condition:
    """Return one condition that joins ``parts`` by ``and``, or by ``or`` if ``conjunction`` is
    false.

    Neighboring parts of the same class are merged into one part.
    """
    kind = Both if conjunction else Either
    flat: list[Condition] = []
    for part in parts:
        for one in part.parts if isinstance(part, kind) else (part,):
            last = flat[-1] if flat else None
            if isinstance(last, OfTensor) and isinstance(one, OfTensor):
                sign = "&" if conjunction else "|"
                flat[-1] = OfTensor(f"({last.code} {sign} {one.code})")
            elif isinstance(last, Plain) and isinstance(one, Plain):
                word = "and" if conjunction else "or"
                sides = (_in_parentheses(each, conjunction) for each in (last, one))
                flat[-1] = Plain(f" {word} ".join(sides))
            else:
                flat.append(one)
    return flat[0] if len(flat) == 1 else kind(tuple(flat))


def _in_parentheses(part: Plain, conjunction: bool) -> str:
    """Return the code of a condition, in parentheses if a join with other conditions needs them.

    ``conjunction``: the conditions will be joined by ``and``, else by ``or``.
    """
    node = cst.parse_expression(part.code)
    loose = (
        isinstance(node, cst.BooleanOperation)
        and not node.lpar
        and isinstance(node.operator, cst.Or) is conjunction
    )
    return f"({part.code})" if loose else part.code


def asked_by(site: Site) -> cst.If | cst.While | cst.Assert | cst.IfExp | cst.CompIf | None:
    """Return the statement or expression (such as ``if``) whose condition contains the code of the
    finding.

    None if no condition contains it.
    """
    node: cst.CSTNode | None = site.expression
    if not site.finding.code.startswith(("graph-break/", "export/data-dependent")):
        return None
    while node is not None and not isinstance(node, cst.BaseStatement):
        parent = site.text.parent(node)
        tests = (cst.If, cst.While, cst.Assert, cst.IfExp, cst.CompIf)
        if isinstance(parent, tests) and parent.test is node:
            return parent
        node = parent
    return None
