"""Defaults of command-line options that a file declares, as in ``parser.add_argument("--width",
default=64)``.

Declarations for Click have the same form. Models read such options as attributes of one object.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from ..notation import NotationError, Value
from ..notation_parser import parse_value

_DECLARING = ("add_argument", "option")


def declared_options(tree: ast.AST) -> dict[str, Value]:
    """Return the default of each command-line option by name; for an option without a default, the
    first of its choices."""
    found: dict[str, Value] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called_name(node) in _DECLARING:
            found.update(_option_default(node))
    return found


def _called_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _option_default(call: ast.Call) -> Iterator[tuple[str, Value]]:
    given = {one.arg: one.value for one in call.keywords}
    names = [str(one.value) for one in call.args if isinstance(one, ast.Constant)]
    long = [one.removeprefix("--") for one in names if one[:1] != "-" or one.startswith("--")]
    named = given.get("dest")
    if isinstance(named, ast.Constant):
        long = [str(named.value)]
    value = _literal_default(given)
    if long and value is not None:
        yield long[0].replace("-", "_"), value


def _literal_default(given: dict[str | None, ast.expr]) -> Value | None:
    written = given.get("default")
    try:
        if written is not None:
            value = ast.literal_eval(written)
            kind = given.get("type")
            if isinstance(value, str) and kind is not None and ast.unparse(kind) != "str":
                value = ast.literal_eval(value)  # the default of a command-line option is a text
        elif "choices" in given:
            value = next(iter(ast.literal_eval(given["choices"])))
        elif isinstance(action := given.get("action"), ast.Constant):
            value = {"store_true": False, "store_false": True}.get(str(action.value))
        else:
            return None
        return parse_value(repr(value))
    except (ValueError, SyntaxError, TypeError, StopIteration, NotationError):
        return None
