"""Which files a check finds, and how it reads them."""

import os
from pathlib import Path

import pytest

from fullgraph.cli.sources import (
    MOST_BYTES,
    SourceFile,
    UnreadableFile,
    decode_source,
    find_sources,
    read_source,
)
from fullgraph.session.request import may_have_targets


def make(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("import torch\n")


def found(folder: Path, *paths: str, exclude: tuple[str, ...] = ()) -> list[str]:
    return [source.path for source in find_sources(paths, exclude, folder).files]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_folder_gives_its_python_files_in_order(folder: Path) -> None:
    make(folder, "b.py", "a/x.py", "a/y.pyi", "a/z.txt", "c/d/e.py")
    assert found(folder, ".") == ["a/x.py", "b.py", "c/d/e.py"]


def test_what_is_hidden_or_installed_is_passed_over(folder: Path) -> None:
    make(folder, ".h/a.py", ".b.py", "node_modules/c.py", "env/lib/d.py", "__pycache__/e.py")
    (folder / "env" / "pyvenv.cfg").touch()
    make(folder, "x/site-packages/f.py", "g.py")
    assert found(folder, ".") == ["g.py"]


def test_ignore_files_count_as_in_git(folder: Path) -> None:
    make(folder, "a.py", "gen/b.py", "gen/keep.py", "sub/c.py", "sub/d.py", "sub/deep/out/e.py")
    (folder / ".gitignore").write_text("gen/*\n!gen/keep.py\nout/\n")
    (folder / "sub" / ".gitignore").write_text("/c.py\n")
    assert found(folder, ".") == ["a.py", "gen/keep.py", "sub/d.py"]


def test_a_nearer_ignore_file_may_take_back_what_a_farther_one_said(folder: Path) -> None:
    make(folder, "sub/a.py", "b.py")
    (folder / ".gitignore").write_text("*.py\n")
    (folder / "sub" / ".gitignore").write_text("!a.py\n")
    assert found(folder, ".") == ["sub/a.py"]


def test_ignore_files_above_the_folder_count_up_to_the_repository(folder: Path) -> None:
    make(folder, "sub/a.py", "sub/b.py")
    (folder / ".gitignore").write_text("b.py\n")
    assert found(folder, "sub") == ["sub/a.py"]
    (folder / ".git" / "info").mkdir()
    (folder / ".git" / "info" / "exclude").write_text("a.py\n")
    assert found(folder, "sub") == []


def test_an_ignore_file_above_that_is_in_no_repository_does_not_count(folder: Path) -> None:
    (folder / ".git").rmdir()
    make(folder, "sub/a.py")
    (folder / ".gitignore").write_text("*.py\n")
    assert found(folder, "sub") == ["sub/a.py"]


def test_exclude_is_relative_to_the_project(folder: Path) -> None:
    make(folder, "a.py", "old/b.py", "new/old/c.py", "new/d_test.py")
    assert found(folder, ".", exclude=("/old", "*_test.py")) == ["a.py", "new/old/c.py"]
    assert found(folder, "old", exclude=("/old/b.py",)) == []


def test_a_named_file_is_taken_whatever_ignores_it(folder: Path) -> None:
    make(folder, "a.py", "script")
    (folder / ".gitignore").write_text("*\n")
    result = find_sources(["a.py", "script"], ("a.py",), folder)
    assert [(source.path, source.named) for source in result.files] == [
        ("a.py", True),
        ("script", True),
    ]


def test_a_file_named_twice_is_checked_once(folder: Path) -> None:
    make(folder, "a.py")
    result = find_sources([".", "a.py", "./a.py", str(folder / "a.py")], (), folder)
    (source,) = result.files
    assert source.named and source.absolute == folder / "a.py"


def test_links_to_folders_are_not_followed(folder: Path) -> None:
    make(folder, "a/b.py")
    (folder / "a" / "loop").symlink_to(folder)
    assert found(folder, ".") == ["a/b.py"]


def test_missing_paths_and_empty_folders_are_said(folder: Path) -> None:
    (folder / "empty").mkdir()
    result = find_sources(["nowhere.py", "empty"], (), folder)
    assert result.problems == ("nowhere.py does not exist; check the path.",)
    assert result.remarks == ("There are no Python files in empty that are not ignored.",)


@pytest.mark.skipif(os.getuid() == 0, reason="root may read everything")
def test_a_folder_that_may_not_be_listed_hides_only_itself(folder: Path) -> None:
    make(folder, "a.py", "closed/b.py")
    (folder / "closed").chmod(0)
    assert found(folder, ".") == ["a.py"]


@pytest.mark.parametrize(
    "data",
    [
        "x = 'größe'\n".encode(),
        b"\xef\xbb\xbf" + "x = 'größe'\n".encode(),
        "# -*- coding: latin-1 -*-\nx = 'größe'\n".encode("latin-1"),
        "#!/usr/bin/python\n# vim: set fileencoding=cp1252 :\nx = 'größe'\n".encode("cp1252"),
    ],
    ids=["utf-8", "byte order mark", "latin-1", "cp1252"],
)
def test_text_is_decoded_as_python_would(data: bytes) -> None:
    assert decode_source(data, "a.py").endswith("x = 'größe'\n")
    assert not decode_source(data, "a.py").startswith("\ufeff")


def test_line_ends_are_kept() -> None:
    assert decode_source(b"a\r\nb\rc\n", "a.py") == "a\r\nb\rc\n"


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (
            b"x = 1\ny = '\xff'\n",
            "a.py is not UTF-8 text (byte 0xff on line 2): "
            "save it as UTF-8, or declare its encoding with a coding comment.",
        ),
        (
            b"# coding: klingon\n",
            "a.py declares an encoding that Python does not know: "
            "correct the coding comment in its first two lines.",
        ),
        (
            b"\n\n\nx = '\xe9'\n",
            "a.py is not UTF-8 text (byte 0xe9 on line 4): "
            "save it as UTF-8, or declare its encoding with a coding comment.",
        ),
        (b"a\n\0", "a.py is not Python source: there is a null byte on line 2."),
    ],
)
def test_what_is_not_text_is_said_with_its_line(data: bytes, sentence: str) -> None:
    with pytest.raises(UnreadableFile) as caught:
        decode_source(data, "a.py")
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("text", "may"),
    [
        ("x = 1\n", False),
        ("def subclass(): ...\n", False),
        ("class A(Base): ...\n", True),
        ("if x:\n    class A(Base): ...\n", True),
        ("import torch\n", True),
        ("# fullgraph: f32[8]\ndef f(x): ...\n", True),
        ("from jaxtyping import Float\n", True),
        ("def f(x: 'f32[b, 16]'): ...\n", True),
    ],
)
def test_only_what_surely_has_no_target_is_passed_over(text: str, may: bool) -> None:
    assert may_have_targets(text) is may


# -- what is not the user's own, and what is no file -------------------------------------------


def test_folders_of_tools_and_of_others_are_left_out(folder: Path) -> None:
    for name in ("build", "dist", "third_party", "vendor", "src"):
        (folder / name).mkdir()
        (folder / name / "a.py").write_text("x = 1\n")
    assert found(folder, ".") == ["src/a.py"]
    (folder / "build" / "__init__.py").write_text("")
    assert found(folder, ".") == ["build/__init__.py", "build/a.py", "src/a.py"]


def test_what_git_marks_as_not_the_repositorys_own_is_left_out(folder: Path) -> None:
    (folder / ".gitattributes").write_text(
        "*.txt text\nlibs/** linguist-vendored\n*_pb2.py linguist-generated=true\n"
        "kept/** linguist-vendored=false\n"
    )
    for name in ("libs/x/a.py", "src/a_pb2.py", "src/a.py", "kept/a.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    assert found(folder, ".") == ["kept/a.py", "src/a.py"]
    assert found(folder, "libs") == []


def test_pipes_and_devices_are_no_files(folder: Path) -> None:
    os.mkfifo(folder / "pipe.py")
    (folder / "endless.py").symlink_to("/dev/zero")
    (folder / "own.py").write_text("x = 1\n")
    os.mkfifo(folder / ".gitignore")
    assert found(folder, ".") == ["own.py"]
    for name in ("pipe.py", "endless.py"):
        with pytest.raises(UnreadableFile, match=f"{name} is not a regular file; pass its text"):
            read_source(SourceFile(name, folder / name, named=True))


def test_a_file_that_is_too_large_is_not_read(folder: Path) -> None:
    file = folder / "large.py"
    with file.open("wb") as out:
        out.truncate(MOST_BYTES + 1)
    with pytest.raises(UnreadableFile, match=r"large\.py is larger than 32 MB; split it"):
        read_source(SourceFile("large.py", file, named=True))
