"""Hide findings of an earlier check, so that CI only reports new ones.

A baseline is a report that ``fullgraph check --format json`` wrote. Because lines move and change,
findings are compared by code, message and source text, then by the traced function or class.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli.check_report import CheckReport, ReportedFinding
from fullgraph.cli.matching import SAME, Trait, match_items
from fullgraph.cli.sources import absolute_path
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.paths import shorten_paths
from fullgraph.render.checked import CheckedFile
from fullgraph.render.json import finding_source


@dataclass(frozen=True)
class Baseline:
    """The findings that an earlier check reported, which later checks hide."""

    known: Mapping[Path, tuple[Trait, ...]] = dataclasses.field(default_factory=dict)
    """Properties by which the earlier findings are recognized, by the absolute path of their
    file.
    """

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """Read a report of ``fullgraph check --format json``.

        Raises:
            UnreadableFile: The file cannot be read, or is not a report.
        """
        files = CheckReport.read(path).files
        return cls(
            {
                absolute_path(Path(file.path)): tuple(map(_known_trait, file.findings))
                for file in files
            }
        )

    def hide_known(self, file: CheckedFile) -> CheckedFile:
        """Remove the findings of a file that the earlier report contains, and count them in the
        file's ``known``.

        If there are more findings of one kind than before, and nothing distinguishes the new ones,
        none of them is removed.
        """
        known = self.known.get(absolute_path(Path(file.path)), ())
        pairs = match_items(known, [_finding_trait(file, item) for item in file.findings], SAME)
        new = tuple(item for number, item in enumerate(file.findings) if number not in pairs)
        return dataclasses.replace(file, findings=new, known=len(pairs))


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
