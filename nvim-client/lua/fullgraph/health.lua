--- `:checkhealth fullgraph`

local health = vim.health

local M = {}

local PATIENCE = 90000 -- milliseconds; the first import of torch can take long

local function editor()
  health.start("fullgraph: Neovim")
  if vim.fn.has("nvim-0.11") == 1 then
    health.ok("Neovim " .. tostring(vim.version()))
  else
    health.error("Neovim 0.11 or newer is needed")
    return false
  end
  local _, problems = require("fullgraph.options").get()
  for _, problem in ipairs(problems) do
    health.warn(problem, "see `:help g:fullgraph`")
  end
  if #vim.api.nvim_get_runtime_file("lsp/fullgraph.lua", true) > 1 then
    health.warn(
      "There are several `lsp/fullgraph.lua` in 'runtimepath'; Neovim merges them",
      "keep the one that you want"
    )
  end
  if vim.lsp.is_enabled("fullgraph") then
    health.ok("enabled for " .. table.concat(vim.lsp.config.fullgraph.filetypes or {}, ", "))
  else
    health.warn("not enabled", 'put `vim.lsp.enable("fullgraph")` into your configuration')
  end
  return true
end

---@return string? # path of the server
local function server()
  health.start("fullgraph: server")
  local command = require("fullgraph.options").get().cmd
  local own = vim.lsp.config.fullgraph and vim.lsp.config.fullgraph.cmd
  if type(own) == "table" then
    command = own
  end
  local path = vim.fn.exepath(command[1])
  if path == "" then
    health.error(("`%s` was not found"):format(command[1]), {
      "install it: `pipx install fullgraph`, or `uv tool install fullgraph`",
      'or say where it is: `vim.g.fullgraph = { cmd = { "/path/to/fullgraph", "server" } }`',
    })
    return nil
  end
  local asked = vim.system({ path, "--version" }, { text = true }):wait(PATIENCE)
  if asked.code ~= 0 then
    health.error(
      ("`%s --version` failed with exit status %d"):format(path, asked.code),
      vim.trim((asked.stderr or "") .. (asked.stdout or ""))
    )
    return nil
  end
  health.ok(("%s (%s)"):format(vim.trim(asked.stdout), path))
  return path
end

local function clients()
  local found = vim.lsp.get_clients({ name = "fullgraph" })
  if #found == 0 then
    health.info("No server runs now; one is started with the first Python file")
  end
  for _, client in ipairs(found) do
    local status = require("fullgraph.status").of(client.id)
    local place = client.root_dir or "no folder"
    local text = ("client %d for %s: %s %s"):format(
      client.id,
      place,
      status.message ~= "" and status.message or status.state,
      status.nextStep
    )
    if status.state == "unusable" or status.state == "crashed" then
      health.error(vim.trim(text))
    elseif status.state == "untrusted" then
      health.warn(vim.trim(text), "`:Fullgraph trust`")
    else
      health.ok(vim.trim(text))
    end
  end
end

--- What `fullgraph doctor` says of the Python and the torch behind the current folder.
---@param path string
local function engine(path)
  health.start("fullgraph: Python and torch")
  local command = { path, "doctor" }
  local settings = vim.lsp.config.fullgraph and vim.lsp.config.fullgraph.settings or {}
  local python = vim.tbl_get(settings, "fullgraph", "interpreter")
  if python and python ~= "" then
    vim.list_extend(command, { "--python", python })
  end
  local asked = vim.system(command, { text = true, env = { NO_COLOR = "1" } }):wait(PATIENCE)
  local said = vim.trim((asked.stdout or "") .. "\n" .. (asked.stderr or ""))
  local first = said:gsub("\n+%s*settings.*", "")
  if asked.code == 0 then
    health.ok("`fullgraph doctor` finds nothing wrong")
  elseif asked.code == 1 then
    health.warn("`fullgraph doctor` reports a problem", first)
    return
  elseif asked.signal ~= 0 or asked.code == 124 then
    health.error("`fullgraph doctor` did not end within 90 seconds")
  else
    health.error("The engine cannot work", {
      first,
      "use a Python with torch: activate its environment before Neovim starts, or set"
        .. ' `settings = { fullgraph = { interpreter = "…" } }` in `vim.lsp.config("fullgraph", …)`',
    })
    return
  end
  for line in vim.gsplit(first, "\n") do
    if line ~= "" then
      health.info(line)
    end
  end
end

function M.check()
  if not editor() then
    return
  end
  local path = server()
  clients()
  if path then
    engine(path)
  end
end

return M
