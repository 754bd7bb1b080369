"""Compare the events of two ShapeEnvs, and their fields after the last event.

A later run in another process compares itself with a :class:`Summary`, which is plain text. torch's
own ``ShapeEnv.check_equal`` decides which fields matter for guards.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from typing import Any, Literal
from unittest import mock

import torch

from ..protocol.sources import without_addresses
from ..torch_internals.shapes import Source, name_of_source, symbolic_shapes
from . import upstream
from .tape import Tape
from .upstream import ShapeEnv

VERSION = 2
"""Version of the format of a saved summary. Version 1 stored the arguments of every event."""

_LOCATION = "co_fields"
"""Name of the ShapeEnv field with the file and the line of the compiled function."""

_Field = dict[str, str] | list[str] | str
"""Value of one ShapeEnv field as text, so that it can be saved as JSON."""


class SavedEventsError(Exception):
    """Raised for a text other than a saved :class:`Summary`; the message is one sentence."""


@dataclass(frozen=True)
class Summary:
    """The events of one ShapeEnv and its fields after the last event, as text."""

    torch: str
    events: tuple[str, ...]
    state: dict[str, _Field]
    note: str


@dataclass(frozen=True)
class Difference:
    """A ShapeEnv field whose value differs between two runs, with both values.

    Of a collection, only the items that differ are included.
    """

    field: str
    left: str
    right: str

    def __str__(self) -> str:
        return f"{self.field}: {self.left or 'nothing'} here, {self.right or 'nothing'} there"


@dataclass(frozen=True)
class Divergence:
    """The first event in which two runs differ, and the differences between their final ShapeEnvs.

    ``kind`` says what the second run did instead of the first run's event. With "same", all events
    are equal, and only the fields differ.
    """

    index: int
    kind: Literal["dropped", "added", "changed", "same"]
    event: str
    differences: tuple[Difference, ...]


def summarize(tape: Tape, env: ShapeEnv) -> Summary:
    """Return the recorded events of a ShapeEnv (``tape``) and its final fields (``env``) as
    text.
    """
    events = tuple(_event_text(tape, index) for index in range(len(tape.events)))
    return Summary(str(torch.__version__), events, _state(env), tape.note)


def save(summary: Summary) -> str:
    """Return the events and fields in a :class:`Summary` as JSON."""
    return json.dumps({"version": VERSION, **dataclasses.asdict(summary)}, separators=(",", ":"))


def load(text: str) -> Summary:
    """Parse a summary that :func:`save` wrote.

    Raises:
        SavedEventsError: The text is not a saved summary.
    """
    try:
        raw = json.loads(text)
        version = raw.pop("version")
        if version != VERSION:
            raise SavedEventsError(
                f"they have format {version}, and this version of fullgraph reads format "
                f"{VERSION}. Save the events again."
            )
        return Summary(raw["torch"], tuple(raw["events"]), dict(raw["state"]), raw["note"])
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SavedEventsError("the file has no saved ShapeEnv events.") from error


def first_difference(before: Summary, now: Summary) -> Divergence | None:
    """Return the first event in which two runs differ, and the differences of their final
    ShapeEnvs.

    None if the ShapeEnvs of both runs end with equal fields.
    """
    found = _differences(before.state, now.state)
    if not found:
        return None
    old, new = before.events, now.events
    pairs = enumerate(zip(old, new, strict=False))
    index = next((n for n, (one, two) in pairs if one != two), min(len(old), len(new)))
    if index == len(old) == len(new):
        return Divergence(index, "same", "", found)
    if index < len(old) and old[index + 1 : index + 4] == new[index : index + 3]:
        return Divergence(index, "dropped", old[index], found)
    if index < len(new) and new[index + 1 : index + 4] == old[index : index + 3]:
        return Divergence(index, "added", new[index], found)
    if index == len(old):
        return Divergence(index, "added", new[index], found)
    return Divergence(index, "dropped" if index == len(new) else "changed", old[index], found)


def _state(env: ShapeEnv) -> dict[str, _Field]:
    """Return the fields of a ShapeEnv that ``ShapeEnv.check_equal`` compares, as text or
    collections of text.
    """
    fields: dict[str, _Field] = {}

    def read_fields(env: ShapeEnv, _other: Any, ignored: tuple[str, ...], mapped: Any) -> None:
        for name, value in vars(env).items():
            if name not in ignored and name != _LOCATION:
                fields[name] = _field(mapped(name, value))

    with mock.patch.object(symbolic_shapes, "shape_env_check_state_equal", read_fields):
        env.check_equal(env)
    return fields


def _field(value: Any) -> _Field:
    if isinstance(value, dict):
        return {str(key): without_addresses(str(item)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_addresses(str(item)) for item in value]
    if isinstance(value, (set, frozenset)) or type(value).__name__ == "OrderedSet":
        return sorted(without_addresses(str(item)) for item in value)
    return without_addresses(str(value))


def _differences(left: dict[str, _Field], right: dict[str, _Field]) -> tuple[Difference, ...]:
    names = sorted({*left, *right})
    return tuple(
        _difference(name, left.get(name, ""), right.get(name, ""))
        for name in names
        if left.get(name) != right.get(name)
    )


def _difference(name: str, one: _Field, two: _Field) -> Difference:
    if isinstance(one, dict) and isinstance(two, dict):
        keys = sorted(key for key in {*one, *two} if one.get(key) != two.get(key))
        return Difference(
            name,
            ", ".join(f"{key} → {one[key]}" for key in keys if key in one),
            ", ".join(f"{key} → {two[key]}" for key in keys if key in two),
        )
    if isinstance(one, list) and isinstance(two, list):
        return Difference(
            name,
            ", ".join(item for item in one if item not in two) or ", ".join(one),
            ", ".join(item for item in two if item not in one) or ", ".join(two),
        )
    return Difference(name, str(one), str(two))


def _event_text(tape: Tape, index: int) -> str:
    """Return the recorded event with this index as text; equal events give equal texts in all
    runs.
    """
    event = tape.events[index]
    # Skip the first argument (the ShapeEnv) and the symbolic context. Later events show its effect,
    # the created symbols.
    arguments = [_argument_text(value) for value in (event.args or [])[1:]]
    arguments += [
        f"{name}={_argument_text(value)}"
        for name, value in (event.kwargs or {}).items()
        if name not in ("symbolic_context", _LOCATION)
    ]
    return f"{tape.method_name(index)}({', '.join(arguments)})"


def _argument_text(value: Any) -> str:
    if isinstance(value, Source):
        return name_of_source(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_argument_text(item) for item in value)}]"
    expr = upstream.expression_of(value)
    return without_addresses(str(value)) if expr is None else str(expr)
