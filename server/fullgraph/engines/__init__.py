"""Find the interpreter whose torch is used; start, watch and restart the engine in it."""

from fullgraph.engines.early import EarlyEngine
from fullgraph.engines.engine import (
    Analysis,
    AnyEngine,
    Comparison,
    Engine,
    EngineGone,
    EngineListener,
    EngineState,
    EngineStatus,
    Reproduction,
)
from fullgraph.engines.environment import lasting
from fullgraph.engines.installation import packages_state, torch_on_disk
from fullgraph.engines.interpreter import (
    Interpreter,
    InterpreterNotFound,
    find_interpreter,
)
from fullgraph.engines.process import boot_script, working_folder
from fullgraph.engines.sentences import sentences
from fullgraph.engines.shared import shared_or_own

__all__ = [
    "Analysis",
    "AnyEngine",
    "Comparison",
    "EarlyEngine",
    "Engine",
    "EngineGone",
    "EngineListener",
    "EngineState",
    "EngineStatus",
    "Interpreter",
    "InterpreterNotFound",
    "Reproduction",
    "boot_script",
    "find_interpreter",
    "lasting",
    "packages_state",
    "sentences",
    "shared_or_own",
    "torch_on_disk",
    "working_folder",
]
