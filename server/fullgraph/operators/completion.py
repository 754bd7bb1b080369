"""Complete members of torch, operators, keyword arguments and argument values at the cursor.

A list has at most ``MAX_ITEMS`` items that match the typed prefix, the most used ones first.
"""

from __future__ import annotations

import dataclasses
import re
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from fullgraph_engine.protocol.operators import Entry, EntryKind, Parameter

from .call import ActiveCall, CallArgument, call_at
from .dotted import DottedName, dotted_at
from .imports import Imports
from .index import OperatorIndex
from .lookup import look_up
from .narrowing import ValueKind, narrow_signatures, possible_signatures
from .seen import NOTHING_SEEN, Seen
from .signature_text import parameter_text, signature_label
from .signatures import call_around, call_forms, signature_of_overload
from .subject import Subject

MAX_ITEMS = 200
"""Maximum number of items in one completion list; further ones appear as the user types more."""

CandidateKind = EntryKind | Literal["namespace", "overload", "keyword", "string"]
"""Kind of a completion item: the kind of its entry in the operator index, or one of the kinds
without an entry.
"""

OPERATORS = "torch.ops"
"""Path of the namespaces of operators, as in ``torch.ops.aten.max``."""
_TENSOR = "torch.Tensor"

# Kind of the constants (such as `torch.float32`) that a parameter accepts, by the parameter's type.
_CONSTANTS: dict[str, EntryKind] = {
    "torch.dtype": "dtype",
    "torch.layout": "layout",
    "torch.memory_format": "memory_format",
}


@dataclass(frozen=True)
class CompletionCandidate:
    """An item of a completion list. Selecting it inserts ``label``."""

    label: str
    kind: CandidateKind
    path: str = ""
    """Path of the item in the operator index, for looking up its documentation; empty without
    documentation.
    """
    note: str = ""
    """Short text to the right of the label, for example a type."""
    filter: str = ""
    """Text that the typed prefix is compared with; empty to compare it with ``label``."""
    deprecated: bool = False


@dataclass(frozen=True)
class Completions:
    """A completion list: items in the order of relevance, and the range of text that they
    replace."""

    items: tuple[CompletionCandidate, ...]
    start: int
    """Start offset of the text that the selected item replaces."""
    end: int
    """End offset of the text that the selected item replaces."""
    complete: bool
    """False if more than ``MAX_ITEMS`` match, so that the editor must request the list again after
    more typing."""


def complete_at(
    text: str,
    offset: int,
    index: OperatorIndex,
    seen: Seen = NOTHING_SEEN,
    *,
    full: bool = False,
) -> Completions | None:
    """Return the completion list at an offset; None if nothing can be completed there.

    Without ``full``, the list only has items that other Python language servers cannot provide.
    ``seen`` are the types of expressions that the last trace of the text recorded.
    """
    dotted = dotted_at(text, offset, index, seen)
    if dotted is None:
        return _complete_string(text, offset, index, seen)
    behind_dot = text[: dotted.start].rstrip().endswith(".")
    call = None if dotted.importing else call_at(text, offset, index, seen)
    values = list(_value_candidates(text, offset, index, dotted, call)) if call is not None else []
    if dotted.base:
        members = _member_candidates(text, index, dotted, full)
        labels = {candidate.label for candidate in values}
        found = [*values, *(member for member in members if member.label not in labels)]
    elif behind_dot or dotted.importing:
        return None
    else:
        found = [*values, *_keyword_candidates(text, index, dotted, call, full)]
    return _select_matches(found, dotted.prefix, dotted.start, dotted.end, text) if found else None


def subject_of_path(index: OperatorIndex, path: str, parameter: str = "") -> Subject | None:
    """Return the name or operator at the path of a completion item; None if the index does not
    contain it.

    ``parameter`` is the parameter that the item names, empty for other items.
    """
    found = look_up(index, path)
    if not found:
        return None
    first = found[0]
    return Subject(0, 0, first.path, first.name, first.operator, first.overload, parameter)


def signature_line(index: OperatorIndex, path: str) -> str:
    """Return the first signature of the name at a path, or the schema of the operator at it.

    Returns an empty string if the path does not exist or does not have a signature.
    """
    subject = subject_of_path(index, path)
    if subject is None:
        return ""
    if subject.operator is not None:
        return (subject.overload or subject.operator.overloads[0]).schema
    if found := call_forms(subject):
        first = found[0]
        if first.source and not first.signature.parameters:
            return f"{first.name}{first.source}"
        return signature_label(first.signature, first.name)[0]
    return ""


# -- members ----------------------------------------------------------------------------------


def _member_candidates(
    text: str, index: OperatorIndex, dotted: DottedName, full: bool
) -> Iterable[CompletionCandidate]:
    base = dotted.base
    if base == OPERATORS:
        return _namespace_candidates(index, full)
    if base.startswith(f"{OPERATORS}."):
        namespace, dot, operator = base.removeprefix(f"{OPERATORS}.").partition(".")
        return (
            _overload_candidates(index, namespace, operator)
            if dot
            else _ranked_members(index, base, namespace)
        )
    if not full or (base == _TENSOR and dotted.certainty == "guess"):
        return ()
    found = _ranked_members(index, base, "")
    line_start = text.rfind("\n", 0, dotted.start) + 1
    if dotted.importing and re.match(r"\s*import\b", text[line_start : dotted.start]):
        return (candidate for candidate in found if candidate.kind == "module")
    return found


def _namespace_candidates(index: OperatorIndex, full: bool) -> Iterator[CompletionCandidate]:
    for namespace in sorted(index.namespaces, key=lambda name: (name.startswith("_"), name)):
        number = len(index.operators(namespace))
        note = f"{number} operator{'s' if number != 1 else ''}"
        yield CompletionCandidate(namespace, "namespace", note=note)
    if full:
        yield from _ranked_members(index, OPERATORS, "")


def _overload_candidates(
    index: OperatorIndex, namespace: str, name: str
) -> Iterator[CompletionCandidate]:
    operator = index.operator(f"{namespace}::{name}")
    for overload in operator.overloads if operator is not None else ():
        shown = overload.name or "default"
        signature = signature_of_overload(overload)
        note = signature_label(signature, "")[0] if signature is not None else ""
        yield CompletionCandidate(
            shown, "overload", f"{OPERATORS}.{namespace}.{name}.{shown}", note
        )


_RANKED_MEMBERS: weakref.WeakKeyDictionary[
    OperatorIndex, dict[str, tuple[CompletionCandidate, ...]]
] = weakref.WeakKeyDictionary()


def _ranked_members(
    index: OperatorIndex, base: str, namespace: str
) -> tuple[CompletionCandidate, ...]:
    """Return the members of a module, class or namespace, the most relevant first.

    ``base`` is its path. ``namespace`` is the name of an operator namespace, empty for modules and
    classes.
    """
    cache = _RANKED_MEMBERS.setdefault(index, {})
    if base not in cache:
        entries = index.operators(namespace) if namespace else index.members(base)
        cache[base] = tuple(
            CompletionCandidate(leaf, entry.kind, f"{base}.{leaf}", deprecated=entry.deprecated)
            for leaf, entry in sorted(
                ((_last_part(entry), entry) for entry in entries), key=_rank_key
            )
        )
    return cache[base]


def _last_part(entry: Entry) -> str:
    return entry.key.rpartition("::" if entry.kind == "operator" else ".")[2]


def _rank_key(named: tuple[str, Entry]) -> tuple[bool, bool, int, bool, str, str]:
    leaf, entry = named
    core = entry.kind == "operator" and b'"core"' in entry.body
    return entry.deprecated, leaf.startswith("_"), -entry.uses, not core, leaf.lower(), leaf


# -- arguments --------------------------------------------------------------------------------


def _keyword_candidates(
    text: str, index: OperatorIndex, dotted: DottedName, call: ActiveCall | None, full: bool
) -> Iterator[CompletionCandidate]:
    """Yield ``name=`` for each parameter of the called function without an argument yet.

    ``dotted`` is the name at the cursor. Without ``full``, only functions written in C++ are
    completed.
    """
    if call is None or call.active >= len(call.arguments):
        return
    if not full and not _is_native_callee(call.subject):
        return
    argument = call.arguments[call.active]
    starts_argument = text[: dotted.start].rstrip()[-1:] in ("(", ",")
    if (
        not starts_argument
        or argument.keyword
        or argument.star
        or not _is_start_of(argument, dotted)
    ):
        return
    found: dict[str, Parameter] = {}
    signatures = [form.signature for form in call_forms(call.subject)]
    kind_of = ConstantKinds(text, index, dotted.start)
    for signature, taken in possible_signatures(signatures, call.arguments, call.active, kind_of):
        for number, parameter in enumerate(signature.parameters):
            if number not in taken and not parameter.name.startswith("*"):
                found.setdefault(parameter.name, parameter)
    for parameter in sorted(found.values(), key=lambda parameter: parameter.keyword_only):
        note = parameter_text(parameter).removeprefix(parameter.name).lstrip(": ")
        yield CompletionCandidate(
            f"{parameter.name}=", "keyword", call.subject.path, note, filter=parameter.name
        )


def _is_native_callee(subject: Subject) -> bool:
    """Whether a called function is written in C++, so that other language servers know only its
    declaration in a stub.
    """
    if subject.certainty == "guess":
        return False
    return subject.operator is not None or (
        subject.name is not None and bool(subject.name.signatures)
    )


def _is_start_of(argument: CallArgument, dotted: DottedName) -> bool:
    """Whether the user has typed only a name, or nothing, for an argument.

    ``dotted`` is the name at the cursor.
    """
    return not argument.text or argument.start == dotted.start


def _value_candidates(
    text: str, offset: int, index: OperatorIndex, dotted: DottedName, call: ActiveCall
) -> Iterator[CompletionCandidate]:
    """Yield completions for the value of the argument at the cursor: torch's constants and allowed
    strings.

    They fit the parameter that receives the argument. ``call`` is the call around the cursor, and
    ``dotted`` the name at the cursor.
    """
    if call.active >= len(call.arguments):
        return
    argument = call.arguments[call.active]
    start = argument.end - len(argument.text) if argument.text else offset
    typed = text[start : dotted.start]
    if argument.star or (typed and not typed.rstrip().endswith(".")):
        return
    at_root = not typed and not dotted.base
    if not at_root and dotted.base != "torch":
        return
    for parameter in _expected_parameters(text, index, call):
        for choice in parameter.choices if at_root else ():
            yield CompletionCandidate(f'"{choice}"', "string", note=parameter.name)
        kind = _CONSTANTS.get(parameter.type)
        for constant in _ranked_members(index, "torch", "") if kind is not None else ():
            if constant.kind != kind:
                continue
            if not at_root:
                yield constant
                continue
            root = _torch_name(text, offset)
            leaf_typed = dotted.prefix and constant.label.startswith(dotted.prefix)
            yield CompletionCandidate(
                f"{root}.{constant.label}",
                kind,
                constant.path,
                filter=constant.label if leaf_typed else "",
            )


def _expected_parameters(text: str, index: OperatorIndex, call: ActiveCall) -> Iterator[Parameter]:
    """Yield the parameters that may receive the argument at the cursor, from all signatures of the
    called function.

    Of parameters with the same type and the same choices, only one is yielded.
    """
    signatures = [form.signature for form in call_forms(call.subject)]
    kind_of = ConstantKinds(text, index, call.open)
    # Ignore the typed part of the active argument: the completion replaces it.
    arguments = [
        CallArgument(argument.start, argument.end, argument.keyword, "", argument.star)
        if number == call.active
        else argument
        for number, argument in enumerate(call.arguments)
    ]
    name = call.subject.name
    found: set[tuple[str, tuple[str, ...]]] = set()
    narrowed = narrow_signatures(signatures, arguments, call.active, kind_of)
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
class ConstantKinds:
    """A function that returns the kind of a constant of torch, such as ``dtype`` for
    ``torch.float32``.

    Its argument is the dotted name of the constant as the text uses it. The kinds are ``dtype``,
    ``layout`` and ``memory_format``, and ``unknown`` for other names.
    """

    text: str
    index: OperatorIndex
    offset: int
    """Position in the text where the name is used, as an offset; determines which imports apply."""

    def __call__(self, dotted: str) -> ValueKind:
        path = Imports.for_text(self.text).resolve_name(dotted, self.offset)
        name = None if path is None else self.index.target(path)
        if name is None or name.kind not in ("dtype", "layout", "memory_format"):
            return "unknown"
        return name.kind


_TORCH_AS = re.compile(r"^[ \t]*import[ \t]+torch[ \t]+as[ \t]+(\w+)", re.MULTILINE)


def _torch_name(text: str, offset: int) -> str:
    """Return the name by which a text imports torch, as visible at an offset: ``torch`` or an
    alias."""
    imports = Imports.for_text(text)
    for match in _TORCH_AS.finditer(text):
        if imports.resolve_name(match[1], offset) == "torch":
            return "torch" if imports.resolve_name("torch", offset) == "torch" else match[1]
    return "torch"


# -- strings ----------------------------------------------------------------------------------

_STRING = re.compile(r"""["'](?P<inside>[^"'\\\n]*)(?P<end>["'])?""")


def _complete_string(
    text: str, offset: int, index: OperatorIndex, seen: Seen
) -> Completions | None:
    """Complete the string argument at the cursor; None if the accepted strings are unknown."""
    call = call_around(text, offset, index, seen)
    if call is None or call.active >= len(call.arguments):
        return None
    argument = call.arguments[call.active]
    argument_start = argument.end - len(argument.text)
    found = _STRING.fullmatch(argument.text)
    if found is None or not argument_start < offset <= argument_start + found.end("inside"):
        return None
    start = argument_start + 1
    choices = [
        CompletionCandidate(choice, "string", note=parameter.name)
        for parameter in _expected_parameters(text, index, call)
        for choice in parameter.choices
    ]
    if not choices:
        return None
    return _select_matches(choices, text[start:offset], start, argument_start + found.end("inside"))


# -- matching ---------------------------------------------------------------------------------


def _select_matches(
    found: Iterable[CompletionCandidate], prefix: str, start: int, end: int, text: str = ""
) -> Completions:
    """Select the completion items that match a prefix, at most ``MAX_ITEMS``.

    Exact matches precede items that start with the prefix, contain it, or contain its letters in
    order. The most used operators are selected and sorted by name; operators that ``text`` already
    uses come first.
    """
    graded: tuple[list[CompletionCandidate], ...] = ([], [], [], [])
    if not prefix:
        graded[0].extend(found)
    else:
        lowered = prefix.lower()
        letters = re.compile(".*?".join(map(re.escape, lowered)), re.DOTALL)
        for candidate in found:
            against = (candidate.filter or candidate.label).lower()
            if against == lowered:
                graded[0].append(candidate)
            elif against.startswith(lowered):
                graded[1].append(candidate)
            elif lowered in against:
                graded[2].append(candidate)
            elif letters.search(against) is not None:
                graded[3].append(candidate)
    room = MAX_ITEMS
    fitting: list[CompletionCandidate] = []
    for grade in graded:
        selected, room = grade[:room], max(0, room - len(grade))
        if all(candidate.kind == "operator" for candidate in selected):
            selected.sort(key=_OperatorSortKey(text))
        fitting += selected
    return Completions(tuple(fitting), start, end, sum(map(len, graded)) <= MAX_ITEMS)


class _OperatorSortKey:
    """A sort key for operators: operators used in a text come first, then the others; both are
    sorted by name.
    """

    def __init__(self, text: str) -> None:
        self._words = set(re.findall(r"\.(\w+)", text))

    def __call__(self, candidate: CompletionCandidate) -> tuple[bool, bool, bool, str]:
        name = candidate.label
        return candidate.deprecated, name not in self._words, name.startswith("_"), name.lower()
