"""Warnings that every run repeats are logged once."""

from __future__ import annotations

from fullgraph.session.engine_pool import WarningLog

PYTHON = "/lib/torch/nn/module.py:12: UserWarning: It is slow.\n  warnings.warn(words)\n"
TORCH = "W1123 07:33:38.123000 {} torch/_dynamo/variables.py:1] [0/0] Something is odd.\n"


def test_a_warning_of_python() -> None:
    log = WarningLog()
    assert log.without_known(f"a\n{PYTHON}b\n") == f"a\n{PYTHON}b\n"
    assert log.without_known(f"a\n{PYTHON}b\n") == "a\nb\n"
    other = PYTHON.replace("slow", "fast")
    assert log.without_known(other) == other


def test_a_warning_of_torch_whatever_the_process() -> None:
    log = WarningLog()
    assert log.without_known(TORCH.format(1)) == TORCH.format(1)
    assert log.without_known(TORCH.format(2)) == ""


def test_what_a_program_prints_stays() -> None:
    log = WarningLog()
    for _ in range(2):
        assert log.without_known("loss 0.5\n  indented\n") == "loss 0.5\n  indented\n"
