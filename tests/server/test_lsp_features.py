"""Lenses, fixes, commands, progress, settings, trust and trouble, as an editor meets them."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException

from fullgraph.lsp.publication import Publication

from .loop_clock import passed

NET = "class Net(nn.Module):\n    call()  # break: A break\n"
BREAK = ("A break", "call()")
SLOW = "class Net(nn.Module):\n    call()  # break: A break\n    # slow: 60\n"


# -- lenses and fixes -------------------------------------------------------------------------


async def test_a_lens_on_each_target(editor: Any) -> None:
    text = NET + "class Other(nn.Module):  # stub: no-probe\n    pass\n"
    uri = editor.open("model.py", text)
    await editor.until_state("ready")
    lenses = await editor.lenses(uri)
    assert [editor.at(uri, lens.range) for lens in lenses] == ["Net", "Net", "Net", "Other"]
    assert await editor.titles(uri) == [
        "2 graphs · 1 break · f32[4, 16] from get_inputs",
        "41 guards",
        "make faster",
        "not traced: fullgraph doesn't know this function's inputs",
    ]
    command = lenses[0].command
    # A client names the commands that it has; to any other the server offers its own.
    expected = {"vscode": "fullgraph.showTarget", "neovim": "fullgraph.server.analyze"}
    assert command.command == expected[editor.profile]
    argument = command.arguments[0]
    assert (argument["uri"], argument["target"]) == (uri, "Net")
    assert argument["report"]["breaks"] == 1
    assert (editor.lens_refreshes > 0) == (editor.profile == "vscode")


PROBES = """\
# fullgraph: Net(f32[4, 16])
# fullgraph: Net(f32[4, 17])
class Net(nn.Module):
    pass
"""


async def test_a_lens_above_each_comment(editor: Any) -> None:
    uri = editor.open("model.py", PROBES)
    await editor.until_state("ready")
    await editor.command("fullgraph.server.analyze", uri)
    lenses = await editor.lenses(uri)
    assert [editor.at(uri, lens.range) for lens in lenses] == [
        "Net(f32[4, 16])",
        "Net(f32[4, 16])",
        "Net(f32[4, 17])",
        "Net(f32[4, 17])",
    ]
    # The probe is right below, and the whole of an error is where one looks for it.
    assert await editor.titles(uri) == [
        "1 graph · no breaks",
        "41 guards",
        "failed: RuntimeError: mat1 and mat2 shapes …",
        "41 guards",
    ]
    assert "(4x16 and 8x8), which is a sentence" in lenses[2].command.tooltip
    assert [lens.command.arguments[0]["probe"] for lens in lenses] == [0, 0, 1, 1]
    # The code works with the other probe, so this one is what is wrong.
    (misfit,) = await editor.diagnostics(uri)
    assert editor.at(uri, misfit.range) == "Net(f32[4, 17])"
    assert misfit.code == "probe/invalid"
    assert misfit.message.startswith("These inputs do not fit: RuntimeError: mat1 and mat2 shapes")
    (raised,) = misfit.related_information
    assert (editor.at(uri, raised.location.range), raised.message) == ("Net", "raised here")
    # They stay there while one types.
    editor.edit(uri, "# fullgraph: Net(f32[4, 16])", "\n\n# fullgraph: Net(f32[4, 16])")
    assert [lens.range.start.line for lens in await editor.lenses(uri)] == [2, 2, 3, 3]


async def test_lines_that_no_run_came_to_are_faded_by_a_setting(open_editor: Any) -> None:
    editor = await open_editor(configuration={"untraced": {"faded": True}})
    uri = editor.open("model.py", "class Net(nn.Module):\n    call()\n    rest()  # never\n")
    faded = ("Not traced by any run of `Net`", "rest()  # never")
    await editor.until_seen(uri, faded)
    # By command this target is left as it is, and faded again.
    place = {"uri": uri, "target": "Net"}
    assert await editor.command("fullgraph.server.toggleUntraced", place) is False
    await editor.until_seen(uri)
    assert await editor.command("fullgraph.server.toggleUntraced", place) is True
    await editor.until_seen(uri, faded)


async def test_lenses_can_be_hidden_and_have_icons(open_editor: Any) -> None:
    def icons(capabilities: types.ClientCapabilities) -> None:
        capabilities.experimental = {"icons": True}

    editor = await open_editor(name="vscode", adjust=icons)
    uri = editor.open("model.py", NET)
    await editor.until_state("ready")
    assert (await editor.titles(uri))[0].startswith("$(git-compare) 2 graphs")
    configured = editor.client.get_configuration(section="fullgraph")
    editor.configure(**configured, codeLens={"enabled": False})

    async def none() -> bool:
        return await editor.lenses(uri) == []

    await editor.until(none)


async def test_a_probe_that_was_found_can_be_written_above_its_target(editor: Any) -> None:
    text = "if True:\n    pass\n@final\nclass Net(nn.Module):  # stub: found\n    pass\n"
    uri = editor.open("model.py", text)
    await editor.until_state("ready")
    assert await editor.titles(uri) == [
        "1 graph · no breaks · guessed inputs: f32[4, 16]",
        "41 guards",
    ]
    actions = await editor.actions(uri, "Net")
    (action,) = [one for one in actions if one.title == "Write the probe: f32[4, 16]"]
    assert action.kind == types.CodeActionKind.RefactorRewrite
    (edit,) = editor.edits(uri, action)
    assert edit.new_text == "# fullgraph: f32[4, 16]\n"
    assert edit.range.start == edit.range.end == types.Position(2, 0)
    assert not [one for one in await editor.actions(uri, "pass") if "probe" in one.title]


async def test_a_probe_that_was_found_completes_the_comment_that_only_constructs(
    editor: Any,
) -> None:
    head = "# fullgraph: init(4)\n"
    uri = editor.open("model.py", f"{head}@final\nclass Net(nn.Module):  # stub: found\n    pass\n")
    await editor.until_state("ready")
    actions = await editor.actions(uri, "Net")
    (action,) = [one for one in actions if one.title == "Write the probe: f32[4, 16]"]
    (edit,) = editor.edits(uri, action)
    assert edit.new_text == "f32[4, 16]"
    assert edit.range == types.Range(types.Position(0, 13), types.Position(0, len(head) - 1))


async def test_a_lens_says_when_it_is_of_the_text_before(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_state("ready")
    editor.edit(uri, "call()", "call(")
    await editor.until_rest()
    assert (await editor.titles(uri))[0].endswith(" · before the last edit")


async def test_running_a_lens_traces_its_target_again(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET + "class Other(nn.Module):\n    other()  # break: Another\n")
    await editor.until_seen(uri, BREAK, ("Another", "other()"))
    await editor.until_state("ready")
    argument = {"uri": uri, "target": "Other"}
    answer = await editor.command("fullgraph.server.analyze", argument)
    assert answer["completed"]
    assert [line.split()[2:] for line in counter.lines if "analyze" in line][-1] == ["Other"]
    # The other target has not been traced, and keeps what is known of it.
    assert await editor.seen(uri) == [BREAK, ("Another", "other()")]


def fixes(actions: list[types.CodeAction]) -> list[types.CodeAction]:
    """The fixes of findings: not the actions that ignore a finding or say how the search stands."""
    quick = [action for action in actions if action.kind == types.CodeActionKind.QuickFix]
    others = ("Ignore ", "Looking for fixes", "No fix: ")
    return [one for one in quick if not one.title.startswith(others) and not one.disabled]


async def test_a_fix_is_an_action_on_its_finding(editor: Any) -> None:
    uri = editor.open("model.py", NET + "    # fix: mended()\n    other()  # break: No fix\n")
    await editor.until_seen(uri, BREAK, ("No fix", "other()"))
    (action,) = fixes(await editor.actions(uri, "call()"))
    assert action.title == "Write mended()"
    assert action.kind == types.CodeActionKind.QuickFix and action.is_preferred
    assert [d.code for d in action.diagnostics or ()] == ["graph-break/GB0059"]
    assert action.edit is not None
    if editor.profile == "vscode":
        (change,) = action.edit.document_changes or ()
        assert isinstance(change, types.TextDocumentEdit)
        assert change.text_document.version == 1
        (edit,) = change.edits
    else:
        (edit,) = (action.edit.changes or {})[uri]
    assert isinstance(edit, types.TextEdit)
    assert (editor.at(uri, edit.range), edit.new_text) == ("call()", "mended()")
    assert fixes(await editor.actions(uri, "other()")) == []
    (diagnostic, _) = await editor.diagnostics(uri)
    assert diagnostic.data["fixes"][0]["title"] == "Write mended()"


async def test_a_fix_is_offered_for_a_diagnostic_that_is_sent_along(editor: Any) -> None:
    uri = editor.open("model.py", NET + "    # fix: mended()\n")
    await editor.until_seen(uri, BREAK)
    await editor.until_rest()
    shows = await editor.actions(uri, "class")
    assert fixes(shows) == []
    diagnostics = await editor.diagnostics(uri)
    actions = await editor.actions(uri, "class", diagnostics)
    assert [action.title for action in fixes(actions)] == ["Write mended()"]
    assert [action for action in actions if action.kind.startswith("source")] == shows


async def test_a_fix_moves_with_its_text(editor: Any) -> None:
    uri = editor.open("model.py", NET + "    # fix: mended()\n")
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "class", "def f(\n\nclass")
    (action,) = fixes(await editor.actions(uri, "call()"))
    (diagnostic,) = action.diagnostics or ()
    assert diagnostic.range.start.line == 3


async def test_a_finding_is_ignored_by_a_comment(editor: Any, counter: Any) -> None:
    text = "class Net(nn.Module):\n    call(1)  # break: First\n    other()  # break: Other\n"
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, ("First", "call(1)"), ("Other", "other()"))
    (action,) = [
        action
        for action in await editor.actions(uri, "call(1)")
        if action.title == "Ignore graph-break/GB0059 on this line"
    ]
    (edit,) = editor.edits(uri, action)
    assert edit.range.start == edit.range.end
    assert editor.at(uri, types.Range(types.Position(1, 0), edit.range.start)).endswith("First")
    assert edit.new_text == "  # fullgraph: ignore[graph-break/GB0059]"
    editor.edit(uri, "# break: First", "# break: First" + edit.new_text)
    # Before the text was traced again.
    await editor.until_seen(uri, ("Other", "other()"))
    await editor.until(lambda: counter.analyzed == 2)
    await editor.until_state("ready")
    assert await editor.seen(uri) == [("Other", "other()")]
    # What is ignored was found all the same.
    assert "2 breaks" in (await editor.titles(uri))[0]
    editor.edit(uri, "ignore[graph-break/GB0059]", "ignore[recompile]")
    message = "First  # fullgraph: ignore[recompile]"
    await editor.until_seen(uri, (message, "call(1)"), ("Other", "other()"))


# -- commands ---------------------------------------------------------------------------------


async def test_analyze_by_command_traces_what_is_known_already(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    answer = await editor.command("fullgraph.server.analyze", uri)
    assert answer["completed"] and answer["findings"] == 1 and answer["generation"].startswith("1:")
    assert counter.analyzed == 2


async def test_analyze_needs_an_open_file(editor: Any) -> None:
    with pytest.raises(JsonRpcException, match="must be open") as caught:
        await editor.command("fullgraph.server.analyze", "file:///absent.py")
    assert caught.value.code == -32602


async def test_an_unknown_command_is_an_error(editor: Any) -> None:
    with pytest.raises(JsonRpcException, match="no command") as caught:
        await editor.command("fullgraph.server.dance")
    assert caught.value.code == -32602


async def test_a_cancelled_request_is_answered_once_and_the_server_lives(editor: Any) -> None:
    uri = editor.open("model.py", SLOW)
    await editor.until_seen(uri, BREAK)
    params = types.ExecuteCommandParams("fullgraph.server.analyze", [uri])
    request = editor.client.protocol.send_request(
        types.WORKSPACE_EXECUTE_COMMAND, params, msg_id="wait"
    )
    editor.client.cancel_request(types.CancelParams(id="wait"))
    with pytest.raises(JsonRpcException) as caught:
        await asyncio.wrap_future(request)
    assert caught.value.code == -32800
    assert await editor.titles(uri) == []


async def test_cancelling_the_request_ends_the_run_that_it_asked_for(
    open_editor: Any, counter: Any
) -> None:
    editor = await open_editor(configuration={"traceOn": "manual"})
    uri = editor.open("model.py", SLOW)
    params = types.ExecuteCommandParams("fullgraph.server.analyze", [uri])
    request = editor.client.protocol.send_request(
        types.WORKSPACE_EXECUTE_COMMAND, params, msg_id="wait"
    )
    await editor.until_seen(uri, BREAK)
    editor.client.cancel_request(types.CancelParams(id="wait"))
    with pytest.raises(JsonRpcException):
        await asyncio.wrap_future(request)
    await editor.until(lambda: "cancel" in counter.words)
    await editor.until_state("ready")


async def test_restart_by_command(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    first = counter.engine_pid
    await editor.command("fullgraph.server.restartEngine")
    await editor.until(lambda: counter.analyzed == 2)
    assert counter.words.count("start") == 2
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    assert await editor.seen(uri) == [BREAK]


async def test_debug_information(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    facts = await editor.command("fullgraph.server.debugInformation")
    assert facts["engines"][0]["torch"] == "2.13.0"
    assert facts["files"][0]["uri"] == uri and facts["files"][0]["targets"] == ["Net"]
    assert "torch: 2.13.0" in facts["text"]


# -- progress and cancelling ------------------------------------------------------------------


async def test_a_long_run_shows_progress_and_can_be_ended_there(open_editor: Any) -> None:
    editor = await open_editor(configuration={"traceOn": "manual"})
    uri = editor.open("model.py", SLOW)
    asked = asyncio.create_task(editor.command("fullgraph.server.analyze", uri))
    await editor.until_seen(uri, BREAK)
    reports = editor.client.progress_reports
    (token, values) = await editor.until(
        lambda: next((pair for pair in reports.items() if pair[1]), None)
    )
    assert isinstance(values[0], types.WorkDoneProgressBegin)
    assert "model.py" in values[0].title and values[0].cancellable
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    await editor.until(lambda: isinstance(values[-1], types.WorkDoneProgressEnd))
    assert not (await asked)["completed"]
    assert await editor.seen(uri) == [BREAK]


async def test_a_run_that_nobody_asked_for_has_no_button(editor: Any) -> None:
    """Clients show progress that can be cancelled over the text, beside where one types."""
    uri = editor.open("model.py", SLOW)
    reports = editor.client.progress_reports
    values = await editor.until(lambda: next((each for each in reports.values() if each), None))
    assert "model.py" in values[0].title and not values[0].cancellable
    await editor.command("fullgraph.server.cancel", uri)


async def test_a_run_that_is_asked_for_meanwhile_gets_a_button(editor: Any) -> None:
    uri = editor.open("model.py", SLOW)
    reports = editor.client.progress_reports
    plain = await editor.until(lambda: next((each for each in reports.values() if each), None))
    asked = asyncio.create_task(editor.command("fullgraph.server.analyze", uri))
    await editor.until(lambda: isinstance(plain[-1], types.WorkDoneProgressEnd))
    token, values = await editor.until(
        lambda: (
            next((pair for pair in reports.items() if pair[1] and pair[1][0].cancellable), None)
            if all(pair[1] for pair in reports.items())
            else None
        )
    )
    editor.client.window_work_done_progress_cancel(types.WorkDoneProgressCancelParams(token))
    await editor.until(lambda: isinstance(values[-1], types.WorkDoneProgressEnd))
    assert not (await asked)["completed"]


async def until_import_is_shown(editor: Any) -> None:
    reports = editor.client.progress_reports
    await editor.until(
        lambda: any(
            value.message == "importing big.library"
            for values in reports.values()
            for value in values
        )
    )


async def test_what_is_being_imported_is_shown(editor: Any) -> None:
    uri = editor.open("model.py", "import torch  # imports: big.library\n# slow: 60\n" + NET)
    await until_import_is_shown(editor)
    editor.close(uri)


async def test_of_two_reports_in_quick_succession_the_last_is_shown(editor: Any) -> None:
    lines = ("slow: 1", "imports: small", "imports: big.library", "slow: 60")
    uri = editor.open("model.py", "import torch\n" + "".join(f"# {line}\n" for line in lines) + NET)
    await until_import_is_shown(editor)
    editor.close(uri)


async def test_progress_of_a_slow_step_moves(open_editor: Any, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    editor = await open_editor(engine=f"waits={gate}")
    text = "import torch  # imports: big.library\n# slow: 60\n" + NET
    uri = editor.open("model.py", text)
    reports = editor.client.progress_reports

    def messages() -> list[str]:
        return [one.message or "" for values in reports.values() for one in values]

    await editor.until(lambda: any(re.fullmatch(r"importing torch, \d+ s", m) for m in messages()))
    gate.touch()
    await editor.until(
        lambda: any(re.fullmatch(r"importing big.library, \d+ s", m) for m in messages())
    )
    durations = [int(m.split()[-2]) for m in messages() if m.startswith("importing torch,")]
    assert durations == sorted(durations)
    assert durations[0] >= 1
    editor.close(uri)


async def test_a_short_run_shows_none(editor: Any) -> None:
    uri = editor.open("model.py", "class A: pass\n")
    await editor.until_state("ready")
    # The engine is there by now, so that only the run itself counts.
    await editor.command("fullgraph.server.analyze", uri)
    shown = len(editor.client.progress_reports)
    for _ in range(3):
        await editor.command("fullgraph.server.analyze", uri)
    assert len(editor.client.progress_reports) == shown


async def test_output_of_user_code_goes_to_the_log(editor: Any) -> None:
    uri = editor.open(
        "model.py", "class Net(nn.Module):\n    # print: hello from the model\n" + NET
    )
    await editor.until_seen(uri, BREAK)
    await editor.until(
        lambda: any(m.message == "hello from the model" for m in editor.client.log_messages)
    )


# -- settings ---------------------------------------------------------------------------------


async def test_settings_that_no_result_depends_on_are_changed_without_a_run(
    editor: Any, counter: Any
) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    configured = editor.client.get_configuration(section="fullgraph")
    editor.configure(**configured, severity={"graph-break": "error"}, jobs=1, maxTargets=200)

    async def is_error() -> bool:
        (shown,) = await editor.diagnostics(uri)
        return bool(shown.severity == types.DiagnosticSeverity.Error)

    await editor.until(is_error)
    editor.configure(**configured, severity={"graph-break": "off"})
    await editor.until_seen(uri)
    assert counter.analyzed == 1


async def test_a_setting_that_changes_results_traces_again(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    configured = editor.client.get_configuration(section="fullgraph")
    editor.configure(**configured, mode="real")
    await editor.until(lambda: counter.analyzed == 2)


async def test_settings_of_the_start_and_of_pyproject(open_editor: Any, counter: Any) -> None:
    editor = await open_editor(options={"severity": {"graph-break": "error"}})
    (editor.root / "pyproject.toml").write_text("[tool.fullgraph]\nexclude = ['old/']\n")
    left = editor.open("old/model.py", NET)
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    assert (await editor.diagnostics(uri))[0].severity == types.DiagnosticSeverity.Error
    assert await editor.seen(left) == []
    assert counter.analyzed == 1
    # By command even what is excluded.
    assert (await editor.command("fullgraph.server.analyze", left))["completed"]


async def test_a_client_that_sends_its_settings_and_cannot_be_asked(open_editor: Any) -> None:
    def unable(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.workspace is not None
        capabilities.workspace.configuration = False

    editor = await open_editor(options={"interpreter": sys.executable}, adjust=unable)
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    settings = {"fullgraph": {"severity": {"graph-break": "off"}}}
    editor.client.workspace_did_change_configuration(types.DidChangeConfigurationParams(settings))
    await editor.until_seen(uri)
    # They stay in force when folders change.
    folder = types.WorkspaceFolder((editor.root.parent / "other").as_uri(), "other")
    event = types.WorkspaceFoldersChangeEvent(added=[folder], removed=[])
    editor.client.workspace_did_change_workspace_folders(
        types.DidChangeWorkspaceFoldersParams(event)
    )
    editor.edit(uri, "call()", "call(1)")
    assert (await editor.command("fullgraph.server.analyze", uri))["completed"]
    assert await editor.seen(uri) == []


async def test_a_wrong_setting_is_told_once(open_editor: Any) -> None:
    editor = await open_editor(configuration={"mode": "dreamy", "modus": "x"})
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.open("other.py", NET)
    await editor.until_state("ready")
    told = [message.message for message in editor.client.messages]
    assert len(told) == 2 and "'mode'" in told[0] and "'modus'" in told[1]


@pytest.mark.parametrize("trace_on", ["save", "manual"])
async def test_when_to_trace_is_a_setting(open_editor: Any, counter: Any, trace_on: str) -> None:
    editor = await open_editor(configuration={"traceOn": trace_on})
    uri = editor.open("model.py", NET)
    if trace_on == "save":
        await editor.until_seen(uri, BREAK)
    opened = counter.analyzed
    editor.edit(uri, "call()", "x = call()")
    await editor.until_rest()
    assert counter.analyzed == opened == (1 if trace_on == "save" else 0)
    editor.save(uri)
    if trace_on == "manual":
        answer = await editor.command("fullgraph.server.analyze", uri)
        assert answer["completed"], answer
    await editor.until_seen(uri, ("A break", "x = call()"))


async def test_what_was_left_untraced_is_traced_when_the_setting_allows_it(
    open_editor: Any, counter: Any
) -> None:
    editor = await open_editor(configuration={"traceOn": "manual"})
    uri = editor.open("model.py", NET)
    await editor.until_rest()
    assert counter.analyzed == 0
    interpreter = editor.client.get_configuration(section="fullgraph.interpreter")
    editor.configure(interpreter=interpreter, traceOn="change")
    await editor.until_seen(uri, BREAK)


async def test_another_interpreter_without_a_restart(
    editor: Any, counter: Any, tmp_path: Any
) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    first = counter.engine_pid
    other = tmp_path / "python"
    other.symlink_to(editor.client.get_configuration(section="fullgraph.interpreter"))
    editor.configure(interpreter=str(other))
    await editor.until(lambda: counter.analyzed == 2)
    await editor.until(lambda: editor.statuses[-1]["interpreter"] == str(other))
    await editor.until(lambda: not _alive(first))


async def test_the_active_interpreter_of_the_editor_is_passed_over_without_torch(
    editor: Any, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")]
    subprocess.run(command, check=True, timeout=60)
    bare = tmp_path / "bare" / "bin" / "python"
    editor.configure(interpreter="", activeInterpreter=str(bare), forecast=False)
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    status = await editor.until_state("ready")
    assert status["interpreter"] != str(bare)
    assert (
        f"since {bare} (the environment that is active in the editor) has no torch"
        in (status["why"])
    )
    facts = await editor.command("fullgraph.server.debugInformation")
    assert [engine["why"] for engine in facts["engines"]] == [status["why"]]
    # Once torch is installed there, it is found when the engine is restarted.
    (packages,) = (tmp_path / "bare").glob("lib/python*/site-packages")
    (packages / "torch").mkdir()
    (packages / "torch" / "version.py").write_text("")
    await editor.command("fullgraph.server.restartEngine")
    await editor.until(lambda: editor.statuses[-1]["interpreter"] == str(bare))
    status = await editor.until_state("ready")
    assert status["why"] == "the environment that is active in the editor"
    facts = await editor.command("fullgraph.server.debugInformation")
    assert [engine["interpreter"] for engine in facts["engines"]] == [str(bare)]
    assert not any("No torch" in said.message for said in editor.client.messages)
    assert any(f"Tracing with {bare}: " in said.message for said in editor.client.log_messages)


# -- trust and trouble ------------------------------------------------------------------------


@pytest.mark.parametrize("said", [None, {"trusted": False}, {"trusted": "yes"}, {"trusted": 1}])
async def test_without_trust_nothing_is_executed(open_editor: Any, counter: Any, said: Any) -> None:
    editor = await open_editor(options=said, says_trusted=False)
    uri = editor.open("model.py", NET)
    status = await editor.until_state("untrusted")
    assert "not trusted" in status["message"] and status["nextStep"]
    answer = await editor.command("fullgraph.server.analyze", uri)
    assert not answer["completed"] and "not trusted" in answer["reason"]
    answer = await editor.command("fullgraph.server.measure", uri)
    assert not answer["shown"] and "not trusted" in answer["reason"]
    assert counter.lines == []
    editor.client.protocol.notify("fullgraph/trust", {"trusted": True})
    await editor.until_seen(uri, BREAK)


async def test_states_on_the_way_to_the_first_findings(open_editor: Any, tmp_path: Path) -> None:
    torch = tmp_path / "torch"
    editor = await open_editor(engine=f"waits={torch}")
    editor.open("model.py", SLOW)
    await editor.until(
        lambda: editor.statuses and "Importing torch" in editor.statuses[-1]["message"]
    )
    torch.touch()
    await editor.until_state("tracing")
    states = [status["state"] for status in editor.statuses]
    assert list(dict.fromkeys(states)) == ["starting", "tracing"]
    assert (
        "Importing torch" in [s for s in editor.statuses if s["state"] == "starting"][-1]["message"]
    )
    assert editor.statuses[-1]["torch"] == "2.13.0" and editor.statuses[-1]["busy"]


async def test_no_torch_is_told_once_with_the_way_out(open_editor: Any, counter: Any) -> None:
    editor = await open_editor(engine="unusable")
    uri = editor.open("model.py", NET)
    status = await editor.until_state("unusable")
    assert "no torch" in status["message"] and status["nextStep"] == "Install torch in it."
    editor.edit(uri, "call()", "call(1)")
    answer = await editor.command("fullgraph.server.analyze", uri)
    assert not answer["completed"] and "no torch" in answer["reason"]
    assert answer["reason"].endswith("Install torch in it.")
    assert len(editor.client.messages) == 1
    assert counter.words == ["start"]


async def test_an_interpreter_that_is_not_there(open_editor: Any) -> None:
    editor = await open_editor(configuration={"interpreter": "/nowhere/python"})
    editor.open("model.py", NET)
    status = await editor.until_state("unusable")
    assert "/nowhere/python" in status["message"]
    await editor.until(lambda: bool(editor.client.messages))
    assert len(editor.client.messages) == 1


async def test_a_text_that_an_engine_died_over_is_traced_once_more(
    editor: Any, counter: Any
) -> None:
    uri = editor.open("model.py", NET + "    # die\n")
    await editor.until(lambda: counter.words.count("start") == 3)
    await editor.until_state("ready")
    assert counter.analyzed == 2
    found = await editor.diagnostics(uri)
    assert [item.code for item in found] == ["trace/interrupted", "graph-break/GB0059"]
    assert found[0].message.startswith("This file was not traced: The engine ")
    editor.edit(uri, "    # die\n", "")
    await editor.until_seen(uri, BREAK)
    assert [m.type for m in editor.client.messages] == [types.MessageType.Warning]


async def test_a_server_error_says_no_more_than_that(editor: Any) -> None:
    # No client sends such arguments; whatever happens there, no traceback may reach it.
    with pytest.raises(JsonRpcException) as caught:
        await editor.command("fullgraph.server.analyze", {"uri": {"a": 1}})
    assert "Traceback" not in str(caught.value) and caught.value.data is None


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def test_lenses_are_refreshed_seldom_while_findings_stream() -> None:
    requests: list[str] = []

    def request(method: str, _params: object) -> None:
        requests.append(method)

    client: Any = SimpleNamespace(
        code_lens_refresh=True, pull_diagnostics=True, changed=False, inlay_hint_refresh=False
    )
    session: Any = SimpleNamespace(client=client)
    connection: Any = SimpleNamespace(request_in_background=request)
    unit: Any = SimpleNamespace(document=SimpleNamespace(uri="file:///model.py"))
    publication = Publication(connection, session)

    def refreshes() -> int:
        return requests.count(types.WORKSPACE_CODE_LENS_REFRESH)

    # VS Code pulls no lenses before refreshes pause.
    for _ in range(8):
        publication.publish_changes(unit, final=False)
        await passed(0.3)
    assert refreshes() == 1 and requests.count(types.WORKSPACE_DIAGNOSTIC_REFRESH) == 8
    await passed(1.0)
    assert refreshes() == 2
    publication.publish_changes(unit, final=False)
    publication.publish_changes(unit, final=True)
    assert refreshes() == 3
    await passed(10.0)
    assert refreshes() == 3
