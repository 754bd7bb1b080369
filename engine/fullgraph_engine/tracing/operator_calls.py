"""Calls of operators on fake tensors, from one process to another that is to know their results.

torch keeps what operators give for fake tensors: the same call is worked out once in a process, and
that is most of what a first trace takes longer than the next. A run is a process that ends, so what
it has worked out would be lost. It writes its calls down: names of operators, and of tensors only
what a fake one has. Another process that later runs are forked off makes the same calls; of what
torch keeps there, all goes again that is not the same as in the run. No object of the user's, and
no result, travels.
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

_MOST_CALLS = 4000
"""Of one run."""
_MOST_KEPT = 8000
"""Entries of one process; one takes two KiB."""

_calls: list[tuple[Any, ...]] | None = None
"""What was worked out since :func:`begin`, where that was called."""


class _NotPlain(Exception):
    """Something among the arguments that no description is made of."""


# -- in a run ------------------------------------------------------------------------------------


def install() -> None:
    """Call it once per process, before others are forked off it."""
    fake_cache.MAKE_CACHE_ENTRY.wrap(_around_entry)
    fake_cache.count_registrations()


def begin() -> None:
    """From here on take note of calls."""
    global _calls
    _calls = []


def _around_entry(original: Callable[..., Any]) -> Callable[..., Any]:
    def _make_cache_entry(
        mode: Any, state: Any, key: Any, func: Any, args: Any, kwargs: Any, output: Any
    ) -> Any:
        entry = original(mode, state, key, func, args, kwargs, output)
        if _calls is not None and len(_calls) < _MOST_CALLS and fake_cache.is_shared(state):
            name = fake_cache.operator_name(func)
            if name:
                try:
                    plain = [_described(one) for one in args]
                    named = {word: _described(one) for word, one in kwargs.items()}
                except _NotPlain:
                    return entry
                _calls.append((mode, name, plain, named, key, entry))
        return entry

    return _make_cache_entry


def packed() -> str:
    """The calls that were noted, as :func:`repeat` takes them; empty if there are none."""
    global _calls
    made, _calls = _calls, None
    if not made:
        return ""
    settings: list[Any] = []
    calls = []
    for mode, name, args, kwargs, key, entry in made:
        own = fake_cache.shape_env_settings(mode)
        if own not in settings:
            settings.append(own)
        calls.append([settings.index(own), name, args, kwargs, _digest(key, entry)])
    return json.dumps([settings, calls], separators=(",", ":"))


def _digest(key: Any, entry: Any) -> str:
    return hashlib.blake2b(fake_cache.entry_text(key, entry).encode(), digest_size=12).hexdigest()


def _described(value: Any) -> Any:
    if value is None or type(value) in (bool, int, float, str):
        return value
    if type(value) is list:
        return [_described(one) for one in value]
    if type(value) is tuple:
        return {"tuple": [_described(one) for one in value]}
    if type(value) is FakeTensor:
        return {"tensor": _tensor(value)}
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return {"torch": str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    raise _NotPlain


def _tensor(value: Any) -> list[Any]:
    if value.layout is not torch.strided or value.is_quantized or value.is_inference():
        raise _NotPlain
    sizes, strides = list(value.shape), list(value.stride())
    offset, size = value.storage_offset(), value.untyped_storage().nbytes()
    if any(type(one) is not int for one in (*sizes, *strides, offset, size)):
        raise _NotPlain
    dtype = str(value.dtype).removeprefix("torch.")
    return [dtype, sizes, strides, offset, size, str(value.device), value.requires_grad]


# -- in the process that later runs are forked off -----------------------------------------------


_rules: fake_cache.FakeRulesSnapshot | None = None
"""Those by which the entries of :data:`_kept` were made."""
_known: set[str] = set()
"""Digests of calls that were made, whatever came of them."""
_kept: set[Any] = set()


def repeat(packed: str) -> Iterator[None]:
    """Make calls again, one each step; nothing is raised for what cannot be made."""
    global _rules
    check()  # what is imported since then may have changed something
    try:
        settings, calls = json.loads(packed)
        wanted = {str(call[-1]) for call in calls}
        steps = [call for call in calls if call[-1] not in _known]
        modes = [fake_cache.make_mode(one) for one in settings]
    except Exception:  # user code may have written it
        return
    _known.update(wanted)
    rules = _rules = _rules or fake_cache.FakeRulesSnapshot()
    for number, name, args, kwargs, _ in steps:
        if len(_kept) >= _MOST_KEPT:
            return
        with contextlib.suppress(Exception):
            rules.add_operator(operator := fake_cache.find_operator(name))
            _repeat(modes[number], operator, args, kwargs, wanted)
        yield


def _repeat(mode: Any, operator: Any, args: Any, kwargs: Any, wanted: set[str]) -> None:
    kept = fake_cache.cache_entries()
    before = len(kept)
    numbers, others = torch.get_rng_state(), random.getstate()
    always = torch.is_warn_always_enabled()
    said: list[Any] | None = None
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            torch.set_warn_always(True)  # else a warning of torch itself comes once in a process
            with mode:
                made = [_made(one) for one in args]
                named = {word: _made(one) for word, one in kwargs.items()}
                with fake_cache.skip_autograd():
                    operator(*made, **named)
    finally:
        torch.set_warn_always(always)
        torch.set_rng_state(numbers)
        random.setstate(others)
        for key in list(kept)[before:]:  # new ones are last
            # A run whose code leads to a warning is to give it.
            if not said and _digest(key, kept[key]) in wanted:
                _kept.add(key)
            else:
                del kept[key]


def check() -> None:
    """Forget what was kept if operators may give something else by now."""
    if _rules is not None and not _rules.is_current():
        forget()


def forget() -> None:
    """Forget what was kept, and that the calls were made."""
    global _rules
    _rules = None
    for key in _kept:
        fake_cache.cache_entries().pop(key, None)
    _kept.clear()
    _known.clear()


def _made(value: Any) -> Any:
    if type(value) is list:
        return [_made(one) for one in value]
    if type(value) is not dict:
        return value
    ((kind, said),) = value.items()
    if kind == "tuple":
        return tuple(_made(one) for one in said)
    if kind == "torch":
        return getattr(torch, said)
    if kind == "device":
        return torch.device(said)
    dtype, sizes, strides, offset, size, device, grad = said
    element: torch.dtype = getattr(torch, dtype)
    whole = torch.empty(size // element.itemsize, dtype=element, device=device)
    return whole.as_strided(sizes, strides, offset).requires_grad_(grad)
