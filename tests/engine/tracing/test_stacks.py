"""Which files belong to torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fullgraph_engine.tracing import stacks


def test_code_of_torch_behind_a_link_is_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "linked-packages"
    site.symlink_to(Path(torch.__file__).parent.parent, target_is_directory=True)
    file = f"{site}/torch/nn/modules/module.py"
    assert not stacks.is_torch(file)
    folders = stacks.package_folders(f"{site}/torch/__init__.py")
    assert folders == (f"{site}/torch", str(Path(torch.__file__).resolve().parent))
    monkeypatch.setattr(stacks, "_TORCH", folders)
    assert stacks.is_torch(file)
    assert stacks.is_torch(str(Path(torch.nn.modules.module.__file__).resolve()))
    assert not stacks.is_torch(str(tmp_path / "model.py"))
