"""The files for other projects agree with the command, the version and the settings."""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]

from fullgraph.cli.command_line import COMMANDS
from fullgraph.session.settings import list_declarations

tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

ROOT = Path(__file__).parents[2]
PACKAGING = ROOT / "packaging"
LSPCONFIG = PACKAGING / "nvim-lspconfig" / "lsp" / "fullgraph.lua"
COMMAND = ["fullgraph", "server"]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def lua_list(text: str, name: str) -> list[str]:
    """The strings of a list in a Lua table, in either kind of quotes."""
    match = re.search(rf"^  {name} = \{{(.*?)\}},$", text, re.MULTILINE)
    assert match is not None, name
    return re.findall(r"[\"']([^\"']+)[\"']", match[1])


def test_the_command_exists(project: dict[str, Any]) -> None:
    assert COMMAND[0] in project["scripts"]
    assert COMMAND[1] in COMMANDS


def test_nvim_lspconfig_starts_the_server_as_our_own_client_does() -> None:
    text, own = LSPCONFIG.read_text(), (ROOT / "nvim-client" / "lsp" / LSPCONFIG.name).read_text()
    assert lua_list(text, "cmd") == COMMAND
    for name in ("filetypes", "root_markers"):
        assert lua_list(text, name) == lua_list(own, name)
    section = "  settings = { fullgraph = {} },\n"
    assert section in text and section in own
    # The documentation is generated from the first comment, which begins with this line.
    assert text.startswith("---@brief\n---\n--- https://")
    assert text.split("\n\n")[1].startswith("---@type vim.lsp.Config\nreturn {\n")
    for name in re.findall(r"^---       (\w+) = ", text, re.MULTILINE):
        assert name in {setting.editor_name for setting in list_declarations()}


def test_mason_installs_this_version(project: dict[str, Any]) -> None:
    path = PACKAGING / "mason-registry" / "packages" / "fullgraph" / "package.yaml"
    package = yaml.safe_load(path.read_text())
    assert package["name"] == path.parent.name == project["name"]
    assert package["source"]["id"] == f"pkg:pypi/{project['name']}@{project['version']}"
    assert package["licenses"] == [project["license"]]
    assert package["bin"] == {name: f"pypi:{name}" for name in project["scripts"]}
    assert package["neovim"] == {"lspconfig": LSPCONFIG.stem}
    kind, _, url = package["schemas"]["lsp"].partition(":")
    assert kind == "vscode"
    assert (ROOT / url.partition("/v{{version}}/")[2]).is_file()


def test_helix_knows_the_server() -> None:
    text = (PACKAGING / "helix" / "languages.toml").read_text()
    (server,) = tomllib.loads(text)["language-server"].items()
    assert server == (COMMAND[0], {"command": COMMAND[0], "args": COMMAND[1:]})


def test_open_vsx_has_the_fields_that_it_needs(project: dict[str, Any]) -> None:
    folder = ROOT / "vscode-client"
    manifest = json.loads((folder / "package.json").read_text())
    notes = (PACKAGING / "README.md").read_text().partition("## Open VSX")[2]
    needed, shown = notes.partition(". It shows")[::2]
    for name in re.findall(r"`([a-zA-Z.]+)`", needed):
        value: Any = manifest
        for part in name.split("."):
            value = value[part]
        assert value, name
    for name in re.findall(r"`(\w+)`", shown.partition(". The publisher")[0]):
        assert manifest[name], name
    assert manifest["version"] == project["version"]
    assert (folder / manifest["icon"]).is_file() and (folder / "LICENSE").is_file()
    assert f"create-namespace {manifest['publisher']} " in notes
