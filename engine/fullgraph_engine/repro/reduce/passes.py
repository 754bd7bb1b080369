"""The passes, in the order in which they are made: what takes most away with least doubt first."""

from __future__ import annotations

from . import calls, classes, compound, expressions, imports, names, statements, values
from .search import Pass

PASSES = (
    Pass("idle", statements.idle, likely=True),
    Pass("twins", classes.twins, likely=True),
    Pass("submodules", statements.submodules, likely=True),
    Pass("cut", statements.dropped, finest=4),
    Pass("dropped", statements.dropped, basic=True),
    Pass("expressions", calls.expressions, likely=True),
    Pass("starred", calls.starred, likely=True),
    Pass("unread", calls.unread, likely=True),
    Pass("bypassed", statements.bypassed),
    Pass("unwrapped", compound.unwrapped, basic=True),
    Pass("fixed", calls.fixed),
    Pass("leaves", expressions.leaves),
    Pass("negations", expressions.negations),
    Pass("variables", calls.variables),
    Pass("inlined", calls.inlined),
    Pass("callbacks", calls.callbacks),
    Pass("attributes", classes.attributes),
    Pass("fields", classes.fields),
    Pass("merged", classes.merged),
    Pass("parts", classes.parts),
    Pass("bases", classes.bases),
    Pass("functions", classes.functions),
    Pass("imports", imports.dotted),
    Pass("bare", expressions.bare),
    Pass("children", expressions.children),
    Pass("tensors", values.tensors),
    Pass("elements", expressions.elements),
    Pass("numbers", values.numbers),
    Pass("strings", values.strings),
    Pass("constants", expressions.constants),
    Pass("names", names.simplified, last=True, order=names.plainness),
)
