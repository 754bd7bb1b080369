--- What stands ready in the editor before anything of it is used: `:Fullgraph`, the scheme of our
--- documents, and what follows a client into a buffer. Everything behind is loaded when it is used.

local M = {}

local registered = false

local function attached(event)
  local client = vim.lsp.get_client_by_id(event.data.client_id)
  if not client or client.name ~= "fullgraph" then
    return
  end
  local options = require("fullgraph.options").get()
  if options.inlay_hints then
    vim.lsp.inlay_hint.enable(true, { bufnr = event.buf })
  end
  require("fullgraph.lenses").refresh(client, event.buf)
  require("fullgraph.summary").refresh(client, event.buf)
end

--- Idempotent: plugin managers source `plugin/` after, before or never, but all of them find `lsp/`.
function M.register()
  if registered then
    return
  end
  registered = true

  vim.api.nvim_create_user_command("Fullgraph", function(call)
    require("fullgraph.commands").run(call)
  end, {
    nargs = "*",
    desc = "What torch.compile does to this file",
    complete = function(lead, line, position)
      return require("fullgraph.commands").complete(lead, line, position)
    end,
  })

  vim.api.nvim_create_user_command("FullgraphTrace", function(call)
    require("fullgraph.commands").run({ fargs = { "trace", unpack(call.fargs) } })
  end, {
    nargs = "?",
    desc = "The trace of the target at the cursor",
    complete = function(lead)
      local line = "Fullgraph trace " .. lead
      return require("fullgraph.commands").complete(lead, line, #line)
    end,
  })

  vim.api.nvim_create_user_command("FullgraphTimings", function()
    require("fullgraph.commands").run({ fargs = { "timings" } })
  end, { desc = "Show where the last run of the file spent its time" })

  local group = vim.api.nvim_create_augroup("fullgraph", {})
  vim.api.nvim_create_autocmd("LspAttach", { group = group, callback = attached })
  vim.api.nvim_create_autocmd("LspProgress", {
    group = group,
    callback = function(event)
      require("fullgraph.progress").on_progress(event)
    end,
  })
  vim.api.nvim_create_autocmd("BufWritePost", {
    group = group,
    callback = function(event)
      require("fullgraph.server").written(event.buf)
    end,
  })
  vim.api.nvim_create_autocmd("FocusGained", {
    group = group,
    callback = function()
      for _, client in ipairs(vim.lsp.get_clients({ name = "fullgraph" })) do
        client:notify("fullgraph/focused", vim.empty_dict())
      end
    end,
  })
  vim.api.nvim_create_autocmd("BufReadCmd", {
    group = group,
    pattern = "fullgraph://*",
    callback = function(event)
      require("fullgraph.documents").read(event.buf)
    end,
  })
end

return M
