"""Inside of probe comments: what may come next, what a word means, and its color."""

from __future__ import annotations

from typing import Any

import pytest
from lsprotocol import types

from fullgraph.domain.positions import TextPositions
from fullgraph.probes import ProbeComment, comment_on, complete_probe, probe_tokens, scope_at
from fullgraph.probes.meaning import explain_word

TEXT = """\
from dataclasses import dataclass
from things import Helper, helper

@dataclass
class Config:
    layers: int = 2

# fullgraph: init(Config(layers=2)) f32[b=4, 16], mask=b8[b]
# fullgraph:
class Net(nn.Module):
    def __init__(self, config: Config, *, bias=True): ...
    def forward(self, x: "i64[t, 16]", mask=None): ...

# fullgraph:
def f(x, scale: float = 2.0): ...
"""
LINES = TextPositions(TEXT)
OF_NET, OF_F = 8, 13


def offered(line: int, written: str) -> list[str]:
    comment = ProbeComment(line, 13, written)
    found = complete_probe(comment, len(written), scope_at(TEXT, LINES, line))
    return [one.label for one in found.items]


def test_the_kinds_of_words() -> None:
    text = "init(16) f32[b=4, 16], mask=b8[b]@cuda, Config(layers='a', k=[f32[3], 2.5], n=None) #"
    assert [(one.kind, one.text) for one in probe_tokens(text) if one.kind != "operator"] == [
        ("method", "init"),
        ("number", "16"),
        ("dtype", "f32"),
        ("size", "b"),
        ("number", "4"),
        ("number", "16"),
        ("parameter", "mask"),
        ("dtype", "b8"),
        ("size", "b"),
        ("device", "cuda"),
        ("class", "Config"),
        ("parameter", "layers"),
        ("string", "'a'"),
        ("parameter", "k"),
        ("dtype", "f32"),
        ("number", "3"),
        ("number", "2.5"),
        ("parameter", "n"),
        ("constant", "None"),
    ]
    assert [one.kind for one in probe_tokens("off")] == ["directive"]


def test_at_the_beginning() -> None:
    first = offered(OF_NET, "")
    assert first[:5] == ["init", "forward", "x=", "mask=", "f32"]
    assert first[-1] == "off" and "Config" in first and "Helper" in first
    assert "Net" not in first and "helper" not in first
    assert offered(OF_F, "")[:3] == ["x=", "scale=", "f32"]


def test_inside_of_calls() -> None:
    assert offered(OF_NET, "init(")[:3] == ["config=", "bias=", "Config"]
    assert offered(OF_NET, "init(Config(")[0] == "layers="
    assert offered(OF_NET, "init(config=Co")[0] == "Config"
    assert offered(OF_NET, "init(Config()) ")[:1] == ["forward"]
    assert offered(OF_NET, "forward(f32[4], ")[:2] == ["x=", "mask="]
    # What is given already is not offered again.
    assert "x=" not in offered(OF_NET, "x=f32[4], ")


def test_sizes_and_devices() -> None:
    assert offered(OF_NET, "f32[") == ["b", "16", "t"]
    assert offered(OF_NET, "f32[b, ") == ["b", "16", "t"]
    assert offered(OF_NET, "f32[4]@")[:2] == ["cpu", "cuda"]
    assert offered(OF_NET, "f32[4] ") == ["under", "then"]


def test_what_words_mean() -> None:
    comment = comment_on(LINES, 7)
    assert comment is not None
    scope = scope_at(TEXT, LINES, 7)
    said = {one.text: explain_word(comment.text, one, scope) for one in probe_tokens(comment.text)}
    assert said["f32"].startswith("`f32[…]`: a tensor of `torch.float32`")
    assert said["b"].endswith("It is 4 in the trace.")
    assert said["Config"].startswith("`Config(layers)`: an object of a class")
    assert said["init"] == "`init(…)`: the arguments of the constructor."
    assert said["16"] == ""


def test_a_text_that_does_not_parse_still_has_sizes() -> None:
    text = TEXT + "def broken("
    scope = scope_at(text, TextPositions(text), OF_F)
    assert scope.definition is None and scope.sizes == ("b", "16", "t")


# -- as an editor asks ---------------------------------------------------------------------------

COMMENTED = "# é fullgraph: no\n# fullgraph: Net(f32[b=4, 16])\nclass Net(nn.Module):\n    pass\n"


async def test_completion_in_a_comment(editor: Any) -> None:
    uri = editor.open("model.py", "x = 1\n# fullgraph: f\ndef f(x, mask): pass\n")

    async def ask(line: int, character: int, trigger: str = "") -> list[types.CompletionItem]:
        context = types.CompletionContext(
            types.CompletionTriggerKind.TriggerCharacter
            if trigger
            else types.CompletionTriggerKind.Invoked,
            trigger or None,
        )
        params = types.CompletionParams(
            types.TextDocumentIdentifier(uri), types.Position(line, character), context
        )
        found = await editor.client.text_document_completion_async(params)
        return list(found.items)

    items = await ask(1, 14)
    assert [item.label for item in items[:3]] == ["x=", "mask=", "f32"]
    edit = items[2].text_edit
    assert isinstance(edit, types.TextEdit)
    assert (editor.at(uri, edit.range), edit.new_text) == ("f", "f32")
    # A blank in code asks nothing of anybody.
    assert await ask(0, 2, " ") == []
    assert set(" [@(") <= set(editor.offers.completion_provider.trigger_characters)


async def test_a_hover_says_what_was_traced(editor: Any) -> None:
    uri = editor.open("model.py", COMMENTED)
    await editor.until_state("ready")
    await editor.command("fullgraph.server.analyze", uri)
    hover = await editor.hover(uri, "Net(f", "32[b=4")
    assert "torch.float32" in hover.contents.value
    assert "**Net**: 1 graph" in hover.contents.value
    assert editor.at(uri, hover.range) == "f32"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
async def test_colors(open_editor: Any, encoding: str) -> None:
    editor = await open_editor(name="neovim", encoding=encoding)
    uri = editor.open("model.py", COMMENTED.replace("Net(f32", "é=1, Net(f32"))
    legend = editor.offers.semantic_tokens_provider.legend.token_types
    params = types.SemanticTokensParams(types.TextDocumentIdentifier(uri))
    found = await editor.client.text_document_semantic_tokens_full_async(params)
    line = start = 0
    colored = []
    for at in range(0, len(found.data), 5):
        moved, right, length, kind, _ = found.data[at : at + 5]
        line, start = line + moved, right if moved else start + right
        place = types.Range(types.Position(line, start), types.Position(line, start + length))
        colored.append((editor.at(uri, place), legend[kind]))
    assert colored == [
        ("é", "parameter"),
        ("1", "number"),
        ("Net", "class"),
        ("f32", "type"),
        ("b", "variable"),
        ("4", "number"),
        ("16", "number"),
    ]


def test_words_of_a_context_and_of_tensors() -> None:
    text = "f32[4](requires_grad, mark_dynamic=0) "
    text += "under(no_grad, autocast=bf16, config.x=True) then f()"
    found = [(one.kind, one.text) for one in probe_tokens(text) if one.kind != "operator"]
    assert found == [
        ("dtype", "f32"),
        ("number", "4"),
        ("constant", "requires_grad"),
        ("parameter", "mark_dynamic"),
        ("number", "0"),
        ("directive", "under"),
        ("constant", "no_grad"),
        ("parameter", "autocast"),
        ("dtype", "bf16"),
        ("parameter", "config.x"),
        ("constant", "True"),
        ("directive", "then"),
        ("method", "f"),
    ]
    known = {one.text: one for one in probe_tokens(text)}
    scope = scope_at(TEXT, LINES, OF_F)
    said = {
        word: explain_word(text, known[word], scope) for word in ("under", "no_grad", "config.x")
    }
    assert "`torch.no_grad()`" in said["no_grad"]
    assert "`torch._dynamo.config.x`" in said["config.x"] and "modes" in said["under"]


def test_what_may_stand_behind_a_call() -> None:
    assert offered(OF_F, "f32[4] ") == ["under", "then"]
    assert offered(OF_NET, "init(Config()) ") == ["forward", "under"]
    assert offered(OF_NET, "init(Config()) forward(f32[4]) ") == ["under", "then"]
    assert offered(OF_NET, "forward(f32[4]) then ")[:2] == ["forward", "f32"]
    assert offered(OF_F, "f32[4] under(")[:5] == [
        "no_grad",
        "inference_mode",
        "eval",
        "train",
        "autocast=",
    ]
    assert "config." in offered(OF_F, "f32[4] under(eval, ")
    assert offered(OF_F, "f32[4] under(stance=")[:2] == ["default", "force_eager"]
    assert offered(OF_F, "f32[4] under(autocast=")[:2] == ["bf16", "f16"]
    assert offered(OF_F, "f32[4](")[:3] == ["requires_grad", "grad_fn", "mark_dynamic="]
