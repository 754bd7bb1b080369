"""A first draft of a probe comment (a comment with example inputs), guessed from the source code of
a target.

The user completes the draft; it was not tried.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .discovery import Target
from .notation import Arguments, LiteralValue, Notation, TensorText, Value, show_notation
from .source import parse_module

_WIDTH = 16
_PLAIN: dict[str, Value] = {
    "bool": LiteralValue(False),
    "float": LiteralValue(0.5),
    "str": LiteralValue(""),
}
_RANKS = {
    f"{kind}{dims}d": dims + 2
    for kind in ("conv", "conv_transpose", "max_pool", "avg_pool", "adaptive_avg_pool")
    for dims in (1, 2, 3)
} | {"scaled_dot_product_attention": 4, "interpolate": 4, "embedding": 2, "bmm": 3}
"""Number of dimensions of the first argument, by the name of the torch function."""
_OF_NUMBERS = ("range", "float", "int", "zeros", "ones", "rand", "randn", "arange")
_SHAPES = {
    1: (8,),
    2: (8, _WIDTH),
    3: (2, 8, _WIDTH),
    4: (2, 3, 32, 32),
    5: (2, 3, 8, 32, 32),
}


def write_first_probe(target: Target, text: str) -> str:
    """Return the draft of a comment with example inputs for a function or module class, without ``#
    fullgraph:``.

    Empty for other targets.
    """
    if target.written or target.kind not in ("function", "module"):
        return ""
    definition = _find_definition(text, target.range.start.line + 1)
    if isinstance(definition, ast.ClassDef):
        init, method = (_find_method(definition, name) for name in ("__init__", target.method))
        if method is None:
            return ""
        made = _guess_arguments(init, skip=1) if init is not None else Arguments()
        inputs = _guess_arguments(method, skip=1)
        return show_notation(Notation(made if made.named else None, target.method, inputs))
    if definition is None:
        return ""
    inputs = _guess_arguments(definition, skip=0)
    return show_notation(Notation(None, "", inputs)) if inputs.named else ""


def _find_definition(
    text: str, line: int
) -> ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef | None:
    try:
        tree = parse_module(text)
    except SyntaxError:
        return None
    for node in ast.walk(tree):
        if (
            isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef))
            and node.lineno == line
        ):
            return node
    return None


def _find_method(owner: ast.ClassDef, name: str) -> ast.FunctionDef | None:
    found = (one for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == name)
    return next(found, None)


def _guess_arguments(function: ast.FunctionDef | ast.AsyncFunctionDef, skip: int) -> Arguments:
    """Return guessed arguments, such as ``f32[2, 16]``, for the required parameters of a function;
    the first ``skip`` are left out."""
    given = function.args
    placed = [*given.posonlyargs, *given.args]
    required = placed[skip : len(placed) - len(given.defaults)]
    required += [
        one
        for one, default in zip(given.kwonlyargs, given.kw_defaults, strict=True)
        if default is None
    ]
    is_constructor = function.name == "__init__"
    return Arguments(
        (), tuple((one.arg, _guess_value(one, function, is_constructor)) for one in required)
    )


def _guess_value(parameter: ast.arg, function: ast.AST, is_constructor: bool) -> Value:
    from .synthesis.guesses import SignatureParameter, guess_number, input_like

    name = parameter.arg
    kind = ast.unparse(parameter.annotation) if parameter.annotation is not None else ""
    plain = kind.removeprefix("Optional[").removesuffix("]").partition(" |")[0]
    if plain in _PLAIN:
        return _PLAIN[plain]
    if plain == "int" or (is_constructor and "Tensor" not in kind):
        return LiteralValue(guess_number(name.lower()))
    uses = list(_uses_of(name, function))
    if "Tensor" not in kind and "number" in uses and not any(type(use) is int for use in uses):
        return LiteralValue(guess_number(name.lower()))
    rank = max((use for use in uses if type(use) is int), default=0)
    known = next(iter(input_like(SignatureParameter(name, True), _WIDTH)), None)
    if isinstance(known, TensorText) and rank in (0, len(known.sizes)):
        return known
    dtype = known.dtype if isinstance(known, TensorText) else "f32"
    return _tensor_of_rank(dtype, rank or 2)


def _tensor_of_rank(dtype: str, rank: int) -> Value:
    from .synthesis.candidate import make_tensor_text

    return make_tensor_text(dtype, *_SHAPES.get(rank, _SHAPES[2]))


def _uses_of(name: str, function: ast.AST) -> Iterator[int | str]:
    """Yield evidence of a parameter's type from its uses: a number of dimensions, or
    ``"number"``."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            if _is_shape(node.value, name):
                yield len(node.targets[0].elts)
        elif isinstance(node, ast.Subscript) and _is_shape(node.value, name):
            index = node.slice.value if isinstance(node.slice, ast.Constant) else None
            if type(index) is int and 0 <= index < 5:
                yield max(index + 1, 2)
        elif isinstance(node, ast.Call):
            yield from _uses_in_call(node, name)


def _uses_in_call(node: ast.Call, name: str) -> Iterator[int | str]:
    called = getattr(node.func, "attr", "") or getattr(node.func, "id", "")
    is_first = bool(node.args) and isinstance(node.args[0], ast.Name) and node.args[0].id == name
    if is_first and called in _RANKS:
        yield _RANKS[called]
    is_given = any(isinstance(one, ast.Name) and one.id == name for one in node.args)
    if is_given and called in _OF_NUMBERS:
        yield "number"


def _is_shape(node: ast.expr, name: str) -> bool:
    """Whether an expression is ``x.shape`` or ``x.size()`` of a parameter."""
    if isinstance(node, ast.Call) and not node.args:
        node = node.func
    return (
        isinstance(node, ast.Attribute)
        and node.attr in ("shape", "size")
        and isinstance(node.value, ast.Name)
        and node.value.id == name
    )
