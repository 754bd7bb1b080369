"""Remove entries of findings that no longer occur from a baseline file, and keep the rest of its
text."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fullgraph.cli.baseline import Baseline, KnownFile
from fullgraph.cli.rewriting import replace_bytes
from fullgraph.cli.sources import UnreadableFile, absolute_path
from fullgraph.domain.codes import find_row
from fullgraph.render.checked import CheckedFile

_DECODER = json.JSONDecoder()
_SPACE = re.compile(r"[ \t\r\n]*")


class BaselineTrim:
    """A baseline that hides findings, and removes its entries for findings that no longer occur.

    An entry is removed only if a complete trace of its file looked for the finding.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._baseline = Baseline.read(path)
        self._text = path.read_bytes().decode("utf-8")
        top = _list_items(self._text, _skip_space(self._text, 0))
        self._is_report = all(item.key != "baseline" for item in top)
        """True if the file is the report of a check; such a file is not changed."""
        self._removed: dict[Path, frozenset[int]] = {}

    @property
    def known(self) -> Mapping[Path, KnownFile]:
        """The accepted findings, including the entries to remove, by the path of the checked
        file."""
        return self._baseline.known

    def settle(self, file: CheckedFile) -> CheckedFile:
        """Remove the accepted findings of a file, and remember which entries of the baseline are
        outdated. :meth:`write` removes these entries."""
        settled = self._baseline.settle(file)
        if self._is_report or not settled.stale:
            return settled
        known = self._baseline.find_known(file).findings
        removed = frozenset(
            number
            for number in self._baseline.find_stale(file)
            if _is_conclusive(file, known[number].trait.code)
        )
        self._removed[absolute_path(Path(file.path))] = removed
        return dataclasses.replace(settled, stale=settled.stale - len(removed))

    def write(self) -> tuple[str, ...]:
        """Remove the entries from the file, and return a sentence about each.

        Raises:
            UnreadableFile: The file cannot be written, or another program has changed it.
        """
        if not any(self._removed.values()):
            return ()
        after = _remove_entries(self._text, self._path, self._removed)
        try:
            if self._path.read_bytes() != self._text.encode():
                raise UnreadableFile(f"{self._path} was changed during the check; run it again.")
            replace_bytes(self._path.resolve(), after.encode())
        except OSError as error:
            reason = error.strerror or error
            raise UnreadableFile(f"Cannot write {self._path}: {reason}.") from error
        return tuple(self._describe_removed())

    def _describe_removed(self) -> Iterator[str]:
        for path, numbers in self._removed.items():
            for number in sorted(numbers):
                trait = self._baseline.known[path].findings[number].trait
                yield (
                    f"{self._path}: removed {trait.code} of {path.name} (`{trait.text}`), which no "
                    "longer occurs."
                )


def _is_conclusive(file: CheckedFile, code: str) -> bool:
    """Whether a check can show that findings with this code no longer occur in the file.

    A complete trace must have looked for them, or the file has nothing to trace.
    """
    if file.targets or file.problem:
        return find_row(code).name in file.conclusive
    return not any(item.finding.code.startswith(("trace/", "program/")) for item in file.findings)


@dataclass(frozen=True)
class _Item:
    """An item of a JSON object or array. ``start``, ``value_at`` and ``end`` are offsets in the
    text; ``key`` is empty in arrays."""

    start: int
    value_at: int
    end: int
    key: str
    value: object


def _list_items(text: str, at: int) -> Iterator[_Item]:
    """Yield the items of the JSON object or array that starts at the offset ``at``."""
    is_object = text[at] == "{"
    at = _skip_space(text, at + 1)
    while text[at] not in "]}":
        start, key = at, ""
        if is_object:
            key, at = _DECODER.raw_decode(text, at)
            at = _skip_space(text, _skip_space(text, at) + 1)
        value, end = _DECODER.raw_decode(text, at)
        yield _Item(start, at, end, key, value)
        at = _skip_space(text, end)
        if text[at] == ",":
            at = _skip_space(text, at + 1)


def _skip_space(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found is not None else at


def _remove_entries(text: str, path: Path, removed: dict[Path, frozenset[int]]) -> str:
    """Return the text of the baseline file ``path`` without some entries of findings.

    ``removed`` maps the path of a checked file to the indices of its entries to remove. The section
    of a file without remaining entries is removed too.
    """
    top = _list_items(text, _skip_space(text, 0))
    files = next((item for item in top if item.key == "files"), None)
    if files is None:
        return text
    folder = absolute_path(path).parent
    cuts: list[tuple[int, int]] = []
    items = list(_list_items(text, files.value_at))
    emptied = set[int]()
    for place, item in enumerate(items):
        entries = list(_list_items(text, item.value_at))
        findings = [
            number
            for number, entry in enumerate(entries)
            if not (isinstance(entry.value, dict) and "allow" in entry.value)
        ]
        gone = {findings[number] for number in removed.get(absolute_path(folder / item.key), ())}
        if gone and len(gone) == len(entries):
            emptied.add(place)
        else:
            cuts += _cut_items(entries, gone)
    if items and len(emptied) == len(items):
        cuts = [(files.value_at + 1, files.end - 1)]
    else:
        cuts += _cut_items(items, emptied)
    for start, end in sorted(cuts, reverse=True):
        text = text[:start] + text[end:]
    return text


def _cut_items(items: Sequence[_Item], removed: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of text to remove, so that the items with indices in ``removed`` disappear.
    At least one item must remain."""
    first_kept = next((place for place in range(len(items)) if place not in removed), len(items))
    for place in removed:
        if place < first_kept:
            yield items[place].start, items[place + 1].start
        else:
            yield items[place - 1].end, items[place].end
