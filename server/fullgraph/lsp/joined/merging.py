"""Merge the capabilities and answers of two language servers.

All values are JSON data of the Language Server Protocol, because the messages of the other server
may contain anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

ServerName = Literal["fullgraph", "other"]
"""Name of one of the two servers."""
Answers = Mapping[ServerName, Any]
"""Results of one request, by the server that answered it; None for a null result."""

_OWNER = "fullgraph.server"
"""Key in the ``data`` of items that contains the name of the server that made the item."""

_FIRST_OF: tuple[str, ...] = (
    "semanticTokensProvider",
    "notebookDocumentSync",
    "documentLinkProvider",
)
"""Capabilities that only one of the two servers can have; if the other server has it, fullgraph's
is dropped."""


def merge_capabilities(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Merge the capabilities of fullgraph, ``own``, with the capabilities of the other server.

    Both servers must use equal position encodings.
    """
    merged = {key: _merge_options(own.get(key), other.get(key)) for key in {**other, **own}}
    for key in _FIRST_OF:
        if other.get(key):
            merged[key] = other[key]
    merged["textDocumentSync"] = _merge_sync(
        own.get("textDocumentSync"), other.get("textDocumentSync")
    )
    # Servers push diagnostics: the answer to a pull would have to wait for both servers.
    merged.pop("diagnosticProvider", None)
    return merged


def _merge_options(own: Any, other: Any) -> Any:
    if not own or not other:
        return own or other
    if isinstance(own, Mapping) and isinstance(other, Mapping):
        return {key: _merge_options(own.get(key), other.get(key)) for key in {**other, **own}}
    if isinstance(own, list) and isinstance(other, list):
        return other + [item for item in own if item not in other]
    if isinstance(own, Mapping) and other is True:
        return own
    return other


def _merge_sync(own: Any, other: Any) -> dict[str, Any]:
    """Merge ``textDocumentSync``: whole texts (1) if one of the servers needs them, else edits."""
    both = [
        {"openClose": True, "change": one} if isinstance(one, int) else dict(one or {})
        for one in (own, other)
    ]
    changes = [one["change"] for one in both if one.get("change")]
    merged = _merge_options(both[0], both[1]) or {}
    return {**merged, "change": min(changes, default=0)}


def join_hovers(answers: Answers) -> Any:
    """Join the contents of hovers below each other, beginning with the other server."""
    shown = [one for one in _in_order(answers) if one]
    if len(shown) < 2:
        return shown[0] if shown else None
    parts = [_markdown(one["contents"]) for one in shown]
    return {
        "contents": {"kind": "markdown", "value": "\n\n---\n\n".join(filter(None, parts))},
        **({"range": shown[0]["range"]} if shown[0].get("range") else {}),
    }


def _markdown(contents: Any) -> str:
    if isinstance(contents, str):
        return contents
    if isinstance(contents, list):
        return "\n\n".join(map(_markdown, contents))
    if "language" in contents:
        return f"```{contents['language']}\n{contents['value']}\n```"
    value = str(contents["value"])
    return value if contents.get("kind") == "markdown" else f"```text\n{value}\n```"


def first_answer(answers: Answers) -> Any:
    """Return the answer of the other server, or fullgraph's answer if the other one is null."""
    return next((one for one in _in_order(answers) if one), None)


def join_items(answers: Answers) -> Any:
    """Join lists of items, such as code actions; each item remembers its server."""
    if all(one is None for one in answers.values()):
        return None
    return [mark_item(item, name) for name in _ORDER for item in answers.get(name) or ()]


def join_completions(answers: Answers) -> Any:
    """Join lists of completions; each item remembers its server."""
    lists = {name: _completion_list(answers[name]) for name in _ORDER if name in answers}
    if not any(lists.values()):
        return None
    return {
        "isIncomplete": any(one.get("isIncomplete", False) for one in lists.values()),
        "items": [
            mark_item(_apply_defaults(item, one.get("itemDefaults") or {}), name)
            for name, one in lists.items()
            for item in one.get("items", ())
        ],
    }


def _completion_list(answer: Any) -> Mapping[str, Any]:
    if isinstance(answer, list):
        return {"items": answer}
    return answer or {}


def _apply_defaults(item: Mapping[str, Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """Return a completion with the defaults of its list, which do not apply to the joined list."""
    own = {key: value for key, value in defaults.items() if key != "editRange"}
    place = defaults.get("editRange")
    if place and "textEdit" not in item:
        text = item.get("textEditText") or item.get("insertText") or item["label"]
        ranges = place if "insert" in place else {"range": place}
        own["textEdit"] = {"newText": text, **ranges}
    return {**own, **item}


def mark_item(item: Mapping[str, Any], name: ServerName) -> Mapping[str, Any]:
    """Store the name of its server in the data of an item, and return the item; commands do not
    have data."""
    if isinstance(item.get("command"), str):
        return item
    kept = {"data": item["data"]} if "data" in item else {}
    return {**item, "data": {_OWNER: name, **kept}}


def unmark_item(item: Mapping[str, Any]) -> tuple[ServerName, dict[str, Any]]:
    """Return the server of an item and the item as that server made it."""
    data = item.get("data")
    if not isinstance(data, Mapping) or _OWNER not in data:
        return "other", dict(item)
    bare = {key: value for key, value in item.items() if key != "data"}
    return data[_OWNER], {**bare, **({"data": data["data"]} if "data" in data else {})}


_ORDER: tuple[ServerName, ...] = ("other", "fullgraph")


def _in_order(answers: Answers) -> Sequence[Any]:
    return [answers[name] for name in _ORDER if name in answers]


JOINED: Mapping[str, tuple[str, Callable[[Answers], Any]]] = {
    "textDocument/hover": ("hoverProvider", join_hovers),
    "textDocument/completion": ("completionProvider", join_completions),
    "textDocument/codeAction": ("codeActionProvider", join_items),
    "textDocument/codeLens": ("codeLensProvider", join_items),
    "textDocument/inlayHint": ("inlayHintProvider", join_items),
    "textDocument/signatureHelp": ("signatureHelpProvider", first_answer),
}
"""Requests that both servers answer, by their method: the capability that a server needs, and the
function that joins the answers."""

RESOLVED: Mapping[str, str] = {
    "completionItem/resolve": "completionProvider",
    "codeAction/resolve": "codeActionProvider",
    "codeLens/resolve": "codeLensProvider",
    "inlayHint/resolve": "inlayHintProvider",
}
"""Capabilities whose option ``resolveProvider`` a server needs to answer a request about an item of
an earlier answer, by the method of the request."""
