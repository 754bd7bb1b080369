"""Queries of syntax trees: names of called functions, statements, and uses of a name."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Union

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.rewrites.names import code_of, descendants, find_all, variable_nodes
from fullgraph.fixes.site import Change, Site
from fullgraph_engine.protocol.evidence import BreakEvidence, FailureEvidence, SkipEvidence

NOT_COMPILING = "not torch.compiler.is_compiling()"
COMPILING = "torch.compiler.is_compiling()"

SmallBlock = Union[cst.SimpleStatementLine, cst.SimpleStatementSuite]


@dataclass(frozen=True)
class Small:
    """A simple statement, and the line (or block on one line) that contains it."""

    node: cst.BaseSmallStatement
    block: SmallBlock


class Syntax:
    """Queries on the syntax tree around a finding, with the imports of the file resolved.

    Properties that return expressions or statements with the finding are empty for findings other
    than graph breaks and failures.
    """

    def __init__(self, site: Site) -> None:
        self.site = site
        self._breaks = isinstance(
            site.finding.evidence, (BreakEvidence, SkipEvidence, FailureEvidence)
        )
        self.text = site.text
        self.module = site.module

    @property
    def imported(self) -> Mapping[str, str]:
        """Full names, by the name that an import binds: ``numpy`` by ``np``, ``math.sqrt`` by
        ``sqrt``.
        """
        return self.text.once(_imported_names)

    def name(self, node: cst.CSTNode) -> str:
        """Return the full name of a dotted expression: ``numpy.sqrt`` for ``np.sqrt``.

        It is empty for other expressions.
        """
        path = dotted_name(node)
        root, dot, rest = path.partition(".")
        return self.imported.get(root, root) + dot + rest

    def called(self, node: cst.CSTNode) -> str:
        """Return the full name of the function that an expression calls, such as ``numpy.sqrt``.

        It is empty for other expressions, and if the called function is not a dotted name.
        """
        return self.name(node.func) if isinstance(node, cst.Call) else ""

    def lacking(self, *modules: str) -> tuple[str, ...]:
        """Return the names in ``modules`` that the file must still import, because ``import name``
        is missing.
        """
        return tuple(name for name in modules if self.imported.get(name) != name)

    def imports_for(self, spelled: str) -> tuple[str, ...]:
        """Return the module to import for a name that :meth:`spelled` returned, as a tuple; empty
        if the file imports it already.
        """
        root = spelled.partition(".")[0]
        return () if root in self.imported else (root,)

    def spelled(self, name: str) -> str:
        """Return how the file can write a full name such as ``numpy.sqrt``, given its imports."""
        root, _, rest = name.partition(".")
        for bound, meaning in self.imported.items():
            if meaning == root:
                return f"{bound}.{rest}"
        return name

    @cached_property
    def around(self) -> tuple[cst.BaseExpression, ...]:
        """Expressions that contain the finding, from the smallest one to the whole expression of
        its statement.
        """
        found: list[cst.BaseExpression] = []
        node: cst.CSTNode | None = self.site.expression if self._breaks else None
        while node is not None and not isinstance(node, (cst.BaseSmallStatement, cst.BaseSuite)):
            if isinstance(node, cst.BaseExpression):
                found.append(node)
            node = self.text.parent(node)
        return tuple(found)

    @cached_property
    def here(self) -> tuple[cst.BaseExpression, ...]:
        """Expressions that may have caused the finding: first expressions that contain it, then
        expressions inside it.
        """
        inside: list[cst.BaseExpression] = []
        if not self._breaks:
            return ()
        root = self.site.expression or (self.small.node if self.small is not None else None)
        if root is not None and not self.around:
            inside = [node for node in descendants(root) if isinstance(node, cst.BaseExpression)]
        elif root is not None:
            inside = [
                node
                for node in descendants(root)
                if isinstance(node, cst.BaseExpression) and node is not root
            ]
        return (*self.around, *inside)

    def calls(self, *names: str) -> Iterator[cst.Call]:
        """Yield the calls of functions with these full names that may have caused the finding."""
        for node in self.here:
            if isinstance(node, cst.Call) and self.called(node) in names:
                yield node

    @cached_property
    def small(self) -> Small | None:
        """The simple statement with the graph break; None if the break is in the header of a
        compound statement."""
        return self.statement if self._breaks else None

    @cached_property
    def statement(self) -> Small | None:
        """The simple statement around the finding, also for findings other than graph breaks."""
        node = self.site.enclosing(cst.BaseSmallStatement)
        if node is None:
            start, end = (
                self.text.offset(self.site.finding.range.start),
                self.text.offset(self.site.finding.range.end),
            )
            node = self.text.smallest(cst.BaseSmallStatement, start, end)
        return self.small_of(node) if node is not None else None

    def small_of(self, node: cst.CSTNode) -> Small | None:
        """Return the simple statement that contains a node.

        The result is None if the node is in the header of a compound statement.
        """
        for one in (node, *self.text.ancestors(node)):
            if isinstance(one, cst.BaseSmallStatement):
                block = self.text.parent(one)
                assert isinstance(block, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
                return Small(one, block)
            if isinstance(one, (cst.BaseCompoundStatement, cst.Module)):
                return None
        return None

    @cached_property
    def function(self) -> cst.FunctionDef | None:
        """The nearest ``def`` around the finding."""
        found: cst.FunctionDef | None = self.site.enclosing(cst.FunctionDef)
        if found is None and self.small is not None:
            found = self.text.around(self.small.node, cst.FunctionDef)
        return found

    def replaced(self, old: cst.CSTNode, code: str, *, torch: bool = False) -> str:
        """Return the new source code with the expression ``old`` replaced by ``code``.

        Parentheses are added if the context needs them. ``torch`` is true if the new code uses
        ``torch``, which is then imported if needed.
        """
        return self.site.replaced(
            [(old, self.fitted(old, code))], imports=self.lacking("torch") if torch else ()
        )

    def fitted(self, old: cst.CSTNode, code: str) -> cst.BaseExpression:
        """Parse ``code`` as an expression, and put it in parentheses if it needs them where ``old``
        is.
        """
        new = self.expression(code)
        parent = self.text.parent(old)
        alone = isinstance(
            parent,
            (cst.Arg, cst.Assign, cst.AnnAssign, cst.AugAssign, cst.Return, cst.Expr, cst.Index),
        )
        if alone or isinstance(new, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or new.lpar:
            return new
        return new.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])

    def expression(self, code: str) -> cst.BaseExpression:
        """Parse the source code of an expression, which may have several lines."""
        try:
            return cst.parse_expression(code, self.module.config_for_parsing)
        except cst.ParserSyntaxError:
            # The code is part of a bracketed expression over several lines, and parses only with
            # brackets.
            return cst.parse_expression(f"({code})", self.module.config_for_parsing)

    def operand(self, node: cst.CSTNode) -> str:
        """Return the code of an expression to which ``.attribute`` can be appended."""
        code = self.site.code(node)
        simple = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript))
        if simple or (isinstance(node, cst.BaseExpression) and node.lpar):
            return code
        return f"({code})"

    def guarded(self, nodes: Sequence[cst.BaseSmallStatement]) -> str:
        """Return the new source code in which the statements ``nodes`` only run in eager mode.

        They move into ``if not torch.compiler.is_compiling():``; neighboring lines share one
        ``if``.
        """
        chosen = {id(node) for node in nodes}
        changes: list[tuple[cst.CSTNode, Change]] = []
        lines: list[cst.SimpleStatementLine] = []
        for node in nodes:
            small = self.small_of(node)
            assert small is not None
            block = small.block
            if isinstance(block, cst.SimpleStatementSuite):
                body = cst.IndentedBlock(_split_line(block, chosen))
                if all(old is not block for old, _ in changes):
                    changes.append((block, body))
            elif all(id(one) in chosen for one in block.body):
                if all(line is not block for line in lines):
                    lines.append(block)
            elif all(old is not block for old, _ in changes):
                changes.append((block, cst.FlattenSentinel(_split_line(block, chosen))))
        for run in self._neighboring_runs(lines):
            first, *rest = run
            changes.append((first, condition(run)))
            changes += [(line, cst.RemoveFromParent()) for line in rest]
        return self.site.replaced(changes, imports=self.lacking("torch"))

    def _neighboring_runs(
        self, lines: Sequence[cst.SimpleStatementLine]
    ) -> Iterator[list[cst.SimpleStatementLine]]:
        """Yield groups of lines that follow one another in the same block."""
        ordered = sorted(lines, key=lambda line: self.text.span(line) or (0, 0))
        run: list[cst.SimpleStatementLine] = []
        for line in ordered:
            if run and self._next(run[-1]) is not line:
                yield run
                run = []
            run.append(line)
        if run:
            yield run

    def _next(self, line: cst.SimpleStatementLine) -> cst.CSTNode | None:
        body = getattr(self.text.parent(line), "body", ())
        places = [number for number, one in enumerate(body) if one is line]
        after = places[0] + 1 if places else len(body)
        found: cst.CSTNode | None = body[after] if after < len(body) else None
        return found

    def with_setting(
        self,
        lines: str,
        changes: Sequence[tuple[cst.CSTNode, Change]] = (),
        *,
        imports: Sequence[str] = (),
    ) -> str | None:
        """Return the new source code with the statements ``lines`` added after the imports.

        They set torch's settings. ``changes`` are further changes of the syntax tree. None if the
        file has all of the statements already, or does not have imports.
        """
        there = {self.site.code(one).strip() for one in self.module.body}
        lacking = [line for line in lines.split("\n") if line not in there]
        last: cst.CSTNode | None = None
        for one in self.module.body:
            if _imports(one):
                last = one
            elif isinstance(one, (cst.FunctionDef, cst.ClassDef)):
                break
        if last is None or not lacking:
            return None
        new: list[cst.CSTNode] = [last]
        if "torch" not in self.imported:
            new.append(self.line("import torch"))
        first, *rest = (self.line(line) for line in lacking)
        new += [first.with_changes(leading_lines=[cst.EmptyLine(indent=False)]), *rest]
        return self.site.replaced([(last, cst.FlattenSentinel(new)), *changes], imports=imports)

    def line(self, code: str) -> cst.SimpleStatementLine:
        """Parse the source code of one simple statement."""
        parsed = cst.parse_statement(code, self.module.config_for_parsing)
        assert isinstance(parsed, cst.SimpleStatementLine)
        return parsed


def _imports(node: cst.CSTNode) -> bool:
    """Whether a module-level statement imports something, directly or inside ``try`` or ``if``."""
    if isinstance(node, cst.SimpleStatementLine):
        return any(isinstance(one, (cst.Import, cst.ImportFrom)) for one in node.body)
    if isinstance(node, (cst.Try, cst.If)):
        return any(_imports(one) for one in node.body.body)
    return False


def _split_line(block: SmallBlock, chosen: set[int]) -> list[cst.BaseStatement]:
    """Split a line with several statements into lines.

    Each statement in ``chosen`` moves into ``if not torch.compiler.is_compiling():``.
    """
    found: list[cst.BaseStatement] = []
    for number, small in enumerate(block.body):
        line = cst.SimpleStatementLine(
            [small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)],
            leading_lines=getattr(block, "leading_lines", ()) if number == 0 else (),
        )
        if number == len(block.body) - 1:
            line = line.with_changes(trailing_whitespace=block.trailing_whitespace)
        found.append(condition([line]) if id(small) in chosen else line)
    return found


def condition(lines: Sequence[cst.SimpleStatementLine]) -> cst.If:
    """Return ``if not torch.compiler.is_compiling():`` with the lines as its body.

    Comments above the first line move above the ``if``.
    """
    first, *rest = lines
    return cst.If(
        test=cst.parse_expression(NOT_COMPILING),
        body=cst.IndentedBlock([first.with_changes(leading_lines=()), *rest]),
        leading_lines=first.leading_lines,
    )


def words(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())


def _imported_names(module: cst.Module) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for node in m.findall(module, m.Import() | m.ImportFrom()):
        assert isinstance(node, (cst.Import, cst.ImportFrom))
        if isinstance(node.names, cst.ImportStar):
            continue
        prefix = ""
        if isinstance(node, cst.ImportFrom):
            package = dotted_name(node.module)
            prefix = "." * len(node.relative) + (f"{package}." if package else "")
        for alias in node.names:
            name = prefix + dotted_name(alias.name)
            if alias.asname is not None and isinstance(alias.asname.name, cst.Name):
                found[alias.asname.name.value] = name
            elif prefix:
                found[dotted_name(alias.name)] = name
            else:
                root = name.partition(".")[0]
                found[root] = root
    return found


def dotted_name(node: cst.CSTNode | None) -> str:
    """Return ``a.b.c`` for a dotted name; empty for other expressions."""
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    if not isinstance(node, cst.Name):
        return ""
    return ".".join([node.value, *reversed(parts)])


def same(one: cst.CSTNode, other: cst.CSTNode) -> bool:
    """Whether two expressions have the same code, apart from whitespace and comments."""
    return one.deep_equals(other) or _without_parentheses(one) == _without_parentheses(other)


def _without_parentheses(node: cst.CSTNode) -> str:
    return "".join(code_of(node).split())


def bound_variables(target: cst.CSTNode) -> list[str] | None:
    """Return the variables that an assignment target binds.

    None if it also changes attributes or elements.
    """
    if isinstance(target, cst.Name):
        return [target.value]
    if isinstance(target, (cst.Tuple, cst.List)):
        names: list[str] = []
        for element in target.elements:
            inner = bound_variables(element.value) if isinstance(element, cst.Element) else None
            if inner is None:
                return None
            names += inner
        return names
    return None


def targets(node: cst.BaseSmallStatement) -> list[cst.BaseExpression]:
    """Return the targets of an assignment; empty for other statements."""
    if isinstance(node, cst.Assign):
        return [target.target for target in node.targets]
    if isinstance(node, (cst.AnnAssign, cst.AugAssign)):
        return [node.target]
    return []


def assigned_value(node: cst.BaseSmallStatement) -> cst.BaseExpression | None:
    """Return the value of an assignment or of an expression statement; None for other
    statements.
    """
    if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign, cst.Expr)):
        return node.value
    return None


def arguments(call: cst.Call) -> list[cst.BaseExpression] | None:
    """Return the arguments of a call; None unless all are positional and not starred."""
    if any(arg.keyword is not None or arg.star for arg in call.args):
        return None
    return [arg.value for arg in call.args]


def reads(scope: cst.CSTNode, name: str) -> list[cst.Name]:
    """Return the nodes in ``scope`` that mention the variable ``name``.

    Names of attributes and keywords do not count.
    """
    return [one for one in variable_nodes(scope) if one.value == name]


def callee(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return the function that a call calls; any other expression is returned itself.

    It is for decorators, which may or may not be calls.
    """
    return node.func if isinstance(node, cst.Call) else node


def names_in(node: cst.CSTNode) -> set[str]:
    """Return all names that occur in a node."""
    return {one.value for one in find_all(node, cst.Name)}


def free_variable(syntax: Syntax, name: str) -> str:
    """Return a name for a variable that the file does not use yet."""
    wanted = name if name.isidentifier() else "inputs"
    used = names_in(syntax.module)
    numbers = itertools.count(2)
    found = wanted
    while found in used:
        found = f"{wanted}{next(numbers)}"
    return found


def import_name(alias: cst.ImportAlias) -> str:
    """Return the name that an item of an import statement binds, such as ``np``."""
    named = alias.asname.name if alias.asname is not None else alias.name
    return dotted_name(named).partition(".")[0]
