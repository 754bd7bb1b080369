// The page "Try it": a sample program and the trace view of the editors, with recorded traces.
// Does what VS Code does for the view: sends traces, selects lines, applies fixes, opens documents.

import type {
  Break,
  FromPage,
  Range,
  Remark,
  ToPage,
  Trace,
} from "../../vscode-client/src/trace/content";
import { element } from "../../vscode-client/src/trace/page/element";

import type { Colors, Height } from "./messages";
import type { AppliedFix, DiffLine, Recording, Sample, Tokens } from "./samples";

/** Colors of the theme of the site that the view uses too, by their names in VS Code. */
const COLORS: Readonly<Record<string, string>> = {
  "--vscode-editor-background": "--md-default-bg-color",
  "--vscode-foreground": "--md-default-fg-color",
  "--vscode-textLink-foreground": "--md-typeset-a-color",
};

/** The address of this script; the files of the frame are in the same folder. */
const FOLDER = (document.currentScript as HTMLScriptElement).src;

class Playground {
  readonly #choices = element("nav", { class: "choices", "aria-label": "Samples" });
  readonly #state = element("p", { class: "state", role: "status" });
  readonly #code = element("code", {});
  readonly #source = element("div", { class: "source highlight" }, element("pre", {}, this.#code));
  readonly #frame: HTMLIFrameElement;
  readonly #dialog = element("dialog", { class: "document" });
  #sample: Sample;
  #fix: AppliedFix | undefined;
  #shown: Trace;

  constructor(root: HTMLElement, samples: readonly [Sample, ...Sample[]]) {
    const [first] = samples;
    this.#sample = samples.find(({ name }) => `#${name}` === location.hash) ?? first;
    this.#shown = firstTrace(this.#sample.before);
    const src = new URL("frame.html", FOLDER).href;
    this.#frame = element("iframe", { title: "Trace view", src });
    for (const sample of samples) {
      const choice = element("button", { type: "button", "data-sample": sample.name }, ...prose(sample.title));
      choice.addEventListener("click", () => this.#choose(sample));
      this.#choices.append(choice);
    }
    window.addEventListener("message", (event: MessageEvent<FromPage | Height>) => {
      if (event.source === this.#frame.contentWindow) {
        this.#receive(event.data);
      }
    });
    new MutationObserver(() => this.#sendColors()).observe(document.body, {
      attributeFilter: ["data-md-color-scheme"],
    });
    const panes = element("div", { class: "panes" }, this.#source, this.#frame);
    root.replaceChildren(this.#choices, this.#state, panes, this.#dialog);
    this.#drawSource();
  }

  get #recording(): Recording {
    return this.#fix?.after ?? this.#sample.before;
  }

  #choose(sample: Sample, fix?: AppliedFix): void {
    this.#sample = sample;
    this.#fix = fix;
    this.#shown = firstTrace(this.#recording);
    history.replaceState(null, "", `#${sample.name}`);
    this.#drawSource();
    this.#sendTrace();
  }

  #receive(message: FromPage | Height): void {
    switch (message.type) {
      case "ready":
        this.#sendColors();
        this.#sendTrace();
        break;
      case "height":
        this.#frame.style.setProperty("--height", `${message.height}px`);
        break;
      case "reveal":
        this.#select(message.range.start.line, message.focus);
        break;
      case "fix": {
        const edits = JSON.stringify(message.fix.edits);
        const fix = this.#sample.fixes.find((one) => JSON.stringify(one.fix.edits) === edits);
        this.#choose(this.#sample, fix);
        // On a narrow screen the button may be far below.
        this.#state.scrollIntoView({ block: "nearest" });
        break;
      }
      case "target":
        this.#show((trace) => trace.target === message.target);
        break;
      case "run":
        this.#show(({ target, run }) => target === this.#shown.target && run === message.run);
        break;
      case "document":
        this.#openDocument(message.kind);
        break;
    }
  }

  #show(matches: (trace: Trace) => boolean): void {
    this.#shown = this.#recording.traces.find(matches) ?? this.#shown;
    this.#drawSource();
    this.#sendTrace();
  }

  #post(message: ToPage | Colors): void {
    this.#frame.contentWindow?.postMessage(message, "*");
  }

  #sendTrace(): void {
    this.#post({ type: "trace", trace: this.#shown });
  }

  #sendColors(): void {
    const style = getComputedStyle(document.body);
    const entries = Object.entries(COLORS).map(([name, own]) => [name, style.getPropertyValue(own)]);
    const dark = document.body.dataset["mdColorScheme"] === "slate";
    this.#post({ type: "colors", dark, variables: Object.fromEntries(entries) });
  }

  #drawSource(): void {
    for (const choice of this.#choices.querySelectorAll("button")) {
      choice.setAttribute("aria-pressed", String(choice.dataset["sample"] === this.#sample.name));
    }
    this.#state.replaceChildren(...this.#stateWords());
    const diff: readonly DiffLine[] =
      this.#fix?.diff ?? this.#sample.before.lines.map((tokens) => ({ change: " ", tokens }));
    let line = 0;
    const rows = diff.map(({ change, tokens }) =>
      change === "-" ? removedRow(tokens) : this.#row(line++, change, tokens),
    );
    this.#code.replaceChildren(...rows);
  }

  #stateWords(): (Node | string)[] {
    const name = element("code", {}, this.#sample.name);
    if (!this.#fix) {
      return [name];
    }
    const { title, detail } = this.#fix.fix;
    const undo = element("button", { type: "button", class: "undo" }, "Undo");
    undo.addEventListener("click", () => this.#choose(this.#sample));
    const words = detail ? `: ${detail}. ` : ". ";
    return [name, " after ", element("em", {}, ...prose(title)), words, undo];
  }

  #row(line: number, change: DiffLine["change"], tokens: Tokens): HTMLElement {
    const starts = ({ range }: Break | Remark): boolean => range.start.line === line;
    const breaks = this.#shown.steps.filter((step): step is Break => step.kind === "break");
    const cut = breaks.find(starts);
    const remark = this.#shown.remarks.find(starts);
    const range = cut?.range ?? remark?.range;
    const graph = this.#shown.steps.find(
      (step) => step.kind === "graph" && step.lines.some((one) => one.line === line),
    );
    const parity = graph?.kind === "graph" ? (graph.number % 2 ? "odd" : "even") : "";
    const number = element(
      "button",
      { type: "button", class: "number", "aria-label": `Show line ${line + 1} in the trace view` },
      String(line + 1),
    );
    const row = element(
      "span",
      {
        class: `row ${cut ? "cut" : parity} ${remark ? "noted" : ""} ${change === "+" ? "added" : ""}`,
        "data-line": String(line),
        title: cut ? `Graph break: ${cut.title}` : (remark?.message ?? ""),
      },
      number,
      ...spans(range ? underline(tokens, range) : tokens),
    );
    row.addEventListener("click", () => {
      this.#select(line, false);
      this.#post({ type: "cursor", line });
    });
    return row;
  }

  /** Selects a line of the source, and scrolls the page to it only if it gets the focus. */
  #select(line: number, focus: boolean): void {
    for (const row of this.#code.children) {
      row.classList.toggle("selected", row.getAttribute("data-line") === String(line));
    }
    const row = this.#code.querySelector<HTMLElement>(".selected");
    if (focus) {
      row?.querySelector("button")?.focus();
    } else if (row) {
      const { scrollTop, clientHeight } = this.#source;
      const last = row.offsetTop + row.offsetHeight - clientHeight;
      this.#source.scrollTop = Math.max(last, Math.min(scrollTop, row.offsetTop));
    }
  }

  #openDocument(kind: "graph" | "guards"): void {
    const { target } = this.#shown;
    const found = this.#recording.documents.find((one) => one.kind === kind && one.target === target);
    const close = element("button", { type: "button", class: "undo" }, "Close");
    close.addEventListener("click", () => this.#dialog.close());
    const title = `${kind === "graph" ? "Graph code" : "Guards"} of ${target}`;
    const rows = (found?.lines ?? []).map((tokens) => element("span", { class: "row" }, ...spans(tokens), "\n"));
    this.#dialog.replaceChildren(
      element("p", { class: "state" }, title, " ", close),
      element("div", { class: "highlight" }, element("pre", {}, element("code", {}, ...rows))),
    );
    this.#dialog.showModal();
  }
}

function firstTrace({ traces }: Recording): Trace {
  const [first] = traces;
  if (!first) {
    throw new Error("This sample was recorded without a trace.");
  }
  return first;
}

function removedRow(tokens: Tokens): HTMLElement {
  const number = element("span", { class: "number", "aria-label": "removed" }, "−");
  return element("span", { class: "row removed" }, number, ...spans(tokens));
}

function spans(tokens: Tokens): HTMLElement[] {
  return tokens.map(([kind, text]) => element("span", { class: kind }, text));
}

/** Tokens of the first line of a range; those within the range get the class `wave`. */
function underline(tokens: Tokens, { start, end }: Range): Tokens {
  const last = end.line > start.line ? Infinity : end.character;
  let column = 0;
  return tokens.flatMap(([kind, text]) => {
    const [from, to] = [start.character - column, last - column].map((one) =>
      Math.min(Math.max(one, 0), text.length),
    ) as [number, number];
    column += text.length;
    const parts = [
      [kind, text.slice(0, from)],
      [`${kind} wave`, text.slice(from, to)],
      [kind, text.slice(to)],
    ] as const;
    return parts.filter(([, part]) => part);
  });
}

/** Words with code between backticks. */
function prose(words: string): (Node | string)[] {
  return words.split("`").map((part, index) => (index % 2 ? element("code", {}, part) : part));
}

const root = document.getElementById("playground");
const [first, ...others] = fullgraphSamples;
if (root && first) {
  new Playground(root, [first, ...others]);
}
