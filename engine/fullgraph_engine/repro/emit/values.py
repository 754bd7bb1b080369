"""Expressions that recreate live values.

A :class:`Printer` writes one value with everything in it. An object that occurs twice is written
twice; an assignment then makes both one object again (``self.head.weight = self.embed.weight``).
Cycles and tied weights are written in this way. A value that needs such assignments gets a
module-level name, unless it is a module that makes them in its ``__init__``.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence

import torch

from ...torch_internals import dispatcher
from .printer import Printer, ProgramBuilder
from .reachability import words_within
from .tensors.layouts import StorageKey, storage_key
from .tensors.storages import name_base
from .unwritable import UnwritableValue
from .writers import WRITERS


def write_expressions(
    program: ProgramBuilder, values: Sequence[object], hints: Sequence[str] = ()
) -> list[str]:
    """Return expressions that recreate values, such as arguments; the values may share objects.

    The caller must write the functions that use the values first, because they decide which
    attributes are needed. ``hints`` are suggested names for variables.

    Raises:
        UnwritableValue: Something in the values cannot be written as source text.
    """
    names = [*hints, *["value"] * (len(values) - len(hints))]
    try:
        # Prevent torch function modes from seeing the reads of tensors, and autograd from recording
        # them.
        functions = dispatcher.disable_torch_function()
        with torch.no_grad(), functions, dispatcher.disable_modes():
            known = frozenset(program.written.mentioned)
            program.written.mentioned |= words_within(values, known)
            for value in _shared_objects(values):
                if program.written.name_of(value) is None:
                    name_base(program, value)
                    hint = "x" if isinstance(value, torch.Tensor) else "shared"
                    program.variable_for(value, _write_whole(program, value, hint), hint)
            return [
                _write_whole(program, value, hint)
                for value, hint in zip(values, names, strict=True)
            ]
    except RecursionError:
        raise UnwritableValue("a value is nested too deeply to be written") from None


def _write_whole(program: ProgramBuilder, value: object, hint: str) -> str:
    printer = Printer(program, WRITERS)
    text = printer.expression(value, "")
    if not printer.after:
        return text
    name = program.fresh_name(hint)
    program.add(f"{name} = {text}")
    for statement in printer.after:
        program.add(statement.text("", name))
    program.written.name(value, name)
    return name


def _shared_objects(values: Sequence[object]) -> list[object]:
    """Return the objects that occur several times in the values, except inside modules.

    Tensors that share a storage are included.
    """
    counts: collections.Counter[int] = collections.Counter()
    holders: dict[StorageKey, list[torch.Tensor]] = {}
    order: list[object] = []

    def visit(value: object) -> None:
        if isinstance(value, (torch.Tensor, torch.nn.Module, list, dict)):
            counts[id(value)] += 1
            if counts[id(value)] > 1:
                return
            order.append(value)
        if isinstance(value, torch.Tensor):
            key = storage_key(value)
            if key is not None:
                holders.setdefault(key, []).append(value)
        elif isinstance(value, (list, tuple)):
            for item in value:
                visit(item)
        elif isinstance(value, dict):
            for item in value.values():
                visit(item)

    for value in values:
        visit(value)
    alike = {id(one) for group in holders.values() if len(group) > 1 for one in group}
    return [one for one in order if counts[id(one)] > 1 or id(one) in alike]
