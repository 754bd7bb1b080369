"""Work on many files, each in a process of its own with limits, so that one cannot spoil the rest.

What came of a file is kept as a line of JSON where asked for: a survey that was stopped goes on
with the files of which nothing is kept. Files that did not end well are tried again.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import select
import signal
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Result = dict[str, Any]
"""What work came to; JSON. Has an ``error`` where nothing can be said of the file."""


def options(parser: argparse.ArgumentParser, seconds: float) -> None:
    parser.add_argument("files", nargs="+")
    parser.add_argument("--seconds", type=float, default=seconds, help="most for one file")
    parser.add_argument("--memory", type=float, help="most for one file, in GiB")
    parser.add_argument("--keep", type=Path, help="file of results, to go on where this stopped")


def survey(
    work: Callable[[str], Result], given: argparse.Namespace
) -> Iterator[tuple[str, Result]]:
    """The results of all files, in their order, each as soon as it is there."""
    keep: Path | None = given.keep
    kept: dict[tuple[str, str], Result] = {}
    if keep is not None and keep.exists():
        for line in keep.read_text().splitlines():
            one = json.loads(line)
            kept[one["work"], one["file"]] = one["result"]
    for path in given.files:
        done = (work.__name__, str(Path(path).absolute()))
        result = kept.get(done)
        if result is None or "error" in result:
            result = apart(work, path, given.seconds, given.memory)
            if keep is not None:
                with keep.open("a") as lines:
                    print(
                        json.dumps({"work": done[0], "file": done[1], "result": result}), file=lines
                    )
        yield path, result


def apart(
    work: Callable[[str], Result], path: str, seconds: float, memory: float | None = None
) -> Result:
    """What ``work`` says of a file, in a fork that says nothing else and dies afterwards."""
    come, go = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setpgid(0, 0)
            void = os.open(os.devnull, os.O_WRONLY)
            os.dup2(void, 1)
            os.dup2(void, 2)
            try:
                if memory is not None:
                    limit = int(memory * (1 << 30))
                    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
                answer = work(path)
            except BaseException as error:
                last = traceback.extract_tb(error.__traceback__)[-1]
                words = f"{type(error).__name__}: {error}"[:300]
                answer = {"error": f"{words} ({Path(last.filename).name}:{last.lineno})"}
            with os.fdopen(go, "wb") as pipe:
                pipe.write(json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(go)
    parts = []
    until = time.monotonic() + seconds
    late = False
    while select.select([come], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(come, 1 << 16)
        if not part:
            break
        parts.append(part)
    else:
        late = True
        os.kill(child, signal.SIGKILL)
    os.close(come)
    _, status = os.waitpid(child, 0)
    if late:
        return {"error": f"{seconds:g} s were not enough"}
    if not parts:
        return {"error": f"the process ended with status {status}"}
    answer = json.loads(b"".join(parts))
    assert isinstance(answer, dict)
    return answer
