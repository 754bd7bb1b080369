"""``fullgraph record``: run a program and record the inputs of its ``nn.Module`` calls.

Later checks trace the modules with these inputs. The recorder is a ``sitecustomize`` module on
``PYTHONPATH``, which also loads the ``sitecustomize`` that it hides. The recorder therefore works
with any command (``python``, ``pytest``, ``torchrun``, a shell script) and its child processes.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import util
from pathlib import Path

from fullgraph.domain.phrases import amount
from fullgraph_engine.protocol.recorded import FILE, MOST_BYTES, Recorded, Unreadable, parse

_NOT_FOUND, _NOT_EXECUTABLE, _UNWRITTEN = 127, 126, 2
"""Exit statuses: the command does not exist, cannot be executed, or its calls cannot be saved.

Shells use the first two for commands that do not start.
"""


def record_program(command: Sequence[str], root: Path, *, eager: bool, quiet: bool) -> int:
    """Run a command, add the module calls that it makes to the recording, and return its exit
    status.

    ``root`` is the folder of the recording file; only classes defined in it are recorded. ``eager``
    disables ``torch.compile`` in the command.
    """
    file = root / FILE
    problem = recording_problem(file)
    if problem:
        return _print_message(f"error: {file} {problem}.", _UNWRITTEN)
    with tempfile.TemporaryDirectory(prefix="fullgraph-record-") as folder:
        try:
            status = _run_command(command, _program_environment(root, folder, eager=eager))
        except FileNotFoundError:
            return _print_message(
                f"error: There is no program {command[0]}; check its name.", _NOT_FOUND
            )
        except OSError as error:
            return _print_message(
                f"error: Cannot start {command[0]}: {error.strerror}.", _NOT_EXECUTABLE
            )
        saved = save_recording(file, Path(folder))
    if saved.trouble:
        return _print_message(f"error: {saved.trouble}", _UNWRITTEN)
    if not quiet:
        nothing = (
            f"Nothing was recorded: no module whose class is defined below {root} was called, or "
            "the program's Python ignores PYTHONPATH."
        )
        _print_message(saved.summary or nothing)
    return status


@dataclass(frozen=True)
class SavedRecording:
    """The result of saving recorded calls. ``summary`` is a sentence about what was recorded, empty
    without calls. ``trouble`` is a sentence on why the calls could not be saved, empty if they
    were."""

    summary: str = ""
    trouble: str = ""


def save_recording(file: Path, folder: Path) -> SavedRecording:
    """Add the calls that processes have written to ``folder`` to the recording ``file``."""
    parts = sorted(folder.glob("*.json"), key=_part_order)
    if not parts:
        return SavedRecording()
    trouble = _merge_parts(file, parts)
    if trouble:
        return SavedRecording(trouble=f"Cannot write {file}: {trouble}.")
    summary = _recording_summary(parse(file.read_text(encoding="utf-8")))
    return SavedRecording(f"Recorded in {file}: {summary}.")


def recording_problem(file: Path) -> str:
    """Return a clause that says why the recording in ``file`` cannot be extended; empty if it can.

    A file that does not exist yet can be extended.
    """
    try:
        if file.stat().st_size > MOST_BYTES:
            return "is too large for a recording; delete it and record again"
        parse(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except Unreadable as error:
        return str(error)
    except (OSError, UnicodeDecodeError) as error:
        return f"cannot be read ({error}); delete it and record again"
    return ""


def _program_environment(root: Path, folder: str, *, eager: bool) -> dict[str, str]:
    environment = dict(os.environ)
    start = str(_engine_folder() / "recording" / "start")
    known = environment.get("PYTHONPATH")
    environment["PYTHONPATH"] = f"{start}{os.pathsep}{known}" if known else start
    environment |= {"FULLGRAPH_RECORD": folder, "FULLGRAPH_RECORD_ROOT": str(root)}
    if eager:
        environment["TORCHDYNAMO_DISABLE"] = "1"
    return environment


def _engine_folder() -> Path:
    """Return the folder of the package ``fullgraph_engine``, without importing it."""
    spec = util.find_spec("fullgraph_engine")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parent


def _run_command(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command and return its exit status as a shell reports it.

    Raises:
        OSError: The command cannot be started.
    """
    process = subprocess.Popen(command, env=environment)
    with _forward_signals(process):
        code = process.wait()
    # Shells report a process that a signal ended as 128 plus the number of the signal.
    return 128 - code if code < 0 else code


@contextlib.contextmanager
def _forward_signals(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ignore SIGINT, which the terminal also sends to the process, and forward SIGTERM to it.

    The previous signal handlers are restored at the end of the ``with`` block.
    """
    before = {
        signal.SIGINT: signal.signal(signal.SIGINT, lambda *_: None),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _part_order(part: Path) -> tuple[int, ...]:
    """Return the sort key of a file with the recorded calls of one process; files of earlier
    processes come first.
    """
    return tuple(int(number) for number in part.stem.split("-"))


def _merge_parts(file: Path, parts: Sequence[Path]) -> str:
    """Merge the calls of each process (``parts``) into the recording ``file``.

    Returns the error message; empty if it succeeds. The merge runs in a new process, because the
    server does not import the engine, and without the ``PYTHONPATH`` of the recorded program.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    engine = _engine_folder()
    process = subprocess.run(
        [sys.executable, "-m", f"{engine.name}.recording.merging", str(file), *map(str, parts)],
        cwd=engine.parent,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    return (process.stderr.strip().rpartition("\n")[2] or "unknown") if process.returncode else ""


def _recording_summary(recorded: Recorded) -> str:
    classes = [recorded_class for found in recorded.values() for recorded_class in found]
    calls = sum(len(recorded_class.calls) for recorded_class in classes)
    left_out = sum(
        bool(recorded_class.left_out and not recorded_class.calls) for recorded_class in classes
    )
    words = f"{amount(calls, 'call')} of {len(classes) - left_out} classes"
    if left_out:
        words += f"; {left_out} could not be recorded, see `left_out` in the file"
    return words


def _print_message(words: str, status: int = 0) -> int:
    sys.stderr.write(f"{words}\n")
    return status
