"""Extract summaries, deprecations and allowed strings from torch's docstrings, and build page
URLs."""

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
"""Page names of modules whose members share one documentation page; each member of other modules
has its own page."""

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
_MAX_SENTENCE = 300


def summarize_docstring(doc: str) -> str:
    """Return the first sentence of a docstring of torch as Markdown.

    The result is empty if it has only lists or examples. Skips signatures, and converts roles of
    reStructuredText to code.
    """
    for paragraph in re.split(r"\n\s*\n", inspect.cleandoc(doc)):
        text = paragraph.strip()
        if not text or paragraph[0].isspace() or text.startswith("..") or _SIGNATURE.match(text):
            continue
        if text.startswith(_NO_PROSE) or text.partition("\n")[0].endswith("::"):
            return ""
        lines = text.splitlines()
        # Skip a signature that stands directly above the text, without an empty line.
        while len(lines) > 1 and _SIGNATURE.match(lines[0]):
            del lines[0]
        sentence = first_sentence(" ".join(lines))
        return sentence[:-1] + "." if sentence.endswith(":") else sentence
    return ""


def referenced_name(doc: str) -> str:
    """Return the path of another name, if a docstring only refers to it, as ``See torch.add`` does.

    Returns an empty string for other docstrings.
    """
    found = _REFERENCE.match(summarize_docstring(doc))
    return found.group(1) if found else ""


def documented_choices(doc: str, parameter: str) -> tuple[str, ...]:
    """Return the strings that a parameter of a function accepts, as its docstring quotes them.

    Reads the paragraph of the parameter, and examples such as ``mode="max"``. Returns an empty
    tuple if it quotes fewer than two strings, because the docstring then does not list the choices.
    """
    text = inspect.cleandoc(doc)
    name = re.escape(parameter)
    quoted = _QUOTED.findall(_parameter_paragraph(text, name))
    quoted += re.findall(
        rf"\b{name}`*(?:=| argument is )['\"]([a-z][\w-]*)['\"]", _without_examples(text)
    )
    found = tuple(dict.fromkeys(word for word in quoted if word != parameter))
    return found if len(found) > 1 else ()


def _parameter_paragraph(text: str, name: str) -> str:
    """Return the description of a parameter in a docstring; empty if it lacks one.

    Also returns an empty string if the docstring gives a type for the parameter other than ``str``.
    """
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


def _without_examples(text: str) -> str:
    """Remove the ``>>>`` lines of a docstring."""
    return "\n".join(line for line in text.split("\n") if not line.lstrip().startswith(">>>"))


def sphinx_to_markdown(text: str) -> str:
    """Convert Sphinx markup to Markdown: ``:attr:`input``` becomes `` `input` ``."""
    text = _MATHS.sub(_replace_formula, text)
    text = _ROLE.sub(r"`\1`", text).replace("``", "`").replace("`~", "`")
    return " ".join(text.split())


def _replace_formula(formula: re.Match[str]) -> str:
    """Convert a LaTeX formula, matched in a docstring, to plain characters; "…" if impossible."""
    text = plain_formula(formula.group(1))
    return f"`{text}`" if text else "…"


def first_sentence(text: str) -> str:
    """Return the first sentence of a text with Sphinx markup, as Markdown cut to 300 characters."""
    text = sphinx_to_markdown(text)
    end = _SENTENCE.search(text)
    sentence = text[: end.end()] if end else text
    return (
        sentence if len(sentence) <= _MAX_SENTENCE else sentence[: _MAX_SENTENCE - 1].rstrip() + "…"
    )


def removal_notice(text: str) -> str:
    """Return the first sentence of the message that a removed function raises, as Markdown.

    Includes the second sentence if it names a replacement.
    """
    first = first_sentence(text)
    second = first_sentence(sphinx_to_markdown(text)[len(first) :])
    return f"{first} {second}" if re.search(r"in favor of|instead", second) else first


def deprecation_sentence(path: str, doc: str) -> str:
    """Return the sentence of a docstring that says that the name at ``path`` is deprecated.

    Returns an empty string if the docstring does not say so, or only deprecates a parameter.
    """
    if "deprecated" not in doc:
        return ""
    found = _DIRECTIVE.search(inspect.cleandoc(doc))
    if found is not None:
        sentence = first_sentence(found.group(2))
        version = found.group(1)
        return sentence or (f"Deprecated since version {version}." if version else "Deprecated.")
    leaf = re.escape(path.rpartition(".")[2])
    statement = re.search(rf"`~?(?:[\w.]+\.)?{leaf}(?:\(\))?`+ (?:is|has been) deprecated", doc)
    if statement is None:
        return ""
    start = max(doc.rfind("\n\n", 0, statement.start()), doc.rfind("::", 0, statement.start()), 0)
    role = doc.rfind(":func:", start, statement.start() + 1)
    begin = role if role >= 0 else statement.start()
    return first_sentence(doc[begin:])


def documentation_url(path: str, kind: str) -> str:
    """Return the URL of the page about a name of torch; empty for constants and unlisted modules.

    ``kind`` is the kind of the name, for example ``function`` or ``module``.
    """
    if kind == "module":
        page = _MODULES.get(path)
        return f"{SITE}{page}.html" if page else ""
    if kind in _ATTRIBUTES:
        return f"{SITE}tensor_attributes.html#{_ATTRIBUTES[kind]}"
    if kind == "constant":
        return ""
    page = _PAGES.get(path.rpartition(".")[0])
    return f"{SITE}{page}.html#{path}" if page else f"{SITE}generated/{path}.html"
