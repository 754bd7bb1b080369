"""What the sandbox is to allow: who may set it, what it comes to, and the action that sets it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.domain.positions import Encoding
from fullgraph.domain.sandbox import layer_lines, level_line
from fullgraph.session.allowances import parse_allowance, resolve_allowances
from fullgraph.session.documents import Document
from fullgraph.session.settings import command_line_source, editor_source, resolve_settings
from fullgraph.session.workspace import Workspace
from fullgraph_engine.protocol import Allowance, Allowed, from_plain
from fullgraph_engine.protocol.sandbox import SandboxLayer, SandboxLevel, WritableFolder

NET = "class Net(nn.Module):\n    call()  # break: A break\n"
REFUSED = "import torch\nconnect()  # file: trace/sandboxed It was refused\n# allow: network\n"


# -- entries --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "network",
        "subprocess",
        "cpp-extensions",
        "write:./cache",
        "write:~/x y",
        "read-env:HF_TOKEN",
    ],
)
def test_an_entry_is_written_as_it_was_read(text: str) -> None:
    assert str(parse_allowance(text)) == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("netwrk", "not a valid entry (did you mean 'network'?)"),
        ("everything", "not a valid entry: entries are network, subprocess,"),
        ("network:8.8.8.8", "not a valid entry"),
        ("write", "not a valid entry"),
        ("write:", "not a valid entry"),
        ("read-env:A=B", "not a valid entry"),
        ("write:../other", "is outside of the workspace folder"),
        ("write:a/../../other", "is outside of the workspace folder"),
    ],
)
def test_what_is_no_entry_is_said_in_one_sentence(text: str, words: str) -> None:
    resolved = resolve_settings(command_line_source({"sandbox-allow": ["network", text]}))
    (problem,) = resolved.problems
    assert problem.startswith(f"--allow has {text!r}, which ")
    assert words in problem
    # One that is wrong leaves nothing allowed: it may have been meant to say less.
    assert resolved.settings.sandbox_allow == ()


def test_what_entries_come_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    texts = ("write:./cache", "write:~/data", "read-env:B", "read-env:A", "cpp-extensions")
    found = resolve_allowances(map(parse_allowance, texts), tmp_path)
    assert found == Allowed(
        programs=True,
        writable=(
            WritableFolder("/home/me/data"),
            WritableFolder(str(tmp_path / "cache"), str(tmp_path)),
        ),
        caches=("cpp-extensions",),
        variables=("A", "B"),
    )
    assert resolve_allowances([parse_allowance("triton-cache")], tmp_path) == Allowed(
        caches=("triton-cache",)
    )
    assert resolve_allowances([], tmp_path) == Allowed()


# -- who may set it -------------------------------------------------------------------------------


def test_only_sources_of_the_user_count() -> None:
    theirs = editor_source({"sandbox": {"allow": ["network"]}})
    resolved = resolve_settings(theirs)
    assert resolved.settings.sandbox_allow == ()
    (problem,) = resolved.problems
    assert problem == (
        "Setting 'sandbox.allow' of the editor is ignored: only your own settings and the "
        "command line can allow more in the sandbox."
    )
    ours = editor_source({"sandbox": {"allow": ["network"]}}, users=True)
    assert resolve_settings(ours).settings.sandbox_allow == (Allowance("network"),)
    # Nor does a workspace take away what the user allows.
    emptied = resolve_settings(ours, editor_source({"sandbox.allow": []}))
    assert emptied.settings.sandbox_allow == (Allowance("network"),)
    assert emptied.problems == ()


@pytest.mark.parametrize("user_settings", [True, False])
def test_a_workspace_gives_nothing_though_it_is_trusted(
    tmp_path: Path, user_settings: bool
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.fullgraph]\nsandbox-allow = ["network"]\n')
    problems: list[str] = []
    workspace = Workspace(problems.append)
    options = {"trusted": True, "sandbox": {"allow": ["triton-cache"]}}
    workspace.initialize(options, [tmp_path.as_uri()], user_settings=user_settings)
    workspace.configure({tmp_path.as_uri(): {"sandbox.allow": ["write:cache"]}})
    document = Document((tmp_path / "model.py").as_uri(), "", 1, Encoding.UTF16)
    folder = WritableFolder(str(tmp_path / "cache"), str(tmp_path))
    expected = Allowed(writable=(folder,)) if user_settings else Allowed(caches=("triton-cache",))
    assert workspace.resolve_allowed(document) == expected
    assert len(problems) == (1 if user_settings else 2)
    assert f"of {tmp_path / 'pyproject.toml'} is ignored" in problems[0]


def given(counter: Any) -> list[Allowed]:
    """What each engine that was started was started with."""
    starts = [line.split(" ", 2) for line in counter.lines if line.startswith("start ")]
    return [from_plain(Allowed, json.loads(start[2] or "{}")) for start in starts]


def knows_user_settings(capabilities: types.ClientCapabilities) -> None:
    capabilities.experimental = {"userSettings": True}


async def test_another_setting_is_another_engine(open_editor: Any, counter: Any) -> None:
    editor = await open_editor(adjust=knows_user_settings)
    uri = editor.open("model.py", NET)
    await editor.until(lambda: counter.analyzed == 1)
    await editor.until_state("ready")
    configured = editor.client.get_configuration(section="fullgraph")
    editor.configure(**configured, sandbox={"allow": ["network"]})
    await editor.until(lambda: counter.analyzed == 2)
    await editor.until_state("ready")
    assert given(counter) == [Allowed(), Allowed(network=True)]
    await editor.until_seen(uri, ("A break", "call()"))
    facts = await editor.command("fullgraph.server.debugInformation")
    assert len(facts["engines"]) == 1


async def test_a_client_that_does_not_know_whose_its_settings_are(
    open_editor: Any, counter: Any
) -> None:
    editor = await open_editor(configuration={"sandbox": {"allow": ["network"]}})
    editor.open("model.py", NET)
    await editor.until(lambda: counter.analyzed == 1)
    assert given(counter) == [Allowed()]
    (message,) = [one.message for one in editor.client.messages]
    assert message.startswith("fullgraph: Setting 'sandbox.allow' of the editor is ignored")


# -- the action -----------------------------------------------------------------------------------


async def test_an_action_allows_what_was_refused(open_editor: Any) -> None:
    def has_command(capabilities: types.ClientCapabilities) -> None:
        capabilities.experimental = {"commands": ["fullgraph.allow"]}

    editor = await open_editor(adjust=has_command)
    uri = editor.open("model.py", REFUSED)
    await editor.until_seen(uri, ("It was refused", "connect()"))
    (action,) = [
        one for one in await editor.actions(uri, "connect") if one.title.startswith("Allow ")
    ]
    assert action.title == "Allow network (user settings)"
    assert action.kind == types.CodeActionKind.QuickFix
    assert action.edit is None
    command = action.command
    assert (command.command, command.arguments) == ("fullgraph.allow", ({"entry": "network"},))
    assert [one.code for one in action.diagnostics] == ["trace/sandboxed"]


async def test_where_the_client_cannot_the_server_says_what_to_do(open_editor: Any) -> None:
    editor = await open_editor(adjust=lambda capabilities: None, name="neovim")
    uri = editor.open("model.py", REFUSED)
    await editor.until_seen(uri, ("It was refused", "connect()"))
    (action,) = [
        one for one in await editor.actions(uri, "connect") if one.title.startswith("Allow ")
    ]
    said = await editor.command(action.command.command, *action.command.arguments)
    assert said.startswith('Add "network" to `sandbox.allow` in the initialization options')
    with pytest.raises(JsonRpcException, match="which is not a valid entry"):
        await editor.command("fullgraph.server.allow", {"entry": "all"})


async def test_an_entry_that_nobody_could_read_is_not_offered(open_editor: Any) -> None:
    editor = await open_editor()
    text = REFUSED.replace("network", "write \u202e/home")
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, ("It was refused", "connect()"))
    titles = [one.title for one in await editor.actions(uri, "connect")]
    assert [title for title in titles if title.startswith("Allow")] == []
    assert titles


# -- the level ------------------------------------------------------------------------------------


def test_a_line_says_how_far_the_sandbox_holds() -> None:
    hook, landlock = SandboxLayer("audit hook"), SandboxLayer("Landlock")
    old = SandboxLayer("Landlock", "before Linux 6.12", partly=True)
    missing = SandboxLayer("seccomp", "EPERM")
    assert level_line(SandboxLevel()) == ""
    assert level_line(SandboxLevel((hook, landlock))) == "Sandbox active"
    level = SandboxLevel((hook, old, missing))
    assert level_line(level) == "Sandbox: 2 of 3 layers active, 1 of them in part"
    assert list(layer_lines(level)) == [
        "audit hook: active",
        "Landlock: active in part (before Linux 6.12)",
        "seccomp: missing (EPERM)",
    ]


async def test_the_status_has_the_level(editor: Any) -> None:
    editor.open("model.py", NET)
    status = await editor.until_state("ready")
    assert status["sandbox"] == "Sandbox: 1 of 2 layers active"
    facts = await editor.command("fullgraph.server.debugInformation")
    assert "Landlock: missing (there is none)" in facts["text"]
