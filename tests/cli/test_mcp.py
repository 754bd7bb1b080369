"""The tools for coding agents, called by the client of the MCP SDK in this process."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from agents import (  # noqa: E402
    ROOT,
    Agent,
    Project,
    ToolFailed,
    agent_in_process,
    make_notebook,
    make_project,
)

from fullgraph.cli.kept_engines import kept_engines  # noqa: E402
from fullgraph.domain.positions import text_hash  # noqa: E402
from fullgraph.mcp.engines import RETRACED  # noqa: E402
from fullgraph.mcp.instructions import INSTRUCTIONS  # noqa: E402

NET = """\
class Net(nn.Module):
    print(1)  # break: `print` runs in Python
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    made = make_project(tmp_path)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(made.folder)
    return made


async def wait_until(condition: Callable[[], Any]) -> Any:
    with anyio.fail_after(30):
        while not (value := condition()):
            await anyio.sleep(0.01)
    return value


def engines() -> list[psutil.Process]:
    children = psutil.Process().children(recursive=True)
    return [one for one in children if "stub_engine.py" in " ".join(one.cmdline())]


async def test_finding_has_its_place_line_and_the_hash_of_the_text(project: Project) -> None:
    file = project.write("net.py", NET)
    async with agent_in_process(project) as agent:
        answer = await agent.call("check", file="net.py")
    assert answer["hash"] == text_hash(Path(file).read_text())
    (finding,) = answer["findings"]
    assert finding["at"] == "net.py:2:5"
    assert finding["source"] == "print(1)  # break: `print` runs in Python"
    assert finding["message"] == "`print` runs in Python"
    assert finding["targets"] == ["Net"]
    (target,) = answer["targets"]
    assert target["at"] == "net.py:1:7"
    assert "1 break" in target["result"]
    assert "Tracing Net" in agent.progress


async def test_unsaved_text_is_analyzed_instead_of_the_file(project: Project) -> None:
    project.write("net.py", NET)
    text = NET.replace("`print` runs", "`input` runs")
    async with agent_in_process(project) as agent:
        answer = await agent.call("check", file="net.py", text=text)
    assert answer["hash"] == text_hash(text)
    assert [one["message"] for one in answer["findings"]] == ["`input` runs in Python"]


async def test_call_with_another_hash_is_refused(project: Project) -> None:
    project.write("net.py", NET)
    async with agent_in_process(project) as agent:
        known = (await agent.call("check", file="net.py"))["hash"]
        project.write("net.py", "\n" + NET)
        with pytest.raises(ToolFailed, match=f"has changed: .* not {known}; call `check` again"):
            await agent.call("explain", file="net.py", finding="GB0059", hash=known)


async def test_nothing_is_executed_in_a_folder_that_the_user_does_not_trust(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = make_project(tmp_path / "other", trusted=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", project.environment["XDG_CONFIG_HOME"])
    monkeypatch.chdir(project.folder)
    project.write("net.py", NET)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("check", {"file": "net.py"}),
        ("check", {"file": "net.py", "text": NET}),
        ("explain", {"file": "net.py", "finding": "GB0059"}),
        ("graph", {"file": "net.py"}),
        ("fix", {"file": "net.py"}),
        ("verify", {"file": "net.py", "changed": ""}),
        ("repro", {"file": "net.py", "finding": "GB0059"}),
        ("compare", {"file": "net.py"}),
        ("operator", {"name": "torch.max"}),
    ]
    async with agent_in_process(project) as agent:
        for tool, arguments in calls:
            with pytest.raises(ToolFailed, match="not trusted, so none of its code is executed"):
                await agent.call(tool, **arguments)
    assert project.counted == []


async def test_findings_with_one_cause_are_one_item(project: Project) -> None:
    lines = [f"    print({n})  # break: `print` runs\n    # cause: print\n" for n in range(3)]
    project.write("net.py", "class Net(nn.Module):\n" + "".join(lines))
    async with agent_in_process(project) as agent:
        answer = await agent.call("check", file="net.py")
    (finding,) = answer["findings"]
    assert finding["also"] == ["net.py:4:5", "net.py:6:5"]


async def test_costliest_graph_break_comes_first(project: Project) -> None:
    project.write(
        "net.py",
        "class Net(nn.Module):\n"
        "    one()  # break: The first\n    # cost: 1 1\n"
        "    two()  # break: The second\n    # cost: 30 40\n",
    )
    async with agent_in_process(project) as agent:
        answer = await agent.call("check", file="net.py")
    assert [one["message"] for one in answer["findings"]] == ["The second", "The first"]
    assert (
        answer["change_first"] == "Change net.py:4:5 first: it is the most expensive graph break."
    )
    assert answer["findings"][0]["cost"].startswith("cuts 70 ops")


async def test_line_and_target_restrict_the_findings(project: Project) -> None:
    project.write("net.py", NET + NET.replace("Net", "Other"))
    async with agent_in_process(project) as agent:
        of_line = await agent.call("check", file="net.py", line=4)
        of_target = await agent.call("check", file="net.py", target="Net")
        with pytest.raises(ToolFailed, match="has no target `Absent`"):
            await agent.call("check", file="net.py", target="Absent")
    assert [one["at"] for one in of_line["findings"]] == ["net.py:4:5"]
    assert [one["at"] for one in of_target["findings"]] == ["net.py:2:5"]
    assert [one["name"] for one in of_target["targets"]] == ["Net"]


async def test_cursors_lead_through_all_findings_once(project: Project) -> None:
    rows = [f"    call_{n}()  # break: Number {n}" for n in range(30)]
    project.write("net.py", "class Net(nn.Module):\n" + "\n".join(rows) + "\n")
    found: list[str] = []
    calls, cursor, early = 0, "", ""
    async with agent_in_process(project) as agent:
        while calls == 0 or cursor:
            answer = await agent.call("check", file="net.py", budget=400, cursor=cursor)
            found += [one["message"] for one in answer.get("findings", ())]
            calls, cursor = calls + 1, answer.get("cursor", "")
            early = cursor or early
        assert found == [f"Number {n}" for n in range(30)]
        assert calls > 3
        project.write("net.py", NET)
        with pytest.raises(ToolFailed, match="The text has changed since the previous answer"):
            await agent.call("check", file="net.py", cursor=early)
        with pytest.raises(ToolFailed, match="`nonsense` is not a cursor"):
            await agent.call("check", file="net.py", cursor="nonsense")


async def test_each_of_fifty_calls_gets_the_answer_about_its_own_text(project: Project) -> None:
    project.write("net.py", NET)

    async def check(agent: Agent, number: int) -> dict[str, Any]:
        text = NET.replace("`print`", f"`call_{number}`")
        answer = await agent.call("check", file="net.py", text=text)
        assert answer["hash"] == text_hash(text)
        return answer

    async with agent_in_process(project) as agent:
        answers = await asyncio.gather(*(check(agent, number) for number in range(50)))
    messages = [answer["findings"][0]["message"] for answer in answers]
    assert messages == [f"`call_{number}` runs in Python" for number in range(50)]
    assert sum(line.startswith("start") for line in project.counted) == 1


async def test_cancelled_call_ends_its_trace_and_the_next_call_works(project: Project) -> None:
    project.write("net.py", NET)
    waiting = f"class Net(nn.Module):\n    pass  # until: {project.folder / 'never'}\n"
    async with agent_in_process(project) as agent:
        with anyio.CancelScope() as scope:
            async with anyio.create_task_group() as tasks:

                async def cancel_when_traced() -> None:
                    await wait_until(lambda: "Tracing Net" in agent.progress)
                    scope.cancel()

                tasks.start_soon(cancel_when_traced)
                await agent.call("check", file="net.py", text=waiting)
        await wait_until(lambda: "cancel" in project.counted)
        assert (await agent.call("check", file="net.py"))["findings"]
    assert sum(line.startswith("start") for line in project.counted) == 1


@pytest.mark.parametrize("keep", ["0", "1"], ids=["own-engine", "shared-engine"])
async def test_killed_engine_is_mentioned_and_the_call_is_answered(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, keep: str
) -> None:
    monkeypatch.setenv("FULLGRAPH_ENGINE_KEEP", keep)
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(runtime))
    until = project.folder / "until"
    text = f"class Net(nn.Module):\n    pass  # until: {until}\n    print(1)  # break: A break\n"
    project.write("net.py", text)
    async with agent_in_process(project) as agent:

        async def kill_when_traced() -> None:
            await wait_until(lambda: "Tracing Net" in agent.progress)
            (started,) = [line for line in project.counted if line.startswith("start")]
            psutil.Process(int(started.split()[1])).kill()
            until.touch()

        answer, _ = await asyncio.gather(agent.call("check", file="net.py"), kill_when_traced())
        assert RETRACED in answer["notes"]
        assert [one["message"] for one in answer["findings"]] == ["A break"]
        again = await agent.call("check", file="net.py", text=NET)
    assert RETRACED not in again.get("notes", ())
    await kept_engines(os.environ, stop=True)


async def test_search_continues_after_the_call_and_is_answered_later(project: Project) -> None:
    until = project.folder / "until"
    text = f"class Net(nn.Module):\n    pass  # until: {until}\n    print(1)  # break: A break\n"
    project.write("net.py", text)
    async with agent_in_process(project) as agent:
        with pytest.raises(ToolFailed, match=r"continues .*; call the tool again with the same"):
            await agent.call("check", file="net.py", wait=0.1)
        until.touch()
        answer = await agent.call("check", file="net.py")
    assert [one["message"] for one in answer["findings"]] == ["A break"]
    assert sum(line.startswith("analyze") for line in project.counted) == 1


async def test_equal_calls_share_one_search(project: Project) -> None:
    project.write("net.py", NET)
    async with agent_in_process(project) as agent:
        calls = (agent.call("check", file="net.py") for _ in range(10))
        answers = await asyncio.gather(*calls)
    assert all(answer == answers[0] for answer in answers)
    assert sum(line.startswith("analyze") for line in project.counted) == 1


async def test_search_that_a_call_left_ends_with_the_session(project: Project) -> None:
    text = f"class Net(nn.Module):\n    pass  # until: {project.folder / 'never'}\n"
    project.write("net.py", text)
    async with agent_in_process(project) as agent:
        with pytest.raises(ToolFailed, match="continues"):
            await agent.call("check", file="net.py", wait=0.1)
        started = engines()
    psutil.wait_procs(started, timeout=30)
    assert not engines()


async def test_places_of_a_file_are_short(project: Project, tmp_path: Path) -> None:
    file = project.write("net.py", NET)
    async with agent_in_process(project) as agent:
        answer = await agent.call("check", file=file)
    assert answer["path"] == file
    assert [one["at"] for one in answer["findings"]] == ["net.py:2:5"]


async def test_code_that_ends_every_engine_is_an_error_of_this_call_only(project: Project) -> None:
    project.write("net.py", "class Net(nn.Module):\n    pass  # die\n")
    async with agent_in_process(project) as agent:
        with pytest.raises(ToolFailed, match=r"could not be traced. The engine was killed"):
            await agent.call("check", file="net.py")
        assert (await agent.call("check", file="net.py", text=NET))["findings"]


async def test_engines_end_with_the_session(project: Project) -> None:
    project.write("net.py", NET)
    async with agent_in_process(project) as agent:
        await agent.call("check", file="net.py")
        started = engines()
        assert len(started) == 1
    psutil.wait_procs(started, timeout=30)
    assert not engines()


async def test_explanation_of_a_finding_and_of_a_code(project: Project) -> None:
    text = (
        "class Net(nn.Module):\n"
        "    y = f(x)  # break: A break # seen: assigned y: f32[4] | f32[8]\n"
    )
    project.write("net.py", text)
    async with agent_in_process(project) as agent:
        (finding,) = (await agent.call("check", file="net.py"))["findings"]
        answer = await agent.call("explain", file="net.py", finding=finding["id"])
        code = await agent.call("explain", finding="GB0170")
        with pytest.raises(ToolFailed, match="has no finding `absent`"):
            await agent.call("explain", file="net.py", finding="absent")
        with pytest.raises(ToolFailed, match="no finding code `graph-brake`"):
            await agent.call("explain", finding="graph-brake")
    assert answer["finding"] == finding
    assert "gb0170" in code["reason"]


async def test_a_finding_is_missing_because_a_trace_ended_early(project: Project) -> None:
    project.write("net.py", "class Net(nn.Module):  # stub: timeout\n    pass\n")
    async with agent_in_process(project) as agent:
        with pytest.raises(ToolFailed, match="This trace of Net ended early: timeout"):
            await agent.call("explain", file="net.py", finding="absent")


async def test_graph_of_a_target(project: Project) -> None:
    project.write("net.py", NET + NET.replace("Net", "Other"))
    async with agent_in_process(project) as agent:
        answer = await agent.call("graph", file="net.py", target="Other")
        with pytest.raises(ToolFailed, match="no target `Absent`"):
            await agent.call("graph", file="net.py", target="Absent")
    assert "class Other(nn.Module):" in answer["text"]
    assert "class Net(nn.Module):" not in answer["text"]


async def test_verify_says_what_an_edit_removes_leaves_and_adds(project: Project) -> None:
    text = (
        "class Net(nn.Module):\n"
        "    one()  # break: The first\n"
        "    two()  # break: The second\n"
        "    x = 1\n"
    )
    project.write("net.py", text)
    diff = (
        "--- a/net.py\n+++ b/net.py\n@@ -1,4 +1,4 @@\n class Net(nn.Module):\n"
        "-    one()  # break: The first\n"
        "     two()  # break: The second\n     x = 1\n+    three()  # break: The third\n"
    )
    async with agent_in_process(project) as agent:
        by_diff = await agent.call("verify", file="net.py", diff=diff)
        changed = text.replace("    one()  # break: The first\n", "")
        changed += "    three()  # break: The third\n"
        by_text = await agent.call("verify", file="net.py", changed=changed)
        with pytest.raises(ToolFailed, match="nothing to verify"):
            await agent.call("verify", file="net.py", changed=text)
        with pytest.raises(ToolFailed, match="Pass either `changed`"):
            await agent.call("verify", file="net.py")
    assert by_diff == by_text
    assert by_diff["changed_hash"] == text_hash(changed)
    assert [(one["change"], one["message"]) for one in by_diff["findings"]] == [
        ("new", "The third"),
        ("gone", "The first"),
        ("remains", "The second"),
    ]
    (behavior,) = by_diff["behavior"]
    assert (behavior["target"], behavior["outcome"]) == ("Net", "same")
    assert by_diff["verdict"] == (
        "1 finding gone, 1 remain, 1 new. Results and gradients are the same in 1 test."
    )
    assert Path("net.py").read_text() == text, "no tool writes files"


async def test_verify_reports_other_results(project: Project) -> None:
    project.write("net.py", NET)
    changed = NET + "    # behavior: differs: The result is 2 instead of 1.\n"
    async with agent_in_process(project) as agent:
        answer = await agent.call("verify", file="net.py", changed=changed)
    (behavior,) = answer["behavior"]
    assert behavior["outcome"] == "differs"
    assert behavior["reason"] == "The result is 2 instead of 1."
    assert answer["verdict"].endswith("Results or gradients differ in Net.")


async def test_verify_reports_failing_compiled_code(project: Project) -> None:
    project.write("net.py", NET)
    changed = NET + "    # behavior: compiled: The compiled code raises an error.\n"
    async with agent_in_process(project) as agent:
        answer = await agent.call("verify", file="net.py", changed=changed)
    (behavior,) = answer["behavior"]
    assert (behavior["outcome"], behavior["compiled"]) == ("same", "differs")
    assert answer["verdict"].endswith("The compiled code fails or gives other results in Net.")


async def test_comparison_with_a_revision(project: Project) -> None:
    (project.folder / ".git").rmdir()
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    project.write("net.py", NET)
    for words in (["init", "--quiet"], ["add", "net.py"], ["commit", "--quiet", "-m", "first"]):
        subprocess.run(["git", *identity, *words], cwd=project.folder, check=True)
    project.write("net.py", NET.replace("`print` runs", "`input` runs"))
    async with agent_in_process(project) as agent:
        answer = await agent.call("compare", file="net.py")
        with pytest.raises(ToolFailed, match="absent"):
            await agent.call("compare", file="net.py", revision="absent")
    changes = {one["change"]: one["message"] for one in answer["findings"]}
    assert changes == {"changed": "`input` runs in Python"}
    assert "(from HEAD (" in answer["summary"]


async def test_comparison_of_two_pythons_traces_each_side_with_its_own(project: Project) -> None:
    project.write("net.py", NET)
    count = project.folder.parent / "count-of-other"
    other = project.folder / "other-python"
    script = project.interpreter.read_text()
    other.write_text(script.replace(str(project.folder.parent / "count"), str(count)))
    other.chmod(0o755)
    outside = project.folder.parent / "python-outside"
    outside.write_text(script)
    outside.chmod(0o755)
    async with agent_in_process(project) as agent:
        answer = await agent.call("compare", file="net.py", old_python=str(other))
        await agent.call("compare", file="net.py", new_python=str(other))
        with pytest.raises(ToolFailed, match="absent"):
            await agent.call("compare", file="net.py", old_python="./absent")
        with pytest.raises(ToolFailed, match="not trusted"):
            await agent.call("compare", file="net.py", old_python=str(outside))
    assert f"from {other} to now" in answer["summary"]
    assert "findings" not in answer
    for counted in (project.counted, count.read_text().splitlines()):
        assert sum(line.startswith("analyze") for line in counted) == 2


async def test_repro_is_a_script(project: Project) -> None:
    project.write("net.py", NET + "# repro: 143 12 verified\n")
    async with agent_in_process(project) as agent:
        (finding,) = (await agent.call("check", file="net.py"))["findings"]
        answer = await agent.call("repro", file="net.py", finding=finding["id"])
        project.write("net.py", NET + "# repro: none: It takes too long.\n")
        without = await agent.call("repro", file="net.py", finding="GB0059")
    assert answer["script"] == "import torch\n" * 12
    assert answer["verified"]
    assert "script" not in without and without["notes"] == ["It takes too long."]
    assert any(line.startswith("reproduce graph-break") for line in project.counted)


async def test_text_of_ten_megabytes_is_refused_and_the_server_lives(project: Project) -> None:
    project.write("net.py", NET)
    async with agent_in_process(project) as agent:
        with pytest.raises(ToolFailed, match="10,000,000 characters, more than 2,000,000"):
            await agent.call("check", file="net.py", text="#" * 10_000_000)
        assert (await agent.call("check", file="net.py"))["findings"]


async def test_places_in_a_notebook_are_cells(project: Project) -> None:
    project.write("net.ipynb", make_notebook("x = 1\n", NET))
    async with agent_in_process(project) as agent:
        answer = await agent.call("check", file="net.ipynb")
    assert [one["at"] for one in answer["findings"]] == ["net.ipynb:cell 2:2:5"]


async def test_edits_of_a_notebook_are_verified_by_cell(project: Project) -> None:
    project.write("net.ipynb", make_notebook("%time\nx = 1", NET))
    diff = (
        "--- a/net.ipynb:cell 2\n+++ b/net.ipynb:cell 2\n@@ -1,2 +1,2 @@\n"
        " class Net(nn.Module):\n-    print(1)  # break: `print` runs in Python\n+    pass\n"
    )
    changed = make_notebook("%time\nx = 1", "class Net(nn.Module):\n    pass\n")
    async with agent_in_process(project) as agent:
        by_diff = await agent.call("verify", file="net.ipynb", diff=diff)
        by_text = await agent.call("verify", file="net.ipynb", changed=changed)
        unsaved = await agent.call("check", file="net.ipynb", text=changed)
        with pytest.raises(ToolFailed, match="not a notebook"):
            await agent.call("check", file="net.ipynb", text=NET)
    assert by_diff == by_text
    assert [one["change"] for one in by_diff["findings"]] == ["gone"]
    assert unsaved["hash"] == by_diff["changed_hash"]
    assert "findings" not in unsaved


async def test_invalid_setting_is_mentioned(project: Project) -> None:
    project.write("pyproject.toml", "[tool.fullgraph]\nmode = 'wrong'\n")
    project.write("net.py", NET)
    async with agent_in_process(project) as agent:
        answer = await agent.call("check", file="net.py")
    assert any("mode" in note for note in answer["notes"])


async def test_wrong_arguments_are_named(project: Project) -> None:
    async with agent_in_process(project) as agent:
        with pytest.raises(ToolFailed, match=r"absent\.py.*No such file"):
            await agent.call("check", file="absent.py")
        with pytest.raises(ToolFailed, match="budget"):
            await agent.call("check", file="absent.py", budget=1)


async def test_all_tools_have_descriptions_and_output_schemas(project: Project) -> None:
    async with agent_in_process(project) as agent:
        tools = (await agent.client.list_tools()).tools
        assert agent.client.instructions == INSTRUCTIONS
    assert [tool.name for tool in tools] == [
        *("check", "explain", "graph", "fix", "verify", "repro", "compare", "operator")
    ]
    for tool in tools:
        assert tool.description
        assert tool.output_schema is not None
        assert tool.annotations is not None and tool.annotations.read_only_hint
        assert f"`{tool.name}`" in INSTRUCTIONS


def run_command(*arguments: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """Run ``fullgraph mcp`` after a line of Python code."""
    words = ["mcp", *arguments]
    script = f"import sys\n{code}\nfrom fullgraph.cli import main\nsys.exit(main({words!r}))"
    python_path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server")])
    return subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": python_path},
    )


def test_command_prints_the_instructions() -> None:
    ran = run_command("--instructions")
    assert (ran.returncode, ran.stdout) == (0, INSTRUCTIONS)


def test_missing_sdk_is_one_sentence_with_the_command_to_install_it() -> None:
    ran = run_command(code="sys.modules['mcp'] = None")
    assert ran.returncode == 2
    assert ran.stderr == (
        "error: `fullgraph mcp` needs the MCP SDK, which is not installed; run "
        '`pip install "fullgraph[mcp]"`.\n'
    )
