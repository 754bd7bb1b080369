"""``fullgraph op``, against an engine that has an operator index."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, Ran
from tests.server.operator_pages import write_index


@pytest.fixture
def index(tmp_path: Path) -> str:
    return str(write_index(tmp_path / "operators.index"))


def op(command_line: CommandLine, *arguments: str, **env: Any) -> Ran:
    return command_line.run("op", "--python", str(command_line.interpreter), *arguments, **env)


def test_a_page_in_the_terminal(command_line: CommandLine, index: str) -> None:
    ran = op(command_line, "aten::max.dim", SCRIPTED_INDEX=index)
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("aten::max.dim(Tensor self, int dim, bool keepdim=False)")
    assert "\nPT2-compliant · core ATen\n" in ran.out
    assert "\x1b" not in ran.out
    assert "\x1b" in op(command_line, "max", "--color", "always", SCRIPTED_INDEX=index).out


def test_a_bare_name_shows_everything_that_has_it(command_line: CommandLine, index: str) -> None:
    ran = op(command_line, "max", SCRIPTED_INDEX=index)
    assert ran.status == 0
    titles = [line for line in ran.out.splitlines() if line.endswith((" function", " method"))]
    assert titles == ["torch.max function", "torch.Tensor.max method"]


def test_json(command_line: CommandLine, index: str) -> None:
    ran = op(command_line, "max", "--json", SCRIPTED_INDEX=index)
    assert ran.status == 0
    data = json.loads(ran.out)
    assert {key: data[key] for key in ("version", "torch", "complete", "notes", "name")} == {
        "version": 1,
        "torch": "2.13.0",
        "complete": True,
        "notes": [],
        "name": "max",
    }
    assert [page["path"] for page in data["found"]] == ["torch.max", "torch.Tensor.max"]


def test_an_unknown_name_is_status_1_and_names_what_is_near(
    command_line: CommandLine, index: str
) -> None:
    ran = op(command_line, "torch.maxx", SCRIPTED_INDEX=index)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "torch 2.13.0 has no name or operator `torch.maxx`; is it torch.max?\n"
    ran = op(command_line, "qqqqqq", "--json", SCRIPTED_INDEX=index)
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "torch 2.13.0 has no name or operator `qqqqqq`.\n"


def test_a_complete_index_is_not_waited_for_once_it_is_there(
    command_line: CommandLine, index: str
) -> None:
    began = time.monotonic()
    ran = op(command_line, "max", SCRIPTED_INDEX=index, SCRIPTED_SLOW="600")
    assert ran.status == 0 and time.monotonic() - began < 60
    (started,) = (line for line in command_line.engine_log() if line.startswith("started "))
    assert not Path(f"/proc/{started.split()[1]}").exists()


def test_the_complete_index_replaces_the_first(
    command_line: CommandLine, index: str, tmp_path: Path
) -> None:
    static = str(write_index(tmp_path / "static.index", complete=False))
    ran = op(command_line, "max", SCRIPTED_STATIC=static, SCRIPTED_INDEX=index)
    assert ran.status == 0 and "has not been asked yet" not in ran.out


def test_what_is_known_is_shown_where_the_engine_cannot_go_on(
    command_line: CommandLine, tmp_path: Path
) -> None:
    static = str(write_index(tmp_path / "static.index", complete=False))
    ran = op(command_line, "max", SCRIPTED_STATIC=static, SCRIPTED_UNUSABLE="torch is broken.")
    assert ran.status == 0
    assert "These signatures were read from torch's files and not yet compared" in ran.out
    assert ran.out.endswith("note: Documentation is not known yet.\n")


def test_without_torch_it_says_so_and_is_status_2(command_line: CommandLine) -> None:
    ran = op(command_line, "max", SCRIPTED_UNUSABLE="There is no torch.")
    assert (ran.status, ran.out) == (2, "")
    assert ran.err == "error: There is no torch. Install torch.\n"
    ran = command_line.run("op", "max", "--interpreter", "./nothing")
    assert ran.status == 2 and ran.err.startswith("error: ") and "nothing" in ran.err


def test_an_index_that_cannot_be_read_is_status_2(
    command_line: CommandLine, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.index"
    broken.write_bytes(b"{}\n")
    ran = op(command_line, "max", SCRIPTED_INDEX=str(broken))
    assert ran.status == 2 and f"The operator index {broken} cannot be read" in ran.err
