"""Inputs that stored results depend on, in addition to the traced text and the files that its code
reads.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from fullgraph import __version__
from fullgraph.engines import boot_script, packages_state, stable_variables
from fullgraph.engines.installation import file_states
from fullgraph_engine.protocol import Allowed, Analyze, to_plain


@dataclass(frozen=True)
class EngineBasis:
    """The identity of an engine: interpreter, packages, permissions and version of fullgraph.

    ``digest`` changes whenever results might change.
    """

    digest: str


def engine_basis(
    interpreter: Path, allowed: Allowed, processes: str, env: Mapping[str, str] | None = None
) -> EngineBasis:
    """Return the identity of an engine that would be started now with these parameters."""
    env = os.environ if env is None else env
    parts = (
        __version__,
        _engine_files(boot_script().parent),
        str(interpreter),
        packages_state(interpreter),
        to_plain(allowed),
        processes,
        stable_variables(env),
    )
    return EngineBasis(_hash_parts(parts))


def request_digest(engine: EngineBasis, request: Analyze) -> str:
    """Return a hash of the request without its text; it changes whenever results might change."""
    asked = dataclasses.replace(
        request,
        request=0,
        generation="",
        text="",
        focus=0,
        jobs=0,
        files=False,
        nice=0,
        calls=False,
        # The texts of open files are left out, because results that depend on them are not stored.
        open_files=(),
    )
    return _hash_parts((engine.digest, to_plain(asked)))


def _hash_parts(parts: Iterable[object]) -> str:
    words = json.dumps(list(parts), sort_keys=True, default=str)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _engine_files(engine: Path) -> tuple[tuple[str, int, int], ...]:
    """Return path and state (modification time and size) of each file of the engine, because a
    changed engine may give other results.
    """
    return tuple(file_states([engine]))
