"""Tapes as JSON, so that another process can replay them.

Every value is written by its kind: a source by its class and fields, an expression as a tree. The
writer reads each expression back to check it. At the first argument that cannot be written, the
tape ends with a note.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import json
import math
import operator
from collections.abc import Callable
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch

from ..protocol import Frame
from ..torch_internals.shapes import (
    SOURCE_MODULES,
    Source,
    SymNode,
    TensorProperty,
    symbolic_shapes,
)
from ..torch_internals.sympy_extensions import ValueRanges, functions, numbers
from .tape import EventPlace, Operand, Tape, TracedOperator
from .upstream import FakeTensorMeta, ShapeEnv, ShapeEnvEvent

VERSION = 1


class ArchiveError(Exception):
    """An error for a file without a valid tape, or for a tape that this torch cannot replay."""


class _UnwritableValue(Exception):
    pass


def write_tape(tape: Tape) -> str:
    """Return the tape as JSON.

    At the first event with an argument that cannot be written, the written tape ends; its note says
    at which event and why.
    """
    writer = _TapeWriter()
    events: list[Any] = []
    note = tape.note
    for index, event in enumerate(tape.events):
        try:
            events.append(writer.write_event(event, tape.places[index]))
        except _UnwritableValue as error:
            why = (
                f"Event {index} ({tape.method_name(index)}) and those after it are not in the "
                f"file: {error}."
            )
            note = f"{note} {why}".strip()
            break
    return json.dumps(
        {
            "version": VERSION,
            "torch": str(torch.__version__),
            "index": tape.index,
            "settings": tape.settings,
            "note": note,
            "events": events,
            "shared": writer.shared,
            "places": writer.places,
            "stacks": writer.stacks,
        },
        separators=(",", ":"),
    )


def read_tape(text: str) -> Tape:
    """Read a tape that :func:`write_tape` wrote, without a live ShapeEnv.

    Raises:
        ArchiveError: The text is not a tape of this format, or this torch cannot read it.
    """
    try:
        raw = json.loads(text)
        version = raw["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError("This is not a tape of ShapeEnv events.") from error
    if version != VERSION:
        raise ArchiveError(f"The tape has format {version}, and this reads format {VERSION}.")
    reader = _TapeReader(raw)
    events: list[ShapeEnvEvent] = []
    places: list[EventPlace] = []
    for number, item in enumerate(raw["events"]):
        try:
            events.append(reader.read_event(item))
            places.append(reader.place_at(item["at"]))
        except Exception as error:
            raise ArchiveError(
                f"Event {number} of the tape cannot be read by torch {torch.__version__} "
                f"(it was written by {raw['torch']}): {error}."
            ) from error
    return Tape(raw["index"], events, places, settings=raw["settings"], note=raw["note"])


_FUNCTIONS = (
    functions,
    numbers,
    sympy,
    sympy.core.relational,
    sympy.logic.boolalg,
)
_NAMED: dict[str, Any] = {
    "int_oo": numbers.int_oo,
    "-int_oo": -numbers.int_oo,
    "oo": sympy.oo,
    "-oo": -sympy.oo,
    "true": sympy.true,
    "false": sympy.false,
}
_ENUMS: dict[str, type[enum.Enum]] = {
    "DimDynamic": symbolic_shapes.DimDynamic,
    "TensorProperty": TensorProperty,
}
_PLAIN: dict[str, type[Any]] = {
    name: getattr(symbolic_shapes, name)
    for name in (
        "StatelessSymbolicContext",
        "StatefulSymbolicContext",
        "SubclassSymbolicContext",
        "SymIntSymbolicContext",
        "StrictMinMaxConstraint",
        "RelaxedUnspecConstraint",
    )
    if hasattr(symbolic_shapes, name)
}
_PLAIN["FakeTensorMeta"] = FakeTensorMeta
_SYMBOLIC = {"SymInt": torch.SymInt, "SymFloat": torch.SymFloat, "SymBool": torch.SymBool}
_TYPES: dict[str, type[Any]] = {"int": int, "float": float, "bool": bool}


class _TapeWriter:
    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.places: list[Any] = []
        self.stacks: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._place_numbers: dict[int, int] = {}
        self._stack_numbers: dict[Any, int] = {}
        self._keep_alive: list[Any] = []

    def write_event(self, event: ShapeEnvEvent, place: EventPlace) -> Any:
        written: dict[str, Any] = {
            "f": event.f.__name__,
            "name": event.name,
            "args": None
            if event.args is None
            else [self.write_value(value) for value in event.args],
            "kwargs": {
                name: self.write_value(value) for name, value in (event.kwargs or {}).items()
            },
            "at": self.number_place(place),
        }
        if event.tracked_fakes is not None:
            written["tracked"] = self.number_shared(event.tracked_fakes, self._write_fakes)
        return written

    def number_place(self, place: EventPlace) -> int:
        known = self._place_numbers.get(id(place))
        if known is None:
            known = self._place_numbers[id(place)] = len(self.places)
            stack = place.stack
            number = self._stack_numbers.get(stack)
            if number is None:
                number = self._stack_numbers[stack] = len(self.stacks)
                self.stacks.append([dataclasses.asdict(frame) for frame in stack])
            op = place.operator
            self.places.append([number, None if op is None else dataclasses.asdict(op)])
            self._keep_alive.append(place)
        return known

    def number_shared(self, value: Any, write_tape: Callable[[Any], Any]) -> int:
        """Write a shared object once; return its number, by which events refer to it."""
        known = self._numbers.get(id(value))
        if known is None:
            written = write_tape(value)
            known = self._numbers[id(value)] = len(self.shared)
            self.shared.append(written)
            self._keep_alive.append(value)
        return known

    def _write_fakes(self, fakes: list[Any]) -> Any:
        return [{"once": self.number_shared(item, self._write_fake)} for item in fakes]

    def _write_fake(self, item: Any) -> Any:
        return [
            self.write_value(item.fake),
            self.write_value(item.source),
            self.write_value(item.symbolic_context),
        ]

    def write_value(self, value: Any) -> Any:
        match value:
            case None | bool() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": str(value)}
            case ShapeEnv():
                return {"env": True}
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self._write_symbolic(value)
            case enum.Enum() if type(value).__name__ in _ENUMS:
                return {"enum": [type(value).__name__, value.name]}
            case int():
                return value
            case torch.Size() | tuple():
                return {"tuple": [self.write_value(item) for item in value]}
            case list():
                return [self.write_value(item) for item in value]
            case dict():
                pairs = [[self.write_value(k), self.write_value(v)] for k, v in value.items()]
                return {"dict": pairs}
            case sympy.Basic():
                return {"expr": self.write_expression(value)}
            case ValueRanges():
                return {
                    "range": [
                        self.write_expression(value.lower),
                        self.write_expression(value.upper),
                    ]
                }
            case Source():
                return {"source": self._write_fields(value, _source_class)}
        if type(value).__name__ in _PLAIN:
            return {"once": self.number_shared(value, self._write_plain)}
        name = str(getattr(value, "__name__", ""))
        if callable(value) and getattr(operator, name, None) is value:
            return {"operator": name}
        raise _UnwritableValue(f"it has a {type(value).__module__}.{type(value).__qualname__}")

    def _write_plain(self, value: Any) -> Any:
        # The cache belongs to the recorded ShapeEnv; a replayed one must begin without it.
        return {
            "plain": self._write_fields(value, _PLAIN.get, {"shape_env_to_source_to_symbol_cache"})
        }

    def _write_fields(
        self, value: Any, find_class: Callable[[str], Any], skipped: set[str] | None = None
    ) -> list[Any]:
        name = type(value).__name__
        if find_class(name) is not type(value):
            raise _UnwritableValue(f"it has a {name}, which torch does not define")
        fields = [f for f in dataclasses.fields(value) if f.init and f.name not in (skipped or ())]
        return [name, {f.name: self.write_value(getattr(value, f.name)) for f in fields}]

    def _write_symbolic(self, value: Any) -> Any:
        node = value.node
        if not hasattr(node, "_expr"):
            raise _UnwritableValue(f"it has a {type(node).__name__}, which has no expression")
        return {
            "symbolic": [
                type(value).__name__,
                self.write_expression(node._expr),
                str(getattr(node.pytype, "__name__", "")),
                self.write_value(getattr(node, "_hint", None)),
            ]
        }

    def write_expression(self, value: Any) -> Any:
        written = self._write_tree(value)
        try:
            is_equal = build_expression(written) == value
        except Exception as error:
            raise _UnwritableValue(
                f"the expression {value} cannot be read back ({error})"
            ) from error
        if not is_equal:
            raise _UnwritableValue(f"the expression {value} would be read back as another")
        return written

    def _write_tree(self, value: Any) -> Any:
        if isinstance(value, (bool, int, float)):
            value = sympy.sympify(value)
        for name, known in _NAMED.items():
            if value is known:
                return {"is": name}
        if isinstance(value, sympy.Symbol):
            assumptions = getattr(value, "_assumptions_orig", None) or value.assumptions0
            return {"symbol": value.name, "assume": dict(assumptions)}
        if isinstance(value, sympy.Integer):
            return int(value)
        if isinstance(value, sympy.Rational):
            return {"rational": [int(value.p), int(value.q)]}
        if isinstance(value, sympy.Float):
            return {"number": [str(value), int(value._prec)]}
        name = type(value).__name__
        if not value.args or _function_class(name) is not type(value):
            raise _UnwritableValue(f"the expression {value} has a {name}")
        return {"call": name, "of": [self._write_tree(argument) for argument in value.args]}


def _source_class(name: str) -> Any:
    return next((getattr(m, name) for m in SOURCE_MODULES if hasattr(m, name)), None)


def _function_class(name: str) -> Any:
    for module in _FUNCTIONS:
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, sympy.Basic):
            return found
    return None


def build_expression(written: Any) -> Any:
    """Build the sympy expression that a JSON tree describes."""
    if isinstance(written, int):
        return sympy.Integer(written)
    if "is" in written:
        return _NAMED[written["is"]]
    if "symbol" in written:
        return sympy.Symbol(written["symbol"], **written["assume"])
    if "rational" in written:
        return sympy.Rational(*written["rational"])
    if "number" in written:
        digits, precision = written["number"]
        return sympy.Float(digits, precision=precision)
    arguments = [build_expression(argument) for argument in written["of"]]
    function = _function_class(written["call"])
    if function is None:
        raise ValueError(f"no function {written['call']} is known")
    return function(*arguments)


class _TapeReader:
    def __init__(self, raw: dict[str, Any]) -> None:
        # Symbolic values must belong to a ShapeEnv; a replay moves them to its own.
        self._env = ShapeEnv(should_record_events=False)
        self._shared = raw["shared"]
        self._objects: dict[int, Any] = {}
        self._stacks = [tuple(Frame(**frame) for frame in stack) for stack in raw["stacks"]]
        self._places = [self._read_place(item) for item in raw["places"]]

    def place_at(self, number: int) -> EventPlace:
        return self._places[number]

    def _read_place(self, raw: Any) -> EventPlace:
        number, op = raw
        known = None
        if op is not None:
            operands = tuple(Operand(item["name"], tuple(item["sizes"])) for item in op["operands"])
            known = TracedOperator(op["name"], operands)
        return EventPlace(stack=self._stacks[number], operator=known)

    def read_event(self, raw: dict[str, Any]) -> ShapeEnvEvent:
        args = None if raw["args"] is None else [self.read_value(item) for item in raw["args"]]
        kwargs = {name: self.read_value(item) for name, item in raw["kwargs"].items()}
        tracked = (
            self._shared_object(raw["tracked"], self._read_fakes) if "tracked" in raw else None
        )
        return ShapeEnvEvent(self._find_method(raw["f"]), args, kwargs, tracked, name=raw["name"])

    def _find_method(self, name: str) -> Callable[..., Any]:
        if name == "ShapeEnv":
            return ShapeEnv
        found = getattr(ShapeEnv, name, None)
        if found is None:
            raise ValueError(f"its ShapeEnv has no {name}")
        function: Callable[..., Any] = inspect.unwrap(found)
        return function

    def _shared_object(self, number: int, make: Callable[[Any], Any]) -> Any:
        if number not in self._objects:
            self._objects[number] = make(self._shared[number])
        return self._objects[number]

    def _read_fakes(self, raw: list[Any]) -> list[Any]:
        return [self._shared_object(item["once"], self._read_fake) for item in raw]

    def _read_fake(self, raw: list[Any]) -> Any:
        fake, source, context = (self.read_value(item) for item in raw)
        return symbolic_shapes.TrackedFake(fake, source, context)

    def read_value(self, raw: Any) -> Any:
        if isinstance(raw, list):
            return [self.read_value(item) for item in raw]
        if not isinstance(raw, dict):
            return raw
        ((kind, body),) = raw.items()
        match kind:
            case "env":
                return self._env
            case "float":
                return float(body)
            case "tuple":
                return tuple(self.read_value(item) for item in body)
            case "dict":
                return {self.read_value(key): self.read_value(item) for key, item in body}
            case "expr":
                return build_expression(body)
            case "range":
                return ValueRanges(*(build_expression(item) for item in body))
            case "enum":
                return _ENUMS[body[0]][body[1]]
            case "operator":
                return getattr(operator, body)
            case "symbolic":
                name, expr, pytype, hint = body
                node = SymNode(
                    build_expression(expr), self._env, _TYPES[pytype], self.read_value(hint)
                )
                made: Callable[..., Any] = _SYMBOLIC[name]
                return made(node)
            case "source":
                return self._build_object(_source_class(body[0]), body)
            case "once":
                return self._shared_object(body, self._read_plain)
        raise ValueError(f"{kind} is not known")

    def _read_plain(self, raw: Any) -> Any:
        body = raw["plain"]
        return self._build_object(_PLAIN.get(body[0]), body)

    def _build_object(self, kind: Any, body: Any) -> Any:
        if kind is None:
            raise ValueError(f"it has no {body[0]}")
        return kind(**{name: self.read_value(item) for name, item in body[1].items()})
