"""Whether a program shows what a backend does wrong: it is executed, and the backend compiles."""

from __future__ import annotations

import ast
import copy
import linecache
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...targets import rng
from ...torch_internals import dynamo
from ...tracing import drive
from ...tracing.recording import Failure
from ..candidate import Backend
from ..verify.check import assembled
from ..verify.finding_signature import FindingSignature
from ..verify.oracle import PATH, Requirement, Shown, Verdict, here


def judge(program: str, wish: Requirement, backend: Backend) -> tuple[Verdict, Shown | None]:
    """Execute a program in this process, which is spent by it; how it shows what is wanted.

    Nothing that the program raises passes through.
    """
    try:
        text = assembled(program, wish.check)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, PATH, "exec")
            spelled = _is_spelled(program, backend)
    except (SyntaxError, ValueError, RecursionError, IndexError) as error:
        return Verdict(False, f"no Python: {error}"), None
    if not spelled:
        return Verdict(False, "another backend"), None
    linecache.cache[PATH] = (len(text), None, text.splitlines(keepends=True), PATH)
    drive.install_hooks()
    dynamo.reset()
    rng.seed_generators()
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": here()}
    plainly: list[BaseException] = []
    status: Any = None
    ended: BaseException | None = None
    with drive.use_real_backends(), _plainly_first(plainly):
        try:
            exec(code, namespace)
        except SystemExit as leaving:
            status, ended = leaving.code, leaving.__context__
        except BaseException as error:
            ended = error
    if plainly and not backend.accuracy:
        return Verdict(False, f"without a backend it raises {type(plainly[0]).__name__}"), None
    failure = None if ended is None else _described(ended)
    if backend.accuracy:
        return _of_results(status, failure)
    return _of_failure(status, failure, wish)


def _of_results(status: Any, failure: Failure | None) -> tuple[Verdict, Shown | None]:
    if failure is not None:
        return Verdict(False, f"it raises {failure.kind}: {failure.message}"), None
    if not status:
        return Verdict(False, "the results are right"), None
    return Verdict(True), Shown(FindingSignature("backend", "", (), "", ""), False)


def _of_failure(
    status: Any, failure: Failure | None, wish: Requirement
) -> tuple[Verdict, Shown | None]:
    if failure is None:
        return Verdict(False, "it compiles"), None
    if not wish.loose:
        if failure.kind != wish.signature.kind:
            return Verdict(False, f"it raises {failure.kind}"), None
        if not status:
            return Verdict(False, "it raises something else"), None
    return Verdict(True), Shown(
        FindingSignature("backend", failure.kind, (failure.message,), "", ""), True
    )


def _described(error: BaseException) -> Failure:
    try:
        return drive.failure_of(error)
    except Exception:  # an exception of the program's that cannot be described
        return Failure("eager", type(error).__name__, "", ())


def _is_spelled(program: str, backend: Backend) -> bool:
    """A smaller program must still name the backend: without it another one would compile."""
    if backend.accuracy:
        return True
    wanted = ast.dump(ast.parse(backend.spelled, mode="eval").body)
    return any(
        isinstance(node, ast.keyword) and node.arg == "backend" and ast.dump(node.value) == wanted
        for node in ast.walk(ast.parse(program))
    )


@contextmanager
def _plainly_first(raised: list[BaseException]) -> Iterator[None]:
    """Inside, what is compiled is called as it is before; what that raises is kept."""
    original = torch.compile

    def compile(function: Any = None, **options: Any) -> Any:
        compiled: Any = original(function, **options)
        if function is None:
            return compiled

        def both(*inputs: Any, **given: Any) -> Any:
            try:
                function(*copies(inputs), **given)
            except Exception as error:
                raised.append(error)
                raise
            return compiled(*inputs, **given)

        return both

    torch.compile = compile  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.compile = original


def copies(inputs: Sequence[Any]) -> list[Any]:
    """Other tensors, with the same contents, gradness and shared storages; all are leaves."""
    made = copy.deepcopy([x.detach() if isinstance(x, torch.Tensor) else x for x in inputs])
    for value, new in zip(inputs, made, strict=True):
        if isinstance(value, torch.Tensor):
            new.requires_grad_(value.requires_grad)
    return [
        new if not isinstance(value, torch.Tensor) or value.is_leaf else new.clone()
        for value, new in zip(inputs, made, strict=True)
    ]
