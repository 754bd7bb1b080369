"""Where the time of a check went, as it is shown."""

from __future__ import annotations

import json

from fullgraph.domain.positions import TextPositions
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.json import check_json
from fullgraph.render.timings import timings_document, timings_text
from fullgraph_engine.protocol import RunId, Timings
from fullgraph_engine.protocol.timings import DynamoTime, FrameTime, PhaseTime

_RUN = Timings(
    1,
    RunId("Net"),
    0.25,
    (PhaseTime("process", 0.004, 0.001), PhaseTime("trace", 0.246, 0.2)),
    (
        FrameTime("forward", "/x.py", 3, "compiled", 0.1),
        FrameTime("helper", "/lib/y.py", 9, "compiled", 0.2),
        FrameTime("forward", "/x.py", 3, "compiled", 0.15),
    ),
    (DynamoTime("bytecode_tracing", 3, 0.12),),
    "real",
    2,
)
_WHOLE = Timings(1, None, 0.5, (PhaseTime("waiting", 0.0), PhaseTime("module", 0.3, 0.25)))


def test_a_table_for_the_request_and_each_run() -> None:
    assert timings_text([_RUN, _WHOLE], path="/x.py") == (
        "Request, 500 ms\n"
        "  waiting             0 µs\n"
        "  module            300 ms  processor 250 ms\n"
        "  runs              200 ms\n"
        "Net, real tensors, 250 ms\n"
        "  process             4 ms  processor 1 ms\n"
        "  trace             246 ms  processor 200 ms\n"
        "    frame forward, line 4: 250 ms, 2 compilations\n"
        "    frame helper, y.py line 10: 200 ms\n"
        "  2 operator calls not found in the cache of fake tensors\n"
        "  Dynamo: bytecode_tracing 120 ms"
    )


def test_runs_are_in_the_order_of_targets_whichever_ended_first() -> None:
    runs = [RunId("B", 0, "second"), RunId("B", 1), RunId("A"), RunId("B", 0)]
    words = timings_text([Timings(1, run, 1.0, ()) for run in runs], path="/x.py")
    assert words.splitlines() == ["B, 1 s", "B, part second, 1 s", "B, probe 2, 1 s", "A, 1 s"]


def test_frames_that_took_the_least_are_counted() -> None:
    frames = tuple(FrameTime(f"f{n}", "/x.py", n, "compiled", 1.0 - n / 100) for n in range(13))
    words = timings_text([Timings(1, RunId("Net"), 1.0, (), frames)], path="/x.py")
    assert "frame f9," in words
    assert "f10" not in words
    assert words.endswith("and 3 more frames")


def test_a_document_says_what_its_words_mean_and_that_it_is_older_than_the_text() -> None:
    text = timings_document("/home/x.py", [_RUN, _WHOLE], current=False)
    first, table, words = text.split("\n\n")
    assert first == "Time spent in the last run of x.py.\nThe text was edited after this run."
    assert table == timings_text([_RUN, _WHOLE], path="/home/x.py")
    explained = [line.partition(":")[0] for line in words.splitlines()]
    assert explained == ["waiting", "process", "module", "trace", "runs"]


def test_json_has_everything_in_seconds() -> None:
    file = CheckedFile("x.py", "/x.py", TextPositions(""), timings=(_RUN, _WHOLE))
    run, whole = json.loads(check_json(CheckResults((file,))))["files"][0]["timings"]
    assert (run["target"], run["probe"], run["part"], run["mode"]) == ("Net", 0, "first", "real")
    assert run["phases"][1] == {"phase": "trace", "seconds": 0.246, "cpu": 0.2}
    assert [frame["line"] for frame in run["frames"]] == [3, 9, 3]
    assert (run["dynamo"][0]["name"], run["cache_misses"]) == ("bytecode_tracing", 2)
    assert (whole["target"], whole["cache_misses"], whole["seconds"]) == (None, None, 0.5)
