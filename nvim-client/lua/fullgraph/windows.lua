--- Where documents and the trace open.

local options = require("fullgraph.options")

local M = {}

local COMMANDS = { split = "belowright split", vsplit = "belowright vsplit", tab = "tab split" }

---@param bufnr integer
---@return vim.api.keyset.win_config
local function floating(bufnr)
  local width = math.max(40, math.min(math.floor(vim.o.columns * 0.85), 120))
  local height = math.max(8, math.floor(vim.o.lines * 0.75))
  local name = vim.api.nvim_buf_get_name(bufnr):gsub("%?.*", "")
  return {
    relative = "editor",
    width = width,
    height = height,
    col = math.floor((vim.o.columns - width) / 2),
    row = math.floor((vim.o.lines - height) / 2 - 1),
    border = vim.o.winborder == "" and "rounded" or nil,
    title = (" %s "):format(vim.fs.basename(name)),
  }
end

--- The window of this tab page that shows a buffer.
---@param bufnr integer
---@return integer?
function M.showing(bufnr)
  for _, window in ipairs(vim.api.nvim_tabpage_list_wins(0)) do
    if vim.api.nvim_win_get_buf(window) == bufnr then
      return window
    end
  end
end

--- Show a buffer: in the window that shows it, else in a new one.
---@param bufnr integer
---@param focus boolean
---@param wanted? "split"|"vsplit"|"tab"|"float"
---@return integer window
function M.show(bufnr, focus, wanted)
  wanted = wanted or options.get().window
  local before = vim.api.nvim_get_current_win()
  local window = M.showing(bufnr)
  if not window and wanted == "float" then
    window = vim.api.nvim_open_win(bufnr, focus, floating(bufnr))
  elseif not window then
    -- A split of a floating window is one as well, and has no room.
    if vim.api.nvim_win_get_config(0).relative ~= "" then
      vim.cmd.wincmd("p")
    end
    vim.cmd(COMMANDS[wanted])
    window = vim.api.nvim_get_current_win()
    vim.api.nvim_win_set_buf(window, bufnr)
  end
  vim.api.nvim_set_current_win(focus and window or before)
  return window
end

--- Keys of a buffer that is only read.
---@param bufnr integer
function M.reading_keys(bufnr)
  vim.keymap.set("n", "q", "<Cmd>close<CR>", { buffer = bufnr, nowait = true, desc = "Close" })
end

--- Show lines that are in no file.
---@param name string
---@param lines string[]
---@param filetype? string
function M.scratch(name, lines, filetype)
  name = "fullgraph-" .. name
  local bufnr = vim.fn.bufadd(name)
  vim.fn.bufload(bufnr)
  vim.bo[bufnr].buftype = "nofile"
  vim.bo[bufnr].swapfile = false
  vim.bo[bufnr].bufhidden = "wipe"
  vim.bo[bufnr].modifiable = true
  vim.api.nvim_buf_set_lines(bufnr, 0, -1, false, lines)
  vim.bo[bufnr].modifiable = false
  vim.bo[bufnr].filetype = filetype or ""
  M.reading_keys(bufnr)
  local window = M.show(bufnr, true)
  vim.wo[window][0].linebreak = true
  return window
end

return M
