"""Example inputs found by trial calls, for module classes whose inputs are unknown.

The search runs once, in the process that traces the class. Its report includes the inputs as the
text of a probe comment, and later runs receive this text. An edit therefore costs one trial call
while the text still works.
"""

from __future__ import annotations

import contextlib
import hashlib
import linecache
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .. import placeholder
from ..protocol import FoundProbe, ProbeInfo
from . import enclosing, notation, notation_parser, source, tensors
from .discovery import Target
from .enclosing import NotCalled
from .notation import NotationError
from .probes import Call, Enclosing, Namespace, NoProbe, Probe, call_of

if TYPE_CHECKING:
    from .synthesis import InputSearch

SECONDS, TENTATIVE = 6.0, 1.0
"""Maximum processor seconds of a search for inputs: by default, and for a tentative text (an edit
that the engine only tries out)."""

seconds: float | None = None
"""Maximum processor seconds of a search for inputs that the request states; None for the
default."""

known: dict[str, str] = {}
"""Inputs that earlier searches found, as texts of probe comments, by the name of the target."""

shortened: dict[str, str] = {}
"""Descriptions of the found sizes over which the code loops, and which are therefore small, by the
name of the target."""

settled: set[str] = set()
"""Names of targets that were traced with their inputs in ``known``; no other source of inputs is
tried for them."""

unfound: dict[str, FoundProbe] = {}
"""Results of searches that found no inputs, by the name of the target."""


tentative = False
"""True if the text is tentative (an edit that the engine only tries out), so that searches must be
short."""


def remember_found(found: Iterable[FoundProbe]) -> None:
    """Store the results of searches for example inputs that other processes made."""
    for one in found:
        if one.comment:
            known[one.target], shortened[one.target] = one.comment, one.shortened
        else:
            unfound[one.target] = one
        if one.comment and one.settled:
            settled.add(one.target)


def can_be_searched(target: Target, namespace: Namespace) -> bool:
    """Whether the inputs of a target can be searched for: it must be a module class without
    ``get_module()``."""
    import torch

    found = namespace.get(target.subject)
    return (
        target.kind == "module"
        and not target.get_module
        and isinstance(found, type)
        and callable(getattr(found, target.method, None))
        and issubclass(found, torch.nn.Module)
    )


def searched_probes(target: Target, namespace: Namespace, users: Sequence[Target]) -> list[Probe]:
    """Return the probe (example inputs) of a target whose inputs must be searched for.

    If targets that call it (``users``) have unknown inputs too, their inputs are searched for, and
    their call of the target is observed. Otherwise its own inputs are searched for.
    """
    if not can_be_searched(target, namespace):
        return []
    above = tuple(
        Enclosing(user.name, _searched_probe(user))
        for user in users
        if can_be_searched(user, namespace)
    )
    if not above:
        return [_searched_probe(target)]
    names = tuple(one.name for one in above)
    either = _Either(target, above)
    return [Probe(_INFO, either, after=names, users=names, _enclosing=either.known_users)]


_INFO = ProbeInfo("synthesis", inputs="")
_CERTAIN = "fullgraph guessed the inputs `{}`. Other guessed sizes lead to the same error."


def _searched_probe(target: Target) -> Probe:
    said = target.constructed_by
    if said is None:
        return Probe(_INFO, _Searched(target))
    info = replace(_INFO, source=f"line {said.line + 1}")
    return Probe(info, _Searched(target, said.notation.init), written=said)


@dataclass(frozen=True)
class _Searched:
    """A builder of a target's call, whose inputs it searches for by trial calls.

    ``init`` is the constructor call that a comment states, if any.
    """

    target: Target
    init: notation.Arguments | None = None

    def __call__(self, namespace: Namespace) -> Call:
        from .synthesis import CertainError, InputSearch, NotFound

        name = self.target.name
        if self.init is not None:  # exceptions of this call are reported at the comment
            sizes = notation.choose_sizes(self.init, notation.Arguments())
            tensors.build_inputs(self.init, sizes, namespace)
        subject, method = namespace[self.target.subject], self.target.method
        search = InputSearch(subject, namespace, self.init, method)
        failed = unfound.get(name)
        if (
            failed is not None
            and failed.rests_on
            and failed.rests_on == self._search_digest(search)
        ):
            raise NoProbe(failed.obstacle)
        before = None
        with contextlib.suppress(NotationError):
            before = notation_parser.parse_probe(known[name]) if name in known else None
        # The search constructs modules whose parameters lack values. With real tensors, do not
        # record calls of such modules.
        real = tensors.fake_mode() is None
        with enclosing.ignore_calls() if real else contextlib.nullcontext():
            found = search.run(_search_seconds(), before)
        if isinstance(found, NotFound):
            words = f"No inputs were found with which {name} runs; the last try: {found.obstacle}."
            if not placeholder.find_raised_error(
                words
            ):  # otherwise another version of the text may define the missing name
                unfound[name] = FoundProbe(
                    name, obstacle=words, rests_on=self._search_digest(search)
                )
            raise NoProbe(words)
        unfound.pop(name, None)
        comment = notation.show_notation(found.notation)
        if isinstance(found, CertainError):
            # Run the call anyway, so that the error is reported at its line.
            call = call_of(self.target, found.notation, namespace)
            call.source, call.guess_note = "synthesis", _CERTAIN.format(comment)
            return call
        if found.shortened or known.get(name) != comment:
            shortened[name] = found.shortened
        known[name] = comment
        call = call_of(self.target, found.notation, namespace)
        call.source, call.comment, call.unusual = "synthesis", comment, found.unusual
        call.shortened = shortened.get(name, "")
        return call

    def _search_digest(self, search: InputSearch) -> str:
        """Return a digest of the code that affects the result of the search.

        A search is skipped if one with the same digest has failed. Empty if the file does not
        parse.
        """
        path = str(search.guesses.namespace.get("__file__", ""))
        try:
            own = source.read_definitions("".join(linecache.getlines(path))).rests_on(
                self.target.subject
            )
        except (SyntaxError, ValueError):
            return ""
        others = hashlib.sha256(repr(search.constructed_arguments).encode())
        for imported in _imported_files():
            if imported != path:
                others.update("".join(linecache.getlines(imported)).encode(errors="replace"))
        given = "" if self.init is None else f" {notation.show_arguments(self.init)}"
        # A longer search may find inputs where a shorter one found none.
        return f"{own} {others.hexdigest()} {_search_seconds():g}{given}"


def _search_seconds() -> float:
    longest = SECONDS if seconds is None else seconds
    return min(TENTATIVE, longest) if tentative else longest


def _imported_files() -> Iterator[str]:
    """Yield the paths of imported modules outside of installed packages, in order."""
    from ..tracing import stacks

    files = set[str]()
    for module in list(sys.modules.values()):
        try:
            # Not getattr: lazy modules would import more.
            file = object.__getattribute__(module, "__dict__").get("__file__")
        except AttributeError:
            continue
        if isinstance(file, str):
            files.add(file)
    yield from sorted(
        one for one in files if not (stacks.is_library(one) or stacks.is_machinery(one))
    )


def find_replacement(
    target: Target, said: notation.Notation, namespace: Namespace, built: bool
) -> str:
    """Return inputs that work for a target and resemble ``said``, the inputs of its comment; empty
    if none are found.

    The target raises with the inputs of the comment. The result is the text of a probe comment.
    Runs user code. ``built``: the constructor succeeded.
    """
    if said.method not in ("", target.method) or not can_be_searched(target, namespace):
        return ""
    from .synthesis import FoundInputs, InputSearch

    said = notation.with_numbers(said)
    for init in (said.init or notation.Arguments(), None)[: 1 if built else 2]:
        with enclosing.ignore_calls():
            search = InputSearch(namespace[target.subject], namespace, init, target.method)
            found = search.run(TENTATIVE, said)
        if isinstance(found, FoundInputs):
            return notation.show_notation(replace(found.notation, method=said.method))
    return ""


def with_search_fallback(
    target: Target, first: Sequence[Probe], search: Sequence[Probe]
) -> list[Probe]:
    """Return the probes ``first`` (inputs from observed calls) with a fallback for the first of
    them.

    If no call can be observed, the first probe searches for inputs. ``search`` are the probes that
    search for inputs; if empty, ``first`` is returned unchanged.
    """
    if not first or not search:
        return list(first)
    both = _Otherwise(target.name, first[0], search[0])
    return [replace(first[0], _build=both, after=search[0].after), *first[1:]]


@dataclass(frozen=True)
class _Otherwise:
    name: str
    first: Probe
    search: Probe

    def __call__(self, namespace: Namespace) -> Call:
        if self.name in settled:
            return _build_uncalled(self.search, namespace)
        try:
            return self._search_last(self.first.build(namespace), namespace)
        except NotCalled as error:
            mode = tensors.fake_mode()
            real_follows = mode is not None and getattr(mode, "real_follows", True)
            if real_follows and error.may_use_real:
                raise  # a repetition with real tensors may execute more of the code
            before = error
        return _build_uncalled(self.search, namespace, f"{before} ")

    def _search_last(self, call: Call, namespace: Namespace) -> Call:
        """Set a search as the last alternative, for the case that the call raises."""
        if call.is_doubtful:
            build = call.otherwise
            if build is None:
                call.otherwise = lambda: _build_uncalled(self.search, namespace)
            else:
                call.otherwise = lambda: self._search_last(build(), namespace)
        return call


def _build_uncalled(search: Probe, namespace: Namespace, before: str = "") -> Call:
    """Return a call with inputs from a search, for a target that its callers did not call.

    ``before`` is a sentence that explains why they did not, for the note to the user.
    """
    try:
        call = search.build(namespace)
    except NoProbe as error:
        unfound_too = NoProbe(f"{before}{error}")
        unfound_too.uncalled = True
        raise unfound_too from None
    call.uncalled = True
    return call


@dataclass(frozen=True)
class _Either:
    """A builder of a target's call that observes a call by the target's users; if there is none, it
    searches for inputs."""

    target: Target
    above: tuple[Enclosing, ...]

    def known_users(self) -> tuple[Enclosing, ...]:
        """Return the callers of the target for which a search found inputs, so that they can be
        executed."""
        return tuple(one for one in self.above if known.get(one.name))

    def __call__(self, namespace: Namespace) -> Call:
        found = self.known_users()
        if found:
            try:
                return enclosing.enclosing_probes(self.target, found)[0].build(namespace)
            except NotCalled:
                pass
        return _build_uncalled(_searched_probe(self.target), namespace)
