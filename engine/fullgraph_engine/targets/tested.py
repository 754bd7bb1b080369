"""Example inputs from tests of the workspace: calls that tests make of the file's classes and
functions.

A test file is executed as a program (see ``programs``) by the pytest of the user's environment:
only the tests that mention the wanted definition, up to its call.
"""

from __future__ import annotations

import ast
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import programs, workspace
from .enclosing import NotCalled
from .probes import Call, Enclosing, Namespace

if TYPE_CHECKING:
    import pytest

_MOST_TESTS = 6
"""Maximum number of tests per test file to execute for one target (function or module class)."""

_OPTIONS = (
    *("-o", "addopts=", "-o", "filterwarnings=", "--capture=no"),
    *("-p", "no:cacheprovider", "-p", "no:faulthandler"),
)
"""pytest options that disable parts of the project's configuration; its other settings still
apply.
"""


def enclosing_tests(name: str, users: Sequence[str], path: str) -> list[Enclosing]:
    """Return the test files that may call the definition ``name`` of the file at ``path``, as
    callers to execute.

    Test files that mention the definition come before files that only mention its ``users``
    (definitions that call it).
    """
    files = [
        (file, wanted, number)
        for file, text in _files(path)
        for number, wanted in enumerate(
            (mentioning_tests(text, [name]), mentioning_tests(text, users))
        )
        if wanted
    ]
    files.sort(key=lambda one: one[2])
    return [
        programs.enclosing_program(
            file.name, _PlannedTests(file, tuple(wanted[:_MOST_TESTS])), doubtful=True
        )
        for file, wanted, _ in files
    ]


def mentioning_tests(text: str, names: Sequence[str]) -> list[str]:
    """Return the pytest ids of the tests in a file that mention one of the names; the ids lack the
    file name.

    Return the ids of all tests if only a fixture or helper mentions one.
    """
    tree, wanted = _parse_tests(text), frozenset(names)
    if not _mentions_names(tree, wanted):
        return []
    tests = list(_test_nodes(tree.body))
    return [name for name, node in tests if _mentions_names(node, wanted)] or [
        name for name, _ in tests
    ]


# All targets of a file need the same tests, and one process plans all targets for one edit.
_files = functools.lru_cache(maxsize=1)(workspace.tests_that_import)


@functools.lru_cache(maxsize=4)
def _parse_tests(text: str) -> ast.Module:
    """Parse a test file; return an empty module if it has syntax errors."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return ast.Module([], [])


def _mentions_names(tree: ast.AST, names: frozenset[str]) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id in names)
        or (isinstance(node, ast.Attribute) and node.attr in names)
        for node in ast.walk(tree)
    )


def _test_nodes(body: Sequence[ast.stmt]) -> Iterator[tuple[str, ast.AST]]:
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            # The ``setup`` method of a class may be the only code that mentions the name.
            yield from ((f"{node.name}::{name}", node) for name, _ in _test_nodes(node.body))


@dataclass(frozen=True)
class _PlannedTests:
    """A callable that executes tests of one file to observe the calls in them."""

    file: Path
    tests: tuple[str, ...]

    def __call__(self, namespace: Namespace) -> Call:
        return Call(functools.partial(_execute_tests, self.file, self.tests, namespace), (), {})


def _execute_tests(file: Path, tests: Sequence[str], namespace: Namespace) -> None:
    """Execute tests and raise the exception of the first failure.

    Raises:
        NotCalled: pytest is not installed.
    """
    try:
        import pytest
    except ImportError:
        words = "was not executed: pytest is not installed in this environment"
        raise NotCalled(f"{file.name} {words}.") from None
    ended = _Ended()
    os.environ.pop("PYTEST_ADDOPTS", None)
    sys.dont_write_bytecode = True
    with programs.restore_state(namespace), programs.program_sandbox(file.name):
        pytest.main([*_OPTIONS, *(f"{file}::{name}" for name in tests)], plugins=[ended])
        if ended.raised is not None:
            raise ended.raised


@dataclass
class _Ended:
    """A pytest plugin that records the exception of the first failed test.

    Exceptions that the engine raises to stop at a call also end pytest, which would otherwise treat
    them as failures and continue.
    """

    raised: BaseException | None = field(default=None)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> None:
        self._note_exception(item, call)

    def pytest_exception_interact(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]
    ) -> None:
        self._note_exception(node, call)

    def _note_exception(
        self, node: pytest.Item | pytest.Collector, call: pytest.CallInfo[Any]
    ) -> None:
        import pytest

        error = call.excinfo.value if call.excinfo is not None else None
        if error is None or isinstance(error, pytest.skip.Exception):
            return
        ends = not isinstance(error, (Exception, pytest.fail.Exception))
        if ends:
            node.session.shouldstop = "the call was recorded, or the time limit was reached"
        if ends or self.raised is None:
            self.raised = error
