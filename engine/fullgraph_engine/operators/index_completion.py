"""The complete index: what the files said, put right and filled up by the running torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
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
from . import dispatcher, documentation, tree, uses
from .notes import attempt
from .signatures_from_errors import corrected

_Raw = dict[str, Any]

_PRIVATE = "torch._C."


def take(static: Path | None) -> bytes:
    """The content of the index file, from what was read out of torch's files."""
    notes: list[str] = []
    names, operators = _read(static, notes)
    counted: Counter[str] = attempt(
        lambda: uses.count(Path(torch.__file__).parent), Counter(), "Uses are not counted", notes
    )
    nothing: dict[str, tree.Live] = {}
    live = attempt(
        lambda: tree.live_names(names), nothing, "Only names from files are known", notes
    )
    if live:
        names = _names(names, live)
        attempt(lambda: _follow(names, live), None, "References are not followed", notes)
    operators = attempt(
        lambda: _operators(operators), operators, "Only operators from files are known", notes
    )
    _connect(names, operators)
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


def _read(static: Path | None, notes: list[str]) -> tuple[dict[str, _Raw], dict[str, _Raw]]:
    names: dict[str, _Raw] = {}
    operators: dict[str, _Raw] = {}
    if static is None:
        notes.append("The binding YAML was not read, so signatures and derivatives are missing.")
        return names, operators
    try:
        header, entries = decode_index(static.read_bytes())
    except (OSError, IndexUnreadable) as error:
        notes.append(f"What the binding YAML says is lost: {error}.")
        return names, operators
    notes += header.notes
    for entry in entries:
        (operators if entry.kind == "operator" else names)[entry.key] = entry.decode_raw()
    return names, operators


# -- names ------------------------------------------------------------------------------------


def _names(static: Mapping[str, _Raw], live: Mapping[str, tree.Live]) -> dict[str, _Raw]:
    """The names that exist, with what each of the two sources knows of them."""
    found = {path: _name(name, static.get(path, {})) for path, name in live.items()}
    for path, raw in static.items():
        # Of bindings without a public name some are found by the class that they are put into.
        if path.startswith(_PRIVATE):
            found.setdefault(path, raw)
    return found


def _name(live: tree.Live, raw: _Raw) -> _Raw:
    if live.canonical != live.path and live.kind != "module":
        kept = {"binding": raw["binding"]} if "binding" in raw else {}
        return {"path": live.path, "kind": live.kind, **kept, "alias": live.canonical}
    merged = {**raw, "path": live.path, "kind": live.kind}
    merged.pop("alias", None)
    if live.python:
        # It is written in Python, so what the binding of that name takes is no matter.
        merged.pop("signatures", None)
        merged.pop("binding", None)
        weak = live.python in ("(*args, **kwargs)", "(*args, **kwds)")
        merged["python"] = raw.get("python", live.python) if weak else live.python
    elif _made_by_hand(merged):
        merged = {**merged, **_spoken(merged, live.value)}
    told = {
        "calls": live.calls,
        "summary": live.summary,
        "href": live.href,
        "deprecated": live.deprecated,
    }
    merged.update({key: value for key, value in told.items() if value})
    return merged


def _made_by_hand(raw: _Raw) -> bool:
    """Whether the signatures of a binding are those of a stub that a person wrote."""
    signatures = raw.get("signatures", ())
    return bool(signatures) and bool(raw.get("binding")) and not signatures[0].get("operator")


def _spoken(raw: _Raw, function: Any) -> _Raw:
    if not callable(function):
        return {}
    receiver = (torch.empty(0),) if raw["kind"] == "method" else ()
    name: Name = corrected(from_plain(Name, raw), function, *receiver)
    return {"signatures": as_sparse_plain(name.signatures)}


def _follow(names: Mapping[str, _Raw], live: Mapping[str, tree.Live]) -> None:
    """What documentation says elsewhere: of a method that is documented as a function, and of the
    strings that parameters take."""
    for path, raw in names.items():
        name = live.get(path)
        if name is None or "alias" in raw:
            continue
        doc = name.doc
        other = live.get(documentation.referred(doc)) if doc else None
        if other is not None:
            doc = other.doc
            summary = documentation.summary(doc)
            if summary:
                raw["summary"] = summary
        if not doc or ("'" not in doc and '"' not in doc):
            continue
        choices = tuple(
            Choices(parameter, values)
            for parameter in _taking_strings(raw, name)
            if (values := documentation.choices(doc, parameter))
        )
        if choices:
            raw["choices"] = as_sparse_plain(choices)


def _taking_strings(raw: _Raw, live: tree.Live) -> tuple[str, ...]:
    """The parameters of a name that may be strings."""
    if live.python:
        return tree.textual(live.python)
    listed = (p for s in raw.get("signatures", ()) for p in s.get("parameters", ()))
    return tuple(dict.fromkeys(p["name"] for p in listed if p.get("type") in ("str", "object")))


# -- operators --------------------------------------------------------------------------------


def _operators(static: Mapping[str, _Raw]) -> dict[str, _Raw]:
    """The operators that exist now, their overloads in the order of resolution."""
    facts = dispatcher.Facts.gather()
    found: dict[str, _Raw] = {}
    for name, schemas in dispatcher.schemas().items():
        known = static.get(name, {})
        told = {raw.get("name", ""): raw for raw in known.get("overloads", ())}
        found[name] = {
            **known,
            "name": name,
            "overloads": [
                _overload(name, overload, schema, facts, told.get(overload))
                for overload, schema in schemas.items()
            ],
        }
    return found


def _overload(
    operator: str, name: str, schema: Any, facts: dispatcher.Facts, told: _Raw | None
) -> _Raw:
    qualified = dispatcher.qualified(operator, name)
    if qualified not in facts.registered:
        script: _Raw = as_sparse_plain(Overload(name, str(schema), "torchscript"))
        return {"name": name, **script}
    live: _Raw = as_sparse_plain(dispatcher.overload(qualified, schema, facts))
    if told is None:
        return {"name": name, **live}
    # Kernels that this build has not registered exist all the same: those for CUDA, in a wheel
    # for the CPU. And only the files know whether there is a formula.
    kernels = sorted({*told.get("kernels", ()), *live.get("kernels", ())})
    merged = {**live, **{key: told[key] for key in _FROM_FILES if key in told}}
    return {**merged, "name": name, **({"kernels": kernels} if kernels else {})}


_FROM_FILES = ("origin", "differentiable", "derivatives")


def _connect(names: Mapping[str, _Raw], operators: Mapping[str, _Raw]) -> None:
    """Say of each operator which of the names that are left call it."""
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
