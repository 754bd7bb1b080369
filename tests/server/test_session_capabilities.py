"""What clients say that they can."""

from __future__ import annotations

import json
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from fullgraph.domain.positions import Encoding
from fullgraph.session.capabilities import ClientCapabilities


def vscode() -> Any:
    return json.loads(Path(__file__).with_name("vscode.json").read_text())["capabilities"]


def neovim() -> Any:
    text = resources.files("pytest_lsp.clients").joinpath("neovim_v0.11.0.json").read_text()
    return json.loads(text)["capabilities"]


def test_vscode() -> None:
    client = ClientCapabilities.from_capabilities(vscode())
    assert client.encoding is Encoding.UTF16
    assert client.pull_diagnostics and client.related_information and client.code_description
    assert client.unnecessary_tag and client.diagnostic_data and client.work_done_progress
    assert client.configuration and client.configuration_registration
    assert client.document_changes and client.code_lens_refresh
    assert client.commands == {"fullgraph.showTarget"}
    assert client.completion_defaults >= {"editRange", "data"}
    assert client.completion_resolve >= {"documentation", "detail"}
    assert client.completion_deprecated_tag and client.completion_label_details
    assert client.completion_markdown and client.signature_markdown and client.hover_markdown
    assert client.signature_label_offsets and client.signature_active_parameter
    assert not client.signature_no_active_parameter


def test_neovim() -> None:
    client = ClientCapabilities.from_capabilities(neovim())
    assert client.encoding is Encoding.UTF8
    # It can pull, but cannot be told to pull again.
    assert not client.pull_diagnostics
    assert client.related_information and client.diagnostic_data and client.unnecessary_tag
    assert not client.code_description and not client.code_lens_refresh
    assert client.work_done_progress and client.configuration
    assert not client.document_changes and client.commands == frozenset()
    assert client.completion_defaults >= {"editRange", "data"}
    # It asks again, but neither for the signature nor for the documentation of an item.
    assert not client.completion_resolve & {"documentation", "detail"}
    assert client.hover_markdown
    assert client.completion_deprecated_tag and not client.completion_label_details


@pytest.mark.parametrize("raw", [None, {}, [], "x", {"textDocument": None, "general": 5}])
def test_a_client_that_says_nothing_can_nothing(raw: object) -> None:
    assert ClientCapabilities.from_capabilities(raw) == ClientCapabilities()
