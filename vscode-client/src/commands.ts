// What the user can ask for by name, and what lenses and hovers ask for.

import * as vscode from "vscode";

import { pythonEditor } from "./documents";
import { Environments } from "./environments";
import { type Installed, installedPythons } from "./interpreter";
import { type Texts, goToFinding } from "./findings";
import { showMenu } from "./menu";
import { type Place, server as names } from "./protocol";
import type { Server } from "./server";
import type { LanguageStatus } from "./status";
import type { Summaries } from "./summaries";
import type { TraceView } from "./trace/view";

interface Parts {
  readonly context: vscode.ExtensionContext;
  readonly server: Server;
  readonly status: LanguageStatus;
  readonly summaries: Summaries;
  readonly view: TraceView;
  readonly texts: Texts;
  readonly log: vscode.LogOutputChannel;
}

/** Where a hover points to. */
interface Spot {
  readonly uri: string;
  readonly line: number;
  readonly character: number;
}

export function registerCommands(parts: Parts): vscode.Disposable[] {
  const { context, server, status, summaries, view, texts, log } = parts;
  const commands: Record<string, (...parameters: never[]) => unknown> = {
    "fullgraph.showTrace": (spot?: Spot | vscode.Uri) =>
      spot === undefined || spot instanceof vscode.Uri
        ? view.showAtCursor(spot)
        : view.show(vscode.Uri.parse(spot.uri), { line: spot.line }),
    // What the lens above a target does.
    "fullgraph.showTarget": ({ uri, target = "", probe = 0 }: Place) =>
      view.show(vscode.Uri.parse(uri), { target, probe }),
    "fullgraph.showFinding": (spot: Spot) =>
      texts.show(vscode.Uri.parse(spot.uri), new vscode.Position(spot.line, spot.character)),
    "fullgraph.nextFinding": () => goToFinding(true),
    "fullgraph.previousFinding": () => goToFinding(false),
    "fullgraph.showFixes": showFixes,
    "fullgraph.showMenu": () => showMenu(context.extension, status, summaries),
    // What the lens of a file does of which nothing was traced.
    "fullgraph.explainFile": () => showMenu(context.extension, status, summaries),
    "fullgraph.copyIssue": async (place: Place) => {
      const answer = await server.command<{ text?: string }>(names.reproIssue, place);
      if (answer?.text) {
        await vscode.env.clipboard.writeText(answer.text);
        void vscode.window.showInformationMessage("fullgraph: The issue is on the clipboard.");
      }
    },
    "fullgraph.allow": allow,
    "fullgraph.reproTimeBudget": reproTimeBudget,
    "fullgraph.analyzeFile": () => inEditor((uri) => server.command(names.analyze, uri)),
    "fullgraph.cancelAnalysis": () => server.command(names.cancel),
    "fullgraph.showGraph": () => view.atTarget((place) => server.command(names.showGraph, place)),
    "fullgraph.showGuards": () => view.atTarget((place) => server.command(names.showGuards, place)),
    "fullgraph.showEvents": () => view.atTarget((place) => server.command(names.showEvents, place)),
    "fullgraph.showBytecode": () =>
      view.atTarget((place) => server.command(names.showBytecode, place)),
    "fullgraph.showTimings": () => inEditor((uri) => server.command(names.showTimings, uri)),
    "fullgraph.measure": () => view.atTarget((place) => server.command(names.measure, place)),
    "fullgraph.toggleGuards": () =>
      view.atTarget((place) => server.command(names.toggleGuards, place)),
    "fullgraph.toggleUntraced": () =>
      view.atTarget((place) => server.command(names.toggleUntraced, place)),
    "fullgraph.toggleGutter": async () => {
      const settings = vscode.workspace.getConfiguration("fullgraph");
      const now = settings.get<boolean>("gutter.enabled") === true;
      await settings.update("gutter.enabled", !now, vscode.ConfigurationTarget.Global);
    },
    "fullgraph.selectInterpreter": () => selectInterpreter(status.current?.interpreter ?? ""),
    "fullgraph.restartEngine": () => server.command(names.restartEngine),
    "fullgraph.restartServer": () => server.restart(),
    "fullgraph.showLogs": () => log.show(),
    "fullgraph.debugInformation": () => showDebugInformation(server, texts),
    "fullgraph.openSample": () => openSample(context),
  };
  return Object.entries(commands).map(([name, command]) =>
    vscode.commands.registerCommand(name, command as (...parameters: unknown[]) => unknown),
  );
}

/** Adds an entry to the user's own setting, which no workspace can change. */
async function allow({ entry }: { readonly entry: string }): Promise<void> {
  const settings = vscode.workspace.getConfiguration("fullgraph");
  const now = settings.inspect<string[]>("sandbox.allow")?.globalValue ?? [];
  if (!now.includes(entry)) {
    await settings.update("sandbox.allow", [...now, entry], vscode.ConfigurationTarget.Global);
  }
  const words = `fullgraph: Your user settings allow ${entry} now, in all workspaces.`;
  if ((await vscode.window.showInformationMessage(words, "Show Setting")) !== undefined) {
    const command = "workbench.action.openSettings";
    await vscode.commands.executeCommand(command, "fullgraph.sandbox.allow");
  }
}

/** Asks how long repros may take. One that is being made begins anew with another limit. */
async function reproTimeBudget(): Promise<void> {
  const settings = vscode.workspace.getConfiguration("fullgraph");
  const now = settings.get<number>("repro.timeBudget");
  const items = [30, 60, 120, 300, 600].map((seconds) => ({
    label: seconds < 60 ? `${seconds} seconds` : `${seconds / 60} min`,
    ...(seconds === now ? { description: "now" } : {}),
    seconds,
  }));
  const chosen = await vscode.window.showQuickPick(items, {
    title: "Time limit for making a minimal repro",
    placeHolder: "A repro that is being made starts again with the new limit",
  });
  if (chosen && chosen.seconds !== now) {
    await settings.update("repro.timeBudget", chosen.seconds, vscode.ConfigurationTarget.Global);
  }
}

/** Puts the cursor at a finding, and opens the list of its fixes there. */
async function showFixes(): Promise<void> {
  const editor = pythonEditor();
  if (editor) {
    await vscode.window.showTextDocument(editor.document, editor.viewColumn);
    goToFinding(true);
    await vscode.commands.executeCommand("editor.action.quickFix");
  } else {
    void vscode.window.showInformationMessage("fullgraph: Open a Python file first.");
  }
}

async function inEditor(work: (uri: string) => Promise<unknown>): Promise<void> {
  const document = pythonEditor()?.document;
  if (document) {
    await work(document.uri.toString());
  } else {
    void vscode.window.showInformationMessage("fullgraph: Open a Python file first.");
  }
}

/** `current`: the interpreter that traces now; empty before there is one. */
async function selectInterpreter(current: string): Promise<void> {
  const select = Environments.selectCommand;
  const set = vscode.workspace.getConfiguration("fullgraph").get<string>("interpreter");
  if (select && !set?.trim()) {
    await vscode.commands.executeCommand(select);
    return;
  }
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri;
  const python = await pickInterpreter(folder, current);
  if (python) {
    const target = folder
      ? vscode.ConfigurationTarget.Workspace
      : vscode.ConfigurationTarget.Global;
    await vscode.workspace.getConfiguration("fullgraph").update("interpreter", python, target);
  }
}

interface PythonItem extends vscode.QuickPickItem {
  /** Empty to look for another file. */
  readonly path?: string;
}

/** One of the environments that are found here, or a file that the user looks for. */
async function pickInterpreter(
  folder: vscode.Uri | undefined,
  current: string,
): Promise<string | undefined> {
  const title = "Select the Python whose torch traces the code";
  const items = installedPythons(folder, current).then((found) => pythonItems(found, current));
  const chosen = await vscode.window.showQuickPick(items, {
    title,
    placeHolder: current ? `Now: ${current}` : "No Python is used yet",
    matchOnDetail: true,
    matchOnDescription: true,
  });
  if (chosen?.path !== "") {
    return chosen?.path;
  }
  const files = await vscode.window.showOpenDialog({
    title,
    openLabel: "Select Interpreter",
    canSelectFolders: false,
    ...(folder ? { defaultUri: folder } : {}),
  });
  return files?.[0]?.fsPath;
}

/** Those with torch come first, and of them the one that is in use. */
function pythonItems(found: readonly Installed[], current: string): PythonItem[] {
  const item = ({ path, name, version, torch }: Installed): PythonItem => ({
    label: `${path === current ? "$(check) " : ""}${name}`,
    description: [version, torch ? `torch ${torch}` : "no torch", path === current ? "in use" : ""]
      .filter(Boolean)
      .join(" · "),
    detail: path,
    path,
  });
  const usable = found.filter(({ torch }) => torch);
  const others = found.filter(({ torch }) => !torch);
  const first = usable.filter(({ path }) => path === current);
  const separator = (label: string): PythonItem => ({
    label,
    kind: vscode.QuickPickItemKind.Separator,
  });
  return [
    ...first.map(item),
    ...usable.filter((one) => !first.includes(one)).map(item),
    { label: "$(folder-opened) Browse…", path: "" },
    ...(others.length ? [separator("without torch"), ...others.map(item)] : []),
  ];
}

async function showDebugInformation(server: Server, texts: Texts): Promise<void> {
  const answer = await server.command<{ text: string }>(names.debugInformation);
  if (answer) {
    const text = `VS Code: ${vscode.version}\n${answer.text}\n`;
    await texts.showText("fullgraph debug information.yaml", text);
  }
}

/** The sample as a file of the user's own: it can be edited, and comes back as it was. */
async function openSample(context: vscode.ExtensionContext): Promise<void> {
  const source = vscode.Uri.joinPath(context.extensionUri, "walkthrough", "sample.py");
  const copy = vscode.Uri.joinPath(context.globalStorageUri, "sample.py");
  await vscode.workspace.fs.copy(source, copy, { overwrite: true });
  // The walkthrough stays visible.
  await vscode.window.showTextDocument(copy, {
    viewColumn: vscode.ViewColumn.Beside,
    preview: false,
  });
}
