"""The index as far as it can be known without importing torch."""

from __future__ import annotations

import argparse
import gc
import sys
from pathlib import Path
from typing import Any

from ..protocol.operators import Name, Operator, encode_index, entry_of
from .bindings import bindings, names_of
from .cache import write_whole
from .derivatives import Derivatives
from .native import callers, natives, operators
from .notes import attempt
from .sources import NoTorch, Sources, sources
from .stubs import StubNames, written_names

_NATIVE = "ATen/native/native_functions.yaml"
_TAGS = "ATen/native/tags.yaml"
_DEPRECATED = "autograd/deprecated.yaml"
_DERIVATIVES = "autograd/derivatives.yaml"


def main(arguments: list[str]) -> int:
    """Write the index of this interpreter's torch to a file; 1 and a sentence if there is none."""
    parser = argparse.ArgumentParser(prog="build.py")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--yaml", type=Path, help="folder of a PyYAML, if there is no other")
    parser.add_argument("--packaged", type=Path, help="folder to read instead of torchgen/packaged")
    options = parser.parse_args(arguments)
    # Everything that is made here lives until the end.
    gc.disable()
    try:
        write_whole(options.out, build(sources(options.yaml, options.packaged)))
    except NoTorch as error:
        return _fail(f"{error}, so there is no operator index; choose one that has it.")
    except OSError as error:
        return _fail(f"The operator index cannot be written to {options.out}: {error.strerror}.")
    except Exception as error:
        return _fail(f"The operator index cannot be built: {type(error).__name__}: {error}")
    return 0


def _fail(sentence: str) -> int:
    sys.stderr.write(" ".join(sentence.split()) + "\n")
    return 1


def build(found: Sources) -> bytes:
    """The content of the index file."""
    names, listed, notes = static_index(found)
    return encode_index(
        [*map(entry_of, names), *map(entry_of, listed)],
        torch=found.version,
        complete=False,
        overloads=sum(len(operator.overloads) for operator in listed),
        notes=notes,
    )


def static_index(found: Sources) -> tuple[list[Name], list[Operator], tuple[str, ...]]:
    """Names, operators, and what could not be found out."""
    notes = list(found.notes)
    signatures = {}
    native: tuple[Any, Any] | None = None
    if found.packaged is not None:

        def read(path: str, lost: str) -> list[Any]:
            return attempt(lambda: found.yaml(path), [], lost, notes)

        tags = frozenset(
            entry["tag"]
            for entry in read(_TAGS, "Tags are those that operators name")
            if isinstance(entry, dict) and isinstance(entry.get("tag"), str)
        )
        known = natives(read(_NATIVE, "Operators wait for the running torch"), tags)
        notes += known.notes
        formulas = read(_DERIVATIVES, "Derivatives are unknown")
        native = known, Derivatives(formulas, known.functions)
        made = attempt(
            lambda: bindings(known.functions, found.packaged / _DEPRECATED),  # type: ignore[operator]
            None,
            "Signatures are those of the stubs",
            notes,
        )
        if made is not None:
            signatures = made.signatures
            notes += made.notes
    written: StubNames = written_names(found, frozenset(signatures))
    names = {name.path: name for name in written.names}
    for name in names_of(signatures, written.aliases, names):
        names.setdefault(name.path, name)
    listed: list[Operator] = []
    if native is not None:
        public = [(n.path, n.signatures) for n in sorted(names.values(), key=lambda n: n.path)]
        listed = list(operators(*native, callers(public)))
    return list(names.values()), listed, tuple(notes)
