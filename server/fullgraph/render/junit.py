"""Format the results of a check as JUnit XML, which most CI services show as test results."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.wording import finding_lines, message_lines
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph_engine.protocol import TargetReport

_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 does not allow."""


def check_junit(checked: CheckResults) -> str:
    """Format the results of a check as JUnit XML.

    Each file is a test suite, and each traced function or class a test. A test fails if it has
    findings at or above the exit severity of the file; it is skipped if no inputs are known.
    Findings outside of functions and classes, and problems of the check, are tests of their own.
    """
    root = ElementTree.Element("testsuites", name="fullgraph")
    for problem in checked.problems:
        case = ElementTree.SubElement(_add_suite(root, "fullgraph"), "testcase", name="check")
        _add_text(case, "error", problem, problem)
    for file in checked.files:
        if file.targets or file.findings or file.problem:
            suite = _add_suite(root, file.path)
            suite.set("time", f"{file.seconds:.3f}")
            _add_cases(suite, file)
    return document_text(root)


def document_text(root: ElementTree.Element) -> str:
    """Return the text of a JUnit document, after counting the tests of each suite by outcome."""
    for suite in root:
        cases = list(suite)
        suite.set("tests", str(len(cases)))
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped",) * 2):
            suite.set(attribute, str(sum(case.find(tag) is not None for case in cases)))
    ElementTree.indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{ElementTree.tostring(root, "unicode")}'


def _add_suite(root: ElementTree.Element, name: str) -> ElementTree.Element:
    return ElementTree.SubElement(root, "testsuite", name=_printable(name))


def _add_cases(suite: ElementTree.Element, file: CheckedFile) -> None:
    failing: dict[str, list[FileFinding]] = {}
    for item in file.findings:
        if item.severity.reaches(file.exit_severity):
            failing.setdefault(item.finding.target, []).append(item)
    names = dict.fromkeys(report.name for report in file.targets)
    for name in (*names, *(name for name in failing if name not in names)):
        case = ElementTree.SubElement(
            suite, "testcase", name=_printable(name or "file"), classname=_printable(file.path)
        )
        case.set("file", _printable(file.path))
        reports = [report for report in file.targets if report.name == name]
        case.set("time", f"{sum(report.seconds for report in reports):.3f}")
        if found := failing.get(name):
            text = "\n\n".join(_finding_text(file, item) for item in found)
            _add_text(case, "failure", message_lines(found[0].finding)[0], text)
        elif reports and all(report.status == "no-probe" for report in reports):
            _add_text(case, "skipped", "no inputs are known", "")
        elif unfinished := list(_describe_unfinished(reports)):
            _add_text(case, "error", unfinished[0], "\n".join(unfinished))
    if file.problem:
        case = ElementTree.SubElement(suite, "testcase", name="file")
        _add_text(case, "error", file.problem, file.problem)


def _describe_unfinished(reports: list[TargetReport]) -> Iterator[str]:
    """Yield a sentence for each trace that did not end."""
    for report in reports:
        if report.status not in ("traced", "failed", "no-probe"):
            yield f"{report.status}: {report.error}" if report.error else report.status


def _finding_text(file: CheckedFile, item: FileFinding) -> str:
    finding = item.finding
    place = f"{file.path}:{finding.range.start.line + 1}: {item.severity.value}[{finding.code}]"
    hints = [f"hint: {hint}" for hint in finding.hints]
    parts = (place, *finding_lines(finding), *hints, item.href)
    return "\n".join(filter(None, parts))


def _add_text(case: ElementTree.Element, tag: str, message: str, text: str) -> None:
    element = ElementTree.SubElement(case, tag, message=_printable(message))
    element.text = _printable(text) or None


def _printable(text: str) -> str:
    return _FORBIDDEN.sub("\ufffd", text)
