// Documents that the server opens: beside the text that they are about, which keeps the focus.

import * as vscode from "vscode";
import type {
  RequestHandler,
  ShowDocumentParams,
  ShowDocumentResult,
} from "vscode-languageclient/node";

type Handler = RequestHandler<ShowDocumentParams, ShowDocumentResult, void>;

/** Opens a document beside the active editor. Only a file takes the focus, and only on request. */
export async function showBeside(
  params: ShowDocumentParams,
  token: vscode.CancellationToken,
  next: Handler,
): Promise<ShowDocumentResult> {
  const uri = vscode.Uri.parse(params.uri);
  if (params.external === true) {
    const answer = await next(params, token);
    return "success" in answer ? answer : { success: false };
  }
  try {
    await vscode.window.showTextDocument(uri, {
      viewColumn: columnOf(uri) ?? columnBeside(),
      preserveFocus: uri.scheme === "fullgraph" || params.takeFocus !== true,
    });
    return { success: true };
  } catch {
    return { success: false };
  }
}

/**
 * The editor of a Python file that a command is about: the active one, else one that is visible.
 * Where a page such as the walkthrough has the focus, no text editor is active.
 */
export function pythonEditor(): vscode.TextEditor | undefined {
  const { activeTextEditor, visibleTextEditors } = vscode.window;
  const isPython = ({ document }: vscode.TextEditor): boolean => document.languageId === "python";
  return activeTextEditor ? [activeTextEditor].find(isPython) : visibleTextEditors.find(isPython);
}

/** The column that has a tab of this document. */
function columnOf(uri: vscode.Uri): vscode.ViewColumn | undefined {
  for (const { tabs, viewColumn } of vscode.window.tabGroups.all) {
    for (const { input } of tabs) {
      if (input instanceof vscode.TabInputText && input.uri.toString() === uri.toString()) {
        return viewColumn;
      }
    }
  }
  return undefined;
}

/** The next column to the right of the active one that does not show the trace view. */
export function columnBeside(): vscode.ViewColumn {
  const { activeTabGroup, all } = vscode.window.tabGroups;
  if (!activeTabGroup.activeTab) {
    return activeTabGroup.viewColumn;
  }
  let column = activeTabGroup.viewColumn + 1;
  const views = all.filter(({ activeTab }) => activeTab?.input instanceof vscode.TabInputWebview);
  while (views.some(({ viewColumn }) => viewColumn === column)) {
    column += 1;
  }
  return column;
}
