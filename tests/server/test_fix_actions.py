"""Fixes in the editor: tried while the text rests, offered with their grade, gone with an edit."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
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


# The engine measures a text with the word "print" as slower.
SLOW = TEXT.replace("A break", "print")


async def test_measured_fixes_are_applied_with_one_click(editor: Any) -> None:
    uri = editor.open("net.py", SLOW)
    await editor.until_state("ready")
    place = {"uri": uri, "target": "Net"}
    gain = "1 graph → 1, 4.00\N{MULTIPLICATION SIGN} faster, identical output in 1 test"
    assert (await editor.titles(uri))[-1] == "make faster"
    shown = await editor.command("fullgraph.server.measure", place)
    if editor.profile == "vscode":
        params = types.TextDocumentContentParams(shown["uri"])
        text = (await editor.client.workspace_text_document_content_async(params)).text
        assert text.startswith(f"Net: {gain}\n")
        assert "\n+        y = y * random.uniform(0.0, 1.0)\n" in text
    assert (await editor.titles(uri))[-1] == f"apply: {gain}"
    (offered,) = [
        one for one in await editor.actions(uri, "Net(") if one.title.startswith("Apply the fix")
    ]
    assert offered.title == f"Apply the fix: {gain}"
    assert changed(offered, SLOW) == FIXED
    asked: list[types.ApplyWorkspaceEditParams] = []

    @editor.client.feature(types.WORKSPACE_APPLY_EDIT)
    def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        asked.append(params)
        return types.ApplyWorkspaceEditResult(applied=True)

    assert await editor.command("fullgraph.server.applyMeasured", place) == {"applied": True}
    (requested,) = asked
    assert requested.label == "Apply fixes to Net"
    assert changed(types.CodeAction("", edit=requested.edit), SLOW) == FIXED


async def test_measured_fixes_are_not_applied_to_an_edited_text(editor: Any) -> None:
    uri = editor.open("net.py", SLOW)
    await editor.until_state("ready")
    place = {"uri": uri, "target": "Net"}
    await editor.command("fullgraph.server.measure", place)
    editor.edit(uri, "x + 1", "x + 2")
    answer = await editor.command("fullgraph.server.applyMeasured", place)
    assert answer["reason"] == "The text was edited after it was measured. Measure it again."
    assert not [title for title in await editor.titles(uri) if title.startswith("apply")]


async def test_a_measurement_uses_the_fixes_that_were_found(editor: Any, counter: Any) -> None:
    uri = editor.open("net.py", SLOW)
    assert await fixes(editor, uri, kind="source.fixAll.fullgraph")
    tried = counter.words.count("compare")
    await editor.command("fullgraph.server.measure", {"uri": uri, "target": "Net"})
    assert (await editor.titles(uri))[-1].startswith("apply: 1 graph")
    # Only the whole changed text was compared, and no fix was tried again.
    assert counter.words.count("compare") == tried + 1


async def test_a_measurement_and_the_search_share_their_work(editor: Any, counter: Any) -> None:
    uri = editor.open("net.py", SLOW)
    await editor.until_state("ready")
    await editor.command("fullgraph.server.measure", {"uri": uri, "target": "Net"})
    tried = counter.words.count("compare")
    assert (await editor.titles(uri))[-1].startswith("apply: 1 graph")
    assert await fixes(editor, uri, kind="quickfix")
    assert await fixes(editor, uri, kind="source.fixAll.fullgraph")
    assert counter.words.count("compare") == tried


async def test_an_edit_during_the_search_ends_the_measurement(editor: Any, counter: Any) -> None:
    # The stub compares a text with this comment until the request is cancelled.
    uri = editor.open("net.py", SLOW + "# behavior: wait\n")
    await editor.until_state("ready")
    place = {"uri": uri, "target": "Net"}
    measuring = asyncio.ensure_future(editor.command("fullgraph.server.measure", place))
    await editor.until(lambda: "compare" in counter.words)
    editor.edit(uri, "x + 1", "x + 2")
    answer = await measuring
    assert answer["reason"] == "The text was edited meanwhile. Measure it again."


async def test_a_measurement_interrupts_the_search_of_another_file(
    editor: Any, counter: Any
) -> None:
    other = editor.open("other.py", TEXT + "# behavior: wait\n")
    await editor.until(lambda: "compare" in counter.words)
    uri = editor.open("net.py", SLOW)
    await editor.until_rest()
    await editor.command("fullgraph.server.measure", {"uri": uri, "target": "Net"})
    assert (await editor.titles(uri))[-1].startswith("apply: 1 graph")
    # Afterwards it continues.
    before = counter.words.count("compare")
    await editor.until(lambda: counter.words.count("compare") > before)
    editor.edit(other, "# behavior: wait\n", "")
    assert await fixes(editor, other, kind="quickfix")


# A class that the fix above does not concern.
OTHER = "class Other(nn.Module):\n    def forward(self, x):\n        return x + 5\n"
LOOKING = "Looking for fixes…"


async def test_an_edit_of_other_code_keeps_a_fix(editor: Any, counter: Any) -> None:
    uri = editor.open("net.py", OTHER + TEXT)
    assert await fixes(editor, uri, kind="quickfix")
    assert await fixes(editor, uri, kind="source.fixAll.fullgraph")
    tried = counter.words.count("compare")
    editor.edit(uri, "    def forward(self, x):\n        return x + 5", "    pass\n# Comment.")
    await editor.until_rest()
    (fix,) = [
        one
        for one in await editor.actions(uri, "random.random")
        if "(removes the break" in one.title
    ]
    (edit,) = editor.edits(uri, fix)
    assert editor.texts[uri].split("\n")[edit.range.start.line] == "        y = y * ("
    assert [one.kind for one in await editor.actions(uri, "random.random")].count(
        "source.fixAll.fullgraph"
    ) == 1
    assert counter.words.count("compare") == tried


async def test_an_undo_brings_a_fix_back(editor: Any, counter: Any) -> None:
    uri = editor.open("net.py", TEXT)
    assert await fixes(editor, uri, kind="quickfix")
    tried = counter.words.count("compare")
    editor.edit(uri, "x + 1", "x + 2")
    await editor.until_rest()
    editor.edit(uri, "x + 2", "x + 1")
    await editor.until_rest()
    now = await editor.actions(uri, "random.random")
    assert [action.title for action in now if "(removes the break" in action.title]
    assert counter.words.count("compare") == tried


async def test_while_fixes_are_sought_an_action_says_so(open_editor: Any) -> None:
    def shows_disabled(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.text_document and capabilities.text_document.code_action
        capabilities.text_document.code_action.disabled_support = True

    editor = await open_editor(adjust=shows_disabled)
    # The stub compares a text with this comment until the request is cancelled.
    uri = editor.open("net.py", TEXT + "# behavior: wait\n")

    async def looking() -> list[types.CodeAction]:
        return [one for one in await editor.actions(uri, "random.random") if one.disabled]

    (action,) = await editor.until(looking)
    assert action.title == LOOKING
    assert action.disabled.reason == LOOKING
    assert action.edit is None
    editor.edit(uri, "# behavior: wait\n", "")
    assert await fixes(editor, uri, kind="quickfix")
    assert not await looking()


def hides_disabled(capabilities: types.ClientCapabilities) -> None:
    assert capabilities.text_document and capabilities.text_document.code_action
    capabilities.text_document.code_action.disabled_support = False


async def test_a_client_that_shows_no_disabled_action_gets_a_message(open_editor: Any) -> None:
    editor = await open_editor(adjust=hides_disabled)
    uri = editor.open("net.py", TEXT + "# behavior: wait\n")

    async def looking() -> list[types.CodeAction]:
        return [one for one in await editor.actions(uri, "random.random") if one.title == LOOKING]

    (action,) = await editor.until(looking)
    assert action.disabled is None and action.edit is None
    words = await editor.command(action.command.command, *action.command.arguments)
    assert words == LOOKING
    assert editor.client.messages[-1].message == f"fullgraph: {LOOKING}"
    editor.edit(uri, "# behavior: wait\n", "")
    assert await fixes(editor, uri, kind="quickfix")
    assert not await looking()


@pytest.mark.parametrize("disabled", [True, False])
async def test_a_finding_without_a_fix_says_why(open_editor: Any, disabled: bool) -> None:
    def adjust(capabilities: types.ClientCapabilities) -> None:
        hides_disabled(capabilities)
        assert capabilities.text_document and capabilities.text_document.code_action
        capabilities.text_document.code_action.disabled_support = disabled
        capabilities.experimental = {"hoverFindings": True, "changed": True}

    editor = await open_editor(name="neovim", adjust=adjust)
    uri = editor.open("net.py", TEXT + "# behavior: differs: It returns another number.\n")

    async def unfixed() -> list[types.CodeAction]:
        actions = await editor.actions(uri, "random.random")
        return [one for one in actions if one.title.startswith("No fix: ")]

    (action,) = await editor.until(unfixed)
    assert (action.disabled is not None) == disabled and action.edit is None
    if action.command is not None:
        words = await editor.command(action.command.command, *action.command.arguments)
        assert "was refused: It returns another number." in words
    hover = (await editor.hover(uri, "random.random")).contents.value
    assert "No fix: “" in hover and "was refused: It returns another number." in hover
    summary = await editor.client.protocol.send_request_async("fullgraph/file", {"uri": uri})
    assert summary.fixes == "no fixes"


async def test_the_summary_of_a_file_says_how_far_the_search_is(editor: Any, counter: Any) -> None:
    uri = editor.open("net.py", TEXT + "# behavior: wait\n")
    await editor.until(lambda: "compare" in counter.words)

    async def words() -> str:
        found = await editor.client.protocol.send_request_async("fullgraph/file", {"uri": uri})
        return str(found.fixes)

    assert await words() == "looking for fixes"
    editor.edit(uri, "# behavior: wait\n", "")
    assert await fixes(editor, uri, kind="source.fixAll.fullgraph")

    async def has_ended() -> bool:
        return await words() == "fixes for 1"

    assert await editor.until(has_ended)


async def test_a_fix_of_two_findings_is_one_action(editor: Any) -> None:
    text = TEXT.replace("y = y * (\n", "y = y * (  # break: Another\n")
    uri = editor.open("net.py", text)
    await fixes(editor, uri, kind="source.fixAll.fullgraph")
    line = text.splitlines().index("        y = y * (  # break: Another")
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(uri),
        types.Range(types.Position(line, 0), types.Position(line + 1, 30)),
        types.CodeActionContext(await editor.diagnostics(uri)),
    )
    found = await editor.client.text_document_code_action_async(params)
    (fix,) = [one for one in found if "(removes 2 findings" in one.title]
    assert len(fix.diagnostics) == 2
