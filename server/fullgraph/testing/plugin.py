"""The entry points of the pytest plugin: its fixture, its marker, and its options.

torch and fullgraph are imported when a test or an option uses them, so that other tests start as
fast as without the plugin.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from fullgraph.testing.checks import Checker, TestRun
    from fullgraph.testing.recording import InputRecording

_MARKER = (
    "fullgraph(breaks=0, recompiles=None, library_breaks=None, expected='', warmup=0): fail the "
    "test if its compiled code has more graph breaks or recompiles than these limits, or findings "
    "that the file `expected` does not list"
)
_UPDATE, _REPORT, _RECORD = "--fullgraph-update", "--fullgraph-report", "--fullgraph-record"
_OUTCOMES = "fullgraph_outcomes"
"""Attribute of test reports with the outcomes of the test's checks as plain data. pytest-xdist and
pytest-forked send it to the main process.
"""
_found: pytest.StashKey[list[Any]] = pytest.StashKey()
_recording: pytest.StashKey[InputRecording] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of the plugin."""
    group = parser.getgroup("fullgraph", "torch.compile (fullgraph)")
    group.addoption(
        _UPDATE,
        action="store_true",
        help="Write the findings of each test that runs into its file of expectations.",
    )
    group.addoption(
        _REPORT,
        metavar="FILE",
        default="",
        help="Write all findings to FILE, as .json, .sarif or .xml (JUnit).",
    )
    group.addoption(
        _RECORD,
        action="store_true",
        help="Record the inputs of the project's modules for editors, as `fullgraph record` does.",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Begin to record inputs before a conftest.py defines modules."""
    if getattr(early_config.known_args_namespace, "fullgraph_record", False):
        _begin_recording(early_config)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that ``--strict-markers`` accepts it, and check the options."""
    config.addinivalue_line("markers", _MARKER)
    report = config.getoption(_REPORT)
    if not (report or config.getoption(_UPDATE) or config.getoption(_RECORD)):
        return
    from fullgraph.testing.session import REPORT_ENDINGS, CheckedSession

    if report and not report.endswith(REPORT_ENDINGS):
        endings = ", ".join(REPORT_ENDINGS)
        raise pytest.UsageError(f"{_REPORT} {report}: the name of the file must end in {endings}.")
    if config.getoption(_RECORD):
        _begin_recording(config)
    if not hasattr(config, "workerinput"):
        session = CheckedSession(_OUTCOMES, report, config)
        config.pluginmanager.register(session, "fullgraph-session")


def _begin_recording(config: pytest.Config) -> None:
    if _recording not in config.stash:
        from fullgraph.testing.recording import InputRecording

        config.stash[_recording] = InputRecording(config.rootpath)


@pytest.fixture
def fullgraph(request: pytest.FixtureRequest) -> Checker:
    """Check what ``torch.compile`` does: ``fullgraph.check(model, x, breaks=0)``."""
    from fullgraph.testing.checks import Checker

    return Checker(_test_run(request.node))


def _test_run(item: pytest.Item) -> TestRun:
    """Return the run of a test, whose outcomes are sent to the main process if an option needs
    them.
    """
    from fullgraph.testing.checks import TestRun

    config = item.config
    outcomes: list[Any] = item.stash.setdefault(_found, [])
    update = config.getoption(_UPDATE)
    needed = update or config.getoption(_REPORT)

    def report(outcome: Any) -> None:
        if needed:
            outcomes.append(outcome.to_plain())

    return TestRun(str(item.path), item.nodeid, update, report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Observe a marked test while it runs, and fail it if what it compiles does not satisfy the
    limits in its marker."""
    marker = item.get_closest_marker("fullgraph")
    if marker is None or not isinstance(item, pytest.Function):
        return (yield)
    from fullgraph.testing.checks import observed_test
    from fullgraph.testing.expectations import Expected

    try:
        expected = Expected(*marker.args, **marker.kwargs)
    except TypeError:
        expected = None
    if expected is None:
        pytest.fail(
            f"The arguments of the fullgraph marker are wrong. Usage: {_MARKER}.", pytrace=False
        )
    test = item.obj
    item.obj = observed_test(test, _test_run(item), expected)
    try:
        return (yield)
    finally:
        item.obj = test


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, Any]:
    """Attach the outcomes of the checks so far to the report of a test's phase."""
    report = yield
    if _recording in item.config.stash:
        item.config.stash[_recording].write_in_fork()
    if item.stash.get(_found, None):
        setattr(report, _OUTCOMES, item.stash[_found][:])
        item.stash[_found].clear()
    return report


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Save the recorded inputs."""
    if _recording in session.config.stash:
        session.config.stash[_recording].finish()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print where the recorded inputs were saved."""
    if _recording in config.stash:
        for line in config.stash[_recording].messages:
            terminalreporter.write_line(line)
