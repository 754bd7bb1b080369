// The environments of the Python environments extension, as far as others use them. Which there
// are stands in a file beside the workspace, one interpreter a line; an empty line is none.

const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

exports.activate = (context) => {
  const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const known = fs.readFileSync(path.join(folder, "environments.txt"), "utf8").split("\n");
  const changed = new vscode.EventEmitter();
  let active = known[0];
  const environment = (python) =>
    python ? { name: path.basename(python), execInfo: { run: { executable: python } } } : undefined;
  const choose = (python) => {
    const old = environment(active);
    active = python;
    changed.fire({ uri: undefined, old, new: environment(active) });
  };
  context.subscriptions.push(
    changed,
    vscode.commands.registerCommand("stub.environment", () =>
      choose(known[(known.indexOf(active) + 1) % known.length]),
    ),
  );
  return {
    getEnvironment: async () => environment(active),
    setEnvironment: async (scope, chosen) => choose(chosen?.execInfo.run.executable ?? ""),
    onDidChangeEnvironment: changed.event,
  };
};
