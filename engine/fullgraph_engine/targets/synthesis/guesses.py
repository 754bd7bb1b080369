"""Guesses for arguments from the names, annotations and defaults of parameters, most plausible
first.

Names follow conventions of PyTorch code (``num_heads``, ``in_channels``, ``input_ids``). A wrong
guess costs one trial call, never a wrong finding.
"""

from __future__ import annotations

import argparse
import ast
import collections.abc
import contextlib
import dataclasses
import enum
import functools
import inspect
import linecache
import re
import sys
import textwrap
import types
import typing
from collections import Counter
from collections.abc import Iterator
from typing import Any, TypeGuard

import torch

from ..configurations import FEW, has_many_layers
from ..notation import Arguments, LiteralValue, Mapping, Reference, Sequence, TensorText, Value
from ..workspace import texts_that_call
from .candidate import make_tensor_text
from .constructed import assignment_pairs, constructor_calls
from .declared import declared_options
from .documented import Words, documented_shapes, size_of

BATCH, LENGTH, WIDTH, SIDE = 2, 16, 64, 32
"""Sizes of guessed inputs without other information: batch, sequence, features, and image side. The
number of features is a multiple of common group and head counts. All sizes differ, so that a size
in an error message identifies its origin."""

Namespace = dict[str, Any]

_NUMBERS: tuple[tuple[str, int], ...] = (
    (r".*(num|n)_?(classes|labels|outputs?|actions)|.*classes|n_?cls", 10),
    (r".*vocab(_?size)?|.*num_(tokens|embeddings)|n_?tokens?|ntokens?|voc_size|n_words", 1000),
    (r".*(n|num)_?.*heads?|.*heads|n_?kv_?heads?|nhead", 4),
    (r".*(n|num)_?.*groups|groups|cardinality", 1),
    (r".*(n|num)_?.*(layers?|blocks?|stages|levels|convs|repeats)|.*depth|layers|repeats|n", 2),
    (r".*(up|down)_?scal.*|.*(up|down)_?sampl\w*_(scale|rate|factor|ratio|stride)s?", 2),
    (r".*kernel(_size)?|kernel_\w+|k\d?|k_?(size)?|ks|.*window(_size)?", 3),
    (
        r".*strides?|stride_\w+|.*dilation|scale|expansion|multiplier|.*factor|num_(frames|parallel)?|order",
        1,
    ),
    (r".*_per_.*|.*(layer|block|stage|level)s?_?(num|count)", 2),
    (r".*padding|pad|.*_(idx|id|index|token)|idx|index|layer_(idx|id)|block_idx|rank|pos", 0),
    (
        r".*(max|seq|ctx|block|context|mem).*_?(len(gth)?|positions?|size)|block_size|n_ctx|.*len",
        32,
    ),
    (r".*(img|image|input|feat|feature|grid)_?(size|res(olution)?)|.*resolution|.*_size_?[hw]", 32),
    (r".*(patch|partition)_?size", 8),
    (r".*experts|top_?k|k|.*ratio|reduction|num_(codebooks|branches)", 2),
    (r".*batch(_size)?|b", BATCH),
    (r".*timesteps|.*steps|n_iters?|.*iterations", 4),
    (r".*points?|.*samples|.*queries|.*anchors|.*nodes|.*slots|num_.*", 8),
    (r"dim_head|head_dim|.*_head_dim|d_k|d_v|d_head", 16),
)
_RANK = r"spatial_dims|ndims?|n_?dims?|dimensions?|img_dim"
_FLOAT = (
    r"p|.*drop.*|.*_?rate|lr|eps|.*epsilon|alpha|beta|gamma|momentum|.*temp(erature)?|.*_prob|"
    r".*_?std|.*scale|.*slope|tau|sigma|.*weight|.*threshold|.*margin|.*ratio|.*theta|.*decay"
)
_FLAG = (
    r"(use|is|has|with|return|add|do|enable|apply|share|learn|need|include)_.*|.*bias|causal|"
    r"bidirectional|downsample|upsample|pretrained|training|affine|verbose|residual|inplace|.*_first"
)
_CALLED = (
    r".*act(ivation)?(_layer|_fn|_func|_cls|_type)?|.*nonlinearity|.*norm(_layer|_cls|_type|"
    r"_fn)?|.*_(layer|cls|class|func?|fn|factory|type)|block|conv|.*_block|.*_module|.*_op"
)
_BAG = r".*(config|cfg|conf|args|hparams|params|opts?|options|settings|hps)"
_LIST = (
    r".*(dims|sizes|channels_list|layers_list|widths|depths|filters|planes|strides)|"
    r"hidden_(units|layers)|channels|layers|blocks|features|.*_list|.*shapes?|.*_specs?"
)


@dataclasses.dataclass(frozen=True)
class SignatureParameter:
    """A parameter of the constructor or of ``forward`` of an executed class.

    ``annotation`` is its evaluated annotation, None if missing or invalid.
    """

    name: str
    required: bool
    annotation: Any = None
    default: Any = None
    positional: bool = True


def parameters_of(
    function: Any, skip: int = 1
) -> tuple[tuple[SignatureParameter, ...], bool, bool]:
    """Return the parameters of a function, then whether it has ``*args``, then whether it has
    ``**kwargs``.

    The first ``skip`` parameters, by default ``self``, are left out.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return (), True, True
    found: list[SignatureParameter] = []
    more, keywords = False, False
    for number, one in enumerate(signature.parameters.values()):
        if number < skip:
            continue
        if one.kind is one.VAR_POSITIONAL:
            more = True
        elif one.kind is one.VAR_KEYWORD:
            keywords = True
        else:
            required = one.default is one.empty
            annotation = _evaluate_annotation(one.annotation, function)
            default = None if required else one.default
            positional = one.kind is not one.KEYWORD_ONLY
            found.append(SignatureParameter(one.name, required, annotation, default, positional))
    return tuple(found), more, keywords


def _evaluate_annotation(annotation: Any, function: Any) -> Any:
    if annotation is inspect.Parameter.empty:
        return None
    if isinstance(annotation, str):
        names = getattr(inspect.unwrap(function), "__globals__", {})
        try:
            return eval(annotation, dict(names))
        except Exception:
            # The name is imported only for type checkers, or the annotation is just text.
            return annotation
    return annotation


# -- names ------------------------------------------------------------------------------------


def name_of(found: Any, namespace: Namespace) -> str:
    """Return the name by which the file can refer to a class or function; empty if it has none."""
    own = getattr(found, "__name__", "")
    if own and namespace.get(own) is found:
        return str(own)
    for name, value in namespace.items():
        if value is found and not name.startswith("_"):
            return name
    module, qualified = getattr(found, "__module__", ""), getattr(found, "__qualname__", "")
    if not module or not qualified or "<" in qualified:
        return ""
    if module == "builtins":
        return str(qualified)
    current: Any = sys.modules.get(module.partition(".")[0])
    for part in (*module.split(".")[1:], *qualified.split(".")):
        current = getattr(current, part, None)
    return f"{module}.{qualified}" if current is found else ""


# -- guesses ----------------------------------------------------------------------------------


class Guesses:
    """Guesses for the constructor's arguments and the inputs of one module class of a file."""

    def __init__(self, subject: Any, namespace: Namespace, method: str = "forward") -> None:
        self.subject, self.method = subject, method
        self.namespace = namespace
        self._configurations: list[type] | None = None

    def argument(self, parameter: SignatureParameter) -> list[Value]:
        """Return values to try for an argument of the constructor, most plausible first."""
        found = [
            *self.of_type(parameter.annotation, parameter.name),
            *self._guess_by_name(parameter),
        ]
        found += _any_kind(parameter.name)
        return _distinct_values(found)

    def _guess_by_name(self, parameter: SignatureParameter, depth: int = 0) -> Iterator[Value]:
        name = parameter.name.lower()
        # The attributes that the code reads are known only for the class's own parameters, not for
        # parameters of nested objects.
        read = self._read.get(parameter.name, frozenset()) if depth == 0 else frozenset()
        untyped = parameter.annotation is None and bool(read)
        if re.fullmatch(_BAG, name) or (untyped and not any(map(_is_of_torch, read))):
            yield from self.configurations(depth, read)
        if depth == 0 and parameter.annotation is None and parameter.name in self._called:
            yield from self.modules(name)
        if re.fullmatch(_CALLED, name) and not re.match(r"(num|n)_", name):
            yield from self.callables(name)
        if re.fullmatch(_FLAG, name):
            yield LiteralValue("bias" in name or "affine" in name)
        if name.endswith("shape"):
            # The shape of an argument to broadcast, such as ``(C, 1, 1)``: the number of channels,
            # then ones.
            for ones in (2, 3, 0, 1):
                yield Sequence("list", (LiteralValue(WIDTH), *(LiteralValue(1),) * ones))
        if re.fullmatch(_LIST, name) and not re.fullmatch(r"(in|out|num|n)_?(channels)", name):
            repeats = re.fullmatch(r"layers|.*depths?|.*blocks|.*repeats|num_.*|n_.*", name)
            item = LiteralValue(2 if repeats else WIDTH)
            yield from (
                Sequence("list", (item,) * count) for count in ((4, 2, 3) if repeats else (2, 4, 3))
            )
        if re.fullmatch(_FLOAT, name):
            yield LiteralValue(0.0 if "drop" in name else 0.1)
        if re.fullmatch(r".*(name|mode|type|kind|format|method|arch|backbone|variant|str)", name):
            yield from (LiteralValue(text) for text in self.texts(parameter.name))
        if name == "device":
            yield LiteralValue("cpu")
        if name == "dtype":
            yield Reference("torch.float32")

    def of_type(self, annotation: Any, name: str, depth: int = 0) -> Iterator[Value]:
        """Yield guesses for a parameter or field called ``name`` whose annotation is the type
        ``annotation``."""
        if annotation is None or depth > 3:
            return
        origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
        if origin is typing.Literal:
            yield from (LiteralValue(one) for one in arguments)
        elif origin in (typing.Union, types.UnionType):
            for one in arguments:
                if one is type(None):
                    continue
                yield from self.of_type(one, name, depth)
            if type(None) in arguments:
                yield LiteralValue(None)
        elif origin is type:
            base = arguments[0] if arguments else torch.nn.Module
            any_layer = base is torch.nn.Module
            yield from self.callables(name.lower()) if any_layer else self.classes(base, name)
        elif origin is collections.abc.Callable:
            yield from self.callables(name.lower())
        elif origin is typing.Annotated:
            yield from self.of_type(arguments[0], name, depth)
        elif origin in (list, collections.abc.Sequence, collections.abc.Iterable):
            inner = next(self.of_type(arguments[0] if arguments else int, name, depth + 1), None)
            if inner is not None:
                yield Sequence("list", (inner,) * 2)
                yield from (Sequence("list", (inner,) * count) for count in (1, 3, 4))
        elif origin is tuple:
            variadic = len(arguments) == 2 and arguments[1] is Ellipsis
            count = 2 if variadic else len(arguments)
            items = [
                next(self.of_type(one, name, depth + 1), LiteralValue(guess_number(name)))
                for one in (arguments[:1] * count if variadic else arguments)
            ]
            yield Sequence("tuple", tuple(items))
        elif origin in (dict, collections.abc.Mapping):
            yield Mapping(())
        elif isinstance(annotation, type):
            yield from self._of_class(annotation, name, depth)

    def _of_class(self, kind: type, name: str, depth: int) -> Iterator[Value]:
        lowered = name.lower()
        if kind is bool:
            yield LiteralValue("bias" in lowered or "affine" in lowered)
            yield LiteralValue("bias" not in lowered and "affine" not in lowered)
        elif kind is int:
            yield LiteralValue(guess_number(lowered))
        elif kind is float:
            yield LiteralValue(0.0 if "drop" in lowered else 0.1)
        elif kind is str:
            yield from (LiteralValue(text) for text in self.texts(name))
        elif kind in (list, tuple):
            item = LiteralValue(guess_number(lowered))
            yield Sequence("list" if kind is list else "tuple", (item, item))
        elif kind is dict:
            yield Mapping(())
        elif kind in (torch.Tensor, torch.nn.Parameter):
            yield make_tensor_text("f32", WIDTH)
            yield make_tensor_text("f32", WIDTH, WIDTH)
        elif kind is torch.dtype:
            yield Reference("torch.float32")
        elif kind is torch.device:
            yield LiteralValue("cpu")
        elif kind in (argparse.Namespace, types.SimpleNamespace):
            yield Reference("SimpleNamespace", Arguments())
        elif kind is torch.Size:
            yield Sequence("tuple", (LiteralValue(WIDTH),))
        elif issubclass(kind, enum.Enum):
            owner = name_of(kind, self.namespace)
            yield from (Reference(f"{owner}.{one.name}") for one in kind if owner)
        elif issubclass(kind, torch.nn.Module):
            if kind is torch.nn.Module:
                yield Reference("torch.nn.Identity", Arguments())
                yield Reference(
                    "torch.nn.Linear", Arguments((LiteralValue(WIDTH), LiteralValue(WIDTH)))
                )
            elif kind is torch.nn.ModuleList:
                inner = Reference("torch.nn.Identity", Arguments())
                yield Reference("torch.nn.ModuleList", Arguments((Sequence("list", (inner,)),)))
            else:
                yield from self.instances_of(kind, depth)
        elif kind is not object:
            yield from self.instances_of(kind, depth)

    def instances_of(self, kind: type, depth: int = 0) -> Iterator[Value]:
        """Yield guesses for a parameter that must be an instance of a class: calls of the class
        with guessed arguments."""
        name = name_of(kind, self.namespace)
        if not name or depth > 3 or inspect.isabstract(kind):
            return
        needed, _, _ = parameters_of(kind, skip=0)
        named = []
        for one in needed:
            if one.required:
                value = next(iter(self.argument_at(one, depth + 1)), None)
                if value is None:
                    return
                named.append((one.name, value))
        call = Arguments((), tuple(named))
        small = tuple(
            (one.name, LiteralValue(FEW))
            for one in needed
            if has_many_layers(one.name, one.default)
        )
        if small:
            yield Reference(name, Arguments((), (*named, *small)))
        yield Reference(name, call)

    def argument_at(self, parameter: SignatureParameter, depth: int) -> Iterator[Value]:
        yield from self.of_type(parameter.annotation, parameter.name, depth)
        yield from self._guess_by_name(parameter, depth)
        yield LiteralValue(guess_number(parameter.name.lower()))

    def configurations(self, depth: int = 0, read: frozenset[str] = frozenset()) -> Iterator[Value]:
        """Yield guesses for a parameter such as ``config``: configuration classes of the module
        class and of the file, and an object with any attribute.

        Classes with the attributes in ``read`` come first.
        """
        for kind in self._classes_with_attributes(read) if read else ():
            yield from self.instances_of(kind, depth)
        if self._configurations is None:
            own = getattr(self.subject, "config_class", None)
            found = [own] if isinstance(own, type) else []
            others = [
                value
                for name, value in list(self.namespace.items())
                if isinstance(value, type)
                and re.search(r"(Config|Configuration|Args|HParams|Params|Options|Cfg)$", name)
                and not name.startswith(("PreTrained", "Pretrained"))
                and value is not own
            ]
            subject = getattr(self.subject, "__name__", "")
            others.sort(key=lambda kind: -_shared_prefix(kind.__name__, subject))
            self._configurations = found + others
        for kind in self._configurations:
            yield from self.instances_of(kind, depth)
        yield Reference("SimpleNamespace", Arguments())
        yield Mapping(())

    def _classes_with_attributes(self, read: frozenset[str]) -> list[type]:
        """Return the file's classes, other than modules, whose instances have all attributes in
        ``read``."""
        return [
            kind
            for _, kind in self._defined_classes()
            if not issubclass(kind, torch.nn.Module) and read <= _attributes_of(kind)
        ]

    def _defined_classes(self) -> Iterator[tuple[str, type]]:
        """Yield the classes of the file with their names."""
        module = getattr(self.subject, "__module__", None)
        for name, value in list(self.namespace.items()):
            if isinstance(value, type) and value.__module__ == module:
                yield name, value

    @functools.cached_property
    def _tree(self) -> ast.Module:
        """Syntax tree of the module class; an empty module if its source is unknown."""
        return _parse_text(textwrap.dedent(self._class_source))

    @functools.cached_property
    def _read(self) -> dict[str, frozenset[str]]:
        """Names of the attributes that the constructor reads from each parameter, such as
        ``hidden_size`` from ``config``."""
        found: dict[str, set[str]] = {}
        for node in ast.walk(self._method_tree("__init__") or self._tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                found.setdefault(node.value.id, set()).add(node.attr)
        return {name: frozenset(read) for name, read in found.items()}

    @functools.cached_property
    def _taken_apart(self) -> dict[str, int]:
        """Number of items of each parameter that the called method only indexes or unpacks, so that
        it must be a sequence."""
        counts: dict[str, int] = {}
        used: Counter[str] = Counter()
        for node in ast.walk(self._method_tree(self.method) or ast.Module([], [])):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                used[node.id] += 1
            elif isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name):
                index = node.slice.value if isinstance(node.slice, ast.Constant) else None
                if type(index) is int and index < 8:
                    used[node.value.id] -= 1
                    counts[node.value.id] = max(counts.get(node.value.id, 0), index + 1)
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name):
                target = node.targets[0]
                if isinstance(target, (ast.Tuple, ast.List)):
                    used[node.value.id] -= 1
                    counts[node.value.id] = len(target.elts)
        return {name: count for name, count in counts.items() if count > 1 and not used[name]}

    @functools.cached_property
    def _called(self) -> frozenset[str]:
        """Names of constructor parameters that other methods call, so that they must be
        callable."""
        called = {
            node.func.attr
            for node in ast.walk(self._tree)
            if isinstance(node, ast.Call) and _is_own(node.func)
        }
        return frozenset(
            value.id
            for node in ast.walk(self._method_tree("__init__") or self._tree)
            if isinstance(node, ast.Assign)
            for kept, value in assignment_pairs(node)
            if isinstance(value, ast.Name) and _is_own(kept) and kept.attr in called
        )

    def _method_tree(self, name: str) -> ast.AST | None:
        return next(
            (
                node
                for node in ast.walk(self._tree)
                if isinstance(node, ast.FunctionDef) and node.name == name
            ),
            None,
        )

    def modules(self, name: str) -> Iterator[Value]:
        """Yield guesses for a parameter that must be a module, such as ``encoder`` or ``backbone``.

        Classes of the file with a similar name come first, then simple layers.
        """
        for reference in self.classes(torch.nn.Module, name):
            assert isinstance(reference, Reference)
            if name.replace("_", "") in reference.name.lower():
                yield from self.instances_of(self.namespace[reference.name])
        yield Reference("torch.nn.Identity", Arguments())
        yield Reference("torch.nn.Linear", Arguments((LiteralValue(WIDTH), LiteralValue(WIDTH))))

    def callables(self, name: str) -> Iterator[Value]:
        """Yield guesses for a parameter that must be a layer class or function, such as
        ``act_layer``; classes first."""
        if "norm" in name:
            classes = ["LayerNorm", "BatchNorm2d", "BatchNorm1d", "Identity"]
        elif "conv" in name:
            classes = ["Conv2d", "Conv1d"]
        elif "act" in name or "nonlin" in name:
            classes = ["ReLU", "GELU"]
        elif "pool" in name:
            classes = ["AvgPool2d"]
        elif "linear" in name or "proj" in name or "fc" in name:
            classes = ["Linear"]
        else:
            classes = []
            yield from self.classes(torch.nn.Module, name)
            classes = ["Identity", "ReLU"]
        yield from (Reference(f"torch.nn.{one}") for one in classes)
        if "act" in name:
            yield Reference("torch.nn.functional.relu")
            yield from (LiteralValue(text) for text in ("relu", "gelu"))
        yield from (
            Reference(f"torch.nn.{one}", Arguments()) for one in classes[:1] if not _has_size(one)
        )

    def classes(self, base: Any, name: str) -> Iterator[Value]:
        """Yield guesses for a parameter ``name`` that must be a subclass of ``base``: classes of
        the file, similar names first."""
        base = base if isinstance(base, type) else torch.nn.Module
        found = [
            (key, kind)
            for key, kind in self._defined_classes()
            if issubclass(kind, base) and kind is not base and kind is not self.subject
        ]
        wanted = name.lower().replace("_", "")
        found.sort(key=lambda pair: wanted not in pair[0].lower())
        yield from (Reference(key) for key, _ in found[:4])

    def texts(self, name: str) -> list[str]:
        """Return strings to try for a parameter: first strings that the class or file compares it
        with, then common ones."""
        found = [
            *_compared_texts(re.escape(name), self._class_source),
            *_compared_texts(re.escape(name), self._file_text),
        ]
        if "act" in name or "nonlinearity" in name:
            found += ["relu", "gelu"]
        if "norm" in name:
            found += ["layer_norm", "batch"]
        if "padding" in name:
            found += ["zeros", "same"]
        return [*dict.fromkeys(found), "", "none"]

    def layers(self, name: str) -> list[str]:
        """Return names of layers in ``torch.nn`` to try for a parameter that the code uses in
        ``getattr(nn, name)``."""
        found = [one.name for one in self.callables(name.lower()) if isinstance(one, Reference)]
        known = [one.rpartition(".")[2] for one in found if one.startswith("torch.nn.")]
        recurrent = ["LSTM", "GRU"] if re.search(r"rnn|recurrent|cell", name.lower()) else []
        return list(dict.fromkeys([*recurrent, *known]))

    @functools.cached_property
    def _class_source(self) -> str:
        return _source_of(self.subject)

    @functools.cached_property
    def declared(self) -> dict[str, Value]:
        """Defaults of command-line options, by name, in this file and in other files that construct
        the class."""
        found: dict[str, Value] = {}
        for text in (*reversed(self._other_texts), self._file_text):
            with contextlib.suppress(SyntaxError, ValueError):
                found.update(declared_options(ast.parse(text)))
        return found

    def constructed_arguments(
        self, parameters: tuple[SignatureParameter, ...]
    ) -> list[dict[str, Value]]:
        """Return constructor arguments found in calls of the class, by parameter, for each call.

        Calls in other files are used only if no call in this file has all required arguments.
        """
        name = self.subject.__name__
        placed = [one.name for one in parameters if one.positional]
        required = {one.name for one in parameters if one.required}
        found = constructor_calls(self._file_text, name, placed, self.namespace)
        if any(required.issubset(known) for known in found):
            return found
        return constructor_calls(self._file_text, name, placed, self.namespace, self._other_texts)

    @functools.cached_property
    def _other_texts(self) -> list[str]:
        """Contents of other files of the workspace that construct the class."""
        return texts_that_call(self.subject.__name__, str(self.namespace.get("__file__", "")))

    @functools.cached_property
    def _file_text(self) -> str:
        try:
            return "".join(linecache.getlines(inspect.getfile(self.subject)))
        except (OSError, TypeError):
            return ""

    def is_assigned(self, attribute: str) -> bool:
        """Whether the file may assign the attribute of some object: in an assignment, or by its
        name in quotes."""
        spelled = re.escape(attribute)
        assigned = rf"\.{spelled}\s*(:[^=\n]+)?[-+*/|&]?=(?!=)|\.{spelled}\s*,|['\"]{spelled}['\"]"
        return re.search(assigned, self._file_text) is not None

    # -- inputs --

    def input(
        self,
        parameter: SignatureParameter,
        width: int,
        numbers: typing.Mapping[str, int] | None = None,
    ) -> list[Value]:
        """Return values to try for an input of ``forward``, most plausible first.

        ``width`` is the assumed number of features. ``numbers`` are the integer arguments of the
        constructor, by parameter.
        """
        found = input_like(parameter, width)
        count = self._taken_apart.get(parameter.name)
        if count is not None:
            item = next((one for one in found if isinstance(one, TensorText)), None)
            items = (item or make_tensor_text("f32", BATCH, width),) * count
            found.insert(0, Sequence("list", items))
        found = [*self._documented_input(parameter.name, width, numbers or {}, found), *found]
        found += [
            make_tensor_text("f32", BATCH, width),
            make_tensor_text("f32", BATCH, LENGTH, width),
            make_tensor_text("f32", BATCH, width, SIDE, SIDE),
            make_tensor_text("i64", BATCH, LENGTH),
        ]
        return _distinct_values(found)

    @functools.cached_property
    def _documented(self) -> dict[str, Words]:
        """Documented shapes of the inputs by parameter, such as ``("B", "C", "H", "W")``, from the
        class and its bases."""
        found: dict[str, Words] = {}
        for kind in reversed(self.subject.__mro__):
            text = textwrap.dedent(_source_of(kind)) if self.method in vars(kind) else ""
            owner = next(iter(_parse_text(text).body), None)
            if not isinstance(owner, ast.ClassDef):
                continue
            docstring = ast.get_docstring(owner)
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and node.name == self.method:
                    found.update(documented_shapes(node, text, [docstring] if docstring else []))
        return found

    def is_documented(self, name: str) -> bool:
        """Whether the class documents the shape of the input ``name``."""
        return name in self._documented

    def _documented_input(
        self, name: str, width: int, numbers: typing.Mapping[str, int], others: list[Value]
    ) -> Iterator[Value]:
        """Yield guesses for an input with its documented shape; dtype and other properties are from
        the first of ``others``."""
        words = self._documented.get(name)
        if words is None:
            return
        named = {one.lower(): number for one, number in numbers.items()}
        words = tuple(word.lstrip("*") for word in words if word not in ("...", "*"))
        image = any(re.fullmatch(r"h|height", word.lower()) for word in words)

        def known_size(name: str) -> int:
            constant = self.namespace.get(name)
            if name.lower() in named:
                return named[name.lower()]
            return (
                constant if type(constant) is int else _dimension_size(name.lower(), width, image)
            )

        usual = {4: (BATCH, width, SIDE, SIDE), 5: (BATCH, LENGTH, width, SIDE, SIDE)}.get(
            len(words), (*(BATCH, *(LENGTH,) * len(words))[: len(words) - 1], width)
        )
        shape = []
        for at, word in enumerate(words):
            size = usual[at] if word in ("_", "?", "-1", "") else size_of(word, known_size)
            if size is None or size < 0:
                return
            shape.append(BATCH if at == 0 and word in ("N", "n") else size)
        like = next(iter(others), None)
        if isinstance(like, Sequence) and like.items:
            item = next((one for one in like.items if isinstance(one, TensorText)), None)
            one = make_tensor_text(item.dtype if item is not None else "f32", *shape)
            yield Sequence(like.kind, (one,) * len(like.items))
        elif like is None or isinstance(like, TensorText):
            yield make_tensor_text(like.dtype if like is not None else "f32", *shape)


_DIMENSIONS: tuple[tuple[str, int | None], ...] = (
    (r"b|bs|bsz|b_?size|n?_?batch.*|num_(batch|samples)", BATCH),
    (r"h|w|height|hh|ww|[hw]\d|side", SIDE),
    (r"[tlsnmkp]|seq.*|time.*|.*len(gth)?|frames?|tokens?|steps?|n_?(seq|time).*", LENGTH),
    (r"[cdef]|.*dims?|.*channels?|.*features?|.*feats?|hidden.*|emb.*|width", None),
)


def _dimension_size(name: str, width: int, image: bool) -> int:
    """Return a plausible size for a dimension from its name, such as ``batch``, ``t`` or
    ``num_nodes``.

    ``width`` is the assumed number of features; ``image``: the dimension belongs to an image.
    """
    if name == "width" and image:
        return SIDE
    for pattern, size in _DIMENSIONS:
        if re.fullmatch(pattern, name):
            return width if size is None else size
    return guess_number(name)


def _parse_text(text: str) -> ast.Module:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


@functools.lru_cache(maxsize=64)
def _source_of(kind: Any) -> str:
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


@functools.lru_cache(maxsize=256)
def _compared_texts(spelled: str, source: str) -> tuple[str, ...]:
    """Return the strings that source code compares a name with.

    ``spelled`` is a regular expression for the name. Results are cached, because many arguments are
    tried.
    """
    found: list[str] = []
    for match in re.finditer(rf"\b{spelled}\b\s*(?:==|!=|\bin\b|\bnot in\b)\s*([^\n:]*)", source):
        found += re.findall(r"['\"]([^'\"\n]{1,40})['\"]", match[1])
    for match in re.finditer(
        rf"['\"]([^'\"\n]{{1,40}})['\"]\s*(?:==|\bin\b)\s*{spelled}\b", source
    ):
        found.append(match[1])
    return tuple(found)


def _is_own(node: ast.expr) -> TypeGuard[ast.Attribute]:
    """Whether an expression is an attribute of ``self``, such as ``self.name``."""
    own = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    return own and node.value.id == "self"  # type: ignore[attr-defined]


def _is_of_torch(attribute: str) -> bool:
    """Whether every tensor or every module has an attribute with this name."""
    return hasattr(torch.Tensor, attribute) or hasattr(torch.nn.Module, attribute)


def _attributes_of(kind: type) -> set[str]:
    """Return the names of the attributes that instances of a class have, judging by its body and
    its constructor."""
    names = set(dir(kind)) | getattr(kind, "__dataclass_fields__", {}).keys()
    code = getattr(kind.__init__, "__code__", None)  # type: ignore[misc]
    return names | set(code.co_names if code is not None else ())


def guess_number(name: str) -> int:
    """Return a plausible integer for a parameter, guessed from its name: for ``num_heads``, a small
    number."""
    if re.fullmatch(_RANK, name):
        return 2
    if re.fullmatch(r"(in|input)_?(ch|chans?|channels?)|c_in|in_c|inc|nc", name):
        return 3
    for pattern, value in _NUMBERS:
        if re.fullmatch(pattern, name):
            return value
    return WIDTH


def is_width(name: str) -> bool:
    """Whether a parameter's name means a number of features, such as ``hidden_size`` or
    ``d_model``."""
    name = name.lower()
    return not re.fullmatch(_RANK, name) and bool(
        re.fullmatch(
            r"d_?model|.*dims?|n_?embd?|embed.*|hidden(_size|_dim|_channels)?|in_features|"
            r"input_(size|dim)|in_?(dim|planes|channels|chans|ch|feats?)|channels|c|dim|width|"
            r"num_features|feat.*_size|num_channels|inplanes|nf|n_feats?|emb.*",
            name,
        )
    )


def _any_kind(name: str) -> list[Value]:
    one = LiteralValue(guess_number(name.lower()))
    return [
        one,
        Sequence("list", (one, one)),
        Sequence("list", (one,) * 4),
        LiteralValue(1),
        LiteralValue(2),
        LiteralValue(4),
        LiteralValue(None),
        LiteralValue(0.1),
        LiteralValue(False),
        LiteralValue(True),
        Reference("torch.nn.Identity", Arguments()),
        Reference("torch.nn.Identity"),
        Reference("SimpleNamespace", Arguments()),
        Mapping(()),
        make_tensor_text("f32", WIDTH),
    ]


def _has_size(layer: str) -> bool:
    return "Norm" in layer or layer in ("Linear", "Conv1d", "Conv2d", "AvgPool2d")


def _plain_types(annotation: Any) -> list[Any]:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, types.UnionType):
        return [one for inner in arguments for one in _plain_types(inner)]
    if origin is typing.Annotated:
        return _plain_types(arguments[0])
    return [annotation]


def input_like(parameter: SignatureParameter, width: int) -> list[Value]:
    """Return guesses for an input of ``forward``, from its annotation and name; ``width`` is the
    assumed number of features."""
    name = parameter.name.lower()
    found: list[Value] = []
    for one in _plain_types(parameter.annotation):
        found += _input_of_type(one, name, width)
    return found + _input_by_name(name, width)


def _input_of_type(annotation: Any, name: str, width: int) -> list[Value]:
    if annotation is type(None):
        return [LiteralValue(None)]
    if annotation is bool:
        return [LiteralValue(False), LiteralValue(True)]
    if annotation is int:
        return [LiteralValue(guess_number(name)), LiteralValue(4)]
    if annotation is float:
        return [LiteralValue(0.5)]
    if annotation is str:
        return [LiteralValue(""), LiteralValue("mean")]
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    kind = origin or annotation
    if kind in (list, tuple, collections.abc.Sequence, collections.abc.Iterable):
        inner = arguments[0] if arguments else torch.Tensor
        item = next(
            iter(_input_of_type(inner, name, width) + _input_by_name(name, width)),
            make_tensor_text("f32", BATCH, width),
        )
        several = tuple(one for one in arguments if one is not Ellipsis)
        count = len(several) if kind is tuple and len(several) > 1 else 2
        shape: Any = "tuple" if kind is tuple else "list"
        return [Sequence(shape, (item,) * count), Sequence(shape, (item,)), Sequence(shape, ())]
    if kind in (dict, collections.abc.Mapping):
        return [Mapping(())]
    return []


_INPUTS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    (r"edge_index|edges?|edge_label_index", "i64", ("2", "t")),
    (r"edge_(attr|weight|features?|feats?)", "f32", ("t",)),
    (
        r".*(input_?ids?|token(s|_ids|_type_ids)?|.*_ids|idxs?|indices|seqs?|captions?|text)",
        "i64",
        ("b", "t"),
    ),
    (r"batch(_index|_idx)?|node_type", "i64", ("t",)),
    (r"(.*_)?(labels?|targets?|tgt_y|gt)|y", "i64", ("b",)),
    (r".*(key_)?padding_mask|attention_mask", "b8", ("b", "t")),
    (r".*mask", "b8", ("b", "t")),
    (r".*(lengths?|lens)|timesteps?|time_steps?|steps?|t|time|noise_level", "i64", ("b",)),
    (
        r".*(images?|imgs?|pixel_values|pixels|frames?|pics?|rgb)|img\d?",
        "f32",
        ("b", "3", "s", "s"),
    ),
    (r".*(wav|waveforms?|audio|signal)", "f32", ("b", "1", "1024")),
    (r"adj(acency)?(_matrix)?|a_hat", "f32", ("t", "t")),
    (r"points?|pos|xyz|coords?|coordinates|point_cloud|vertices", "f32", ("b", "t", "3")),
    (
        r"q|k|v|query|key|value|queries|keys|values|(encoder_)?hidden_states?|.*embeds?|"
        r".*embeddings?|memory|src|tgt|.*tokens_emb|context|.*_seq|seq",
        "f32",
        ("b", "t", "d"),
    ),
)


def _input_by_name(name: str, width: int) -> list[Value]:
    known = {"b": BATCH, "t": LENGTH, "s": SIDE, "d": width}
    return [
        make_tensor_text(dtype, *(known[size] if size in known else int(size) for size in shape))
        for pattern, dtype, shape in _INPUTS
        if re.fullmatch(pattern, name)
    ]


def _shared_prefix(one: str, other: str) -> int:
    """Return the length of the common beginning of two names."""
    count = 0
    for a, b in zip(one, other):  # noqa: B905 - up to the end of the shorter
        if a != b:
            break
        count += 1
    return count


def _distinct_values(values: list[Value]) -> list[Value]:
    found: list[Value] = []
    known: set[str] = set()
    for value in values:
        if repr(value) not in known:
            known.add(repr(value))
            found.append(value)
    return found


def compared_in(kind: type) -> list[str]:
    """Return the strings that the code of a class compares with anything."""
    return list(dict.fromkeys(_compared_texts(r"\w+", _source_of(kind))))[:8]
