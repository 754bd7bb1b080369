"""What torch's own parser says of a schema, and at which characters.

The parser gives its errors as text: a sentence, a few lines of the schema, and below one of them
``~~~ <--- HERE``. Where it marks nothing, the place is found by asking it again.
"""

from __future__ import annotations

import difflib
import functools
import re
from dataclasses import dataclass
from typing import Any

from ..torch_internals.dispatcher import parse_schema


@dataclass(frozen=True)
class Fault:
    """The characters from ``start`` to before ``stop`` are wrong, and why.

    Both are the length of the schema where something is missing at its end.
    """

    start: int
    stop: int
    message: str
    hints: tuple[str, ...] = ()


def parse(schema: str) -> Any:
    """The ``FunctionSchema`` of a text, name included, or the fault that is in it."""
    words = _complaint(schema)
    return _fault(schema, words) if words is not None else parse_schema(schema)


def _complaint(schema: str) -> str | None:
    """The parser's words; None if it has nothing to say against it."""
    try:
        parse_schema(schema)
    except UnicodeDecodeError as error:  # it cites half a character
        return error.object.decode(errors="replace")
    except Exception as error:  # RuntimeError, but also what its number conversions throw
        return str(error) or type(error).__name__
    return None


_MARK = re.compile(r"^(?P<space>\s*)(?P<marks>~+) <--- HERE$")
_EXPECTED = re.compile(r"expected (?P<expected>.+?) but found '(?P<found>.*?)' here:", re.S)
_ASSERTED = re.compile(r"^.*please report a bug to PyTorch\.\s*", re.S)
_BREAKS = ("newline", "indent", "dedent")
_NAMES = {
    "ident": "a name",
    "number": "a number",
    "string_literal": "a quoted string",
    "eof": "the end of the schema",
    "arrow": "`->`",
    **dict.fromkeys(_BREAKS, "a line break"),
}


def _fault(schema: str, words: str) -> Fault:
    found = _EXPECTED.search(words)
    if found is not None:
        return _unexpected(schema, words, found["expected"], found["found"])
    place = _marked(schema, words)
    if place is not None:
        start, stop = place
        if "unknown type specifier" in words:
            return _unknown_type(schema, start, stop)
        if "invalid numeric default value" in words:
            return _default(schema, start)
        return Fault(start, stop, _sentence(words))
    if "only the operator name" in words:
        message = "Expected `(` but found the end of the schema"
        return Fault(len(schema), len(schema), message, (WHOLE,))
    if "Non-default positional argument" in words:
        return _lacks_default(schema, words)
    if "is not a legal overload name" in words:
        overload = words.partition(" ")[0]
        at = schema.find("." + overload)
        message = f"`{overload}` cannot be the name of an overload"
        return Fault(at, at + len(overload) + 1, message) if at >= 0 else _all(schema, message)
    if words in ("stoll", "stod"):  # the C++ conversion that threw
        number = max(re.finditer(r"-?[\d.]+(?:e-?\d+)?", schema), key=lambda m: len(m[0]))
        return Fault(number.start(), number.end(), f"`{number[0]}` is out of range")
    return _all(schema, _sentence(words))


WHOLE = "A schema has arguments and returns: `(Tensor x, int n) -> Tensor`."
_RETURNS = "Behind `->` is what it returns: `-> Tensor`, or `-> ()` for nothing."
_ARGUMENT = "An argument is a type and then a name: `Tensor x`, `int n=1`."


def _unexpected(schema: str, words: str, expected: str, found: str) -> Fault:
    start, stop = _marked(schema, words) or _unmarked(schema, words, expected, found)
    token = schema[start:stop]
    if expected == "a valid token":
        return Fault(start, stop, f"`{_visible(token)}` has no meaning in a schema")
    wanted = _NAMES.get(expected, f"`{expected}`")
    shown = _NAMES[found] if found in ("eof", *_BREAKS) else f"`{_visible(token)}`"
    hints: tuple[str, ...] = ()
    if found in _BREAKS:
        hints = ("Line breaks may only be inside brackets.",)
    elif expected == "arrow" or (expected == "ident" and found == "eof" and "->" in schema):
        hints = (_RETURNS,)
    elif expected == "ident" and found in (")", ",", ":", "eof") and "(" in schema:
        hints = (_ARGUMENT,)
    elif expected == "number" and found == "ident" and schema[:start].endswith("["):
        hints = (f"A list is written `{token}[]`.",)
    elif expected == "string_literal":
        hints = (f'Strings are quoted: `"{token}"`.',) if found == "ident" else ()
    return Fault(start, stop, f"Expected {wanted} but found {shown}", hints)


def _unmarked(schema: str, words: str, expected: str, found: str) -> tuple[int, int]:
    """Where a token is that the parser does not show: a line break or the end."""
    if "\0" in schema:
        at = schema.index("\0")
        return at, at + 1
    if found in _BREAKS:
        # It is the first line break before which the parser already misses the same.
        missed = f"expected {expected} but found 'eof'"
        for match in re.finditer(r"\n", schema):
            if missed in (_complaint(schema[: match.start()]) or ""):
                return match.start(), match.end()
    return len(schema), len(schema)


def _unknown_type(schema: str, start: int, stop: int) -> Fault:
    name = schema[start:stop]
    message = f"Unknown type `{name}`"
    return Fault(start, stop, message, _instead(name))


# Names in lower case are no mistake for the parser: it takes them for type variables.
_ELSEWHERE = {
    "List": "T[]",
    "Sequence": "T[]",
    "Optional": "T?",
    "Tuple": "(T, U)",
    "TensorList": "Tensor[]",
    "IntArrayRef": "int[]",
}


def _instead(name: str) -> tuple[str, ...]:
    known = _ELSEWHERE.get(name)
    if known is not None:
        return (f"In a schema it is written `{known}`.",)
    valid = valid_types()
    by_case = {one.lower(): one for one in valid}
    near = difflib.get_close_matches(name.lower(), by_case, n=1)
    if near:
        return (f"Did you mean `{by_case[near[0]]}`?",)
    return (f"Types are {', '.join(f'`{one}`' for one in valid)}, and `T[]` and `T?` of them.",)


_TYPES = (
    "Tensor", "int", "float", "bool", "str", "Scalar", "SymInt", "SymFloat", "SymBool",
    "ScalarType", "Device", "DeviceIndex", "Layout", "MemoryFormat", "Generator", "Storage",
    "Stream", "Dimname", "QScheme", "complex", "AnyClassType", "Any",
)  # fmt: skip


@functools.cache
def valid_types() -> tuple[str, ...]:
    """The names of types, of those that there ever were, that this torch's parser knows."""
    return tuple(one for one in _TYPES if _complaint(f"f({one} x) -> ()") is None)


def _default(schema: str, stop: int) -> Fault:
    """The parser marks what stands behind the default that it does not understand."""
    value = re.search(r"[^\s=,()\[\]]+(?=\s*$)", schema[:stop])
    if value is None:
        return Fault(stop, stop + 1, "Expected a default value")
    hints: tuple[str, ...] = (
        "A default is a number, `None`, `True`, `False`, a list of those, or a quoted string.",
    )
    if value[0] in ("true", "false", "none", "null", "NULL", "nullptr"):
        python = {"true": "True", "false": "False"}.get(value[0], "None")
        hints = (f"Did you mean `{python}`?",)
    return Fault(value.start(), value.end(), f"`{value[0]}` is no default value", hints)


def _lacks_default(schema: str, words: str) -> Fault:
    name = re.search(r"Parameter (\w+)", words)
    behind = schema.find("=")
    where = (
        re.compile(rf"(?<![\w.]){re.escape(name[1])}(?=\s*[,)])").search(schema, max(behind, 0))
        if name is not None
        else None
    )
    message = "An argument without a default follows one with a default"
    if name is None or where is None:
        return _all(schema, message)
    hint = "Give it a default too, move it forward, or put `*` before it: `*, Tensor out`."
    message = f"`{name[1]}` has no default, but follows an argument that has one"
    return Fault(where.start(), where.end(), message, (hint,))


def _marked(schema: str, words: str) -> tuple[int, int] | None:
    """The characters that the parser points at."""
    shown = words.split("\n")
    at = next((number for number, line in enumerate(shown) if _MARK.match(line)), -1)
    mark = _MARK.match(shown[at]) if at > 0 else None
    if mark is None:
        return None
    lines = schema.split("\n")
    # It cites up to three lines before the marked one.
    candidates = [number for number, line in enumerate(lines) if line == shown[at - 1]]
    best = max(candidates, key=lambda n: _agreeing(lines[:n], shown[: at - 1]), default=None)
    if best is None:
        return None
    encoded = lines[best].encode()
    # Columns are bytes, and the space before the marks repeats the tabs of the line.
    first, last = len(mark["space"]), len(mark["space"]) + len(mark["marks"])
    before = sum(len(line) + 1 for line in lines[:best])
    start = before + len(encoded[:first].decode(errors="ignore"))
    stop = before + len(encoded[:last].decode(errors="ignore"))
    return start, max(stop, start + 1)


def _agreeing(one: list[str], other: list[str]) -> int:
    """How many lines at the end are the same."""
    count = 0
    for left, right in zip(reversed(one), reversed(other), strict=False):
        if left != right:
            break
        count += 1
    return count


def _sentence(words: str) -> str:
    """The parser's sentence, without its own places in files and what it cites."""
    text = _ASSERTED.sub("", words).strip()
    first = text.split("\n")[0].rstrip(" :.")
    return first[:1].upper() + first[1:] if first else "The schema cannot be parsed"


def _all(schema: str, message: str) -> Fault:
    return Fault(0, len(schema), message)


def _visible(token: str) -> str:
    return token if token.isprintable() else token.encode("unicode_escape").decode()
