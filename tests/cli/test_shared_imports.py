"""Modules that a check imports once for many files."""

from __future__ import annotations

from pathlib import Path

import pytest

from fullgraph.cli.shared_imports import choose_shared_imports
from fullgraph_engine.protocol import SharedImports

HEAVY = "import numpy as np, torch\nfrom scipy import linalg, stats\n"


def test_modules_that_most_files_import_are_shared(tmp_path: Path) -> None:
    texts = {tmp_path / f"{number}.py": f"import m{number}\n{HEAVY}" for number in range(5)}
    texts[tmp_path / "other.py"] = "import numpy\n"
    shared = choose_shared_imports(texts)
    assert set(shared.values()) == {SharedImports(("numpy", "scipy"), str(tmp_path))}
    assert shared.keys() == texts.keys() - {tmp_path / "other.py"}


@pytest.mark.parametrize(
    "text",
    [
        "if True:\n    import numpy\n",
        "def f():\n    import numpy\n",
        "import torch, os\n",
        "from ... import above\n",
        "import os\nos.environ['BACKEND'] = 'torch'\nimport numpy\n",
        "'''\nclass\n'''\nimport numpy\n",
    ],
)
def test_imports_that_not_each_execution_needs_are_not_shared(tmp_path: Path, text: str) -> None:
    assert choose_shared_imports({tmp_path / f"{n}.py": text for n in range(9)}) == {}


def test_a_few_files_share_nothing(tmp_path: Path) -> None:
    assert choose_shared_imports({tmp_path / f"{n}.py": HEAVY for n in range(3)}) == {}


def test_relative_imports_are_named_from_their_root(tmp_path: Path) -> None:
    models = tmp_path / "package" / "models"
    models.mkdir(parents=True)
    for folder in (tmp_path / "package", models):
        (folder / "__init__.py").touch()
    (tmp_path / "package" / "layers.py").touch()
    text = "from .. import layers, __version__\nfrom .base import (\n    Base,  # the base\n)\n"
    shared = choose_shared_imports({models / f"{number}.py": text for number in range(4)})
    modules = ("package", "package.layers", "package.models.base")
    assert set(shared.values()) == {SharedImports(modules, str(tmp_path))}


def test_files_of_other_folders_have_their_own_modules(tmp_path: Path) -> None:
    texts = {tmp_path / f"run{number}" / "main.py": "import utils\n" for number in range(9)}
    assert choose_shared_imports(texts) == {}
