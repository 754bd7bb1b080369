"""State of the random number generators, seeded equally for every run so that findings do not
vary."""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from typing import Any


def seed_generators(seed: int = 0) -> None:
    """Seed every random number generator of this process with the same number."""
    import torch  # imported here, because targets are discovered without torch

    # ``torch.manual_seed`` stores the whole stack for each missing device type, which takes
    # milliseconds.
    if torch.backends.mps.is_available():
        torch.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)
    random.seed(seed)
    numpy = sys.modules.get("numpy.random")
    if numpy is not None:
        numpy.seed(seed)


@dataclass(frozen=True)
class GeneratorStates:
    """The states of all random number generators; ``numpy`` is None if it was not imported."""

    torch: Any
    python: Any
    numpy: Any


def generator_states() -> GeneratorStates:
    """Return the states of torch's CPU generator, ``random`` and ``numpy.random``, if imported."""
    import torch

    numpy = sys.modules.get("numpy.random")
    numbers = numpy.get_state() if numpy is not None else None
    return GeneratorStates(torch.get_rng_state(), random.getstate(), numbers)


def restore_generators(state: GeneratorStates) -> None:
    """Restore the states of all random number generators."""
    import torch

    torch.set_rng_state(state.torch)
    random.setstate(state.python)
    if state.numpy is not None:
        sys.modules["numpy.random"].set_state(state.numpy)
