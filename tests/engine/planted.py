"""Realistic files with one thing in them that the tracer does not like.

``fixtures/repros/around`` holds models as people write them, files and packages, with comments
``# here: NAME`` where something may be planted. Each file of ``fixtures/repros/planted`` is a thing
to plant, and a case of its own::

    # into: translator/attention.py
    import logging                      # goes to "# here: definitions" of that file

    def scores(self, scores):           # its body goes to "# here: scores"
        logging.info(scores.shape)
    #   ^^^^^^^^^^^^^^^^^^^^^^^^^^ graph-break/GB0291 @Translator

The parameters only tell a reader which variables there are. The first marker is what the case is
about; what is found at no planted line is said by a second line ``# shows: CODE @TARGET``. In a
package it is ``model.py`` that is analyzed.
"""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Protocol

sys.path.insert(0, str(Path(__file__).parent))

import markers

from fullgraph_engine.protocol import Finding, Part

FIXTURES = Path(__file__).parents[1] / "fixtures" / "repros"
MAIN = "model.py"
PARTS: tuple[Part, ...] = ("first", "second", "forecast")
"""Of an analysis, in the order in which a finding is looked for."""
_INTO = "# into: "
_SHOWS = re.compile(r"# shows: (\S+) @(\S+)$")
_MARKER = re.compile(r"^\s*#[ <]*\^+ (\S+)", re.MULTILINE)
_PLACE = "# here: "
_TOP = "definitions"


class Analyze(Protocol):
    """``reproducing.Host.findings``."""

    def __call__(self, path: Path, *targets: str, parts: tuple[Part, ...]) -> list[Finding]: ...


class BadCase(ValueError):
    """A case that cannot be planted."""


@dataclass(frozen=True)
class Case:
    """``files`` are the texts by their paths; ``main`` is analyzed, ``marked`` has the marker.
    ``shows``: the code and the target where there is no marker."""

    name: str
    files: dict[str, str]
    main: str
    marked: str
    shows: tuple[str, str] | None = None

    def write(self, folder: Path) -> Path:
        """The path of the file to analyze, with all files below a folder."""
        for path, text in self.files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        return folder / self.main

    def wanted(self, path: Path) -> tuple[str, str, tuple[str, int] | None]:
        """Code, target and place of what is expected, when :meth:`write` has given a path."""
        if self.shows is not None:
            return *self.shows, None
        marked = path.parents[len(Path(self.main).parts) - 1] / self.marked
        found = markers.read(marked).markers
        if not found:
            raise BadCase(f"{self.name}: no marker says what is expected")
        return found[0].code, found[0].target, (str(marked), found[0].line)

    @property
    def code(self) -> str:
        """Of the finding that it is about."""
        if self.shows is not None:
            return self.shows[0]
        found = _MARKER.search(self.files[self.marked])
        if found is None:
            raise BadCase(f"{self.name}: no marker says what is expected")
        return found[1]

    @property
    def lines(self) -> int:
        return sum(text.count("\n") for text in self.files.values())


def cases(*names: str) -> list[Case]:
    """All cases, or those with the names."""
    files = sorted((FIXTURES / "planted").glob("*.py"))
    known = {file.stem: file for file in files}
    return [planted(known[name]) for name in names or known]


def expected(analyze: Analyze, case: Case, path: Path) -> Finding:
    """The finding that a written case is about: it is at its marker, or comes from there.

    Raises:
        BadCase: an analysis does not find it.
    """
    code, target, place = case.wanted(path)
    seen: set[str] = set()
    for part in PARTS:
        found = analyze(path, target, parts=(part,))
        for finding in found:
            places = {(frame.path, frame.line) for frame in finding.stack}
            places.add((str(path), finding.range.start.line))
            if finding.code == code and (place is None or place in places):
                return finding
        seen |= {finding.code for finding in found}
    codes = ", ".join(sorted(seen)) or "nothing"
    raise BadCase(f"{case.name}: {code} is not found, but {codes}")


def planted(file: Path) -> Case:
    """The case of one thing to plant."""
    text = file.read_text(encoding="utf-8")
    first = text.partition("\n")[0]
    if not first.startswith(_INTO):
        raise BadCase(f"{file.name}: its first line says `{_INTO}FILE`")
    into = PurePosixPath(first.removeprefix(_INTO).strip())
    around = FIXTURES / "around"
    folder = around / into.parts[0]
    sources = sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]
    files = {
        source.relative_to(around).as_posix(): source.read_text(encoding="utf-8")
        for source in sources
    }
    parts = _parts(text, _places(files[str(into)]))
    files[str(into)] = _with(files[str(into)], parts, file.name)
    files = {path: _without_places(text) for path, text in files.items()}
    main = str(into.parent / MAIN) if len(into.parts) > 1 else str(into)
    shows = _SHOWS.match(text.split("\n")[1])
    return Case(file.stem, files, main, str(into), shows and (shows[1], shows[2]))


def _parts(text: str, places: set[str]) -> dict[str, list[str]]:
    """The lines for each place, without their indentation."""
    lines = text.rstrip("\n").split("\n")
    parts: dict[str, list[str]] = {_TOP: []}
    spans: list[tuple[int, int, ast.FunctionDef]] = []
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef) and node.name in places:
            end = node.end_lineno or node.lineno
            while end < len(lines) and lines[end].startswith("#"):
                end += 1
            spans.append((node.lineno - 1, end, node))
    at = 1
    for start, end, node in spans:
        parts[_TOP] += lines[at:start]
        # A marker stands in the columns of the line above it, from its "#" on.
        body = lines[node.body[0].lineno - 1 : end]
        parts[node.name] = [line[4:] if line.startswith("    ") else f"-{line}" for line in body]
        at = end
    parts[_TOP] += lines[at:]
    return parts


def _places(text: str) -> set[str]:
    lines = [line.strip() for line in text.split("\n")]
    return {line.removeprefix(_PLACE) for line in lines if line.startswith(_PLACE)} - {_TOP}


def _with(text: str, parts: dict[str, list[str]], name: str) -> str:
    found: list[str] = []
    left = dict(parts)
    for line in text.split("\n"):
        place = line.strip().removeprefix(_PLACE)
        if line.strip().startswith(_PLACE) and place in left:
            indent = line[: len(line) - len(line.lstrip())]
            for planted_line in left.pop(place):
                if planted_line.startswith("-"):  # a marker, whose "#" stood in the first column
                    found.append(f"#{indent[4:]}{planted_line[2:]}")
                else:
                    found.append(f"{indent}{planted_line}".rstrip())
        else:
            found.append(line)
    if left:
        raise BadCase(f"{name}: no place for {', '.join(left)}")
    return "\n".join(found)


def _without_places(text: str) -> str:
    lines = text.split("\n")
    return "\n".join(line for line in lines if not line.strip().startswith(_PLACE))
