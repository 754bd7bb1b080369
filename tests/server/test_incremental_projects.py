"""Files that a change of another file can affect, found by the names that they import."""

from __future__ import annotations

import pytest

from fullgraph.incremental.projects import ChangedFile, find_affected_files

LAYERS = "import torch\n\ndef scale(x):\n    return x * 2\n\ndef shift(x):\n    return x + 1\n"
FILES = {
    "pkg/__init__.py": "from .layers import scale\n",
    "pkg/layers.py": LAYERS,
    "pkg/scaled.py": "from .layers import scale\n\nclass Net:\n    def forward(self, x):\n"
    "        return scale(x)\n",
    "pkg/shifted.py": "from pkg.layers import shift as move\n\ndef step(x):\n    return move(x)\n",
    "pkg/whole.py": "from . import layers\n\ndef both(x):\n    return layers.scale(x)\n",
    "pkg/deep/late.py": "def late(x):\n    from ..layers import shift\n    return shift(x)\n",
    "pkg/typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
    "    from .layers import scale\ndef f(x: scale):\n    return x\n",
    "stars.py": "from pkg.layers import *\n\ndef f(x):\n    return shift(x)\n",
    "second.py": "from pkg.scaled import Net\n\nmodel = Net()\n",
    "reexported.py": "from pkg import scale\n\ndef f(x):\n    return scale(x)\n",
    "unused.py": "from pkg.layers import scale\n\ndef f(x):\n    return x\n",
    "other.py": "import torch\n\ndef f(x):\n    return x\n",
}


def files_affected_by(old: str, new: str, path: str = "pkg/layers.py") -> set[str]:
    text = FILES[path].replace(old, new)
    assert text != FILES[path]
    change = ChangedFile(path, FILES[path], text)
    return set(find_affected_files({**FILES, path: text}, [change]))


def test_a_changed_function_affects_the_files_that_use_its_name() -> None:
    assert files_affected_by("x * 2", "x * 3") == {
        *("pkg/layers.py", "pkg/scaled.py", "pkg/whole.py", "second.py", "reexported.py"),
    }
    assert files_affected_by("x + 1", "x + 3") == {
        *("pkg/layers.py", "pkg/shifted.py", "pkg/deep/late.py", "stars.py"),
    }


@pytest.mark.parametrize("comment", ["    # a comment\n", '    """A docstring."""\n'])
def test_a_comment_affects_nothing(comment: str) -> None:
    assert files_affected_by("    return x * 2", f"{comment}    return x * 2") == set()


def test_a_call_at_import_affects_every_importer() -> None:
    text = LAYERS + "torch.set_default_dtype(torch.float64)\n"
    change = ChangedFile("pkg/layers.py", LAYERS, text)
    found = find_affected_files({**FILES, "pkg/layers.py": text}, [change])
    assert found >= {"pkg/scaled.py", "pkg/shifted.py", "pkg/whole.py", "stars.py"}
    assert "other.py" not in found and "pkg/typed.py" not in found


def test_a_new_import_does_not_affect_importers_of_other_names() -> None:
    assert files_affected_by("import torch\n", "import torch\nimport math\n") == {"pkg/layers.py"}


def test_a_removed_module_affects_its_importers() -> None:
    files = {path: text for path, text in FILES.items() if path != "pkg/layers.py"}
    found = find_affected_files(files, [ChangedFile("pkg/layers.py", LAYERS, None)])
    assert {"pkg/scaled.py", "pkg/shifted.py", "pkg/whole.py", "reexported.py"} <= found
    assert "pkg/layers.py" not in found and "other.py" not in found


def test_a_new_module_affects_itself() -> None:
    files = {**FILES, "new.py": LAYERS}
    assert find_affected_files(files, [ChangedFile("new.py", None, LAYERS)]) == {"new.py"}


def test_a_text_with_wrong_syntax_affects_every_importer() -> None:
    broken = LAYERS + "def (\n"
    change = ChangedFile("pkg/layers.py", LAYERS, broken)
    found = find_affected_files({**FILES, "pkg/layers.py": broken}, [change])
    assert {"pkg/layers.py", "pkg/scaled.py", "pkg/shifted.py"} <= found


def test_a_changed_program_affects_the_files_that_it_uses() -> None:
    program = 'from pkg.scaled import Net\nif __name__ == "__main__":\n    Net()(1)\n'
    changed = program.replace("(1)", "(2)")
    files = {**FILES, "train.py": changed}
    found = find_affected_files(files, [ChangedFile("train.py", program, changed)])
    assert found == {"train.py", "pkg/scaled.py"}


def test_a_removed_module_is_found_after_a_changed_program() -> None:
    program = 'import other\nif __name__ == "__main__":\n    other.f(1)\n'
    changed = program.replace("f(1)", "f(2)")
    files = {path: text for path, text in FILES.items() if path != "pkg/layers.py"}
    changes = [ChangedFile("a.py", program, changed), ChangedFile("pkg/layers.py", LAYERS, None)]
    found = find_affected_files({**files, "a.py": changed}, changes)
    assert {"a.py", "other.py", "pkg/scaled.py", "pkg/shifted.py"} <= found


def test_two_modules_of_one_name_count_both() -> None:
    files = {
        "a/utils.py": "def f(x):\n    return x\n",
        "b/utils.py": "def f(x):\n    return x\n",
        "b/model.py": "from utils import f\n\ndef g(x):\n    return f(x)\n",
    }
    text = "def f(x):\n    return x + 1\n"
    for name in ("a/utils.py", "b/utils.py"):
        change = ChangedFile(name, files[name], text)
        assert find_affected_files({**files, name: text}, [change]) == {name, "b/model.py"}
