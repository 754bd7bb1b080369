"""Which interpreter is used, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fullgraph.engines import Interpreter, InterpreterNotFound, find_interpreter, installation
from fullgraph.engines.installation import (
    has_torch,
    package_folders,
    prefix_of,
    pythons_of,
    torch_on_disk,
)
from fullgraph.session import interpreters
from fullgraph.session.interpreters import Interpreters


def python(path: Path, script: str = "") -> Path:
    """A program that does not say whether it has torch, unless the script does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def environment(folder: Path, *, torch: bool, config: str = "") -> Path:
    """The Python of what looks like a virtual environment; it says nothing when it is asked."""
    packages = folder / "lib" / "python3.12" / "site-packages"
    packages.mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = /usr/bin\nversion = 3.12.4\n{config}")
    if torch:
        add_torch(packages)
    return python(folder / "bin" / "python")


def add_torch(packages: Path) -> None:
    (packages / "torch").mkdir(parents=True)
    (packages / "torch" / "__init__.py").write_text("raise AssertionError('imported')\n")
    (packages / "torch" / "version.py").write_text("__version__ = '2.13.0'\n")


def real_environment(folder: Path, *options: str) -> Path:
    command = [sys.executable, "-m", "venv", "--without-pip", *options, str(folder)]
    subprocess.run(command, check=True, timeout=60)
    return folder / "bin" / "python"


def packages_of(interpreter: Path) -> Path:
    (packages,) = interpreter.parents[1].glob("lib/python*/site-packages")
    return packages


def find(
    setting: str | None, root: Path | None, env: dict[str, str], own: Path | None = None
) -> Interpreter:
    """Without the Python that runs the tests."""
    return find_interpreter(setting, root, env, own=own)


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
    with_torch = {
        name: environment(tmp_path / name, torch=True)
        for name in ("PATH", "own", "conda", "active", "editor")
    }
    with_torch["PATH"].rename(with_torch["PATH"].with_name("python3"))
    env["PATH"] = str(with_torch["PATH"].parent)
    found = find("", root, env)
    assert (found.path, found.origin) == (with_torch["PATH"].with_name("python3"), "PATH")
    assert find("", root, env, with_torch["own"]).origin == "own"
    env["CONDA_PREFIX"] = str(tmp_path / "conda")
    assert find("", root, env, with_torch["own"]).path == with_torch["conda"]
    above = environment(tmp_path / ".venv", torch=True)
    assert find("", root, env, with_torch["own"]).path == above
    beside = environment(root / ".venv", torch=True)
    assert find("", root, env, with_torch["own"]).path == beside
    env["VIRTUAL_ENV"] = str(tmp_path / "active")
    assert find("", root, env, with_torch["own"]).path == with_torch["active"]
    edited = find_interpreter("", root, env, active=str(with_torch["editor"]))
    assert (edited.path, edited.origin) == (with_torch["editor"], "editor")
    chosen = python(tmp_path / "chosen" / "python3.12")
    found = find_interpreter(str(chosen), root, env, active=str(with_torch["editor"]))
    assert (found.path, found.origin, found.remark) == (chosen, "setting", "")


# -- several, not all of which have torch -----------------------------------------------------


def test_the_first_that_has_torch_is_used_and_the_others_are_named(
    tmp_path: Path, env: dict[str, str], root: Path
) -> None:
    active = environment(tmp_path / "active", torch=False)
    env["VIRTUAL_ENV"] = str(tmp_path / "active")
    env["CONDA_PREFIX"] = str(tmp_path / "gone")
    beside = environment(root / ".venv", torch=False)
    own = environment(tmp_path / "own", torch=True)
    found = find("", root, env, own)
    assert (found.path, found.origin) == (own, "own")
    assert found.remark == (
        f"The torch of {own} (the Python that fullgraph is installed in) is used, because {active} "
        f"(the active environment, from VIRTUAL_ENV) has no torch and {beside} (from .venv of "
        f"the project) has no torch and {tmp_path / 'gone'} (conda's active environment, from "
        "CONDA_PREFIX) has no Python that can be executed here."
    )


def test_an_own_environment_without_torch_is_passed_over_in_silence(
    tmp_path: Path, root: Path
) -> None:
    own = environment(tmp_path / "pipx" / "venvs" / "fullgraph", torch=False)
    other = environment(tmp_path / "other", torch=True).rename(tmp_path / "other/bin/python3")
    found = find("", root, {"PATH": str(other.parent)}, own)
    assert (found.path, found.remark) == (other, "")
    assert [passed.path for passed in found.passed_over] == [own]


def test_the_same_python_is_a_candidate_once(tmp_path: Path, root: Path) -> None:
    active = environment(tmp_path / "active", torch=False)
    for name in ("python3", "python3.12"):
        active.with_name(name).symlink_to("python")
    env = {"PATH": str(active.parent), "VIRTUAL_ENV": str(tmp_path / "active")}
    with pytest.raises(InterpreterNotFound) as caught:
        find("", root, env, active.with_name("python3.12"))
    assert str(caught.value).count("(") == 1


def test_where_none_has_torch_all_are_named_with_the_next_step(tmp_path: Path, root: Path) -> None:
    active = environment(tmp_path / "it's active", torch=False)
    env = {"VIRTUAL_ENV": str(tmp_path / "it's active"), "PATH": str(root)}
    beside = environment(root / ".venv", torch=False, config="uv = 0.9.1\n")
    with pytest.raises(InterpreterNotFound) as caught:
        find("", root, env)
    assert str(caught.value) == (
        f"No torch in {active} (the active environment, from VIRTUAL_ENV) or {beside} (from .venv "
        f"of the project): install it with `'{tmp_path}/it'\"'\"'s active/bin/python' -m "
        "pip install torch`, or set `fullgraph.interpreter` to a Python that has it."
    )
    # uv makes environments without pip.
    with pytest.raises(InterpreterNotFound, match=f"`uv pip install --python {beside} torch`"):
        find("", root, {"PATH": str(root)})


def test_one_that_does_not_answer_is_used_only_where_no_other_has_torch(
    tmp_path: Path, env: dict[str, str], root: Path
) -> None:
    silent = python(tmp_path / "active" / "bin" / "python")
    env["VIRTUAL_ENV"] = str(tmp_path / "active")
    beside = environment(root / ".venv", torch=False)
    found = find("", root, env)
    assert found.path == silent
    assert [passed.path for passed in found.passed_over] == [beside]
    (packages,) = (root / ".venv").glob("lib/*/site-packages")
    add_torch(packages)
    found = find("", root, env)
    assert found.path == beside and "did not say whether it has torch" in found.remark


def test_one_that_hangs_is_not_waited_for(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installation, "PATIENCE", 0.2)
    python(tmp_path / "active" / "bin" / "python", "exec sleep 3600")
    beside = environment(root / ".venv", torch=True)
    found = find("", root, {**os.environ, "VIRTUAL_ENV": str(tmp_path / "active")})
    assert found.path == beside


def test_a_real_environment_without_torch_is_active(tmp_path: Path, root: Path) -> None:
    bare = real_environment(tmp_path / "bare")
    env = {**os.environ, "VIRTUAL_ENV": str(tmp_path / "bare")}
    env.pop("CONDA_PREFIX", None)
    found = find_interpreter("", root, env)
    assert (found.path, found.origin) == (Path(sys.executable), "own")
    assert f"{bare} (the active environment, from VIRTUAL_ENV) has no torch" in found.remark
    assert find_interpreter(str(bare), root, env).path == bare
    # It is found as soon as it is there.
    add_torch(packages_of(bare))
    assert find_interpreter("", root, env).path == bare


# -- whether a Python has torch ---------------------------------------------------------------


def test_torch_is_not_imported_to_find_it(tmp_path: Path) -> None:
    bare = real_environment(tmp_path / "bare")
    env = dict(os.environ)
    assert torch_on_disk(bare, env) is False and has_torch(bare, env) is False
    # Left behind by an uninstallation: a folder without a module.
    (packages_of(bare) / "torch" / "lib").mkdir(parents=True)
    assert has_torch(bare, env) is False
    (packages_of(bare) / "torch" / "lib").rmdir()
    (packages_of(bare) / "torch").rmdir()
    add_torch(packages_of(bare))
    assert torch_on_disk(bare, env) is True and has_torch(bare, env) is True


def test_torch_of_a_path_file(tmp_path: Path) -> None:
    """As ``pip install --editable`` of a checkout writes it."""
    bare, env = real_environment(tmp_path / "bare"), dict(os.environ)
    file = packages_of(bare) / "easy-install.pth"
    file.write_text(f"# import nothing\n\n{tmp_path / 'pytorch'}\n")
    assert torch_on_disk(bare, env) is False
    add_torch(tmp_path / "pytorch")
    assert torch_on_disk(bare, env) is True


def test_where_a_path_file_executes_code_the_python_is_asked(tmp_path: Path) -> None:
    bare, env = real_environment(tmp_path / "bare"), dict(os.environ)
    file = packages_of(bare) / "__editable__.torch-2.13.0.pth"
    add_torch(tmp_path / "pytorch")
    file.write_text("import sys\n")
    assert torch_on_disk(bare, env) is None and has_torch(bare, env) is False
    file.write_text(f"import sys; sys.path.append({str(tmp_path / 'pytorch')!r})\n")
    assert torch_on_disk(bare, env) is None and has_torch(bare, env) is True
    file.rename(file.with_name("_virtualenv.pth"))
    assert torch_on_disk(bare, env) is False


def test_torch_of_the_base_that_an_environment_sees(tmp_path: Path) -> None:
    seeing = real_environment(tmp_path / "seeing", "--system-site-packages")
    # The base, or the packages of the user, may have it or not.
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    expected = subprocess.run([seeing, "-c", code], env=env, cwd="/", timeout=60).returncode == 0
    assert torch_on_disk(seeing, env) is None
    assert has_torch(seeing, env) is expected


def test_torch_on_pythonpath(tmp_path: Path) -> None:
    bare = real_environment(tmp_path / "bare")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "torch.py").write_text("")
    env = {**os.environ, "PYTHONPATH": str(tmp_path / "project")}
    assert has_torch(bare, env) is False
    add_torch(tmp_path / "more")
    env["PYTHONPATH"] += f"{os.pathsep}{tmp_path / 'more'}"
    assert torch_on_disk(bare, env) is True


def test_torch_among_the_packages_of_the_user(tmp_path: Path) -> None:
    base = Path(os.path.realpath(sys.executable))
    env = {**os.environ, "PYTHONUSERBASE": str(tmp_path)}
    asked = [str(base), "-c", "import site; print(site.getusersitepackages())"]
    packages = subprocess.run(asked, env=env, capture_output=True, text=True, timeout=60)
    add_torch(Path(packages.stdout.strip()))
    assert has_torch(base, env) is True


@pytest.mark.parametrize(
    "packages",
    [
        "lib/python3.12/site-packages",
        "local/lib/python3.12/dist-packages",
        "lib/python3/dist-packages",
    ],
)
def test_torch_of_a_python_of_the_system(tmp_path: Path, packages: str) -> None:
    python(tmp_path / "usr" / "bin" / "python3.12")
    link = tmp_path / "usr" / "bin" / "python3"
    link.symlink_to("python3.12")
    # It may have packages elsewhere, so that only it can say that it has none.
    assert torch_on_disk(link, {}) is None
    add_torch(tmp_path / "usr" / "lib" / "python3.11" / "site-packages")
    assert torch_on_disk(link, {}) is None
    add_torch(tmp_path / "usr" / packages)
    assert torch_on_disk(link, {}) is True


def test_a_program_in_front_of_a_python_is_asked(tmp_path: Path) -> None:
    """As pyenv's are."""
    bare = real_environment(tmp_path / "bare")
    shim = python(tmp_path / "shims" / "python3", f'exec {bare} "$@"')
    env = dict(os.environ)
    assert torch_on_disk(shim, env) is None and has_torch(shim, env) is False
    add_torch(packages_of(bare))
    assert has_torch(shim, env) is True


def test_layouts_of_windows(tmp_path: Path) -> None:
    venv, conda = tmp_path / "venv", tmp_path / "conda"
    assert pythons_of(venv, windows=True) == (venv / "Scripts/python.exe", venv / "python.exe")
    assert pythons_of(venv, windows=False) == (venv / "bin/python", venv / "bin/python3")
    assert prefix_of(venv / "Scripts" / "python.exe", windows=True) == venv
    assert prefix_of(conda / "python.exe", windows=True) == conda
    assert prefix_of(conda / "bin" / "python", windows=False) == conda
    (packages,) = package_folders(venv, "3.12", windows=True)
    assert packages == venv / "Lib" / "site-packages"
    packages.mkdir(parents=True)
    (venv / "pyvenv.cfg").write_text("version = 3.12.4\ninclude-system-site-packages = false\n")
    scripts = python(venv / "Scripts" / "python.exe")
    assert torch_on_disk(scripts, {}, windows=True) is False
    add_torch(packages)
    assert torch_on_disk(scripts, {}, windows=True) is True
    at_the_top = python(conda / "python.exe")
    assert torch_on_disk(at_the_top, {}, windows=True) is None
    add_torch(conda / "Lib" / "site-packages")
    assert torch_on_disk(at_the_top, {}, windows=True) is True


def test_layouts_of_macos(tmp_path: Path) -> None:
    """A framework, and Homebrew's links into one, whose packages are elsewhere."""
    framework = tmp_path / "Python.framework" / "Versions" / "3.13"
    binary = python(framework / "bin" / "python3.13")
    link = tmp_path / "homebrew" / "bin" / "python3"
    link.parent.mkdir(parents=True)
    link.symlink_to(binary)
    assert torch_on_disk(link, {}, windows=False) is None
    add_torch(framework / "lib" / "python3.13" / "site-packages")
    assert torch_on_disk(link, {}, windows=False) is True
    # Free-threaded, in an environment whose configuration does not say so.
    free = tmp_path / "free" / "bin" / "python"
    free.parent.mkdir(parents=True)
    free.symlink_to(python(framework / "bin" / "python3.13t"))
    (tmp_path / "free" / "pyvenv.cfg").write_text("version = 3.13.1\n")
    add_torch(tmp_path / "free" / "lib" / "python3.13t" / "site-packages")
    assert torch_on_disk(free, {}, windows=False) is True


# -- what a session keeps ---------------------------------------------------------------------


def test_what_was_found_is_kept_until_it_is_forgotten(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    active = environment(tmp_path / "active", torch=False)
    beside = environment(root / ".venv", torch=True)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    kept = Interpreters()
    assert kept.find("", root, "", trusted=True).path == beside
    add_torch(packages_of(active))
    assert kept.find("", root, "", trusted=True).path == beside
    assert kept.find(str(active), root, "", trusted=True).path == active
    kept.forget_all()
    assert kept.find("", root, "", trusted=True).path == active


def test_torch_that_was_nowhere_is_looked_for_again_after_a_while(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searches: list[Path | None] = []

    def search(setting: str, root: Path | None, env: object, *, active: str) -> Interpreter:
        searches.append(root)
        return find(setting, root, {})

    monkeypatch.setattr(interpreters, "find_interpreter", search)
    beside = environment(root / ".venv", torch=False)
    kept = Interpreters()
    for _ in range(2):
        with pytest.raises(InterpreterNotFound, match="No torch in"):
            kept.find("", root, "", trusted=True)
    assert searches == [root]
    add_torch(packages_of(beside))
    monkeypatch.setattr(interpreters, "LOOK_AGAIN", -1.0)
    assert kept.find("", root, "", trusted=True).path == beside


def test_without_trust_no_python_is_asked(
    tmp_path: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python(root / ".venv" / "bin" / "python", f"touch {tmp_path}/executed")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    kept = Interpreters()
    with pytest.raises(InterpreterNotFound, match="not trusted"):
        kept.find("", root, "", trusted=False)
    assert not (tmp_path / "executed").exists()
    kept.find("", root, "", trusted=True)
    assert (tmp_path / "executed").exists()


# -- the setting, and what is no environment --------------------------------------------------


def test_an_active_environment_that_is_gone_is_passed_over(
    tmp_path: Path, env: dict[str, str], root: Path
) -> None:
    env["VIRTUAL_ENV"] = str(tmp_path / "removed")
    found = find("", root, env)
    assert found.origin == "PATH"
    assert f"{tmp_path / 'removed'} (the active environment, from VIRTUAL_ENV) has no Python" in (
        found.remark
    )


@pytest.mark.parametrize(
    "setting", ["venv", "./venv", "${workspaceFolder}/venv", "venv/bin/python"]
)
def test_a_setting_may_be_an_environment_of_the_project(
    env: dict[str, str], root: Path, setting: str
) -> None:
    expected = python(root / "venv" / "bin" / "python")
    assert find(setting, root, env).path == expected


def test_a_setting_may_be_a_command(tmp_path: Path, env: dict[str, str], root: Path) -> None:
    expected = python(tmp_path / "bin" / "python3.13")
    assert find("python3.13", root, env).path == expected


def test_the_link_of_an_environment_is_kept(tmp_path: Path, root: Path) -> None:
    base = python(tmp_path / "base" / "python3")
    link = root / ".venv" / "bin" / "python"
    link.parent.mkdir(parents=True)
    link.symlink_to(base)
    assert find("", root, {}).path == link


@pytest.mark.parametrize("setting", ["python9", "/nowhere/python", "~nobody-here/python"])
def test_a_wrong_setting_is_not_replaced_by_a_guess(
    env: dict[str, str], root: Path, setting: str
) -> None:
    with pytest.raises(InterpreterNotFound, match=r"fullgraph\.interpreter"):
        find(setting, root, env)


def test_a_setting_may_not_be_a_folder_without_an_environment(
    env: dict[str, str], root: Path
) -> None:
    with pytest.raises(InterpreterNotFound, match="does not contain an environment") as caught:
        find(str(root), root, env)
    assert str(root) in str(caught.value)


@pytest.mark.parametrize("name", ["bin/python", "Scripts/python.exe"])
def test_an_environment_of_another_machine_is_not_replaced_by_a_guess(
    env: dict[str, str], root: Path, name: str
) -> None:
    interpreter = root / ".venv" / name
    interpreter.parent.mkdir(parents=True)
    interpreter.symlink_to("/elsewhere/python")
    with pytest.raises(InterpreterNotFound, match="create it again here") as caught:
        find("", root, env)
    assert str(root / ".venv") in str(caught.value)
    env["VIRTUAL_ENV"] = str(environment(root / "active", torch=True).parents[1])
    assert find("", root, env).origin == "VIRTUAL_ENV"


def test_an_empty_folder_is_no_environment(env: dict[str, str], root: Path) -> None:
    (root / ".venv").mkdir()
    assert find("", root, env).origin == "PATH"


def test_a_setting_that_cannot_be_executed(env: dict[str, str], root: Path) -> None:
    plain = root / "python"
    plain.write_text("")
    if os.access(plain, os.X_OK):
        pytest.skip("everything can be executed here")
    with pytest.raises(InterpreterNotFound, match="cannot be executed"):
        find(str(plain), root, env)


def test_nothing_anywhere(root: Path) -> None:
    with pytest.raises(InterpreterNotFound, match="No Python interpreter was found"):
        find("", root, {"PATH": str(root)})
