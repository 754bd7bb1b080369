--- What the engine does, for a statusline.

local M = {}

---@class fullgraph.Status
---@field state "stopped"|"untrusted"|"starting"|"ready"|"tracing"|"unusable"|"crashed"
---@field message string
---@field nextStep string
---@field torch string
---@field python string
---@field interpreter string
---@field why string
---@field sandbox string how far the sandbox holds, in a short line
---@field busy boolean

---@type table<integer, fullgraph.Status> by client
local known = {}

local WORDS = {
  stopped = "off",
  untrusted = "not trusted",
  starting = "starting",
  ready = "ready",
  tracing = "tracing",
  unusable = "cannot trace",
  crashed = "crashed",
}

---@param client_id integer
---@param status fullgraph.Status
function M.set(client_id, status)
  local before = known[client_id]
  known[client_id] = status
  if status.state == "untrusted" and (not before or before.state ~= "untrusted") then
    require("fullgraph.journal").say(
      "Workspace not trusted: `:Fullgraph trust` runs its code."
    )
  end
  vim.api.nvim_exec_autocmds("User", {
    pattern = "FullgraphStatus",
    modeline = false,
    data = { client_id = client_id, status = status },
  })
  vim.cmd.redrawstatus({ bang = true })
end

---@param client_id integer
---@return fullgraph.Status
function M.of(client_id)
  return known[client_id]
    or {
      state = "stopped",
      message = "",
      nextStep = "",
      torch = "",
      python = "",
      interpreter = "",
      why = "",
      sandbox = "",
      busy = false,
    }
end

--- Why nothing is known of a text, with what to do about it.
---@param client_id integer
---@return string
function M.explanation(client_id)
  local status = M.of(client_id)
  if status.state == "ready" or status.state == "tracing" or status.message == "" then
    local summary = require("fullgraph.summary").of(0)
    if summary and not summary.tracing and summary.traced == 0 and #summary.lines > 0 then
      return table.concat(summary.lines, "\n")
    end
    return "Nothing in this file was traced.\n`:Fullgraph analyze` traces it now, or says why not."
  end
  return vim.trim(status.message .. "\n" .. status.nextStep)
end

--- The status of the engine behind a buffer; nil where there is none.
---@param bufnr? integer
---@return fullgraph.Status?
function M.get(bufnr)
  local client = vim.lsp.get_clients({ name = "fullgraph", bufnr = bufnr or 0 })[1]
  return client and M.of(client.id)
end

--- A few words: `fullgraph: tracing`, `fullgraph: ready, 2 findings, 3 of 5 traced`; nothing where
--- this client is not.
---@param bufnr? integer
---@return string
function M.text(bufnr)
  bufnr = bufnr or 0
  local client = vim.lsp.get_clients({ name = "fullgraph", bufnr = bufnr })[1]
  if not client then
    return ""
  end
  local status, summary = known[client.id], require("fullgraph.summary").of(bufnr)
  local state = status and status.state or "starting"
  local words = { WORDS[state] or state }
  if summary and not summary.tracing then
    vim.list_extend(words, { summary.findings, summary.fixes, summary.title })
  end
  return "fullgraph: " .. table.concat(
    vim.tbl_filter(function(word)
      return word ~= ""
    end, words),
    ", "
  )
end

return M
