"""Replacement of small data files of a program by literals in its text."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import torch

from ...protocol.repro import DATA
from ..emit.program import ProgramDraft
from ..emit.tensors.strided import INLINE
from ..reduce.program import format_tree
from .loading import NAME, needed_files
from .store import TensorStore

_LITERAL = (ast.Constant, ast.Tuple, ast.keyword, ast.UnaryOp, ast.USub, ast.Load)


def inline_small_tensors(program: str, folder: Path) -> str:
    """Return the program with small tensors as literals, instead of calls that load them.

    ``folder`` is the folder with the program and its data files.
    """
    if not needed_files(program):
        return program
    tree = _Inlining(folder).visit(ast.parse(program))
    return format_tree(ast.fix_missing_locations(tree))


class _Inlining(ast.NodeTransformer):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        match node:
            case ast.Call(func=ast.Name(id=called), args=[ast.Constant(value=str(name)), like]):
                if called == NAME and _is_plain(like):
                    return self._tensor_literal(name, like) or node
        return node

    def _tensor_literal(self, name: str, like: ast.expr) -> ast.AST | None:
        try:
            with torch.device("meta"):
                made: Any = eval(ast.unparse(like), {"torch": torch})
            if made.numel() > INLINE:
                return None
            content = bytearray((self._folder / DATA / name).read_bytes())
            known = torch.frombuffer(content, dtype=made.dtype)[: made.numel()].view(made.shape)
            tensor = known.clone().requires_grad_(made.requires_grad)
            text = ProgramDraft(TensorStore(self._folder / DATA)).expression(tensor)
        except Exception:  # the reducer may have broken it; the program still shows the finding
            return None
        return ast.parse(text, mode="eval").body


def _is_plain(node: ast.expr) -> bool:
    """Whether an expression is a call like ``torch.randn(2, 3)`` that does not read variables."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch")), args=args, keywords=named):
            if any(each.arg == "device" for each in named):
                return False
            parts = [part for each in (*args, *named) for part in ast.walk(each)]
            return all(isinstance(part, _LITERAL) or _is_name(part) for part in parts)
    return False


def _is_name(node: ast.AST) -> bool:
    """Whether a node is part of a dotted name like ``torch.float16``."""
    match node:
        case ast.Name(id="torch") | ast.Attribute(value=ast.Name(id="torch")):
            return True
    return False
