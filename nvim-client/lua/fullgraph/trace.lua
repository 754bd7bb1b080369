--- The trace of the target at the cursor, in a window that follows it and is written again when
--- there is something new.

local client = require("fullgraph.client")
local windows = require("fullgraph.windows")

local M = {}

local NAME = "fullgraph-trace"
local PAUSE = 120 -- milliseconds that the cursor rests, or news are gathered

local marks = vim.api.nvim_create_namespace("fullgraph.trace")

---@class fullgraph.View
---@field bufnr integer
---@field about { uri: string, target?: string, line?: integer } what is asked for
---@field target? string what is shown
---@field moved? boolean what it is about was chosen since the last answer
---@field runs table<string, integer> which run of a target is shown, from zero; the first if none
---@field page? fullgraph.Page
---@field asked integer answers to earlier questions are dropped

---@type fullgraph.View?
local view
local timer = assert(vim.uv.new_timer())

---@return fullgraph.View?
local function current()
  if view and vim.api.nvim_buf_is_valid(view.bufnr) then
    return view
  end
end

---@param it fullgraph.View
---@param page fullgraph.Page
local function draw(it, page)
  local saved = {}
  for _, window in ipairs(vim.fn.win_findbuf(it.bufnr)) do
    saved[window] = vim.api.nvim_win_call(window, vim.fn.winsaveview)
  end
  it.page = page
  vim.bo[it.bufnr].modifiable = true
  vim.api.nvim_buf_set_lines(it.bufnr, 0, -1, false, page.lines)
  vim.bo[it.bufnr].modifiable = false
  vim.bo[it.bufnr].modified = false
  vim.api.nvim_buf_clear_namespace(it.bufnr, marks, 0, -1)
  for _, mark in ipairs(page.marks) do
    vim.api.nvim_buf_set_extmark(it.bufnr, marks, mark.line, mark.from, {
      end_col = mark.to,
      hl_group = mark.group,
    })
  end
  for window, place in pairs(saved) do
    vim.api.nvim_win_call(window, function()
      vim.cmd("silent! normal! zE")
      for _, fold in ipairs(page.folds) do
        vim.cmd(("silent! %d,%dfold"):format(fold[1], fold[2]))
      end
      vim.fn.winrestview(place)
    end)
  end
end

---@param it fullgraph.View
---@return integer
local function width(it)
  local window = vim.fn.win_findbuf(it.bufnr)[1]
  return (window and vim.api.nvim_win_get_width(window) or 80) - 2
end

---@param it fullgraph.View
---@param text string
local function say(it, text)
  it.target = nil
  draw(it, require("fullgraph.trace.page").saying(text, width(it)))
end

---@param it fullgraph.View
---@param trace table
local function show(it, trace)
  it.target = trace.target
  draw(it, require("fullgraph.trace.page").of(trace, width(it)))
end

---@param it fullgraph.View
---@param missing? fun() the server knows no traces
local function ask(it, missing)
  local about = it.about
  local on = client.with(about.uri)
  if not on then
    return
  end
  it.asked = it.asked + 1
  local number = it.asked
  -- The server knows which run a place or a probe means; after that it is the one that was chosen.
  local run = not it.moved and it.runs[about.target or it.target] or nil
  local params = vim.tbl_extend("force", about, { run = run })
  on:request("fullgraph/trace", params, function(err, trace)
    if current() ~= it or it.asked ~= number then
      return
    elseif err then
      if err.code == vim.lsp.protocol.ErrorCodes.MethodNotFound and missing then
        missing()
      end
    elseif type(trace) ~= "table" then
      say(it, require("fullgraph.status").explanation(on.id))
    else
      show(it, trace)
      it.moved = false
      if trace.atProbe then
        it.runs[trace.target] = trace.run
      elseif trace.run ~= math.min(it.runs[trace.target] or 0, math.max(#trace.runs - 1, 0)) then
        -- It is another target than the one whose run was asked for.
        ask(it)
      end
    end
  end, vim.uri_to_bufnr(about.uri))
end

---@return fullgraph.Spot
local function spot()
  local it = current()
  local line = vim.api.nvim_win_get_cursor(0)[1]
  return it and it.page and it.page.spots[line] or {}
end

--- Show another run of the target: that of a line of the page, else the next.
---@param number? integer from zero
local function choose_run(number)
  local it = current()
  if it and it.page and it.target and it.page.runs then
    it.runs[it.target] = number or ((it.runs[it.target] or 0) + 1) % it.page.runs
    ask(it)
  end
end

--- Go to what a line of the page is about.
local function jump()
  local it, range, run = current(), spot().range, spot().run
  if run then
    choose_run(run)
  end
  if not it or not range then
    return
  end
  local bufnr = vim.uri_to_bufnr(it.about.uri)
  if vim.api.nvim_win_get_config(0).relative ~= "" then
    vim.cmd.close()
  end
  local window = windows.showing(bufnr)
  if window then
    vim.api.nvim_set_current_win(window)
  else
    vim.cmd("aboveleft split")
    vim.api.nvim_win_set_buf(0, bufnr)
  end
  local on = client.with(it.about.uri)
  vim.lsp.util.show_document(
    { uri = it.about.uri, range = range },
    on and on.offset_encoding or "utf-16",
    { focus = true, reuse_win = true }
  )
  vim.cmd("normal! zv")
end

---@param forward boolean
local function section(forward)
  local it = current()
  if not it or not it.page then
    return
  end
  local line = vim.api.nvim_win_get_cursor(0)[1]
  local step = forward and 1 or -1
  for row = line + step, forward and #it.page.lines or 1, step do
    if it.page.spots[row] and it.page.spots[row].section then
      vim.api.nvim_win_set_cursor(0, { row, 0 })
      return
    end
  end
end

local function fix()
  local it, step = current(), spot().step
  local fixes = step and step.fixes or {}
  if not it or #fixes == 0 then
    return
  end
  vim.ui.select(fixes, {
    prompt = "Fix:",
    format_item = function(one)
      return one.title
    end,
  }, function(chosen)
    local on = client.with(it.about.uri)
    if chosen and on then
      local edit = { changes = { [it.about.uri] = chosen.edits } }
      vim.lsp.util.apply_workspace_edit(edit, on.offset_encoding)
    end
  end)
end

local function repro()
  local it, step = current(), spot().step
  local on = it and client.with(it.about.uri)
  if on and step and step.reproducible then
    client.execute(on, "repro", { { uri = it.about.uri, id = step.id } })
  end
end

--- Open the graph code of the run that is shown.
local function code()
  local it = current()
  local on = it and client.with(it.about.uri)
  if on and it.page and it.target then
    local several = (it.page.runs or 1) > 1
    local place = { uri = it.about.uri, target = it.target, probe = several and it.page.probe or nil }
    client.execute(on, "showGraph", { place })
  end
end

---@param bufnr integer
local function keys(bufnr)
  windows.reading_keys(bufnr)
  local function map(key, what, about)
    vim.keymap.set("n", key, what, { buffer = bufnr, nowait = true, desc = about })
  end
  map("<CR>", jump, "Go to the line")
  map("p", choose_run, "Show the run of the next probe")
  map("c", code, "Show the code of the graphs")
  map("f", fix, "Apply a fix of this break")
  map("r", repro, "Make a small script that shows this break")
  map("]]", function()
    section(true)
  end, "Next graph or break")
  map("[[", function()
    section(false)
  end, "Graph or break before")
end

---@return integer
local function buffer()
  local bufnr = vim.fn.bufadd(NAME)
  vim.fn.bufload(bufnr)
  vim.bo[bufnr].buftype = "nofile"
  vim.bo[bufnr].swapfile = false
  vim.bo[bufnr].undolevels = -1
  vim.bo[bufnr].modifiable = false
  vim.bo[bufnr].filetype = "fullgraph-trace"
  keys(bufnr)
  return bufnr
end

--- The cursor moved in a text: the page follows, once it rests.
local function follow(event)
  local it = current()
  local window = it and windows.showing(it.bufnr)
  if not it or not window or event.buf == it.bufnr then
    return
  end
  timer:stop()
  timer:start(
    PAUSE,
    0,
    vim.schedule_wrap(function()
      local bufnr = vim.api.nvim_get_current_buf()
      local uri = vim.uri_from_bufnr(bufnr)
      if bufnr == event.buf and client.with(uri) then
        it.about = { uri = uri, line = vim.api.nvim_win_get_cursor(0)[1] - 1 }
        it.moved = true
        ask(it)
      end
    end)
  )
end

--- Open the trace of a target that is named, or that is at or above a line.
---@param on vim.lsp.Client
---@param about { uri: string, target?: string, line?: integer }
function M.open(on, about)
  for group, link in pairs(require("fullgraph.trace.page").GROUPS) do
    vim.api.nvim_set_hl(0, group, { link = link, default = true })
  end
  local it = current()
  if not it then
    it = { bufnr = buffer(), about = about, asked = 0, runs = {} }
    view = it
  end
  it.about = about
  it.moved = true
  local window = windows.show(it.bufnr, false)
  vim.wo[window].wrap = false
  vim.wo[window].number = false
  vim.wo[window].relativenumber = false
  vim.wo[window].signcolumn = "no"
  vim.wo[window].foldmethod = "manual"
  vim.wo[window].foldtext = ""
  vim.wo[window].fillchars = "fold: "
  vim.wo[window].cursorline = true
  if vim.api.nvim_win_get_config(window).relative ~= "" then
    vim.api.nvim_set_current_win(window)
  end
  vim.api.nvim_create_autocmd({ "CursorMoved", "BufEnter" }, {
    group = vim.api.nvim_create_augroup("fullgraph.trace", {}),
    callback = follow,
  })
  if not it.page then
    say(it, "Asking the server…")
  end
  ask(it, function()
    vim.api.nvim_buf_delete(it.bufnr, { force = true })
    client.execute(on, "showGraph", { { uri = about.uri, target = about.target } })
  end)
end

local waiting = false

--- There may be something new about the text that is shown.
---@param uri? string
function M.refresh(uri)
  local it = current()
  if not it or waiting or (uri and uri ~= it.about.uri) then
    return
  end
  if #vim.fn.win_findbuf(it.bufnr) == 0 then
    return
  end
  waiting = true
  vim.defer_fn(function()
    waiting = false
    if current() == it then
      ask(it)
    end
  end, PAUSE)
end

return M
