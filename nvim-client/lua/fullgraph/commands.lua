--- `:Fullgraph`

local client = require("fullgraph.client")
local journal = require("fullgraph.journal")

local M = {}

local DOCUMENTS = {
  graph = "showGraph",
  guards = "showGuards",
  events = "showEvents",
  bytecode = "showBytecode",
}

---@class fullgraph.Place
---@field bufnr integer
---@field uri string
---@field line integer from zero

---@return fullgraph.Place
local function here()
  local bufnr = vim.api.nvim_get_current_buf()
  return {
    bufnr = bufnr,
    uri = vim.uri_from_bufnr(bufnr),
    line = vim.api.nvim_win_get_cursor(0)[1] - 1,
  }
end

--- Call with the target that is named, else with the one at the cursor, else with a chosen one.
---@param on vim.lsp.Client
---@param name string?
---@param done fun(target: string, place: fullgraph.Place)
local function with_target(on, name, done)
  local place = here()
  if name then
    return done(name, place)
  end
  require("fullgraph.lenses").target_at(on, place.bufnr, place.line, function(target, all)
    if target then
      done(target, place)
    elseif #all == 0 then
      journal.say((require("fullgraph.status").explanation(on.id):gsub("\n", " ")))
    else
      local names = vim.tbl_map(function(one)
        return one.target
      end, all)
      vim.ui.select(names, { prompt = "Target:" }, function(chosen)
        if chosen then
          done(chosen, place)
        end
      end)
    end
  end)
end

--- What executes a command of the server about the target that is named or at the cursor.
---@param command string
local function at_target(command)
  ---@param on vim.lsp.Client
  ---@param words string[]
  return function(on, words)
    with_target(on, words[1], function(target, place)
      client.execute(on, command, { { uri = place.uri, target = target } })
    end)
  end
end

---@class fullgraph.Command
---@field about string
---@field run fun(on: vim.lsp.Client, words: string[])
---@field alone? boolean works where no client is
---@field of_text? boolean is about the text of the current buffer
---@field words? fun(lead: string, before: string[]): string[]

local function targets()
  return vim.tbl_map(function(one)
    return one.target
  end, require("fullgraph.lenses").targets(vim.lsp.codelens.get(0)))
end

---@type table<string, fullgraph.Command>
M.commands = {
  analyze = {
    about = "trace the file again, or one function or class of it",
    of_text = true,
    run = function(on, words)
      client.execute(on, "analyze", { here().uri, words[1] }, function(result)
        if not result.completed then
          journal.say(result.reason)
        elseif #result.reports == 0 then
          journal.say("Nothing to trace in this file; `:Fullgraph file` shows why.")
        end
      end)
    end,
    words = targets,
  },
  file = {
    about = "show what was traced in the file, what was not, and why",
    of_text = true,
    run = function()
      local lines = require("fullgraph.summary").text(vim.api.nvim_get_current_buf())
      require("fullgraph.windows").scratch("file", lines)
    end,
  },
  cancel = {
    about = "end the run of this file, its repros and measurements",
    of_text = true,
    run = function(on)
      client.execute(on, "cancel", { here().uri })
    end,
  },
  trace = {
    about = "open the trace of the target at the cursor",
    of_text = true,
    run = function(on, words)
      local place = here()
      require("fullgraph.trace").open(
        on,
        { uri = place.uri, target = words[1], line = not words[1] and place.line or nil }
      )
    end,
    words = targets,
  },
  show = {
    about = "open a document about the target at the cursor: graph, guards, events or bytecode",
    of_text = true,
    run = function(on, words)
      local command = DOCUMENTS[words[1] or "graph"]
      if not command then
        journal.say("`:Fullgraph show` takes graph, guards, events or bytecode.")
        return
      end
      with_target(on, words[2], function(target, place)
        client.execute(on, command, { { uri = place.uri, target = target } })
      end)
    end,
    words = function(_, before)
      return #before == 0 and vim.tbl_keys(DOCUMENTS) or targets()
    end,
  },
  timings = {
    about = "open where the time of the last run of the file went",
    of_text = true,
    run = function(on)
      client.execute(on, "showTimings", { here().uri })
    end,
  },
  measure = {
    about = "make the target at the cursor faster: measure it eager, compiled, and compiled with the fixes",
    of_text = true,
    run = at_target("measure"),
    words = targets,
  },
  guards = {
    about = "show all guards of the target at the cursor as diagnostics, or no longer",
    of_text = true,
    run = at_target("toggleGuards"),
    words = targets,
  },
  untraced = {
    about = "toggle fading of the untraced lines of the target at the cursor",
    of_text = true,
    run = at_target("toggleUntraced"),
    words = targets,
  },
  repro = {
    about = "make a small script that shows the finding on this line",
    of_text = true,
    run = function(on)
      local place = here()
      client.execute(on, "repro", { { uri = place.uri, line = place.line } })
    end,
  },
  issue = {
    about = "copy such a script as the text of an issue to a register",
    run = function(on)
      local place = here()
      local known = vim.diagnostic.get(place.bufnr, { lnum = place.line })
      -- In a script that was made of a finding: about the script itself.
      local line = #known > 0 and place.line or nil
      client.copy_issue(on, { uri = place.uri, line = line })
    end,
  },
  restart = {
    about = "start the engine afresh and trace again",
    run = function(on)
      journal.forget()
      client.execute(on, "restartEngine", {})
    end,
  },
  ["restart-server"] = {
    about = "start the language server afresh",
    alone = true,
    run = function()
      require("fullgraph.server").restart()
    end,
  },
  interpreter = {
    about = "say which Python traces the code, or take another until Neovim ends",
    run = function(on, words)
      if not words[1] then
        local status = require("fullgraph.status").get(0)
        local python = status and status.interpreter or ""
        local why = status and status.why or ""
        local used = why ~= "" and ("%s (%s)"):format(python, why) or python
        journal.say(python ~= "" and used or "No interpreter is in use yet.")
        return
      end
      local path = vim.fn.expand(words[1])
      on.settings = vim.tbl_deep_extend("force", on.settings, { fullgraph = { interpreter = path } })
      on:notify("workspace/didChangeConfiguration", { settings = on.settings })
    end,
    words = function(lead)
      return vim.fn.getcompletion(lead, "file")
    end,
  },
  trust = {
    about = "execute the code of this workspace, now and later",
    run = function(on)
      on:notify("fullgraph/trust", { trusted = true })
      journal.say("Trusted. The first trace imports torch.")
    end,
  },
  distrust = {
    about = "execute no code of this workspace any more",
    run = function(on)
      on:notify("fullgraph/trust", { trusted = false })
    end,
  },
  status = {
    about = "what one would want to know when something is wrong",
    run = function(on)
      client.execute(on, "debugInformation", {}, function(result)
        require("fullgraph.windows").scratch("status", vim.split(result.text, "\n"))
      end)
    end,
  },
  log = {
    about = "what was said, and what the server and the traced code wrote",
    alone = true,
    run = function()
      local lines = journal.lines()
      if #lines == 0 then
        lines = { "Nothing was said yet." }
      end
      lines[#lines + 1] = ""
      lines[#lines + 1] = "Errors of language servers are in " .. vim.lsp.get_log_path()
      local window = require("fullgraph.windows").scratch("log", lines)
      vim.api.nvim_win_set_cursor(window, { math.max(1, #lines - 2), 0 })
    end,
  },
}

local function overview()
  local lines = {}
  for name, command in vim.spairs(M.commands) do
    lines[#lines + 1] = (":Fullgraph %-16s %s"):format(name, command.about)
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = ":help fullgraph"
  require("fullgraph.windows").scratch("commands", lines)
end

--- Why there is no client for the current buffer, with what to do about it.
local function absence()
  local server = require("fullgraph.server")
  if vim.bo.filetype ~= "python" then
    return "This is not a Python file."
  end
  local why = server.refusal(vim.api.nvim_get_current_buf()) or server.missing()
  if why then
    return why
  elseif not vim.lsp.is_enabled("fullgraph") then
    return 'The client is not enabled: put `vim.lsp.enable("fullgraph")` into your configuration.'
  end
  return "The server does not run for this file; `:Fullgraph restart-server` starts it."
end

--- Do something as soon as the server, which is being started, has a buffer; says whether it is.
---@param bufnr integer
---@param run fun()
---@return boolean
local function when_started(bufnr, run)
  local starting = vim.iter(vim.lsp.get_clients({ name = client.NAME, _uninitialized = true }))
  if not starting:any(function(one)
    return not one.initialized
  end) then
    return false
  end
  vim.api.nvim_create_autocmd("LspAttach", {
    buffer = bufnr,
    callback = function(event)
      local on = vim.lsp.get_client_by_id(event.data.client_id)
      if not on or on.name ~= client.NAME then
        return
      end
      if vim.api.nvim_get_current_buf() == bufnr then
        run()
      end
      return true
    end,
  })
  return true
end

---@param call { fargs: string[] }
function M.run(call)
  local words = vim.list_slice(call.fargs)
  local name = table.remove(words, 1)
  if not name then
    return overview()
  end
  local command = M.commands[name]
  if not command then
    journal.say(("There is no `:Fullgraph %s`; `:Fullgraph` lists what there is."):format(name))
    return
  end
  if command.alone then
    return command.run(nil, words)
  end
  local on = client.of(0)
  local bufnr = vim.api.nvim_get_current_buf()
  if not on or (command.of_text and not on.attached_buffers[bufnr]) then
    if when_started(bufnr, function()
      command.run(client.of(0), words)
    end) then
      return
    end
    journal.say(absence(), vim.log.levels.WARN)
    return
  end
  command.run(on, words)
end

---@param lead string
---@param line string
---@param position integer
---@return string[]
function M.complete(lead, line, position)
  local words = vim.split(line:sub(1, position), "%s+", { trimempty = true })
  table.remove(words, 1)
  if lead ~= "" then
    table.remove(words)
  end
  local name = table.remove(words, 1)
  local candidates
  if not name then
    candidates = vim.tbl_keys(M.commands)
  else
    local command = M.commands[name]
    candidates = command and command.words and command.words(lead, words) or {}
  end
  table.sort(candidates)
  return vim.tbl_filter(function(word)
    return vim.startswith(word, lead)
  end, candidates)
end

return M
