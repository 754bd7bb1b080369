--- Documents that the server writes when they are opened, under addresses of its own:
--- `fullgraph:/graph/Net/Net.graph.py?file%3A///model.py`.
---
--- Vim takes `scheme:/path` for a file of that name, and only `scheme://path` for an address, so
--- buffers have two slashes more than the server's addresses.

local journal = require("fullgraph.journal")
local windows = require("fullgraph.windows")

local M = {}

---@param uri string
---@return string
function M.buffer_name(uri)
  return (uri:gsub("^fullgraph:/+", "fullgraph:///"))
end

---@param name string
---@return string
function M.address(name)
  return (name:gsub("^fullgraph:/+", "fullgraph:/"))
end

---@param name string
---@return string? uri of the text that a document is about
local function subject(name)
  local query = name:match("%?(.+)$")
  return query and vim.uri_decode(query)
end

---@param name string
---@return string
local function filetype(name)
  return name:match("%.py%?") and "python" or "fullgraph"
end

---@param bufnr integer
---@param lines string[]
local function fill(bufnr, lines)
  if not vim.api.nvim_buf_is_loaded(bufnr) then
    return
  end
  vim.bo[bufnr].modifiable = true
  -- Only what changed, so that cursors and folds stay.
  local old = vim.api.nvim_buf_get_lines(bufnr, 0, -1, false)
  local first = 1
  while first <= #old and first <= #lines and old[first] == lines[first] do
    first = first + 1
  end
  local last = 0
  while last <= #old - first and last <= #lines - first and old[#old - last] == lines[#lines - last] do
    last = last + 1
  end
  local fresh = vim.list_slice(lines, first, #lines - last)
  vim.api.nvim_buf_set_lines(bufnr, first - 1, #old - last, false, fresh)
  vim.bo[bufnr].modifiable = false
  vim.bo[bufnr].modified = false
end

---@param bufnr integer
local function fetch(bufnr)
  local name = vim.api.nvim_buf_get_name(bufnr)
  local uri = subject(name)
  local client = uri and require("fullgraph.client").with(uri)
  if not client then
    local about = uri and vim.uri_to_fname(uri) or "the file that this is about"
    fill(bufnr, { ("Open %s, then `:edit` this again."):format(about) })
    return
  end
  local params = { uri = M.address(name) }
  client:request("workspace/textDocumentContent", params, function(err, result)
    if err then
      journal.say(err.message, vim.log.levels.WARN)
      return
    end
    fill(bufnr, vim.split((result.text or ""):gsub("\n$", ""), "\n", { plain = true }))
  end, bufnr)
end

--- |BufReadCmd| of our addresses.
---@param bufnr integer
function M.read(bufnr)
  vim.bo[bufnr].buftype = "nofile"
  vim.bo[bufnr].swapfile = false
  vim.bo[bufnr].undolevels = -1
  vim.bo[bufnr].filetype = filetype(vim.api.nvim_buf_get_name(bufnr))
  windows.reading_keys(bufnr)
  if vim.api.nvim_buf_line_count(bufnr) == 1 then
    fill(bufnr, { "…" })
  end
  fetch(bufnr)
end

--- `window/showDocument`: documents of ours and files, beside the text they are about.
---@param params lsp.ShowDocumentParams
---@return boolean shown
function M.open(params)
  local uri = params.uri
  local bufnr
  if vim.startswith(uri, "fullgraph:") then
    bufnr = vim.fn.bufadd(M.buffer_name(uri))
  elseif vim.startswith(uri, "file:") then
    bufnr = vim.uri_to_bufnr(uri)
  else
    return false
  end
  vim.bo[bufnr].buflisted = true
  local window = windows.show(bufnr, params.takeFocus ~= false)
  local start = vim.tbl_get(params, "selection", "start")
  if start then
    pcall(vim.api.nvim_win_set_cursor, window, { start.line + 1, start.character })
  end
  return true
end

--- The server has a newer text.
---@param uri string
function M.refresh(uri)
  local bufnr = vim.fn.bufnr("^" .. vim.fn.escape(M.buffer_name(uri), "*?[]{},~\\.$") .. "$")
  if bufnr > 0 and vim.api.nvim_buf_is_loaded(bufnr) then
    fetch(bufnr)
  end
end

return M
