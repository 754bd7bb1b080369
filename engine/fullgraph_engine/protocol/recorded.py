"""The file that ``fullgraph record`` writes: calls of the modules in a workspace.

``docs/recorded-probes.md`` describes its format. Arguments are in probe notation, which only the
engine parses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FILE = "fullgraph.probes.json"
VERSION = 1
MOST_BYTES = 50 << 20

_AGAIN = "delete it and run `fullgraph record` again"
_CONFLICT = ("<<<<<<< ", ">>>>>>> ")


@dataclass(frozen=True)
class RecordedCall:
    """One way to construct and call a class.

    ``parameters`` is the dtype and device that the module was moved to, such as ``bf16@cuda``;
    empty if it was not moved.
    """

    init: str
    forward: str
    training: bool = True
    parameters: str = ""


@dataclass(frozen=True)
class RecordedClass:
    """A module class of one file, by its name there.

    ``init_signature`` and ``forward_signature`` show whether the class has changed since the
    recording. ``left_out`` says in sentences which calls could not be written.
    """

    name: str
    init_signature: str
    forward_signature: str
    calls: tuple[RecordedCall, ...] = ()
    left_out: tuple[str, ...] = ()


Recorded = dict[str, tuple[RecordedClass, ...]]
"""Recorded classes by file: a path with ``/``, relative to the folder of the recording."""


class Unreadable(ValueError):
    """An error for an unusable recording: the reason and the next step, without the file's name."""


def parse(text: str) -> Recorded:
    """Parse the classes of a recording.

    Raises:
        Unreadable: The text is not a recording, or has another version.
    """
    try:
        raw = json.loads(text)
    except (ValueError, RecursionError):
        if any(line.startswith(_CONFLICT) for line in text.splitlines()):
            reason = "has conflict markers of a merge; resolve them, or " + _AGAIN
        else:
            reason = "is not valid JSON; " + _AGAIN
        raise Unreadable(reason) from None
    version = raw.get("version") if isinstance(raw, dict) else None
    if version != VERSION:
        if isinstance(version, int) and version > VERSION:
            reason = f"has version {version}, which a newer fullgraph wrote; update fullgraph"
        else:
            reason = "is no recording of this version of fullgraph; " + _AGAIN
        raise Unreadable(reason)
    try:
        return {
            path: tuple(_class(name, one) for name, one in sorted(classes.items()))
            for path, classes in sorted(raw["files"].items())
        }
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("is no recording that fullgraph can read; " + _AGAIN) from None


def written(recorded: Recorded) -> str:
    """Write a recording as text: sorted, with one line per call, so that diffs are readable."""
    lines = ["{", f'  "version": {VERSION},', '  "files": {']
    files = sorted(recorded.items())
    for path, classes in files:
        lines.append(f"    {_json(path)}: {{")
        for one in sorted(classes, key=lambda one: one.name):
            lines += [
                f"      {_json(one.name)}: {{",
                f'        "init": {_json(one.init_signature)},',
                f'        "forward": {_json(one.forward_signature)},',
            ]
            calls = [_json(_plain(call)) for call in one.calls]
            lines += _list("calls", calls, "," if one.left_out else "")
            if one.left_out:
                lines += _list("left_out", [_json(words) for words in one.left_out], "")
            lines.append("      },")
        lines[-1] = lines[-1].rstrip(",")
        lines.append("    },")
    lines[-1] = lines[-1].rstrip(",")
    return "\n".join([*lines, "  }", "}", ""])


def _list(name: str, items: list[str], end: str) -> list[str]:
    if not items:
        return [f'        "{name}": []{end}']
    inner = [f"          {item}," for item in items]
    inner[-1] = inner[-1].rstrip(",")
    return [f'        "{name}": [', *inner, f"        ]{end}"]


def _class(name: str, raw: Mapping[str, Any]) -> RecordedClass:
    return RecordedClass(
        name,
        _text(raw["init"]),
        _text(raw["forward"]),
        tuple(_call(call) for call in raw["calls"]),
        tuple(_text(words) for words in raw.get("left_out", ())),
    )


def _call(raw: Mapping[str, Any]) -> RecordedCall:
    return RecordedCall(
        _text(raw["init"]),
        _text(raw["forward"]),
        raw.get("mode", "train") != "eval",
        _text(raw.get("parameters", "")),
    )


def _plain(call: RecordedCall) -> dict[str, str]:
    plain = {"init": call.init, "forward": call.forward}
    if not call.training:
        plain["mode"] = "eval"
    if call.parameters:
        plain["parameters"] = call.parameters
    return plain


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise TypeError
    return raw


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
