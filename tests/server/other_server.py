"""Another language server for tests of ``fullgraph server --with``.

It answers each request with the name of the method; a text with ``# end`` ends it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

CAPABILITIES = {
    "textDocumentSync": 1,
    "hoverProvider": True,
    "definitionProvider": True,
    "completionProvider": {"triggerCharacters": ["."], "resolveProvider": True},
    "codeActionProvider": {"codeActionKinds": ["quickfix"]},
    "executeCommandProvider": {"commands": ["other.command"]},
}


def send(message: dict[str, Any]) -> None:
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    sys.stdout.buffer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    sys.stdout.buffer.flush()


def read() -> dict[str, Any]:
    length = 0
    while line := sys.stdin.buffer.readline().strip():
        length = int(line.partition(b":")[2])
    if not length:
        sys.exit(1)
    return dict(json.loads(sys.stdin.buffer.read(length)))


def diagnose(params: dict[str, Any]) -> None:
    document = params["textDocument"]
    text = document.get("text") or params["contentChanges"][-1]["text"]
    if "# end" in text:
        sys.exit(3)
    place = {"start": {"line": 0, "character": 0}, "end": {"line": 0, "character": 1}}
    found = {"range": place, "message": "from the other server", "source": "other"}
    published = {"uri": document["uri"], "diagnostics": [found]}
    send({"method": "textDocument/publishDiagnostics", "params": published})


def answer(method: str, params: Any) -> Any:
    if method == "initialize":
        return {"capabilities": CAPABILITIES, "serverInfo": {"name": "other"}}
    if method == "textDocument/hover":
        return {"contents": "hover of the other server"}
    if method == "textDocument/completion":
        return [{"label": "other", "data": 7}]
    if method == "completionItem/resolve":
        return {**params, "detail": f"resolved {params['data']}"}
    if method == "textDocument/codeAction":
        sources = [one.get("source") for one in params["context"]["diagnostics"]]
        return [{"title": f"action for {sources}", "kind": "quickfix"}]
    return None if method == "shutdown" else {"method": method}


def main() -> None:
    while True:
        message = read()
        method = message.get("method", "")
        if method == "exit":
            sys.exit(0)
        if "id" not in message:
            if method in ("textDocument/didOpen", "textDocument/didChange"):
                diagnose(message["params"])
            if method == "initialized":
                request = {"items": [{"section": "other"}]}
                send({"id": 1, "method": "workspace/configuration", "params": request})
        elif method == "textDocument/rename":
            error = {"code": -32602, "message": "no name here"}
            send({"id": message["id"], "error": error})
        elif method:
            send({"id": message["id"], "result": answer(method, message.get("params"))})
        else:
            text = f"configured: {message.get('result')}"
            send({"method": "window/logMessage", "params": {"type": 3, "message": text}})


if __name__ == "__main__":
    main()
