"""Rewrites of checks of the data of tensors: ``assert``, and ``if`` with a ``raise``."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.branches import eager_only
from fullgraph.fixes.rewrites.choices import NotConvertible
from fullgraph.fixes.rewrites.conditions import (
    Both,
    Condition,
    Conditions,
    OfTensor,
    Plain,
    argument,
    asked_by,
    negation,
)
from fullgraph.fixes.rewrites.if_conversion import (
    Statement,
    add_comments,
    block,
    is_message,
    statements_of,
)
from fullgraph.fixes.rewrites.names import code_of
from fullgraph.fixes.rewrites.placing import in_place_of
from fullgraph.fixes.site import Site


def checks(site: Site) -> Iterator[Candidate]:
    """Yield rewrites of the check (``assert``, or ``if`` with ``raise``) that broke the graph."""
    node = asked_by(site)
    if isinstance(node, cst.Assert):
        yield from _rewrite_assert(site, node)
    elif isinstance(node, cst.If) and (raised := _only_raise(node)) is not None:
        yield from _rewrite_raise(site, node, raised)


def _only_raise(node: cst.If) -> cst.Raise | None:
    """Return the ``raise`` of a branch that does nothing else, except perhaps print; else None."""
    small: list[cst.BaseSmallStatement] = []
    for line in statements_of(node.body):
        if not isinstance(line, cst.SimpleStatementLine):
            return None
        small += line.body
    if not small:
        return None
    last = small[-1]
    quiet = all(is_message(one) for one in small[:-1])
    return last if isinstance(last, cst.Raise) and last.exc is not None and quiet else None


def _rewrite_raise(site: Site, node: cst.If, raised: cst.Raise) -> Iterator[Candidate]:
    conditions = Conditions(site)
    message = _message(raised.exc, f"not expected: {site.one_line(node.test)}")
    needed = negation(conditions.read(node.test))
    try:
        checked = [_parse_statement(site, one) for one in _message_parts(needed, message)]
    except NotConvertible:
        checked = []
    name = code_of(raised.exc.func if isinstance(raised.exc, cst.Call) else raised.exc or raised)
    if checked and not isinstance(site.text.parent(node), cst.If):
        compiling = cst.parse_expression("torch.compiler.is_compiling()")
        both = cst.If(test=compiling, body=block(checked), orelse=_as_elif(node))
        yield Candidate(
            "assert-async",
            "Check with `torch._assert_async` in compiled code",
            site.replaced(
                in_place_of(site, node, [add_comments(both, node.leading_lines)]), imports=["torch"]
            ),
            gives_up=f"Compiled code raises RuntimeError, not {name}.",
            is_same_eagerly=True,
        )
    yield Candidate(
        "eager-check",
        "Check only in eager mode",
        site.replaced([(node.test, eager_only(node.test))], imports=["torch"]),
        gives_up="Compiled code does not check the condition.",
        is_same_eagerly=True,
    )
    if checked and node.orelse is None:
        new = [add_comments(checked[0], node.leading_lines), *checked[1:]]
        yield Candidate(
            "assert-async",
            "Check with `torch._assert_async`",
            site.replaced(in_place_of(site, node, new), imports=["torch"]),
            gives_up=f"A failed check raises RuntimeError, not {name}, and on a GPU only later.",
        )


def _as_elif(node: cst.If) -> cst.If:
    return node.with_changes(leading_lines=[])


def _rewrite_assert(site: Site, node: cst.Assert) -> Iterator[Candidate]:
    line = site.text.parent(node)
    if not isinstance(line, cst.SimpleStatementLine) or len(line.body) != 1:
        return
    message = _constant_string(node.msg) if node.msg is not None else None
    suffix = f", {message}" if message is not None else ""
    codes = [f"assert {code}{suffix}" for code in _test_codes(Conditions(site).read(node.test))]
    new: list[Statement] = [
        cst.ensure_type(_parse_statement(site, code), cst.SimpleStatementLine) for code in codes
    ]
    new[0] = new[0].with_changes(leading_lines=line.leading_lines)
    new[-1] = new[-1].with_changes(trailing_whitespace=line.trailing_whitespace)
    changed = node.msg is not None and message != code_of(node.msg)
    yield Candidate(
        "assert-tensor",
        "Assert a condition on tensors, with a constant message",
        site.replaced(in_place_of(site, line, new), imports=["torch"]),
        gives_up="The message does not include values." if changed else "",
    )
    code = code_of(node.test)
    loose = isinstance(node.test, (cst.IfExp, cst.Lambda, cst.NamedExpr)) and not node.test.lpar
    guarded = f"torch.compiler.is_compiling() or {f'({code})' if loose else code}"
    yield Candidate(
        "eager-check",
        "Check only in eager mode",
        site.replaced([(node.test, cst.parse_expression(guarded))], imports=["torch"]),
        gives_up="Compiled code does not check the condition.",
        is_same_eagerly=True,
    )


def _test_codes(condition: Condition) -> Iterator[str]:
    """Yield conditions to use in successive ``assert`` statements, as source code.

    Together they are equivalent to ``condition``.
    """
    if isinstance(condition, Both):
        for part in condition.parts:
            yield from _test_codes(part)
    elif isinstance(condition, (Plain, OfTensor)):
        yield condition.code
    else:
        plain = [part.code for part in condition.parts if isinstance(part, Plain)]
        tensors = [part.code for part in condition.parts if isinstance(part, OfTensor)]
        yield " or ".join([*plain, " | ".join(tensors)])


def _message_parts(condition: Condition, message: str) -> Iterator[str]:
    """Yield source code of statements that check a condition and fail with ``message``."""
    if isinstance(condition, OfTensor):
        yield f"torch._assert_async({argument(condition.code)}, {message})"
    elif isinstance(condition, Plain):
        yield f"assert {condition.code}, {message}"
    elif isinstance(condition, Both):
        for part in condition.parts:
            yield from _message_parts(part, message)
    else:
        plain = [part for part in condition.parts if isinstance(part, Plain)]
        tensors = [part for part in condition.parts if isinstance(part, OfTensor)]
        if len(plain) + len(tensors) != len(condition.parts) or len(tensors) != 1:
            raise NotConvertible("a condition of many parts")
        guards = argument(" and ".join(negation(part).code for part in plain))  # type: ignore[union-attr]
        yield f"if {guards}:\n    torch._assert_async({argument(tensors[0].code)}, {message})"


def _parse_statement(site: Site, code: str) -> Statement:
    return cst.parse_statement(code, config=site.module.config_for_parsing)


def _message(raised: cst.BaseExpression | None, otherwise: str) -> str:
    if isinstance(raised, cst.Call) and raised.args:
        return _constant_string(raised.args[0].value) or repr(otherwise)
    return repr(otherwise)


def _constant_string(node: cst.BaseExpression) -> str | None:
    """Return the source code of a string constant, or of an f-string without its formatting.

    In an f-string, the source code of each value replaces the value. None for other expressions.
    """
    if isinstance(node, cst.SimpleString):
        return code_of(node)
    text = _text(node)
    return None if text is None else _quote_text(text)


def _quote_text(text: str) -> str:
    return '"' + repr("'" + text)[2:-1].replace("\\'", "'").replace('"', '\\"') + '"'


def _text(node: cst.BaseExpression) -> str | None:
    if isinstance(node, cst.SimpleString):
        value = node.evaluated_value
        return value if isinstance(value, str) else None
    if isinstance(node, cst.ConcatenatedString):
        sides = _text(node.left), _text(node.right)
        return None if None in sides else "".join(side or "" for side in sides)
    if isinstance(node, cst.FormattedString):
        return "".join(
            part.value if isinstance(part, cst.FormattedStringText) else _spell_part(part)
            for part in node.parts
        )
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, (cst.Add, cst.Modulo)):
        return _text(node.left)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        return _text(node.func.value) if node.func.attr.value == "format" else None
    return None


def _spell_part(part: cst.BaseFormattedStringContent) -> str:
    return code_of(part.expression) if isinstance(part, cst.FormattedStringExpression) else ""
