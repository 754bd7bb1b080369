"""Which probes a target has: those that the file gives it, else what its users call it with."""

from __future__ import annotations

from collections.abc import Sequence

from . import enclosing, probes
from .discovery import Target
from .enclosing import Enclosing
from .probes import Namespace, Probe

_MOST_ENCLOSING = 4
"""So many ways to call the users of one target are tried."""


def plan(target: Target, namespace: Namespace, others: Sequence[Target] = ()) -> list[Probe]:
    """The probes of a target. ``others`` are the targets of the file, which may use it."""
    return probes.plan(target, namespace) or _enclosed(target, namespace, others)


def _enclosed(target: Target, namespace: Namespace, others: Sequence[Target]) -> list[Probe]:
    if target.definition not in namespace or target.get_module:
        return []
    users = [
        other
        for other in others
        if other.name in target.used_by and probes.confirm(other, namespace)
    ]
    # What many others use is itself far inside: the nearest user has the least to run.
    users.sort(key=lambda user: -len(user.used_by))
    found = [
        Enclosing(user.name, probe) for user in users for probe in probes.plan(user, namespace)
    ]
    return enclosing.probes(target, found[:_MOST_ENCLOSING])
