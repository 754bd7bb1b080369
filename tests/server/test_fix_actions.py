"""Fixes in the editor: tried while the text rests, offered with their grade, gone with an edit."""

from __future__ import annotations

import asyncio
from typing import Any

from lsprotocol import types

SECONDS = 30.0
# The comment by which the engine finds a break is inside of the call that a fix replaces.
TEXT = (
    "import random\n"
    "import torch\n"
    "class Net(nn.Module):\n"
    "    def forward(self, x):\n"
    "        y = x + 1\n"
    "        y = y * (\n"
    "            random.random(  # break: A break\n"
    "            )\n"
    "        )\n"
    "        return y\n"
)
FIXED = TEXT.replace(
    "(\n            random.random(  # break: A break\n            )\n        )\n",
    "random.uniform(0.0, 1.0)\n",
)


async def fixes(editor: Any, uri: str, *, kind: str) -> list[types.CodeAction]:
    """The actions of a kind at the break, as soon as there are some that change the text."""
    for _ in range(int(SECONDS / 0.1)):
        found = [
            action
            for action in await editor.actions(uri, "random.random")
            if action.kind == kind and action.edit is not None and "Ignore" not in action.title
        ]
        if found:
            return found
        await asyncio.sleep(0.1)
    return []


def changed(action: types.CodeAction, text: str) -> str:
    """The text after an action; its ranges are whole lines."""
    assert action.edit is not None
    edits: list[types.TextEdit] = []
    for change in action.edit.document_changes or ():
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.version == 1
        edits += [edit for edit in change.edits if isinstance(edit, types.TextEdit)]
    for of_file in (action.edit.changes or {}).values():
        edits += of_file
    lines = text.splitlines(keepends=True)
    for edit in reversed(edits):
        lines[edit.range.start.line : edit.range.end.line] = [edit.new_text]
    return "".join(lines)


async def test_a_safe_fix_is_offered_and_preferred(editor: Any) -> None:
    uri = editor.open("net.py", TEXT)
    (fix,) = await fixes(editor, uri, kind="quickfix")
    assert "(removes the break; " in fix.title
    assert fix.is_preferred
    assert changed(fix, TEXT) == FIXED
    (everything,) = await fixes(editor, uri, kind="source.fixAll.fullgraph")
    assert changed(everything, TEXT) == FIXED


async def test_an_edit_takes_a_fix_away(editor: Any) -> None:
    uri = editor.open("net.py", TEXT)
    assert await fixes(editor, uri, kind="quickfix")
    editor.edit(uri, "x + 1", "x + 2")
    now = await editor.actions(uri, "random.random")
    assert not [action.title for action in now if "(removes the break" in action.title]
