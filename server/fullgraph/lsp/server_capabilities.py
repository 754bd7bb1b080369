"""The capabilities of this server, for the answer to ``initialize``.

They are plain data, so that they can be sent before the protocol library is loaded.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fullgraph import __version__
from fullgraph.session.capabilities import ClientCapabilities

if TYPE_CHECKING:
    from lsprotocol import types

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
APPLY_MEASURED = "fullgraph.server.applyMeasured"
TOGGLE_GUARDS = "fullgraph.server.toggleGuards"
TOGGLE_UNTRACED = "fullgraph.server.toggleUntraced"
REPRO = "fullgraph.server.repro"
REPRO_ISSUE = "fullgraph.server.reproIssue"
ALLOW = "fullgraph.server.allow"
EXPLAIN_FIXES = "fullgraph.server.explainFixes"
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
    APPLY_MEASURED,
    TOGGLE_GUARDS,
    TOGGLE_UNTRACED,
    REPRO,
    REPRO_ISSUE,
    ALLOW,
    EXPLAIN_FIXES,
)
"""Names of commands that the server executes. Clients' commands have other names, because VS Code
rejects duplicates."""

SHOW_KIND = "source.fullgraph.show"
"""Kind of code actions that open a document about a traced function; clients list them last."""

COPY_ISSUE = "fullgraph.copyIssue"
"""Client command that copies the text of the ``REPRO_ISSUE`` answer to the clipboard."""

CLIENT_ALLOW = "fullgraph.allow"
"""Client command that adds an entry to the user's setting ``sandbox.allow``."""

REPRO_KIND = "quickfix.fullgraph.repro"
"""Kind of code actions that reduce a finding to a script; clients list them with the fixes of a
diagnostic."""

FIX_ALL_KIND = "source.fixAll.fullgraph"
"""Kind of the code action that applies all safe fixes of a file; editors may run it on save."""

REDUCE_KIND = "source.fullgraph.reduce"
"""Kind of code actions that compile a function with a backend and reduce failures to a script."""

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
"""Types of semantic tokens; the tokens refer to them by index."""

STATUS = "fullgraph/status"
TRUST = "fullgraph/trust"
FOCUSED = "fullgraph/focused"
"""Notification from the client that its window received the focus."""
TRACE = "fullgraph/trace"
FILE_SUMMARY = "fullgraph/file"
CHANGED = "fullgraph/changed"
"""Notification to clients that display traces: the answer to a ``TRACE`` request may have
changed."""


def initialize_result(client: ClientCapabilities) -> dict[str, Any]:
    """Return the ``InitializeResult`` of LSP as JSON data, limited to what the client supports."""
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
            # "," is not in the list, because a list of completions would cover the signature help.
            # Blanks and brackets trigger completions in probe comments; elsewhere the answer is
            # empty.
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
    if client.notebooks:
        selector = {"notebook": "jupyter-notebook", "cells": [{"language": "python"}]}
        capabilities["notebookDocumentSync"] = {"notebookSelector": [selector], "save": True}
    if client.pull_diagnostics:
        # Send this capability only to clients that support pulling: they begin to pull as soon as
        # they see it.
        capabilities["diagnosticProvider"] = {
            "identifier": "fullgraph",
            "interFileDependencies": True,
            "workspaceDiagnostics": False,
        }
    return {
        "capabilities": capabilities,
        "serverInfo": {"name": "fullgraph", "version": __version__},
    }


def is_requested(kind: str, only: Iterable[types.CodeActionKind | str] | None) -> bool:
    """Whether a request for code actions includes ``kind``. ``only`` lists the requested kinds;
    None includes all kinds."""
    return only is None or any(_includes_kind(requested, kind) for requested in only)


def _includes_kind(requested: types.CodeActionKind | str, kind: str) -> bool:
    name = requested.value if isinstance(requested, enum.Enum) else requested
    return not name or name == kind or kind.startswith(f"{name}.")
