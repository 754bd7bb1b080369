// The entry of the language status (beside "Python" in the status bar).

import * as vscode from "vscode";

import type { State, Status } from "./protocol";

const SELECTOR: vscode.DocumentSelector = [{ language: "python" }];

const WORDS: Record<State, string> = {
  stopped: "stopped",
  untrusted: "not trusted",
  starting: "starting",
  ready: "ready",
  tracing: "tracing",
  unusable: "cannot trace",
  crashed: "the engine crashed",
};

export class LanguageStatus implements vscode.Disposable {
  readonly #item: vscode.LanguageStatusItem;
  readonly #versions: vscode.LanguageStatusItem;
  /** There is none before something is known of the sandbox. */
  #sandbox: vscode.LanguageStatusItem | undefined;
  #last: { readonly at: Date; readonly seconds: number } | undefined;
  #began: number | undefined;
  #status: Status | undefined;
  readonly #changed = new vscode.EventEmitter<void>();

  /** Something of what is shown is other than it was. */
  readonly onDidChange = this.#changed.event;

  constructor(private readonly version: string) {
    this.#item = vscode.languages.createLanguageStatusItem("fullgraph.status", SELECTOR);
    this.#item.name = "fullgraph";
    this.#item.command = { title: "Show Logs", command: "fullgraph.showLogs" };
    this.#versions = vscode.languages.createLanguageStatusItem("fullgraph.versions", SELECTOR);
    this.#versions.name = "fullgraph: torch";
    this.#versions.command = { title: "Interpreter", command: "fullgraph.selectInterpreter" };
    this.starting();
  }

  /** The state in a word or two. */
  get words(): string {
    return this.#item.text.replace("fullgraph: ", "");
  }

  get detail(): string {
    return this.#item.detail ?? "";
  }

  get busy(): boolean {
    return this.#item.busy;
  }

  get bad(): boolean {
    return this.#item.severity === vscode.LanguageStatusSeverity.Error;
  }

  /** Of torch, Python and fullgraph. */
  get versions(): string {
    return [this.#versions.text, this.#versions.detail].filter(Boolean).join(" · ");
  }

  /** What the server last said of itself. */
  get current(): Status | undefined {
    return this.#status;
  }

  starting(): void {
    this.#status = undefined;
    this.#show("starting", "the server is starting", vscode.LanguageStatusSeverity.Information, true);
  }

  stopped(words: string): void {
    this.#status = undefined;
    this.#show("stopped", words, vscode.LanguageStatusSeverity.Error, false);
  }

  said(status: Status): void {
    this.#status = status;
    if (status.busy) {
      this.#began ??= Date.now();
    } else if (this.#began !== undefined) {
      this.#last = { at: new Date(), seconds: (Date.now() - this.#began) / 1000 };
      this.#began = undefined;
    }
    const { LanguageStatusSeverity: Severity } = vscode;
    const bad = status.state === "unusable" || status.state === "crashed";
    const severity = bad ? Severity.Error : Severity.Information;
    const busy = status.busy || status.state === "starting";
    this.#show(WORDS[status.state], this.#detail(status, bad), severity, busy);
  }

  #detail(status: Status, bad: boolean): string {
    if (bad || status.state === "untrusted") {
      return `${status.message} ${status.nextStep}`.trim();
    }
    if (!this.#last) {
      return "";
    }
    const { at, seconds } = this.#last;
    const took = seconds < 1 ? `${Math.round(seconds * 1000)} ms` : `${seconds.toFixed(1)} s`;
    return `last run ${took}, at ${at.toLocaleTimeString(undefined, { hourCycle: "h23" })}`;
  }

  #show(
    words: string,
    detail: string,
    severity: vscode.LanguageStatusSeverity,
    busy: boolean,
  ): void {
    this.#item.text = `fullgraph: ${words}`;
    this.#item.detail = detail;
    this.#item.severity = severity;
    this.#item.busy = busy;
    const { torch, python, interpreter, why } = this.#status ?? {};
    this.#versions.text = torch ? `torch ${torch}` : "no torch yet";
    const versions = [
      python ? `Python ${python}` : "",
      `fullgraph ${this.version}`,
      why ? `${interpreter}, ${why}` : "",
    ];
    this.#versions.detail = versions.filter(Boolean).join(" · ");
    this.#showSandbox(this.#status?.sandbox ?? "");
    this.#changed.fire();
  }

  #showSandbox(words: string): void {
    if (!words) {
      this.#sandbox?.dispose();
      this.#sandbox = undefined;
      return;
    }
    this.#sandbox ??= vscode.languages.createLanguageStatusItem("fullgraph.sandbox", SELECTOR);
    this.#sandbox.name = "fullgraph: sandbox";
    this.#sandbox.text = words;
    this.#sandbox.command = { title: "Details", command: "fullgraph.debugInformation" };
  }

  dispose(): void {
    this.#changed.dispose();
    this.#item.dispose();
    this.#versions.dispose();
    this.#sandbox?.dispose();
  }
}
