"""Documents about a target, in an editor that has virtual documents and in one that has not."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.lsp.virtual_documents import DocumentAddress

NET = "class Net(nn.Module):\n    call()  # break: A break\n"
TWO = NET + "class Other(nn.Module):\n    pass\n"
HEADER = "# fullgraph: off\n\n# Graphs of `Net`:"
KINDS = ("Graph", "Guards", "Events", "Bytecode")


def path_of(uri: str) -> Path:
    return Path(uri.removeprefix("file://"))


async def content(editor: Any, uri: str) -> str:
    params = types.TextDocumentContentParams(uri)
    answer = await editor.client.workspace_text_document_content_async(params)
    return str(answer.text)


async def opened(editor: Any, name: str, *arguments: Any) -> tuple[dict[str, Any], str]:
    """What a command answers, and the text that the user then sees."""
    answer = await editor.command(f"fullgraph.server.{name}", *arguments)
    answer = answer if isinstance(answer, dict) else answer._asdict()
    shown = editor.client.shown_documents[-1].uri
    assert shown == answer["uri"] and answer["shown"]
    if editor.profile == "vscode":
        return answer, await content(editor, shown)
    return answer, path_of(shown).read_text()


def shows(actions: Sequence[types.CodeAction]) -> list[types.CodeAction]:
    """Those that open a document."""
    return [one for one in actions if (one.kind or "").startswith("source.fullgraph.show.")]


# -- addresses --------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["Net", "compiled(x)", "a/b?c#d", "build()", "é %20"])
@pytest.mark.parametrize("uri", ["file:///a%20b/model.py", "untitled:Untitled-1"])
@pytest.mark.parametrize("probe", [None, 0, 11])
def test_an_address_survives_its_way(target: str, uri: str, probe: int | None) -> None:
    address = DocumentAddress("graph", target, uri, probe)
    assert DocumentAddress.parse(str(address)) == address
    # What VS Code makes of it.
    assert DocumentAddress.parse(str(address).replace("%3A", ":").replace("%28", "(")) == address
    assert str(address).partition("?")[0].endswith(".graph.py")


@pytest.mark.parametrize(
    "text",
    [
        "file:///x",
        "fullgraph:/graph",
        "fullgraph:/x/Net/a.py?b",
        "fullgraph:/graph/Net/-1/a.py?b",
        "fullgraph:/graph/Net/1/2/a.py?b",
    ],
)
def test_other_addresses_are_none(text: str) -> None:
    assert DocumentAddress.parse(text) is None


# -- showing ----------------------------------------------------------------------------------


async def test_a_document_is_opened_in_either_way(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TWO)
    await editor.until_seen(uri, ("A break", "call()"))
    await editor.until_state("ready")
    answer, text = await opened(editor, "showGraph", uri, "Net")
    assert text.startswith(HEADER) and "From model.py." in text
    assert "# class Net(nn.Module):" in text and "wrong" not in text
    assert "text" not in answer
    if editor.profile == "vscode":
        assert answer["uri"].startswith("fullgraph:/graph/Net/Net.graph.py?")
        (content_registration,) = [
            r for r in editor.registrations if r.method == "workspace/textDocumentContent"
        ]
        assert content_registration.register_options["schemes"] == ["fullgraph"]
    else:
        file = path_of(answer["uri"])
        assert stat.S_IMODE(file.stat().st_mode) == 0o400
        assert stat.S_IMODE(file.parents[1].stat().st_mode) == 0o700
    # Its own run, of the one target, that leaves findings as they are.
    assert counter.lines[-1].split()[2:] == ["Net", "graph"]
    assert counter.analyzed == 2
    assert await editor.seen(uri) == [("A break", "call()")]


async def test_each_kind_has_a_command(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_state("ready")
    for kind in KINDS:
        answer, text = await opened(editor, f"show{kind}", {"uri": uri, "target": "Net"})
        extension = "py" if kind == "Graph" else "txt"
        assert answer["uri"].partition("?")[0].endswith(f"/Net.{kind.lower()}.{extension}")
        assert f"{kind}" in text.replace("Shape events", "Events") and "`Net`" in text


async def test_timings_are_of_the_last_run_and_leave_the_focus(editor: Any) -> None:
    uri = editor.open("model.py", TWO)
    await editor.until_seen(uri, ("A break", "call()"))
    await editor.until_rest()
    answer, text = await opened(editor, "showTimings", uri)
    assert answer["uri"].partition("?")[0].endswith("model.py.timings.txt")
    assert editor.client.shown_documents[-1].take_focus is False
    assert text.startswith("Time spent in the last run of model.py.\n\nRequest, ")
    assert "\n  module " in text and "\n  runs " in text
    net = "\nNet, 250 ms\n  trace             250 ms\n    frame forward, line 1: 200 ms\n"
    assert f"{net}Other, 250 ms\n" in text
    editor.edit(uri, "    pass", "    return 1")
    await editor.until_rest()
    _, text = await opened(editor, "showTimings", uri)
    # What the edit cannot affect was not traced again.
    assert "\nOther, 250 ms" in text and "\nNet, " not in text


async def test_targets_are_measured_as_they_are_and_with_the_fixes(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_state("ready")
    answer, text = await opened(editor, "measure", {"uri": uri, "target": "Net"})
    assert answer["uri"].partition("?")[0].endswith("model.py.measured.txt")
    assert editor.client.shown_documents[-1].take_focus is False
    assert text.splitlines()[:7] == [
        "Net: already one graph; compiled is 2.00 times as fast as eager",
        "",
        "Processor time of one call, the median of many calls:",
        "",
        "Net (f32[4, 16]), forward, on the CPU with 2 threads; nothing is measured on a GPU",
        "  eager                 2 ms",
        "  compiled              1 ms  2.00 times as fast as eager, 1 graph, compiled in 3 s",
    ]
    editor.edit(uri, "call()", "call(1)")
    await editor.until_rest()
    if editor.profile == "vscode":
        text = await content(editor, answer["uri"])
        assert "\nThe text was edited after this measurement.\n" in text


async def test_what_was_not_traced_is_not_measured(editor: Any) -> None:
    uri = editor.open(
        "model.py", "import torch.nn as nn\n\n\nclass Net(nn.Module):  # stub: no-probe\n"
    )
    await editor.until_state("ready")
    answer = await editor.command("fullgraph.server.measure", {"uri": uri, "target": "Net"})
    assert answer == {
        "shown": False,
        "reason": "There is nothing to measure: `Net` was not traced.",
    }


async def test_what_only_a_program_calls_is_not_measured(editor: Any) -> None:
    uri = editor.open(
        "model.py", NET.replace("Net(nn.Module):", "Net(nn.Module):  # stub: program")
    )
    await editor.until_state("ready")
    assert "make faster" not in await editor.titles(uri)
    answer = await editor.command("fullgraph.server.measure", {"uri": uri, "target": "Net"})
    assert answer["reason"].startswith(
        "Cannot measure Net: only programs run this code, and measuring does not run programs."
    )


async def test_a_measurement_can_be_cancelled(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET + "# measure: wait\n")
    await editor.until_state("ready")
    measuring = asyncio.ensure_future(editor.command("fullgraph.server.measure", uri))
    await editor.until(lambda: counter.words.count("measure") == 1)
    await editor.command("fullgraph.server.cancel", uri)
    assert await measuring == {"shown": False, "reason": "Cancelled."}
    await editor.until(lambda: "cancel" in counter.words)


async def test_timings_say_that_there_are_none(editor: Any) -> None:
    uri = editor.open("model.py", "x = 1\n")
    await editor.until_rest()
    _, text = await opened(editor, "showTimings", uri)
    head = "model.py was not traced since it was opened."
    assert text == f"{head} Analyze the file to see the times.\n"


async def test_the_only_target_need_not_be_named(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_state("ready")
    _, text = await opened(editor, "showGraph", uri)
    assert text.startswith(HEADER)
    other = editor.open("two.py", TWO)
    await editor.until_state("ready")
    await editor.command("fullgraph.server.analyze", other)
    with pytest.raises(JsonRpcException, match="Net, Other"):
        await editor.command("fullgraph.server.showGraph", other)
    with pytest.raises(JsonRpcException, match="must be open"):
        await editor.command("fullgraph.server.showGraph", "file:///absent.py", "Net")


async def test_files_go_with_the_server(open_editor: Any) -> None:
    editor = await open_editor(name="neovim")
    uri = editor.open("model.py", NET)
    answer, _ = await opened(editor, "showGraph", uri, "Net")
    folder = path_of(answer["uri"]).parents[1]
    # Again, over what cannot be written to.
    await opened(editor, "showGraph", uri, "Net")
    assert folder.exists()
    await editor.shut_down()
    await editor.until(lambda: not folder.exists())


async def test_a_client_that_can_do_neither_gets_the_text(open_editor: Any) -> None:
    def less(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.window is not None and capabilities.workspace is not None
        capabilities.window.show_document = None
        capabilities.workspace.text_document_content = None

    editor = await open_editor(adjust=less)
    uri = editor.open("model.py", NET)
    answer = await editor.command("fullgraph.server.showGraph", uri, "Net")
    answer = answer if isinstance(answer, dict) else answer._asdict()
    assert not answer["shown"] and answer["text"].startswith(HEADER)


# -- content ----------------------------------------------------------------------------------


@pytest.mark.parametrize("profile_name", ["vscode"])
class TestContent:
    async def test_what_is_known_is_not_asked_again(self, editor: Any, counter: Any) -> None:
        uri = editor.open("model.py", NET)
        await editor.until_seen(uri, ("A break", "call()"))
        await editor.until_state("ready")
        address = str(DocumentAddress("graph", "Net", uri))
        one, other = await asyncio.gather(content(editor, address), content(editor, address))
        assert one == other == await content(editor, address)
        assert counter.analyzed == 2

    async def test_it_is_of_the_text_as_it_is(self, editor: Any) -> None:
        uri = editor.open("model.py", NET)
        await editor.until_state("ready")
        address = str(DocumentAddress("graph", "Net", uri))
        await content(editor, address)
        editor.edit(uri, "(nn.Module):", "(nn.Module):  # new")
        assert "# new" in await content(editor, address)

    async def test_the_client_is_told_after_a_run(self, editor: Any) -> None:
        uri = editor.open("model.py", NET)
        await editor.until_state("ready")
        address = str(DocumentAddress("graph", "Net", uri))
        await content(editor, address)
        editor.content_refreshes.clear()
        editor.edit(uri, "call()", "other()")
        await editor.until_seen(uri, ("A break", "other()"))
        await editor.until(lambda: editor.content_refreshes)
        assert set(editor.content_refreshes) == {address}

    async def test_an_older_wish_gets_the_newer_text(self, editor: Any, counter: Any) -> None:
        uri = editor.open("model.py", NET + "    # slow: 60\n")
        address = str(DocumentAddress("graph", "Net", uri))
        first = asyncio.create_task(content(editor, address))
        await editor.until(lambda: any("graph" in line for line in counter.lines))
        editor.edit(uri, "    # slow: 60\n", "    # later\n")
        second = await content(editor, address)
        assert await first == second
        assert "cancel" in counter.words

    async def test_cancelling_the_request_ends_its_run(self, editor: Any, counter: Any) -> None:
        uri = editor.open("model.py", NET)
        await editor.until_state("ready")
        editor.edit(uri, "call()", "call()  # slow: 60 #")
        params = types.TextDocumentContentParams(str(DocumentAddress("graph", "Net", uri)))
        request = editor.client.protocol.send_request(
            types.WORKSPACE_TEXT_DOCUMENT_CONTENT, params, msg_id="read"
        )
        await editor.until(lambda: any("graph" in line for line in counter.lines))
        cancelled = counter.words.count("cancel")
        editor.client.cancel_request(types.CancelParams(id="read"))
        with pytest.raises(JsonRpcException) as caught:
            await asyncio.wrap_future(request)
        assert caught.value.code == -32800
        await editor.until(lambda: counter.words.count("cancel") > cancelled)

    async def test_what_was_learnt_before_the_end_is_shown(self, editor: Any) -> None:
        uri = editor.open("model.py", "class Net(nn.Module):  # stub: timeout\n    pass\n")
        await editor.until_state("ready")
        text = await content(editor, str(DocumentAddress("graph", "Net", uri)))
        assert "# class Net" in text
        assert "# The run failed, so something may be missing: timeout." in text

    async def test_trouble_is_said_in_the_document(self, editor: Any) -> None:
        uri = editor.open("model.py", NET)
        await editor.until_state("ready")
        text = await content(editor, str(DocumentAddress("graph", "Gone", uri)))
        assert "There is no target `Gone` in this file." in text
        text = await content(editor, str(DocumentAddress("graph", "Net", "file:///closed.py")))
        assert text.startswith("Open the file")
        assert "not an address" in await content(editor, "fullgraph:/nonsense")
        editor.edit(uri, "call()", "def broken(")
        text = await content(editor, str(DocumentAddress("graph", "Net", uri)))
        assert "# The file does not parse." in text

    async def test_a_long_one_shows_progress(self, editor: Any) -> None:
        uri = editor.open("model.py", NET)
        await editor.until_state("ready")
        editor.edit(uri, "call()", "call()  # slow: 60 #")
        reading = asyncio.create_task(content(editor, str(DocumentAddress("events", "Net", uri))))
        reports = editor.client.progress_reports

        def bar() -> Any:
            begun = [(t, v) for t, v in reports.items() if v and "shape events" in v[0].title]
            return begun[0] if begun else None

        token, values = await editor.until(bar)
        assert values[0].title == "Writing shape events of Net" and values[0].cancellable
        editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
        assert "It was cancelled before it was complete." in await reading
        await editor.until(lambda: isinstance(values[-1], types.WorkDoneProgressEnd))

    async def test_a_document_is_not_traced_in_turn(self, editor: Any, counter: Any) -> None:
        uri = editor.open("model.py", NET)
        await editor.until_state("ready")
        before = counter.analyzed
        shown = editor.open(str(DocumentAddress("graph", "Net", uri)), NET)
        await editor.until_rest()
        assert await editor.lenses(shown) == [] and counter.analyzed == before


# -- ways to them -----------------------------------------------------------------------------


async def test_guards_have_a_lens_of_their_own(editor: Any) -> None:
    uri = editor.open("model.py", NET + "class Other(nn.Module):  # stub: no-probe\n    pass\n")
    await editor.until_state("ready")
    lens = next(one for one in await editor.lenses(uri) if one.command.title == "41 guards")
    assert lens.command.command == "fullgraph.server.showGuards"
    assert editor.at(uri, lens.range) == "Net"
    _, text = await opened(editor, "showGuards", *lens.command.arguments)
    assert text.startswith("Guards of `Net`")


async def test_guards_move_with_the_text(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", "class Net(nn.Module):\n    call()  # guarded: L['x']\n")
    await editor.until_state("ready")
    _, text = await opened(editor, "showGuards", uri, "Net")
    assert "line 2: call()" in text
    before = counter.analyzed
    editor.edit(uri, "class Net", "# above\nclass Net")
    await editor.until_rest()
    _, text = await opened(editor, "showGuards", uri, "Net")
    assert "line 3: call()" in text and counter.analyzed == before


async def test_actions_stand_on_the_line_of_a_target(editor: Any) -> None:
    uri = editor.open("model.py", TWO)
    await editor.until_seen(uri, ("A break", "call()"))
    await editor.until_state("ready")
    actions = shows(await editor.actions(uri, "Net"))
    assert [action.title for action in actions] == [
        "Show graph code of Net",
        "Show guards of Net",
        "Show shape events of Net",
        "Show bytecode of Net",
    ]
    assert shows(await editor.actions(uri, "call()")) == []
    command = actions[3].command
    assert command is not None and command.command == "fullgraph.server.showBytecode"
    _, text = await opened(editor, "showBytecode", *command.arguments or ())
    assert text.startswith("Bytecode of `Net`")


@pytest.mark.parametrize(("only", "found"), [("source", 4), ("quickfix", 0), ("refactor", 0)])
async def test_actions_that_are_asked_for(editor: Any, only: str, found: int) -> None:
    uri = editor.open("model.py", TWO)
    await editor.until_seen(uri, ("A break", "call()"))
    await editor.until_state("ready")
    place = types.Position(1, 4)
    params = types.CodeActionParams(
        types.TextDocumentIdentifier(uri),
        types.Range(place, place),
        types.CodeActionContext(diagnostics=[], only=[only]),
    )
    actions = shows(await editor.client.text_document_code_action_async(params) or [])
    assert len(actions) == found
    assert all(action.title.endswith(" of Net") for action in actions)
