// One warning on the first line of each document, as soon as it is opened.

let input = Buffer.alloc(0);

function send(message) {
  const text = JSON.stringify({ jsonrpc: "2.0", ...message });
  process.stdout.write(`Content-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`);
}

function take({ id, method, params }) {
  if (method === "textDocument/didOpen") {
    const range = { start: { line: 0, character: 0 }, end: { line: 0, character: 6 } };
    const diagnostics = [{ range, severity: 2, source: "trivial", message: "Here it is." }];
    const { uri } = params.textDocument;
    send({ method: "textDocument/publishDiagnostics", params: { uri, diagnostics } });
  } else if (method === "exit") {
    process.exit(0);
  } else if (id !== undefined && method) {
    const capabilities = { textDocumentSync: 1 };
    send({ id, result: method === "initialize" ? { capabilities } : null });
  }
}

process.stdin.on("data", (data) => {
  input = Buffer.concat([input, data]);
  for (;;) {
    const end = input.indexOf("\r\n\r\n");
    const length = Number(/Content-Length: (\d+)/i.exec(input.subarray(0, end))?.[1]);
    if (end < 0 || input.length < end + 4 + length) {
      return;
    }
    const body = input.subarray(end + 4, end + 4 + length);
    input = input.subarray(end + 4 + length);
    take(JSON.parse(body));
  }
});
