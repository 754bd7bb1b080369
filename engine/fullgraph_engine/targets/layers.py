"""What a module's layers want as input, as far as its text tells.

A small abstract reading of ``__init__`` and ``forward``: the first layer that an input reaches
decides its dtype and rank, and the layer's own arguments the size of its features.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field

from .notation import Fixed, Reference, Size, Symbol, TensorText
from .source import Function, Source

_DEPTH = 5
IMAGE = 32

# Layers that take any shape; what comes behind them decides.
_TRANSPARENT_WORDS = (
    "ReLU GELU SiLU Tanh Sigmoid ELU LeakyReLU Softmax Dropout Identity Hardswish Mish"
)
_TRANSPARENT = frozenset(_TRANSPARENT_WORDS.split())
# Methods and functions of a tensor that keep its shape.
_KEEPING_WORDS = (
    "to float half double bfloat16 long int contiguous clone detach cuda cpu relu gelu "
    "sigmoid tanh softmax dropout normalize silu type_as abs exp"
)
_KEEPING = frozenset(_KEEPING_WORDS.split())


@dataclass(frozen=True)
class Layer:
    """A submodule: its class in ``torch.nn``, or a class of the file, with what it was given."""

    name: str
    sizes: tuple[object, ...]
    named: AnyMapping[str, object]
    inner: tuple[Layer, ...] = ()
    parts: Layers | None = None


@dataclass
class Layers:
    """The submodules of one class, by attribute, and the wishes that they lead to."""

    source: Source
    known: dict[str, object]
    depth: int = 0
    attributes: dict[str, Layer] = field(default_factory=dict)
    values: dict[str, object] = field(default_factory=dict)
    wishes: dict[str, TensorText] = field(default_factory=dict)
    lists: dict[str, list[Layer]] = field(default_factory=dict)
    variables: dict[str, Layer] = field(default_factory=dict)
    """Local names that hold a layer: ``for layer in self.layers``."""

    def wanted(self, parameter: str) -> TensorText | None:
        """What a parameter of ``forward`` should be; None if nothing tells."""
        return self.wishes.get(parameter)

    def first_input(self) -> TensorText | None:
        """What the first submodule wants, for a ``Sequential`` without its own ``forward``."""
        for layer in self.attributes.values():
            wish = self.wish(layer, 0)
            if wish is not None:
                return wish
        return None

    # -- the constructor --

    def construct(self, node: ast.ClassDef) -> None:
        """Read the submodules that a class makes, bases of the file included."""
        for current in reversed(list(self.source.bases(node))):
            init = next(
                (
                    one
                    for one in current.body
                    if isinstance(one, ast.FunctionDef) and one.name == "__init__"
                ),
                None,
            )
            if init is None:
                continue
            for statement in ast.walk(init):
                if isinstance(statement, ast.Assign):
                    for target in statement.targets:
                        self.assign(target, statement.value)
                elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
                    self.assign(statement.target, statement.value)
                elif isinstance(statement, ast.Call):
                    self.super_call(statement)
                    self.append(statement)

    def super_call(self, call: ast.Call) -> None:
        """``super().__init__(nn.Linear(…), …)`` of a ``Sequential``."""
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr != "__init__":
            return
        for at, argument in enumerate(call.args):
            layer = self.layer(argument)
            if layer is not None:
                self.attributes.setdefault(str(at), layer)

    def append(self, call: ast.Call) -> None:
        """``layers.append(nn.Linear(…))``, to a local list or a ``ModuleList``."""
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr != "append" or not call.args:
            return
        layer = self.layer(call.args[0])
        if layer is None:
            return
        if isinstance(function.value, ast.Name):
            self.lists.setdefault(function.value.id, []).append(layer)
        elif _is_self(function.value) and isinstance(function.value, ast.Attribute):
            name = function.value.attr
            inner = self.attributes[name].inner if name in self.attributes else ()
            self.attributes[name] = Layer("ModuleList", (), {}, (*inner, layer))

    def assign(self, target: ast.expr, value: ast.expr) -> None:
        layer = self.layer(value)
        if isinstance(target, ast.Name):
            self.known[target.id] = self.evaluate(value)
            if isinstance(value, ast.List):
                self.lists[target.id] = self.inner(value.elts)
        elif _is_self(target):
            assert isinstance(target, ast.Attribute)
            if layer is not None:
                self.attributes[target.attr] = layer
            else:
                self.values[target.attr] = self.evaluate(value)

    def layer(self, expression: ast.expr) -> Layer | None:
        """The layer that an expression makes."""
        if isinstance(expression, ast.ListComp):
            return self.layer(expression.elt)
        if not isinstance(expression, ast.Call) or self.depth > _DEPTH:
            return None
        name = self.source.dotted(expression.func)
        last = name.rpartition(".")[2]
        named = {one.arg: self.evaluate(one.value) for one in expression.keywords if one.arg}
        if name in self.source.classes:
            return self.own_layer(name, expression, named)
        if not (name.startswith(("torch.nn.", "nn."))):
            return None
        if last in ("Sequential", "ModuleList"):
            return Layer(last, (), {}, tuple(self.inner(expression.args)))
        if last == "Parameter":
            return None
        inner = tuple(
            layer for one in expression.args[:1] if (layer := self.layer(one)) is not None
        )
        return Layer(last, tuple(self.evaluate(one) for one in expression.args), named, inner)

    def inner(self, arguments: list[ast.expr]) -> list[Layer]:
        found: list[Layer] = []
        for argument in arguments:
            name = argument.value if isinstance(argument, ast.Starred) else argument
            if isinstance(name, ast.Name) and name.id in self.lists:
                found.extend(self.lists[name.id])
                continue
            items = [argument]
            if isinstance(argument, ast.Starred):
                items = [argument.value]
            elif isinstance(argument, (ast.List, ast.Tuple)):
                items = list(argument.elts)
            for item in items:
                layer = self.layer(item)
                if layer is not None:
                    found.append(layer)
        return found

    def own_layer(self, name: str, call: ast.Call, named: dict[str, object]) -> Layer | None:
        """A class of the file: read it with what it is given here."""
        node = self.source.classes[name]
        init = self.source.method(node, "__init__")
        known: dict[str, object] = dict(self.known)
        if init is not None:
            arguments = [one.arg for one in (*init.args.posonlyargs, *init.args.args)][1:]
            defaults = init.args.defaults
            for one, default in zip(arguments[len(arguments) - len(defaults) :], defaults):  # noqa: B905
                known[one] = self.evaluate(default)
            given = [self.evaluate(one) for one in call.args]
            known.update(zip(arguments, given, strict=False))
            known.update(named)
        parts = Layers(self.source, known, self.depth + 1)
        parts.construct(node)
        forward = self.source.method(node, "forward")
        if forward is not None:
            parts.follow(forward, node)
        order = [] if forward is None else [one.arg for one in forward.args.args[1:]]
        return Layer(name, tuple(order), {}, (), parts)

    # -- numbers --

    def evaluate(self, expression: ast.expr) -> object:
        """The value of an expression, None if the text does not tell."""
        if isinstance(expression, ast.Constant):
            return expression.value
        if isinstance(expression, ast.Name):
            return self.known.get(expression.id)
        if isinstance(expression, ast.Attribute):
            if _is_self(expression):
                return self.values.get(expression.attr)
            return self.field(self.evaluate(expression.value), expression.attr)
        if isinstance(expression, (ast.List, ast.Tuple)):
            return [self.evaluate(one) for one in expression.elts]
        if isinstance(expression, ast.Subscript):
            values, at = self.evaluate(expression.value), self.evaluate(expression.slice)
            if (
                isinstance(values, (list, tuple))
                and isinstance(at, int)
                and -len(values) <= at < len(values)
            ):
                return values[at]
            return None
        if isinstance(expression, ast.BinOp):
            return _compute(
                expression.op, self.evaluate(expression.left), self.evaluate(expression.right)
            )
        if isinstance(expression, ast.IfExp):
            chosen = self.evaluate(expression.body)
            return chosen if chosen is not None else self.evaluate(expression.orelse)
        if isinstance(expression, ast.BoolOp):
            found = (self.evaluate(one) for one in expression.values)
            return next((value for value in found if value), None)
        if isinstance(expression, ast.Call) and self.source.dotted(expression.func) == "int":
            value = self.evaluate(expression.args[0]) if expression.args else None
            return int(value) if isinstance(value, (int, float)) else None
        return None

    def field(self, value: object, name: str) -> object:
        """A field of a configuration: what the probe says, else the class's default."""
        if not isinstance(value, Reference) or value.name not in self.source.classes:
            return None
        for given, item in value.call.named if value.call is not None else ():
            if given == name:
                return getattr(item, "value", None)
        node = self.source.classes[value.name]
        for statement in ast.walk(node):
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                if statement.target.id == name and statement.value is not None:
                    return self.evaluate(statement.value)
            elif isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if (isinstance(target, ast.Name) and target.id == name) or (
                        _is_self(target)
                        and isinstance(target, ast.Attribute)
                        and target.attr == name
                    ):
                        return self.evaluate(statement.value)
        init = self.source.method(node, "__init__")
        if init is not None:
            arguments = [one.arg for one in init.args.args]
            defaults = init.args.defaults
            offset = len(arguments) - len(defaults)
            if name in arguments and arguments.index(name) >= offset:
                return self.evaluate(defaults[arguments.index(name) - offset])
        return None

    # -- forward --

    def follow(self, function: Function, node: ast.ClassDef | None) -> None:
        """Find what each parameter meets first."""
        arguments = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        names = {one.arg: one.arg for one in arguments if one.arg not in ("self", "cls")}
        self.body(function.body, names, node, 0)

    def body(
        self,
        statements: list[ast.stmt],
        names: dict[str, str],
        node: ast.ClassDef | None,
        depth: int,
    ) -> None:
        """``names`` says which variable still is which parameter."""
        for statement in statements:
            for child in _in_order(statement):
                if isinstance(child, ast.Call):
                    self.call(child, names, node, depth)
                elif isinstance(child, ast.BinOp) and isinstance(child.op, ast.MatMult):
                    self.matmul(child.left, child.right, names)
                elif isinstance(child, ast.BinOp):
                    self.together(child.left, child.right, names)
                elif isinstance(child, (ast.For, ast.comprehension)):
                    self.loop(child)
                elif isinstance(child, ast.Assign):
                    self.rebind(child, names)

    def loop(self, loop: ast.For | ast.comprehension) -> None:
        """``for layer in self.layers`` and ``for i, layer in enumerate(self.layers)``."""
        target, over = loop.target, loop.iter
        if isinstance(over, ast.Call) and over.args:
            over = over.args[0]
            if isinstance(target, ast.Tuple) and target.elts:
                target = target.elts[-1]
        if isinstance(target, ast.Name) and _is_self(over) and isinstance(over, ast.Attribute):
            layer = self.attributes.get(over.attr)
            if layer is not None and layer.inner:
                self.variables[target.id] = layer.inner[0]

    def rebind(self, statement: ast.Assign, names: dict[str, str]) -> None:
        target, value = statement.targets[0], statement.value
        if isinstance(target, ast.Tuple):
            self.unpack(target, value, names)
            return
        if not isinstance(target, ast.Name):
            return
        origin = self.origin(value, names)
        if origin:
            names[target.id] = origin
        elif target.id in names:
            del names[target.id]

    def unpack(self, target: ast.Tuple, value: ast.expr, names: dict[str, str]) -> None:
        """``b, t, d = x.shape`` tells a rank, and often what the sizes are."""
        call = value.func if isinstance(value, ast.Call) and not value.args else value
        if not isinstance(call, ast.Attribute) or call.attr not in ("shape", "size"):
            return
        origin = self.origin(call.value, names)
        if (
            not origin
            or origin in self.wishes
            or any(isinstance(one, ast.Starred) for one in target.elts)
        ):
            return
        letters = [one.id.lower() if isinstance(one, ast.Name) else "_" for one in target.elts]
        rank = len(letters)
        sizes: list[Size] = []
        for at, letter in enumerate(letters):
            last = at == rank - 1
            if at == 0:
                sizes.append(Symbol("b"))
            elif rank >= 4 and at == rank - 3:
                sizes.append(Fixed(3))
            elif rank >= 4 and at >= rank - 2:
                sizes.append(Fixed(32))
            elif letter in ("t", "n", "l", "s", "seq", "seq_len", "length", "tokens") and not last:
                sizes.append(Symbol("t"))
            elif last and rank == 3:
                sizes.append(Fixed(self.width()))
            elif rank == 2:
                sizes.append(Symbol("t"))
            else:
                sizes.append(Fixed(8))
        self.wishes[origin] = TensorText("f32", tuple(sizes))

    def width(self) -> int:
        for name in ("d_model", "n_embd", "dim", "embed_dim", "hidden_size", "hidden_dim"):
            for place in (self.known, self.values):
                value = place.get(name)
                if isinstance(value, int) and not isinstance(value, bool):
                    return value
        for layer in self.attributes.values():
            wish = self.wish(layer, 0)
            if layer.name == "Linear" and wish is not None and isinstance(wish.sizes[-1], Fixed):
                return wish.sizes[-1].value
        return 16

    def origin(self, expression: ast.expr, names: dict[str, str]) -> str:
        """The parameter that an expression is, up to operations that keep its shape."""
        while True:
            if isinstance(expression, ast.Name):
                return names.get(expression.id, "")
            if isinstance(expression, ast.Call):
                function = expression.func
                if isinstance(function, ast.Attribute) and function.attr in _KEEPING:
                    root = self.source.dotted(function)
                    if root.startswith(("torch.", "F.")):
                        if not expression.args:
                            return ""
                        expression = expression.args[0]
                    else:
                        expression = function.value
                    continue
                layer = self.callee(function)
                if layer is not None and layer.name in _TRANSPARENT and expression.args:
                    expression = expression.args[0]
                    continue
            return ""

    def callee(self, function: ast.expr) -> Layer | None:
        if isinstance(function, ast.Name) and function.id in self.variables:
            return self.variables[function.id]
        if isinstance(function, ast.Subscript):  # ``self.layers[0](x)``
            function = function.value
        if _is_self(function) and isinstance(function, ast.Attribute):
            return self.attributes.get(function.attr)
        return self.layer(function) if isinstance(function, ast.Call) else None

    def call(
        self, call: ast.Call, names: dict[str, str], node: ast.ClassDef | None, depth: int
    ) -> None:
        layer = self.callee(call.func)
        if layer is not None:
            for at, argument in enumerate(call.args):
                # ``self.lstm(x, (h, c))``
                parts = argument.elts if isinstance(argument, ast.Tuple) else [argument]
                for part in parts:
                    self.meet(part, self.wish(layer, at), names)
            for keyword in call.keywords:
                if keyword.arg and layer.parts is not None:
                    self.meet(keyword.value, layer.parts.wishes.get(keyword.arg), names)
            return
        name = self.source.dotted(call.func)
        last = name.rpartition(".")[2]
        if last == "embedding" and call.args:
            self.meet(call.args[0], _tokens(), names)
        elif last in ("matmul", "mm", "bmm") and len(call.args) == 2:
            self.matmul(call.args[0], call.args[1], names)
        elif last in ("linear", "conv2d") and call.args and name.startswith(("torch.", "F.")):
            self.meet(call.args[0], _image(3) if last == "conv2d" else None, names)
        elif last == "cross_entropy" and len(call.args) >= 2:
            self.meet(call.args[1], TensorText("i64", (Symbol("b"),)), names)
        elif last == "scaled_dot_product_attention":
            shape = TensorText("f32", (Symbol("b"), Fixed(4), Symbol("t"), Fixed(16)))
            for argument in call.args[:3]:
                self.meet(argument, shape, names)
        elif (
            node is not None
            and depth < _DEPTH
            and _is_self(call.func)
            and isinstance(call.func, ast.Attribute)
        ):
            self.enter(call, call.func.attr, names, node, depth)

    def enter(
        self, call: ast.Call, name: str, names: dict[str, str], node: ast.ClassDef, depth: int
    ) -> None:
        """Follow a call of another method of the class."""
        method = self.source.method(node, name)
        if method is None:
            return
        parameters = [one.arg for one in method.args.args][1:]
        inner: dict[str, str] = {}
        for parameter, argument in zip(parameters, call.args, strict=False):
            origin = self.origin(argument, names)
            if origin:
                inner[parameter] = origin
        if inner:
            self.body(method.body, inner, node, depth + 1)

    def matmul(self, left: ast.expr, right: ast.expr, names: dict[str, str]) -> None:
        """``x @ y`` of two inputs: shapes that fit."""
        a, b = self.origin(left, names), self.origin(right, names)
        if a and b and a != b and a not in self.wishes and b not in self.wishes:
            self.wishes[a] = TensorText("f32", (Fixed(8), Fixed(16)))
            self.wishes[b] = TensorText("f32", (Fixed(16), Fixed(8)))

    def together(self, left: ast.expr, right: ast.expr, names: dict[str, str]) -> None:
        """``x + y``: one tells about the other."""
        a, b = self.origin(left, names), self.origin(right, names)
        if a and b and a in self.wishes and b not in self.wishes:
            self.wishes[b] = self.wishes[a]
        elif a and b and b in self.wishes and a not in self.wishes:
            self.wishes[a] = self.wishes[b]

    def meet(self, argument: ast.expr, wish: TensorText | None, names: dict[str, str]) -> None:
        origin = self.origin(argument, names)
        if not origin or wish is None:
            return
        before = self.wishes.get(origin)
        if before is None:
            self.wishes[origin] = wish
        elif len(before.sizes) == len(wish.sizes):
            # The rank was known from ``b, t, d = x.shape``; the layer knows the sizes.
            self.wishes[origin] = wish
        elif len(before.sizes) > len(wish.sizes) == 2 and wish.dtype == before.dtype:
            self.wishes[origin] = TensorText(
                before.dtype, (*before.sizes[:-1], wish.sizes[-1]), None, None
            )

    # -- what a layer wants --

    def wish(self, layer: Layer, at: int) -> TensorText | None:
        """The input number ``at`` of a layer."""
        if layer.parts is not None:
            order = [str(one) for one in layer.sizes]
            if order:
                return layer.parts.wishes.get(order[at]) if at < len(order) else None
            return layer.parts.first_input()
        name = layer.name
        if name in ("Sequential", "ModuleList"):
            if at > 0:
                return None
            for inner in layer.inner:
                if inner.name in _TRANSPARENT:
                    continue
                if inner.name == "Flatten":
                    continue
                return self.wish(inner, 0)
            return None
        if name in ("TransformerEncoder", "TransformerDecoder") and layer.inner:
            return self.wish(layer.inner[0], at)
        return _standard(layer, at)


def _standard(layer: Layer, at: int) -> TensorText | None:
    """The inputs of the layers of ``torch.nn``."""
    name = layer.name
    first = _size(layer, 0, _FIRST.get(name, ("in_features", "in_channels", "num_features")))
    batch_first = layer.named.get("batch_first") is True
    if name in ("Embedding", "EmbeddingBag"):
        return _tokens() if at == 0 else None
    if name in ("Linear", "BatchNorm1d", "Bilinear") and at == 0:
        return TensorText("f32", (Symbol("b"), Fixed(first or 16)))
    if name in ("LayerNorm", "RMSNorm") and at == 0:
        return TensorText("f32", (Symbol("b"), Symbol("t"), Fixed(first or 16)))
    if name in ("Conv1d", "ConvTranspose1d") and at == 0:
        return TensorText("f32", (Symbol("b"), Fixed(first or 3), Fixed(32)))
    if name in ("Conv2d", "ConvTranspose2d", "BatchNorm2d", "InstanceNorm2d") and at == 0:
        return _image(first or 3)
    if name in ("Conv3d", "ConvTranspose3d", "BatchNorm3d") and at == 0:
        return TensorText("f32", (Symbol("b"), Fixed(first or 3), Fixed(8), Fixed(32), Fixed(32)))
    if name == "GroupNorm" and at == 0:
        channels = _size(layer, 1, ("num_channels",))
        return _image(channels or 16)
    if name in ("MaxPool2d", "AvgPool2d", "AdaptiveAvgPool2d", "Upsample", "PixelShuffle"):
        return _image(3) if at == 0 else None
    if name in ("LSTM", "GRU", "RNN") and at == 0:
        rows = (Symbol("b"), Symbol("t")) if batch_first else (Symbol("t"), Symbol("b"))
        return TensorText("f32", (*rows, Fixed(first or 16)))
    if name in ("LSTM", "GRU", "RNN") and at == 1:
        states = _size(layer, 2, ("num_layers",)) or 1
        states *= 2 if layer.named.get("bidirectional") is True else 1
        hidden = _size(layer, 1, ("hidden_size",)) or 16
        return TensorText("f32", (Fixed(states), Symbol("b"), Fixed(hidden)))
    if name in ("LSTMCell", "GRUCell", "RNNCell"):
        width = first if at == 0 else _size(layer, 1, ("hidden_size",))
        return TensorText("f32", (Symbol("b"), Fixed(width or 16)))
    limits = {"MultiheadAttention": 3, "TransformerEncoderLayer": 1, "TransformerDecoderLayer": 2}
    if at < {**limits, "Transformer": 2}.get(name, 0):
        return TensorText("f32", (Symbol("b"), Symbol("t"), Fixed(first or 16)))
    return None


_FIRST = {
    "LSTM": ("input_size",),
    "GRU": ("input_size",),
    "RNN": ("input_size",),
    "LSTMCell": ("input_size",),
    "GRUCell": ("input_size",),
    "RNNCell": ("input_size",),
    "LayerNorm": ("normalized_shape",),
    "RMSNorm": ("normalized_shape",),
    "MultiheadAttention": ("embed_dim",),
    "Bilinear": ("in1_features",),
    "TransformerEncoderLayer": ("d_model",),
    "TransformerDecoderLayer": ("d_model",),
    "Transformer": ("d_model",),
}


def _size(layer: Layer, at: int, names: tuple[str, ...]) -> int | None:
    value = layer.sizes[at] if at < len(layer.sizes) else None
    for name in names:
        value = layer.named.get(name, value)
    if isinstance(value, (list, tuple)) and value:
        value = value[-1]
    if isinstance(value, bool) or not isinstance(value, int) or value <= 0:
        return None
    return value


def _tokens() -> TensorText:
    return TensorText("i64", (Symbol("b"), Symbol("t")))


def _image(channels: int) -> TensorText:
    return TensorText("f32", (Symbol("b"), Fixed(channels), Fixed(IMAGE), Fixed(IMAGE)))


def _is_self(expression: ast.expr) -> bool:
    return (
        isinstance(expression, ast.Attribute)
        and isinstance(expression.value, ast.Name)
        and expression.value.id == "self"
    )


def _in_order(node: ast.AST) -> list[ast.AST]:
    """Calls, operations and assignments in the order in which Python evaluates them."""
    found: list[ast.AST] = []
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        found.extend(node.generators)
    elif isinstance(node, ast.For):
        found.append(node)
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (ast.FunctionDef, ast.ClassDef, ast.Lambda)):
            found.extend(_in_order(child))
    if isinstance(node, (ast.Call, ast.BinOp, ast.Assign)):
        found.append(node)
    return found


def _compute(operator: ast.operator, left: object, right: object) -> object:
    if not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
        return None
    try:
        if isinstance(operator, ast.Add):
            return left + right
        if isinstance(operator, ast.Sub):
            return left - right
        if isinstance(operator, ast.Mult):
            return left * right
        if isinstance(operator, ast.FloorDiv):
            return left // right
        if isinstance(operator, ast.Div):
            return left / right
        if isinstance(operator, ast.Pow) and abs(right) < 16:
            power: object = left**right
            return power
    except (ZeroDivisionError, OverflowError):
        return None
    return None
