"""What one installation of torch says of its operators and of the Python names that call them.

The engine writes it down once per torch (``operators``), the server reads it; operators that a
user's file registers cross the pipe in the same types. Nothing here knows torch: words such as
tags, dispatch keys and type names are torch's own.

An *operator* is what the dispatcher knows, ``aten::max`` with its overloads. A *name* is what one
writes in Python, ``torch.max`` or ``torch.Tensor.max``; its signatures are those that the binding's
argument parser tries, in that order.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union

from .plain import from_plain, plain, sparse

NameKind = Literal[
    "function", "method", "property", "class", "module", "dtype", "layout", "memory_format",
    "constant", "exception",
]  # fmt: skip

OperatorOrigin = Literal["native", "generated", "registered", "torchscript"]
"""Where an overload comes from: native_functions.yaml, torchgen's own additions to it, a
registration that only the running dispatcher knows, or TorchScript alone."""

Fake = Literal["kernel", "meta", "composite", "decomposition", "missing", "unknown"]
"""How a fake tensor gets through: a registered fake implementation, a kernel for Meta (written in
C++ or Python), the composite kernel itself, a decomposition, or not at all."""

Differentiable = Literal["formula", "composite", "registered", "no", "unknown"]
"""By formulas of derivatives.yaml, through the operators it is composed of, by an autograd kernel
registered elsewhere, or not at all."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a Python signature.

    ``type`` is in the words of the argument parser's errors (``tuple of ints``, ``Number``);
    ``default`` is Python source, empty where the argument is required. ``size`` is the ``1`` of
    ``int[1]``: a single number may stand for a list of that length; 0 where there is no such
    rule. ``variadic``: the items of the list may also be given as separate positional arguments
    (``x.view(2, 3)``). ``choices`` are the strings that it takes, where they are enumerated.
    """

    name: str
    type: str
    default: str = ""
    keyword_only: bool = False
    optional: bool = False
    size: int = 0
    variadic: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Field:
    """One thing that is returned; the name is empty where it has none."""

    type: str
    name: str = ""


@dataclass(frozen=True)
class Signature:
    """One way of calling a name. ``self`` of a method is not among the parameters.

    ``operator`` is the overload that is called (``aten::max.dim``) and ``out`` the one that is
    called when ``out=`` is given. ``structure`` names the type of ``torch.return_types`` with the
    fields of ``returns``. A deprecated signature says in ``instead`` what to write.
    """

    parameters: tuple[Parameter, ...]
    returns: tuple[Field, ...]
    structure: str = ""
    operator: str = ""
    out: str = ""
    deprecated: bool = False
    instead: str = ""


@dataclass(frozen=True)
class Choices:
    """The strings that a parameter of a name takes, as its documentation enumerates them."""

    parameter: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Name:
    """A public name of torch, by its dotted path.

    ``binding`` is the C function behind it (``torch._C._linalg.linalg_norm``). A function written
    in Python has ``python`` (its signature as source, ``(input, p=0.5, training=True)``) and
    ``calls``: the names of this index that its source calls. ``alias`` is the path of the name
    that is the very same object (``torch.nn.functional.conv2d`` is ``torch.conv2d``).
    ``summary`` is the first sentence of its documentation, ``href`` its page. ``uses`` counts how
    often torch's own Python code uses it: a measure to sort by.
    """

    path: str
    kind: NameKind
    signatures: tuple[Signature, ...] = ()
    binding: str = ""
    python: str = ""
    calls: tuple[str, ...] = ()
    alias: str = ""
    summary: str = ""
    href: str = ""
    deprecated: str = ""
    """A sentence that says since when or in favor of what, where the whole name is."""
    choices: tuple[Choices, ...] = ()
    uses: int = 0

    def documented(self, parameter: str) -> tuple[str, ...]:
        """The strings that its documentation enumerates for a parameter."""
        return next((c.values for c in self.choices if c.parameter == parameter), ())


@dataclass(frozen=True)
class Derivative:
    """The formula for the gradient of some inputs, in the words of derivatives.yaml."""

    inputs: str
    formula: str


@dataclass(frozen=True)
class Overload:
    """One overload of an operator.

    ``name`` is empty for the default one (``torch.ops.aten.add.default`` in Python). ``schema`` is
    complete: ``aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, ...)``.
    ``kernels`` are the dispatch keys that have one. ``decomposes``: torch has a decomposition for
    it; the tag ``core`` says that it is part of core ATen. ``place`` is where it was registered
    (``path:line``), for operators of users.
    """

    name: str
    schema: str
    origin: OperatorOrigin
    tags: tuple[str, ...] = ()
    kernels: tuple[str, ...] = ()
    fake: Fake = "unknown"
    decomposes: bool = False
    differentiable: Differentiable = "unknown"
    derivatives: tuple[Derivative, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class Operator:
    """All overloads of a name in the dispatcher, in the order in which resolution tries them.

    ``names`` are the Python names whose signatures call it.
    """

    name: str
    """With its namespace: ``aten::max``."""
    overloads: tuple[Overload, ...]
    names: tuple[str, ...] = ()
    uses: int = 0

    @property
    def namespace(self) -> str:
        return self.name.partition("::")[0]


@dataclass(frozen=True)
class IndexHeader:
    """First line of an index file. ``complete`` is false before the running torch was asked."""

    format: int
    torch: str
    complete: bool
    operators: int
    overloads: int
    names: int
    digest: str
    """blake2b (16 bytes, in hex) of everything behind the first line."""
    notes: tuple[str, ...] = ()
    """What could not be found out, each in one sentence."""


# -- the file ---------------------------------------------------------------------------------

INDEX_FORMAT = 2

EntryKind = Union[NameKind, Literal["operator"]]


class IndexUnreadable(ValueError):
    """A file that is no operator index of this format, or not all of one."""


@dataclass(frozen=True)
class Entry:
    """One line of an index file: what lists need, and the rest, to be decoded when it is wanted.

    ``key`` is the path of a name or the name of an operator.
    """

    key: str
    kind: EntryKind
    uses: int
    deprecated: bool
    body: bytes

    def raw(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def load(self) -> Name | Operator:
        kind = Operator if self.kind == "operator" else Name
        loaded: Name | Operator = from_plain(kind, self.raw())
        return loaded


def entry_of(item: Name | Operator) -> Entry:
    """The index entry of a name or an operator, its body encoded without defaults."""
    return entry_of_raw(sparse(item))


def entry_of_raw(raw: dict[str, Any]) -> Entry:
    """The entry of what :meth:`Entry.raw` gives; an operator is what has no path."""
    body = json.dumps(raw, separators=(",", ":")).encode()
    key = raw["path"] if "path" in raw else raw["name"]
    return Entry(
        key, raw.get("kind", "operator"), raw.get("uses", 0), bool(raw.get("deprecated")), body
    )


def encode_index(
    entries: Iterable[Entry],
    *,
    torch: str,
    complete: bool,
    overloads: int,
    notes: tuple[str, ...] = (),
) -> bytes:
    """The content of an index file: a header, then one line for each entry, sorted by key."""
    ordered = sorted(entries, key=lambda entry: entry.key)
    body = b"".join(
        b"%s\t%s\t%d\t%d\t%s\n" % (e.key.encode(), e.kind.encode(), e.uses, e.deprecated, e.body)
        for e in ordered
    )
    operators = sum(entry.kind == "operator" for entry in ordered)
    header = IndexHeader(
        format=INDEX_FORMAT,
        torch=torch,
        complete=complete,
        operators=operators,
        overloads=overloads,
        names=len(ordered) - operators,
        digest=_digest(body),
        notes=notes,
    )
    return json.dumps(plain(header), separators=(",", ":")).encode() + b"\n" + body


def checked_index(data: bytes) -> tuple[IndexHeader, bytes]:
    """The header of an index file that is whole, and what comes behind it.

    Raises:
        IndexUnreadable: it is of another format, cut off or changed.
    """
    first, _, body = data.partition(b"\n")
    try:
        header: IndexHeader = from_plain(IndexHeader, json.loads(first))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise IndexUnreadable(f"no header: {error}") from error
    if header.format != INDEX_FORMAT:
        raise IndexUnreadable(f"format {header.format} instead of {INDEX_FORMAT}")
    if header.digest != _digest(body):
        raise IndexUnreadable("its content is not what its header says")
    return header, body


def decode_index(data: bytes) -> tuple[IndexHeader, list[Entry]]:
    """The header and the entries of an index file, their bodies not yet decoded.

    Raises:
        IndexUnreadable: it is of another format, cut off or changed.
    """
    header, body = checked_index(data)
    entries = []
    for line in body.splitlines():
        key, kind, uses, deprecated, rest = line.split(b"\t", 4)
        entries.append(
            Entry(key.decode(), kind.decode(), int(uses), deprecated == b"1", rest)  # type: ignore[arg-type]
        )
    return header, entries


def _digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
