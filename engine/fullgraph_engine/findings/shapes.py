"""Tensor shapes and symbolic sizes that a trace saw at expressions and names of the edited file."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from ..protocol import Position, Range, node_range
from ..protocol.shapes import MOST_PLACES, PlaceShapes, ShapeRole, ShapeSeen
from ..protocol.sources import in_user_words
from ..targets.source import PerStatement
from ..tracing.recording import Recording, ShapedPlace
from .places import SourceText

_Key = tuple[ShapeRole, Range]
_Places = tuple[PlaceShapes, ...]
_Loop = (ast.For, ast.AsyncFor, ast.comprehension)


def seen_shapes(recording: Recording, source: SourceText) -> _Places:
    """Return the shapes that a trace saw, by source range, in text order.

    Source ranges that do not match the text are left out, because user code may report any range.
    """
    if source.tree is None or not recording.shapes:
        return ()
    texts = PerStatement(source.tree, _ShapeText)
    found: dict[_Key, PlaceShapes] = {}
    for seen in recording.shapes:
        line = seen.function_line if seen.role == "parameter" else seen.line
        place = texts.part_at(line).place(seen)
        if place is None:
            continue
        key = place.role, place.range
        known = found.get(key)
        found[key] = place if known is None else _join_places(known, place)
    return tuple(sorted(found.values(), key=_sort_key))


def limit_places(places: tuple[PlaceShapes, ...], recording: Recording) -> tuple[_Places, str]:
    """Return at most a fixed number of the source ranges with shapes, and a sentence about the
    omitted ranges. The sentence is empty if none was omitted.
    """
    shown = places
    if len(shown) > MOST_PLACES:
        # Prefer names, which are shown inline, to expressions, which are shown on hover.
        shown = tuple(place for place in shown if place.role != "expression")[:MOST_PLACES]
    notes = []
    if len(shown) < len(places):
        notes.append(
            f"Shapes are shown for only {len(shown):,} of {len(places):,} places in the code, "
            "because there are too many."
        )
    if recording.shapes_left_out:
        notes.append(
            f"{recording.shapes_left_out:,} shapes are not shown, because there are too many."
        )
    return shown, " ".join(notes)


def _join_places(one: PlaceShapes, other: PlaceShapes) -> PlaceShapes:
    """Return one item with the shapes of both items, for a source range that Python compiled twice,
    as in a ``finally`` block."""
    values = {_value_key(value): value for value in one.values}
    for value in other.values:
        known = values.get(_value_key(value))
        values[_value_key(value)] = (
            value if known is None else replace(known, count=known.count + value.count)
        )
    left_out = one.left_out + other.left_out
    return replace(one, values=tuple(values.values()), left_out=left_out)


def _value_key(value: ShapeSeen) -> ShapeSeen:
    return replace(value, graph=0, node="", count=1)


def _sort_key(place: PlaceShapes) -> tuple[int, int, int, int, str]:
    start, end = place.range.start, place.range.end
    return start.line, start.byte, end.line, end.byte, place.role


class _ShapeText:
    """An index of the names, returned values and expressions in one module-level statement, or in
    several that share a line."""

    def __init__(self, tree: ast.Module) -> None:
        self._names: dict[tuple[str, Range], tuple[ShapeRole, str]] = {}
        self._lines: dict[tuple[str, int], list[tuple[ShapeRole, str, Range]]] = {}
        self._returns: dict[Range, tuple[Range, str, str]] = {}
        self._return_lines: dict[int, list[tuple[Range, str, str]]] = {}
        self._parameters: dict[tuple[int, str, str], tuple[Range, str]] = {}
        self._expressions: dict[Range, str] = {}
        self._loads: dict[tuple[str, int], dict[Range, str]] = {}
        self._ends: dict[Position, tuple[Range, str] | None] = {}
        """Source ranges and names of calls and attributes, by their end; None where several have
        the same end."""
        self._visit_node(tree, "", False)

    def place(self, seen: ShapedPlace) -> PlaceShapes | None:
        where = None
        if seen.start is not None and seen.end is not None:
            where = Range(Position(*seen.start), Position(*seen.end))
        found: tuple[ShapeRole, Range, str] | None = None
        name = seen.name
        match seen.role:
            case "parameter":
                known = self._parameters.get((seen.function_line, seen.function, seen.name))
                found = ("parameter", *known) if known is not None else None
            case "return":
                returned = self._find_returned(where, seen.line)
                if returned is not None:
                    range_, function, name = returned
                    found = "return", range_, function
            case "expression":
                found = self._find_expression(where) if not name else self._find_loaded(name, where)
                name = ""
            case _:
                found = self._find_assigned(seen.name, where, seen.line)
        if found is None:
            return None
        role, range_, function = found
        values = tuple(
            replace(value, source=in_user_words(value.source)) if value.source else value
            for value in seen.values
        )
        return PlaceShapes(range_, role, values, name, function, seen.left_out)

    def _find_assigned(
        self, name: str, where: Range | None, line: int
    ) -> tuple[ShapeRole, Range, str] | None:
        if where is not None:
            known = self._names.get((name, where))
            if known is not None:
                return known[0], where, known[1]
        # Without columns, or with the columns of a fused instruction, a single match is the right
        # one.
        on_line = self._lines.get((name, line), [])
        if len(on_line) != 1:
            return None
        role, function, range_ = on_line[0]
        return role, range_, function

    def _find_returned(self, where: Range | None, line: int) -> tuple[Range, str, str] | None:
        """Return the range of the returned expression at ``where``, its function, and its name if
        it is a plain name.

        Return None if no ``return`` statement with an expression is there.
        """
        if where is not None:
            return self._returns.get(where)
        on_line = self._return_lines.get(line, [])
        return on_line[0] if len(on_line) == 1 else None

    def _find_expression(self, where: Range | None) -> tuple[ShapeRole, Range, str] | None:
        if where is None:
            return None
        function = self._expressions.get(where)
        if function is not None:
            return "expression", where, function
        # The columns of a multi-line attribute, called or not, begin at its name.
        known = self._ends.get(where.end)
        return None if known is None else ("expression", *known)

    def _find_loaded(self, name: str, where: Range | None) -> tuple[ShapeRole, Range, str] | None:
        """Return the role, range and name of a variable that an instruction at ``where`` loads;
        None if not found.

        An instruction that loads two variables has the columns of the first.
        """
        if where is None or (name, where) in self._names:
            return None  # in ``x += f(x)`` the first ``x`` has the range of the assigned one
        on_line = self._loads.get((name, where.start.line), {})
        if where not in on_line and len(on_line) == 1:
            (where,) = on_line
        return ("expression", where, on_line[where]) if where in on_line else None

    # -- reading the text ---------------------------------------------------------------------

    def _visit_node(self, node: ast.AST, function: str, loop: bool) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                for child in (*node.decorator_list, node.args):
                    self._visit_node(child, function, False)
                inner = f"{function}{node.name}"
                first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
                self._note_parameters(node.args, first, node.name, inner)
                for statement in node.body:
                    self._visit_node(statement, f"{inner}.<locals>.", False)
                return
            case ast.ClassDef():
                prefix = f"{function}{node.name}."
                for statement in node.body:
                    self._visit_node(statement, prefix, False)
                return
            case ast.Lambda():
                inner = f"{function}<lambda>"
                self._note_parameters(node.args, node.lineno, "<lambda>", inner)
            case ast.Return(value=ast.expr() as value):
                name = value.id if isinstance(value, ast.Name) else ""
                known = node_range(value), function.removesuffix(".<locals>."), name
                self._returns[node_range(node)] = known
                self._return_lines.setdefault(node.lineno - 1, []).append(known)
            case ast.Name(ctx=ast.Store()):
                role: ShapeRole = "loop" if loop else "assigned"
                where, owner = node_range(node), function.removesuffix(".<locals>.")
                self._names[node.id, where] = role, owner
                on_line = self._lines.setdefault((node.id, where.start.line), [])
                on_line.append((role, owner, where))
        if isinstance(node, ast.expr) and isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
            owner = function.removesuffix(".<locals>.")
            where = node_range(node)
            self._expressions[where] = owner
            if isinstance(node, ast.Name):
                self._loads.setdefault((node.id, where.start.line), {})[where] = owner
            if isinstance(node, (ast.Call, ast.Attribute)):
                self._ends[where.end] = None if where.end in self._ends else (where, owner)
        for child, inside in _child_nodes(node, loop):
            self._visit_node(child, function, inside)

    def _note_parameters(self, given: ast.arguments, line: int, name: str, function: str) -> None:
        every = [*given.posonlyargs, *given.args, *given.kwonlyargs]
        every += [one for one in (given.vararg, given.kwarg) if one is not None]
        for one in every:
            start = Position(one.lineno - 1, one.col_offset)
            end = Position(start.line, start.byte + len(one.arg.encode()))
            self._parameters[line - 1, name, one.arg] = Range(start, end), function


def _child_nodes(node: ast.AST, loop: bool) -> Iterator[tuple[ast.AST, bool]]:
    """Yield pairs of a child of a syntax node and whether every iteration of a ``for`` loop assigns
    the child.

    ``loop``: every iteration assigns the node itself.
    """
    for field, value in ast.iter_fields(node):
        inside = (isinstance(node, _Loop) and field == "target") or (
            loop and isinstance(node, (ast.Tuple, ast.List, ast.Starred))
        )
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield child, inside
