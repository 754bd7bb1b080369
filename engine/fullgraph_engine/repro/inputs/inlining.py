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


def inline_small_tensors(program: str, folder: Path) -> str:
    """Replace calls that load small tensors from files by literals; return the program.

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
            case ast.Call(
                func=ast.Name(id=called),
                args=[
                    ast.Constant(value=str(name)),
                    ast.Call(func=ast.Attribute(value=ast.Name(id="torch"))) as like,
                ],
            ) if called == NAME:
                return self._tensor_literal(name, like) or node
        return node

    def _tensor_literal(self, name: str, like: ast.expr) -> ast.AST | None:
        try:
            with torch.device("meta"):
                made: Any = eval(ast.unparse(like), {"torch": torch, "__builtins__": {}})
            if made.numel() > INLINE or made.device.type != "meta":
                return None
            content = bytearray((self._folder / DATA / name).read_bytes())
            known = torch.frombuffer(content, dtype=made.dtype)[: made.numel()].view(made.shape)
            tensor = known.clone().requires_grad_(made.requires_grad)
            text = ProgramDraft(TensorStore(self._folder / DATA)).expression(tensor)
        except Exception:
            # The reducer may have broken the expression; the program still shows the finding.
            return None
        return ast.parse(text, mode="eval").body
