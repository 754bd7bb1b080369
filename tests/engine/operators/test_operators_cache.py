"""Where the index is kept, and what counts as one that is there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fullgraph_engine.operators import cache, sources, stages
from fullgraph_engine.operators.cache import (
    IndexCache,
    Installation,
    find_installation,
    user_cache_folder,
)
from fullgraph_engine.protocol import Event, IndexWritten, Log, Ready
from fullgraph_engine.protocol.operators import INDEX_FORMAT, Name, encode_index, entry_of


def content(*, complete: bool = True) -> bytes:
    entry = entry_of(Name("torch.add", "function"))
    return encode_index([entry], torch="2.13.0", complete=complete, overloads=0)


def test_what_was_written_is_found(tmp_path: Path) -> None:
    kept = IndexCache("key", tmp_path / "new" / "folder")
    assert kept.find_complete() is None
    path = kept.write(content())
    assert kept.find_complete() == path
    assert path.read_bytes() == content()
    assert list(path.parent.iterdir()) == [path]
    assert IndexCache("other", tmp_path / "new" / "folder").find_complete() is None


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"nothing of the kind",
        content()[:-5],
        content().replace(b"torch.add", b"torch.sub"),
        content().replace(f'"format":{INDEX_FORMAT}'.encode(), b'"format":0'),
        content(complete=False),
        content().partition(b"\n")[0],
        b"\xff\xfe" * 100,
    ],
)
def test_a_broken_file_counts_as_none(tmp_path: Path, broken: bytes) -> None:
    kept = IndexCache("key", tmp_path)
    kept.path.write_bytes(broken)
    assert kept.find_complete() is None
    kept.write(content())
    assert kept.find_complete() is not None


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = IndexCache("key", tmp_path)
    kept.write(content())

    def full(self: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left"):
        kept.write(b"other")
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content()]


def test_only_the_last_few_are_kept(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    for number in range(12):
        path = IndexCache(f"key{number}", tmp_path).write(content())
        os.utime(path, (number, number))
    assert IndexCache("key4", tmp_path).find_complete() is not None  # used, so it is kept next time
    IndexCache("last", tmp_path).write(content())
    left = sorted(path.stem for path in tmp_path.glob("*.index"))
    assert left == sorted(["last", "key4", *(f"key{number}" for number in range(6, 12))])
    assert (tmp_path / "note.txt").exists()


def fake_torch(folder: Path, *, yaml: str = "- func: f() -> ()\n") -> Installation:
    for name, text in {
        "torch/__init__.py": "raise ImportError('nobody may import this')\n",
        "torch/version.py": "__version__ = '9.9.9'\n",
        "torchgen/__init__.py": "",
        "torchgen/packaged/ATen/native/native_functions.yaml": yaml,
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    packaged = folder / "torchgen" / "packaged"
    return Installation(folder / "torch", packaged, "__version__ = '9.9.9'\n", True)


def test_the_key_follows_what_the_index_is_made_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = fake_torch(tmp_path).cache_key()
    assert fake_torch(tmp_path).cache_key() == first
    assert fake_torch(tmp_path, yaml="- func: g() -> ()\n").cache_key() != first
    assert Installation(tmp_path / "torch", None, "", True).cache_key() != first
    here = fake_torch(tmp_path)
    without_parser = Installation(here.torch, here.yaml_folder, here.version, False)
    assert without_parser.cache_key() != first
    assert not without_parser.readable
    monkeypatch.setattr(cache, "INDEX_FORMAT", 99)
    assert fake_torch(tmp_path).cache_key() != first


def test_torch_is_found_without_being_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_torch(tmp_path)
    real = sources.package_folder
    monkeypatch.setattr(cache, "package_folder", lambda name: _in(tmp_path, name) or real(name))
    found = find_installation()
    assert found is not None
    assert found.torch == tmp_path / "torch"
    assert found.yaml_folder == tmp_path / "torchgen" / "packaged"
    (tmp_path / "torchgen/packaged/ATen/native/native_functions.yaml").unlink()
    bare = find_installation()
    assert bare is not None
    assert bare.yaml_folder is None
    assert not bare.readable


def _in(folder: Path, name: str) -> Path | None:
    return folder / name if (folder / name).is_dir() else None


def test_no_torch() -> None:
    names: list[str] = []

    def absent(name: str) -> None:
        names.append(name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cache, "package_folder", absent)
        assert find_installation() is None
        assert stages.InstalledOperators.find_installed("") is None
    assert names[0] == "torch"


def test_the_folder_for_caches(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert user_cache_folder() == tmp_path
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", "linux")
    assert user_cache_folder() == tmp_path / "home" / ".cache"
    monkeypatch.setattr("sys.platform", "darwin")
    assert user_cache_folder() == tmp_path / "home" / "Library" / "Caches"


# -- through an engine --------------------------------------------------------------------------


def complete(events: list[Event]) -> bool:
    return any(isinstance(event, IndexWritten) and event.complete for event in events)


@pytest.mark.timeout(300)
def test_an_engine_announces_what_is_kept_before_it_imports_torch(
    complete_index: Any, engine_says: Callable[..., list[Event]]
) -> None:
    events = engine_says(complete)
    assert not any(isinstance(event, Ready) for event in events)
    assert [event for event in events if isinstance(event, IndexWritten)] == [events[1]]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_cache_that_cannot_be_used(
    tmp_path: Path, engine_says: Callable[..., list[Event]]
) -> None:
    """As in a home that is read-only; here a file stands where the folder would be."""
    pytest.importorskip("torch")
    (tmp_path / "fullgraph").write_text("")
    events = engine_says(complete, env={"XDG_CACHE_HOME": str(tmp_path)})
    first, last = (event for event in events if isinstance(event, IndexWritten))
    assert not first.complete
    assert str(tmp_path) not in last.path
    told = [event for event in events if isinstance(event, Log)]
    assert len(told) == 1
    assert "could not be saved" in told[0].text
    assert not Path(last.path).exists()  # the engine is gone, and its files with it


@pytest.mark.timeout(300)
def test_who_wants_no_index_gets_none(
    tmp_path: Path, engine_says: Callable[..., list[Event]]
) -> None:
    pytest.importorskip("torch")
    events = engine_says(
        lambda events: isinstance(events[-1], Ready) if events else False,
        env={"XDG_CACHE_HOME": str(tmp_path)},
        options=("--index", "no"),
    )
    assert not any(isinstance(event, IndexWritten) for event in events)
    assert not list(tmp_path.rglob("*.index"))
