// Starts the server, as any extension would.

const path = require("node:path");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");

exports.activate = (context) => {
  const module = path.join(context.extensionPath, "server.js");
  const client = new LanguageClient(
    "trivial",
    "trivial",
    { module, transport: TransportKind.stdio },
    { documentSelector: [{ scheme: "file", language: "python" }] },
  );
  context.subscriptions.push(client);
  return client.start();
};
