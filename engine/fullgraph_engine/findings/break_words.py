"""First lines of messages about graph breaks: what happens and what to do, in at most 100
characters.

Dynamo's own title and explanation of a break are written for Dynamo's developers, and name no
remedy. They are shown below the first line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from ..texts import shorten_line
from ..torch_internals.breaks import reading_operation, untraced_callee
from ..tracing.recording import Cause

MOST = 100
"""Maximum number of characters of the first line of a message."""

_HEAD = "Graph break: "
_MOST_NAME = 32
"""Maximum number of characters of a name from the user's code in a first line."""

MOVE = "move it out of the compiled code"
RUN_EAGER = "check that the code runs in eager mode"
REPORT = "report it to PyTorch"
KEEP_TENSOR = "keep the value in a tensor"
CAPTURE = "keep a tensor, or set `capture_scalar_outputs`"

_SHORTER = {
    MOVE: "move it out",
    RUN_EAGER: "run the code in eager mode",
    CAPTURE: "set `capture_scalar_outputs`",
}
"""Shorter forms of the clauses on what to do, used where the description of the break is long."""


@dataclass(frozen=True)
class BreakWords:
    """Two clauses about a graph break: what happens there, and what the user can do."""

    what: str
    action: str

    def to_line(self) -> str:
        """Return both clauses as one line.

        If it is too long, the description is cut, but never what to do.
        """
        room, action = MOST - len(_HEAD) - len("; "), self.action
        if len(self.what) + len(action) > room:
            action = _SHORTER.get(action, action)
        return f"{_HEAD}{shorten_line(self.what, room - len(action))}; {action}"


def break_line(cause: Cause, code: str = "") -> str:
    """Return the first line of a message about a graph break: what happens and what to do.

    ``cause`` has Dynamo's texts about the break. ``code`` is the source code of the break; empty if
    the break is in another file.
    """
    return describe_break(cause, code).to_line()


def describe_break(cause: Cause, code: str = "") -> BreakWords:
    """Return two clauses about a graph break: what happens there, and what the user can do.

    ``cause`` has Dynamo's texts about the break. ``code`` is the source code of the break; empty if
    the break is in another file.
    """
    found = _BreakFacts(cause, code)
    if cause.condition:
        return BreakWords(
            "this condition depends on tensor data", "use `torch.cond` or `guard_or_false`"
        )
    for pattern, make in _KNOWN:
        if pattern.match(cause.kind):
            words = make(found)
            return BreakWords(words.what, words.action or found.action)
    if operation := reading_operation(cause.kind, cause.context):
        return _data_words(found, operation)
    return BreakWords(found.general_words, found.action)


class _BreakFacts:
    """Facts about a graph break, such as the called function, that the first line of its message
    may name."""

    def __init__(self, cause: Cause, code: str) -> None:
        self.cause, self._code = cause, code

    @property
    def title(self) -> str:
        return self.cause.kind

    @property
    def context(self) -> str:
        return self.cause.context

    def find_name(self, pattern: str, text: str = "", otherwise: str = "") -> str:
        """Return the first group that ``pattern`` matches in Dynamo's explanation or in ``text``,
        in backticks; else ``otherwise``."""
        found = re.search(pattern, text or self.cause.explanation)
        return _as_code(found[1]) if found is not None and _is_name(found[1]) else otherwise

    @cached_property
    def callee(self) -> str:
        """Called function in backticks: as the user wrote it, or else by Dynamo's name."""
        written = _called_in(self._code)
        if written:
            return _as_code(written)
        named = untraced_callee(self.context)
        return _as_code(named) if _is_name(named) else "this function"

    @cached_property
    def call(self) -> str:
        """Source code of the break in backticks, without the arguments of the call; empty if the
        code is not a call."""
        written = _called_in(self._code)
        return _as_code(f"{written}()") if written else ""

    @property
    def general_words(self) -> str:
        """Description of a break of an unknown type: Dynamo's explanation if it says what Dynamo
        cannot do, else Dynamo's title."""
        sentence = _with_closed_code(_first_sentence(self.cause.explanation))
        if _SAYS_WHAT.match(sentence) and len(sentence) <= _MOST_SENTENCE:
            return sentence
        return _plain_title(_with_closed_code(self.title))

    @property
    def action(self) -> str:
        """Clause on what the user can do: the first short instruction among Dynamo's hints, else
        one for the kind of the hints."""
        hints = " ".join(self.cause.hints)
        for sentence in _SENTENCE_ENDS.split(" ".join(hints.split())):
            if _INSTRUCTS.match(sentence) and len(sentence) <= _MOST_ACTION:
                return _lower_first(sentence.rstrip(".!, "))
        if "error when running in eager" in hints:
            return RUN_EAGER
        return REPORT if "likely to be a Dynamo bug" in hints else MOVE


_MOST_SENTENCE = 70
_MOST_ACTION = 44
_SAYS_WHAT = re.compile(
    r"(?:Dynamo|`?torch\.compile`?) (?:currently )?"
    r"(?:does not|doesn't|cannot|can't|can only|only)\b"
    r"(?!.*\bthis\b)(?!.*VariableTracker)(?!.*(?:_impl|impl)\b)(?!.*\bHOP\b)"
)
_SENTENCE_ENDS = re.compile(r"(?<=[.!])\s+(?=[A-Z`])|\s+(?=Or )")
_INSTRUCTS = re.compile(
    r"(?:Avoid|Remove|Move|Use|Define|Compile|Create|Construct|Change|Detach|Call|Check|Do not|"
    r"Don't|Enable|Ensure|Fix|Keep|Pass|Replace|Rename|Set|Stack|Write|Only|Disable|Add)\b"
    r"(?!.*[{}])(?!.*\bthis\.$)(?!.*__func__)(?!.*side effect system)"
)


def _with_closed_code(words: str) -> str:
    """Return a text without its backticks if their number is odd, so that the rest does not appear
    as code."""
    return words.replace("`", "") if words.count("`") % 2 else words


def _first_sentence(text: str) -> str:
    line = " ".join(text.strip().split("\n")[0].split())
    return re.split(r"(?<=[^.A-Z])\.\s", line + " ")[0].rstrip(" .")


_ATTEMPTS = (
    (re.compile(r"^(?:\w+ )?[Aa]ttempt(?:ed)? to a (?=str)"), "Dynamo cannot call a "),
    (re.compile(r"^[Aa]ttempted to wrap (?:torch\._higher_order_ops\.)?"), "Dynamo cannot trace "),
    (re.compile(r"^[Aa]ttempted to (?=\w)"), "Dynamo cannot "),
    (re.compile(r"^[Aa]ttempt to (?=\w)"), "Dynamo cannot "),
    (re.compile(r"^Failed to (?=\w)|^failed to (?=\w)"), "Dynamo cannot "),
    (re.compile(r"^(?:Can't|Cannot|Unable to|can't|cannot) (?=\w)"), "Dynamo cannot "),
    (
        re.compile(r"^(?:Unsupported|unsupported|Unimplemented|unimplemented) "),
        "Dynamo does not support ",
    ),
    (re.compile(r"^(?:Unexpected|unexpected) (?=\w)"), "unexpected "),
    (
        re.compile(r"^(?:HOP|WrapHigherOrderVariable|HigherOrderOperator): "),
        "higher order operator: ",
    ),
    (re.compile(r"^Encountered "), ""),
)
_NOT_IMPLEMENTED = r"Dynamo does not implement \1 for this type of object"
_JARGON = (
    (re.compile(r"\s*\((?:\w+Variable|SideEffects|implicit|EXCEPT_HANDLER|STORE_ATTR|\d)\)"), ""),
    (re.compile(r"\bUnspecializedNNModuleVariable\b"), "`nn.Module`"),
    (re.compile(r"\bGenericContextWrappingVariable\b"), "a context manager"),
    (re.compile(r" with VariableTracker\b"), ""),
    (re.compile(r"\b(\w+)Variable\b"), r"\1"),
    (re.compile(r"\bHOP\b"), "higher order operator"),
    (re.compile(r"^(?:missing|Missing) (?:tp_|sq_|mp_|nb_)?(\w+?)(?:_impl)?(?: override)?$"),
     _NOT_IMPLEMENTED),
    (re.compile(r"^(?:missing_)?(?:tp|sq|mp|nb)_(\w+?)(?:_impl)?(?: slot)?(?: not implemented)?$"),
     _NOT_IMPLEMENTED),
    (re.compile(r"^(\w+)_impl not implemented$"), _NOT_IMPLEMENTED),
    (re.compile(r"^list_richcompare\w*$"), "Dynamo cannot compare these lists"),
    (re.compile(r"\bC tp_(\w+)\b"), r"\1 in C"),
)  # fmt: skip


def _plain_title(title: str) -> str:
    """Return Dynamo's title of a graph break in simpler words: without the names of Dynamo's
    classes and "Attempted to"."""
    words = " ".join(title.split()).rstrip(". ")
    for pattern, plain in (*_JARGON, *_ATTEMPTS):
        words = pattern.sub(plain, words)
    return words if words[:2].isupper() else _lower_first(words)


def _lower_first(words: str) -> str:
    first = words.split(" ")[0]
    proper = first.startswith(("`", "Dynamo", "Python", "NumPy")) or any(
        letter.isupper() or letter in "._" for letter in first[1:]
    )
    return words if proper else words[:1].lower() + words[1:]


def _called_in(code: str) -> str:
    """Return the name of the function that a piece of code calls, as written; empty if it is not a
    call."""
    try:
        node = ast.parse(code.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return ""
    if not isinstance(node, ast.Call):
        return ""
    called = node.func
    if isinstance(called, ast.Attribute) and not _is_dotted(called):
        return f".{called.attr}"
    return ast.unparse(called) if _is_dotted(called) else ""


def _is_dotted(node: ast.expr) -> bool:
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _is_name(words: str) -> bool:
    return bool(words) and not re.search(r"[\s{}<>`]", words)


def _as_code(name: str) -> str:
    if len(name) > _MOST_NAME and "." in name:
        name = f".{name.rpartition('.')[2]}" if name.endswith(")") else name.rpartition(".")[2]
    return f"`{shorten_line(name, _MOST_NAME)}`"


# -- descriptions for known types of breaks ---------------------------------------------------


def _data_words(found: _BreakFacts, operation: str) -> BreakWords:
    if found.title.startswith("Data dependent operator"):
        what = f"{_operator(operation)} returns a number that depends on data"
        return BreakWords(what, KEEP_TENSOR)
    if operation == "Tensor.__index__()":
        return BreakWords("this index reads a tensor's value", KEEP_TENSOR)
    name = operation.removesuffix("(Tensor)")
    named = f"`{name}()`" if name != operation else f"`{name.removeprefix('Tensor')}`"
    return BreakWords(f"{found.call or named} reads a tensor's value", KEEP_TENSOR)


def _operator(name: str) -> str:
    """Return an operator's name in backticks, without namespace and overload."""
    parts = name.strip().split(".")
    known = _is_name(name.strip()) and len(parts) == 3
    return _as_code(parts[1]) if known else "this operator"


def _item_words(found: _BreakFacts) -> BreakWords:
    call = found.call or "`.item()`"
    return BreakWords(f"{call} reads a tensor's value", CAPTURE)


def _skipped_words(found: _BreakFacts) -> BreakWords:
    return BreakWords(
        f"Dynamo does not trace {found.callee}", "move the call out of the compiled code"
    )


def _builtin_words(found: _BreakFacts) -> BreakWords:
    name = re.match(r"builtin (\w+) ", found.context)
    called = name[1] if name is not None else ""
    if called == "print":
        action = "remove it, or add it to `reorderable_logging_functions`"
        return BreakWords("Dynamo does not trace `print`", action)
    operation = reading_operation(found.title, found.context)
    if operation:
        return _data_words(found, operation)
    what = f"`{called}()`" if called else "a builtin function"
    return BreakWords(f"Dynamo cannot trace {what} with these arguments", MOVE)


def _request_words(found: _BreakFacts) -> BreakWords:
    name = re.search(r"`([^`]+)`", found.title)
    return BreakWords(f"{_as_code(name[1]) if name else 'a break'} is called", "remove the call")


def _exception_words(found: _BreakFacts) -> BreakWords:
    name = found.find_name(r"raised exception (\w+)", found.context, "an exception")
    return BreakWords(f"the code raises {name} when it is traced", RUN_EAGER)


def _disable_words(found: _BreakFacts) -> BreakWords:
    return BreakWords(f"{found.callee} is disabled for Dynamo", "remove `torch.compiler.disable`")


def _dynamic_shape_words(found: _BreakFacts) -> BreakWords:
    what = f"the size of {found.call or _operator(found.context)} depends on data"
    if "capture_dynamic_output_shape_ops" not in " ".join(found.cause.hints):
        return BreakWords(what, MOVE)
    return BreakWords(what, "set `capture_dynamic_output_shape_ops`")


def _method_words(found: _BreakFacts) -> BreakWords:
    name = found.find_name(r"method `([^`]+)` of", otherwise=found.call or "this method")
    owner = found.find_name(r" of class `([^`]+)`")
    return BreakWords(f"Dynamo cannot trace {name}" + (f" of {owner}" if owner else ""), MOVE)


def _function_words(found: _BreakFacts) -> BreakWords:
    callee = found.callee
    if callee == "this function":
        callee = found.find_name(r"calling `([^`]+)`", otherwise=callee)
    return BreakWords(f"Dynamo cannot trace {callee}", "")


def _context_manager_words(found: _BreakFacts) -> BreakWords:
    name = found.find_name(r"enter a `([^`]+)`", otherwise="this context manager")
    return BreakWords(f"Dynamo cannot enter {name}", "move the `with` out of the compiled code")


def _undefined_words(found: _BreakFacts) -> BreakWords:
    name = found.find_name(r"name `([^`]+)`", otherwise="a variable")
    return BreakWords(f"{name} is not defined here", RUN_EAGER)


def _fixed_words(what: str, action: str = "") -> Callable[[_BreakFacts], BreakWords]:
    return lambda _: BreakWords(what, action)


_KNOWN_BREAKS: tuple[tuple[str, Callable[[_BreakFacts], BreakWords]], ...] = (
    (
        "Data-dependent branching",
        _fixed_words(
            "this condition depends on the value of a tensor", "use `torch.where` or `torch.cond`"
        ),
    ),
    (
        "Data-dependent assertion",
        _fixed_words("this `assert` depends on the value of a tensor", "use `torch._assert_async`"),
    ),
    (
        "_gb_type",
        _fixed_words(
            "this condition depends on the value of a tensor", "use `torch.where` or `torch.cond`"
        ),
    ),
    (r"Unsupported Tensor\.item\(\)", _item_words),
    ("Failed to trace builtin operator", _builtin_words),
    ("Attempted to (?:call|inline) function marked as skipped", _skipped_words),
    (r"Skip (?:calling|inlining) `torch\.compiler\.disable\(\)`d function", _disable_words),
    (
        r"Call to `torch\._dynamo\.(?:graph_break|skip_frame|step_unsupported)\(\)`",
        _request_words,
    ),
    ("Observed exception", _exception_words),
    (r"Dynamic shape operator", _dynamic_shape_words),
    ("Unsupported method call", _method_words),
    ("Unsupported function call", _function_words),
    ("Unsupported context manager", _context_manager_words),
    ("Attempted to read (?:undefined|a deleted)", _undefined_words),
    ("LOAD_FAST_CHECK on uninitialized", _undefined_words),
    ("failed to find name in frame builtins", _undefined_words),
    (
        r"logging\.Logger method",
        _fixed_words(
            "Dynamo does not trace logging",
            "remove the call, or add it to `ignore_logging_functions`",
        ),
    ),
    (
        "Call to a time function",
        _fixed_words(
            "Dynamo does not trace calls that read a clock",
            "move the call out of the compiled code",
        ),
    ),
    (
        "Graph break under Generic",
        _fixed_words(
            "Dynamo cannot resume inside this `with` block",
            "move the graph break out of the block",
        ),
    ),
    (
        "Graph break in inlined function",
        _fixed_words("a function called here breaks the graph", MOVE),
    ),
    (
        "graph break in loop",
        _fixed_words(
            "Dynamo cannot resume inside this loop", "move the graph break out of the loop"
        ),
    ),
    (
        r"Attempt to trace generator",
        _fixed_words("Dynamo cannot compile a generator", "compile a function that calls it"),
    ),
    (
        r"Attempted to wrap RNN|Dynamo does not support RNN",
        _fixed_words("Dynamo does not compile `RNN`, `GRU` and `LSTM`", ""),
    ),
    (
        r"Attempted to wrap sparse|Sparse tensor creation",
        _fixed_words("Dynamo does not compile code with sparse tensors", MOVE),
    ),
    (
        r"Dynamo (?:cache|recompile) limit exceeded",
        _fixed_words(
            "this function reached the recompile limit", "store changing values in tensors"
        ),
    ),
    (
        r"Excessive RestartAnalysis",
        _fixed_words("Dynamo gave up after 100 attempts at this function", "simplify it"),
    ),
    (
        r"Unsupported Tensor\.backward\(\)",
        _fixed_words(
            "Dynamo does not trace `.backward()`", "call it on the output of the compiled function"
        ),
    ),
    (
        r"(?:Unsupported Tensor\.requires_grad_\(\)|requires_grad_\(\) intermediate|returning "
        r"intermediate with requires_grad_)",
        _fixed_words(
            "`.requires_grad_()` is called on a computed tensor", "move it out of the compiled code"
        ),
    ),
    (
        r"Reconstruction failure",
        _fixed_words(
            "Dynamo cannot rebuild an object after another graph break", "remove that graph break"
        ),
    ),
    (
        r"Fake tensor propagation exception|NotImplementedError/UnsupportedFakeTensor|RuntimeError "
        r"when making fake tensor|TypeError when making fake tensor",
        _fixed_words(
            "this operator fails on fake tensors", "check its arguments, or register a fake kernel"
        ),
    ),
    (
        r"Tensor device mismatch",
        _fixed_words("tensors are on different devices", "move them to the same device"),
    ),
    (
        r"Unexpected type in sourceless builder|Unsupported (?:python_type|SourceType)",
        _fixed_words(
            "Dynamo cannot represent this object", "create it outside of the compiled code"
        ),
    ),
    (
        r"Not a Python constant",
        _fixed_words("Dynamo needs a constant here", "pass a number, string or tuple of them"),
    ),
    (r"Missing bytecode handler", _fixed_words("Dynamo cannot trace this statement", MOVE)),
    (
        r"Backend compiler exception",
        _fixed_words("the backend fails on this graph", 'compare with `backend="eager"`'),
    ),
    (
        r"Encountered non-PT2-compliant op",
        _fixed_words(
            "this operator is not tagged as PT2-compliant", "tag it with `pt2_compliant_tag`"
        ),
    ),
    (
        r"Import failure|Bad import result",
        _fixed_words("an import fails here", "import the module at the top of the file"),
    ),
    (
        r"Comprehension ",
        _fixed_words("Dynamo cannot resume inside this comprehension", "write it as a loop"),
    ),
    (
        r"Data pointer comparison",
        _fixed_words(
            "the code compares data pointers", "move the comparison out of the compiled code"
        ),
    ),
    (
        r"copy\.deepcopy\(\)|Attempted to copy\.deepcopy",
        _fixed_words("Dynamo does not trace `copy.deepcopy`", "copy before the compiled code"),
    ),
)
"""Functions that describe one type of graph break each, with a pattern for the beginning of
Dynamo's title of that type.
"""

_KNOWN = tuple((re.compile(pattern), make) for pattern, make in _KNOWN_BREAKS)
