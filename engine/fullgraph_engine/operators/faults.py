"""Find the position of a syntax error in an operator's schema, from the message of torch's parser.

The message has a sentence, a few lines of the schema, and a line with ``~~~ <--- HERE`` below the
error. If this mark is missing, the position is found by parsing beginnings of the schema again.
"""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass
from typing import Any

from .. import texts
from ..torch_internals.dispatcher import parse_schema


@dataclass(frozen=True)
class Fault:
    """An error in the schema of an operator: its position, its message and hints how to fix it.

    ``start`` and ``stop`` are character offsets into the schema, with ``stop`` exclusive. Both
    equal the length of the schema if its end is missing.
    """

    start: int
    stop: int
    message: str
    hints: tuple[str, ...] = ()


def parse_or_fault(schema: str) -> Any:
    """Parse the schema of an operator, with its name, by torch's own parser.

    Returns torch's ``FunctionSchema``, or the first error as a :class:`Fault`.
    """
    error = _parser_error(schema)
    return _locate_error(schema, error) if error is not None else parse_schema(schema)


def _parser_error(schema: str) -> str | None:
    """Return the error message of torch's schema parser; None if it accepts the schema."""
    try:
        parse_schema(schema)
    except UnicodeDecodeError as error:  # the message quotes part of a multi-byte character
        return error.object.decode(errors="replace")
    except Exception as error:  # RuntimeError, or an exception of a number conversion
        return str(error) or type(error).__name__
    return None


_MARK = re.compile(r"^(?P<space>\s*)(?P<marks>~+) <--- HERE$")
_EXPECTED = re.compile(r"expected (?P<expected>.+?) but found '(?P<found>.*?)' here:", re.S)
_ASSERTED = re.compile(r"^.*please report a bug to PyTorch\.\s*", re.S)
_BREAKS = ("newline", "indent", "dedent")
_TOKEN_NAMES = {
    "ident": "a name",
    "number": "a number",
    "string_literal": "a quoted string",
    "eof": "the end of the schema",
    "arrow": "`->`",
    **dict.fromkeys(_BREAKS, "a line break"),
}


def _locate_error(schema: str, error: str) -> Fault:
    found = _EXPECTED.search(error)
    if found is not None:
        return _unexpected_token(schema, error, found["expected"], found["found"])
    place = _marked_span(schema, error)
    if place is not None:
        start, stop = place
        if "unknown type specifier" in error:
            return _unknown_type(schema, start, stop)
        if "invalid numeric default value" in error:
            return _invalid_default(schema, start)
        return Fault(start, stop, _first_sentence(error))
    if "only the operator name" in error:
        message = "Expected `(` but found the end of the schema"
        return Fault(len(schema), len(schema), message, (SCHEMA_HINT,))
    if "Non-default positional argument" in error:
        return _missing_default(schema, error)
    if "is not a legal overload name" in error:
        overload = error.partition(" ")[0]
        at = schema.find("." + overload)
        message = f"`{overload}` cannot be the name of an overload"
        return (
            Fault(at, at + len(overload) + 1, message)
            if at >= 0
            else _whole_schema_fault(schema, message)
        )
    if error in ("stoll", "stod"):  # the message is the name of the C++ function
        number = max(re.finditer(r"-?[\d.]+(?:e-?\d+)?", schema), key=lambda m: len(m[0]))
        return Fault(number.start(), number.end(), f"`{number[0]}` is out of range")
    return _whole_schema_fault(schema, _first_sentence(error))


SCHEMA_HINT = "A schema has arguments and returns: `(Tensor x, int n) -> Tensor`."
_RETURNS_HINT = "After `->` comes what it returns: `-> Tensor`, or `-> ()` for nothing."
_ARGUMENT_HINT = "An argument is a type and then a name: `Tensor x`, `int n=1`."


def _unexpected_token(schema: str, error: str, expected: str, found: str) -> Fault:
    start, stop = _marked_span(schema, error) or _unmarked_span(schema, expected, found)
    token = schema[start:stop]
    if expected == "a valid token":
        return Fault(start, stop, f"`{_printable_token(token)}` has no meaning in a schema")
    expected_name = _TOKEN_NAMES.get(expected, f"`{expected}`")
    shown = _TOKEN_NAMES[found] if found in ("eof", *_BREAKS) else f"`{_printable_token(token)}`"
    hints: tuple[str, ...] = ()
    if found in _BREAKS:
        hints = ("Line breaks may only be inside brackets.",)
    elif expected == "arrow" or (expected == "ident" and found == "eof" and "->" in schema):
        hints = (_RETURNS_HINT,)
    elif expected == "ident" and found in (")", ",", ":", "eof") and "(" in schema:
        hints = (_ARGUMENT_HINT,)
    elif expected == "number" and found == "ident" and schema[:start].endswith("["):
        hints = (f"A list is written `{token}[]`.",)
    elif expected == "string_literal":
        hints = (f'Strings are quoted: `"{token}"`.',) if found == "ident" else ()
    return Fault(start, stop, f"Expected {expected_name} but found {shown}", hints)


def _unmarked_span(schema: str, expected: str, found: str) -> tuple[int, int]:
    """Return the start and end of the unexpected token, if torch's message does not mark it.

    The token is a line break, a null character or the end of the schema. ``expected`` and ``found``
    are the names of tokens in the message.
    """
    if "\0" in schema:
        at = schema.index("\0")
        return at, at + 1
    if found in _BREAKS:
        # Cut the schema at each line break. The error is at the first one where the cut text lacks
        # the same token.
        missed = f"expected {expected} but found 'eof'"
        for match in re.finditer(r"\n", schema):
            if missed in (_parser_error(schema[: match.start()]) or ""):
                return match.start(), match.end()
    return len(schema), len(schema)


def _unknown_type(schema: str, start: int, stop: int) -> Fault:
    name = schema[start:stop]
    message = f"Unknown type `{name}`"
    return Fault(start, stop, message, _type_hints(name))


# Notation of types in a schema, by the types' names in Python and C++. Lower-case names are left
# out, because torch's parser accepts them as type variables.
_PYTHON_TYPES = {
    "List": "T[]",
    "Sequence": "T[]",
    "Optional": "T?",
    "Tuple": "(T, U)",
    "TensorList": "Tensor[]",
    "IntArrayRef": "int[]",
}


def _type_hints(name: str) -> tuple[str, ...]:
    notation = _PYTHON_TYPES.get(name)
    if notation is not None:
        return (f"In a schema it is written `{notation}`.",)
    valid = valid_types()
    by_case = {type_name.lower(): type_name for type_name in valid}
    close = difflib.get_close_matches(name.lower(), by_case, n=1)
    if close:
        return (f"Did you mean `{by_case[close[0]]}`?",)
    types = ", ".join(f"`{type_name}`" for type_name in valid)
    return (f"Types are {types}, and of each a list `T[]` and an optional `T?`.",)


_TYPE_NAMES = (
    "Tensor", "int", "float", "bool", "str", "Scalar", "SymInt", "SymFloat", "SymBool",
    "ScalarType", "Device", "DeviceIndex", "Layout", "MemoryFormat", "Generator", "Storage",
    "Stream", "Dimname", "QScheme", "complex", "AnyClassType", "Any",
)  # fmt: skip


@functools.cache
def valid_types() -> tuple[str, ...]:
    """Return the names of types that the installed torch accepts in schemas."""
    return tuple(
        type_name for type_name in _TYPE_NAMES if _parser_error(f"f({type_name} x) -> ()") is None
    )


def _invalid_default(schema: str, stop: int) -> Fault:
    """Return the error for an invalid default value, which ends at ``stop``."""
    value = re.search(r"[^\s=,()\[\]]+(?=\s*$)", schema[:stop])
    if value is None:
        return Fault(stop, stop + 1, "Expected a default value")
    hints: tuple[str, ...] = (
        "A default is a number, `None`, `True`, `False`, a list of those, or a quoted string.",
    )
    if value[0] in ("true", "false", "none", "null", "NULL", "nullptr"):
        python = {"true": "True", "false": "False"}.get(value[0], "None")
        hints = (f"Did you mean `{python}`?",)
    return Fault(value.start(), value.end(), f"`{value[0]}` is not a valid default value", hints)


def _missing_default(schema: str, error: str) -> Fault:
    name = re.search(r"Parameter (\w+)", error)
    first_default = schema.find("=")
    where = (
        re.compile(rf"(?<![\w.]){re.escape(name[1])}(?=\s*[,)])").search(
            schema, max(first_default, 0)
        )
        if name is not None
        else None
    )
    message = "An argument without a default follows one with a default"
    if name is None or where is None:
        return _whole_schema_fault(schema, message)
    hint = "Give it a default too, move it forward, or put `*` before it: `*, Tensor out`."
    message = f"`{name[1]}` has no default, but follows an argument that has one"
    return Fault(where.start(), where.end(), message, (hint,))


def _marked_span(schema: str, error: str) -> tuple[int, int] | None:
    """Return the start and end in the schema of the characters that torch's message marks.

    Returns None if the message does not have a mark.
    """
    shown = error.split("\n")
    at = next((number for number, line in enumerate(shown) if _MARK.match(line)), -1)
    mark = _MARK.match(shown[at]) if at > 0 else None
    if mark is None:
        return None
    lines = schema.split("\n")
    # The parser quotes up to three lines before the marked line.
    candidates = [number for number, line in enumerate(lines) if line == shown[at - 1]]
    best = max(
        candidates, key=lambda n: _common_suffix_length(lines[:n], shown[: at - 1]), default=None
    )
    if best is None:
        return None
    encoded = lines[best].encode()
    # Columns are bytes, and the whitespace before the marks repeats the tabs of the line.
    first, last = len(mark["space"]), len(mark["space"]) + len(mark["marks"])
    before = sum(len(line) + 1 for line in lines[:best])
    start = before + len(encoded[:first].decode(errors="ignore"))
    stop = before + len(encoded[:last].decode(errors="ignore"))
    return start, max(stop, start + 1)


def _common_suffix_length(first: list[str], second: list[str]) -> int:
    """Return the number of equal lines at the end of two lists of lines."""
    count = 0
    for left, right in zip(reversed(first), reversed(second), strict=False):
        if left != right:
            break
        count += 1
    return count


def _first_sentence(error: str) -> str:
    """Return the first line of the parser's message, without C++ source locations and quoted
    text."""
    text = _ASSERTED.sub("", error).strip()
    first = text.split("\n")[0].rstrip(" :.")
    return texts.capitalize_first(first) if first else "The schema cannot be parsed"


def _whole_schema_fault(schema: str, message: str) -> Fault:
    return Fault(0, len(schema), message)


def _printable_token(token: str) -> str:
    return token if token.isprintable() else token.encode("unicode_escape").decode()
