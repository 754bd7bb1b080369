"""What to tell someone whose target has no probe: a first guess of one.

The guess is read from the constructor's defaults, the layers that it makes and what ``forward``
does first with each input. It chooses what to trace, never what is reported; it need not be right,
only close enough to edit.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from typing import Any

from ..protocol import Finding, Fix, Position, Range, TextEdit
from . import notation
from .annotations import Parameter
from .discovery import Target
from .layers import IMAGE, Layers
from .notation import Arguments, Constant, Fixed, Notation, Reference, Symbol, TensorText, Value
from .source import Source, byte_lines, read

_INTEGERS: tuple[tuple[str, int], ...] = (
    (r"(in|input)_?(ch|chans?|channels?)|channels?|c_in|in_c|inc|nc", 3),
    (r"(out|output)_?(ch|chans?|channels?)|c_out|planes|filters|n_filters|width|ngf|ndf|nf", 16),
    (r"(num|n)_?(classes|labels|outputs?|actions)|classes|n_?cls", 10),
    (r"(n_?)?vocab(_?size)?|num_(tokens|embeddings)|n_?tokens?|ntokens?|voc_size", 1000),
    (r"(n|num)_?(heads?|attention_heads)|heads|n_?kv_?heads?", 4),
    (r"(n|num)_?(layers?|blocks?|hidden_layers|encoder_layers|decoder_layers)|depth|layers", 2),
    (r"kernel(_size)?|k(size)?|window(_size)?", 3),
    (r"strides?|dilation|groups|scale", 1),
    (r"padding|pad", 1),
    (
        r"(max_?)?(seq_?len(gth)?|len(gth)?|positions?|position_embeddings)|block_size|ctx_?len|t",
        32,
    ),
    (r"(img|image|input)_?(size|res(olution)?)|resolution", 32),
    (r"patch_?size", 8),
    (r"(n|num)_?experts|top_?k|k", 2),
    (r"batch(_size)?|b", 4),
)
_FLOATS = r"p|.*drop.*|.*_?rate|lr|eps|epsilon|alpha|beta|gamma|momentum|temperature|.*_prob"
_ACTIVATIONS = r"(act|activation|act_layer|act_fn|nonlinearity|norm_layer|norm)"
_DIMENSION = 16


def missing_probe(target: Target, namespace: AnyMapping[str, Any] | None, text: str) -> Finding:
    """The finding for a target without a probe, with an edit that writes a first guess."""
    source = read(text)
    guess = suggest(target, source, namespace)
    comment = f"# fullgraph: {guess}"
    line = target.body.start.line
    start = Position(line, 0)
    encoded = byte_lines(text)
    raw = encoded[line] if line < len(encoded) else b""
    indent = raw[: len(raw) - len(raw.lstrip())].decode()
    newline = "\r\n" if text.partition("\n")[0].endswith("\r") else "\n"

    def insert(words: str) -> tuple[TextEdit, ...]:
        return (TextEdit(Range(start, start), f"{indent}{words}{newline}"),)

    return Finding(
        code="probe/missing",
        message=f"{target.name} is not traced: its inputs are not known.",
        range=target.range,
        target=target.name,
        explanation=_reason(target, namespace),
        hints=(f"Write its inputs above it, for example: {comment}",),
        fixes=(
            Fix(f"Add a probe comment: {guess}", insert(comment), preferred=True),
            Fix(f"Do not trace {target.name}", insert("# fullgraph: off")),
        ),
        identity=f"probe/missing:{target.name}",
        data={"probe": guess},
    )


def _reason(target: Target, namespace: AnyMapping[str, Any] | None) -> str:
    needed = [one.name for one in target.init if one.required and not one.variadic]
    annotated = any(one.shape is not None for one in target.parameters)
    if needed and annotated:
        return (
            "Its annotations give the inputs, but nothing gives the constructor's "
            f"{', '.join(needed)}."
        )
    return (
        "There is no probe comment, no shape annotation on every input, and none of the "
        "conventions (get_inputs, example_input_array, a call at module level) applies."
    )


def suggest(target: Target, source: Source, namespace: AnyMapping[str, Any] | None = None) -> str:
    """A first guess of a probe for a target, in notation."""
    node = source.classes.get(target.definition)
    if node is None:
        function = source.functions.get(target.definition)
        layers = Layers(source, {})
        if function is not None:
            layers.follow(function, None)
        inputs = _inputs(target.parameters, layers, {})
        if not inputs.positional and not inputs.named and target.kind == "call":
            inputs = Arguments((_tensor("f32", "b", _DIMENSION),))
        if not inputs.positional and not inputs.named:
            return f"{target.definition}()"
        return notation.show(Notation(inputs=inputs))
    init = _constructor(target, source)
    known = _constants(source)
    known.update(_defaults(target.init))
    known.update(_spread(init, target.init))
    layers = Layers(source, known)
    layers.construct(node)
    forward = source.method(node, "forward")
    if forward is not None:
        layers.follow(forward, node)
    inputs = _inputs(target.parameters, layers, known)
    inputs = _as_images(inputs, _lines_of(node, source), known)
    if forward is None and not inputs.positional:
        inputs = Arguments((layers.first_input() or _tensor("f32", "b", _DIMENSION),))
    said = Notation(
        init=init if init.positional or init.named else None, method="forward", inputs=inputs
    )
    return notation.show(said)


# -- the constructor --------------------------------------------------------------------------


def _constructor(target: Target, source: Source) -> Arguments:
    """Values for the constructor's required parameters."""
    named: list[tuple[str, Value]] = []
    for parameter in target.init:
        if parameter.required and not parameter.variadic:
            named.append((parameter.name, _argument(parameter, source)))
    return Arguments((), tuple(named))


def _argument(parameter: Parameter, source: Source) -> Value:
    name, annotation = parameter.name.lower(), parameter.annotation.strip("'\"")
    last = annotation.rpartition(".")[2]
    if annotation in source.classes:
        return _made(annotation, source)
    if name in ("config", "cfg", "args", "hparams", "params", "opt"):
        config = _config_class(source)
        if config:
            return _made(config, source)
    if last == "bool" or re.fullmatch(r"(use|is|has|with|return|add)_.*|bias|causal", name):
        return Constant(name in ("bias", "causal"))
    if re.fullmatch(_ACTIVATIONS, name) and last not in ("str", "int", "float"):
        layer = "torch.nn.LayerNorm" if "norm" in name else "torch.nn.GELU"
        called = last == "Module" or annotation == ""
        return Reference(layer, Arguments() if called and "norm" not in name else None)
    if last == "Module":
        return Reference("torch.nn.Identity", Arguments())
    if last == "str":
        return Constant("relu" if "act" in name else "")
    if last == "float" or (last != "int" and re.fullmatch(_FLOATS, name)):
        return Constant(0.0 if "drop" in name else 0.1)
    if re.match(r"(list|List|Sequence|tuple|Tuple|Iterable)\b", annotation) or re.fullmatch(
        r".*(dims|sizes|channels_list|layers_list)|hidden_units", name
    ):
        return notation.Sequence("list", (Constant(16), Constant(16)))
    return Constant(_integer(name))


def _integer(name: str) -> int:
    for pattern, value in _INTEGERS:
        if re.fullmatch(pattern, name):
            return value
    return _DIMENSION


def _made(name: str, source: Source) -> Reference:
    """``Config()``, with what it needs."""
    node = source.classes[name]
    init = source.method(node, "__init__")
    if init is not None:
        from .annotations import parameters

        needed = [one for one in parameters(init, {}, method=True) if one.required]
        return Reference(
            name,
            Arguments((), tuple((one.name, Constant(_integer(one.name))) for one in needed)),
        )
    fields = [
        statement.target.id
        for statement in node.body
        if isinstance(statement, ast.AnnAssign)
        and isinstance(statement.target, ast.Name)
        and statement.value is None
    ]
    values = tuple((field, Constant(_integer(field.lower()))) for field in fields)
    return Reference(name, Arguments((), values))


def _config_class(source: Source) -> str:
    """The class of the file that looks like a configuration."""
    found = [
        name for name in source.classes if re.search(r"(Config|Args|HParams|Params|Options)$", name)
    ]
    return found[0] if found else ""


# -- what is known about numbers --------------------------------------------------------------


def _literal(text: str) -> object:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None


def _constants(source: Source) -> dict[str, object]:
    """Module-level names with literal values."""
    return {
        name: value.value
        for name, value in source.assignments.items()
        if isinstance(value, ast.Constant)
    }


def _defaults(parameters: tuple[Parameter, ...]) -> dict[str, object]:
    return {one.name: _literal(one.default) for one in parameters if one.default}


def _spread(init: Arguments, parameters: tuple[Parameter, ...]) -> dict[str, object]:
    """The guessed arguments as values that layer sizes can be computed from."""
    known: dict[str, object] = {}
    for name, value in init.named:
        if isinstance(value, Constant):
            known[name] = value.value
        elif isinstance(value, notation.Sequence):
            known[name] = [item.value for item in value.items if isinstance(item, Constant)]
        elif isinstance(value, Reference):
            known[name] = value
    return known


# -- the inputs -------------------------------------------------------------------------------


def _tensor(dtype: str, *sizes: int | str) -> TensorText:
    return TensorText(
        dtype, tuple(Fixed(size) if isinstance(size, int) else Symbol(size) for size in sizes)
    )


def _inputs(
    parameters: tuple[Parameter, ...], layers: Layers, known: AnyMapping[str, object]
) -> Arguments:
    positional: list[Value] = []
    named: list[tuple[str, Value]] = []
    width = next((value for name in _WIDTHS if isinstance(value := known.get(name), int)), None)
    for parameter in parameters:
        if parameter.variadic and not positional and not parameter.keyword_only:
            positional.append(_tensor("f32", "b", width or _DIMENSION))
        if not parameter.required or parameter.variadic:
            continue
        value = parameter.shape or layers.wanted(parameter.name)
        if value is None:
            value = _by_name(parameter, width or _DIMENSION)
        if parameter.keyword_only:
            named.append((parameter.name, value))
        else:
            positional.append(value)
    return Arguments(tuple(positional), tuple(named))


_WIDTHS = (
    "d_model",
    "dim",
    "n_embd",
    "embed_dim",
    "hidden_size",
    "hidden_dim",
    "in_features",
    "input_size",
    "input_dim",
    "in_dim",
)


def _lines_of(node: ast.ClassDef, source: Source) -> str:
    return b"\n".join(byte_lines(source.text)[node.lineno - 1 : node.end_lineno]).decode()


def _as_images(inputs: Arguments, text: str, known: AnyMapping[str, object]) -> Arguments:
    """Give images the size that the class speaks of, and see images where it convolves."""
    side = next(
        (value for name in _SIDES if isinstance(value := known.get(name), int) and value > 8), 0
    )
    if not side:
        side = (
            224 if re.search(r"\b224\b|\b7 ?\* ?7\b|AvgPool2d\((kernel_size=)?7", text) else IMAGE
        )
    unknown = Arguments((_tensor("f32", "b", _DIMENSION),))
    if inputs == unknown and re.search(r"Conv2d|BatchNorm2d|conv\w*\(", text):
        channels = next(
            (v for n in ("in_channels", "in_ch") if isinstance(v := known.get(n), int)), 3
        )
        inputs = Arguments((_tensor("f32", "b", channels, IMAGE, IMAGE),))

    def sized(value: Value) -> Value:
        if not isinstance(value, TensorText) or value.sizes[-2:] != (Fixed(IMAGE), Fixed(IMAGE)):
            return value
        return TensorText(value.dtype, (*value.sizes[:-2], Fixed(side), Fixed(side)))

    return Arguments(
        tuple(sized(value) for value in inputs.positional),
        tuple((name, sized(value)) for name, value in inputs.named),
    )


_LARGE_IMAGES = r"\b224\b|\b7 ?\* ?7\b|AvgPool2d\((kernel_size=)?7"
_SIDES = ("img_size", "image_size", "input_resolution", "resolution")


@dataclass(frozen=True)
class _ByName:
    pattern: str
    value: Value


_NAMES = (
    _ByName(r"edge_index", _tensor("i64", 2, 16)),
    _ByName(
        r".*(ids?|idx|tokens?|indices|index)",
        _tensor("i64", "b", "t"),
    ),
    _ByName(r".*(labels?|targets?)|y", _tensor("i64", "b")),
    _ByName(r".*(key_)?padding_mask|.*mask", _tensor("b8", "b", "t")),
    _ByName(r".*(lengths?|lens)|t|timesteps?|time_steps?|steps?", _tensor("i64", "b")),
    _ByName(r".*(images?|imgs?|pixel_values|pixels|frames?)", _tensor("f32", "b", 3, 32, 32)),
    _ByName(r".*(wav|waveforms?|audio)", _tensor("f32", "b", 1, 1024)),
    _ByName(r"adj|adjacency", _tensor("f32", 8, 8)),
)


def _by_name(parameter: Parameter, width: int) -> Value:
    name, annotation = parameter.name.lower(), parameter.annotation.strip("'\"")
    if annotation in ("int", "float", "bool", "str"):
        values: dict[str, object] = {"int": 4, "float": 0.5, "bool": False, "str": ""}
        return Constant(values[annotation])
    if re.match(r"(list|List|Sequence)\[.*Tensor\]", annotation):
        one = _tensor("f32", "b", width)
        return notation.Sequence("list", (one, one))
    if re.match(r"(tuple|Tuple)\[.*Tensor.*\]", annotation):
        one = _tensor("f32", "b", width)
        return notation.Sequence("tuple", (one,) * max(annotation.count("Tensor"), 1))
    for known in _NAMES:
        if re.fullmatch(known.pattern, name):
            return known.value
    if re.fullmatch(
        r"q|k|v|query|key|value|hidden_states?|embeds?|embeddings?|memory|src|tgt", name
    ):
        return _tensor("f32", "b", "t", width)
    return _tensor("f32", "b", width)
