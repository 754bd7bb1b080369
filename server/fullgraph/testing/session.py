"""Collect the outcomes of all checks in the main process, to update files and write a report."""

from __future__ import annotations

import os
from collections import defaultdict
from pathlib import Path

import pytest

from fullgraph.domain.phrases import amount
from fullgraph.testing.causes import Cause
from fullgraph.testing.expectation_files import InvalidExpectations, update_file
from fullgraph.testing.outcomes import Outcome
from fullgraph.testing.reports import report_text

REPORT_ENDINGS = (".json", ".sarif", ".xml")


class CheckedSession:
    """A pytest plugin that collects outcomes from test reports.

    ``attribute`` is the name of the attribute of a test report with the outcomes of its checks.
    ``report`` is the path of the report to write, empty for none.
    """

    def __init__(self, attribute: str, report: str, config: pytest.Config) -> None:
        self._attribute, self._report, self._config = attribute, report, config
        self._outcomes: list[Outcome] = []
        self._messages: list[str] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Collect the outcomes of a phase of a test."""
        self._outcomes += map(Outcome.from_plain, getattr(report, self._attribute, ()))

    def pytest_sessionfinish(self) -> None:
        """Update the files of expectations, and write the report."""
        self._update_files()
        if self._report:
            path = self._config.invocation_params.dir / self._report
            outcomes = sorted(self._outcomes, key=lambda one: one.test)
            try:
                path.write_text(report_text(path.suffix, outcomes), encoding="utf-8")
            except OSError as error:
                self._messages.append(f"Cannot write {self._report}: {error.strerror}.")
                return
            checks = amount(len(outcomes), "check")
            self._messages.append(f"Wrote the findings of {checks} to {self._report}.")

    def _update_files(self) -> None:
        found: dict[str, dict[str, tuple[Cause, ...]]] = defaultdict(dict)
        for outcome in self._outcomes:
            if outcome.update is not None:
                found[outcome.update.file][outcome.update.section] = outcome.update.causes
        for file, sections in sorted(found.items()):
            shown = os.path.relpath(file, self._config.invocation_params.dir)
            try:
                changed = update_file(Path(file), sections)
            except InvalidExpectations as error:
                self._messages.append(str(error))
            except OSError as error:
                self._messages.append(f"Cannot write {shown}: {error.strerror}.")
            else:
                self._messages.append(f"{'Updated' if changed else 'Unchanged:'} {shown}.")

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which files were written."""
        for message in self._messages:
            terminalreporter.write_line(message)
