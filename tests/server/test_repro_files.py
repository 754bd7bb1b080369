"""Where scripts are kept, and what they are called."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import pytest

from fullgraph.domain.codes import Severity
from fullgraph.domain.findings import FileFinding
from fullgraph.session.repro_files import ReproUnwritable, name_of, write_new, write_repro
from fullgraph_engine.protocol import Finding, Frame, Position, Range, Wanted

PLACE = Range(Position(1, 4), Position(1, 9))
FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("code", "target", "function", "name"),
    [
        ("graph-break/GB0059", "Net", "Net.forward", "gb0059-net-forward"),
        ("graph-break/GB0059", "f", "f", "gb0059-f"),
        ("graph-break/no-such-id", "f", "", "graph-break-no-such-id-f"),
        ("recompile/size", "compiled(x)", "<lambda>", "recompile-size-compiled-x-lambda"),
        ("op/not-pt2-compliant", "Ünïcode", "", "op-not-pt2-compliant-unicode"),
        ("trace/compile-error", "模型", "", "trace-compile-error"),
        ("graph-break/GB0059", "../../etc/passwd", "", "gb0059-etc-passwd"),
    ],
)
def test_names(code: str, target: str, function: str, name: str) -> None:
    stack = (Frame("/model.py", function, 1),) if function else ()
    finding = Finding(code, "", PLACE, target, stack=(*stack, Frame("/lib.py", "deeper", 3)))
    item = FileFinding(finding, Severity.WARNING, (target,), "")
    assert name_of(Wanted(code, PLACE, target), item, "/model.py") == name


def test_names_of_targets_and_of_long_ones() -> None:
    wanted = Wanted("", PLACE, "Net", backend="inductor")
    assert name_of(wanted, None, "/model.py") == "inductor-error-net"
    long = Wanted("graph-break/GB0059", PLACE, "a" * 300)
    assert name_of(long, None, "/model.py") == "gb0059"


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    paths = [write_repro(folder, "net", ".py", text).path.name for text in "abc"]
    assert paths == ["net.py", "net-2.py", "net-3.py"]
    assert [(folder / path).read_text() for path in paths] == ["a", "b", "c"]
    (folder / "dangling.py").symlink_to(folder / "nowhere")
    assert write_repro(folder, "dangling", ".py", "d").path.name == "dangling-2.py"
    assert not (folder / "nowhere").exists()


def test_half_a_surrogate_pair_is_no_obstacle(tmp_path: Path) -> None:
    path = write_new(tmp_path, "net", ".py", "'\ud800'\r\n")
    assert path.read_bytes() == b"'\xed\xa0\x80'\r\n"


def test_a_file_that_anybody_may_read_who_may_read_others(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    mode = (tmp_path / "other").stat().st_mode
    assert write_new(tmp_path, "net", ".py", "a").stat().st_mode == mode


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full, room = tmp_path / "full", tmp_path / "room"
    room.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(room))
    sync = os.fsync

    def no_room(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(full):
            raise FULL
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", no_room)
    kept = write_repro(full, "net", ".py", "text")
    assert kept.path.is_relative_to(room) and kept.path.read_text() == "text"
    assert kept.remark.startswith(f"Cannot write to {full} (No space left on device); ")
    assert names(full) == []


def test_no_room_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(descriptor: int) -> None:
        raise FULL

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "fsync", no_room)
    with pytest.raises(ReproUnwritable, match="nor to a temporary folder"):
        write_repro(tmp_path / "full", "net", ".py", "text")
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, target: Path) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(Path, "hardlink_to", refused)
    (tmp_path / "net.py").write_text("precious")
    assert write_new(tmp_path, "net", ".py", "text").name == "net-2.py"
    assert names(tmp_path) == ["net-2.py", "net.py"]
    assert (tmp_path / "net.py").read_text() == "precious"
    assert (tmp_path / "net-2.py").read_text() == "text"


def test_git_ignores_a_folder_that_is_made_for_scripts(tmp_path: Path) -> None:
    made, mine, asked = tmp_path / "made", tmp_path / "mine", tmp_path / "asked"
    mine.mkdir()
    for folder in (made, mine):
        write_repro(folder, "a", ".py", "text", unversioned=True)
        write_repro(folder, "b", ".py", "text", unversioned=True)
    write_repro(asked, "a", ".py", "text")
    assert names(made) == [".gitignore", "a.py", "b.py"]
    assert (made / ".gitignore").read_text() == "*\n"
    assert names(mine) == ["a.py", "b.py"] and names(asked) == ["a.py"]
