// The trace view: a panel beside the editor, about the target under the cursor.

import { randomBytes } from "node:crypto";

import * as vscode from "vscode";

import { pythonEditor } from "../documents";
import * as protocol from "../protocol";
import type { Server } from "../server";
import type { FromPage, Range, ToPage, Trace } from "./content";
import type { Traces } from "./traces";

const TYPE = "fullgraph.trace";

/** Milliseconds that the cursor rests before the view follows it. */
const REST = 120;

/** What is shown: a run of a target, or of whatever is at a line. */
interface Subject {
  readonly uri: vscode.Uri;
  readonly about: protocol.About;
}

export class TraceView implements vscode.Disposable {
  readonly #disposables: vscode.Disposable[] = [];
  #panel: vscode.WebviewPanel | undefined;
  #subject: Subject | undefined;
  #shown: Trace | undefined;
  #timer: NodeJS.Timeout | undefined;
  #asked = 0;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly traces: Traces,
    private readonly server: Server,
  ) {
    this.#disposables.push(
      traces.onDidChange((uri) => {
        if (uri.toString() === this.#subject?.uri.toString()) {
          void this.#refresh();
        }
        void this.#offer();
      }),
      vscode.window.onDidChangeTextEditorSelection((event) => {
        if (this.#panel?.visible && event.textEditor === vscode.window.activeTextEditor) {
          this.#followSoon(event.textEditor);
        }
      }),
      vscode.window.onDidChangeActiveTextEditor((editor) => {
        if (editor) {
          this.#followSoon(editor);
        }
        void this.#offer();
      }),
      vscode.window.registerWebviewPanelSerializer(TYPE, {
        deserializeWebviewPanel: (panel) => {
          this.#open(panel);
          return Promise.resolve();
        },
      }),
    );
  }

  /** Shows the target under the cursor, of a file that is visible or of the one with the focus. */
  async showAtCursor(uri?: vscode.Uri): Promise<void> {
    const visible = vscode.window.visibleTextEditors;
    const editor =
      visible.find((one) => one.document.uri.toString() === uri?.toString()) ?? pythonEditor();
    if (editor) {
      await this.show(editor.document.uri, { line: editor.selection.active.line });
    } else {
      void vscode.window.showInformationMessage("fullgraph: Put the cursor into a Python file.");
    }
  }

  /** Shows a target, beside the editor that has the focus, and leaves the focus there. */
  async show(uri: vscode.Uri, about: protocol.About): Promise<void> {
    this.#subject = { uri, about };
    if (this.#panel) {
      this.#panel.reveal(undefined, true);
    } else {
      this.#open(
        vscode.window.createWebviewPanel(
          TYPE,
          "Trace",
          { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true },
          {},
        ),
      );
    }
    await this.#refresh();
  }

  /** Does something with the target under the cursor, of which the server may know better. */
  async atTarget(work: (place: protocol.Place) => Promise<unknown>): Promise<void> {
    const editor = pythonEditor();
    if (!editor) {
      void vscode.window.showInformationMessage("fullgraph: Put the cursor into a Python file.");
      return;
    }
    const { uri } = editor.document;
    const trace = await this.traces.of(uri, { line: editor.selection.active.line });
    const target = trace?.target;
    await work({ uri: uri.toString(), ...(target ? { target } : {}) });
  }

  #open(panel: vscode.WebviewPanel): void {
    const { extensionUri } = this.context;
    const roots = ["dist", "media"].map((name) => vscode.Uri.joinPath(extensionUri, name));
    panel.webview.options = { enableScripts: true, localResourceRoots: roots };
    panel.iconPath = vscode.Uri.joinPath(extensionUri, "media", "trace.svg");
    this.#panel = panel;
    panel.onDidDispose(() => {
      this.#panel = undefined;
      this.#shown = undefined;
    });
    panel.onDidChangeViewState(() => {
      if (panel.visible) {
        void this.#refresh();
      }
    });
    panel.webview.onDidReceiveMessage((message: FromPage) => void this.#heard(message));
    panel.webview.html = this.#page(panel.webview);
  }

  #page(webview: vscode.Webview): string {
    const resource = (...parts: string[]): string =>
      webview.asWebviewUri(vscode.Uri.joinPath(this.context.extensionUri, ...parts)).toString();
    const nonce = randomBytes(16).toString("base64");
    const policy = `default-src 'none'; style-src ${webview.cspSource} 'nonce-${nonce}'; script-src 'nonce-${nonce}'`;
    return `<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <meta http-equiv="Content-Security-Policy" content="${policy}" />
    <title>Trace</title>
    <link rel="stylesheet" href="${resource("media", "trace.css")}" />
  </head>
  <body>
    <main id="view"></main>
    <p id="news" class="news" role="status" aria-live="polite"></p>
    <script nonce="${nonce}" src="${resource("dist", "trace.js")}"></script>
  </body>
</html>`;
  }

  /** Asks for what is shown anew. Of several answers only that to the last question counts. */
  async #refresh(): Promise<void> {
    const subject = this.#subject ?? subjectOf(vscode.window.activeTextEditor);
    if (!this.#panel || !subject) {
      this.#post({ type: "nothing", words: "Put the cursor into a function or class of a Python file." });
      return;
    }
    this.#subject = subject;
    const number = ++this.#asked;
    const trace = await this.traces.of(subject.uri, subject.about);
    if (number !== this.#asked || !this.#panel) {
      return;
    }
    this.#shown = trace;
    if (trace) {
      const { target, run, file } = trace;
      if (target) {
        // From here on it is about this target, wherever edits move it.
        this.#subject = { uri: subject.uri, about: { target, run } };
      }
      this.#panel.title = `Trace of ${target || file}`;
      this.#post({ type: "trace", trace });
    } else {
      this.#panel.title = "Trace";
      const words = this.server.client
        ? "Nothing is traced in this file yet: write a probe comment above a function or a module."
        : "The server is starting.";
      this.#post({ type: "nothing", words });
    }
  }

  #followSoon(editor: vscode.TextEditor): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#follow(editor), REST);
  }

  async #follow(editor: vscode.TextEditor): Promise<void> {
    const subject = subjectOf(editor);
    if (!this.#panel || !subject) {
      return;
    }
    const { line } = subject.about;
    const trace = await this.traces.of(subject.uri, subject.about);
    const shown = this.#shown;
    const other = shown?.target !== trace?.target || shown?.uri !== trace?.uri;
    // On a probe comment it is about the run with that probe.
    const probe = trace?.atProbe === true && shown?.run !== trace.run;
    if (other || probe || !shown) {
      this.#subject = subject;
      await this.#refresh();
    }
    if (line !== undefined) {
      this.#post({ type: "cursor", line });
    }
  }

  async #heard(message: FromPage): Promise<void> {
    const shown = this.#shown;
    switch (message.type) {
      case "ready":
        await this.#refresh();
        break;
      case "reveal":
        await reveal(vscode.Uri.parse(message.uri), message.range, message.focus);
        break;
      case "fix": {
        const edit = new vscode.WorkspaceEdit();
        for (const { range, newText } of message.fix.edits) {
          edit.replace(vscode.Uri.parse(message.uri), rangeOf(range), newText);
        }
        await vscode.workspace.applyEdit(edit);
        break;
      }
      case "repro": {
        const { uri, id, range } = message;
        await reveal(vscode.Uri.parse(uri), range, true);
        await this.server.command(protocol.server.repro, { uri, id });
        break;
      }
      case "target":
        if (this.#subject) {
          this.#subject = { uri: this.#subject.uri, about: { target: message.target } };
          await this.#refresh();
          if (this.#shown) {
            await reveal(this.#subject.uri, this.#shown.range, false);
          }
        }
        break;
      case "run":
        if (this.#subject) {
          const { uri, about } = this.#subject;
          const { target } = about;
          this.#subject = { uri, about: { ...(target ? { target } : {}), run: message.run } };
          await this.#refresh();
        }
        break;
      case "document":
        if (shown) {
          const name = message.kind === "graph" ? protocol.server.showGraph : protocol.server.showGuards;
          const { uri, target, number, runs } = shown;
          await this.server.command(name, { uri, target, ...(runs.length > 1 ? { probe: number } : {}) });
        }
        break;
      case "measure":
        if (shown) {
          await this.server.command(protocol.server.measure, { uri: shown.uri, target: shown.target });
        }
        break;
      case "analyze":
        if (shown) {
          await this.server.command(protocol.server.analyze, { uri: shown.uri, target: shown.target });
        }
        break;
    }
  }

  #post(message: ToPage): void {
    void this.#panel?.webview.postMessage(message);
  }

  /** Whether the button for this view has anything to show in the active editor. */
  async #offer(): Promise<void> {
    const editor = vscode.window.activeTextEditor;
    const python = editor?.document.languageId === "python";
    const trace = python ? await this.traces.of(editor.document.uri, {}) : undefined;
    await vscode.commands.executeCommand("setContext", "fullgraph.hasTargets", !!trace?.target);
  }

  dispose(): void {
    clearTimeout(this.#timer);
    this.#panel?.dispose();
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

function subjectOf(editor: vscode.TextEditor | undefined): Subject | undefined {
  if (editor?.document.languageId !== "python" || editor.document.uri.scheme === "fullgraph") {
    return undefined;
  }
  return { uri: editor.document.uri, about: { line: editor.selection.active.line } };
}

async function reveal(uri: vscode.Uri, range: Range, focus: boolean): Promise<void> {
  const selection = rangeOf(range);
  const open = vscode.window.visibleTextEditors.find(
    (editor) => editor.document.uri.toString() === uri.toString(),
  );
  const editor = await vscode.window.showTextDocument(uri, {
    viewColumn: open?.viewColumn ?? vscode.ViewColumn.One,
    preserveFocus: !focus,
    selection,
  });
  editor.revealRange(selection, vscode.TextEditorRevealType.InCenterIfOutsideViewport);
}

function rangeOf({ start, end }: Range): vscode.Range {
  return new vscode.Range(start.line, start.character, end.line, end.character);
}
