"""Choose the sources of a target's example inputs (probes), in the order in which they are
tried."""

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
"""Maximum number of other targets to execute, per target, to see how they call it."""

_FULL_SIZE_SECONDS = 5.0
"""Maximum seconds to execute a caller with its default number of layers, to see whether it then
calls the target."""

_MOST_EXAMPLES = 3
"""Maximum number of the file's example programs executed per target."""


def plan_probes(
    target: Target,
    namespace: Namespace,
    others: Sequence[Target] = (),
    recording: Sequence[RecordedClass] = (),
    kinds: Sequence[ExampleKind] = ("main", "docstring"),
    callers: Sequence[str] = (),
) -> list[Probe]:
    """Return the probes (example inputs to trace with) of a target, from the best available source.

    The sources are, in order: probe comments, annotations and conventions of the file, recorded
    calls, a search for the inputs of a constructor call stated in a comment, calls by users of the
    target or by the file's examples, and a search for the whole call.

    ``others`` are the targets of the file, which may use this one. ``kinds`` are the kinds of
    examples that may be executed, ``callers`` paths of programs that may be executed as well.
    """
    if target.bare_context is not None:
        return _in_context(
            target, target.bare_context, namespace, others, recording, kinds, callers
        )
    return _probes_in_order(target, namespace, others, recording, kinds, callers)


def _in_context(
    target: Target,
    said: WrittenProbe,
    namespace: Namespace,
    others: Sequence[Target],
    recording: Sequence[RecordedClass],
    kinds: Sequence[ExampleKind],
    callers: Sequence[str],
) -> list[Probe]:
    """Return the probes (example inputs) of a target whose comment states only modes, ``under(…)``;
    each probe is in these modes."""
    context = said.notation.context or CallContext()
    written = [one for one in target.written if one is not said or one.notation.init is not None]
    found = _probes_in_order(
        replace(target, written=tuple(written)), namespace, others, recording, kinds, callers
    )
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
        return probes.put_in_context(self.probe.build(namespace), self.context)


def _probes_in_order(
    target: Target,
    namespace: Namespace,
    others: Sequence[Target],
    recording: Sequence[RecordedClass],
    kinds: Sequence[ExampleKind],
    callers: Sequence[str],
) -> list[Probe]:
    return (
        _own_probes(target, namespace, recording)
        or (
            searched.searched_probes(target, namespace, ())
            if target.constructed_by is not None
            else []
        )
        or _called_probes(target, namespace, others, recording, kinds, callers)
        or _stale_probes(target, recording)
        or _searched_probes(target, namespace, others)
    )


def _own_probes(
    target: Target, namespace: Namespace, recording: Sequence[RecordedClass]
) -> list[Probe]:
    found = recorded.find_recorded(target, recording)
    known = probes.plan_written_probes(target, namespace)
    if known and probes.are_from_attributes(known):
        known = searched.with_search_fallback(
            target, known, searched.searched_probes(target, namespace, ())
        )
    if known or found is None or recorded.is_stale(found, namespace):
        return known
    return recorded.recorded_probes(found)


def _called_probes(
    target: Target,
    namespace: Namespace,
    others: Sequence[Target],
    recording: Sequence[RecordedClass],
    kinds: Sequence[ExampleKind],
    callers: Sequence[str],
) -> list[Probe]:
    if target.definition not in namespace or target.get_module:
        return []
    users = [
        other
        for other in others
        if other.name in target.used_by and probes.is_confirmed(other, namespace)
    ]
    # A widely used target is called deep inside; its nearest user needs the shortest run.
    users.sort(key=lambda user: -len(user.used_by))
    own = [(user.name, one) for user in users for one in _own_probes(user, namespace, recording)]
    found = [Enclosing(name, probe) for name, probe in own[:_MOST_ENCLOSING]]
    for name, probe in own[:_MOST_ENCLOSING]:
        full = probes.in_full_size(probe)
        if full is not None:
            seconds = _FULL_SIZE_SECONDS
            found.append(Enclosing(name, full, seconds, seconds, if_uncalled=True))
    shown = [one for one in target.examples if one.kind in kinds][:_MOST_EXAMPLES]
    above = [] if found else _outermost_users(target, namespace, others)
    executed = programs.enclosing_programs(
        shown, target.definition, [(user.name, user.examples) for user in above]
    )
    if "test" in kinds:
        names = [user.definition for user in users]
        path = str(namespace.get("__file__", ""))
        executed += tested.enclosing_tests(target.definition, names, path)
    executed += programs.enclosing_files(callers)
    if not found and not executed:
        return []
    called = enclosing.enclosing_probes(target, [*found, *executed])
    return searched.with_search_fallback(
        target, called, searched.searched_probes(target, namespace, above)
    )


def _searched_probes(target: Target, namespace: Namespace, others: Sequence[Target]) -> list[Probe]:
    if target.written:
        return []
    return searched.searched_probes(target, namespace, _outermost_users(target, namespace, others))


def _outermost_users(
    target: Target, namespace: Namespace, others: Sequence[Target]
) -> list[Target]:
    """Return the confirmed targets that call ``target`` directly or indirectly and are not called
    by targets themselves.

    At most ``_MOST_ENCLOSING`` are returned.
    """
    users = [
        other
        for other in others
        if other.name in target.used_by
        and (not other.written or other.constructed_by is not None)
        and not set(other.used_by) - {other.name}
        and probes.is_confirmed(other, namespace)
    ]
    return users[:_MOST_ENCLOSING]


def _stale_probes(target: Target, recording: Sequence[RecordedClass]) -> list[Probe]:
    """Return a probe that reports outdated recorded calls of a target; empty if its recording is
    not outdated."""
    found = recorded.find_recorded(target, recording)
    if found is None:
        return []
    info = ProbeInfo("harvest", inputs="", source=f"recorded in {FILE}")
    return [Probe(info, _Stale(found.name))]


@dataclass(frozen=True)
class _Stale:
    name: str

    def __call__(self, namespace: Namespace) -> Call:
        raise NoProbe(
            f"{FILE} was recorded when the constructor or forward of {self.name} had other "
            "parameters; run `fullgraph record` again."
        )
