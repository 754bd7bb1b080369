"""A real Neovim, headless or in a terminal, and what a user does and sees in it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil

ROOT = Path(__file__).parents[3]
CLIENT = ROOT / "nvim-client"
PATIENCE = float(os.environ.get("FULLGRAPH_PATIENCE", "120"))
"""How long to wait for what must come; nothing that passes waits that long."""

KEYS = {
    "<CR>": ["Enter"],
    # Not Escape, which a terminal cannot tell from the beginning of Alt with the next key.
    "<Esc>": ["C-\\", "C-n"],
    "<C-x>": ["C-x"],
    "<C-o>": ["C-o"],
    "<F12>": ["F12"],
}
"""Keys by their names in Neovim, and in tmux."""

BEAT = """
-- To know that what was typed before has been done.
_G.beats = 0
vim.keymap.set({ "n", "i", "x" }, "<F12>", "<Cmd>lua _G.beats = _G.beats + 1<CR>")
"""

T = TypeVar("T")

SEEN = r"""
  vim.cmd("redraw")
  local seen = {}
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    local bufnr = vim.api.nvim_win_get_buf(window)
    local above, below = vim.fn.line("w0", window), vim.fn.line("w$", window)
    local marks = vim.api.nvim_buf_get_extmarks(bufnr, -1, 0, -1, { details = true })
    local rows = vim.api.nvim_win_call(window, function()
      return vim.tbl_filter(function(row)
        return vim.list_contains({ -1, row }, vim.fn.foldclosed(row))
      end, vim.fn.range(above, below))
    end)
    for _, row in ipairs(rows) do
      local line = vim.fn.getbufline(bufnr, row)[1] or ""
      for index = #marks, 1, -1 do
        local mark = marks[index]
        if mark[2] == row - 1 and mark[4].virt_text then
          local text = vim.iter(mark[4].virt_text):map(function(one) return one[1] end):join("")
          if mark[4].virt_text_pos == "inline" then
            line = line:sub(1, mark[3]) .. text .. line:sub(mark[3] + 1)
          else
            line = line .. " " .. text
          end
        end
      end
      seen[#seen + 1] = line
    end
    seen[#seen + 1] = vim.api.nvim_eval_statusline("%{%&statusline%}", { winid = window }).str
  end
  seen[#seen + 1] = vim.fn.execute("messages")
  return table.concat(seen, "\n")
"""

CHOOSING = """
-- Nobody sees the menu of a Neovim without a screen: it takes what it was told to.
vim.ui.select = function(items, options, done)
  for index, item in ipairs(items) do
    local words = options.format_item and options.format_item(item) or tostring(item)
    if words:find(_G.wanted, 1, true) then
      return done(item, index)
    end
  end
  error("There is no " .. _G.wanted)
end
"""


class Neovim:
    def __init__(
        self,
        program: Path,
        place: Path,
        *,
        terminal: bool,
        configuration: str,
        environment: Mapping[str, str],
        columns: int = 110,
    ) -> None:
        self.terminal = terminal
        self.program = program
        self.place = place
        self.columns = columns
        # The paths of sockets have to be short.
        self._sockets = Path(tempfile.mkdtemp(prefix="nvim-"))
        self.socket = self._sockets / "s"
        self._tmux = ["tmux", "-S", str(self._sockets / "t")]
        self._process: subprocess.Popen[bytes] | None = None
        home = place / "home"
        home.mkdir(parents=True, exist_ok=True)
        trusted = home / ".config" / "fullgraph" / "trusted-folders"
        trusted.parent.mkdir(parents=True, exist_ok=True)
        trusted.write_text("/\n")
        self.environment = {
            "HOME": str(home),
            "LANG": "C.UTF-8",
            "TERM": "screen-256color",
            **environment,
        }
        self.init = home / "init.lua"
        self.init.write_text(BEAT + configuration + ("" if terminal else CHOOSING))

    # -- its life -----------------------------------------------------------------------------

    def start(self, folder: Path, *files: str) -> None:
        command = [str(self.program), "-u", str(self.init), "-i", "NONE", "-n"]
        command += ["--listen", str(self.socket), *files]
        if self.terminal:
            passed = [f"{name}={value}" for name, value in self.environment.items()]
            screen = ["-x", str(self.columns), "-y", "40", "-c", str(folder)]
            # By ``env``: a new tmux server would add what it has itself.
            whole = ["env", "-i", *passed, *command]
            subprocess.run(
                [*self._tmux, "-f", "/dev/null", "new-session", "-d", *screen, *whole], check=True
            )
        else:
            self._process = subprocess.Popen(
                [command[0], "--headless", *command[1:]],
                cwd=folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self.until("Neovim listens", self.socket.exists)

    def stop(self) -> None:
        with contextlib.suppress(Exception):
            pid = self.lua("return vim.fn.getpid()")
            self._remote("--remote-send", "<C-\\><C-n>:qa!<CR>")
            with contextlib.suppress(psutil.Error):
                psutil.Process(pid).wait(10)
        if self.terminal:
            subprocess.run([*self._tmux, "kill-server"], check=False, capture_output=True)
        elif self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(10)
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self._sockets, ignore_errors=True)

    # -- hands --------------------------------------------------------------------------------

    def type(self, *keys: str) -> None:
        """Texts and names of keys; waits until Neovim has taken them."""
        beats = self.lua("return _G.beats")
        self._press(*keys, "<F12>")
        self.until("keys are taken", lambda: self.lua("return _G.beats") > beats)

    def _press(self, *keys: str) -> None:
        if not self.terminal:
            plain = [key if key in KEYS else key.replace("<", "<lt>") for key in keys]
            self._remote("--remote-send", "".join(plain))
            return
        for key in keys:
            named = KEYS.get(key, ["-l", "--", key])
            subprocess.run([*self._tmux, "send-keys", *named], check=True)

    def command(self, text: str) -> None:
        self.type("<Esc>", f":{text}", "<CR>")

    def edit(self, file: Path) -> None:
        """Open a file alone in the window."""
        self.lua(f"vim.cmd.edit(vim.fn.fnameescape({quoted(str(file))})); vim.cmd.only()")

    def to(self, line: str, text: str = "") -> None:
        """Put the cursor on a text in the line that has another."""
        row = next(i for i, one in enumerate(self.text(), 1) if line in one)
        column = len(self.text()[row - 1].partition(text or line)[0].encode())
        self.lua(f"vim.api.nvim_win_set_cursor(0, {{ {row}, {column} }})")

    def choose(self, keys: Sequence[str], title: str) -> None:
        """Open a menu and take the entry with a title from it."""
        if not self.terminal:
            self.lua(f"_G.wanted = {quoted(title)}")
            self.type(*keys)
            return
        self._press(*keys)
        entry = re.compile(rf"^\s*(\d+): .*{re.escape(title)}", re.M)
        found = self.until(f"{title!r} in the menu", lambda: entry.search(self.screen()))
        self.type(found[1], "<CR>")

    # -- eyes ---------------------------------------------------------------------------------

    def screen(self) -> str:
        assert self.terminal
        return subprocess.run(
            [*self._tmux, "capture-pane", "-p"], check=True, capture_output=True, text=True
        ).stdout

    def seen(self) -> str:
        """What is on the screen; headless what would be, with all messages so far."""
        return self.screen() if self.terminal else str(self.lua(SEEN))

    def sees(self, *texts: str) -> None:
        """Wait until texts are on the screen."""
        self.until(f"{texts} is seen", lambda: all(text in self.seen() for text in texts))

    def messages(self) -> list[str]:
        """What was said by this client or the server, or about them."""
        said = str(self.lua('return vim.fn.execute("messages")')).splitlines()
        return [line for line in said if "fullgraph" in line.lower() or "LSP" in line]

    def forget_messages(self) -> None:
        self.lua('vim.cmd("messages clear")')

    # -- inside -------------------------------------------------------------------------------

    def lua(self, body: str) -> Any:
        """The value of a Lua function's body."""
        code = f"vim.json.encode(((function() {body}\nend)()))".replace("'", "''")
        # One line: what is sent is an expression of Vim.
        code = "\n".join(line.partition(" -- ")[0] for line in code.splitlines())
        return json.loads(self._remote("--remote-expr", f"luaeval('{code}')") or "null")

    def _remote(self, *arguments: str) -> str:
        done = subprocess.run(
            [str(self.program), "--clean", "--server", str(self.socket), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=self.environment,
        )
        if done.returncode != 0 or "Error" in done.stderr:
            raise AssertionError(f"{arguments}: {done.stderr}{done.stdout}")
        return done.stdout

    def text(self) -> list[str]:
        return list(self.lua("return vim.api.nvim_buf_get_lines(0, 0, -1, false)"))

    def findings(self, code: str = "") -> list[dict[str, Any]]:
        """The diagnostics of the current buffer, as they are drawn."""
        found = self.lua("""
          return vim.tbl_map(function(one)
            return { code = one.code, message = one.message, line = one.lnum,
              from = one.col, to = one.end_col }
          end, vim.diagnostic.get(0))
        """)
        return [one for one in found if str(one["code"]).startswith(code)]

    def finds(self, code: str) -> list[dict[str, Any]]:
        return self.until(f"a finding {code}", lambda: self.findings(code))

    def status(self) -> str:
        status = self.lua('return (require("fullgraph").status() or {}).state')
        return str(status)

    def statusline(self) -> str:
        """What the client says in the statusline of the current buffer."""
        return str(self.lua('return require("fullgraph").statusline()'))

    def settled(self) -> None:
        """Wait until the engine is there and nothing is being traced."""
        self.until("nothing is traced", lambda: self.status() == "ready")

    def until_rest(self) -> None:
        """Wait until all that was typed and sent has had its effect, also where that is none."""

        def rests() -> bool:
            facts = self.debug_information()
            files, engines = facts.get("files") or [], facts.get("engines") or []
            return not any(file["busy"] or file["waiting"] for file in files) and not any(
                engine["state"] == "starting" for engine in engines
            )

        self.until("nothing goes on", rests)
        # What was scheduled until now, is done now.
        self.lua(
            "local done; vim.schedule(function() done = true end); "
            "vim.wait(20000, function() return done end)"
        )

    def debug_information(self) -> dict[str, Any]:
        answer = self.lua("""
          local client = vim.lsp.get_clients({ name = "fullgraph" })[1]
          local answer = client and client:request_sync("workspace/executeCommand",
            { command = "fullgraph.server.debugInformation", arguments = {} }, 20000)
          return answer and answer.result or {}
        """)
        return dict(answer) if answer else {}

    def engine_pid(self) -> int | None:
        engines = self.debug_information().get("engines") or []
        ready = [engine["pid"] for engine in engines if engine["state"] == "ready"]
        return ready[0] if ready else None

    def server(self) -> psutil.Process | None:
        for child in psutil.Process(self.lua("return vim.fn.getpid()")).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                words = child.cmdline()
                if "server" in words and any(word.endswith("fullgraph") for word in words):
                    return child
        return None

    def until(self, what: str, condition: Callable[[], T]) -> T:
        """Wait for something to become true; returns it."""
        end = time.monotonic() + PATIENCE
        while True:
            value = condition()
            if value:
                return value
            if time.monotonic() > end:
                raise AssertionError(f"It did not happen that {what}. {self._state()}")
            time.sleep(0.1)

    def _state(self) -> str:
        try:
            shown = self.screen() if self.terminal else self.lua(SEEN)
        except Exception as error:
            shown = str(error)
        return f"The screen:\n{shown}"


def quoted(text: str) -> str:
    """A text as Lua writes it."""
    return json.dumps(text, ensure_ascii=False)


def environment(folder: Path) -> dict[str, str]:
    """Of a user who has installed fullgraph, and nothing else beyond the system."""
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    program = programs / "fullgraph"
    if not program.exists():
        # A checkout that PYTHONPATH names is tested, rather than the one that is installed.
        checkout = os.environ.get("PYTHONPATH", "")
        variable = f'export PYTHONPATH="{checkout}"\n' if checkout else ""
        server = Path(sys.executable).parent / "fullgraph"
        script = f'#!/bin/sh\n{variable}exec "{server}" "$@"\n'
        program.write_text(script)
        program.chmod(0o755)
    return {"PATH": f"{programs}:/usr/bin:/bin"}
