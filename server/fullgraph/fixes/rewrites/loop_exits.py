"""Rewrites of loops that end early depending on data of tensors.

All iterations run, and iterations after the original end change nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Union

import libcst as cst

from fullgraph.fixes.rewrites.choices import NotConvertible
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Condition,
    Either,
    OfTensor,
    Plain,
    argument,
    operand,
)
from fullgraph.fixes.rewrites.if_conversion import (
    Converter,
    Outside,
    Statement,
    all_below,
    block,
    statements_of,
)
from fullgraph.fixes.rewrites.names import names_bound, names_read, walk
from fullgraph.fixes.rewrites.placing import siblings
from fullgraph.fixes.site import Site

Loop = Union[cst.For, cst.While]
_FUNCTIONS = (cst.FunctionDef, cst.Lambda)
_ENDING = (cst.Break, cst.Continue)
LEAVING = (*_ENDING, cst.Return, cst.Raise)
"""Statements that leave an iteration of a loop."""


def loop_around(site: Site, node: cst.CSTNode) -> Loop | None:
    """Return the loop around a node, which a ``break`` there would end; None without one."""
    found = site.text.around(node, (cst.For, cst.While, *_FUNCTIONS))
    return found if isinstance(found, (cst.For, cst.While)) else None


def leaves(*nodes: cst.CSTNode) -> bool:
    """Whether the code contains a ``break``, ``continue``, ``return`` or ``raise`` for a loop
    around it.
    """
    return any(isinstance(one, LEAVING) for one in walk(*nodes))


def split(condition: Condition, kind: type[Both] | type[Either]) -> tuple[list[str], list[str]]:
    """Return (codes of boolean tensors, codes of conditions that Python can decide) for a
    condition.

    ``kind`` is the expected class: ``Both`` for ``and``, ``Either`` for ``or``. A condition of
    another class counts as a single part.

    Raises:
        NotConvertible: A part of the condition is itself a conjunction or disjunction.
    """
    parts = condition.parts if isinstance(condition, kind) else (condition,)
    tensors = [part.code for part in parts if isinstance(part, OfTensor)]
    plain = [operand(part.code) for part in parts if isinstance(part, Plain)]
    if len(tensors) + len(plain) != len(parts):
        raise NotConvertible("a condition of many parts")
    return tensors, plain


@dataclass
class RunningOn:
    """A loop, rewritten so that it runs all iterations independently of tensor data.

    ``asked`` is the ``if`` whose condition broke the graph; None if the condition of the loop broke
    it. ``done`` is the name of a boolean tensor that becomes true when the original would leave the
    loop. With ``step``, the loop is rewritten for ``while_loop``: only tensor data may end it, and
    an iteration begins only if ``done`` is false.

    Raises:
        NotConvertible: The loop is left in another way than by ``break`` or ``continue`` in an
            ``if``, or values that it computes decide when it ends.
    """

    site: Site
    loop: Loop
    asked: cst.If | None = None
    step: bool = False
    plain: str = field(default="", init=False)
    """Source code of the part of the ``while`` condition that Python can decide; may be empty."""
    tensors: str = field(default="", init=False)
    """Source code of the part of the ``while`` condition that depends on tensor data; may be empty.
    """
    ends: bool = field(default=False, init=False)
    """True if the original loop can also end without reading tensor data, for example after a
    ``range``.
    """

    def __post_init__(self) -> None:
        self.converter = Converter(self.site)
        statements = statements_of(self.loop.body)
        outside, bound = self.converter.outside(self.loop), list(names_bound(*statements))
        self.late = [key for key in bound if key not in outside.before and key in outside.read]
        self.carried = [key for key in bound if key in outside.before]
        if not all(key.isidentifier() for key in self.late):
            raise NotConvertible("changes more than names")
        # Before the loop, these variables are undefined or None, so an old value cannot be chosen.
        started = (key for key in bound if _starts_as_none(self.site, key))
        self.converter.optional |= {*self.late, *started}
        self._own = Outside({*outside.read, *bound}, {*outside.before, *self.late})
        self.done = self.converter.fresh("done")
        if isinstance(self.loop, cst.While) and not _is_endless(self.loop.test):
            test = self.converter.conditions.read(self.loop.test, broke=self.asked is None)
            tensors, plain = split(test, Both)
            self.tensors = " & ".join(tensors)
            self.plain = argument(" and ".join(plain)) if plain else ""
        self.ends = isinstance(self.loop, cst.For) or bool(self.plain)
        self._counters = self._counted_names(statements)
        self.body = self._lower_statements(statements, "", started=not self.step)
        if self.step and self.ends:
            raise NotConvertible("something else ends it")

    @property
    def first(self) -> list[Statement]:
        """Statements to insert before the loop. They initialize ``done`` and the variables that
        only the loop assigns.
        """
        codes = [*(f"{key} = None" for key in self.late), f"{self.done} = torch.tensor(False)"]
        return [self.converter.statement(code) for code in codes]

    def noted(self, code: str) -> Statement:
        """Return a statement that sets ``done``, which marks the loop as ended, if the tensor
        ``code`` is true.
        """
        code = code if code.startswith("~") else operand(code)
        return self.converter.statement(f"{self.done} = {self.done} | {code}")

    def _counted_names(self, statements: Sequence[Statement]) -> set[str]:
        """Return the loop's counters: variables that decide, without tensor data, when the loop
        ends.

        The rewritten loop must change them exactly as the original does.
        """
        codes = [self.plain] if self.plain else []
        for one in walk(*statements):
            if isinstance(one, cst.If) and leaves(one):
                condition = self._condition(one)
                parts = condition.parts if isinstance(condition, (Both, Either)) else (condition,)
                codes += [part.code for part in parts if isinstance(part, Plain)]
        read = names_read(*map(cst.parse_expression, codes))
        found = {key for key in names_bound(*statements) if key in read}
        found -= self.converter.optional
        if found & _read_behind(self.site, self.loop):
            raise NotConvertible("what ends the loop is read behind it")
        return found

    def _condition(self, node: cst.If) -> Condition:
        return self.converter.conditions.read(node.test, broke=node is self.asked)

    def _counts(self, statement: Statement) -> bool:
        names = set(names_bound(statement))
        if not names & self._counters:
            return False
        if not names <= self._counters or not isinstance(statement, cst.SimpleStatementLine):
            raise NotConvertible("what ends the loop depends on what is computed")
        return True

    def _lower_statements(
        self, statements: Sequence[Statement], skipped: str, *, started: bool
    ) -> list[Statement]:
        """Rewrite the statements of an iteration so that they do nothing after the loop has ended.

        ``skipped`` is the name of a boolean tensor, true after a ``continue``; empty without
        ``continue``. ``started`` is true if an earlier iteration or statement may have ended the
        loop.
        """
        new: list[Statement] = []
        kept: list[Statement] = []

        def flush() -> None:
            out = [one for one in (self.done if started else "", skipped) if one]
            if kept and out:
                code = out[0] if len(out) == 1 else f"({' | '.join(out)})"
                new.extend(self.converter.lower(OfTensor(f"~{code}"), list(kept), [], self._own))
            else:
                new.extend(kept)
            kept.clear()

        for one in statements:
            ends = leaves(one)
            if not ends and not self._counts(one):
                kept.append(one)
                continue
            flush()
            if not ends:
                new.append(one)
            elif isinstance(one, cst.SimpleStatementLine):
                self._check_plain(one, skipped)
                new.append(one)
            elif not isinstance(one, cst.If) or one.orelse is not None:
                raise NotConvertible("an end in a block")
            elif isinstance(condition := self._condition(one), Plain):
                inside = self._lower_statements(statements_of(one.body), skipped, started=started)
                new.append(one.with_changes(body=block(inside)))
                started = True
            else:
                *then, end = statements_of(one.body)
                if leaves(*then) or not isinstance(end, cst.SimpleStatementLine):
                    raise NotConvertible("an end in a block")
                if isinstance(end.body[0], cst.Break):
                    new += all_below(self._stop_statements(condition, then, skipped, started), one)
                    started = True
                    continue
                if not isinstance(end.body[0], cst.Continue) or not isinstance(condition, OfTensor):
                    raise NotConvertible("an end of another kind")
                name = self.converter.fresh("skipped")
                new += all_below(
                    self._met_condition(name, condition.code, then, skipped, started), one
                )
                skipped = f"{skipped} | {name}" if skipped else name
        flush()
        return new

    def _check_plain(self, line: cst.SimpleStatementLine, skipped: str) -> None:
        """Check a ``break`` or ``continue`` that does not depend on tensor data and is copied
        unchanged.

        ``line`` is the statement. ``skipped`` is the name of a boolean tensor, true after a
        ``continue``, or empty.

        Raises:
            NotConvertible: The statement cannot be copied, for example a ``break`` that a converted
                ``continue`` may skip.
        """
        (end, *rest) = line.body
        if rest or self.step or not isinstance(end, _ENDING):
            raise NotConvertible("an end of another kind")
        if isinstance(end, cst.Break):
            if skipped:
                raise NotConvertible("an end that is skipped")
            self.ends = True

    def _stop_statements(
        self, condition: Condition, then: list[Statement], skipped: str, started: bool
    ) -> list[Statement]:
        """Return the statements that replace an ``if`` with a ``break``.

        ``then`` are the statements before the ``break``. ``skipped`` is the name of a boolean
        tensor, true after a ``continue``, or empty. ``started`` is true if the loop may have ended
        already.
        """
        if isinstance(condition, Either):
            tensors, plain = split(condition, Either)
            if then or skipped:
                raise NotConvertible("an end that is skipped")
            self.ends = True
            end = self.converter.statement(f"if {argument(' or '.join(plain))}:\n    break\n")
            return [self.noted(" | ".join(tensors)), end]
        tensors, plain = split(condition, Both)
        code = " & ".join(tensors)
        name = self.converter.fresh("stops")
        steps = self._met_condition(name, code, then, skipped, started)
        steps = [*steps, self.noted(name)] if len(steps) > 1 or skipped else [self.noted(code)]
        if plain:
            test = cst.parse_expression(argument(" and ".join(plain)))
            return [cst.If(test=test, body=block(steps))]
        return steps

    def _met_condition(
        self, name: str, code: str, then: list[Statement], skipped: str, started: bool
    ) -> list[Statement]:
        """Return statements that store in ``name`` whether the ``break`` or ``continue`` is
        reached, and that then execute ``then``.

        ``code`` is the condition of the ``if``, a boolean tensor. ``skipped`` is the name of a
        boolean tensor, true after a ``continue``, or empty. ``started`` is true if the loop may
        have ended already.
        """
        out = [f"~{operand(one)}" for one in (self.done if started else "", skipped) if one]
        met = " & ".join([*out, operand(code)])
        steps = self.converter.lower(OfTensor(name), then, [], self._own)
        return [self.converter.statement(f"{name} = {argument(met)}"), *steps]


def _is_endless(test: cst.BaseExpression) -> bool:
    """Whether the condition of a ``while`` loop is ``True`` or ``1``."""
    return isinstance(test, (cst.Name, cst.Integer)) and test.value in ("True", "1")


def _read_behind(site: Site, loop: Loop) -> set[str]:
    """Return the names that the function may read after a loop."""
    found: set[str] = set()
    inner: cst.CSTNode = loop
    for one in site.text.ancestors(loop):
        if isinstance(one, _FUNCTIONS):
            break
        if isinstance(one, (cst.For, cst.While)):
            found.update(names_read(one))
        if (place := siblings(site, inner)) is not None:
            found.update(names_read(*place[0][place[1] + 1 :]))
        inner = one
    return found


def _starts_as_none(site: Site, name: str) -> bool:
    """Whether the function around the finding assigns None to the variable ``name``."""
    function = site.function
    return function is not None and any(
        isinstance(one, cst.Assign)
        and isinstance(one.value, cst.Name)
        and one.value.value == "None"
        and name in names_bound(one)
        for one in walk(function.body)
    )
