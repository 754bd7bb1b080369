"""Repros in an editor: chosen at a finding, made beside everything else, opened and kept."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

NET = "class Net(nn.Module):\n    call()  # break: A break\n"
TWO = NET + "    again()  # break: Another break\n"
SCRIPT = "import torch\n" * 12


def plain(answer: Any) -> dict[str, Any]:
    return answer if isinstance(answer, dict) else dict(answer._asdict())


def place(uri: str, line: int = 1, **more: Any) -> dict[str, Any]:
    return {"uri": uri, "line": line, **more}


def told(editor: Any) -> list[str]:
    return [message.message for message in editor.client.messages]


async def opened(editor: Any, text: str = NET, name: str = "model.py") -> str:
    uri: str = editor.open(name, text)
    await editor.until_state("ready")
    await editor.command("fullgraph.server.analyze", uri)
    return uri


async def repro(editor: Any, *arguments: Any) -> dict[str, Any]:
    return plain(await editor.command("fullgraph.server.repro", *arguments))


async def actions_at(editor: Any, uri: str, needle: str, only: list[str] | None = None) -> Any:
    start = editor.position(uri, editor.texts[uri].index(needle))
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(uri),
        types.Range(start, start),
        types.CodeActionContext(diagnostics=[], only=only),
    )
    found = await editor.client.text_document_code_action_async(params) or []
    # Neovim has no disabled actions, so the state of the search for fixes is one of the actions.
    states = ("Looking for fixes", "No fix: ")
    return [one for one in found if not one.disabled and not one.title.startswith(states)]


def files(editor: Any) -> list[str]:
    folder = editor.root / "fullgraph-repros"
    found = [path.name for path in folder.iterdir()] if folder.exists() else []
    return sorted(name for name in found if name != ".gitignore")


# -- choosing ----------------------------------------------------------------------------------


async def test_actions_at_a_finding(editor: Any, counter: Any) -> None:
    uri = await opened(editor)
    one, other, last = await actions_at(editor, uri, "call()")
    assert (one.title, other.title) == ("Create minimal repro", "Copy minimal repro as issue")
    assert last.title == "Ignore graph-break/GB0059 on this line"
    assert one.kind == "quickfix.fullgraph.repro" and not one.is_preferred
    assert [diagnostic.code for diagnostic in one.diagnostics] == ["graph-break/GB0059"]
    # Nothing is done before one is chosen.
    assert "reproduce" not in counter.words
    answer = plain(await editor.command(one.command.command, *one.command.arguments))
    assert answer["verified"] and answer["shown"]
    assert counter.lines[-1] == "reproduce graph-break/GB0059 Net Net"


async def test_a_finding_that_a_comment_hides_has_a_repro(editor: Any) -> None:
    text = NET.replace("call()", "call()  # fullgraph: ignore #")
    uri = await opened(editor, text)
    assert await editor.seen(uri) == []
    line = text[: text.index("call()")].count("\n")
    assert (await repro(editor, {"uri": uri, "line": line}))["verified"]


async def test_only_where_a_script_could_show_something(editor: Any) -> None:
    uri = await opened(editor, "x = 1  # file: trace/eager-error An error\n" + NET)
    (ignore,) = await actions_at(editor, uri, "x = 1")
    assert ignore.title == "Ignore trace/eager-error on this line"
    assert len(await actions_at(editor, uri, "call()", ["quickfix"])) == 3
    assert await actions_at(editor, uri, "call()", ["refactor", "source.organizeImports"]) == []


async def test_several_findings_are_told_apart(editor: Any) -> None:
    text = NET.replace("call()", "call()  # file: op/not-pt2-compliant An op #")
    uri = await opened(editor, text + "    call()  # break: A break\n")
    titles = [action.title for action in await actions_at(editor, uri, "call()")]
    assert titles[0] == "Create minimal repro"
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(uri),
        types.Range(types.Position(1, 4), types.Position(2, 4)),
        types.CodeActionContext(diagnostics=[]),
    )
    actions = await editor.client.text_document_code_action_async(params)
    assert [action.title for action in actions if action.title.startswith("Create")] == [
        "Create minimal repro of op/not-pt2-compliant",
        "Create minimal repro of graph-break/GB0059",
    ]


async def test_a_target_is_compiled_only_on_request(editor: Any, counter: Any) -> None:
    uri = await opened(editor)
    action = (await actions_at(editor, uri, "Net"))[-1]
    assert action.title == "Compile Net with inductor and minimize a failure"
    answer = plain(await editor.command(action.command.command, *action.command.arguments))
    assert counter.lines[-1] == "reproduce inductor Net Net"
    assert answer["uri"].endswith("/fullgraph-repros/inductor-error-net.py")


async def test_what_is_meant_must_be_there(editor: Any) -> None:
    uri = await opened(editor)
    with pytest.raises(JsonRpcException, match="Line 1 does not have such a finding any more"):
        await repro(editor, place(uri, 0))
    with pytest.raises(JsonRpcException, match="Pass the line"):
        await repro(editor, uri)
    with pytest.raises(JsonRpcException, match="must be open"):
        await repro(editor, place("file:///absent.py"))
    with pytest.raises(JsonRpcException, match="Name one target: Net"):
        await repro(editor, {"uri": uri, "target": "Gone", "backend": "inductor"})
    with pytest.raises(JsonRpcException, match="one of eager, aot_eager, inductor"):
        await repro(editor, {"uri": uri, "target": "Net", "backend": "tvm"})


# -- making ------------------------------------------------------------------------------------


async def test_a_script_is_written_and_opened(editor: Any) -> None:
    uri = await opened(editor)
    answer = await repro(editor, place(uri))
    path = editor.root / "fullgraph-repros" / "gb0059-net.py"
    assert answer["uri"] == path.as_uri() == editor.client.shown_documents[-1].uri
    # The user may be typing elsewhere by now.
    assert editor.client.shown_documents[-1].take_focus is False
    assert path.read_text() == SCRIPT and answer["lines"] == 12
    assert "text" not in answer and not answer["reason"] and told(editor) == []


async def test_git_ignores_the_folder_that_is_made(editor: Any) -> None:
    uri = await opened(editor)
    folder = editor.root / "fullgraph-repros"
    await repro(editor, place(uri))
    assert (folder / ".gitignore").read_text() == "*\n"


async def test_fixes_come_before_a_repro(editor: Any) -> None:
    uri = await opened(editor, NET + "    # fix: other()\n")
    titles = [action.title for action in await actions_at(editor, uri, "call()")]
    assert titles.index("Write other()") < titles.index("Create minimal repro")


async def test_another_time_limit_holds_for_what_goes_on(editor: Any, counter: Any) -> None:
    uri = await opened(editor, NET + "# repro: 143 37 wait\n")
    making = asyncio.create_task(repro(editor, place(uri)))
    await until_waiting(editor, counter)
    configured = editor.client.get_configuration(section="fullgraph")
    editor.configure(**configured, repro={"timeBudget": 120})
    await editor.until(lambda: counter.words.count("reproduce-waits") == 2)
    assert not making.done()
    # What does not change the limit, changes nothing.
    editor.configure(**configured, repro={"timeBudget": 120, "folder": "elsewhere"})
    await editor.command("fullgraph.server.cancel", uri)
    assert (await making)["reason"].startswith("Making the repro was cancelled")
    assert counter.words.count("reproduce") == 2


async def test_what_is_there_is_opened_again(editor: Any, counter: Any) -> None:
    uri = await opened(editor)
    await repro(editor, place(uri))
    await repro(editor, place(uri))
    assert files(editor) == ["gb0059-net.py"] and counter.words.count("reproduce") == 1
    path = editor.root / "fullgraph-repros" / "gb0059-net.py"
    path.write_text("mine")
    answer = await repro(editor, place(uri))
    assert answer["uri"].endswith("gb0059-net-2.py") and path.read_text() == "mine"
    editor.edit(uri, "class", "\nclass")
    await editor.command("fullgraph.server.analyze", uri)
    await repro(editor, place(uri, 2))
    assert len(files(editor)) == 3


async def test_settings_say_where(open_editor: Any) -> None:
    editor = await open_editor(name="neovim", configuration={"repro": {"folder": "kept/here"}})
    uri = await opened(editor)
    answer = await repro(editor, place(uri))
    assert answer["uri"] == (editor.root / "kept/here/gb0059-net.py").as_uri()


async def test_data_lies_beside_a_script(editor: Any, counter: Any) -> None:
    uri = await opened(editor, NET + "# repro: 143 data 12 verified\n")
    answer = await repro(editor, place(uri))
    data = editor.root / "fullgraph-repros" / "data"
    (kept,) = data.iterdir()
    assert kept.read_bytes() == b"numbers" and not answer["reason"]
    issue = plain(await editor.command("fullgraph.server.reproIssue", place(uri)))
    assert f"The script needs the attached data: `data/{kept.name}`.\n" in issue["text"]
    assert counter.words.count("reproduce") == 1
    kept.unlink()
    answer = await repro(editor, place(uri))
    assert answer["uri"].endswith("gb0059-net-2.py") and kept.read_bytes() == b"numbers"


async def test_data_that_cannot_be_kept(editor: Any) -> None:
    (editor.root / "fullgraph-repros").mkdir()
    (editor.root / "fullgraph-repros" / "data").write_text("precious")
    uri = await opened(editor, NET + "# repro: 143 data 12 verified\n")
    answer = await repro(editor, place(uri))
    assert answer["shown"] and "Cannot write its data" in answer["reason"]
    assert answer["reason"] in told(editor)[-1]


async def test_data_outlives_the_engine(editor: Any) -> None:
    uri = await opened(editor, NET + "# repro: 143 data 12 die\n")
    answer = await repro(editor, place(uri))
    assert not answer["verified"] and "data" not in answer["reason"]
    (kept,) = (editor.root / "fullgraph-repros" / "data").iterdir()
    assert kept.read_bytes() == b"numbers"


async def test_data_is_kept_on_wish(open_editor: Any, counter: Any) -> None:
    editor = await open_editor(name="neovim", configuration={"repro": {"data": True}})
    await repro(editor, place(await opened(editor)))
    assert counter.lines[-1] == "reproduce graph-break/GB0059 Net Net with data"


async def test_each_finding_once_and_two_at_a_time(editor: Any, counter: Any) -> None:
    text = TWO + "    third()  # break: A third\n# repro: 143 12 wait\n"
    uri = await opened(editor, text)
    one, same, two, three = (
        asyncio.create_task(repro(editor, place(uri, line))) for line in (1, 1, 2, 3)
    )
    await editor.until(lambda: counter.words.count("reproduce") == 2)
    # The engine answers in order: a third that was asked for would have come before this.
    await editor.command("fullgraph.server.analyze", editor.open("other.py", NET))
    assert counter.words.count("reproduce") == 2
    await editor.command("fullgraph.server.cancel", uri)
    answers = [await task for task in (one, same, two)]
    assert answers[0] == answers[1] and answers[0]["uri"] != answers[2]["uri"]
    assert "before it began" in (await three)["reason"]
    assert counter.words.count("reproduce") == 2


async def until_waiting(editor: Any, counter: Any) -> None:
    """Until the server has all that the stub says before it waits."""
    await editor.until(lambda: "reproduce-waits" in counter.words)
    # Said later, and so read later.
    await editor.command("fullgraph.server.analyze", editor.open("other.py", NET))


async def test_progress_and_its_button(editor: Any) -> None:
    uri = await opened(editor, NET + "# repro: 143 37 wait\n")
    making = asyncio.create_task(repro(editor, place(uri)))
    reports = editor.client.progress_reports

    def bar() -> Any:
        begun = [(t, v) for t, v in reports.items() if v and "Reducing" in v[0].title]
        return begun[0] if begun else None

    token, values = await editor.until(bar)
    assert values[0].title == "Reducing GB0059 of Net" and values[0].cancellable
    assert values[0].message == "143 → 37 lines · 20 tried · 2.0 s"
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    answer = await making
    assert not answer["verified"] and answer["lines"] == 37 and answer["shown"]
    assert "cancelled before the script was run in a fresh Python" in answer["reason"]
    assert told(editor)[-1].startswith("fullgraph: 37 lines of 143, not verified")
    await editor.until(lambda: isinstance(values[-1], types.WorkDoneProgressEnd))


async def test_a_withdrawn_request_keeps_the_best(editor: Any, counter: Any) -> None:
    uri = await opened(editor, NET + "# repro: 143 37 wait\n")
    params = types.ExecuteCommandParams("fullgraph.server.repro", [place(uri)])
    request = editor.client.protocol.send_request(
        types.WORKSPACE_EXECUTE_COMMAND, params, msg_id="repro"
    )
    await until_waiting(editor, counter)
    editor.client.cancel_request(types.CancelParams(id="repro"))
    with pytest.raises(JsonRpcException) as caught:
        await asyncio.wrap_future(request)
    assert caught.value.code == -32800
    await editor.until(lambda: editor.client.shown_documents)
    assert files(editor) == ["gb0059-net.py"]


async def test_the_engine_dies_over_it(editor: Any) -> None:
    uri = await opened(editor, NET + "# repro: 143 37 die\n")
    answer = await repro(editor, place(uri))
    assert answer["shown"] and not answer["verified"] and "SIGKILL" in answer["reason"]
    assert files(editor) == ["gb0059-net.py"]


async def test_none_could_be_had(editor: Any) -> None:
    uri = await opened(editor, NET + "# repro: none: It is flaky; set a seed.\n")
    answer = await repro(editor, place(uri))
    assert answer["reason"] == "It is flaky; set a seed." and "uri" not in answer
    assert told(editor) == ["fullgraph: There is no repro. It is flaky; set a seed."]
    assert files(editor) == [] and editor.client.shown_documents == []


@pytest.mark.parametrize("server", ["stub_server.py", "slow_saving_server.py"])
async def test_shutting_down_keeps_the_best(open_editor: Any, counter: Any, server: str) -> None:
    editor = await open_editor(name="neovim", server=server)
    uri = await opened(editor, NET + "# repro: 143 37 wait\n")
    making = asyncio.create_task(repro(editor, place(uri)))
    await until_waiting(editor, counter)
    await editor.shut_down()
    await editor.until(lambda: files(editor) == ["gb0059-net.py"])
    with pytest.raises(JsonRpcException):
        await making


async def test_trust_that_is_withdrawn(open_editor: Any, counter: Any) -> None:
    editor = await open_editor(name="vscode")
    uri = await opened(editor, NET + "# repro: 143 37 wait\n")
    making = asyncio.create_task(repro(editor, place(uri)))
    await editor.until(lambda: "reproduce" in counter.words)
    editor.client.protocol.notify("fullgraph/trust", {"trusted": False})
    assert not (await making)["verified"]
    answer = await repro(editor, place(uri))
    assert "not trusted" in answer["reason"] and counter.words.count("reproduce") == 1


# -- where it cannot be written ----------------------------------------------------------------


async def test_a_folder_that_is_a_file(editor: Any) -> None:
    (editor.root / "fullgraph-repros").write_text("a file")
    uri = await opened(editor)
    answer = await repro(editor, place(uri))
    path = Path(answer["uri"].removeprefix("file://"))
    try:
        assert answer["verified"] and path.read_text() == SCRIPT
        assert editor.client.shown_documents[-1].uri == answer["uri"]
        assert f"the script is in {path}." in answer["reason"]
        assert answer["reason"] in told(editor)[-1]
    finally:
        path.unlink()
        path.parent.rmdir()


async def test_nothing_can_be_written(open_editor: Any, monkeypatch: Any) -> None:
    monkeypatch.setenv("STUB_FULL_DISK", "yes")
    editor = await open_editor(name="vscode")
    edits: list[types.ApplyWorkspaceEditParams] = []

    @editor.client.feature(types.WORKSPACE_APPLY_EDIT)
    def apply(params: types.ApplyWorkspaceEditParams) -> types.ApplyWorkspaceEditResult:
        edits.append(params)
        return types.ApplyWorkspaceEditResult(applied=True)

    uri = await opened(editor)
    answer = await repro(editor, place(uri))
    assert answer["uri"] == "untitled:gb0059-net.py" and answer["text"] == SCRIPT
    changes = edits[0].edit.changes
    assert changes is not None
    assert changes["untitled:gb0059-net.py"][0].new_text == SCRIPT
    assert editor.client.shown_documents[-1].uri == answer["uri"]
    assert "No space left on device" in told(editor)[-1] and files(editor) == []


async def test_a_client_that_shows_nothing_is_told_where_it_is(open_editor: Any) -> None:
    def less(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.window is not None
        capabilities.window.show_document = None

    editor = await open_editor(name="vscode", adjust=less)
    uri = await opened(editor)
    answer = await repro(editor, place(uri))
    assert not answer["shown"]
    assert told(editor)[-1].endswith(
        f"The script is in {editor.root}/fullgraph-repros/gb0059-net.py."
    )


# -- issues ------------------------------------------------------------------------------------


async def test_an_issue_is_written_beside(editor: Any, counter: Any) -> None:
    uri = await opened(editor)
    action = (await actions_at(editor, uri, "call()"))[1]
    answer = plain(await editor.command(action.command.command, *action.command.arguments))
    path = editor.root / "fullgraph-repros" / "gb0059-net.md"
    assert answer["uri"] == path.as_uri() == editor.client.shown_documents[-1].uri
    text = path.read_text()
    assert answer["text"] == text
    assert text.startswith("`torch.compile` breaks the graph (GB0059): A break.\n")
    assert f"```python\n{SCRIPT}```\n" in text and "```\nit broke\n```" in text
    # The script is there as well, and is not made again for its own sake.
    await repro(editor, place(uri))
    assert files(editor) == ["gb0059-net.md", "gb0059-net.py"]
    assert counter.words.count("reproduce") == 1


async def test_an_issue_of_an_open_script(editor: Any) -> None:
    uri = await opened(editor)
    answer = await repro(editor, place(uri))
    script = editor.open(answer["uri"], SCRIPT)
    (action,) = await actions_at(editor, script, "torch")
    assert action.title == "Copy as issue"
    answer = plain(await editor.command(action.command.command, *action.command.arguments))
    assert answer["text"].startswith("`torch.compile` breaks the graph (GB0059): A break.\n")


async def test_a_client_with_a_clipboard_gets_the_text(open_editor: Any) -> None:
    def clipboard(capabilities: types.ClientCapabilities) -> None:
        capabilities.experimental = {"commands": {"commands": ["fullgraph.copyIssue"]}}

    editor = await open_editor(name="vscode", adjust=clipboard)
    uri = await opened(editor)
    action = (await actions_at(editor, uri, "call()"))[1]
    assert action.command.command == "fullgraph.copyIssue"
    answer = plain(await editor.command("fullgraph.server.reproIssue", *action.command.arguments))
    assert answer["text"].startswith("`torch.compile` breaks") and "uri" not in answer
    assert files(editor) == ["gb0059-net.py"] and editor.client.shown_documents == []
