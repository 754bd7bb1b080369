"""Find the interpreter whose torch is used; start, monitor and restart the engine in it.

An engine is a process of that interpreter, which imports torch and traces files.
"""

from fullgraph.engines.early import EarlyEngine
from fullgraph.engines.engine import AnyEngine, Engine, EngineGone, EngineListener
from fullgraph.engines.environment import stable_variables
from fullgraph.engines.installation import packages_state, torch_on_disk
from fullgraph.engines.interpreter import (
    Interpreter,
    InterpreterNotFound,
    find_environment,
    find_interpreter,
)
from fullgraph.engines.process import boot_script, working_folder
from fullgraph.engines.requests import AnalysisRequest, ComparisonRequest, ReproductionRequest
from fullgraph.engines.sentences import sentences
from fullgraph.engines.shared import shared_or_own
from fullgraph.engines.status import EngineState, EngineStatus

__all__ = [
    "AnalysisRequest",
    "AnyEngine",
    "ComparisonRequest",
    "EarlyEngine",
    "Engine",
    "EngineGone",
    "EngineListener",
    "EngineState",
    "EngineStatus",
    "Interpreter",
    "InterpreterNotFound",
    "ReproductionRequest",
    "boot_script",
    "find_environment",
    "find_interpreter",
    "packages_state",
    "sentences",
    "shared_or_own",
    "stable_variables",
    "torch_on_disk",
    "working_folder",
]
