"""What may come next in a probe that is being written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fullgraph.probes.comments import ProbeComment
from fullgraph.probes.scope import Class, Definition, Parameter, Scope
from fullgraph.probes.tokens import CONSTANTS, DEVICES, DTYPES, around

ProbeItemKind = Literal["dtype", "size", "device", "parameter", "class", "method", "constant"]


@dataclass(frozen=True)
class ProbeItem:
    """Something to be written, with a few words about it."""

    label: str
    kind: ProbeItemKind
    detail: str = ""


@dataclass(frozen=True)
class ProbeItems:
    """What is offered; ``start`` is where the word begins that is replaced, in the text."""

    items: tuple[ProbeItem, ...]
    start: int


def complete_probe(comment: ProbeComment, offset: int, scope: Scope) -> ProbeItems:
    """What may stand at an offset of the comment's text, the likeliest first."""
    text = comment.text
    start = offset
    while start > 0 and (text[start - 1 : start].isalnum() or text[start - 1 : start] == "_"):
        start -= 1
    before = text[:start].rstrip()
    if before.endswith("@"):
        items: Iterable[ProbeItem] = (ProbeItem(name, "device") for name in DEVICES)
    elif (inside := around(text[:start], start)).sizes:
        items = (ProbeItem(size, "size", "size of this file") for size in scope.sizes)
    elif before and not before.endswith((",", "(", "=", "[", "{", ":", ")")):
        items = ()
    else:
        items = _values(before, inside.calls, scope)
    return ProbeItems(tuple(items), start)


def _values(before: str, calls: tuple[str, ...], scope: Scope) -> Iterator[ProbeItem]:
    definition = scope.definition
    if definition is not None and not calls and (not before or before.endswith(")")):
        yield from _methods(before, definition)
    if before.endswith(")"):
        return
    if not before.endswith("="):
        given = {one.rpartition(",")[2].rpartition("(")[2].strip() for one in before.split("=")}
        for parameter in _parameters(calls, scope):
            if parameter.name not in given:
                yield ProbeItem(f"{parameter.name}=", "parameter", _about(parameter))
    in_init = calls == ("init",)
    dtypes = [ProbeItem(name, "dtype", f"torch.{torch}") for name, torch in DTYPES.items()]
    classes = [ProbeItem(one.name, "class", _class(one)) for one in _own_last(scope)]
    # A constructor takes configurations, and what is called takes tensors.
    yield from (*classes, *dtypes) if in_init else (*dtypes, *classes)
    yield from (ProbeItem(name, "constant") for name in CONSTANTS)
    if not before:
        yield ProbeItem("off", "constant", "do not trace what is below")


def _own_last(scope: Scope) -> list[Class]:
    own = scope.definition.name if scope.definition is not None else ""
    return sorted(
        (one for one in scope.classes if one.name != own), key=lambda one: not one.is_dataclass
    )


def _methods(before: str, definition: Definition) -> Iterator[ProbeItem]:
    if not definition.is_class:
        return
    if not before and definition.methods.get("__init__"):
        yield ProbeItem("init", "method", _signature(definition.methods["__init__"]))
    for name, parameters in definition.methods.items():
        if name == definition.called:
            yield ProbeItem(name, "method", _signature(parameters))


def _parameters(calls: tuple[str, ...], scope: Scope) -> tuple[Parameter, ...]:
    definition = scope.definition
    if calls:
        for one in scope.classes:
            if one.name == calls[-1]:
                return one.parameters
    if definition is None or len(calls) > 1:
        return ()
    called = calls[0] if calls else definition.called
    return definition.methods.get("__init__" if called == "init" else called, ())


def _about(parameter: Parameter) -> str:
    default = f" = {parameter.default}" if parameter.default else ""
    return f"{parameter.annotation}{default}".strip()


def _class(one: Class) -> str:
    return ("dataclass " if one.is_dataclass else "") + _signature(one.parameters)


def _signature(parameters: tuple[Parameter, ...]) -> str:
    return f"({', '.join(one.name for one in parameters)})"
