--- What a user sets for this client in `vim.g.fullgraph`. What the server is to do is set in
--- `settings.fullgraph` of `vim.lsp.config("fullgraph", …)` instead.

local M = {}

---@class fullgraph.Options
---@field cmd string[] how the server is started
---@field code_lens boolean show what each target came to
---@field inlay_hints boolean show dtypes and sizes in the text
---@field window "split"|"vsplit"|"tab"|"float" where documents and the trace open
---@field register string where the text of an issue goes; "" is the clipboard if there is one
---@field trusted? boolean|string[]|fun(root: string): boolean whose code may be executed; nil for what `:Fullgraph trust` was said of
---@field allow string[] what traced code may do that the sandbox refuses
---@field max_size integer bytes; larger files are left alone

---@type fullgraph.Options
local defaults = {
  cmd = { "fullgraph", "server" },
  code_lens = true,
  inlay_hints = true,
  window = "vsplit",
  register = "",
  allow = {},
  max_size = 1024 * 1024,
}

local function words(value)
  return type(value) == "table" and #value > 0
end

---@type table<string, { [1]: (fun(value: any): boolean), [2]: string }>
local kinds = {
  cmd = { words, "a list of words" },
  code_lens = {
    function(value)
      return type(value) == "boolean"
    end,
    "true or false",
  },
  inlay_hints = {
    function(value)
      return type(value) == "boolean"
    end,
    "true or false",
  },
  window = {
    function(value)
      return vim.list_contains({ "split", "vsplit", "tab", "float" }, value)
    end,
    '"split", "vsplit", "tab" or "float"',
  },
  register = {
    function(value)
      return type(value) == "string" and #value <= 1
    end,
    "the name of a register",
  },
  trusted = {
    function(value)
      return vim.list_contains({ "boolean", "table", "function" }, type(value))
    end,
    "true, false, a list of folders or a function",
  },
  allow = {
    function(value)
      return vim.islist(value)
        and vim.iter(value):all(function(entry)
          return type(entry) == "string"
        end)
    end,
    "a list of texts",
  },
  max_size = {
    function(value)
      return type(value) == "number"
    end,
    "a number of bytes",
  },
}

--- The options in force, and what was wrong with what was set.
---@return fullgraph.Options options
---@return string[] problems
function M.get()
  local problems = {}
  local options = vim.deepcopy(defaults)
  local set = vim.g.fullgraph
  if set == nil then
    return options, problems
  end
  if type(set) ~= "table" then
    return options, { "vim.g.fullgraph must be a table; it is not used." }
  end
  for name, value in vim.spairs(set) do
    local kind = kinds[name]
    if not kind then
      problems[#problems + 1] = ("vim.g.fullgraph.%s is unknown and is not used."):format(name)
    elseif not kind[1](value) then
      problems[#problems + 1] = ("vim.g.fullgraph.%s must be %s; %s is used."):format(
        name,
        kind[2],
        vim.inspect(defaults[name])
      )
    else
      options[name] = value
    end
  end
  return options, problems
end

--- Whether the code in a folder may be executed; nil if the server is to look into its list.
---@param root string?
---@return boolean?
function M.trusts(root)
  local trusted = M.get().trusted
  if type(trusted) == "boolean" or trusted == nil then
    return trusted
  elseif type(trusted) == "function" then
    return trusted(root or vim.fn.getcwd()) == true
  end
  root = vim.fs.normalize(vim.uv.fs_realpath(root or vim.fn.getcwd()) or root or "")
  for _, folder in ipairs(trusted) do
    folder = vim.fs.normalize(folder)
    folder = vim.fs.normalize(vim.uv.fs_realpath(folder) or folder)
    if root == folder or vim.startswith(root, folder .. "/") then
      return true
    end
  end
  return false
end

return M
