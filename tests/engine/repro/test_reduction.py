"""The reducer: smaller programs that still show what they should, and no endless search."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import io
import itertools
import json
import random
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from fullgraph_engine.repro.reduce import PASSES, count_lines, format_program, reduce_program
from fullgraph_engine.repro.reduce.edits import Conflict, Incomplete, TreeEdit, apply_edits
from fullgraph_engine.repro.reduce.program import ParsedProgram, format_tree
from fullgraph_engine.repro.reduce.validity import find_unbound_names, has_endless_loop


@dataclass(frozen=True)
class Judged:
    interesting: bool


@dataclass
class InProcess:
    """Runs a predicate in this process; ``newest_first`` gives verdicts in the other order."""

    shows: Callable[[str], bool]
    capacity: int = 2
    newest_first: bool = False
    tried: list[str] = field(default_factory=list)
    _waiting: list[tuple[int, str]] = field(default_factory=list)

    def submit(self, text: str) -> int:
        assert len(self._waiting) < self.capacity
        self.tried.append(text)
        self._waiting.append((len(self.tried), text))
        return len(self.tried)

    def wait(self) -> tuple[int, Judged]:
        ticket, text = self._waiting.pop(-1 if self.newest_first else 0)
        return ticket, Judged(self.shows(text))

    def kill(self, ticket: int) -> None:
        self._waiting = [waiting for waiting in self._waiting if waiting[0] != ticket]


def written(text: str) -> str:
    """What a program prints; nothing where it raises."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.suppress(BaseException):
        exec(compile(text, "<program>", "exec"), {"__name__": "__main__"})
        return out.getvalue()
    return ""


def shrunk(text: str, shows: Callable[[str], bool], most: int = 10**9) -> str:
    tester = InProcess(shows)
    found = run(text, tester)
    assert shows(found)
    assert len(tester.tried) <= most
    return found


def run(text: str, tester: InProcess) -> str:
    return reduce_program(textwrap.dedent(text), tester, deadline=10**12, report=lambda *_: None)


def prints(word: str) -> Callable[[str], bool]:
    return lambda text: word in written(text)


def same(found: str, expected: str) -> None:
    assert found == textwrap.dedent(expected).lstrip("\n")


MODULE = '''
    import os, math
    from dataclasses import dataclass

    class Base:
        """What all have."""
        def __init__(self):
            self.calls = 0
        def __call__(self, *args):
            self.calls += 1
            return self.forward(*args)

    class Layer(Base):
        def __init__(self, width: int, scale=3):
            super().__init__()
            self.width = width
            self.scale = scale
            self.root = math.sqrt
        def forward(self, x, y=2):
            a = self.root(x)
            b = a + self.width
            c = b * self.scale
            for i in range(3):
                if i == 1:
                    print("hit", c)
                else:
                    c = c + 1
            return c
        def unused(self):
            return os.getcwd()

    def build(width):
        return Layer(width)

    def act(z):
        model = build(4)
        return model(z)

    w = act(16)
    v = math.floor(w)
'''


def test_what_prints_is_all_that_is_left() -> None:
    same(shrunk(MODULE, prints("hit"), most=200), 'print("hit")\n')


def test_the_values_on_the_way_are_left_out() -> None:
    text = """
        def f(x):
            a = x + 1
            b = a * 2
            c = b - 3
            if c is None:
                return 7
            return len(c)
        f(3)
    """

    def shows(text: str) -> bool:
        try:
            exec(text, {})
        except TypeError as error:
            return "has no len()" in str(error)
        except BaseException:
            pass
        return False

    assert count_lines(shrunk(text, shows, most=60)) == 1


def function_in(text: str) -> ast.FunctionDef | None:
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    return functions[0] if len(functions) == 1 else None


def traced(text: str) -> bool:
    """Whether a function is handed over to ``torch.compile`` and calls ``print`` then."""
    inside: list[bool] = [False]
    seen: list[bool] = []

    class Torch:
        class nn:
            class Module:
                def __call__(self, *args: object, **given: object) -> object:
                    return self.forward(*args, **given)  # type: ignore[attr-defined]

                def eval(self) -> object:
                    return self

            class Linear(Module):
                def __init__(self, rows: int, columns: int) -> None:
                    self.rows = rows

                def forward(self, x: object) -> object:
                    return x

            class Sequential(Module):
                def __init__(self, *parts: Callable[[object], object]) -> None:
                    self.parts = parts

                def forward(self, x: object) -> object:
                    for part in self.parts:
                        x = part(x)
                    return x

        @staticmethod
        def compile(function: Callable[..., object], backend: str) -> Callable[..., object]:
            assert backend == "eager"

            def compiled(*args: object) -> object:
                inside[0] = True
                return function(*args)

            return compiled

        @staticmethod
        def randn(*size: int) -> tuple[int, ...]:
            assert all(isinstance(number, int) and number > 0 for number in size)
            assert size
            return size

        ones = randn

    def fake_print(*args: object) -> None:
        if inside[0] and any(isinstance(argument, tuple) for argument in args):
            seen.append(True)

    source = text.replace("import torch\n", "").replace("import torch.nn as nn\n", "")
    namespace = {"torch": Torch, "nn": Torch.nn, "print": fake_print, "__name__": "__main__"}
    try:
        compile(text, "", "exec")
        exec(source, namespace)
    except BaseException:
        return False
    return bool(seen) and "import torch\n" in text


def test_an_object_becomes_what_it_holds() -> None:
    text = """
        import math

        class Inner:
            def __init__(self):
                self.parts = [math.pi]

        class Outer:
            def __init__(self):
                self.inner = Inner()

        print(math.floor(1.5), type(Outer()))
    """

    def shows(program: str) -> bool:
        return written(program).startswith("1 <class")

    assert "class" not in shrunk(text, shows)


def test_a_module_becomes_a_function() -> None:
    text = """
        import torch
        import torch.nn as nn

        class Block(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.linear = nn.Linear(width, width)
            def forward(self, x):
                return self.linear(x)

        class Net(nn.Module):
            def __init__(self, width, depth):
                super().__init__()
                self.blocks = [Block(width) for _ in range(depth)]
                self.head = nn.Sequential(nn.Linear(width, 10), nn.Linear(10, 10))
            def forward(self, images, mask=None):
                for block in self.blocks:
                    images = block(images)
                print("shape", images)
                return self.head(images)

        width = 768
        net = Net(width, depth=12).eval()
        inputs = torch.randn(8, 128, width)
        torch.compile(net, backend="eager")(inputs)
    """
    same(
        shrunk(text, traced, most=150),
        """
        import torch

        def f(x):
            print(x)

        torch.compile(f, backend="eager")(torch.ones(1))
        """,
    )


@pytest.mark.parametrize(("dtype", "one"), [("bool", "True"), ("int64", "3")])
def test_tensors_stay_of_the_dtype_that_is_needed(dtype: str, one: str) -> None:
    pytest.importorskip("torch")
    row = f"[{one}, {one}, {one}, {one}]"
    text = f"""
        import torch

        show(torch.randn(2, 4), torch.tensor([{row}, {row}]))
    """

    def shows(text: str) -> bool:
        seen: list[bool] = []

        def show(values: Any, other: Any) -> None:
            alike = values.dim() > 0 and values.shape == other.shape
            seen.append(
                alike and values.is_floating_point() and str(other.dtype) == f"torch.{dtype}"
            )

        with contextlib.suppress(Exception):
            exec(text, {"show": show})
        return any(seen)

    same(
        shrunk(text, shows),
        f"""
        import torch

        show(torch.ones(1), torch.ones(1, dtype=torch.{dtype}))
        """,
    )


def test_classes_that_differ_in_constants_alone_become_one() -> None:
    text = """
        class First:
            def __init__(self):
                self.width = 16
            def say(self):
                print("hit", self)
        class Second:
            def __init__(self):
                self.width = 32
            def say(self):
                print("hit", self)
        for each in (First(), Second()):
            each.say()
    """

    def shows(text: str) -> bool:
        return written(text).count("object") == 2 and "self.width" in text

    assert shrunk(text, shows).count("class") == 1


def test_what_a_parameter_stands_for_is_called() -> None:
    text = """
        class Attention:
            def forward(self, query, dropped):
                print("hit", query)

        def layer(attention, query, dropped):
            attention.forward(query, dropped)

        layer(Attention(), 1, 0)
        layer(Attention(), 2, 3)
    """
    found = shrunk(text, lambda text: "class" in text and prints("hit 1\nhit 2")(text))
    assert "def forward(self, y):" in found
    assert "x.forward(y)" in found


@pytest.mark.slow
@pytest.mark.parametrize("capacity", [1, 2, 5])
@pytest.mark.parametrize("newest_first", [False, True])
def test_the_order_of_verdicts_changes_nothing(capacity: int, newest_first: bool) -> None:
    tester = InProcess(prints("hit"), capacity, newest_first)
    assert run(MODULE, tester) == run(MODULE, InProcess(prints("hit"), 1))


def test_no_program_is_tried_twice_in_turn() -> None:
    tester = InProcess(prints("hit"), capacity=1)
    run(MODULE, tester)
    assert len(set(tester.tried)) == len(tester.tried)


def test_the_best_is_told_and_only_gets_smaller() -> None:
    told: list[tuple[str, int]] = []
    shows = prints("hit")
    found = reduce_program(
        textwrap.dedent(MODULE),
        InProcess(shows),
        deadline=10**12,
        report=lambda text, tried: told.append((text, tried)),
    )
    assert told[-1][0] == found
    assert all(shows(text) for text, _ in told)
    sizes = [ParsedProgram.parse(text).size for text, _ in told]
    nodes = [(size.lines, size.nodes) for size in sizes]
    assert nodes == sorted(nodes, reverse=True)
    tries = [tried for _, tried in told]
    assert tries == sorted(tries)


@pytest.mark.parametrize("ticks", [0, 1, 5, 20])
def test_it_ends_at_the_deadline_with_the_best_so_far(ticks: int) -> None:
    now = iter(range(10**9))
    tester = InProcess(prints("hit"))
    told: list[str] = [textwrap.dedent(MODULE)]
    found = reduce_program(
        textwrap.dedent(MODULE),
        tester,
        deadline=ticks,
        report=lambda text, _: told.append(text),
        clock=lambda: next(now),
    )
    assert len(tester.tried) <= ticks + 2
    assert "hit" in written(found)
    assert not tester._waiting


def test_numbers_of_data_are_not_tried_one_by_one() -> None:
    text = f"print('hit', sum({list(range(40))}))"
    shrunk(text, prints("hit 780"), most=20)


def test_what_a_function_must_be_given_is_not_left_out() -> None:
    tester = InProcess(lambda text: "hit 5\nhit 6" in written(text))
    run("def f(x, y):\n    g = x + y\n    print('hit', g)\nf(2, 3)\nf(3, 3)", tester)
    assert not any("f()" in text or "f(2)" in text for text in tester.tried)


def test_what_has_failed_is_not_tried_again_for_smaller_numbers() -> None:
    tester = InProcess(lambda text: "hit" in written(text))
    found = run("x = [40]\nx.append(50)\nif x.pop() > 1:\n    print('hit', x.pop(), 60)", tester)
    plain = [re.sub(r"\d+", "0", text) for text in tester.tried]
    assert max(plain.count(text) for text in plain if "pop" in text) <= 4, found


def test_what_is_no_program_comes_back() -> None:
    tester = InProcess(lambda _: True)
    assert run("def f(:\n", tester) == "def f(:\n"
    assert not tester.tried


def test_a_program_that_has_to_stay_as_it_is_comes_back() -> None:
    text = "x = 1  # exactly this\n"
    assert run(text, InProcess(lambda candidate: candidate == text)) == text


def test_the_backend_and_the_call_of_compile_are_not_touched() -> None:
    text = 'import torch\n\ntorch.compile(abs, backend="eager")(torch.ones(2))\n'
    tester = InProcess(lambda candidate: False)
    run(text, tester)
    assert tester.tried
    assert all('backend="eager"' in tried for tried in tester.tried)


def test_candidates_bind_the_names_that_they_use() -> None:
    tester = InProcess(prints("hit"))
    run(MODULE, tester)
    for tried in tester.tried:
        try:
            exec(compile(tried, "<program>", "exec"), {"__name__": "__main__", "print": id})
        except NameError as error:
            pytest.fail(f"{error} in\n{tried}")
        except Exception:
            pass


def test_a_program_has_one_style() -> None:
    text = textwrap.dedent(
        """
        import os # why
        class A:
            x = "it's"
            def f(self, y): return f"{y['k']}" + 'say "hi"' + '\\n'
        def g():
            'Text.'
            def h(): pass
            return h
        g()
        """
    )
    assert ast.dump(ast.parse(format_program(text))) == ast.dump(ast.parse(text))
    assert format_program(format_program(text)) == format_program(text)
    lines = format_program(text).splitlines()
    assert lines[:4] == ["import os", "", "class A:", '    x = "it\'s"']
    assert lines[-2:] == ["", "g()"]


def test_lines_of_code() -> None:
    assert count_lines("# what\n\nimport os\n  # why\nos\n") == 2


STANDARD = Path(json.__file__).parent.parent
FILES = ["bisect.py", "contextlib.py", "json/encoder.py", "colorsys.py"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("seed", range(2))
def test_any_file_ends_under_any_predicate(name: str, seed: int) -> None:
    """A predicate like chance, but the same for the same text."""
    text = (STANDARD / name).read_text()
    nodes = ast.walk(ast.parse(text))
    words = sorted({node.attr for node in nodes if isinstance(node, ast.Attribute)})
    kept = random.Random(seed).sample(words, min(3, len(words)))

    def shows(candidate: str) -> bool:
        chance = hashlib.sha256(f"{seed}{candidate}".encode()).digest()[0]
        return all(word in candidate for word in kept) and chance % 4 > 0

    tester = InProcess(shows)
    found = run(text, tester)
    assert shows(found)
    assert ParsedProgram.parse(found).size <= ParsedProgram.parse(text).size
    assert count_lines(found) < 40


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_each_edit_by_itself_makes_a_program_or_says_that_it_cannot(name: str) -> None:
    program = ParsedProgram.parse((STANDARD / name).read_text())
    made = 0
    for step in PASSES:
        for edit in itertools.islice(itertools.chain.from_iterable(step.groups(program)), 40):
            try:
                text = format_tree(apply_edits(program.tree, [edit]))
            except (Conflict, Incomplete, AttributeError):  # the last one by ast.unparse
                continue
            with contextlib.suppress(SyntaxError, ValueError):
                ParsedProgram.parse(text)
                made += 1
    assert made > 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("while True:\n    x = 1\n", True),
        ("while True:\n    print()\n", False),
        ("while True:\n    break\n", False),
        ("i = 0\nwhile i < 3:\n    print(i)\n", True),
        ("i = 0\nwhile i < 3:\n    i += 1\n", False),
        ("while x():\n    pass\n", False),
        ("def f():\n    while 1:\n        return\n", False),
    ],
)
def test_loops_without_an_end(text: str, expected: bool) -> None:
    assert has_endless_loop(ast.parse(text)) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("print(x)", {"x"}),
        ("x = x", {"x"}),
        ("def f():\n    return x\nx = 1", set()),
        ("def f(y):\n    y = z\n    return [y for y in y if w]", {"z", "w"}),
        ("def f():\n    x += 1", set()),
        ("def f():\n    def g():\n        nonlocal x\n        x = 2\n    x = 1\n    g()", set()),
        ("class A:\n    x = 1\n    y = x\n    def f(self):\n        return x", {"x"}),
        ("class A:\n    def f(self):\n        return __class__", set()),
        ("try:\n    pass\nexcept OSError as e:\n    print(e)", set()),
        ("for i in y:\n    pass\nprint(i)", {"y"}),
        ("print([a for b in c for a in b])\nc = 1", {"c"}),
        ("if (n := 1):\n    print(n)", set()),
        ("match 1:\n    case [a, *b]:\n        a, b\n    case {'k': v, **d}:\n        v, d", set()),
        ("from os import *\nprint(x)", set()),
        ("def f(a=b):\n    global c\n    c = 1\nc", {"b"}),
        ("f = lambda a, *b: (a, b, c)", {"c"}),
    ],
)  # fmt: skip
def test_names_that_nothing_binds(text: str, expected: set[str]) -> None:
    assert find_unbound_names(ast.parse(text)) == expected


def test_edits_are_made_in_what_other_edits_put_there() -> None:
    tree = ast.parse("a = f(x)\nb = g(a)\nprint(b)")
    first, second, shown = tree.body
    assert isinstance(first, ast.Assign) and isinstance(second, ast.Assign)
    assert isinstance(shown, ast.Expr) and isinstance(shown.value, ast.Call)
    read_a = second.value.args[0]  # type: ignore[attr-defined]
    made = apply_edits(
        tree,
        [
            TreeEdit({first: None, read_a: first.value.args[0]}),  # type: ignore[attr-defined]
            TreeEdit({second: None, shown.value.args[0]: read_a}),
        ],
    )
    assert ast.unparse(made) == "print(x)"


def test_two_edits_of_one_place_are_refused() -> None:
    tree = ast.parse("x")
    other = [TreeEdit({tree.body[0]: ast.Pass()}), TreeEdit({tree.body[0]: None})]
    with pytest.raises(Conflict):
        apply_edits(tree, other)
