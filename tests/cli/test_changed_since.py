"""Checks of the files that changes since a git revision can affect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import CommandLine, git

MODEL = "from layers import scale\nclass Net: scale(x)\n"


@pytest.fixture
def project(command_line: CommandLine) -> CommandLine:
    folder = command_line.folder
    (folder / ".git").rmdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    command_line.write("src/layers.py", "def scale(x):\n    return x\n")
    command_line.write("src/model.py", MODEL)
    command_line.write("src/other.py", "import torch\nclass Net: other(x)\n")
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message=one")
    git(folder, "checkout", "--quiet", "-b", "feature")
    return command_line


def checked_files(ran_out: str) -> list[str]:
    return [file["path"] for file in json.loads(ran_out)["files"]]


def test_a_change_of_a_library_checks_the_file_that_uses_it(project: CommandLine) -> None:
    project.write("src/layers.py", "def scale(x):\n    return x * 2\n")
    ran = project.check("--changed-since", "main", "--format", "json", "src")
    assert ran.status == 0, ran.err
    assert checked_files(ran.out) == ["src/layers.py", "src/model.py"]
    assert "note: 2 of 3 files are checked; the changes since main (" in ran.err


def test_commits_of_the_other_branch_do_not_count(project: CommandLine) -> None:
    git(project.folder, "checkout", "--quiet", "main")
    project.write("src/other.py", "import torch\nclass Net: more(x)\n")
    git(project.folder, "commit", "--quiet", "--all", "--message=two")
    git(project.folder, "checkout", "--quiet", "feature")
    project.write("src/new.py", "class New: x\n")
    (project.folder / "src" / "layers.py").unlink()
    ran = project.check("--changed-since", "main", "--format", "json", "src")
    assert checked_files(ran.out) == ["src/model.py", "src/new.py"]


def test_nothing_changed(project: CommandLine) -> None:
    ran = project.check("--changed-since", "main", "src")
    assert (ran.status, "0 of 3 files are checked" in ran.err) == (0, True)


def test_changed_settings_check_everything(project: CommandLine) -> None:
    project.write("pyproject.toml", "[project]\nname = 'changed'\n")
    ran = project.check("--changed-since", "main", "src")
    assert "0 of 3 files are checked" in ran.err
    project.write("pyproject.toml", "[tool.fullgraph]\nforecast = false\n")
    ran = project.check("--changed-since", "main", "--format", "json", "src")
    assert len(checked_files(ran.out)) == 3
    assert "All files are checked, because pyproject.toml changed since main (" in ran.err


def test_revisions_that_cannot_be_compared(project: CommandLine, tmp_path: Path) -> None:
    ran = project.check("--changed-since", "nowhere", "src")
    assert (ran.status, ran.out) == (2, "")
    assert "git has no revision 'nowhere' in" in ran.err
    git(project.folder, "checkout", "--quiet", "--orphan", "alone")
    git(project.folder, "commit", "--quiet", "--message=alone")
    ran = project.check("--changed-since", "main", "src")
    assert ran.status == 2
    assert "git knows no common commit of HEAD and main; fetch the whole history" in ran.err
    (tmp_path / "far.py").write_text("class Far: x\n")
    ran = project.check("--changed-since", "alone", str(tmp_path / "far.py"))
    assert ran.status == 2 and "is not in the repository" in ran.err
