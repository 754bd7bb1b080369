"""Kills workers of a Dask cluster while they check files: no file gets lost, and none gets a wrong
result.

``python -m tests.soak.cluster [kills]`` checks small files on real workers, again and again until
as many workers were killed. It prints how many files had the results of a check on one machine, and
how many were reported as not analyzed because too many workers were lost with them. Status 1 if a
file is missing from a report or has other results.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from tests.cli.dask_cluster import DaskCluster, running_cluster, wait_until

TEXT = """\
import torch
from torch import nn


class Net{number}(nn.Module):
    def forward(self, x):
        y = x * {number}
        print(y.sum())
        return y + 1


def get_inputs():
    return [torch.rand(2, 3)]
"""
OPTIONS = ("--no-cache", "--effort", "quick", "--format", "json", "--python", sys.executable)
LONGEST = 900.0
"""Maximum seconds of one check."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("kills", nargs="?", type=int, default=100)
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--allowed-failures", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    chance = random.Random(options.seed)
    verdicts: collections.Counter[str] = collections.Counter()
    kills, began = 0, time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        for number in range(options.files):
            (folder / f"net{number:03}.py").write_text(TEXT.format(number=number))
        whole = _results(_start_check(folder))
        failures = {"DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": str(options.allowed_failures)}
        with running_cluster(folder / "dask", workers=options.workers, **failures) as cluster:
            workers = list(cluster.workers)
            while kills < options.kills:
                check = _start_check(folder, "--scheduler", cluster.address)
                while check.poll() is None and kills < options.kills:
                    time.sleep(chance.uniform(0.0, 8.0))
                    kills += check.poll() is None
                    _replace_worker(cluster, workers, chance)
                judged = collections.Counter(_judge(whole, _results(check)))
                verdicts.update(judged)
                print(f"{kills} workers killed: {dict(judged)}", flush=True)
            engines = [one for one in workers for one in psutil.Process(one).children()]
        wait_until(lambda: not any(one.is_running() for one in engines))
    seconds = time.monotonic() - began
    print(f"{kills} workers killed in {seconds:.0f} s: {dict(verdicts)}")
    return 1 if verdicts["wrong"] or verdicts["missing"] else 0


def _start_check(folder: Path, *options: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "fullgraph", "check", *OPTIONS, *options, "."],
        cwd=folder,
        env={**os.environ, "FULLGRAPH_ENGINE_KEEP": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _replace_worker(cluster: DaskCluster, workers: list[int], chance: random.Random) -> None:
    """Kill a worker and start another; its engine has to end without it."""
    victim = workers.pop(chance.randrange(len(workers)))
    engines = psutil.Process(victim).children()
    cluster.kill(victim)
    workers.append(cluster.start_worker())
    wait_until(lambda: not any(one.is_running() for one in engines))


def _results(check: subprocess.Popen[bytes]) -> dict[str, Any]:
    """Return the results of each file in the report of a check, without times."""
    out, _ = check.communicate(timeout=LONGEST)
    files = json.loads(out, object_hook=_without_times)["files"]
    return {file["path"]: file for file in files}


def _without_times(plain: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in plain.items() if name != "seconds"}


def _judge(whole: dict[str, Any], found: dict[str, Any]) -> list[str]:
    verdicts = []
    for path, right in whole.items():
        file = found.get(path)
        if file is None:
            verdicts.append("missing")
        elif file == right:
            verdicts.append("right")
        else:
            verdicts.append(
                "not analyzed"
                if "ended while tracing the file" in file.get("error", "")
                else "wrong"
            )
    return verdicts


if __name__ == "__main__":
    sys.exit(main())
