"""Record the inputs of the modules that tests call, in the processes of the tests.

The recording must begin before the classes are defined, so it begins before pytest imports
conftest.py files. Processes write their calls to a temporary folder, from which the main
process adds them to the project's recording.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import pytest
import torch

from fullgraph.cli.record import recording_problem, save_recording
from fullgraph_engine.protocol.recorded import FILE
from fullgraph_engine.recording.watch import FOLDER, ROOT, begin_recording


class InputRecording:
    """A recording of the module calls of this process.

    ``root`` is the folder of the recording file; only classes defined in it are recorded. The main
    process creates the temporary folder, and pytest-xdist's processes inherit it in their
    environment variables.
    """

    def __init__(self, root: Path) -> None:
        self.messages: tuple[str, ...] = ()
        self._file, self._process = root / FILE, os.getpid()
        self._folder = ""
        if FOLDER not in os.environ:
            problem = recording_problem(self._file)
            if problem:
                raise pytest.UsageError(f"--fullgraph-record: {self._file} {problem}.")
            self._folder = tempfile.mkdtemp(prefix="fullgraph-record-")
            os.environ |= {FOLDER: self._folder, ROOT: str(root)}
        self._write = begin_recording(torch.nn.Module)

    def write_in_fork(self) -> None:
        """Write the calls of a process that pytest-forked made, because it exits without cleanup.

        Does nothing in other processes.
        """
        if os.getpid() != self._process:
            self._write()

    def finish(self) -> None:
        """Write the calls of this process; the main process then saves the calls of all."""
        self._write()
        if not self._folder:
            return
        saved = save_recording(self._file, Path(self._folder))
        nothing = (
            f"Nothing was recorded: no nn.Module that is defined in {self._file.parent} was called."
        )
        self.messages = (saved.trouble or saved.summary or nothing,)
        shutil.rmtree(self._folder, ignore_errors=True)
        del os.environ[FOLDER], os.environ[ROOT]
