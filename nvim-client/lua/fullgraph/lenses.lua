--- Code lenses: Neovim 0.11 draws them when it is asked to, and does not ask by itself.

local options = require("fullgraph.options")

local M = {}

local OFFERS = { "fullgraph.server.measure", "fullgraph.server.applyMeasured" }

--- Lenses with those that make a target faster first: Neovim draws all lenses of a line behind its
--- text, so the last ones are often outside of the window.
---@param lenses lsp.CodeLens[]
---@return lsp.CodeLens[]
local function offers_first(lenses)
  local first, rest = {}, {}
  for _, lens in ipairs(lenses) do
    local offer = vim.list_contains(OFFERS, vim.tbl_get(lens, "command", "command"))
    table.insert(offer and first or rest, lens)
  end
  return vim.list_extend(first, rest)
end

--- Draw lenses before the diagnostics of their lines, whose text may be longer than the window.
---@param client vim.lsp.Client
---@param bufnr integer
local function draw_first(client, bufnr)
  local namespace = vim.api.nvim_create_namespace("nvim.lsp.codelens:" .. client.id)
  local marks = vim.api.nvim_buf_get_extmarks(bufnr, namespace, 0, -1, { details = true })
  for _, mark in ipairs(marks) do
    vim.api.nvim_buf_set_extmark(bufnr, namespace, mark[2], mark[3], {
      id = mark[1],
      virt_text = mark[4].virt_text,
      hl_mode = "combine",
      priority = 100,
    })
  end
end

---@param client vim.lsp.Client
---@param bufnr integer
function M.refresh(client, bufnr)
  if not vim.api.nvim_buf_is_loaded(bufnr) then
    return
  end
  local shown = options.get().code_lens
  M.request(client, bufnr, function(err, lenses, ctx)
    if not err and shown then
      vim.lsp.codelens.on_codelens(err, offers_first(lenses or {}), ctx)
      draw_first(client, bufnr)
    end
  end)
end

---@param client vim.lsp.Client
---@param bufnr integer
---@param done lsp.Handler
function M.request(client, bufnr, done)
  local params = { textDocument = vim.lsp.util.make_text_document_params(bufnr) }
  client:request("textDocument/codeLens", params, done, bufnr)
end

--- The targets of a text from the top, each with the line of its name.
---@param lenses lsp.CodeLens[]?
---@return { target: string, line: integer }[]
function M.targets(lenses)
  local found, seen = {}, {}
  for _, lens in ipairs(lenses or {}) do
    local argument = vim.tbl_get(lens, "command", "arguments", 1)
    local target = type(argument) == "table" and argument.target
    if target and not seen[target] then
      seen[target] = true
      found[#found + 1] = { target = target, line = lens.range.start.line }
    end
  end
  table.sort(found, function(a, b)
    return a.line < b.line
  end)
  return found
end

--- The target that the cursor is in or below; nil above all of them.
---@param client vim.lsp.Client
---@param bufnr integer
---@param line integer from zero
---@param done fun(target: string?, all: { target: string, line: integer }[])
function M.target_at(client, bufnr, line, done)
  M.request(client, bufnr, function(err, lenses)
    local targets = M.targets(not err and lenses or {})
    local found = #targets == 1 and targets[1].target or nil
    for _, one in ipairs(targets) do
      found = one.line <= line and one.target or found
    end
    done(found, targets)
  end)
end

return M
