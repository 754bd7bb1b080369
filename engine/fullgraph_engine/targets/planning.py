"""Which probes a target has, and in which order they are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..protocol import ExampleKind, ProbeInfo
from ..protocol.recorded import FILE, RecordedClass
from . import enclosing, probes, programs, recorded, searched, tested
from .context import CallContext
from .discovery import Target, WrittenProbe
from .probes import Call, Enclosing, Namespace, NoProbe, Probe

_MOST_ENCLOSING = 4
"""So many ways to call the users of one target are tried."""

_MOST_EXAMPLES = 3
"""So many of the file's examples are executed for one target."""


def plan(
    target: Target,
    namespace: Namespace,
    others: Sequence[Target] = (),
    recording: Sequence[RecordedClass] = (),
    kinds: Sequence[ExampleKind] = ("main", "docstring"),
) -> list[Probe]:
    """The probes of a target: those that the file gives it, else what is recorded of it, else what
    a search finds for a constructor that a comment calls, else what its users or the file's
    examples call it with, else what a search finds.

    ``others`` are the targets of the file, which may use it. ``kinds`` are those of the examples
    that may be executed.
    """
    if target.bare_context is not None:
        return _in_context(target, target.bare_context, namespace, others, recording, kinds)
    return _planned(target, namespace, others, recording, kinds)


def _in_context(
    target: Target,
    said: WrittenProbe,
    namespace: Namespace,
    others: Sequence[Target],
    recording: Sequence[RecordedClass],
    kinds: Sequence[ExampleKind],
) -> list[Probe]:
    """The probes that a target has without its ``under(…)``, each in that context."""
    context = said.notation.context or CallContext()
    written = [one for one in target.written if one is not said or one.notation.init is not None]
    found = _planned(replace(target, written=tuple(written)), namespace, others, recording, kinds)
    return [
        replace(
            probe,
            info=replace(probe.info, context=context.words),
            written=said,
            _build=_Under(probe, context),
        )
        for probe in found
    ]


@dataclass(frozen=True)
class _Under:
    probe: Probe
    context: CallContext

    def __call__(self, namespace: Namespace) -> Call:
        return probes.under(self.probe.build(namespace), self.context)


def _planned(
    target: Target,
    namespace: Namespace,
    others: Sequence[Target],
    recording: Sequence[RecordedClass],
    kinds: Sequence[ExampleKind],
) -> list[Probe]:
    return (
        _own(target, namespace, recording)
        or (searched.probes(target, namespace, ()) if target.constructed_by is not None else [])
        or _called(target, namespace, others, recording, kinds)
        or _stale(target, recording)
        or _searched(target, namespace, others)
    )


def _own(target: Target, namespace: Namespace, recording: Sequence[RecordedClass]) -> list[Probe]:
    found = recorded.find(target, recording)
    known = probes.plan(target, namespace)
    if known and probes.are_from_attributes(known):
        known = searched.otherwise(target, known, searched.probes(target, namespace, ()))
    if known or found is None or recorded.is_stale(found, namespace):
        return known
    return recorded.probes(found)


def _called(
    target: Target,
    namespace: Namespace,
    others: Sequence[Target],
    recording: Sequence[RecordedClass],
    kinds: Sequence[ExampleKind],
) -> list[Probe]:
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
        Enclosing(user.name, probe) for user in users for probe in _own(user, namespace, recording)
    ]
    shown = [one for one in target.examples if one.kind in kinds][:_MOST_EXAMPLES]
    above = [] if found else _outermost(target, namespace, others)
    executed = programs.enclosing(
        shown, target.definition, [(user.name, user.examples) for user in above]
    )
    if "test" in kinds:
        names = [user.definition for user in users]
        path = str(namespace.get("__file__", ""))
        executed += tested.enclosing(target.definition, names, path)
    if not found and not executed:
        return []
    called = enclosing.probes(target, [*found[:_MOST_ENCLOSING], *executed])
    return searched.otherwise(target, called, searched.probes(target, namespace, above))


def _searched(target: Target, namespace: Namespace, others: Sequence[Target]) -> list[Probe]:
    if target.written:
        return []
    return searched.probes(target, namespace, _outermost(target, namespace, others))


def _outermost(target: Target, namespace: Namespace, others: Sequence[Target]) -> list[Target]:
    """Its users but for those that are used themselves: what uses them all shows what happens."""
    users = [
        other
        for other in others
        if other.name in target.used_by
        and (not other.written or other.constructed_by is not None)
        and not set(other.used_by) - {other.name}
        and probes.confirm(other, namespace)
    ]
    return users[:_MOST_ENCLOSING]


def _stale(target: Target, recording: Sequence[RecordedClass]) -> list[Probe]:
    """What is recorded is of no use, which is worth saying where nothing else is known."""
    found = recorded.find(target, recording)
    if found is None:
        return []
    info = ProbeInfo("harvest", inputs="", source=f"recorded in {FILE}")
    return [Probe(info, _Stale(found.name))]


@dataclass(frozen=True)
class _Stale:
    name: str

    def __call__(self, namespace: Namespace) -> Call:
        raise NoProbe(
            f"What {FILE} has of {self.name} was recorded with other parameters of its constructor "
            "or forward; run `fullgraph record` again."
        )
