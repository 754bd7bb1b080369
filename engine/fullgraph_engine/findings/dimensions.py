"""Findings for dynamic dimensions that the code made constant or equal to each other."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from ..protocol import Finding, Range
from ..protocol.evidence import EqualityEvidence, SpecializationEvidence
from ..protocol.sources import in_user_words
from ..tracing.recording import Equality, Limit, Recording, Specialization
from .explanations import Why
from .places import SourceText, finding_identity, related_to

_SYMBOL = re.compile(r"\b[a-z]+\d+\b")
_SIZE = re.compile(r"^(?P<tensor>.+?)\.size\(\)\[(?P<axis>\d+)\]$")


_STATED = "The probe makes this size symbolic."
_RETRACED = "In a second trace with a variable batch size, this line {}."
"""First sentence of an explanation: ``_STATED`` if the user made the size dynamic, ``_RETRACED`` if
the engine made it dynamic to test it.
"""

_STATED_HINTS = (
    "If the size never varies, write the number in the probe to remove this finding.",
    "If the size should vary, do not compare it with constants or convert it to a number here.",
)
_RETRACED_HINTS = (
    "To allow other sizes, take the size from the input's `shape`, and avoid constants, `int(...)` "
    "and Python branches on it.",
    "If the size never varies, suppress this finding with the comment "
    "`# fullgraph: ignore[guard/specialized-dimension]`.",
)
_GUIDE = "https://docs.pytorch.org/docs/stable/torch.compiler_dynamic_shapes.html"
_INDEPENDENT = "The probe names two independent sizes, `{}` and `{}`."


def specialization_finding(
    event: Specialization,
    recording: Recording,
    source: SourceText,
    fallback: Range,
    tried: bool,
    *,
    raises: bool = False,
) -> Finding:
    """Return the finding for a dynamic dimension that the code specialized to a constant.

    ``tried``: the engine made the dimension dynamic to test it; the user did not ask for that.
    ``raises``: the code raises for another size. ``fallback`` is the range if no line of the file
    is responsible.
    """
    place = source.locate(event.stack, fallback)
    name = in_user_words(symbol_source(event, recording)) or event.symbol
    code = "guard/specialized-dimension"
    return Finding(
        code=code,
        message=f"`{name}` is specialized to {event.value}: another size "
        + ("raises an error" if raises else "recompiles"),
        range=place.range,
        explanation=f"{_origin_in_words(tried, event.value)} {reason_in_words(event, name)}",
        hints=_RETRACED_HINTS if tried else _STATED_HINTS,
        href=_GUIDE,
        stack=place.stack,
        related=related_to(place),
        identity=f"{finding_identity(code, place.range)} {name}",
        evidence=SpecializationEvidence(event.symbol, event.source, event.value, tried),
    )


def limit_finding(
    event: Limit, recording: Recording, source: SourceText, fallback: Range, tried: bool
) -> Finding:
    """Return the finding for a dynamic dimension whose range the code limits, for example to at
    most 16.

    ``tried``: the engine made the dimension dynamic to test it; the user did not ask for that.
    ``fallback`` is the range if no line of the file is responsible.
    """
    place = source.locate(event.stack, fallback)
    name = in_user_words(symbol_source(event, recording)) or event.symbol
    code = "guard/limited-dimension"
    condition = _name_symbols(event.condition, {event.symbol: name})
    return Finding(
        code=code,
        message=f"`{name}` is limited to {event.low} to {event.high}: other sizes recompile",
        range=place.range,
        explanation=f"{_limited_in_words(event, tried)} The compiled code is only valid for "
        f"sizes for which `{condition}` holds.",
        hints=(
            "If only these sizes occur, ignore this finding.",
            "If any size may occur, replace numbers that fit only some sizes: write `-1` in a "
            "shape, `chunk` for `split`, `adaptive_avg_pool2d` for `avg_pool2d`.",
        ),
        href=_GUIDE,
        stack=place.stack,
        related=related_to(place),
        identity=f"{finding_identity(code, place.range)} {name}",
        evidence=SpecializationEvidence(event.symbol, event.source, str(event.size), tried),
    )


def equality_findings(
    recording: Recording, source: SourceText, fallback: Range
) -> Iterator[tuple[Equality, Finding]]:
    """Yield findings for dimensions that the code requires to be equal although the example inputs
    give them different names.

    ``fallback`` is the range if no line of the file is responsible.
    """
    constant = {(event.frame, event.symbol) for event in recording.specializations}
    symbols = {(symbol.frame, symbol.name): symbol for symbol in recording.symbols}
    order = list(symbols)
    reported: set[tuple[int, str, str]] = set()
    for event in recording.equalities:
        one, other, key = event.symbol, event.value, event.frame
        if (key, other) in symbols and order.index((key, one)) < order.index((key, other)):
            # Dynamo may keep either symbol; report the older one.
            one, other = other, one
        if (key, one, other) in reported:
            continue  # Dynamo reports the equality again when it restarts the analysis
        reported.add((key, one, other))
        named = {name: symbols.get((key, name)) for name in (one, *_SYMBOL.findall(other))}
        if any((key, name) in constant for name in named):
            continue  # the finding for the other symbol already reports this equality
        letters = {name: symbol.letter for name, symbol in named.items() if symbol is not None}
        if not all(letters.get(name) for name in named):
            continue
        # A shared letter, or `2*b` next to `b`, states that the dimensions are related.
        letter, value = letters[one], _name_symbols(other, letters)
        if letter.replace(" ", "") == value.replace(" ", ""):
            continue
        words = {name: in_user_words(symbol.source) for name, symbol in named.items() if symbol}
        sides = words[one], _name_symbols(other, words)
        yield event, _equal_dimensions(event, sides, (letter, value), source, fallback)


def _equal_dimensions(
    event: Equality,
    sides: tuple[str, str],
    letters: tuple[str, str],
    source: SourceText,
    fallback: Range,
) -> Finding:
    place = source.locate(event.stack, fallback)
    code = "guard/equal-dimensions"
    one, other = sides
    return Finding(
        code=code,
        message=f"`{one}` must be equal to `{other}`: other sizes recompile",
        range=place.range,
        explanation=_INDEPENDENT.format(*letters),
        hints=(
            f"If the two sizes are always equal, write `{letters[1]}` for `{letters[0]}` in the "
            "probe.",
        ),
        stack=place.stack,
        related=related_to(place),
        identity=f"{finding_identity(code, place.range)} {one}",
        evidence=EqualityEvidence(event.symbol, event.value),
    )


def _origin_in_words(tried: bool, value: str) -> str:
    return _RETRACED.format(f"fixes the size to {value}") if tried else _STATED


def _limited_in_words(event: Limit, tried: bool) -> str:
    limits = f"limits the size to {event.low} to {event.high}"
    return _RETRACED.format(limits) if tried else _STATED


def _name_symbols(expression: str, names: dict[str, str]) -> str:
    return _SYMBOL.sub(lambda match: names[match[0]], expression)


def explain_finding(finding: Finding, why: Why) -> Finding:
    """Return the finding with the lines that made a size constant or equal, instead of Dynamo's
    short reason."""
    explanation = finding.explanation
    if why.text and finding.code == "guard/equal-dimensions":
        explanation = f"{explanation} {why.text}"
    elif why.text:
        evidence = finding.evidence
        assert isinstance(evidence, SpecializationEvidence)
        explanation = f"{_origin_in_words(evidence.tried, evidence.value)} {why.text}"
    return replace(
        finding,
        explanation=explanation,
        related=(*why.related, *finding.related),
        notes=(*finding.notes, *why.notes),
    )


def symbol_source(event: Specialization | Limit, recording: Recording) -> str:
    """Return Dynamo's name, such as ``L['x'].size()[0]``, of the value that an event's symbol
    stands for; empty if unknown."""
    if event.source:
        return event.source
    created = (s for s in recording.symbols if (s.frame, s.name) == (event.frame, event.symbol))
    return next((symbol.source for symbol in created), "")


def is_size(
    event: Specialization | Limit, recording: Recording, axes: frozenset[int] | None = None
) -> bool:
    """Whether the symbol of an event is the size of an input's dimension.

    ``axes`` are the numbers of the dimensions that count; None for all.
    Data-dependent sizes (``u0``) are checked when the graph runs and are never specialized.
    """
    if event.symbol.startswith("u"):
        return False
    words = symbol_source(event, recording)
    size = _SIZE.match(words)
    if size is None:
        return not words
    return axes is None or int(size["axis"]) in axes


def has_specialized_size(recording: Recording) -> bool:
    """Whether the trace specialized the size of an input's dimension."""
    return any(is_size(event, recording) for event in recording.specializations)


def reason_in_words(event: Specialization, name: str) -> str:
    """Return Dynamo's reason for giving the size ``name`` a constant value, in words."""
    reason = event.reason
    if reason == "find":
        return f"The code needs `{name}` to be equal to another size."
    if reason.startswith("range_refined_to_singleton"):
        return f"The code's conditions on `{name}` allow only the value {event.value}."
    if reason.startswith("solve"):
        return f"A condition on sizes is true only for `{name}` = {event.value}."
    return f"Dynamo set `{name}` = {event.value} ({reason})."
