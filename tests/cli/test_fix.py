"""What ``fullgraph fix`` does to files, whatever the fixes are."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine

from fullgraph.cli import fix
from fullgraph.cli.fix import FixRun, fix_files
from fullgraph.cli.sources import SourceFile, split_targets
from fullgraph.engines import EngineState, EngineStatus
from fullgraph.fixes.fixing import Fixed
from fullgraph.session.settings import Settings
from fullgraph_engine.protocol import Analyze

TEXT = "import torch\r\n\r\nclass Net(torch.nn.Module):  # \xe9\r\n\tprint(1)\r\n"
FIXED = TEXT.replace("\tprint(1)", "\tpass")


class Idle:
    """An engine that nothing is asked of."""

    async def start(self) -> None: ...

    async def ready(self) -> EngineStatus:
        return EngineStatus(EngineState.READY, "It is ready.", torch="2.13.0")

    async def close(self) -> None: ...

    def kill(self) -> None: ...


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Any]:
    """Apply a fix to a file; ``meanwhile`` happens while it is tried."""

    async def apply(
        path: Path,
        *,
        write: bool = True,
        forecast: bool = False,
        targets: tuple[str, ...] = (),
        meanwhile: Callable[[], object] = lambda: None,
    ) -> FixRun:
        async def fixed(engine: object, request: Analyze, **options: object) -> Fixed:
            assert ("forecast" in request.parts) is forecast
            assert request.only == targets
            meanwhile()
            return Fixed(request.text.replace("\tprint(1)", "\tpass"))

        monkeypatch.setattr(fix, "fixed", fixed)
        engine: Any = Idle
        return await fix_files(
            [SourceFile(path.name, path, named=True, targets=targets)],
            settings=Settings(),
            project=tmp_path,
            engine=engine,
            grades=("safe",),
            backend=False,
            forecast=forecast,
            write=write,
            show_progress=lambda words: None,
            on_file_done=lambda file: None,
        )

    return apply


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
async def test_all_else_of_a_file_stays(
    applied: Callable[..., Any], tmp_path: Path, encoding: str
) -> None:
    path = tmp_path / "model.py"
    head = "# coding: latin-1\r\n" if encoding == "latin-1" else ""
    path.write_bytes((head + TEXT).encode(encoding))
    path.chmod(0o750)
    run = await applied(path)
    assert run.files[0].written and not run.incomplete
    assert path.read_bytes() == (head + FIXED).encode(encoding)
    assert path.stat().st_mode & 0o777 == 0o750
    assert [one.name for one in tmp_path.iterdir()] == ["model.py"]


async def test_recompiles_that_are_foretold_are_fixed_on_request(
    applied: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_text(TEXT)
    assert (await applied(path, forecast=True)).files[0].written


async def test_only_named_targets_are_traced(applied: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(TEXT.encode())
    assert (await applied(path, targets=("Net", "Other"))).files[0].written


def test_targets_are_named_behind_their_file(tmp_path: Path) -> None:
    assert split_targets(["net.py", "net.py"]) == {"net.py": ()}
    named = ["a.py::Net", "a.py::Other.forward", "a.py::Net", "b", "c.py::Net", "c.py"]
    assert split_targets(named) == {"a.py": ("Net", "Other.forward"), "b": (), "c.py": ()}
    odd = tmp_path / "odd::name.py"
    odd.touch()
    assert split_targets([str(odd), f"{odd}::Net"]) == {str(odd): ()}


async def test_a_link_stays_one(applied: Callable[..., Any], tmp_path: Path) -> None:
    path, link = tmp_path / "model.py", tmp_path / "link.py"
    path.write_bytes(TEXT.encode())
    link.symlink_to(path)
    await applied(link)
    assert link.is_symlink() and path.read_bytes() == FIXED.encode()


async def test_a_file_that_is_read_only_is_left(
    applied: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(TEXT.encode())
    path.chmod(0o444)
    run = await applied(path)
    assert path.read_bytes() == TEXT.encode()
    assert run.files[0].problem == (
        "model.py could not be written: Permission denied. See the fixes with --diff."
    )
    assert run.incomplete and not run.files[0].written


async def test_a_file_that_was_edited_meanwhile_is_left(
    applied: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(TEXT.encode())
    run = await applied(path, meanwhile=lambda: path.write_text("x = 1\n"))
    assert path.read_text() == "x = 1\n"
    assert run.files[0].problem == ("model.py was changed while it was being fixed; run it again.")


async def test_a_file_is_written_whole_or_not_at_all(
    applied: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(TEXT.encode())

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    run = await applied(path)
    assert path.read_bytes() == TEXT.encode()
    assert [one.name for one in tmp_path.iterdir()] == ["model.py"]
    assert "No space left on device" in run.files[0].problem


async def test_nothing_is_written_to_show_a_difference(
    applied: Callable[..., Any], tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_bytes(TEXT.encode())
    run = await applied(path, write=False)
    assert path.read_bytes() == TEXT.encode()
    assert "+\tpass\r\n" in fix.file_diff(run.files[0])


@pytest.mark.real_engine
@pytest.mark.timeout(180)
def test_code_that_only_a_program_calls_is_fixed_with_the_inputs_of_the_program(
    command_line: CommandLine,
) -> None:
    losses = (
        "from torch.autograd import Variable\n\n\n"
        "def weighted(x, weights, scale):\n"
        "    y = x * Variable(weights)\n"
        "    return y.sum() * scale\n"
    )
    command_line.write("lib/losses.py", losses)
    command_line.write(
        "train.py",
        "# fullgraph: run(3)\nimport sys, torch\nfrom lib.losses import weighted\n\n"
        "def step(x):\n    return weighted(x, x[0].exp(), int(sys.argv[1]))\n\n"
        "if __name__ == '__main__':\n"
        "    fast = torch.compile(step)\n    for _ in range(3):\n        fast(torch.ones(2, 3))\n",
    )
    options = ("--unsafe", "--diff", "--format", "json")
    ran = command_line.run("fix", "--python", sys.executable, *options, "lib/losses.py")
    (file,) = json.loads(ran.out)["files"]
    (applied,) = file["applied"]
    assert applied["rewrite"] == "without-variable"
    (verified,) = applied["verified"]
    assert verified["outcome"] == "same"
    assert verified["cases"][0]["inputs"] == "x=f32[2, 3], weights=f32[3], scale=3"
