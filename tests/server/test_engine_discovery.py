"""Which interpreter is used, and what is said where there is none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fullgraph.engines import InterpreterNotFound, find_interpreter, stale_environment


def python(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    python(tmp_path / "bin" / "python3")
    return {"PATH": str(tmp_path / "bin")}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def test_the_order(tmp_path: Path, env: dict[str, str], root: Path) -> None:
    assert find_interpreter("", root, env).path == tmp_path / "bin" / "python3"
    assert find_interpreter(None, None, env).origin == "PATH"
    own = python(root / ".venv" / "bin" / "python")
    assert find_interpreter("", root, env).path == own
    active = python(tmp_path / "active" / "bin" / "python")
    env["VIRTUAL_ENV"] = str(tmp_path / "active")
    assert find_interpreter("", root, env).path == active
    chosen = python(tmp_path / "chosen" / "python3.12")
    found = find_interpreter(str(chosen), root, env)
    assert (found.path, found.origin) == (chosen, "setting")


def test_an_active_environment_that_is_gone_is_passed_over(
    tmp_path: Path, env: dict[str, str], root: Path
) -> None:
    env["VIRTUAL_ENV"] = str(tmp_path / "removed")
    assert find_interpreter("", root, env).origin == "PATH"
    assert f"{tmp_path / 'removed'} (VIRTUAL_ENV) has no Python" in stale_environment(env)
    env["VIRTUAL_ENV"] = str(python(tmp_path / "active" / "bin" / "python").parents[1])
    assert not stale_environment(env)


@pytest.mark.parametrize(
    "setting", ["venv", "./venv", "${workspaceFolder}/venv", "venv/bin/python"]
)
def test_a_setting_may_be_an_environment_of_the_project(
    env: dict[str, str], root: Path, setting: str
) -> None:
    expected = python(root / "venv" / "bin" / "python")
    assert find_interpreter(setting, root, env).path == expected


def test_a_setting_may_be_a_command(tmp_path: Path, env: dict[str, str], root: Path) -> None:
    expected = python(tmp_path / "bin" / "python3.13")
    assert find_interpreter("python3.13", root, env).path == expected


def test_the_link_of_an_environment_is_kept(tmp_path: Path, root: Path) -> None:
    base = python(tmp_path / "base" / "python3")
    link = root / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(base)
    assert find_interpreter("", root, {}).path == link


@pytest.mark.parametrize("setting", ["python9", "/nowhere/python", "~nobody-here/python"])
def test_a_wrong_setting_is_not_replaced_by_a_guess(
    env: dict[str, str], root: Path, setting: str
) -> None:
    with pytest.raises(InterpreterNotFound, match=r"fullgraph\.interpreter"):
        find_interpreter(setting, root, env)


def test_a_setting_may_not_be_a_folder_without_an_environment(
    env: dict[str, str], root: Path
) -> None:
    with pytest.raises(InterpreterNotFound, match="holds no environment") as caught:
        find_interpreter(str(root), root, env)
    assert str(root) in str(caught.value)


@pytest.mark.parametrize("name", ["bin/python", "Scripts/python.exe"])
def test_an_environment_of_another_machine_is_not_replaced_by_a_guess(
    env: dict[str, str], root: Path, name: str
) -> None:
    interpreter = root / ".venv" / name
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to("/elsewhere/python")
    with pytest.raises(InterpreterNotFound, match="create it anew here") as caught:
        find_interpreter("", root, env)
    assert str(root / ".venv") in str(caught.value)
    env["VIRTUAL_ENV"] = str(python(root / "active" / "bin" / "python").parents[1])
    assert find_interpreter("", root, env).origin == "VIRTUAL_ENV"


def test_an_empty_folder_is_no_environment(env: dict[str, str], root: Path) -> None:
    (root / ".venv").mkdir()
    assert find_interpreter("", root, env).origin == "PATH"


def test_a_setting_that_cannot_be_executed(env: dict[str, str], root: Path) -> None:
    plain = root / "python"
    plain.write_text("")
    if os.access(plain, os.X_OK):
        pytest.skip("everything can be executed here")
    with pytest.raises(InterpreterNotFound, match="cannot be executed"):
        find_interpreter(str(plain), root, env)


def test_nothing_anywhere(root: Path) -> None:
    with pytest.raises(InterpreterNotFound, match="No Python interpreter was found"):
        find_interpreter("", root, {"PATH": str(root)})
