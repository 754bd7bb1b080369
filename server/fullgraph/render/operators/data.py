"""Convert a documentation page to JSON data. New versions of the format only add keys."""

from __future__ import annotations

from typing import Any

from fullgraph.operators.signature_text import signature_label
from fullgraph.render.operators.aliasing import describe_aliasing
from fullgraph.render.operators.facts import schema_of
from fullgraph.render.operators.page import CalledOverload, OperatorPage
from fullgraph.render.operators.words import is_composite
from fullgraph_engine.protocol.operators import Parameter, Signature


def page_json(page: OperatorPage) -> dict[str, Any]:
    """Convert a documentation page to JSON data; None means unknown or not applicable."""
    name = page.name
    return {
        "path": page.path,
        "kind": page.kind,
        "summary": page.summary or None,
        "href": page.href or None,
        "deprecated": (name.deprecated or None) if name is not None else None,
        "alias": name.path if name is not None and name.path != page.path else None,
        "binding": (name.binding or None) if name is not None else None,
        "python": (name.python or None) if name is not None else None,
        "calls": list(name.calls) if name is not None else [],
        "names": list(dict.fromkeys(n for called in page.overloads for n in called.operator.names)),
        "facts": [
            {"text": fact.text.replace("`", ""), "alarming": fact.alarming} for fact in page.facts
        ],
        "remarks": [remark.replace("`", "") for remark in page.remarks],
        "documented": {c.parameter: list(c.values) for c in name.choices} if name else {},
        "signatures": [_signature_json(s, page.path) for s in (name.signatures if name else ())],
        "overloads": [_overload_json(called) for called in page.overloads],
    }


def _signature_json(signature: Signature, path: str) -> dict[str, Any]:
    return {
        "text": signature_label(signature, path)[0],
        "parameters": [_parameter_json(parameter) for parameter in signature.parameters],
        "returns": [{"name": r.name or None, "type": r.type} for r in signature.returns],
        "structure": signature.structure or None,
        "operator": signature.operator or None,
        "out": signature.out or None,
        "deprecated": signature.deprecated,
        "instead": signature.instead or None,
    }


def _parameter_json(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "type": parameter.type,
        "default": parameter.default or None,
        "keyword_only": parameter.keyword_only,
        "optional": parameter.optional,
        "size": parameter.size or None,
        "variadic": parameter.variadic,
        "choices": list(parameter.choices),
    }


def _overload_json(called: CalledOverload) -> dict[str, Any]:
    overload = called.overload
    schema = schema_of(overload)
    return {
        "name": called.full,
        "schema": overload.schema,
        "origin": overload.origin,
        "aliasing": describe_aliasing(schema, composite=is_composite(overload)).replace("`", "")
        if schema is not None
        else None,
        "tags": list(overload.tags),
        "kernels": list(overload.kernels),
        "fake": overload.fake,
        "decomposes": overload.decomposes,
        "differentiable": overload.differentiable,
        "derivatives": [
            {"inputs": derivative.inputs, "formula": derivative.formula}
            for derivative in overload.derivatives
        ],
        "place": overload.place or None,
    }
