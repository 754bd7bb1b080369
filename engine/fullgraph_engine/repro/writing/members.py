"""Members of live classes as text: methods, properties and whatever else has code."""

from __future__ import annotations

import ast
import copy
import functools
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

from . import definitions, sources
from .unwritable import Unwritable

if TYPE_CHECKING:
    from .draft import Draft


def functions_of(thing: object) -> Iterator[types.FunctionType]:
    """The Python functions behind a function, a method, a descriptor or a cached function."""
    if isinstance(thing, types.FunctionType):
        yield thing
    elif isinstance(thing, (types.MethodType, classmethod, staticmethod)):
        yield from functions_of(thing.__func__)
    elif isinstance(thing, property):
        for part in (thing.fget, thing.fset, thing.fdel):
            yield from functions_of(part)
    elif isinstance(thing, (functools.partial, functools.cached_property)):
        yield from functions_of(thing.func)
    attributes = getattr(thing, "__dict__", None)
    if isinstance(attributes, (dict, types.MappingProxyType)) and not isinstance(thing, type):
        for name in ("__wrapped__", "_torchdynamo_orig_callable"):
            if name in attributes:
                yield from functions_of(attributes[name])


def written(draft: Draft, owner: type, name: str, value: object) -> str:
    """The statements that bind ``name`` in the body of ``owner``, with all they reach referred to.

    Raises:
        Unwritable: it has no source text.
    """
    functions = [one for one in functions_of(value) if "<string>" not in one.__code__.co_filename]
    for function in reversed(functions):
        home = sources.home_of_function(function)
        node = home.text.function(function.__code__) if home.text is not None else None
        if home.text is None or node is None or home.origin == "standard":
            continue
        draft.visit(home)
        draft.mention(function)
        cells = {
            free: cell
            for one in functions
            for free, cell in zip(one.__code__.co_freevars, one.__closure__ or (), strict=False)
            if free != "__class__"
        }
        context = definitions.Context(home, cells)
        parts = _parts(home.text, node, value)
        return "\n\n".join(_written(draft, context, part, node, name) for part in parts)
    raise Unwritable(f"`{owner.__qualname__}.{name}` has no source text")


def _parts(text: sources.Text, node: ast.AST, value: object) -> list[ast.AST]:
    """A property may have several definitions of one name, of which the later need the former."""
    around = text.around(node)
    if not isinstance(value, property) or not around or isinstance(node, ast.Lambda):
        return [node]
    body = getattr(around[-1], "body", [])
    named = getattr(node, "name", "")
    return [one for one in body if getattr(one, "name", None) == named] or [node]


def _written(
    draft: Draft, context: definitions.Context, part: ast.AST, node: ast.AST, name: str
) -> str:
    copied = copy.deepcopy(part)
    if isinstance(copied, ast.Lambda):
        copied = ast.Expression(copied)
    if isinstance(copied, (ast.FunctionDef, ast.AsyncFunctionDef)):
        # ``@x.setter`` speaks of a name of the class body.
        kept = [one for one in copied.decorator_list if _is_accessor(one, copied.name)]
        copied.decorator_list = [one for one in copied.decorator_list if one not in kept]
        rewritten = definitions.rewrite(draft, context, copied, keep_annotations=False)
        rewritten.decorator_list = [*kept, *rewritten.decorator_list]
        if not kept:
            rewritten.name = name
        return ast.unparse(ast.fix_missing_locations(rewritten))
    rewritten = definitions.rewrite(draft, context, copied, keep_annotations=False)
    return f"{name} = {ast.unparse(ast.fix_missing_locations(rewritten))}"


def _is_accessor(decorator: ast.expr, name: str) -> bool:
    return (
        isinstance(decorator, ast.Attribute)
        and isinstance(decorator.value, ast.Name)
        and decorator.value.id == name
        and decorator.attr in ("setter", "deleter", "getter")
    )
