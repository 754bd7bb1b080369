// The entry of the status bar: what was found in the file, and a menu of all commands.

import * as vscode from "vscode";

import { findingsOf } from "./findings";
import type { LanguageStatus } from "./status";

interface Command {
  readonly command: string;
  readonly title: string;
  readonly icon?: string;
}

export class StatusBar implements vscode.Disposable {
  readonly #item = vscode.window.createStatusBarItem(
    "fullgraph.menu",
    vscode.StatusBarAlignment.Right,
    99,
  );
  readonly #disposables: vscode.Disposable[];

  constructor(private readonly status: LanguageStatus) {
    this.#item.name = "fullgraph";
    this.#item.command = "fullgraph.showMenu";
    this.#disposables = [
      this.#item,
      status.onDidChange(() => this.#draw()),
      vscode.window.onDidChangeActiveTextEditor(() => this.#draw()),
      vscode.languages.onDidChangeDiagnostics(() => this.#draw()),
    ];
    this.#draw();
  }

  #draw(): void {
    const document = vscode.window.activeTextEditor?.document;
    if (document?.languageId !== "python") {
      this.#item.hide();
      return;
    }
    const { words, detail, busy, bad } = this.status;
    const count = findingsOf(document.uri).length;
    const icon = bad ? "warning" : busy ? "loading~spin" : "git-compare";
    this.#item.text = `$(${icon}) fullgraph${count ? ` ${count}` : ""}`;
    const findings = `${count || "no"} finding${count === 1 ? "" : "s"} in this file`;
    this.#item.tooltip = [`fullgraph: ${words}, ${findings}`, detail, this.status.versions]
      .filter(Boolean)
      .join("\n");
    this.#item.accessibilityInformation = { label: `fullgraph: ${words}, ${findings}` };
    this.#item.show();
  }

  dispose(): void {
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

/** Lists every command of the extension. */
export async function showMenu(
  extension: vscode.Extension<unknown>,
  status: LanguageStatus,
): Promise<void> {
  const { contributes } = extension.packageJSON as { contributes: { commands: Command[] } };
  const items = contributes.commands
    .filter(({ command }) => command !== "fullgraph.showMenu")
    .map(({ command, title, icon }) => ({ label: `${icon ? `${icon} ` : ""}${title}`, command }));
  const chosen = await vscode.window.showQuickPick(items, {
    title: `fullgraph: ${status.words}`,
    placeHolder: status.versions,
  });
  if (chosen) {
    await vscode.commands.executeCommand(chosen.command);
  }
}
