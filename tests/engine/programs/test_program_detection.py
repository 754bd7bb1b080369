"""Which texts are programs, and the arguments that their comments give them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from fullgraph_engine.programs.detection import does_something, is_program
from fullgraph_engine.protocol.comments import arguments_in

DEFINITIONS = "import torch\ndef step(x): return x\nclass Net: pass\nnet, nets = Net(), [Net()]\n"


@pytest.mark.parametrize(
    "text",
    [
        "if __name__ == '__main__':\n    pass\n",
        "if '__main__' == __name__:\n    pass\n",
        "import sys\nif __name__ == '__main__' and len(sys.argv) > 1:\n    pass\n",
        f"{DEFINITIONS}step(1)\n",
        f"{DEFINITIONS}loss = step(1)\n",
        f"{DEFINITIONS}loss: int = step(1)\n",
        f"{DEFINITIONS}loss = 0\nloss += step(1)\n",
        f"{DEFINITIONS}assert step(1)\n",
        f"{DEFINITIONS}print(step(1))\n",
        f"{DEFINITIONS}net(1).sum().backward()\n",
        f"{DEFINITIONS}net.fit()\n",
        f"{DEFINITIONS}nets[0](1)\n",
        f"{DEFINITIONS}for _ in range(2):\n    step(1)\n",
        f"{DEFINITIONS}while True:\n    step(1)\n    break\n",
        f"{DEFINITIONS}with torch.no_grad():\n    step(1)\n",
        f"{DEFINITIONS}try:\n    step(1)\nexcept ValueError:\n    pass\n",
        f"{DEFINITIONS}if torch.cuda.is_available():\n    pass\nelse:\n    step(1)\n",
        f"{DEFINITIONS}for _ in range(2):\n    with torch.no_grad():\n        y = step(1)\n",
        "async def main(): pass\nimport asyncio\nasyncio.run(main())\n",
        "for net in []:\n    net(1)\n",
        "with open('f') as file:\n    file.read()\n",
        f"from . import other\n{DEFINITIONS}if __name__ == '__main__':\n    step(1)\n",
    ],
)
def test_a_text_that_does_something(text: str) -> None:
    assert does_something(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"""Only a docstring, with step(1) in it."""\n',
        DEFINITIONS,
        f"{DEFINITIONS}fast = torch.compile(step)\n",
        f"{DEFINITIONS}torch.manual_seed(0)\n",
        f"{DEFINITIONS}x = torch.ones(2)\n",
        f"{DEFINITIONS}def main():\n    step(1)\n",
        f"{DEFINITIONS}class Other:\n    def go(self): step(1)\n",
        f"{DEFINITIONS}if torch.cuda.is_available():\n    device = torch.device('cuda')\n",
        f"{DEFINITIONS}names = ['step(1)']\n",
        f"from . import other\n{DEFINITIONS}loss = step(1)\n",
        f"from .other import run\n{DEFINITIONS}run()\n",
        "try:\n    import numpy\nexcept ImportError:\n    numpy = None\n",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\n",
        "import torch\n@torch.compile\ndef step(x): return x\n",
    ],
)
def test_a_text_that_only_defines(text: str) -> None:
    assert not does_something(ast.parse(text))


# -- the arguments of a comment ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("import torch\n", None),
        ("# run(--steps 2)\n", None),
        ("# fullgraph: f32[2]\n", None),
        ("# fullgraph: run(f32[2])\n", None),
        ("# fullgraph: run()\n", ()),
        ("# fullgraph: run(--steps 2)\n", ("--steps", "2")),
        ("#fullgraph: run(--steps=2 -v)\n", ("--steps=2", "-v")),
        ("import torch\n\nx = 1  # fullgraph: run(small)\n", ("small",)),
        ("# fullgraph: run(--name 'a b')\n", ("--name", "a b")),
        ("# fullgraph: run(--name 'a b)\n", ("--name", "'a", "b")),
        ("# fullgraph: run(--lr (1))\n", ("--lr", "(1)")),
        ("# fullgraph: run(--steps 2)  # few\n", ("--steps", "2")),
        ("# fullgraph: run(--first)\n# fullgraph: run(--second)\n", ("--first",)),
    ],
)
def test_arguments_in_a_comment(text: str, arguments: tuple[str, ...] | None) -> None:
    assert arguments_in(text) == arguments


# -- programs ---------------------------------------------------------------------------------

MAIN = "if __name__ == '__main__':\n    main()\n"


@pytest.mark.parametrize(
    "text",
    [
        "import torch\nf = torch.compile(abs)\n",
        "import torch\n@torch.compile\ndef f(x): return x\n",
        "from torch import compile\nf = compile(abs)\n",
        "from torch.export import export\n",
        "net.compile()\n",
        "import torch._dynamo\nf = torch._dynamo.optimize()(abs)\n",
        "import torch\ntorch.compiler.set_stance('default')\n",
    ],
)
def test_a_main_block_of_a_text_that_compiles_is_a_program(text: str) -> None:
    assert is_program(text + MAIN, "/nowhere/train.py")
    assert not is_program(text, "/nowhere/train.py")


@pytest.mark.parametrize(
    "text",
    [
        "import torch\n",
        "import re\nWORD = re.compile('a')\n",
        "import torch, re\nWORDS = [re.compile(one) for one in 'ab']\n",
        "# compile it later\n",
    ],
)
def test_a_main_block_of_a_text_that_does_not_compile_is_no_program(text: str) -> None:
    assert not is_program(text + MAIN, "/nowhere/train.py")


def test_a_text_that_a_comment_turns_off_is_no_program() -> None:
    text = "import torch\ntorch.compile(len)([])\n"
    assert is_program(text, "/a.py")
    assert not is_program(f"# fullgraph: off\n{text}", "/a.py")


def test_a_text_that_does_not_parse_is_an_error() -> None:
    with pytest.raises(SyntaxError):
        is_program("import torch\ntorch.compile(\n", "/nowhere/train.py")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    files = {
        "lib/__init__.py": "",
        "lib/fast.py": "import torch\nstep = torch.compile(abs)\n",
        "lib/chain.py": "from . import fast\n",
        "lib/plain.py": "import torch\nimport re\nWORD = re.compile('a')\n",
        "lib/circle.py": "from .circle import nothing\nimport lib.circle\n",
        "lib/broken.py": "def (:\n",
        "scripts/helper.py": "from lib import chain\n",
    }
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    return tmp_path


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ("import lib.fast", True),
        ("import lib.fast as fast, re", True),
        ("from lib.fast import step", True),
        ("from lib import fast", True),
        ("from lib import (\n    plain,\n    fast,\n)", True),
        ("from lib import chain", True),
        ("import helper", True),
        ("def main():\n    from lib import fast", True),
        ("import lib", False),
        ("import lib.plain", False),
        ("import lib.circle", False),
        ("import lib.broken", False),
        ("import fast", False),
        ("import lib.absent", False),
    ],
)
def test_imported_files_of_the_workspace_may_compile(
    project: Path, imports: str, expected: bool
) -> None:
    path = str(project / "scripts" / "train.py")
    assert is_program(f"{imports}\n{MAIN}", path, (str(project),)) is expected


def test_a_file_beside_the_program_is_imported(project: Path) -> None:
    text = f"from .fast import step\n{MAIN}"
    assert is_program(text, str(project / "lib" / "train.py"))
    assert not is_program(text, str(project / "scripts" / "train.py"), (str(project),))


@pytest.mark.parametrize(
    "text",
    [
        "import torch\ndef f(x): return x\ntorch.compile(f)(1)\n",
        "import torch\nclass Net: pass\ntorch.compile(Net())(1)\n",
        "import torch\nclass Net: pass\ntorch.export.export(Net(), (1,))\n",
        "from lib.train import main\nmain()\n",
        "import torch\ndef f(x): return x\ng = torch.compile(f)\n(g if True else f)(1)\n",
    ],
)
def test_a_direct_call_of_what_is_compiled_does_something(text: str) -> None:
    assert does_something(ast.parse(text))


def test_the_body_of_a_lambda_is_not_executed() -> None:
    assert not does_something(ast.parse("def g(x): return x\nf = lambda x: g(x)\n"))
