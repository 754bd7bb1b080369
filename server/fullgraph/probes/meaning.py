"""Explain the words of a probe (a description of example inputs) in Markdown."""

from __future__ import annotations

from fullgraph.probes.scope import ProbeScope
from fullgraph.probes.tokens import ALIASES, DTYPES, ProbeToken, probe_tokens
from fullgraph_engine.protocol import contexts

_WORDS = {**contexts.WORDS, **contexts.KEYS, **contexts.GRADS, **contexts.MARKS}


def explain_word(text: str, token: ProbeToken, scope: ProbeScope) -> str:
    """Explain a word of a probe (a description of example inputs) in Markdown.

    ``text`` is the whole probe, ``token`` the word in it. The result is empty if the word explains
    itself.
    """
    word = token.text
    if token.kind == "dtype":
        name = ALIASES.get(word, word)
        return f"`{word}[…]`: a tensor of `torch.{DTYPES[name]}`, of the sizes in the brackets."
    if token.kind == "size":
        hint = _size_hint(text, word)
        run = (
            f" It is {hint} in the trace." if hint else " fullgraph chooses a small number for it."
        )
        return f"`{word}`: a symbolic size; all sizes with this name are equal.{run}"
    if token.kind == "device":
        return (
            f"`@{word}`: the device of the tensor. Fake tensors can be traced for a device that "
            "this machine does not have."
        )
    if token.kind == "method":
        called = "constructor" if word == "init" else f"method `{word}`"
        return f"`{word}(…)`: the arguments of the {called}."
    if token.kind == "directive" and word == "under":
        return "`under(…)`: the modes and settings for the call before `under`."
    if token.kind == "directive" and word == "then":
        return "`then`: another call of the same object, after the call before `then`."
    if word in _WORDS and token.kind in ("constant", "parameter"):
        return f"`{word}`: {_WORDS[word]}."
    if token.kind == "parameter" and word.startswith(contexts.CONFIG):
        return f"`{word}`: the value of `torch._dynamo.{word}` during the call."
    if token.kind == "directive":
        if word == "off":
            return "`off`: the code below is not traced."
        return "`ignore[CODE]` at the end of a line hides the findings of that line."
    if token.kind == "class":
        known = next((one for one in scope.classes if one.name == word), None)
        fields = ", ".join(one.name for one in known.parameters) if known is not None else ""
        return (
            f"`{word}({fields or '…'})`: an object of a class in this file, created before "
            "the trace."
        )
    if token.kind == "parameter":
        return f"`{word}=`: a keyword argument."
    return ""


def _size_hint(text: str, name: str) -> str:
    read = probe_tokens(text)
    for first, middle, last in zip(read, read[1:], read[2:], strict=False):
        if (first.text, middle.text, last.kind) == (name, "=", "number"):
            return last.text
    return ""
