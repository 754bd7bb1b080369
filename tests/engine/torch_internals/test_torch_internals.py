"""A torch that lacks a private name, or does not call it any more, is never shown as clean."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from fullgraph_engine.torch_internals import census, frames, releases
from fullgraph_engine.torch_internals.binding import Internal, Spelling

pytestmark = pytest.mark.real_engine
ENGINE = Path(__file__).parents[3] / "engine"

# Each name in turn is lost, in a fork: under another spelling, or found and never called.
PROGRAM = """
import contextlib, json, os, sys
import torch
torch.set_num_threads(1)
from fullgraph_engine.torch_internals import binding, census, dynamo
from fullgraph_engine.tracing import drive, hooks, proof, tensor_mode
from fullgraph_engine.tracing.recorder import Recorder

library = torch.library.Library("lost_names", "FRAGMENT")
library.define("plain(Tensor x) -> Tensor")
library.impl("plain", lambda x: x.clone(), "CompositeExplicitAutograd")

def several(x, scale):
    x = torch.ops.lost_names.plain(x) * scale
    print("a break")
    if x.sum() > 0:
        x = x + 1
    return x.relu()

def size_only(x):
    return x.shape[0] * 2

def pinned(x):
    return x * 2 if x.shape[0] == 6 else x

def seen():
    counts = dict.fromkeys(
        ("graphs", "breaks", "skips", "recompiles", "guards", "specializations", "compliance"), 0
    )
    def add(recording):
        counts["graphs"] += len(recording.graphs)
        counts["breaks"] += len(recording.breaks)
        counts["skips"] += len(recording.skips)
        counts["recompiles"] += len([one for one in recording.recompiles if one.failures])
        counts["guards"] += len(recording.guards)
        counts["specializations"] += len(recording.specializations)
        counts["compliance"] += len([op for op in recording.custom_ops if not op.compliant])
    with tensor_mode(True), contextlib.redirect_stdout(sys.stderr):
        watch = Recorder(drive.BOTTOM, file=__file__)
        with watch.listen() as recording:
            compiled = torch.compile(several, backend=drive.NoBackend(), dynamic=False)
            compiled(torch.ones(4, 3), 1)
            compiled(torch.ones(4, 3), 2)
        add(recording)
        dynamo.reset()
        add(drive.trace(size_only, (torch.ones(4),), {}))
        dynamo.reset()
        x = torch.ones(6, 3)
        add(drive.trace(pinned, (x,), {}, dynamic=[(x, 0)]))
        dynamo.reset()
    return counts

def lose(internal, how):
    if how == "renamed":
        gone = tuple(
            binding.Spelling(one.module, one.path + "_renamed") for one in internal.spellings
        )
        object.__setattr__(internal, "spellings", gone)
    elif how == "silent":
        # It is there, and whoever wraps it is not called.
        wrap = binding.Internal.wrap
        binding.Internal.wrap = lambda self, around: (
            (lambda: None) if self is internal else wrap(self, around)
        )

def answer(internal, how):
    lose(internal, how)
    try:
        drive.install_hooks()
        counts, error = seen(), ""
    except Exception as raised:
        counts, error = {}, f"{type(raised).__name__}: {raised}"
    facts = [one.fact for one in (*census.find_degraded_facts(), *proof.prove())]
    return {"counts": counts, "error": error, "degraded": facts}

def apart(internal, how):
    come, go = os.pipe()
    if os.fork() == 0:
        os.close(come)
        try:
            os.write(go, json.dumps(answer(internal, how)).encode())
        finally:
            os._exit(0)
    os.close(go)
    with open(come) as told:
        words = told.read()
    os.wait()
    return json.loads(words) if words else {"counts": {}, "error": "it crashed", "degraded": []}

# What the first trace imports and builds is there in all forks.
with tensor_mode(True), contextlib.redirect_stdout(sys.stderr):
    torch.compile(several, backend="eager")(torch.ones(4, 3), 1)
    dynamo.reset()
everything = {"": {"": apart(None, "")}}
for number, internal in enumerate(census.INTERNALS):
    everything[str(number)] = {how: apart(internal, how) for how in ("renamed", "silent")}
json.dump(everything, sys.stdout)
"""

pytestmark = pytest.mark.timeout(600)  # the first one runs the program

Answers = dict[str, dict[str, dict[str, object]]]


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Answers:
    script = tmp_path_factory.mktemp("lost") / "lost.py"
    script.write_text(textwrap.dedent(PROGRAM))
    ran = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": str(ENGINE), "PATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    found: Answers = json.loads(ran.stdout)
    return found


@pytest.mark.slow
def test_this_torch_shows_everything(answers: Answers) -> None:
    told = answers[""][""]
    assert told["degraded"] == [] and told["error"] == ""
    counts = told["counts"]
    assert isinstance(counts, dict) and all(counts.values()), counts


@pytest.mark.parametrize("how", ["renamed", "silent"])
@pytest.mark.parametrize(
    "number", range(len(census.INTERNALS)), ids=lambda n: census.INTERNALS[n].name
)
def test_what_is_not_seen_is_degraded(answers: Answers, number: int, how: str) -> None:
    told, whole = answers[str(number)][how], answers[""][""]
    counts, complete, degraded = told["counts"], whole["counts"], told["degraded"]
    assert isinstance(counts, dict) and isinstance(complete, dict) and isinstance(degraded, list)
    if told["error"]:  # nothing is shown then, clean or not
        assert census.INTERNALS[number].fact in degraded, told["error"]
        return
    lost = {fact for fact in complete if counts[fact] < complete[fact]}
    if "graphs" not in degraded:  # without graphs nothing else is promised
        assert lost <= set(degraded), (lost, degraded)
    if how == "renamed":
        assert census.INTERNALS[number].fact in degraded


def test_the_newest_spelling_that_exists_is_taken() -> None:
    both = Internal(
        "breaks", "nothing", (Spelling("os.path", "nowhere"), Spelling("os.path", "join"))
    )
    assert both.name == "os.path.join"
    neither = Internal("breaks", "nothing", (Spelling("os.path", "nowhere"),))
    assert neither.name == "os.path.nowhere" and neither.get() is None
    assert neither.replace(1) is None and neither.wrap(lambda original: original) is None


def test_releases() -> None:
    assert releases.parse_release("2.13.0+cpu") == (2, 13)
    assert releases.parse_release("2.16.0a0+git123") == (2, 16)
    assert releases.parse_release("unknown") == (0, 0)
    assert releases.is_too_old("1.13.1") and not releases.is_too_old("2.15.0")
    newest = releases.NEWEST_TESTED
    assert releases.is_untested(f"{newest[0]}.{newest[1] + 1}.0")
    assert not releases.is_untested(releases.release_text(newest) + ".1")


def test_names_of_resume_functions_are_those_of_what_they_go_on_with() -> None:
    inner = "torch_dynamo_resume_in_torch_dynamo_resume_in_step_at_12_at_30"
    words = f"line 31, in {inner}, code: x = torch_dynamo_resume_in_look_at_me_at_9(y)"
    assert frames.restore_original_names(words) == "line 31, in step, code: x = look_at_me(y)"
    assert frames.restore_original_names("in __comprehension_step_at_8_9:") == "in step:"
    assert frames.original_name("torch_dynamo_resume_in_<lambda>_at_3") == "<lambda>"
    assert frames.original_name("look_at_me") == "look_at_me"
