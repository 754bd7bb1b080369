"""For all tests: nothing goes into the cache of whoever runs them, and forks may use torch."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from fullgraph_engine import devices

# OpenMP's threads do not survive a fork, which then waits for them. Read once, by torch's import.
os.environ["OMP_NUM_THREADS"] = "1"

# No GPU: in forks, which the tests trace in, CUDA does not work once its driver was asked.
devices.hide_gpus()

# No engine outlives a test, but where that is what is tested.
os.environ["FULLGRAPH_ENGINE_KEEP"] = "0"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """One cache folder for the whole run, so that engines make the operator index once."""
    before = os.environ.get("XDG_CACHE_HOME")
    os.environ["XDG_CACHE_HOME"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["XDG_CACHE_HOME"]
    else:
        os.environ["XDG_CACHE_HOME"] = before
