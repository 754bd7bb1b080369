"""The passes, in the order in which they are made."""

from __future__ import annotations

from . import compound, expressions, statements
from .search import Pass

PASSES = (
    Pass("unused", statements.unused),
    Pass("described", statements.described),
    Pass("dropped", statements.dropped, basic=True),
    Pass("submodules", statements.submodules),
    Pass("bypassed", statements.bypassed),
    Pass("unwrapped", compound.unwrapped, basic=True),
    Pass("leaves", expressions.leaves),
    Pass("children", expressions.children),
    Pass("elements", expressions.elements),
    Pass("constants", expressions.constants),
)
