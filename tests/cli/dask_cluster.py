"""A Dask cluster of real processes on this machine, for tests and stress."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

QUIET = {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "3s"}
"""Environment variables that shorten the wait of Dask for a scheduler that does not answer."""
START = 60.0
"""Maximum seconds until a process of the cluster has started."""


class DaskCluster:
    """A scheduler and its workers, each a process; ``folder`` is for their files.

    ``environment`` are the variables of all processes. A worker runs one task at a time.
    """

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._folder = folder
        self._environment = {**environment, **QUIET}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._started = 0
        self.scheduler_pid = 0
        self.address = ""

    @property
    def workers(self) -> list[int]:
        """Process ids of the workers."""
        return [pid for pid in self._processes if pid != self.scheduler_pid]

    def start_scheduler(self, **env: str) -> None:
        """Start the scheduler on a free port, and wait until it listens."""
        file = self._folder / "scheduler.json"
        words = ("--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", file)
        # A scheduler does not need fullgraph.
        self.scheduler_pid = self._start("dask_scheduler", *map(str, words), PYTHONPATH="", **env)
        wait_until(lambda: file.exists() and file.read_text().endswith("}"))
        self.address = json.loads(file.read_text())["address"]

    def start_worker(self, **env: str) -> int:
        """Start a worker and return its process id; it connects to the scheduler later."""
        self._started += 1
        words = ("--no-nanny", "--no-dashboard", "--nthreads", "1", "--host", "127.0.0.1")
        scratch = ("--local-directory", str(self._folder / f"worker{self._started}"))
        return self._start("dask_worker", self.address, *words, *scratch, **env)

    def kill(self, pid: int) -> None:
        """Kill a process of the cluster and wait for its end."""
        process = self._processes.pop(pid)
        process.kill()
        process.wait()

    def close(self) -> None:
        for pid in list(self._processes):
            self.kill(pid)

    def worker_of(self, engine: int) -> int:
        """Return the process id of the worker whose child process is ``engine``, a process id."""
        return next(
            parent.pid
            for parent in psutil.Process(engine).parents()
            if parent.pid in self._processes
        )

    def _start(self, module: str, *words: str, **env: str) -> int:
        with (self._folder / "cluster.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.{module}", *words],
                cwd=self._folder,
                env={**self._environment, **env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self._processes[process.pid] = process
        return process.pid


@contextlib.contextmanager
def running_cluster(
    folder: Path, environment: Mapping[str, str] = os.environ, workers: int = 0, **env: str
) -> Iterator[DaskCluster]:
    """Start a scheduler with the variables ``env``, and workers; kill them after the block."""
    folder.mkdir(parents=True, exist_ok=True)
    cluster = DaskCluster(folder, environment)
    try:
        cluster.start_scheduler(**env)
        for _ in range(workers):
            cluster.start_worker()
        yield cluster
    finally:
        cluster.close()


def wait_until(condition: object, timeout: float = START) -> None:
    """Wait until a function returns a true value; raise TimeoutError after ``timeout`` seconds."""
    assert callable(condition)
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("The condition is still false.")
        time.sleep(0.05)
