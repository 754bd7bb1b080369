"""Capabilities of the client, read once from the ``initialize`` request.

This module reads plain data, because the server answers the request before it loads the LSP
library.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fullgraph.domain.positions import Encoding


@dataclass(frozen=True)
class ClientCapabilities:
    """Client capabilities that this server uses, flattened to one level."""

    encoding: Encoding = Encoding.UTF16
    pull_diagnostics: bool = False
    """True if the client pulls diagnostics and supports a refresh request.

    Both are needed. Results arrive long after the edit, and a client without refresh (Neovim 0.11)
    would keep showing results of the edit before.
    """
    notebooks: bool = False
    """True if the client sends the cells of notebooks."""
    related_information: bool = False
    code_description: bool = False
    unnecessary_tag: bool = False
    diagnostic_data: bool = False
    diagnostic_version: bool = False
    work_done_progress: bool = False
    configuration: bool = False
    configuration_registration: bool = False
    file_watch_registration: bool = False
    code_action_literals: bool = False
    code_action_disabled: bool = False
    code_action_preferred: bool = False
    document_changes: bool = False
    apply_edit: bool = False
    code_lens_refresh: bool = False
    inlay_hint_refresh: bool = False
    completion_defaults: frozenset[str] = frozenset()
    """Properties of completion items that a completion list can set once for all items."""
    completion_resolve: frozenset[str] = frozenset()
    """Properties of completion items that the client can resolve later."""
    completion_label_details: bool = False
    completion_deprecated_tag: bool = False
    completion_deprecated: bool = False
    completion_insert_replace: bool = False
    """True if the user chooses between inserting and replacing the rest of a word."""
    completion_markdown: bool = False
    signature_markdown: bool = False
    signature_label_offsets: bool = False
    signature_active_parameter: bool = False
    """True if each signature may have its own active parameter."""
    signature_no_active_parameter: bool = False
    hover_markdown: bool = False
    semantic_tokens: bool = False
    show_document: bool = False
    text_document_content: bool = False
    """True if the client shows documents of a scheme that the server registers."""
    changed: bool = False
    """True if the client expects a notification when results of a file become outdated."""
    hover_findings: bool = False
    """True if the client displays traces, so that it is notified when the results of a file become
    outdated.
    """
    icons: bool = False
    """True if the client renders ``$(play)`` in code lens titles as an icon."""
    user_settings: bool = False
    """True if the client sends user settings apart from workspace settings."""
    commands: frozenset[str] = frozenset()
    """Commands that the client registers itself, which a code lens may name."""

    @staticmethod
    def from_capabilities(raw: object) -> ClientCapabilities:
        """Parse the ``capabilities`` of an ``initialize`` request; absent capabilities count as not
        supported.
        """

        def get_value(path: str) -> Any:
            value: Any = raw
            for key in path.split("."):
                value = value.get(key) if isinstance(value, Mapping) else None
            return value

        def is_true(path: str) -> bool:
            return get_value(path) is True

        def is_mapping(path: str) -> bool:
            return isinstance(get_value(path), Mapping)

        published = "textDocument.publishDiagnostics"
        pull = is_mapping("textDocument.diagnostic") and is_true(
            "workspace.diagnostics.refreshSupport"
        )

        def get_strings(path: str) -> frozenset[str]:
            value = get_value(path)
            found = value if isinstance(value, list) else ()
            return frozenset(text for text in found if isinstance(text, str))

        completion = "textDocument.completion"
        item = f"{completion}.completionItem"
        item_tags = get_value(f"{item}.tagSupport.valueSet")
        signature = "textDocument.signatureHelp.signatureInformation"

        # Before LSP 3.18, the tags of published diagnostics also applied to pulled diagnostics;
        # newer clients declare both.
        where = ("textDocument.diagnostic", published) if pull else (published,)
        tags = [get_value(f"{place}.tagSupport.valueSet") for place in where]
        return ClientCapabilities(
            encoding=_choose_encoding(get_value("general.positionEncodings")),
            pull_diagnostics=pull,
            notebooks=is_mapping("notebookDocument.synchronization"),
            related_information=any(is_true(f"{place}.relatedInformation") for place in where),
            code_description=any(is_true(f"{place}.codeDescriptionSupport") for place in where),
            unnecessary_tag=any(isinstance(tag, list) and 1 in tag for tag in tags),
            diagnostic_data=any(is_true(f"{place}.dataSupport") for place in where),
            diagnostic_version=is_true(f"{published}.versionSupport"),
            work_done_progress=is_true("window.workDoneProgress"),
            configuration=is_true("workspace.configuration"),
            configuration_registration=is_true(
                "workspace.didChangeConfiguration.dynamicRegistration"
            ),
            file_watch_registration=is_true("workspace.didChangeWatchedFiles.dynamicRegistration"),
            code_action_literals=is_mapping("textDocument.codeAction.codeActionLiteralSupport"),
            code_action_disabled=is_true("textDocument.codeAction.disabledSupport"),
            code_action_preferred=is_true("textDocument.codeAction.isPreferredSupport"),
            apply_edit=is_true("workspace.applyEdit"),
            document_changes=is_true("workspace.workspaceEdit.documentChanges"),
            code_lens_refresh=is_true("workspace.codeLens.refreshSupport"),
            inlay_hint_refresh=is_true("workspace.inlayHint.refreshSupport"),
            completion_defaults=get_strings(f"{completion}.completionList.itemDefaults"),
            completion_resolve=get_strings(f"{item}.resolveSupport.properties"),
            completion_label_details=is_true(f"{item}.labelDetailsSupport"),
            completion_deprecated_tag=isinstance(item_tags, list) and 1 in item_tags,
            completion_deprecated=is_true(f"{item}.deprecatedSupport"),
            completion_insert_replace=is_true(f"{item}.insertReplaceSupport"),
            completion_markdown="markdown" in get_strings(f"{item}.documentationFormat"),
            signature_markdown="markdown" in get_strings(f"{signature}.documentationFormat"),
            signature_label_offsets=is_true(f"{signature}.parameterInformation.labelOffsetSupport"),
            signature_active_parameter=is_true(f"{signature}.activeParameterSupport"),
            signature_no_active_parameter=is_true(f"{signature}.noActiveParameterSupport"),
            hover_markdown="markdown" in get_strings("textDocument.hover.contentFormat"),
            semantic_tokens=is_mapping("textDocument.semanticTokens"),
            show_document=is_true("window.showDocument.support"),
            text_document_content=is_true("workspace.textDocumentContent.dynamicRegistration"),
            changed=is_true("experimental.changed"),
            hover_findings=is_true("experimental.hoverFindings"),
            icons=is_true("experimental.icons"),
            user_settings=is_true("experimental.userSettings"),
            commands=_command_names(get_value("experimental.commands")),
        )


def _choose_encoding(offered: object) -> Encoding:
    """Return the first of the client's position encodings that this server supports; UTF-16, which
    is mandatory, without one.
    """
    for name in offered if isinstance(offered, list) else ():
        try:
            return Encoding(name)
        except ValueError:
            continue
    return Encoding.UTF16


def _command_names(raw: object) -> frozenset[str]:
    names = raw.get("commands") if isinstance(raw, Mapping) else raw
    return (
        frozenset(name for name in names if isinstance(name, str))
        if isinstance(names, list)
        else frozenset()
    )
