"""What this server offers, in answer to ``initialize``.

Plain data, so that it can be said before the protocol library is loaded.
"""

from __future__ import annotations

from typing import Any

from fullgraph import __version__
from fullgraph.session.capabilities import ClientCapabilities

ANALYZE = "fullgraph.server.analyze"
CANCEL = "fullgraph.server.cancel"
RESTART_ENGINE = "fullgraph.server.restartEngine"
DEBUG_INFORMATION = "fullgraph.server.debugInformation"
SHOW_GRAPH = "fullgraph.server.showGraph"
SHOW_GUARDS = "fullgraph.server.showGuards"
SHOW_EVENTS = "fullgraph.server.showEvents"
SHOW_BYTECODE = "fullgraph.server.showBytecode"
SHOW_TIMINGS = "fullgraph.server.showTimings"
MEASURE = "fullgraph.server.measure"
TOGGLE_GUARDS = "fullgraph.server.toggleGuards"
TOGGLE_UNTRACED = "fullgraph.server.toggleUntraced"
REPRO = "fullgraph.server.repro"
REPRO_ISSUE = "fullgraph.server.reproIssue"
ALLOW = "fullgraph.server.allow"
COMMANDS = (
    ANALYZE,
    CANCEL,
    RESTART_ENGINE,
    DEBUG_INFORMATION,
    SHOW_GRAPH,
    SHOW_GUARDS,
    SHOW_EVENTS,
    SHOW_BYTECODE,
    SHOW_TIMINGS,
    MEASURE,
    TOGGLE_GUARDS,
    TOGGLE_UNTRACED,
    REPRO,
    REPRO_ISSUE,
    ALLOW,
)
"""Named apart from the commands of clients: VS Code refuses a name that is registered twice."""

SHOW_KIND = "source.fullgraph.show"
"""Of code actions that open a document: where a client lists all, they are the last."""

COPY_ISSUE = "fullgraph.copyIssue"
"""A command of clients that put the text of ``REPRO_ISSUE``'s answer on the clipboard."""

CLIENT_ALLOW = "fullgraph.allow"
"""A command of clients that adds an entry to the user's setting ``sandbox.allow``, or says how."""

REPRO_KIND = "quickfix.fullgraph.repro"
"""Of code actions that make a repro: where a client shows those at a diagnostic, beside fixes."""

FIX_ALL_KIND = "source.fixAll.fullgraph"
"""Of the code action that applies all safe fixes of a file; editors may do so on save."""

REDUCE_KIND = "source.fullgraph.reduce"
"""Of code actions that compile a target with a backend, which nothing else does."""

TOKEN_TYPES = (
    "type",
    "variable",
    "number",
    "parameter",
    "class",
    "method",
    "keyword",
    "string",
    "enumMember",
)
"""Of semantic tokens, in the order of the legend."""

STATUS = "fullgraph/status"
TRUST = "fullgraph/trust"
FOCUSED = "fullgraph/focused"
"""From clients whose user came back to the window."""
TRACE = "fullgraph/trace"
CHANGED = "fullgraph/changed"
"""For clients that show what ``TRACE`` answers: it may answer something else now."""


def initialize_result(client: ClientCapabilities) -> dict[str, Any]:
    """The ``InitializeResult`` of LSP as JSON data, as far as the client supports what is in it."""
    capabilities: dict[str, Any] = {
        "positionEncoding": client.encoding.value,
        "textDocumentSync": {
            "openClose": True,
            "change": 2,
            "save": {"includeText": False},
        },
        "hoverProvider": True,
        "inlayHintProvider": {"resolveProvider": True},
        "codeLensProvider": {"resolveProvider": False},
        "completionProvider": {
            # Not ",": there a list would cover what signature help shows. Blanks and brackets are
            # for probe comments, and answered with nothing elsewhere.
            "triggerCharacters": [".", "=", '"', "'", " ", "[", "@", "("],
            "resolveProvider": True,
        },
        "signatureHelpProvider": {
            "triggerCharacters": ["(", ","],
            "retriggerCharacters": ["=", ")"],
        },
        "executeCommandProvider": {"commands": list(COMMANDS)},
        "workspace": {"workspaceFolders": {"supported": True, "changeNotifications": True}},
    }
    if client.semantic_tokens:
        capabilities["semanticTokensProvider"] = {
            "legend": {"tokenTypes": list(TOKEN_TYPES), "tokenModifiers": []},
            "full": True,
        }
    if client.code_action_literals:
        capabilities["codeActionProvider"] = {
            "codeActionKinds": [
                "quickfix",
                "refactor.rewrite",
                FIX_ALL_KIND,
                SHOW_KIND,
                REDUCE_KIND,
            ]
        }
    if client.pull_diagnostics:
        # Only where findings are pulled: a client that sees this offer pulls as well.
        capabilities["diagnosticProvider"] = {
            "identifier": "fullgraph",
            "interFileDependencies": True,
            "workspaceDiagnostics": False,
        }
    return {
        "capabilities": capabilities,
        "serverInfo": {"name": "fullgraph", "version": __version__},
    }
