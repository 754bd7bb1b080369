"""Where Dynamo reports graph breaks.

| torch | how a break that Dynamo acts on is reported |
|---|---|
| since 2.11 | ``InstructionTranslatorBase.log_graph_break(code_options, reason, exc)`` |
| 2.10 | the same without ``exc``: it is the one being handled |
| up to 2.9 | a function ``log_graph_break(code_options, reason)``; jumps on data raise nothing |

Up to 2.9 a break that Dynamo cannot resume from is not reported at all: it takes up the last
instruction before it that it can resume from.
"""

from __future__ import annotations

import json
import re
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from .. import texts
from .binding import Internal, Spelling, internal

SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"

_SC = "torch._dynamo.symbolic_convert"
_EXC = "torch._dynamo.exc"

LOG = Internal(
    "breaks",
    "graph breaks",
    (
        Spelling(
            _SC,
            "InstructionTranslatorBase.log_graph_break",
            "since 2.10",
            "the function became a method, and since 2.11 takes the exception",
        ),
        Spelling(_SC, "log_graph_break", "up to 2.9"),
    ),
)
UNREPORTED = Internal(
    "breaks",
    "graph breaks that Dynamo cannot resume from",
    (
        Spelling(
            _SC,
            "SpeculationEntry.fail_and_restart_analysis",
            "up to 2.9",
            "breaks that cannot be resumed from are reported like the others",
        ),
    ),
)
"""Not among :data:`INTERNALS`: where breaks are reported by a method nothing is missing."""
UNSUPPORTED = internal(
    "breaks", "where and why a break arose, with columns", _EXC, "Unsupported.__init__"
)
USER_ERROR = internal("breaks", "breaks that are the user's errors", _EXC, "UserError.__init__")

WORDS = Internal(
    "breaks",
    "the words of breaks that no exception is raised for",
    (
        Spelling(
            _SC, "format_graph_break_message", "up to 2.10", "a jump on data raises no exception"
        ),
        Spelling(_EXC, "format_graph_break_message", "since 2.11"),
    ),
)

INTERNALS = (LOG, UNSUPPORTED, USER_ERROR, WORDS)


class Reported(NamedTuple):
    """What Dynamo reported: ``translator`` and ``error`` are None where it does not say."""

    translator: Any
    reason: str
    error: BaseException | None


def reported(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Reported:
    """The arguments of a call of :data:`LOG`, whatever this torch takes."""
    method = not isinstance(args[0], dict) if args else "code_options" not in kwargs
    translator, rest = (args[0], args[1:]) if method and args else (None, args)
    reason = kwargs.get("reason", rest[1] if len(rest) > 1 else "")
    error = kwargs.get("exc", rest[2] if len(rest) > 2 else None)
    if not isinstance(error, BaseException):
        # The one being handled, if the report is in its words: a jump on data may be handling one.
        error = sys.exc_info()[1]
        if error is not None and texts.error_message(error) not in str(reason):
            error = None
    return Reported(translator, str(reason), error)


def hides_some() -> bool:
    """Whether this torch does not report breaks that it cannot resume from."""
    return LOG.spelling() == LOG.spellings[1]


def goes_back(speculation: Any) -> bool:
    """Whether a failed speculation is about an instruction before the one that broke the graph.

    The others have a reason, or are of ``STORE_ATTR``, and are reported.
    """
    return speculation.reason is None and speculation.inst.opname != "STORE_ATTR"


@lru_cache(maxsize=1)
def registry() -> dict[str, str]:
    """Break type to number (``GB0059``), from the file that torch ships; empty where none."""
    import torch._dynamo

    path = Path(torch._dynamo.__file__).with_name("graph_break_registry.json")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {entry["Gb_type"]: number for number, entries in raw.items() for entry in entries}


def link(number: str) -> str:
    """The page of a numbered break; empty for an unnumbered one."""
    return f"{SITE}gb{number.removeprefix('GB')}.html" if number else ""


def slug(words: str) -> str:
    """A stable name for a break without a number: its type in kebab case."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60].rstrip("-") or "unknown"


_OPERATOR = ("Data dependent operator", "Dynamic shape operator")
"""Titles of breaks whose context names an operator with a result that depends on data."""
_READS = {
    "Unsupported Tensor.item()": "Tensor.item()",
    "Tensor.tolist()": "Tensor.tolist()",
    "Tensor.numpy()": "Tensor.numpy()",
    "Data-dependent value": "Tensor.item()",
    "Data-dependent branching": "bool(Tensor)",
    "Data-dependent assertion": "bool(Tensor)",
    "Dynamic slicing with Tensor": "Tensor.__index__()",
    "Indexing list with non-scalar tensor": "Tensor.__index__()",
}
"""Beginnings of titles, and what reads the value of a tensor there."""
_BUILTIN = re.compile(r"^builtin (?P<name>\w+) (?P<types>.*)$", re.S)
_READING_BUILTINS = ("print", "str", "repr", "format", "int", "float", "complex", "bool")


def read_by(title: str, context: str) -> str:
    """What waits for a tensor's value where Dynamo broke the graph: ``Tensor.item()``; empty if
    nothing is known to."""
    if title.startswith(_OPERATOR):
        return context.strip()
    for beginning, reads in _READS.items():
        if title.startswith(beginning):
            # A condition on a size is one on a number that was read already.
            return "" if "SymNodeVariable" in context else reads
    builtin = _BUILTIN.match(context)
    if builtin is None or "TensorVariable" not in builtin["types"]:
        return ""
    return f"{builtin['name']}(Tensor)" if builtin["name"] in _READING_BUILTINS else ""


_CALLEES = (
    re.compile(r"^module: (?P<module>[^,]*), qualname: (?P<name>[^,]+), skip reason: "),
    re.compile(r"^qualname: (?P<name>[^,]+), name: "),
    re.compile(r"^<(?:bound method|function) (?P<name>[^ >]+)[^>]* at 0x"),
    re.compile(r"^(?P<name>RNN|LSTM|GRU)\("),
    re.compile(r"^method: .*\.(?P<name>\w+), args: "),
    # Of the builtins that one, which `reorderable_logging_functions` is about.
    re.compile(r"^builtin (?P<name>print) "),
)


def callee(context: str) -> str:
    """The function that Dynamo traces at none of its calls, if that is what a break is about."""
    for pattern in _CALLEES:
        found = pattern.match(context)
        if found is not None:
            module = found.groupdict().get("module")
            unknown = module in (None, "None", "<unknown module>")
            return found["name"] if unknown else f"{module}.{found['name']}"
    return ""
