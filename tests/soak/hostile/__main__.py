"""Opens hostile files in an editor, one after another: nothing gets out, and each is explained.

``python -m tests.soak.hostile [category …]`` prints a table and what is not as it is to be. Status
1 if anything was not contained. ``--without "seccomp,mounts"`` leaves layers of the sandbox out.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import os
import statistics
import sys
import time
from collections.abc import Iterable, Iterator

from tests.soak.hostile.acts import CATEGORIES, cases
from tests.soak.hostile.case import Case
from tests.soak.hostile.editor import LONGER, SECONDS, Editor, Outcome
from tests.soak.hostile.surroundings import Surroundings


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("categories", nargs="*", default=CATEGORIES, metavar="category")
    parser.add_argument("--case", default="", help="only cases with this in their names")
    parser.add_argument("--without", default="", help="layers to leave out, with commas between")
    parser.add_argument(
        "--verbose", action="store_true", help="print all that is told, as it comes"
    )
    options = parser.parse_args()
    without = tuple(name.strip() for name in options.without.split(",") if name.strip())
    surroundings = Surroundings()
    began = time.monotonic()
    outcomes: list[Outcome] = []
    left = ""
    try:
        for seconds, names in itertools.groupby(options.categories, _seconds):
            editor = Editor(surroundings, without, seconds)
            for category, case in _chosen(names, options.case):
                outcomes.append(editor.run(category, case))
                if options.verbose:
                    print(_line(outcomes[-1]), *outcomes[-1].told, sep="\n    ", flush=True)
            left += editor.close()
    finally:
        surroundings.close()
    _print_table(outcomes)
    for one in outcomes:
        if one.verdict != "contained":
            print(_line(one))
    if left:
        print(left)
    good = [one.good_seconds for one in outcomes]
    print(
        f"{len(outcomes)} files as {'root' if os.getuid() == 0 else 'a normal user'}, "
        f"{time.monotonic() - began:.0f} s; the good file: {editor.first_seconds:.2f} s at first, "
        f"then {statistics.median(good):.2f} s in the middle, {max(good):.2f} s at most"
    )
    return 1 if left or any(one.verdict == "not contained" for one in outcomes) else 0


def _seconds(category: str) -> float:
    return LONGER.get(category, SECONDS)


def _chosen(categories: Iterable[str], words: str) -> Iterator[tuple[str, Case]]:
    for category in categories:
        for case in cases(category):
            if words in case.name:
                yield category, case


def _line(outcome: Outcome) -> str:
    name = f"{outcome.category}: {outcome.case.name}"
    times = f"{outcome.seconds:.1f} s, {outcome.good_seconds:.1f} s"
    return f"{outcome.verdict:13} {name} ({times}) {outcome.detail}"


def _print_table(outcomes: list[Outcome]) -> None:
    counts = collections.Counter((one.category, one.verdict) for one in outcomes)
    verdicts = ("contained", "not contained", "misleading")
    print(f"{'':16}" + "".join(f"{verdict:>15}" for verdict in verdicts))
    for category in (*dict.fromkeys(one.category for one in outcomes), ""):
        chosen = [
            sum(n for (c, v), n in counts.items() if v == verdict and category in ("", c))
            for verdict in verdicts
        ]
        print(f"{category or 'all':16}" + "".join(f"{count:15}" for count in chosen))


if __name__ == "__main__":
    sys.exit(main())
