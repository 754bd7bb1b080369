"""The test of programs with a backend: execute one and judge how its compiled graph fails."""

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
from ..verify.check import assemble_check
from ..verify.finding_signature import FindingSignature
from ..verify.oracle import PATH, Requirement, ShownFinding, Verdict, script_path


def judge_graph_program(
    program: str, requirement: Requirement, backend: Backend
) -> tuple[Verdict, ShownFinding | None]:
    """Execute a program in this process and decide whether the backend fails as required.

    Return also the failure it showed, or None. Exceptions of the program do not propagate. The
    process must not be reused afterwards.
    """
    try:
        text = assemble_check(program, requirement.check)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code = compile(text, PATH, "exec")
            spelled = _names_backend(program, backend)
    except (SyntaxError, ValueError, RecursionError, IndexError) as error:
        return Verdict(False, f"no Python: {error}"), None
    if not spelled:
        return Verdict(False, "another backend"), None
    linecache.cache[PATH] = (len(text), None, text.splitlines(keepends=True), PATH)
    drive.install_hooks()
    dynamo.reset()
    rng.seed_generators()
    namespace: dict[str, Any] = {"__name__": "__main__", "__file__": script_path()}
    plainly: list[BaseException] = []
    status: Any = None
    ended: BaseException | None = None
    with drive.use_real_backends(), _run_eagerly_first(plainly):
        try:
            exec(code, namespace)
        except SystemExit as leaving:
            status, ended = leaving.code, leaving.__context__
        except BaseException as error:
            ended = error
    if plainly and not backend.accuracy:
        return Verdict(False, f"without a backend it raises {type(plainly[0]).__name__}"), None
    failure = None if ended is None else _describe_error(ended)
    if backend.accuracy:
        return _judge_results(status, failure)
    return _judge_failure(status, failure, requirement)


def _judge_results(status: Any, failure: Failure | None) -> tuple[Verdict, ShownFinding | None]:
    if failure is not None:
        return Verdict(False, f"it raises {failure.kind}: {failure.message}"), None
    if not status:
        return Verdict(False, "the results are right"), None
    return Verdict(True), ShownFinding(FindingSignature("backend", "", (), "", ""), False)


def _judge_failure(
    status: Any, failure: Failure | None, requirement: Requirement
) -> tuple[Verdict, ShownFinding | None]:
    if failure is None:
        return Verdict(False, "it compiles"), None
    if not requirement.loose:
        if failure.kind != requirement.signature.kind:
            return Verdict(False, f"it raises {failure.kind}"), None
        if not status:
            return Verdict(False, "it raises another exception"), None
    return Verdict(True), ShownFinding(
        FindingSignature("backend", failure.kind, (failure.message,), "", ""), True
    )


def _describe_error(error: BaseException) -> Failure:
    try:
        return drive.failure_of(error)
    except Exception:  # the exception itself raises when it is described
        return Failure("eager", type(error).__name__, "", ())


def _names_backend(program: str, backend: Backend) -> bool:
    """Whether the call of ``torch.compile`` in a program still names the backend."""
    if backend.accuracy:
        return True
    wanted = ast.dump(ast.parse(backend.spelled, mode="eval").body)
    return any(
        isinstance(node, ast.keyword) and node.arg == "backend" and ast.dump(node.value) == wanted
        for node in ast.walk(ast.parse(program))
    )


@contextmanager
def _run_eagerly_first(raised: list[BaseException]) -> Iterator[None]:
    """Inside the block, run each compiled function eagerly before it runs compiled.

    Exceptions of the eager runs are appended to ``raised``.
    """
    original = torch.compile

    def compile(function: Any = None, **options: Any) -> Any:
        compiled: Any = original(function, **options)
        if function is None:
            return compiled

        def both(*inputs: Any, **given: Any) -> Any:
            try:
                function(*copy_inputs(inputs), **given)
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


def copy_inputs(inputs: Sequence[Any]) -> list[Any]:
    """Return copies of inputs with equal contents, gradients and shared storages, as leaves."""
    made = copy.deepcopy([x.detach() if isinstance(x, torch.Tensor) else x for x in inputs])
    for value, new in zip(inputs, made, strict=True):
        if isinstance(value, torch.Tensor):
            new.requires_grad_(value.requires_grad)
    return [
        new if not isinstance(value, torch.Tensor) or value.is_leaf else new.clone()
        for value, new in zip(inputs, made, strict=True)
    ]
