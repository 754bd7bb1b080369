"""Probes from the ``__main__`` block of a file and the examples in its docstrings."""

from __future__ import annotations

import signal
import sys
import threading
import types
from collections.abc import Iterator
from typing import Any

import numpy  # noqa: F401 (examples call it np)
import pytest
import torch

from fullgraph_engine.protocol import FoundProbe
from fullgraph_engine.protocol.recorded import RecordedCall, RecordedClass
from fullgraph_engine.targets import (
    NoProbe,
    NotCalled,
    Probe,
    Target,
    deadline,
    discover,
    plan_probes,
    programs,
    searched,
)
from fullgraph_engine.tracing import ValueNeeded, tensor_mode

HEAD = "import argparse, sys, threading\nimport torch\nfrom torch import nn\n"
PARTS = HEAD + (
    "class Part(nn.Module):\n"
    "    def __init__(self, config):\n"
    "        super().__init__()\n"
    "        self.factor = config.factor\n"
    "    def forward(self, x): return x * self.factor\n"
    "class Net(nn.Module):\n"
    "    def __init__(self, config):\n"
    "        super().__init__()\n"
    "        self.part = Part(config)\n"
    "    def forward(self, x): return self.part(x)\n"
    "class Config:\n"
    "    factor = 3\n"
)
MAIN = 'if __name__ == "__main__":\n'


class Loaded:
    """A text, its targets and the module that it makes."""

    def __init__(self, text: str) -> None:
        self.targets = {target.name: target for target in discover(text).targets}
        module = types.ModuleType("probed")
        module.__dict__.update(__file__="probed.py", __name__="probed")
        self.namespace = module.__dict__
        exec(compile(text, "probed.py", "exec"), self.namespace)

    def plan(self, name: str, *known: Any) -> list[Probe]:
        others = tuple(self.targets.values())
        return plan_probes(self.targets[name], self.namespace, others, *known)

    def refusal(self, name: str) -> NoProbe:
        with pytest.raises(NoProbe) as refused:
            self.plan(name)[0].build(self.namespace)
        return refused.value


@pytest.fixture(autouse=True)
def nothing_is_searched_for(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(searched, "can_be_searched", lambda *_: False)
    yield
    searched.known.clear()
    searched.settled.clear()
    searched.unfound.clear()


def main(*lines: str) -> Loaded:
    """``PARTS`` with a ``__main__`` block."""
    return Loaded(PARTS + MAIN + "".join(f"    {line}\n" for line in lines))


CALL = "Net(Config())(torch.ones(2, 5))"


def test_the_main_block_calls_the_model_and_its_parts() -> None:
    loaded = main("net = Net(Config())", "net(torch.ones(2, 5))")
    line = (PARTS + MAIN).count("\n") + 2
    net = loaded.plan("Net")[0]
    assert (net.info.origin, net.info.source) == ("harvest", "as called by __main__")
    call = net.build(loaded.namespace)
    assert (call.inputs, call.init) == ("f32[2, 5]", "Config(…)")
    assert call.source == f"as called by __main__, line {line}"
    part = loaded.plan("Part")[0].build(loaded.namespace)
    assert isinstance(part.function, torch.nn.Module)
    assert part.function.factor == 3
    assert part.source == "as called by Net.forward, line 13, in __main__"


def test_it_is_executed_as_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    before = list(sys.argv)
    loaded = main(
        "assert __name__ == '__main__' and sys.argv == ['probed.py']",
        "options = argparse.ArgumentParser().parse_args()",
        "print('a program')",
        "options.factor = 7",
        "def build(): return Net(options)",
        "build()(torch.ones(3))",
    )
    call = loaded.plan("Net")[0].build(loaded.namespace)
    assert isinstance(call.function, torch.nn.Module)
    assert call.function.get_submodule("part").factor == 7
    assert call.source.startswith("as called by __main__")
    assert capsys.readouterr().out == ""
    assert (loaded.namespace["__name__"], sys.argv) == ("probed", before)
    # What functions of the file refer to is there when they are traced.
    assert loaded.namespace["options"].factor == 7


def test_only_what_it_can_lead_to_is_called_by_it() -> None:
    loaded = Loaded(
        PARTS
        + "class Spare(nn.Module):\n    def forward(self, x): return x\n"
        + "def train(): helper()\n"
        + "def helper(): "
        + CALL
        + "\n"
        + MAIN
        + "    train()\n"
    )
    assert not loaded.plan("Spare")
    call = loaded.plan("Net")[0].build(loaded.namespace)
    assert call.source.startswith("as called by helper, line ")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("argparse.ArgumentParser().parse_args(['--what'])", "SystemExit: 2"),
        ("sys.exit('usage')", "SystemExit: usage"),
        ("open('/there/is/no/such/file')", "FileNotFoundError"),
        ("undefined", "NameError: name 'undefined' is not defined"),
        ("raise ValueError('no')", "ValueError: no"),
    ],
)
def test_a_program_that_ends_before_the_call_says_how(line: str, words: str) -> None:
    loaded = main("left = 1", "torch.set_default_dtype(torch.float64)", line, CALL)
    refused = loaded.refusal("Net")
    assert str(refused).startswith(f"__main__ raised before it called Net: {words}")
    assert isinstance(refused, NotCalled)
    # Real tensors lead no further where it is not they that are missing.
    assert refused.may_use_real == words.startswith("ValueError")
    assert "left" not in loaded.namespace
    assert torch.get_default_dtype() is torch.float32


def test_a_program_that_does_not_call_it_says_so() -> None:
    refused = main("Net(Config())").refusal("Net")
    assert str(refused) == "__main__ ran, and did not call Net."
    assert refused.uncalled


def test_what_is_found_behind_a_program_that_does_not_call_it_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(searched, "can_be_searched", lambda target, _: target.name == "Plain")
    plain = "class Plain(nn.Module):\n    def forward(self, x): return x + 1\n"
    none = "class Plain(nn.Module):\n    def forward(self, x): return self.missing\n"
    for before, uncalled in (("", False), (f"{MAIN}    Plain()\n", True)):
        loaded = Loaded(HEAD + plain + before)
        assert loaded.plan("Plain")[0].build(loaded.namespace).uncalled == uncalled
        searched.known.clear()
        loaded = Loaded(HEAD + none + before)
        assert loaded.refusal("Plain").uncalled == uncalled
        searched.unfound.clear()


@pytest.mark.parametrize(
    "wait",
    [
        "threading.Event().wait(600)",
        "while True: pass",
        # What catches everything is interrupted again.
        "\n    while True:\n        try: threading.Event().wait(600)\n        except: tries += 1"
        "\n        if tries > 1: break\n    threading.Event().wait(600)",
    ],
)
def test_a_program_that_takes_too_long_is_ended(wait: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "SECONDS", 0.1)
    monkeypatch.setattr(deadline, "_AGAIN", 0.1)
    before = signal.getsignal(signal.SIGALRM)
    loaded = main("tries = 0", wait, CALL)
    assert str(loaded.refusal("Net")) == "__main__ ran for 0.1 seconds, and did not call Net."
    assert signal.getsignal(signal.SIGALRM) is before
    assert loaded.namespace["Net"].forward.__code__.co_filename == "probed.py"


def test_a_training_loop_ends_with_its_first_step() -> None:
    loaded = main(
        "net, steps = Net(Config()), []",
        "while True:",
        "    steps.append(net(torch.ones(len(steps) + 2, 5)))",
    )
    assert loaded.plan("Net")[0].build(loaded.namespace).inputs == "f32[2, 5]"
    assert loaded.namespace["steps"] == []


def test_training_that_does_not_call_it_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "FURTHER_SECONDS", 0.0)
    loaded = main(
        "optimizer = torch.optim.SGD([torch.ones(2, requires_grad=True)])",
        "while True: optimizer.step()",
        CALL,
    )
    words = "__main__ trained for 0 seconds, and did not call the target."
    assert str(loaded.refusal("Net")) == words
    # Nothing of it stays behind.
    torch.optim.SGD([torch.ones(2, requires_grad=True)]).step()


def test_calls_of_another_signature_are_looked_for_a_shorter_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(programs, "FURTHER_SECONDS", 0.1)
    loaded = main(
        "net = Net(Config())", "net(torch.ones(2))", "net(torch.ones(2, 3))", "while True: pass"
    )
    probes = loaded.plan("Net")
    assert probes[0].count_further(loaded.namespace) == 1
    assert probes[1].build(loaded.namespace).inputs == "f32[2, 3]"
    # Where it goes on calling, it is ended at a call.
    loaded = main("net, calls = Net(Config()), []", "while True: net(torch.ones(2))")
    monkeypatch.setattr(signal, "setitimer", lambda *_: (0.0, 0.0))
    assert loaded.plan("Net")[0].count_further(loaded.namespace) == 0


@pytest.mark.parametrize("fake", [False, True])
def test_data_loaders_need_no_workers_and_no_values(fake: bool) -> None:
    loaded = main(
        "from torch.utils.data import DataLoader",
        "threads = threading.active_count()",
        "loader = DataLoader(torch.ones(4, 2), batch_size=2, shuffle=True, num_workers=2)",
        "for x in loader:",
        "    Net(Config())(x)",
    )
    with tensor_mode(fake):
        assert loaded.plan("Net")[0].build(loaded.namespace).inputs == "f32[2, 2]"
    assert loaded.namespace["threads"] == threading.active_count()


def test_where_sizes_come_from_data_real_tensors_are_asked_for() -> None:
    loaded = main("Net(Config())(torch.ones(int(torch.rand(4).gt(-1).sum())))")
    probe = loaded.plan("Net")[0]
    with tensor_mode(True) as mode, pytest.raises(ValueNeeded):
        assert mode is not None
        mode.real_follows = True  # there is one mode, which other tests have set
        probe.build(loaded.namespace)
    assert mode is not None and not mode.prefer_real
    assert probe.build(loaded.namespace).inputs == "f32[4]"
    loaded = main("net = Net(Config())", "net(torch.rand(3)).sum().item()", "net(torch.ones(2, 3))")
    with tensor_mode(True):
        probe = loaded.plan("Net")[0]
        assert probe.build(loaded.namespace).inputs == "f32[3]"
        assert probe.count_further(loaded.namespace) == 0
    assert probe.count_further(loaded.namespace) == 1


# -- docstrings -------------------------------------------------------------------------------


def documented(docstring: str, head: str = PARTS) -> Loaded:
    """``PARTS`` with this docstring in ``Net``."""
    quoted = f'    """{docstring}"""\n'
    start = "class Net(nn.Module):\n"
    return Loaded(head.replace(start, start + quoted))


def test_an_example_in_a_docstring_calls_the_model_and_its_parts() -> None:
    loaded = documented("\n    >>> net = Net(\n    >>>     Config())\n    >>> net(torch.ones(3))\n")
    call = loaded.plan("Net")[0].build(loaded.namespace)
    assert call.source == "as called by the example in Net's docstring, line 13"
    assert call.inputs == "f32[3]"
    assert "net" not in loaded.namespace
    call = loaded.plan("Part")[0].build(loaded.namespace)
    assert call.source == "as called by Net.forward, line 18, in the example in Net's docstring"


def test_what_examples_take_for_granted(monkeypatch: pytest.MonkeyPatch) -> None:
    head = PARTS.replace("import torch\n", "")
    example = ">>> x = F.relu(torch.ones(np.int64(3)))\n    >>> package.ops.Net(Config())(x)"
    loaded = documented(example, head)
    package = types.ModuleType("package")
    package.ops = types.SimpleNamespace(Net=loaded.namespace["Net"])  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "package", package)
    loaded.namespace["__name__"] = "package.ops.net"
    assert loaded.plan("Net")[0].build(loaded.namespace).inputs == "f32[3]"


def test_an_example_that_fails_says_so() -> None:
    refused = documented(">>> Net()(torch.ones(3))").refusal("Net")
    words = "The example in Net's docstring raised before it called Net: TypeError: "
    assert str(refused).startswith(words)
    # With real tensors it would be as wrong, other than what torch itself refuses.
    assert isinstance(refused, NotCalled) and not refused.may_use_real
    refused = documented(">>> Net(torch.ones(2) @ torch.ones(3))").refusal("Net")
    assert isinstance(refused, NotCalled) and refused.may_use_real


def test_examples_that_are_to_be_skipped_or_raise_are_not_executed() -> None:
    loaded = documented(
        "\n    >>> Net(Config())(torch.ones(1))  # doctest: +SKIP\n"
        "    >>> Net(Config())(torch.ones(2), 0)\n"
        "    Traceback (most recent call last):\n    TypeError: too many\n"
        "    >>> Net(Config())(torch.ones(3))\n"
    )
    assert loaded.plan("Net")[0].build(loaded.namespace).inputs == "f32[3]"


def test_an_example_that_mentions_nothing_of_the_file_is_none() -> None:
    assert not documented(">>> print(torch.ones(3))").plan("Net")
    assert not documented(">>> not python either").plan("Net")


def test_its_own_docstring_comes_first_and_the_next_example_where_it_fails() -> None:
    text = PARTS + MAIN + "    Net(Config())(torch.ones(9))\n"
    loaded = documented(">>> Net(Config())(torch.ones(3))", text)
    assert loaded.plan("Net")[0].build(loaded.namespace).inputs == "f32[3]"
    loaded = documented(">>> Net(Config)(no_such_input)", text)
    assert loaded.plan("Net")[0].build(loaded.namespace).inputs == "f32[9]"


# -- which probes come before, and which after ------------------------------------------------


def source_of(loaded: Loaded, name: str, *known: Any) -> str:
    return loaded.plan(name, *known)[0].info.source


def test_what_is_written_or_recorded_comes_first() -> None:
    loaded = main(CALL)
    recorded = RecordedClass("Net", "(config)", "(x)", (RecordedCall("Config()", "f32[4]"),))
    assert source_of(loaded, "Net", (recorded,)) == "recorded in fullgraph.probes.json"
    # A user that has a probe comes before the program, for what it calls.
    assert source_of(loaded, "Part", (recorded,)) == "as called by Net, __main__"
    commented = PARTS.replace("class Net", "# fullgraph: init(Config()) f32[8]\nclass Net")
    loaded = Loaded(commented + MAIN + f"    {CALL}\n")
    assert source_of(loaded, "Net") == "line 9"


def test_kinds_of_examples_that_may_not_be_executed() -> None:
    text = PARTS + MAIN + f"    {CALL}\n"
    loaded = documented(">>> Net(Config())(torch.ones(3))", text)
    recording: tuple[RecordedClass, ...] = ()
    assert source_of(loaded, "Net") == "as called by the example in Net's docstring, __main__"
    assert source_of(loaded, "Net", recording, ("main",)) == "as called by __main__"
    assert not loaded.plan("Net", recording, ())


def test_a_search_follows_where_the_program_does_not_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(searched, "SECONDS", 5.0)
    plain = HEAD + "class Net(nn.Module):\n    def forward(self, x): return x + 1\n"
    loaded = Loaded(plain + MAIN + "    sys.exit(Net)\n")
    call = loaded.plan("Net")[0].build(loaded.namespace)
    assert (call.source, bool(call.comment)) == ("synthesis", True)


def test_what_was_searched_for_is_not_executed_for_its_parts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()
    loaded = main(CALL)
    part: Target = loaded.targets["Part"]
    probe = loaded.plan("Part")[0]
    assert probe.after == ("Net",)
    assert part.examples[0].direct >= {"Net"} and "Part" not in part.examples[0].direct
    # A search has found it in the run of Net, so the program had not called it.
    searched.remember_found([FoundProbe("Net", "init(Config()) forward(f32[2, 3])", settled=True)])
    call = probe.build(loaded.namespace)
    assert call.inputs == "f32[2, 3]"
