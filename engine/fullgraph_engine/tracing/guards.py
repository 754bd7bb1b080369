"""The guards that Dynamo checks, read off the tree that it checks them with.

``OutputGraph.guards`` holds what was asked for; one such wish becomes several checks, or none, and
others are added while the tree is built. Only the tree says what decides about a recompile. It is
what ``TORCH_LOGS=guards`` prints.
"""

from __future__ import annotations

import contextlib
import types
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from ..torch_internals import frames
from ..torch_internals import guards as upstream
from ..torch_internals.variables import COMPUTED, CONSTANT
from . import stacks, variables
from .lines import last_place
from .recording import Guard, GuardedCode, Recording, Stack, Write

MOST = 10_000
"""Guards that are written down of one run; the others are counted."""

_COMMENT = "  # "
"""What Dynamo puts between an expression and the line that it comes from."""

_HINT = " (HINT: "


class _Leaf(NamedTuple):
    kind: str
    source: str
    type: str
    words: tuple[str, ...]


@dataclass
class _Open:
    """A tree that is being built: which wish an expression came from."""

    wishes: dict[str, tuple[str, Any]] = field(default_factory=dict)


class Guards:
    """Writes the guards of one run into its recording."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._open: list[_Open] = []
        self._places: dict[str, Stack] = {}
        self._numbers: dict[str, dict[Stack, int]] = defaultdict(dict)
        self._stacks: dict[tuple[Any, ...], Stack] = {}

    @contextlib.contextmanager
    def building(self) -> Iterator[None]:
        self._open.append(_Open())
        try:
            yield
        finally:
            self._open.pop()

    def spoken(self, code_parts: Any, guard: Any, words: list[str]) -> None:
        """Dynamo has put expressions into words, for a leaf of the tree."""
        if self._open and guard is not None:
            parts = code_parts if isinstance(code_parts, list) else [code_parts]
            for part, said in zip(parts, words, strict=False):
                # Two that one leaf checks are one for Dynamo where they are asked for on one line.
                self._open[-1].wishes.setdefault(said, (part, guard))

    def placed(self, place: Any, here: Stack) -> Any:
        """A ShapeEnv has noted where it is, for what it is about to write down. It says so by
        lines: returned is the same, with a number where it stands for another place as well."""
        words = str(place)
        known = self._numbers[words]
        number = known.setdefault(here, len(known))
        if number:
            line = str(replace(place, maybe_user_loc=None))[1:-1]
            place = replace(place, framework_loc=f"{line}, {number}")
            words = str(place)
        self._places[words] = here
        return place

    def stack_at(self, words: str) -> Stack:
        """Where a ShapeEnv was, by how it says so; nothing where it did not."""
        return self._places.get(words, ())

    def built(self, frame: int, code: types.CodeType, wrapper: Any) -> None:
        """A tree is complete."""
        recording, wishes = self._recording, self._open[-1].wishes
        count = 0
        for leaf in _leaves(wrapper.root):
            count += 1
            if len(recording.guards) >= MOST:
                continue
            expressions, summary, type_ = [], None, leaf.type
            for words in leaf.words:
                said = wishes.get(words) or wishes.get(words.partition(_HINT)[0])
                part, wish = said or (words.partition(_COMMENT)[0].rstrip(), None)
                expressions.append(part)
                summary = summary or getattr(wish, "user_stack", None)
                type_ = type_ or _type_name(upstream.requested_type(wish, leaf.source))
            stack = self._stack(summary) if summary else ()
            if not stack and not leaf.source:
                stack = self._of_sizes(leaf.words)
            recording.guards.append(
                Guard(frame, leaf.kind, leaf.source, tuple(expressions), stack, type_)
            )
        resumed = frames.original_name(code.co_name) != code.co_name
        recording.guarded.append(GuardedCode(frame, last_place(code), count, resumed))

    def _stack(self, summary: Any) -> Stack:
        """Hundreds of guards come from one place, each with a summary of its own."""
        key = tuple(
            (entry.filename, entry.name, entry.lineno, *_extent(entry)) for entry in summary
        )
        stack = self._stacks.get(key)
        if stack is None:
            stack = self._stacks[key] = stacks.collapse(stacks.of_summary(summary))
        return stack

    def _of_sizes(self, words: tuple[str, ...]) -> Stack:
        """Of what a ShapeEnv guards only the place is told, behind the expression."""
        for part in words:
            place = part.partition(_COMMENT)[2]
            if place in self._places:
                return self._places[place]
            for one, stack in self._places.items() if place else ():
                if one in place:  # of two bounds each has its own
                    return stack
        return ()

    def captured(self, frame: int, output: Any) -> None:
        """A graph is complete: what else the code does is known, and not yet forgotten."""
        self._recording.writes.extend(_writes(frame, output))

    def entered(self, frame: int, compiled: Callable[..., Any]) -> Callable[..., Any]:
        """The same compiled graph, counting how often the code that it belongs to is run."""
        entries = self._recording.entries
        entries.setdefault(frame, 0)

        def run(*args: Any, **kwargs: Any) -> Any:
            entries[frame] += 1
            return compiled(*args, **kwargs)

        return run


def _leaves(root: Any) -> Iterator[_Leaf]:
    """In the order of Dynamo's log, each guard once."""
    relational = upstream.RELATIONAL.get() or ()
    # Kept, not only their ids: Python's objects for C++ ones are made anew when asked for.
    seen: list[Any] = []
    pending = [root]
    while pending:
        node = pending.pop()
        if node is None:
            continue
        leaves = node.get_leaf_guards()
        if leaves:
            source = node.get_source()
            type_ = _type_name(upstream.guarded_type(node)) if node is not root else ""
            for leaf in leaves:
                if isinstance(leaf, relational):
                    if any(leaf is other for other in seen):
                        continue
                    seen.append(leaf)
                    # It stands at every value that it relates.
                    yield _Leaf(type(leaf).__name__, "", "", tuple(leaf.verbose_code_parts()))
                    continue
                parts = tuple(leaf.verbose_code_parts())
                yield _Leaf(type(leaf).__name__, source if node is not root else "", type_, parts)
        below: list[Any] = []
        if hasattr(node, "get_key_value_managers"):
            for _, pair in sorted(node.get_key_value_managers().items()):
                below += pair
        below += node.get_child_managers()
        pending += reversed(below)
    for leaf in getattr(root, "get_epilogue_lambda_guards", list)():
        # One function checks all conditions of this kind, each from another line.
        for part in leaf.verbose_code_parts():
            yield _Leaf(type(leaf).__name__, "", "", (part,))


def _type_name(kind: Any) -> str:
    if kind is None:
        return ""
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", str(kind))
    return str(name) if module == "builtins" else f"{module}.{name}"


def _extent(entry: Any) -> tuple[Any, ...]:
    return tuple(getattr(entry, name, None) for name in ("colno", "end_lineno", "end_colno"))


def _writes(frame: int, output: Any) -> Iterator[Write]:
    """What the traced code leaves with another value than it found."""
    effects = getattr(output, "side_effects", None)
    for owner, attributes in getattr(effects, "store_attr_mutations", {}).items():
        name = variables.source_of(owner)
        for attribute, value in attributes.items() if name else ():
            # A global is an attribute of nothing.
            target = name if name == f"G[{attribute!r}]" else f"{name}.{attribute}"
            yield Write(frame, target, _constant(value))
    for owner in list(getattr(effects, "id_to_variable", {}).values()):
        if not getattr(getattr(owner, "mutation_type", None), "is_modified", False):
            continue
        name, items = variables.source_of(owner), getattr(owner, "items", None)
        if name and isinstance(items, list):
            yield Write(frame, f"len({name})", str(len(items)))
        elif name and isinstance(items, dict):
            yield Write(frame, f"len({name})", str(len(items)))
            for key, value in items.items():
                constant, new = _constant(getattr(key, "vt", None)), _constant(value)
                # What the code did not touch is in it as well, and is no constant to us.
                if constant and new:
                    yield Write(frame, f"{name}[{constant}]", new)


def _constant(variable: Any) -> str:
    """A value in Python's words; empty for what is no constant.

    To ask a variable whether it is one may have it made, and guarded.
    """
    if type(variable) is COMPUTED.get():
        value = getattr(getattr(variable, "_cache", None), "value", "")
    elif type(variable) is CONSTANT.get():
        value = variable.value
    else:
        return ""
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else ""
