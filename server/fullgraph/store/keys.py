"""Keys of stored results: hashes of the inputs of a trace.

Not included are the text and the files that the trace reads; their states are stored with the
results.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

from fullgraph import __version__
from fullgraph.engines import boot_script, packages_state, stable_variables
from fullgraph.engines.installation import file_states
from fullgraph_engine.protocol import Allowed, Analyze, SharedImports, to_plain


def request_key(
    interpreter: Path,
    allowed: Allowed,
    processes: str,
    request: Analyze,
    env: Mapping[str, str] | None = None,
) -> str:
    """Return the key under which the results of a trace request are stored: a hash of all its
    inputs except the text.

    ``interpreter``, the permissions ``allowed`` and ``processes`` (how processes are started) are
    the parameters of the engine. ``env`` replaces the environment variables.
    """
    asked = dataclasses.replace(
        request,
        request=0,
        generation="",
        text="",
        focus=0,
        jobs=0,
        keep=True,
        shared_imports=SharedImports(),
        files=False,
        nice=0,
        calls=False,
        # The limit is stored with the results, so that a run with more time reuses the others.
        limits=dataclasses.replace(request.limits, file_seconds=0.0, stretch=1.0),
        # The texts of open files are left out, because results that depend on them are not stored.
        open_files=(),
    )
    parts = (
        __version__,
        _engine_files(boot_script().parent),
        str(interpreter),
        packages_state(interpreter),
        to_plain(allowed),
        processes,
        stable_variables(os.environ if env is None else env),
        to_plain(asked),
    )
    words = json.dumps(parts, sort_keys=True, default=str)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:40]


@functools.cache
def _engine_files(engine: Path) -> tuple[tuple[str, int, int], ...]:
    """Return path and state (modification time and size) of each file of the engine, because a
    changed engine may give other results.
    """
    return tuple(file_states([engine]))
