// Findings under the pointer: links to what was traced there, and its text as a terminal shows it.

import * as vscode from "vscode";
import type { HoverMiddleware } from "vscode-languageclient/node";

import { columnBeside } from "./documents";
import type { FindingData } from "./protocol";

const SCHEME = "fullgraph-finding";

/** The diagnostics of fullgraph at a place, with what the server sent along. */
function findingsAt(
  uri: vscode.Uri,
  position: vscode.Position,
): (vscode.Diagnostic & { readonly data?: FindingData })[] {
  return vscode.languages
    .getDiagnostics(uri)
    .filter((one) => one.source === "fullgraph" && one.range.contains(position));
}

/** The findings of a file that are more than hints, in its order. */
export function findingsOf(uri: vscode.Uri): vscode.Diagnostic[] {
  return vscode.languages
    .getDiagnostics(uri)
    .filter((one) => one.source === "fullgraph" && one.severity !== vscode.DiagnosticSeverity.Hint)
    .sort((one, other) => one.range.start.compareTo(other.range.start));
}

/** Puts the cursor at the next finding of the file, or the one before; behind the last is the first. */
export function goToFinding(forward: boolean): void {
  const editor = vscode.window.activeTextEditor;
  const all = editor ? findingsOf(editor.document.uri) : [];
  if (!editor || !all.length) {
    void vscode.window.setStatusBarMessage("fullgraph: no findings in this file", 3000);
    return;
  }
  const here = editor.selection.active;
  const found = forward
    ? all.find(({ range }) => range.start.isAfter(here))
    : all.findLast(({ range }) => range.start.isBefore(here));
  const { range } = found ?? (forward ? all[0] : all[all.length - 1]) ?? {};
  if (range) {
    editor.selection = new vscode.Selection(range.start, range.start);
    editor.revealRange(range, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
  }
}

/** The ways to what was traced at a place, and below them what the server says of it. */
export const hoverWithLinks: NonNullable<HoverMiddleware["provideHover"]> = async (
  document,
  position,
  token,
  next,
) => {
  const hover = await next(document, position, token);
  const findings = findingsAt(document.uri, position);
  if (!findings.length) {
    return hover;
  }
  const place = { uri: document.uri.toString(), line: position.line, character: position.character };
  const link = (words: string, command: string): string =>
    `[${words}](command:${command}?${encodeURIComponent(JSON.stringify([place]))})`;
  const links = new vscode.MarkdownString(
    [
      link("$(git-compare) Trace", "fullgraph.showTrace"),
      link("$(output) Full text", "fullgraph.showFinding"),
    ].join(" &nbsp; "),
    true,
  );
  links.isTrusted = { enabledCommands: ["fullgraph.showTrace", "fullgraph.showFinding"] };
  const first = findings[0];
  return new vscode.Hover([links, ...(hover?.contents ?? [])], hover?.range ?? first?.range);
};

/** Shows findings, and facts for bug reports, as text: each in a read-only document of its own. */
export class Texts implements vscode.TextDocumentContentProvider, vscode.Disposable {
  readonly #texts = new Map<string, string>();
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly #registration = vscode.workspace.registerTextDocumentContentProvider(SCHEME, this);

  readonly onDidChange = this.#changed.event;

  provideTextDocumentContent(uri: vscode.Uri): string {
    return this.#texts.get(uri.path) ?? "This finding does not exist any more.\n";
  }

  async show(uri: vscode.Uri, position: vscode.Position): Promise<void> {
    const texts = findingsAt(uri, position).map((one) => one.data?.rendered ?? one.message);
    const name = uri.path.split("/").pop() ?? "finding";
    const document = await this.#open(
      `${name}:${position.line + 1}.txt`,
      `${texts.join("\n\n")}\n`,
    );
    await vscode.window.showTextDocument(document, {
      viewColumn: columnBeside(),
      preserveFocus: true,
      preview: true,
    });
  }

  /** Shows a text that belongs to no file; closing it asks nothing. */
  async showText(name: string, text: string): Promise<void> {
    const document = await this.#open(name, text);
    await vscode.window.showTextDocument(document, { preview: true });
  }

  async #open(name: string, text: string): Promise<vscode.TextDocument> {
    const shown = vscode.Uri.from({ scheme: SCHEME, path: `/${name}` });
    this.#texts.set(shown.path, text);
    this.#changed.fire(shown);
    return vscode.workspace.openTextDocument(shown);
  }

  dispose(): void {
    this.#registration.dispose();
    this.#changed.dispose();
  }
}
