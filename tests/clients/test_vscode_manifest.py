"""package.json of the VS Code extension says what the server and the extension really have."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from fullgraph import __version__
from fullgraph.lsp import server_capabilities
from fullgraph.session.settings import editor_source, list_declarations, resolve_settings

CLIENT = Path(__file__).parent.parent.parent / "vscode-client"
SOURCES = "\n".join(path.read_text(encoding="utf-8") for path in (CLIENT / "src").rglob("*.ts"))


@pytest.fixture(scope="module")
def manifest() -> Any:
    return json.loads((CLIENT / "package.json").read_text(encoding="utf-8"))


def test_settings_are_those_of_the_declaration(manifest: Any) -> None:
    script = runpy.run_path(str(CLIENT / "scripts" / "manifest.py"))
    assert manifest["contributes"]["configuration"] == script["configuration"](), (
        "Run vscode-client/scripts/manifest.py."
    )


def test_the_server_takes_the_defaults_without_a_word(manifest: Any) -> None:
    settings: dict[str, Any] = {}
    for name, schema in manifest["contributes"]["configuration"]["properties"].items():
        *groups, last = name.removeprefix("fullgraph.").split(".")
        table = settings
        for group in groups:
            table = table.setdefault(group, {})
        table[last] = schema["default"]
    assert resolve_settings(editor_source(settings)).problems == ()


def test_the_most_important_settings_come_first(manifest: Any) -> None:
    properties = manifest["contributes"]["configuration"]["properties"]
    assert [schema["order"] for schema in properties.values()] == list(range(len(properties)))
    assert list(properties)[:3] == [
        "fullgraph.interpreter",
        "fullgraph.traceOn",
        "fullgraph.severity",
    ]


def test_versions_are_the_same(manifest: Any) -> None:
    assert manifest["version"] == __version__


def test_every_command_is_registered_and_in_one_category(manifest: Any) -> None:
    commands = manifest["contributes"]["commands"]
    assert {command["category"] for command in commands} == {"fullgraph"}
    registered = set(re.findall(r'^    "(fullgraph\.\w+)":', SOURCES, re.MULTILINE))
    assert {command["command"] for command in commands} <= registered
    assert not registered & set(server_capabilities.COMMANDS)


def test_the_names_of_the_server_are_the_same() -> None:
    named = set(re.findall(r'"(fullgraph\.server\.\w+)"', SOURCES))
    assert named == set(server_capabilities.COMMANDS)
    offered = server_capabilities
    for name in (offered.STATUS, offered.TRACE, offered.CHANGED, offered.FILE_SUMMARY):
        assert f'"{name}"' in SOURCES


def test_no_workspace_says_what_the_sandbox_allows(manifest: Any) -> None:
    properties = manifest["contributes"]["configuration"]["properties"]
    users = {declaration.editor_name for declaration in list_declarations() if declaration.users}
    assert users == {"sandbox.allow"}
    assert {properties[f"fullgraph.{name}"]["scope"] for name in users} == {"machine"}
    # Which is what the extension says of its settings.
    assert "userSettings: true" in SOURCES


def test_nothing_runs_without_trust(manifest: Any) -> None:
    capabilities = manifest["capabilities"]
    # Limited to an entry of the status bar, which the tests in VS Code check.
    assert capabilities["untrustedWorkspaces"]["supported"] == "limited"
    commands = manifest["contributes"]["commands"]
    assert {command["enablement"] for command in commands} == {"isWorkspaceTrusted"}
    assert capabilities["untrustedWorkspaces"]["description"]
    assert capabilities["virtualWorkspaces"]["supported"] is False
