"""Shapes of inputs that the code documents: ``x: (B, C, H, W)`` in text, and ``B, N, C = x.shape``
in code.

A documented shape is only a first guess for a search, like a shape guessed from the name of a
parameter.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

Words = tuple[str, ...]
"""Dimensions of one input as the code writes them: names, numbers, sums and products."""

_WORD = r"(?:[\w.]+(?:\s*(?:[-+*/]|//)\s*[\w.]+)*|\.{3}|\*|\?|-1)"
_SHAPE = re.compile(
    rf"[(\[{{]\s*({_WORD}(?:\s*,\s*{_WORD})+\s*,?|{_WORD}\s*,)\s*[)\]}}]"
    r"|\b(\w+(?:\s+[x×]\s+\w+)+)\b|\b([A-Z\d]+(?:x[A-Z\d]+)+)\b"  # noqa: RUF001
)
_NO_SIZE = re.compile(
    r"(?i)optional|(\w+\.)*\w*tensor|none|default.*|str|bool|float|int|list|tuple"
)
_ENTRY = re.compile(
    r"\n\s*(?:[-*]\s*)?(?::?(?:param|return|rtype)\w*\b.*?:|`*\w+`*\s*(?:\([^()]*\))?\s*:)"
)
_IS = r"(?::|=|->|,|\b(?:of|with|has|is|in)?\s*(?:the\s+)?shape\b)"


def documented_shapes(
    function: ast.FunctionDef, text: str, others: Iterable[str]
) -> dict[str, Words]:
    """Return the documented shapes of ``function``'s inputs, by parameter, as texts such as ``("B",
    "2*C")``.

    ``text`` is the source of its file. ``others`` are docstrings from elsewhere that may describe
    the function, for example from its class. ``size_of`` turns the texts into numbers.
    """
    own = ast.get_docstring(function) or ""
    names = [one.arg for one in (*function.args.args[1:], *function.args.kwonlyargs)]
    found = dict(_unpacked_shapes(function))
    found.update(_shapes_in_comments(function, text.splitlines(), names))
    for docstring in (*others, own):
        for name in names:
            said = _documented_shape(docstring, name)
            if said is None and len(names) == 1:
                said = _documented_shape(docstring, "(?:[Ii]nputs?)")
            if said is not None:
                found[name] = said
    return {name: words for name, words in found.items() if name in names}


def size_of(word: str, named: Callable[[str], int]) -> int | None:
    """Return the size of a dimension written as text, such as ``2*C``; None for words without a
    size.

    ``named`` returns the size for a name.
    """
    try:
        return _compute_dimension(
            ast.parse(word.replace("/", "//").replace("////", "//"), mode="eval").body, named
        )
    except (SyntaxError, ArithmeticError):
        return None


def _compute_dimension(node: ast.expr, named: Callable[[str], int]) -> int | None:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        return named(node.id)
    if isinstance(node, ast.Attribute):
        return named(node.attr)
    if isinstance(node, ast.BinOp):
        left, right = _compute_dimension(node.left, named), _compute_dimension(node.right, named)
        if left is None or right is None:
            return None
        if isinstance(node.op, ast.Add):
            return left + right
        if isinstance(node.op, ast.Sub):
            return left - right
        return left * right if isinstance(node.op, ast.Mult) else left // right
    return None


def _documented_shape(text: str, name: str) -> Words | None:
    """Return the first shape, such as ``(B, C, H, W)``, that a text states after the name of a
    parameter; None without one."""
    for match in re.finditer(
        rf"(?<![\w.]){name}[`*]*\s*(?:\([^()]*\))?(?:\.shape|\.size\(\))?\s*{_IS}", text
    ):
        rest = text[match.end() : match.end() + 300]
        following = _ENTRY.search(rest)
        words = _first_shape(rest[: following.start()] if following else rest)
        if words is not None:
            return words
    return None


def _first_shape(text: str) -> Words | None:
    for match in _SHAPE.finditer(text):
        listed, product = match[1], match[2] or match[3]
        words = listed.strip(" ,").split(",") if listed else re.split("[x×]", product)  # noqa: RUF001
        words = [word.strip() for word in words]
        if len(words) <= 6 and not any(_NO_SIZE.fullmatch(word) for word in words):
            return tuple(words)
    return None


def _shapes_in_comments(
    function: ast.FunctionDef, lines: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[str, Words]]:
    """Yield parameters and their shapes from comments in the signature and up to the first
    statement.
    """
    body = [one for one in function.body if not isinstance(one, ast.Expr)]
    until = body[0].lineno - 1 if body else function.lineno
    for line in lines[function.lineno - 1 : until]:
        code, mark, comment = line.partition("#")
        if not mark:
            continue
        parameter = re.match(r"\s*(\w+)\s*(?::[^#]*|=[^#]*)?,?\s*$", code)
        words = _first_shape(comment) if parameter and parameter[1] in names else None
        if parameter and words:
            yield parameter[1], words
        for name in names if not code.strip() else ():
            words = _documented_shape(comment, name)
            if words:
                yield name, words


def _unpacked_shapes(function: ast.FunctionDef) -> Iterator[tuple[str, Words]]:
    """Yield parameters with the shapes that unpacking shows, as in ``B, N, C = x.shape``, before
    ``x`` is reassigned."""
    changed: dict[str, int] = {}
    shapes: list[tuple[int, str, Words]] = []
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            changed[node.id] = min(changed.get(node.id, node.lineno), node.lineno)
        if not isinstance(node, ast.Assign) or not isinstance(
            node.targets[0], (ast.Tuple, ast.List)
        ):
            continue
        value = node.value.func if isinstance(node.value, ast.Call) else node.value
        if (
            isinstance(value, ast.Attribute)
            and isinstance(value.value, ast.Name)
            and value.attr == ("size" if isinstance(node.value, ast.Call) else "shape")
        ):
            words = tuple(ast.unparse(one).lstrip("*") for one in node.targets[0].elts)
            shapes.append((node.lineno, value.value.id, words))
    for line, name, words in shapes:
        if changed.get(name, line) >= line:
            yield name, words
