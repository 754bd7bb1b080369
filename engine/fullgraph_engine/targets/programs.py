"""Example inputs from calls that the file itself makes, in its ``__main__`` block and in examples
of docstrings.

Such a program is executed to observe its calls, as a caller of the target (see ``enclosing``): in
the sandbox, for a short time, without output, up to the wanted call. A training loop ends with its
first step.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import os
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..protocol import ProbeInfo
from ..protocol.comments import arguments_in
from . import rng, searched, tensors
from .enclosing import Enough, NotCalled
from .examples import Example
from .probes import Call, Enclosing, Namespace, Probe
from .silence import silence_output

SECONDS = 6.0
"""Maximum wall time in seconds that a program of the file runs until it calls a wanted target."""

FURTHER_SECONDS = 2.0
"""Maximum seconds to look for calls with other dtypes, ranks or flags of their inputs. The limit
also applies after training starts, because a training loop repeats the same calls."""


def enclosing_programs(
    examples: Sequence[Example],
    definition: str,
    users: Sequence[tuple[str, Sequence[Example]]],
) -> list[Enclosing]:
    """Return the example programs of a file as callers that may call the definition ``definition``.

    ``users`` are targets whose own runs have ended, each with the examples that reach it.
    """
    found = []
    for example in examples:
        through: tuple[str, ...] = ()
        if definition not in example.direct:
            through = tuple(name for name, theirs in users if example in theirs)
        doubtful = example.kind == "docstring"
        found.append(
            enclosing_program(example.name, _PlannedExample(example, through), doubtful=doubtful)
        )
    return found


def enclosing_files(paths: Sequence[str]) -> list[Enclosing]:
    """Return files that import the target's file, such as training scripts, as callers to
    execute."""
    return [
        enclosing_program(os.path.basename(path), _PlannedFile(path), doubtful=False)  # noqa: PTH119
        for path in paths
    ]


def enclosing_program(
    name: str, build: Callable[[Namespace], Call], *, doubtful: bool
) -> Enclosing:
    """Return a program of the file, such as its ``__main__`` block, as a caller of the wanted
    target.

    ``build`` executes the program; it raises at the wanted call, or returns after the last
    statement. ``name`` is the phrase for the program in messages. ``doubtful``: the program may be
    outdated, so that its calls may raise although the target is correct.
    """
    probe = Probe(ProbeInfo("harvest", inputs=""), build)
    return Enclosing(name, probe, SECONDS, FURTHER_SECONDS, is_program=True, is_doubtful=doubtful)


@dataclass(frozen=True)
class _PlannedExample:
    """A callable that executes an example program, for instance a ``__main__`` block, to observe
    its calls.

    ``through`` names the targets through which the example reaches the wanted one. If the inputs of
    one of these targets came from a search, executing the example does not help.
    """

    example: Example
    through: tuple[str, ...]

    def __call__(self, namespace: Namespace) -> Call:
        missed = next((name for name in self.through if name in searched.settled), None)
        if missed is not None:
            raise NotCalled(f"{self.example.name} does not call {missed}.")
        return Call(functools.partial(_execute_example, self.example, namespace), (), {})


@dataclass(frozen=True)
class _PlannedFile:
    """A callable that executes a file as ``python FILE`` would, to observe its calls."""

    path: str

    def __call__(self, namespace: Namespace) -> Call:
        return Call(functools.partial(_execute_file, Path(self.path), namespace), (), {})


def _execute_file(path: Path, namespace: Namespace) -> None:
    """Execute a file as ``__main__``; ``namespace`` has the globals of the target's file.

    Raises:
        NotCalled: The file cannot be read or parsed, or it exits.
    """
    try:
        text = path.read_text(encoding="utf-8")
        code = compile(text, str(path), "exec", dont_inherit=True)
    except (OSError, ValueError, SyntaxError):
        raise NotCalled(f"{path.name} cannot be executed.") from None
    known = sys.argv, sys.path[:], sys.modules["__main__"]
    with restore_state(namespace), program_sandbox(path.name):
        sys.argv = [str(path), *(arguments_in(text) or ())]
        sys.path.insert(0, str(path.parent))
        module = install_main_module(str(path))
        _add_import_names(namespace)
        try:
            exec(_rename_code(code, path.name), module.__dict__)
        except SystemExit:
            raise NotCalled(f"{path.name} exits without calling the target.") from None
        finally:
            sys.argv, sys.path[:], sys.modules["__main__"] = known


def install_main_module(path: str) -> types.ModuleType:
    """Create the ``__main__`` module in which a file is executed, and store it in ``sys.modules``.

    A file in a package is prepared for execution as by ``python -m``, other files as by ``python
    FILE``.
    """
    package, folder = _package_of(path)
    if package and folder not in sys.path:
        sys.path.append(folder)
    module = sys.modules["__main__"] = types.ModuleType("__main__")
    module.__file__ = path
    module.__package__ = package or None
    return module


def _package_of(path: str) -> tuple[str, str]:
    """Return (dotted name of the package that contains a file, folder that contains the top-level
    package).

    For a file outside packages, the name is empty, and the folder is the file's.
    """
    folder = Path(path).parent
    names: list[str] = []
    while (folder / "__init__.py").is_file():
        names.insert(0, folder.name)
        folder = folder.parent
    return ".".join(names), os.fspath(folder)


def _add_import_names(namespace: Namespace) -> None:
    """Let imports find the executed module under each name that ``sys.path`` gives its file.

    Otherwise a program that imports ``lib.losses`` would execute the file again.
    """
    file = Path(str(namespace.get("__file__", "")))
    module = sys.modules.get(str(namespace.get("__name__", "")))
    if module is None or vars(module) is not namespace:
        return
    for folder in map(Path, filter(None, sys.path)):
        if folder in file.parents:
            name = ".".join(file.relative_to(folder).with_suffix("").parts)
            sys.modules.setdefault(name.removesuffix(".__init__"), module)


def _execute_example(example: Example, namespace: Namespace) -> None:
    """Execute a ``__main__`` block as Python would, or a docstring's example as doctest would.

    It runs in the file's globals, because functions of the file may use names that it binds. Its
    changes persist only if it reaches the wanted call.
    """
    path = str(namespace.get("__file__", ""))
    main = example.kind == "main"
    with restore_state(namespace), _as_main(namespace, main), program_sandbox(example.name):
        names = namespace if main else {**_assumed_names(namespace), **namespace}
        for statement in example.body:
            code = compile(ast.Module([statement], []), path, "exec", dont_inherit=True)
            exec(_rename_code(code, example.name), names)


def _assumed_names(namespace: Namespace) -> Namespace:
    """Return modules by the names that examples use without importing them: ``torch``, ``nn``,
    ``F``, ``np`` and the file's package."""
    import torch

    package = str(namespace.get("__name__", "")).partition(".")[0]
    modules = {name: sys.modules.get(full) for name, full in (("np", "numpy"), (package, package))}
    names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional, **modules}
    return {name: module for name, module in names.items() if module is not None}


def _rename_code(code: Any, name: str) -> Any:
    """Return a copy of the code object with another name, so that stacks show the executed
    program.
    """
    if sys.version_info >= (3, 11):
        return code.replace(co_name=name, co_qualname=name)
    return code.replace(co_name=name)


@contextlib.contextmanager
def program_sandbox(name: str) -> Iterator[None]:
    """Restrict the program ``name`` that the ``with`` block executes to observe its calls.

    It runs with real tensors, without output and worker processes, and with short training loops.
    """
    with _no_oracle(), load_in_process(), _short_training(name), silence_output():
        yield


@contextlib.contextmanager
def restore_state(namespace: Namespace) -> Iterator[None]:
    """Restore the file's globals after the ``with`` block, unless :class:`Enough` ended the
    block."""
    import torch

    names = dict(namespace)
    dtype, device = torch.get_default_dtype(), torch.get_default_device()
    grad = torch.is_grad_enabled()
    try:
        yield
    except Enough:
        raise
    except BaseException:
        for name in namespace.keys() - names.keys():
            del namespace[name]
        namespace.update(names)
        torch.set_default_dtype(dtype)
        if torch.get_default_device() != device:
            torch.set_default_device(None if device.type == "cpu" else device)
        torch.set_grad_enabled(grad)
        rng.seed_generators()
        raise


@contextlib.contextmanager
def _as_main(namespace: Namespace, wanted: bool) -> Iterator[None]:
    """Set ``__name__`` and ``sys.argv`` as for a main program in the ``with`` block, if
    ``wanted``."""
    if not wanted:
        yield
        return
    name, arguments = namespace["__name__"], sys.argv
    namespace["__name__"], sys.argv = "__main__", [str(namespace.get("__file__", ""))]
    try:
        yield
    finally:
        namespace["__name__"], sys.argv = name, arguments


@contextlib.contextmanager
def _no_oracle() -> Iterator[None]:
    """Use real tensors in the ``with`` block, because example code often reads sizes from data,
    which fake tensors lack."""
    from ..tracing.tensors import RunTensorMode

    mode = tensors.fake_mode()
    if not isinstance(mode, RunTensorMode):
        yield
        return
    before, mode.prefer_real = mode.prefer_real, mode.real_follows
    try:
        yield
    finally:
        mode.prefer_real = before


@contextlib.contextmanager
def _short_training(name: str) -> Iterator[None]:
    """End a training loop in the ``with`` block after its first steps, because later ones repeat
    the same calls."""
    from torch.optim.optimizer import register_optimizer_step_post_hook

    first: float | None = None

    def note_step(*_: Any) -> None:
        nonlocal first
        first = first if first is not None else time.monotonic()
        if time.monotonic() - first >= FURTHER_SECONDS:
            raise NotCalled(
                f"{name} trained for {FURTHER_SECONDS:g} seconds, and did not call the target."
            )

    handle = register_optimizer_step_post_hook(note_step)
    try:
        yield
    finally:
        handle.remove()


@contextlib.contextmanager
def load_in_process() -> Iterator[None]:
    """Make data loaders in the ``with`` block load in this process, because the sandbox forbids
    worker processes."""
    from torch.utils.data import DataLoader

    original = DataLoader.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        # Bypass the ``__setattr__`` of ``DataLoader``, which refuses to change some attributes.
        alone = {"num_workers": 0, "timeout": 0, "prefetch_factor": None}
        vars(self).update(alone, persistent_workers=False, pin_memory=False)

    DataLoader.__init__ = __init__  # type: ignore[method-assign]
    try:
        yield
    finally:
        DataLoader.__init__ = original  # type: ignore[method-assign]
