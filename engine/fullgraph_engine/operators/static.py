"""Build the static index: the part of the operator index that can be built without importing
torch."""

from __future__ import annotations

from typing import Any

from ..protocol.operators import Name, Operator, encode_index, entry_of
from .bindings import collect_bindings, names_of_bindings
from .derivatives import Derivatives
from .native import callers_by_operator, group_operators, parse_native_functions
from .notes import attempt_or_note
from .sources import TorchSources
from .stubs import StubNames, collect_stub_names

_NATIVE = "ATen/native/native_functions.yaml"
_TAGS = "ATen/native/tags.yaml"
_DEPRECATED = "autograd/deprecated.yaml"
_DERIVATIVES = "autograd/derivatives.yaml"


def build_static_index(sources: TorchSources) -> bytes:
    """Build the static index from torch's files and return the content of the index file."""
    names, listed, notes = collect_static_index(sources)
    return encode_index(
        [*map(entry_of, names), *map(entry_of, listed)],
        torch=sources.version,
        complete=False,
        overloads=sum(len(operator.overloads) for operator in listed),
        notes=notes,
    )


def collect_static_index(
    sources: TorchSources,
) -> tuple[list[Name], list[Operator], tuple[str, ...]]:
    """Read torch's files; return its names, its operators, and notes about unreadable files."""
    notes = list(sources.notes)
    signatures = {}
    native: tuple[Any, Any] | None = None
    if sources.yaml_folder is not None:

        def read_list(path: str, sentence: str) -> list[Any]:
            return attempt_or_note(lambda: sources.read_yaml_list(path), [], sentence, notes)

        tags = frozenset(
            entry["tag"]
            for entry in read_list(_TAGS, "Could not read the list of tags")
            if isinstance(entry, dict) and isinstance(entry.get("tag"), str)
        )
        native_functions = parse_native_functions(
            read_list(
                _NATIVE,
                "Could not read the operators, so they are listed only after torch is imported",
            ),
            tags,
        )
        notes += native_functions.notes
        formulas = read_list(_DERIVATIVES, "Could not read the derivatives")
        native = native_functions, Derivatives(formulas, native_functions.functions)
        bindings = attempt_or_note(
            lambda: collect_bindings(native_functions.functions, sources.yaml_folder / _DEPRECATED),  # type: ignore[operator]
            None,
            "Could not read the signatures, so those of the type stubs are used",
            notes,
        )
        if bindings is not None:
            signatures = bindings.signatures
            notes += bindings.notes
    stub_names: StubNames = collect_stub_names(sources, frozenset(signatures))
    names = {name.path: name for name in stub_names.names}
    for name in names_of_bindings(signatures, stub_names.aliases, names):
        names.setdefault(name.path, name)
    listed: list[Operator] = []
    if native is not None:
        public = [(n.path, n.signatures) for n in sorted(names.values(), key=lambda n: n.path)]
        listed = list(group_operators(*native, callers_by_operator(public)))
    return list(names.values()), listed, tuple(notes)
