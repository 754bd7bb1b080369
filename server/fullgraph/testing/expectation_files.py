"""Files with the findings that tests expect, which ``pytest --fullgraph-update`` writes.

A file has a section for each check, so that tests in any order and in several processes can share
it. An entry names a cause. A person may add ``"if"``, ``"may"`` and ``"reason"`` to it; updates
keep them.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from fullgraph.cli.versioned_files import has_conflict_markers, replace_text
from fullgraph.testing.causes import Cause

VERSION = 1
UPDATE = "pytest --fullgraph-update"
_CAUSE_KEYS = tuple(field.name for field in dataclasses.fields(Cause))


class InvalidExpectations(Exception):
    """Raised for a file that cannot be used; the message is a sentence with the next step."""


@dataclass(frozen=True)
class Expectation:
    """An expected cause.

    ``condition`` is a requirement (``torch>=2.14``) or an environment marker; if it does not hold,
    the cause is not expected. It may be empty. ``may``: the cause need not occur. ``reason`` is a
    person's explanation.
    """

    cause: Cause
    condition: str = ""
    may: bool = False
    reason: str = ""

    @property
    def applies(self) -> bool:
        """Whether the condition holds in this environment."""
        return not self.condition or condition_holds(self.condition)


@dataclass(frozen=True)
class Comparison:
    """Causes of findings that differ from the expectations of a test.

    ``unexpected`` occurred without being expected, ``missing`` were expected and did not occur.
    """

    unexpected: tuple[Cause, ...]
    missing: tuple[Expectation, ...]


def compare(expectations: Sequence[Expectation], found: Sequence[Cause]) -> Comparison:
    """Compare the causes that occurred in a check with its expectations."""
    usable = [one for one in expectations if one.applies]
    pairs = _match(usable, found)
    matched = set(pairs.values())
    missing = (one for number, one in enumerate(usable) if number not in matched and not one.may)
    unexpected = (cause for number, cause in enumerate(found) if number not in pairs)
    return Comparison(tuple(unexpected), tuple(missing))


def update_expectations(
    expectations: Sequence[Expectation], found: Sequence[Cause]
) -> tuple[Expectation, ...]:
    """Return the expectations of a check after an update, sorted by file and function.

    What a person added to an entry stays. Entries for other environments and entries that need not
    occur stay as well.
    """
    usable = [one for one in expectations if one.applies]
    pairs = _match(usable, found)
    matched = set(pairs.values())
    result = [one for one in expectations if not one.applies]
    result += [one for number, one in enumerate(usable) if one.may and number not in matched]
    for number, cause in enumerate(found):
        known = usable[pairs[number]] if number in pairs else Expectation(cause)
        result.append(dataclasses.replace(known, cause=cause))
    return tuple(sorted(result, key=_order))


def _match(usable: Sequence[Expectation], found: Sequence[Cause]) -> dict[int, int]:
    """Match causes with expectations, one to one; return the index of the expectation by the index
    of the cause.

    Equal causes are matched first. Then graph breaks on the same source line are matched even if
    their code or message differs, because these depend on the version of torch.
    """
    pairs: dict[int, int] = {}
    free = dict(enumerate(usable))
    for same in (_is_equal, _is_same_place):
        for number, cause in enumerate(found):
            if number in pairs:
                continue
            chosen = next((key for key, one in free.items() if same(one.cause, cause)), None)
            if chosen is not None:
                pairs[number] = chosen
                del free[chosen]
    return pairs


def _is_equal(one: Cause, other: Cause) -> bool:
    return one == other


def _is_same_place(one: Cause, other: Cause) -> bool:
    places = [(cause.family, cause.file, cause.function, cause.source) for cause in (one, other)]
    if places[0] != places[1]:
        return False
    return one.family != "recompile" or one.message == other.message


def condition_holds(condition: str) -> bool:
    """Whether a requirement (``torch>=2.14``) or an environment marker holds here.

    A missing package does not fulfill a requirement. A development version counts as its release.

    Raises:
        ValueError: The condition is neither.
    """
    try:
        requirement = Requirement(condition)
    except InvalidRequirement:
        try:
            return bool(Marker(condition).evaluate())
        except (InvalidMarker, UndefinedEnvironmentName) as error:
            raise ValueError(condition) from error
    if requirement.marker is not None and not requirement.marker.evaluate():
        return False
    try:
        version = Version(Version(metadata.version(requirement.name)).base_version)
    except (metadata.PackageNotFoundError, InvalidVersion):
        return False
    return requirement.specifier.contains(version, prereleases=True)


Sections = Mapping[str, tuple[Expectation, ...]]
"""Expectations by the name of the check (``test_models.py::test_generate``)."""


def read_sections(path: Path) -> Sections:
    """Read a file of expectations.

    Raises:
        FileNotFoundError: The file does not exist.
        InvalidExpectations: The file is not valid.
    """
    name = path.name
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidExpectations(f"Cannot read {name}: {error}.") from error
    if has_conflict_markers(text):
        raise InvalidExpectations(
            f"{name} has conflict markers of a merge; keep one side, then run `{UPDATE}`."
        )
    again = f"correct it, or delete it and run `{UPDATE}`"
    try:
        plain = json.loads(text)
    except ValueError as error:
        raise InvalidExpectations(f"{name} is not valid JSON ({error}); {again}.") from error
    version = plain.get("version") if isinstance(plain, dict) else None
    if version is None:
        raise InvalidExpectations(f"{name} is not a file of expectations; {again}.")
    if version != VERSION:
        raise InvalidExpectations(
            f"{name} has version {version}, and this fullgraph reads version {VERSION}; use the "
            f"fullgraph that wrote it, or delete it and run `{UPDATE}`."
        )
    try:
        return {test: tuple(map(_parse_entry, entries)) for test, entries in plain["tests"].items()}
    except ValueError as error:
        raise InvalidExpectations(
            f"{name} has the condition {error}, which is neither a requirement (`torch>=2.14`) nor "
            "an environment marker; correct it."
        ) from error
    except (KeyError, TypeError, AttributeError) as error:
        raise InvalidExpectations(f"{name} has an entry without {error}; {again}.") from error


def _parse_entry(plain: Mapping[str, Any]) -> Expectation:
    condition = plain.get("if", "")
    if condition:
        condition_holds(condition)
    cause = Cause(*(plain[key] for key in _CAUSE_KEYS))
    return Expectation(cause, condition, bool(plain.get("may")), plain.get("reason", ""))


def update_file(path: Path, found: Mapping[str, Sequence[Cause]]) -> bool:
    """Write the causes that checks found into a file; ``found`` has them by the name of the check.

    Sections of other checks stay. Return whether the file changed.

    Raises:
        InvalidExpectations: The existing file is not valid; it stays as it is.
        OSError: The file cannot be written.
    """
    try:
        sections = dict(read_sections(path))
    except FileNotFoundError:
        sections = {}
    for check, causes in found.items():
        sections[check] = update_expectations(sections.get(check, ()), causes)
    text = _sections_text(sections)
    if path.exists() and path.read_text("utf-8") == text:
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_text(path, text)
    return True


def _sections_text(sections: Sections) -> str:
    tests = {
        name: [_entry(one) for one in sorted(sections[name], key=_order)]
        for name in sorted(sections)
        if sections[name]
    }
    return json.dumps({"version": VERSION, "tests": tests}, indent=2, ensure_ascii=False) + "\n"


def _entry(one: Expectation) -> dict[str, Any]:
    plain: dict[str, Any] = {key: getattr(one.cause, key) for key in _CAUSE_KEYS}
    if one.condition:
        plain["if"] = one.condition
    if one.may:
        plain["may"] = True
    if one.reason:
        plain["reason"] = one.reason
    return plain


def _order(one: Expectation) -> tuple[str, ...]:
    cause = one.cause
    place = cause.file, cause.function, cause.source, cause.code, cause.message
    return (*place, one.condition, one.reason)


def missing_text(missing: Iterable[Expectation], file: str) -> str:
    """Return sentences for the user about expected causes that did not occur; ``file`` contains the
    expectations."""
    return "\n".join(
        f"{file} expects {one.cause.words}, but it did not occur. Remove it with `{UPDATE}`, or "
        'give it `"may": true` if it does not always occur.'
        for one in missing
    )
