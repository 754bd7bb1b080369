"""Signature help as an editor asks for it while arguments are typed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lsprotocol import types

from .operator_pages import write_index

IMPORTS = "import torch\nimport torch.nn.functional as F\n"
NET = "class Net(nn.Module):\n    call()\n"


class Asking:
    """A text with the cursor at ``|``, and what the editor is told there."""

    def __init__(self, editor: Any, text: str) -> None:
        self.editor = editor
        whole = f"{IMPORTS}{text}\n{NET}"
        self.uri = editor.open("model.py", whole.replace("|", "", 1))
        self.position = editor.position(self.uri, whole.index("|"))

    def type(self, text: str) -> None:
        whole = f"{IMPORTS}{text}\n{NET}"
        self.editor.replace(self.uri, whole.replace("|", "", 1))
        self.position = self.editor.position(self.uri, whole.index("|"))

    async def __call__(
        self, context: types.SignatureHelpContext | None = None
    ) -> types.SignatureHelp | None:
        params = types.SignatureHelpParams(
            types.TextDocumentIdentifier(self.uri), self.position, context=context
        )
        found: (
            types.SignatureHelp | None
        ) = await self.editor.client.text_document_signature_help_async(params)
        return found


@pytest.fixture
async def open_text(open_editor: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Opens a text, with the cursor at ``|``, in an editor whose engine has an operator index."""
    path = write_index(tmp_path / "operators.index")

    async def start(text: str, *, engine: str = "", **how: Any) -> Asking:
        asking = Asking(await open_editor(engine=engine or f"index={path}", **how), text)
        await asking.editor.until_state("ready")
        if not engine:
            await asking.editor.until_index(asking.uri)
        return asking

    return start


def active(found: types.SignatureHelp) -> tuple[int, str]:
    """The signature that is shown, and the text that is emphasized in it."""
    number = found.active_signature or 0
    signature = found.signatures[number]
    place = found.active_parameter
    parameters = signature.parameters or []
    if place is None or place >= len(parameters):
        return number, ""
    label = parameters[place].label
    if isinstance(label, str):
        return number, label
    return number, signature.label[label[0] : label[1]]


CASES: list[tuple[str, tuple[int, str] | None]] = [
    ("torch.max(|", (0, "input: Tensor")),
    ("torch.max(x|)", (0, "input: Tensor")),
    ("torch.max(x, |", (1, "dim: int")),
    ("torch.max(x, 1, |)", (1, "keepdim: bool = False")),
    ("torch.max(x, y := 1, |", (1, "keepdim: bool = False")),
    ("torch.max(x, other=|", (2, "other: Tensor")),
    ("torch.max(x, out=|", (0, "out: Tensor | None = None")),
    ("torch.max(f(x, 1), |", (1, "dim: int")),
    ("torch.rand(3).max(|", (1, "dim: int")),
    ("torch.rand(3).view(|", (0, "dtype: torch.dtype")),
    ("torch.rand(3).view(2, 3, |", (1, "*size: int")),
    ("torch.rand(3).view(torch.float32|", (0, "dtype: torch.dtype")),
    ("torch.rand(3).view(2, torch.float32|", (1, "*size: int")),
    ("torch.add(x, 2|", (0, "other: Tensor")),
    ("torch.add(x, 2, y|", (1, "other: Tensor")),
    ("torch.max(x, 1, True, True, |", (1, "")),
    ("F.dropout(x, |", (0, "p: float = 0.5")),
    ("F.dropout(x, inplace=|", (0, "inplace=False")),
    ("F.gelu(x, approximate='|", (0, 'approximate: "none" | "tanh" = "none"')),
    ("F.conv2d(|", (0, "input: Tensor")),
    ("torch.nn.Linear(3, |", (0, "out_features")),
    ("torch.ops.aten.max(x, |", (1, "dim: int")),
    ("torch.ops.aten.max(x, dim=|", (1, "dim: int")),
    ("torch.ops.aten.max.other(|", (0, "self: Tensor")),
    ("torch.ops.mine.scale(x, b|", (0, "by: float = 2.")),
    ("def f(:\n    y = [torch.max(x, |", (1, "dim: int")),
    ("y = '😀', torch.max(x, |", (1, "dim: int")),
    # Nothing outside of a call of torch.
    ("# torch.max(|", None),
    ("torch.max(x)|", None),
    ("f(|", None),
    ("'torch.max(|", None),
    ("torch.nothing(|", None),
    ("|", None),
]


async def test_the_signature_and_the_parameter(open_text: Any) -> None:
    ask = await open_text("|")
    for text, expected in CASES:
        ask.type(text)
        found = await ask()
        assert (text, None if found is None else active(found)) == (text, expected)


async def test_nothing_before_there_is_an_index(open_text: Any) -> None:
    assert await (await open_text("torch.max(|", engine="slow=0"))() is None


async def test_all_signatures_stay_and_deprecated_ones_are_last(open_text: Any) -> None:
    found = await (await open_text("torch.add(x, |"))()
    assert [signature.label for signature in found.signatures] == [
        "add(input: Tensor, other: Tensor) -> Tensor",
        "add(input: Tensor, alpha: Number, other: Tensor) -> Tensor",
    ]
    notes = [signature.documentation for signature in found.signatures]
    assert notes[0] is None
    assert notes[1] == types.MarkupContent(
        types.MarkupKind.Markdown, "Deprecated. Write `torch.add(input, other, alpha=alpha)`."
    )
    assert [signature.active_parameter for signature in found.signatures] == [1, 1]


async def test_operators_are_shown_by_overload_with_their_schemas(open_text: Any) -> None:
    found = await (await open_text("torch.ops.aten.max(|"))()
    assert [signature.label.partition("(")[0] for signature in found.signatures] == [
        "max.default",
        "max.dim",
        "max.other",
        "max.out",
    ]
    assert "aten::max.dim(Tensor self, int dim," in found.signatures[1].documentation.value


async def test_the_signature_that_the_user_chose_stays_while_it_fits(open_text: Any) -> None:
    ask = await open_text("torch.max(|")
    first = await ask()
    assert first.active_signature == 0
    first.active_signature = 2
    context = types.SignatureHelpContext(
        types.SignatureHelpTriggerKind.ContentChange,
        is_retrigger=True,
        active_signature_help=first,
    )
    assert (await ask(context)).active_signature == 2
    context.is_retrigger = False
    assert (await ask(context)).active_signature == 0


async def test_a_chosen_signature_that_does_not_fit_any_more_goes(open_text: Any) -> None:
    ask = await open_text("torch.max(|")
    first = await ask()
    first.active_signature = 2
    context = types.SignatureHelpContext(
        types.SignatureHelpTriggerKind.ContentChange,
        is_retrigger=True,
        active_signature_help=first,
    )
    ask.type("torch.max(x, 1|")
    assert (await ask(context)).active_signature == 1


async def test_a_client_that_knows_little_gets_all_it_needs(open_text: Any) -> None:
    def bare(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.text_document is not None
        capabilities.text_document.signature_help = types.SignatureHelpClientCapabilities()

    found = await (await open_text("torch.add(x, 2, y|", adjust=bare))()
    assert active(found) == (1, "other: Tensor")
    assert found.signatures[1].parameters[2].label == "other: Tensor"
    assert found.signatures[1].documentation == (
        "Deprecated. Write torch.add(input, other, alpha=alpha)."
    )
    assert found.signatures[1].active_parameter is None


async def test_no_parameter_is_null_where_the_client_takes_it(open_text: Any) -> None:
    def newest(capabilities: types.ClientCapabilities) -> None:
        assert capabilities.text_document is not None
        capabilities.text_document.signature_help = types.SignatureHelpClientCapabilities(
            signature_information=types.ClientSignatureInformationOptions(
                no_active_parameter_support=True
            )
        )

    text = "torch.max(x, 1, True, True, |"
    found = await (await open_text(text, adjust=newest))()
    assert found.active_parameter is None
    found = await (await open_text(text))()
    assert found.active_parameter == len(found.signatures[found.active_signature].parameters)
