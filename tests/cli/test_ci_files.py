"""The files for CI use options that the command has, and fields that the programs know."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path

import yaml  # type: ignore[import-untyped]

from fullgraph.cli.command_line import command_parser, load_command

tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

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


def instructions() -> list[tuple[str, str]]:
    """Instructions of the Dockerfile with their arguments, without comments and line breaks."""
    text = re.sub(r"^#.*\n", "", (ROOT / "Dockerfile").read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", "").splitlines()
    split = (line.partition(" ") for line in lines if line)
    return [(word, " ".join(rest.split())) for word, _, rest in split]


def test_the_image_has_files_that_exist_and_are_sent_to_docker() -> None:
    sent = (ROOT / ".dockerignore").read_text().splitlines()
    sources = [
        source for word, rest in instructions() if word == "COPY" for source in rest.split()[:-1]
    ]
    assert sources
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{source}" in sent, source
    # A wheel needs its packages, and the files that the metadata names.
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packages = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    needed = {package.partition("/")[0] for package in packages}
    needed |= {"pyproject.toml", project["project"]["readme"], *project["project"]["license-files"]}
    assert needed == set(sources)


def test_the_image_runs_the_command_as_an_ordinary_user() -> None:
    found = instructions()
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    (entry,) = [json.loads(rest) for word, rest in found if word == "ENTRYPOINT"]
    assert entry == ["fullgraph"] and entry[0] in scripts
    (user,) = [rest for word, rest in found if word == "USER"]
    assert user != "root"
    assert ("RUN", f"useradd --create-home {user}") in found[: found.index(("USER", user))]


def test_the_image_has_the_torch_of_the_tests() -> None:
    defaults = dict(rest.split("=", 1) for word, rest in instructions() if word == "ARG")
    makefile = (ROOT / "Makefile").read_text()
    assert f"TORCH  ?= torch=={defaults['TORCH']}\n" in makefile
