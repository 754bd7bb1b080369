"""The reducer's passes in the order in which it runs them, most effective passes first."""

from __future__ import annotations

from . import calls, classes, compound, expressions, names, statements, values
from .search import Pass

PASSES = (
    Pass("idle", statements.drop_idle, likely=True),
    Pass("twins", classes.merge_twins, likely=True),
    Pass("submodules", statements.bypass_submodules, likely=True),
    Pass("cut", statements.drop_statements, finest=4),
    Pass("dropped", statements.drop_statements, basic=True),
    Pass("expressions", calls.inline_expressions, likely=True),
    Pass("starred", calls.unpack_starred, likely=True),
    Pass("unread", calls.drop_unread_parameters, likely=True),
    Pass("bypassed", statements.bypass_assignments),
    Pass("unwrapped", compound.unwrap_blocks, basic=True),
    Pass("fixed", calls.inline_fixed_parameters),
    Pass("leaves", expressions.replace_by_variable),
    Pass("variables", calls.inline_variables),
    Pass("inlined", calls.inline_functions),
    Pass("attributes", classes.inline_attributes),
    Pass("parts", classes.replace_by_attribute),
    Pass("bases", classes.drop_bases),
    Pass("functions", classes.classes_to_functions),
    Pass("bare", expressions.drop_targets),
    Pass("children", expressions.replace_by_child),
    Pass("tensors", values.simplify_tensors),
    Pass("elements", expressions.drop_elements),
    Pass("numbers", values.shrink_numbers),
    Pass("strings", values.empty_strings),
    Pass("constants", expressions.replace_by_constant),
    Pass("names", names.shorten_names, last=True, order=names.name_order),
)
