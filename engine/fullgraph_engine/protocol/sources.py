"""Translation of Dynamo's names of values and conditions into the user's words, from text to text.

``L['self']._modules['blocks']._modules['2'].training`` becomes ``self.blocks[2].training``.
"""

from __future__ import annotations

import re

_ROOT = re.compile(r"\b[LG]\['(\w+)'\]")
_BUILTIN = re.compile(r"G\['__builtins_dict__\w*'\]\['(\w+)'\]")
_IMPORTED = re.compile(r"G\['__import_(\w+)'\]")
_MEMBER = re.compile(r"\._(?:modules|parameters|buffers)\['([^'\]]+)'\]")
_ATTRIBUTE = re.compile(r"\.__dict__\['([^\W\d]\w*)'\]")
_SIZE = re.compile(r"\.size\(\)\[(\d+)\]")
_STACK = re.compile(r"\b___stack\d+(?:\[\d+\])*")

_TYPE = re.compile(r"^___check_type_id\((?P<of>.*), \d+\)(?:, type=<class '(?P<type>.*)'>)?$")
_IDENTITY = re.compile(r"^___check_obj_id\((?P<of>.*?), \d+\)(?:, type=(?P<value>.*))?$", re.DOTALL)
_CLASS = re.compile(r"<class '(.*)'>|<(.*)>")
_ADDRESS = re.compile(r' at 0x[0-9a-fA-F]+(?:, file "[^"]*", line \d+)?')
_LONGEST_VALUE = 60
_KEY = re.compile(r"^(?P<no>not )?___dict_contains\((?P<key>'.*?'|\w+), (?P<of>.*)\)$")
_TENSOR = re.compile(
    r"^check_tensor\((?P<of>.*?), (?P<type>\w+), DispatchKeySet\(.*?\), "
    r"(?:torch\.)?(?P<dtype>\w+), device=(?P<device>\w+), "
    r"requires_grad=(?P<grad>\w+), size=(?P<size>\[.*?\]), stride=(?P<stride>\[.*?\])\)$"
)


def in_user_words(source: str) -> str:
    """Translate Dynamo's expression of a value into the user's words: ``L['x'].size()[0]`` is
    ``x.shape[0]``."""
    words = _BUILTIN.sub(r"\1", source)
    words = _IMPORTED.sub(lambda match: match[1].replace("_dot_", "."), words)
    words = _ROOT.sub(r"\1", words)
    words = _MEMBER.sub(_format_member, words)
    words = _ATTRIBUTE.sub(r".\1", words)
    words = _SIZE.sub(r".shape[\1]", words)
    # Values that a graph break left on Python's stack do not have a name in the program.
    return _STACK.sub("(…)", words)


def _format_member(match: re.Match[str]) -> str:
    name = match[1]
    if name.isdigit():
        return f"[{name}]"
    return f".{name}" if name.isidentifier() else f".get_submodule({name!r})"


def condition_in_user_words(expression: str) -> str:
    """Translate the condition of a guard into the user's words; object ids, which are valid in only
    one process, are removed."""
    expression = without_addresses(expression)
    if (match := _TYPE.match(expression)) is not None:
        return f"type({in_user_words(match['of'])}) is {match['type'] or 'the same'}"
    if (match := _IDENTITY.match(expression)) is not None:
        value = f" ({_shorten_value(match['value'])})" if match["value"] else ""
        return f"{in_user_words(match['of'])} is the same object{value}"
    if (match := _KEY.match(expression)) is not None:
        relation = "not in" if match["no"] else "in"
        return f"{match['key']} {relation} {in_user_words(match['of'])}"
    if (match := _TENSOR.match(expression)) is not None:
        sizes = match["size"].replace("None", "any")
        strides = match["stride"].replace("None", "any")
        return (
            f"{in_user_words(match['of'])} is a {match['type']}: {match['dtype']}{sizes}, "
            f"stride {strides}, requires_grad={match['grad']}, device index {match['device']}"
        )
    return in_user_words(expression)


def _shorten_value(words: str) -> str:
    """Shorten a value in Dynamo's text to a maximum length. If the text is the representation of a
    class, return the name of the class."""
    words = " ".join(words.split())
    if (match := _CLASS.fullmatch(words)) is not None:
        words = match[1] or match[2]
    return words if len(words) <= _LONGEST_VALUE else words[: _LONGEST_VALUE - 1] + "…"


def without_addresses(words: str) -> str:
    """Return a text without the memory addresses of objects: ``<function f at 0x7f…>`` becomes
    ``<function f>``."""
    return _ADDRESS.sub("", words)


def source_root(source: str) -> tuple[str, str]:
    """Return the scope and the name of the variable at the beginning of Dynamo's name of a value.

    The scope is ``local``, ``global``, or empty if the name does not begin with a variable of the
    user. For ``L['x'].size()[0]``, they are ``local`` and ``x``.
    """
    match = re.match(r"(?P<scope>[LG])\['(?P<name>\w+)'\]", source)
    if match is None or match["name"].startswith(("__builtins_dict__", "__import_", "___")):
        return "", ""
    return ("local" if match["scope"] == "L" else "global"), match["name"]
