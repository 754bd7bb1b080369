"""``fullgraph repro``, against an engine that follows a script."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import CommandLine, Ran, on, script

from fullgraph_engine import protocol
from fullgraph_engine.protocol import (
    Event,
    Failed,
    Finding,
    FindingFound,
    ForecastFound,
    Frame,
    Reproduced,
    ReproFound,
    ReproProgress,
    RunId,
    TargetDone,
    TargetInfo,
    TargetReport,
    TargetsFound,
)
from fullgraph_engine.protocol.repro import data_name

SCRIPT = "import torch\n\nprint('```')\n"
BREAK = "graph-break/GB0059"


def finding(line: int, code: str = BREAK, target: str = "Net", **more: Any) -> Finding:
    identity = f"{code} {line}"
    return Finding(code, "Call to print", on(line, 4, 9), target, identity=identity, **more)


def found(*targets: str) -> TargetsFound:
    infos = (
        TargetInfo(name, "module", on(10 * number, 6, 9)) for number, name in enumerate(targets)
    )
    return TargetsFound(0, tuple(infos))


def told(*findings: Finding) -> str:
    return script(found("Net", "Other"), *(FindingFound(0, one) for one in findings))


def answer(*events: Event) -> str:
    """What the scripted engine says when it is asked for a repro."""
    return "".join("#? " + protocol.encode(event).decode() for event in events)


def best(lines: int = 12, *, verified: bool = True, **more: Any) -> ReproFound:
    return ReproFound(0, SCRIPT, lines, verified, **more)


VERIFIED = answer(
    ReproProgress(0, "reducing", 143, 1, 0.2),
    best(80, verified=False),
    best(12, output="it broke", environment="torch 2.13.0", notes=("Keeps `import einops`.",)),
    Reproduced(0, 4.1, 212, verified=True),
)


def repro(command_line: CommandLine, *arguments: str, **env: Any) -> Ran:
    return command_line.run("repro", "--python", str(command_line.interpreter), *arguments, **env)


def written(command_line: CommandLine) -> list[str]:
    folder = command_line.folder / "fullgraph-repros"
    found = [path.name for path in folder.iterdir()] if folder.exists() else []
    return sorted(name for name in found if name != ".gitignore")


# -- what is written ---------------------------------------------------------------------------


def test_a_verified_repro(command_line: CommandLine) -> None:
    path = str(command_line.folder / "model.py")
    stack = (Frame("other.py", "helper", 3), Frame(path, "Net.forward", 2))
    command_line.write("model.py", told(finding(2, stack=stack)) + VERIFIED)
    ran = repro(command_line, "model.py:3")
    assert (ran.status, ran.out) == (0, "fullgraph-repros/gb0059-net-forward.py\n")
    assert ran.err.splitlines() == [
        "graph-break/GB0059: model.py:3: Call to print",
        "repro: 12 lines of 143, verified in a fresh Python · 212 tried · 4.1 s",
        "note: Keeps `import einops`.",
    ]
    assert (command_line.folder / ran.out.strip()).read_text() == SCRIPT
    assert command_line.engine_log()[-1] == f"reproduce {BREAK} Net  Net 30"
    # Again: nothing is overwritten, nothing is left lying about.
    ran = repro(command_line, "model.py:3", "--time-budget", "5", "--quiet")
    assert (ran.status, ran.err) == (0, "")
    assert written(command_line) == ["gb0059-net-forward-2.py", "gb0059-net-forward.py"]
    assert command_line.engine_log()[-1].endswith(" 5")


def test_settings_say_where_and_how_long(command_line: CommandLine) -> None:
    command_line.write(
        "pyproject.toml", '[tool.fullgraph.repro]\nfolder = "kept/here"\ntime-budget = 7\n'
    )
    command_line.write("model.py", told(finding(2)) + VERIFIED)
    ran = repro(command_line, "model.py:3")
    assert (ran.status, ran.out) == (0, "kept/here/gb0059-net.py\n")
    assert command_line.engine_log()[-1].endswith(" 7")


def test_looking_for_the_finding_is_of_the_time_budget(command_line: CommandLine) -> None:
    command_line.write("model.py", f"{told(finding(2))}#! wait\n{VERIFIED}")
    ran = repro(command_line, "model.py:3", "--time-budget", "7")
    assert ran.status == 0
    assert command_line.engine_log()[-1] == f"reproduce {BREAK} Net  Net 6"


def test_the_search_ends_with_the_target_that_shows_it(command_line: CommandLine) -> None:
    def done(name: str) -> TargetDone:
        return TargetDone(0, TargetReport(name, "module", on(0, 6, 9), "traced"))

    later = FindingFound(0, finding(2, "op/not-pt2-compliant", "Other"))
    first = (found("Net", "Other"), FindingFound(0, finding(2)), done("Other"))
    for end, others in (((later, done("Net")), True), ((done("Net"), later), False)):
        command_line.write("model.py", script(*first, *end) + VERIFIED)
        ran = repro(command_line, "model.py:3")
        assert ran.status == 0
        assert ("Other findings at this place: `op/not-pt2-compliant`" in ran.err) == others


def test_out(command_line: CommandLine) -> None:
    command_line.write("model.py", told(finding(2)) + VERIFIED)
    ran = repro(command_line, "model.py:3", "--out", "-")
    assert (ran.status, ran.out) == (0, SCRIPT) and not written(command_line)
    ran = repro(command_line, "model.py:3", "--out", "a/b")
    assert (ran.status, ran.out) == (0, "a/b/gb0059-net.py\n")
    ran = repro(command_line, "model.py:3", "--out", "mine.py")
    assert (ran.status, ran.out) == (0, "mine.py\n")
    (command_line.folder / "mine.py").write_text("precious")
    begun = len(command_line.engine_log())
    ran = repro(command_line, "model.py:3", "--out", "mine.py")
    assert ran.status == 2 and "mine.py exists already" in ran.err
    assert (command_line.folder / "mine.py").read_text() == "precious"
    assert len(command_line.engine_log()) == begun


NUMBERS = data_name(b"numbers")
WITH_DATA = answer(best(12, data=(NUMBERS,)), Reproduced(0, 4.1, 212, verified=True))


def test_data_lies_beside_the_script(command_line: CommandLine) -> None:
    command_line.write("model.py", told(finding(2)) + WITH_DATA)
    ran = repro(command_line, "model.py:3", "--data", "--format", "json")
    kept = command_line.folder / "fullgraph-repros" / "data" / NUMBERS
    assert ran.status == 0 and kept.read_bytes() == b"numbers"
    assert json.loads(ran.out)["data"] == [NUMBERS]
    assert command_line.engine_log()[-1] == f"reproduce {BREAK} Net  Net 30 with data"
    ran = repro(command_line, "model.py:3", "--out", "elsewhere/mine.py", "--issue")
    assert (command_line.folder / "elsewhere" / "data" / NUMBERS).read_bytes() == b"numbers"
    assert f"The script needs the attached data: `data/{NUMBERS}`." in ran.out


def test_data_that_cannot_be_kept(command_line: CommandLine) -> None:
    command_line.write("model.py", told(finding(2)) + WITH_DATA)
    ran = repro(command_line, "model.py:3", "--out", "-")
    assert ran.out == SCRIPT and "The script needs data files, which were not saved" in ran.err
    command_line.write("fullgraph-repros/data", "precious")
    ran = repro(command_line, "model.py:3")
    assert ran.status == 0 and "warning: Cannot write its data to " in ran.err


def test_an_issue(command_line: CommandLine) -> None:
    command_line.write("model.py", told(finding(2)) + VERIFIED)
    ran = repro(command_line, "model.py:3", "--issue", "--quiet")
    assert ran.status == 0
    assert ran.out.startswith("`torch.compile` breaks the graph (GB0059): Call to print.\n")
    assert f"\n````python\n{SCRIPT}````\n" in ran.out
    assert "\n```\nit broke\n```\n" in ran.out and "\n```\ntorch 2.13.0\n```\n" in ran.out
    assert written(command_line) == ["gb0059-net.py"]


def test_json(command_line: CommandLine) -> None:
    others = finding(2, "op/not-pt2-compliant"), finding(2, "recompile/size")
    command_line.write("model.py", told(*others, finding(2)) + VERIFIED)
    ran = repro(command_line, "model.py:3", "--format", "json", "--issue")
    document = json.loads(ran.out)
    assert ran.status == 0
    assert document["version"] == 1 and document["torch"] == "2.13.0"
    assert document["finding"]["code"] == BREAK and document["finding"]["line"] == 2
    assert [other["code"] for other in document["others"]] == [
        "op/not-pt2-compliant",
        "recompile/size",
    ]
    assert document["path"] == "fullgraph-repros/gb0059-net.py" and document["verified"] is True
    assert (document["lines"], document["firstLines"], document["tried"]) == (12, 143, 212)
    assert document["script"] == SCRIPT and document["reason"] is None
    assert SCRIPT in document["issue"]


# -- what is meant -----------------------------------------------------------------------------


def test_the_most_severe_of_several(command_line: CommandLine) -> None:
    several = finding(2, "recompile/size"), finding(2, "trace/compile-error"), finding(2)
    command_line.write("model.py", told(*several) + VERIFIED)
    ran = repro(command_line, "model.py:3")
    assert command_line.engine_log()[-1].startswith("reproduce trace/compile-error Net")
    note = (
        "note: Other findings at this place: `graph-break/GB0059` and `recompile/size`; "
        "select one with --code."
    )
    assert note in ran.err
    ran = repro(command_line, "model.py:3", "--code", "GB0059")
    assert command_line.engine_log()[-1].startswith(f"reproduce {BREAK} Net")
    assert "Other findings at this place" not in ran.err


def test_a_target_is_chosen(command_line: CommandLine) -> None:
    command_line.write("model.py", told(finding(2), finding(2, target="Other")) + VERIFIED)
    assert repro(command_line, "model.py:3", "--target", "Other").status == 0
    assert command_line.engine_log()[-1].startswith(f"reproduce {BREAK} Other  Other")
    assert repro(command_line, "model.py::Other").status == 0
    assert command_line.engine_log()[-1].startswith(f"reproduce {BREAK} Other  Other")
    ran = repro(command_line, "model.py:3", "--target", "Gone")
    assert ran.status == 1 and "--target: `Net` and `Other`." in ran.err


def test_a_forecast_can_be_meant(command_line: CommandLine) -> None:
    run = RunId("Net", 0, "forecast")
    later = finding(2, "recompile/every-size", run=run)
    told_ = script(found("Net"), ForecastFound(0, "Net", run, findings=(later,)))
    command_line.write("model.py", told_ + VERIFIED)
    assert repro(command_line, "model.py:3", "--code", "recompile").status == 0
    assert command_line.engine_log()[-1].startswith("reproduce recompile/every-size Net")


def test_a_backend_needs_no_finding(command_line: CommandLine) -> None:
    command_line.write("model.py", script(found("Net", "Other")) + VERIFIED)
    ran = repro(command_line, "model.py:15", "--backend", "inductor")
    assert (ran.status, ran.out) == (0, "fullgraph-repros/inductor-error-other.py\n")
    assert command_line.engine_log()[-1] == "reproduce  Other inductor Other 30"
    ran = repro(command_line, "model.py:1", "--accuracy", "--issue")
    assert command_line.engine_log()[-1].startswith("reproduce  Net inductor Net")
    title = '`torch.compile(backend="inductor")` gives other results than eager mode.'
    assert ran.out.startswith(title)
    ran = repro(command_line, "model.py", "--accuracy")
    assert ran.status == 1 and "`Net` and `Other`" in ran.err


def test_nothing_is_there(command_line: CommandLine) -> None:
    missing = finding(8, "probe/missing")
    command_line.write("model.py", told(finding(2), finding(5), missing) + VERIFIED)
    ran = repro(command_line, "model.py:4")
    assert (ran.status, ran.out) == (1, "")
    assert ran.err == (
        "error: There is no finding on line 4 of model.py, only on lines 3 and 6; "
        "`fullgraph check model.py` lists all findings.\n"
    )
    ran = repro(command_line, "model.py:9")
    assert ran.status == 1
    assert "`probe/missing` on line 9 of model.py cannot be reproduced" in ran.err
    ran = repro(command_line, "model.py:3", "--code", "op")
    assert ran.status == 1 and "There is no `op` in model.py; " in ran.err
    assert not any(line.startswith("reproduce") for line in command_line.engine_log())


# -- what can go wrong -------------------------------------------------------------------------


def test_none_could_be_had(command_line: CommandLine) -> None:
    reason = "It is flaky: it was there in 3 of 10 runs; set a seed in the probe."
    none = answer(Reproduced(0, 2.0, 9, verified=False, reason=reason))
    command_line.write("model.py", told(finding(2)) + none)
    ran = repro(command_line, "model.py:3")
    assert (ran.status, ran.out) == (1, "") and ran.err.endswith(f"error: {reason}\n")
    assert not written(command_line)
    ran = repro(command_line, "model.py:3", "--format", "json")
    document = json.loads(ran.out)
    assert ran.status == 1 and document["path"] is None and document["reason"] == reason


def test_an_unverified_one(command_line: CommandLine) -> None:
    reason = "Time was up before it was verified; raise --time-budget."
    unverified = answer(best(verified=False), Reproduced(0, 2.0, 9, verified=False, reason=reason))
    command_line.write("model.py", told(finding(2)) + unverified)
    ran = repro(command_line, "model.py:3")
    assert (ran.status, ran.out) == (1, "fullgraph-repros/gb0059-net.py\n")
    assert "repro: 12 lines, not verified · 9 tried · 2.0 s\n" in ran.err
    assert ran.err.endswith(f"warning: {reason}\n")
    ran = repro(command_line, "model.py:3", "--issue")
    assert f"The script has not been verified: {reason}" in ran.out


def test_the_engine_dies(command_line: CommandLine) -> None:
    command_line.write("model.py", told(finding(2)) + answer(best(verified=False)) + "#? die\n")
    ran = repro(command_line, "model.py:3")
    assert (ran.status, ran.out) == (1, "fullgraph-repros/gb0059-net.py\n")
    assert "warning: The engine exited unexpectedly with status 7" in ran.err
    command_line.write("model.py", told(finding(2)) + "#? die\n")
    ran = repro(command_line, "model.py:3")
    assert ran.status == 2 and ran.out == "" and "error: The engine exited" in ran.err
    command_line.write("model.py", told(finding(2)) + answer(best()) + "#? die\n")
    assert repro(command_line, "model.py:3").status == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_the_best(command_line: CommandLine, number: signal.Signals) -> None:
    command_line.write("model.py", told(finding(2)) + answer(best(verified=False)) + "#? hang\n")
    process = command_line.start(
        "repro", "--python", str(command_line.interpreter), "model.py:3", "--quiet"
    )
    deadline = time.monotonic() + 60
    while "hanging" not in command_line.engine_log():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (1, b"fullgraph-repros/gb0059-net.py\n")
    assert b"Making the repro was cancelled before the script was run in a fresh Python." in err
    assert command_line.engine_log()[-1] == "cancelled"


def test_a_signal_while_tracing_ends_it(command_line: CommandLine) -> None:
    command_line.write("model.py", told() + "#! hang\n")
    process = command_line.start("repro", "--python", str(command_line.interpreter), "model.py:3")
    deadline = time.monotonic() + 60
    while "hanging" not in command_line.engine_log():
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    assert (*process.communicate(timeout=60), process.returncode) == (b"", b"", 130)


def test_a_folder_that_is_a_file(command_line: CommandLine, tmp_path: Path) -> None:
    command_line.write("model.py", told(finding(2)) + VERIFIED)
    command_line.write("fullgraph-repros", "a file")
    ran = repro(command_line, "model.py:3", TMPDIR=str(tmp_path))
    path = Path(ran.out.strip())
    assert ran.status == 0 and path.read_text() == SCRIPT and path.is_relative_to(tmp_path)
    assert "warning: Cannot write to " in ran.err and "fullgraph-repros (" in ran.err


def test_what_cannot_be_done(command_line: CommandLine) -> None:
    command_line.write("model.py", told(finding(2)) + VERIFIED)
    for wrong in (["--backend", "tvm"], ["--code", "nonsense"], ["--time-budget", "0"]):
        assert repro(command_line, "model.py:3", *wrong).status == 2
    ran = repro(command_line, "absent.py:3")
    assert ran.status == 2 and ran.err.startswith("error: Cannot read absent.py")
    ran = repro(command_line, "model.py:3", SCRIPTED_UNUSABLE="There is no torch.")
    assert ran.status == 2 and "There is no torch." in ran.err
    syntax = FindingFound(0, finding(0, "trace/syntax-error", target=""))
    failed = Failed(0, "The file does not parse.", "Correct the syntax error to get findings.")
    command_line.write("broken.py", script(syntax, failed))
    ran = repro(command_line, "broken.py:1")
    assert ran.status == 1 and "broken.py could not be traced. The file does not parse." in ran.err
