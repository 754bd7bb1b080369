--- The process of the language server: how it is started, and started again when it dies.

local journal = require("fullgraph.journal")
local options = require("fullgraph.options")

local M = {}

--- Deaths within this many seconds are counted together.
local WINDOW = 180
local MOST_DEATHS = 4
local FIRST_PAUSE = 250 -- milliseconds; doubled with each death

---@type number[]
local deaths = {}

local INSTALL = "install it with `pipx install fullgraph` or set `vim.g.fullgraph.cmd`"

---@return string? # what is wrong with the command of the server
function M.missing()
  local command = options.get().cmd[1]
  if vim.fn.executable(command) == 0 then
    return ("The server `%s` was not found: %s."):format(command, INSTALL)
  end
end

---@param folder string
---@return boolean
local function is_home(folder)
  local home = vim.uv.os_homedir()
  return home ~= nil and vim.fs.normalize(home) == vim.fs.normalize(folder)
end

--- The folder of a file outside of projects: a workspace without folders cannot be trusted for the
--- next time. Not the home folder, which `:Fullgraph trust` would trust with all that is in it, and
--- not the folders of installed packages, which would have a server each.
---@param bufnr integer
---@return string?
local function folder_of(bufnr)
  local folder = vim.fs.dirname(vim.api.nvim_buf_get_name(bufnr))
  if (folder .. "/"):find("/lib/python3[%d.]*/") or folder:find("[/\\\\]site%-packages") then
    return nil
  end
  return folder ~= "/" and not is_home(folder) and folder or nil
end

--- |lsp-root_dir()|: where a buffer belongs, or no call of `on_dir` where it is left alone.
---@param bufnr integer
---@param on_dir fun(root: string?)
function M.root_dir(bufnr, on_dir)
  if M.refusal(bufnr, true) then
    return
  end
  local missing = M.missing()
  if missing then
    journal.once(missing, vim.log.levels.WARN)
    return
  end
  require("fullgraph.presence").register()
  local markers = vim.lsp.config.fullgraph.root_markers or { "pyproject.toml", ".venv", ".git" }
  local root = vim.fs.root(bufnr, markers)
  on_dir(root and not is_home(root) and root or folder_of(bufnr))
end

--- Why a buffer is left alone, if it is.
---@param bufnr integer
---@param aloud? boolean say it, where a user would ask why
---@return string?
function M.refusal(bufnr, aloud)
  local name = vim.api.nvim_buf_get_name(bufnr)
  if name == "" then
    -- All such buffers have one URI, and Neovim finds none of them by it.
    return "A buffer without a name is not traced; write it to a file."
  end
  if name:match("^%a[%w+.-]+:/") then
    -- Of another plugin, on another machine, or of no file: nobody expects us there.
    return "Only files on this machine are traced."
  end
  local size = vim.api.nvim_buf_get_offset(bufnr, vim.api.nvim_buf_line_count(bufnr))
  local most = options.get().max_size
  if size > most then
    local text = "%s is not traced: it has %.1f MB; raise vim.g.fullgraph.max_size to open it."
    text = text:format(vim.fs.basename(name), size / 1e6)
    if aloud then
      journal.once(text)
    end
    return text
  end
end

--- A text was written, perhaps under its first name: a buffer that was left alone may be none now.
---@param bufnr integer
function M.written(bufnr)
  local attached = vim.lsp.get_clients({ name = "fullgraph", bufnr = bufnr })
  if #attached == 0 and vim.bo[bufnr].filetype == "python" and vim.lsp.is_enabled("fullgraph") then
    vim.api.nvim_exec_autocmds("FileType", {
      group = "nvim.lsp.enable",
      buffer = bufnr,
      modeline = false,
    })
  end
end

---@param client vim.lsp.Client
---@param buffers integer[]
local function start_again(client, buffers)
  for _, bufnr in ipairs(buffers) do
    if vim.api.nvim_buf_is_loaded(bufnr) then
      vim.lsp.start(client.config, { bufnr = bufnr })
    end
  end
end

---@param client vim.lsp.Client
---@param buffers integer[]
---@param how string
local function recover(client, buffers, how)
  local now = vim.uv.now() / 1000
  deaths = vim.tbl_filter(function(when)
    return now - when < WINDOW
  end, deaths)
  deaths[#deaths + 1] = now
  if #deaths > MOST_DEATHS then
    local text = "The server stays off: it ended %d times in %d minutes (%s). "
      .. "`:Fullgraph restart-server` starts it; %s may say why."
    text = text:format(#deaths, WINDOW / 60, how, vim.lsp.get_log_path())
    journal.say(text, vim.log.levels.ERROR)
    return
  end
  if #deaths == 1 then
    journal.say(("The server ended (%s) and is started again."):format(how), vim.log.levels.WARN)
  else
    journal.note(("The server ended (%s) and is started again."):format(how))
  end
  vim.defer_fn(function()
    start_again(client, buffers)
  end, FIRST_PAUSE * 2 ^ (#deaths - 1))
end

---@param rpc vim.lsp.rpc.PublicClient
---@return vim.lsp.Client?
local function client_of(rpc)
  for _, client in ipairs(vim.lsp.get_clients({ _uninitialized = true })) do
    if client.rpc == rpc then
      return client
    end
  end
end

--- Drop requests after `shutdown`, as for a server that has ended. The server has to answer them
--- with errors, and Neovim shows those.
---@param rpc vim.lsp.rpc.PublicClient
local function drop_requests_after_shutdown(rpc)
  local request, is_shut_down = rpc.request, false
  rpc.request = function(method, ...)
    if is_shut_down then
      return false
    end
    is_shut_down = method == "shutdown"
    return request(method, ...)
  end
end

--- `cmd` of the configuration. Neovim has a message of its own for servers that die, which does
--- not say that they come back, and it does not start them again.
---@param dispatchers vim.lsp.rpc.Dispatchers
---@param config vim.lsp.ClientConfig
---@return vim.lsp.rpc.PublicClient
function M.start(dispatchers, config)
  local missing = M.missing()
  if missing then
    error(missing, 0)
  end
  local rpc ---@type vim.lsp.rpc.PublicClient
  local on_exit = dispatchers.on_exit
  local function ended(code, signal)
    -- 15 is how clients are stopped by force.
    local died = code ~= 0 or (signal ~= 0 and signal ~= 15)
    local client = died and client_of(rpc)
    if client then
      local buffers = vim.tbl_keys(client.attached_buffers)
      local how = signal ~= 0 and ("signal %d"):format(signal) or ("exit status %d"):format(code)
      vim.schedule(function()
        if vim.v.exiting == vim.NIL then
          recover(client, buffers, how)
        end
      end)
      code, signal = 0, 0
    end
    on_exit(code, signal)
  end
  rpc = vim.lsp.rpc.start(
    options.get().cmd,
    vim.tbl_extend("force", dispatchers, { on_exit = ended }),
    { cwd = config.cmd_cwd, env = config.cmd_env, detached = config.detached }
  )
  drop_requests_after_shutdown(rpc)
  return rpc
end

--- End the server and start it for the same buffers; without one, start it for this buffer.
function M.restart()
  deaths = {}
  journal.forget()
  local clients = vim.lsp.get_clients({ name = "fullgraph" })
  if #clients == 0 then
    if not vim.lsp.is_enabled("fullgraph") then
      journal.say('The client is not enabled: `vim.lsp.enable("fullgraph")`.', vim.log.levels.WARN)
      return
    end
    vim.api.nvim_exec_autocmds("FileType", { group = "nvim.lsp.enable", modeline = false })
    return
  end
  for _, client in ipairs(clients) do
    local buffers = vim.tbl_keys(client.attached_buffers)
    client:stop()
    local function wait(patience)
      if patience > 0 and not client:is_stopped() then
        vim.defer_fn(function()
          wait(patience - 1)
        end, 50)
        return
      end
      client:stop(true)
      vim.schedule(function()
        start_again(client, buffers)
      end)
    end
    wait(60)
  end
end

return M
