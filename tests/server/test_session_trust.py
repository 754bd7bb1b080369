"""Whose code may be executed: what a client says, the user's list, and what settings may not do."""

from __future__ import annotations

from pathlib import Path

import pytest

from fullgraph.session.trust import TrustedFolders, trusted_folders_file
from fullgraph.session.workspace import Workspace


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrustedFolders:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return TrustedFolders(tmp_path / "config" / "fullgraph" / "trusted-folders")


def workspace(folder: Path, options: object = None) -> Workspace:
    made = Workspace(lambda problem: None)
    made.initialize(options, [folder.as_uri()])
    return made


def test_the_list_is_the_users_own(tmp_path: Path) -> None:
    home = Path("~/.config/fullgraph/trusted-folders").expanduser()
    assert trusted_folders_file({}) == home
    assert trusted_folders_file({"XDG_CONFIG_HOME": "relative"}) == home
    found = trusted_folders_file({"XDG_CONFIG_HOME": str(tmp_path)})
    assert found == tmp_path / "fullgraph" / "trusted-folders"


def test_nothing_is_trusted_before_somebody_says_so(
    folders: TrustedFolders, tmp_path: Path
) -> None:
    assert not workspace(tmp_path).trusted
    assert workspace(tmp_path, {"trusted": True}).trusted
    assert not workspace(tmp_path, {"trusted": "true"}).trusted


def test_a_folder_in_the_list_and_what_is_below_it(folders: TrustedFolders, tmp_path: Path) -> None:
    project = tmp_path / "work" / "project"
    project.mkdir(parents=True)
    folders.add([tmp_path / "work"])
    assert workspace(project).trusted
    assert not workspace(tmp_path).trusted
    assert not workspace(tmp_path / "workshop").trusted
    assert not workspace(project, {"trusted": False}).trusted
    folders.remove([tmp_path])
    assert not workspace(project).trusted


def test_all_folders_of_a_window_have_to_be_trusted(
    folders: TrustedFolders, tmp_path: Path
) -> None:
    folders.add([tmp_path / "a"])
    made = workspace(tmp_path / "a")
    assert made.trusted
    made.change_folders([(tmp_path / "b").as_uri()], [])
    assert not made.trusted


def test_no_folder_is_no_trusted_one(folders: TrustedFolders) -> None:
    folders.add([Path("/")])
    made = Workspace(lambda problem: None)
    made.initialize(None, [])
    assert not made.trusted


def test_settings_take_trust_away_and_never_give_it(
    folders: TrustedFolders, tmp_path: Path
) -> None:
    made = workspace(tmp_path)
    made.configure({"": {"trusted": True}})
    assert not made.trusted
    trusted = workspace(tmp_path, {"trusted": True})
    trusted.configure({"": {"trusted": False}})
    assert not trusted.trusted
    trusted.configure({"": {}})
    assert trusted.trusted


def test_a_command_holds_for_later_windows(folders: TrustedFolders, tmp_path: Path) -> None:
    workspace(tmp_path).trust(True)
    assert workspace(tmp_path).trusted
    workspace(tmp_path).trust(False)
    assert not workspace(tmp_path).trusted


def test_a_list_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    made = workspace(tmp_path)
    with pytest.raises(OSError):
        made.trust(True)
    assert made.trusted  # until the server ends


def test_a_list_that_is_no_text(folders: TrustedFolders, tmp_path: Path) -> None:
    file = tmp_path / "config" / "fullgraph" / "trusted-folders"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"\xff\xfe\n")
    assert not workspace(tmp_path).trusted
    folders.add([tmp_path])
    assert workspace(tmp_path).trusted
