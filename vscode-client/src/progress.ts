// What somebody asked for and takes long gets a notification with a button to end it. Everything
// else, above all the trace of an edit, stays in the status bar, where the language client shows it.

import * as vscode from "vscode";
import {
  type LanguageClient,
  type ProgressToken,
  WorkDoneProgressCancelNotification,
  type WorkDoneProgressBegin,
  type WorkDoneProgressEnd,
  type WorkDoneProgressReport,
} from "vscode-languageclient/node";

type Value = WorkDoneProgressBegin | WorkDoneProgressReport | WorkDoneProgressEnd;

/** What else can be done with a job of a kind, which its token names. */
const LINKS: Readonly<Record<string, string>> = {
  repro: "[Change time limit…](command:fullgraph.reproTimeBudget)",
};

/** Milliseconds that something may take before it is more than a word in the status bar. */
const PATIENCE = 5000;

export class LongProgress implements vscode.Disposable {
  readonly #running = new Map<ProgressToken, Running>();

  /** `starting`: what goes on waits for the engine, and the status bar says so. */
  constructor(
    private readonly client: () => LanguageClient | undefined,
    private readonly starting: () => boolean,
  ) {}

  heard(token: ProgressToken, value: Value): void {
    const running = this.#running.get(token);
    switch (value.kind) {
      case "begin":
        if (value.cancellable) {
          const cancel = (): void => this.#cancel(token);
          const link = LINKS[String(token).split("/")[1] ?? ""];
          this.#running.set(token, new Running(value, this.starting, cancel, link));
        }
        break;
      case "report":
        running?.report(value);
        break;
      case "end":
        running?.end();
        this.#running.delete(token);
        break;
    }
  }

  /** The server is gone, and with it all that it did. */
  clear(): void {
    for (const running of this.#running.values()) {
      running.end();
    }
    this.#running.clear();
  }

  #cancel(token: ProgressToken): void {
    void this.client()?.sendNotification(WorkDoneProgressCancelNotification.type, { token });
  }

  dispose(): void {
    this.clear();
  }
}

class Running {
  #timer: NodeJS.Timeout;
  #message: string | undefined;
  #percentage: number;
  #shown = 0;
  #progress: vscode.Progress<{ message?: string; increment?: number }> | undefined;
  #ended: (() => void) | undefined;

  constructor(
    private readonly begin: WorkDoneProgressBegin,
    private readonly starting: () => boolean,
    private readonly cancel: () => void,
    private readonly link: string | undefined,
  ) {
    this.#message = begin.message;
    this.#percentage = begin.percentage ?? 0;
    this.#timer = this.#wait();
  }

  report(value: WorkDoneProgressReport): void {
    this.#message = value.message ?? this.#message;
    this.#percentage = value.percentage ?? this.#percentage;
    this.#tell();
  }

  end(): void {
    clearTimeout(this.#timer);
    this.#ended?.();
  }

  #wait(): NodeJS.Timeout {
    return setTimeout(() => {
      if (this.starting()) {
        this.#timer = this.#wait();
      } else {
        this.#show();
      }
    }, PATIENCE);
  }

  #show(): void {
    void vscode.window.withProgress(
      {
        location: vscode.ProgressLocation.Notification,
        title: `fullgraph: ${this.begin.title}`,
        cancellable: true,
      },
      (progress, token) => {
        this.#progress = progress;
        this.#tell();
        token.onCancellationRequested(this.cancel);
        return new Promise<void>((resolve) => {
          this.#ended = resolve;
        });
      },
    );
  }

  #tell(): void {
    const increment = Math.max(0, this.#percentage - this.#shown);
    this.#shown += increment;
    const message = [this.#message, this.link].filter(Boolean).join(" · ");
    this.#progress?.report({ ...(message ? { message } : {}), increment });
  }
}
