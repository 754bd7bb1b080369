"""Tests with the plugin together with other tests, other plugins, processes and fixtures."""

from __future__ import annotations

import json

import pytest
from projects import FORKS, Project

pytestmark = pytest.mark.real_engine

TESTS = """
import asyncio
import unittest

import torch._dynamo.config as config


@pytest.fixture(scope="session")
def compiled():
    return torch.compile(Net(speaks=True), backend="eager")


@pytest.fixture(scope="module")
def used(compiled):
    compiled(x)
    return compiled


@pytest.fixture
def strict():
    torch.compile(Net(speaks=True), backend="eager", fullgraph=True)(x)


@pytest.fixture
def checks_itself(fullgraph):
    fullgraph.check(Net(speaks=True), x)


@pytest.mark.fullgraph(breaks=1)
def test_passes_with_a_fixture_of_the_session(compiled):
    compiled(x)


@pytest.mark.fullgraph
def test_fails_with_a_fixture_of_the_session(compiled):
    compiled(x)


@pytest.mark.fullgraph
def test_fails_with_a_module_that_was_called_before(used):
    used(x)


def test_passes_checked_after_it_was_called(used, fullgraph):
    fullgraph.check(used, x, breaks=1)


@pytest.mark.fullgraph
def test_errors_in_a_fixture(strict):
    pass


def test_errors_in_a_fixture_that_checks(checks_itself):
    pass


@pytest.mark.fullgraph(breaks=1)
class TestClass:
    def test_passes_in_a_class(self):
        torch.compile(Net(speaks=True), backend="eager")(x)

    async def test_passes_async(self):
        await asyncio.sleep(0)
        torch.compile(Net(speaks=True), backend="eager")(x)


@pytest.mark.fullgraph
async def test_fails_async():
    await asyncio.sleep(0)
    torch.compile(Net(speaks=True), backend="eager")(x)


class TestUnit(unittest.TestCase):
    @pytest.mark.fullgraph
    def test_fails_in_unittest(self):
        torch.compile(Net(speaks=True), backend="eager")(x)

    @pytest.mark.fullgraph
    def test_passes_in_unittest(self):
        torch.compile(Net(), backend="eager")(x)


@pytest.mark.fullgraph
def test_fails_with_its_own_error():
    torch.compile(Net(speaks=True), backend="eager")(x)
    raise ValueError("mine")


@pytest.mark.fullgraph
def test_skips():
    torch.compile(Net(speaks=True), backend="eager")(x)
    pytest.skip("not here")


@pytest.mark.fullgraph
@pytest.mark.xfail(strict=True)
def test_xfails():
    torch.compile(Net(speaks=True), backend="eager")(x)


@pytest.mark.fullgraph
@pytest.mark.parametrize("speaks", [pytest.param(False, id="passes"), pytest.param(True, id="x")])
def test_parameters(speaks):
    torch.compile(Net(speaks), backend="eager")(x)


@pytest.mark.fullgraph
def test_passes_with_a_check_inside(fullgraph):
    fullgraph.check(Net(speaks=True), x, breaks=1)
    torch.compile(Net(), backend="eager")(x)


@pytest.mark.fullgraph
def test_passes_and_changes_settings():
    config.recompile_limit = 1
    config.skip_nnmodule_hook_guards = not config.skip_nnmodule_hook_guards
    torch.compile(Net(), backend="eager")(x)


def test_passes_because_settings_are_as_before():
    assert config.recompile_limit == 8


def test_passes_unobserved():
    function = torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)
    function(x)
    with config.patch(error_on_recompile=True):
        function(x)
"""


def expected_outcome(name: str) -> str:
    words = {
        "passes": "PASSED",
        "fails": "FAILED",
        "errors": "ERROR",
        "skips": "SKIPPED",
        "xfails": "XFAIL",
        "parameters[passes]": "PASSED",
        "parameters[x]": "FAILED",
    }
    return next(outcome for word, outcome in words.items() if name.startswith(f"test_{word}"))


def assert_as_named(outcomes: dict[str, str], output: str) -> None:
    plain = {name.rpartition("::")[2]: outcome for name, outcome in outcomes.items()}
    wrong = {name: outcome for name, outcome in plain.items() if outcome != expected_outcome(name)}
    assert not wrong and len(plain) == 19, output


def test_outcomes_in_one_process(project: Project) -> None:
    project.write_tests(TESTS)
    session = project.run()
    assert_as_named(session.outcomes, session.output)
    called = session.section("test_fails_with_a_module_that_was_called_before")
    assert called.startswith("Expected no graph breaks, found 1:") and 'print("forward")' in called
    strict = session.section("test_errors_in_a_fixture")
    assert 'print("forward")' in strict and "fullgraph=True" in strict and "Expected" not in strict
    checks = session.section("test_errors_in_a_fixture_that_checks")
    assert checks.startswith("Expected no graph breaks, found 1:")
    assert "ValueError: mine" in session.section("test_fails_with_its_own_error")
    assert "observation.py" not in session.output and "checks.py" not in session.output


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_outcomes_in_another_order(project: Project, seed: int) -> None:
    project.write_tests(TESTS)
    project.write(
        "conftest.py",
        f"""
        import random


        def pytest_collection_modifyitems(items):
            random.Random({seed}).shuffle(items)
        """,
    )
    session = project.run()
    assert_as_named(session.outcomes, session.output)


EXPECTING = """
@pytest.mark.parametrize("number", [0, 1])
def test_net(fullgraph, number):
    fullgraph.check(Net(speaks=number % 2 == 0), x, expected="net.json")
"""


@pytest.mark.parametrize("processes", ["forks", "workers"])
def test_processes_update_one_file_and_one_report(project: Project, processes: str) -> None:
    project.write_tests(EXPECTING)
    options = ["--fullgraph-report", "out.json"]
    if processes == "forks":
        project.write("conftest.py", FORKS)
        session = project.run("--fullgraph-update", *options)
    else:
        session = project.run_process("--fullgraph-update", "-n", "2", *options)
    assert "Wrote the findings of 2 checks" in session.output, session.output
    tests = json.loads((project.folder / "net.json").read_text())["tests"]
    assert list(tests) == ["test_it.py::test_net[0]"]
    assert len(json.loads((project.folder / "out.json").read_text())["tests"]) == 2
    assert set(project.run().outcomes.values()) == {"PASSED"}


def test_options_do_not_import_torch_for_other_tests(project: Project) -> None:
    project.write(
        "test_it.py",
        """
        import sys


        def test_nothing_is_imported():
            assert "torch" not in sys.modules
        """,
    )
    options = ["--fullgraph-update", "--fullgraph-report", "out.json"]
    session = project.run_process(*options)
    assert session.outcomes == {"test_nothing_is_imported": "PASSED"}
