--- What was said to the user and what the server logs, so that it can be read later: Neovim writes
--- the log of servers to a file of all of them, and at its usual level not at all.

local M = {}

local MOST = 2000

---@type string[]
local lines = {}
---@type table<string, true>
local told = {}

--- Keep a text for `:Fullgraph log`, without the colors that a program writes for a terminal.
---@param text string
function M.note(text)
  local stamp = os.date("%H:%M:%S ")
  text = text:gsub("\27%[[0-?]*[ -/]*[@-~]", "")
  for line in vim.gsplit(vim.trim(text), "\n", { plain = true }) do
    lines[#lines + 1] = stamp .. line
  end
  if #lines > MOST then
    lines = vim.list_slice(lines, #lines - MOST / 2)
  end
end

---@return string[]
function M.lines()
  return vim.list_slice(lines)
end

--- Whether messages go to the command line, where one that does not fit waits for Enter and takes
--- the next key that is typed.
local function in_command_line()
  local source = debug.getinfo(vim.notify, "S").source
  return vim.endswith(source, "vim/_editor.lua") and not vim.g.ui_ext_messages
end

---@param text string
---@return string
local function fitted(text)
  local width = vim.v.echospace
  text = text:gsub("%s+", " ")
  if not in_command_line() or vim.fn.strdisplaywidth(text) <= width then
    return text
  end
  -- Of long paths the end says most.
  text = text:gsub("/[^%s:;,]+/([^/%s:;,]+/[^/%s:;,]+)", "…/%1")
  if vim.fn.strdisplaywidth(text) <= width then
    return text
  end
  local rest = "… :Fullgraph log"
  local room = math.max(width - vim.fn.strdisplaywidth(rest), 20)
  local kept = vim.fn.strcharpart(text, 0, room)
  while vim.fn.strdisplaywidth(kept) > room do
    kept = vim.fn.strcharpart(kept, 0, vim.fn.strchars(kept) - 1)
  end
  -- Between words, where there is one not too far back.
  return (kept:match("^(.+)%s%S*$") or kept) .. rest
end

--- One line for the user. The whole text is in `:Fullgraph log`.
---@param text string
---@param level? integer
function M.say(text, level)
  text = text:gsub("^fullgraph: ", "")
  M.note(text)
  vim.schedule(function()
    vim.notify(fitted("fullgraph: " .. text), level or vim.log.levels.INFO, { title = "fullgraph" })
  end)
end

--- The same, but what was said before is not said again.
---@param text string
---@param level? integer
function M.once(text, level)
  if not told[text] then
    told[text] = true
    M.say(text, level)
  end
end

--- Say again what was said before: something was put right, or tried anew.
function M.forget()
  told = {}
end

return M
