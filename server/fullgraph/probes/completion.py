"""Complete a probe (a description of example inputs) while the user writes its comment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fullgraph.probes.comments import ProbeComment
from fullgraph.probes.scope import ProbeClass, ProbedDefinition, ProbeParameter, ProbeScope
from fullgraph.probes.tokens import (
    CONSTANTS,
    DEVICES,
    DTYPES,
    TENSOR,
    open_brackets_at,
    probe_tokens,
)
from fullgraph_engine.protocol.contexts import (
    AUTOCAST_DTYPES,
    CONFIG,
    GRADS,
    KEYS,
    MARKS,
    STANCES,
    WORDS,
)

ProbeItemKind = Literal["dtype", "size", "device", "parameter", "class", "method", "constant"]


@dataclass(frozen=True)
class ProbeItem:
    """A completion item for a probe: the word to insert, its kind and a short description."""

    label: str
    kind: ProbeItemKind
    detail: str = ""


@dataclass(frozen=True)
class ProbeItems:
    """Completion items for a probe; ``start`` is the offset in the comment of the word that they
    replace.
    """

    items: tuple[ProbeItem, ...]
    start: int


def complete_probe(comment: ProbeComment, offset: int, scope: ProbeScope) -> ProbeItems:
    """Return the completion items at ``offset``, an offset in the text of a comment, the most
    likely first.

    ``scope`` has the names of the file that the comment may use.
    """
    text = comment.text
    start = offset
    while start > 0 and (text[start - 1 : start].isalnum() or text[start - 1 : start] == "_"):
        start -= 1
    before = text[:start].rstrip()
    if before.endswith("@"):
        items: Iterable[ProbeItem] = (ProbeItem(name, "device") for name in DEVICES)
    elif (inside := open_brackets_at(text[:start], start)).sizes:
        items = (ProbeItem(size, "size", "a size from this file") for size in scope.sizes)
    elif inside.calls[-1:] in (("under",), (TENSOR,)):
        items = _context_items(before, inside.calls[-1])
    elif not inside.calls and before.endswith(("]", ")")):
        items = _items_after_call(before, scope)
    elif not inside.calls and before.endswith(" then"):
        items = _items_after_then(scope)
    elif before and not before.endswith((",", "(", "=", "[", "{", ":", ")")):
        items = ()
    else:
        items = _value_items(before, inside.calls, scope)
    return ProbeItems(tuple(items), start)


def _context_items(before: str, within: str) -> Iterator[ProbeItem]:
    """Yield completion items inside ``under(…)``, or inside the round brackets after a tensor.

    An example is ``grad`` in ``f32[2](grad)``. ``before`` is the text before the cursor's word.
    ``within`` is ``under`` or ``TENSOR``.
    """
    words, keys = (GRADS, MARKS) if within == TENSOR else (WORDS, KEYS)
    if before.endswith("stance="):
        yield from (ProbeItem(stance, "constant") for stance in STANCES)
    elif before.endswith("autocast="):
        yield from (ProbeItem(name, "dtype", f"torch.{of}") for name, of in AUTOCAST_DTYPES.items())
    elif before.endswith("="):
        yield from (ProbeItem(name, "constant") for name in CONSTANTS)
    else:
        yield from (ProbeItem(word, "constant", about) for word, about in words.items())
        yield from (ProbeItem(f"{key}=", "parameter", about) for key, about in keys.items())
        if within != TENSOR:
            yield ProbeItem(CONFIG, "parameter", "a setting of torch._dynamo.config")


def _items_after_call(before: str, scope: ProbeScope) -> Iterator[ProbeItem]:
    """Yield completion items after a complete call such as ``forward(f32[2])``, or after a tensor.

    ``before`` is the text before the cursor's word.
    """
    only_init = [one.text for one in probe_tokens(before) if one.kind in ("method", "dtype")] == [
        "init"
    ]
    if only_init and scope.definition is not None:
        yield from _method_items(before, scope.definition)
    if not before.rpartition("under(")[1]:
        yield ProbeItem("under", "method", "modes and settings for this call")
    if not only_init:
        yield ProbeItem("then", "constant", "call the same object again")


def _items_after_then(scope: ProbeScope) -> Iterator[ProbeItem]:
    if scope.definition is not None:
        yield from _method_items("then", scope.definition)
    yield from (ProbeItem(name, "dtype", f"torch.{torch}") for name, torch in DTYPES.items())


def _value_items(before: str, calls: tuple[str, ...], scope: ProbeScope) -> Iterator[ProbeItem]:
    definition = scope.definition
    if definition is not None and not calls and not before:
        yield from _method_items(before, definition)
    if before.endswith(")"):
        return
    if not before.endswith("="):
        given = {one.rpartition(",")[2].rpartition("(")[2].strip() for one in before.split("=")}
        for parameter in _call_parameters(calls, scope):
            if parameter.name not in given:
                yield ProbeItem(f"{parameter.name}=", "parameter", _parameter_detail(parameter))
    in_init = calls == ("init",)
    dtypes = [ProbeItem(name, "dtype", f"torch.{torch}") for name, torch in DTYPES.items()]
    classes = [ProbeItem(one.name, "class", _class_detail(one)) for one in _other_classes(scope)]
    # Constructors usually take configuration objects, and other methods take tensors.
    yield from (*classes, *dtypes) if in_init else (*dtypes, *classes)
    yield from (ProbeItem(name, "constant") for name in CONSTANTS)
    if not before:
        yield ProbeItem("off", "constant", "do not trace the code below")


def _other_classes(scope: ProbeScope) -> list[ProbeClass]:
    own = scope.definition.name if scope.definition is not None else ""
    return sorted(
        (one for one in scope.classes if one.name != own), key=lambda one: not one.is_dataclass
    )


def _method_items(before: str, definition: ProbedDefinition) -> Iterator[ProbeItem]:
    if not definition.is_class:
        return
    if not before and definition.methods.get("__init__"):
        yield ProbeItem("init", "method", _signature_text(definition.methods["__init__"]))
    for name, parameters in definition.methods.items():
        if name == definition.called:
            yield ProbeItem(name, "method", _signature_text(parameters))


def _call_parameters(calls: tuple[str, ...], scope: ProbeScope) -> tuple[ProbeParameter, ...]:
    definition = scope.definition
    if calls:
        for one in scope.classes:
            if one.name == calls[-1]:
                return one.parameters
    if definition is None or len(calls) > 1:
        return ()
    called = calls[0] if calls else definition.called
    return definition.methods.get("__init__" if called == "init" else called, ())


def _parameter_detail(parameter: ProbeParameter) -> str:
    default = f" = {parameter.default}" if parameter.default else ""
    return f"{parameter.annotation}{default}".strip()


def _class_detail(one: ProbeClass) -> str:
    return ("dataclass " if one.is_dataclass else "") + _signature_text(one.parameters)


def _signature_text(parameters: tuple[ProbeParameter, ...]) -> str:
    return f"({', '.join(one.name for one in parameters)})"
