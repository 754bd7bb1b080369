// The entry of the status bar: what was found in the file and what was not traced, and a menu of
// all commands.

import * as vscode from "vscode";

import type { FileSummary } from "./protocol";
import type { LanguageStatus } from "./status";
import type { Summaries } from "./summaries";

interface Command {
  readonly command: string;
  readonly title: string;
  readonly icon?: string;
}

function createEntry(): vscode.StatusBarItem {
  const item = vscode.window.createStatusBarItem(
    "fullgraph.menu",
    vscode.StatusBarAlignment.Right,
    99,
  );
  item.name = "fullgraph";
  return item;
}

/** All that there is of the extension in a workspace that is not trusted: its code is not executed. */
export function untrustedEntry(): vscode.Disposable {
  const item = createEntry();
  item.text = "$(circle-slash) fullgraph not trusted";
  item.tooltip =
    "fullgraph traces no code in restricted mode, because it executes it.\n" +
    "Click to trust this workspace.";
  item.command = "workbench.trust.manage";
  item.show();
  return item;
}

export class StatusBar implements vscode.Disposable {
  readonly #item = createEntry();
  readonly #disposables: vscode.Disposable[];

  constructor(
    private readonly status: LanguageStatus,
    private readonly summaries: Summaries,
  ) {
    this.#item.command = "fullgraph.showMenu";
    this.#disposables = [
      this.#item,
      status.onDidChange(() => this.#draw()),
      summaries.onDidChange(() => this.#draw()),
      vscode.window.onDidChangeActiveTextEditor(() => this.#draw()),
    ];
    this.#draw();
  }

  #draw(): void {
    const document = vscode.window.activeTextEditor?.document;
    if (document?.languageId !== "python") {
      this.#item.hide();
      return;
    }
    const { words, detail, busy, bad, versions } = this.status;
    const summary = this.summaries.current;
    const untraced = isUntraced(summary);
    const icon = bad ? "warning" : busy ? "loading~spin" : untraced ? "circle-slash" : "git-compare";
    this.#item.text = [`$(${icon}) fullgraph`, inBrief(summary)].filter(Boolean).join(" ");
    const first = [`fullgraph: ${words}`, summary?.findings, summary?.title].filter(Boolean).join(", ");
    const lines = summary?.tracing === true ? [] : (summary?.lines ?? []);
    this.#item.tooltip = [first, ...lines, detail, versions].filter(Boolean).join("\n");
    this.#item.accessibilityInformation = { label: first };
    this.#item.show();
  }

  dispose(): void {
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

/** Nothing of the file was traced, although it has code for torch. */
function isUntraced(summary: FileSummary | undefined): boolean {
  return !!summary && summary.relevant && !summary.tracing && summary.traced === 0;
}

/** The findings as the explorer counts them, and how much was traced unless it is everything. */
function inBrief(summary: FileSummary | undefined): string {
  if (!summary) {
    return "";
  }
  const { problems, notes, traced, targets, tracing } = summary;
  const found = [
    problems ? String(problems) : "",
    notes ? `${notes} note${notes === 1 ? "" : "s"}` : "",
  ].filter(Boolean);
  if (isUntraced(summary)) {
    found.push("not traced");
  } else if (!tracing && traced < targets) {
    found.push(`${traced} of ${targets} traced`);
  }
  return found.join(", ");
}

interface Item extends vscode.QuickPickItem {
  readonly run?: () => unknown;
}

/** Lists what was not traced in the active file, and every command of the extension. */
export async function showMenu(
  extension: vscode.Extension<unknown>,
  status: LanguageStatus,
  summaries: Summaries,
): Promise<void> {
  const { contributes } = extension.packageJSON as { contributes: { commands: Command[] } };
  const commands = contributes.commands
    .filter(({ command }) => command !== "fullgraph.showMenu")
    .map(({ command, title, icon }) => ({
      label: `${icon ? `${icon} ` : ""}${title}`,
      run: () => vscode.commands.executeCommand(command),
    }));
  const separator = (label: string): Item => ({ label, kind: vscode.QuickPickItemKind.Separator });
  const gaps = gapItems(summaries.current);
  const items: Item[] = gaps.length
    ? [separator(summaries.current?.title ?? ""), ...gaps, separator("commands"), ...commands]
    : commands;
  const chosen = await vscode.window.showQuickPick(items, {
    title: [`fullgraph: ${status.words}`, summaries.current?.title].filter(Boolean).join(", "),
    placeHolder: status.versions,
  });
  await chosen?.run?.();
}

/** Most functions and modules that the menu lists before the commands. */
const MOST_GAPS = 5;

/** What was not traced in the file; an item leads to its line. */
function gapItems(summary: FileSummary | undefined): Item[] {
  if (!summary || summary.tracing) {
    return [];
  }
  const { notTraced, lines, traced } = summary;
  const reasons = traced || notTraced.length ? [] : lines;
  return [
    ...reasons.map((label) => ({ label: `$(circle-slash) ${label}` })),
    ...notTraced.slice(0, MOST_GAPS).map(({ name, line, why }) => ({
      label: `$(circle-slash) ${name}`,
      description: `not traced: ${why}`,
      run: () => reveal(line),
    })),
  ];
}

function reveal(line: number): void {
  const editor = vscode.window.activeTextEditor;
  if (editor) {
    const place = new vscode.Position(line, 0);
    editor.selection = new vscode.Selection(place, place);
    editor.revealRange(new vscode.Range(place, place), vscode.TextEditorRevealType.InCenter);
  }
}
