---@brief
---
--- https://github.com/fullgraph/fullgraph
---
--- A language server for PyTorch. It runs TorchDynamo on the file being edited, and shows graph breaks, recompiles, guards and shapes at their lines.
---
--- ```sh
--- pipx install fullgraph
--- ```
---
--- The server needs a Python with torch: the one of the setting `fullgraph.interpreter`, or the first one with torch among `$VIRTUAL_ENV`, `.venv` in the project and others.
---
--- It executes the file you edit, in a sandbox, and only in folders that you trust:
---
--- ```sh
--- fullgraph trust path/to/project
--- ```
---
--- Settings are listed in the [documentation](https://github.com/fullgraph/fullgraph/blob/main/docs/editors.md):
---
--- ```lua
--- vim.lsp.config('fullgraph', {
---   settings = {
---     fullgraph = {
---       interpreter = '/path/to/python',
---     },
---   },
--- })
--- ```

---@type vim.lsp.Config
return {
  cmd = { 'fullgraph', 'server' },
  filetypes = { 'python' },
  root_markers = { 'pyproject.toml', '.venv', '.git' },
  settings = { fullgraph = {} },
}
