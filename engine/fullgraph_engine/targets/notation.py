"""Notation of probes: how the inputs of a target are written, read and printed.

``f32[b, 16]`` is a tensor in Dynamo's own notation: the names of ``torch.fx.graph.dtype_abbrs``
and sizes. A bare letter or ``Sym(s0)`` is a symbolic size; ``b=4`` states the size that it has
in the run. A text also contains Python literals, lists, tuples, dictionaries, keyword arguments,
names of the file (``Config(layers=2)``), and ``init(…) forward(…)`` for a module's constructor
and method. ``under(…)`` after a call states in which modes it is made, ``then`` begins another
call of the same object. ``f32[4](requires_grad, mark_dynamic=0)`` says more about a tensor.

Nothing here needs torch: reading a probe is part of static discovery.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NoReturn, Union

from ..protocol.contexts import GRADS, MARKS
from .context import CallContext, ContextError, ContextItem

if TYPE_CHECKING:
    import torch

# torch.fx.graph.dtype_abbrs of torch 2.13; the loaded torch's table takes precedence.
_DTYPES_WORDS = (
    "u8 u16 u32 u64 i8 i16 i32 i64 f16 f32 f64 bf16 c32 c64 c128 b8 b1x8 b2x4 b4x2 b8x1 b16x1 "
    "f8e5m2 f8e4m3fn f8e5m2fnuz f8e4m3fnuz f8e8m0fnu f4e2m1fnx2"
)
_DTYPES = frozenset(_DTYPES_WORDS.split())
# Alternative spellings.
DTYPE_ALIASES = {
    "bool": "b8",
    "float": "f32",
    "int": "i64",
    "long": "i64",
    "half": "f16",
    "double": "f64",
}

_CONSTANTS: dict[str, object] = {
    "True": True,
    "False": False,
    "None": None,
    "inf": float("inf"),
    "nan": float("nan"),
}


class NotationError(ValueError):
    """Raised for invalid notation; ``start`` and ``end`` are character offsets in the text."""

    def __init__(self, message: str, start: int, end: int) -> None:
        super().__init__(message)
        self.message = message
        self.start = start
        self.end = max(end, start + 1)


# -- contents of a probe ----------------------------------------------------------------------


@dataclass(frozen=True)
class FixedSize:
    """A size written as a number."""

    value: int


@dataclass(frozen=True)
class SymbolicSize:
    """A size written as a name; equal names are equal sizes."""

    name: str
    hint: int | None = None


@dataclass(frozen=True)
class Arithmetic:
    """A size computed from other sizes: ``2*b``, ``t+1``, ``h//2``."""

    operator: Literal["+", "-", "*", "//"]
    left: Size
    right: Size


Size = Union[FixedSize, SymbolicSize, Arithmetic]


@dataclass(frozen=True)
class TensorText:
    """A tensor in notation, such as ``f32[b, 16]``, with strides and device if the text states
    them.

    ``grad`` says whether the tensor requires grad, as a leaf or as the result of an operation.
    ``marks`` are the marked dimensions, by the name of the function that marks them.
    """

    dtype: str
    sizes: tuple[Size, ...]
    strides: tuple[int, ...] | None = None
    device: str | None = None
    grad: Literal["", "requires_grad", "grad_fn"] = ""
    marks: tuple[tuple[str, tuple[int, ...]], ...] = ()


@dataclass(frozen=True)
class LiteralValue:
    """A Python literal."""

    value: object


@dataclass(frozen=True)
class SizeText:
    """A size passed as an argument: a number, or a symbolic name."""

    size: Size


@dataclass(frozen=True)
class Sequence:
    """A list or a tuple in notation."""

    kind: Literal["list", "tuple"]
    items: tuple[Value, ...]


@dataclass(frozen=True)
class Mapping:
    """A dictionary in notation."""

    items: tuple[tuple[Value, Value], ...]


@dataclass(frozen=True)
class Reference:
    """A dotted name of the file, such as ``Config``; with ``call`` also called:
    ``Config(layers=2)``.
    """

    name: str
    call: Arguments | None = None


@dataclass(frozen=True)
class Arguments:
    """The arguments between the parentheses of a call."""

    positional: tuple[Value, ...] = ()
    named: tuple[tuple[str, Value], ...] = ()


Value = Union[TensorText, LiteralValue, SizeText, Sequence, Mapping, Reference]


@dataclass(frozen=True)
class FurtherCall:
    """A second or later call of the traced object. An empty ``method`` means the first call's
    method.
    """

    inputs: Arguments
    method: str = ""
    context: CallContext = field(default_factory=CallContext)


@dataclass(frozen=True)
class Notation:
    """A whole probe: constructor arguments, inputs and modes of the call.

    ``init``, ``inputs`` and ``context`` are None if the text omits them; ``method`` is then empty.
    """

    init: Arguments | None = None
    method: str = ""
    inputs: Arguments | None = None
    context: CallContext | None = None
    then: tuple[FurtherCall, ...] = ()


def dtype_names() -> frozenset[str]:
    """Return the names of dtypes that notation accepts, from the loaded torch if available."""
    loaded = getattr(sys.modules.get("torch.fx.graph"), "dtype_abbrs", None)
    return _DTYPES if loaded is None else frozenset(loaded.values())


def dtype_abbreviations() -> dict[torch.dtype, str]:
    """Return Dynamo's name for every dtype of this torch."""
    import torch.fx.graph

    return dict(vars(torch.fx.graph)["dtype_abbrs"])


# -- reading ----------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>(?:\d[\d_]*)?\.\d+(?:[eE][-+]?\d+)?|\d[\d_]*\.?(?:[eE][-+]?\d+)?)
    | (?P<name>[^\W\d]\w*)
    | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    | (?P<operator>//|[][(){},:=@.*+\-])
    | (?P<end>\#.*|$)
    | (?P<unknown>.)
    )""",
    re.VERBOSE | re.DOTALL,
)

_Kind = Literal["number", "name", "string", "operator", "end"]


@dataclass(frozen=True)
class _NotationToken:
    kind: _Kind
    text: str
    start: int
    end: int


def parse_probe(text: str) -> Notation:
    """Parse the text of a probe.

    Raises:
        NotationError: the text is invalid; the error has the offsets.
    """
    return _NotationReader(text).parse_probe_text()


def parse_value(text: str) -> Value:
    """Parse one value in notation, for example from a string annotation.

    Raises:
        NotationError: the text is not a value.
    """
    reader = _NotationReader(text)
    value = reader.parse_value_text()
    reader.expect_end()
    return value


def parse_context(text: str) -> CallContext:
    """Parse the context between the brackets of ``under(…)``.

    Raises:
        NotationError: the text is not a context.
    """
    reader = _NotationReader(text)
    context = reader.parse_context_text(None)
    reader.expect_end()
    return context


class _NotationReader:
    """A recursive descent parser over the tokens of one text in notation."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = list(_tokenize_text(text))
        self.at = 0
        self.hints: dict[str, int] = {}

    @property
    def token(self) -> _NotationToken:
        return self.tokens[self.at]

    def peek(self, ahead: int = 1) -> _NotationToken:
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def advance(self) -> _NotationToken:
        token = self.token
        if token.kind != "end":
            self.at += 1
        return token

    def is_operator(self, text: str, token: _NotationToken | None = None) -> bool:
        token = token or self.token
        return token.kind == "operator" and token.text == text

    def accept(self, text: str) -> bool:
        if self.is_operator(text):
            self.advance()
            return True
        return False

    def expect(self, text: str, where: str) -> _NotationToken:
        if not self.is_operator(text):
            self.fail(f"expected '{text}' {where}, found {_shown_token(self.token)}")
        return self.advance()

    def expect_end(self) -> None:
        if self.token.kind != "end":
            self.fail(f"unexpected {_shown_token(self.token)}; arguments are separated by ','")

    def fail(self, message: str, token: _NotationToken | None = None) -> NoReturn:
        token = token or self.token
        raise NotationError(message, token.start, token.end)

    # The grammar, largest things first.

    def parse_probe_text(self) -> Notation:
        if self.token.kind == "end":
            self.fail("the probe is empty; write inputs such as f32[b, 16]")
        if self.token.kind == "name" and self.peek().kind == "end":
            name = self.token.text
            if name not in _CONSTANTS:
                self.fail(
                    f"'{name}' is neither inputs nor a directive; "
                    "write inputs such as f32[b, 16], or off"
                )
        init = self._parse_init()
        method, inputs, context = "", None, None
        if not self._starts_word("under"):
            if init is not None and self._at_end():
                return Notation(init=init)
            method, inputs = self._parse_call()
        if self._starts_word("under"):
            context = self._parse_under()
        then = []
        while inputs is not None and self.token.kind == "name" and self.token.text == "then":
            self.advance()
            then.append(self._further_call())
        if not self._at_end():
            behind = "under(…)" if self.is_operator(")", self.tokens[self.at - 1]) else ""
            behind = f"{method}(…)" if method and context is None and not then else behind
            self.fail(f"unexpected {_shown_token(self.token)}{behind and f' after {behind}'}")
        return Notation(init, method, inputs, context, tuple(then))

    def _at_end(self) -> bool:
        return self.token.kind == "end"

    def _starts_word(self, word: str) -> bool:
        """Whether the next tokens are ``word`` and an opening parenthesis."""
        token = self.token
        return token.kind == "name" and token.text == word and self.is_operator("(", self.peek())

    def _ends_arguments(self) -> bool:
        """Whether the next token ends arguments written without parentheses."""
        return self._starts_word("under") or (
            self.token.kind == "name" and self.token.text == "then"
        )

    def _starts_calls(self) -> bool:
        """Whether the whole text has the form ``name(…)`` or ``name(…) name(…)``."""
        if self.token.kind != "name" or self.token.text == "Sym":
            return False
        if not self.is_operator("(", self.peek()):
            return False
        depth = 0
        for index in range(self.at + 1, len(self.tokens)):
            token = self.tokens[index]
            if token.kind == "operator" and token.text in "([{":
                depth += 1
            elif token.kind == "operator" and token.text in ")]}":
                depth -= 1
                if depth == 0:
                    return self.tokens[index + 1].kind in ("end", "name")
        return True

    def _parse_init(self) -> Arguments | None:
        if not self._starts_word("init") or not self._starts_calls():
            return None
        self.advance()
        self.advance()
        init = self.parse_arguments(")")
        self.expect(")", "at the end of init(…)")
        return init

    def _parse_call(self) -> tuple[str, Arguments]:
        """Parse a method name and its arguments; the parentheses of ``forward`` are optional."""
        if not self._starts_calls():
            return "", self.parse_arguments(None)
        method = self.advance()
        if method.text == "init":
            self.fail("init(…) comes first, and once", method)
        self.advance()
        inputs = self.parse_arguments(")")
        self.expect(")", f"at the end of {method.text}(…)")
        return method.text, inputs

    def _further_call(self) -> FurtherCall:
        if self.token.kind == "end":
            self.fail("expected another call after then, such as forward(f32[5, 16])")
        method, inputs = self._parse_call()
        context = self._parse_under() if self._starts_word("under") else CallContext()
        return FurtherCall(inputs, method, context)

    def _parse_under(self) -> CallContext:
        self.advance()
        self.advance()
        context = self.parse_context_text(")")
        self.expect(")", "at the end of under(…)")
        return context

    def parse_context_text(self, closing: str | None) -> CallContext:
        """Parse a context up to the token ``closing``, which stays unread, or to the end of the
        text.
        """
        items: list[ContextItem] = []
        places: list[tuple[int, int]] = []
        while not self._is_closing(closing):
            start = self.token.start
            items.append(self._context_item())
            places.append((start, self.tokens[self.at - 1].end))
            if not self.accept(","):
                break
        try:
            return CallContext.from_items(items)
        except ContextError as error:
            raise NotationError(error.message, *places[error.item]) from None

    def _context_item(self) -> ContextItem:
        if self.token.kind != "name":
            self.fail(
                f"expected a word such as no_grad in under(…), found {_shown_token(self.token)}"
            )
        name = self._parse_dotted_name()
        if not self.accept("="):
            return ContextItem(name)
        if not name.startswith("config.") and self.token.kind == "name":
            value = self._parse_dotted_name().removeprefix("torch.")
            if self.accept("@"):
                value += f"@{self.advance().text}"
            return ContextItem(name, value, given=True)
        start = self.token
        literal = self.parse_value_text()
        plain = literal.value if isinstance(literal, LiteralValue) else self
        if not isinstance(plain, (bool, int, float, str)) and plain is not None:
            self.fail(f"{name} takes a number, a string, True, False or None", start)
        return ContextItem(name, plain, given=True)

    def _parse_dotted_name(self) -> str:
        name = self.advance().text
        while self.accept("."):
            if self.token.kind != "name":
                self.fail(f"expected a name after '.', found {_shown_token(self.token)}")
            name += "." + self.advance().text
        return name

    def parse_arguments(self, closing: str | None) -> Arguments:
        """Parse arguments up to the token ``closing``, which stays unread, or to the end of the
        text.
        """
        positional: list[Value] = []
        named: list[tuple[str, Value]] = []
        while not self._is_closing(closing):
            start = self.token
            if start.kind == "name" and self.is_operator("=", self.peek()):
                if any(name == start.text for name, _ in named):
                    self.fail(f"the argument {start.text} is given twice")
                self.advance()
                self.advance()
                named.append((start.text, self.parse_value_text()))
            else:
                value = self.parse_value_text()
                if named:
                    raise NotationError(
                        "a positional argument cannot follow a keyword argument",
                        start.start,
                        self.tokens[self.at - 1].end,
                    )
                positional.append(value)
            if not self.accept(","):
                break
        if closing is None and not self._ends_arguments():
            self.expect_end()
        return Arguments(tuple(positional), tuple(named))

    def _is_closing(self, closing: str | None) -> bool:
        if closing is not None and self.is_operator(closing):
            return True
        return self.token.kind == "end"

    def parse_value_text(self) -> Value:
        token = self.token
        if token.kind == "string":
            self.advance()
            text = token.text
            while self.token.kind == "string":
                text += self.advance().text
            return LiteralValue(ast.literal_eval(text))
        if token.kind == "name":
            if self.is_operator("[", self.peek()):
                return self.parse_tensor()
            if token.text in _CONSTANTS:
                self.advance()
                return LiteralValue(_CONSTANTS[token.text])
            if token.text != "Sym" and (
                self.is_operator(".", self.peek()) or self.is_operator("(", self.peek())
            ):
                return self.parse_reference()
        if self.accept("["):
            return Sequence("list", self.parse_items("]"))
        if self.is_operator("("):
            return self.parse_bracketed()
        if self.accept("{"):
            return self.parse_mapping()
        number = self.float_literal()
        if number is not None:
            return number
        if token.kind not in ("name", "number") and not self.is_operator("-"):
            self.fail(f"expected a value, found {_shown_token(token)}")
        size = self.parse_size()
        if isinstance(size, FixedSize):
            return LiteralValue(size.value)
        return SizeText(size)

    def float_literal(self) -> LiteralValue | None:
        negative = self.is_operator("-")
        token = self.peek() if negative else self.token
        special = token.kind == "name" and token.text in ("inf", "nan")
        if not special and (token.kind != "number" or re.fullmatch(r"[\d_]+", token.text)):
            return None
        if negative:
            self.advance()
        self.advance()
        value = float(token.text.replace("_", ""))
        return LiteralValue(-value if negative else value)

    def parse_items(self, closing: str) -> tuple[Value, ...]:
        items: list[Value] = []
        while not self._is_closing(closing):
            items.append(self.parse_value_text())
            if not self.accept(","):
                break
        self.expect(closing, "at the end of the list")
        return tuple(items)

    def parse_bracketed(self) -> Value:
        """Parse a tuple, or one value in parentheses."""
        self.expect("(", "here")
        items: list[Value] = []
        comma = False
        while not self._is_closing(")"):
            items.append(self.parse_value_text())
            comma = self.accept(",")
            if not comma:
                break
        self.expect(")", "at the end of the tuple")
        if len(items) == 1 and not comma:
            return items[0]
        return Sequence("tuple", tuple(items))

    def parse_mapping(self) -> Mapping:
        items: list[tuple[Value, Value]] = []
        while not self._is_closing("}"):
            key = self.parse_value_text()
            self.expect(":", "after a key of the dictionary")
            items.append((key, self.parse_value_text()))
            if not self.accept(","):
                break
        self.expect("}", "at the end of the dictionary")
        return Mapping(tuple(items))

    def parse_reference(self) -> Reference:
        name = self._parse_dotted_name()
        if not self.accept("("):
            return Reference(name)
        call = self.parse_arguments(")")
        self.expect(")", f"at the end of {name}(…)")
        return Reference(name, call)

    def parse_tensor(self) -> TensorText:
        token = self.advance()
        dtype = DTYPE_ALIASES.get(token.text, token.text)
        if dtype not in dtype_names():
            self.fail(
                f"'{token.text}' is no dtype; write one such as f32, bf16, i64 or bool", token
            )
        self.expect("[", f"after {token.text}")
        sizes: list[Size] = []
        while not self._is_closing("]"):
            sizes.append(self.parse_size())
            if not self.accept(","):
                break
        self.expect("]", "at the end of the sizes")
        strides = self.parse_strides(len(sizes))
        device = self.parse_device()
        made = TensorText(dtype, tuple(sizes), strides, device)
        if self.is_operator("(") and self.token.start == self.tokens[self.at - 1].end:
            self.advance()
            made = self._with_facts(made)
            self.expect(")", "behind the tensor")
        return made

    def _with_facts(self, tensor: TensorText) -> TensorText:
        """Parse the properties in parentheses after a tensor and return the tensor with them."""
        while not self._is_closing(")"):
            word = self.token
            if word.text in GRADS:
                if tensor.grad:
                    self.fail("write requires_grad or grad_fn, and once")
                self.advance()
                tensor = replace(
                    tensor, grad="grad_fn" if word.text == "grad_fn" else "requires_grad"
                )
            elif word.text in MARKS and self.is_operator("=", self.peek()):
                self.advance()
                self.advance()
                mark = word.text, self._parse_dimensions(len(tensor.sizes))
                tensor = replace(tensor, marks=(*tensor.marks, mark))
            else:
                self.fail(
                    f"{_shown_token(word)} is unknown behind a tensor; write requires_grad, "
                    "grad_fn or a mark such as mark_dynamic=0"
                )
            if not self.accept(","):
                break
        return tensor

    def _parse_dimensions(self, rank: int) -> tuple[int, ...]:
        start = self.token
        value = self.parse_value_text()
        items = value.items if isinstance(value, Sequence) else (value,)
        found = [one.value for one in items if isinstance(one, LiteralValue)]
        dimensions = tuple(one for one in found if type(one) is int and 0 <= one < rank)
        if len(dimensions) != len(items) or not items:
            words = "it has none" if not rank else f"it has 0 to {rank - 1}"
            self.fail(f"expected dimensions of the tensor, of which {words}", start)
        return dimensions

    def parse_strides(self, rank: int) -> tuple[int, ...] | None:
        opening = self.token
        if not self.is_operator("[") or opening.start != self.tokens[self.at - 1].end:
            return None
        self.advance()
        strides: list[int] = []
        while not self._is_closing("]"):
            size = self.parse_size()
            if not isinstance(size, FixedSize):
                self.fail("strides are numbers", opening)
            strides.append(size.value)
            if not self.accept(","):
                break
        closing = self.expect("]", "at the end of the strides")
        if len(strides) != rank:
            raise NotationError(
                f"{len(strides)} strides for {rank} sizes", opening.start, closing.end
            )
        return tuple(strides)

    def parse_device(self) -> str | None:
        """Parse a device such as ``@cuda:0``; directly after the bracket the ``@`` may be missing,
        as FX prints it.
        """
        if not self.accept("@") and (
            self.token.kind != "name" or self.token.start != self.tokens[self.at - 1].end
        ):
            return None
        if self.token.kind != "name":
            self.fail(f"expected a device such as cuda after '@', found {_shown_token(self.token)}")
        device = self.advance().text
        if self.is_operator(":") and self.peek().kind == "number":
            self.advance()
            device += ":" + self.advance().text
        return device

    def parse_size(self) -> Size:
        left = self.parse_product()
        while self.is_operator("+") or self.is_operator("-"):
            operator = self.advance().text
            left = _compute_size("+" if operator == "+" else "-", left, self.parse_product())
        return left

    def parse_product(self) -> Size:
        left = self.parse_factor()
        while self.is_operator("*") or self.is_operator("//"):
            operator = self.advance()
            right = self.parse_factor()
            if operator.text == "//" and right == FixedSize(0):
                self.fail("a size cannot be divided by zero", operator)
            left = _compute_size("*" if operator.text == "*" else "//", left, right)
        return left

    def parse_factor(self) -> Size:
        token = self.token
        if self.accept("-"):
            return _compute_size("-", FixedSize(0), self.parse_factor())
        if self.accept("("):
            size = self.parse_size()
            self.expect(")", "in the size")
            return size
        if token.kind == "number":
            if not re.fullmatch(r"[\d_]+", token.text):
                self.fail(f"a size is a whole number, not {token.text}")
            self.advance()
            return FixedSize(int(token.text.replace("_", "")))
        if token.kind != "name" or token.text in _CONSTANTS:
            self.fail(f"expected a size such as 16 or b, found {_shown_token(token)}")
        if token.text == "Sym" and self.is_operator("(", self.peek()):
            self.advance()
            self.advance()
            size = self.parse_size()
            self.expect(")", "at the end of Sym(…)")
            return size
        self.advance()
        if not self.is_operator("="):
            return SymbolicSize(token.text)
        self.advance()
        number = self.token
        if number.kind != "number" or not re.fullmatch(r"[\d_]+", number.text):
            self.fail(f"expected a number after {token.text}=, found {_shown_token(number)}")
        self.advance()
        hint = int(number.text.replace("_", ""))
        known = self.hints.setdefault(token.text, hint)
        if known != hint:
            self.fail(f"{token.text} cannot be both {known} and {hint}", number)
        return SymbolicSize(token.text, hint)


def _tokenize_text(text: str) -> Iterator[_NotationToken]:
    at = 0
    while True:
        match = _TOKEN.match(text, at)
        assert match is not None  # the last alternatives match anything
        kind = match.lastgroup
        start, end = match.span(kind or 0)
        if kind == "unknown":
            if match["unknown"] in "'\"":
                raise NotationError("a string is not closed", start, len(text.rstrip()))
            raise NotationError(f"'{match['unknown']}' has no meaning in a probe", start, end)
        if kind == "end":
            # An error at the end of the text marks its last character.
            last = max(len(text[:start].rstrip()) - 1, 0)
            yield _NotationToken("end", "", last, last + 1)
            return
        at = match.end()
        for known in ("number", "name", "string", "operator"):
            if kind == known:
                yield _NotationToken(known, match[known], start, end)


def _shown_token(token: _NotationToken) -> str:
    return "the end" if token.kind == "end" else f"'{token.text}'"


def _compute_size(operator: Literal["+", "-", "*", "//"], left: Size, right: Size) -> Size:
    if isinstance(left, FixedSize) and isinstance(right, FixedSize):
        return FixedSize(_apply_operator(operator, left.value, right.value))
    return Arithmetic(operator, left, right)


def _apply_operator(operator: Literal["+", "-", "*", "//"], left: int, right: int) -> int:
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return left // right


# -- asking -----------------------------------------------------------------------------------


def symbolic_sizes(arguments: Arguments) -> tuple[SymbolicSize, ...]:
    """Return the symbolic sizes of the tensors in ``arguments``, in the order of the text."""
    values = (*arguments.positional, *(value for _, value in arguments.named))
    return tuple(symbol for value in values for symbol in _symbols_of(value))


def fixed_sizes(arguments: Arguments) -> frozenset[int]:
    """Return all sizes that ``arguments`` state as numbers."""
    found: set[int] = set()
    for tensor in tensor_texts(arguments):
        found.update(size.value for size in tensor.sizes if isinstance(size, FixedSize))
    return frozenset(found)


def tensor_texts(arguments: Arguments) -> tuple[TensorText, ...]:
    """Return the tensors in ``arguments``, in the order of the text."""
    values = (*arguments.positional, *(value for _, value in arguments.named))
    return tuple(tensor for value in values for tensor in _tensors_of(value))


def _tensors_of(value: Value) -> Iterator[TensorText]:
    if isinstance(value, TensorText):
        yield value
    for inner in inner_values(value):
        yield from _tensors_of(inner)


def inner_values(value: Value) -> tuple[Value, ...]:
    """Return the values directly inside a container or call, in the order of the text, without
    keys.
    """
    if isinstance(value, Sequence):
        return value.items
    if isinstance(value, Mapping):
        return tuple(item for _, item in value.items)
    if isinstance(value, Reference) and value.call is not None:
        return (*value.call.positional, *(item for _, item in value.call.named))
    return ()


def with_parts(value: Value, inner: tuple[Value, ...]) -> Value:
    """Return a copy of the value with its inner values replaced, or the value itself if it has
    none.
    """
    if isinstance(value, Sequence):
        return Sequence(value.kind, inner)
    if isinstance(value, Mapping):
        keys = [key for key, _ in value.items]
        return Mapping(tuple(zip(keys, inner, strict=True)))
    if isinstance(value, Reference) and value.call is not None:
        count = len(value.call.positional)
        names = [name for name, _ in value.call.named]
        named = tuple(zip(names, inner[count:], strict=True))
        return Reference(value.name, Arguments(inner[:count], named))
    return value


def _symbols_of(value: Value) -> Iterator[SymbolicSize]:
    for tensor in _tensors_of(value):
        for size in tensor.sizes:
            yield from symbols_of_size(size)


def symbols_of_size(size: Size) -> Iterator[SymbolicSize]:
    """Yield the symbols that a size is computed from."""
    if isinstance(size, SymbolicSize):
        yield size
    elif isinstance(size, Arithmetic):
        yield from symbols_of_size(size.left)
        yield from symbols_of_size(size.right)


# Sizes that suit most models: even, divisible by a few heads, and not 0 or 1, which Dynamo
# specializes. Images must survive some strides. All chosen sizes differ, since Dynamo treats
# equal sizes as one symbol.
_SMALL = (4, 8, 6, 12, 10, 16, 20, 24, 14, 18, 28, 36)
_LARGE = (32, 64, 48, 96, 80, 128)


def choose_sizes(*parts: Arguments | None) -> dict[str, int]:
    """Return a number for every symbolic size: the one stated as ``b=4``, or a small unique
    number.
    """
    given = [part for part in parts if part is not None]
    names: list[SymbolicSize] = [symbol for part in given for symbol in symbolic_sizes(part)]
    chosen = {symbol.name: symbol.hint for symbol in names if symbol.hint is not None}
    taken = set(chosen.values()).union(*(fixed_sizes(part) for part in given))
    for symbol in names:
        if symbol.name in chosen:
            continue
        image = symbol.name.lower() in ("h", "w", "height", "width")
        candidates = _LARGE if image else _SMALL
        size = next((size for size in candidates if size not in taken), max(taken, default=2) + 2)
        chosen[symbol.name] = size
        taken.add(size)
    return chosen


def with_numbers(said: Notation) -> Notation:
    """Return the notation with a number for every symbolic size."""
    sizes = choose_sizes(said.init, said.inputs, *(call.inputs for call in said.then))

    def is_known(size: Size) -> bool:
        return all(symbol.name in sizes for symbol in symbols_of_size(size))

    def value_with_numbers(given: Value) -> Value:
        if isinstance(given, TensorText):
            return replace(
                given, sizes=tuple(FixedSize(evaluate_size(one, sizes)) for one in given.sizes)
            )
        if isinstance(given, SizeText) and is_known(given.size):
            return LiteralValue(evaluate_size(given.size, sizes))
        return with_parts(given, tuple(map(value_with_numbers, inner_values(given))))

    def arguments_with_numbers(given: Arguments) -> Arguments:
        return Arguments(
            tuple(map(value_with_numbers, given.positional)),
            tuple((name, value_with_numbers(one)) for name, one in given.named),
        )

    return replace(
        said,
        init=said.init and arguments_with_numbers(said.init),
        inputs=said.inputs and arguments_with_numbers(said.inputs),
        then=tuple(replace(call, inputs=arguments_with_numbers(call.inputs)) for call in said.then),
    )


def evaluate_size(size: Size, sizes: dict[str, int]) -> int:
    """Return the number that a size evaluates to."""
    if isinstance(size, FixedSize):
        return size.value
    if isinstance(size, SymbolicSize):
        return sizes[size.name]
    left, right = evaluate_size(size.left, sizes), evaluate_size(size.right, sizes)
    if size.operator == "//" and right == 0:
        return 0
    return _apply_operator(size.operator, left, right)


# -- printing ---------------------------------------------------------------------------------


def show_notation(notation: Notation) -> str:
    """Return the text of a probe, which parses as ``notation``."""
    parts = []
    if notation.init is not None:
        parts.append(f"init({show_arguments(notation.init)})")
    if notation.inputs is not None:
        inputs = show_arguments(notation.inputs)
        if notation.method or notation.init is not None:
            inputs = f"{notation.method or 'forward'}({inputs})"
        parts.append(inputs)
    if notation.context is not None:
        parts.append(f"under({notation.context.text})")
    parts += [show_further(call, notation.method) for call in notation.then]
    return " ".join(parts)


def show_further(call: FurtherCall, method: str = "") -> str:
    """Return a further call in notation: ``then forward(f32[5, 16])``.

    ``method`` is the method of the first call, which the text omits.
    """
    inputs, called = show_arguments(call.inputs), call.method or method
    text = f"then {called}({inputs})" if called else f"then {inputs}"
    return text + (f" under({call.context.text})" if call.context != CallContext() else "")


def show_arguments(arguments: Arguments) -> str:
    """Return arguments in notation: ``f32[b, 16], mask=b8[b]``."""
    return ", ".join(
        (
            *(show_value(value) for value in arguments.positional),
            *(f"{name}={show_value(value)}" for name, value in arguments.named),
        )
    )


def show_value(value: Value) -> str:
    """Return a value in notation."""
    if isinstance(value, TensorText):
        text = f"{value.dtype}[{', '.join(show_size(size) for size in value.sizes)}]"
        if value.strides is not None:
            text += f"[{', '.join(str(stride) for stride in value.strides)}]"
        text += f"@{value.device}" if value.device else ""
        facts: list[str] = [value.grad] if value.grad else []
        facts += [show_mark(name, dimensions) for name, dimensions in value.marks]
        return f"{text}({', '.join(facts)})" if facts else text
    if isinstance(value, LiteralValue):
        return repr(value.value)
    if isinstance(value, SizeText):
        return show_size(value.size)
    if isinstance(value, Mapping):
        items = (f"{show_value(key)}: {show_value(item)}" for key, item in value.items)
        return "{" + ", ".join(items) + "}"
    if isinstance(value, Reference):
        return value.name + (f"({show_arguments(value.call)})" if value.call is not None else "")
    inner = ", ".join(show_value(item) for item in value.items)
    if value.kind == "list":
        return f"[{inner}]"
    return f"({inner},)" if len(value.items) == 1 else f"({inner})"


def show_mark(name: str, dimensions: tuple[int, ...]) -> str:
    """Return marked dimensions in notation: ``mark_dynamic=0``, or ``mark_dynamic=(0, 1)`` for
    several.
    """
    return f"{name}={dimensions[0] if len(dimensions) == 1 else dimensions}"


def show_size(size: Size, outer: int = 0) -> str:
    """Return a size in notation."""
    if isinstance(size, FixedSize):
        return str(size.value)
    if isinstance(size, SymbolicSize):
        return size.name if size.hint is None else f"{size.name}={size.hint}"
    binding = 1 if size.operator in "+-" else 2
    text = f"{show_size(size.left, binding)}{size.operator}{show_size(size.right, binding + 1)}"
    return f"({text})" if binding < outer else text
