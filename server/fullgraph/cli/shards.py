"""Divide the files of a check among several machines, and merge their reports."""

from __future__ import annotations

import base64
import binascii
import dataclasses
import hashlib
import itertools
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph import __version__
from fullgraph.cli.shard import Shard
from fullgraph.cli.sources import SourceFile, UnreadableFile
from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import listing
from fullgraph.domain.positions import TextPositions
from fullgraph.render.checked import CheckedFile, CheckResults, LeftOut
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import (
    ForecastFound,
    TargetReport,
    Timings,
    from_plain,
    to_plain,
)

_LOCAL = frozenset(
    (
        *("interpreter", "jobs", "engine_processes", "engine_keep", "cache"),
        *("time_limit", "file_timeout"),
    )
)
"""Settings that may differ between the machines that check the shards."""


def file_name(file: SourceFile, root: Path) -> str:
    """Return the path of a file relative to the project folder ``root``; outside of it, its path
    as the user wrote it.
    """
    if file.absolute.is_relative_to(root):
        return file.absolute.relative_to(root).as_posix()
    return Path(file.path).as_posix()


def tree_digest(files: Iterable[SourceFile], root: Path, texts: Mapping[str, str]) -> str:
    """Return a digest of the paths and contents of all files of a check.

    ``texts`` replace the contents of files, by path. Files that cannot be read count as empty.
    """
    digest = hashlib.sha256()
    for file in files:
        try:
            text = texts.get(file.path)
            content = file.absolute.read_bytes() if text is None else text.encode()
        except OSError:
            content = b""
        name = file_name(file, root).encode("utf-8", "surrogateescape")
        digest.update(hashlib.sha256(name).digest() + hashlib.sha256(content).digest())
    return digest.hexdigest()


def settings_digest(settings: Settings, *options: object) -> str:
    """Return a digest of the settings and options that must be equal in the check of each shard."""
    values = {
        field.name: getattr(settings, field.name)
        for field in dataclasses.fields(settings)
        if field.name not in _LOCAL
    }
    return hashlib.sha256(repr((values, options)).encode()).hexdigest()


@dataclass(frozen=True)
class _ShardFile:
    """The results of one file; ``place`` is its index in the list of all files of the check.

    ``text`` is the content of the file; the other fields are as in :class:`CheckedFile`.
    """

    place: int
    path: str
    absolute: str
    text: str
    targets: tuple[TargetReport, ...]
    findings: tuple[FileFinding, ...]
    forecasts: tuple[ForecastFound, ...]
    timings: tuple[Timings, ...]
    notes: tuple[str, ...]
    seconds: float
    problem: str
    known: int
    stale: int
    exit_severity: Severity
    left_out: tuple[LeftOut, ...]
    unfinished: bool
    defect: str

    @classmethod
    def from_checked(cls, file: CheckedFile, place: int) -> _ShardFile:
        names = {field.name for field in dataclasses.fields(cls)} - {"place", "text", "findings"}
        findings = tuple(dataclasses.replace(one, run_findings=()) for one in file.findings)
        values = {name: getattr(file, name) for name in names}
        return cls(place=place, text=file.text.text, findings=findings, **values)

    def to_checked(self) -> CheckedFile:
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        del values["place"]
        return CheckedFile(**{**values, "text": TextPositions(self.text)})


@dataclass(frozen=True)
class _ShardState:
    """The results of one shard; ``missing`` has the index and path of each file without results."""

    files: tuple[_ShardFile, ...]
    missing: tuple[tuple[int, str], ...]
    torch: str
    python: str
    seconds: float
    problems: tuple[str, ...]


@dataclass(frozen=True)
class ShardReport:
    """The part of a JSON report from which the reports of all shards are merged.

    ``tree`` and ``settings`` are digests that the reports of one check have in common. ``state``
    has the results, packed as text.
    """

    number: int
    count: int
    fullgraph: str
    tree: str
    settings: str
    state: str

    @classmethod
    def from_results(
        cls,
        shard: Shard,
        checked: CheckResults,
        places: Mapping[str, int],
        *,
        tree: str,
        settings: str,
    ) -> ShardReport:
        """Pack the results of a shard; ``places`` maps the path of a file in the report to its
        index in the list of all files."""
        state = _ShardState(
            tuple(_ShardFile.from_checked(file, places[file.path]) for file in checked.files),
            tuple((places[path], path) for path in checked.missing),
            checked.torch,
            checked.python,
            checked.seconds,
            checked.problems,
        )
        packed = zlib.compress(json.dumps(to_plain(state)).encode(), 6)
        text = base64.b64encode(packed).decode("ascii")
        return cls(shard.number, shard.count, __version__, tree, settings, text)

    @classmethod
    def read(cls, path: Path) -> ShardReport:
        """Read the report of a shard from a JSON file.

        Raises:
            UnreadableFile: The file cannot be read, or is not the report of a shard.
        """
        try:
            return from_plain(cls, json.loads(path.read_text(encoding="utf-8"))["shard"])  # type: ignore[no-any-return]
        except OSError as error:
            raise UnreadableFile(f"Cannot read {path}: {error.strerror or error}.") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _not_a_shard(path) from error

    def unpack(self, path: Path) -> _ShardState:
        """Return the results; ``path`` names the file in error messages.

        Raises:
            UnreadableFile: The file is damaged.
        """
        try:
            plain = json.loads(zlib.decompress(base64.b64decode(self.state, validate=True)))
            return from_plain(_ShardState, plain)  # type: ignore[no-any-return]
        except (
            *(ValueError, KeyError, TypeError, AttributeError),
            *(binascii.Error, zlib.error),
        ) as error:
            raise _not_a_shard(path) from error


def merge_reports(paths: Sequence[Path]) -> CheckResults:
    """Merge the JSON reports of all shards of one check.

    Raises:
        UnreadableFile: A report is missing or does not fit the others; the message says which.
    """
    reports = {path: ShardReport.read(path) for path in paths}
    _check_same_run(reports)
    _check_all_shards(reports)
    states = {path: report.unpack(path) for path, report in reports.items()}
    _check_same_version("torch", {path: state.torch for path, state in states.items()})
    _check_same_version("Python", {path: state.python for path, state in states.items()})
    ordered = [
        state for _, state in sorted(states.items(), key=lambda item: reports[item[0]].number)
    ]
    files = sorted((one for state in ordered for one in state.files), key=lambda one: one.place)
    missing = sorted(one for state in ordered for one in state.missing)
    problems = dict.fromkeys(one for state in ordered for one in state.problems)
    return CheckResults(
        tuple(one.to_checked() for one in files),
        torch=_join_versions(state.torch for state in ordered),
        python=_join_versions(state.python for state in ordered),
        seconds=sum(state.seconds for state in ordered),
        problems=tuple(problems),
        missing=tuple(path for _, path in missing),
    )


def _check_same_run(reports: Mapping[Path, ShardReport]) -> None:
    """Raise UnreadableFile unless all reports come from one check: equal files, settings, number of
    shards and version of fullgraph."""
    (first, one), *others = reports.items()
    for path, other in others:
        if other.fullgraph != one.fullgraph:
            raise UnreadableFile(
                f"{path} was written by fullgraph {other.fullgraph} and {first} by "
                f"{one.fullgraph}; use one version for all shards."
            )
        if other.count != one.count:
            raise UnreadableFile(
                f"{path} is one of {other.count} shards and {first} one of {one.count}; check all "
                "shards with the same count."
            )
        if other.tree != one.tree:
            raise UnreadableFile(
                f"{path} reports other files than {first}; check all shards with the same "
                "paths, on the same revision."
            )
        if other.settings != one.settings:
            raise UnreadableFile(
                f"{path} was written with other settings or options than {first}; check all shards "
                "with the same ones."
            )


def _check_all_shards(reports: Mapping[Path, ShardReport]) -> None:
    """Raise UnreadableFile unless each shard has one report."""
    known: dict[int, Path] = {}
    for path, report in reports.items():
        before = known.setdefault(report.number, path)
        if before != path:
            raise UnreadableFile(
                f"{before} and {path} are both shard {report.number}/{report.count}; pass one "
                "report of each shard."
            )
    count = next(iter(reports.values())).count
    lacking = [f"{number}/{count}" for number in range(1, count + 1) if number not in known]
    if lacking:
        words = f"Shard {lacking[0]} is" if len(lacking) == 1 else f"Shards {listing(lacking)} are"
        raise UnreadableFile(f"{words} missing; pass the reports of all shards.")


def _check_same_version(name: str, versions: Mapping[Path, str]) -> None:
    """Raise UnreadableFile if two shards were traced with different versions.

    The version of a shard is empty if it did not trace any file.
    """
    for (path, one), (other_path, other) in itertools.combinations(versions.items(), 2):
        if one and other and set(one.split(", ")).isdisjoint(other.split(", ")):
            raise UnreadableFile(
                f"{path} was written with {name} {one} and {other_path} with {name} {other}; use "
                "one version for all shards."
            )


def _join_versions(versions: Iterable[str]) -> str:
    return ", ".join(sorted({one for text in versions for one in text.split(", ")} - {""}))


def _not_a_shard(path: Path) -> UnreadableFile:
    return UnreadableFile(
        f"{path} is not the report of a shard; write one with `fullgraph check --format json "
        "--shard NUMBER/COUNT`."
    )


def shard_json(report: ShardReport) -> dict[str, Any]:
    """Return the value of the key ``shard`` in a JSON report."""
    return dataclasses.asdict(report)
