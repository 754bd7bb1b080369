"""The programs of a workspace that import a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from fullgraph.session import programs
from fullgraph.session.programs import WorkspacePrograms, with_programs
from fullgraph_engine.protocol import Analyze, ProgramRequest

MAIN = 'if __name__ == "__main__":\n    main()\n'
PLAIN = "def helper(): pass\n"


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Write files, each one changed a second after the one before it."""
    for number, (name, text) in enumerate(files.items()):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))


def importing(folder: Path, name: str, *patterns: str) -> list[str]:
    found = WorkspacePrograms().find_importers(str(folder / name), folder, patterns)
    return [Path(one).relative_to(folder).as_posix() for one in found]


@pytest.mark.parametrize(
    "statement",
    [
        "import lib.model",
        "import lib.model as m",
        "import os, lib.model",
        "from lib.model import Net",
        "from lib.model import Net as N, Other",
        "from lib import model",
        "from lib import other, model as m",
        "from lib.model import (\n    Net,\n)",
        "def main():\n    from lib.model import Net",
        "from .lib.model import Net",
        "from .lib import model",
        "import project.lib.model",
    ],
)
def test_a_program_that_imports_a_file(tmp_path: Path, statement: str) -> None:
    project = tmp_path / "project"
    write(project, {"lib/model.py": PLAIN, "train.py": f"{statement}\n{MAIN}"})
    assert importing(project, "lib/model.py") == ["train.py"]


@pytest.mark.parametrize(
    "statement",
    [
        "import lib.models",
        "from lib.other import model",
        "from other import Net",
        "# import lib.model",
        "import torch",
        "name = 'lib.model'",
    ],
)
def test_a_program_that_imports_other_files(tmp_path: Path, statement: str) -> None:
    write(tmp_path, {"lib/model.py": PLAIN, "train.py": f"{statement}\n{MAIN}"})
    assert importing(tmp_path, "lib/model.py") == []


@pytest.mark.parametrize(
    ("folder", "statement", "expected"),
    [
        ("pkg/scripts", "from ..lib.model import Net", True),
        ("pkg/scripts", "from ..lib import model", True),
        ("pkg/lib", "from .model import Net", True),
        ("pkg/lib", "from . import model", True),
        ("pkg/scripts", "from .model import Net", False),
        ("pkg/scripts", "from . import model", False),
        ("scripts", "from ..lib.model import Net", False),
    ],
)
def test_relative_imports(tmp_path: Path, folder: str, statement: str, expected: bool) -> None:
    write(tmp_path, {"pkg/lib/model.py": PLAIN, f"{folder}/train.py": f"{statement}\n{MAIN}"})
    found = importing(tmp_path, "pkg/lib/model.py")
    assert found == ([f"{folder}/train.py"] if expected else [])


def test_imports_through_other_files(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "one.py": PLAIN,
            "two.py": "import one\n",
            "three.py": "import two\n",
            "train.py": f"from three import x\n{MAIN}",
        },
    )
    assert importing(tmp_path, "one.py") == ["train.py"]


def test_imports_through_the_module_of_a_package(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "lib/model.py": PLAIN,
            "lib/__init__.py": "from .model import Net\n",
            "train.py": f"from lib import Net\n{MAIN}",
        },
    )
    assert importing(tmp_path, "lib/model.py") == ["train.py"]
    assert importing(tmp_path, "lib/__init__.py") == ["train.py"]


def test_files_that_import_each_other(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"one.py": "import two\n", "two.py": f"import one\n{MAIN}", "other.py": "import re"},
    )
    assert importing(tmp_path, "one.py") == ["two.py"]
    assert importing(tmp_path, "two.py") == []


def test_a_chain_of_imports_has_a_limit(tmp_path: Path) -> None:
    chain = {f"m{number}.py": f"import m{number - 1}\n{MAIN}" for number in range(1, 8)}
    write(tmp_path, {"m0.py": PLAIN, **chain})
    found = WorkspacePrograms().find_importers(str(tmp_path / "m0.py"), tmp_path, ("!m[1-3].py",))
    assert [Path(one).name for one in found] == ["m4.py"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MAIN, True),
        ("main()\n", True),
        ("lib.model.main()\n", True),
        ("steps[0]()\n", True),
        ("for x in range(2):\n    pass\n", True),
        ("with open(name) as file:\n    pass\n", True),
        ("def main():\n    main()\n", False),
        ("class Main(Base):\n    pass\n", False),
        ("NAMES = 1\n", False),
    ],
)
def test_only_files_that_do_something(tmp_path: Path, text: str, expected: bool) -> None:
    write(tmp_path, {"model.py": PLAIN, "train.py": f"import model\n{text}"})
    assert importing(tmp_path, "model.py") == (["train.py"] if expected else [])


@pytest.mark.parametrize("name", ["test_train.py", "tests/test_x.py", "conftest.py", "setup.py"])
def test_tests_and_setup_files_are_no_programs(tmp_path: Path, name: str) -> None:
    write(tmp_path, {"model.py": PLAIN, name: f"import model\n{MAIN}"})
    assert importing(tmp_path, "model.py") == []


@pytest.mark.parametrize("folder", ["build", ".venv", "venv/lib", "node_modules/a", "__pycache__"])
def test_folders_without_the_users_code_are_left_out(tmp_path: Path, folder: str) -> None:
    write(tmp_path, {"model.py": PLAIN, f"{folder}/train.py": f"import model\n{MAIN}"})
    assert importing(tmp_path, "model.py") == []


def test_the_most_recently_changed_come_first_and_at_most_three(tmp_path: Path) -> None:
    text = f"import model\n{MAIN}"
    write(tmp_path, {"model.py": PLAIN, "d.py": text, "b.py": text, "c.py": text, "a.py": text})
    assert importing(tmp_path, "model.py") == ["a.py", "c.py", "b.py"]
    os.utime(tmp_path / "d.py", (2_000_000, 2_000_000))
    assert importing(tmp_path, "model.py") == ["d.py", "a.py", "c.py"]


@pytest.mark.parametrize(
    ("patterns", "expected"),
    [
        ((), ["train.py", "scripts/b.py", "scripts/a.py"]),
        (("scripts/*.py",), ["scripts/b.py", "scripts/a.py"]),
        (("scripts/a.py", "train.py"), ["train.py", "scripts/a.py"]),
        (("!scripts/*.py",), ["train.py"]),
        (("scripts/*.py", "!scripts/b.py"), ["scripts/a.py"]),
        (("absent.py",), []),
        (("!*",), []),
    ],
)
def test_patterns(tmp_path: Path, patterns: tuple[str, ...], expected: list[str]) -> None:
    text = f"import model\n{MAIN}"
    write(
        tmp_path,
        {"model.py": PLAIN, "scripts/a.py": text, "scripts/b.py": text, "train.py": text},
    )
    assert importing(tmp_path, "model.py", *patterns) == expected


def test_a_changed_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"model.py": PLAIN, "train.py": MAIN})
    known = WorkspacePrograms()

    def find() -> int:
        return len(known.find_importers(str(tmp_path / "model.py"), tmp_path))

    assert find() == 0
    (tmp_path / "train.py").write_text(f"import model\n{MAIN}")
    assert find() == 0  # the list of files is kept for a while
    monkeypatch.setattr(programs, "_FRESH", 0.0)
    assert find() == 1
    (tmp_path / "train.py").unlink()
    assert find() == 0


def test_a_file_outside_of_the_listed_folders_has_importers(tmp_path: Path) -> None:
    write(tmp_path, {"build/made.py": PLAIN, "train.py": f"import made\n{MAIN}"})
    assert importing(tmp_path, "build/made.py") == ["train.py"]


def test_a_relative_import_from_above_the_root_is_no_error(tmp_path: Path) -> None:
    dots = "." * 40
    write(tmp_path, {"model.py": PLAIN, "train.py": f"from {dots}model import Net\n{MAIN}"})
    assert importing(tmp_path, "model.py") == []


def test_a_list_made_once_is_not_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {"model.py": PLAIN})
    monkeypatch.setattr(programs, "_FRESH", 0.0)
    known = WorkspacePrograms(list_once=True)
    path = str(tmp_path / "model.py")
    assert known.find_importers(path, tmp_path) == ()
    write(tmp_path, {"train.py": f"import model\n{MAIN}"})
    assert known.find_importers(path, tmp_path) == ()


# -- requests ---------------------------------------------------------------------------------


def request(path: str, **changes: object) -> Analyze:
    asked = {"program": ProgramRequest(seconds=20.0), "parts": ("first",), **changes}
    return Analyze(1, "v", path, "", **asked)  # type: ignore[arg-type]


def test_a_request_names_the_programs_and_the_other_files(tmp_path: Path) -> None:
    texts = {"model.py": "import a", "train.py": f"import model\n{MAIN}", "a.py": "import b"}
    write(tmp_path, {**texts, "b.py": PLAIN, "unrelated.py": PLAIN})
    path, train, unrelated, *imported = (
        str(tmp_path / name) for name in ("model.py", "train.py", "unrelated.py", "a.py", "b.py")
    )
    shown = [train, path, *imported, unrelated, train]
    asked = request(path, program=ProgramRequest(seconds=5.0, arguments=("--steps", "2")))
    made = with_programs(asked, WorkspacePrograms(), tmp_path, (), shown)
    assert made.program == ProgramRequest(
        seconds=5.0,
        arguments=("--steps", "2"),
        candidates=(train,),
        elsewhere=tuple(imported),
    )
    excluded = with_programs(asked, WorkspacePrograms(), tmp_path, ("!train.py",), shown)
    assert excluded.program.candidates == ()
    assert excluded.program.elsewhere == made.program.elsewhere


@pytest.mark.parametrize(
    "changes",
    [
        {"program": ProgramRequest(seconds=0.0)},
        {"parts": ("second",)},
        {"only": ("Net",)},
    ],
)
def test_a_request_that_runs_no_program_stays_as_it_is(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    write(tmp_path, {"model.py": PLAIN, "train.py": f"import model\n{MAIN}"})
    asked = request(str(tmp_path / "model.py"), **changes)
    assert with_programs(asked, WorkspacePrograms(), tmp_path, (), ["/other/a.py"]) is asked


def test_a_text_in_no_project_or_in_no_file_has_no_other_programs(tmp_path: Path) -> None:
    write(tmp_path, {"model.py": PLAIN, "train.py": f"import model\n{MAIN}"})
    known, path = WorkspacePrograms(), str(tmp_path / "model.py")
    assert with_programs(request(path), known, tmp_path, (), ()).program.candidates
    assert not with_programs(request(path), known, None, (), ()).program.candidates
    assert not with_programs(request("model.py"), known, tmp_path, (), ()).program.candidates


def test_a_main_block_is_not_any_mention_of_the_name_of_the_module(tmp_path: Path) -> None:
    uses = "import model\nlog = getLogger(__name__)\n"
    files = {"model.py": PLAIN, "log.py": uses, "main.py": f"import model\n{MAIN}"}
    write(tmp_path, dict(reversed(files.items())))
    assert importing(tmp_path, "model.py")[0] == "main.py"
