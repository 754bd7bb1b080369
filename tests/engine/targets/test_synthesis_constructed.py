"""What the code of a file says of constructor arguments."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fullgraph_engine.targets import notation
from fullgraph_engine.targets.synthesis.constructed import constructor_calls
from fullgraph_engine.targets.workspace import texts_that_call


class Block(nn.Module):
    pass


NAMESPACE: dict[str, Any] = {"nn": nn, "torch": torch, "Block": Block, "WIDTH": 96, "SIZES": [1, 2]}


def shown(text: str) -> list[dict[str, str]]:
    found = constructor_calls(textwrap.dedent(text), "Net", ["a", "b"], NAMESPACE)
    return [{name: notation.show_value(value) for name, value in one.items()} for one in found]


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("3", "3"),
        ("-0.5", "-0.5"),
        ("'gelu'", "'gelu'"),
        ("(1, [2, None])", "(1, [2, None])"),
        ("{'dim': 2 * 32}", "{'dim': 64}"),
        ("dict(dim=8)", "{'dim': 8}"),
        ("[Block] * 2", "[Block, Block]"),
        ("nn.ReLU", "nn.ReLU"),
        ("nn.Linear(8, WIDTH // 2, bias=False)", "nn.Linear(8, 48, bias=False)"),
        ("torch.float32", "torch.float32"),
        ("SIZES", "[1, 2]"),
        ("SIZES[1]", "2"),
        ("{'small': 7}['small']", "7"),
    ],
)
def test_an_argument_that_is_written_out(written: str, value: str) -> None:
    assert shown(f"net = Net({written})") == [{"a": value}]


@pytest.mark.parametrize(
    "written", ["unknown", "3 / 0", "lambda: 1", "*SIZES", "unknown.size", "x[0]"]
)
def test_what_is_not_known_without_executing_it_is_left_out(written: str) -> None:
    assert shown(f"net = Net({written}, b=1)") == [{"b": "1"}]


def test_names_of_the_function_around_a_call() -> None:
    text = """
        def build(width=8, depth=3):
            block, size = Block, 2 * width
            twice = 1
            twice = 2
            return Net(block, b=[size, depth]), Net(twice, 4)
    """
    assert shown(text) == [{"a": "Block", "b": "[16, 3]"}, {"b": "4"}]


def test_parameters_are_what_the_function_is_called_with() -> None:
    text = """
        def _net(a, width, **kwargs):
            return Net(a, b=width, **kwargs)

        def small():
            return _net(Block, 16)

        def large():
            return _net(Block, width=64)
    """
    assert shown(text) == [{"a": "Block", "b": "16"}, {"a": "Block", "b": "64"}]


def test_parameters_of_a_constructor_and_attributes() -> None:
    text = """
        class Model(nn.Module):
            def __init__(self, dim, heads=4):
                self.dim = dim
                self.again = self.again
                self.net = Net(self.dim, heads)
                self.other = Net(self.again, heads + 1)

        model = Model(dim=32)
    """
    assert shown(text) == [{"a": "32", "b": "4"}, {"b": "5"}]


def test_a_constructor_that_is_inherited_or_called_by_a_subclass() -> None:
    text = """
        class Small(Net):
            def __init__(self):
                super().__init__(1, b=2)

        class Same(Net):
            pass

        same = Same(3, 4)
    """
    assert shown(text) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


def test_calls_of_which_more_is_known_come_first() -> None:
    text = """
        Net(unknown, 1)
        Net(2)
        Net(3, 4)
    """
    assert shown(text) == [{"a": "3", "b": "4"}, {"a": "2"}, {"b": "1"}]


def test_names_that_lead_back_to_themselves() -> None:
    text = """
        def f(a=1):
            b = c
            c = b
            f(a)
            return Net(c, a)
    """
    assert shown(text) == [{"b": "1"}]


@pytest.mark.parametrize("text", ["", "def broken(:", "Net()", "Net(*args, **kwargs)"])
def test_nothing_is_said_of_it(text: str) -> None:
    assert shown(text) == []


# -- other files ------------------------------------------------------------------------------


def test_names_of_another_file_are_read_there() -> None:
    text = """
        WIDTH = 24
        net = Net(WIDTH, nn.ReLU)
    """
    found = constructor_calls("", "Net", ["a", "b"], NAMESPACE, [textwrap.dedent(text)])
    assert [{k: notation.show_value(v) for k, v in one.items()} for one in found] == [
        {"a": "24", "b": "nn.ReLU"}
    ]


def test_files_that_construct_a_class_are_those_of_its_project(tmp_path: Path) -> None:
    texts = {
        "outside.py": "Net(0)",
        "project/.git/hooks.py": "Net(1)",
        "project/train.py": "Net(2)",
        "project/package/models/again.py": "class Net: pass\nNet(3)",
        "project/package/models/net.py": "Net(4)",
        "project/package/models/other.py": "Net (5)",
        "project/package/models/unlike.py": "SubNet(6)",
        "project/package/__init__.py": "",
        "project/package/models/__init__.py": "",
        "project/.venv/lib/site-packages/theirs/net.py": "Net(7)",
        "project/.venv/lib/site-packages/theirs/use.py": "Net(8)",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    project = tmp_path / "project"
    found = texts_that_call("Net", str(project / "package" / "models" / "net.py"))
    assert found == ["Net (5)", "Net(2)"]
    installed = project / ".venv" / "lib" / "site-packages" / "theirs" / "net.py"
    assert texts_that_call("Net", str(installed)) == []
    assert texts_that_call("Net", "net.py") == []
