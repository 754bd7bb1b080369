"""Formats of ``fullgraph check`` for CI services: GitLab, JUnit, Markdown, and GitHub's hashes."""

from __future__ import annotations

import dataclasses
import json
from xml.etree import ElementTree

import pytest
from tests.cli.conftest import CommandLine, on, script
from tests.cli.test_check import BREAK, REPORT, model

from fullgraph.render.fingerprints import line_hashes
from fullgraph_engine.protocol import Event, Finding, FindingFound, TargetDone

ERROR = Finding("trace/eager-error", "bad\x00 value `x`", on(5, 19, 33), "Net")


def test_gitlab_entries_have_stable_fingerprints(command_line: CommandLine) -> None:
    command_line.write("a.py", model(BREAK, ERROR))
    moved = Finding(**{**vars(BREAK), "range": on(6, 19, 33)})
    command_line.write("b.py", "# new\n" + model(moved))
    ran = command_line.check("--format", "gitlab", "a.py", "b.py")
    first, second, third = json.loads(ran.out)
    assert {first["severity"], second["severity"]} == {"major", "minor"}
    broken = next(one for one in (first, second) if one["check_name"] == BREAK.code)
    assert broken["location"] == {"path": "a.py", "lines": {"begin": 6}}
    assert third["location"] == {"path": "b.py", "lines": {"begin": 7}}
    assert broken["fingerprint"] == third["fingerprint"]


def test_gitlab_entries_of_one_line_differ(command_line: CommandLine) -> None:
    again = Finding(**{**vars(BREAK), "range": on(5, 20, 33)})
    command_line.write("a.py", model(BREAK, again))
    entries = json.loads(command_line.check("--format", "gitlab", "a.py").out)
    assert len({entry["fingerprint"] for entry in entries}) == len(entries) > 0


@pytest.mark.parametrize("threshold", ["warning", "error"])
def test_a_target_is_a_test_in_junit(command_line: CommandLine, threshold: str) -> None:
    untraced = dataclasses.replace(REPORT, name="other", status="no-probe", probe=None)
    broken = dataclasses.replace(REPORT, name="late", status="timeout", error="60 s")
    events: list[Event] = [TargetDone(0, untraced), TargetDone(0, broken), FindingFound(0, ERROR)]
    command_line.write("a.py", model(BREAK) + script(*events))
    ran = command_line.check(
        *("--format", "junit", "--exit-severity", threshold, "a.py", "gone.py")
    )
    assert ran.status == 2
    root = ElementTree.fromstring(ran.out.split("\n", 1)[1])
    check, suite = root
    assert check.get("errors") == "1" and suite.get("name") == "a.py"
    cases = {case.get("name"): case for case in suite}
    failure = cases["Net"].find("failure")
    assert failure is not None and failure.text is not None
    assert ("graph-break/GB0059" in failure.text) == (threshold == "warning")
    assert "bad\ufffd value" in failure.text
    assert cases["other"].find("skipped") is not None
    late = cases["late"].find("error")
    assert late is not None and late.get("message") == "timeout: 60 s"
    assert (suite.get("tests"), suite.get("failures"), suite.get("skipped")) == ("3", "1", "1")


def test_markdown_lists_findings_by_file(command_line: CommandLine) -> None:
    command_line.write("a.py", model(BREAK, ERROR))
    command_line.write("clean.py", model())
    ran = command_line.check("--format", "markdown", "a.py", "clean.py", "gone.py")
    assert ran.out.startswith(
        "### `torch.compile`: **1 error and 1 warning** in the code that could be checked\n"
    )
    assert "- **could not be checked**: `gone.py does not exist; check the path.`" in ran.out
    assert "#### `a.py`" in ran.out and "clean.py`\n" not in ran.out
    assert "- warning [graph-break/GB0059](https" in ran.out
    assert ", line 6 in `Net`: ``" in ran.out and "value `x` ``\n" in ran.out


def test_long_markdown_counts_the_rest(command_line: CommandLine) -> None:
    many = [Finding(**{**vars(BREAK), "range": on(5, 19, 20 + n)}) for n in range(150)]
    for name in ("a.py", "b.py", "c.py"):
        command_line.write(name, model(*many))
    out = command_line.check("--format", "markdown", "a.py", "b.py", "c.py").out
    assert len(out) < 65_000
    assert out.rstrip().endswith("are not shown.")


def test_line_hashes_are_those_of_github() -> None:
    # From the tests of github/codeql-action.
    assert line_hashes("") == {0: "c129715d7a2bc9a3:1"}


def test_line_hashes_ignore_spaces_and_count_equal_lines() -> None:
    lines = [f"value_{n} = function_{n}(x)" for n in range(60)]
    plain = line_hashes("\n".join(lines))
    indented = line_hashes("\r\n".join(f"\t  {line} " for line in lines))
    assert plain == indented
    assert len(set(plain.values())) == 60
    moved = line_hashes("\n".join(["# new", *lines]))
    assert moved[31] == plain[30]
    repeated = line_hashes("\n".join(["x = 1"] * 100))
    assert repeated[1].split(":")[0] == repeated[0].split(":")[0]
    assert (repeated[0].split(":")[1], repeated[1].split(":")[1]) == ("1", "2")


def test_sarif_has_the_hash_of_the_line(command_line: CommandLine) -> None:
    text = model(BREAK)
    command_line.write("a.py", text)
    log = json.loads(command_line.check("--format", "sarif", "a.py").out)
    (result,) = log["runs"][0]["results"]
    assert result["partialFingerprints"]["primaryLocationLineHash"] == line_hashes(text)[5]


def test_an_html_report_is_one_page_with_filters(command_line: CommandLine) -> None:
    evil = Finding("trace/eager-error", "<script>alert(1)</script> `x < 2`", on(5, 19, 33), "Net")
    command_line.write("a.py", model(BREAK, evil))
    command_line.write("clean.py", "import torch\n")
    ran = command_line.check("--format", "html", "--output", "report.html", "a.py", "clean.py")
    page = (command_line.folder / "report.html").read_text()
    assert ran.status == 1
    assert "<strong>1 error, 1 warning</strong>" in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; <code>x &lt; 2</code>" in page
    assert page.count("<script>") == 1
    assert page.count("<details ") == 2 and 'data-family="graph-break"' in page
    assert '<div class="strip" title="3 graphs"><i></i><i></i><i></i></div>' in page
    assert "<h2>a.py</h2>" in page and "clean.py" not in page
    # The page works offline: its only addresses are links.
    assert "src=" not in page and "@import" not in page and "url(" not in page


def test_an_html_report_says_what_could_not_be_checked(command_line: CommandLine) -> None:
    command_line.write("a.py", model())
    page = command_line.check("--format", "html", "a.py", "gone.py").out
    assert '<p class="error">gone.py does not exist; check the path.</p>' in page
    assert "<strong>No findings</strong> in the code that could be checked" in page
