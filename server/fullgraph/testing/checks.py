"""Observe what a test compiles, and fail the test if it is not as expected."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.render.terminal import FindingFile, finding_text
from fullgraph.session.findings import merge_findings
from fullgraph.session.settings import Settings
from fullgraph.testing.expectations import Expected, Place, failure_text
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


class Checker:
    """The ``fullgraph`` fixture: checks what ``torch.compile`` does to functions and modules of a
    test. ``path`` is the file of the test."""

    def __init__(self, path: str) -> None:
        self._path = path

    def check(
        self,
        function: Callable[..., Any],
        *args: Any,
        breaks: int | None = 0,
        recompiles: int | None = None,
        library_breaks: int | None = None,
        shapes: Sequence[Shape] = (),
        dynamic: bool | None = None,
        backend: str | Callable[..., Any] = "eager",
        **kwargs: Any,
    ) -> Checked:
        """Compile a function or module, call it, and fail the test if it has more findings than
        allowed.

        ``args`` and ``kwargs`` are the arguments of the call. With ``shapes``, it is called once
        for each, with a random tensor of that shape as the first argument. ``breaks``,
        ``recompiles`` and ``library_breaks`` are maximum numbers as in
        :class:`fullgraph.testing.expectations.Expected`. ``dynamic`` and ``backend`` are arguments
        of ``torch.compile``; they are not used for the result of a ``torch.compile`` call. An
        exception of the call propagates, unless it is a graph break under ``fullgraph=True``.
        """
        import torch

        inputs = [(torch.randn(*shape), *args) for shape in shapes] or [args]

        __tracebackhide__ = True
        value, raised = None, None
        with Observer(self._path) as observer:
            compiled = function
            if not is_compiled(function):
                compiled = torch.compile(function, dynamic=dynamic, backend=backend)
            try:
                for one in inputs:
                    value = observer.call(compiled, *one, **kwargs)
            except Exception as error:
                raised = error
        observed, expected = observer.results(raised), Expected(breaks, recompiles, library_breaks)
        return Checked(value, observed.graphs, fail_unless_expected(observed, expected, raised))


def fail_unless_expected(
    observed: Observed, expected: Expected, raised: Exception | None
) -> tuple[Place, ...]:
    """Return the observed findings; fail the test if there are more than expected, or if the
    recorder may have missed some.

    ``raised`` is the exception that ended the test, if any. The exception propagates, unless it is
    a graph break under ``fullgraph=True``, which the findings describe better.
    """
    __tracebackhide__ = True
    places = tuple(_places(observed))
    if raised is not None and not is_graph_break(raised):
        raise raised
    failure = failure_text(expected, observed.graphs, places)
    if raised is not None and not failure:
        raise raised
    if not failure and observed.losses:
        failure = f"fullgraph could not record everything that Dynamo did: {observed.losses[0]}"
    if failure:
        pytest.fail(failure, pytrace=False)
    return places


def _places(observed: Observed) -> Iterator[Place]:
    """Yield the findings of all files that a test's compiled code reached, as text."""
    for path, findings in observed.findings.items():
        text = TextPositions(Path(path).read_text("utf-8"))
        file = FindingFile(os.path.relpath(path), path, text)
        for item in merge_findings(findings, Settings()):
            finding = item.finding
            in_library = observed.is_in_library(finding)
            yield Place(finding.code, in_library, finding_text(item, file))
