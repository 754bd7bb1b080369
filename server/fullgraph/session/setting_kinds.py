"""The types of settings: each parses values from configuration files, editors and command lines,
and describes itself as JSON schema."""

from __future__ import annotations

import abc
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fullgraph.domain.codes import Severity, is_known_selector
from fullgraph.domain.phrases import listing
from fullgraph.session import allowances
from fullgraph_engine.protocol import Allowance


class SettingKind(abc.ABC):
    """The type of a setting."""

    @abc.abstractmethod
    def read_value(self, raw: object) -> Any:
        """Return the parsed value.

        Raises:
            ValueError: The value is invalid. The message completes a sentence that begins with the
                name of the setting: "must be ...".
        """

    @abc.abstractmethod
    def json_schema(self) -> dict[str, Any]: ...

    @property
    @abc.abstractmethod
    def metavar(self) -> str:
        """Placeholder for the value in the help of the command line."""

    def from_arguments(self, given: Sequence[str]) -> object:
        """Return the raw value for ``read_value`` from the arguments of a command-line option that
        was given once or more.
        """
        return given[-1]


@dataclass(frozen=True)
class TextKind(SettingKind):
    """The type of settings with a string as the value; surrounding whitespace is removed."""

    metavar: str = "TEXT"

    def read_value(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError("must be a string")
        return raw.strip()

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}


class InterpreterKind(TextKind):
    """The type of settings with the path or name of a Python interpreter as the value.

    On the command line, a path is relative to the current folder.
    """

    def from_arguments(self, given: Sequence[str]) -> str:
        return resolve_here(given[-1])


@dataclass(frozen=True)
class FlagKind(SettingKind):
    """The type of settings with a boolean as the value."""

    metavar: str = ""

    def read_value(self, raw: object) -> bool:
        if not isinstance(raw, bool):
            raise ValueError("must be true or false")
        return raw

    def json_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class NumberKind(SettingKind):
    """The type of settings with a number of at least ``least`` as the value; with ``whole`` an
    integer, which may be written ``2.0``.
    """

    least: float
    unit: str = ""
    whole: bool = True

    @property
    def metavar(self) -> str:
        return self.unit.upper() or "N"

    def read_value(self, raw: object) -> int | float:
        wanted = "a whole number" if self.whole else "a number"
        unit = f" of {self.unit}" if self.unit else ""
        complaint = f"must be {wanted}{unit}, at least {self.least:g}"
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueError(complaint)
        try:
            value = float(raw)
        except ValueError:
            raise ValueError(complaint) from None
        # NaN fails this comparison as well, and infinity cannot become an integer.
        if not self.least <= value < float("inf") or (self.whole and value != int(value)):
            raise ValueError(complaint)
        return int(value) if self.whole else value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer" if self.whole else "number", "minimum": self.least}


@dataclass(frozen=True)
class Choice(SettingKind):
    """The type of settings with one of a few words as the value, each with its description."""

    words: tuple[tuple[str, str], ...]

    @property
    def metavar(self) -> str:
        return "|".join(word for word, _ in self.words)

    def read_value(self, raw: object) -> str:
        return _read_word(raw, [word for word, _ in self.words])

    def json_schema(self) -> dict[str, Any]:
        return {
            "type": "string",
            "enum": [word for word, _ in self.words],
            "markdownEnumDescriptions": [description for _, description in self.words],
        }


@dataclass(frozen=True)
class SeverityKind(SettingKind):
    """The type of settings with a severity as the value."""

    metavar: str = "|".join(Severity)

    def read_value(self, raw: object) -> Severity:
        return Severity(_read_word(raw, _SEVERITIES))

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": _SEVERITIES}


@dataclass(frozen=True)
class Texts(SettingKind):
    """The type of settings with a list of strings as the value; a single string is split at commas,
    as on a command line.
    """

    item: str = "TEXT"
    """Placeholder for one string of the list."""

    @property
    def metavar(self) -> str:
        return f"{self.item},..."

    def from_arguments(self, given: Sequence[str]) -> list[str]:
        return [part for text in given for part in text.split(",")]

    def read_value(self, raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            raw = raw.split(",")
        if not isinstance(raw, (list, tuple)) or not all(isinstance(item, str) for item in raw):
            raise ValueError("must be a list of strings")
        return tuple(item.strip() for item in raw if item.strip())

    def json_schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}}


class Arguments(Texts):
    """The type of the setting with a program's command-line arguments; an option adds one argument,
    which may contain commas.
    """

    @property
    def metavar(self) -> str:
        return self.item

    def from_arguments(self, given: Sequence[str]) -> list[str]:
        return list(given)


class Folders(Texts):
    """The type of settings with a list of folders; on the command line, they are relative to the
    current folder.
    """

    def from_arguments(self, given: Sequence[str]) -> list[str]:
        return [str(Path.cwd() / path) for path in super().from_arguments(given)]


class Allowances(Texts):
    """The type of the setting with a list of the permissions that the sandbox grants to user
    code.
    """

    def read_value(self, raw: object) -> tuple[Allowance, ...]:  # type: ignore[override]
        return tuple(
            dict.fromkeys(allowances.parse_allowance(text) for text in super().read_value(raw))
        )

    def json_schema(self) -> dict[str, Any]:
        patterns = [f"^{kind}:.+" for kind in allowances.WITH_VALUE]
        items = [{"enum": list(allowances.PLAIN)}, *({"pattern": one} for one in patterns)]
        return {
            "type": "array",
            "uniqueItems": True,
            "items": {"type": "string", "anyOf": items},
        }


class Codes(Texts):
    """The type of settings with a list of finding codes, or of their prefixes up to a slash."""

    def read_value(self, raw: object) -> tuple[str, ...]:
        selectors = tuple(_clean_selector(text) for text in super().read_value(raw))
        _check_selectors(selectors)
        return selectors


@dataclass(frozen=True)
class Severities(SettingKind):
    """The type of settings with a mapping from finding codes to severities."""

    metavar: str = "CODE=SEVERITY,..."

    def from_arguments(self, given: Sequence[str]) -> list[str]:
        return Texts().from_arguments(given)

    def read_value(self, raw: object) -> Mapping[str, Severity]:
        wanted = f"must map finding codes to {_join_alternatives(_SEVERITIES)}"
        if isinstance(raw, (str, list, tuple)):
            raw = _split_pairs(Texts().read_value(raw), wanted)
        if not isinstance(raw, Mapping):
            raise ValueError(wanted)
        chosen: dict[str, Severity] = {}
        for code, name in raw.items():
            if not isinstance(name, str) or name.lower() not in _SEVERITIES:
                raise ValueError(f"{wanted}, but {code!r} has {name!r}")
            chosen[_clean_selector(str(code))] = Severity(name.lower())
        _check_selectors(chosen)
        return chosen

    def json_schema(self) -> dict[str, Any]:
        return {"type": "object", "additionalProperties": {"type": "string", "enum": _SEVERITIES}}


_SEVERITIES = [severity.value for severity in Severity]


def _read_word(raw: object, words: Sequence[str]) -> str:
    value = raw.strip().lower() if isinstance(raw, str) else raw
    if not isinstance(value, str) or value not in words:
        raise ValueError(f"must be {_join_alternatives(words)}")
    return value


def resolve_here(path: str) -> str:
    """Make a path from the command line absolute; the names of commands stay as they are."""
    if not path.strip() or not (os.sep in path or path.startswith("~")):
        return path
    return str(Path.cwd() / Path(path).expanduser())


def _split_pairs(texts: Iterable[str], wanted: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        code, equals, name = text.partition("=")
        if not equals:
            raise ValueError(f"{wanted}, written CODE=SEVERITY, but {text!r} has no '='")
        pairs[code.strip()] = name.strip()
    return pairs


def _clean_selector(text: str) -> str:
    return text.strip().removesuffix("*").rstrip("/")


def _check_selectors(selectors: Iterable[str]) -> None:
    for selector in selectors:
        if not is_known_selector(selector):
            raise ValueError(
                f"names {selector!r}, which is not a finding code or the beginning of one"
            )


def _join_alternatives(words: Iterable[str]) -> str:
    return listing((f'"{word}"' for word in words), "or")
