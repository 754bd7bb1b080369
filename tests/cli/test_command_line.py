"""Command lines: the options of the commands, those of the settings included."""

from __future__ import annotations

import subprocess
import sys
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from fullgraph.cli.check_command import CheckJob
from fullgraph.cli.command_line import COMMANDS, command_parser, load_command, run_command
from fullgraph.cli.setting_options import given_settings
from fullgraph.session.settings import list_declarations


def parse(command: str, line: str) -> Namespace:
    return command_parser(command, load_command(command)).parse(line.split())


@pytest.fixture
def jobs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[CheckJob, Mapping[str, Any]]]:
    """Checks that command lines started, and their settings."""
    seen: list[tuple[CheckJob, Mapping[str, Any]]] = []

    def run(job: CheckJob, flags: Mapping[str, Any]) -> int:
        seen.append((job, flags))
        return 0

    monkeypatch.setattr(CheckJob, "run", run)
    return seen


HERE = Path.cwd()


@pytest.mark.parametrize(
    ("line", "job", "settings"),
    [
        ("a.py", CheckJob(("a.py",)), {}),
        ("a.py src/ a.py -", CheckJob(("a.py", "src/", "-")), {}),
        (
            "-q a.py --verbose --forecast",
            CheckJob(("a.py",), quiet=True, verbose=True, forecast=True),
            {},
        ),
        ("a.py -qv", CheckJob(("a.py",), quiet=True, verbose=True), {}),
        ("--python python3 a.py", CheckJob(("a.py",)), {"interpreter": "python3"}),
        (
            "--interpreter=venv/bin/python a.py",
            CheckJob(("a.py",)),
            {"interpreter": str(HERE / "venv/bin/python")},
        ),
        (
            "--format=github a.py --color=always",
            CheckJob(("a.py",), "<stdin>", "github", "always"),
            {},
        ),
        (
            "--mode fake --exit-severity off --timeout 3 a.py -j3",
            CheckJob(("a.py",)),
            {"mode": "fake", "exit-severity": "off", "timeout": "3", "jobs": "3"},
        ),
        ("-j 3 a.py --jobs 4", CheckJob(("a.py",)), {"jobs": "4"}),
        (
            "--select graph-break,guard --select trace --severity op=error a.py --exclude x",
            CheckJob(("a.py",)),
            {
                "select": ["graph-break", "guard", "trace"],
                "severity": ["op=error"],
                "exclude": ["x"],
            },
        ),
        (
            "--no-cache a.py --try-paths --export --no-export",
            CheckJob(("a.py",)),
            {"cache": False, "try-paths": True, "export": False},
        ),
        ("--measure a.py --engine-keep 5", CheckJob(("a.py",), measure=True), {"engine-keep": 0}),
        (
            "--extra-paths lib,/opt/x --allow network a.py",
            CheckJob(("a.py",)),
            {"extra-paths": [str(HERE / "lib"), "/opt/x"], "sandbox-allow": ["network"]},
        ),
        (
            "-q -- a.py --steps 2 --names=a,b",
            CheckJob(("a.py",), quiet=True),
            {"program-arguments": ["--steps", "2", "--names=a,b"]},
        ),
        (
            "--output o.txt --baseline b.json --stdin-filename x.py --timings -",
            CheckJob(
                ("-",),
                "x.py",
                timings=True,
                baseline=Path("b.json"),
                output=Path("o.txt"),
            ),
            {},
        ),
    ],
)
def test_arguments_of_check(
    line: str,
    job: CheckJob,
    settings: dict[str, Any],
    jobs: list[tuple[CheckJob, Mapping[str, Any]]],
) -> None:
    assert run_command(["check", *line.split()]) == 0
    assert jobs == [(job, settings)]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("check", "the following arguments are required: PATHS"),
        ("check a.py --mode", "--mode: expected one argument"),
        ("check a.py --quiet=yes", "ignored explicit argument 'yes'"),
        ("check a.py --mod fake", "There is no option or argument --mod; did you mean --mode?"),
        ("check a.py --no-mode", "There is no option or argument --no-mode"),
        ("check a.py --format yaml", "'yaml' is not one of text, json, sarif, github"),
        ("check a.py --time-budget 3", "There is no option or argument --time-budget"),
        ("check a.py -o a.json --baseline ./a.json", "would be overwritten with only the new"),
        ("show graph", "are required: FILE[:LINE|::TARGET]"),
        ("repro a.py:1 --backend tvm", "'tvm' is not one of"),
        (
            "repro a.py:1 --backend inductor --code guard",
            "The failure of a backend has no finding code",
        ),
        ("record --nope python", "There is no option or argument --nope"),
        ("record -q", "Give the command of the program"),
        ("chekc a.py", "invalid choice: 'chekc'"),
    ],
)
def test_wrong_arguments(line: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run_command(line.split())
    assert end.value.code == 2
    first, second, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith("error: ") and words in first
    assert second.startswith("See `fullgraph") and second.endswith(" --help`.") and not rest


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_each_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        parse(command, "--help")
    assert not end.value.code
    out = capsys.readouterr().out
    assert out.startswith(f"usage: fullgraph {command} ")
    for declaration in list_declarations():
        option = declaration.option
        if option is not None and command in option.commands and not option.hidden:
            assert f"--{declaration.option_name}" in out


def test_help_lists_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 2
    without = capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        run_command(["--help"])
    assert not end.value.code
    out = capsys.readouterr().out
    assert out == without
    for command in COMMANDS:
        assert f"\n    {command} " in out


def test_each_option_of_a_setting_sets_it() -> None:
    for declaration in list_declarations():
        option = declaration.option
        for command in option.commands if option is not None else ():
            places = {"show": ["graph", "a.py"], "doctor": [], "mcp": []}.get(command, ["a.py"])
            long = f"--{declaration.option_name}"
            words = [long, "x"] if declaration.kind.metavar else [long]
            parser = command_parser(command, load_command(command))
            assert [*given_settings(parser.parse([*words, *places]))] == [declaration.name]


def test_the_command_of_record_may_have_options() -> None:
    assert parse("record", "-q -- python x.py -q").command == ["--", "python", "x.py", "-q"]
    parsed = parse("record", "--root lib python x.py --root y --eager")
    assert parsed.command == ["python", "x.py", "--root", "y", "--eager"]
    assert (parsed.root, parsed.eager) == (Path("lib"), False)


def test_a_usual_check_does_not_load_what_it_does_not_need(tmp_path: Path) -> None:
    """Each of these takes longer than all the rest."""
    (tmp_path / "empty.py").touch()
    code = (
        "import sys; from fullgraph.cli import main; main(['check', '-q', 'empty.py']); "
        "print(sorted({'pydantic', 'libcst', 'rich', 'torch', 'pygls'} & {*sys.modules}))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert ran.stdout == "[]\n"


def test_help_does_not_load_what_runs_commands(command_line: CommandLine) -> None:
    code = (
        "import sys\n"
        "from fullgraph.cli.command_line import run_command\n"
        "try:\n"
        "    run_command(['--help'])\n"
        "except SystemExit:\n"
        "    print(sorted({'asyncio', 'fullgraph.render.operators', 'rich'} & {*sys.modules}))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=command_line.environment(),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.stdout.endswith("[]\n")
