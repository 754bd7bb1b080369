"""The file that ``fullgraph record`` writes: arguments that a program passed to module classes of a
workspace.

``docs/recorded-probes.md`` describes it. Arguments are written as in probe comments (``f32[4,
16]``); only the engine parses them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

FILE = "fullgraph.probes.json"
VERSION = 1
MOST_BYTES = 50 << 20

_AGAIN = "delete the file and run `fullgraph record` again"
_CONFLICT = ("<<<<<<< ", ">>>>>>> ")


@dataclass(frozen=True)
class RecordedStep:
    """A later call of a recorded module whose arguments differ in kind from all earlier calls of
    the same object."""

    forward: str
    training: bool = True
    under: str = ""


@dataclass(frozen=True)
class RecordedCall:
    """One way in which a recorded program constructed and called a module class.

    ``parameters`` is the dtype and device that the module was moved to, such as ``bf16@cuda``;
    empty if it was not moved. ``under`` are the other modes and settings of the call, as a probe
    comment writes them inside ``under(…)``. ``then`` are later calls of the same object with
    arguments of other kinds, in order.
    """

    init: str
    forward: str
    training: bool = True
    parameters: str = ""
    under: str = ""
    then: tuple[RecordedStep, ...] = ()


@dataclass(frozen=True)
class RecordedClass:
    """A module class of one file, with calls that ``fullgraph record`` recorded in a user's
    program.

    ``init_signature`` and ``forward_signature`` are the signatures at the time of recording: they
    differ if the class was changed afterwards. ``left_out`` says in sentences which calls could not
    be recorded.
    """

    name: str
    init_signature: str
    forward_signature: str
    calls: tuple[RecordedCall, ...] = ()
    left_out: tuple[str, ...] = ()


Recorded = dict[str, tuple[RecordedClass, ...]]
"""Recorded module classes by file; a file is a path with ``/``, relative to the folder of the
recording."""


class Unreadable(ValueError):
    """Raised for a file of ``fullgraph record`` that cannot be used.

    The message gives the reason and the next step, without the name of the file.
    """


def parse(text: str) -> Recorded:
    """Parse the text of a file that ``fullgraph record`` wrote; return the recorded module classes
    by file.

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
            reason = "is not a recording of this version of fullgraph; " + _AGAIN
        raise Unreadable(reason)
    try:
        return {
            path: tuple(_class(name, one) for name, one in sorted(classes.items()))
            for path, classes in sorted(raw["files"].items())
        }
    except (KeyError, TypeError, AttributeError):
        raise Unreadable("is not a recording that fullgraph can read; " + _AGAIN) from None


def written(recorded: Recorded) -> str:
    """Return recorded module classes as the text of a file: sorted, with one line for each call,
    for readable diffs."""
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
        _text(raw.get("under", "")),
        tuple(_step(one) for one in raw.get("then", ())),
    )


def _step(raw: Mapping[str, Any]) -> RecordedStep:
    training = raw.get("mode", "train") != "eval"
    return RecordedStep(_text(raw["forward"]), training, _text(raw.get("under", "")))


def _plain(call: RecordedCall) -> dict[str, Any]:
    plain: dict[str, Any] = {"init": call.init, "forward": call.forward}
    if not call.training:
        plain["mode"] = "eval"
    if call.parameters:
        plain["parameters"] = call.parameters
    if call.under:
        plain["under"] = call.under
    if call.then:
        plain["then"] = [_plain_step(step) for step in call.then]
    return plain


def _plain_step(step: RecordedStep) -> dict[str, str]:
    plain = {"forward": step.forward}
    if not step.training:
        plain["mode"] = "eval"
    if step.under:
        plain["under"] = step.under
    return plain


def _text(raw: Any) -> str:
    if not isinstance(raw, str):
        raise TypeError
    return raw


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
