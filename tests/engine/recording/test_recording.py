"""Recordings: what is written down of calls, how it is merged, and the recorder in a program."""

from __future__ import annotations

import argparse
import collections
import dataclasses
import enum
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from fullgraph_engine.protocol.recorded import (
    Recorded,
    RecordedCall,
    RecordedClass,
    RecordedStep,
    Unreadable,
    parse,
    written,
)
from fullgraph_engine.recording.merging import merge_recordings, unite_arguments
from fullgraph_engine.recording.values import ArgumentWriter, InexpressibleArgument
from fullgraph_engine.targets import notation, notation_parser
from fullgraph_engine.targets.notation import Arguments

# -- values -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Config:
    dim: int = 4
    act: type = nn.ReLU


class Color(enum.Enum):
    RED = 1


class Pair(collections.namedtuple("Pair", "a b")):
    pass


class Layer(nn.Module):
    pass


class Thing:
    pass


def shown(value: Any, *, contents: bool = False) -> str:
    given = {Layer: Arguments((notation.LiteralValue(3),))}
    writer = ArgumentWriter(globals(), lambda module: given.get(type(module)), contents=contents)
    return notation.show_value(writer.write_value(value))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (torch.zeros(2, 3), "f32[2, 3]"),
        (torch.zeros(2, 3, dtype=torch.bfloat16).t(), "bf16[3, 2][1, 3]"),
        (torch.zeros(2, dtype=torch.bool, device="meta"), "b8[2]@meta"),
        (torch.zeros(2).to(torch.float8_e4m3fn), "f8e4m3fn[2]"),
        (torch.zeros(2, requires_grad=True), "f32[2](requires_grad)"),
        (torch.zeros(2, requires_grad=True) * 2, "f32[2](grad_fn)"),
        ([None, (1, 2.5), {"a": True}], "[None, (1, 2.5), {'a': True}]"),
        (torch.float16, "torch.float16"),
        (torch.device("cuda", 0), "torch.device('cuda:0')"),
        (Config(8), "Config(dim=8, act=torch.nn.ReLU)"),
        (Pair(1, 2), "Pair(1, 2)"),
        (argparse.Namespace(lr=0.1), "argparse.Namespace(lr=0.1)"),
        (Color.RED, "Color.RED"),
        (torch.relu, "torch.relu"),
        (nn.functional.gelu, "torch.nn.functional.gelu"),
        (nn.GELU(), "torch.nn.GELU()"),
        (Layer(), "Layer(3)"),
        ("gelu", "'gelu'"),
    ],
)
def test_values_are_written_as_probes(value: Any, text: str) -> None:
    assert shown(value) == text
    assert notation.show_value(notation_parser.parse_value(text)) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (Thing(), "an object of Thing"),
        (nn.Linear(2, 2), "an object of Linear"),
        (nn.GELU("tanh"), "an object of GELU"),
        (torch.zeros(2, 2).to_sparse(), "a tensor of torch.float32, torch.sparse_coo"),
        (list(range(65)), "a collection of 65 items"),
        (lambda x: x, "<lambda>, which cannot be imported"),
        ("x" * 201, "a text"),
    ],
)
def test_what_has_no_notation_is_left_out_with_its_name(value: Any, words: str) -> None:
    with pytest.raises(InexpressibleArgument, match=words) as raised:
        shown(value)
    assert words in str(raised.value)


def test_inputs_hold_no_texts_that_may_be_data() -> None:
    assert shown("mean", contents=True) == "'mean'"
    with pytest.raises(InexpressibleArgument):
        shown("a sentence of somebody", contents=True)


# -- what calls have in common ----------------------------------------------------------------


def read(text: str) -> Arguments:
    return notation_parser.parse_probe(f"forward({text})").inputs or Arguments()


@pytest.mark.parametrize(
    ("calls", "text"),
    [
        (("f32[4, 8]", "f32[4, 8]"), "f32[4, 8]"),
        (("f32[4, 8]", "f32[3, 8]"), "f32[b=4, 8]"),
        (("f32[4, 8], b8[8, 8]", "f32[4, 6], b8[6, 6]"), "f32[4, s=8], b8[s=8, s=8]"),
        # Equal in two calls, and not in the next: two symbols, of two sizes.
        (("f32[4, 4]", "f32[3, 3]", "f32[3, 5]"), "f32[b=4, s=5]"),
        (("f32[4], n=4", "f32[3], n=3"), "f32[b=4], n=b"),
        (("f32[4], n=4", "f32[3], n=3", "f32[2], n=9"), "f32[b=4], n=4"),
        (("f32[1, 8]", "f32[3, 8]"), "f32[b=3, 8]"),
        (("f32[4, 2][1, 4]", "f32[6, 2][1, 6]"), "f32[b=4, 2]"),
        (("[f32[2], {'k': f32[2]}]", "[f32[5], {'k': f32[5]}]"), "[f32[b=2], {'k': f32[b=2]}]"),
    ],
)
def test_sizes_that_varied_together_are_one_symbol(calls: tuple[str, ...], text: str) -> None:
    result = read(calls[0])
    for call in calls[1:]:
        result = unite_arguments(result, read(call))
    assert notation.show_arguments(result) == text
    again = unite_arguments(read(text), read(text))
    assert notation.show_arguments(again) == text


def recording(*calls: RecordedCall, init: str = "(d)", path: str = "a.py") -> Recorded:
    return {path: (RecordedClass("Net", init, "(x)", calls),)}


def test_recordings_are_merged_to_the_same_text_in_either_order_and_again() -> None:
    train = recording(RecordedCall("3", "f32[4, 3]"), RecordedCall("3", "f32[4, 3]", False))
    other = recording(RecordedCall("3", "f32[5, 3]"), RecordedCall("3", "bf16[4, 3]"))
    one = merge_recordings([train, other])
    assert one == recording(
        RecordedCall("3", "bf16[4, 3]"),
        RecordedCall("3", "f32[b=4, 3]"),
        RecordedCall("3", "f32[4, 3]", False),
    )
    assert written(merge_recordings([one, train, other])) == written(one)
    assert parse(written(one)) == one


def test_calls_in_an_order_are_merged_and_take_in_those_that_they_make() -> None:
    evaluated = RecordedStep("f32[4, 3]", False, "no_grad")
    both = recording(RecordedCall("3", "f32[4, 3]", then=(evaluated,)))
    alone = recording(
        RecordedCall("3", "f32[5, 3]"), RecordedCall("3", "f32[5, 3]", False, under="no_grad")
    )
    assert merge_recordings([alone, both]) == merge_recordings([both, alone]) == both
    wider = RecordedStep("f32[6, 3]", False, "no_grad")
    more = recording(RecordedCall("3", "f32[5, 3]", then=(wider,)))
    result = merge_recordings([both, more])
    step = RecordedStep("f32[b=4, 3]", False, "no_grad")
    assert result == recording(RecordedCall("3", "f32[b=4, 3]", then=(step,)))
    assert parse(written(result)) == result
    longer = recording(RecordedCall("3", "f32[4, 3]", then=(evaluated, RecordedStep("i64[4]"))))
    assert merge_recordings([both, longer]) == longer


def test_a_class_of_other_parameters_replaces_what_was_known() -> None:
    old = recording(RecordedCall("3", "f32[4, 3]"))
    new = recording(RecordedCall("3, 4", "f32[4, 3]"), init="(d, e)")
    assert merge_recordings([old, new]) == new
    # Another number for the same constructor is news as well.
    wider = recording(RecordedCall("5", "f32[4, 5]"))
    assert merge_recordings([old, wider]) == wider


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not valid JSON"),
        ("[" * 100_000, "is not valid JSON"),
        ('{\n<<<<<<< HEAD\n"version": 1\n=======\n>>>>>>> other\n}', "has conflict markers"),
        ('{"version": 2, "files": {}}', "update fullgraph"),
        ("[]", "not a recording of this version"),
        ('{"version": 1}', "not a recording that fullgraph can read"),
        ('{"version": 1, "files": {"a.py": {"Net": {"init": 3}}}}', "not a recording that"),
    ],
)
def test_what_is_no_recording_is_refused_in_a_sentence(text: str, words: str) -> None:
    with pytest.raises(Unreadable, match=words):
        parse(text)


# -- in a program -----------------------------------------------------------------------------

MODEL = """\
import torch
from torch import nn

class Part(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.linear = nn.Linear(d, d)
    def forward(self, x, scale: float = 1.0):
        return self.linear(x) * scale

class Net(nn.Module):
    def __init__(self, d=3):
        super().__init__()
        self.part = Part(d)
    def forward(self, x):
        return self.part(x, scale=2.0)
"""
PROGRAM = """\
import sys
import torch
from model import Net, Part
import copy

assert started and not any("recording" in folder for folder in sys.path)
net = Net()
for size in (4, 4, 2):
    net(torch.zeros(size, 3))
scripted = torch.jit.script(Part(3))
assert scripted(torch.ones(1, 3)).shape == (1, 3)
copied = copy.deepcopy(net).eval().bfloat16()
copied(torch.zeros(4, 3, dtype=torch.bfloat16))
compiled = torch.compile(Net(), backend="eager", fullgraph=True)
assert compiled(torch.zeros(7, 3)).shape == (7, 3)
print("out")
print("err", file=sys.stderr)
sys.exit(3)
"""
ENDED = "import torch\nfrom model import Net\nNet()(torch.ones(2, 3))\nraise KeyboardInterrupt\n"
TESTED = "import torch\nfrom model import Net\ndef test_net():\n    Net()(torch.ones(2, 3))\n"


def recorded_run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    (folder / "model.py").write_text(MODEL)
    return subprocess.run(
        [sys.executable, "-m", "fullgraph", "record", "--", *command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


def recorded_in(folder: Path) -> dict[str, RecordedClass]:
    found = parse((folder / "fullgraph.probes.json").read_text())
    assert list(found) == ["model.py"]
    return {one.name: one for one in found["model.py"]}


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_program_is_recorded_and_runs_as_it_would(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.started = True\n")
    monkeypatch.setenv("PYTHONPATH", str(own))
    done = recorded_run(tmp_path, sys.executable, "train.py")
    assert (done.returncode, done.stdout) == (3, "out\n"), done.stderr
    assert done.stderr.startswith("err\nRecorded in ")
    found = recorded_in(tmp_path)
    assert found["Net"] == RecordedClass(
        "Net",
        "(d=…)",
        "(x)",
        (
            RecordedCall("", "f32[b=4, 3]"),
            RecordedCall("", "bf16[4, 3]", False, "bf16"),
        ),
    )
    assert found["Part"].calls == (
        RecordedCall("3", "f32[b=4, 3], scale=2.0"),
        RecordedCall("3", "bf16[4, 3], scale=2.0", False, "bf16"),
    )


IN_ORDER = """\
import torch
from model import Net
net = Net()
for size in (4, 2):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        net(torch.zeros(size, 3))
net.eval()
x = torch.zeros(4, 3)
torch._dynamo.mark_dynamic(x, 0)
with torch.no_grad(), torch.compiler.set_stance("force_eager"):
    net(x)
"""


@pytest.mark.timeout(300)
def test_the_context_and_order_of_calls_are_recorded(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(IN_ORDER)
    done = recorded_run(tmp_path, sys.executable, "train.py")
    assert done.returncode == 0, done.stderr
    step = RecordedStep("f32[4, 3](mark_dynamic=0)", False, "no_grad, stance=force_eager")
    assert recorded_in(tmp_path)["Net"].calls == (
        RecordedCall("", "f32[b=4, 3]", under="autocast=bf16@cpu", then=(step,)),
    )


@pytest.mark.timeout(300)
def test_what_was_recorded_stays_when_a_program_is_interrupted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ENDED)
    done = recorded_run(tmp_path, sys.executable, "-m", "train")
    assert done.returncode == 130
    assert recorded_in(tmp_path)["Net"].calls == (RecordedCall("", "f32[2, 3]"),)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_tests_are_recorded_and_added_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "test_model.py").write_text(TESTED)
    known = recording(RecordedCall("", "f32[5, 3]"), init="(d=…)", path="model.py")
    known["gone.py"] = known["model.py"]
    (tmp_path / "fullgraph.probes.json").write_text(written(known))
    pytest_ = Path(sys.executable).with_name("pytest")
    done = recorded_run(tmp_path, str(pytest_), "-q", "-p", "no:cacheprovider")
    assert done.returncode == 0, done.stdout + done.stderr
    assert recorded_in(tmp_path)["Net"].calls == (RecordedCall("", "f32[b=5, 3]"),)


@pytest.mark.parametrize(
    ("command", "status", "words"),
    [
        (("no-such-program",), 127, "no program no-such-program"),
        ((".",), 126, "Cannot start .: Permission denied"),
        (("true",), 0, "Nothing was recorded"),
    ],
)
def test_programs_without_anything_to_record(
    tmp_path: Path, command: tuple[str, ...], status: int, words: str
) -> None:
    done = recorded_run(tmp_path, *command)
    assert done.returncode == status
    assert words in done.stderr
    assert not (tmp_path / "fullgraph.probes.json").exists()


def test_a_recording_that_cannot_be_added_to_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "fullgraph.probes.json"
    file.write_text("<<<<<<< mine\n")
    done = recorded_run(tmp_path, "touch", "started")
    assert done.returncode == 2
    assert "has conflict markers" in done.stderr
    assert file.read_text() == "<<<<<<< mine\n" and not (tmp_path / "started").exists()


def test_the_recorder_lets_the_program_raise(tmp_path: Path) -> None:
    text = """\
        import sys
        sys.path.insert(0, sys.argv[1])
        import os
        os.environ.update(FULLGRAPH_RECORD=sys.argv[2], FULLGRAPH_RECORD_ROOT=sys.argv[2])
        from fullgraph_engine.recording import watch

        class Module:
            training = True

        watch.begin_recording(Module)
        sys.modules["torch"] = sys  # all that the recorder tries of torch fails
        sys.compiler = sys
        sys.is_compiling = lambda: False

        class Net(Module):
            def __init__(self, size):
                self.size = size
            def forward(self, x):
                return x / self.size

        assert Net(2).forward(4) == 2
        try:
            Net(0).forward(1)
        except ZeroDivisionError:
            print("raised")
    """
    (tmp_path / "program.py").write_text(textwrap.dedent(text))
    engine = Path(__file__).parents[3] / "engine"
    done = subprocess.run(
        [sys.executable, str(tmp_path / "program.py"), str(engine), str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("raised\n", "")
