"""Build the complete operator index: the names and operators in torch's files and in the imported
torch.

The static index was built from files before torch was imported. The imported torch corrects its
entries, and adds names and operators that the files do not contain.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from ..protocol.operators import (
    Choices,
    Entry,
    IndexUnreadable,
    Name,
    Overload,
    decode_index,
    encode_index,
    entry_of_raw,
)
from ..protocol.plain import as_sparse_plain, from_plain
from . import dispatcher, documentation, tree
from .notes import attempt_or_note
from .signatures_from_errors import correct_signatures

_Raw = dict[str, Any]

_PRIVATE = "torch._C."


def build_complete_index(static: Path | None) -> bytes:
    """Return the content of the complete index file.

    ``static`` is the file with the index built without importing torch; None if that failed.
    """
    notes: list[str] = []
    names, operators = _read_static_index(static, notes)
    counted: Counter[str] = attempt_or_note(
        lambda: count_uses(Path(torch.__file__).parent),
        Counter(),
        "Could not count how often names are used",
        notes,
    )
    nothing: dict[str, tree.LiveName] = {}
    live_names = attempt_or_note(
        lambda: tree.collect_live_names(names),
        nothing,
        "Could not read the names of the running torch",
        notes,
    )
    if live_names:
        names = _merge_names(names, live_names)
        attempt_or_note(
            lambda: _apply_documentation(names, live_names),
            None,
            "Could not read the documentation of names",
            notes,
        )
    operators = attempt_or_note(
        lambda: _merge_operators(operators),
        operators,
        "Could not read the operators of the running torch",
        notes,
    )
    _set_caller_names(names, operators)
    for key, raw in (*names.items(), *operators.items()):
        if times := counted[key]:
            raw["uses"] = times
    entries: list[Entry] = [entry_of_raw(raw) for raw in (*names.values(), *operators.values())]
    return encode_index(
        entries,
        torch=str(torch.__version__),
        complete=True,
        overloads=sum(len(raw["overloads"]) for raw in operators.values()),
        notes=tuple(notes),
    )


def _read_static_index(
    static: Path | None, notes: list[str]
) -> tuple[dict[str, _Raw], dict[str, _Raw]]:
    """Return the names (by path) and the operators (by qualified name) of the static index.

    Appends sentences about missing parts to ``notes``.
    """
    names: dict[str, _Raw] = {}
    operators: dict[str, _Raw] = {}
    if static is None:
        notes.append(
            "The YAML files of torch's operators were not read, so signatures and "
            "derivatives are missing."
        )
        return names, operators
    try:
        header, entries = decode_index(static.read_bytes())
    except (OSError, IndexUnreadable) as error:
        notes.append(f"What torch's YAML files say about operators could not be read: {error}.")
        return names, operators
    notes += header.notes
    for entry in entries:
        (operators if entry.kind == "operator" else names)[entry.key] = entry.decode_raw()
    return names, operators


# -- names ------------------------------------------------------------------------------------


def _merge_names(
    static: Mapping[str, _Raw], live_names: Mapping[str, tree.LiveName]
) -> dict[str, _Raw]:
    """Merge the names of the static index with the names of the imported torch, by path."""
    found = {path: _merge_name(name, static.get(path, {})) for path, name in live_names.items()}
    for path, raw in static.items():
        # Keep private bindings: the imported torch lists some of them only under their class.
        if path.startswith(_PRIVATE):
            found.setdefault(path, raw)
    return found


def _merge_name(live_name: tree.LiveName, raw: _Raw) -> _Raw:
    if live_name.canonical != live_name.path and live_name.kind != "module":
        binding = {"binding": raw["binding"]} if "binding" in raw else {}
        return {
            "path": live_name.path,
            "kind": live_name.kind,
            **binding,
            "alias": live_name.canonical,
        }
    merged = {**raw, "path": live_name.path, "kind": live_name.kind}
    merged.pop("alias", None)
    if live_name.python:
        # A Python function with the path of a binding replaces the binding and its signatures.
        merged.pop("signatures", None)
        merged.pop("binding", None)
        is_generic = live_name.python in ("(*args, **kwargs)", "(*args, **kwds)")
        merged["python"] = raw.get("python", live_name.python) if is_generic else live_name.python
    elif _has_stub_signatures(merged):
        merged = {**merged, **_binding_signatures(merged, live_name.value)}
    described = {
        "calls": live_name.calls,
        "summary": live_name.summary,
        "href": live_name.href,
        "deprecated": live_name.deprecated,
    }
    merged.update({key: value for key, value in described.items() if value})
    return merged


def _has_stub_signatures(raw: _Raw) -> bool:
    """Whether the signatures in a binding's index entry come from torch's hand-written ``.pyi``
    stub.
    """
    signatures = raw.get("signatures", ())
    return bool(signatures) and bool(raw.get("binding")) and not signatures[0].get("operator")


def _binding_signatures(raw: _Raw, function: Any) -> _Raw:
    """Read the signatures of a C++ function from the error messages that the function raises.

    The signatures replace those in the index entry ``raw``, which come from a stub. The result is
    empty if ``function`` is not callable.
    """
    if not callable(function):
        return {}
    receiver = (torch.empty(0),) if raw["kind"] == "method" else ()
    name: Name = correct_signatures(from_plain(Name, raw), function, *receiver)
    return {"signatures": as_sparse_plain(name.signatures)}


def _apply_documentation(
    names: Mapping[str, _Raw], live_names: Mapping[str, tree.LiveName]
) -> None:
    """Add summaries and the strings that parameters accept to the index entries of names.

    Uses the docstring of another name if the docstring refers to it, as in ``See torch.add``.
    """
    for path, raw in names.items():
        name = live_names.get(path)
        if name is None or "alias" in raw:
            continue
        doc = name.doc
        other = live_names.get(documentation.referenced_name(doc)) if doc else None
        if other is not None:
            doc = other.doc
            summary = documentation.summarize_docstring(doc)
            if summary:
                raw["summary"] = summary
        if not doc or ("'" not in doc and '"' not in doc):
            continue
        choices = tuple(
            Choices(parameter, values)
            for parameter in _string_parameters(raw, name)
            if (values := documentation.documented_choices(doc, parameter))
        )
        if choices:
            raw["choices"] = as_sparse_plain(choices)


def _string_parameters(raw: _Raw, live_name: tree.LiveName) -> tuple[str, ...]:
    """Return the names of the parameters of a function that may accept strings.

    ``raw`` is the function's index entry, and ``live_name`` the function in the imported torch.
    """
    if live_name.python:
        return tree.string_parameters(live_name.python)
    listed = (p for s in raw.get("signatures", ()) for p in s.get("parameters", ()))
    return tuple(dict.fromkeys(p["name"] for p in listed if p.get("type") in ("str", "object")))


# -- operators --------------------------------------------------------------------------------


def _merge_operators(static: Mapping[str, _Raw]) -> dict[str, _Raw]:
    """Return index entries for the operators that the imported torch has.

    Properties that only torch's files contain are taken from the ``static`` index. Overloads are in
    the order in which a call tries them.
    """
    snapshot = dispatcher.DispatcherSnapshot.of_all_operators()
    found: dict[str, _Raw] = {}
    for name, schemas in dispatcher.all_schemas().items():
        from_files = static.get(name, {})
        overloads_of_files = {raw.get("name", ""): raw for raw in from_files.get("overloads", ())}
        found[name] = {
            **from_files,
            "name": name,
            "overloads": [
                _merge_overload(name, overload, schema, snapshot, overloads_of_files.get(overload))
                for overload, schema in schemas.items()
            ],
        }
    return found


def _merge_overload(
    operator: str,
    name: str,
    schema: Any,
    snapshot: dispatcher.DispatcherSnapshot,
    from_files: _Raw | None,
) -> _Raw:
    qualified = dispatcher.qualified_name(operator, name)
    if qualified not in snapshot.overloads:
        script: _Raw = as_sparse_plain(Overload(name, str(schema), "torchscript"))
        return {"name": name, **script}
    from_dispatcher: _Raw = as_sparse_plain(
        dispatcher.describe_overload(qualified, schema, snapshot)
    )
    if from_files is None:
        return {"name": name, **from_dispatcher}
    # A CPU build of torch does not register CUDA kernels, and only the files contain derivatives.
    kernels = sorted({*from_files.get("kernels", ()), *from_dispatcher.get("kernels", ())})
    merged = {
        **from_dispatcher,
        **{key: from_files[key] for key in _FROM_FILES if key in from_files},
    }
    return {**merged, "name": name, **({"kernels": kernels} if kernels else {})}


_FROM_FILES = ("origin", "differentiable", "derivatives")


def _set_caller_names(names: Mapping[str, _Raw], operators: Mapping[str, _Raw]) -> None:
    """Store in the entry of each operator the Python names that call the operator, from the entries
    of ``names``.

    Private names are only used for operators without public ones.
    """
    callers: dict[str, list[str]] = {}
    for path in sorted(names):
        for signature in names[path].get("signatures", ()):
            for called in (signature.get("operator", ""), signature.get("out", "")):
                paths = callers.setdefault(called.partition(".")[0], [])
                if called and path not in paths:
                    paths.append(path)
    for name, raw in operators.items():
        paths = callers.get(name, [])
        public = [path for path in paths if not path.startswith(_PRIVATE)]
        raw.pop("names", None)
        if public or paths:
            raw["names"] = public or paths


_SCANNED_PATHS = (
    "nn",
    "optim",
    "distributions",
    "_refs",
    "_decomp",
    "functional.py",
    "_tensor.py",
    "_lobpcg.py",
    "_linalg_utils.py",
    "_meta_registrations.py",
    "_inductor/decomposition.py",
    "_inductor/lowering.py",
    "nested/_internal/ops.py",
    "nested/_internal/sdpa.py",
    "utils/checkpoint.py",
)
"""Files and folders of torch with code that computes with tensors.

Files that only list operators are omitted: they name each operator once, however common it is.
"""

_CHAIN = re.compile(r"(?:(?<![\w.])([A-Za-z_]\w*)|(?<=[)\]]))((?:\.[A-Za-z_]\w*)+)(\()?")
_MODULES = {"torch": "torch", "F": "torch.nn.functional", "nn": "torch.nn", "init": "torch.nn.init"}
_MAX_CHARACTERS = 12_000_000
"""Maximum total number of characters to read from torch's files."""


def count_uses(torch: Path) -> Counter[str]:
    """Count the uses of each name in torch's Python code; ``torch`` is the folder of the package.

    Names are dotted paths; operators are counted as ``aten::name``. Every method call counts for
    ``torch.Tensor.name``, because the source does not show the type of the object.
    """
    chains: Counter[tuple[str, str, str]] = Counter()
    characters_left = _MAX_CHARACTERS
    for path in _python_files(torch):
        try:
            text = path.read_text("utf-8", errors="replace")
        except OSError:
            continue
        characters_left -= len(text)
        if characters_left < 0:
            break
        chains.update(_CHAIN.findall(text))
    found: Counter[str] = Counter()
    for (base, rest, called), times in chains.items():
        parts = rest[1:].split(".")
        if base == "torch" and parts[:2] == ["ops", "aten"] and len(parts) > 2:
            found[f"aten::{parts[2]}"] += times
        elif base == "aten":
            found[f"aten::{parts[0]}"] += times
        elif base in _MODULES:
            path_ = _MODULES[base]
            for part in parts:
                path_ += "." + part
                found[path_] += times
        elif called and not (base == "self" and len(parts) == 1):
            found[f"torch.Tensor.{parts[-1]}"] += times
    return found


def _python_files(torch: Path) -> Iterator[Path]:
    for name in _SCANNED_PATHS:
        place = torch / name
        if place.suffix:
            yield place
        else:
            yield from sorted(place.rglob("*.py"))
