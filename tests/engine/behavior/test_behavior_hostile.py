"""Comparisons that must come to an end whatever the changed text does."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.engine.behaving import Comparer

from fullgraph_engine.protocol import Compared, Limits

pytestmark = [pytest.mark.real_engine, pytest.mark.slow, pytest.mark.timeout(600)]

ORIGINAL = """
import os, sys, time
import torch
def f(x):  # fullgraph: x=f32[4]
    return x + 1
"""
LIMITS = Limits(seconds=20.0, memory=2048, processes=16)


@pytest.fixture(scope="module")
def comparer() -> Iterator[Comparer]:
    host = Comparer()
    yield host
    host.close()


def changed(*lines: str) -> str:
    return ORIGINAL.replace("    return x + 1", "\n".join(f"    {line}" for line in lines))


def ended(comparer: Comparer, text: str, original: str = ORIGINAL) -> Compared:
    return comparer.compare(original, text, "f", seconds=1.0, limits=LIMITS)


ENDINGS = {
    "hangs": ("while x is not None:", "    time.sleep(0.01)"),
    "hangs where nothing interrupts it": (
        "while x is not None:",
        "    try:",
        "        time.sleep(1)",
        "    except BaseException:",
        "        pass",
    ),
    "crashes": ("import ctypes", "ctypes.string_at(0)"),
    "exits": ("os._exit(0)",),
    "closes everything": ("os.closerange(3, 10_000)", "return x + 1"),
    "starts processes": ("while True:", "    os.fork()"),
    "takes all memory": ("kept = []", "while True:", "    kept.append(bytearray(1 << 27))"),
}


@pytest.mark.parametrize("how", ENDINGS)
def test_the_changed_code_does_not_come_to_an_end(comparer: Comparer, how: str) -> None:
    compared = ended(comparer, changed(*ENDINGS[how]))
    assert (compared.outcome, compared.aspects[:1]) == ("differs", ("outcome",)), compared
    assert compared.reason.endswith(".") and "the changed code" in compared.reason, compared
    # The host is as good as before.
    assert ended(comparer, ORIGINAL).outcome == "same"


def test_it_says_where_the_changed_code_hangs(comparer: Comparer) -> None:
    text = changed("while (x < 0).all():", "    time.sleep(0.01)", "return x + 1")
    compared = ended(comparer, text)
    assert compared.outcome == "differs" and compared.aspects == ("outcome",), compared
    assert "did not end within" in compared.reason and "`x` = f32[4]" in compared.reason


def test_an_exit_is_an_exception(comparer: Comparer) -> None:
    compared = ended(comparer, changed("if (x < 0).all():", "    sys.exit(3)", "return x + 1"))
    assert compared.outcome == "differs" and "SystemExit" in compared.reason, compared


def test_the_original_does_not_come_to_an_end(comparer: Comparer) -> None:
    compared = ended(comparer, ORIGINAL, original=changed("os._exit(0)"))
    assert compared.outcome == "unverified" and "the original" in compared.reason.lower()


def test_an_original_that_is_never_twice_the_same(comparer: Comparer) -> None:
    original = changed("return x + int.from_bytes(os.urandom(4), 'big')")
    compared = ended(comparer, original + "\n", original=original)
    assert compared.outcome == "unverified" and "two runs of the original" in compared.reason


def test_a_changed_text_that_does_not_parse(comparer: Comparer) -> None:
    compared = ended(comparer, changed("return (x"))
    assert compared.outcome == "unverified" and "does not parse" in compared.reason, compared


def test_a_target_that_is_gone(comparer: Comparer) -> None:
    compared = ended(comparer, ORIGINAL.replace("def f", "def g"))
    assert compared.outcome == "unverified" and "the changed code" in compared.reason.lower()


def test_no_probe(comparer: Comparer) -> None:
    original = ORIGINAL.replace("  # fullgraph: x=f32[4]", "")
    compared = ended(comparer, original, original=original)
    assert compared.outcome == "unverified" and "f" in compared.reason


def test_a_side_that_no_inputs_lead_to(comparer: Comparer) -> None:
    original = changed("if x.sum() == 1234.56789:", "    return x + 2", "return x + 1")
    compared = ended(
        comparer, changed("if x.sum() == 1234.56789:", "    return x + 3", "return x + 1"), original
    )
    assert compared.outcome == "unverified" and "not executed" in compared.reason, compared
    assert compared.unreached == (5,)
    elsewhere = comparer.compare(
        original, original.replace("x + 2", "x + 3"), "f", seconds=1.0, covering=False
    )
    assert elsewhere.outcome == "same", elsewhere


def test_what_is_forged_is_not_believed(comparer: Comparer) -> None:
    forging = (
        "import glob, tempfile",
        "for name in glob.glob(tempfile.gettempdir() + '/behavior/*'):",
        "    with open(name, 'wb') as file:",
        "        file.write(b'[[],[0]]\\n' * 100)",
        "return x + 2",
    )
    compared = ended(comparer, changed(*forging))
    assert compared.outcome == "unverified", compared


def test_a_comparison_is_cancelled(comparer: Comparer) -> None:
    text = changed("while x is not None:", "    time.sleep(0.01)")
    request = comparer.request(ORIGINAL, text, "f", limits=LIMITS)
    compared = comparer.cancelled(request)
    assert compared.cancelled and compared.outcome == "unverified"
    assert ended(comparer, ORIGINAL).outcome == "same"
