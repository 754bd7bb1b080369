"""What is not traced, or cannot be: texts of any size and kind, folders that come and go."""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from .operator_pages import write_index

NET = "class Net(nn.Module):\n    x = call()  # break: A break\n"
BREAK = ("A break", "x = call()")
LONG = NET + "y = 1  # é\n" * 100_000


@pytest.fixture(params=["vscode"])
def profile_name(request: pytest.FixtureRequest) -> str:
    """What is done here is the same for all clients."""
    return str(request.param)


def logged(editor: Any, words: str) -> list[str]:
    return [m.message for m in editor.client.log_messages if words in m.message]


def interpreter(folder: Path, unusable: bool = False) -> Path:
    """One that the stub engine runs in, by another path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "python"
    options = "unusable" if unusable else "$STUB_ENGINE"
    path.write_text(f'#!/bin/sh\nSTUB_ENGINE="{options}" exec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


# -- another interpreter ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unusable", "absent"])
async def test_what_another_torch_said_is_not_shown_for_an_interpreter_without_one(
    editor: Any, tmp_path: Path, kind: str
) -> None:
    text = NET + "    y = z  # seen: assigned y: f32[4]\n"
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    assert await editor.lenses(uri) and await editor.hints(uri)
    other = interpreter(tmp_path / "other", unusable=True)
    editor.configure(interpreter=str(other if kind == "unusable" else tmp_path / "absent"))
    await editor.until_state("unusable")
    await editor.until_seen(uri)
    (title,) = await editor.titles(uri)
    assert title.startswith("Not traced: ") and await editor.hints(uri) == []
    editor.edit(uri, "x = call()", "x = call(1)")
    await editor.until_rest()
    assert await editor.seen(uri) == []
    editor.configure(interpreter=sys.executable)
    await editor.until_seen(uri, ("A break", "x = call(1)"))
    assert len(editor.client.messages) == 1


async def test_what_a_torch_said_is_not_shown_after_it_was_removed(
    open_editor: Any, tmp_path: Path
) -> None:
    python = interpreter(tmp_path / "environment")
    editor = await open_editor(configuration={"interpreter": str(python)})
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    interpreter(tmp_path / "environment", unusable=True)
    await editor.command("fullgraph.server.restartEngine")
    await editor.until_seen(uri)
    assert editor.statuses[-1]["torch"] == ""


async def test_what_is_excluded_now_is_not_shown_any_more(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    configured = editor.client.get_configuration(section="fullgraph")
    editor.configure(**configured, exclude=["model.py"])
    await editor.until_seen(uri)
    assert logged(editor, "`exclude`")


async def test_why_there_is_no_engine_is_logged_once_and_not_at_each_edit(
    open_editor: Any,
) -> None:
    editor = await open_editor(engine="unusable")
    uri = editor.open("model.py", NET)
    await editor.until_state("unusable")
    for number in range(3):
        editor.edit(uri, "class Net", f"# {number}\nclass Net")
        assert not (await editor.command("fullgraph.server.analyze", uri))["completed"]
    (line,) = logged(editor, "no torch")
    assert line.endswith("There is no torch in this interpreter. Install torch in it.")
    await editor.command("fullgraph.server.restartEngine")
    await editor.until(lambda: len(logged(editor, "no torch")) == 2)


async def test_an_interpreter_that_was_put_right_is_found_when_the_user_comes_back(
    open_editor: Any, tmp_path: Path
) -> None:
    python = tmp_path / "environment" / "python"
    editor = await open_editor(configuration={"interpreter": str(python)})
    uri = editor.open("model.py", NET)
    await editor.until_state("unusable")
    interpreter(python.parent)
    editor.client.protocol.notify("fullgraph/focused", {})
    await editor.until_seen(uri, BREAK)


async def test_coming_back_traces_nothing_where_all_is_well(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "x = call()", "x = call(")
    await editor.until_rest()
    before = counter.analyzed
    editor.client.protocol.notify("fullgraph/focused", {})
    await editor.until_rest()
    assert counter.analyzed == before


async def test_an_analysis_without_an_interpreter_says_why(open_editor: Any) -> None:
    editor = await open_editor(configuration={"interpreter": "/nowhere/python"})
    uri = editor.open("model.py", NET)
    answer = await editor.command("fullgraph.server.analyze", uri)
    assert "/nowhere/python" in answer["reason"] and "does not exist" in answer["reason"]


# -- texts ------------------------------------------------------------------------------------


async def test_a_text_of_megabytes_is_traced_only_on_command(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", LONG)
    for _ in range(2):
        (said,) = await editor.until(lambda: editor.diagnostics(uri))
        assert said.code == "trace/too-long"
        assert said.severity == types.DiagnosticSeverity.Information
        assert editor.at(uri, said.range) == NET.split("\n")[0]
        assert "only on command" in said.message
        (title,) = await editor.titles(uri)
        assert title.startswith("Not traced: the file has ") and "more than 1,000,000" in title
        editor.edit(uri, "class Net", "class  Net")
        editor.edit(uri, "class  Net", "class Net")
    assert counter.analyzed == 0 and editor.client.messages == []
    assert (await editor.command("fullgraph.server.analyze", uri))["completed"]
    assert await editor.seen(uri) == [BREAK]
    # What was asked for stays, and moves with the text.
    editor.edit(uri, "class Net", "\nclass Net")
    await editor.until_rest()
    assert await editor.seen(uri) == [BREAK]
    assert counter.analyzed == 1


async def test_in_a_text_of_megabytes_names_are_not_explained_and_that_is_said_once(
    open_editor: Any, tmp_path: Path
) -> None:
    editor = await open_editor(engine=f"index={write_index(tmp_path / 'operators.index')}")
    short = editor.open("short.py", "import torch\ntorch.max(x)\n")
    await editor.until(lambda: editor.hover(short, "torch.m", "ax"))
    uri = editor.open("model.py", "import torch\ntorch.max(x)\n" + LONG)
    for _ in range(3):
        assert await editor.hover(uri, "torch.m", "ax") is None
    assert len(logged(editor, "explained and completed only")) == 1


async def test_a_long_text_without_torch_needs_no_words(editor: Any) -> None:
    uri = editor.open("data.py", "y = 1\n" * 200_000)
    assert (await editor.command("fullgraph.server.analyze", uri))["completed"]
    assert await editor.seen(uri) == []


@pytest.mark.parametrize(
    "filling",
    ["\n" * 100_000, "y = [" + "1, " * 100_000 + "]\n", f"y = '{'é😀' * 20_000}'\n"],
    ids=["empty lines", "one line", "wide characters"],
)
async def test_texts_of_unusual_shapes(editor: Any, filling: str) -> None:
    uri = editor.open("model.py", filling + NET)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "x = call()", "x = call(1)")
    await editor.until_seen(uri, ("A break", "x = call(1)"))
    place = types.Position(0, 1_000_000)
    for number in (0, 1 << 20, (1 << 31) - 1):
        place = types.Position(number, number)
        params = types.HoverParams(types.TextDocumentIdentifier(uri), place)
        await editor.client.text_document_hover_async(params)


async def test_a_text_full_of_errors(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    broken = "def (:\n  class ))) = [\n\x00\n" * 1000
    editor.edit(uri, "class Net", f"{broken}class Net")
    await editor.until_rest()
    assert await editor.seen(uri) == [BREAK]
    editor.replace(uri, NET)
    await editor.until_seen(uri, BREAK)
    assert editor.client.messages == []


@pytest.mark.parametrize(
    "uri",
    [
        "git:/project/model.py?%7B%22ref%22%3A%22HEAD%22%7D",
        "vscode-remote://ssh-remote%2Bhost/model.py",
        "jar:file:///a.jar!/model.py",
        "vscode-vfs://github/a/b/model.py",
    ],
)
async def test_what_is_no_file_here_is_traced_only_on_command(
    editor: Any, counter: Any, uri: str
) -> None:
    editor.open(uri, NET)
    await editor.until(lambda: logged(editor, "only on command"))
    editor.edit(uri, "x = call()", "x = call(1)")
    await editor.until_rest()
    assert counter.analyzed == 0 and editor.client.messages == []
    assert len(logged(editor, "only on command")) == 1
    assert (await editor.command("fullgraph.server.analyze", uri))["completed"]
    assert await editor.seen(uri) == [("A break", "x = call(1)")]


@pytest.mark.parametrize("uri", ["untitled:Untitled-1", "buffer:12", "file://"])
async def test_a_text_that_is_on_no_disk_yet(editor: Any, uri: str) -> None:
    editor.open(uri, NET)
    await editor.until_seen(uri, BREAK)


async def test_a_cell_without_its_notebook_is_left_alone(editor: Any, counter: Any) -> None:
    cell = "vscode-notebook-cell:/a.ipynb#W0"
    editor.open(cell, NET)
    editor.edit(cell, "x = call()", "x = call(1)")
    assert await editor.hover(cell, "class Net") is None
    assert await editor.lenses(cell) == [] and await editor.seen(cell) == []
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    assert counter.analyzed == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_ranges_that_are_nowhere(open_editor: Any, encoding: str) -> None:
    editor = await open_editor(encoding=encoding)
    uri = editor.open("model.py", "é = '😀'\n" + NET)
    await editor.until_seen(uri, BREAK)
    far = types.Position(1_000_000, 1_000_000)
    inside = types.Position(0, 6)
    identifier = types.TextDocumentIdentifier(uri)
    client = editor.client
    for range_ in (types.Range(far, far), types.Range(far, inside), types.Range(inside, inside)):
        await client.text_document_inlay_hint_async(types.InlayHintParams(identifier, range_))
        context = types.CodeActionContext(diagnostics=[])
        await client.text_document_code_action_async(
            types.CodeActionParams(identifier, range_, context)
        )
        await client.text_document_hover_async(types.HoverParams(identifier, range_.start))
        await client.text_document_completion_async(
            types.CompletionParams(identifier, range_.start)
        )
    # Backwards, and far behind the end: the text grows there.
    change = types.TextDocumentContentChangePartial(range=types.Range(far, far), text="z = 1\n")
    editor.texts[uri] += "z = 1\n"
    editor._changed(uri, change)
    end = types.Position(3, 5)
    change = types.TextDocumentContentChangePartial(
        range=types.Range(end, types.Position(3, 0)), text="y = f()  # break: Another"
    )
    editor.texts[uri] = editor.texts[uri].replace("z = 1", "y = f()  # break: Another")
    editor._changed(uri, change)
    await editor.until_seen(uri, BREAK, ("Another", "y = f()"))


# -- folders ----------------------------------------------------------------------------------


async def change_folders(editor: Any, added: list[Path], removed: list[Path]) -> None:
    folders = [
        [types.WorkspaceFolder(path.as_uri(), path.name) for path in paths]
        for paths in (added, removed)
    ]
    event = types.WorkspaceFoldersChangeEvent(*folders)
    editor.client.workspace_did_change_workspace_folders(
        types.DidChangeWorkspaceFoldersParams(event)
    )


async def test_folders_with_interpreters_of_their_own(
    open_editor: Any, counter: Any, tmp_path: Path
) -> None:
    editor = await open_editor()
    other = tmp_path / "other"
    python = interpreter(other / ".venv" / "bin")
    scoped = {"fullgraph": {"interpreter": "", "forecast": False}}
    editor.client.set_configuration(scoped, scope_uri=other.as_uri())
    first = editor.open("model.py", NET)
    await editor.until_seen(first, BREAK)
    await change_folders(editor, [other], [])
    second = editor.open((other / "model.py").as_uri(), NET)
    await editor.until_seen(second, BREAK)
    await editor.until_state("ready")
    facts = await editor.command("fullgraph.server.debugInformation")
    used = {engine["interpreter"] for engine in facts["engines"]}
    assert used == {sys.executable, str(python)}
    # The engine of a folder that is gone ends with it; its file is one of no folder.
    await change_folders(editor, [], [other])
    editor.close(second)
    await editor.until(lambda: len([w for w in counter.words if w == "start"]) == 2)

    async def one_folder() -> bool:
        facts = await editor.command("fullgraph.server.debugInformation")
        return len(facts["folders"]) == 1

    await editor.until(one_folder)
    await until_engines(editor, sys.executable)
    # Neither was traced with the interpreter of the other.
    assert counter.analyzed == 2


async def engines(editor: Any) -> set[str]:
    facts = await editor.command("fullgraph.server.debugInformation")
    return {engine["interpreter"] for engine in facts["engines"]}


async def until_engines(editor: Any, *interpreters: str) -> None:
    async def are_these() -> bool:
        return await engines(editor) == set(interpreters)

    await editor.until(are_these)


class Answering:
    """Answers what is asked about settings when it is told to."""

    def __init__(self, editor: Any) -> None:
        client = editor.client
        client.protocol.fm.features.pop(types.WORKSPACE_CONFIGURATION)
        self.gates: list[asyncio.Future[None]] = []

        @client.feature(types.WORKSPACE_CONFIGURATION)
        async def answer(params: types.ConfigurationParams) -> list[Any]:
            said = [
                client.get_configuration(section=item.section, scope_uri=item.scope_uri)
                for item in params.items
            ]
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self.gates.append(gate)
            await gate
            return said


async def test_answers_about_settings_in_another_order(open_editor: Any, tmp_path: Path) -> None:
    editor = await open_editor()
    await editor.until_seen(editor.open("model.py", NET), BREAK)
    answering = Answering(editor)
    old, new = (str(interpreter(tmp_path / name)) for name in ("old", "new"))
    for number, python in enumerate((old, new), 1):
        editor.configure(interpreter=python)
        await editor.until(lambda number=number: len(answering.gates) == number)
    answering.gates[1].set_result(None)
    await until_engines(editor, new)
    answering.gates[0].set_result(None)
    for _ in range(5):
        assert await engines(editor) == {new}


async def test_an_answer_that_does_not_know_a_new_folder(
    open_editor: Any, counter: Any, tmp_path: Path
) -> None:
    editor = await open_editor()
    await editor.until_seen(editor.open("model.py", NET), BREAK)
    answering = Answering(editor)
    editor.configure(**editor.client.get_configuration(section="fullgraph"))
    await editor.until(lambda: len(answering.gates) == 1)
    other = tmp_path / "other"
    other.mkdir()
    await change_folders(editor, [other], [])
    await editor.until(lambda: len(answering.gates) == 2)
    uri = editor.open((other / "model.py").as_uri(), NET)
    answering.gates[0].set_result(None)
    await editor.until_rest()
    assert counter.analyzed == 1
    answering.gates[1].set_result(None)
    await editor.until_seen(uri, BREAK)


async def test_settings_stay_where_the_editor_refuses_to_say_them(
    open_editor: Any, tmp_path: Path
) -> None:
    python = str(interpreter(tmp_path / "elsewhere"))
    editor = await open_editor(configuration={"interpreter": python})
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    answering = Answering(editor)
    editor.configure(interpreter=sys.executable)
    await editor.until(lambda: len(answering.gates) == 1)
    answering.gates[0].set_exception(RuntimeError("Not now."))
    await editor.until(lambda: logged(editor, "the editor's earlier settings apply"))
    assert await engines(editor) == {python}


async def test_a_folder_that_is_removed_from_the_disk(editor: Any) -> None:
    (editor.root / "pyproject.toml").write_text("[tool.fullgraph]\nmode = 'fake'\n")
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    shutil.rmtree(editor.root)
    editor.edit(uri, "x = call()", "x = call(1)")
    await editor.until_seen(uri, ("A break", "x = call(1)"))
    await editor.until_state("ready")
    assert editor.client.messages == []


async def test_a_file_outside_of_the_folder_has_the_interpreter_of_the_workspace(
    open_editor: Any, tmp_path: Path
) -> None:
    editor = await open_editor(configuration={"interpreter": ""})
    python = interpreter(editor.root / ".venv" / "bin")
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    uri = editor.open((outside / "sample.py").as_uri(), NET)
    await editor.until_seen(uri, BREAK)
    await until_engines(editor, str(python))
    # A project with an environment of its own keeps it.
    own = interpreter(outside / "project" / ".venv" / "bin")
    (outside / "project" / "pyproject.toml").write_text("")
    other = editor.open((outside / "project" / "model.py").as_uri(), NET)
    await editor.until_seen(other, BREAK)
    await until_engines(editor, str(python), str(own))


LATE = "class A(nn.Module):  # stub: late\n    pass\nclass B(nn.Module):\n    pass\n"


async def test_what_the_time_of_the_file_leaves_out_is_traced_from_its_lens(editor: Any) -> None:
    uri = editor.open("net.py", LATE)
    await editor.until(lambda: editor.titles(uri))
    await editor.until_rest()
    lens, *_ = await editor.lenses(uri)
    assert lens.command.title.endswith("not traced: time limit of the file · trace it now")
    assert lens.command.command == "fullgraph.server.analyze"
    status = await editor.until_state("ready")
    assert "1 target of net.py was not traced" in status["message"]
    await editor.command(lens.command.command, *lens.command.arguments)
    await editor.until_rest()
    lens, *_ = await editor.lenses(uri)
    assert "not traced" not in lens.command.title
    await editor.until(lambda: "not traced" not in editor.statuses[-1]["message"])


async def test_without_a_time_for_files_nothing_is_left_out(open_editor: Any) -> None:
    editor = await open_editor(configuration={"fileTimeout": 0})
    uri = editor.open("net.py", LATE)
    await editor.until(lambda: editor.titles(uri))
    await editor.until_rest()
    assert not [title for title in await editor.titles(uri) if "not traced" in title]
