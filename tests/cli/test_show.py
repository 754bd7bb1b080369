"""``fullgraph show``, against an engine that follows a script."""

from __future__ import annotations

import pytest
from tests.cli.conftest import CommandLine, Ran, on, script

from fullgraph.cli.show import Chosen
from fullgraph_engine.protocol import (
    DocumentsWritten,
    Failed,
    RunId,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.documents import DocumentPart

NET, OTHER = on(0, 6, 9), on(8, 6, 11)


def written(target: str, attempt: str = "fake 1", **texts: str) -> DocumentsWritten:
    parts = tuple(DocumentPart(kind, f"A {kind}", text) for kind, text in texts.items())
    return DocumentsWritten(0, target, RunId(target), attempt, parts)


def found(*names: str) -> TargetsFound:
    places = {"Net": NET, "Other": OTHER}
    return TargetsFound(0, tuple(TargetInfo(name, "module", places[name]) for name in names))


def done(name: str, status: str = "traced", error: str | None = None) -> TargetDone:
    return TargetDone(0, TargetReport(name, "module", NET, status, graphs=1, error=error))


def show(command_line: CommandLine, *arguments: str, **env: str) -> Ran:
    return command_line.run("show", "--python", str(command_line.interpreter), *arguments, **env)


@pytest.mark.parametrize(
    ("place", "chosen"),
    [
        ("model.py", Chosen("model.py")),
        ("model.py:12", Chosen("model.py", line=12)),
        ("a/model.py::Net", Chosen("a/model.py", target="Net")),
        ("model.py::compiled(x)", Chosen("model.py", target="compiled(x)")),
        ("C:/model.py", Chosen("C:/model.py")),
    ],
)
def test_places(place: str, chosen: Chosen) -> None:
    assert Chosen.read(place) == chosen


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
    assert (ran.status, ran.err) == (1, "empty.py has no target.\n")


def test_what_cannot_be_done(command_line: CommandLine) -> None:
    command_line.write("model.py", script(found("Net")))
    ran = show(command_line, "picture", "model.py")
    assert ran.status == 2 and "graph, guards, events, bytecode" in ran.err
    ran = show(command_line, "graph", "absent.py")
    assert ran.status == 2 and ran.err.startswith("error: Cannot read absent.py")
    ran = show(command_line, "graph", "model.py", SCRIPTED_UNUSABLE="There is no torch.")
    assert ran.status == 2 and "There is no torch." in ran.err
    failed = Failed(0, "The file does not parse: invalid syntax.", "Findings follow once it does.")
    command_line.write("broken.py", script(failed))
    ran = show(command_line, "graph", "broken.py")
    assert ran.status == 1 and ran.err.startswith("The file does not parse")


def test_an_engine_that_dies_ends_it(command_line: CommandLine) -> None:
    command_line.write(
        "model.py", script(found("Net"), written("Net", graph="begun\n")) + "#! die\n"
    )
    ran = show(command_line, "graph", "model.py")
    assert ran.status == 1 and "begun\n" in ran.out and "engine" in ran.out
