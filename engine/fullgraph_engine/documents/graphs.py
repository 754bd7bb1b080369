"""Documents about captured graphs: Python code with the source lines of the operators."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from typing import Any

from ..protocol import Frame
from ..protocol.sources import in_user_words
from ..torch_internals.shapes import name_of_source
from ..tracing.recording import Graph
from .places import PlaceFormatter

_CLASS = re.compile(r"class (?:GraphModule|<lambda>)\(torch\.nn\.Module\):$")
_DEF = re.compile(r"(?P<indent> *)def forward\(self(?:, )?(?P<parameters>.*)\)(?P<rest>.*:)$")
_PARAMETER = re.compile(r"(?P<name>\*?\w+)(?P<type>: \"[^\"]*\"| : \S+)?(?:, |$)")
_BINDING = re.compile(r" +(?P<node>\w+) = (?P<parameter>\w+)$")
_PLACE = re.compile(
    r"(?P<indent> *)# File: (?P<path>.+?):(?P<line>\d+) in (?P<function>.+?), code:"
)
_NODE = re.compile(r"(?:^ *|;  )(?P<name>\w+)(?:: \"[^\"]*\")? = ")
_FREED = re.compile(r";  (?:\w+ = )+None$")
"""Pattern of the assignments of None that the FX code generator adds to free memory early."""


def graph_code(number: int, graph: Graph, module: Any, places: PlaceFormatter) -> str:
    """Return the code of a captured graph, as ``print_readable`` prints it but with less detail.

    Each input is on its own line, with a comment on its source. The operators of a line of the
    user's file are below that line. ``number`` is the number of the graph, ``module`` its
    ``GraphModule``, and ``places`` formats the names of files and lines.
    """
    lines = module.print_readable(print_output=False).strip("\n").split("\n")
    origins = {
        node.name: in_user_words(name_of_source(node.meta["grapharg"].source))
        for node in module.graph.nodes
        if node.op == "placeholder" and getattr(node.meta.get("grapharg"), "source", None)
    }
    stacks = {op.name: op.stack for op in graph.ops}
    return "\n".join(_rewrite_lines(number, lines, origins, stacks, places)) + "\n"


def _rewrite_lines(
    number: int,
    lines: list[str],
    origins: Mapping[str, str],
    stacks: Mapping[str, tuple[Frame, ...]],
    places: PlaceFormatter,
) -> Iterator[str]:
    index, last = 0, ""
    while index < len(lines):
        line = lines[index].rstrip()
        index += 1
        if _CLASS.match(line):
            yield f"class Graph{number}(torch.nn.Module):"
        elif (header := _DEF.match(line)) is not None:
            bindings = list(itertools.takewhile(None.__ne__, map(_BINDING.match, lines[index:])))
            nodes = {found["parameter"]: found["node"] for found in bindings if found is not None}
            signature = _format_signature(
                header, nodes, origins if header["indent"] == "    " else {}
            )
            index += len(nodes) if signature else 0
            yield from signature or [line]
            last = ""
            if signature and index < len(lines) and not lines[index].strip():
                index += 1
        elif (place := _PLACE.match(line)) is not None:
            following = _NODE.search(lines[index]) if index < len(lines) else None
            own = following is not None and place["indent"] == " " * 8
            stack = stacks.get(following["name"], ()) if own and following is not None else ()
            last = f"{place['indent']}# {_describe_place(place, line, stack, places)}"
            yield last
        elif line or last:
            # Drop blank lines before the first comment with a source line.
            yield _FREED.sub("", line)


def _describe_place(
    place: re.Match[str], line: str, stack: tuple[Frame, ...], places: PlaceFormatter
) -> str:
    there = Frame(place["path"], place["function"], int(place["line"]) - 1)
    here = places.innermost_frame(stack)
    code = line[place.end() :].strip()
    if here is None or here.path != places.path or there.path == places.path:
        return places.describe_line(Frame(there.path, there.function, there.line, text=code))
    return f"{places.describe_line(here)}  ({places.describe_line(there)})"


def _format_signature(
    header: re.Match[str], nodes: Mapping[str, str], origins: Mapping[str, str]
) -> list[str]:
    """Return the lines of a graph's ``forward`` signature, with one parameter per line, named as
    its graph node.

    ``header`` is the match of the ``def`` line. ``nodes`` maps parameter names to node names, and
    ``origins`` maps them to comments on their sources. Return an empty list if the header cannot be
    parsed.
    """
    written = header["parameters"]
    found = list(_PARAMETER.finditer(written))
    if "".join(match[0] for match in found) != written:
        return []
    indent = header["indent"]
    if not written:
        return [header[0]]
    names = [nodes.get(match["name"], match["name"]) for match in found]
    parameters = [
        f"{indent}    {name}{match['type'] or ''},"
        for name, match in zip(names, found, strict=True)
    ]
    width = min(72, max(map(len, parameters)))
    commented = [
        f"{parameter:<{width}}  # {origins[name]}" if name in origins else parameter
        for name, parameter in zip(names, parameters, strict=True)
    ]
    return [f"{indent}def forward(", f"{indent}    self,", *commented, f"{indent}){header['rest']}"]
