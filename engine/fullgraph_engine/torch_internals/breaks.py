"""Private names with which Dynamo reports graph breaks.

| torch | how a break that Dynamo acts on is reported |
|---|---|
| since 2.11 | ``InstructionTranslatorBase.log_graph_break(code_options, reason, exc)`` |
| 2.10 | the same without ``exc``, which is the exception being handled |
| up to 2.9 | ``log_graph_break(code_options, reason)``; data-dependent jumps raise nothing |

Up to 2.9 Dynamo does not report a break that it cannot resume from. It restarts the analysis and
breaks the graph at the last earlier instruction that it can resume from.
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

LOG_BREAK = Internal(
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
RESTART_ANALYSIS = Internal(
    "breaks",
    "graph breaks after which Dynamo cannot resume",
    (
        Spelling(
            _SC,
            "SpeculationEntry.fail_and_restart_analysis",
            "up to 2.9",
            "breaks that cannot be resumed from are reported like the others",
        ),
    ),
)
"""Method by which releases up to 2.9 react to a break that they do not report.

Later releases do not need it, so it is not in :data:`INTERNALS`.
"""
UNSUPPORTED = internal(
    "breaks", "line, column and reason of each graph break", _EXC, "Unsupported.__init__"
)
USER_ERROR = internal(
    "breaks", "graph breaks caused by errors in the user's code", _EXC, "UserError.__init__"
)

FORMAT_MESSAGE = Internal(
    "breaks",
    "messages of graph breaks for which Dynamo raises no exception",
    (
        Spelling(
            _SC, "format_graph_break_message", "up to 2.10", "a jump on data raises no exception"
        ),
        Spelling(_EXC, "format_graph_break_message", "since 2.11"),
    ),
)

INTERNALS = (LOG_BREAK, UNSUPPORTED, USER_ERROR, FORMAT_MESSAGE)


class BreakReport(NamedTuple):
    """Arguments with which Dynamo reports a graph break.

    ``translator`` is the symbolic interpreter and ``error`` the exception; each is None if Dynamo
    does not pass it.
    """

    translator: Any
    reason: str
    error: BaseException | None


def parse_report(args: tuple[Any, ...], kwargs: dict[str, Any]) -> BreakReport:
    """Parse the arguments of a :data:`LOG_BREAK` call, with which Dynamo reports a graph break.

    Their form depends on the release of torch.
    """
    method = not isinstance(args[0], dict) if args else "code_options" not in kwargs
    translator, rest = (args[0], args[1:]) if method and args else (None, args)
    reason = kwargs.get("reason", rest[1] if len(rest) > 1 else "")
    error = kwargs.get("exc", rest[2] if len(rest) > 2 else None)
    if not isinstance(error, BaseException):
        # Use the exception being handled only if the report contains its message: a data-dependent
        # jump can be reported while an unrelated exception is handled.
        error = sys.exc_info()[1]
        if error is not None and texts.error_message(error) not in str(reason):
            error = None
    return BreakReport(translator, str(reason), error)


def leaves_breaks_unreported() -> bool:
    """Whether the installed torch does not report the graph breaks after which Dynamo cannot
    resume."""
    return LOG_BREAK.find_spelling() == LOG_BREAK.spellings[1]


def restarts_before_break(speculation: Any) -> bool:
    """Whether Dynamo restarts the trace before the instruction that broke the graph.

    ``speculation`` is Dynamo's record of a failed attempt. If the record has a reason or is for
    ``STORE_ATTR``, Dynamo reports the break and does not restart.
    """
    return speculation.reason is None and speculation.inst.opname != "STORE_ATTR"


@lru_cache(maxsize=1)
def break_numbers() -> dict[str, str]:
    """Return the number (``GB0059``) of each break type, from
    ``torch/_dynamo/graph_break_registry.json``.

    The dictionary is empty if torch does not ship that file.
    """
    import torch._dynamo

    path = Path(torch._dynamo.__file__).with_name("graph_break_registry.json")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {entry["Gb_type"]: number for number, entries in raw.items() for entry in entries}


def break_page_url(number: str) -> str:
    """Return the URL of the documentation page of a numbered break, or an empty string."""
    return f"{SITE}gb{number.removeprefix('GB')}.html" if number else ""


def break_slug(break_type: str) -> str:
    """Return a stable identifier for a break type without a number: the type in kebab case."""
    return re.sub(r"[^a-z0-9]+", "-", break_type.lower()).strip("-")[:60].rstrip("-") or "unknown"


_OPERATOR_TITLES = ("Data dependent operator", "Dynamic shape operator")
"""Break types whose context text names an operator with a data-dependent result."""
_READING_OPERATIONS = {
    "Unsupported Tensor.item()": "Tensor.item()",
    "Tensor.tolist()": "Tensor.tolist()",
    "Tensor.numpy()": "Tensor.numpy()",
    "Data-dependent value": "Tensor.item()",
    "Data-dependent branching": "bool(Tensor)",
    "Data-dependent assertion": "bool(Tensor)",
    "Dynamic slicing with Tensor": "Tensor.__index__()",
    "Indexing list with non-scalar tensor": "Tensor.__index__()",
}
"""Prefixes of break types, each with the operation that reads a tensor's value and so breaks the
graph."""
_BUILTIN_CONTEXT = re.compile(r"^builtin (?P<name>\w+) (?P<types>.*)$", re.S)
_READING_BUILTINS = ("print", "str", "repr", "format", "int", "float", "complex", "bool")


def reading_operation(title: str, context: str) -> str:
    """Return the operation that reads a tensor's value and so breaks the graph, such as
    ``Tensor.item()``.

    ``title`` and ``context`` are texts of Dynamo about the break. The result is empty if no such
    operation is known.
    """
    if title.startswith(_OPERATOR_TITLES):
        return context.strip()
    for beginning, operation in _READING_OPERATIONS.items():
        if title.startswith(beginning):
            # A condition on a size does not read a tensor: the number was read earlier.
            return "" if "SymNodeVariable" in context else operation
    builtin = _BUILTIN_CONTEXT.match(context)
    if builtin is None or "TensorVariable" not in builtin["types"]:
        return ""
    return f"{builtin['name']}(Tensor)" if builtin["name"] in _READING_BUILTINS else ""


_OWN_CALLS = "Call to `torch._dynamo."
_ARGUMENT_TYPE = re.compile(r"\b(\w+)Variable\b")
_NO_TENSORS = re.compile(r"(?:time|random)\.")
"""Prefixes of the names of functions that do not read tensors, such as ``time.time``."""


def cannot_read_tensors(title: str, context: str) -> bool:
    """Whether the code of a graph break certainly does not read the value of a tensor.

    ``title`` and ``context`` are texts of Dynamo about the break.
    """
    if title.startswith(_OWN_CALLS):
        return True
    builtin = _BUILTIN_CONTEXT.match(context)
    if builtin is not None:
        return set(_ARGUMENT_TYPE.findall(builtin["types"])) == {"Constant"}
    return _NO_TENSORS.match(untraced_callee(context)) is not None


_CALLEE_CONTEXTS = (
    re.compile(r"^module: (?P<module>[^,]*), qualname: (?P<name>[^,]+), skip reason: "),
    re.compile(r"^qualname: (?P<name>[^,]+), name: "),
    re.compile(r"^<(?:bound method|function) (?P<name>[^ >]+)[^>]* at 0x"),
    re.compile(r"^(?P<name>RNN|LSTM|GRU)\("),
    re.compile(r"^method: .*\.(?P<name>\w+), args: "),
    # `print` is the only builtin that `reorderable_logging_functions` affects.
    re.compile(r"^builtin (?P<name>print) "),
)


def untraced_callee(context: str) -> str:
    """Return the function that Dynamo refuses to trace, parsed from its context text of a graph
    break.

    The result is empty if the break is not about a call.
    """
    for pattern in _CALLEE_CONTEXTS:
        found = pattern.match(context)
        if found is not None:
            module = found.groupdict().get("module")
            unknown = module in (None, "None", "<unknown module>")
            return found["name"] if unknown else f"{module}.{found['name']}"
    return ""
