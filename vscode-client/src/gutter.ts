// Marks beside the line numbers: which lines run in which graph of the target under the cursor.

import * as vscode from "vscode";

import type { Summaries } from "./summaries";
import type { Trace } from "./trace/content";
import type { Traces } from "./trace/traces";

const SETTING = "fullgraph.gutter.enabled";
const REST = 120;

export class Gutter implements vscode.Disposable {
  readonly #even: vscode.TextEditorDecorationType;
  readonly #odd: vscode.TextEditorDecorationType;
  readonly #break: vscode.TextEditorDecorationType;
  readonly #disposables: vscode.Disposable[];
  #timer: NodeJS.Timeout | undefined;

  constructor(
    context: vscode.ExtensionContext,
    private readonly traces: Traces,
  ) {
    const marked = (icon: string, color: string): vscode.TextEditorDecorationType =>
      vscode.window.createTextEditorDecorationType({
        gutterIconPath: vscode.Uri.joinPath(context.extensionUri, "media", icon),
        gutterIconSize: "contain",
        overviewRulerColor: new vscode.ThemeColor(color),
        overviewRulerLane: vscode.OverviewRulerLane.Left,
      });
    this.#odd = marked("graph.svg", "fullgraph.graph");
    this.#even = marked("other-graph.svg", "fullgraph.otherGraph");
    this.#break = marked("break.svg", "fullgraph.break");
    this.#disposables = [
      this.#odd,
      this.#even,
      this.#break,
      traces.onDidChange(() => this.#drawSoon()),
      vscode.window.onDidChangeActiveTextEditor(() => this.#drawSoon()),
      vscode.window.onDidChangeTextEditorSelection(() => this.#drawSoon()),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration(SETTING)) {
          this.#drawSoon();
        }
      }),
    ];
  }

  #drawSoon(): void {
    const editor = vscode.window.activeTextEditor;
    if (editor?.document.languageId !== "python") {
      return;
    }
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#draw(editor), REST);
  }

  async #draw(editor: vscode.TextEditor): Promise<void> {
    const wanted = vscode.workspace.getConfiguration().get<boolean>(SETTING) === true;
    const { version, uri } = editor.document;
    const trace = wanted ? await this.traces.of(uri, { line: editor.selection.active.line }) : undefined;
    if (editor.document.version !== version) {
      return; // There will be another change to draw.
    }
    const { odd, even, breaks } = linesOf(trace);
    editor.setDecorations(this.#odd, odd);
    editor.setDecorations(this.#even, even);
    editor.setDecorations(this.#break, breaks);
  }

  dispose(): void {
    clearTimeout(this.#timer);
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

const MISSED = "fullgraph.gutter.untraced";

/** Quiet marks at the lines of traced functions that no trace reached. */
export class MissedLines implements vscode.Disposable {
  readonly #mark: vscode.TextEditorDecorationType;
  readonly #disposables: vscode.Disposable[];

  constructor(
    context: vscode.ExtensionContext,
    private readonly summaries: Summaries,
  ) {
    this.#mark = vscode.window.createTextEditorDecorationType({
      gutterIconPath: vscode.Uri.joinPath(context.extensionUri, "media", "missed.svg"),
      gutterIconSize: "contain",
    });
    this.#disposables = [
      this.#mark,
      summaries.onDidChange(() => this.#draw()),
      vscode.workspace.onDidChangeConfiguration((event) => {
        if (event.affectsConfiguration(MISSED)) {
          this.#draw();
        }
      }),
    ];
  }

  #draw(): void {
    const editor = vscode.window.activeTextEditor;
    const summary = this.summaries.current;
    // Without a summary the marks stay: the next one is on its way.
    if (!editor || !summary || summary.version !== editor.document.version) {
      return;
    }
    const wanted = vscode.workspace.getConfiguration().get<boolean>(MISSED) === true;
    const lines = wanted ? summary.missedLines : [];
    const hoverMessage = "No trace reached this line, so its graph breaks are unknown.";
    const { document } = editor;
    editor.setDecorations(
      this.#mark,
      lines
        .filter((line) => line < document.lineCount)
        .map((line) => ({ range: document.lineAt(line).range, hoverMessage })),
    );
  }

  dispose(): void {
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

/** A line with a break has only that mark; one that runs in several graphs has that of the first. */
function linesOf(trace: Trace | undefined): Record<"odd" | "even" | "breaks", vscode.Range[]> {
  const marks = new Map<number, "odd" | "even" | "breaks">();
  for (const step of trace?.steps ?? []) {
    if (step.kind === "graph") {
      for (const { line } of step.lines) {
        if (!marks.has(line)) {
          marks.set(line, step.number % 2 ? "odd" : "even");
        }
      }
    } else {
      marks.set(step.range.start.line, "breaks");
    }
  }
  const found = { odd: [] as vscode.Range[], even: [] as vscode.Range[], breaks: [] as vscode.Range[] };
  for (const [line, mark] of marks) {
    found[mark].push(new vscode.Range(line, 0, line, 0));
  }
  return found;
}
