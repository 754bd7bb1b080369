--- Progress of what the user requested, in the command line: Neovim 0.11 does not show progress.
--- Traces of edits are left to the statusline.

local M = {}

---@type table<string, string> titles of the running jobs, by client and progress token
local titles = {}

--- Whether another plugin or the configuration shows progress.
local function shown_elsewhere()
  return vim.iter(vim.api.nvim_get_autocmds({ event = "LspProgress" })):any(function(one)
    return one.group_name ~= "fullgraph"
  end)
end

--- A text that fits into the command line, where a longer one waits for Enter.
---@param text string
---@return string
local function fitted(text)
  text = text:gsub("%s+", " ")
  local room = vim.v.echospace - 1
  while vim.fn.strdisplaywidth(text) > room do
    text = vim.fn.strcharpart(text, 0, vim.fn.strchars(text) - 1)
  end
  return text .. "…"
end

---@param text string
local function show(text)
  local typing = vim.startswith(vim.api.nvim_get_mode().mode, "c")
  if not typing and not shown_elsewhere() then
    vim.api.nvim_echo({ { text } }, false, {})
  end
end

---@param event { data: { client_id: integer, params: lsp.ProgressParams } } of |LspProgress|
function M.on_progress(event)
  local client = vim.lsp.get_client_by_id(event.data.client_id)
  if not client or client.name ~= "fullgraph" then
    return
  end
  local token, value = event.data.params.token, event.data.params.value
  local key = ("%d %s"):format(client.id, token)
  if value.kind == "begin" and value.cancellable then
    titles[key] = value.title
  end
  local title = titles[key]
  if not title then
    return
  elseif value.kind == "end" then
    titles[key] = nil
    show("")
    return
  end
  local detail = (value.message or "") ~= "" and (": %s"):format(value.message) or ""
  show(fitted(("fullgraph: %s%s"):format(title, detail)))
end

return M
