--- What Neovim does for the server beyond the protocol that it has built in.

local journal = require("fullgraph.journal")
local options = require("fullgraph.options")

local M = {}

M.NAME = "fullgraph"

--- Commands of ours that the server may put into code lenses and actions.
M.COPY_ISSUE = "fullgraph.copyIssue"
M.SHOW_TARGET = "fullgraph.showTarget"
M.ALLOW = "fullgraph.allow"
M.EXPLAIN_FILE = "fullgraph.explainFile"

---@type lsp.ClientCapabilities
M.capabilities = {
  workspace = {
    codeLens = { refreshSupport = true },
    textDocumentContent = { dynamicRegistration = true },
  },
  experimental = {
    changed = true,
    hoverFindings = true,
    commands = { commands = { M.COPY_ISSUE, M.SHOW_TARGET, M.ALLOW, M.EXPLAIN_FILE } },
  },
}

--- |vim.lsp.ClientConfig| `before_init`: say whether code may be executed before anything is opened,
--- and what it may do. It is said here, as other plugins put settings of a project into `settings`.
---@param params lsp.InitializeParams
---@param config vim.lsp.ClientConfig
function M.before_init(params, config)
  require("fullgraph.presence").register()
  local given = type(params.initializationOptions) == "table" and params.initializationOptions or {}
  local allow = options.get().allow
  params.initializationOptions = vim.tbl_extend("keep", given, {
    trusted = options.trusts(config.root_dir),
    sandbox = #allow > 0 and { allow = allow } or nil,
  })
  local _, problems = options.get()
  for _, problem in ipairs(problems) do
    journal.once(problem, vim.log.levels.WARN)
  end
end

--- The client of a buffer: the one that is attached, else the only one.
---@param bufnr? integer
---@return vim.lsp.Client?
function M.of(bufnr)
  local attached = vim.lsp.get_clients({ name = M.NAME, bufnr = bufnr or 0 })[1]
  if attached then
    return attached
  end
  local all = vim.lsp.get_clients({ name = M.NAME })
  return #all == 1 and all[1] or nil
end

--- The client that has a text open.
---@param uri string
---@return vim.lsp.Client?
function M.with(uri)
  local bufnr = vim.uri_to_bufnr(uri)
  return vim.lsp.get_clients({ name = M.NAME, bufnr = bufnr })[1]
end

--- Have the server do something; what goes wrong is said.
---@param client vim.lsp.Client
---@param command string the end of its name
---@param arguments any[]
---@param done? fun(result: any)
function M.execute(client, command, arguments, done)
  local name = "fullgraph.server." .. command
  client:exec_cmd({ title = name, command = name, arguments = arguments }, nil, function(err, result)
    if err then
      M.complain(err)
    elseif done then
      done(result)
    end
  end)
end

--- An error that a request was answered with. A withdrawn request is none.
---@param err lsp.ResponseError
function M.complain(err)
  local codes = vim.lsp.protocol.ErrorCodes
  if err.code ~= codes.RequestCancelled and err.code ~= codes.ContentModified then
    journal.say(err.message, vim.log.levels.WARN)
  end
end

-- -- commands of ours ---------------------------------------------------------------------------

--- The register that a text is put into: the clipboard where there is one.
---@return string
local function register()
  local wanted = options.get().register
  if wanted ~= "" then
    return wanted
  end
  return vim.fn["provider#clipboard#Executable"]() ~= "" and "+" or '"'
end

---@param client vim.lsp.Client
---@param argument table
function M.copy_issue(client, argument)
  M.execute(client, "reproIssue", { argument }, function(result)
    local text = type(result) == "table" and result.text
    if type(text) ~= "string" then
      return -- The server has said why.
    end
    local name = register()
    vim.fn.setreg(name, text)
    journal.say(
      ('The text of the issue is in register %s: `"%sp` puts it into a text.'):format(name, name)
    )
  end)
end

--- Say what to put into the configuration for something to be allowed.
---@param entry string
function M.allow(entry)
  local allow = vim.list_extend({}, options.get().allow)
  if not vim.list_contains(allow, entry) then
    allow[#allow + 1] = entry
  end
  local list = vim.inspect(allow, { newline = " ", indent = "" })
  require("fullgraph.windows").scratch("allow", {
    ("To allow %s in all workspaces, put this into your configuration:"):format(entry),
    "",
    'vim.g.fullgraph = vim.tbl_extend("force", vim.g.fullgraph or {}, {',
    ("  allow = %s,"):format(list),
    "})",
    "",
    "It is read when the server starts: `:source` it, then `:Fullgraph restart-server`.",
  })
end

---@type table<string, fun(command: lsp.Command, ctx: table)>
M.commands = {
  [M.ALLOW] = function(command)
    local entry = ((command.arguments or {})[1] or {}).entry
    if type(entry) == "string" then
      M.allow(entry)
    end
  end,
  [M.EXPLAIN_FILE] = function(_, ctx)
    require("fullgraph.windows").scratch("file", require("fullgraph.summary").text(ctx.bufnr))
  end,
  [M.COPY_ISSUE] = function(command, ctx)
    local client = vim.lsp.get_client_by_id(ctx.client_id)
    if client then
      M.copy_issue(client, (command.arguments or {})[1] or {})
    end
  end,
  [M.SHOW_TARGET] = function(command, ctx)
    local client = vim.lsp.get_client_by_id(ctx.client_id)
    local argument = (command.arguments or {})[1]
    if client and argument then
      require("fullgraph.trace").open(client, {
        uri = argument.uri,
        target = argument.target,
        probe = argument.probe,
      })
      -- Neovim takes away the lens that was run.
      require("fullgraph.lenses").refresh(client, ctx.bufnr)
    end
  end,
}

-- -- what the server says and asks --------------------------------------------------------------

local LEVELS = {
  vim.log.levels.ERROR,
  vim.log.levels.WARN,
  vim.log.levels.INFO,
  vim.log.levels.INFO,
  vim.log.levels.DEBUG,
}

---@type table<string, lsp.Handler>
M.handlers = {
  ["fullgraph/status"] = function(_, params, ctx)
    require("fullgraph.status").set(ctx.client_id, params)
    require("fullgraph.summary").refresh_all(ctx.client_id)
    require("fullgraph.trace").refresh()
  end,

  ["window/showMessage"] = function(_, params)
    journal.say(params.message, LEVELS[params.type])
  end,

  ["window/logMessage"] = function(err, params, ctx)
    journal.note(params.message)
    return vim.lsp.handlers["window/logMessage"](err, params, ctx)
  end,

  ["window/showDocument"] = function(err, params, ctx)
    if params.external then
      return vim.lsp.handlers["window/showDocument"](err, params, ctx)
    end
    return { success = require("fullgraph.documents").open(params) }
  end,

  ["workspace/textDocumentContent/refresh"] = function(_, params)
    require("fullgraph.documents").refresh(params.uri)
    return vim.NIL
  end,

  ["fullgraph/changed"] = function(_, params, ctx)
    require("fullgraph.trace").refresh(params.uri)
    local client = vim.lsp.get_client_by_id(ctx.client_id)
    if client then
      require("fullgraph.summary").refresh(client, vim.uri_to_bufnr(params.uri))
    end
  end,

  ["workspace/inlayHint/refresh"] = function(err, result, ctx)
    return require("fullgraph.hints").on_refresh(err, result, ctx)
  end,

  ["workspace/codeLens/refresh"] = function(_, _, ctx)
    local client = vim.lsp.get_client_by_id(ctx.client_id)
    for bufnr in pairs(client and client.attached_buffers or {}) do
      require("fullgraph.lenses").refresh(client, bufnr)
    end
    return vim.NIL
  end,
}

return M
