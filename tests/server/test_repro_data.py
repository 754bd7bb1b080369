"""Data beside a script: shared by content, never half, and its loss is said."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from fullgraph.session.repro_files import ReproData, temporary_data_folder, write_repro
from fullgraph_engine.protocol.repro import DATA, data_name

FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
ONE, TWO = b"one" * 100, b"two" * 100


def leave_data(folder: Path, *contents: bytes) -> ReproData:
    """What an engine leaves."""
    folder.mkdir(exist_ok=True)
    for content in contents:
        (folder / data_name(content)).write_bytes(content)
    return ReproData(str(folder), tuple(map(data_name, contents)))


def there(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / DATA).iterdir())


def test_scripts_share_what_is_equal(tmp_path: Path) -> None:
    data = leave_data(tmp_path / "left", ONE, TWO)
    assert write_repro(tmp_path, "net", ".py", "text", data).remark == ""
    before = (tmp_path / DATA / data_name(ONE)).stat()
    assert (
        write_repro(tmp_path, "net", ".py", "text", leave_data(tmp_path / "left", ONE)).remark == ""
    )
    assert there(tmp_path) == sorted(map(data_name, (ONE, TWO)))
    assert (tmp_path / DATA / data_name(TWO)).read_bytes() == TWO
    after = (tmp_path / DATA / data_name(ONE)).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


def test_without_data_there_is_no_folder(tmp_path: Path) -> None:
    write_repro(tmp_path, "net", ".py", "text", ReproData(str(tmp_path)))
    assert not (tmp_path / DATA).exists()


@pytest.mark.parametrize("found", [b"", ONE[:50], b"x" * 300], ids=["empty", "half", "other"])
def test_what_a_crash_has_left_is_put_right(tmp_path: Path, found: bytes) -> None:
    (tmp_path / DATA).mkdir()
    path = tmp_path / DATA / data_name(ONE)
    path.write_bytes(found)
    assert (
        write_repro(tmp_path, "net", ".py", "text", leave_data(tmp_path / "left", ONE)).remark == ""
    )
    assert path.read_bytes() == ONE and there(tmp_path) == [path.name]


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, sync = leave_data(tmp_path / "left", ONE), os.fsync

    def no_room(descriptor: int) -> None:
        if f"/{DATA}/" in os.readlink(f"/proc/self/fd/{descriptor}"):  # noqa: PTH115
            raise FULL
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", no_room)
    kept = write_repro(tmp_path, "net", ".py", "text", data)
    assert kept.path.read_text() == "text" and there(tmp_path) == []
    assert kept.remark.startswith(f"Cannot write its data to {tmp_path / DATA} (No space left")


def test_where_no_script_can_be_written_its_data_goes_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room, closed = tmp_path / "room", tmp_path / "closed"
    room.mkdir()
    closed.write_text("a file")
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    kept = write_repro(closed, "net", ".py", "text", leave_data(tmp_path / "left", ONE))
    assert kept.path.is_relative_to(room) and there(kept.path.parent) == [data_name(ONE)]
    assert kept.remark.endswith(f"the script is in {kept.path}.")


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / DATA).write_text("precious")
    kept = write_repro(tmp_path, "net", ".py", "text", leave_data(tmp_path / "left", ONE))
    assert "Cannot write its data" in kept.remark and kept.path.read_text() == "text"
    assert (tmp_path / DATA).read_text() == "precious"


def test_what_the_engine_has_not_left(tmp_path: Path) -> None:
    kept = write_repro(tmp_path, "net", ".py", "text", ReproData(str(tmp_path), (data_name(ONE),)))
    assert "No such file" in kept.remark and there(tmp_path) == []


def test_what_is_handed_over_does_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    with temporary_data_folder() as folder:
        leave_data(Path(folder), ONE)
    assert not Path(folder).exists()

    def no_room(*_: object, **__: object) -> None:
        raise FULL

    monkeypatch.setattr(tempfile, "mkdtemp", no_room)
    with temporary_data_folder() as folder:
        assert folder == ""
