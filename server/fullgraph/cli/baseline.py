"""Findings that an earlier check has reported, so that CI speaks up for new ones only.

A baseline is a report of ``fullgraph check --format json``. Lines move and are edited, so findings
are told by their code, their message and the code they are about, then by the target they are in.
"""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.cli.sources import Unreadable, absolute
from fullgraph.render.checked import CheckedFile
from fullgraph.render.json import VERSION, finding_words
from fullgraph.session.findings import FileFinding


@dataclass(frozen=True)
class _Trait:
    """What a finding is told by."""

    code: str
    message: str
    target: str
    text: str
    line: int


# Each with more of what may have changed left out. In the end a target has no more findings of one
# kind than it had.
_LIKENESSES: tuple[Callable[[_Trait], object], ...] = (
    lambda trait: trait,
    lambda trait: (trait.code, trait.message, trait.text),
    lambda trait: (trait.code, trait.message, trait.target),
)


@dataclass(frozen=True)
class Baseline:
    """Without a report nothing is known."""

    known: Mapping[Path, tuple[_Trait, ...]] = dataclasses.field(default_factory=dict)
    """By absolute path."""

    @classmethod
    def read(cls, path: Path) -> Baseline:
        """A report that ``fullgraph check --format json`` has written.

        Raises:
            Unreadable: it cannot be read, or is something else.
        """
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise Unreadable(f"Cannot read {path}: {error.strerror or error}.") from error
        except ValueError as error:
            raise _foreign(path) from error
        try:
            version = report["version"]
            known = {
                absolute(Path(file["path"])): tuple(_trait(one) for one in file["findings"])
                for file in report["files"]
            }
        except (KeyError, TypeError, AttributeError) as error:
            raise _foreign(path) from error
        if version != VERSION:
            raise Unreadable(
                f"{path} was written by a fullgraph that writes reports of version {version}; "
                f"write it again with this one, whose version is {VERSION}."
            )
        return cls(known)

    def settle(self, file: CheckedFile) -> CheckedFile:
        """The file with the findings that are new, and how many are not.

        Where there are more of one kind than before, and nothing tells which of them is new, all
        of them are shown.
        """
        known = list(self.known.get(absolute(Path(file.path)), ()))
        found = [(_trait_of(file, item), item) for item in file.findings]
        for likeness in _LIKENESSES:
            had = Counter(likeness(trait) for trait in known)
            has = Counter(likeness(trait) for trait, _ in found)
            settled = {kind: number for kind, number in has.items() if number <= had[kind]}
            found = [(trait, item) for trait, item in found if likeness(trait) not in settled]
            known = _without(known, likeness, settled)
        new = tuple(item for _, item in found)
        return dataclasses.replace(file, findings=new, known=len(file.findings) - len(new))


def _without(
    known: Iterable[_Trait], likeness: Callable[[_Trait], object], settled: Mapping[object, int]
) -> list[_Trait]:
    left = Counter(settled)
    rest = []
    for trait in known:
        kind = likeness(trait)
        if left[kind]:
            left[kind] -= 1
        else:
            rest.append(trait)
    return rest


def _trait(finding: Mapping[str, Any]) -> _Trait:
    return _Trait(
        finding["code"],
        finding["message"],
        finding["target"],
        finding.get("text", ""),
        finding["range"]["start"]["line"],
    )


def _trait_of(file: CheckedFile, item: FileFinding) -> _Trait:
    finding = item.finding
    line = finding.range.start.line
    return _Trait(finding.code, finding.message, finding.target, finding_words(file, item), line)


def _foreign(path: Path) -> Unreadable:
    return Unreadable(
        f"{path} is not a report of fullgraph; write one with "
        f"`fullgraph check --format json --output {path}` and the paths to check."
    )
