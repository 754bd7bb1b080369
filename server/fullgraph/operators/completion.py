"""What may be typed at the cursor: members of torch, operators, arguments and their values.

A list holds the most used first, and at most ``MOST`` of what fits to what is typed already.
"""

from __future__ import annotations

import dataclasses
import re
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fullgraph_engine.protocol.operators import Entry, EntryKind, Parameter

from .call import ActiveCall, Argument, call_at
from .dotted import Dotted, dotted_at
from .imports import Imports
from .index import OperatorIndex
from .lookup import look_up
from .narrowing import Kind, left, narrow
from .seen import NOTHING_SEEN, Seen
from .signature_text import label, parameter_text
from .signatures import call_around, forms, of_overload
from .subject import Subject

MOST = 200
"""Items of one list; what does not fit comes when more is typed."""

CandidateKind = EntryKind | Literal["namespace", "overload", "keyword", "string"]

OPERATORS = "torch.ops"
_TENSOR = "torch.Tensor"

# The types whose values are constants of torch, with the kind that these have.
_CONSTANTS: dict[str, EntryKind] = {
    "torch.dtype": "dtype",
    "torch.layout": "layout",
    "torch.memory_format": "memory_format",
}


@dataclass(frozen=True)
class CompletionCandidate:
    """``label`` is also what is inserted. ``filter`` is what is held against what was typed, where
    that is something else. ``path`` leads to its page."""

    label: str
    kind: CandidateKind
    path: str = ""
    note: str = ""
    """A few words on the right: a type, a number."""
    filter: str = ""
    deprecated: bool = False


@dataclass(frozen=True)
class Completions:
    """The best first. ``start`` and ``end`` are what is replaced; not ``complete``: there is more
    than is listed."""

    items: tuple[CompletionCandidate, ...]
    start: int
    end: int
    complete: bool


def complete(
    text: str,
    offset: int,
    index: OperatorIndex,
    seen: Seen = NOTHING_SEEN,
    *,
    full: bool = False,
) -> Completions | None:
    """What may be typed at an offset; None where nothing is known.

    Not ``full``: only what a language server without an index cannot know.
    """
    dotted = dotted_at(text, offset, index, seen)
    if dotted is None:
        return _inside_string(text, offset, index, seen)
    behind_dot = text[: dotted.start].rstrip().endswith(".")
    call = None if dotted.importing else call_at(text, offset, index, seen)
    values = list(_values(text, offset, index, dotted, call)) if call is not None else []
    if dotted.base:
        members = _members(text, index, dotted, full)
        wanted = {candidate.label for candidate in values}
        found = [*values, *(one for one in members if one.label not in wanted)]
    elif behind_dot or dotted.importing:
        return None
    else:
        found = [*values, *_keywords(text, index, dotted, call, full)]
    return _best(found, dotted.prefix, dotted.start, dotted.end, text) if found else None


def subject_of_path(index: OperatorIndex, path: str, parameter: str = "") -> Subject | None:
    """What a candidate's path leads to."""
    found = look_up(index, path)
    if not found:
        return None
    first = found[0]
    return Subject(0, 0, first.path, first.name, first.operator, first.overload, parameter)


def detail(index: OperatorIndex, path: str) -> str:
    """One line on a path: its first signature, or the schema of an operator."""
    subject = subject_of_path(index, path)
    if subject is None:
        return ""
    if subject.operator is not None:
        return (subject.overload or subject.operator.overloads[0]).schema
    if found := forms(subject):
        first = found[0]
        if first.source and not first.signature.parameters:
            return f"{first.name}{first.source}"
        return label(first.signature, first.name)[0]
    return ""


# -- members ----------------------------------------------------------------------------------


def _members(
    text: str, index: OperatorIndex, dotted: Dotted, full: bool
) -> Iterable[CompletionCandidate]:
    base = dotted.base
    if base == OPERATORS:
        return _namespaces(index, full)
    if base.startswith(f"{OPERATORS}."):
        namespace, dot, operator = base.removeprefix(f"{OPERATORS}.").partition(".")
        return _overloads(index, namespace, operator) if dot else _ranked(index, base, namespace)
    if not full or (base == _TENSOR and dotted.certainty == "guess"):
        return ()
    found = _ranked(index, base, "")
    if dotted.importing and re.match(r"\s*import\b", _line_of(text, dotted.start)):
        return (candidate for candidate in found if candidate.kind == "module")
    return found


def _namespaces(index: OperatorIndex, full: bool) -> Iterator[CompletionCandidate]:
    for namespace in sorted(index.namespaces, key=lambda name: (name.startswith("_"), name)):
        number = len(index.operators(namespace))
        note = f"{number} operator{'s' if number != 1 else ''}"
        yield CompletionCandidate(namespace, "namespace", note=note)
    if full:
        yield from _ranked(index, OPERATORS, "")


def _overloads(index: OperatorIndex, namespace: str, name: str) -> Iterator[CompletionCandidate]:
    operator = index.operator(f"{namespace}::{name}")
    for overload in operator.overloads if operator is not None else ():
        shown = overload.name or "default"
        signature = of_overload(overload)
        note = label(signature, "")[0] if signature is not None else ""
        yield CompletionCandidate(
            shown, "overload", f"{OPERATORS}.{namespace}.{name}.{shown}", note
        )


_RANKED: weakref.WeakKeyDictionary[OperatorIndex, dict[str, tuple[CompletionCandidate, ...]]] = (
    weakref.WeakKeyDictionary()
)


def _ranked(index: OperatorIndex, base: str, namespace: str) -> tuple[CompletionCandidate, ...]:
    """All members of a module, class or namespace, in the order in which they are offered."""
    known = _RANKED.setdefault(index, {})
    if base not in known:
        entries = index.operators(namespace) if namespace else index.members(base)
        known[base] = tuple(
            CompletionCandidate(leaf, entry.kind, f"{base}.{leaf}", deprecated=entry.deprecated)
            for leaf, entry in sorted(((_leaf(entry), entry) for entry in entries), key=_rank)
        )
    return known[base]


def _leaf(entry: Entry) -> str:
    return entry.key.rpartition("::" if entry.kind == "operator" else ".")[2]


def _rank(named: tuple[str, Entry]) -> tuple[bool, bool, int, bool, str, str]:
    leaf, entry = named
    core = entry.kind == "operator" and b'"core"' in entry.body
    return entry.deprecated, leaf.startswith("_"), -entry.uses, not core, leaf.lower(), leaf


def _line_of(text: str, offset: int) -> str:
    return text[text.rfind("\n", 0, offset) + 1 : offset]


# -- arguments --------------------------------------------------------------------------------


def _keywords(
    text: str, index: OperatorIndex, dotted: Dotted, call: ActiveCall | None, full: bool
) -> Iterator[CompletionCandidate]:
    """``name=`` of the parameters that have no argument yet."""
    if call is None or call.active >= len(call.arguments):
        return
    if not full and not _only_we_know(call.subject):
        return
    argument = call.arguments[call.active]
    begins = text[: dotted.start].rstrip()[-1:] in ("(", ",")
    if not begins or argument.keyword or argument.star or not _is_typed(argument, dotted):
        return
    found: dict[str, Parameter] = {}
    signatures = [form.signature for form in forms(call.subject)]
    kind_of = Constants(text, index, dotted.start)
    for signature, taken in left(signatures, call.arguments, call.active, kind_of):
        for number, parameter in enumerate(signature.parameters):
            if number not in taken and not parameter.name.startswith("*"):
                found.setdefault(parameter.name, parameter)
    for parameter in sorted(found.values(), key=lambda parameter: parameter.keyword_only):
        note = parameter_text(parameter).removeprefix(parameter.name).lstrip(": ")
        yield CompletionCandidate(
            f"{parameter.name}=", "keyword", call.subject.path, note, filter=parameter.name
        )


def _only_we_know(subject: Subject) -> bool:
    """Whether it is written in C++, so that others have no more than a stub of it."""
    if subject.certainty == "guess":
        return False
    return subject.operator is not None or (
        subject.name is not None and bool(subject.name.signatures)
    )


def _is_typed(argument: Argument, dotted: Dotted) -> bool:
    """Whether the argument is as yet only what the cursor is in or behind."""
    return not argument.text or argument.start == dotted.start


def _values(
    text: str, offset: int, index: OperatorIndex, dotted: Dotted, call: ActiveCall
) -> Iterator[CompletionCandidate]:
    """Constants and strings that the argument at the cursor may be."""
    if call.active >= len(call.arguments):
        return
    argument = call.arguments[call.active]
    begins = argument.end - len(argument.text) if argument.text else offset
    typed = text[begins : dotted.start]
    if argument.star or (typed and not typed.rstrip().endswith(".")):
        return
    at_root = not typed and not dotted.base
    if not at_root and dotted.base != "torch":
        return
    for parameter in _expected(text, index, call):
        for choice in parameter.choices if at_root else ():
            yield CompletionCandidate(f'"{choice}"', "string", note=parameter.name)
        kind = _CONSTANTS.get(parameter.type)
        for constant in _ranked(index, "torch", "") if kind is not None else ():
            if constant.kind != kind:
                continue
            if not at_root:
                yield constant
                continue
            root = _root(text, offset)
            leaf_typed = dotted.prefix and constant.label.startswith(dotted.prefix)
            yield CompletionCandidate(
                f"{root}.{constant.label}",
                kind,
                constant.path,
                filter=constant.label if leaf_typed else "",
            )


def _expected(text: str, index: OperatorIndex, call: ActiveCall) -> Iterator[Parameter]:
    """The parameters that the active argument may be for, one of each type."""
    signatures = [form.signature for form in forms(call.subject)]
    kind_of = Constants(text, index, call.open)
    # What is typed of it does not count: it is about to be replaced.
    arguments = [
        Argument(one.start, one.end, one.keyword, "", one.star) if number == call.active else one
        for number, one in enumerate(call.arguments)
    ]
    name = call.subject.name
    found: set[tuple[str, tuple[str, ...]]] = set()
    narrowed = narrow(signatures, arguments, call.active, kind_of)
    for signature, match in zip(signatures, narrowed.matches, strict=True):
        if not match.possible or match.active is None:
            continue
        parameter = signature.parameters[match.active]
        if not parameter.choices and name is not None:
            parameter = dataclasses.replace(
                parameter, choices=name.documented_choices(parameter.name)
            )
        if (key := (parameter.type, parameter.choices)) not in found:
            found.add(key)
            yield parameter


@dataclass(frozen=True)
class Constants:
    """Says what kind of constant a dotted name of a text is."""

    text: str
    index: OperatorIndex
    offset: int

    def __call__(self, dotted: str) -> Kind:
        path = Imports.of(self.text).resolve(dotted, self.offset)
        name = None if path is None else self.index.target(path)
        if name is None or name.kind not in ("dtype", "layout", "memory_format"):
            return "unknown"
        return name.kind


_TORCH_AS = re.compile(r"^[ \t]*import[ \t]+torch[ \t]+as[ \t]+(\w+)", re.MULTILINE)


def _root(text: str, offset: int) -> str:
    """What torch is called in a text."""
    imports = Imports.of(text)
    for match in _TORCH_AS.finditer(text):
        if imports.resolve(match[1], offset) == "torch":
            return "torch" if imports.resolve("torch", offset) == "torch" else match[1]
    return "torch"


# -- strings ----------------------------------------------------------------------------------

_STRING = re.compile(r"""["'](?P<inside>[^"'\\\n]*)(?P<end>["'])?""")


def _inside_string(text: str, offset: int, index: OperatorIndex, seen: Seen) -> Completions | None:
    """The strings that an argument may be, for a cursor between its quotes."""
    call = call_around(text, offset, index, seen)
    if call is None or call.active >= len(call.arguments):
        return None
    argument = call.arguments[call.active]
    begins = argument.end - len(argument.text)
    found = _STRING.fullmatch(argument.text)
    if found is None or not begins < offset <= begins + found.end("inside"):
        return None
    start = begins + 1
    choices = [
        CompletionCandidate(choice, "string", note=parameter.name)
        for parameter in _expected(text, index, call)
        for choice in parameter.choices
    ]
    if not choices:
        return None
    return _best(choices, text[start:offset], start, begins + found.end("inside"))


# -- what fits --------------------------------------------------------------------------------


def _best(
    found: Iterable[CompletionCandidate], prefix: str, start: int, end: int, text: str = ""
) -> Completions:
    """Those that fit to what is typed: itself first, then what begins with it, has it somewhere,
    has its letters in that order.

    Of operators those are kept that are used most, in the order of the alphabet: those that are
    in ``text`` before the others.
    """
    graded: tuple[list[CompletionCandidate], ...] = ([], [], [], [])
    if not prefix:
        graded[0].extend(found)
    else:
        wanted = prefix.lower()
        letters = re.compile(".*?".join(map(re.escape, wanted)), re.DOTALL)
        for candidate in found:
            against = (candidate.filter or candidate.label).lower()
            if against == wanted:
                graded[0].append(candidate)
            elif against.startswith(wanted):
                graded[1].append(candidate)
            elif wanted in against:
                graded[2].append(candidate)
            elif letters.search(against) is not None:
                graded[3].append(candidate)
    room = MOST
    fitting: list[CompletionCandidate] = []
    for grade in graded:
        kept, room = grade[:room], max(0, room - len(grade))
        if all(candidate.kind == "operator" for candidate in kept):
            kept.sort(key=_Alphabet(text))
        fitting += kept
    return Completions(tuple(fitting), start, end, sum(map(len, graded)) <= MOST)


class _Alphabet:
    """The order in which operators are read."""

    def __init__(self, text: str) -> None:
        self._words = set(re.findall(r"\.(\w+)", text))

    def __call__(self, one: CompletionCandidate) -> tuple[bool, bool, bool, str]:
        name = one.label
        return one.deprecated, name not in self._words, name.startswith("_"), name.lower()
