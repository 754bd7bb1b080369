"""Rewrites of NumPy functions of Python numbers as functions of Python.

Dynamo traces NumPy functions as tensor operations, so their results are unknown during the trace.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.conditions import Conditions, asked_by
from fullgraph.fixes.rewrites.operands import kind_of, of_locals
from fullgraph.fixes.rewrites.syntax import Syntax, names_in, words
from fullgraph.fixes.site import Site

OF_MATH = words("sqrt log log2 log10 exp ceil floor prod")
"""Functions of ``numpy`` that ``math`` has under the same name."""
_OF_ONE = {
    **{name: f"math.{name}" for name in OF_MATH},
    **{name: name for name in words("sum max min abs round")},
    "amax": "max",
    "amin": "min",
    "absolute": "abs",
    "rint": "round",
}
"""Functions of ``numpy`` with one argument, by name, with the Python function that replaces each.
"""
_OF_TWO = {"maximum": "max", "minimum": "min", "power": "pow"}
"""Functions of ``numpy`` with two arguments, by name, with the Python function that replaces each.
"""
_WHOLE = ("math.ceil", "math.floor", "round")
_INTEGER_TYPES = words("int numpy.int32 numpy.int64 'int' 'int32' 'int64'")


def python_numbers(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of ``int(np.ceil(n / 2))`` as ``math.ceil(n / 2)``, of ``np.unique(axes)`` as
    ``sorted(set(axes))``, and of ``np.all(np.array(sizes) == n)`` as ``all(one == n for one in
    sizes)``.

    The first candidate changes the condition or statement with the finding, the second the whole
    function. The second helps if the graph breaks where a variable with the result is used.
    """
    if not site.finding.code.startswith("graph-break"):
        return
    syntax = Syntax(site)
    asked, small = asked_by(site), syntax.small
    here = asked.test if asked is not None else small.node if small is not None else None
    for root in (here, site.function):
        if root is None:
            continue
        conversion = _Conversion(syntax)
        new = root.visit(conversion)
        if conversion.made:
            assert isinstance(new, cst.CSTNode)
            imports = syntax.lacking("math") if "math" in names_in(new) else ()
            yield Candidate(
                "python-numbers",
                "Compute with Python's numbers instead of NumPy's",
                site.replaced([(root, new)], imports=imports),
                gives_up="Results are Python numbers instead of NumPy numbers.",
                keeps_branches=conversion.is_exact,
            )


class _Conversion(cst.CSTTransformer):
    """A transformer that replaces NumPy functions of numbers by functions of Python."""

    def __init__(self, syntax: Syntax) -> None:
        super().__init__()
        self._syntax = syntax
        self._conditions = Conditions(syntax.site)
        self.made: list[cst.BaseExpression] = []
        """Expressions that replace NumPy functions."""
        self.is_exact = True
        """True if all replaced expressions compare integers, so that their values stay equal."""

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        code = self._python_call(original_node, updated_node) or self._python_number(updated_node)
        if code is None:
            return updated_node
        new = self._syntax.fitted(original_node, code)
        self.made.append(new)
        return new

    def _python_call(self, old: cst.Call, new: cst.Call) -> str | None:
        """Return the code that replaces a call of a NumPy function; None for other calls."""
        name = self._syntax.called(old)
        package, _, function = name.rpartition(".")
        plain = not any(one.keyword is not None or one.star for one in old.args)
        if package == "numpy" and plain and function in ("all", "any") and len(new.args) == 1:
            return self._each_compared(function, new.args[0].value)
        if not new.args and isinstance(old.func, cst.Attribute):
            method = old.func.attr.value
            if method in ("all", "any") and isinstance(new.func, cst.Attribute):
                return self._each_compared(method, new.func.value)
        known = {1: _OF_ONE, 2: _OF_TWO}.get(len(old.args), {})
        is_unique = function == "unique" and len(old.args) == 1
        if package != "numpy" or not plain or not (is_unique or function in known):
            return None
        if any(self._is_tensor(one.value) for one in old.args):
            return None
        self.is_exact = False
        given = ", ".join(self._syntax.site.code(one.value) for one in new.args)
        return f"sorted(set({given}))" if is_unique else f"{known[function]}({given})"

    def _is_tensor(self, node: cst.BaseExpression) -> bool:
        """Whether an argument seems to be a tensor.

        The trace saw the last value of a variable, which is not the argument in
        ``axes = np.unique(axes)``.
        """
        assigned = self._syntax.text.around(node, cst.Assign)
        targets = assigned.targets if assigned is not None else ()
        if isinstance(node, cst.Name) and any(
            names_in(one.target) == {node.value} for one in targets
        ):
            return False
        return self._conditions.is_tensor(node)

    def _each_compared(self, function: str, compared: cst.BaseExpression) -> str | None:
        """Return code that compares each number of a list with one number; None if an expression is
        not a comparison of an array with a number."""
        if not isinstance(compared, cst.Comparison) or len(compared.comparisons) != 1:
            return None
        numbers = self._array_elements(compared.left)
        right = compared.comparisons[0].comparator
        if numbers is None or self._array_elements(right) is not None:
            return None
        self.is_exact &= self._kind(numbers) == "list[int]" and self._kind(right) == "int"
        name = next(one for one in ("one", "each", "element") if one not in names_in(compared))
        test = compared.with_changes(left=cst.Name(name), lpar=[], rpar=[])
        code = self._syntax.site.code
        return f"{function}({code(test)} for {name} in {code(numbers)})"

    def _kind(self, node: cst.BaseExpression) -> str:
        """Return the type of an expression, such as "int" or "list[int]"; empty if unknown."""
        syntax = self._syntax
        here = syntax.site.statement
        span = syntax.text.span(here) if here is not None else None
        if span is None or syntax.function is None:
            return ""
        known = of_locals(syntax, syntax.function, span[0])
        if isinstance(node, cst.Call) and syntax.called(node) in ("min", "max"):
            kinds = [kind_of(syntax, arg.value, known) for arg in node.args]
            return "int" if kinds == ["list[int]"] else ""
        return kind_of(syntax, node, known)

    def _array_elements(self, node: cst.BaseExpression) -> cst.BaseExpression | None:
        """Return ``sizes`` for ``np.array(sizes)``; None for other expressions."""
        if not isinstance(node, cst.Call) or len(node.args) != 1:
            return None
        arrays = ("numpy.array", "numpy.asarray")
        return node.args[0].value if self._syntax.called(node) in arrays else None

    def _python_number(self, new: cst.Call) -> str | None:
        """Return the code of a call without an unnecessary conversion to a number: ``math.ceil(n)``
        for ``math.ceil(n).item()``. None for other calls.
        """
        code = self._syntax.site.code
        if isinstance(new.func, cst.Name) and new.func.value == "int" and len(new.args) == 1:
            inner = new.args[0].value
            whole = isinstance(inner, cst.Call) and code(inner.func) in _WHOLE
            return code(inner) if whole and self._is_made(inner) else None
        if not isinstance(new.func, cst.Attribute) or not self._is_made(new.func.value):
            return None
        inner, method = new.func.value, new.func.attr.value
        is_list = isinstance(inner, cst.Call) and code(inner.func) == "sorted"
        if method == ("tolist" if is_list else "item") and not new.args:
            return code(inner)
        if method != "astype" or len(new.args) != 1:
            return None
        type_ = new.args[0].value
        if (self._syntax.name(type_) or code(type_).replace('"', "'")) not in _INTEGER_TYPES:
            return None
        if is_list:
            return f"list(map(int, {code(inner)}))"
        whole = isinstance(inner, cst.Call) and code(inner.func) in _WHOLE
        return code(inner) if whole else f"int({code(inner)})"

    def _is_made(self, node: cst.BaseExpression) -> bool:
        return any(one is node for one in self.made)
