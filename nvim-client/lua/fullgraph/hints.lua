--- Inlay hints. Neovim 0.11 forgets which lines it has drawn when it asks for hints, not when they
--- come: what is drawn in between stays without them until the next edit. So it is asked to draw
--- once more when they are there.

local M = {}

---@param client vim.lsp.Client
---@param bufnr integer
local function refresh(client, bufnr)
  local last = math.max(vim.api.nvim_buf_line_count(bufnr), 1)
  local params = {
    textDocument = vim.lsp.util.make_text_document_params(bufnr),
    range = { start = { line = 0, character = 0 }, ["end"] = { line = last, character = 0 } },
  }
  client:request("textDocument/inlayHint", params, function(err, hints, ctx)
    vim.lsp.handlers["textDocument/inlayHint"](err, hints, ctx)
    vim.lsp.handlers["workspace/inlayHint/refresh"](nil, nil, ctx)
  end, bufnr)
end

---@type lsp.Handler
function M.on_refresh(_, _, ctx)
  local client = vim.lsp.get_client_by_id(ctx.client_id)
  for bufnr in pairs(client and client.attached_buffers or {}) do
    if vim.api.nvim_buf_is_loaded(bufnr) and vim.lsp.inlay_hint.is_enabled({ bufnr = bufnr }) then
      refresh(client, bufnr)
    end
  end
  return vim.NIL
end

return M
