"""Format findings as workflow commands of GitHub Actions, which annotate the lines in a pull
request."""

from __future__ import annotations

from collections.abc import Iterator

from fullgraph.domain.calls import calls_clause
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.guard_names import other_names
from fullgraph.domain.wording import finding_lines, same_cause_lines
from fullgraph.render.checked import CheckedFile
from fullgraph.render.places import file_span

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning"}


def file_github(file: CheckedFile) -> str:
    """Format the findings of a file as workflow commands of GitHub Actions, one per line; empty
    without findings."""
    return "\n".join(_file_commands(file))


def problem_github(problem: str, path: str = "") -> str:
    """Format a problem of the check, such as a missing file at ``path``, as a workflow command that
    adds an annotation."""
    place = f" file={_escape_property(path)}" if path else " title=fullgraph"
    return f"::error{place}::{_escape_data(problem)}"


def notice_github(sentence: str) -> str:
    """Format a sentence about the whole check as a workflow command that adds a notice."""
    return f"::notice title=fullgraph::{_escape_data(sentence)}"


def _file_commands(file: CheckedFile) -> Iterator[str]:
    if file.problem:
        yield problem_github(file.problem, file.path)
    for item in file.findings:
        yield _finding_command(file, item)


def _finding_command(file: CheckedFile, item: FileFinding) -> str:
    place = file_span(file, file.path, item.finding.range)
    properties = {
        "file": file.path,
        "line": str(place.line + 1),
        "endLine": str(place.end_line + 1),
        "col": str(place.character + 1),
        "endColumn": str(place.end_character + 1),
        "title": f"fullgraph: {item.finding.code}",
    }
    if place.end_line != place.line:
        # GitHub supports columns only within one line.
        del properties["col"], properties["endColumn"]
    written = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items())
    return (
        f"::{_COMMANDS.get(item.severity, 'notice')} {written}::{_escape_data(_message_text(item))}"
    )


def _message_text(item: FileFinding) -> str:
    finding = item.finding
    hints = [f"hint: {hint}" for hint in finding.hints]
    clause = calls_clause(finding)
    times = f"reached {finding.count} times" if finding.count > 1 else "seen" if clause else ""
    reached = f"{times} {clause}".strip()
    if item.same_as is not None:
        return "\n".join(same_cause_lines(finding, item.same_as.start.line))
    also = [f"also: {name}" for name in other_names(finding)]
    parts = (*finding_lines(finding), *also, *hints, reached, item.href)
    return "\n".join(part for part in parts if part)


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")
