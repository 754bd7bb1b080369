"""``fullgraph doctor`` and the start of the server."""

import subprocess
import sys

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


def test_an_active_environment_that_is_gone_is_a_problem_unless_another_is_chosen(
    command_line: CommandLine,
) -> None:
    gone = str(command_line.folder / "gone")
    ran = command_line.run("doctor", VIRTUAL_ENV=gone)
    assert f"warning: The active environment {gone} (VIRTUAL_ENV) has no Python" in ran.out
    ran = command_line.run("doctor", "--python", str(command_line.interpreter), VIRTUAL_ENV=gone)
    assert "VIRTUAL_ENV" not in ran.out


def test_the_server_starts_without_what_only_people_need(command_line: CommandLine) -> None:
    code = (
        "import sys, types\n"
        "lsp = types.ModuleType('fullgraph.lsp')\n"
        "def serve(tcp, engine):\n"
        "    heavy = {'typer', 'rich', 'pathspec', 'torch'} & set(sys.modules)\n"
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
