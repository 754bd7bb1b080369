"""If-conversion: compute both sides of a branch, and choose the results with ``torch.where``.

The new code replaces an ``if`` whose condition depends on the data of a tensor. A value that one
side assigns gets a new name if the other side needs the old value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Union

import libcst as cst

from fullgraph.fixes.rewrites.choices import NotConvertible, choice
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Condition,
    Conditions,
    OfTensor,
    Plain,
    argument,
    negation,
    operand,
)
from fullgraph.fixes.rewrites.names import (
    code_of,
    descendants,
    names_bound,
    names_read,
    rename_variables,
    walk,
)
from fullgraph.fixes.site import Site

Statement = Union[cst.SimpleStatementLine, cst.BaseCompoundStatement]
_LEAVING = (cst.Return, cst.Raise, cst.Break, cst.Continue, cst.Await, cst.Yield)
_DECLARING = (cst.Global, cst.Nonlocal, cst.Del, cst.FunctionDef, cst.ClassDef)
_NOT_TENSORS = (
    cst.BaseString,
    cst.Set,
    cst.Lambda,
    cst.ListComp,
    cst.DictComp,
    cst.GeneratorExp,
)
_LOGS = re.compile("debug|info|warn|warning|warning_once|error|exception|critical|log")
_MAKES = re.compile("clone|(new_)?(zeros|ones|empty|full)(_like)?|new_tensor|rand_?n?(_like)?")
_LARGE = 3
"""Maximum number of statements that a rewrite of a branch may duplicate."""


@dataclass
class _Value:
    """The value that one side of an ``if`` assigns to a variable, as source code.

    ``item`` is the index of the assigning statement in the side; -1 if the side does not assign it.
    """

    code: str
    item: int = -1


@dataclass
class _Side:
    """One side of an ``if`` as statements without branches.

    ``items`` are its statements, with new variable names; ``names`` maps old names to new ones.
    ``values`` has the value of each variable after the statements.
    """

    items: list[Statement | None] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)
    values: dict[str, _Value] = field(default_factory=dict)


def statements_of(suite: cst.BaseSuite | None) -> list[Statement]:
    """Return the statements of a block; a comment after its colon moves above the first
    statement."""
    if suite is None:
        return []
    if isinstance(suite, cst.SimpleStatementSuite):
        return [cst.SimpleStatementLine([one]) for one in suite.body]
    assert isinstance(suite, cst.IndentedBlock)
    body: list[Statement] = list(suite.body)  # type: ignore[arg-type]
    if body and suite.header.comment is not None:
        body[0] = add_comments(body[0], [cst.EmptyLine(comment=suite.header.comment)])
    return body


def other_side(node: cst.If) -> list[Statement]:
    """Return the statements that run if the condition of an ``if`` is false."""
    if isinstance(node.orelse, cst.Else):
        return statements_of(node.orelse.body)
    return [node.orelse] if node.orelse is not None else []


def add_comments(statement: Statement, lines: Iterable[cst.EmptyLine]) -> Statement:
    """Return the statement with the comment lines added before it."""
    return _add_lines(statement, (line for line in lines if line.comment is not None))


def _add_lines(statement: Statement, lines: Iterable[cst.EmptyLine]) -> Statement:
    new = statement.with_changes(leading_lines=[*lines, *statement.leading_lines])
    assert isinstance(new, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
    return new


def all_below(statements: Sequence[Statement], node: Statement) -> list[Statement]:
    """Return statements, with the comments and blank lines above ``node`` added to the first
    one.
    """
    if not statements:
        return []
    return [_add_lines(statements[0], node.leading_lines), *statements[1:]]


def block(statements: Sequence[Statement]) -> cst.IndentedBlock:
    """Return an indented block of the statements; it contains ``pass`` if there are none."""
    return cst.IndentedBlock(body=list(statements) or [cst.SimpleStatementLine([cst.Pass()])])


class Converter:
    """Converts branches of the user's function to code that computes both sides.

    With ``in_place``, the new code changes a tensor in place where the original uses ``+=`` or
    assigns an attribute. Other variables with the same tensor then see the change. With ``sized``,
    the new code checks sizes: it raises if ``torch.where`` would broadcast a value that one side
    leaves unchanged.
    """

    def __init__(self, site: Site, *, in_place: bool = False, sized: bool = False) -> None:
        self._site = site
        self._in_place = in_place
        self._sized = sized
        self.conditions = Conditions(site)
        function = site.function
        around = function if function is not None else site.module
        self._taken = {name.split(".")[0] for name in (*names_read(around), *names_bound(around))}
        self._around = around
        self._kept: set[str] = set()
        """Variables and attributes whose tensor the new code changes in place, as the original code
        does.
        """
        self.dropped: list[str] = []
        """Source code of the original that the new code does not execute."""
        self.optional: set[str] = set()
        """Variables that may be None before the branch. ``torch.where`` cannot choose their old
        value.
        """

    def fresh(self, name: str) -> str:
        """Return a name that does not occur in the function yet: ``name``, with a number if
        needed.
        """
        number, new = 1, name
        while new in self._taken:
            number += 1
            new = f"{name}_{number}"
        self._taken.add(new)
        return new

    def statement(self, code: str) -> Statement:
        """Parse the source code of one statement.

        Raises:
            NotConvertible: The code is not a statement.
        """
        try:
            return cst.parse_statement(code, config=self._site.module.config_for_parsing)
        except cst.ParserSyntaxError as error:
            raise NotConvertible(str(error)) from error

    def branch(self, node: cst.If, *, at: cst.If | None = None) -> list[Statement]:
        """Return statements that replace an ``if``: both sides are computed, one result is
        chosen.

        ``at`` is the ``if`` in the original code, if ``node`` was constructed from it.

        Raises:
            NotConvertible: A side has other effects than assigning values.
        """
        condition = self.conditions.read(node.test)
        outside = self.outside(at or node)
        new = self.lower(condition, statements_of(node.body), other_side(node), outside)
        return all_below(new, node)

    def lower(
        self,
        condition: Condition,
        then: list[Statement],
        other: list[Statement],
        outside: Outside,
    ) -> list[Statement]:
        """Return statements that compute both sides of a branch and choose the results.

        Their effect equals ``then`` if the condition holds, and ``other`` if not. ``outside`` has
        the names that the rest of the function reads and binds.
        """
        if isinstance(condition, OfTensor):
            return self._where(condition, then, other, outside)
        if isinstance(condition, Plain):
            if not then and other:
                negated = negation(condition)
                assert isinstance(negated, Plain)
                condition, then, other = negated, other, then
            return [self._plain(condition, then, other)]
        first, rest = condition.parts[0], condition.parts[1:]
        after: Condition = rest[0] if len(rest) == 1 else type(condition)(rest)
        if isinstance(first, OfTensor) and isinstance(after, Plain):
            first, after = after, first
        is_both = isinstance(condition, Both)
        _check_size(other if is_both else then)
        inner = self.lower(after, then, other, outside)
        sides = (inner, other) if is_both else (then, inner)
        return self.lower(first, *sides, outside)

    def _plain(self, test: Plain, then: list[Statement], other: list[Statement]) -> Statement:
        code = operand(test.code) if "\n" in test.code else test.code
        orelse = cst.Else(body=block(other)) if other else None
        return cst.If(test=cst.parse_expression(code), body=block(then), orelse=orelse)

    def outside(self, node: cst.CSTNode) -> Outside:
        """Return the names that the function reads outside of ``node``, and the names bound before
        ``node``.
        """
        return Outside.of(self._site, self._around, node)

    def _where(
        self,
        condition: OfTensor,
        then: list[Statement],
        other: list[Statement],
        outside: Outside,
    ) -> list[Statement]:
        then, other = self.inner(then, outside), self.inner(other, outside)
        self._kept = {*_changed_places(then), *_changed_places(other)}
        if self._in_place:
            self._kept |= {*_augmented_places(then), *_augmented_places(other)}
            self._kept |= {
                key for key in _assigned_places([*then, *other]) if key.startswith("self.")
            }
        in_both = set(_assigned_places(then)) & set(_assigned_places(other))
        keys = [
            key
            for key in dict.fromkeys([*_assigned_places(then), *_assigned_places(other)])
            if not _is_own(key, then, other, outside)
        ]
        merged = _merged_places(then, other, outside)
        apart = [*merged, *(key for key in keys if key in in_both and key not in merged)]
        test_names = names_read(cst.parse_expression(condition.code))
        apart += [key for key in keys if key not in apart and key in test_names]
        sides = [
            self._side(then, "true", apart),
            self._side(other, "false", apart),
        ]
        return self._chosen(condition, sides, merged)

    def kept(self, node: cst.If, then: list[Statement], other: list[Statement]) -> list[str]:
        """Return the names that the sides of an ``if`` assign and that later code may read.

        ``then`` and ``other`` are the statements of the sides.
        """
        return _merged_places(then, other, self.outside(node))

    def side(
        self, statements: Sequence[Statement], apart: Sequence[str]
    ) -> tuple[list[Statement], dict[str, str]]:
        """Rename the variables ``apart`` in the statements of one side, so that their old values
        stay available.

        Return the renamed statements, and a dictionary from old to new names. Variables that the
        statements do not assign are not renamed.
        """
        side = self._side(statements, "true", apart)
        names = {key: new for key, new in side.names.items() if key in side.values}
        return [item for item in side.items if item is not None], names

    def inner(self, statements: list[Statement], outside: Outside) -> list[Statement]:
        """Convert the branches inside the statements of one side; return the statements."""
        found: list[Statement] = []
        for statement in statements:
            if isinstance(statement, cst.If) and self.conditions.asks(statement.test):
                condition = self.conditions.read(statement.test)
                own = Outside(
                    read={*outside.read, *names_read(*statements)},
                    before={*outside.before, *names_bound(*found)},
                )
                new = self.lower(
                    condition, statements_of(statement.body), other_side(statement), own
                )
                found += all_below(new, statement)
            else:
                found.append(statement)
        return found

    def _side(self, statements: Sequence[Statement], suffix: str, apart: Sequence[str]) -> _Side:
        side = _Side()
        for statement in statements:
            if isinstance(statement, cst.SimpleStatementLine):
                for small in statement.body:
                    one = statement if len(statement.body) == 1 else cst.SimpleStatementLine([])
                    self._small(side, one.with_changes(body=[small]), small, suffix, apart)
            else:
                self._convert_compound(side, statement, suffix, apart)
        return side

    def _name(self, side: _Side, key: str, suffix: str) -> str:
        """Return the name that replaces a variable or attribute ``key`` in one side of the
        branch.
        """
        if key not in side.names:
            stem = "".join(c if c.isalnum() or c == "_" else "_" for c in key.split(".", 1)[-1])
            side.names[key] = self.fresh(f"{stem.strip('_')}_{suffix}")
        return side.names[key]

    def _small(
        self,
        side: _Side,
        line: cst.SimpleStatementLine,
        small: cst.BaseSmallStatement,
        suffix: str,
        apart: Sequence[str],
    ) -> None:
        if isinstance(small, cst.Pass) or _is_text(small):
            return
        if is_message(small):
            self.dropped.append(code_of(small).strip())
            return
        if any(isinstance(node, (*_LEAVING, *_DECLARING)) for node in walk(small)):
            raise NotConvertible(code_of(small))
        known = {key: new for key, new in side.names.items() if key in side.values}
        assigned = _is_simple(small)
        if assigned is None:
            bound = [key for key in names_bound(small) if key in apart]
            if not isinstance(small, (cst.Assign, cst.AnnAssign)) or not _targets_are_names(small):
                raise NotConvertible(code_of(small))
            value = rename_variables(small, known)
            targets = {key: self._name(side, key, suffix) for key in bound}
            side.items.append(line.with_changes(body=[_with_targets(value, small, targets)]))
            for key in bound:
                side.values[key] = _Value(side.names[key])
            return
        key, code_node = assigned
        if isinstance(code_node, _NOT_TENSORS) or code_of(code_node) == "None":
            raise NotConvertible(code_of(small))
        code = code_of(rename_variables(code_node, known))
        if key not in apart:
            side.items.append(line.with_changes(body=[rename_variables(small, known)]))
            return
        new = self._name(side, key, suffix)
        made = self.statement(f"{new} = {code}")
        side.items.append(
            made.with_changes(
                leading_lines=line.leading_lines, trailing_whitespace=line.trailing_whitespace
            )
        )
        side.values[key] = _Value(code, len(side.items) - 1)

    def _convert_compound(
        self, side: _Side, statement: Statement, suffix: str, apart: Sequence[str]
    ) -> None:
        if any(isinstance(node, (*_LEAVING, *_DECLARING)) for node in walk(statement)):
            raise NotConvertible(code_of(statement))
        if any(is_message(node) for node in walk(statement)):
            raise NotConvertible(code_of(statement))
        for key in names_bound(statement):
            if key in apart and key not in side.values:
                new = self._name(side, key, suffix)
                side.items.append(self.statement(f"{new} = {key}"))
                side.values[key] = _Value(new)
        known = {key: side.names[key] for key in side.values}
        side.items.append(rename_variables(statement, known))
        for key in names_bound(statement):
            if key in apart:
                side.values[key] = _Value(side.names[key])

    def _chosen(
        self, condition: OfTensor, sides: list[_Side], merged: Sequence[str]
    ) -> list[Statement]:
        keys = [key for key in merged if any(key in side.values for side in sides)]
        inlined = self._inline(sides, keys)
        code = condition.code
        first: list[Statement] = []
        if len(keys) > 1 and not code.isidentifier():
            name = self.fresh("condition")
            first, code = [self.statement(f"{name} = {argument(code)}")], name
        last: list[Statement] = []
        for key in keys:
            lines: list[cst.EmptyLine] = []
            ends: list[cst.TrailingWhitespace] = []
            codes = []
            for side in sides:
                value = side.values.get(key)
                if value is None:
                    codes.append(key)
                elif inlined and value.item >= 0:
                    codes.append(argument(value.code))
                    held = side.items[value.item]
                    assert isinstance(held, cst.SimpleStatementLine)
                    lines += [one for one in held.leading_lines if one.comment is not None]
                    if held.trailing_whitespace.comment is not None:
                        ends.append(held.trailing_whitespace)
                    side.items[value.item] = None
                else:
                    codes.append(side.names[key])
            chosen = choice(code, *codes)
            if self._sized and key in codes and chosen != key:
                chosen = f"{chosen}.view_as({key})"
            if key in self.optional and codes[1] == key:
                chosen = f"{operand(codes[0])} if {key} is None else {chosen}"
            new = self.statement(self._stored(key, chosen))
            if len(ends) > 1:
                lines += [cst.EmptyLine(comment=end.comment) for end in ends[:-1]]
            new = new.with_changes(leading_lines=lines)
            last.append(new.with_changes(trailing_whitespace=ends[-1]) if ends else new)
        items = [item for side in sides for item in side.items if item is not None]
        return [*first, *items, *last]

    def _stored(self, key: str, code: str) -> str:
        return f"{key}.copy_({code})" if key in self._kept else f"{key} = {code}"

    def _inline(self, sides: Sequence[_Side], keys: Sequence[str]) -> bool:
        """Whether the values of ``keys`` in both sides can be written directly into the call of
        ``torch.where``.

        Otherwise a variable must hold each value, because later statements read or change it.
        """
        for side in sides:
            ends = [value.item for key, value in side.values.items() if key in keys]
            if any(end < 0 for end in ends):
                continue
            for key, value in side.values.items():
                if key not in keys:
                    continue
                later = [item for item in side.items[value.item + 1 :] if item is not None]
                if side.names.get(key) in names_read(*later):
                    return False
                if side.names.get(key) in names_read(cst.parse_expression(f"({value.code})")):
                    continue
                reads = names_read(cst.parse_expression(f"({value.code})"))
                if len(keys) > 1 and any(one in reads for one in keys if one != key):
                    return False
                if len(side.items) > len(ends) and any(one in names_bound(*later) for one in reads):
                    return False
        return True


def _merged_places(
    then: Sequence[Statement], other: Sequence[Statement], outside: Outside
) -> list[str]:
    """Return the variables, attributes and elements whose value depends on the side taken.

    ``then`` and ``other`` are the statements of both sides; ``outside`` are the names that the rest
    of the function uses.
    """
    first, second = _assigned_places(then), _assigned_places(other)
    return [
        key
        for key in dict.fromkeys([*first, *second])
        if (not key.isidentifier() and not _is_own(key, then, other, outside))
        or key in outside.before
        or (key in first and key in second and key in outside.read)
    ]


def _is_own(
    key: str, then: Sequence[Statement], other: Sequence[Statement], outside: Outside
) -> bool:
    """Whether ``key``, an element such as ``x[0]``, belongs to a tensor that the side itself
    created.

    Other code then does not see that the element changes. ``then`` and ``other`` are the statements
    of both sides; ``outside`` are the names that the rest of the function uses.
    """
    root = re.split(r"[.\[]", key)[0]
    sides = [side for side in (then, other) if key in _assigned_places(side)]
    made = all(_makes_tensor(side, root) for side in sides)
    return key != root and made and root not in {*outside.before, *outside.read}


def _makes_tensor(statements: Sequence[Statement], name: str) -> bool:
    """Whether all values that statements assign to ``name`` are tensors that do not share memory
    with others.
    """
    values = [
        one.value
        for one in walk(*statements)
        if isinstance(one, (cst.Assign, cst.AnnAssign)) and name in names_bound(one)
    ]
    return bool(values) and all(
        isinstance(value, cst.Call) and _MAKES.fullmatch(code_of(value.func).rpartition(".")[2])
        for value in values
    )


@dataclass
class Outside:
    """The names that a function uses outside of some of its statements.

    ``read`` are names that the function reads there; ``before`` are names that it binds before the
    statements.
    """

    read: set[str]
    before: set[str]

    @classmethod
    def of(cls, site: Site, around: cst.CSTNode, node: cst.CSTNode) -> Outside:
        span = site.text.span(node)
        first, last = span if span is not None else (0, 0)
        read: set[str] = set()
        before: set[str] = set()
        for one in descendants(around):
            where = site.text.span(one)
            if where is None:
                continue
            start, end = where
            inside = first <= start and end <= last
            if isinstance(one, cst.Name) and not inside:
                read.add(one.value)
            if start < first and isinstance(one, _BINDING):
                whole = end <= first or isinstance(one, cst.Param)
                if whole:
                    before.update(names_bound(one))
                elif isinstance(one, cst.For):
                    before.update(names_bound(cst.AssignTarget(one.target)))
        return cls(read, before)


_BINDING = (
    cst.Param,
    cst.Assign,
    cst.AnnAssign,
    cst.AugAssign,
    cst.NamedExpr,
    cst.For,
    cst.AsName,
)


def _check_size(statements: Sequence[Statement]) -> None:
    if len(statements) > _LARGE:
        raise NotConvertible("too much to repeat")


def _is_text(small: cst.BaseSmallStatement) -> bool:
    return isinstance(small, cst.Expr) and isinstance(small.value, (cst.BaseString, cst.Ellipsis))


def is_message(node: cst.CSTNode) -> bool:
    """Whether a statement only prints, logs or warns."""
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return False
    called = code_of(node.value.func)
    head, _, method = called.rpartition(".")
    logs = "log" in head.lower() and _LOGS.fullmatch(method) is not None
    return called in ("print", "warnings.warn", "warn") or logs


def _is_simple(small: cst.BaseSmallStatement) -> tuple[str, cst.BaseExpression] | None:
    """Return the only variable or attribute that a statement assigns, with the value; else None."""
    if isinstance(small, cst.Assign) and len(small.targets) == 1:
        target = small.targets[0].target
        if isinstance(target, (cst.Name, cst.Attribute, cst.Subscript)):
            return code_of(target), small.value
    if isinstance(small, cst.AnnAssign) and small.value is not None:
        return code_of(small.target), small.value
    if isinstance(small, cst.AugAssign):
        sign = code_of(small.operator).strip().rstrip("=")
        value = operand(code_of(small.value))
        return code_of(small.target), cst.parse_expression(
            f"{code_of(small.target)} {sign} {value}"
        )
    return _changing_method(small)


def _changing_method(small: cst.CSTNode) -> tuple[str, cst.BaseExpression] | None:
    """Return the tensor that an in-place method call changes, as code, and its new value.

    None for other statements.
    """
    if not isinstance(small, cst.Expr) or not isinstance(small.value, cst.Call):
        return None
    called = small.value.func
    if not isinstance(called, cst.Attribute):
        return None
    name, key = called.attr.value, code_of(called.value)
    if (
        not name.endswith("_")
        or name.endswith("__")
        or not isinstance(called.value, (cst.Name, cst.Attribute, cst.Subscript))
    ):
        return None
    if name == "copy_" and len(small.value.args) == 1:
        return key, small.value.args[0].value
    if name == "zero_":
        return key, cst.parse_expression(f"torch.zeros_like({key})")
    if name == "fill_" and len(small.value.args) == 1:
        filled = code_of(small.value.args[0].value)
        return key, cst.parse_expression(f"torch.full_like({key}, {filled})")
    return key, small.value.with_changes(func=called.with_changes(attr=cst.Name(name[:-1])))


def _changed_places(statements: Sequence[Statement]) -> list[str]:
    """Return the variables and attributes that in-place methods change."""
    found = [_changing_method(small) for small in walk(*statements)]
    return [one[0] for one in found if one is not None]


def _augmented_places(statements: Sequence[Statement]) -> list[str]:
    """Return the targets of augmented assignments such as ``x += 1``, as source code."""
    return [code_of(one.target) for one in walk(*statements) if isinstance(one, cst.AugAssign)]


def _assigned_places(statements: Sequence[Statement]) -> list[str]:
    return [*names_bound(*statements), *_changed_places(statements)]


def _targets_are_names(small: cst.BaseSmallStatement) -> bool:
    return all(key.isidentifier() for key in names_bound(small))


def _with_targets(
    value: cst.BaseSmallStatement, original: cst.BaseSmallStatement, names: dict[str, str]
) -> cst.BaseSmallStatement:
    """Return the assignment ``value`` with other names for its targets, as ``names`` maps them.

    ``original`` is the assignment in the original code.
    """
    if isinstance(original, cst.Assign):
        targets = [rename_variables(target, names) for target in original.targets]
        return value.with_changes(targets=targets)
    assert isinstance(original, cst.AnnAssign)
    return value.with_changes(target=rename_variables(original.target, names))
