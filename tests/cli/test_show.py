"""``fullgraph show``, against an engine that follows a script."""

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.cli.conftest import CommandLine, Ran, on, script

from fullgraph.cli.show import ChosenPlace, read_events, serialize_events
from fullgraph_engine.protocol import (
    DocumentsWritten,
    Failed,
    RunId,
    Status,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.documents import DocumentKind, DocumentPart, SavedEvents

NET, OTHER = on(0, 6, 9), on(8, 6, 11)


def written(target: str, attempt: str = "fake 1", **texts: str) -> DocumentsWritten:
    parts = tuple(
        DocumentPart(cast("DocumentKind", kind), f"A {kind}", text) for kind, text in texts.items()
    )
    return DocumentsWritten(0, target, RunId(target), attempt, parts)


def found(*names: str) -> TargetsFound:
    places = {"Net": NET, "Other": OTHER}
    return TargetsFound(0, tuple(TargetInfo(name, "module", places[name]) for name in names))


def done(name: str, status: Status = "traced", error: str | None = None) -> TargetDone:
    return TargetDone(0, TargetReport(name, "module", NET, status, graphs=1, error=error))


def show(command_line: CommandLine, *arguments: str, **env: Any) -> Ran:
    return command_line.run("show", "--python", str(command_line.interpreter), *arguments, **env)


@pytest.mark.parametrize(
    ("place", "chosen"),
    [
        ("model.py", ChosenPlace("model.py")),
        ("model.py:12", ChosenPlace("model.py", line=12)),
        ("a/model.py::Net", ChosenPlace("a/model.py", target="Net")),
        ("model.py::compiled(x)", ChosenPlace("model.py", target="compiled(x)")),
        ("C:/model.py", ChosenPlace("C:/model.py")),
    ],
)
def test_places(place: str, chosen: ChosenPlace) -> None:
    assert ChosenPlace.parse(place) == chosen


def test_the_document_of_one_target(command_line: CommandLine) -> None:
    command_line.write(
        "model.py",
        script(
            found("Net"),
            written("Net", "fake 1", graph="wrong\n"),
            written("Net", "fake 2", graph="class Graph1: ...\n", events="other\n"),
            written("Other", graph="not asked for\n"),
            done("Net"),
        ),
    )
    ran = show(command_line, "graph", "model.py::Net")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.startswith("# fullgraph: off\n\n# Graphs of `Net`: ")
    assert ran.out.endswith("\n\nclass Graph1: ...\n")
    assert "wrong" not in ran.out and "asked" not in ran.out and "other" not in ran.out


def test_all_targets_of_a_file(command_line: CommandLine) -> None:
    events = (written(name, bytecode=f"code of {name}\n") for name in ("Net", "Other"))
    command_line.write("model.py", script(found("Net", "Other"), *events, done("Net")))
    ran = show(command_line, "bytecode", "model.py")
    assert ran.status == 0
    assert ran.out.index("A bytecode\n==========\ncode of Net") < ran.out.index("code of Other")


def test_what_was_learnt_before_the_end_is_shown(command_line: CommandLine) -> None:
    end = done("Net", "timeout", "it did not end within 60 seconds")
    command_line.write("model.py", script(found("Net"), written("Net", graph="begun\n"), end))
    ran = show(command_line, "graph", "model.py")
    assert ran.status == 1
    assert "begun\n" in ran.out
    assert ran.out.endswith("may be missing: it did not end within 60 seconds.\n")


def test_nothing_to_show(command_line: CommandLine) -> None:
    command_line.write("model.py", script(found("Net"), done("Net")))
    ran = show(command_line, "events", "model.py")
    assert (ran.status, ran.err) == (0, "")
    assert ran.out.endswith("Write one with a letter in the probe, as in `f32[b, 16]`.\n")
    ran = show(command_line, "graph", "model.py::Gone")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == "There is no target `Gone` in this file.\n"
    command_line.write("empty.py", script(TargetsFound(0, ())))
    ran = show(command_line, "graph", "empty.py")
    assert (ran.status, ran.err) == (1, "empty.py has no function or class to trace.\n")


def test_what_cannot_be_done(command_line: CommandLine) -> None:
    command_line.write("model.py", script(found("Net")))
    ran = show(command_line, "picture", "model.py")
    assert ran.status == 2 and "graph, guards, events, bytecode" in ran.err
    ran = show(command_line, "graph", "absent.py")
    assert ran.status == 2 and ran.err.startswith("error: Cannot read absent.py")
    ran = show(command_line, "graph", "model.py", SCRIPTED_UNUSABLE="There is no torch.")
    assert ran.status == 2 and "There is no torch." in ran.err
    failed = Failed(
        0, "The file does not parse: invalid syntax.", "Correct the syntax error to get findings."
    )
    command_line.write("broken.py", script(failed))
    ran = show(command_line, "graph", "broken.py")
    assert ran.status == 1 and ran.err.startswith("The file does not parse")


def test_an_engine_that_dies_ends_it(command_line: CommandLine) -> None:
    command_line.write(
        "model.py", script(found("Net"), written("Net", graph="begun\n")) + "#! die\n"
    )
    ran = show(command_line, "graph", "model.py")
    assert ran.status == 1 and "begun\n" in ran.out and "engine" in ran.out


SAVED = SavedEvents(RunId("Net", 0, "second"), 1, '{"version": 1}')


def events(**facts: object) -> DocumentsWritten:
    part = DocumentPart("events", "ShapeEnv 1", "what differs\n", **facts)  # type: ignore[arg-type]
    return DocumentsWritten(0, "Net", SAVED.run, "fake 1", (part,))


def test_events_are_saved(command_line: CommandLine) -> None:
    command_line.write(
        "model.py", script(found("Net"), events(number=1, archive=SAVED.archive), done("Net"))
    )
    ran = show(command_line, "events", "model.py", "--save", "events.json")
    assert (ran.status, ran.err) == (0, "")
    assert read_events(command_line.folder / "events.json") == (SAVED,)


@pytest.mark.parametrize("differs", [False, True])
def test_events_that_differ_are_a_status(command_line: CommandLine, differs: bool) -> None:
    command_line.write("events.json", serialize_events((SAVED,)))
    command_line.write("model.py", script(found("Net"), events(differs=differs), done("Net")))
    ran = show(command_line, "events", "model.py", "--compare", "events.json")
    assert (ran.status, "what differs" in ran.out) == (int(differs), True)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", "does not contain saved events; write them with `--save`."),
        ("[", "does not contain saved events; write them with `--save`."),
        ('{"version": 1, "events": [{"run": 3}]}', "does not contain saved events"),
        ('{"version": 7, "events": []}', "has format 7; save the events again."),
        (None, "cannot be read: No such file or directory."),
    ],
)
def test_a_file_that_holds_no_events(
    command_line: CommandLine, text: str | None, words: str
) -> None:
    command_line.write("model.py", script(found("Net")))
    if text is not None:
        command_line.write("events.json", text)
    ran = show(command_line, "events", "model.py", "--compare", "events.json")
    assert ran.status == 2
    assert words in " ".join(ran.err.split())


def test_only_events_are_saved_and_compared(command_line: CommandLine) -> None:
    ran = show(command_line, "graph", "model.py", "--save", "events.json")
    assert ran.status == 2 and "--save and --compare work only with events." in ran.err


def test_a_file_that_cannot_be_written(command_line: CommandLine) -> None:
    command_line.write(
        "model.py", script(found("Net"), events(number=1, archive=SAVED.archive), done("Net"))
    )
    ran = show(command_line, "events", "model.py", "--save", "no/such/events.json")
    assert ran.status == 2
    assert ran.err == "error: no/such/events.json cannot be written: No such file or directory.\n"
