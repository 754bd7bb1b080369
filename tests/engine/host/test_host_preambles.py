"""Imports that stay executed from one edit to the next."""

from __future__ import annotations

import os
import py_compile
import signal
import time
from pathlib import Path

import pytest
from tests.engine.hosts import Engine, Result, children_of

from fullgraph_engine.protocol import (
    Analyzed,
    Cancel,
    Failed,
    FilesRead,
    Limits,
    Log,
    OpenFile,
    SharedImports,
)
from fullgraph_engine.protocol.files import OPEN

SLOW = "import time\ntime.sleep(0.1)\nprint('slow is imported', flush=True)\nvalue = 1\n"


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """A module that takes its time, and says when it is executed."""
    (tmp_path / "slow.py").write_text(SLOW)
    return tmp_path / "model.py"


def _imported(result: Result) -> int:
    return result.log("stdout").count("slow is imported")


def test_an_edit_below_the_imports_does_not_execute_them_again(
    engine: Engine, slow: Path, reimports: int
) -> None:
    head = '"""Doc."""\nimport slow\n'
    first = engine.analyze(f"{head}def f():  # target\n    return slow.value\n", path=str(slow))
    assert (first.value("f"), _imported(first)) == ("1", 1)
    for number in range(3):
        again = engine.analyze(
            f"{head}\nx = {number}\ndef f():  # target\n"
            "    import inspect\n    return slow.value, x, inspect.getsource(f)[:7], __doc__\n",
            path=str(slow),
        )
        assert again.value("f") == f"(1, {number}, 'def f()', 'Doc.')"
        assert _imported(again) == reimports
        assert again.reports["f"].range.start.line == 4


def test_comments_and_blank_lines_between_imports_execute_nothing_again(
    engine: Engine, slow: Path, reimports: int
) -> None:
    body = "def f():  # target\n    return slow.value, os.__name__\n"
    first = engine.analyze(f"import slow\nimport os\n{body}", path=str(slow))
    text = f"# A comment.\nimport slow  # '\n\n    # Another.\nimport os\n{body}"
    again = engine.analyze(text, path=str(slow))
    assert (_imported(first), _imported(again)) == (1, reimports)
    assert again.value("f") == "(1, 'os')"
    assert again.reports["f"].range.start.line == 5
    string = "'# A string.'\nimport slow\nimport os\n"
    engine.analyze(f"{string}{body}", path=str(slow))
    other = engine.analyze(f"{string.replace('A', 'B')}{body}", path=str(slow))
    assert _imported(other) == 1


def test_no_process_is_kept_unless_the_request_wants_one(engine: Engine, slow: Path) -> None:
    text = "import slow\ndef f():  # target\n    return slow.value\n"
    for _ in range(2):
        assert _imported(engine.analyze(text, path=str(slow), keep=False)) == 1


def _analyze_sharing(engine: Engine, path: Path, text: str, *shared: str) -> Result:
    imports = SharedImports(shared, str(path.parent))
    return engine.analyze(text, path=str(path), keep=False, files=True, shared_imports=imports)


def test_modules_that_files_share_are_imported_once(
    engine: Engine, slow: Path, reimports: int
) -> None:
    text = "import slow\ndef f():  # target\n    return slow.value, __file__[-8:]\n"
    first = _analyze_sharing(engine, slow, text, "slow")
    assert (first.value("f"), _imported(first)) == ("(1, 'model.py')", 1)
    for path in (slow.with_name("other.py"), slow.with_name("third.py")):
        text = f"import os, slow\nx = {path.name!r}\ndef g():  # target\n    return slow.value, x\n"
        other = _analyze_sharing(engine, path, text, "slow")
        assert (other.value("g"), _imported(other)) == (f"(1, {path.name!r})", reimports)
        events = [one for one in other.events if isinstance(one, FilesRead)]
        read = {file.path for one in events for file in one.unpack_files()}
        assert str(slow.with_name("slow.py")) in read and str(path) not in read
    (slow.parent / "slow.py").write_text(SLOW.replace("value = 1", "value = 22"))
    changed = _analyze_sharing(engine, slow, text, "slow")
    assert changed.value("g") == f"(22, {path.name!r})"


def test_a_file_that_is_a_shared_import_is_executed_for_itself(
    engine: Engine, slow: Path, reimports: int
) -> None:
    path = slow.with_name("slow.py")
    text = f"{SLOW}def f():  # target\n    return value, __name__\n"
    path.write_text(text)
    for _ in range(2):  # without and with a process that has imported it
        own = _analyze_sharing(engine, path, text, "slow")
        assert own.value("f") == "(1, 'slow')"
        user = "import slow\ndef f():  # target\n    return slow.value\n"
        assert _analyze_sharing(engine, slow, user, "slow").value("f") == "1"
    assert _imported(_analyze_sharing(engine, slow, user, "slow")) == reimports


def test_modules_of_the_same_name_in_other_folders_are_not_shared(
    engine: Engine, tmp_path: Path
) -> None:
    text = "import slow\ndef f():  # target\n    return slow.value\n"
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "slow.py").write_text(f"value = {number}\n")
        result = _analyze_sharing(engine, folder / "model.py", text, "slow")
        assert result.value("f") == str(number)


def test_a_shared_import_that_fails_is_reported_at_its_statement(
    engine: Engine, slow: Path
) -> None:
    text = "import slow, absent\ndef f():  # target\n    return absent.x\n"
    result = _analyze_sharing(engine, slow, text, "absent", "slow")
    assert {line for _, line in result.troubles} == {0}


def test_findings_of_imports_that_have_moved_are_where_they_are(engine: Engine, slow: Path) -> None:
    text = "import slow, absent\ndef f():  # target\n    return absent.x\n"
    engine.analyze(text, path=str(slow))
    moved = engine.analyze(f"# A comment.\n{text}", path=str(slow))
    assert {line for _, line in moved.troubles} == {1}


def test_how_long_runs_may_take_is_no_reason_to_import_again(
    engine: Engine, slow: Path, reimports: int
) -> None:
    text = "import slow\ndef f():  # target\n    return 1\n"
    engine.analyze(text, path=str(slow), limits=Limits(seconds=20.0))
    again = engine.analyze(text, path=str(slow), limits=Limits(seconds=30.0))
    assert (again.value("f"), _imported(again)) == ("1", reimports)
    smaller = Limits(seconds=30.0, memory=2048)
    assert _imported(engine.analyze(text, path=str(slow), limits=smaller)) == 1


def test_a_preamble_that_is_stopped_is_replaced(engine: Engine, slow: Path, processes: str) -> None:
    if processes == "spawn":
        pytest.skip("no preamble is kept there")
    before = set(children_of(engine.process.pid))
    text = "import slow\ndef f():  # target\n    return "
    assert engine.analyze(f"{text}1\n", path=str(slow)).value("f") == "1"
    (preamble,) = set(children_of(engine.process.pid)) - before
    os.kill(preamble, signal.SIGSTOP)
    again = engine.analyze(f"{text}2\n", path=str(slow))
    assert (again.value("f"), _imported(again)) == ("2", 1)


def test_shared_memory_is_empty_after_an_edit(engine: Engine, slow: Path, reimports: int) -> None:
    text = "import slow, os\ndef f():  # target\n    return "
    left = "open('/dev/shm/left', 'w').close(), os.mkdir('/dev/shm/folder')"
    assert engine.analyze(f"{text}{left}\n", path=str(slow)).value("f") == "(None, None)"
    again = engine.analyze(f"{text}os.listdir('/dev/shm')\n", path=str(slow))
    assert (again.value("f"), _imported(again)) == ("[]", reimports)


def test_an_edit_of_the_imports_executes_them_again(engine: Engine, slow: Path) -> None:
    body = "def f():  # target\n    return 1\n"
    assert _imported(engine.analyze("import slow\n" + body, path=str(slow))) == 1
    assert _imported(engine.analyze("import slow, os\n" + body, path=str(slow))) == 1
    assert _imported(engine.analyze("import os\nimport slow\n" + body, path=str(slow))) == 1


def test_a_continued_import_is_not_taken_for_the_old_one(engine: Engine, slow: Path) -> None:
    guarded = "try:\n    import slow\nexcept ImportError:\n    slow = None\n"
    body = "def f():  # target\n    return slow.value, x\n"
    assert _imported(engine.analyze(f"{guarded}x = 1\n{body}", path=str(slow))) == 1
    more = engine.analyze(f"{guarded}else:\n    x = 2\n{body}", path=str(slow))
    assert (more.value("f"), _imported(more)) == ("(1, 2)", 1)


def test_a_changed_module_is_imported_again(engine: Engine, slow: Path) -> None:
    text = "import slow\ndef f():  # target\n    return slow.value\n"
    assert engine.analyze(text, path=str(slow)).value("f") == "1"
    (slow.parent / "slow.py").write_text(SLOW.replace("value = 1", "value = 22"))
    assert engine.analyze(text, path=str(slow)).value("f") == "22"


def test_a_changed_file_that_an_import_reads(engine: Engine, slow: Path) -> None:
    config = slow.parent / "config.txt"
    config.write_text("one")
    (slow.parent / "slow.py").write_text(SLOW + f"value = open({str(config)!r}).read()\n")
    text = "import slow\ndef f():  # target\n    return slow.value\n"
    assert engine.analyze(text, path=str(slow)).value("f") == "'one'"
    config.write_text("three")
    assert engine.analyze(text, path=str(slow)).value("f") == "'three'"


def test_findings_of_the_imports_come_again(engine: Engine, slow: Path, reimports: int) -> None:
    text = "import slow, absent\ndef f():  # target\n    return {}\n"
    first = engine.analyze(text.format(1), path=str(slow))
    again = engine.analyze(text.format(2), path=str(slow))
    assert (_imported(first), _imported(again)) == (1, reimports)
    assert first.trouble() == again.trouble()
    (slow.parent / "absent.py").write_text("")
    assert not engine.analyze(text.format(3), path=str(slow)).troubles


def test_what_imports_and_runs_have_read_is_told(engine: Engine, slow: Path) -> None:
    (slow.parent / "later.py").write_text("")
    text = "import slow\ndef f():  # target\n    import later\n    return {}\n"
    for number in range(2):
        result = engine.analyze(text.format(number), path=str(slow), files=True)
        told = [event for event in result.events if isinstance(event, FilesRead)]
        read = {Path(file.path).name for event in told for file in event.unpack_files()}
        assert {"slow.py", "later.py"} <= read


@pytest.mark.parametrize("opened", [True, False])
def test_what_failed_on_import_was_read(engine: Engine, tmp_path: Path, opened: bool) -> None:
    """From its bytecode, or from the text that an editor has of it: neither opens the file."""
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    py_compile.compile(str(broken))
    files = (OpenFile(str(broken), "2 / 0\n"),) if opened else ()
    text = (
        "try:\n    import broken\nexcept ArithmeticError:\n    pass\n"
        "{} = 1\ndef f():  # target\n    return 1\n"
    )
    for name in ("x", "y"):
        path = str(tmp_path / "model.py")
        result = engine.analyze(text.format(name), path=path, files=True, open_files=files)
        told = [event for event in result.events if isinstance(event, FilesRead)]
        states = {Path(file.path).name: file for event in told for file in event.unpack_files()}
        assert (states["broken.py"].modified == OPEN) is opened


def test_a_generation_that_misbehaves_leaves_the_preamble(
    engine: Engine, slow: Path, reimports: int
) -> None:
    text = "import slow\nimport os\n{}\ndef f():  # target\n    return 1\n"
    assert _imported(engine.analyze(text.format(""), path=str(slow))) == 1
    broken = engine.analyze(text.format("os._exit(3)"), path=str(slow))
    assert broken.troubles == [("trace/crashed", 2)]
    assert broken.value("f") == "1"
    again = engine.analyze(text.format("x = 1"), path=str(slow))
    assert (again.value("f"), _imported(again)) == ("1", reimports)
    assert isinstance(engine.analyze(text.format("x = ="), path=str(slow)).end, Failed)
    assert _imported(engine.analyze(text.format("x = 2"), path=str(slow))) == reimports


def test_cancelling_a_generation_leaves_the_preamble(
    engine: Engine, slow: Path, reimports: int
) -> None:
    text = "import slow, time\n{}\ndef f():  # target\n    return 1\n"
    assert _imported(engine.analyze(text.format(""), path=str(slow))) == 1
    for wait in (False, True):
        request = engine.begin(
            text.format("print('here', flush=True)\ntime.sleep(600)"), path=str(slow)
        )
        while wait and not isinstance(engine.event(), Log):
            pass
        engine.send(Cancel(request))
        assert isinstance(engine.until_end(request).end, Analyzed)
    again = engine.analyze(text.format("x = 1"), path=str(slow))
    assert (again.value("f"), _imported(again)) == ("1", reimports)


def test_an_import_that_starts_a_thread_is_not_kept(engine: Engine, slow: Path) -> None:
    (slow.parent / "slow.py").write_text(
        SLOW + "import threading\nthreading.Thread(target=time.sleep, args=(600,)).start()\n"
    )
    text = "import slow\ndef f():  # target\n    return {}\n"
    assert _imported(engine.analyze(text.format(1), path=str(slow))) == 1
    assert _imported(engine.analyze(text.format(2), path=str(slow))) == 1


@pytest.mark.slow
def test_only_a_few_preambles_are_kept(engine: Engine, slow: Path, reimports: int) -> None:
    text = "import slow\ndef f():  # target\n    return 1\n"
    paths = [str(slow.parent / f"model{number}.py") for number in range(12)]
    for path in paths:
        assert _imported(engine.analyze(text, path=path)) == 1
    assert _imported(engine.analyze(text, path=paths[-1])) == reimports
    assert _imported(engine.analyze(text, path=paths[0])) == 1
    # What has said its last word may still be on its way out.
    until = time.monotonic() + 30
    while len(children_of(engine.process.pid)) > 11 and time.monotonic() < until:
        time.sleep(0.01)
    assert len(children_of(engine.process.pid)) <= 11


def test_calls_are_made_again_beside_what_nobody_waits_for(
    engine: Engine, slow: Path, tmp_path: Path, reimports: int
) -> None:
    if reimports:
        pytest.skip("nothing is forked here")
    head = "import builtins, os, slow, time\ndef f():  # target\n    "
    engine.analyze(f"{head}pass\n", path=str(slow))
    go_on = tmp_path / "go_on"
    waits = f"while not os.path.exists({str(go_on)!r}):\n        time.sleep(0.01)\n"
    background = engine.begin(
        f"{head}print('begun', flush=True)\n    {waits}", path=str(slow), nice=3
    )
    while not (isinstance(event := engine.event(), Log) and "begun" in event.text):
        assert event is not None
    engine.analyze(f"{head}builtins.calls = 'those of f'\n", path=str(slow))
    repeated = f"{head}return getattr(builtins, 'repeated', '')\n"
    until = time.monotonic() + 20
    found = set[str]()
    while "'those of f'" not in found and time.monotonic() < until:
        found.add(engine.analyze(repeated, path=str(slow)).value("f"))
        time.sleep(0.2)  # They are made when nothing has come for a while.
    go_on.touch()
    engine.until_end(background)
    assert "'those of f'" in found
