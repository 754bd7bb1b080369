--- A trace as lines of text: the frame cut into graphs and breaks in the order of the run, a bar
--- for how much of the work each graph holds, and below them what the graphs rest on.

local M = {}

---@class fullgraph.Mark
---@field line integer from zero
---@field from integer byte
---@field to integer byte
---@field group string

---@class fullgraph.Spot what a line of the page is about
---@field range? lsp.Range
---@field step? table the break
---@field section? boolean where `[[` and `]]` stop
---@field run? integer another run of the target, from zero

---@class fullgraph.Page
---@field lines string[]
---@field marks fullgraph.Mark[]
---@field spots table<integer, fullgraph.Spot> by line, from one
---@field folds { [1]: integer, [2]: integer }[] first and last line, from one
---@field runs? integer how many the target has
---@field probe? integer the number of the probe that is shown, from zero

M.GROUPS = {
  FullgraphTitle = "Title",
  FullgraphQuiet = "Comment",
  FullgraphGraph = "Function",
  FullgraphBar = "DiagnosticOk",
  FullgraphBreak = "DiagnosticWarn",
  FullgraphSkip = "DiagnosticError",
  FullgraphFix = "DiagnosticHint",
  FullgraphShape = "LspInlayHint",
  FullgraphLine = "LineNr",
  FullgraphText = "Normal",
}

local BAR = 16

local STATUSES = {
  tracing = "is being traced for the first time",
  ["no-probe"] = "not traced: fullgraph doesn't know this function's inputs",
  timeout = "stopped at the time limit",
  skipped = "not traced: the time limit of the file is reached",
}

---@param value any
local function given(value)
  return value ~= nil and value ~= vim.NIL and value ~= "" and value
end

---@param number integer|userdata `vim.NIL` where the torch in use does not show what is counted
---@param noun string
local function amount(number, noun)
  if type(number) ~= "number" then
    return noun .. "s unknown"
  end
  return ("%d %s%s"):format(number, noun, number == 1 and "" or "s")
end

---@param value number
local function seconds(value)
  if value < 1 then
    return ("%.0f ms"):format(value * 1000)
  end
  return ("%.2f s"):format(value)
end

---@class fullgraph.Writer
local Writer = {}
Writer.__index = Writer

local function writer()
  return setmetatable({ lines = {}, marks = {}, spots = {}, folds = {} }, Writer)
end

--- One line, of texts and texts with their highlight.
---@param parts (string|{ [1]: string, [2]: string })[]
---@param spot? fullgraph.Spot
function Writer:add(parts, spot)
  local text = ""
  for _, part in ipairs(parts) do
    local words = (type(part) == "table" and part[1] or part --[[@as string]]):gsub("%s*\n%s*", " ")
    if type(part) == "table" then
      self.marks[#self.marks + 1] =
        { line = #self.lines, from = #text, to = #text + #words, group = part[2] }
    end
    text = text .. words
  end
  self.lines[#self.lines + 1] = text
  self.spots[#self.lines] = spot
end

--- Words over several lines, in a column.
function Writer:wrapped(indent, text, group, width, spot)
  local room = math.max(width - vim.fn.strdisplaywidth(indent), 24)
  local line = ""
  for word in text:gmatch("%S+") do
    local longer = line == "" and word or line .. " " .. word
    if line ~= "" and vim.fn.strdisplaywidth(longer) > room then
      self:add({ indent, { line, group } }, spot)
      line = word
    else
      line = longer
    end
  end
  if line ~= "" then
    self:add({ indent, { line, group } }, spot)
  end
end

---@param line integer
---@return lsp.Range
local function of_line(line)
  return { start = { line = line, character = 0 }, ["end"] = { line = line, character = 0 } }
end

local function bar(part, whole)
  local filled = whole > 0 and math.max(part > 0 and 1 or 0, math.floor(BAR * part / whole + 0.5)) or 0
  return { { ("━"):rep(filled), "FullgraphBar" }, { ("╌"):rep(BAR - filled), "FullgraphQuiet" } }
end

--- The whole course in one line: a stretch for each graph, as long as it has operators.
---@param page fullgraph.Writer
---@param steps table[]
---@param width integer
local function ribbon(page, steps, width)
  local total, graphs, cuts = 0, 0, 0
  for _, step in ipairs(steps) do
    total = total + (step.kind == "graph" and step.ops or 0)
    graphs = graphs + (step.kind == "graph" and 1 or 0)
    cuts = cuts + (step.kind ~= "graph" and 3 or 0)
  end
  local room = math.min(width, 64) - cuts - graphs
  if graphs == 0 or room < graphs then
    return
  end
  local parts = {}
  for _, step in ipairs(steps) do
    if step.kind == "graph" then
      local share = total > 0 and step.ops / total or 1 / graphs
      parts[#parts + 1] = { ("━"):rep(1 + math.floor(room * share + 0.5)), "FullgraphBar" }
    else
      local group = step.kind == "skip" and "FullgraphSkip" or "FullgraphBreak"
      parts[#parts + 1] = { step.kind == "skip" and " ╳ " or " ╋ ", group }
    end
  end
  page:add(parts)
  page:add({})
end

local function graph(page, step, most, digits)
  local title = ("graph %d"):format(step.number)
  local facts = " " .. amount(step.ops, "op")
  if (step.seconds or 0) > 0 then
    facts = facts .. " · " .. seconds(step.seconds)
  end
  local first = step.lines[1]
  local parts = { { "┌ " .. title, "FullgraphGraph" }, "  " }
  vim.list_extend(parts, bar(step.ops, most))
  vim.list_extend(parts, { facts, { "  " .. step["function"], "FullgraphQuiet" } })
  page:add(parts, { range = first and of_line(first.line) or nil, section = true })
  for _, line in ipairs(step.lines) do
    local spot = { range = of_line(line.line) }
    local shapes = #line.shapes > 0 and "  " .. table.concat(line.shapes, ", ") or ""
    page:add({
      { "│ ", "FullgraphGraph" },
      { (" "):rep(digits - #tostring(line.line + 1)) .. (line.line + 1) .. "  ", "FullgraphLine" },
      vim.trim(line.text),
      { shapes, "FullgraphShape" },
      { line.ops > 0 and "  " .. amount(line.ops, "op") or "", "FullgraphQuiet" },
    }, spot)
  end
  if (step.elsewhere or 0) > 0 then
    page:add({
      { "│ ", "FullgraphGraph" },
      { (" "):rep(digits + 2) .. amount(step.elsewhere, "op") .. " from other files", "FullgraphQuiet" },
    })
  end
  page:add({ { "└", "FullgraphGraph" } })
end

local function ending(page, step, width)
  local skipped = step.kind == "skip"
  local group = skipped and "FullgraphSkip" or "FullgraphBreak"
  local spot = { range = given(step.range) or nil, step = step }
  local where = spot.range and ("line %d"):format(spot.range.start.line + 1) or step["function"]
  page:add({
    { skipped and "╳ runs in Python" or "╋ break", group },
    { "  " .. where .. "  ", "FullgraphLine" },
    { step.title, group },
    { step.title ~= step.code and "  " .. step.code or "", "FullgraphQuiet" },
  }, vim.tbl_extend("force", spot, { section = true }))
  if given(step.text) then
    page:add({ "    ", vim.trim(step.text) }, spot)
  end
  if given(step.outcome) then
    page:wrapped("    ", "→ " .. step.outcome, "FullgraphQuiet", width, spot)
  end
  local first = #page.lines + 1
  if given(step.explanation) then
    page:wrapped("    ", step.explanation, "FullgraphText", width, spot)
  end
  for _, hint in ipairs(step.hints or {}) do
    page:wrapped("    ", "· " .. hint, "FullgraphQuiet", width, spot)
  end
  if #page.lines > first then
    page.folds[#page.folds + 1] = { first, #page.lines }
  end
  for _, fix in ipairs(step.fixes or {}) do
    page:add({ "    ", { "f: " .. fix.title, "FullgraphFix" } }, spot)
  end
  if step.reproducible then
    page:add({ "    ", { "r: make a minimal script that reproduces this", "FullgraphFix" } }, spot)
  end
  page:add({})
end

--- A target with several probes: its runs, the one that is shown marked.
---@param page fullgraph.Writer
---@param trace table
local function runs(page, trace)
  if #trace.runs < 2 then
    return
  end
  for index, run in ipairs(trace.runs) do
    local shown = index == trace.run + 1
    local came = run.status == "traced"
        and amount(run.graphs, "graph") .. " · " .. amount(run.breaks, "break")
      or STATUSES[run.status]
      or run.status
    page:add({
      { shown and "▸ " or "  ", "FullgraphGraph" },
      { given(run.probe) or ("run %d"):format(index), shown and "FullgraphText" or "FullgraphQuiet" },
      { "  " .. came, "FullgraphQuiet" },
    }, { run = index - 1 })
  end
  page.runs = #trace.runs
  page.probe = trace.number
  page:add({})
end

---@param trace table what `fullgraph/trace` answers
---@param width integer
---@return fullgraph.Page
function M.of(trace, width)
  local page = writer()
  local state = trace.busy and "  tracing…" or not trace.current and "  before the last edit" or ""
  if trace.target == "" then
    -- Which targets there are is not known yet.
    page:add({ { trace.file, "FullgraphTitle" }, { state, "FullgraphBreak" } })
  else
    page:add({
      { trace.target, "FullgraphTitle" },
      { ("  %s:%d"):format(trace.file, trace.range.start.line + 1), "FullgraphQuiet" },
      { state, "FullgraphBreak" },
    }, { range = trace.range, section = true })
  end
  runs(page, trace)
  if trace.status == "traced" then
    local facts = {
      amount(trace.graphs, "graph"),
      amount(trace.breaks, "break"),
      amount(trace.ops, "op"),
      amount(trace.guards, "guard"),
    }
    if trace.recompiles ~= 0 then
      facts[#facts + 1] = amount(trace.recompiles, "recompile")
    end
    facts[#facts + 1] = seconds(trace.seconds)
    page:add({ table.concat(facts, " · ") })
  else
    page:add({ { STATUSES[trace.status] or trace.status, "FullgraphSkip" } })
  end
  local probe = given(trace.probe)
  if probe then
    page:wrapped("", ("%s · %s tensors"):format(probe, trace.mode), "FullgraphQuiet", width)
  end
  if given(trace.error) then
    page:wrapped("", trace.error, "FullgraphSkip", width)
  end
  page:add({})

  ribbon(page, trace.steps, width)
  local most, last = 0, 0
  for _, step in ipairs(trace.steps) do
    if step.kind == "graph" then
      most = math.max(most, step.ops)
      for _, line in ipairs(step.lines) do
        last = math.max(last, line.line + 1)
      end
    end
  end
  for _, step in ipairs(trace.steps) do
    if step.kind == "graph" then
      graph(page, step, most, #tostring(last))
    else
      ending(page, step, width)
    end
  end

  if #trace.remarks > 0 then
    page:add({})
    page:add({ { "also", "FullgraphTitle" } }, { section = true })
    for _, remark in ipairs(trace.remarks) do
      local spot = { range = remark.range }
      page:add({
        { ("  line %d  "):format(remark.range.start.line + 1), "FullgraphLine" },
        { remark.code, "FullgraphQuiet" },
      }, spot)
      page:wrapped("    ", remark.message, "FullgraphText", width, spot)
    end
  end

  if #trace.guardGroups > 0 then
    page:add({})
    page:add({ { "guards", "FullgraphTitle" } }, { section = true })
    for _, group in ipairs(trace.guardGroups) do
      page:add({ ("  %s"):format(group.name), { ("  %d"):format(group.count), "FullgraphQuiet" } })
      local first = #page.lines
      for _, guard in ipairs(group.guards) do
        local line = given(guard.line)
        -- Most conditions begin with what they are about.
        page:add(
          { "    ", table.concat(guard.conditions, ", ") },
          line and { range = of_line(line) } or nil
        )
      end
      if #page.lines > first then
        page.folds[#page.folds + 1] = { first, #page.lines }
      end
    end
  end
  return page
end

--- A page without a trace.
---@param text string
---@param width integer
---@return fullgraph.Page
function M.saying(text, width)
  local page = writer()
  for line in vim.gsplit(text, "\n") do
    page:wrapped("", line, "FullgraphText", width)
  end
  return page
end

return M
