--- What was traced in a file and what was not, as the server summarizes it.

local M = {}

---@class fullgraph.NotTraced
---@field name string
---@field line integer from zero
---@field why string

---@class fullgraph.FileSummary
---@field title string such as "3 of 5 traced, 2 without inputs"
---@field findings string such as "2 findings, 1 note"; empty where nothing was traced
---@field fixes string such as "looking for fixes" or "fixes for 2"; empty if nothing can be fixed
---@field problems integer errors and warnings
---@field notes integer
---@field traced integer
---@field targets integer
---@field tracing boolean
---@field relevant boolean false where there is no code for torch
---@field lines string[] sentences on what was not traced, why, and what to do
---@field missedLines integer[] lines of traced functions that no trace reached, from zero
---@field notTraced fullgraph.NotTraced[]

---@type table<integer, fullgraph.FileSummary> by buffer
local known = {}

---@param bufnr integer
---@return fullgraph.FileSummary?
function M.of(bufnr)
  return known[bufnr == 0 and vim.api.nvim_get_current_buf() or bufnr]
end

--- Request the summary of a buffer again.
---@param client vim.lsp.Client
---@param bufnr integer
function M.refresh(client, bufnr)
  if not vim.api.nvim_buf_is_loaded(bufnr) then
    return
  end
  local params = { uri = vim.uri_from_bufnr(bufnr) }
  client:request("fullgraph/file", params, function(err, result)
    local before = known[bufnr]
    known[bufnr] = not err and type(result) == "table" and result or nil
    if not vim.deep_equal(before, known[bufnr]) then
      vim.cmd.redrawstatus({ bang = true })
    end
  end, bufnr)
end

--- Request the summaries of all buffers of a client again.
---@param client_id integer
function M.refresh_all(client_id)
  local client = vim.lsp.get_client_by_id(client_id)
  for bufnr in pairs(client and client.attached_buffers or {}) do
    M.refresh(client, bufnr)
  end
end

--- The summary as text, with the lines of what was not traced.
---@param bufnr integer
---@return string[]
function M.text(bufnr)
  local summary = M.of(bufnr)
  if not summary then
    return { "The server has not said anything about this file yet." }
  end
  local words = vim.tbl_filter(function(word)
    return word ~= ""
  end, { summary.findings, summary.fixes, summary.title })
  local lines = vim.list_extend({ table.concat(words, ", ") }, summary.lines)
  for _, one in ipairs(summary.notTraced) do
    lines[#lines + 1] = ("line %d: %s is not traced, %s"):format(one.line + 1, one.name, one.why)
  end
  return lines
end

return M
