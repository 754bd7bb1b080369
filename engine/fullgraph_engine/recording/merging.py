"""Generalize recorded calls and merge several recordings into one.

Calls that differ only in sizes and numbers are of one kind. A size that varies between calls
becomes a symbol; sizes that vary together become the same symbol.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from ..protocol.recorded import Recorded, RecordedCall, RecordedClass, parse, written
from ..targets import notation, notation_parser
from ..targets.notation import (
    Arguments,
    FixedSize,
    LiteralValue,
    Size,
    SizeText,
    SymbolicSize,
    TensorText,
    Value,
)

MOST_CALLS = 8
"""Maximum number of recorded calls per class that differ in more than sizes and numbers."""

MOST_STEPS = 4
"""Maximum number of successive calls of one object to record together."""

_NAMES = ("s", "t", "u", "v", "w", "x", "y", "z", "m", "n", "p", "q", "r")


def call_pattern(arguments: Arguments) -> str:
    """Return the arguments with all sizes and numbers removed, so that calls of one kind compare
    equal."""

    def hide_sizes(value: Value) -> Value:
        if isinstance(value, TensorText):
            sizes = (FixedSize(0),) * len(value.sizes)
            return dataclasses.replace(value, sizes=sizes, strides=None)
        if isinstance(value, SizeText):
            return LiteralValue(0)
        if isinstance(value, LiteralValue) and type(value.value) in (int, float):
            return LiteralValue(type(value.value)())
        return value

    return notation.show_arguments(_map_values(arguments, hide_sizes))


def merge_calls(old: RecordedCall, new: RecordedCall) -> RecordedCall:
    """Merge two calls that differ only in sizes and numbers and have equal constructor arguments.

    Return ``new`` if they cannot be merged.
    """
    if old.init != new.init:
        return new
    then = tuple(
        dataclasses.replace(last, forward=_unite_texts(first.forward, last.forward))
        for first, last in zip(old.then, new.then, strict=True)
    )
    return dataclasses.replace(new, forward=_unite_texts(old.forward, new.forward), then=then)


def _unite_texts(old: str, new: str) -> str:
    return notation.show_arguments(unite_arguments(_parse_arguments(old), _parse_arguments(new)))


def without_covered(calls: Iterable[RecordedCall]) -> tuple[RecordedCall, ...]:
    """Return recorded calls without redundant ones: a call is redundant if it is part of a recorded
    sequence of calls of one object."""
    kinds = {_call_kind(call): call for call in calls}
    covered: set[tuple[object, ...]] = set()
    for kind, call in kinds.items():
        if call.then:
            init, forward, training, parameters, under, then = kind
            assert isinstance(then, tuple)
            steps = ((forward, training, under), *then)
            covered |= {(init, one[0], one[1], parameters, one[2], ()) for one in steps}
            covered |= {
                (init, forward, training, parameters, under, then[:length])
                for length in range(len(then))
            }
    return tuple(call for kind, call in kinds.items() if kind not in covered)


def unite_arguments(old: Arguments, new: Arguments) -> Arguments:
    """Merge the arguments of two calls that differ only in sizes and numbers.

    A size that differs becomes a symbol, such as ``b`` in ``f32[b, 16]``.
    """
    pairs = list(zip(_dimension_sizes(old), _dimension_sizes(new), strict=True))
    names = itertools.chain(_NAMES, (f"s{number}" for number in itertools.count()))
    symbols: dict[tuple[int | str, int | str], SymbolicSize] = {}
    batch = next(iter(pairs), None)
    for one, other in pairs:
        key = _size_key(one), _size_key(other)
        if key not in symbols and not (isinstance(one, FixedSize) and one == other):
            # The first dimension of the first tensor is usually the batch.
            name = (
                "b"
                if batch is not None and key == (_size_key(batch[0]), _size_key(batch[1]))
                else ""
            )
            taken = {symbol.hint for symbol in symbols.values()}
            symbols[key] = SymbolicSize(name or next(names), _choose_hint(one, other, taken))
    others = iter(pairs)
    numbers = iter(list(_integer_values(new)))

    def unite_value(value: Value) -> Value:
        if isinstance(value, TensorText):
            mine = [next(others) for _ in value.sizes]
            sizes = tuple(
                symbols.get((_size_key(one), _size_key(other)), one) for one, other in mine
            )
            fixed = all(isinstance(size, FixedSize) for size in sizes)
            return dataclasses.replace(value, sizes=sizes, strides=value.strides if fixed else None)
        number = _integer_value(value)
        if number is None:
            return value
        symbol = symbols.get((number, next(numbers)))
        if symbol is not None:
            return SizeText(SymbolicSize(symbol.name))
        hint = _example_hints(old).get(str(number)) if isinstance(value, SizeText) else None
        # This size no longer varies together with another one, so the symbol is removed.
        return value if hint is None else LiteralValue(hint)

    return _map_values(old, unite_value)


def merge_recordings(recordings: Iterable[Recorded]) -> Recorded:
    """Merge recordings, oldest first, into one; newer ones replace classes and constructors of
    older ones."""
    classes: dict[tuple[str, str], RecordedClass] = {}
    for recorded in recordings:
        for path, found in recorded.items():
            for one in found:
                old = classes.get((path, one.name))
                classes[path, one.name] = one if old is None else _merge_classes(old, one)
    result: Recorded = {}
    for (path, _), one in sorted(classes.items()):
        calls = tuple(sorted(one.calls, key=_call_order))
        result[path] = (*result.get(path, ()), dataclasses.replace(one, calls=calls))
    return result


def _merge_classes(old: RecordedClass, new: RecordedClass) -> RecordedClass:
    if (old.init_signature, old.forward_signature) != (new.init_signature, new.forward_signature):
        return new
    calls = {_call_kind(call): call for call in new.calls}
    for call in old.calls:
        known = calls.get(_call_kind(call))
        calls[_call_kind(call)] = call if known is None else merge_calls(call, known)
    # List new kinds first: old ones may come from an outdated version of the program.
    kept = without_covered(calls.values())[:MOST_CALLS]
    left_out = tuple(sorted({*old.left_out, *new.left_out})[:MOST_CALLS])
    return dataclasses.replace(new, calls=kept, left_out=left_out)


def _call_kind(call: RecordedCall) -> tuple[object, ...]:
    init, forward = (
        call_pattern(_parse_arguments(call.init)),
        call_pattern(_parse_arguments(call.forward)),
    )
    then = tuple(
        (call_pattern(_parse_arguments(one.forward)), one.training, one.under) for one in call.then
    )
    return init, forward, call.training, call.parameters, call.under, then


def _call_order(call: RecordedCall) -> tuple[object, ...]:
    then = tuple((one.forward, one.training, one.under) for one in call.then)
    return not call.training, call.init, call.forward, call.parameters, call.under, then


def _parse_arguments(text: str) -> Arguments:
    """Parse recorded arguments.

    Raises:
        notation.NotationError: The text is invalid because somebody edited the recording by hand.
    """
    return notation_parser.parse_probe(f"forward({text})").inputs or Arguments()


def _choose_hint(one: Size, other: Size, taken: set[int | None]) -> int:
    """Choose an example size for a symbol that replaces the sizes ``one`` and ``other``.

    Prefer a size that Dynamo does not specialize and that no other symbol uses (``taken``).
    """
    values = [value for value in (_size_value(one), _size_value(other)) if value is not None]
    good = [value for value in values if value > 1]
    return next((value for value in good if value not in taken), (good or values)[0])


def _size_value(size: Size) -> int | None:
    return size.value if isinstance(size, FixedSize) else getattr(size, "hint", None)


def _size_key(size: Size) -> int | str:
    return size.value if isinstance(size, FixedSize) else notation.show_size(size).partition("=")[0]


def _dimension_sizes(arguments: Arguments) -> Iterator[Size]:
    for tensor in notation.tensor_texts(arguments):
        yield from tensor.sizes


def _example_hints(arguments: Arguments) -> dict[str, int]:
    return {
        one.name: one.hint for one in notation.symbolic_sizes(arguments) if one.hint is not None
    }


def _integer_value(value: Value) -> int | str | None:
    """Return the integer that an argument of a recorded call passes; None for other arguments.

    If merging has replaced differing integers by a symbol, return the symbol's name.
    """
    if isinstance(value, SizeText):
        return _size_key(value.size)
    if isinstance(value, LiteralValue) and type(value.value) is int:
        return value.value
    return None


def _integer_values(arguments: Arguments) -> Iterator[int | str]:
    found: list[int | str] = []

    def collect_number(value: Value) -> Value:
        number = _integer_value(value)
        if number is not None:
            found.append(number)
        return value

    _map_values(arguments, collect_number)
    yield from found


def _map_values(arguments: Arguments, convert: Callable[[Value], Value]) -> Arguments:
    """Return the arguments with each value in them replaced by the result of ``convert``, called
    from left to right."""

    def map_value(one: Value) -> Value:
        inner = notation.inner_values(one)
        return (
            notation.with_parts(one, tuple(map_value(item) for item in inner))
            if inner
            else convert(one)
        )

    return Arguments(
        tuple(map_value(one) for one in arguments.positional),
        tuple((name, map_value(one)) for name, one in arguments.named),
    )


def main(file: str, *parts: str) -> None:
    """Merge recordings into the recording file, creating it if needed.

    ``file`` is the path of that file, ``parts`` are the paths of the recordings. Classes of deleted
    source files are dropped.

    Raises:
        SystemExit: the recording cannot be written; the message gives the reason.
    """
    try:
        old = parse(Path(file).read_text(encoding="utf-8")) if Path(file).exists() else {}
        new = [parse(Path(part).read_text(encoding="utf-8")) for part in parts]
        result = merge_recordings([old, *new])
        root = Path(file).parent
        kept = {path: classes for path, classes in result.items() if (root / path).is_file()}
        draft = Path(f"{file}.draft")
        draft.write_text(written(kept), encoding="utf-8")
        draft.replace(file)
    except OSError as error:
        sys.exit(str(error.strerror))
    except ValueError as error:
        sys.exit(f"{type(error).__name__}: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
