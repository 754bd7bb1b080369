"""What code objects tell is the same on every Python, or known not to be told."""

from __future__ import annotations

import dis
import types

import pytest

from fullgraph_engine.code_objects import (
    HAS_COLUMNS,
    InstructionPosition,
    exception_entries,
    implicit_none_indices,
    instruction_positions,
    jump_label,
    loads_method,
    position_at,
    position_entries,
    starting_line,
)

LOOP = """\
def f(items):
    total = 0
    for item in items:
        if item.known:
            total += item.size(
                1,
            )
    return total
"""


def code_of(text: str) -> types.CodeType:
    namespace: dict[str, types.FunctionType] = {}
    exec(compile(text, "<text>", "exec"), namespace)
    return namespace["f"].__code__


def at(code: types.CodeType, *names: str) -> dis.Instruction:
    return next(step for step in dis.get_instructions(code) if step.opname in names)


def test_an_instruction_has_the_position_of_its_expression() -> None:
    code = code_of(LOOP)
    call = at(code, "CALL", "CALL_METHOD")
    if HAS_COLUMNS:
        expected = InstructionPosition(5, 7, 21, 13)
        assert position_at(code, call.offset) == expected
        assert expected in instruction_positions(code)
    else:
        assert position_at(code, call.offset) is None and list(instruction_positions(code)) == []


@pytest.mark.parametrize("body", ["    pass", "    x.y(1)\n" * 300])
def test_the_none_of_a_comparison_is_known_where_it_has_its_own_line(body: str) -> None:
    split = "def f(x):\n  if (\n    x\n    is not None\n  ):\n" + body
    code = code_of(split)
    own = {at for at, entry in enumerate(position_entries(code)) if entry == (4, 4, 11, 15)}
    assert implicit_none_indices(code) == own
    assert bool(own) == HAS_COLUMNS
    joined = code_of("def f(x):\n  if x is not None:\n" + body)
    assert implicit_none_indices(joined) == set()


def test_code_that_has_not_begun_is_nowhere() -> None:
    assert position_at(code_of(LOOP), -1) is None


@pytest.mark.skipif(not HAS_COLUMNS, reason="there are none to be taken away")
def test_code_without_columns_has_no_positions() -> None:
    code = code_of(LOOP)
    bare = code.replace(co_linetable=b"")
    assert not list(instruction_positions(bare))
    assert position_at(bare, at(bare, "CALL").offset) is None


def test_every_line_of_the_code_begins_once_or_more() -> None:
    code = code_of(LOOP)
    begun = {starting_line(step) for step in dis.get_instructions(code)}
    assert begun - {None} == {line for _, line in dis.findlinestarts(code)}


def test_what_is_jumped_to_is_marked() -> None:
    steps = list(dis.get_instructions(code_of(LOOP)))
    assert any(step.is_jump_target for step in steps)
    assert all(bool(jump_label(step)) == step.is_jump_target for step in steps)


def test_a_method_that_is_called_is_no_value() -> None:
    steps = list(dis.get_instructions(code_of(LOOP)))
    loaded = [step for step in steps if step.opname in ("LOAD_ATTR", "LOAD_METHOD")]
    methods = [step for step in loaded if step.opname == "LOAD_METHOD" or loads_method(step)]
    assert [step.argval for step in loaded] == ["known", "size"]
    assert [step.argval for step in methods] == ["size"]


def test_where_an_exception_leads_is_told_since_there_is_a_table() -> None:
    code = code_of("def f(x):\n    with x:\n        x()\n")
    assert bool(exception_entries(code)) == hasattr(code, "co_exceptiontable")
