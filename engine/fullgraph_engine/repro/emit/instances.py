"""Instances of user classes, written as instances of a reduced class with only the used members.

The reduced class has a new ``__init__`` without parameters, so the original constructor does not
run. The new one assigns the attributes of the live instance that the kept methods use.
"""

from __future__ import annotations

import re
import textwrap
import types

from ...object_state import instance_state
from .printer import Printer, ProgramBuilder
from .reachability import (
    EVERYTHING,
    Member,
    ReachedMembers,
    library_bases,
    may_look_up,
    unmangle_name,
    user_classes,
)
from .unwritable import UnwritableValue

# Placeholder for a class's own name in the source text of the class.
_ITSELF = "Class__itself"


def write_instance(printer: Printer, value: object, path: str | None) -> str:
    """Return an expression that recreates an instance of a user class other than a module.

    ``path`` is the path to the instance, such as ``.layers[0]``; None if it cannot be assigned.
    """
    kind = type(value)
    _check_inlinable(kind)
    words = printer.words
    found = printer.program.written.reached_members(kind, words)
    state = instance_state(value)
    if words and not found.words & EVERYTHING:
        state = {name: item for name, item in state.items() if may_look_up(found.words, name)}
    with printer.within(words=found.words):
        assignments = [
            attribute_assignment(printer, kind, name, item, path) for name, item in state.items()
        ]
    bases = library_bases(kind)
    first: list[str] = []
    for base in (dict, list, set, int, float, str, tuple):
        if base in bases:
            if base not in (dict, list, set):
                raise UnwritableValue(
                    f"a {kind.__qualname__} is a {base.__name__} with attributes, which cannot "
                    "be written as code"
                )
            first.append(f"super().__init__({printer.expression(base(value), None)})")  # type: ignore[call-overload]
    return synthesize_instance(printer, kind, found, [*first, *filter(None, assignments)], bases)


def _check_inlinable(kind: type) -> None:
    if "<locals>" in kind.__qualname__ and not user_classes(kind):
        raise UnwritableValue(f"{kind.__qualname__} cannot be written as code")
    if kind.__flags__ & (1 << 9) == 0 and not any(
        isinstance(one, types.FunctionType) for one in vars(kind).values()
    ):
        raise UnwritableValue(f"{kind.__module__}.{kind.__qualname__} is not written in Python")


def attribute_assignment(
    printer: Printer, kind: type, name: str, item: object, path: str | None
) -> str | None:
    """Return an assignment statement for the attribute ``name``, to be written in ``__init__``.

    Return None if its value ``item`` cannot be written. ``path`` is the path to the object whose
    attribute it is.
    """
    own = next(
        (
            unmangle_name(one, name)
            for one in user_classes(kind)
            if unmangle_name(one, name) != name
        ),
        name,
    )
    if not own.isidentifier():
        return None
    inner = None if path is None else f"{path}.{name}"
    known = printer.place_of(item)
    if known is not None and path is not None and known == f"{path}.{known.rpartition('.')[2]}":
        return f"self.{own} = self.{known.rpartition('.')[2]}"
    before = len(printer.after)
    try:
        return f"self.{own} = {printer.expression(item, inner)}"
    except UnwritableValue as error:
        del printer.after[before:]
        printer.program.note(f"`{kind.__name__}.{name}` is left out: {error.reason}")
        return None


def take_own_statements(printer: Printer, before: int, path: str | None) -> list[str]:
    """Take the pending statements that only change the object at ``path``.

    Pending statements run after the whole value is created. Return the taken ones with ``self`` as
    the object, for its ``__init__``. Statements before index ``before`` stay, because they were
    added for other objects.
    """
    if path is None:
        return []
    mine = [one for one in printer.after[before:] if one.within(path)]
    printer.after[before:] = [one for one in printer.after[before:] if not one.within(path)]
    return [one.text(path, "self") for one in mine]


def synthesize_instance(
    printer: Printer,
    kind: type,
    found: ReachedMembers,
    statements: list[str],
    bases: list[type],
) -> str:
    """Add a class to the generated program; return a call that creates an instance, such as
    ``Block()``.

    ``kind`` is the original class, and ``found`` has its members to copy. ``statements`` are the
    body of the new ``__init__``, and ``bases`` the base classes of the new class.
    """
    program = printer.program
    owners = [kind]
    if found.uses_super:
        owners += [
            one
            for one in user_classes(kind)[1:]
            if any(member.owner is one for member in found.members)
        ]
    names = ", ".join(printer.refer_to(base) for base in bases)
    for owner in reversed(owners[1:]):
        kept = [member for member in found.members if member.owner is owner]
        names = _add_class(program, owner, kept, [], names)
    flat = len(owners) == 1
    kept = [member for member in found.members if flat or member.owner is kind]
    return f"{_add_class(program, kind, kept, statements, names)}()"


def _add_class(
    program: ProgramBuilder,
    owner: type,
    kept: list[Member],
    statements: list[str],
    bases: str,
) -> str:
    """Add a class with the members ``kept``, or reuse an identical class; return its name.

    ``owner`` is the original class. ``statements`` are the body of the new ``__init__``, and
    ``bases`` is the source of the base classes.
    """
    parts: list[str] = []
    code: list[str] = []
    with program.alias(owner, _ITSELF):
        for member in kept:
            if member.is_code:
                code.append(textwrap.indent(program.method(member.owner, member.name), "    "))
            else:
                plain = _plain_member(program, member)
                if plain is not None:
                    parts.append(f"    {plain}")
    if statements:
        lines = "\n".join(f"        {line}" for line in statements)
        parts.append(f"    def __init__(self):\n{lines}")
    body = "\n\n".join([*parts, *code]) or "    pass"
    head = f"({bases})" if bases else ""
    text = f"class {_ITSELF}{head}:\n{body}\n"
    name = program.written.classes.get(text)
    if name is None:
        name = program.fresh_name(owner.__name__)
        program.written.classes[text] = name
        program.define(name, re.sub(rf"\b{_ITSELF}\b", name, text))
        if not program.knows(owner):
            program.bind(owner, name)
    return name


def _plain_member(program: ProgramBuilder, member: Member) -> str | None:
    """Return an assignment that recreates a class attribute.

    Return None for functions, and for values that cannot be written as source text.
    """
    if type(member.value).__name__ in ("member_descriptor", "getset_descriptor"):
        return None
    try:
        return f"{member.name} = {program.expression(member.value)}"
    except UnwritableValue as error:
        program.note(f"`{member.owner.__name__}.{member.name}` is left out: {error.reason}")
        return None
