"""The one place that knows torch's private names.

Each :class:`Private` is something of torch that we need and that no version promises to keep.
It is looked up once; where it is missing, the feature that needs it is off and ``fullgraph
doctor`` says so. Everything else in this package speaks our own recording types.
"""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..protocol import Hook

BREAK_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb/"


@dataclass(frozen=True)
class Private:
    """An attribute of a torch module: ``where`` is its module, ``path`` the dotted rest."""

    where: str
    path: str
    purpose: str

    @property
    def name(self) -> str:
        return f"{self.where}.{self.path}"

    def owner(self) -> Any:
        """The object that holds the last part of the path, or None."""
        try:
            value: Any = importlib.import_module(self.where)
        except ImportError:
            return None
        for part in self.path.split(".")[:-1]:
            value = getattr(value, part, None)
        return value

    def get(self) -> Any:
        """The object itself, or None where this torch has no such thing."""
        owner = self.owner()
        return None if owner is None else getattr(owner, self.path.split(".")[-1], None)

    def wrap(self, around: Callable[[Callable[..., Any]], Callable[..., Any]]) -> bool:
        """Replace it by ``around(original)``; False where it is missing."""
        original = self.get()
        if original is None:
            return False
        wrapper = around(original)
        # Dynamo recognises its own functions by code and by module; keep the outside the same.
        for name in ("__name__", "__qualname__", "__module__", "__doc__"):
            setattr(wrapper, name, getattr(original, name, None))
        setattr(self.owner(), self.path.split(".")[-1], wrapper)
        return True


_SC = "torch._dynamo.symbolic_convert"
_CF = "torch._dynamo.convert_frame"
_OG = "torch._dynamo.output_graph"
_EXC = "torch._dynamo.exc"
_VALUES = "which expressions and locals were tensors"

LOG_BREAK = Private(_SC, "InstructionTranslatorBase.log_graph_break", "graph breaks")
UNSUPPORTED = Private(_EXC, "Unsupported.__init__", "where and why a break arose, with columns")
USER_ERROR = Private(_EXC, "UserError.__init__", "breaks that are the user's errors")
COMPILE = Private(_CF, "_compile", "frames, their outcome and Dynamo's errors")
SKIP = Private(_CF, "add_skip_reason", "skipped frames with reasons")
RECOMPILE = Private(_CF, "get_and_maybe_log_recompilation_reasons", "recompiles with reasons")
RECOMPILE_LIMIT = Private(_CF, "exceeds_recompile_limit", "frames that are recompiled too often")
COMPLIANCE = Private(_OG, "check_pt2_compliant_op", "operators that are not PT2-compliant")
CREATE_NODE = Private(_OG, "SubgraphTracer.create_node", "the source range of every op")
CALL_COMPILER = Private(_OG, "OutputGraph.call_user_compiler", "graphs")
CHECK_FUNCTION = Private("torch._dynamo.guards", "CheckFunctionManager.__init__", "guards")
GUARD_WORDS = Private(
    "torch._dynamo.guards", "get_verbose_code_parts", "the lines that guards come from"
)
RELATIONAL_GUARD = Private(
    "torch._C._dynamo.guards", "RelationalGuard", "counting guards that relate values once"
)
CONSTANT_VARIABLE = Private(
    "torch._dynamo.variables.constant", "ConstantVariable", "guarded values that the code changes"
)
REPLACEMENT = Private(
    "torch.fx.experimental.symbolic_shapes", "ShapeEnv._set_replacement", "specialised dimensions"
)
SIZE_PLACE = Private(
    "torch.fx.experimental.symbolic_shapes",
    "ShapeEnv._get_sloc",
    "the lines that guards on sizes come from",
)
CREATE_SYMBOL = Private(
    "torch.fx.experimental.symbolic_shapes", "ShapeEnv.create_symbol", "symbols of dimensions"
)
CREATE_UNBACKED = Private(
    "torch.fx.experimental.symbolic_shapes",
    "ShapeEnv.create_unbacked_symint",
    "sizes that only the data know",
)
DEFER_ASSERT = Private(
    "torch.fx.experimental.symbolic_shapes",
    "ShapeEnv.guard_or_defer_runtime_assert",
    "where conditions come from that are checked when a graph runs",
)
GET_COMPILER = Private(
    "torch._dynamo.eval_frame",
    "get_compiler_fn",
    "tracing what the file compiles, without a backend",
)
INDUCTOR_WRAPPER = Private(
    "torch", "_TorchCompileInductorWrapper", "torch.compile in user code, without Inductor"
)
BACKEND_WRAPPER = Private("torch", "_TorchCompileWrapper", "torch.compile with another backend")
PROFILE_GUARDS = Private(
    "torch._dynamo.guards", "profile_guard_manager", "speed: leaving out how long guards take"
)

BACKENDS = Private(
    "torch._dynamo.backends.registry", "_BACKENDS", "backends that packages announce, in repros"
)
# Not among the hooks below: looking it up would import Inductor.
HEADER_FOLDERS = tuple(
    Private("torch._inductor.codecache", name, "speed: compiled headers that repros share")
    for name in ("_HEADER_DIR", "_HEADER_LOCK_DIR")
)

_PARAMETERS = "what Dynamo spares parameters, in runs with fake tensors"
EXACT_TYPE = Private("torch._dynamo.guards", "istype", _PARAMETERS)
STATIC_SHAPE = Private(
    "torch._dynamo.variables.builder", "tensor_always_has_static_shape", _PARAMETERS
)

_SCALARS = "values of scalars that Dynamo reads, in runs with fake tensors"
MADE_FAKE = Private(
    "torch._subclasses.fake_tensor", "FakeTensorConverter.from_real_tensor", _SCALARS
)
FAKE_OPERATORS = Private("torch._subclasses.fake_impls", "op_implementations_dict", _SCALARS)
TRACKED_FAKE = Private("torch._dynamo.variables.builder", "TrackedFake", _SCALARS)

BYTECODE_HOOK = Private(
    "torch._dynamo.convert_frame", "register_bytecode_hook", "bytecode before and after Dynamo"
)

TRANSLATOR = Private(_SC, "InstructionTranslatorBase.__init__", _VALUES)
OPCODES = Private(_SC, "InstructionTranslatorBase.dispatch_table", _VALUES)
TENSOR_VARIABLE = Private("torch._dynamo.variables.tensor", "TensorVariable", _VALUES)
ARRAY_VARIABLE = Private("torch._dynamo.variables.tensor", "NumpyNdarrayVariable", _VALUES)
NUMBER_VARIABLE = Private("torch._dynamo.variables.tensor", "UnspecializedPythonVariable", _VALUES)
ITEM_VARIABLE = Private("torch._dynamo.variables.tensor", "FakeItemVariable", _VALUES)
MODULE_VARIABLE = Private("torch._dynamo.variables.nn_module", "NNModuleVariable", _VALUES)
USER_MODULE_VARIABLE = Private(
    "torch._dynamo.variables.nn_module", "UnspecializedNNModuleVariable", _VALUES
)
LAZY_VARIABLE = Private("torch._dynamo.variables.lazy", "LazyVariableTracker", _VALUES)
CELL_VARIABLE = Private("torch._dynamo.variables.misc", "CellVariable", _VALUES)
DELETED_VARIABLE = Private("torch._dynamo.variables.misc", "DeletedVariable", _VALUES)
ATTRIBUTE_VARIABLE = Private("torch._dynamo.variables.misc", "GetAttrVariable", _VALUES)
NULL_VARIABLE = Private("torch._dynamo.variables.misc", "NullVariable", _VALUES)

_SHAPES = "what tensors and sizes were, at assignments and in expressions"
ROOT_TRANSLATOR = Private(_SC, "InstructionTranslator.__init__", _SHAPES)
SYMBOL_VARIABLE = Private("torch._dynamo.variables.tensor", "SymNodeVariable", _SHAPES)
CONSTANT_VARIABLE = Private("torch._dynamo.variables.constant", "ConstantVariable", _SHAPES)
SIZE_VARIABLE = Private("torch._dynamo.variables.lists", "SizeVariable", _SHAPES)
TUPLE_VARIABLE = Private("torch._dynamo.variables.lists", "TupleVariable", _SHAPES)
# Either: the one before torch 2.12, the other since.
NAMED_TUPLE_VARIABLE = Private("torch._dynamo.variables.lists", "NamedTupleVariable", _SHAPES)
OWN_TUPLE_VARIABLE = Private(
    "torch._dynamo.variables.user_defined", "UserDefinedTupleVariable", _SHAPES
)
LIST_VARIABLE = Private("torch._dynamo.variables.lists", "ListVariable", _SHAPES)

# Since torch 2.14; what they stand for was not there before.
OBSERVED_FAKE_ERROR = Private(
    _EXC, "FakeTensorObservedException", "errors of operators on fake tensors, in their own words"
)
COMPUTED_VARIABLE = Private(
    "torch._dynamo.variables.lazy",
    "ComputedLazyConstantVariable",
    "guarded values that the code changes",
)

VALUES = (
    TRANSLATOR,
    OPCODES,
    TENSOR_VARIABLE,
    ARRAY_VARIABLE,
    NUMBER_VARIABLE,
    ITEM_VARIABLE,
    MODULE_VARIABLE,
    USER_MODULE_VARIABLE,
    LAZY_VARIABLE,
    CELL_VARIABLE,
    DELETED_VARIABLE,
    ATTRIBUTE_VARIABLE,
    NULL_VARIABLE,
)
"""What is needed to say which expressions were tensors. All of it, lest something wrong is said."""

SHAPES = (
    ROOT_TRANSLATOR,
    SYMBOL_VARIABLE,
    CONSTANT_VARIABLE,
    SIZE_VARIABLE,
    TUPLE_VARIABLE,
    LIST_VARIABLE,
)
"""What is needed besides to say what they were."""

HOOKS = (
    LOG_BREAK,
    UNSUPPORTED,
    USER_ERROR,
    COMPILE,
    SKIP,
    RECOMPILE,
    RECOMPILE_LIMIT,
    COMPLIANCE,
    CREATE_NODE,
    CALL_COMPILER,
    CHECK_FUNCTION,
    GUARD_WORDS,
    SIZE_PLACE,
    RELATIONAL_GUARD,
    CONSTANT_VARIABLE,
    REPLACEMENT,
    CREATE_SYMBOL,
    CREATE_UNBACKED,
    DEFER_ASSERT,
    GET_COMPILER,
    INDUCTOR_WRAPPER,
    BACKEND_WRAPPER,
    BACKENDS,
    PROFILE_GUARDS,
    EXACT_TYPE,
    STATIC_SHAPE,
    MADE_FAKE,
    FAKE_OPERATORS,
    TRACKED_FAKE,
    BYTECODE_HOOK,
    *VALUES,
    *SHAPES,
)


def self_check() -> tuple[Hook, ...]:
    """Which hooks this torch has; a missing one degrades what its purpose names."""
    hooks = [
        Hook(hook.name, hook.get() is not None, hook.purpose, "" if hook.get() else "not found")
        for hook in HOOKS
    ]
    ids = len(registry())
    hooks.append(
        Hook(
            "torch/_dynamo/graph_break_registry.json",
            ids > 0,
            "numbers of graph breaks and links to their pages",
            f"{ids} break types" if ids else "not shipped with this torch: slugs are used",
        )
    )
    return tuple(hooks)


@lru_cache(maxsize=1)
def registry() -> dict[str, str]:
    """Break type to number (``GB0059``), from the file that torch ships; empty where none."""
    import torch._dynamo

    path = Path(torch._dynamo.__file__).with_name("graph_break_registry.json")
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return {entry["Gb_type"]: number for number, entries in raw.items() for entry in entries}


def break_link(number: str) -> str:
    """The page of a numbered break; empty for an unnumbered one."""
    return f"{BREAK_SITE}gb{number.removeprefix('GB')}.html" if number else ""


def slug(words: str) -> str:
    """A stable name for a break without a number: its type in kebab case."""
    return re.sub(r"[^a-z0-9]+", "-", words.lower()).strip("-")[:60].rstrip("-") or "unknown"
