"""Functions and classes as programs: each is executed alone and must do the same."""

from __future__ import annotations

import ast
import importlib
import itertools
import linecache
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from fullgraph_engine.placeholder import Placeholder  # noqa: E402
from fullgraph_engine.repro.emit.program import ProgramDraft  # noqa: E402
from fullgraph_engine.repro.emit.unwritable import UnwritableValue  # noqa: E402

Make = Callable[..., ModuleType]
_numbers = itertools.count()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Make a package of modules; the module ``main`` of it is returned."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made: list[str] = []

    def make(main: str, **others: str) -> ModuleType:
        name = f"written_{next(_numbers)}"
        made.append(name)
        folder = tmp_path / name
        folder.mkdir()
        for file, text in {"__init__": "", **others, "main": main}.items():
            (folder / f"{file}.py").write_text(textwrap.dedent(text))
        importlib.invalidate_caches()
        return importlib.import_module(f"{name}.main")

    yield make
    for name in list(sys.modules):
        if name.partition(".")[0] in made:
            del sys.modules[name]


def program(thing: object, call: str = "", draft: ProgramDraft | None = None) -> str:
    """A program that binds ``result``: ``call`` with the thing's name for the ``_`` in it."""
    draft = draft or ProgramDraft()
    name = draft.refer_to(thing)
    return draft.text([f"result = {call.replace('_', name, 1) or name}"])


def result_of(text: str) -> Any:
    space: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, "<program>", "exec"), space)
    return space["result"]


def imports_of(text: str) -> set[str]:
    tree = ast.parse(text)
    return {
        ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))
    }


def test_definitions_of_other_files_are_inlined(package: Make) -> None:
    main = package(
        """
        from . import numbers as n
        from .numbers import twice as double
        def f(x):
            return double(x) + n.LIMIT + n.deep.thrice(x)
        """,
        numbers="""
        from . import deep
        LIMIT = 5
        def twice(x):
            return 2 * x
        """,
        deep="""
        def thrice(x):
            return 3 * x
        """,
    )
    text = program(main.f, "_(1)")
    assert imports_of(text) == {"import torch"}
    assert result_of(text) == main.f(1) == 10
    assert "return twice(x) + LIMIT + thrice(x)" in text


def test_one_name_for_two_things(package: Make) -> None:
    main = package(
        """
        from . import other
        SIZE = 1
        def helper(x):
            return x + SIZE
        def f(x):
            return helper(x) * other.helper(x)
        """,
        other="""
        SIZE = 10
        def helper(x):
            return x - SIZE
        """,
    )
    text = program(main.f, "_(3)")
    assert result_of(text) == main.f(3)
    assert "helper_1" in text and "SIZE_1" in text


def test_a_local_variable_does_not_hide_what_is_inlined(package: Make) -> None:
    main = package(
        """
        from . import other
        def g(size):
            return other.size(size)
        def f(size):
            return g(size) + other.size(size)
        def first():
            return other.size(1) + f(2)
        """,
        other="""
        def size(x):
            return x + 1
        """,
    )
    assert result_of(program(main.first, "_()")) == main.first()


def test_a_value_shared_by_two_modules_is_one(package: Make) -> None:
    main = package(
        """
        from .state import CALLS
        from .other import note
        def f():
            note()
            return CALLS
        """,
        state="CALLS = []",
        other="""
        from .state import CALLS
        def note():
            CALLS.append(1)
        """,
    )
    text = program(main.f, "_()")
    assert result_of(text) == [1]
    assert text.count("CALLS = ") == 1


def test_functions_and_classes_that_need_each_other(package: Make) -> None:
    main = package(
        """
        def even(n):
            return n == 0 or odd(n - 1)
        def odd(n):
            return n != 0 and even(n - 1)
        class Base:
            def grow(self):
                return Derived()
        class Derived(Base):
            value = even(4)
        """
    )
    text = program(main.Base, "_().grow().value")
    assert result_of(text) is True
    assert text.index("class Base") < text.index("class Derived")
    assert text.index("def odd") < text.index("class Derived")


def test_decorators_come_along(package: Make) -> None:
    main = package(
        """
        import functools, torch
        def logged(times):
            def wrap(function):
                @functools.wraps(function)
                def wrapper(*args):
                    return [function(*args)] * times
                return wrapper
            return wrap
        @logged(times=2)
        @torch.no_grad()
        def f(x):
            return torch.is_grad_enabled(), x
        def g(x):
            return f(x)
        """
    )
    assert result_of(program(main.g, "_(1)")) == [(False, 1)] * 2
    assert result_of(program(main.f, "_(1)")) == [(False, 1)] * 2
    bare = program(main.f.__wrapped__.__wrapped__, "_(1)")
    assert result_of(bare) == (True, 1)


def test_closures(package: Make) -> None:
    main = package(
        """
        def counter(start, step=1):
            def count(by=step):
                nonlocal start
                start += by
                return start
            def peek():
                return start
            return count, peek
        count, peek = counter(5, 2)
        def f():
            return count(), peek(), (lambda: peek() + 1)()
        class_of = (lambda size: type_of(size))
        def type_of(size):
            class Sized:
                amount = size
                def get(self):
                    return size + self.amount
            return Sized
        Five = type_of(5)
        """
    )
    text = program(main.f, "_()")
    assert result_of(text) == (7, 7, 8)
    assert main.f() == (7, 7, 8)
    assert result_of(program(main.f, "_()")) == (9, 9, 10), "the state of now"
    assert result_of(program(main.Five, "_().get()")) == 10


def test_lambdas_on_one_line(package: Make) -> None:
    main = package(
        """
        pair = (lambda x: x + 1), (lambda x: x + 2)
        named = lambda x: pair_sum(x)
        def pair_sum(x):
            return pair[0](x) * pair[1](x)
        """
    )
    assert result_of(program(main.pair[1], "_(1)")) == 3
    assert result_of(program(main.pair[0], "_(1)")) == 2
    text = program(main.named, "_(1)")
    assert result_of(text) == 6
    assert "named = lambda x: pair_sum(x)" in text


def test_classes_of_all_kinds(package: Make) -> None:
    main = package(
        """
        from __future__ import annotations
        import enum
        from collections import namedtuple
        from dataclasses import dataclass, field
        from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar
        if TYPE_CHECKING:
            from nowhere import Missing
        T = TypeVar("T")
        Point = namedtuple("Point", "x y")
        class Color(enum.Enum):
            RED = 1
            BLUE = enum.auto()
        class Pair(NamedTuple):
            a: int
            b: Missing = 4
        @dataclass(frozen=True)
        class Config:
            \"\"\"Numbers.\"\"\"
            size: int
            extra: list[Missing] = field(default_factory=list)
            def doubled(self) -> Missing:
                return self.size * 2
        class Box(Generic[T]):
            kept: int = 1
            def __init__(self, item: T) -> None:
                self.item: T = item
            @property
            def inside(self):
                return self.item
            @inside.setter
            def inside(self, item):
                self.item = item
            @staticmethod
            def of(item):
                return Box(item)
            @classmethod
            def none(cls):
                return super().__new__(cls)
            class Lid:
                shut = True
        def f():
            box = Box.of(Config(3).doubled())
            box.inside += 1
            return (
                Point(1, 2).y, Color.BLUE.value, Pair(1).b, box.inside, Config(1).extra,
                type(Box.none()).__name__, Box.Lid.shut, lid(),
            )
        def lid():
            return Box.Lid.shut
        """
    )
    text = program(main.f, "_()")
    assert result_of(text) == main.f()
    assert "Numbers" not in text and "TYPE_CHECKING" not in text
    assert "def __init__(self, item):" in text and "kept = 1" in text


def test_compiled_functions_are_given_as_they_were(package: Make) -> None:
    main = package(
        """
        import functools, torch
        from torch import compile
        @torch.compile(fullgraph=True)
        def f(x):
            return g(x) + k(x) + h(x)
        @compile
        def g(x):
            return x
        def _k(x):
            return x
        k = torch.compile(_k, dynamic=True)
        @torch._dynamo.disable
        def h(x):
            return x
        """
    )
    text = program(main.f, "_(1)")
    assert "compile" not in text
    assert "@torch._dynamo.disable\ndef h(x):" in text
    assert result_of(text) == 3


def test_functions_of_torch_by_their_public_names(package: Make) -> None:
    main = package(
        """
        import os.path as p, math, torch.nn.functional as F
        from torch import nn, Tensor as T
        from torch.nn.modules.linear import Linear
        from torch.utils.checkpoint import checkpoint
        from collections.abc import Sequence
        from typing import Optional
        from math import *
        act = F.gelu
        def f(x):
            assert isinstance(x, T) and not isinstance(x, Sequence)
            y = checkpoint(Linear(1, 1), act(x), use_reentrant=False)
            none = F.relu(y).item() * 0 + len(p.join("a", "b")) + (Optional is None)
            return none + math.pi + sqrt(4)
        """
    )
    text = program(main.f, "_(torch.ones(1))")
    assert imports_of(text) == {
        "import torch",
        "import torch.utils.checkpoint",
        "import collections.abc",
        "import math",
        "import os.path",
        "import typing",
    }
    for part in ("torch.nn.Linear(1, 1)", "torch.nn.functional.relu(y)", "torch.Tensor"):
        assert part in text
    assert result_of(text) == main.f(torch.ones(1))


def test_custom_operators_with_their_registrations(package: Make) -> None:
    namespace = f"writing{next(_numbers)}"
    main = package(
        f"""
        from __future__ import annotations
        import torch
        from torch import Tensor
        @torch.library.custom_op("{namespace}::twice", mutates_args=())
        def twice(x: Tensor, by: float = 2.0) -> Tensor:
            return x * by
        @twice.register_fake
        def _(x, by=2.0):
            return torch.empty_like(x)
        lib = torch.library.Library("{namespace}l", "DEF")
        lib.define("more(Tensor x) -> Tensor")
        def more_cpu(x):
            return x + ONE
        ONE = 1
        lib.impl("more", more_cpu, "CompositeExplicitAutograd")
        @torch.library.register_fake("{namespace}l::more")
        def more_fake(x):
            return torch.empty_like(x)
        other = torch.library.Library("{namespace}unused", "DEF")
        def f(x):
            return twice(x) + torch.ops.{namespace}l.more(x)
        """
    )
    text = program(main.f, "_")
    renamed = text.replace(namespace, namespace + "again")
    function = result_of(renamed)
    assert function(torch.ones(1)).item() == 4
    assert "@twice.register_fake" in text and "def more_cpu" in text and "more_fake" in text
    assert "unused" not in text
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        assert function(torch.ones(3)).shape == (3,)


def test_settings_and_patches_come_along(package: Make) -> None:
    main = package(
        """
        import torch
        torch._dynamo.config.recompile_limit = 3
        class Net(torch.nn.Module):
            def forward(self, x):
                return x
        def other(self, x):
            return g(x) + 1
        Net.forward = other
        def g(x):
            return x
        def unrelated(x):
            return x
        g.flag = 7
        torch._dynamo.allow_in_graph(g)
        torch._dynamo.allow_in_graph(unrelated)
        print("not this")
        """
    )
    text = program(main.Net, "_()(1)")
    assert result_of(text) == 2
    assert "torch._dynamo.config.recompile_limit = 3" in text
    assert "torch._dynamo.allow_in_graph(g)" in text and "g.flag = 7" in text
    assert "unrelated" not in text and "print" not in text
    torch._dynamo.config.recompile_limit = 8


def test_imports_inside_functions(package: Make) -> None:
    main = package(
        """
        def f(x):
            import math
            from .other import g as h
            from . import other
            return h(x) + other.CONSTANT + math.floor(x)
        """,
        other="""
        CONSTANT = 2
        def g(x):
            return x
        """,
    )
    main.f(1)
    text = program(main.f, "_(1)")
    assert "from" not in text
    assert result_of(text) == 4


def test_globals_that_functions_assign(package: Make) -> None:
    main = package(
        """
        from . import other
        count = 0
        def f():
            global count, fresh
            count += 1
            fresh = 3
            return count + fresh + other.f()
        """,
        other="""
        count = 10
        def f():
            global count
            count += 1
            return count
        """,
    )
    assert result_of(program(main.f, "_()")) == 15


def test_autograd_functions_and_inheritance(package: Make) -> None:
    main = package(
        """
        import torch
        from .base import Base
        class Twice(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x * 2
            @staticmethod
            def backward(ctx, g):
                return g * FACTOR
        FACTOR = 2
        class Net(Base):
            def __init__(self):
                super().__init__(3)
            def forward(self, x):
                return Twice.apply(super().forward(x))
        """,
        base="""
        import torch.nn as nn
        class Root(nn.Module):
            pass
        class Base(Root):
            def __init__(self, n):
                super(Base, self).__init__()
                self.n = n
            def forward(self, x):
                return x + self.n
        """,
    )
    text = program(main.Net, "_()(torch.ones(1)).item()")
    assert result_of(text) == 8


def test_the_text_that_was_executed_counts(package: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    main = package("def f():\n    return 1\n")
    edited = "def f():\n    return 2\n"
    path = str(main.__file__)
    exec(compile(edited, path, "exec"), vars(main))
    monkeypatch.setitem(linecache.cache, path, (len(edited), None, edited.splitlines(True), path))
    assert result_of(program(main.f, "_()")) == 2


def test_another_package_is_inlined_where_it_is_small(
    package: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site-packages"
    for name, lines in (("tiny_package", 3), ("huge_package", 500)):
        folder = site / name
        folder.mkdir(parents=True)
        (folder / "__init__.py").write_text(f"from .inner import {name[:4]}\n")
        body = "".join(f"    x = x + {n}\n" for n in range(lines))
        (folder / "inner.py").write_text(
            f"def {name[:4]}(x):\n    return deep(x)\ndef deep(x):\n{body}    return x\n"
        )
    monkeypatch.syspath_prepend(str(site))
    main = package(
        """
        import numpy as np
        import tiny_package as t
        from huge_package import huge
        def f(x):
            return t.tiny(x) + huge(x) * 0 + np.ones(1).sum()
        """
    )
    draft = ProgramDraft()
    text = program(main.f, "_(1)", draft)
    assert imports_of(text) == {
        "import torch",
        "import numpy as np",
        "from huge_package import huge",
    }
    assert result_of(text) == main.f(1)
    assert "def deep" in text
    assert any("huge_package" in note and "400 lines" in note for note in draft.notes)
    assert any("import numpy" in note for note in draft.notes)


def test_what_has_no_text_is_imported(package: Make) -> None:
    main = package(
        """
        exec("def made(x):\\n    return x", globals())
        def make():
            space = {}
            exec("def lost(x):\\n    return x", space)
            return space["lost"]
        def f(x):
            return made(x) if x else lost(x)
        lost = make()
        """
    )
    with pytest.raises(UnwritableValue, match="lost"):
        ProgramDraft().refer_to(make_lost(main))
    draft = ProgramDraft()
    text = program(main.f, "_(3)", draft)
    assert result_of(text) == 3
    assert f"from {main.__name__} import made" in imports_of(text)
    assert any("import made" in note for note in draft.notes)


def make_lost(main: ModuleType) -> object:
    """A function that nothing knows by name."""
    return main.make()


def test_names_that_an_import_did_not_give(package: Make) -> None:
    main = package("def f(x):\n    return x if x else absent.call(x)\n")
    main.absent = Placeholder("absent", 0, "No module named 'absent'")  # type: ignore[attr-defined]
    draft = ProgramDraft()
    text = program(main.f, "_(3)", draft)
    assert result_of(text) == 3
    assert any("No module named 'absent'" in note for note in draft.notes)


def test_methods_alone(package: Make) -> None:
    main = package(
        """
        import torch, functools
        SIZE = 2
        def assigned(self):
            return helper(self)
        def helper(x):
            return x
        class Net:
            DEFAULT = 3
            @torch.no_grad()
            def forward(self, x: torch.Tensor, k=DEFAULT, *, size=SIZE) -> int:
                \"\"\"Says nothing.\"\"\"
                return super().forward(x) + SIZE
            @property
            def value(self):
                return Net
            @value.setter
            def value(self, other):
                pass
        Net.late = assigned
        """
    )
    draft = ProgramDraft()
    assert draft.method(main.Net, "forward").splitlines() == [
        "@torch.no_grad()",
        "def forward(self, x, k=3, *, size=2):",
        "    return super().forward(x) + SIZE",
    ]
    with draft.alias(main.Net, "Itself"):
        value = draft.method(main.Net, "value")
    assert "return Itself" in value and "@value.setter" in value
    assert draft.method(main.Net, "late") == "late = assigned"
    text = draft.text(["assigned(SIZE)"])
    assert "def helper" in text and "SIZE = 2" in text and "class Net" not in text


def test_statements_keep_their_order() -> None:
    draft = ProgramDraft()
    draft.add("x = torch.ones(2)")
    draft.add("x.fill_(3)")
    draft.add("y = x.sum()")
    draft.add("x.zero_()")
    assert result_of(draft.text(["result = y.item()"])) == 6


def test_arguments_that_are_one_object_stay_one(package: Make) -> None:
    main = package("def f(x, y, g):\n    return x is y and g(x) is x\ndef g(x):\n    return x\n")
    draft = ProgramDraft()
    x = torch.ones(3)
    name = draft.refer_to(main.f)
    arguments = draft.expressions([x, x, main.g], ["x", "y", "g"])
    assert result_of(draft.text([f"result = {name}({', '.join(arguments)})"])) is True


def test_a_program_is_written_the_same_twice(package: Make) -> None:
    main = package(
        """
        import math
        A, B = {"x", "y"}, 2
        def g(x):
            return B
        def f(x):
            return math.sqrt(len(A)) + g(x)
        """
    )
    assert program(main.f, "_(1)") == program(main.f, "_(1)")
    draft = ProgramDraft()
    name = draft.refer_to(main.f)
    assert draft.text([f"{name}(1)"]) == draft.text([f"{name}(1)"])


@pytest.mark.skipif(sys.version_info < (3, 12), reason="there are no type parameters")
def test_type_parameters_are_not_the_variables_of_their_names(package: Make) -> None:
    main = package(
        """
        from .things import Base, Deep
        T, LIMIT = 1, 2
        type Pair[T] = tuple[T, T]
        class Kept[T: Base](Base[T]):
            Inner = int
            class Part[U](Deep[U]):
                first: U
            def both[V](self, x: Inner, y: V = LIMIT) -> Pair[T]:
                return (x, y)
        def f[T](x: T) -> T:
            def g(y: T) -> T:
                return T
            return x if g(x) is T else None
        def h(x):
            return f(x), Kept().both(x), T, Pair
        """,
        things="""
        class Base[U]: pass
        class Deep[U]: pass
        """,
    )
    text = program(main.h, "_(3)")
    assert text.count("T = 1") == 1
    assert result_of(text)[:3] == (3, (3, 2), 1)
    assert "T = 1" not in program(main.f, "_(3)")
    assert "T = 1" not in program(main.Kept, "_().both(3)")
