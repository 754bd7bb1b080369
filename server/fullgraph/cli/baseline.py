"""Hide accepted findings, so that CI only reports new ones.

A baseline is a file of accepted findings that ``--update-baseline`` writes, or a report of an
earlier ``fullgraph check --format json``. Because lines move and change, findings are compared by
code, message and source text, then by the traced function or class.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.cli.check_report import CheckReport, ReportedFinding
from fullgraph.cli.matching import SAME, Trait, match_items
from fullgraph.cli.sources import UnreadableFile, absolute_path
from fullgraph.cli.versioned_files import has_conflict_markers, replace_text
from fullgraph.domain.codes import current_name, matches_selector
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.paths import shorten_paths
from fullgraph.domain.phrases import amount
from fullgraph.render.checked import CheckedFile
from fullgraph.render.json import dump_json, finding_source

VERSION = 1
"""Version of the format of baseline files."""


@dataclass(frozen=True)
class KnownFinding:
    """An accepted finding. It is shown again after the day ``until``; None means never.

    ``reason`` says why it is accepted, and may be empty.
    """

    trait: Trait
    reason: str = ""
    until: datetime.date | None = None


@dataclass(frozen=True)
class Allowance:
    """A number of findings that a baseline accepts in a function or class, without listing them.

    ``most`` is the maximum number. ``code`` selects codes as in the setting ``ignore``. With an
    empty ``target``, the allowance is for the whole file.
    """

    code: str
    most: int
    target: str = ""
    reason: str = ""
    until: datetime.date | None = None


@dataclass(frozen=True)
class KnownFile:
    """The accepted findings of one file."""

    findings: tuple[KnownFinding, ...] = ()
    allowances: tuple[Allowance, ...] = ()


@dataclass(frozen=True)
class Baseline:
    """The findings that checks hide, by the absolute path of their file."""

    known: Mapping[Path, KnownFile] = dataclasses.field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a baseline file, or a report of ``fullgraph check --format json``.

        Raises:
            UnreadableFile: The file cannot be read, or has another format.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise UnreadableFile(f"Cannot read {path}: {error.strerror or error}.") from error
        except ValueError as error:
            raise UnreadableFile(f"{path} is not UTF-8 text; write it again.") from error
        if has_conflict_markers(text):
            raise UnreadableFile(
                f"{path} has conflict markers of git; resolve the conflict, or delete the file and "
                "write it again with --update-baseline."
            )
        try:
            plain = json.loads(text)
        except ValueError:
            plain = None
        if isinstance(plain, dict) and "baseline" in plain:
            return cls(_parse_baseline(plain, path))
        files = CheckReport.parse(text, path).files
        return cls(
            {
                absolute_path(Path(file.path)): KnownFile(
                    tuple(KnownFinding(_known_trait(finding)) for finding in file.findings)
                )
                for file in files
            }
        )

    def settle(self, file: CheckedFile) -> CheckedFile:
        """Return the results of a file without accepted findings; ``known`` counts the removed
        ones.

        If there are more findings of one kind than accepted, and nothing distinguishes the new
        ones, none of them is removed. The file's ``stale`` counts accepted findings that no longer
        occur in functions and classes that were traced.
        """
        known = self.find_known(file)
        valid, found, pairs = _match_valid(known, file)
        allowed = _allowed_findings(known.allowances, found, pairs, datetime.date.today())
        new = tuple(
            item
            for number, item in enumerate(file.findings)
            if number not in pairs and number not in allowed
        )
        stale = len(_stale_numbers(known, file, valid, pairs))
        return dataclasses.replace(
            file, findings=new, known=len(file.findings) - len(new), stale=stale
        )

    def find_known(self, file: CheckedFile) -> KnownFile:
        """Return the accepted findings of a file."""
        return self.known.get(absolute_path(Path(file.path)), KnownFile())

    def find_stale(self, file: CheckedFile) -> tuple[int, ...]:
        """Return the indices of a file's accepted findings that no longer occur, although their
        function or class was traced."""
        known = self.find_known(file)
        valid, _, pairs = _match_valid(known, file)
        return _stale_numbers(known, file, valid, pairs)


class BaselineUpdate:
    """An update of a baseline file with the findings of a check.

    The file keeps the findings of unchecked files and of untraced functions and classes, and the
    reasons and dates of all findings.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._before = Baseline.read(path) if path.exists() else Baseline()
        self._after = dict(self._before.known)
        self._added = 0
        self._removed = 0

    @property
    def known(self) -> Mapping[Path, KnownFile]:
        """Findings that the file accepted before the update, by the path of the checked file."""
        return self._before.known

    def settle(self, file: CheckedFile) -> CheckedFile:
        """Add all findings of a checked file to the baseline; return the file's results without
        them."""
        path = absolute_path(Path(file.path))
        before = self._before.known.get(path, KnownFile())
        found = [_finding_trait(file, item) for item in file.findings]
        known = [one.trait for one in before.findings]
        pairs = match_items(known, found, SAME, allow_surplus=True)
        allowed = _allowed_findings(before.allowances, found, pairs, datetime.date.min)
        accepted = [
            dataclasses.replace(before.findings[pairs[number]], trait=trait)
            if number in pairs
            else KnownFinding(trait)
            for number, trait in enumerate(found)
            if number not in allowed
        ]
        matched = set(pairs.values())
        gone = [one for number, one in enumerate(before.findings) if number not in matched]
        kept = [one for one in gone if file.problem or not _was_traced(file, one.trait)]
        self._added += len(accepted) - len(pairs)
        self._removed += len(gone) - len(kept)
        self._after[path] = KnownFile((*accepted, *kept), before.allowances)
        return dataclasses.replace(file, findings=(), known=len(file.findings))

    def write(self) -> tuple[str]:
        """Write the file, and return a sentence about its content.

        Raises:
            UnreadableFile: The file cannot be written.
        """
        files = {
            path: file
            for path, file in self._after.items()
            if (file.findings or file.allowances) and path.exists()
        }
        for path in self._after.keys() - files.keys():
            self._removed += len(self._after[path].findings)
        folder = absolute_path(self._path).parent
        document = {
            "baseline": VERSION,
            "files": {
                name: _file_json(files[path])
                for name, path in sorted((_relative_name(path, folder), path) for path in files)
            },
        }
        try:
            replace_text(self._path, dump_json(document) + "\n")
        except OSError as error:
            raise UnreadableFile(
                f"Cannot write {self._path}: {error.strerror or error}."
            ) from error
        count = sum(len(file.findings) for file in files.values())
        return (
            f"{self._path} accepts {amount(count, 'finding')} in {amount(len(files), 'file')}: "
            f"{self._added} added, {self._removed} removed.",
        )


def _match_valid(
    known: KnownFile, file: CheckedFile
) -> tuple[list[int], list[Trait], dict[int, int]]:
    """Match the findings of a file with its accepted findings, except for expired ones.

    Return the indices of the unexpired accepted findings, the properties of the file's findings,
    and the pairs. The pairs map the index of a finding to a position in the list of indices.
    """
    today = datetime.date.today()
    valid = [
        number
        for number, one in enumerate(known.findings)
        if one.until is None or one.until >= today
    ]
    found = [_finding_trait(file, item) for item in file.findings]
    return valid, found, match_items([known.findings[at].trait for at in valid], found, SAME)


def _stale_numbers(
    known: KnownFile, file: CheckedFile, valid: Sequence[int], pairs: Mapping[int, int]
) -> tuple[int, ...]:
    matched = {valid[at] for at in pairs.values()}
    return tuple(
        number
        for number in valid
        if number not in matched and _was_traced(file, known.findings[number].trait)
    )


def _allowed_findings(
    allowances: Iterable[Allowance],
    found: Sequence[Trait],
    excluded: Mapping[int, int],
    today: datetime.date,
) -> set[int]:
    """Return the indices of the findings in ``found`` that allowances accept.

    An allowance with more findings than it permits accepts none of them.
    """
    allowed: set[int] = set()
    for allowance in allowances:
        if allowance.until is not None and allowance.until < today:
            continue
        selected = {
            number
            for number, trait in enumerate(found)
            if number not in excluded
            and matches_selector(trait.code, allowance.code)
            and allowance.target in ("", trait.target)
        }
        if len(selected) <= allowance.most:
            allowed |= selected
    return allowed


def _was_traced(file: CheckedFile, trait: Trait) -> bool:
    """Whether the file was checked, and the function or class of the finding was traced.

    A function or class that the file no longer has counts as traced.
    """
    if file.problem:
        return False
    reports = [report for report in file.targets if report.name == trait.target]
    return all(report.status == "traced" for report in reports)


def _known_trait(finding: ReportedFinding) -> Trait:
    """Return the properties by which an earlier finding is recognized, with short paths in its
    message.

    Current checks write short paths; earlier versions wrote full paths.
    """
    trait = finding.trait
    return dataclasses.replace(trait, message=shorten_paths(trait.message, str(Path.cwd())))


def _finding_trait(file: CheckedFile, item: FileFinding) -> Trait:
    finding = item.finding
    line = finding.range.start.line
    return Trait(finding.code, finding.message, finding.target, finding_source(file, item), line)


# -- the file ---------------------------------------------------------------------------------


def _relative_name(path: Path, folder: Path) -> str:
    return (path.relative_to(folder) if path.is_relative_to(folder) else path).as_posix()


def _file_json(file: KnownFile) -> list[dict[str, Any]]:
    allowances = [
        {
            "code": one.code,
            **({"target": one.target} if one.target else {}),
            "allow": one.most,
            **_remarks_json(one),
        }
        for one in file.allowances
    ]
    findings = [
        {
            "code": one.trait.code,
            "target": one.trait.target,
            "text": one.trait.text,
            "message": one.trait.message,
            **_remarks_json(one),
        }
        for one in file.findings
    ]
    # Leave out line numbers, so that edits elsewhere do not change the baseline file.
    findings.sort(key=lambda plain: [str(value) for value in plain.values()])
    return [*allowances, *findings]


def _remarks_json(one: KnownFinding | Allowance) -> dict[str, str]:
    reason = {"reason": one.reason} if one.reason else {}
    return {**reason, **({"until": one.until.isoformat()} if one.until is not None else {})}


def _parse_baseline(plain: Mapping[str, Any], path: Path) -> dict[Path, KnownFile]:
    if plain["baseline"] != VERSION:
        raise UnreadableFile(
            f"{path} has version {plain['baseline']} of the baseline format; this fullgraph reads "
            f"version {VERSION}. Install the fullgraph that wrote it, or delete the file and write "
            "it again with --update-baseline."
        )
    folder = absolute_path(path).parent
    try:
        return {
            absolute_path(folder / name): KnownFile(
                tuple(_parse_finding(entry) for entry in entries if "allow" not in entry),
                tuple(_parse_allowance(entry) for entry in entries if "allow" in entry),
            )
            for name, entries in plain["files"].items()
        }
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        words = f"lacks the key {error}" if isinstance(error, KeyError) else f"is wrong ({error})"
        raise UnreadableFile(f"An entry of {path} {words}; correct or remove the entry.") from error


def _parse_finding(entry: Mapping[str, Any]) -> KnownFinding:
    code = current_name(entry["code"])
    trait = Trait(code, entry["message"], entry["target"], entry["text"], -1)
    return KnownFinding(trait, entry.get("reason", ""), _parse_date(entry))


def _parse_allowance(entry: Mapping[str, Any]) -> Allowance:
    return Allowance(
        entry["code"],
        int(entry["allow"]),
        entry.get("target", ""),
        entry.get("reason", ""),
        _parse_date(entry),
    )


def _parse_date(entry: Mapping[str, Any]) -> datetime.date | None:
    return datetime.date.fromisoformat(entry["until"]) if "until" in entry else None
