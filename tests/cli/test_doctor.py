"""``fullgraph doctor`` and the start of the server."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pathspec
import pytest
from tests.cli.conftest import CommandLine


def test_all_is_well(command_line: CommandLine) -> None:
    command_line.write("pyproject.toml", "[tool.fullgraph]\njobs = 3\n")
    ran = command_line.run("doctor", "--python", str(command_line.interpreter))
    assert ran.status == 0, ran
    assert f"{command_line.interpreter} (from the setting `interpreter`)" in ran.out
    assert "torch          2.13.0" in ran.out
    assert "(2 of 2 present)" in ran.out
    settings = " ".join(ran.out.split())
    assert f"jobs = 3 ({command_line.folder / 'pyproject.toml'})" in settings
    assert 'mode = "auto" (default)' in settings


def test_what_is_degraded_is_named_and_is_status_1(command_line: CommandLine) -> None:
    ran = command_line.run(
        "doctor", "--python", str(command_line.interpreter), SCRIPTED_DEGRADED="1"
    )
    assert ran.status == 1
    assert "✗ schemas  operators (missing): gone" in ran.out


def test_facts_that_a_torch_does_not_show_are_named_and_are_status_1(
    command_line: CommandLine,
) -> None:
    python = ("--python", str(command_line.interpreter))
    ran = command_line.run("doctor", *python, SCRIPTED_HIDDEN="breaks,shapes")
    assert ran.status == 1
    assert "degraded: Not available with this torch: graph breaks (it has no name" in ran.out
    assert "degraded: Not available with this torch: dtypes and sizes" in ran.out


def test_a_torch_that_is_newer_than_the_tested_ones_is_named(command_line: CommandLine) -> None:
    python = ("--python", str(command_line.interpreter))
    ran = command_line.run("doctor", *python, SCRIPTED_TORCH="2.99.0", SCRIPTED_UNTESTED="1")
    assert ran.status == 0
    assert "untested: torch 2.99.0 is ready. It is newer than the versions" in ran.out


def test_layers_of_the_sandbox_are_named_with_what_they_lack(command_line: CommandLine) -> None:
    python = ("--python", str(command_line.interpreter))
    ran = command_line.run("doctor", *python, SCRIPTED_SANDBOX="1")
    assert ran.status == 0
    assert "(1 of 3 layers)" in ran.out
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert any(line.startswith("✓ seccomp code cannot open sockets") for line in lines)
    assert any(line.startswith("✓ Landlock") and line.endswith("(in part): old") for line in lines)
    assert any(line.startswith("✗ pid") and line.endswith("(missing): EPERM") for line in lines)


def test_an_engine_that_cannot_work_is_status_2_and_settings_are_still_shown(
    command_line: CommandLine,
) -> None:
    ran = command_line.run(
        "doctor", "--python", str(command_line.interpreter), SCRIPTED_UNUSABLE="There is no torch."
    )
    assert ran.status == 2
    assert "cannot work: There is no torch. Install torch." in ran.out
    assert "timeout" in ran.out
    ran = command_line.run("doctor", "--python", "./nothing")
    assert ran.status == 2 and "nothing" in ran.out


def test_a_bad_setting_is_shown_and_is_status_1(command_line: CommandLine) -> None:
    command_line.write("pyproject.toml", "[tool.fullgraph]\njob = 3\n")
    ran = command_line.run("doctor", "--python", str(command_line.interpreter))
    assert ran.status == 1
    assert "is unknown; did you mean 'jobs'?" in ran.out


def bare_environment(folder: Path) -> Path:
    """The Python of a new environment without torch."""
    command = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(command, check=True, timeout=60)
    return folder / "bin" / "python"


@pytest.mark.real_engine
def test_an_active_environment_without_torch_is_passed_over(
    command_line: CommandLine, tmp_path: Path
) -> None:
    bare = bare_environment(tmp_path / "bare")
    active: dict[str, Any] = {
        "VIRTUAL_ENV": str(tmp_path / "bare"),
        "CONDA_PREFIX": str(tmp_path / "gone"),
    }
    ran = command_line.run("doctor", **active)
    assert ran.status == 0, ran
    lines = [" ".join(line.split()) for line in ran.out.splitlines()]
    assert lines[2:5] == [
        f"interpreter {sys.executable} (the Python that fullgraph is installed in)",
        f"passed over {bare} (the active environment, from VIRTUAL_ENV): it has no torch",
        f"passed over {tmp_path / 'gone'} (conda's active environment, from CONDA_PREFIX): it has "
        "no Python that can be executed here",
    ]
    # What was chosen is not replaced.
    ran = command_line.run("doctor", "--python", str(bare), **active)
    assert ran.status == 2, ran
    assert f"cannot work: No torch in {bare}. Install it with `{bare} -m pip" in ran.out
    assert "passed over" not in ran.out


@pytest.mark.slow
@pytest.mark.real_engine
def test_a_check_says_on_standard_error_which_were_passed_over(
    command_line: CommandLine, tmp_path: Path
) -> None:
    bare = bare_environment(tmp_path / "bare")
    file = "import torch\n\n# fullgraph: x=f32[2]\ndef f(x):\n    return x + 1\n"
    command_line.write("model.py", file)
    ran = command_line.run("check", "model.py", VIRTUAL_ENV=str(tmp_path / "bare"))
    assert (ran.status, ran.err) == (
        0,
        f"note: The torch of {sys.executable} (the Python that fullgraph is installed in) is used, "
        f"because {bare} (the active environment, from VIRTUAL_ENV) has no torch.\n",
    ), ran
    ran = command_line.run("check", "model.py", VIRTUAL_ENV=sys.prefix)
    assert (ran.status, ran.err) == (0, ""), ran


def test_where_none_has_torch_one_sentence_names_all(
    command_line: CommandLine, tmp_path: Path
) -> None:
    """As it is right after ``pipx install fullgraph``."""
    own = bare_environment(tmp_path / "pipx")
    active = bare_environment(tmp_path / "bare")
    (packages,) = own.parents[1].glob("lib/python*/site-packages")
    for package in Path(pathspec.__file__).parents[1].iterdir():
        if not package.name.startswith("torch"):
            (packages / package.name).symlink_to(package)
    env = command_line.environment(VIRTUAL_ENV=str(tmp_path / "bare"), PATH=str(tmp_path))
    command_line.write("model.py", "import torch\n")
    for command in (["doctor"], ["check", "model.py"]):
        ran = subprocess.run(
            [own, "-m", "fullgraph", *command],
            cwd=command_line.folder,
            env=env,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert ran.returncode == 2, ran
        assert (
            f": No torch in {active} (the active environment, from VIRTUAL_ENV) or {own} (the "
            f"Python that fullgraph is installed in): install it with `{active} -m pip install "
            "torch`, or set `fullgraph.interpreter` to a Python that has it.\n"
        ) in (ran.stdout if command == ["doctor"] else ran.stderr), ran


def test_the_server_starts_without_what_only_people_need(command_line: CommandLine) -> None:
    code = (
        "import sys, types\n"
        "lsp = types.ModuleType('fullgraph.lsp')\n"
        "def serve(tcp, engine):\n"
        "    heavy = {'rich', 'pathspec', 'torch'} & set(sys.modules)\n"
        "    print(tcp, sorted(heavy))\n"
        "    return 5\n"
        "lsp.serve = serve\n"
        "sys.modules['fullgraph.lsp'] = lsp\n"
        "from fullgraph.cli import main\n"
        "sys.exit(main(sys.argv[1:]))\n"
    )

    def serve(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", code, "server", *arguments],
            env=command_line.environment(),
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert (serve().stdout, serve().returncode) == ("None []\n", 5)
    assert serve("--stdio").stdout == "None []\n"
    assert serve("--tcp", "127.0.0.1:2087").stdout == "('127.0.0.1', 2087) []\n"
    assert serve("--tcp", "[::1]:0").stdout == "('::1', 0) []\n"
    wrong = serve("--tcp", "nowhere")
    assert wrong.returncode == 2 and "is not HOST:PORT" in wrong.stderr
