"""``textDocument/signatureHelp``: signatures of the call around the cursor.

The answer is plain data, because the types would serialize a missing active parameter as null.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.lsp.context import ServerContext
from fullgraph.operators import ActiveCall
from fullgraph.operators.completion import ConstantKinds
from fullgraph.operators.narrowing import NarrowedSignatures, SignatureMatch, narrow_signatures
from fullgraph.operators.signature_text import signature_label
from fullgraph.operators.signatures import CallForm, call_around, call_forms
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph_engine.protocol import Position
from fullgraph_engine.protocol.operators import Signature

METHOD = types.TEXT_DOCUMENT_SIGNATURE_HELP


def handle(context: ServerContext, params: types.SignatureHelpParams) -> dict[str, Any] | None:
    unit = context.find_unit(params.text_document.uri)
    if unit is None or (index := context.session.engines.find_index(unit)) is None:
        return None
    document = unit.document
    offset = document.offset_at(params.position.line, params.position.character)
    call = call_around(document.text, offset, index, unit.view.seen_values())
    if call is None or not (found := call_forms(call.subject)):
        return None
    narrowed = narrow_signatures(
        [form.signature for form in found],
        call.arguments,
        call.active,
        ConstantKinds(document.text, index, call.open),
    )
    client = context.client
    signatures = [
        _signature_information(client, form, match, call)
        for form, match in zip(found, narrowed.matches, strict=True)
    ]
    chosen = _active_signature(narrowed, signatures, params.context)
    return {
        "signatures": signatures,
        "activeSignature": chosen,
        "activeParameter": _active_parameter(
            client, found[chosen].signature, narrowed.matches[chosen]
        ),
    }


def _active_signature(
    narrowed: NarrowedSignatures,
    signatures: list[dict[str, Any]],
    context: types.SignatureHelpContext | None,
) -> int:
    """Return the index of the signature that fits the call best.

    The signature that the client already shows is kept if it fits equally well, because the user
    may have chosen it.
    """
    shown = context.active_signature_help if context is not None and context.is_retrigger else None
    if shown is not None:
        number = shown.active_signature or 0
        same = [signature.label for signature in shown.signatures] == [
            signature["label"] for signature in signatures
        ]
        if same and number in narrowed.best:
            return number
    return narrowed.chosen


def _signature_information(
    client: ClientCapabilities, form: CallForm, match: SignatureMatch, call: ActiveCall
) -> dict[str, Any]:
    text, spans = signature_label(form.signature, form.name)
    if form.source and not form.signature.parameters:
        text = f"{form.name}{form.source}"
    information: dict[str, Any] = {
        "label": text,
        "parameters": [
            {"label": _parameter_label(client, text, start, end)} for start, end in spans
        ],
    }
    if notes := _signature_notes(form, call):
        information["documentation"] = (
            {"kind": "markdown", "value": notes}
            if client.signature_markdown
            else notes.replace("`", "")
        )
    if client.signature_active_parameter:
        information["activeParameter"] = _active_parameter(client, form.signature, match)
    return information


def _parameter_label(
    client: ClientCapabilities, text: str, start: int, end: int
) -> str | list[int]:
    if not client.signature_label_offsets:
        return text[start:end]
    # Offsets in labels use the position encoding that was negotiated with the client.
    return [_count_units(text[:start], client.encoding), _count_units(text[:end], client.encoding)]


def _count_units(text: str, encoding: Encoding) -> int:
    end = Position(0, len(text.encode("utf-8", "surrogatepass")))
    return TextPositions(text).character(end, encoding)[1]


def _signature_notes(form: CallForm, call: ActiveCall) -> str:
    signature = form.signature
    if signature.deprecated:
        instead = f" Write `{signature.instead}`." if signature.instead else ""
        return f"Deprecated.{instead}"
    name = call.subject.name
    if name is not None and name.deprecated:
        return f"Deprecated: {name.deprecated}"
    return f"`{form.source}`" if call.subject.operator is not None else ""


def _active_parameter(
    client: ClientCapabilities, signature: Signature, match: SignatureMatch
) -> int | None:
    """Return the index of the signature's parameter that receives the argument at the cursor.

    Without one, return an index past the end for clients that reject null, else None. ``match`` is
    the result of matching the signature with the call.
    """
    if match.active is not None or client.signature_no_active_parameter:
        return match.active
    return len(signature.parameters)
