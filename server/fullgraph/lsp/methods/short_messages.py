"""Handlers of a few lines each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from fullgraph.lsp import commands
from fullgraph.lsp.context import ServerContext
from fullgraph.lsp.server_capabilities import FOCUSED, TRUST
from fullgraph.session.documents import TextChange
from fullgraph_engine.protocol.recorded import FILE


def shut_down(context: ServerContext, params: None) -> None:
    """Cancel all work of the server; afterwards only the notification ``exit`` is accepted."""
    context.connection.protocol.shut_down()
    context.connection.run_in_background(context.session.close())


def exit_server(context: ServerContext, params: None) -> None:
    """Stop the server."""
    context.connection.stop()


def set_trace(context: ServerContext, params: types.SetTraceParams) -> None:
    """Store the value without any effect; clients send it although no capability asks for it."""
    context.connection.protocol.trace = params.value


def open_text(context: ServerContext, params: types.DidOpenTextDocumentParams) -> None:
    """Begin to analyze a file that the user opened."""
    text = params.text_document
    context.session.open(text.uri, text.text, text.version, text.language_id)


def change_text(context: ServerContext, params: types.DidChangeTextDocumentParams) -> None:
    """Apply the user's edit of an open file."""
    changes = [_to_change(change) for change in params.content_changes]
    context.session.files.change(params.text_document.uri, changes, params.text_document.version)


def _to_change(change: types.TextDocumentContentChangeEvent) -> TextChange:
    if isinstance(change, types.TextDocumentContentChangeWholeDocument):
        return TextChange(change.text)
    start, end = change.range.start, change.range.end
    return TextChange(change.text, (start.line, start.character), (end.line, end.character))


def save_text(context: ServerContext, params: types.DidSaveTextDocumentParams) -> None:
    """Analyze a saved file."""
    context.session.files.save(params.text_document.uri)


def close_text(context: ServerContext, params: types.DidCloseTextDocumentParams) -> None:
    """Stop the analysis of a file that the user closed."""
    context.session.close_text(params.text_document.uri)


def cancel_progress(context: ServerContext, params: types.WorkDoneProgressCancelParams) -> None:
    """Cancel the trace or job whose progress bar the user cancelled."""
    context.progress.cancel(params.token)


def change_configuration(
    context: ServerContext, params: types.DidChangeConfigurationParams
) -> None:
    """Apply the client's changed settings."""
    if context.configuration.can_request:
        # For clients that answer requests for settings, this notification is only a hint; the
        # settings in it are often empty.
        context.configuration.request_settings()
    else:
        context.configuration.accept_settings(params.settings)


def change_folders(context: ServerContext, params: types.DidChangeWorkspaceFoldersParams) -> None:
    """Apply the folders that the user added to the workspace or removed from it."""
    context.session.change_folders(
        [folder.uri for folder in params.event.added],
        [folder.uri for folder in params.event.removed],
    )
    context.configuration.request_settings()


def change_watched_files(context: ServerContext, params: types.DidChangeWatchedFilesParams) -> None:
    """Handle changes on disk of ``pyproject.toml``, of a recording of a program's run, or of Python
    files."""
    if any(change.uri.endswith("/pyproject.toml") for change in params.changes):
        context.session.apply_settings()
    if any(change.uri.endswith(f"/{FILE}") for change in params.changes):
        context.session.files.reconsider_all()
    context.session.files.reconsider_changed(
        [c.uri for c in params.changes if c.uri.endswith(".py")]
    )


def receive_focus(context: ServerContext, params: Any) -> None:
    """Handle that the editor's window received the focus."""
    context.session.engines.retry_failed()


def change_trust(context: ServerContext, params: Any) -> None:
    """Apply the trust that the user granted to this workspace or withdrew."""
    trusted = getattr(params, "trusted", False) is True
    context.session.trust(trusted)
    if not trusted:
        context.repros.jobs.cancel()


def pull_diagnostics(context: ServerContext, params: types.DocumentDiagnosticParams) -> Any:
    """Return the currently known findings of a file, without waiting for a trace.

    When a trace reports new findings, the server asks the client to pull again.
    """
    if not context.client.pull_diagnostics:
        # The server pushes findings to clients of this kind; returning them here would show each
        # finding twice.
        return {"kind": "full", "items": []}
    unit = context.find_unit(params.text_document.uri)
    return context.publication.answer_pull(unit, params.previous_result_id)


async def execute_command(context: ServerContext, params: types.ExecuteCommandParams) -> Any:
    """Run one of the commands of :mod:`fullgraph.lsp.commands`."""
    command = commands.COMMANDS_BY_NAME.get(params.command)
    if command is None:
        raise JsonRpcInvalidParams(f"There is no command {params.command!r}.")
    return await command(context, list(params.arguments or ()))


async def read_document(
    context: ServerContext, params: types.TextDocumentContentParams
) -> types.TextDocumentContentResult:
    """Return the text of a document whose URI has the scheme ``fullgraph``."""
    return types.TextDocumentContentResult(text=await context.documents.read_content(params.uri))


HANDLERS: Mapping[str, Callable[[ServerContext, Any], Any]] = {
    types.SHUTDOWN: shut_down,
    types.EXIT: exit_server,
    types.SET_TRACE: set_trace,
    types.TEXT_DOCUMENT_DID_OPEN: open_text,
    types.TEXT_DOCUMENT_DID_CHANGE: change_text,
    types.TEXT_DOCUMENT_DID_SAVE: save_text,
    types.TEXT_DOCUMENT_DID_CLOSE: close_text,
    types.WINDOW_WORK_DONE_PROGRESS_CANCEL: cancel_progress,
    types.WORKSPACE_DID_CHANGE_CONFIGURATION: change_configuration,
    types.WORKSPACE_DID_CHANGE_WORKSPACE_FOLDERS: change_folders,
    types.WORKSPACE_DID_CHANGE_WATCHED_FILES: change_watched_files,
    types.TEXT_DOCUMENT_DIAGNOSTIC: pull_diagnostics,
    types.WORKSPACE_EXECUTE_COMMAND: execute_command,
    types.WORKSPACE_TEXT_DOCUMENT_CONTENT: read_document,
    FOCUSED: receive_focus,
    TRUST: change_trust,
}
"""Handlers by the method of the message."""
