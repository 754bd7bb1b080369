// What the server knows of targets, for all who show it.

import * as vscode from "vscode";

import * as protocol from "../protocol";
import type { Server } from "../server";
import type { Trace } from "./content";

/** Milliseconds for which changes are gathered before anybody asks again. */
const PAUSE = 80;

export class Traces implements vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<vscode.Uri>();
  readonly #disposables: vscode.Disposable[] = [this.#changed];
  readonly #waiting = new Map<string, NodeJS.Timeout>();

  /** What was traced of a text is not what it was. */
  readonly onDidChange = this.#changed.event;

  constructor(private readonly server: Server) {
    this.#disposables.push(
      server.onDidChange(({ uri }) => {
        const key = uri.toString();
        if (!this.#waiting.has(key)) {
          const tell = (): void => {
            this.#waiting.delete(key);
            this.#changed.fire(uri);
          };
          this.#waiting.set(key, setTimeout(tell, PAUSE));
        }
      }),
    );
  }

  /** What is known of the target at a line, or of the one that is named. */
  async of(uri: vscode.Uri, about: protocol.About): Promise<Trace | undefined> {
    const { client } = this.server;
    if (!client) {
      return undefined;
    }
    try {
      const answer = await client.sendRequest(protocol.trace, {
        uri: client.code2ProtocolConverter.asUri(uri),
        ...about,
      });
      return answer ?? undefined;
    } catch {
      // The server is ending; whoever asks will be told of a change when there is another.
      return undefined;
    }
  }

  dispose(): void {
    for (const timer of this.#waiting.values()) {
      clearTimeout(timer);
    }
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}
