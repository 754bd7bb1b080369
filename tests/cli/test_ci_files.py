"""The files for CI use options that the command has, and fields that the programs know."""

from __future__ import annotations

import re
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from fullgraph.cli.command_line import command_parser, load_command

ROOT = Path(__file__).parents[2]


def test_the_action_uses_options_of_check() -> None:
    action = yaml.safe_load((ROOT / "action.yml").read_text())
    install, check = action["runs"]["steps"]
    assert action["runs"]["using"] == "composite"
    assert "pip" in install["run"]
    known = command_parser("check", load_command("check"))._option_string_actions
    used = set(re.findall(r"--[a-z-]+", check["run"]))
    assert used and used <= set(known)
    named = {re.sub(r"[${} .]|inputs", "", value) for value in check["env"].values()}
    assert named == set(action["inputs"])


def test_the_hook_of_pre_commit_runs_check() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["entry"] == "fullgraph check"
    assert hook["types"] == ["python"]
