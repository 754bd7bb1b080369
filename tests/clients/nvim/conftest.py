"""Neovim as a user has it: ``make test-nvim`` installs it and names it in FULLGRAPH_NVIM."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .neovim import CLIENT, Neovim, environment

if not os.environ.get("FULLGRAPH_NVIM"):
    collect_ignore_glob = ["test_*.py"]

FOUR_LINES = f"""
vim.opt.runtimepath:append("{CLIENT}")
vim.lsp.config("fullgraph", {{
  settings = {{ fullgraph = {{ interpreter = "{sys.executable}" }} }},
}})
vim.lsp.enable("fullgraph")
"""

LOOKS = """
vim.o.statusline = "%f %{%v:lua.require('fullgraph').statusline()%}"
vim.diagnostic.config({ virtual_text = true })
vim.o.swapfile = false
"""

Open = Callable[..., Neovim]


def terminals() -> list[object]:
    absent = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
    return [
        pytest.param(False, id="headless"),
        pytest.param(True, id="terminal", marks=absent),
    ]


@pytest.fixture(scope="session")
def program() -> Path:
    return Path(os.environ["FULLGRAPH_NVIM"]).absolute()


@pytest.fixture(scope="module", params=terminals())
def terminal(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder whose name is as awkward as names are."""
    folder = tmp_path_factory.mktemp("space") / 'a "model\'s" größe 模型'
    folder.mkdir()
    (folder / "pyproject.toml").write_text("[tool.fullgraph]\nforecast = false\n")
    return folder


@pytest.fixture(scope="module")
def open_neovim(
    program: Path, terminal: bool, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Open]:
    opened: list[Neovim] = []

    def open_(
        folder: Path,
        *files: str,
        configuration: str = FOUR_LINES,
        path: str = "",
        columns: int = 110,
    ) -> Neovim:
        place = tmp_path_factory.mktemp("nvim")
        surroundings = environment(place)
        if path:
            surroundings["PATH"] = path
        nvim = Neovim(
            program,
            place,
            terminal=terminal,
            configuration=LOOKS + configuration,
            environment=surroundings,
            columns=columns,
        )
        opened.append(nvim)
        nvim.start(folder, *files)
        return nvim

    yield open_
    for nvim in opened:
        nvim.stop()
