"""Parse the common options of ``fullgraph check`` without importing typer.

Importing typer takes longer than a check with a running engine. A command line with other or wrong
options is left to typer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from fullgraph.cli.check_command import (
    COLORS,
    FORMATS,
    CheckJob,
    resolve_here,
    run_piped,
    split_values,
)

_SWITCHES = {
    "--quiet": "quiet",
    "-q": "quiet",
    "--verbose": "verbose",
    "-v": "verbose",
    "--forecast": "forecast",
}
_TEXTS = {
    "--python": "interpreter",
    "-j": "jobs",
    **{
        f"--{name}": name
        for name in (
            *("mode", "exit-severity", "jobs", "engine-processes", "engine-keep", "timeout"),
            *("memory-limit", "max-targets", "probes-from-file", "format", "color"),
        )
    },
}
_FLAGS = ("cache", "export", "try-dynamic", "try-paths", "probes-from-tests")
_YES = {f"--{name}": name for name in _FLAGS}
_NO = {f"--no-{name}": name for name in _FLAGS}
_LISTS = {f"--{name}": name for name in ("select", "ignore", "severity", "exclude")}


@dataclass(frozen=True)
class CheckArguments:
    """The parsed arguments of ``fullgraph check``; ``flags`` are its settings by name."""

    job: CheckJob
    flags: dict[str, Any] = field(default_factory=dict)


def run_check(arguments: Sequence[str]) -> int | None:
    """Check files and return the exit status; None if only typer can parse the arguments."""
    read = read_arguments(arguments)
    if read is None:
        return None
    return run_piped(lambda: read.job.run(read.flags))


def read_arguments(arguments: Sequence[str]) -> CheckArguments | None:
    """Parse the arguments of ``fullgraph check``; None if only typer can parse them."""
    paths: list[str] = []
    switches: set[str] = set()
    texts: dict[str, str] = {}
    lists: dict[str, list[str]] = {}
    chosen: dict[str, bool] = {}
    remaining = list(arguments)
    while remaining:
        word = remaining.pop(0)
        name, equals, value = word.partition("=")
        if word == "-" or not word.startswith("-"):
            paths.append(word)
        elif word in _SWITCHES:
            switches.add(_SWITCHES[word])
        elif word in _YES or word in _NO:
            flag = _YES.get(word) or _NO[word]
            if chosen.setdefault(flag, word in _YES) is not (word in _YES):
                return None
        elif name in _TEXTS or name in _LISTS:
            if not equals and remaining:
                value = remaining.pop(0)
            if not value or value.startswith("-") or (equals and not name.startswith("--")):
                return None
            if name in _LISTS:
                lists.setdefault(_LISTS[name], []).append(value)
            elif texts.setdefault(_TEXTS[name], value) != value:
                return None
        else:
            return None
    form, color = texts.pop("format", "text"), texts.pop("color", "auto")
    if not paths or "" in paths or form not in FORMATS or color not in COLORS:
        return None
    job = CheckJob(
        paths=tuple(dict.fromkeys(paths)),
        form=form,
        color=color,
        quiet="quiet" in switches,
        verbose="verbose" in switches,
        forecast="forecast" in switches,
    )
    joint = {key: split_values(values) for key, values in lists.items()}
    flags: dict[str, Any] = {**texts, **joint, **chosen}
    if "interpreter" in flags:
        flags["interpreter"] = resolve_here(flags["interpreter"])
    return CheckArguments(job, flags)
