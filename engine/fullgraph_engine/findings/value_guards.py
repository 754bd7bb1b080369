"""Findings for guards on values that change from call to call, so that each call recompiles.

Only four types of guards in a trace deserve a diagnostic. The first type checks values that the
traced code changes. The second checks Python numbers, strings and objects among the arguments. The
third checks globals that functions assign, with their contents. The fourth checks conditions on
tensor data.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ..protocol import Finding, GuardName, Range, merge_names
from ..protocol.evidence import GuardEvidence
from ..protocol.sources import in_user_words, source_root
from ..torch_internals import dynamo
from ..tracing.recording import Guard, Recording, TracedFrame
from . import data_sizes
from .assignments import Assignments
from .guard_names import CompiledFunction, GuardNames
from .places import SourceText, finding_identity, related_to

_EQUAL = re.compile(r"^(?P<of>.+) (?:==|is) (?P<value>\S.*)$", re.S)
_MODULE = re.compile(r"^L\['(?P<name>\w+)'\]\._(?:modules|parameters|buffers)\b")
_VALUES = frozenset(
    ("EQUALS_MATCH", "TRUE_MATCH", "FALSE_MATCH", "NONE_MATCH", "LENGTH_CHECK", "DICT_LENGTH")
)
_INTEGER = re.compile(r"-?\d+$")
_NUMBERS = ("int", "float", "complex")
_PLAIN = (*_NUMBERS, "str")
_CALLED = {
    "function": "function",
    "code": "function",
    "builtin_function_or_method": "function",
    "method": "method",
    "method_descriptor": "function",
    "type": "class",
}
"""Nouns for the user, such as ``class``, by the name of a callable's type or attribute in a
guard."""

_STEADY = ("module", "NoneType", "bool", "wrapper_descriptor", "property")
"""Names of types whose objects stay the same at every call of a program."""


@dataclass(frozen=True)
class CalledWith:
    """A call of a target: the code object of its function, and its arguments by name."""

    code: types.CodeType | None = None
    arguments: frozenset[str] = frozenset()
    bound: bool = False
    """True if the call is a method call. The program is assumed to call the method on the same
    object each time.
    """
    of_module: bool = False
    """True if the call is a method call, such as ``forward``, of a module."""

    @classmethod
    def from_call(cls, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> CalledWith:
        called = function.forward if isinstance(function, torch.nn.Module) else function
        owner = getattr(called, "__self__", None)
        of_module = isinstance(owner, torch.nn.Module)
        code = getattr(inspect.unwrap(getattr(called, "__func__", called)), "__code__", None)
        try:
            bound = inspect.signature(called).bind(*args, **kwargs)
        except (TypeError, ValueError):
            return cls(code, bound=owner is not None, of_module=of_module)
        return cls(code, frozenset(bound.arguments), owner is not None, of_module)

    def includes(self, frame: TracedFrame, name: str) -> bool:
        """Whether a frame's local variable ``name`` is an argument that the call passes, rather
        than a default value.
        """
        return name in self.arguments and self.is_of(frame)

    def is_of(self, frame: TracedFrame) -> bool:
        """Whether a frame belongs to the called function, including the code that continues it
        after a graph break."""
        code = self.code
        if code is None or frame.path != code.co_filename:
            return False
        # A resume function may begin at any line of the function that it continues.
        return frame.function == code.co_name and frame.line >= code.co_firstlineno - 1


def value_guard_findings(
    recording: Recording, source: SourceText, given: CalledWith, fallback: Range
) -> tuple[Finding, ...]:
    """Return findings for guards on values that change between calls, each once, in the order of
    the guards.

    ``given`` is the traced call; ``fallback`` is the range if no frame is in the file.
    """
    found: dict[str, Finding] = {}
    for finding in _Unsteady(recording, source, given, fallback).findings():
        known = found.get(finding.identity)
        if known is not None:
            names = merge_names((*known.names, *finding.names))
            finding = dataclasses.replace(known, names=names)
        found[finding.identity] = finding
    return tuple(found.values())


class _Unsteady:
    def __init__(
        self, recording: Recording, source: SourceText, given: CalledWith, fallback: Range
    ) -> None:
        self._recording, self._source = recording, source
        self._given, self._fallback = given, fallback
        self._frames = {frame.id: frame for frame in recording.frames}
        self._writes = {write.target: write.value for write in recording.writes}
        self._assignments = Assignments(source.tree)
        self._names = GuardNames(source)
        self._modules = {
            (guard.frame, match["name"])
            for guard in recording.guards
            if (match := _MODULE.match(guard.source)) is not None
        }
        """Local variables that contain modules: pairs of the frame's number and the name."""

    def findings(self) -> Iterator[Finding]:
        for guard in self._recording.guards:
            frame = self._frames.get(guard.frame)
            if guard.kind in _VALUES:
                found = frame and (
                    self._mutation_finding(guard, frame) or self._value_finding(guard, frame)
                )
            elif guard.kind == "ID_MATCH" and guard.type not in _STEADY:
                found = frame and self._identity_finding(guard, frame)
            else:
                continue
            if found:
                yield found
        yield from self._data_dependent()

    # -- the four types of guards ----------------------------------------------------------------

    def _mutation_finding(self, guard: Guard, frame: TracedFrame) -> Finding | None:
        if not self._writes:
            return None
        for expression in guard.expressions:
            of, value = _checked_value(expression)
            if of not in self._writes:
                continue
            new = self._writes[of]
            if new == value or (not new and value != "None") or not self._is_lasting(of, frame):
                continue
            now = new or "another object"
            return self._make_finding(
                "guard/mutated",
                guard,
                frame,
                self._mutation_words(of, value, now, frame),
                "The traced code reads this value and then changes it. The compiled code is only "
                f"valid while the value is {value}, but it is {now} after the call.",
            )
        return None

    def _mutation_words(self, of: str, value: str, now: str, frame: TracedFrame) -> str:
        name = in_user_words(of)
        numbers = _INTEGER.match(value) is not None and _INTEGER.match(now) is not None
        counted = numbers and self._assignments.counts(of)
        if counted and self._is_specialized(of, frame):
            return f"`{name}` changes on every call, so each call recompiles until the limit"
        often = "on every call" if counted else "during the call"
        return f"`{name}` changes {often} ({value}, then {now}), so the next call recompiles"

    def _is_specialized(self, of: str, frame: TracedFrame) -> bool:
        """Whether Dynamo specializes an integer and recompiles for each new value, instead of
        making it symbolic.

        This is so for attributes of modules. ``of`` is Dynamo's name for the value.
        """
        scope, name = source_root(of)
        of_module = (frame.id, name) in self._modules or (
            self._given.of_module and self._is_own_object(name, frame)
        )
        symbolic = getattr(dynamo.config, "allow_unspec_int_on_nn_module", False)
        return scope == "local" and of_module and not symbolic

    def _is_own_object(self, name: str, frame: TracedFrame) -> bool:
        """Whether a local variable of a frame is the object whose method was called."""
        code = self._given.code
        owner = code.co_varnames[0] if code is not None and code.co_argcount else ""
        return self._given.bound and name == owner and self._given.is_of(frame)

    def _is_lasting(self, of: str, frame: TracedFrame) -> bool:
        """Whether a value that the call changed probably keeps its new value until the next call.

        This is assumed for globals, the object whose method is called, and modules. Another local
        may be a new object at each call. ``of`` is Dynamo's name for the value.
        """
        scope, name = source_root(of.removeprefix("len("))
        if scope == "global":
            return True
        if self._is_own_object(name, frame):
            return True
        return scope == "local" and (frame.id, name) in self._modules

    def _value_finding(self, guard: Guard, frame: TracedFrame) -> Finding | None:
        scope, name = source_root(guard.source)
        if scope == "local":
            # Attributes of a module's submodules seldom change.
            of_submodule = "._modules[" in guard.source
            plain = guard.type in _PLAIN and not of_submodule
            if not plain or not self._given.includes(frame, name):
                return None
        elif not self._is_changed_by_file(guard, frame):
            return None
        of, value = _checked_value(guard.expressions[0]) if guard.expressions else ("", "")
        if not of or of != guard.source:
            return None
        words = in_user_words(guard.source)
        ending = f"is specialized to {value}; any other value recompiles"
        if scope == "global":
            why = f"A function of this file assigns `{words}` or the object that contains it."
            return self._make_finding(
                "guard/global", guard, frame, f"The global `{words}` {ending}", why
            )
        later = (
            "Dynamo specializes to the first value of a Python number; a second value "
            "recompiles, and Dynamo then tries to make the number symbolic."
            if guard.type in _NUMBERS
            else "Each new string recompiles."
        )
        return self._make_finding("guard/value", guard, frame, f"`{words}` {ending}", later)

    def _is_changed_by_file(
        self, guard: Guard, frame: TracedFrame, *, exactly: bool = False
    ) -> bool:
        """Whether a function of the frame's file assigns the global that a guard checks.

        ``exactly``: assignments to keys computed at run time do not count.
        """
        return frame.path == self._source.path and self._assignments.changes_global(
            guard.source, exactly=exactly
        )

    def _identity_finding(self, guard: Guard, frame: TracedFrame) -> Finding | None:
        scope, name = source_root(guard.source)
        called = _CALLED.get(guard.type, "")
        if scope == "local" and frame.path == self._source.path:
            # A function or class inside an argument usually stays the same from call to call.
            whole = guard.source.removesuffix(".__code__") == f"L['{name}']"
            changing = self._given.includes(frame, name) and (whole or not called)
        else:
            # Functions are entered into global tables by code that runs at import, not during a
            # call.
            changing = scope == "global" and self._is_changed_by_file(
                guard, frame, exactly=bool(called)
            )
        if not changing:
            return None
        words = in_user_words(guard.source.removesuffix(".__code__"))
        return self._make_finding(
            "guard/identity",
            guard,
            frame,
            f"`{words}` is guarded by identity: another {called or f'object ({guard.type})'} "
            "recompiles",
            "A guard checks that this function still has the same code."
            if guard.type == "code"
            else "Dynamo compares the identity of this object, not its contents.",
        )

    def _data_dependent(self) -> Iterator[Finding]:
        sizes = data_sizes.DataSizes(self._recording, self._source)
        for check in self._recording.asserts:
            own = [frame for frame in check.stack if frame.path == self._source.path]
            if not own or data_sizes.is_own_check(self._source, own[-1]):
                continue
            words, about = sizes.describe_condition(check.frame, check.expression)
            place = self._source.locate(check.stack, self._fallback)
            code = "guard/data-dependent"
            yield Finding(
                code=code,
                message=f"`{words}` depends on data and is checked whenever the graph runs",
                range=place.range,
                explanation=" ".join(one.sentence for one in about),
                hints=(f"Write `torch._check({words})` before this line to state the condition.",),
                context=check.expression if check.expression != words else "",
                stack=place.stack,
                related=related_to(place),
                identity=f"{finding_identity(code, place.range)} {check.expression}",
                evidence=GuardEvidence(expression=check.expression),
            )

    def _make_finding(
        self, code: str, guard: Guard, frame: TracedFrame, message: str, explanation: str
    ) -> Finding:
        place = self._source.locate(guard.stack, self._fallback)
        compiled = CompiledFunction(frame.path, frame.function)
        name = GuardName(in_user_words(guard.source), message, frame.function)
        return Finding(
            code=code,
            message=message,
            range=place.range,
            explanation=explanation,
            context=guard.expressions[0],
            stack=place.stack,
            related=related_to(place),
            identity=self._names.identity(code, place, guard.stack, compiled, guard.source),
            evidence=GuardEvidence(guard.source),
            names=(name,),
        )


def _checked_value(expression: str) -> tuple[str, str]:
    """Return the expression and the value that an equality guard compares; two empty texts for
    other guards."""
    match = _EQUAL.match(expression)
    if match is not None:
        return match["of"], match["value"]
    # Dynamo checks an empty sequence with this condition.
    return (f"len({expression[4:]})", "0") if expression.startswith("not ") else ("", "")
