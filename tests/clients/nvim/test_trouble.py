"""What is said, and how often, where something is missing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from .conftest import FOUR_LINES, Open
from .neovim import CLIENT, Neovim
from .test_hands import NET

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(600)]

PLAIN = f"""
vim.opt.runtimepath:append("{CLIENT}")
vim.lsp.enable("fullgraph")
"""


def with_interpreter(python: Path) -> str:
    settings = f'{{ settings = {{ fullgraph = {{ interpreter = "{python}" }} }} }}'
    return PLAIN + f'vim.lsp.config("fullgraph", {settings})\n'


def one_message(nvim: Neovim, *words: str) -> str:
    """Wait for a message; there is no other, also after another file was opened and edited."""
    nvim.until("something is said", nvim.messages)
    nvim.command("edit other.py")
    nvim.type("O", "x = 1", "<Esc>")
    nvim.command("write")
    nvim.until_rest()
    (message,) = nvim.messages()
    for word in words:
        assert word in message
    if nvim.terminal:
        # It waits for no key.
        assert "Press ENTER" not in nvim.screen()
    return message


def log(nvim: Neovim) -> str:
    nvim.command("Fullgraph log")
    nvim.until("the log is open", lambda: nvim.lua("return vim.fn.bufname()") == "fullgraph-log")
    text = "\n".join(nvim.text())
    nvim.type("q")
    nvim.until("it is closed", lambda: nvim.lua("return vim.bo.filetype") == "python")
    return text


@pytest.fixture
def folder(workspace: Path) -> Path:
    for name in ("net.py", "other.py"):
        (workspace / name).write_text(NET)
    return workspace


@pytest.fixture
def one(open_neovim: Open, folder: Path) -> Callable[..., Neovim]:
    def open_(**options: str) -> Neovim:
        return open_neovim(folder, "net.py", **options)

    return open_


def test_without_the_server(one: Callable[..., Neovim]) -> None:
    nvim = one(configuration=PLAIN, path="/usr/bin:/bin")
    one_message(nvim, "The server `fullgraph` was not found")
    assert "pipx install fullgraph" in log(nvim)
    nvim.forget_messages()
    nvim.command("Fullgraph show graph")
    nvim.until("it is said again", nvim.messages)


def test_without_a_python_on_the_path(one: Callable[..., Neovim], tmp_path: Path) -> None:
    """The one that the server is installed in has torch."""
    nothing = tmp_path / "nothing"
    nothing.mkdir()
    program = nothing / "fullgraph"
    program.symlink_to(Path(sys.executable).parent / "fullgraph")
    nvim = one(configuration=PLAIN, path=str(nothing))
    nvim.finds("graph-break/")
    assert nvim.messages() == []
    assert f"Tracing with {sys.executable}: the Python that fullgraph is installed in" in log(nvim)
    nvim.command("Fullgraph interpreter")
    nvim.until("it is said", nvim.messages)
    (message,) = nvim.messages()
    assert "/bin/python (the Python that fullgraph is installed in)" in message


def test_without_torch(one: Callable[..., Neovim], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    nvim = one(configuration=with_interpreter(tmp_path / "v/bin/python"))
    one_message(nvim, "No torch in")
    assert nvim.status() == "unusable"
    nvim.command("Fullgraph trace")
    nvim.sees("No torch in", "pip install torch")


def test_an_interpreter_that_is_there_when_the_user_comes_back(
    one: Callable[..., Neovim], tmp_path: Path
) -> None:
    python = tmp_path / "python"
    nvim = one(configuration=with_interpreter(python))
    one_message(nvim, "The interpreter")
    python.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    nvim.command("doautocmd FocusGained")
    nvim.finds("graph-break/")


def test_with_an_old_torch(one: Callable[..., Neovim], tmp_path: Path) -> None:
    venv = tmp_path / "v"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(venv)], check=True)
    (packages,) = venv.glob("lib/python*/site-packages")
    (packages / "torch").mkdir()
    (packages / "torch/__init__.py").write_text("__version__ = '1.13.1'\n")
    (packages / "torch/version.py").write_text("__version__ = '1.13.1'\n")
    nvim = one(configuration=with_interpreter(venv / "bin/python"))
    one_message(nvim, "1.13.1")
    assert "2.8" in log(nvim)


def test_with_an_environment_of_another_platform(
    open_neovim: Open, tmp_path: Path, program: Path
) -> None:
    folder = tmp_path / "model"
    (folder / ".venv/Scripts").mkdir(parents=True)
    foreign = folder / ".venv/Scripts/python.exe"
    foreign.write_bytes(b"MZ\x90\x00" + bytes(100))
    foreign.chmod(0o755)
    (folder / "pyproject.toml").write_text("")
    for name in ("net.py", "other.py"):
        (folder / name).write_text(NET)
    nvim = open_neovim(folder, "net.py", configuration=PLAIN)
    one_message(nvim, "The environment ", ".venv has no")
    assert "has no Python that can be executed on this machine: create it again here" in log(nvim)


def test_a_server_that_cannot_start(one: Callable[..., Neovim], tmp_path: Path) -> None:
    broken = tmp_path / "fullgraph"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    cmd = f'vim.g.fullgraph = {{ cmd = {{ "{broken}", "server" }} }}\n'
    nvim = one(configuration=cmd + PLAIN)
    nvim.until("it gives up", lambda: any("stays off" in said for said in nvim.messages()))
    (first, _) = nvim.messages()
    assert "ended (exit status 3)" in first
    assert "Error" not in nvim.lua('return vim.fn.execute("messages")')


def test_an_untrusted_workspace_executes_nothing(one: Callable[..., Neovim]) -> None:
    # As where nobody has said anything yet.
    nothing = "vim.fn.delete(vim.env.HOME .. '/.config/fullgraph/trusted-folders')\n"
    nvim = one(configuration=nothing + FOUR_LINES)
    nvim.until("it says so", lambda: nvim.status() == "untrusted")
    nvim.type("O", "x = 1", "<Esc>")
    nvim.command("write")
    nvim.command("Fullgraph analyze")
    nvim.until_rest()
    server = nvim.server()
    assert server is not None
    assert server.children(recursive=True) == []
    assert nvim.findings() == []
    nvim.forget_messages()
    nvim.command("Fullgraph trust")
    nvim.until("it answers", lambda: any("Trusted" in said for said in nvim.messages()))
    nvim.finds("graph-break/")
    nvim.settled()
    nvim.command("Fullgraph distrust")
    nvim.until("it says so again", lambda: nvim.status() == "untrusted")


def test_trust_in_a_folder_without_a_project_lasts(open_neovim: Open, tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET)
    nothing = "vim.fn.delete(vim.env.HOME .. '/.config/fullgraph/trusted-folders')\n"
    nvim = open_neovim(tmp_path, "net.py", configuration=nothing + FOUR_LINES)
    nvim.until("it is not trusted", lambda: nvim.status() == "untrusted")
    nvim.command("Fullgraph trust")
    nvim.finds("graph-break/")
    nvim.command("Fullgraph restart-server")
    nvim.until("the findings are gone", lambda: not nvim.findings())
    nvim.finds("graph-break/")


def test_an_environment_marks_a_project(open_neovim: Open, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / ".venv")])
    (packages,) = tmp_path.glob(".venv/lib/python*/site-packages")
    (packages / "linked.pth").write_text(str(Path(torch.__file__).parents[1]))
    file = tmp_path / "models/net.py"
    file.parent.mkdir()
    file.write_text(NET)
    nvim = open_neovim(tmp_path, "models/net.py", configuration=PLAIN)
    nvim.finds("graph-break/")
    root = nvim.lua("return vim.lsp.get_clients({ bufnr = 0 })[1].root_dir")
    assert Path(root).resolve() == tmp_path.resolve()
    nvim.command("Fullgraph interpreter")
    nvim.until("it is said", nvim.messages)
    assert "(from .venv of the project)" in nvim.messages()[0]


def test_what_is_left_alone(one: Callable[..., Neovim], folder: Path) -> None:
    (folder / "large.py").write_text("x = 'large'\n" * (5_000_000 // 12))
    nvim = one()
    nvim.finds("graph-break/")
    nvim.forget_messages()
    nvim.command("edit large.py")
    nvim.until("it is said", nvim.messages)
    (message,) = nvim.messages()
    assert "large.py is not traced: it has 5.0 MB" in message
    assert nvim.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 0
    nvim.forget_messages()
    for name in ("fugitive://somewhere/net.py", "scheme:/far/net.py"):
        nvim.lua(f"""
          vim.cmd.enew()
          vim.api.nvim_buf_set_name(0, "{name}")
          vim.bo.filetype = "python"
        """)
        assert nvim.lua("return #vim.lsp.get_clients({ bufnr = 0 })") == 0
    assert nvim.messages() == []


def test_another_interpreter_while_it_runs(one: Callable[..., Neovim], tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    nvim = one(configuration=with_interpreter(tmp_path / "v/bin/python"))
    nvim.until("there is no torch", lambda: nvim.status() == "unusable")
    before = nvim.server()
    nvim.command(f"Fullgraph interpreter {sys.executable}")
    nvim.finds("graph-break/")
    after = nvim.server()
    assert before is not None and after is not None
    assert before.pid == after.pid


def test_options_that_are_none(one: Callable[..., Neovim]) -> None:
    nvim = one(configuration='vim.g.fullgraph = { window = "attic" }\n' + FOUR_LINES)
    nvim.finds("graph-break/")
    (message,) = nvim.messages()
    assert 'vim.g.fullgraph.window must be "split"' in message


def test_a_narrow_terminal_is_not_blocked(open_neovim: Open, folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "v")], check=True)
    nvim = open_neovim(
        folder, "net.py", configuration=with_interpreter(tmp_path / "v/bin/python"), columns=60
    )
    message = one_message(nvim, "fullgraph: ")
    if nvim.terminal:
        assert message.endswith("… :Fullgraph log")


def test_the_tags_of_the_help_are_those_of_its_text(program: Path, tmp_path: Path) -> None:
    (tmp_path / "fullgraph.txt").write_bytes((CLIENT / "doc/fullgraph.txt").read_bytes())
    command = [str(program), "--clean", "--headless", "-c", f"helptags {tmp_path}", "-c", "qa"]
    subprocess.run(command, check=True)
    assert (tmp_path / "tags").read_text() == (CLIENT / "doc/tags").read_text()
