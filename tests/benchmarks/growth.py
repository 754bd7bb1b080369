"""Draw how the time from an edit to what is shown grows, as an SVG picture.

    python growth.py PICTURE [--repetitions N]

Left over the number of targets in a file of which one is edited, right over the number of layers of
that one, both as multiples of the same target traced warm in one process (``warm.py``). Edits and
warm traces take turns; medians. ``try-paths`` is off, so the end is that of the target's own trace.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from pathlib import Path

from bench import WITHOUT_PATHS, editor_of, warm_traces
from matplotlib import pyplot

TARGETS = (1, 5, 10, 20, 40)
LAYERS = (1, 4, 16, 64)
HEAD = "import torch\nfrom torch import nn\n"
NET = """

# fullgraph: f32[b, 16]
class Net{number}(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range({layers}))

    def forward(self, x):
{edit}        for layer in self.layers:
            x = layer(x).relu()
        return x
"""


def text_of(targets: int, layers: int, edit: str = "") -> str:
    """A file of models; the one in the middle begins with the edit."""
    edit = f"        {edit}\n" if edit else ""
    return HEAD + "".join(
        NET.format(number=number, layers=layers, edit=edit if number == targets // 2 else "")
        for number in range(targets)
    )


def measured(targets: int, layers: int, repetitions: int) -> tuple[float, float]:
    """From an edit to the end of the target's trace, and to an added break, / a warm trace."""
    breaks: list[float] = []
    ends: list[float] = []
    warm: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "alone.py"
        alone.write_text(text_of(1, layers))
        with (
            warm_traces(alone, "Net0", "4x16") as trace,
            editor_of(text_of(targets, layers), WITHOUT_PATHS) as editor,
        ):
            editor.become(text_of(targets, layers, "number = -1"), -1)
            for number in range(repetitions):
                text = text_of(targets, layers, f'print("{number}")')
                line = text[: text.index("print")].count("\n")
                breaks.append(editor.become(text, line)[0])
                ends.append(editor.become(text_of(targets, layers, f"number = {number}"), -1)[1])
                warm.append(trace()[0])
    middle = statistics.median(warm)
    end, found = statistics.median(ends) / middle, statistics.median(breaks) / middle
    print(
        f"{targets} targets, {layers} layers: warm {middle:.3f} s, "
        f"break / warm {found:.2f}, end / warm {end:.2f}",
        flush=True,
    )
    return end, found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("picture", type=Path)
    parser.add_argument("--repetitions", type=int, default=8)
    arguments = parser.parse_args()
    figure, sides = pyplot.subplots(1, 2, figsize=(9, 3.4), sharey=True, layout="constrained")
    cases = (
        ("targets in the file (4 layers each)", [(count, 4) for count in TARGETS], TARGETS),
        ("layers of the edited target (of 5)", [(5, count) for count in LAYERS], LAYERS),
    )
    for side, (label, sizes, counts) in zip(sides, cases, strict=True):
        ratios = [measured(*size, arguments.repetitions) for size in sizes]
        for name, values in zip(
            ("to the end of its trace", "to the finding of an added break"),
            zip(*ratios, strict=True),
            strict=True,
        ):
            side.plot(counts, values, marker="o", label=name)
        side.set_xscale("log", base=2)
        side.set_xticks(counts, [str(count) for count in counts])
        side.set_xlabel(label)
        side.set_ylim(bottom=0)
        side.grid(alpha=0.3)
    sides[0].set_ylabel("time from an edit / warm trace")
    sides[0].legend()
    figure.savefig(arguments.picture, metadata={"Date": None})


main()
