"""Asks the running torch what it says of itself, by calling its bindings wrongly.

``python probe.py`` reads from standard input, as JSON: for the dotted path of each binding, the
alleged parameters of its only signature, or null where it has several. Every call has at least one
argument that the argument parser must refuse, so that nothing is executed. Standard output gets
what the errors said, the structures of ``torch.return_types`` and the operators of ``aten``.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import warnings
from typing import Any

import torch

UNKNOWN = "no_such_keyword"
MANY = 40
LONGEST = 1023
"""Characters of an error, up to torch 2.8: the rest of a longer one is cut off."""


class Wrong:
    """What no parameter takes."""


def main() -> None:
    asked = json.load(sys.stdin)
    warnings.simplefilter("ignore")
    answer = {
        "said": {path: observe(path, parameters) for path, parameters in asked.items()},
        "structures": structures(),
        "reduces": torch.kl_div(torch.ones(3), torch.ones(3)).dim() == 0,
        "autograd": {
            name: torch._C._dispatch_has_kernel_for_dispatch_key(name, "Autograd")
            for name in torch._C._dispatch_get_all_op_names()
            if name.startswith("aten::")
        },
    }
    json.dump(answer, sys.stdout)


def structures() -> dict[str, list[str]]:
    """The names of the fields of all structures, in their order."""
    found = {}
    for name in dir(torch.return_types):
        kind = getattr(torch.return_types, name)
        if getattr(kind, "__name__", "") == name and hasattr(kind, "n_sequence_fields"):
            fields = re.findall(r"(\w+)=", repr(kind(range(kind.n_sequence_fields))))
            found[name] = fields
    return found


def observe(path: str, parameters: list[dict[str, Any]] | None) -> dict[str, Any]:
    """``listed``: the signatures in an error, the last ones missing if it was ``cut``; else
    ``faults``: what errors said against ours.

    ``variadic``: whether separate arguments were taken for one list of ints.
    """
    function: Any
    try:
        function = functools.reduce(getattr, path.split(".")[1:], torch)
    except AttributeError:
        return {"missing": True}
    receiver = [torch.ones(2)] if path.startswith("torch._C.TensorBase.") else []

    def call(*args: Any, **kwargs: Any) -> str:
        try:
            result = function(*receiver, *args, **kwargs)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "NotImplemented" if result is NotImplemented else "executed"

    wrong = Wrong()
    needed = {
        p["name"]: valid(p["type"])
        for p in parameters or ()
        if p["keyword_only"] and not p["default"]
    }
    said: dict[str, Any] = {"variadic": is_variadic(call(1, wrong, **needed))}
    attempts: list[tuple[list[Any], dict[str, Any]]] = [
        ([], {UNKNOWN: 1}),
        ([wrong] * MANY, {}),
        ([wrong], {}),
        ([wrong] * 2, {}),
        ([torch.ones(2), *[wrong] * MANY], {}),
    ]
    for args, kwargs in attempts:
        message = call(*args, **kwargs)
        listed = signatures(message)
        if listed:
            cut = len(message.partition(": ")[2]) == LONGEST
            return said | {"listed": listed, "cut": cut}
    if parameters is None:
        return said | {"silent": call(**{UNKNOWN: 1})}
    return said | {"faults": faults(call, parameters)}


def is_variadic(message: str) -> bool:
    """A list of ints took both arguments, and found the second to be none."""
    return "failed to unpack the object at pos 2" in message or "type Wrong at pos 1" in message


def signatures(message: str) -> list[str]:
    """The signatures that an error lists; deprecated ones are never among them."""
    found = re.findall(r"^ \* (\(.*\))$", message, re.MULTILINE)
    single = re.search(r"but expected (\(.*\))$", message.strip())
    return found or ([single.group(1)] if single else [])


def faults(call: Any, parameters: list[dict[str, Any]]) -> list[str]:
    """Give each parameter of the only signature a wrong argument by name.

    The parser checks arguments in order, so the error must name this very parameter and its type,
    if all that stands before it is as we say.
    """
    found = []
    given: dict[str, Any] = {}
    for parameter in parameters:
        name, type_ = parameter["name"], parameter["type"]
        message = call(**given, **{name: Wrong()})
        refused = re.search(
            r"argument '(\w+)'(?: \(position \d+\))? must be (.+?), (?:not|but)", message
        )
        if refused is None or refused.groups() != (name, type_):
            found.append(f"{name}: {message}")
        if not parameter["default"]:
            given[name] = valid(type_)
    required = [p["name"] for p in parameters if not p["default"]]
    positional = [p for p in parameters if not p["keyword_only"]]
    message = call(*[valid(p["type"]) for p in positional], Wrong())
    if not parameters:
        counted = "takes no arguments" in message or "takes 0 positional" in message
    elif positional and positional[0]["variadic"]:
        counted = True  # There is no count: all that is given goes into the list.
    else:
        many = re.search(r"takes (?:from (\d+) to )?(\d+) positional argument", message)
        most = len(positional)
        counted = many is not None and many.groups() == (
            str(len(required)) if len(required) != most else None,
            str(most),
        )
    if not counted:
        found.append(f"count: {message}")
    if re.findall(r'"(\w+)"', call(**{UNKNOWN: 1})) != required:
        found.append(f"required: {call(**{UNKNOWN: 1})}")
    message = call(**given, **{UNKNOWN: 1})
    if "unexpected keyword" not in message and "no keyword arguments" not in message:
        found.append(f"unknown keyword: {message}")
    return found


def valid(type_: str) -> Any:
    """What a parameter of a type takes."""
    values: dict[str, Any] = {
        "Tensor": torch.ones(2),
        "Number": 1,
        "int": 1,
        "float": 1.0,
        "bool": True,
        "str": "",
        "object": 1,
        "tuple of ints": (1, 1),
        "tuple of floats": (1.0,),
        "tuple of Scalars": (1.0,),
        "tuple of names": ("a",),
        "tuple of Tensors": (torch.ones(2),),
        "torch.dtype": torch.float32,
        "torch.layout": torch.strided,
        "torch.device": "cpu",
        "torch.memory_format": torch.contiguous_format,
        "torch.Generator": torch.Generator(),
    }
    return values.get(type_)


if __name__ == "__main__":
    main()
