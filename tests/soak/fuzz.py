"""Does anything that an editor can do, in any order: see ``tests/server/lsp_machine.py``.

``python tests/soak/fuzz.py [operations]`` prints the seed, and how many operations it were. Status
1 if something was wrong, after the shortest way to it that was found.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
import time
import traceback
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

sys.path.insert(0, str(Path(__file__).parents[1] / "server"))

import forked_servers
from lsp_machine import Place, Window

STEPS = 100
EXAMPLES = 10
"""Windows with one seed, the number of which is printed with a failure."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operations", nargs="?", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--no-shrink", action="store_true", help="print the first way to a failure")
    options = parser.parse_args()
    phases = [Phase.generate] if options.no_shrink else [Phase.generate, Phase.shrink]
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    began = time.monotonic()
    number, failures = options.seed, 0
    with tempfile.TemporaryDirectory() as folder, forked_servers.servers() as servers:
        place = Place(servers, Path(folder))
        print(f"seed {options.seed}", flush=True)
        while place.operations < options.operations and not failures:

            class Case(Window):
                pass

            Case.place = place
            try:
                run_state_machine_as_test(seed(number)(Case), settings=chosen)
            except Exception:
                failures += 1
                traceback.print_exc()
                print(f"Again: --seed {number}")
            number += 1
        took = time.monotonic() - began
        print(
            f"{place.operations} operations, {place.texts} texts with {place.diagnostics} "
            f"diagnostics compared, {place.started} servers, {took:.0f} s, {failures} failures"
        )
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
