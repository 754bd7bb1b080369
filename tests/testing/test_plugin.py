"""The pytest plugin, in a pytest of its own: what passes, what fails, and what a failure shows."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from projects import NET, ROOT

MODELS = f"from helper import prints\n{NET}"
HELPER = """\
def prints(x):
    print("helper")
    return x + 1
"""
TESTS = """\
def test_passes(fullgraph):
    checked = fullgraph.check(Net(), x)
    assert checked.graphs == 1
    assert checked.value.shape == (2, 4)


def test_passes_with_an_allowed_break(fullgraph):
    checked = fullgraph.check(Net(speaks=True), x, breaks=1)
    assert [place.code.split("/")[0] for place in checked.places] == ["graph-break"]


def test_passes_for_dynamic_sizes(fullgraph):
    fullgraph.check(Net(), shapes=[(3, 4), (7, 4), (9, 4)], dynamic=True, recompiles=0)


def test_fails_for_a_break(fullgraph):
    fullgraph.check(Net(speaks=True), x)


def test_fails_for_a_break_in_a_helper(fullgraph):
    fullgraph.check(lambda x: prints(x) * 2, x)


def test_fails_for_a_recompile(fullgraph):
    fullgraph.check(Counter(), shapes=[(2, 4)] * 3, recompiles=0)


def test_fails_under_fullgraph_true(fullgraph):
    fullgraph.check(torch.compile(Net(speaks=True), backend="eager", fullgraph=True), x)


def test_fails_with_its_own_error(fullgraph):
    fullgraph.check(Net(), torch.randn(2, 17))


@pytest.mark.fullgraph
def test_passes_marked():
    torch.compile(Net(), backend="eager")(x)


@pytest.mark.fullgraph(breaks=1)
async def test_passes_marked_async():
    torch.compile(Net(speaks=True), backend="eager")(x)


@pytest.mark.fullgraph(recompiles=0)
def test_fails_marked():
    step = torch.compile(Counter(), backend="eager")
    for _ in range(3):
        step(x)


@pytest.mark.fullgraph
def test_fails_if_nothing_is_compiled():
    Net()(x)


@pytest.mark.fullgraph(brakes=1)
def test_fails_for_a_wrong_argument():
    pass


def test_passes_unobserved():
    torch.compile(Net(speaks=True), backend="eager")(x)
    assert torch._dynamo.utils.counters["frames"]
"""


def run_pytest(folder: Path, *options: str) -> str:
    """Run pytest with the plugin in a folder; return what it prints."""
    python_path = os.pathsep.join([str(ROOT / "engine"), str(ROOT / "server"), str(folder)])
    # The tests name the plugin themselves, whether it is installed or not.
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:fullgraph"]
    command += options
    done = subprocess.run(
        [*command, "--show-capture=no", "--override-ini=asyncio_mode=auto", "-rA", str(folder)],
        env={**os.environ, "PYTHONPATH": python_path},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=170,
    )
    return done.stdout


def section(output: str, test: str) -> str:
    """Return what pytest prints about one failed test."""
    found = re.search(rf"^_+ {test} _+$\n(.*?)(?=^[_=]{{3,}})", output, re.MULTILINE | re.DOTALL)
    assert found is not None, output
    return found[1]


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text('pytest_plugins = ["fullgraph.testing.plugin"]\n')
    (folder / "helper.py").write_text(HELPER)
    (folder / "test_models.py").write_text(f"{MODELS}\n\n{TESTS}")
    return run_pytest(folder)


@pytest.mark.real_engine
def test_outcomes_are_as_their_names_say(output: str) -> None:
    found = re.findall(r"^(PASSED|FAILED) \S+::(\w+)", output, re.MULTILINE)
    outcomes = {name: outcome for outcome, name in found}
    names = re.findall(r"def (test_\w+)", TESTS)
    expected = {name: "PASSED" if "_passes" in name else "FAILED" for name in names}
    assert outcomes == expected, output


@pytest.mark.real_engine
def test_a_failure_shows_the_line_the_reason_and_the_hint(output: str) -> None:
    shown = section(output, "test_fails_for_a_break")
    line = MODELS[: MODELS.index('print("forward")')].count("\n") + 1
    assert shown.startswith("Expected no graph breaks, found 1:\n")
    assert f"--> test_models.py:{line}:13" in shown
    assert 'print("forward")' in shown and "= hint: " in shown
    assert "checks.py" not in shown and "observation.py" not in shown


@pytest.mark.real_engine
def test_a_break_is_shown_once_at_the_innermost_file(output: str) -> None:
    shown = section(output, "test_fails_for_a_break_in_a_helper")
    assert shown.count(" --> ") == 1
    assert "--> helper.py:2:5" in shown


@pytest.mark.real_engine
@pytest.mark.parametrize("test", ["test_fails_for_a_recompile", "test_fails_marked"])
def test_a_recompile_names_the_value(output: str, test: str) -> None:
    shown = section(output, test)
    assert shown.startswith("Expected no recompiles, found 1:\n")
    assert "recompile/" in shown and "self.calls" in shown


@pytest.mark.real_engine
def test_other_failures_say_their_cause(output: str) -> None:
    assert "Nothing was compiled." in section(output, "test_fails_if_nothing_is_compiled")
    wrong = section(output, "test_fails_for_a_wrong_argument")
    usage = "The arguments of the fullgraph marker are wrong. Usage: fullgraph(breaks=0"
    assert wrong.startswith(usage)
    assert "TorchRuntimeError" in section(output, "test_fails_with_its_own_error")
    assert "found 1:" in section(output, "test_fails_under_fullgraph_true")


def test_an_unused_plugin_imports_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_small.py").write_text(
        "import sys\n\n\ndef test_nothing_is_imported():\n"
        "    assert not {'torch', 'fullgraph_engine', 'fullgraph.session'} & set(sys.modules)\n"
    )
    assert "1 passed" in run_pytest(tmp_path, "-p", "fullgraph.testing.plugin")


@pytest.mark.real_engine
def test_the_examples_of_the_documentation_pass(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "pytest.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "test_examples.py").write_text("\n\n".join(examples))
    options = ("-p", "fullgraph.testing.plugin")
    run_pytest(tmp_path, "--fullgraph-update", *options)
    (shown,) = re.findall(r"```json\n(.*?)```", text, re.DOTALL)
    assert (tmp_path / "generate.json").read_text() == shown
    assert "5 passed" in run_pytest(tmp_path, *options)
