"""The parts of a comparison of behavior by themselves: lines, sides of conditions, facts."""

from __future__ import annotations

import itertools
import signal
import textwrap
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from fullgraph_engine.behavior.comparing import allowed_deviation
from fullgraph_engine.behavior.coverage import (
    CoverageTracer,
    ReachedCode,
    RequiredCoverage,
    required_coverage,
)
from fullgraph_engine.behavior.facts import (
    CallFact,
    FactCollector,
    MemoryOwners,
    TensorData,
    default_values,
    tensor_digest,
)
from fullgraph_engine.behavior.iterables import rebuild_iterators, replace_iterators
from fullgraph_engine.behavior.output import OutputCapture
from fullgraph_engine.behavior.speed import _call_seconds
from fullgraph_engine.behavior.state import collect_state
from fullgraph_engine.host.comparison import differing_lines
from fullgraph_engine.targets import Call

PATH = "/nowhere/model.py"


def keep(tensor: torch.Tensor) -> TensorData:
    return TensorData(str(tensor.dtype), tuple(tensor.shape), 0, 0, tensor_digest(tensor))


def words_of(value: Any) -> dict[str, str]:
    walk = FactCollector("result", keep, MemoryOwners())
    walk.collect("r", value)
    return {fact.path: fact.words for fact in walk.facts}


def missing(text: str, lines: set[int], *calls: Any) -> tuple[int, ...]:
    """Lines of ``f`` that calls with these arguments leave unreached, or on one side only."""
    text = textwrap.dedent(text)
    asked: RequiredCoverage = required_coverage(text, PATH, frozenset(lines))
    namespace: dict[str, Any] = {}
    exec(compile(text, PATH, "exec"), namespace)
    coverage = CoverageTracer(PATH, asked.lines)
    for argument in calls:
        with coverage.trace():
            namespace["f"](argument)
    return asked.missing_lines(coverage.reached)


def test_lines_that_two_texts_do_not_have_in_common() -> None:
    before, after = "a\nb\nc\nd\n", "a\nx\ny\nc\nd\ne\n"
    assert differing_lines(before, after) == ((1,), (1, 2, 5))
    assert differing_lines(before, before) == ((), ())
    assert differing_lines("", "a\n") == ((), (0,))
    many = "".join(f"{number}\n" for number in range(3_000))
    assert differing_lines(f"a\n{many}", f"b\n{many[::-1]}b\n")[0][0] == 0


def test_both_sides_of_a_condition_over_much_code() -> None:
    # Its jump has an argument of more than a byte, which an instruction of its own holds.
    body = "".join(f"        y = y * x + {number}\n" for number in range(200))
    text = f"def f(x):\n    y = x\n    if x > 0:\n{body}    return y\n"
    assert missing(text, {2}, 1) == (2,)
    assert missing(text, {2}, -1) == (2,)
    assert missing(text, {2}, 1, -1) == ()


@pytest.mark.parametrize(
    ("body", "one", "both"),
    [
        ("return x + 1 if x > 0 else x - 1", (1,), (1, -1)),
        ("return (x > 0 and x) or 3", (1,), (1, -1)),
        ("return [y for y in (x,) if y > 0]", (1,), (1, -1)),
        ("x = x > 2 and x", (1,), (1, 8)),
    ],
)
def test_both_sides_of_a_condition_on_one_line(
    body: str, one: tuple[int, ...], both: tuple[int, ...]
) -> None:
    text = f"def f(x):\n    y = 0\n    {body}\n"
    assert missing(text, {2}, *one) == (2,)
    assert missing(text, {2}, *both) == ()


SETTINGS = """\
class C:
    def __init__(self, rate=None):
        self.rate, self.kind, self.kept = rate, "a", None
    def change(self):
        self.kept = 1
    def f(self, x):
        {}
"""


@pytest.mark.parametrize(
    ("statement", "settled"),
    [
        ("return x if self.rate is None else self.rate", True),
        ("return x if self.kind == 'a' and not isinstance(self.rate, int) else 3", True),
        ("return x if self.kept is None else 3", False),
        ("return x if self.rate else 3", False),
        ("return x if self.rate is None and x > 0 else 3", False),
        ("return x if self.rate is None else (2 if x > 0 else 3)", False),
        ("return x if x is None else 3", False),
    ],
)
def test_no_inputs_lead_to_other_settings(statement: str, settled: bool) -> None:
    """Nothing in the file changes them, and a tensor is none of what they are asked for."""
    asked = required_coverage(SETTINGS.format(statement), PATH, frozenset({6}))
    assert bool(asked.of_settings) == settled and bool(asked.sides) == (not settled)
    assert asked.has_other_settings(ReachedCode({6})) == settled
    assert not asked.has_other_settings(ReachedCode({6}, set(asked.of_settings)))


def test_an_assertion_that_never_fails_has_one_side() -> None:
    text = "def f(x):\n    assert x < 5 or x > 7\n"
    assert missing(text, {1}, 1, 8) == (1,)


def test_an_if_without_else_has_two_sides() -> None:
    text = """\
    def f(x):
        if x > 0:
            x = 2 * x
        return x
    """
    assert missing(text, {1, 2}, 1) == (1,)
    assert missing(text, {1, 2}, -1) == (1, 2)
    assert missing(text, {1, 2}, 1, -1) == ()
    assert missing(text, {3}, 1) == ()


def test_code_that_the_compiler_has_written_twice_counts_once() -> None:
    text = """\
    def f(x):
        try:
            y = 1
        finally:
            y = 2 if x > 0 else 3
        while y > 2:
            y -= 1
        return y
    """
    assert missing(text, {4, 5, 6}, 1, -1) == ()
    assert missing(text, {4, 5, 6}, 1) == (4, 5, 6)


def test_a_changed_statement_has_all_its_lines_and_a_decorator_its_function() -> None:
    text = (
        "def d(g):\n    return g\n@d\ndef f(x):\n    return sum([\n        x,\n        1,\n    ])\n"
    )
    assert required_coverage(text, PATH, frozenset({6})).lines == {4, 5, 6}
    assert required_coverage(text, PATH, frozenset({2})).lines == {4}


def test_values_are_taken_apart() -> None:
    x = torch.ones(2, 3)
    words = words_of({"a": [x, x[0], 1, True, 1.0], "b": (None, "text"), "c": x})
    assert words["r"] == "dict with [\"'a'\", \"'b'\", \"'c'\"]"
    assert words["r['a'][0]"] == "f32[2, 3]"
    assert words["memory of r['a'][1]"] == "that of r['a'][0]"
    assert words["memory of r['c']"] == "the same tensor as r['a'][0]"
    assert (words["r['a'][2]"], words["r['a'][3]"]) == ("int 1", "bool True")
    assert (words["r['a'][4]"], words["r['b'][1]"]) == ("float", "str 'text'")


def test_an_offset_in_the_same_memory_is_told() -> None:
    x = torch.ones(2, 3)
    assert words_of([x, x[1]])["memory of r[1]"] == "that of r[0] + 12 bytes"
    assert "memory of r[1]" not in words_of([x, x.clone()])
    assert "memory of r[1]" not in words_of([torch.ones(0), torch.ones(0)])


def test_what_cannot_be_taken_apart_is_opaque() -> None:
    assert [fact.opaque for fact in _facts(lambda: 1)] == [True]
    assert [fact.opaque for fact in _facts(iter([1]))] == [True]
    assert [fact.opaque for fact in _facts([1, 2.0])] == [False, False, False]


FUNCTIONS = """
import functools, json
SCALE = 2.0
TABLE = [1]
def helper(x):
    return x + 1
class Base:
    kind = "a"
    def inner(self):
        return 1
class Thing(Base):
    def __init__(self, n):
        self.n = n
    def method(self):
        return self.inner()
    @property
    def size(self):
        return 1
    @staticmethod
    def plain():
        return 2
def made(n):
    def inner(x, by=3):
        return helper(x) * n * by * SCALE
    return inner
def parts():
    return functools.partial(helper, x=1)
def tables():
    return lambda: TABLE
def things():
    return lambda: Thing(1)
def members():
    return lambda x: x in {"a", "b", "c"}
"""


def function_facts(expression: str, *changes: tuple[str, str]) -> list[CallFact]:
    """Of a function that an expression makes in a changed text."""
    text = FUNCTIONS
    for was, by in changes:
        assert was in text
        text = text.replace(was, by)
    namespace: dict[str, Any] = {"__name__": "model"}
    exec(compile(text, PATH, "exec"), namespace)
    walk = FactCollector("result", keep, MemoryOwners(), "model")
    walk.collect("r", eval(expression, namespace))
    return walk.facts


@pytest.mark.parametrize(
    "expression",
    ["made(2)", "Thing(1).method", "Thing.plain", "parts()", "things()", "members()", "json.dumps"],
)
def test_a_function_that_is_a_result_has_code(expression: str) -> None:
    facts = function_facts(expression)
    assert any(fact.code for fact in facts)
    assert all(fact.code for fact in facts if fact.opaque)
    # Where it is written does not matter.
    assert function_facts(expression, ("import functools", "\n\nimport functools")) == facts


@pytest.mark.parametrize(
    ("expression", "was", "by"),
    [
        ("made(2)", "x) * n", "x) + n"),
        ("made(2)", "x + 1", "x + 2"),
        ("made(2)", "SCALE = 2.0", "SCALE = 3.0"),
        ("made(2)", "by=3", "by=4"),
        ("made(2)", "def made(n):", "def made(n):\n    n = n + 1"),
        ("Thing(1).method", "return 1\nclass", "return 3\nclass"),
        ("Thing(1).method", 'kind = "a"', 'kind = "b"'),
        ("Thing(1).method", "return 1\n    @static", "return 3\n    @static"),
        ("Thing(1).method", "return 2", "return 3"),
        ("Thing(1).method", "self.n = n", "self.n = n + 1"),
        ("parts()", "x=1", "x=2"),
        ("parts()", "x + 1", "x - 1"),
        ("things()", "self.n = n", "self.n = -n"),
        ("things()", "Thing(1)", "Thing(2)"),
        ("members()", '"c"}', '"d"}'),
    ],
)
def test_a_function_that_does_something_else_has_other_facts(
    expression: str, was: str, by: str
) -> None:
    assert function_facts(expression) != function_facts(expression, (was, by))


def test_what_a_function_names_and_cannot_be_told_apart_leaves_it_without_code() -> None:
    assert not any(fact.code for fact in function_facts("tables()"))


def numbers() -> Iterator[int]:
    yield from (3, 1, 2)


@pytest.mark.parametrize(
    "make",
    [
        lambda: zip([1, 2], "ab", strict=True),
        lambda: zip([], [], strict=True),
        lambda: map(abs, [-1, 2]),
        lambda: filter(None, [0, 1, 2]),
        lambda: enumerate("ab", 5),
        lambda: enumerate(""),
        numbers,
        lambda: iter([1, 2]),
        lambda: reversed([1, 2]),
        lambda: {"a": 1, "b": 2}.items(),
        lambda: {"a": 1, "b": 2}.values(),
        lambda: itertools.chain([1], [2]),
        lambda: itertools.islice([1, 2, 3], 2),
    ],
)
def test_an_iterator_is_made_anew_for_each_call(make: Callable[[], Any]) -> None:
    def function(x: int, values: Any) -> Any:
        return x, values

    given, expected = make(), list(make())
    for _ in range(2):
        call = replace_iterators(Call(function, (1, given), {}))
        assert call.args == (1, tuple(expected))
        args, kwargs = rebuild_iterators(call, call.args, call.kwargs)
        assert (type(args[1]), list(args[1]), kwargs) == (type(given), expected, {})


def test_what_is_no_iterator_is_left_alone() -> None:
    call = Call(lambda *values, **named: 0, ([1], (2,), {3: 4}, {5}), {"a": range(3)})
    assert replace_iterators(call) is call
    endless = Call(lambda values: 0, (itertools.count(),), {})
    assert replace_iterators(endless) is endless


class Evil:
    """Its own code is of no help."""

    __slots__ = ("inside",)

    def __repr__(self) -> str:
        raise RuntimeError

    @property
    def __dict__(self) -> Any:  # type: ignore[override]
        raise ValueError


def test_objects_whose_code_raises() -> None:
    (fact,) = (one for one in _facts(Evil()) if one.path == "r")
    assert fact.opaque


def _facts(value: Any) -> list[CallFact]:
    walk = FactCollector("result", keep, MemoryOwners())
    walk.collect("r", value)
    return walk.facts


def test_a_cycle_ends() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert words_of(value)["r[1]"] == "the same list as r"


@pytest.mark.parametrize(
    "body",
    [
        "if not torch.compiler.is_compiling():\n        print(x)",
        "if torch.compiler.is_compiling():\n        x = x + 1\n    elif x:\n        x = x + 2",
        "if is_compiling() and x:\n        x = x + 1",
        "y = 1 if is_compiling() else 2",
        "if not is_scripting() and not is_compiling():\n        x = 1\n    else:\n        x = 2",
        "if not (is_scripting() or x):\n        x = 1",
    ],
)
def test_only_compiled_code_need_not_be_reached(body: str) -> None:
    known = (
        "class torch:\n    class compiler:\n        is_compiling = staticmethod(lambda: False)\n"
        "is_compiling = is_scripting = torch.compiler.is_compiling\n"
    )
    text = f"{known}def f(x):\n    {body}\n    return x\n"
    assert missing(text, set(range(20)), 0, 1) == ()


def test_what_eager_code_decides_has_to_be_reached() -> None:
    text = (
        "is_compiling = lambda: False\n"
        "def f(x):\n    if not is_compiling() and x:\n        x = x + 1\n    return x\n"
    )
    assert missing(text, set(range(20)), 0) == (3,)
    assert missing(text, set(range(20)), 0, 1) == ()


def test_files_that_a_call_writes_are_noted(tmp_path: Path) -> None:
    read, written = tmp_path / "read", tmp_path / "written"
    read.write_text("1")
    with OutputCapture().capture() as output:
        read.read_text()
        written.write_text("2")
        written.unlink()
    after = tmp_path / "after"
    after.write_text("3")
    assert [words.split()[0] for words in output.files] == ["open", "os.remove"]
    assert all("written" in words for words in output.files)


@pytest.mark.parametrize(
    ("module", "noted"), [("torch._inductor.codecache", 0), ("torch.serialization", 1)]
)
def test_files_of_compilers_are_not_noted(tmp_path: Path, module: str, noted: int) -> None:
    names = {"__name__": module, "folder": tmp_path / "new"}
    with OutputCapture().capture() as output:
        exec("folder.mkdir()", names)
    assert len(output.files) == noted


def test_defaults_of_functions_and_methods_are_state() -> None:
    def function(x: int, y: int = 1, *, z: float = 2.0) -> None:
        """Do nothing."""

    assert isinstance(function, types.FunctionType)
    assert default_values(function) == {"y": 1, "z": 2.0}
    namespace: dict[str, Any] = {"__name__": "model"}
    exec("class Net:\n    def __init__(self, dim, eps=3):\n        pass\n", namespace)
    collector = FactCollector("state", keep, MemoryOwners())
    collect_state(collector, function, namespace)
    words = {fact.path: fact.words for fact in collector.facts}
    assert words["the default of `y` of function"] == "int 1"
    assert words["the default of `eps` of Net.__init__"] == "int 3"


def test_results_in_double_precision_may_differ_by_the_rounding_of_other_elements() -> None:
    exact = torch.ones(2, dtype=torch.float64)
    near = exact + torch.tensor([0.0, 1e-5], dtype=torch.float64)
    reference, allowed = allowed_deviation(exact, exact, near)
    assert torch.equal(reference, exact)
    assert bool((allowed > 6e-14).all()) and bool((allowed < 1e-12).all())


def test_short_calls_are_timed_under_a_limit_of_processor_time() -> None:
    previous = signal.setitimer(signal.ITIMER_PROF, 1000.0)
    try:
        seconds = [_call_seconds(lambda: None) for _ in range(20)]
    finally:
        signal.setitimer(signal.ITIMER_PROF, *previous)
    assert all(seconds)
