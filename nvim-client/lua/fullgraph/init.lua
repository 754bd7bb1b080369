--- What configurations and other plugins may use. See |fullgraph|.

local M = {}

--- What the engine behind a buffer does; nil where there is none.
---@param bufnr? integer
---@return fullgraph.Status?
function M.status(bufnr)
  return require("fullgraph.status").get(bufnr)
end

--- The same in a few words, for 'statusline'; empty where there is none.
---@return string
function M.statusline()
  return require("fullgraph.status").text()
end

--- `:Fullgraph` as a function: `require("fullgraph").run("show", "graph")`.
---@param ... string
function M.run(...)
  require("fullgraph.commands").run({ fargs = { ... } })
end

return M
