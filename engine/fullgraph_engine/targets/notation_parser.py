"""Parse the text of example inputs, such as ``f32[b, 16], mask=b8[b]``.

The text is Python with a few other tokens. The parser replaces these tokens, calls ``ast.parse``,
and converts the syntax tree. Errors have offsets in the original text.
"""

from __future__ import annotations

import ast
import keyword
import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ..protocol.contexts import CONFIG, MARKS
from .context import CallContext, ContextError, ContextItem
from .notation import (
    DTYPE_ALIASES,
    Arguments,
    FixedSize,
    FurtherCall,
    LiteralValue,
    Mapping,
    Notation,
    NotationError,
    Reference,
    Sequence,
    Size,
    SizeOperator,
    SizeText,
    SymbolicSize,
    TensorText,
    Value,
    compute_size,
    dtype_names,
)

_FLOATS = {"inf": float("inf"), "nan": float("nan")}
_CONSTANTS = ("True", "False", "None", *_FLOATS)
_KEYWORD = "__keyword"
"""Suffix that turns a keyword of Python into a name, for a size called ``in``."""
_SIZE_OPERATORS: dict[type[ast.operator], SizeOperator] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.FloorDiv: "//",
}


def parse_probe(text: str) -> Notation:
    """Parse the text of a probe comment (without ``# fullgraph:``), which states example inputs.

    Raises:
        NotationError: the text is invalid; the error has the offsets.
    """
    *tokens, end = _tokenize_text(text)
    if not tokens:
        raise end.error("the probe is empty; write inputs such as f32[b, 16]")
    first = tokens[0]
    if len(tokens) == 1 and first.kind == "name" and first.text not in _CONSTANTS:
        raise first.error(
            f"'{first.text}' is neither inputs nor a directive; "
            "write inputs such as f32[b, 16], or off"
        )
    parts = deque(_Part(part[0], _parse_python(part)) for part in _split_at_names(tokens, end))
    return _ProbeReader(_ValueReader(text), parts, end).read()


def parse_value(text: str) -> Value:
    """Parse the text of one value, such as ``f32[b, 16]`` in a string annotation.

    Raises:
        NotationError: the text is not a value.
    """
    *tokens, end = _tokenize_text(text)
    nodes = _parse_python(tokens)
    if len(nodes) != 1:
        raise NotationError("expected one value", 0, end.end)
    return _ValueReader(text).read(nodes[0])


def parse_context(text: str) -> CallContext:
    """Parse the modes and settings between the parentheses of ``under(…)``, such as ``no_grad,
    autocast=bf16``.

    Raises:
        NotationError: the text is not a context.
    """
    *tokens, _ = _tokenize_text(text)
    return _ValueReader(text).read_context(_parse_python(tokens))


# -- tokens -----------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d[\d_]*)?\.\d+(?:[eE][-+]?\d+)?|\d[\d_]*\.?(?:[eE][-+]?\d+)?)
    | (?:(?<=\])|@\s*)(?P<device>[^\W\d]\w*(?::\d+)?)
    | (?P<name>[^\W\d]\w*)
    | (?P<string>'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")
    | (?P<operator>//|[][(){},:=.*+\-])
    | (?P<end>\#.*|$)
    | (?P<unknown>.)
    )""",
    re.VERBOSE | re.DOTALL,
)
_CLOSING = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    end: int

    def error(self, message: str) -> NotationError:
        return NotationError(message, self.start, self.end)


def _tokenize_text(text: str) -> Iterator[_Token]:
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        # The last alternatives of the pattern match any text, so there is always a match.
        assert match is not None and match.lastgroup
        kind = match.lastgroup
        start, at = match.span(kind)
        if kind == "unknown":
            if match[kind] in "'\"":
                raise NotationError("a string is not closed", start, len(text.rstrip()))
            if match[kind] == "@":
                raise NotationError("expected a device such as cuda after '@'", start, at)
            raise NotationError(f"'{match[kind]}' has no meaning in a probe", start, at)
        if kind == "end":
            # An error at the end of the text marks its last character.
            last = max(len(text[:start].rstrip()) - 1, 0)
            yield _Token("end", "the end", last, last + 1)
            return
        yield _Token(kind, match[kind], start, at)


def _split_at_names(tokens: list[_Token], end: _Token) -> list[list[_Token]]:
    """Split a text of example inputs where a name outside of brackets follows a value.

    ``init(4) f32[2] then f32[3]`` has four parts.

    Raises:
        NotationError: brackets do not match.
    """
    parts: list[list[_Token]] = [[]]
    closing: list[str] = []
    for token in tokens:
        before = parts[-1][-1:]
        follows = any(one.kind != "operator" or one.text in ")]}" for one in before)
        if token.kind == "name" and follows and not closing:
            parts.append([])
        parts[-1].append(token)
        if token.text in _CLOSING:
            closing.append(_CLOSING[token.text])
        elif token.text in (")", "]", "}") and token.text != (closing.pop() if closing else ""):
            raise token.error(f"unexpected '{token.text}'")
    if closing:
        raise end.error(f"expected '{closing[-1]}', found the end")
    return parts


def _parse_python(tokens: list[_Token]) -> list[ast.expr]:
    """Return the syntax trees of items separated by commas, with offsets in the original text.

    Raises:
        NotationError: the items are not expressions.
    """
    python = "["
    starts, ends = {0: tokens[0].start if tokens else 0}, {}
    for at, token in enumerate(tokens):
        starts[len(python.encode())] = token.start  # ast gives columns in bytes
        python += _python_token(token, tokens[max(at - 2, 0) : at])
        ends[len(python.encode())] = token.end
        python += " "
    try:
        items = ast.parse(python + "]", mode="eval").body
        assert isinstance(items, ast.List)
    except (SyntaxError, RecursionError, MemoryError) as error:
        at = len(python[: (getattr(error, "offset", 1) or 1) - 1].encode())
        start = starts[max(one for one in starts if one <= at)]
        end = min((one for one in ends.values() if one > start), default=start)
        raise NotationError(getattr(error, "msg", "too many brackets"), start, end) from None
    for item in items.elts:
        for node in ast.walk(item):
            if isinstance(node, ast.expr):
                node.col_offset = starts[node.col_offset]
                node.end_col_offset = ends.get(node.end_col_offset or 0, 0)
    return items.elts


def _python_token(token: _Token, before: list[_Token]) -> str:
    """Return the Python code that stands for a token in the text passed to ``ast.parse``.

    ``before`` are the preceding tokens.
    """
    if token.kind == "device":
        return "." + token.text.replace(":", "_")
    if token.kind == "name" and keyword.iskeyword(token.text) and token.text not in _CONSTANTS:
        return token.text + _KEYWORD
    if token.text == "=":
        return "=="
    if token.text == "]" and before[-1].text == "[":
        is_subscript = before[0].kind == "name" or before[0].text == "]"
        return "()]" if is_subscript else "]"
    return token.text


# -- from Python to notation ------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """A part of a text of example inputs: a call such as ``init(4)``, the word ``then``, or
    arguments."""

    first: _Token
    items: list[ast.expr]

    @property
    def name(self) -> str:
        """Name before the parentheses, such as ``init``; or the word ``then``; empty for arguments
        without a call."""
        match self.items:
            case [ast.Call(func=ast.Name(id=name))] if name != "Sym":
                return self.first.text
            case [ast.Name(id="then")]:
                return "then"
        return ""

    @property
    def arguments(self) -> list[ast.expr]:
        """Arguments inside the parentheses of a call; all items of a part without a call."""
        match self.items:
            case [ast.Call(args=arguments)] if self.name:
                return arguments
        return self.items


class _ProbeReader:
    """A converter of the parts of a text of example inputs into parsed example inputs, from left to
    right."""

    def __init__(self, values: _ValueReader, parts: deque[_Part], end: _Token) -> None:
        self.values = values
        self.parts = parts
        self.end = end
        self.before = ""

    def read(self) -> Notation:
        """Return the example inputs of a whole probe, as in ``init(8) f32[4] then f32[5]``."""
        init, method, inputs, context = None, "", None, None
        if self._next() == "init":
            init = self.values.read_arguments(self._take().arguments)
        if self.parts and self._next() != "under":
            method, inputs = self._read_call()
        if self._next() == "under":
            context = self.values.read_context(self._take().arguments)
        then = []
        while inputs is not None and self._next() == "then":
            self._take()
            then.append(self._read_further_call())
        if self.parts:
            after = (
                f" after {self.before}(…)" if self.before else "; arguments are separated by ','"
            )
            first = self.parts[0].first
            raise first.error(f"unexpected '{first.text}'{after}")
        return Notation(init, method, inputs, context, tuple(then))

    def _next(self) -> str:
        return self.parts[0].name if self.parts else ""

    def _take(self) -> _Part:
        part = self.parts.popleft()
        self.before = part.name
        return part

    def _read_call(self) -> tuple[str, Arguments]:
        part = self._take()
        if part.name == "init":
            raise part.first.error("init(…) must come first, and only once")
        return part.name, self.values.read_arguments(part.arguments)

    def _read_further_call(self) -> FurtherCall:
        if not self.parts:
            raise self.end.error("expected another call after then, such as forward(f32[5, 16])")
        method, inputs = self._read_call()
        if self._next() != "under":
            return FurtherCall(inputs, method)
        return FurtherCall(inputs, method, self.values.read_context(self._take().arguments))


class _ValueReader:
    """A converter of Python syntax trees into the values, arguments and contexts of example
    inputs."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.hints: dict[str, int] = {}

    def words(self, node: ast.expr) -> str:
        """Return the text of an expression as the user wrote it, before tokens were replaced for
        ``ast.parse``."""
        return self.text[node.col_offset : node.end_col_offset]

    def error(self, message: str, node: ast.expr) -> NotationError:
        return NotationError(message, node.col_offset, node.end_col_offset or 0)

    def read(self, node: ast.expr) -> Value:
        """Return the value, such as a tensor or a list, that an expression in example inputs
        describes."""
        match node:
            case ast.Constant(value=str() | bool() | float() | None as constant):
                return LiteralValue(constant)
            case ast.Name(id=name) if name in _FLOATS:
                return LiteralValue(_FLOATS[name])
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=float() as number)):
                return LiteralValue(-number)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Name(id=name)) if name in _FLOATS:
                return LiteralValue(-_FLOATS[name])
            case ast.List(elts=items):
                return Sequence("list", tuple(map(self.read, items)))
            case ast.Tuple(elts=items):
                return Sequence("tuple", tuple(map(self.read, items)))
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return Mapping(tuple((self.read(key), self.read(one)) for key, one in pairs if key))
            case _ if _has_subscript(node):
                return self._read_tensor(node)
            case ast.Call(func=function, args=arguments) if self.words(function) != "Sym":
                return Reference(self._dotted_name(function), self.read_arguments(arguments))
            case ast.Attribute():
                return Reference(self._dotted_name(node))
            case (
                ast.Constant()
                | ast.Name()
                | ast.UnaryOp()
                | ast.BinOp()
                | ast.Compare()
                | ast.Call()
            ):
                size = self._read_size(node)
                return LiteralValue(size.value) if isinstance(size, FixedSize) else SizeText(size)
        raise self.error(f"expected a value, found '{self.words(node)}'", node)

    def read_arguments(self, nodes: list[ast.expr]) -> Arguments:
        """Return the arguments that the expressions between a call's parentheses state."""
        positional: list[Value] = []
        named: dict[str, Value] = {}
        for node in nodes:
            match node:
                case ast.Compare(left=ast.Name() as name, ops=[ast.Eq()], comparators=[value]):
                    if self.words(name) in named:
                        raise self.error(f"the argument {self.words(name)} is given twice", name)
                    named[self.words(name)] = self.read(value)
                case _:
                    positional.append(self.read(node))
                    if named:
                        raise self.error(
                            "a positional argument cannot follow a keyword argument", node
                        )
        return Arguments(tuple(positional), tuple(named.items()))

    def read_context(self, nodes: list[ast.expr]) -> CallContext:
        """Return the modes and settings that the expressions between the parentheses of
        ``under(…)`` state."""
        try:
            return CallContext.from_items([self._context_item(node) for node in nodes])
        except ContextError as error:
            raise self.error(error.message, nodes[error.item]) from None

    def _context_item(self, node: ast.expr) -> ContextItem:
        match node:
            case ast.Compare(left=left, ops=[ast.Eq()], comparators=[value]):
                name = self._dotted_name(left)
            case _:
                return ContextItem(self._dotted_name(node))
        if isinstance(value, (ast.Name, ast.Attribute)) and not name.startswith(CONFIG):
            words = "".join(self.words(value).split())
            return ContextItem(name, words.removeprefix("torch."), given=True)
        match self.read(value):
            case LiteralValue(value=bool() | int() | float() | str() | None as plain):
                return ContextItem(name, plain, given=True)
        raise self.error(f"{name} takes a number, a string, True, False or None", value)

    def _dotted_name(self, node: ast.expr) -> str:
        owner = node
        while isinstance(owner, ast.Attribute):
            owner = owner.value
        if not isinstance(owner, ast.Name) or "@" in self.words(node):
            raise self.error(f"expected a name, found '{self.words(node)}'", node)
        return "".join(self.words(node).split())

    def _read_tensor(self, node: ast.expr) -> TensorText:
        """Return the tensor that an expression such as ``f32[2, 3][3, 1].cuda(requires_grad)``
        describes.
        """
        facts: list[ast.expr] = []
        device = strides = None
        if isinstance(node, ast.Call):
            facts, node = node.args, node.func
        if isinstance(node, ast.Attribute):
            whole, node = node, node.value
            device = self.text[node.end_col_offset : whole.end_col_offset].lstrip("@ \t")
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Subscript):
            strides, node = node, node.value
        if not isinstance(node, ast.Subscript):
            raise self.error(f"expected a tensor, found '{self.words(node)}'", node)
        word = self.words(node.value)
        dtype = DTYPE_ALIASES.get(word, word)
        if dtype not in dtype_names():
            message = f"'{word}' is not a dtype; write one such as f32, bf16, i64 or bool"
            raise self.error(message, node.value)
        sizes = tuple(map(self._read_size, _subscripts(node)))
        numbers = None if strides is None else self._read_strides(strides, len(sizes))
        tensor = TensorText(dtype, sizes, numbers, device)
        for fact in facts:
            tensor = self._with_fact(tensor, fact)
        return tensor

    def _read_strides(self, node: ast.Subscript, rank: int) -> tuple[int, ...]:
        sizes = [self._read_size(one) for one in _subscripts(node)]
        numbers = tuple(size.value for size in sizes if isinstance(size, FixedSize))
        start, end = node.value.end_col_offset or 0, node.end_col_offset or 0
        if len(numbers) != len(sizes):
            raise NotationError("strides are numbers", start, end)
        if len(numbers) != rank:
            raise NotationError(f"{len(numbers)} strides for {rank} sizes", start, end)
        return numbers

    def _with_fact(self, tensor: TensorText, node: ast.expr) -> TensorText:
        """Return the tensor with one more property from the parentheses after it, such as
        ``requires_grad``."""
        match node:
            case ast.Name(id=("requires_grad" | "grad_fn") as grad):
                if tensor.grad:
                    raise self.error("write either requires_grad or grad_fn, once", node)
                return replace(tensor, grad=grad)
            case ast.Compare(left=ast.Name(id=mark), ops=[ast.Eq()], comparators=[value]) if (
                mark in MARKS
            ):
                dimensions = self._read_dimensions(value, len(tensor.sizes))
                return replace(tensor, marks=(*tensor.marks, (mark, dimensions)))
        raise self.error(
            f"'{self.words(node)}' is unknown after a tensor; write requires_grad, "
            "grad_fn or a mark such as mark_dynamic=0",
            node,
        )

    def _read_dimensions(self, node: ast.expr, rank: int) -> tuple[int, ...]:
        value = self.read(node)
        items = value.items if isinstance(value, Sequence) else (value,)
        found = [one.value for one in items if isinstance(one, LiteralValue)]
        dimensions = tuple(one for one in found if type(one) is int and 0 <= one < rank)
        if len(dimensions) != len(items) or not items:
            words = "no dimensions" if not rank else f"dimensions 0 to {rank - 1}"
            raise self.error(f"expected dimension numbers; the tensor has {words}", node)
        return dimensions

    def _read_size(self, node: ast.expr) -> Size:
        match node:
            case ast.Constant(value=int() as number) if type(number) is int:
                return FixedSize(number)
            case ast.Constant(value=float()):
                raise self.error(f"a size is a whole number, not {self.words(node)}", node)
            case ast.Name(id=name) if name not in _CONSTANTS:
                return SymbolicSize(self.words(node))
            case ast.Call(func=ast.Name(id="Sym"), args=[size]):
                return self._read_size(size)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return compute_size("-", FixedSize(0), self._read_size(operand))
            case ast.BinOp(left=left, op=operator, right=right) if (
                type(operator) in _SIZE_OPERATORS
            ):
                one, other = self._read_size(left), self._read_size(right)
                if isinstance(operator, ast.FloorDiv) and other == FixedSize(0):
                    raise self.error("a size cannot be divided by zero", node)
                return compute_size(_SIZE_OPERATORS[type(operator)], one, other)
            case ast.Compare(left=ast.Name() as name, ops=[ast.Eq()], comparators=[value]):
                return self._read_hint(self.words(name), value)
        raise self.error(f"expected a size such as 16 or b, found '{self.words(node)}'", node)

    def _read_hint(self, name: str, node: ast.expr) -> SymbolicSize:
        """Return the symbolic size that ``name=4`` states, with 4 as its number in the run."""
        size = self._read_size(node)
        if not isinstance(size, FixedSize):
            raise self.error(f"expected a number after {name}=, found '{self.words(node)}'", node)
        known = self.hints.setdefault(name, size.value)
        if known != size.value:
            raise self.error(f"{name} cannot be both {known} and {size.value}", node)
        return SymbolicSize(name, size.value)


def _has_subscript(node: ast.expr) -> bool:
    """Whether an expression is ``x[…]``, ``x[…].y`` or ``x[…](…)``, which stands for a tensor in
    example inputs."""
    while isinstance(node, (ast.Attribute, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Subscript)


def _subscripts(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
