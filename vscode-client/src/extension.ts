// Puts the parts together. What the extension offers is in package.json; what it knows of code,
// the server knows.

import * as vscode from "vscode";

import { registerCommands } from "./commands";
import { Texts } from "./findings";
import { Gutter, MissedLines } from "./gutter";
import { Interpreters } from "./interpreter";
import { Server } from "./server";
import { StatusBar, untrustedEntry } from "./menu";
import { LanguageStatus } from "./status";
import { Summaries } from "./summaries";
import { TraceView } from "./trace/view";
import { Traces } from "./trace/traces";

let server: Server | undefined;

export async function activate(context: vscode.ExtensionContext): Promise<void> {
  if (vscode.workspace.isTrusted) {
    await start(context);
    return;
  }
  const entry = untrustedEntry();
  const granted = vscode.workspace.onDidGrantWorkspaceTrust(() => {
    entry.dispose();
    void start(context);
  });
  context.subscriptions.push(entry, granted);
}

async function start(context: vscode.ExtensionContext): Promise<void> {
  const log = vscode.window.createOutputChannel("fullgraph", { log: true });
  const version = String((context.extension.packageJSON as { version?: unknown }).version);
  const status = new LanguageStatus(version);
  const interpreters = new Interpreters(log, context.globalState);
  server = new Server(context, interpreters, status, log);
  const traces = new Traces(server);
  const summaries = new Summaries(server, status.onDidChange);
  const view = new TraceView(context, traces, server);
  const texts = new Texts();
  context.subscriptions.push(
    log,
    status,
    interpreters,
    server,
    traces,
    view,
    texts,
    summaries,
    new Gutter(context, traces),
    new MissedLines(context, summaries),
    new StatusBar(status, summaries),
    ...registerCommands({ context, server, status, summaries, view, texts, log }),
  );
  log.info(`fullgraph ${version}, VS Code ${vscode.version}.`);
  await server.start();
}

export async function deactivate(): Promise<void> {
  await server?.stop();
}
