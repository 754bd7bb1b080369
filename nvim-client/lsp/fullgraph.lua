---@brief
---
--- https://github.com/fullgraph/fullgraph
---
--- A language server that runs TorchDynamo on the file being edited, and shows graph breaks,
--- recompiles, guards and shapes where the code is.
---
--- It **executes the file you edit**, in a sandbox. What it needs: `fullgraph` on `PATH`, and a
--- Python with torch: that of the setting `fullgraph.interpreter`, or the first that has torch of
--- the active environment, `.venv` of the project and others. See `:help fullgraph`.

local client = require("fullgraph.client")
local server = require("fullgraph.server")

---@type vim.lsp.Config
return {
  cmd = server.start,
  filetypes = { "python" },
  root_markers = { "pyproject.toml", ".venv", ".git" },
  root_dir = server.root_dir,
  settings = { fullgraph = {} },
  capabilities = client.capabilities,
  commands = client.commands,
  handlers = client.handlers,
  before_init = client.before_init,
}
