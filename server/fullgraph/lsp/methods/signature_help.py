"""``textDocument/signatureHelp``: the signatures of the call around the cursor.

The answer is plain data: the types would write an active parameter that is left out as null.
"""

from __future__ import annotations

from typing import Any

from lsprotocol import types

from fullgraph.domain.positions import Encoding, TextPositions
from fullgraph.lsp.context import Context
from fullgraph.operators import ActiveCall
from fullgraph.operators.completion import ConstantKinds
from fullgraph.operators.narrowing import NarrowedSignatures, SignatureMatch, narrow_signatures
from fullgraph.operators.signature_text import signature_label
from fullgraph.operators.signatures import CallForm, call_around, call_forms
from fullgraph.session.capabilities import ClientCapabilities
from fullgraph_engine.protocol import Position
from fullgraph_engine.protocol.operators import Signature

METHOD = types.TEXT_DOCUMENT_SIGNATURE_HELP


def handle(context: Context, params: types.SignatureHelpParams) -> dict[str, Any] | None:
    unit = context.unit(params.text_document.uri)
    if unit is None or (index := context.session.index(unit)) is None:
        return None
    document = unit.document
    offset = document.offset_at(params.position.line, params.position.character)
    call = call_around(document.text, offset, index, unit.seen())
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
        _information(client, form, match, call)
        for form, match in zip(found, narrowed.matches, strict=True)
    ]
    chosen = _chosen(narrowed, signatures, params.context)
    return {
        "signatures": signatures,
        "activeSignature": chosen,
        "activeParameter": _active(client, found[chosen].signature, narrowed.matches[chosen]),
    }


def _chosen(
    narrowed: NarrowedSignatures,
    signatures: list[dict[str, Any]],
    context: types.SignatureHelpContext | None,
) -> int:
    """The first that fits best, or one as good that is already shown, maybe by the user's wish."""
    shown = context.active_signature_help if context is not None and context.is_retrigger else None
    if shown is not None:
        number = shown.active_signature or 0
        same = [one.label for one in shown.signatures] == [one["label"] for one in signatures]
        if same and number in narrowed.best:
            return number
    return narrowed.chosen


def _information(
    client: ClientCapabilities, form: CallForm, match: SignatureMatch, call: ActiveCall
) -> dict[str, Any]:
    text, spans = signature_label(form.signature, form.name)
    if form.source and not form.signature.parameters:
        text = f"{form.name}{form.source}"
    information: dict[str, Any] = {
        "label": text,
        "parameters": [{"label": _part(client, text, start, end)} for start, end in spans],
    }
    if notes := _notes(form, call):
        information["documentation"] = (
            {"kind": "markdown", "value": notes}
            if client.signature_markdown
            else notes.replace("`", "")
        )
    if client.signature_active_parameter:
        information["activeParameter"] = _active(client, form.signature, match)
    return information


def _part(client: ClientCapabilities, text: str, start: int, end: int) -> str | list[int]:
    if not client.signature_label_offsets:
        return text[start:end]
    # Counted as everything is between this client and us.
    return [_units(text[:start], client.encoding), _units(text[:end], client.encoding)]


def _units(text: str, encoding: Encoding) -> int:
    end = Position(0, len(text.encode("utf-8", "surrogatepass")))
    return TextPositions(text).character(end, encoding)[1]


def _notes(form: CallForm, call: ActiveCall) -> str:
    signature = form.signature
    if signature.deprecated:
        instead = f" Write `{signature.instead}`." if signature.instead else ""
        return f"Deprecated.{instead}"
    name = call.subject.name
    if name is not None and name.deprecated:
        return f"Deprecated: {name.deprecated}"
    return f"`{form.source}`" if call.subject.operator is not None else ""


def _active(client: ClientCapabilities, signature: Signature, match: SignatureMatch) -> int | None:
    """Where there is none, a client that takes no null is sent behind the last parameter."""
    if match.active is not None or client.signature_no_active_parameter:
        return match.active
    return len(signature.parameters)
