"""What docstrings of torch say, in one sentence, and where the page of a name is."""

from __future__ import annotations

import inspect
import re

from .formulas import plain_formula

SITE = "https://docs.pytorch.org/docs/stable/"

_PAGES = {
    "torch.special": "special",
    "torch.nested": "nested",
    "torch.nn.init": "nn.init",
    "torch.library": "library",
    "torch.utils.checkpoint": "checkpoint",
    "torch.utils.data": "data",
    "torch.distributions": "distributions",
    "torch.random": "random",
    "torch.testing": "testing",
    "torch.amp": "amp",
}
"""Modules whose members are all on one page; those of the others have a page each."""

_MODULES = {
    "torch": "torch",
    "torch.amp": "amp",
    "torch.autograd": "autograd",
    "torch.compiler": "torch.compiler",
    "torch.cuda": "cuda",
    "torch.fft": "fft",
    "torch.func": "func",
    "torch.linalg": "linalg",
    "torch.nn": "nn",
    "torch.nn.functional": "nn.functional",
    "torch.nn.attention": "nn.attention",
    "torch.optim": "optim",
    "torch.signal": "signal",
    "torch.sparse": "sparse",
    **_PAGES,
}
_ATTRIBUTES = {
    "dtype": "torch.dtype",
    "layout": "torch.layout",
    "memory_format": "torch.memory_format",
}

_ROLE = re.compile(r":(?:[a-z]+:)?[a-z]+:`~?([^`<]*?)(?:\s*<[^`>]*>)?`")
_SIGNATURE = re.compile(r"^[\w.]+\(.*?\)(?:\s*->[^\n]*)?\s*$", re.S)
_SENTENCE = re.compile(r"(?<!e\.g)(?<!i\.e)(?<!etc)(?<!vs)[.!?](?=\s|$)")
_MATHS = re.compile(r":math:`([^`]*)`")
_REFERENCE = re.compile(r"See `?(torch\.[\w.]+?)(?:\(\))?`?\.?$")
_QUOTED = re.compile(r"['\"]([a-z][\w-]*)['\"]")
_DIRECTIVE = re.compile(r"^\.\. deprecated::[ \t]*(\S*)[ \t]*\n?((?:[ \t]+\S[^\n]*\n?)*)", re.M)
_NO_PROSE = ("=", "-", "*", ">>>", "::", "Args:", "Example", "Keyword", "Returns:")
_LONGEST = 300


def summary(doc: str) -> str:
    """The first sentence that is no signature, with roles of reStructuredText as code."""
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        text = paragraph.strip()
        if not text or paragraph[0].isspace() or text.startswith("..") or _SIGNATURE.match(text):
            continue
        if text.startswith(_NO_PROSE) or text.partition("\n")[0].endswith("::"):
            return ""
        lines = text.splitlines()
        # A signature directly above the text, without an empty line between them.
        while len(lines) > 1 and _SIGNATURE.match(lines[0]):
            del lines[0]
        sentence = first_sentence(" ".join(lines))
        return sentence[:-1] + "." if sentence.endswith(":") else sentence
    return ""


def referred(doc: str) -> str:
    """The path of the name that a docstring does no more than point at; empty if it says more."""
    found = _REFERENCE.match(summary(doc))
    return found.group(1) if found else ""


def choices(doc: str, parameter: str) -> tuple[str, ...]:
    """The strings that a parameter takes, where its documentation quotes them.

    Looks at the paragraph of the parameter and at places such as ``mode="max"``. None are better
    than some: with fewer than two the text does not enumerate them.
    """
    text = inspect.cleandoc(doc)
    name = re.escape(parameter)
    quoted = _QUOTED.findall(_paragraph(text, name))
    quoted += re.findall(rf"\b{name}`*(?:=| argument is )['\"]([a-z][\w-]*)['\"]", _prose(text))
    found = tuple(dict.fromkeys(word for word in quoted if word != parameter))
    return found if len(found) > 1 else ()


def _paragraph(text: str, name: str) -> str:
    """What a docstring says below and behind the name of a parameter."""
    start = re.search(rf"^([ \t]*){name}\s*[:(]", text, re.MULTILINE)
    if start is None:
        return ""
    type_ = re.match(r"[^)\n]*\)", text[start.end() :]) if start.group().endswith("(") else None
    if type_ is not None and not re.search(r"str|['\"]", type_.group()):
        return ""
    indent = len(start.group(1))
    lines = text[start.end() :].split("\n")
    taken = lines[:1]
    for line in lines[1:]:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        taken.append(line)
    return "\n".join(taken)


def _prose(text: str) -> str:
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(">>>"))


def plain(text: str) -> str:
    """Markup of Sphinx as Markdown: ``:attr:`input``` is `` `input` ``."""
    text = _MATHS.sub(_spoken, text)
    text = _ROLE.sub(r"`\1`", text).replace("``", "`").replace("`~", "`")
    return " ".join(text.split())


def _spoken(formula: re.Match[str]) -> str:
    """A formula of LaTeX as plain characters; one that has no such form is left out."""
    text = plain_formula(formula.group(1))
    return f"`{text}`" if text else "…"


def first_sentence(text: str) -> str:
    """The first sentence of a docstring as Markdown, cut to 300 characters."""
    text = plain(text)
    end = _SENTENCE.search(text)
    sentence = text[: end.end()] if end else text
    return sentence if len(sentence) <= _LONGEST else sentence[: _LONGEST - 1].rstrip() + "…"


def refusal(text: str) -> str:
    """The sentence that says that a function is no more, and the next one if it names another."""
    first = first_sentence(text)
    second = first_sentence(plain(text)[len(first) :])
    return f"{first} {second}" if re.search(r"in favor of|instead", second) else first


def deprecation(path: str, doc: str) -> str:
    """The sentence with which a docstring says that all of a name is deprecated."""
    if "deprecated" not in doc:
        return ""
    found = _DIRECTIVE.search(inspect.cleandoc(doc))
    if found is not None:
        words = first_sentence(found.group(2))
        version = found.group(1)
        return words or (f"Deprecated since version {version}." if version else "Deprecated.")
    leaf = re.escape(path.rpartition(".")[2])
    said = re.search(rf"`~?(?:[\w.]+\.)?{leaf}(?:\(\))?`+ (?:is|has been) deprecated", doc)
    if said is None:
        return ""
    start = max(doc.rfind("\n\n", 0, said.start()), doc.rfind("::", 0, said.start()), 0)
    role = doc.rfind(":func:", start, said.start() + 1)
    begin = role if role >= 0 else said.start()
    return first_sentence(doc[begin:])


def href(path: str, kind: str) -> str:
    """The page of a documented name."""
    if kind == "module":
        page = _MODULES.get(path)
        return f"{SITE}{page}.html" if page else ""
    if kind in _ATTRIBUTES:
        return f"{SITE}tensor_attributes.html#{_ATTRIBUTES[kind]}"
    if kind == "constant":
        return ""
    page = _PAGES.get(path.rpartition(".")[0])
    return f"{SITE}{page}.html#{path}" if page else f"{SITE}generated/{path}.html"
