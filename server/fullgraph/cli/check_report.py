"""Read the report files that ``fullgraph check --format json`` writes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.cli.matching import Trait
from fullgraph.cli.sources import UnreadableFile
from fullgraph.domain.codes import Severity, current_name
from fullgraph.render.json import VERSION


@dataclass(frozen=True)
class ReportedFinding:
    """A finding that a report lists.

    ``line`` and ``character`` are zero-based. ``targets`` are all functions and classes whose
    traces contain the finding. ``count`` is the number of times it occurred in them. ``text`` is
    the source code at the finding.
    """

    code: str
    severity: Severity
    message: str
    target: str
    targets: tuple[str, ...]
    line: int
    character: int
    text: str
    count: int
    href: str

    @property
    def trait(self) -> Trait:
        """Properties by which the finding is recognized in another check."""
        return Trait(self.code, self.message, self.target, self.text, self.line)


@dataclass(frozen=True)
class ReportedTarget:
    """The result of tracing a target (a function or class) with one description of inputs.

    A count, such as ``graphs``, is None if the torch of the check cannot report it.
    """

    name: str
    line: int
    """Zero-based line of the target."""
    status: str
    """Outcome: ``traced``, ``failed``, ``timeout``, ``crashed``, ``no-probe`` or ``cancelled``."""
    mode: str
    """Kind of tensors that the target was traced with: ``fake`` or ``real``."""
    inputs: str
    """Description of the inputs; empty if no inputs are known."""
    error: str
    """Error message; empty if the target was traced."""
    graphs: int | None
    ops: int | None
    breaks: int | None
    skips: int | None
    recompiles: int | None
    origin: str = ""
    """Source of the inputs, such as ``comment`` for a probe comment; empty without inputs."""


@dataclass(frozen=True)
class ReportedFile:
    """The results of one file in a report.

    ``problem`` says why the file could not be checked, empty if it was. ``known`` counts the
    findings that a baseline (the report of an earlier check) has hidden.
    """

    path: str
    targets: tuple[ReportedTarget, ...]
    findings: tuple[ReportedFinding, ...]
    notes: tuple[str, ...]
    problem: str
    known: int


@dataclass(frozen=True)
class CheckReport:
    """A report of ``fullgraph check``.

    ``torch`` and ``python`` are versions, empty if nothing was traced. ``problems`` are sentences
    about what could not be checked.
    """

    files: tuple[ReportedFile, ...]
    torch: str = ""
    python: str = ""
    problems: tuple[str, ...] = ()

    @property
    def known(self) -> int:
        """Number of findings that a baseline (the report of an earlier check) has hidden."""
        return sum(file.known for file in self.files)

    @classmethod
    def read(cls, path: Path) -> CheckReport:
        """Read a report from the file at ``path``.

        Raises:
            UnreadableFile: The file cannot be read, or is not a report.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UnreadableFile(f"Cannot read {path}: {error.strerror or error}.") from error
        except ValueError as error:
            raise _not_a_report(path) from error
        return cls.parse(text, path)

    @classmethod
    def parse(cls, text: str, path: Path) -> CheckReport:
        """Parse the text of a report; ``path`` names its file in error messages.

        Raises:
            UnreadableFile: The text is not a report.
        """
        try:
            plain = json.loads(text)
            version = plain["version"]
            if version == VERSION:
                return _parse_report(plain)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _not_a_report(path) from error
        raise UnreadableFile(
            f"{path} was written by a fullgraph that writes reports of version {version}; "
            f"write it again with this one, whose version is {VERSION}."
        )


def _parse_report(plain: Mapping[str, Any]) -> CheckReport:
    return CheckReport(
        files=tuple(_parse_file(file) for file in plain["files"]),
        torch=plain.get("torch") or "",
        python=plain.get("python") or "",
        problems=tuple(plain.get("errors", ())),
    )


def _parse_file(plain: Mapping[str, Any]) -> ReportedFile:
    return ReportedFile(
        path=plain["path"],
        targets=tuple(_parse_target(target) for target in plain["targets"]),
        findings=tuple(_parse_finding(finding) for finding in plain["findings"]),
        notes=tuple(plain.get("notes", ())),
        problem=plain.get("error", ""),
        known=plain.get("known", 0),
    )


def _parse_target(plain: Mapping[str, Any]) -> ReportedTarget:
    return ReportedTarget(
        name=plain["name"],
        line=plain["line"],
        status=plain["status"],
        mode=plain["mode"],
        inputs=_parse_inputs(plain["probe"]),
        error=plain["error"] or "",
        graphs=plain["graphs"],
        ops=plain["ops"],
        breaks=plain["breaks"],
        skips=plain["skips"],
        recompiles=plain["recompiles"],
        origin=(plain["probe"] or {}).get("origin", ""),
    )


def _parse_inputs(probe: Mapping[str, str] | None) -> str:
    if probe is None:
        return ""
    init = f"init({probe['init']}) " if probe["init"] else ""
    return init + (probe["inputs"] or "no inputs")


def _parse_finding(plain: Mapping[str, Any]) -> ReportedFinding:
    start = plain["range"]["start"]
    target = plain["target"]
    return ReportedFinding(
        code=current_name(plain["code"]),
        severity=Severity(plain["severity"]),
        message=plain["message"],
        target=target,
        targets=tuple(plain["data"]["targets"]) or ((target,) if target else ()),
        line=start["line"],
        character=start["character"],
        text=plain.get("text", ""),
        count=plain["count"],
        href=plain["href"],
    )


def _not_a_report(path: Path) -> UnreadableFile:
    return UnreadableFile(
        f"{path} is not a report of fullgraph; write one with "
        f"`fullgraph check --format json --output {path}` and the paths to check."
    )
