"""Transfer calls of operators on fake tensors from a run (a forked process that traces) to the
process that forks later runs.

torch caches the results of operators on fake tensors. A first trace is slower than a second mainly
because it fills that cache. A run ends with its process, so its cache would be lost. Therefore a
run describes its operator calls as text: the operators by name, and the tensors by their shape,
dtype and other metadata. The parent process of later runs repeats the calls. It keeps a cache entry
only if the entry equals the run's entry. Neither objects of the user nor results are transferred.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import random
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..torch_internals import fake_cache
from ..torch_internals.fake_tensors import FakeTensor

_MAX_CALLS = 4000
"""Maximum number of operator calls recorded per run."""
_MAX_KEPT_ENTRIES = 8000
"""Maximum number of entries of the fake tensor cache that a process keeps; an entry takes about 2
KiB.
"""

_calls: list[tuple[Any, ...]] | None = None
"""Operator calls since :func:`begin_recording` that the fake tensor cache did not contain; None
while nothing is recorded."""


class _NotDescribable(Exception):
    """Raised for an argument that cannot be described as text."""


# -- in the process of a run ----------------------------------------------------------------------


def install_hook() -> None:
    """Install the hook that records operator calls on fake tensors.

    Call it once per process, before the process forks.
    """
    fake_cache.MAKE_CACHE_ENTRY.wrap(_wrap_make_entry)
    fake_cache.count_registrations()


def begin_recording() -> None:
    """Start to record operator calls on fake tensors that their cache does not contain."""
    global _calls
    _calls = []


def _wrap_make_entry(original: Callable[..., Any]) -> Callable[..., Any]:
    def _make_cache_entry(
        mode: Any, state: Any, key: Any, func: Any, args: Any, kwargs: Any, output: Any
    ) -> Any:
        entry = original(mode, state, key, func, args, kwargs, output)
        if _calls is not None and len(_calls) < _MAX_CALLS and fake_cache.is_shared(state):
            name = fake_cache.operator_name(func)
            if name:
                try:
                    described_args = [_describe_argument(value) for value in args]
                    described_kwargs = {
                        keyword: _describe_argument(value) for keyword, value in kwargs.items()
                    }
                except _NotDescribable:
                    return entry
                _calls.append((mode, name, described_args, described_kwargs, key, entry))
        return entry

    return _make_cache_entry


def pack_calls() -> str:
    """Stop recording and return the operator calls as text for :func:`repeat_calls`; empty without
    calls."""
    global _calls
    calls_made, _calls = _calls, None
    if not calls_made:
        return ""
    settings: list[Any] = []
    calls = []
    for mode, name, args, kwargs, key, entry in calls_made:
        mode_settings = fake_cache.shape_env_settings(mode)
        if mode_settings not in settings:
            settings.append(mode_settings)
        calls.append([settings.index(mode_settings), name, args, kwargs, _entry_digest(key, entry)])
    return json.dumps([settings, calls], separators=(",", ":"))


def _entry_digest(key: Any, entry: Any) -> str:
    return hashlib.blake2b(fake_cache.entry_text(key, entry).encode(), digest_size=12).hexdigest()


def _describe_argument(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_describe_argument(item) for item in value]
    if type(value) is tuple:
        return {"tuple": [_describe_argument(item) for item in value]}
    if type(value) is FakeTensor:
        return {"tensor": _describe_tensor(value)}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise _NotDescribable


def _describe_tensor(value: Any) -> list[Any]:
    if value.layout is not torch.strided or value.is_quantized or value.is_inference():
        raise _NotDescribable
    sizes, strides = list(value.shape), list(value.stride())
    offset, size = value.storage_offset(), value.untyped_storage().nbytes()
    if any(type(number) is not int for number in (*sizes, *strides, offset, size)):
        raise _NotDescribable
    dtype = str(value.dtype).removeprefix("torch.")
    return [dtype, sizes, strides, offset, size, str(value.device), value.requires_grad]


# -- in the process that forks later runs ---------------------------------------------------------


_rules_snapshot: fake_cache.FakeRulesSnapshot | None = None
"""State of torch's fake tensor rules under which the cache entries in :data:`_kept` were made."""
_repeated_digests: set[str] = set()
"""Digests of the operator calls that this process has tried to repeat, so that it skips them
later."""
_kept_keys: set[Any] = set()


def repeat_calls(packed: str) -> Iterator[None]:
    """Repeat recorded operator calls to fill the fake tensor cache, one call per step of the
    iterator.

    ``packed`` is a text from :func:`pack_calls`. A call that fails is skipped without an exception.
    """
    global _rules_snapshot
    # Modules imported since the last call may have changed a decomposition or fake kernel.
    drop_outdated_entries()
    try:
        settings, calls = json.loads(packed)
        run_digests = {str(call[-1]) for call in calls}
        steps = [call for call in calls if call[-1] not in _repeated_digests]
        modes = [fake_cache.make_mode(mode_settings) for mode_settings in settings]
    except Exception:  # user code may have forged the text
        return
    _repeated_digests.update(run_digests)
    rules = _rules_snapshot = _rules_snapshot or fake_cache.FakeRulesSnapshot()
    for number, name, args, kwargs, _ in steps:
        if len(_kept_keys) >= _MAX_KEPT_ENTRIES:
            return
        with contextlib.suppress(Exception):
            rules.add_operator(operator := fake_cache.find_operator(name))
            _repeat_call(modes[number], operator, args, kwargs, run_digests)
        yield


def _repeat_call(mode: Any, operator: Any, args: Any, kwargs: Any, run_digests: set[str]) -> None:
    cache = fake_cache.cache_entries()
    before = len(cache)
    torch_state, python_state = torch.get_rng_state(), random.getstate()
    always = torch.is_warn_always_enabled()
    shown_warnings: list[Any] | None = None
    try:
        with warnings.catch_warnings(record=True) as shown_warnings:
            warnings.simplefilter("always")
            # By default, torch emits each of its own warnings once per process.
            torch.set_warn_always(True)
            with mode:
                positional = [_make_argument(value) for value in args]
                keywords = {word: _make_argument(value) for word, value in kwargs.items()}
                with fake_cache.skip_autograd():
                    operator(*positional, **keywords)
    finally:
        torch.set_warn_always(always)
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        for key in list(cache)[before:]:  # new entries are at the end of the cache
            # Do not keep an entry whose call warned: a later run must emit the warning itself.
            if not shown_warnings and _entry_digest(key, cache[key]) in run_digests:
                _kept_keys.add(key)
            else:
                del cache[key]


def drop_outdated_entries() -> None:
    """Drop the cache entries for fake tensors that this process has kept, if they are outdated.

    They are outdated if a rule for fake tensors has changed since they were made.
    """
    if _rules_snapshot is not None and not _rules_snapshot.is_current():
        drop_all_entries()


def drop_all_entries() -> None:
    """Drop all entries of the fake tensor cache that this process has kept.

    Later calls of ``repeat_calls`` can then make them again.
    """
    global _rules_snapshot
    _rules_snapshot = None
    for key in _kept_keys:
        fake_cache.cache_entries().pop(key, None)
    _kept_keys.clear()
    _repeated_digests.clear()


def _make_argument(value: Any) -> Any:
    if type(value) is list:
        return [_make_argument(item) for item in value]
    if type(value) is not dict:
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_make_argument(item) for item in content)
    if kind == "torch":
        return getattr(torch, content)
    if kind == "device":
        return torch.device(content)
    dtype, sizes, strides, offset, size, device, grad = content
    element: torch.dtype = getattr(torch, dtype)
    storage = torch.empty(size // element.itemsize, dtype=element, device=device)
    return storage.as_strided(sizes, strides, offset).requires_grad_(grad)
