--- The trace of a target.

local M = {}

---@param on vim.lsp.Client
---@param uri string
---@param target string
function M.open(on, uri, target)
  require("fullgraph.client").execute(on, "showGraph", { { uri = uri, target = target } })
end

function M.refresh() end

return M
