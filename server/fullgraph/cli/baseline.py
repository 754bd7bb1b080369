"""Findings that an earlier check has reported, so that CI speaks up for new ones only.

A baseline is a report of ``fullgraph check --format json``. Lines move and are edited, so findings
are told by their code, their message and the code they are about, then by the target they are in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli.check_report import CheckReport, ReportedFinding
from fullgraph.cli.matching import SAME, Trait, matched
from fullgraph.cli.sources import absolute
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.paths import with_short_paths
from fullgraph.render.checked import CheckedFile
from fullgraph.render.json import finding_words


@dataclass(frozen=True)
class Baseline:
    """Without a report nothing is known."""

    known: Mapping[Path, tuple[Trait, ...]] = dataclasses.field(default_factory=dict)
    """By absolute path."""

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """A report that ``fullgraph check --format json`` has written.

        Raises:
            Unreadable: it cannot be read, or is something else.
        """
        files = CheckReport.read(path).files
        return cls({absolute(Path(file.path)): tuple(map(_known, file.findings)) for file in files})

    def settle(self, file: CheckedFile) -> CheckedFile:
        """The file with the findings that are new, and how many are not.

        Where there are more of one kind than before, and nothing tells which of them is new, all
        of them are shown.
        """
        known = self.known.get(absolute(Path(file.path)), ())
        pairs = matched(known, [_trait(file, item) for item in file.findings], SAME)
        new = tuple(item for number, item in enumerate(file.findings) if number not in pairs)
        return dataclasses.replace(file, findings=new, known=len(pairs))


def _known(finding: ReportedFinding) -> Trait:
    """As a check has it now: messages of earlier versions may have whole paths."""
    trait = finding.trait
    return dataclasses.replace(trait, message=with_short_paths(trait.message, str(Path.cwd())))


def _trait(file: CheckedFile, item: FileFinding) -> Trait:
    finding = item.finding
    line = finding.range.start.line
    return Trait(finding.code, finding.message, finding.target, finding_words(file, item), line)
