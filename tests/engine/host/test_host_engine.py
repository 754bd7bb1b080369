"""The engine itself: how it starts, what it refuses, how it ends; reproductions."""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time
import types
from importlib.machinery import SourceFileLoader
from pathlib import Path

import pytest
from tests.engine.hosts import (
    PATIENCE,
    STUB,
    Engine,
    children_of,
    has_landlock,
    named,
    started_engine,
)

from fullgraph_engine.host import frames, import_hook
from fullgraph_engine.protocol import (
    Cancel,
    Event,
    Failed,
    Finding,
    Frame,
    Log,
    Position,
    Range,
    Ready,
    Related,
    Reproduced,
    ReproFound,
    ReproProgress,
    SelfCheck,
    SelfChecked,
    Shutdown,
    Starting,
    Unusable,
)


def begin_endless(engine: Engine) -> str:
    """Have user code loop; the name that its process has given itself."""
    name = f"fg{secrets.token_hex(4)}"
    engine.begin(
        f"""\
        import ctypes
        ctypes.CDLL(None).prctl(15, b"{name}", 0, 0, 0)
        print("there", flush=True)
        while True: pass
        def f():  # target
            pass
        """
    )
    while not isinstance(engine.event(), Log):
        pass
    assert named(name)
    return name


def test_the_engine_ends_with_its_pipe_and_takes_all_along(processes: str) -> None:
    engine, _ = started_engine(processes)
    name = begin_endless(engine)
    assert engine.close() == 0
    assert not named(name)


def test_user_code_dies_with_a_killed_engine(processes: str) -> None:
    engine, _ = started_engine(processes)
    name = begin_endless(engine)
    engine.process.send_signal(signal.SIGKILL)
    engine.close()
    for _ in range(500):
        if not named(name):
            return
        time.sleep(0.01)
    pytest.fail("the module process outlived the engine")


def has_collector(events: list[Event]) -> bool:
    ready = events[-1]
    assert isinstance(ready, Ready)
    return any(layer.name == "pid namespace" and not layer.lack for layer in ready.sandbox.layers)


COLLECTOR_ENDS = """\
import os, pathlib, signal, sys
sys.path.insert(0, {fixtures!r})
from pipeline import Pipeline as Stub

class Pipeline(Stub):
    def torch_version(self):
        children = pathlib.Path(f"/proc/self/task/{{os.getpid()}}/children").read_text()
        os.kill(int(children.split()[0]), signal.SIGKILL)
        return super().torch_version()
"""


def test_an_engine_whose_namespaces_have_ended_ends_as_if_it_had_been_killed(
    tmp_path: Path,
) -> None:
    engine, events = started_engine(env={"TMPDIR": str(tmp_path)})
    if not has_collector(events):
        engine.close()
        pytest.skip("no pid namespace here")
    collector, *_ = sorted(children_of(engine.process.pid))
    os.kill(collector, signal.SIGKILL)
    assert engine.event() is None
    assert engine.close() == -signal.SIGKILL
    assert not any(tmp_path.iterdir())
    # While torch is imported: it says neither that it is ready, nor that it is of no use.
    path = tmp_path / "ending.py"
    path.write_text(COLLECTOR_ENDS.format(fixtures=str(Path(STUB.rpartition(":")[0]).parent)))
    engine = Engine(pipeline=f"{path}:Pipeline")
    assert isinstance(engine.event(), Starting)
    assert engine.event() is None
    assert engine.close() == -signal.SIGKILL


def test_spares_that_do_not_get_ready_are_told_and_not_started_over_and_over(
    tmp_path: Path,
) -> None:
    stub, _, name = STUB.rpartition(":")
    broken = tmp_path / "broken.py"
    broken.write_text(
        f"import sys\nfrom pathlib import Path\n"
        f"exec(compile(Path({stub!r}).read_text(), {stub!r}, 'exec'))\n"
        f"class Broken({name}):\n    def warm_up(self):\n"
        f"        if '--spare' in sys.argv:\n"
        f"            with Path({str(tmp_path / 'starts')!r}).open('a') as starts:\n"
        f"                starts.write('x')\n"
        f"            sys.exit(5)\n"
    )
    engine, _ = started_engine("spawn", pipeline=f"{broken}:Broken")
    result = engine.analyze("def f():  # target\n    return 1\n")
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "exited with status 5 before torch was imported" in finding.message
    engine.send(SelfCheck(99))  # it has gone on since
    while not isinstance(engine.event(), SelfChecked):
        pass
    assert engine.close() == 0
    assert 1 <= len((tmp_path / "starts").read_text()) <= 4


def test_shutdown(processes: str) -> None:
    engine, _ = started_engine(processes)
    engine.send(Shutdown())
    assert engine.process.wait(PATIENCE) == 0
    engine.close()


def test_an_interrupt_from_the_terminal_is_for_the_server(processes: str) -> None:
    engine, _ = started_engine(processes)
    engine.process.send_signal(signal.SIGINT)
    result = engine.analyze("def f():  # target\n    return 1\n")
    assert result.value("f") == "1"
    engine.close()


def test_no_torch(tmp_path: Path, processes: str) -> None:
    stub = tmp_path / "without.py"
    stub.write_text(
        "class Base:\n    def make_operators(self, yaml):\n        return None\n"
        "class Pipeline(Base):\n    def torch_version(self):\n        import torch_that_is_absent\n"
        "class Missing(Base):\n    def torch_version(self):\n"
        "        raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
        "class Old(Base):\n    def torch_version(self):\n        return '2.5.1+cu121'\n"
        "class Broken(Base):\n    def torch_version(self):\n"
        "        raise OSError('libtorch.so: no')\n"
        "class Leaves(Base):\n    def torch_version(self):\n        raise SystemExit(3)\n"
    )
    for name, words in {
        "Missing": ("No torch in ", "pip install torch"),
        "Old": ("torch 2.5.1+cu121", "older than 2.8"),
        "Broken": ("cannot be imported: OSError: libtorch.so: no",),
        "Leaves": ("cannot be imported: SystemExit: 3. Find out why",),
        "Pipeline": ("torch_that_is_absent",),
    }.items():
        engine, events = started_engine(processes, pipeline=f"{stub}:{name}")
        last = events[-1]
        assert isinstance(last, Unusable)
        assert all(word in f"{last.reason} {last.next_step}" for word in words), last
        assert last.reason.endswith(".")
        assert sys.executable in last.reason
        assert engine.close() == 1


@pytest.mark.parametrize("version", ["3.8", "3.9"])
def test_old_python(version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} here")
    engine, events = started_engine(python=str(found[0]))
    assert isinstance(events[0], Starting)
    assert isinstance(events[-1], Unusable)
    assert "older than 3.10" in events[-1].reason
    assert engine.close() == 1


@pytest.mark.parametrize("version", ["3.10", "3.11", "3.12", "3.13"])
def test_supported_pythons(version: str) -> None:
    found = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    if not found:
        pytest.skip(f"no Python {version} here")
    engine, events = started_engine(python=str(found[0]))
    assert isinstance(events[-1], Ready), events
    result = engine.analyze(
        """\
        import absent, os
        x = {}["a"]
        def f():  # target
            return __name__
        def crash():  # target
            import ctypes; ctypes.string_at(0)
        def needs():  # target
            return absent.x
        os._exit(1)
        """
    )
    assert set(result.troubles) == {
        ("trace/import-error", 0),
        ("trace/eager-error", 1),
        ("trace/crashed", 5),
        ("trace/crashed", 8),
    }
    assert {name: report.status for name, report in result.reports.items()} == {
        "f": "traced",
        "crash": "crashed",
        "needs": "failed",
    }
    assert engine.close() == 0


@pytest.mark.parametrize("on_path", [False, True])
def test_files_in_the_working_directory_do_not_shadow(
    tmp_path: Path, on_path: bool, processes: str
) -> None:
    names = ("torch", "typing", "json", "socket", "selectors", "host", "protocol", "dataclasses")
    for name in names:
        (tmp_path / f"{name}.py").write_text(f"raise RuntimeError('{name} is shadowed')\n")
    (tmp_path / "mine.py").write_text("x = 3\n")
    if on_path:
        # Python itself needs these at its start, and would not come up.
        for name in ("typing", "dataclasses"):
            (tmp_path / f"{name}.py").unlink()
    engine, events = started_engine(
        processes,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path)} if on_path else {"PYTHONPATH": ""},
    )
    assert isinstance(events[-1], Ready), events
    result = engine.analyze(
        "import mine, sys\ndef f():  # target\n    return mine.x, sys.path\n",
        path=str(tmp_path / "model.py"),
    )
    assert eval(result.value("f"))[0] == 3
    engine.close()


def test_the_working_folder_is_that_of_the_request(tmp_path: Path, processes: str) -> None:
    engine, _ = started_engine(processes, cwd=Path("/"), env={"PWD": "/somewhere"})
    text = "import os\ndef f():  # target\n    return os.getcwd(), os.environ['PWD']\n"
    for name in ("one", "other"):
        folder = tmp_path / name
        folder.mkdir()
        result = engine.analyze(text, path=str(folder / "model.py"), cwd=str(folder))
        assert eval(result.value("f")) == (str(folder), str(folder))
    engine.close()


def test_a_repro_is_made_in_a_clean_process_in_which_candidates_can_do_no_harm(
    engine: Engine,
) -> None:
    result = engine.reproduce("return 'go'")
    end = result.end
    assert isinstance(end, Reproduced)
    assert (end.verified, end.tried, end.reason) == (True, 4, "")
    refused = b"fullgraph's sandbox does not"
    first, last = result.scripts
    assert first == "first of auto go"
    assert last == repr(
        [("exit", None), ("good", b"good"), ("network", refused), ("write", refused)]
    )


def test_what_a_repro_lets_candidates_start_can_do_no_harm_either(engine: Engine) -> None:
    if not has_landlock():
        pytest.skip("no Landlock in this kernel")
    result = engine.reproduce("return 'start'")
    refused = b"fullgraph's sandbox does not"
    assert result.scripts[-1] == repr(
        [("sh", refused), ("touch inside", b"0"), ("touch outside", b"1")]
    )


def test_what_the_run_that_looks_for_it_tells_is_not_told_as_an_analysis(engine: Engine) -> None:
    result = engine.reproduce("print('hello'); return 'go'")
    kinds = {type(event) for event in result.events}
    assert kinds == {Log, ReproProgress, ReproFound, Reproduced}
    assert result.log("stdout") == "hello\n"


def test_a_finding_is_looked_for_with_real_tensors_where_fake_ones_do_not_do(
    engine: Engine,
) -> None:
    assert engine.reproduce("return 'needs real'").scripts[0] == "first of real needs real"


def test_a_finding_that_is_not_there_again_is_told_with_the_reason(engine: Engine) -> None:
    end = engine.reproduce("return None").end
    assert isinstance(end, Reproduced)
    assert (end.verified, end.reason) == (False, "no stub/code here")


@pytest.mark.parametrize("order", ["crash", "raise"])
def test_a_reducer_that_dies_leaves_the_best_script_so_far(engine: Engine, order: str) -> None:
    result = engine.reproduce(f"return {order!r}")
    end = result.end
    assert isinstance(end, Reproduced)
    assert result.scripts == [f"first of auto {order}"]
    assert (end.verified, end.cancelled) == (False, False)
    assert end.reason.endswith("it crashed. The best result so far is kept.")


def test_a_repro_that_is_cancelled_ends_at_once_and_frees_its_processes(engine: Engine) -> None:
    number = engine.begin_repro("return 'hang'")
    while not isinstance(engine.event(), ReproFound):
        pass
    folders = engine.scratch_folders()
    engine.send(Cancel(number))
    end = engine.until_end(number).end
    assert isinstance(end, Reproduced)
    assert end.cancelled
    assert engine.reproduce("return 'go'").scripts[0] == "first of auto go"
    until = time.monotonic() + 20
    while engine.scratch_folders() & folders and time.monotonic() < until:
        time.sleep(0.01)
    assert folders and not engine.scratch_folders() & folders


def test_a_repro_can_be_cancelled_while_the_finding_is_looked_for(engine: Engine) -> None:
    number = engine.begin_repro("print('there', flush=True); return 'sleep'")
    while not isinstance(engine.event(), Log):
        pass
    engine.send(Cancel(number))
    end = engine.until_end(number).end
    assert isinstance(end, Reproduced)
    assert end.cancelled


def test_the_budget_holds_while_the_finding_is_looked_for(engine: Engine) -> None:
    end = engine.reproduce("return 'sleep'", seconds=1.0).end
    assert isinstance(end, Reproduced)
    assert not end.cancelled and 1.0 <= end.seconds < 2.5
    assert end.reason.startswith("The time limit was reached before the target was run again")
    assert engine.reproduce("return 'go'").scripts[0] == "first of auto go"


def test_a_file_that_does_not_parse_gives_no_repro_and_says_so(engine: Engine) -> None:
    end = engine.reproduce("return (").end
    assert isinstance(end, Failed)
    assert end.reason == "The file does not parse: '(' was never closed on line 2."


def test_a_run_that_crashes_while_the_finding_is_looked_for_is_told(engine: Engine) -> None:
    end = engine.reproduce("import os; os._exit(7)").end
    assert isinstance(end, Reproduced)
    assert "exited with status 7" in end.reason


def test_a_module_has_the_loader_that_python_would_give_it() -> None:
    source = import_hook.TextImporter("model", "/model.py", "A = 1\n", False, lambda module: None)
    module = types.ModuleType("model")
    source.exec_module(module)
    loader = module.__loader__
    assert type(loader) is SourceFileLoader
    assert loader.get_source("model") == "A = 1\n"


def test_files_that_are_gone_with_the_run_have_a_name_and_no_path() -> None:
    place = Range(Position(0, 0), Position(0, 1))
    written, read = "/tmp/scratch/run/layer_propagate.py", "/tmp/scratching/model.py"
    finding = Finding(
        code="graph-break/GB0059",
        message="Graph break",
        range=place,
        target="Net",
        stack=(Frame(read, "forward", 3), Frame(written, "propagate", 7)),
        related=(Related(written, place, "reached from here"), Related(read, place, "here too")),
    )
    told = frames.drop_scratch_paths(finding, "/tmp/scratch")
    assert [frame.path for frame in told.stack] == [read, "<layer_propagate.py>"]
    assert [one.path for one in told.related] == [read]
    assert frames.drop_scratch_paths(told, "/tmp/scratch") is told
