"""Results of traces stored on disk, which are valid while everything that they depend on is
unchanged.
"""

from __future__ import annotations

from .basis import EngineBasis as EngineBasis
from .basis import engine_basis as engine_basis
from .results import SETTLED as SETTLED
from .results import KeptResults as KeptResults
from .results import ResultRecorder as ResultRecorder
from .store import EngineStore as EngineStore
from .store import ResultStore as ResultStore
from .store import any_results as any_results
from .store import results_folder as results_folder
