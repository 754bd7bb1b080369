"""Index of the operators of one torch installation, and of the Python names that call them.

The engine writes it once per torch (``operators``), and the server reads it for completion and
documentation. Operators that a user's file registers are sent through the pipe in the same types.
This module does not import torch; tags, dispatch keys and type names are torch's own words.

An *operator* is known to the dispatcher: ``aten::max`` with its overloads. A *name* is written in
Python: ``torch.max`` or ``torch.Tensor.max``. Its signatures are listed in the order in which the
binding's argument parser tries them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, Union

from .plain import as_plain, as_sparse_plain, from_plain

NameKind = Literal[
    "function", "method", "property", "class", "module", "dtype", "layout", "memory_format",
    "constant", "exception",
]  # fmt: skip

OperatorOrigin = Literal["native", "generated", "registered", "torchscript"]
"""Origin of an overload: native_functions.yaml, torchgen's additions to it, a registration known
only to the running dispatcher, or TorchScript alone.
"""

Fake = Literal["kernel", "meta", "composite", "decomposition", "missing", "unknown"]
"""Fake tensor support of an overload.

``kernel``: a registered fake implementation. ``meta``: a Meta kernel in C++ or Python.
``composite``: the kernel consists of other operators. ``decomposition``: torch decomposes it.
"""

Differentiable = Literal["formula", "composite", "registered", "no", "unknown"]
"""Autograd support of an overload.

``formula``: formulas of derivatives.yaml. ``composite``: autograd of the operators that the
overload consists of. ``registered``: an autograd kernel registered elsewhere.
"""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a Python signature.

    ``type`` is in the words of the argument parser's errors (``tuple of ints``, ``Number``).
    ``default`` is Python source, empty for a required argument. ``size`` is the ``1`` of
    ``int[1]``: a single number may replace a list of that length; 0 without this rule.
    ``variadic``: the items of the list may be separate positional arguments (``x.view(2, 3)``).
    ``choices`` are the strings that it accepts, if they are enumerated.
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
    """One returned value of a signature; ``name`` is empty if the value is unnamed."""

    type: str
    name: str = ""


@dataclass(frozen=True)
class Signature:
    """One way to call a public name of torch; ``self`` of a method is not among the parameters.

    ``operator`` is the called overload (``aten::max.dim``), and ``out`` the overload for calls with
    ``out=``. ``structure`` is the type in ``torch.return_types`` whose fields ``returns`` lists.
    ``instead`` is the replacement for a deprecated signature.
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
    """The strings that one parameter of a torch function accepts (such as "none" and "mean" for
    ``reduction``), from its documentation."""

    parameter: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Name:
    """A public name of torch, by its dotted path.

    ``binding`` is the C function that implements it (``torch._C._linalg.linalg_norm``). For a
    function written in Python, ``python`` is its signature as source (``(input, p=0.5,
    training=True)``), and ``calls`` are the names of this index that its source calls. ``alias`` is
    the path of another name for the same object (``torch.nn.functional.conv2d`` is
    ``torch.conv2d``). ``summary`` is the first sentence of its documentation, ``href`` its page.
    ``uses`` counts its uses in torch's own Python code, for sorting.
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
    """Sentence that says since when the name is deprecated or what replaces it; empty otherwise."""
    choices: tuple[Choices, ...] = ()
    uses: int = 0

    def documented_choices(self, parameter: str) -> tuple[str, ...]:
        """Return the strings that the documentation lists for a parameter, such as "mean"; empty if
        it lists none."""
        return next((c.values for c in self.choices if c.parameter == parameter), ())


@dataclass(frozen=True)
class Derivative:
    """The gradient formula of some inputs, as in derivatives.yaml."""

    inputs: str
    formula: str


@dataclass(frozen=True)
class Overload:
    """One overload of an operator.

    ``name`` is empty for the default overload (``torch.ops.aten.add.default`` in Python).
    ``schema`` is complete: ``aten::max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor
    values, ...)``. ``kernels`` are the dispatch keys with a kernel. ``decomposes``: torch has a
    decomposition for it. The tag ``core`` marks core ATen. ``place`` is where a user's operator was
    registered (``path:line``).
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
    """All overloads of an operator, in the order in which resolution tries them.

    ``names`` are the Python names whose signatures call it.
    """

    name: str
    """Name with its namespace: ``aten::max``."""
    overloads: tuple[Overload, ...]
    names: tuple[str, ...] = ()
    uses: int = 0

    @property
    def namespace(self) -> str:
        return self.name.partition("::")[0]


@dataclass(frozen=True)
class IndexHeader:
    """First line of a file with the index of PyTorch's operators.

    ``complete`` is false if the index was read from PyTorch's source files only, without importing
    torch, so that some facts about operators are missing.
    """

    format: int
    torch: str
    complete: bool
    operators: int
    overloads: int
    names: int
    digest: str
    """blake2b digest (16 bytes, in hex) of everything after the first line."""
    notes: tuple[str, ...] = ()
    """Facts about operators that could not be determined, each in one sentence."""


# -- the file ---------------------------------------------------------------------------------

INDEX_FORMAT = 2

EntryKind = Union[NameKind, Literal["operator"]]


class IndexUnreadable(ValueError):
    """Raised for a file without a complete operator index in the format ``INDEX_FORMAT``."""


@dataclass(frozen=True)
class Entry:
    """One line of an operator index file: fields for listing, and a JSON ``body`` to decode on
    demand.

    ``key`` is the dotted path of a name (``torch.max``) or the name of an operator (``aten::max``).
    """

    key: str
    kind: EntryKind
    uses: int
    deprecated: bool
    body: bytes

    def decode_raw(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.body)
        return found

    def decode(self) -> Name | Operator:
        kind = Operator if self.kind == "operator" else Name
        loaded: Name | Operator = from_plain(kind, self.decode_raw())
        return loaded


def entry_of(item: Name | Operator) -> Entry:
    """Encode a name or an operator as an entry of an index file; fields with default values are
    left out."""
    return entry_of_raw(as_sparse_plain(item))


def entry_of_raw(raw: dict[str, Any]) -> Entry:
    """Return an entry of an index file for plain JSON data: a name if it has a ``path``, else an
    operator."""
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
    """Encode an index file: a header, then one line for each entry, sorted by key."""
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
        digest=_body_digest(body),
        notes=notes,
    )
    return json.dumps(as_plain(header), separators=(",", ":")).encode() + b"\n" + body


def verify_index(data: bytes) -> tuple[IndexHeader, bytes]:
    """Verify the header and the digest of an operator index; return the header and all bytes after
    it.

    Raises:
        IndexUnreadable: The file has another format, is truncated or was changed.
    """
    first, _, body = data.partition(b"\n")
    try:
        header: IndexHeader = from_plain(IndexHeader, json.loads(first))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise IndexUnreadable(f"no header: {error}") from error
    if header.format != INDEX_FORMAT:
        raise IndexUnreadable(f"its format is {header.format} instead of {INDEX_FORMAT}")
    if header.digest != _body_digest(body):
        raise IndexUnreadable("its content does not have the digest that its header states")
    return header, body


def decode_index(data: bytes) -> tuple[IndexHeader, list[Entry]]:
    """Decode an index file; return its header and its entries, whose bodies stay encoded.

    Raises:
        IndexUnreadable: The file has another format, is truncated or was changed.
    """
    header, body = verify_index(data)
    entries = []
    for line in body.splitlines():
        key, kind, uses, deprecated, rest = line.split(b"\t", 4)
        entries.append(
            Entry(key.decode(), kind.decode(), int(uses), deprecated == b"1", rest)  # type: ignore[arg-type]
        )
    return header, entries


def _body_digest(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()
