"""Compare two ShapeEnvs field by field, and find the event at which they diverge."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from ..protocol.sources import without_addresses
from ..torch_internals.shapes import Source, name_of_source
from . import upstream
from .replay import ReplayError, replay_until, start_replay
from .tape import Tape
from .upstream import NotEqualError, ShapeEnv

_FIELD = re.compile(r"^==> (?P<field>\w+): values don't match\.$", re.MULTILINE)


@dataclass(frozen=True)
class FieldDifference:
    """One field in which two ShapeEnvs differ; of a collection only the items that differ."""

    field: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.field}: {self.left or 'nothing'} here, {self.right or 'nothing'} there"


def find_differences(left: ShapeEnv, right: ShapeEnv) -> tuple[FieldDifference, ...]:
    """Return the fields that differ, according to torch's own ``ShapeEnv.check_equal``."""
    try:
        left.check_equal(right)
    except NotEqualError as error:
        fields = _FIELD.findall(str(error))
        if not fields:
            return (FieldDifference("fields", str(error).strip().replace("\n", " "), ""),)
        return tuple(_field_difference(field, left, right) for field in fields)
    return ()


def _field_difference(field: str, left: ShapeEnv, right: ShapeEnv) -> FieldDifference:
    left_value, right_value = (
        _comparable_value(getattr(left, field)),
        _comparable_value(getattr(right, field)),
    )
    if isinstance(left_value, dict) and isinstance(right_value, dict):
        keys = sorted(
            (k for k in {*left_value, *right_value} if left_value.get(k) != right_value.get(k)),
            key=str,
        )
        return FieldDifference(
            field,
            ", ".join(f"{key} → {left_value[key]}" for key in keys if key in left_value),
            ", ".join(f"{key} → {right_value[key]}" for key in keys if key in right_value),
        )
    if isinstance(left_value, list) and isinstance(right_value, list):
        return FieldDifference(
            field,
            ", ".join(item for item in left_value if item not in right_value)
            or ", ".join(left_value),
            ", ".join(item for item in right_value if item not in left_value)
            or ", ".join(right_value),
        )
    return FieldDifference(field, str(left_value), str(right_value))


def _comparable_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _comparable_value(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [str(getattr(item, "expr", item)) for item in value]
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "OrderedSet":
        return sorted(str(item) for item in value)
    return value if isinstance(value, (int, float, bool)) else str(value)


@dataclass(frozen=True)
class Divergence:
    """The event at which two tapes diverge; ``kind`` is what the second tape did with it."""

    index: int
    method: str
    kind: Literal["dropped", "added", "changed"]
    words: str
    differences: tuple[FieldDifference, ...]


def find_divergence(tape: Tape, other: Tape) -> Divergence | None:
    """Find the first event after which the states of two tapes differ; None if they never do.

    The search bisects over prefixes. Among the events after the last equal prefix, it names the
    first event that differs between the tapes.
    """
    shared = min(len(tape.events), len(other.events))

    def compare_prefixes(count: int) -> tuple[FieldDifference, ...]:
        with start_replay(tape) as first, start_replay(other) as second:
            return find_differences(replay_until(first, count), replay_until(second, count))

    longest = max(len(tape.events), len(other.events))
    found = compare_prefixes(longest)
    if not found:
        return None
    equal, unequal = 1, shared if (at_shared := compare_prefixes(shared)) else longest
    if unequal == shared:
        found = at_shared
    else:
        equal = shared
    while unequal - equal > 1:
        middle = (equal + unequal) // 2
        between = compare_prefixes(middle)
        if between:
            unequal, found = middle, between
        else:
            equal = middle
    return _first_divergent_event(tape, other, unequal, found)


def _first_divergent_event(
    tape: Tape, other: Tape, end: int, found: tuple[FieldDifference, ...]
) -> Divergence:
    # An event without effect can be dropped long before the first state that differs.
    ours = [_describe_event(tape, number) for number in range(len(tape.events))]
    theirs = [_describe_event(other, number) for number in range(len(other.events))]
    index = next(
        (n for n, (first, second) in enumerate(zip(ours, theirs, strict=False)) if first != second),
        min(len(ours), len(theirs)),
    )
    kind: Literal["dropped", "added", "changed"]
    if ours[index + 1 : index + 4] == theirs[index : index + 3] and index < len(ours):
        kind, owner, at = "dropped", tape, index
    elif theirs[index + 1 : index + 4] == ours[index : index + 3] and index < len(theirs):
        kind, owner, at = "added", other, index
    else:
        kind, owner, at = "changed", tape if index < len(ours) else other, min(index, end - 1)
    return Divergence(at, owner.method_name(at), kind, _describe_event(owner, at), found)


def _describe_event(tape: Tape, index: int) -> str:
    """Describe an event independently of the ShapeEnv that recorded it."""
    arguments = ", ".join(tape.format_arguments(index, _format_argument))
    return f"{tape.method_name(index)}({arguments})"


def _format_argument(value: Any) -> str:
    if isinstance(value, Source):
        return name_of_source(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_format_argument(item) for item in value)}]"
    expr = upstream.expression_of(value)
    return without_addresses(str(value)) if expr is None else str(expr)


@dataclass(frozen=True)
class MissingEvent:
    """A guard or runtime assert of a live ShapeEnv that replaying its tape does not produce.

    It belongs after event ``after`` and, if known, before event ``before``. ``code`` is the
    source line that the live ShapeEnv has for it.
    """

    after: int
    before: int | None
    words: str
    code: str
    differences: tuple[FieldDifference, ...]


def find_missing(tape: Tape, live: ShapeEnv) -> MissingEvent | None:
    """Find what replaying a tape does not produce of its live ShapeEnv; None if nothing is missing.

    The order of the guards of ``live`` says between which events the missing guard belongs. A
    bisection finds the shortest prefix that has all guards before it.
    """
    with start_replay(tape) as player:
        found = find_differences(replay_until(player), live)
        if not found:
            return None
        replayed = [guard.expr for guard in player.env.guards]
    wanted = [guard.expr for guard in live.guards]
    missing = next(
        (n for n, expr in enumerate(wanted) if n >= len(replayed) or replayed[n] != expr), None
    )
    if missing is None:
        asserts = _find_missing_assert(tape, live)
        return MissingEvent(0, None, asserts or str(found[0]), "", found)
    code = str(getattr(live.guards[missing].sloc, "maybe_user_loc", None) or "")
    following = _find_guard_event(tape, missing + 1) if len(replayed) > missing else None
    return MissingEvent(
        _find_guard_event(tape, missing) if missing else 0,
        following,
        f"the guard {wanted[missing]}",
        code.strip(),
        found,
    )


def _find_missing_assert(tape: Tape, live: ShapeEnv) -> str:
    with start_replay(tape) as player:
        replayed = {str(item.expr) for item in upstream.runtime_asserts(replay_until(player))}
    expressions = [str(item.expr) for item in upstream.runtime_asserts(live)]
    missing = [expression for expression in expressions if expression not in replayed]
    return f"the runtime assert {missing[0]}" if missing else ""


def _find_guard_event(tape: Tape, guards: int) -> int:
    """Return the last event of the shortest prefix that adds ``guards`` guards, by bisection."""
    low, high = 1, len(tape.events)
    while low < high:
        middle = (low + high) // 2
        if _guard_count(tape, middle) >= guards:
            high = middle
        else:
            low = middle + 1
    return low - 1


def _guard_count(tape: Tape, upto: int) -> int:
    with start_replay(tape) as player:
        return len(replay_until(player, upto).guards)


def compare_with_live(tape: Tape) -> tuple[FieldDifference, ...]:
    """Return the fields in which a replayed tape differs from the ShapeEnv that it was recorded on.

    Raises:
        ReplayError: The tape cannot be replayed or lacks a live ShapeEnv.
    """
    if tape.live is None:
        raise ReplayError(0, "ShapeEnv", "the tape was read from a file and has no live ShapeEnv.")
    with start_replay(tape) as player:
        return find_differences(tape.live, replay_until(player))


__all__ = [
    "Divergence",
    "FieldDifference",
    "MissingEvent",
    "compare_with_live",
    "find_differences",
    "find_divergence",
    "find_missing",
]
