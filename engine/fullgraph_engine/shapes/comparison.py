"""Say in which fields two ShapeEnvs differ, and which event is to blame."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Literal

from ..protocol.sources import without_addresses
from ..torch_internals.shapes import Source, name_of_source
from . import upstream
from .replay import ReplayError, advance, playing
from .tape import Tape
from .upstream import NotEqualError, ShapeEnv

_FIELD = re.compile(r"^==> (?P<field>\w+): values don't match\.$", re.MULTILINE)


@dataclass(frozen=True)
class Difference:
    """One field of two ShapeEnvs; of collections only what differs."""

    field: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.field}: {self.left or 'nothing'} here, {self.right or 'nothing'} there"


def differences(left: ShapeEnv, right: ShapeEnv) -> tuple[Difference, ...]:
    """The fields that matter for guards and differ, by torch's own comparison."""
    try:
        left.check_equal(right)
    except NotEqualError as error:
        named = _FIELD.findall(str(error))
        if not named:
            return (Difference("fields", str(error).strip().replace("\n", " "), ""),)
        return tuple(_difference(field, left, right) for field in named)
    return ()


def _difference(field: str, left: ShapeEnv, right: ShapeEnv) -> Difference:
    one, other = _plain(getattr(left, field)), _plain(getattr(right, field))
    if isinstance(one, dict) and isinstance(other, dict):
        keys = sorted((k for k in {*one, *other} if one.get(k) != other.get(k)), key=str)
        return Difference(
            field,
            ", ".join(f"{key} → {one[key]}" for key in keys if key in one),
            ", ".join(f"{key} → {other[key]}" for key in keys if key in other),
        )
    if isinstance(one, list) and isinstance(other, list):
        return Difference(
            field,
            ", ".join(item for item in one if item not in other) or ", ".join(one),
            ", ".join(item for item in other if item not in one) or ", ".join(other),
        )
    return Difference(field, str(one), str(other))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [str(getattr(item, "expr", item)) for item in value]
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "OrderedSet":
        return sorted(str(item) for item in value)
    return value if isinstance(value, (int, float, bool)) else str(value)


@dataclass(frozen=True)
class Divergence:
    """Where two tapes part. ``kind`` is what the second did with that event of the first."""

    index: int
    method: str
    kind: Literal["dropped", "added", "changed"]
    words: str
    differences: tuple[Difference, ...]


def first_difference(tape: Tape, other: Tape) -> Divergence | None:
    """The first event by which the states of two tapes come to differ, or None.

    Found by bisection over prefixes; among the events since the last equal prefix, the one named
    is the first that is not the same in both.
    """
    shared = min(len(tape.events), len(other.events))

    def compared(count: int) -> tuple[Difference, ...]:
        with playing(tape) as one, playing(other) as two:
            return differences(advance(one, count), advance(two, count))

    longest = max(len(tape.events), len(other.events))
    found = compared(longest)
    if not found:
        return None
    equal, unequal = 1, shared if (at_shared := compared(shared)) else longest
    if unequal == shared:
        found = at_shared
    else:
        equal = shared
    while unequal - equal > 1:
        middle = (equal + unequal) // 2
        between = compared(middle)
        if between:
            unequal, found = middle, between
        else:
            equal = middle
    return _named(tape, other, unequal, found)


def _named(tape: Tape, other: Tape, end: int, found: tuple[Difference, ...]) -> Divergence:
    # An event without effect can be dropped long before the first state that differs.
    ours = [_identity(tape, number) for number in range(len(tape.events))]
    theirs = [_identity(other, number) for number in range(len(other.events))]
    index = next(
        (n for n, (one, two) in enumerate(zip(ours, theirs, strict=False)) if one != two),
        min(len(ours), len(theirs)),
    )
    kind: Literal["dropped", "added", "changed"]
    if ours[index + 1 : index + 4] == theirs[index : index + 3] and index < len(ours):
        kind, owner, at = "dropped", tape, index
    elif theirs[index + 1 : index + 4] == ours[index : index + 3] and index < len(theirs):
        kind, owner, at = "added", other, index
    else:
        kind, owner, at = "changed", tape if index < len(ours) else other, min(index, end - 1)
    return Divergence(at, owner.method(at), kind, _identity(owner, at), found)


def _identity(tape: Tape, index: int) -> str:
    """An event in words that do not depend on which ShapeEnv it was recorded on."""
    event = tape.events[index]
    arguments = [_argument(value) for value in (event.args or [])[1:]]
    arguments += [
        f"{name}={_argument(value)}"
        for name, value in (event.kwargs or {}).items()
        if name != "symbolic_context"
    ]
    return f"{tape.method(index)}({', '.join(arguments)})"


def _argument(value: Any) -> str:
    if isinstance(value, Source):
        return name_of_source(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_argument(item) for item in value)}]"
    expr = upstream.expression_of(value)
    return without_addresses(str(value)) if expr is None else str(expr)


@dataclass(frozen=True)
class Missing:
    """What a live ShapeEnv knows and the tape does not tell.

    It belongs behind event ``after`` and, where that can be told, before event ``before``;
    ``code`` is the line of the program that the live ShapeEnv names for it.
    """

    after: int
    before: int | None
    words: str
    code: str
    differences: tuple[Difference, ...]


def find_missing(tape: Tape, live: ShapeEnv) -> Missing | None:
    """What the tape lacks of a state that it should lead to; None if it leads there.

    The order of the guards of ``live`` says between which events the missing one belongs: the
    prefix is sought, by bisection, that has all guards before it.
    """
    with playing(tape) as player:
        found = differences(advance(player), live)
        if not found:
            return None
        replayed = [guard.expr for guard in player.env.guards]
    wanted = [guard.expr for guard in live.guards]
    lost = next(
        (n for n, expr in enumerate(wanted) if n >= len(replayed) or replayed[n] != expr), None
    )
    if lost is None:
        asserts = _lost_assert(tape, live)
        return Missing(0, None, asserts or str(found[0]), "", found)
    code = str(getattr(live.guards[lost].sloc, "maybe_user_loc", None) or "")
    following = _last_before(tape, lost + 1) if len(replayed) > lost else None
    return Missing(
        _last_before(tape, lost) if lost else 0,
        following,
        f"the guard {wanted[lost]}",
        code.strip(),
        found,
    )


def _lost_assert(tape: Tape, live: ShapeEnv) -> str:
    with playing(tape) as player:
        told = {str(item.expr) for item in _asserts(advance(player))}
    lost = [str(item.expr) for item in _asserts(live) if str(item.expr) not in told]
    return f"the runtime assert {lost[0]}" if lost else ""


def _asserts(env: ShapeEnv) -> list[Any]:
    return [item for items in env.deferred_runtime_asserts.values() for item in items]


def _last_before(tape: Tape, guards: int) -> int:
    """The last event of the shortest prefix that makes so many guards, by bisection."""
    low, high = 1, len(tape.events)
    while low < high:
        middle = (low + high) // 2
        if _guard_count(tape, middle) >= guards:
            high = middle
        else:
            low = middle + 1
    return low - 1


def _guard_count(tape: Tape, upto: int) -> int:
    with playing(tape) as player:
        return len(advance(player, upto).guards)


def compare_with_live(tape: Tape) -> tuple[Difference, ...]:
    """How the replayed end of a tape differs from the ShapeEnv that it was recorded on.

    Raises :class:`ReplayError` where the tape cannot be replayed, or has no live ShapeEnv.
    """
    if tape.live is None:
        raise ReplayError(0, "ShapeEnv", "the tape was read from a file and has no live ShapeEnv.")
    with playing(tape) as player:
        return differences(tape.live, advance(player))


__all__ = [
    "Difference",
    "Divergence",
    "Missing",
    "compare_with_live",
    "differences",
    "find_missing",
    "first_difference",
]
