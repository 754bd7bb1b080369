"""Record the guards that Dynamo checks, read from its guard tree.

``OutputGraph.guards`` contains only the guards that were requested. One request becomes several
checks or none, and building the tree adds others. The tree alone decides about recompiles. It is
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
from .lines import last_instruction_range
from .recording import Guard, GuardedCode, Recording, Stack, Write

MAX_GUARDS = 10_000
"""Maximum number of guards recorded per run; the others are only counted."""

_COMMENT = "  # "
"""Separator between a guard's expression and the code location that Dynamo appends to it."""

_HINT = " (HINT: "


class _Leaf(NamedTuple):
    kind: str
    source: str
    type: str
    words: tuple[str, ...]


@dataclass
class _TreeInProgress:
    """A guard tree that Dynamo is building, and the request behind each of its expressions.

    ``requests`` maps the text that Dynamo prints for an expression to the expression and to the
    ``torch._guards.Guard`` that asked for it.
    """

    requests: dict[str, tuple[str, Any]] = field(default_factory=dict)


class GuardRecorder:
    """A recorder of the guards that Dynamo checks in one run."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._trees: list[_TreeInProgress] = []
        self._stacks_by_location: dict[str, Stack] = {}
        self._stacks_per_text: dict[str, dict[Stack, int]] = defaultdict(dict)
        self._stacks_by_summary: dict[tuple[Any, ...], Stack] = {}

    @contextlib.contextmanager
    def open_tree(self) -> Iterator[None]:
        self._trees.append(_TreeInProgress())
        try:
            yield
        finally:
            self._trees.pop()

    def note_request(self, code_parts: Any, guard: Any, texts: list[str]) -> None:
        """Record which ``torch._guards.Guard`` requested some guard expressions.

        ``texts`` are the expressions as Dynamo prints them, in the guard tree that it is building.
        ``code_parts`` are the same expressions without appended comments.
        """
        if self._trees and guard is not None:
            parts = code_parts if isinstance(code_parts, list) else [code_parts]
            for part, text in zip(parts, texts, strict=False):
                # Dynamo merges guards requested by one line into a single leaf of the guard tree.
                self._trees[-1].requests.setdefault(text, (part, guard))

    def note_location(self, location: Any, stack: Stack) -> Any:
        """Record the user's stack for a code location (``SLoc``) that a ShapeEnv is about to store.

        The location names only lines. If the same text was used for another stack, return a copy
        with a number that distinguishes the two.
        """
        text = str(location)
        stacks = self._stacks_per_text[text]
        number = stacks.setdefault(stack, len(stacks))
        if number:
            line = str(replace(location, maybe_user_loc=None))[1:-1]
            location = replace(location, framework_loc=f"{line}, {number}")
            text = str(location)
        self._stacks_by_location[text] = stack
        return location

    def find_stack(self, text: str) -> Stack:
        """Return the user's stack for the text of a ShapeEnv's code location; empty if unknown."""
        return self._stacks_by_location.get(text, ())

    def record_tree(self, frame: int, code: types.CodeType, wrapper: Any) -> None:
        """Record all guards of a guard tree that Dynamo has finished. ``code`` is the code object
        of the compiled frame, and ``wrapper`` has the root of the tree.
        """
        recording, requests = self._recording, self._trees[-1].requests
        count = 0
        for leaf in _walk_leaves(wrapper.root):
            count += 1
            if len(recording.guards) >= MAX_GUARDS:
                continue
            expressions, summary, type_ = [], None, leaf.type
            for text in leaf.words:
                known = requests.get(text) or requests.get(text.partition(_HINT)[0])
                part, request = known or (text.partition(_COMMENT)[0].rstrip(), None)
                expressions.append(part)
                summary = summary or getattr(request, "user_stack", None)
                type_ = type_ or _type_name(upstream.requested_type(request, leaf.source))
            stack = self._convert_summary(summary) if summary else ()
            if not stack and not leaf.source:
                stack = self._find_size_stack(leaf.words)
            recording.guards.append(
                Guard(frame, leaf.kind, leaf.source, tuple(expressions), stack, type_)
            )
        resumed = frames.original_name(code.co_name) != code.co_name
        recording.guarded.append(GuardedCode(frame, last_instruction_range(code), count, resumed))

    def _convert_summary(self, summary: Any) -> Stack:
        """Convert a ``traceback.StackSummary`` to a stack. Results are cached, because many
        summaries are equal.
        """
        key = tuple(
            (entry.filename, entry.name, entry.lineno, *_columns_of(entry)) for entry in summary
        )
        stack = self._stacks_by_summary.get(key)
        if stack is None:
            stack = self._stacks_by_summary[key] = stacks.merge_resumed(
                stacks.stack_of_summary(summary)
            )
        return stack

    def _find_size_stack(self, texts: tuple[str, ...]) -> Stack:
        """Return the user's stack of a guard on sizes, for which torch appends only a code
        location."""
        for text in texts:
            location = text.partition(_COMMENT)[2]
            if location in self._stacks_by_location:
                return self._stacks_by_location[location]
            for known, stack in self._stacks_by_location.items() if location else ():
                if known in location:  # a lower and an upper bound on one line have separate stacks
                    return stack
        return ()

    def record_writes(self, frame: int, output: Any) -> None:
        """Record the existing values that the code of a finished graph changes, before Dynamo
        discards this data."""
        self._recording.writes.extend(_changed_values(frame, output))

    def wrap_with_counter(self, frame: int, graph: Callable[..., Any]) -> Callable[..., Any]:
        """Wrap a compiled graph so that the recording counts how often the frame's code runs.

        ``frame`` is the number of the frame.
        """
        entries = self._recording.entries
        entries.setdefault(frame, 0)

        def run(*args: Any, **kwargs: Any) -> Any:
            entries[frame] += 1
            return graph(*args, **kwargs)

        return run


def _walk_leaves(root: Any) -> Iterator[_Leaf]:
    """Yield each guard of a guard tree once, in the order in which Dynamo logs them."""
    relational = upstream.RELATIONAL.get() or ()
    # Keep the objects and not only their ids: Python creates new objects for C++ guards on each
    # access.
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
                    # Several values have a guard that relates them as a leaf; record it only once.
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
        # A single function checks all conditions on sizes, which come from different lines.
        for part in leaf.verbose_code_parts():
            yield _Leaf(type(leaf).__name__, "", "", (part,))


def _type_name(kind: Any) -> str:
    if kind is None:
        return ""
    module, name = getattr(kind, "__module__", ""), getattr(kind, "__qualname__", str(kind))
    return str(name) if module == "builtins" else f"{module}.{name}"


def _columns_of(entry: Any) -> tuple[Any, ...]:
    return tuple(getattr(entry, name, None) for name in ("colno", "end_lineno", "end_colno"))


def _changed_values(frame: int, output: Any) -> Iterator[Write]:
    """Yield the changes that the traced code of a frame makes to values that existed before.
    ``output`` is Dynamo's ``OutputGraph``.
    """
    effects = getattr(output, "side_effects", None)
    for owner, attributes in getattr(effects, "store_attr_mutations", {}).items():
        name = variables.variable_source(owner)
        for attribute, value in attributes.items() if name else ():
            # A global does not have an owner.
            target = name if name == f"G[{attribute!r}]" else f"{name}.{attribute}"
            yield Write(frame, target, _constant_text(value))
    for owner in list(getattr(effects, "id_to_variable", {}).values()):
        if not getattr(getattr(owner, "mutation_type", None), "is_modified", False):
            continue
        name, items = variables.variable_source(owner), getattr(owner, "items", None)
        if name and isinstance(items, list):
            yield Write(frame, f"len({name})", str(len(items)))
        elif name and isinstance(items, dict):
            yield Write(frame, f"len({name})", str(len(items)))
            for key, value in items.items():
                constant, new_text = _constant_text(getattr(key, "vt", None)), _constant_text(value)
                # The dictionary also contains unchanged items, for which `_constant_text` is empty.
                if constant and new_text:
                    yield Write(frame, f"{name}[{constant}]", new_text)


def _constant_text(variable: Any) -> str:
    """Return the ``repr`` of a variable's value if it is a constant, else an empty string.

    Only the exact type is checked: other queries could realize the variable and guard it.
    """
    if type(variable) is COMPUTED.get():
        value = getattr(getattr(variable, "_cache", None), "value", "")
    elif type(variable) is CONSTANT.get():
        value = variable.value
    else:
        return ""
    return repr(value) if value is None or isinstance(value, (bool, int, float, str)) else ""
