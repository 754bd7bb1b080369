"""Build the static index: the part of the operator index that can be built without importing
torch."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from typing import Any

from ..protocol.operators import Name, Operator, encode_index, entry_of
from .bindings import collect_bindings, names_of_bindings
from .cache import write_atomically
from .derivatives import Derivatives
from .native import callers_by_operator, group_operators, parse_native_functions
from .notes import attempt_or_note
from .sources import NoTorch, TorchSources, find_sources
from .stubs import StubNames, collect_stub_names

_NATIVE = "ATen/native/native_functions.yaml"
_TAGS = "ATen/native/tags.yaml"
_DEPRECATED = "autograd/deprecated.yaml"
_DERIVATIVES = "autograd/derivatives.yaml"


def main(arguments: list[str]) -> int:
    """Build the static index of this interpreter's torch and write it to the file of ``--out``.

    Returns the exit status: 1, with a sentence on stderr, if the index cannot be built or written.
    """
    parser = argparse.ArgumentParser(prog="build.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--yaml", type=Path, help="folder of a PyYAML, if there is no other")
    parser.add_argument("--packaged", type=Path, help="folder to read instead of torchgen/packaged")
    options = parser.parse_args(arguments)
    # The process ends after writing, so nothing needs to be collected.
    gc.disable()
    try:
        write_atomically(
            options.out, build_static_index(find_sources(options.yaml, options.packaged))
        )
    except NoTorch as error:
        return _print_failure(f"{error}, so there is no operator index; choose one that has it.")
    except OSError as error:
        return _print_failure(
            f"The operator index cannot be written to {options.out}: {error.strerror}."
        )
    except Exception as error:
        return _print_failure(
            f"The operator index cannot be built: {type(error).__name__}: {error}"
        )
    return 0


def _print_failure(sentence: str) -> int:
    sys.stderr.write(" ".join(sentence.split()) + "\n")
    return 1


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
            for entry in read_list(_TAGS, "Tags are those that operators name")
            if isinstance(entry, dict) and isinstance(entry.get("tag"), str)
        )
        native_functions = parse_native_functions(
            read_list(_NATIVE, "Operators wait for the running torch"), tags
        )
        notes += native_functions.notes
        formulas = read_list(_DERIVATIVES, "Derivatives are unknown")
        native = native_functions, Derivatives(formulas, native_functions.functions)
        bindings = attempt_or_note(
            lambda: collect_bindings(native_functions.functions, sources.yaml_folder / _DEPRECATED),  # type: ignore[operator]
            None,
            "Signatures are those of the stubs",
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
