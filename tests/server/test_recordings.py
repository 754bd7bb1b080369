"""Which recording a file has, and what is said of one that cannot be used."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from fullgraph.session import recordings
from fullgraph.session.recordings import FileRecording, recording_of
from fullgraph_engine.protocol.recorded import FILE, RecordedCall, RecordedClass, written

NET = "class Net(nn.Module):\n    x = call()  # break: A break\n"
BREAK = ("A break", "x = call()")
CLASS = RecordedClass("Net", "()", "(x)", (RecordedCall("", "f32[2]"),))
OTHER = RecordedClass("Net", "()", "(x)", (RecordedCall("", "f32[3]"),))


def test_the_nearest_recording_up_to_the_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    file = project / "package" / "model.py"
    file.parent.mkdir(parents=True)
    assert recording_of(str(file), project) == FileRecording()
    (tmp_path / FILE).write_text(written({"project/package/model.py": (CLASS,)}))
    assert recording_of(str(file), project) == FileRecording()
    (project / FILE).write_text(written({"package/model.py": (CLASS,)}))
    assert recording_of(str(file), project) == FileRecording((CLASS,))
    assert recording_of(str(project / "other.py"), project) == FileRecording()
    (file.parent / FILE).write_text(written({"model.py": (OTHER,)}))
    assert recording_of(str(file), project) == FileRecording((OTHER,))
    assert recording_of(str(file), None) == FileRecording((OTHER,))
    assert recording_of("untitled", project) == FileRecording()


def test_one_that_changes_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / FILE
    for number, one in enumerate((CLASS, OTHER)):
        file.write_text(written({"model.py": (one,)}))
        os.utime(file, (number, number))
        assert recording_of(str(tmp_path / "model.py"), tmp_path) == FileRecording((one,))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{", "is not valid JSON; delete the file and run `fullgraph record` again."),
        (b"<<<<<<< HEAD\n", "has conflict markers of a merge; resolve them"),
        (b"\xff\xfe", "is not valid UTF-8"),
        (b'{"version": 99}', "has version 99, which a newer fullgraph wrote; update fullgraph."),
    ],
)
def test_one_that_cannot_be_used_is_one_sentence(
    tmp_path: Path, content: bytes, words: str
) -> None:
    (tmp_path / FILE).write_bytes(content)
    found = recording_of(str(tmp_path / "model.py"), tmp_path)
    assert found.classes == ()
    assert found.problem.startswith(str(tmp_path / FILE)) and words in found.problem


def test_one_that_is_too_large_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordings, "_read_recording", None)
    with (tmp_path / FILE).open("wb") as file:
        file.truncate((50 << 20) + 1)
    found = recording_of(str(tmp_path / "model.py"), tmp_path)
    assert found.problem.endswith("is larger than 50 MB and not used; delete it and record again.")


def test_one_that_is_written_twice_at_one_time_is_read_twice(tmp_path: Path) -> None:
    file, now = tmp_path / FILE, time.time_ns()
    found = []
    for recorded in (CLASS, OTHER):
        file.write_text(written({"model.py": (recorded,)}))
        os.utime(file, ns=(now, now))
        found.append(recording_of(str(tmp_path / "model.py"), tmp_path).classes)
    assert found == [(CLASS,), (OTHER,)]


async def test_a_text_is_traced_again_when_its_recording_changes(editor: Any, counter: Any) -> None:
    file = editor.root / FILE

    def tell(classes: dict[str, Any]) -> None:
        # As `fullgraph record` does it: the server may read it at any time.
        new = file.with_suffix(".new")
        new.write_text(written(classes))
        new.replace(file)
        change = types.FileEvent(file.as_uri(), types.FileChangeType.Changed)
        params = types.DidChangeWatchedFilesParams([change])
        editor.client.workspace_did_change_watched_files(params)

    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    assert counter.analyzed == 1
    tell({"model.py": (CLASS,)})
    await editor.until(lambda: counter.analyzed == 2)
    await editor.until_state("ready")
    # What is new is of another file.
    tell({"model.py": (CLASS,), "other.py": (CLASS,)})
    tell({"model.py": (OTHER,), "other.py": (CLASS,)})
    await editor.until(lambda: counter.analyzed == 3)


async def test_a_recording_that_cannot_be_used_is_told_once(editor: Any) -> None:
    (editor.root / FILE).write_text("{")
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "x = call()", "x = call(1)")
    await editor.until_seen(uri, ("A break", "x = call(1)"))
    (message,) = editor.client.messages
    assert "is not valid JSON" in message.message
