"""What a user does, in one Neovim after the other: each test opens a file of its own."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from .conftest import Open
from .neovim import Neovim, quoted

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(600)]

NET = """\
import torch
import torch.nn as nn


# fullgraph: f32[4, 16]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 8)

    def forward(self, x):
        y = self.linear(x)
        print(y.shape)
        return y.relu()
"""

LOOSE = """\
import torch
import torch.nn as nn


class Loose(nn.Module):
    def forward(self, x):
        print("loose")
        return x + 1
"""

UNKNOWN = """\
import torch
import torch.nn as nn


class Unknown(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.size = config.model.sizes["hidden"]

    def forward(self, batch):
        return batch["tokens"][batch["index"]].reshape(self.size, 7)
"""

REFUSED = """\
import subprocess

import torch

subprocess.Popen(["true"])


# fullgraph: f32[2]
def refused(x):
    return x + 1
"""

SLOW = """\
import time

import torch
import torch.nn as nn


# fullgraph: f32[2]
class Slow(nn.Module):
    def forward(self, x):
        time.sleep(3600)
        return x + 1
"""


@pytest.fixture(scope="module")
def nvim(open_neovim: Open, workspace: Path) -> Neovim:
    (workspace / "start.py").write_text("import torch\n")
    neovim = open_neovim(workspace, "start.py")
    neovim.settled()
    return neovim


@pytest.fixture
def net(nvim: Neovim, workspace: Path, request: pytest.FixtureRequest) -> Neovim:
    """A traced file with one break, the cursor at its top."""
    opened(nvim, workspace / f"{request.node.originalname}_{nvim.terminal}.py", NET)
    nvim.finds("graph-break/")
    nvim.settled()
    return nvim


def opened(nvim: Neovim, file: Path, text: str) -> None:
    file.write_text(text)
    nvim.forget_messages()
    nvim.edit(file)


def test_a_break_is_underlined_exactly(net: Neovim) -> None:
    (found,) = net.findings("graph-break/")
    line = net.text()[found["line"]]
    assert line.encode()[found["from"] : found["to"]] == b"print(y.shape)"
    net.sees("■")


FLOATING = """
  for _, window in ipairs(vim.api.nvim_list_wins()) do
    if vim.api.nvim_win_get_config(window).relative ~= "" then
      local bufnr = vim.api.nvim_win_get_buf(window)
      return table.concat(vim.api.nvim_buf_get_lines(bufnr, 0, -1, false), " ")
    end
  end
"""


def test_hover_shows_the_tensor(net: Neovim) -> None:
    net.to("y = self.linear(x)", "x")
    net.to("self.linear(x)", "(x)")
    net.type("l", "K")
    # A hint beside the line says the same.
    floating = net.until("the hover opens", lambda: net.lua(FLOATING))
    assert "f32[4, 16]" in floating
    net.type("<Esc>", "k")


def test_lenses_say_what_came_of_it(net: Neovim) -> None:
    net.sees("# fullgraph: f32[4, 16] make faster | 2 graphs · 1 break", "guards")


def test_a_lens_stands_before_the_diagnostics_of_its_line(nvim: Neovim, workspace: Path) -> None:
    if not nvim.terminal:
        pytest.skip("Without a screen nothing is ordered.")
    opened(nvim, workspace / "unknown.py", UNKNOWN)
    nvim.finds("probe/missing")

    def lens_first() -> bool:
        drawn = next(line for line in nvim.screen().splitlines() if "class Unknown" in line)
        return "not traced: " in drawn.partition("■")[0] and "■" in drawn

    nvim.until("the lens is drawn first", lens_first)


def test_the_log_has_no_colors_of_terminals(nvim: Neovim) -> None:
    nvim.lua('require("fullgraph.journal").note("a \\27[1;31mred\\27[0m word")')
    nvim.command("Fullgraph log")
    nvim.until("the log", lambda: any(line.endswith(" a red word") for line in nvim.text()))
    nvim.type("q")


def test_a_lens_opens_the_trace(net: Neovim) -> None:
    net.to("# fullgraph: f32[4, 16]")
    net.choose([":lua vim.lsp.codelens.run()", "<CR>"], "2 graphs")
    net.sees("graph 1", "break  line 13", "graph 2")
    # The window is half as wide now.
    net.sees("# fullgraph: f32[4, 16] make faster | 2 graphs · 1")


def test_inlay_hints_show_sizes(net: Neovim) -> None:
    net.sees("def forward(self, x: f32[4, 16])", "y: f32[4, 8] =")


def test_inlay_hints_are_drawn_though_lines_were_drawn_while_they_were_asked_for(
    net: Neovim,
) -> None:
    net.sees("y: f32[4, 8] =")
    net.lua(
        """
        local client = vim.lsp.get_clients({ name = "fullgraph" })[1]
        local bufnr = vim.api.nvim_get_current_buf()
        local version = vim.lsp.util.buf_versions[bufnr]
        local ctx = { client_id = client.id, bufnr = bufnr, version = version }
        vim.lsp.inlay_hint.on_inlayhint(nil, {}, ctx)
        client.handlers["workspace/inlayHint/refresh"](nil, nil, ctx)
        vim.cmd.redraw()
        """
    )
    net.sees("y: f32[4, 8] =")


def test_an_action_writes_the_probe_that_was_found(nvim: Neovim, workspace: Path) -> None:
    opened(nvim, workspace / f"loose_{nvim.terminal}.py", LOOSE)
    nvim.sees("guessed inputs")
    nvim.to("class Loose", "Loose")
    nvim.choose(["gra"], "Write the probe")
    nvim.until("the probe is there", lambda: "# fullgraph: " in "\n".join(nvim.text()))
    nvim.until("the lens repeats no probe", lambda: "guessed inputs" not in nvim.seen())
    nvim.sees("1 graph")


def test_a_quick_fix_hides_a_finding_by_a_comment(net: Neovim) -> None:
    net.to("print(y.shape)", "print")
    net.choose(["gra"], "Ignore graph-break/")
    net.until("the comment is there", lambda: "# fullgraph: ignore[" in "\n".join(net.text()))
    net.until("the finding is gone", lambda: not net.findings("graph-break"))


def test_an_action_says_how_to_allow_what_was_refused(nvim: Neovim, workspace: Path) -> None:
    opened(nvim, workspace / f"refused_{nvim.terminal}.py", REFUSED)
    nvim.finds("trace/sandboxed")
    nvim.to("Popen", "subprocess.Popen")
    nvim.choose(["gra"], "Allow subprocess (user settings)")
    nvim.sees("To allow subprocess in all workspaces", 'allow = { "subprocess" },')
    nvim.type("q")


def test_a_repro_is_opened_and_copied(net: Neovim, workspace: Path) -> None:
    net.to("print(y.shape)", "print")
    net.choose(["gra"], "Create minimal repro")
    shown = net.until(
        "a script is opened",
        lambda: net.lua(
            "for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do"
            "  local bufnr = vim.api.nvim_win_get_buf(window)"
            "  if vim.api.nvim_buf_get_name(bufnr):find('fullgraph-repros', 1, true) then"
            "    return bufnr"
            "  end"
            " end"
        ),
    )
    # The cursor is where it was: one may be typing there.
    assert net.lua("return vim.api.nvim_get_current_buf()") != shown
    script = "\n".join(net.lua(f"return vim.api.nvim_buf_get_lines({shown}, 0, -1, false)"))
    assert "torch.compile" in script and "print" in script
    net.command("only")
    net.lua('vim.fn.setreg([["]], "")')
    net.choose(["gra"], "Copy minimal repro as issue")
    copied = net.until("an issue is copied", lambda: net.lua('return vim.fn.getreg([["]])'))
    assert "```python" in copied
    net.sees("register")


def test_completion_lists_operators(net: Neovim) -> None:
    net.to("return y.relu()")
    net.type("O", "torch.ops.aten.", "<C-x>", "<C-o>")
    words = net.until(
        "there is a list",
        lambda: net.lua(
            "return vim.tbl_map(function(one) return one.word end, "
            'vim.fn.complete_info({ "items" }).items)'
        ),
    )
    assert {"add", "mm", "native_layer_norm"} <= set(words)
    if net.terminal:
        net.sees("aten::")
    net.type("<Esc>", "u")


def test_an_edit_that_removes_a_break_removes_the_finding(net: Neovim) -> None:
    net.to("print(y.shape)")
    net.type("dd")
    net.until("the finding is gone", lambda: not net.findings("graph-break/"))
    net.sees("1 graph · ")
    net.type("u")
    net.finds("graph-break/")


def test_documents_of_the_server_open_and_follow(net: Neovim) -> None:
    net.to("y = self.linear(x)")
    net.command("Fullgraph show graph")
    net.sees("Graph 1", "linear")
    assert net.lua("return vim.bo.modifiable") is False
    assert net.lua("return vim.bo.buftype") == "nofile"
    assert net.lua("return vim.bo.filetype") == "python"
    attached = net.lua("return #vim.lsp.get_clients({ bufnr = 0 })")
    assert attached == 0
    net.command("wincmd p")
    net.to("print(y.shape)")
    net.type("dd")
    net.command("wincmd p")
    net.until("the document is new", lambda: "Graph 2" not in "\n".join(net.text()))
    net.type("q")
    net.until("it is closed", lambda: len(net.lua("return vim.api.nvim_list_wins()")) == 1)


def test_timings_open_beside_and_follow(net: Neovim) -> None:
    net.command("FullgraphTimings")
    net.sees("Time spent in the last run", "Request, ", "process ")
    # The text keeps the cursor: keys go on to it.
    assert net.lua("return vim.bo.filetype") == "python"
    net.to("print(y.shape)")
    net.type("dd")
    net.until("the break is gone", lambda: not net.findings("graph-break/"))
    net.command("wincmd w")
    assert net.lua("return { vim.bo.modifiable, vim.bo.buftype }") == [False, "nofile"]
    frames = net.until(
        "they are of the new text",
        lambda: (
            (words := [line.strip() for line in net.text() if "frame " in line])
            and not any("line 13" in line for line in words)
            and words
        ),
    )
    assert frames[0].startswith("frame forward, line 11: ")
    net.type("q")
    net.until("it is closed", lambda: len(net.lua("return vim.api.nvim_list_wins()")) == 1)


def test_the_trace_follows_the_cursor_and_jumps(nvim: Neovim, workspace: Path) -> None:
    second = NET.partition("\n\n\n")[2].replace("Net", "Other")
    second = second.replace("print(y.shape)", "y = y + 1")
    opened(nvim, workspace / f"two_{nvim.terminal}.py", NET + "\n\n" + second)
    nvim.finds("graph-break/")
    nvim.settled()
    nvim.to("y = self.linear(x)")
    nvim.command("Fullgraph trace")
    nvim.sees("Net  two_", "break  line 13")
    nvim.type("G")
    nvim.sees("Other  two_")
    nvim.type("gg", "7j")
    nvim.sees("Net  two_", "break  line 13")
    nvim.command("wincmd p")
    nvim.to("╋ break")
    nvim.type("<CR>")
    place = nvim.until(
        "the cursor is at the break",
        lambda: nvim.lua('return vim.bo.filetype == "python" and vim.api.nvim_win_get_cursor(0)'),
    )
    assert place == [13, 8]
    nvim.type("dd")
    nvim.until("the trace is new", lambda: "╋ break" not in nvim.seen())
    nvim.command("only")


def test_the_trace_has_a_run_for_each_probe(nvim: Neovim, workspace: Path) -> None:
    probes = "# fullgraph: f32[4, 16]\n# fullgraph: f32[2, 3, 16]\n"
    text = NET.replace("# fullgraph: f32[4, 16]\n", probes)
    opened(nvim, workspace / f"probes_{nvim.terminal}.py", text)
    nvim.finds("graph-break/")
    nvim.settled()
    nvim.to("y = self.linear(x)")
    nvim.command("Fullgraph trace")
    nvim.sees("▸ f32[4, 16]", "  f32[2, 3, 16]", "f32[4, 8]")
    nvim.command("wincmd p")
    nvim.type("gg", "p")
    nvim.sees("▸ f32[2, 3, 16]", "f32[2, 3, 8]")
    # It stays the one when the cursor moves and the text is edited.
    nvim.command("wincmd p")
    nvim.to("print(y.shape)")
    nvim.type("dd")
    nvim.until("the trace is new", lambda: "╋ break" not in nvim.seen())
    nvim.sees("▸ f32[2, 3, 16]")
    nvim.command("wincmd p")
    nvim.to("f32[4, 16]")
    nvim.type("<CR>")
    nvim.sees("▸ f32[4, 16]")
    # On the comment of a probe it is the run with that probe.
    nvim.command("wincmd p")
    nvim.to("# fullgraph: f32[2, 3, 16]")
    nvim.command("FullgraphTrace")
    nvim.sees("▸ f32[2, 3, 16]")
    nvim.command("wincmd p")
    nvim.type("c")
    nvim.until(
        "the code of its graphs",
        lambda: "probe2.graph.py" in nvim.lua("return vim.fn.execute('ls')"),
    )
    nvim.command("only")


def test_the_trace_says_that_the_first_run_goes_on(nvim: Neovim, workspace: Path) -> None:
    opened(nvim, workspace / f"first_{nvim.terminal}.py", SLOW)
    nvim.until("it is traced", lambda: nvim.status() == "tracing")
    nvim.command("Fullgraph trace")
    nvim.sees("tracing…", "is being traced for the first time")
    nvim.command("Fullgraph cancel")
    nvim.settled()
    nvim.sees("o trace of the file has ended")
    nvim.command("only")
    nvim.lua("vim.cmd.bwipeout()")


def test_a_text_is_traced_as_soon_as_it_has_a_name(nvim: Neovim, workspace: Path) -> None:
    nvim.forget_messages()
    nvim.lua(f"""
      vim.cmd.enew()
      vim.api.nvim_buf_set_lines(0, 0, -1, false, vim.split({quoted(NET)}, "\\n"))
      vim.bo.filetype = "python"
    """)
    nvim.command("Fullgraph trace")
    nvim.until("it is said", nvim.messages)
    assert "without a name is not traced" in nvim.messages()[0]
    nvim.command(f"write named_{nvim.terminal}.py")
    nvim.finds("graph-break/")


def test_the_trace_in_another_tab_is_as_new(net: Neovim) -> None:
    net.to("y = self.linear(x)")
    net.command("Fullgraph trace")
    net.sees("╋ break")
    net.command("tab split")
    net.to("print(y.shape)")
    net.type("dd")
    net.until("the finding is gone", lambda: not net.findings("graph-break/"))
    net.settled()
    net.command("tabclose")
    net.until("the trace is new", lambda: "╋ break" not in net.seen())
    net.command("only")


def test_the_client_can_be_disabled_and_enabled(net: Neovim) -> None:
    before = net.until("a server", net.server)
    net.lua('vim.lsp.enable("fullgraph", false); vim.lsp.enable("fullgraph")')
    net.until("a new server", lambda: (now := net.server()) and now.pid != before.pid)
    net.finds("graph-break/")
    assert net.messages() == []


def test_guards_as_diagnostics(net: Neovim) -> None:
    net.to("y = self.linear(x)")
    net.command("Fullgraph guards")
    net.finds("guard/")
    net.command("Fullgraph guards")
    net.until("they are gone", lambda: not net.findings("guard/"))


def test_a_long_trace_can_be_cancelled(nvim: Neovim, workspace: Path) -> None:
    opened(nvim, workspace / f"slow_{nvim.terminal}.py", SLOW)
    nvim.until("it is traced", lambda: nvim.status() == "tracing")
    nvim.sees("fullgraph: tracing")
    nvim.command("Fullgraph cancel")
    nvim.settled()
    nvim.sees("fullgraph: ready")
    nvim.lua("vim.cmd.bwipeout()")


ECHOED = """
  _G.echoed = {}
  local echo = vim.api.nvim_echo
  vim.api.nvim_echo = function(chunks, ...)
    table.insert(_G.echoed, chunks[1][1])
    return echo(chunks, ...)
  end
"""


def test_the_command_line_shows_the_progress_of_a_measurement(net: Neovim) -> None:
    net.lua(ECHOED)
    net.to("class Net")
    net.command("Fullgraph measure")
    net.until("it is shown", lambda: "fullgraph: Measuring Net" in str(net.lua("return _G.echoed")))
    net.command("Fullgraph cancel")
    net.until("it is removed", lambda: net.lua("return _G.echoed[#_G.echoed]") == "")


def test_the_engine_can_be_restarted(net: Neovim) -> None:
    before = net.until("an engine", net.engine_pid)
    net.command("Fullgraph restart")
    net.until("a new engine", lambda: net.engine_pid() not in (None, before))
    net.finds("graph-break/")
    assert net.messages() == []


def test_a_killed_engine_comes_back_with_one_message(net: Neovim) -> None:
    before = net.until("an engine", net.engine_pid)
    os.kill(before, signal.SIGKILL)
    net.until("a new engine", lambda: net.engine_pid() not in (None, before))
    net.settled()
    net.to("return y.relu()")
    net.type("O", 'print("again")', "<Esc>")
    net.until("there are two", lambda: len(net.findings("graph-break/")) == 2)
    assert len(net.messages()) == 1, net.messages()


def test_a_killed_server_comes_back_with_one_message(net: Neovim) -> None:
    before = net.until("a server", net.server)
    before.kill()
    net.until("a new server", lambda: (now := net.server()) and now.pid != before.pid)
    net.finds("graph-break/")
    net.sees("2 graphs · 1 break")
    net.to("print(y.shape)")
    net.type("dd")
    net.until("the finding is gone", lambda: not net.findings("graph-break/"))
    (message,) = net.messages()
    assert "ended (signal 9) and is started again" in message


def test_the_server_can_be_restarted(net: Neovim) -> None:
    before = net.until("a server", net.server)
    net.command("Fullgraph restart-server")
    net.until("a new server", lambda: (now := net.server()) and now.pid != before.pid)
    net.finds("graph-break/")
    assert net.messages() == []


def test_requests_while_the_server_ends_show_no_errors(net: Neovim) -> None:
    before = net.until("a server", net.server)
    net.lua("""
      local client = vim.lsp.get_clients({ name = "fullgraph" })[1]
      vim.cmd("Fullgraph restart-server")
      local params = { textDocument = vim.lsp.util.make_text_document_params() }
      for _, method in ipairs({ "documentSymbol", "inlayHint", "codeLens" }) do
        client:request("textDocument/" .. method, params, nil, 0)
      end
    """)
    net.until("a new server", lambda: (now := net.server()) and now.pid != before.pid)
    net.finds("graph-break/")
    assert net.messages() == []


def test_status_and_log(net: Neovim) -> None:
    net.command("Fullgraph status")
    net.sees("torch:", "interpreter:", "sandbox: ")
    net.type("q")
    net.command("Fullgraph log")
    net.until("the log is open", lambda: net.lua("return vim.fn.bufname()") == "fullgraph-log")
    net.type("q")


PARTLY = (
    NET.replace(
        "        print(y.shape)\n",
        "        if x is None:\n            print(y.shape)\n",
    )
    + """

    def predict(self, x):
        return self(x).argmax(-1)
"""
)


def test_the_statusline_says_what_was_traced(nvim: Neovim, workspace: Path) -> None:
    opened(nvim, workspace / f"partly_{nvim.terminal}.py", PARTLY)
    nvim.until(
        "the statusline says how much was traced",
        lambda: "ready, no findings, 1 of 1 traced" in nvim.statusline(),
    )
    nvim.command("Fullgraph file")
    nvim.until("the summary is open", lambda: nvim.lua(BUFFER) == "fullgraph-file")
    text = "\n".join(nvim.text())
    assert "1 line was not reached: line 14." in text
    assert "line 18: Net.predict is not traced, no trace calls this method" in text
    nvim.type("q")


def test_a_file_that_was_not_traced_says_so(nvim: Neovim, workspace: Path) -> None:
    packages = workspace / f"site-packages_{nvim.terminal}" / "site-packages"
    packages.mkdir(parents=True)
    opened(nvim, packages / "installed.py", NET)
    nvim.sees("Not traced: installed packages are traced only on command")
    nvim.until("the statusline says so", lambda: "not traced" in nvim.statusline())
    assert "findings" not in nvim.statusline()


BUFFER = "return vim.fn.bufname()"


def test_help_is_found(net: Neovim) -> None:
    net.command("help :Fullgraph")
    net.until("help is open", lambda: net.lua("return vim.bo.filetype") == "help")
    net.sees(":Fullgraph")
    net.command("quit")


def test_health_finds_nothing_wrong(net: Neovim) -> None:
    net.lua("vim.schedule(function() vim.cmd('checkhealth fullgraph') end)")
    net.until(
        "health is told",
        lambda: (
            net.lua("return vim.bo.filetype") == "checkhealth"
            and any("doctor" in line for line in net.text())
        ),
    )
    report = "\n".join(net.text())
    assert "ERROR" not in report, report
    assert "WARN" not in report, report
    assert "torch" in report
    net.lua("vim.cmd.bwipeout()")
