"""Split a probe (a description of example inputs) into words, also if it is incomplete.

The engine parses and validates probes. This module classifies their words by context, for
highlighting, completion and hovers in the editor.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from fullgraph_engine.protocol.contexts import GRADS, STANCES, WORDS

DTYPES: Mapping[str, str] = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "f64": "float64",
    "i64": "int64",
    "i32": "int32",
    "i16": "int16",
    "i8": "int8",
    "u8": "uint8",
    "b8": "bool",
    "c64": "complex64",
    "c128": "complex128",
    "c32": "complex32",
    "u16": "uint16",
    "u32": "uint32",
    "u64": "uint64",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    "f4e2m1fnx2": "float4_e2m1fn_x2",
    "b1x8": "bits1x8",
    "b2x4": "bits2x4",
    "b4x2": "bits4x2",
    "b8x1": "bits8",
    "b16x1": "bits16",
}
"""Names of dtypes in ``torch``, by Dynamo's short names; common dtypes first."""

ALIASES: Mapping[str, str] = {
    "bool": "b8",
    "float": "f32",
    "int": "i64",
    "long": "i64",
    "half": "f16",
    "double": "f64",
}
"""Short names of dtypes, by other names that a probe accepts for them."""

DEVICES = ("cpu", "cuda", "mps", "xpu", "meta")
TENSOR = "]"
"""Entry of ``OpenBrackets.calls`` for round brackets after a tensor, as in ``f32[2](grad)``."""

CONSTANTS = ("True", "False", "None", "inf", "nan")

ProbeTokenKind = Literal[
    "directive",
    "method",
    "class",
    "parameter",
    "dtype",
    "size",
    "device",
    "number",
    "string",
    "constant",
    "name",
    "operator",
]

_TOKEN = re.compile(
    r"""(?P<number>\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?|\.\d+)
    | (?P<word>[^\W\d][\w.]*)
    | (?P<string>'(?:[^'\\]|\\.)*'?|"(?:[^"\\]|\\.)*"?)
    | (?P<operator>//|[][(){},:=@*+\-])
    | (?P<end>\#)
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class ProbeToken:
    """A word or sign of a probe; ``start`` and ``end`` are offsets in the text after
    ``# fullgraph:``."""

    kind: ProbeTokenKind
    text: str
    start: int
    end: int


@dataclass(frozen=True)
class OpenBrackets:
    """The open brackets around an offset in a probe, such as ``init(8) forward(f32[4, 16])``.

    ``calls`` has the name before each open round bracket, the innermost last; in ``forward(x=`` it
    is ``("forward",)``. The name is ``TENSOR`` if a tensor is before the bracket, as in
    ``f32[4](requires_grad``. ``sizes``: whether the offset is in the square brackets of a tensor.
    """

    calls: tuple[str, ...] = ()
    sizes: bool = False


def probe_tokens(text: str) -> tuple[ProbeToken, ...]:
    """Split the text after ``# fullgraph:`` into words, up to another ``#``."""
    return tuple(token for token, _ in _read_tokens(text))


def open_brackets_at(text: str, offset: int) -> OpenBrackets:
    """Return the brackets around an offset of the text after ``# fullgraph:``."""
    found = OpenBrackets()
    for token, inside in _read_tokens(text):
        if token.end > offset:
            break
        found = inside
    return found


def _read_tokens(text: str) -> list[tuple[ProbeToken, OpenBrackets]]:
    """Return each word of a probe, and the open brackets around the offset after it."""
    raw = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup == "end":
            break
        raw.append(match)
    found: list[tuple[ProbeToken, OpenBrackets]] = []
    open_: list[tuple[str, str]] = []
    for number, match in enumerate(raw):
        word = match[0]
        before = raw[number - 1][0] if number else ""
        behind = raw[number + 1] if number + 1 < len(raw) else None
        after = behind[0] if behind is not None and behind.start() == match.end() else ""
        sizes = bool(open_) and open_[-1][0] == "sizes"
        if word in ("[", "(", "{"):
            of_dtype = bool(found) and found[-1][0].kind in ("dtype", "name")
            named = found[-1][0].text if found and found[-1][0].end == match.start() else ""
            kind = "sizes" if word == "[" and of_dtype and named else word
            open_.append((kind, named if word == "(" else ""))
        elif word in ("]", ")", "}") and open_:
            open_.pop()
        calls = tuple(name for kind, name in open_ if kind == "(" and name)
        inside = OpenBrackets(calls, bool(open_) and open_[-1][0] == "sizes")
        within = open_[-1][1] if open_ else ""
        token_kind = _token_kind(
            match, before, after, sizes, within, at_start=not number, deep=bool(open_)
        )
        found.append((ProbeToken(token_kind, word, match.start(), match.end()), inside))
    return found


def _token_kind(
    match: re.Match[str],
    before: str,
    after: str,
    sizes: bool,
    within: str,
    *,
    at_start: bool,
    deep: bool,
) -> ProbeTokenKind:
    word = match[0]
    if match.lastgroup == "number":
        return "number"
    if match.lastgroup == "string":
        return "string"
    if match.lastgroup == "operator":
        return "operator"
    if at_start and word in ("off", "ignore") and after != "(":
        return "directive"
    if not deep and not at_start and word == "then":
        return "directive"
    if not deep and word == "under" and after == "(":
        return "directive"
    if before == "@":
        return "device"
    if _is_context_word(word, before, within):
        return "constant"
    if word in CONSTANTS:
        return "constant"
    if sizes:
        return "size"
    if after == "(":
        return "class" if deep or word[:1].isupper() else "method"
    if word in DTYPES or word in ALIASES:
        return "dtype"
    if after == "=":
        return "parameter"
    return "name"


def _is_context_word(word: str, before: str, within: str) -> bool:
    """Whether a word names a mode of the call, or says whether a tensor requires grad.

    Examples are ``no_grad`` in ``under(no_grad)`` and ``grad`` in ``f32[2](grad)``. ``before`` is
    the previous word. ``within`` is the name before the innermost open bracket.
    """
    if within == TENSOR:
        return word in GRADS
    return within == "under" and (word in STANCES if before == "=" else word in WORDS)
