"""A tape as JSON, to be replayed in another process.

Everything is written as what it is (a source by its class and fields, an expression as a tree), and
read back before it counts as written. An argument that this cannot be done with ends the tape
there, and the tape says so.
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
from .tape import EventPlace, Operand, Operator, Tape
from .upstream import FakeTensorMeta, ShapeEnv, ShapeEnvEvent

VERSION = 1


class ArchiveError(Exception):
    """A file that is not a tape, or one that this torch cannot replay; one sentence."""


class _Unwritable(Exception):
    pass


def write(tape: Tape) -> str:
    """The tape as JSON.

    Where an event has an argument that cannot be written, the tape ends before it and its note
    says at which event and why.
    """
    writer = _Writer()
    events: list[Any] = []
    note = tape.note
    for index, event in enumerate(tape.events):
        try:
            events.append(writer.event(event, tape.places[index]))
        except _Unwritable as error:
            why = (
                f"Event {index} ({tape.method(index)}) and those after it are not in the file: "
                f"{error}."
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


def read(text: str) -> Tape:
    """The tape that :func:`write` wrote; it has no live ShapeEnv."""
    try:
        raw = json.loads(text)
        version = raw["version"]
    except (ValueError, KeyError, TypeError) as error:
        raise ArchiveError("This is not a tape of ShapeEnv events.") from error
    if version != VERSION:
        raise ArchiveError(f"The tape has format {version}, and this reads format {VERSION}.")
    reader = _Reader(raw)
    events: list[ShapeEnvEvent] = []
    places: list[EventPlace] = []
    for number, item in enumerate(raw["events"]):
        try:
            events.append(reader.event(item))
            places.append(reader.place(item["at"]))
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


class _Writer:
    def __init__(self) -> None:
        self.shared: list[Any] = []
        self.places: list[Any] = []
        self.stacks: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._place_numbers: dict[int, int] = {}
        self._stack_numbers: dict[Any, int] = {}
        self._kept: list[Any] = []

    def event(self, event: ShapeEnvEvent, place: EventPlace) -> Any:
        written: dict[str, Any] = {
            "f": event.f.__name__,
            "name": event.name,
            "args": None if event.args is None else [self.value(value) for value in event.args],
            "kwargs": {name: self.value(value) for name, value in (event.kwargs or {}).items()},
            "at": self.place(place),
        }
        if event.tracked_fakes is not None:
            written["tracked"] = self.once(event.tracked_fakes, self._tracked)
        return written

    def place(self, place: EventPlace) -> int:
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
            self._kept.append(place)
        return known

    def once(self, value: Any, write: Callable[[Any], Any]) -> int:
        """Contexts and snapshots are shared between events, and have to be so again."""
        known = self._numbers.get(id(value))
        if known is None:
            written = write(value)
            known = self._numbers[id(value)] = len(self.shared)
            self.shared.append(written)
            self._kept.append(value)
        return known

    def _tracked(self, fakes: list[Any]) -> Any:
        return [{"once": self.once(item, self._tracked_fake)} for item in fakes]

    def _tracked_fake(self, item: Any) -> Any:
        return [self.value(item.fake), self.value(item.source), self.value(item.symbolic_context)]

    def value(self, value: Any) -> Any:
        match value:
            case None | bool() | str():
                return value
            case float():
                return value if math.isfinite(value) else {"float": str(value)}
            case ShapeEnv():
                return {"env": True}
            case torch.SymInt() | torch.SymFloat() | torch.SymBool():
                return self._symbolic(value)
            case enum.Enum() if type(value).__name__ in _ENUMS:
                return {"enum": [type(value).__name__, value.name]}
            case int():
                return value
            case torch.Size() | tuple():
                return {"tuple": [self.value(item) for item in value]}
            case list():
                return [self.value(item) for item in value]
            case dict():
                pairs = [[self.value(k), self.value(v)] for k, v in value.items()]
                return {"dict": pairs}
            case sympy.Basic():
                return {"expr": self.expr(value)}
            case ValueRanges():
                return {"range": [self.expr(value.lower), self.expr(value.upper)]}
            case Source():
                return {"source": self._fields(value, _source_class)}
        if type(value).__name__ in _PLAIN:
            return {"once": self.once(value, self._plain)}
        called = str(getattr(value, "__name__", ""))
        if callable(value) and getattr(operator, called, None) is value:
            return {"operator": called}
        raise _Unwritable(f"it has a {type(value).__module__}.{type(value).__qualname__}")

    def _plain(self, value: Any) -> Any:
        # What a context remembers of other ShapeEnvs is of no use to a new one.
        return {"plain": self._fields(value, _PLAIN.get, {"shape_env_to_source_to_symbol_cache"})}

    def _fields(
        self, value: Any, find: Callable[[str], Any], leave: set[str] | None = None
    ) -> list[Any]:
        name = type(value).__name__
        if find(name) is not type(value):
            raise _Unwritable(f"it has a {name}, which torch does not define")
        fields = [f for f in dataclasses.fields(value) if f.init and f.name not in (leave or ())]
        return [name, {f.name: self.value(getattr(value, f.name)) for f in fields}]

    def _symbolic(self, value: Any) -> Any:
        node = value.node
        if not hasattr(node, "_expr"):
            raise _Unwritable(f"it has a {type(node).__name__}, which has no expression")
        return {
            "symbolic": [
                type(value).__name__,
                self.expr(node._expr),
                str(getattr(node.pytype, "__name__", "")),
                self.value(getattr(node, "_hint", None)),
            ]
        }

    def expr(self, value: Any) -> Any:
        written = self._tree(value)
        try:
            same = expression_of(written) == value
        except Exception as error:
            raise _Unwritable(f"the expression {value} cannot be read back ({error})") from error
        if not same:
            raise _Unwritable(f"the expression {value} would be read back as another")
        return written

    def _tree(self, value: Any) -> Any:
        if isinstance(value, (bool, int, float)):
            value = sympy.sympify(value)
        for name, known in _NAMED.items():
            if value is known:
                return {"is": name}
        if isinstance(value, sympy.Symbol):
            assumed = getattr(value, "_assumptions_orig", None) or value.assumptions0
            return {"symbol": value.name, "assume": dict(assumed)}
        if isinstance(value, sympy.Integer):
            return int(value)
        if isinstance(value, sympy.Rational):
            return {"rational": [int(value.p), int(value.q)]}
        if isinstance(value, sympy.Float):
            return {"number": [str(value), int(value._prec)]}
        name = type(value).__name__
        if not value.args or _function_class(name) is not type(value):
            raise _Unwritable(f"the expression {value} has a {name}")
        return {"call": name, "of": [self._tree(argument) for argument in value.args]}


def _source_class(name: str) -> Any:
    return next((getattr(m, name) for m in SOURCE_MODULES if hasattr(m, name)), None)


def _function_class(name: str) -> Any:
    for module in _FUNCTIONS:
        found = getattr(module, name, None)
        if isinstance(found, type) and issubclass(found, sympy.Basic):
            return found
    return None


def expression_of(written: Any) -> Any:
    """The expression that a tree stands for."""
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
    arguments = [expression_of(argument) for argument in written["of"]]
    function = _function_class(written["call"])
    if function is None:
        raise ValueError(f"no function {written['call']} is known")
    return function(*arguments)


class _Reader:
    def __init__(self, raw: dict[str, Any]) -> None:
        # Symbolic values need one to belong to; a replay moves them to its own.
        self._env = ShapeEnv(should_record_events=False)
        self._shared = raw["shared"]
        self._made: dict[int, Any] = {}
        self._stacks = [tuple(Frame(**frame) for frame in stack) for stack in raw["stacks"]]
        self._places = [self._place(item) for item in raw["places"]]

    def place(self, number: int) -> EventPlace:
        return self._places[number]

    def _place(self, raw: Any) -> EventPlace:
        number, op = raw
        known = None
        if op is not None:
            operands = tuple(Operand(item["name"], tuple(item["sizes"])) for item in op["operands"])
            known = Operator(op["name"], operands)
        return EventPlace(stack=self._stacks[number], operator=known)

    def event(self, raw: dict[str, Any]) -> ShapeEnvEvent:
        args = None if raw["args"] is None else [self.value(item) for item in raw["args"]]
        kwargs = {name: self.value(item) for name, item in raw["kwargs"].items()}
        tracked = self._once(raw["tracked"], self._tracked) if "tracked" in raw else None
        return ShapeEnvEvent(self._function(raw["f"]), args, kwargs, tracked, name=raw["name"])

    def _function(self, name: str) -> Callable[..., Any]:
        if name == "ShapeEnv":
            return ShapeEnv
        found = getattr(ShapeEnv, name, None)
        if found is None:
            raise ValueError(f"its ShapeEnv has no {name}")
        function: Callable[..., Any] = inspect.unwrap(found)
        return function

    def _once(self, number: int, make: Callable[[Any], Any]) -> Any:
        if number not in self._made:
            self._made[number] = make(self._shared[number])
        return self._made[number]

    def _tracked(self, raw: list[Any]) -> list[Any]:
        return [self._once(item["once"], self._tracked_fake) for item in raw]

    def _tracked_fake(self, raw: list[Any]) -> Any:
        fake, source, context = (self.value(item) for item in raw)
        return symbolic_shapes.TrackedFake(fake, source, context)

    def value(self, raw: Any) -> Any:
        if isinstance(raw, list):
            return [self.value(item) for item in raw]
        if not isinstance(raw, dict):
            return raw
        ((kind, body),) = raw.items()
        match kind:
            case "env":
                return self._env
            case "float":
                return float(body)
            case "tuple":
                return tuple(self.value(item) for item in body)
            case "dict":
                return {self.value(key): self.value(item) for key, item in body}
            case "expr":
                return expression_of(body)
            case "range":
                return ValueRanges(*(expression_of(item) for item in body))
            case "enum":
                return _ENUMS[body[0]][body[1]]
            case "operator":
                return getattr(operator, body)
            case "symbolic":
                name, expr, pytype, hint = body
                node = SymNode(expression_of(expr), self._env, _TYPES[pytype], self.value(hint))
                made: Callable[..., Any] = _SYMBOLIC[name]
                return made(node)
            case "source":
                return self._made_of(_source_class(body[0]), body)
            case "once":
                return self._once(body, self._plain)
        raise ValueError(f"{kind} is not known")

    def _plain(self, raw: Any) -> Any:
        body = raw["plain"]
        return self._made_of(_PLAIN.get(body[0]), body)

    def _made_of(self, kind: Any, body: Any) -> Any:
        if kind is None:
            raise ValueError(f"it has no {body[0]}")
        return kind(**{name: self.value(item) for name, item in body[1].items()})
