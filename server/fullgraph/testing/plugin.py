"""The entry points of the pytest plugin: the fixture ``fullgraph`` and the marker of the same name.

torch and fullgraph are imported when a test uses one of them, so that other tests start as fast as
without the plugin.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Generator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from fullgraph.testing.checks import Checker

_MARKER = (
    "fullgraph(breaks=0, recompiles=None, library_breaks=None): fail the test if what it compiles "
    "has more graph breaks or recompiles"
)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker, so that ``--strict-markers`` accepts it."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def fullgraph(request: pytest.FixtureRequest) -> Checker:
    """Check what ``torch.compile`` does: ``fullgraph.check(model, x, breaks=0)``."""
    from fullgraph.testing.checks import Checker

    return Checker(str(request.path))


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Observe a marked test while it runs, and fail it if it compiles other than expected."""
    marker = pyfuncitem.get_closest_marker("fullgraph")
    if marker is None:
        return (yield)
    from fullgraph.testing.checks import fail_unless_expected
    from fullgraph.testing.expectations import Expected
    from fullgraph_engine.programs.observation import Observer

    try:
        expected = Expected(*marker.args, **marker.kwargs)
    except TypeError:
        expected = None
    if expected is None:
        pytest.fail(f"Wrong arguments of the marker; it is {_MARKER}.", pytrace=False)
    test = pyfuncitem.obj
    is_async = inspect.iscoroutinefunction(test)
    observer = Observer(str(pyfuncitem.path), is_async=is_async)
    caller = observer.await_call if is_async else observer.call
    pyfuncitem.obj = functools.partial(caller, test)
    raised = None
    try:
        with observer:
            result = yield
    except Exception as error:
        result, raised = None, error
    finally:
        pyfuncitem.obj = test
    fail_unless_expected(observer.results(raised), expected, raised)
    return result
