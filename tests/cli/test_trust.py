"""``fullgraph trust``: the user's list of folders whose code editors may execute."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import CommandLine

from fullgraph.session.trust import TrustedFolders


def test_folders_are_added_and_removed(command_line: CommandLine, tmp_path: Path) -> None:
    known = TrustedFolders(tmp_path / "config" / "fullgraph" / "trusted-folders")
    home = str(tmp_path / "config")
    other = tmp_path / "other"
    other.mkdir()
    assert command_line.run("trust", XDG_CONFIG_HOME=home).status == 0
    assert command_line.run("trust", str(other), XDG_CONFIG_HOME=home).status == 0
    assert known.contains_all([command_line.folder]) and known.contains_all([other])
    assert command_line.run("trust", "--remove", XDG_CONFIG_HOME=home).status == 0
    assert not known.contains_all([command_line.folder]) and known.contains_all([other])


def test_what_is_no_folder(command_line: CommandLine, tmp_path: Path) -> None:
    ran = command_line.run("trust", "absent", XDG_CONFIG_HOME=str(tmp_path / "config"))
    assert ran.status == 2
    assert ran.err == "fullgraph: absent is not a folder; name the folder of a project.\n"


def test_a_list_that_cannot_be_written(command_line: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = command_line.run("trust", XDG_CONFIG_HOME=str(tmp_path / "file"))
    assert ran.status == 2
    assert ran.err.startswith("fullgraph: The list of trusted folders cannot be written: ")
