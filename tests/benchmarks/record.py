"""What `fullgraph record` adds to a training step, as a ratio of steps that take turns.

    python record.py [--rounds N]

Two models of the same class definitions are trained in one process, one with the recorder around
its classes and one without: a GPT of many small layers, where every call counts most. The ratio is
the median of those of the rounds, of processor time, since other processes may share the machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "engine"))

import torch  # noqa: E402
from torch import nn  # noqa: E402

from fullgraph_engine.recording import watch  # noqa: E402

AIM = 1.05
STEPS = 10


def model() -> Any:
    class Attention(nn.Module):
        def __init__(self, dim: int, heads: int) -> None:
            super().__init__()
            self.heads, self.qkv = heads, nn.Linear(dim, 3 * dim)

        def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
            b, t, d = x.shape
            qkv = self.qkv(x).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
            out = nn.functional.scaled_dot_product_attention(*qkv, attn_mask=mask)
            return out.transpose(1, 2).reshape(b, t, d)

    class Block(nn.Module):
        def __init__(self, dim: int, heads: int) -> None:
            super().__init__()
            self.norm, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
            self.up, self.down = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.attention(self.norm(x))
            return x + self.down(nn.functional.gelu(self.up(x)))

    class GPT(nn.Module):
        def __init__(self, dim: int = 64, heads: int = 4, layers: int = 12) -> None:
            super().__init__()
            self.embed, self.head = nn.Embedding(100, dim), nn.Linear(dim, 100)
            self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))

        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.embed(tokens)
            for block in self.blocks:
                x = block(x)
            return self.head(x)

    for kind in (Attention, Block, GPT):
        kind.__qualname__ = kind.__name__  # classes of functions are not recorded
    return Attention, Block, GPT


def trained(net: nn.Module, vary: bool, seed: int) -> float:
    """Processor seconds of some steps."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    torch.manual_seed(seed)
    began = time.process_time()
    for step in range(STEPS):
        tokens = torch.randint(0, 100, (8, 32 + (seed + step) % 16 if vary else 32))
        loss = nn.functional.cross_entropy(net(tokens).flatten(0, 1), tokens.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    plain = model()[-1]()
    with tempfile.TemporaryDirectory() as folder:
        os.environ |= {watch.FOLDER: folder, watch.ROOT: str(HERE)}
        recorder = watch._Recorder(Path(folder), HERE)
        kinds = model()
        for kind in kinds:
            recorder.watch_class(kind)
        recorded = kinds[-1]()
        for vary in (False, True):
            for net in (plain, recorded):
                trained(net, vary, 0)
            ratios = []
            for number in range(rounds):
                order = (plain, recorded) if number % 2 else (recorded, plain)
                taken = {id(net): trained(net, vary, number) for net in order}
                ratios.append(taken[id(recorded)] / taken[id(plain)])
            words = "other lengths in each step" if vary else "equal steps"
            each = taken[id(plain)] / STEPS * 1000
            ratio = statistics.median(ratios)
            print(f"{words}: {ratio:.3f} (aim: {AIM}), {each:.1f} ms a step")
        recorder.write()
        found = [one for watched in recorder.classes for one in watched.calls.values()]
        print(f"recorded: {', '.join(call.forward for call in found)}")


if __name__ == "__main__":
    main()
