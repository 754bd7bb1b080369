"""Tensor shapes in the annotations of a signature, read from the syntax tree without importing
anything.

Two spellings: notation in a string (``x: "f32[b, 16]"``) and jaxtyping (``x: Float[Tensor, "b
16"]``). Neither needs its library to be installed, and ``from __future__ import annotations``
changes nothing.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass

from .notation import (
    Arithmetic,
    FixedSize,
    NotationError,
    Sequence,
    Size,
    SizeText,
    SymbolicSize,
    TensorText,
    Value,
)
from .notation_parser import parse_value

_JAXTYPING = {
    "Float": "f32",
    "Inexact": "f32",
    "Num": "f32",
    "Real": "f32",
    "Shaped": "f32",
    "Float16": "f16",
    "Float32": "f32",
    "Float64": "f64",
    "BFloat16": "bf16",
    "Complex": "c64",
    "Complex64": "c64",
    "Complex128": "c128",
    "Int": "i64",
    "Integer": "i64",
    "Int8": "i8",
    "Int16": "i16",
    "Int32": "i32",
    "Int64": "i64",
    "UInt": "u8",
    "UInt8": "u8",
    "UInt16": "u16",
    "UInt32": "u32",
    "UInt64": "u64",
    "Bool": "b8",
}


@dataclass(frozen=True)
class AnnotatedParameter:
    """A parameter of a signature, with the tensor shape that its annotation declares.

    ``shape`` is None if the annotation does not declare one. ``optional`` is true if the annotation
    allows None.
    """

    name: str
    required: bool
    keyword_only: bool = False
    positional_only: bool = False
    variadic: bool = False
    annotation: str = ""
    default: str = ""
    shape: Value | None = None
    optional: bool = False


def read_parameters(
    function: ast.FunctionDef | ast.AsyncFunctionDef,
    aliases: Mapping[str, ast.expr],
    *,
    method: bool,
) -> tuple[AnnotatedParameter, ...]:
    """Return the parameters of a signature, each with its annotated shape; without ``self`` for a
    method.

    ``aliases`` are the file's module-level assignments by name, to resolve annotations such as
    ``Batch`` after ``Batch = Float[Tensor, "b d"]``.
    """
    arguments = function.args
    found: list[AnnotatedParameter] = []
    ordered = [*arguments.posonlyargs, *arguments.args]
    first_default = len(ordered) - len(arguments.defaults)
    for index, argument in enumerate(ordered):
        default = arguments.defaults[index - first_default] if index >= first_default else None
        only = index < len(arguments.posonlyargs)
        found.append(_read_parameter(argument, default, aliases, positional_only=only))
    if arguments.vararg is not None:
        found.append(_read_parameter(arguments.vararg, None, aliases, variadic=True))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        found.append(_read_parameter(argument, default, aliases, keyword_only=True))
    if arguments.kwarg is not None:
        found.append(
            _read_parameter(arguments.kwarg, None, aliases, keyword_only=True, variadic=True)
        )
    static = any(
        isinstance(decorator, ast.Name) and decorator.id == "staticmethod"
        for decorator in function.decorator_list
    )
    return tuple(found[1:] if method and not static and ordered else found)


def _read_parameter(
    argument: ast.arg,
    default: ast.expr | None,
    aliases: Mapping[str, ast.expr],
    *,
    keyword_only: bool = False,
    positional_only: bool = False,
    variadic: bool = False,
) -> AnnotatedParameter:
    annotation = argument.annotation
    shape, optional = (None, False) if annotation is None else _annotated_shape(annotation, aliases)
    return AnnotatedParameter(
        name=argument.arg,
        required=default is None and not variadic,
        keyword_only=keyword_only,
        positional_only=positional_only,
        variadic=variadic,
        annotation="" if annotation is None else _annotation_text(annotation),
        default="" if default is None else ast.unparse(default),
        shape=None if variadic else shape,
        optional=optional,
    )


def _annotation_text(annotation: ast.expr) -> str:
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        return annotation.value
    return ast.unparse(annotation)


def _annotated_shape(
    annotation: ast.expr, aliases: Mapping[str, ast.expr], depth: int = 0
) -> tuple[Value | None, bool]:
    """Return the tensor shape that an annotation declares (None without one), and whether the
    annotation allows None."""
    if depth > 4:
        return None, False
    if isinstance(annotation, ast.Constant):
        if annotation.value is None:
            return None, True
        if isinstance(annotation.value, str):
            return _from_string(annotation.value, aliases, depth)
        return None, False
    if isinstance(annotation, ast.Name) and annotation.id in aliases:
        return _annotated_shape(aliases[annotation.id], {}, depth + 1)
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        left, left_none = _annotated_shape(annotation.left, aliases, depth + 1)
        right, right_none = _annotated_shape(annotation.right, aliases, depth + 1)
        return left or right, left_none or right_none
    if isinstance(annotation, ast.Subscript):
        return _from_subscript(annotation, aliases, depth)
    return None, False


def _from_string(
    text: str, aliases: Mapping[str, ast.expr], depth: int
) -> tuple[Value | None, bool]:
    optional = False
    stripped = text.strip()
    match = re.fullmatch(r"(?s)(.*\])\s*\|\s*None|None\s*\|\s*(.*\])", stripped)
    if match is not None:
        optional = True
        stripped = match[1] or match[2]
    try:
        value = parse_value(stripped)
    except NotationError:
        value = None
    # FX prints symbolic sizes as ``Sym(s0)``; a bare ``s0`` is the name of a type.
    if _has_tensor(value) or (isinstance(value, SizeText) and stripped.startswith("Sym(")):
        return value, optional
    # A quoted annotation refers to a name defined later.
    try:
        inner = ast.parse(stripped, mode="eval").body
    except (SyntaxError, ValueError):
        return None, optional
    if isinstance(inner, ast.Constant):
        return None, optional
    shape, none = _annotated_shape(inner, aliases, depth + 1)
    return shape, none or optional


def _has_tensor(value: Value | None) -> bool:
    if isinstance(value, TensorText):
        return True
    return isinstance(value, Sequence) and any(_has_tensor(item) for item in value.items)


def _from_subscript(
    annotation: ast.Subscript, aliases: Mapping[str, ast.expr], depth: int
) -> tuple[Value | None, bool]:
    head = _last_name(annotation.value)
    inner = annotation.slice
    parts = list(inner.elts) if isinstance(inner, ast.Tuple) else [inner]
    if head in _JAXTYPING and len(parts) == 2:
        dims = parts[1]
        if isinstance(dims, ast.Constant) and isinstance(dims.value, str):
            return _parse_jaxtyping(_JAXTYPING[head], dims.value), False
        return None, False
    if head == "Optional":
        return _annotated_shape(parts[0], aliases, depth + 1)[0], True
    if head == "Union":
        shapes = [_annotated_shape(part, aliases, depth + 1) for part in parts]
        found = next((shape for shape, _ in shapes if shape is not None), None)
        return found, any(none for _, none in shapes)
    if head == "Annotated":
        for part in parts[1:]:
            shape, none = _annotated_shape(part, aliases, depth + 1)
            if shape is not None:
                return shape, none
        return None, False
    if head in ("tuple", "Tuple", "list", "List", "Sequence"):
        return _container_value(head, parts, aliases, depth), False
    return None, False


def _container_value(
    head: str, parts: list[ast.expr], aliases: Mapping[str, ast.expr], depth: int
) -> Value | None:
    shapes = [_annotated_shape(part, aliases, depth + 1)[0] for part in parts]
    if not shapes or shapes[0] is None:
        return None
    if head in ("tuple", "Tuple"):
        if len(parts) == 2 and isinstance(parts[1], ast.Constant) and parts[1].value is ...:
            return Sequence("tuple", (shapes[0], shapes[0]))
        known = tuple(shape for shape in shapes if shape is not None)
        return Sequence("tuple", known) if len(known) == len(shapes) else None
    # A list annotation lacks a length; two items suffice to show a loop.
    return Sequence("list", (shapes[0], shapes[0]))


def _last_name(expression: ast.expr) -> str:
    if isinstance(expression, ast.Name):
        return expression.id
    if isinstance(expression, ast.Attribute):
        return expression.attr
    return ""


def _parse_jaxtyping(dtype: str, text: str) -> TensorText | None:
    """Parse a jaxtyping string: names, numbers, ``*batch``, ``...``, ``#b``, ``_``."""
    sizes: list[Size] = []
    for at, word in enumerate(text.split()):
        dim = word.lstrip("#?")
        if dim == "...":
            continue
        if dim.startswith("*"):
            # ``...`` matches any number of dimensions; one is the most informative.
            dim = dim.lstrip("*#?")
        if "=" in dim:
            dim = dim.rpartition("=")[2]
        if re.fullmatch(r"_\w*", dim) or not dim:
            sizes.append(FixedSize(3 + at))
        elif dim.isdigit():
            sizes.append(FixedSize(int(dim)))
        elif dim.isidentifier():
            sizes.append(SymbolicSize(dim))
        else:
            try:
                value = parse_value(dim)
            except NotationError:
                return None
            if not isinstance(value, SizeText) or not isinstance(value.size, Arithmetic):
                return None
            sizes.append(value.size)
    return TensorText(dtype, tuple(sizes))
