"""The processes that make the operator index, with stages that go wrong."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from fullgraph_engine.protocol import Event, IndexWritten, Log, Ready

FIXTURE = Path(__file__).parents[2] / "fixtures" / "host" / "pipeline.py"

Says = Callable[..., list[Event]]


def stages(tmp_path: Path, read: str, survey: str, torch: str = "") -> tuple[str, ...]:
    """The stub pipeline, with operators whose two stages are this code."""
    text = f"""
        import importlib.util, os, sys, time
        spec = importlib.util.spec_from_file_location("stub_base", {str(FIXTURE)!r})
        base = importlib.util.module_from_spec(spec)
        sys.modules["stub_base"] = base
        spec.loader.exec_module(base)

        class Operators:
            def write_static_index(self, out):
                {read}
            def write_complete_index(self, static, scratch, say):
                path = scratch / "complete.index"
                {survey}
                path.write_text(static.read_text() if static else "nothing")
                return path

        class Pipeline(base.Pipeline):
            def make_operators(self, yaml):
                return Operators()
            def torch_version(self):
                {torch or "pass"}
                return "2.13.0"
    """
    file = tmp_path / "stages.py"
    file.write_text(textwrap.dedent(text))
    return ("--pipeline", f"{file}:Pipeline")


def complete(events: list[Event]) -> bool:
    return any(isinstance(event, IndexWritten) and event.complete for event in events)


def after(path: Path, kind: type) -> Callable[[list[Event]], bool]:
    """Complete; what waits for a file goes on once an event of this kind was heard."""

    def enough(events: list[Event]) -> bool:
        if any(isinstance(event, kind) for event in events):
            path.touch()
        return complete(events)

    return enough


def logged(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Log)]


def test_one_stage_after_the_other(tmp_path: Path, engine_says: Says) -> None:
    options = stages(tmp_path, "out.write_text('read')", "assert static.read_text() == 'read'")
    events = engine_says(complete, options=options)
    assert [e.complete for e in events if isinstance(e, IndexWritten)] == [False, True]
    assert logged(events) == []


def test_the_first_is_told_while_torch_is_imported(tmp_path: Path, engine_says: Says) -> None:
    waits = f"while not os.path.exists({str(tmp_path / 'heard')!r}): time.sleep(0.01)"
    options = stages(tmp_path, "out.write_text('read')", "pass", torch=waits)
    events = engine_says(after(tmp_path / "heard", IndexWritten), options=options)
    kinds = [type(event) for event in events]
    assert kinds.index(IndexWritten) < kinds.index(Ready)


def test_the_first_takes_longer_than_torch(tmp_path: Path, engine_says: Says) -> None:
    path = str(tmp_path / "heard")
    read = f"while not os.path.exists({path!r}): time.sleep(0.01)\n{16 * ' '}out.write_text('read')"
    options = stages(tmp_path, read, "pass")
    events = engine_says(after(tmp_path / "heard", Ready), options=options)
    kinds = [type(event) for event in events]
    assert kinds.index(Ready) < kinds.index(IndexWritten)
    assert kinds.count(IndexWritten) == 2


@pytest.mark.parametrize(
    "trouble", ["raise OSError('no space')", "os._exit(7)", "os.kill(os.getpid(), 9)", "sys.exit()"]
)
def test_the_second_goes_on_without_the_first(
    tmp_path: Path, engine_says: Says, trouble: str
) -> None:
    events = engine_says(complete, options=stages(tmp_path, trouble, "assert static is None"))
    assert sum(isinstance(event, IndexWritten) for event in events) == 1
    assert len(logged(events)) == (1 if "space" in trouble or "exit()" in trouble else 0)


def test_an_engine_works_without_an_index(tmp_path: Path, engine_says: Says) -> None:
    options = stages(tmp_path, "raise ValueError('first')", "raise ValueError('second')")
    events = engine_says(lambda found: len(logged(found)) == 2, options=options)
    assert any(isinstance(event, Ready) for event in events)
    assert not any(isinstance(event, IndexWritten) for event in events)
    assert "ValueError: first" in logged(events)[0]
    assert "ValueError: second" in logged(events)[1]


def test_what_it_prints_is_nobodys(tmp_path: Path, engine_says: Says) -> None:
    options = stages(tmp_path, "print('noise'); out.write_text('read')", "print('noise')")
    assert logged(engine_says(complete, options=options)) == []
