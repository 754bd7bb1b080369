"""Obstacles: facts about wrong argument values, which the exception of a failed trial call
shows."""

from __future__ import annotations

import ast
import functools
import inspect
import linecache
import re
import textwrap
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from ... import texts
from .candidate import Path
from .trial import TimeIsUp, TrialOutcome

_LIBRARY = ("/torch/", "<frozen", "/importlib/")
_MOST_FRAMES = 24


@dataclass(frozen=True)
class Unequal:
    """An obstacle to a trial call: two numbers should be equal.

    ``met`` came from the data, ``wanted`` from the code.
    """

    met: int
    wanted: int


@dataclass(frozen=True)
class Indivisible:
    """An obstacle to a trial call: a number should be a multiple of ``divisor``."""

    number: int
    divisor: int


@dataclass(frozen=True)
class WrongRank:
    """An obstacle to a trial call: a tensor has ``met`` dimensions (None if unknown), and should
    have ``wanted``."""

    met: int | None
    wanted: int


@dataclass(frozen=True)
class WrongCount:
    """An obstacle to a trial call: the code split a tensor, or unpacked a value, into a number of
    parts other than ``wanted``."""

    wanted: int


@dataclass(frozen=True)
class WrongShape:
    """An obstacle to a trial call: tensors with the shape ``met`` should have the shape
    ``wanted``."""

    met: tuple[int, ...]
    wanted: tuple[int, ...]


@dataclass(frozen=True)
class WrongChoice:
    """An obstacle to a trial call: a value should be one of the given choices."""

    path: Path
    choices: tuple[Any, ...]


@dataclass(frozen=True)
class WrongType:
    """An obstacle to a trial call: the value at ``path`` should be an instance of one of the types
    ``wanted``; empty if unknown."""

    path: Path
    wanted: tuple[type, ...]


@dataclass(frozen=True)
class TooSmall:
    """An obstacle to a trial call: a size is too small, for example for a kernel or a patch."""


@dataclass(frozen=True)
class TooLarge:
    """An obstacle to a trial call: the module needs too much time or memory with these
    arguments."""


@dataclass(frozen=True)
class MissingArguments:
    """An obstacle to a trial call: arguments for these required parameters are missing."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Unexpected:
    """An obstacle to a trial call: a function does not accept a keyword argument, or gets two
    values for a parameter."""

    name: str


Obstacle = (
    Unequal
    | Indivisible
    | WrongRank
    | WrongCount
    | WrongShape
    | WrongChoice
    | WrongType
    | TooSmall
    | TooLarge
    | MissingArguments
    | Unexpected
)


def error_words(error: BaseException | None) -> str:
    """Return the message of an exception on one line.

    Empty without an exception, or if its ``__str__`` raises.
    """
    return " ".join(texts.error_message(error).split())


def find_obstacles(outcome: TrialOutcome) -> list[Obstacle]:
    """Return the facts about wrong argument values that a failed trial call shows, most likely
    first.

    They are derived from the exception's message and from the statement that raised.
    """
    error = outcome.error
    text = error_words(error)
    if isinstance(error, (TimeIsUp, MemoryError)) or "very much larger than expected" in text:
        return [TooLarge()]
    found: list[Obstacle] = [*_of_signature(error, text), *_of_code(outcome)]
    found += _named_choices(outcome, text)
    found += _of_message(text)
    return list(dict.fromkeys(found))


# -- messages ---------------------------------------------------------------------------------

_NUMBERS_OF = re.compile(r"-?\d+")


def _find_integers(text: str) -> list[int]:
    return [int(number) for number in _NUMBERS_OF.findall(text)]


def _of_signature(error: BaseException | None, text: str) -> Iterator[Obstacle]:
    if not isinstance(error, TypeError):
        return
    if match := re.search(
        r"missing \d+ required (?:positional|keyword-only) arguments?: (.*)", text
    ):
        yield MissingArguments(tuple(re.findall(r"'(\w+)'", match[1])))
    if match := re.search(
        r"(?:unexpected keyword argument|multiple values for(?: keyword)? argument) '(\w+)'", text
    ):
        yield Unexpected(match[1])


def _named_choices(outcome: TrialOutcome, text: str) -> Iterator[Obstacle]:
    """Yield the quoted texts of an exception's message as the choices of a value, since they often
    are the accepted values."""
    quoted = re.findall(r"(['\"`])(?=\w)([\w.+-]{1,40})\1", text)
    if not quoted or isinstance(outcome.error, (AttributeError, NameError, ImportError)):
        return
    for path in implicated_paths(outcome):
        made = outcome.made.get(path)
        if isinstance(made, str):
            choices = dict.fromkeys(one for _, one in quoted if one != made and one not in path)
            if choices:
                yield WrongChoice(path, tuple(choices))


_PAIRS = (
    # Patterns for two numbers that should be equal: the number in the data, then the number that
    # the code requires.
    r"size of tensor a \((\d+)\) must match the size of tensor b \((\d+)\)",
    r"\(\d+x(\d+) and (\d+)x\d+\)",
    r"same reduction dim, but got \[[^\]]*?(\d+)\] X \[(\d+),",
    r"running_mean should contain (\d+) elements not (\d+)",
    r"weight should contain (\d+) elements not (\d+)",
    r"expanded size of the tensor \((\d+)\) must match the existing size \((\d+)\)",
    r"(\d+) vs\.? (\d+)",
    r"(\d+) ?!= ?(\d+)",
    r"has size (\d+) for operand \d+ which does not broadcast with previously seen size (\d+)",
)
_PAIRS_TURNED = (
    # These messages state the required number first, then the number in the data.
    r"Expected (\d+) in dimension \d+ but got (\d+)",
    r"to have (\d+) channels, but got (\d+)",
    r"expecting embedding dimension of (\d+), but got (\d+)",
    r"must be equal to input_size\. Expected (\d+), got (\d+)",
    r"[Ee]xpected size:? (\d+) but got (?:size:? )?(\d+)",
    r"[Ee]xpected (?:\w+ )*?(\d+)\D{1,40}?got (\d+)",
    r"input\.size\(-1\) must be equal to input_size.*?(\d+).*?(\d+)",
)


def _of_message(text: str) -> Iterator[Obstacle]:
    if match := re.search(
        r"[Ee]xpected (?:hidden\[\d\]|[^(\[])*?(?:size|shape)?:? ?[(\[]([\d, ]+)[)\]],? "
        r"(?:but )?got:? ?"
        r"(?:torch\.Size\()?[(\[]([\d, ]+)[)\]]",
        text,
    ):
        yield WrongShape(tuple(_find_integers(match[2])), tuple(_find_integers(match[1])))
    yield from _wrong_ranks(text)
    for pattern in _PAIRS:
        for match in re.finditer(pattern, text):
            yield from _unequal_sizes(int(match[1]), int(match[2]))
    for pattern in _PAIRS_TURNED:
        for match in re.finditer(pattern, text):
            yield from _unequal_sizes(int(match[2]), int(match[1]))
    if match := re.search(
        r"normalized_shape=\[([\d, ]+)\].*?(?:size|shape)\D*\[([\d, ]+)\]$", text
    ):
        yield from _unequal_ends(_find_integers(match[2]), _find_integers(match[1]))
    if match := re.search(
        r"had torch\.Size\(\[([\d, ]+)\]\).*? broadcastable to \[([\d, ]+)\]", text
    ):
        yield from _unequal_ends(_find_integers(match[1]), _find_integers(match[2]))
    if match := re.search(r"shape '\[([-\d, ]*)\]' is invalid for input of size (\d+)", text):
        yield from _wrong_views(_find_integers(match[1]), int(match[2]))
    if match := re.search(
        r"Cannot view a tensor with shape.*?\(([\d, ]+)\).*?\(([-\d, ]+)\)", text
    ):
        total = 1
        for size in _find_integers(match[1]):
            total *= size
        yield from _wrong_views(_find_integers(match[2]), total)
    if match := re.search(r"divide axis of length (\d+) in chunks of (\d+)", text):
        yield Indivisible(int(match[1]), int(match[2]))
    if re.search(r"divisible", text):
        numbers = _find_integers(text)
        if len(numbers) >= 2:
            yield Indivisible(max(numbers[:2]), min(numbers[:2]))
    if re.search(
        r"can't be greater than actual input|Output size is too small|output size is too small|"
        r"negative dimension|non-positive|too small|greater than or equal to|smaller than|"
        r"[Pp]adding size should be less|wrapping around more than once|"
        r"computed output size: 0",
        text,
    ):
        yield TooSmall()
        return
    numbers = list(dict.fromkeys(n for n in _find_integers(text) if n >= 0))
    if 2 <= len(numbers) <= 6:
        for at, one in enumerate(numbers):
            for other in numbers[at + 1 :]:
                yield from _unequal_sizes(one, other)


def _unequal_ends(met: list[int], wanted: list[int]) -> Iterator[Unequal]:
    """Yield the pairs of sizes that differ, comparing two shapes from their last dimension."""
    for one, other in zip(reversed(met), reversed(wanted)):  # noqa: B905 - the common end
        yield from _unequal_sizes(one, other)


def _wrong_views(shape: list[int], total: int) -> Iterator[Obstacle]:
    wanted = 1
    for size in shape:
        wanted *= size if size > 0 else 1
    if -1 in shape:
        if wanted > 0:
            yield Indivisible(total, wanted)
    else:
        yield from _unequal_sizes(total, wanted)


def _unequal_sizes(met: int, wanted: int) -> Iterator[Unequal]:
    if met != wanted and met > 0 and wanted > 0:
        yield Unequal(met, wanted)


def _wrong_ranks(text: str) -> Iterator[WrongRank | WrongCount]:
    if match := re.search(r"[Ee]xpected (.{0,60}?)(?:,? but got|\(?got)(.*)", text):
        wanted = [int(one) for one in re.findall(r"(\d)-?\s?[Dd](?:\b|im)", match[1])]
        met = re.search(r"(\d)-?\s?[Dd](?:\b|im)", match[2])
        shape = re.search(r"\[([\d, ]+)\]", match[2])
        rank = int(met[1]) if met else len(_find_integers(shape[1])) if shape else None
        for one in sorted(wanted, reverse=True):
            if one != rank:
                yield WrongRank(rank, one)
    if match := re.search(r"Only (.*?) input Tensors supported \(got (\d)D\)", text):
        yield from (WrongRank(int(match[2]), int(one)) for one in re.findall(r"(\d)D", match[1]))
    if match := re.search(
        r"spatial dimensions of \[([\d, ]*)\] and output size of (?:torch\.Size\()?[\[(]([\d, ]*)",
        text,
    ):
        spatial = len(_find_integers(match[1]))
        for one in (len(_find_integers(match[2])), 2):
            if one != spatial:
                yield WrongRank(spatial + 2, one + 2)
    if match := re.search(r"should also be (\d)-D but got \((\d)-D", text):
        yield WrongRank(int(match[2]), int(match[1]))
    if match := re.search(r"range of \[-(\d), \d\], but got (-?\d+)", text):
        at = int(match[2])
        yield WrongRank(int(match[1]), at + 1 if at >= 0 else -at)
    if match := re.search(r"input\.dim\(\) = (\d).*len\(dims\) = (\d)", text):
        yield WrongRank(int(match[1]), int(match[2]))
    if match := re.search(r"expected (\d) dims\. Received (\d)-dim", text):
        yield WrongRank(int(match[2]), int(match[1]))
    if match := re.search(r"subscripts in the equation \((\d)\).*dimensions \((\d)\)", text):
        yield WrongRank(int(match[2]), int(match[1]))
    if match := re.search(r"too many indices for tensor of dimension (\d)", text):
        yield WrongRank(int(match[1]), int(match[1]) + 1)
    if match := re.search(
        r"sizes provided \((\d)\) must be greater .*? in the tensor \((\d)\)", text
    ):
        yield WrongRank(int(match[2]), int(match[1]))
        yield WrongRank(int(match[1]), int(match[2]))
    if match := re.search(r"dimension must be (\d)\D.*?(\d)", text):
        yield WrongRank(int(match[2]), int(match[1]))
    if match := re.search(r"same number of dimensions: got (\d) and (\d)", text):
        one, other = int(match[1]), int(match[2])
        yield WrongRank(min(one, other), max(one, other))
        yield WrongRank(max(one, other), min(one, other))
    if match := re.search(r"not enough values to unpack \(expected (\d+), got (\d+)\)", text):
        yield WrongRank(int(match[2]), int(match[1]))
    if match := re.search(r"too many values to unpack \(expected (\d+)(?:, got (\d+))?\)", text):
        yield WrongRank(int(match[2]) if match[2] else None, int(match[1]))
        yield WrongCount(int(match[1]))
    if text in ("tuple index out of range", "list index out of range"):
        yield from (WrongRank(rank, rank + 1) for rank in (3, 2, 1))


# -- the statement that raised ----------------------------------------------------------------


def _of_code(outcome: TrialOutcome) -> Iterator[Obstacle]:
    """Yield facts about wrong argument values from the condition of a failed ``assert``, or of the
    ``if`` that led to a ``raise``."""
    frames = outcome.frames[-_MOST_FRAMES:]
    for at, (frame, line, _) in reversed(list(enumerate(frames))):
        if any(part in frame.f_code.co_filename for part in _LIBRARY[1:]):
            continue
        condition = condition_at(frame.f_code, line)
        if condition is None:
            continue
        test, holds = condition
        while isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            test, holds = test.operand, not holds
        if isinstance(test, ast.Name):
            # ``torch._assert`` and similar functions receive the condition as an argument.
            for caller, called_at, _ in reversed(frames[:at]):
                passed = _passed_argument(test.id, frame.f_code, caller.f_code, called_at)
                if passed is not None:
                    test, frame = passed, caller
                    break
        yield from _of_test(test, holds, frame, outcome)
        return


def _passed_argument(
    name: str, called: types.CodeType, caller: types.CodeType, line: int
) -> ast.expr | None:
    """Return the expression that ``caller``, on a line, passes for a parameter of the function
    ``called``; None if not found."""
    parameters = called.co_varnames[: called.co_argcount]
    tree = _code_tree(caller)
    if name not in parameters or tree is None:
        return None
    at = parameters.index(name)
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or 0):
            function = node.func
            spelled = getattr(function, "attr", "") or getattr(function, "id", "")
            if spelled == called.co_name and at < len(node.args):
                return node.args[at]
    return None


@functools.lru_cache(maxsize=1024)
def condition_at(code: types.CodeType, line: int) -> tuple[ast.expr, bool] | None:
    """Return the condition of the ``assert`` or ``if`` that raised at a line, and the truth value
    that avoids the exception.

    None if the line belongs to other code.
    """
    tree = _code_tree(code)
    if tree is None:
        return None
    found: tuple[ast.expr, bool] | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert) and node.lineno <= line <= (node.end_lineno or 0):
            return node.test, True
        if isinstance(node, ast.If):
            for body, holds in ((node.body, False), (node.orelse, True)):
                for statement in body:
                    if isinstance(statement, ast.Raise) and statement.lineno <= line <= (
                        statement.end_lineno or 0
                    ):
                        found = node.test, holds
    return found


@functools.lru_cache(maxsize=256)
def _code_tree(code: types.CodeType) -> ast.AST | None:
    try:
        lines, first = inspect.getsourcelines(code)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError, ValueError, IndexError):
        return None
    return ast.increment_lineno(tree, max(first, 1) - 1)


def _of_test(
    test: ast.expr, holds: bool, frame: types.FrameType, outcome: TrialOutcome
) -> Iterator[Obstacle]:
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        yield from _of_test(test.operand, not holds, frame, outcome)
    elif isinstance(test, ast.BoolOp):
        for part in test.values:
            yield from _of_test(part, holds, frame, outcome)
    elif isinstance(test, ast.Compare) and len(test.ops) == 1:
        yield from _of_comparison(test, holds, frame, outcome)
    elif isinstance(test, ast.Call):
        yield from _of_call(test, holds, frame, outcome)
    elif holds and isinstance(test, (ast.Name, ast.Attribute)):
        for path in paths_of(test, frame, outcome):
            yield WrongChoice(path, (True,))
    elif isinstance(test, ast.BinOp) and isinstance(test.op, ast.Mod) and not holds:
        yield from _wrong_remainder(test, frame)


def _of_comparison(
    test: ast.Compare, holds: bool, frame: types.FrameType, outcome: TrialOutcome
) -> Iterator[Obstacle]:
    (operator,), left, (right,) = test.ops, test.left, test.comparators
    equal = isinstance(operator, (ast.Eq, ast.Is)) == holds
    if isinstance(operator, (ast.Eq, ast.NotEq, ast.Is, ast.IsNot)):
        negative = isinstance(operator, (ast.NotEq, ast.IsNot))
        equal = holds != negative
        if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mod) and equal:
            yield from _wrong_remainder(left, frame)
            return
        one, other = _evaluate_in_frame(left, frame), _evaluate_in_frame(right, frame)
        if equal:
            yield from _should_be_equal(left, one, right, other, frame, outcome)
            for node, value in ((left, other), (right, one)):
                if isinstance(value, (str, int, type(None))):
                    for path in paths_of(node, frame, outcome):
                        yield WrongChoice(path, (value,))
    elif isinstance(operator, (ast.In, ast.NotIn)) and isinstance(operator, ast.In) == holds:
        choices = _evaluate_in_frame(right, frame)
        try:
            found = tuple(choices)[:12] if choices is not None else ()
        except Exception:  # the value is not a container
            found = ()
        for path in paths_of(left, frame, outcome):
            yield WrongChoice(path, found)
    elif isinstance(operator, (ast.Lt, ast.LtE, ast.Gt, ast.GtE)):
        one, other = _evaluate_in_frame(left, frame), _evaluate_in_frame(right, frame)
        if isinstance(one, int) and isinstance(other, int):
            for number in (other, other + 1, other - 1, 2 * other, other // 2):
                yield from _unequal_sizes(one, number)
            for number in (one, one + 1, one - 1):
                yield from _unequal_sizes(other, number)


def _should_be_equal(
    left: ast.expr,
    one: Any,
    right: ast.expr,
    other: Any,
    frame: types.FrameType,
    outcome: TrialOutcome,
) -> Iterator[Obstacle]:
    if type(one) is int and type(other) is int:
        if _is_rank(left):
            yield WrongRank(one, other)
        elif _is_rank(right):
            yield WrongRank(other, one)
        yield from _unequal_sizes(one, other)
        yield from _unequal_sizes(other, one)
    elif isinstance(one, (tuple, list)) and isinstance(other, (tuple, list)):
        if len(one) != len(other):
            yield WrongRank(len(one), len(other))
        for a, b in zip(one, other):  # noqa: B905 - only as many as both have
            if type(a) is int and type(b) is int:
                yield from _unequal_sizes(a, b)


def _is_rank(node: ast.expr) -> bool:
    text = ast.unparse(node)
    return bool(re.search(r"\.dim\(\)|\.ndim\b|\.ndimension\(\)|len\(.*(shape|size\(\))\)", text))


def _wrong_remainder(node: ast.BinOp, frame: types.FrameType) -> Iterator[Obstacle]:
    number, divisor = _evaluate_in_frame(node.left, frame), _evaluate_in_frame(node.right, frame)
    if type(number) is int and type(divisor) is int and divisor > 0:
        yield Indivisible(number, divisor)


def _of_call(
    test: ast.Call, holds: bool, frame: types.FrameType, outcome: TrialOutcome
) -> Iterator[Obstacle]:
    name = getattr(test.func, "id", "")
    if name == "isinstance" and holds and len(test.args) == 2:
        kinds = _evaluate_in_frame(test.args[1], frame)
        wanted = kinds if isinstance(kinds, tuple) else (kinds,)
        types_ = tuple(kind for kind in wanted if isinstance(kind, type))
        for path in paths_of(test.args[0], frame, outcome):
            yield WrongType(path, types_)
    elif name in ("all", "any"):
        for path in paths_of(test, frame, outcome):
            yield WrongChoice(path, ())


def _evaluate_in_frame(node: ast.expr, frame: types.FrameType) -> Any:
    """Return the value of an expression in a stack frame; None if evaluating it raises."""
    try:
        code = compile(ast.Expression(node), "<test>", "eval")
        return eval(code, frame.f_globals, dict(frame.f_locals))
    except Exception:
        return None


# -- arguments that code uses ------------------------------------------------------------------


def paths_of(node: ast.AST, frame: types.FrameType, outcome: TrialOutcome) -> list[Path]:
    """Return the positions of tried arguments that occur in an expression, evaluated in a stack
    frame of the trial call."""
    found: list[Path] = []
    for part in ast.walk(node):
        if isinstance(part, ast.Name):
            found += _paths_of_name(part.id, frame, outcome)
        elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
            if part.value.id == "self":
                found += _paths_of_attribute(part.attr, outcome)
            else:
                found += _paths_of_field(part.value.id, part.attr, frame, outcome)
    return list(dict.fromkeys(found))


def implicated_paths(outcome: TrialOutcome) -> list[Path]:
    """Return the positions of tried arguments that occur on the lines of a trial call's traceback,
    deepest frame first."""
    found: list[Path] = []
    for frame, line, _ in reversed(outcome.frames[-_MOST_FRAMES:]):
        text = linecache.getline(frame.f_code.co_filename, line, frame.f_globals)
        for name in re.findall(r"(?<![\w.])[A-Za-z_]\w*", text):
            found += _paths_of_name(name, frame, outcome)
        for owner, name in re.findall(r"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)", text):
            if owner == "self":
                found += _paths_of_attribute(name, outcome)
            else:
                found += _paths_of_field(owner, name, frame, outcome)
    return list(dict.fromkeys(found))


_ABSENT = object()


def _paths_of_name(name: str, frame: types.FrameType, outcome: TrialOutcome) -> list[Path]:
    value = frame.f_locals.get(name, _ABSENT)
    if value is _ABSENT:
        return []
    return _paths_of_object(value, outcome)


def _paths_of_object(value: Any, outcome: TrialOutcome) -> list[Path]:
    """Return the positions of an object among the arguments of a trial call; numbers and strings
    match by equality."""
    found = []
    plain = isinstance(value, (int, str, float)) and not isinstance(value, bool)
    for path, made in outcome.made.items():
        same = made is value and not isinstance(value, (bool, type(None)))
        if same or (plain and type(made) is type(value) and made == value):
            found.append(path)
    return found


def _paths_of_attribute(attribute: str, outcome: TrialOutcome) -> list[Path]:
    """Return the positions of arguments with the name of an attribute, since modules usually store
    arguments under their names."""
    return [
        ("init", name)
        for name, _ in outcome.candidate.init
        if name.strip("_") == attribute.strip("_")
    ]


def _paths_of_field(
    owner: str, name: str, frame: types.FrameType, outcome: TrialOutcome
) -> list[Path]:
    """Return the positions of the field ``name`` in constructor arguments that the local variable
    ``owner`` refers to.

    For ``config.name`` in the code, ``owner`` is ``config``.
    """
    value = frame.f_locals.get(owner, _ABSENT)
    if value is _ABSENT or isinstance(value, torch.Tensor):
        return []
    return [
        (*path, f".{name}")
        for path, made in outcome.made.items()
        if made is value and path[0] == "init"
    ]
