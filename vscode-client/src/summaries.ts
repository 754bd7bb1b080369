// What the server knows of the file in the active editor as a whole.

import * as vscode from "vscode";

import * as protocol from "./protocol";
import type { Server } from "./server";

/** Milliseconds for which changes are gathered before the server is asked again. */
const PAUSE = 80;

/** Most requests, and milliseconds between them, for a file that the server does not have yet. */
const ATTEMPTS = 20;
const WAIT = 250;

/** Those of the documents that the server receives. */
const SCHEMES = ["file", "untitled"];

export class Summaries implements vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #disposables: vscode.Disposable[];
  #current: protocol.FileSummary | undefined;
  #timer: NodeJS.Timeout | undefined;
  #asked = 0;

  /** The summary of the active file has changed, or another file is active. */
  readonly onDidChange = this.#changed.event;

  constructor(
    private readonly server: Server,
    statusChanged: vscode.Event<void>,
  ) {
    this.#disposables = [
      this.#changed,
      server.onDidChange(({ uri }) => {
        if (uri.toString() === activePython()?.uri.toString()) {
          this.#refreshSoon();
        }
      }),
      statusChanged(() => this.#refreshSoon()),
      vscode.window.onDidChangeActiveTextEditor(() => {
        this.#set(undefined);
        void this.#refresh();
      }),
    ];
  }

  /** The summary of the active Python file; undefined while the server has not sent it. */
  get current(): protocol.FileSummary | undefined {
    return this.#current;
  }

  #refreshSoon(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      void this.#refresh();
    }, PAUSE);
  }

  /**
   * Requests the summary again. Of several answers only that to the last request counts. An editor
   * becomes active before the server receives its text, so that the first answer may be empty.
   */
  async #refresh(attempts = ATTEMPTS): Promise<void> {
    const number = ++this.#asked;
    const { client } = this.server;
    const uri = activePython()?.uri;
    let answer: protocol.FileSummary | null = null;
    if (client && uri) {
      try {
        answer = await client.sendRequest(protocol.file, {
          uri: client.code2ProtocolConverter.asUri(uri),
        });
      } catch {
        // The server is ending; the next change of its status requests the summary again.
      }
    }
    if (number !== this.#asked) {
      return;
    }
    this.#set(answer ?? undefined);
    if (client && uri && !answer && attempts > 1) {
      setTimeout(() => {
        if (number === this.#asked) {
          void this.#refresh(attempts - 1);
        }
      }, WAIT);
    }
  }

  #set(summary: protocol.FileSummary | undefined): void {
    if (JSON.stringify(summary) !== JSON.stringify(this.#current)) {
      this.#current = summary;
      this.#changed.fire();
    }
  }

  dispose(): void {
    clearTimeout(this.#timer);
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

function activePython(): vscode.TextDocument | undefined {
  const document = vscode.window.activeTextEditor?.document;
  const scheme = document?.uri.scheme ?? "";
  return document?.languageId === "python" && SCHEMES.includes(scheme) ? document : undefined;
}
