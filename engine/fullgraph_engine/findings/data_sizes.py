"""Sizes and numbers that depend on tensor data (``u0`` in Dynamo), described in the words of the
program.

Dynamo records the stack where each symbol was created. The source code at that line describes the
symbol.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from ..protocol import Finding, Frame, Range, node_range
from ..tracing.recording import Recording, Symbol
from .places import SourceText

_SYMBOL = re.compile(r"\bu\d+\b")
_NUMBERS = frozenset(("item", "tolist", "__int__", "__index__", "__float__"))
_COUNTED = {
    "argwhere": "nonzero elements",
    "masked_select": "true elements",
    "nonzero": "nonzero elements",
    "unique": "distinct values",
    "unique_consecutive": "distinct values",
    "where": "nonzero elements",
}
"""Plural nouns for the elements that each operator counts to determine the size of its result."""


@dataclass(frozen=True)
class DataSize:
    """A size that depends on tensor data.

    ``name`` is its expression in the program, such as ``y.shape[0]``; ``words`` describe it, such
    as a number of nonzero elements.
    """

    name: str
    words: str

    @property
    def sentence(self) -> str:
        return f"`{self.name}` is {self.words}."


class DataSizes:
    """The sizes of one trace that depend on tensor data, by the number of the frame and the symbol
    (``u0``)."""

    def __init__(self, recording: Recording, source: SourceText) -> None:
        self._recording = recording
        self._source = source

    def data_size(self, frame: int, symbol: str) -> DataSize | None:
        """Return a description of the data-dependent size ``symbol`` (such as ``u0``) of a frame;
        None if no line of the file created it."""
        return self._all.get((frame, symbol))

    def describe_condition(self, frame: int, expression: str) -> tuple[str, tuple[DataSize, ...]]:
        """Rewrite a condition on sizes, such as ``u0 > 3``, with the program's names for the
        symbols.

        Return also descriptions of its data-dependent sizes. ``frame`` is the number of the frame
        that created the symbols.
        """
        about = {
            name: found
            for name in dict.fromkeys(_SYMBOL.findall(expression))
            if (found := self.data_size(frame, name)) is not None
        }
        try:
            tree = ast.parse(expression, mode="eval")
            text = ast.unparse(_Python({name: one.name for name, one in about.items()}).visit(tree))
        except (SyntaxError, ValueError, RecursionError):
            text = expression
        return text, tuple(about.values())

    def with_data_sizes(self, finding: Finding) -> Finding:
        """Return a finding with descriptions of the data-dependent symbols (``u0``) in it added;
        unchanged if it contains none."""
        said = f"{finding.message} {finding.explanation} {finding.context}"
        hinted = " ".join(finding.hints)
        notes = [
            one.sentence
            for one in dict.fromkeys(self._all.values())
            if f"torch._check({one.name} " in hinted
        ]
        for name in dict.fromkeys(_SYMBOL.findall(said)):
            # Dynamo numbers the symbols of each compiled frame from 0.
            found = {one for (_, symbol), one in self._all.items() if symbol == name}
            if len(found) == 1:
                (one,) = found
                notes.append(f"`{name}` stands for `{one.name}`. {one.sentence}")
        new = tuple(note for note in notes if note not in finding.notes)
        return replace(finding, notes=(*finding.notes, *new)) if new else finding

    @cached_property
    def _all(self) -> dict[tuple[int, str], DataSize]:
        found: dict[tuple[int, str], DataSize] = {}
        made: dict[tuple[int, Frame], int] = {}
        for symbol in self._recording.symbols:
            place = self._user_frame(symbol)
            # A frame creates its symbols again if it is traced again.
            if place is None or (symbol.frame, symbol.name) in found:
                continue
            number = made[symbol.frame, place] = made.get((symbol.frame, place), -1) + 1
            size = self._data_size(place, number)
            if size is not None:
                found[symbol.frame, symbol.name] = size
        return found

    def _user_frame(self, symbol: Symbol) -> Frame | None:
        if _SYMBOL.fullmatch(symbol.name) is None:
            return None
        own = (frame for frame in reversed(symbol.stack) if frame.path == self._source.path)
        return next(own, None)

    def _data_size(self, place: Frame, number: int) -> DataSize | None:
        node, assigned = self._nodes.get(self._source.range_of(place), (None, ""))
        if node is None:
            return None
        code = ast.unparse(node)
        line = f"line {place.line + 1}"
        if isinstance(node, ast.Call) and _called_name(node) in _NUMBERS | {"int", "float"}:
            many = f"[{number}]" if _called_name(node) == "tolist" else ""
            if assigned and not many:
                return DataSize(assigned, f"`{code}` ({line})")
            return DataSize(f"{code}{many}", f"a number that depends on data ({line})")
        whole = assigned or code
        in_tuple = "[0]" if _gives_tuple(node) else ""
        return DataSize(f"{whole}{in_tuple}.shape[0]", f"{_counted_words(node, code)} ({line})")

    @cached_property
    def _nodes(self) -> dict[Range, tuple[ast.expr, str]]:
        """Expressions of the file by source range, each with the name that it is assigned to, or an
        empty name."""
        found: dict[Range, tuple[ast.expr, str]] = {}
        tree = self._source.tree
        for node in ast.walk(tree) if tree is not None else ():
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                    | ast.NamedExpr(target=ast.Name(id=name), value=value)
                ):
                    found[node_range(value)] = value, name
                    found[node_range(node)] = value, name
                case ast.expr():
                    found.setdefault(node_range(node), (node, ""))
        return found


def is_own_check(source: SourceText, frame: Frame) -> bool:
    """Whether a frame of a stack is at a call of ``torch._check`` in the edited file."""
    words = source.text_of(source.range_of(frame))
    return re.match(r"torch\._check\w*\(", words) is not None


def _called_name(node: ast.Call) -> str:
    match node.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def _gives_tuple(node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    named = any(keyword.arg == "as_tuple" for keyword in node.keywords)
    return _called_name(node) == "where" or (_called_name(node) == "nonzero" and named)


def _counted_words(node: ast.expr, code: str) -> str:
    match node:
        case ast.Subscript(slice=ast.Name() | ast.Compare() | ast.UnaryOp() | ast.BinOp() as mask):
            return f"the number of true elements of `{ast.unparse(mask)}`"
        case ast.Call(args=arguments) if _called_name(node) in _COUNTED:
            what = _COUNTED[_called_name(node)]
            given = [*_method_receiver(node), *arguments]
            about = given[1:2] if _called_name(node) == "masked_select" else given[:1]
            if about:
                return f"the number of {what} of `{ast.unparse(about[0])}`"
    return f"a size of `{code}` that depends on data"


def _method_receiver(node: ast.Call) -> Iterator[ast.expr]:
    """Yield the object whose method is called (``x`` in ``x.item()``); nothing for a function of
    torch."""
    match node.func:
        case ast.Attribute(value=ast.Name(id="torch" | "F")):
            return
        case ast.Attribute(value=value):
            yield value


class _Python(ast.NodeTransformer):
    """A transformer of sympy expressions to Python source: sympy's functions become operators, and
    symbols become names."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        name = self._names.get(node.id)
        return node if name is None else ast.parse(name, mode="eval").body

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=name), args=[left, right]):
                if name in _COMPARISONS:
                    return ast.Compare(left, [_COMPARISONS[name]], [right])
                if name in _OPERATORS:
                    return ast.BinOp(left, _OPERATORS[name], right)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.left, ast.Constant) and len(node.ops) == 1:
            turned = _TURNED.get(type(node.ops[0]))
            if turned is not None:
                return ast.Compare(node.comparators[0], [turned], [node.left])
        return node


_COMPARISONS: dict[str, ast.cmpop] = {"Eq": ast.Eq(), "Ne": ast.NotEq()}
_OPERATORS: dict[str, ast.operator] = {
    "CleanDiv": ast.FloorDiv(),
    "FloorDiv": ast.FloorDiv(),
    "Mod": ast.Mod(),
    "PythonMod": ast.Mod(),
}
_TURNED: dict[type[ast.cmpop], ast.cmpop] = {
    ast.Lt: ast.Gt(),
    ast.LtE: ast.GtE(),
    ast.Gt: ast.Lt(),
    ast.GtE: ast.LtE(),
}
