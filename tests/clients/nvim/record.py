"""Types in a real Neovim and writes down what its terminal shows, as an asciicast.

``python tests/clients/nvim/record.py CAST`` with the Neovim that FULLGRAPH_NVIM names; ``make
recording`` makes the picture of ``nvim-client/README.md`` from it.
"""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import select
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
COLUMNS, ROWS = 104, 26
LONGEST_PAUSE = 1.5
"""Seconds: a reader does not wait for torch to be imported."""
TEXT = """\
import math

import torch
import torch.nn as nn


# fullgraph: init(dim=64) forward(f32[b=8, t=16, 64])
class Attention(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.qkv = nn.Linear(dim, 3 * dim)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(x.shape[-1])
        return scores.softmax(-1) @ v
"""
CONFIGURATION = f"""
vim.opt.runtimepath:append("{ROOT / "nvim-client"}")
vim.lsp.config("fullgraph", {{
  settings = {{ fullgraph = {{ interpreter = "{sys.executable}" }} }},
}})
vim.lsp.enable("fullgraph")
vim.o.statusline = "%f %{{%v:lua.require('fullgraph').statusline()%}}"
vim.diagnostic.config({{ virtual_text = true }})
vim.o.swapfile = false
vim.o.number = true
"""


class Recorder:
    """A program in a terminal, and what it has shown: seconds, and text with escapes."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]) -> None:
        pid, self._terminal = pty.fork()
        if pid == 0:
            os.chdir(folder)
            os.execve(command[0], command, environment)
        size = struct.pack("HHHH", ROWS, COLUMNS, 0, 0)
        fcntl.ioctl(self._terminal, termios.TIOCSWINSZ, size)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.shown: list[tuple[float, str]] = []

    def watch(self, seconds: float, until: str = "") -> None:
        """For so long, or until it has shown this.

        Raises:
            TimeoutError: it has not.
        """
        end, first = time.monotonic() + seconds, len(self.shown)
        while time.monotonic() < end:
            if select.select([self._terminal], [], [], 0.05)[0]:
                text = self._decoder.decode(os.read(self._terminal, 1 << 16))
                self.shown.append((time.monotonic(), text))
            if until and until in "".join(text for _, text in self.shown[first:]):
                return
        if until:
            raise TimeoutError(until)

    def type(self, keys: str, pause: float = 0.06) -> None:
        for key in keys:
            os.write(self._terminal, key.encode())
            self.watch(pause)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        folder = home / "project"
        folder.mkdir()
        (folder / "pyproject.toml").touch()
        (folder / "attention.py").write_text(TEXT)
        (home / "init.lua").write_text(CONFIGURATION)
        trusted = home / ".config" / "fullgraph" / "trusted-folders"
        trusted.parent.mkdir(parents=True)
        trusted.write_text("/\n")
        environment = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(home),
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "LANG": "C.UTF-8",
        }
        program = str(Path(os.environ["FULLGRAPH_NVIM"]).absolute())
        command = [program, "-u", str(home / "init.lua"), "attention.py"]
        terminal = Recorder(command, folder, environment)
        terminal.watch(60, until="no breaks")
        terminal.watch(2)
        terminal.type("14Go")
        terminal.type("if q.norm().item() > 100:\rq = q / q.norm()\x1b")
        terminal.type(":w\r")
        terminal.watch(60, until="1 break")
        terminal.watch(2.5)
        terminal.type("15G0fqK")
        terminal.watch(5)
        terminal.type("j:FullgraphTrace\r")
        terminal.watch(5)
        end = len(terminal.shown)
        terminal.type(":qa!\r")
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "env": {"TERM": "xterm-256color"}}
    lines, at, before = [json.dumps(header)], 0.0, terminal.shown[0][0]
    for moment, text in terminal.shown[:end]:
        at, before = at + min(moment - before, LONGEST_PAUSE), moment
        lines.append(json.dumps([round(at, 3), "o", text]))
    lines.append(json.dumps([at + 2 * LONGEST_PAUSE, "o", ""]))
    Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
