"""Opens many files at once where few descriptors may be open: each has to be right in the end.

``python tests/soak/load.py [files] [descriptors]`` prints how many files show their graph break,
say that they were not traced, or look clean and are not. Status 1 if any looks clean.
"""

from __future__ import annotations

import argparse
import collections
import sys
import tempfile
import time
from pathlib import Path

from window import Window

TEXT = """\
import torch
from torch import nn


class Net{number}(nn.Module):
    def forward(self, x):
        y = x * {number}
        print(y.sum())
        return y + 1


def get_inputs():
    return [torch.rand(2, 3)]
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="?", type=int, default=200)
    parser.add_argument("descriptors", nargs="?", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=900.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        window = Window(root, descriptors=options.descriptors)
        began = time.monotonic()
        uris = [
            window.open(f"net{number}.py", TEXT.format(number=number))
            for number in range(options.files)
        ]
        rested = window.rest(options.seconds)
        took = time.monotonic() - began
        found = collections.Counter(_judged(window.codes(uri)) for uri in uris)
        print(f"{options.files} files, {options.descriptors} descriptors, {took:.0f} s: ", end="")
        print(", ".join(f"{count} {words}" for words, count in found.most_common()))
        print(f"rested: {rested}; states: {dict(collections.Counter(window.states))}")
        for message in dict.fromkeys(window.messages_shown):
            print("shown:", message)
        window.close()
    return 1 if found["falsely clean"] or not rested else 0


def _judged(codes: list[str]) -> str:
    if any(code.startswith("graph-break/") for code in codes):
        return "right"
    if any(code.startswith("trace/") for code in codes):
        return "said not to be traced"
    return "falsely clean"


if __name__ == "__main__":
    sys.exit(main())
