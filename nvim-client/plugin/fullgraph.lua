if vim.g.loaded_fullgraph then
  return
end
vim.g.loaded_fullgraph = true

if vim.fn.has("nvim-0.11") == 0 then
  vim.notify("fullgraph needs Neovim 0.11 or newer.", vim.log.levels.WARN)
  return
end

require("fullgraph.presence").register()
