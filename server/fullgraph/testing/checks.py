"""Observe what a test compiles, and fail the test if it is not as expected."""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from fullgraph.domain.positions import TextPositions
from fullgraph.render.terminal import FindingFile, finding_text
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph.testing.causes import causes_of
from fullgraph.testing.expectation_files import (
    UPDATE,
    InvalidExpectations,
    compare,
    missing_text,
    read_sections,
)
from fullgraph.testing.expectations import (
    DEFAULT,
    NOTHING_COMPILED,
    Expected,
    Limit,
    Place,
    excess_text,
    is_nothing_compiled,
)
from fullgraph.testing.outcomes import ExpectationUpdate, FileOutcome, Outcome
from fullgraph_engine.programs.numerics import (
    Call,
    Numerics,
    Uncopyable,
    difference_text,
    module_of,
    run_backward,
)
from fullgraph_engine.programs.observation import (
    Observed,
    Observer,
    is_compiled,
    is_graph_break,
)

Shape = Sequence[int]


@dataclass(frozen=True)
class Checked:
    """Result of a successful check: the value that the last call returned, the number of graphs,
    and the findings within the allowed limits.
    """

    value: Any
    graphs: int
    places: tuple[Place, ...]


@dataclass(frozen=True)
class TestRun:
    """The run of one test, for its checks.

    ``path`` is the file of the test, ``node`` its node id. ``update``: findings that a file of
    expectations does not contain are added to it at the end of the session. ``report`` receives the
    outcome of each check.
    """

    __test__ = False

    path: str
    node: str
    update: bool
    report: Callable[[Outcome], None]


class Checker:
    """The ``fullgraph`` fixture: checks what ``torch.compile`` does to functions and modules of a
    test."""

    def __init__(self, run: TestRun) -> None:
        self._run = run
        self._checks_with_file = 0

    def check(
        self,
        function: Callable[..., Any],
        *args: Any,
        breaks: Limit = DEFAULT,
        recompiles: Limit = DEFAULT,
        library_breaks: Limit = DEFAULT,
        expected: str = "",
        shapes: Sequence[Shape] = (),
        calls: int | Sequence[Sequence[Any]] = 1,
        warmup: int = 0,
        numerics: bool = False,
        allow_nan: bool = False,
        train: bool = False,
        dynamic: bool | None = None,
        backend: str | Callable[..., Any] | None = None,
        **kwargs: Any,
    ) -> Checked:
        """Compile a function or module, call it, and fail the test if it has more findings than
        allowed.

        ``args`` and ``kwargs`` are the arguments of the call. With ``shapes``, it is called once
        for each, with a random tensor of that shape as the first argument. ``calls`` is the number
        of times to repeat this, or a list with the positional arguments of each call. ``breaks``,
        ``recompiles``, ``library_breaks``, ``expected`` and ``warmup`` are as in
        :class:`fullgraph.testing.expectations.Expected`. With ``train``, each call is followed by a
        backward pass. With ``numerics``, the results are compared with eager mode. ``dynamic`` and
        ``backend`` are arguments of ``torch.compile``; they are not used for the result of a
        ``torch.compile`` call. An exception of the call propagates, unless it is a graph break
        under ``fullgraph=True``.
        """
        __tracebackhide__ = True
        self._checks_with_file += bool(expected)
        limits = Expected(breaks, recompiles, library_breaks, expected, warmup)
        verdict = _Verdict(self._run, limits, self._checks_with_file)
        inputs = [
            (one, dict(kwargs)) for one in _arguments_of_calls(args, shapes=shapes, calls=calls)
        ]
        compiled = function
        if not is_compiled(function):
            default = "inductor" if numerics else "eager"
            compiled = torch.compile(function, dynamic=dynamic, backend=backend or default)
        calling = _Calls(function, inputs, train=train, warmup=warmup)
        if numerics:
            calling.numerics = _eager_results(function, inputs, train=train, allow_nan=allow_nan)
        raised = None
        with Observer(self._run.path) as observer:
            try:
                calling.run(compiled, observer)
            except Exception as error:
                raised = error
        observed = observer.results(raised)
        places = verdict.judge(observed, raised, calling.difference)
        return Checked(calling.value, observed.graphs, places)


def _eager_results(
    function: Callable[..., Any], inputs: Sequence[Call], *, train: bool, allow_nan: bool
) -> Numerics:
    __tracebackhide__ = True
    try:
        return Numerics(function, inputs, train=train, allow_nan=allow_nan)
    except Uncopyable as error:
        message = str(error)
    pytest.fail(message, pytrace=False)


def _arguments_of_calls(
    args: tuple[Any, ...], *, shapes: Sequence[Shape], calls: int | Sequence[Sequence[Any]]
) -> list[tuple[Any, ...]]:
    if not isinstance(calls, int):
        return [tuple(one) for one in calls]
    return [one for _ in range(calls) for one in _arguments_of_shapes(args, shapes)]


def _arguments_of_shapes(
    args: tuple[Any, ...], shapes: Sequence[Shape]
) -> Iterator[tuple[Any, ...]]:
    if not shapes:
        yield args
    for shape in shapes:
        yield torch.randn(*shape), *args


class _Calls:
    """The calls of one check.

    ``value`` is the result of the last call. ``difference`` describes the first difference from the
    results of eager mode, if ``numerics`` is set.
    """

    def __init__(
        self, function: Callable[..., Any], inputs: Sequence[Call], *, train: bool, warmup: int
    ) -> None:
        self._function, self._inputs = function, inputs
        self._train, self._warmup = train, warmup
        self.numerics: Numerics | None = None
        self.value: Any = None
        self.difference = ""

    def run(self, compiled: Callable[..., Any], observer: Observer) -> None:
        """Call the compiled function with all inputs while an observer records."""
        module = module_of(self._function)
        if self._train and module is not None:
            module.zero_grad()
        with self.numerics.seed_random() if self.numerics is not None else contextlib.nullcontext():
            for number, (args, kwargs) in enumerate(self._inputs):
                self.value = observer.call(compiled, *args, **kwargs)
                if self._train:
                    run_backward(self.value)
                if number + 1 == self._warmup:
                    observer.end_warmup()
                self._compare(number, args, kwargs)

    def _compare(self, number: int, args: tuple[Any, ...], kwargs: Any) -> None:
        if self.numerics is None or self.difference:
            return
        results = self.numerics.results_of(self._function, self.value, args, kwargs)
        found = self.numerics.differences(number, results)
        if found:
            self.difference = difference_text(found, number, len(self._inputs))


def observed_test(test: Callable[..., Any], run: TestRun, expected: Expected) -> Callable[..., Any]:
    """Return a test function that runs ``test`` while an observer records. It fails if what it
    compiles does not satisfy ``expected``."""
    verdict = _Verdict(run, expected)
    if inspect.iscoroutinefunction(test):

        @functools.wraps(test)
        async def observe_async_call(*args: Any, **kwargs: Any) -> Any:
            __tracebackhide__ = True
            value, raised = None, None
            with Observer(run.path, is_async=True, warmup=expected.warmup) as observer:
                try:
                    value = await observer.await_call(test, *args, **kwargs)
                except Exception as error:
                    raised = error
            verdict.judge(observer.results(raised), raised)
            return value

        return observe_async_call

    @functools.wraps(test)
    def observe_call(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        value, raised = None, None
        with Observer(run.path, warmup=expected.warmup) as observer:
            try:
                value = observer.call(test, *args, **kwargs)
            except Exception as error:
                raised = error
        verdict.judge(observer.results(raised), raised)
        return value

    return observe_call


class _Verdict:
    """Decides whether one check of a test passes.

    ``number`` is the number of this check among the test's checks with a file of expectations,
    from 1.
    """

    def __init__(self, run: TestRun, expected: Expected, number: int = 1) -> None:
        self._run, self._expected = run, expected
        self._file = Path(run.path).parent / expected.expected
        name = f"{Path(run.path).name}::{run.node.partition('::')[2]}"
        self._section = name if number <= 1 else f"{name}#{number}"
        self._began = time.monotonic()

    def judge(
        self, observed: Observed, raised: Exception | None, difference: str = ""
    ) -> tuple[Place, ...]:
        """Return the observed findings; fail the test if some of them are not expected, or if the
        recorder may have missed some.

        ``raised`` is the exception that ended the test, if any. The exception propagates, unless it
        is a graph break under ``fullgraph=True``, which the findings describe better.
        ``difference`` describes results that differ from eager mode; empty without any.
        """
        __tracebackhide__ = True
        places = tuple(_places(observed))
        update = None
        if raised is not None and not is_graph_break(raised):
            failure = ""
        else:
            failure, update = self._failure(observed, places, difference)
        self._report(observed, failure or (str(raised) if raised else ""), update)
        if raised is not None and not failure:
            raise raised
        if failure:
            pytest.fail(failure, pytrace=False)
        return places

    def _failure(
        self, observed: Observed, places: tuple[Place, ...], difference: str
    ) -> tuple[str, ExpectationUpdate | None]:
        """Compare what was compiled with the limits and the expectation file of the check.

        Return the message with which the test fails, empty if it passes, and the entries to write
        to the expectation file, which is None unless an update was requested. ``difference``
        describes how results differ from eager mode, or is empty.
        """
        parts = [NOTHING_COMPILED] if is_nothing_compiled(observed.graphs, places) else []
        parts += [difference] if difference else []
        if observed.losses:
            loss = observed.losses[0]
            parts.append(f"fullgraph could not record everything that Dynamo did: {loss}")
        if not self._expected.expected:
            parts.append(excess_text(self._expected, places))
            return "\n\n".join(filter(None, parts)), None
        try:
            parts += self._compare_with_file(places)
        except InvalidExpectations as error:
            parts.append(str(error))
        update = None
        if self._run.update and not any(parts):
            counted = self._expected.limited_places(places)
            causes = tuple(dict.fromkeys(cause for place in counted for cause in place.causes))
            update = ExpectationUpdate(str(self._file), self._section, causes)
        return "\n\n".join(filter(None, parts)), update

    def _compare_with_file(self, places: tuple[Place, ...]) -> Iterator[str]:
        """Yield messages about differences between the findings and the file of expectations.

        Raises:
            InvalidExpectations: The file is not valid.
        """
        name = self._expected.expected
        try:
            expectations = read_sections(self._file).get(self._section, ())
        except FileNotFoundError:
            if not self._run.update:
                yield f"The file of expectations {name} does not exist; write it with `{UPDATE}`."
            return
        if self._run.update:
            return
        counted = self._expected.limited_places(places)
        causes = tuple(dict.fromkeys(cause for place in counted for cause in place.causes))
        compared = compare(expectations, causes)
        unexpected = set(compared.unexpected)
        yield excess_text(
            self._expected, [place for place in counted if unexpected & set(place.causes)]
        )
        yield missing_text(compared.missing, name)

    def _report(self, observed: Observed, failure: str, update: ExpectationUpdate | None) -> None:
        files = (FileOutcome(one.path, one.findings, one.reports) for one in observed.files)
        seconds = time.monotonic() - self._began
        self._run.report(
            Outcome(
                self._run.node,
                failure,
                observed.graphs,
                seconds,
                torch.__version__,
                tuple(files),
                update,
            )
        )


def _places(observed: Observed) -> Iterator[Place]:
    """Yield the findings of all files that a test's compiled code reached, as text."""
    for observed_file in observed.files:
        path = observed_file.path
        text = TextPositions(Path(path).read_text("utf-8"))
        file = FindingFile(os.path.relpath(path), path, text)
        for item in merge_findings(observed_file.findings, Settings()):
            finding = item.finding
            causes = dict.fromkeys(
                cause
                for line in observed.lines_of(path, finding)
                for cause in causes_of(finding, line.path, line.line)
            )
            in_library = observed.is_in_library(finding)
            yield Place(finding.code, in_library, finding_text(item, file), tuple(causes))
