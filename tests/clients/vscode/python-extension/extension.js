// The environments of the Python extension, as far as others use them. Which is active stands in
// files beside the workspace, one path each; `python.setInterpreter` takes the next.

const fs = require("node:fs");
const path = require("node:path");
const vscode = require("vscode");

exports.activate = (context) => {
  const folder = vscode.workspace.workspaceFolders[0].uri.fsPath;
  const known = fs.readFileSync(path.join(folder, "interpreters.txt"), "utf8").trim().split("\n");
  const changed = new vscode.EventEmitter();
  let active = 0;
  context.subscriptions.push(
    changed,
    vscode.commands.registerCommand("python.setInterpreter", () => {
      active = (active + 1) % known.length;
      changed.fire({ path: known[active] });
    }),
    vscode.commands.registerCommand("stub.nothing", () => changed.fire({ path: known[active] })),
    // Insists on its own, whatever the other extension changes to; that does not give in at once.
    vscode.commands.registerCommand("stub.quarrel", async () => {
      const other = await vscode.extensions.getExtension("ms-python.vscode-python-envs").activate();
      const mine = { execInfo: { run: { executable: known[active] } } };
      const insisting = other.onDidChangeEnvironment(async (event) => {
        changed.fire({ path: known[active] });
        if (event.new?.execInfo.run.executable !== known[active]) {
          await other.setEnvironment(undefined, mine);
        }
      });
      for (let count = 0; count < 10; count += 1) {
        await vscode.commands.executeCommand("stub.environment");
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      insisting.dispose();
    }),
  );
  return {
    environments: {
      getActiveEnvironmentPath: () => ({ id: known[active], path: known[active] }),
      resolveEnvironment: async ({ path: python }) => ({
        executable: { uri: vscode.Uri.file(python) },
      }),
      onDidChangeActiveEnvironmentPath: changed.event,
    },
  };
};
