"""What the results of a request follow from, beside the files that its code reads."""

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
    """An interpreter with its packages, what its code may do, and the fullgraph that runs it.

    ``digest`` differs wherever the results of any text might.
    """

    digest: str


def engine_basis(
    interpreter: Path, allowed: Allowed, processes: str, env: Mapping[str, str] | None = None
) -> EngineBasis:
    """That of an engine as it would be started now."""
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
    """Differs wherever the request asks for something else, its text aside."""
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
        # Results that follow from one are not kept.
        open_files=(),
    )
    return _hash_parts((engine.digest, to_plain(asked)))


def _hash_parts(parts: Iterable[object]) -> str:
    words = json.dumps(list(parts), sort_keys=True, default=str)
    return hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()


@functools.cache
def _engine_files(engine: Path) -> tuple[tuple[str, int, int], ...]:
    """The engine's own files: an upgrade, or an edit of them, makes what was found uncertain."""
    return tuple(file_states([engine]))
