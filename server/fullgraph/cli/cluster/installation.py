"""Check that Dask is installed in the environment of the command."""

from __future__ import annotations

import importlib.metadata

INSTALL = "pip install 'fullgraph[distributed]'"
"""Command that installs the packages for ``--scheduler``."""
OLDEST = (2025, 1)
"""Oldest version of the package distributed that works."""


def dask_problem() -> str:
    """Return a sentence that says why Dask cannot be used here, and how to install it; empty if it
    can be used.
    """
    try:
        import distributed  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name == "distributed":
            return f"--scheduler needs the package distributed; install it with `{INSTALL}`."
        return _broken(error)
    except Exception as error:
        return _broken(error)
    version = importlib.metadata.version("distributed")
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        return (
            f"--scheduler needs distributed {OLDEST[0]}.{OLDEST[1]} or newer, and {version} is "
            f"installed; install another with `{INSTALL}`."
        )
    return ""


def _broken(error: Exception) -> str:
    return f"Dask cannot be imported ({error}); install compatible versions with `{INSTALL}`."
