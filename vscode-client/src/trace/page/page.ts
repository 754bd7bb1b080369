// The page of the trace view. Draws what it is sent, and tells what was clicked.

import type {
  Break,
  Fix,
  FromPage,
  Graph,
  GuardGroup,
  Range,
  Remark,
  Run,
  ToPage,
  Trace,
} from "../content";

import { element, type Child } from "./element";

const editor = acquireVsCodeApi();
const view = required("view");
const news = required("news");

/** What the user has folded open, by name: it stays open when the trace is drawn anew. */
const unfolded = new Set<string>();

const TRACED_IN =
  "What Dynamo took for this piece of code: analysis, guards and new bytecode, without a backend.";

const FASTER = "Measure this function in eager mode, compiled, and compiled with all fixes, and offer the fixes if they help. This takes minutes.";

/** How a run ended that was not traced to its end. */
const OUTCOMES: Readonly<Record<string, string>> = { timeout: "took too long" };

/** Steps beyond which the strip has no room for what is between them. */
const DENSE = 24;

let said = "";
let cursor: number | undefined;

function required(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) {
    throw new Error(`The page has no ${id}.`);
  }
  return found;
}

function tell(message: FromPage): void {
  editor.postMessage(message);
}

window.addEventListener("message", (event: MessageEvent<ToPage>) => {
  const message = event.data;
  switch (message.type) {
    case "trace":
      redraw(drawn(message.trace));
      announce(message.trace);
      break;
    case "nothing":
      redraw([element("p", { class: "nothing" }, message.words)]);
      break;
    case "cursor":
      cursor = message.line;
      break;
  }
  markCursor();
});

/** Draws anew, but keeps the focus on what is the same, and the place that was scrolled to. */
function redraw(content: readonly HTMLElement[]): void {
  const focused = document.activeElement?.getAttribute("data-key");
  const { scrollTop } = document.documentElement;
  view.replaceChildren(...content);
  document.documentElement.scrollTop = scrollTop;
  if (focused) {
    view.querySelector<HTMLElement>(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }
}

/** Has a screen reader say what changed, once, when a run has ended or the first begins. */
function announce(trace: Trace): void {
  const which = trace.runs.length > 1 ? `, run ${trace.run + 1} of ${trace.runs.length}` : "";
  const first = trace.status === "tracing";
  const words = first
    ? nothingTraced(trace)
    : `${trace.target}${which}: ${summary(trace).join(", ")}`;
  if ((first || !trace.busy) && words !== said) {
    said = words;
    news.textContent = words;
  }
}

function markCursor(): void {
  for (const row of view.querySelectorAll("[data-line]")) {
    const here = row.getAttribute("data-line") === String(cursor);
    row.classList.toggle("here", here);
    if (here) {
      row.setAttribute("aria-current", "location");
    } else {
      row.removeAttribute("aria-current");
    }
  }
}

// -- the parts ------------------------------------------------------------------------------

function drawn(trace: Trace): HTMLElement[] {
  const parts = [header(trace)];
  if (trace.steps.length) {
    parts.push(strip(trace), course(trace));
  } else {
    parts.push(element("p", { class: "nothing" }, ...prose(nothingTraced(trace))));
  }
  if (trace.remarks.length) {
    parts.push(section("Other findings", "remarks", remarks(trace)));
  }
  if (trace.guardGroups.length) {
    const open = button("Open as text", { key: "guards" }, () =>
      tell({ type: "document", kind: "guards" }),
    );
    const groups = trace.guardGroups.map((group) => guardGroup(trace, group));
    parts.push(section(amount(trace.guards, "guard"), "guards", groups, open));
  }
  return parts;
}

function nothingTraced(trace: Trace): string {
  switch (trace.status) {
    case "no-probe":
      return "fullgraph doesn't know this function's inputs. Write them in a comment above it, such as `# fullgraph: f32[b=4, 16]`";
    case "skipped":
      return `${trace.target || trace.file} was not traced, because the time limit of the file is reached. The code lens above it traces it.`;
    case "tracing":
      return trace.target
        ? `${trace.target} is being traced for the first time.`
        : `${trace.file} is being traced.`;
    default:
      return trace.busy && !trace.current ? "Tracing …" : "No graph was captured.";
  }
}

function header(trace: Trace): HTMLElement {
  // Other targets may still be traced when this one is done.
  const done = trace.current && trace.status !== "tracing";
  const state = done ? "" : trace.busy ? "tracing" : "before the last edit";
  const title = element("h1", {}, element("code", {}, trace.target || trace.file));
  const others = trace.targets.length > 1 ? [targets(trace)] : [];
  const mark = state ? [element("span", { class: `state ${trace.busy ? "busy" : ""}` }, state)] : [];
  const traced = trace.runs.length > 0 && trace.status !== "no-probe";
  return element(
    "header",
    {},
    element("div", { class: "title" }, title, ...mark, ...others),
    ...(traced
      ? [
          element(
            "ul",
            { class: "facts", "aria-label": "Summary" },
            ...summary(trace).map((fact) => element("li", {}, fact)),
          ),
        ]
      : []),
    ...(traced && trace.probe ? [calledWith(trace)] : []),
    ...(trace.error ? [element("p", { class: "error", role: "alert" }, ...prose(sentence(trace.error)))] : []),
    ...(traced
      ? [
          element(
            "div",
            { class: "actions" },
            button("Graph code", { key: "code" }, () => tell({ type: "document", kind: "graph" })),
            button("Trace again", { key: "again" }, () => tell({ type: "analyze" })),
          ),
        ]
      : []),
  );
}

/** What came of a run. Of one that did not end well, nothing that there is none of. */
function summary(run: Run): string[] {
  const counts: readonly [number | null, string][] = [
    [run.graphs, "graph"],
    [run.breaks, "break"],
    [run.ops, "op"],
    [run.guards, "guard"],
  ];
  const traced = run.status === "traced";
  const facts = counts
    .filter(([number]) => traced || (number ?? 0) > 0)
    .map(([number, noun]) => amount(number, noun));
  if (!traced) {
    facts.unshift(OUTCOMES[run.status] ?? run.status);
  }
  if (run.recompiles !== 0) {
    facts.push(amount(run.recompiles, "recompile"));
  }
  facts.push(time(run.seconds));
  return facts;
}

/** The probe; where there are several, a list of them to choose from, each with what came of it. */
function calledWith(trace: Trace): HTMLElement {
  const words = (run: Run): string => `${run.probe} · ${run.mode} tensors`;
  if (trace.runs.length === 1) {
    const inputs = element("code", {}, trace.inputs);
    const rest = words(trace).slice(trace.inputs.length);
    return element("p", { class: "probe" }, "Called with ", inputs, rest);
  }
  const select = element(
    "select",
    { id: "runs", "data-key": "runs" },
    ...trace.runs.map((run, number) => {
      const came = [amount(run.graphs, "graph"), amount(run.breaks, "break")].join(" · ");
      const outcome = run.status === "traced" ? came : (OUTCOMES[run.status] ?? run.status);
      const option = element(
        "option",
        { value: String(number) },
        `${number + 1} of ${trace.runs.length}: ${words(run)} · ${outcome}`,
      );
      option.selected = number === trace.run;
      return option;
    }),
  );
  select.addEventListener("change", () => tell({ type: "run", run: Number(select.value) }));
  return element("p", { class: "probe" }, element("label", { for: "runs" }, "Called with"), select);
}

function targets(trace: Trace): HTMLElement {
  const select = element(
    "select",
    { "aria-label": "Target", "data-key": "targets" },
    ...trace.targets.map((name) => {
      const option = element("option", { value: name }, name);
      option.selected = name === trace.target;
      return option;
    }),
  );
  select.addEventListener("change", () => tell({ type: "target", target: select.value }));
  return select;
}

/** All steps in one line, as wide as they have operators; arrow keys go from one to the next. */
function strip(trace: Trace): HTMLElement {
  const steps = trace.steps.map((step, index) => {
    const graph = step.kind === "graph";
    const words = graph
      ? `Graph ${step.number}, ${amount(step.ops, "op")}, traced in ${time(step.seconds)}`
      : `Break: ${step.title}`;
    const face = element(
      "button",
      {
        type: "button",
        class: graph ? `graph ${parity(step)}` : `cut ${step.through ? "through" : ""}`,
        title: words,
        "aria-label": words,
        "data-key": `strip ${index}`,
        tabindex: index ? "-1" : "0",
      },
      ...(graph
        ? [
            element("b", {}, String(step.number)),
            element("span", { class: "amount" }, amount(step.ops, "op")),
          ]
        : []),
    );
    if (graph) {
      face.style.flexGrow = String(Math.sqrt(Math.max(1, step.ops)));
    }
    face.addEventListener("click", () => {
      view.querySelector(`#step-${index}`)?.scrollIntoView({ block: "nearest" });
      const range = rangeOf(step);
      if (range) {
        tell({ type: "reveal", uri: trace.uri, range, focus: false });
      }
    });
    return element("li", graph ? { class: "wide", style: face.style.cssText } : {}, face);
  });
  const list = element(
    "ol",
    { class: trace.steps.length > DENSE ? "strip dense" : "strip", "aria-label": "The run: graphs, and breaks between them" },
    ...steps,
  );
  list.addEventListener("keydown", (event) => walk(list, event));
  return list;
}

function walk(list: HTMLElement, event: KeyboardEvent): void {
  const faces = [...list.querySelectorAll("button")];
  const now = faces.indexOf(document.activeElement as HTMLButtonElement);
  const goal = { ArrowRight: now + 1, ArrowLeft: now - 1, Home: 0, End: faces.length - 1 }[event.key];
  const next = goal === undefined ? undefined : faces[goal];
  if (next) {
    event.preventDefault();
    for (const face of faces) {
      face.tabIndex = face === next ? 0 : -1;
    }
    next.focus();
  }
}

function course(trace: Trace): HTMLElement {
  const most = Math.max(
    1,
    ...trace.steps.flatMap((step) => (step.kind === "graph" ? step.lines.map((l) => l.ops) : [])),
  );
  return element(
    "ol",
    { class: "course", "aria-label": "Step by step" },
    ...trace.steps.map((step, index) => {
      const card = step.kind === "graph" ? graphCard(trace, step, most) : breakCard(trace, step, index);
      card.id = `step-${index}`;
      return card;
    }),
  );
}

function graphCard(trace: Trace, graph: Graph, most: number): HTMLElement {
  const rows = graph.lines.map(({ line, ops, text, shapes }) => {
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(4, (36 * ops) / most)}px`;
    const row = element(
      "tr",
      { "data-line": String(line) },
      element("td", { class: "number" }, lineButton(trace, line, `${graph.number}`)),
      element(
        "td",
        { class: "code" },
        element("code", {}, text),
        ...shapes.map((shape) => element("span", { class: "shape" }, shape)),
      ),
      element("td", { class: "ops" }, bar, amount(ops, "op")),
    );
    row.addEventListener("click", () => reveal(trace, lineRange(line), false));
    return row;
  });
  if (graph.elsewhere > 0) {
    const cell = element("td", { class: "code" }, "from other files");
    const count = element("td", { class: "ops" }, amount(graph.elsewhere, "op"));
    rows.push(element("tr", { class: "elsewhere" }, element("td", {}), cell, count));
  }
  return element(
    "li",
    { class: `card graph ${parity(graph)}` },
    element(
      "h2",
      {},
      `Graph ${graph.number}`,
      element(
        "span",
        { class: "about", title: TRACED_IN },
        `${graph.function} · ${amount(graph.ops, "op")} · traced in ${time(graph.seconds)}`,
      ),
    ),
    element("table", { "aria-label": `Lines of graph ${graph.number}` }, element("tbody", {}, ...rows)),
  );
}

function breakCard(trace: Trace, step: Break, index: number): HTMLElement {
  const { range } = step;
  const { line } = range.start;
  const place = element(
    "p",
    { class: "where", "data-line": String(line) },
    lineButton(trace, line, `break ${index}`, range),
    element("code", {}, step.text),
  );
  if (step.through) {
    // The break itself comes next: here only its call stands.
    return element(
      "li",
      { class: "card cut through" },
      element("h2", {}, "Call that runs in Python", element("span", { class: "about" }, step.function)),
      place,
      element("p", { class: "outcome" }, step.outcome),
    );
  }
  const actions = [
    ...fixButtons(trace, step.fixes, `break ${index}`),
    ...(step.reproducible
      ? [
          button("Create minimal repro", { key: `repro ${index}` }, () =>
            tell({ type: "repro", uri: trace.uri, id: step.id, range }),
          ),
        ]
      : []),
    button("Make faster", { key: `measure ${index}`, title: FASTER }, () => tell({ type: "measure" })),
  ];
  return element(
    "li",
    { class: "card cut" },
    element(
      "h2",
      {},
      element("span", {}, ...prose(`Break: ${step.title}`)),
      step.href
        ? element("a", { class: "about", href: step.href }, step.code)
        : element("span", { class: "about" }, step.code),
    ),
    place,
    ...(step.cost ? [element("p", { class: "cost" }, ...prose(`Cost: ${step.cost}.`))] : []),
    ...(step.outcome ? [element("p", { class: "outcome" }, ...prose(step.outcome))] : []),
    element("div", { class: "actions" }, ...actions),
    ...(step.explanation || step.hints.length ? [dynamoText(step, index)] : []),
  );
}

/** What Dynamo says of a break, folded; its line breaks are kept. */
function dynamoText(step: Break, index: number): HTMLElement {
  const name = `dynamo ${index}`;
  const fold = element(
    "details",
    { class: "dynamo" },
    element("summary", { "data-key": name }, "What Dynamo says"),
    ...(step.explanation ? [element("p", { class: "text" }, ...prose(step.explanation))] : []),
    ...(step.hints.length
      ? [
          element(
            "ul",
            { class: "hints" },
            ...step.hints.map((hint) => element("li", { class: "text" }, ...prose(hint))),
          ),
        ]
      : []),
  );
  fold.addEventListener("toggle", () => (fold.open ? unfolded.add(name) : unfolded.delete(name)));
  fold.open = unfolded.has(name);
  return fold;
}

function remarks(trace: Trace): HTMLElement[] {
  const item = (
    { range, code, message, severity, href, fixes }: Remark,
    number: number,
  ): HTMLElement =>
    element(
      "li",
      { class: severity, "data-line": String(range.start.line) },
      lineButton(trace, range.start.line, `remark ${number}`, range),
      element("span", {}, ...prose(message)),
      href ? element("a", { class: "about", href }, code) : element("span", { class: "about" }, code),
      ...(fixes.length
        ? [element("div", { class: "actions" }, ...fixButtons(trace, fixes, `remark ${number}`))]
        : []),
    );
  return [element("ul", {}, ...trace.remarks.map(item))];
}

function guardGroup(trace: Trace, group: GuardGroup): HTMLElement {
  const rows = (): HTMLElement[] => {
    const told = group.guards.map((guard, number) =>
      element(
        "li",
        {},
        guard.line === null
          ? element("span", { class: "line" }, "–")
          : lineButton(trace, guard.line, `guard ${group.name} ${number}`),
        element("code", {}, guard.conditions.join("\n")),
      ),
    );
    const more = group.count - group.guards.length;
    return more > 0 ? [...told, element("li", {}, `and ${more.toLocaleString()} more`)] : told;
  };
  const list = element("ul", {});
  const fold = element(
    "details",
    {},
    element(
      "summary",
      { "data-key": `group ${group.name}` },
      group.name,
      element("span", { class: "about" }, group.count.toLocaleString()),
    ),
    list,
  );
  // A transformer has thousands: they are drawn when somebody looks.
  fold.addEventListener("toggle", () => {
    if (fold.open) {
      unfolded.add(group.name);
      list.replaceChildren(...rows());
    } else {
      unfolded.delete(group.name);
    }
  });
  fold.open = unfolded.has(group.name);
  return fold;
}

// -- pieces ---------------------------------------------------------------------------------

function section(
  title: string,
  kind: string,
  content: readonly HTMLElement[],
  ...beside: readonly HTMLElement[]
): HTMLElement {
  const id = `title-${kind}`;
  return element(
    "section",
    { class: kind, "aria-labelledby": id },
    element("h2", { id }, title, ...beside),
    ...content,
  );
}

function fixButtons(trace: Trace, fixes: readonly Fix[], key: string): HTMLElement[] {
  return fixes.map((fix, number) =>
    button(
      fix.title,
      { key: `fix ${key} ${number}`, primary: number === 0, title: fix.detail },
      () => tell({ type: "fix", uri: trace.uri, fix }),
    ),
  );
}

function button(
  words: string,
  { key, primary = false, title = "" }: { key: string; primary?: boolean; title?: string },
  act: () => void,
): HTMLElement {
  const made = element(
    "button",
    { type: "button", "data-key": key, class: primary ? "action primary" : "action", title },
    words,
  );
  made.addEventListener("click", act);
  return made;
}

/** The number of a line, which leads there. */
function lineButton(trace: Trace, line: number, key: string, range?: Range): HTMLElement {
  const made = element(
    "button",
    {
      type: "button",
      class: "line",
      "data-key": `line ${line} ${key}`,
      "aria-label": `Go to line ${line + 1}`,
    },
    String(line + 1),
  );
  made.addEventListener("click", (event) => {
    event.stopPropagation();
    reveal(trace, range ?? lineRange(line), true);
  });
  return made;
}

function reveal(trace: Trace, range: Range, focus: boolean): void {
  tell({ type: "reveal", uri: trace.uri, range, focus });
}

/** Words that begin as a sentence does. */
function sentence(words: string): string {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

/** Words with code between backticks, and with links. */
function prose(words: string): Child[] {
  return words
    .split("`")
    .flatMap((part, index) => (index % 2 ? [element("code", {}, part)] : linked(part)));
}

function linked(words: string): Child[] {
  return words
    .split(/(https?:\/\/[^\s)>\]]*[^\s)>\].,;:])/)
    .map((part, index) => (index % 2 ? element("a", { href: part }, part) : part));
}

function rangeOf(step: Graph | Break): Range | null {
  if (step.kind !== "graph") {
    return step.range;
  }
  const first = step.lines[0];
  return first ? lineRange(first.line) : null;
}

function lineRange(line: number): Range {
  return { start: { line, character: 0 }, end: { line, character: 0 } };
}

function parity(graph: Graph): string {
  return graph.number % 2 ? "odd" : "even";
}

function amount(number: number | null, noun: string): string {
  if (number === null) {
    return `${noun}s unknown`;
  }
  const count = number === 0 ? "no" : number.toLocaleString();
  return `${count} ${noun}${number === 1 ? "" : "s"}`;
}

function time(seconds: number): string {
  return seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
}

tell({ type: "ready" });
