"""Reports about all checks of a session: JSON and SARIF as ``fullgraph check`` writes them, and
JUnit XML."""

from __future__ import annotations

import dataclasses
import json
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from fullgraph.domain.positions import TextPositions
from fullgraph.domain.wording import message_lines
from fullgraph.render.cells import printable_lines
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.json import check_json, dump_json
from fullgraph.render.junit import document_text
from fullgraph.render.sarif import check_sarif
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph.testing.outcomes import Outcome
from fullgraph_engine.protocol import Finding, TargetReport


def report_text(ending: str, outcomes: Sequence[Outcome]) -> str:
    """Return the report in the format of a file name's ending: ``.json``, ``.sarif`` or ``.xml``.

    Findings that several tests reach appear once in JSON and SARIF, with the sum of their counts.
    """
    if ending == ".xml":
        return _junit_text(outcomes)
    results = _check_results(outcomes)
    if ending == ".sarif":
        return check_sarif(results) + "\n"
    document = json.loads(check_json(results))
    document["tests"] = [_test_json(outcome) for outcome in outcomes]
    return dump_json(document) + "\n"


def _check_results(outcomes: Sequence[Outcome]) -> CheckResults:
    findings: dict[str, list[Finding]] = {}
    reports: dict[str, list[TargetReport]] = {}
    for outcome in outcomes:
        for file in outcome.files:
            findings.setdefault(file.path, []).extend(_without_run(file.findings))
            reports.setdefault(file.path, []).extend(file.reports)
    return CheckResults(
        tuple(_checked_file(path, findings[path], reports[path]) for path in sorted(findings)),
        torch=next((one.torch for one in outcomes), ""),
        python=platform.python_version(),
        seconds=sum(one.seconds for one in outcomes),
    )


def _without_run(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings without the name of their run, because runs of different tests have equal
    names and would replace each other's findings.
    """
    return [dataclasses.replace(one, run=None) for one in findings]


def _checked_file(
    path: str, findings: Sequence[Finding], reports: Sequence[TargetReport]
) -> CheckedFile:
    try:
        text = TextPositions(Path(path).read_text("utf-8"))
    except (OSError, ValueError):
        text = TextPositions("")
    shown = os.path.relpath(path)
    shown = path if shown.startswith(os.pardir) else shown
    merged = merge_findings(findings, Settings(), folder=str(Path.cwd()))
    return CheckedFile(shown, path, text, tuple(dict.fromkeys(reports)), merged)


def _test_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "test": outcome.test,
        "failure": outcome.failure or None,
        "graphs": outcome.graphs,
        "seconds": round(outcome.seconds, 3),
        "findings": [
            {
                "code": finding.code,
                "path": file.path,
                "line": finding.range.start.line,
                "message": message_lines(finding)[0],
            }
            for file in outcome.files
            for finding in file.findings
        ],
    }


def _junit_text(outcomes: Sequence[Outcome]) -> str:
    seconds = sum(outcome.seconds for outcome in outcomes)
    suites = ElementTree.Element("testsuites")
    suite = ElementTree.SubElement(suites, "testsuite", name="fullgraph", time=f"{seconds:.3f}")
    for outcome in outcomes:
        suite.append(_junit_case(outcome))
    return document_text(suites) + "\n"


def _junit_case(outcome: Outcome) -> ElementTree.Element:
    file, _, name = outcome.test.partition("::")
    case = ElementTree.Element(
        "testcase",
        classname=file.removesuffix(".py").replace("/", "."),
        name=_xml_text(name),
        time=f"{outcome.seconds:.3f}",
    )
    if outcome.failure:
        first = _xml_text(outcome.failure.splitlines()[0])
        ElementTree.SubElement(case, "failure", message=first).text = _xml_text(outcome.failure)
    findings = [
        f"{os.path.relpath(file.path)}:{one.range.start.line + 1}: {one.code}: "
        f"{message_lines(one)[0]}"
        for file in outcome.files
        for one in file.findings
    ]
    if findings:
        ElementTree.SubElement(case, "system-out").text = _xml_text("\n".join(findings))
    return case


def _xml_text(text: str) -> str:
    """Return a text without control characters, which XML does not allow."""
    return "\n".join(printable_lines(text))
