"""How many of the breaks that GraphMend's study counts a verified fix ends.

    .venv/bin/python tests/benchmarks/graphmend.py

The study (arXiv 2509.16248, table 2) has 27 models with 147 breaks, of which GraphMend ends 107,
and all in 21 models. ``graphmend/`` has a small module for each way in which these models break:
what breaks is as in the public code, the rest is as small as it can be. ``fullgraph fix --unsafe``
is applied to each module; then a fresh Python counts its graphs, before and after, with the eager
back end. A model counts with the breaks of the study, and with the share of them that is gone in
its module.
"""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
import tempfile
from pathlib import Path

from fullgraph.engines import Engine
from fullgraph.fixes.fixing import fixed
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import Settings

FOLDER = Path(__file__).parent / "graphmend"
MODELS: dict[str, dict[str, int]] = {
    "once": {
        "t5-small": 3,
        "t5-base": 3,
        "t5-3b": 3,
        "flan-t5-large": 3,
        "inclusively-reformulation-it5": 3,
        "whisper": 3,
        "whisper-small": 3,
        "whisper-base": 3,
        "biogpt": 2,
        "blenderbot-400M-distill": 3,
        "PegasusForCausalLM": 2,
        "chronos-bolt-small": 6,
    },
    "warned": {"layoutlmv3-base": 2},
    "clamped": {"bart": 7, "bart-base": 7, "rebel-large": 7, "opus-mt-fr-en": 6},
    "rotated": {"Phi-4-mini-instruct": 5},
    "trapped": {"MoLFormer-XL-both10pct": 5},
    "updated": {"Florence-2": 7},
    "spliced": {"Qwen-Audio-Chat": 2},
    "grounded": {"grounding-dino": 17, "grounding-dino-base": 17},
    "attended": {"longformer-base-4096": 5},
    "fused": {"clap-htsat-fused": 4},
    "routed": {"moe-minicpm-x4-base": 15},
    "unpadded": {"stella-en-400M-v5": 4},
}
"""The models of the study by the module that stands for them, with their breaks."""

COUNT = """
import logging, runpy, sys, warnings
import torch
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
module = runpy.run_path(sys.argv[1])
given = module["example_input"]()
graphs = 0
def backend(graph, inputs):
    global graphs
    graphs += 1
    return graph
compiled = torch.compile(module["build"](), backend=backend)
compiled(*given) if isinstance(given, tuple) else compiled(given)
try:
    torch._dynamo.reset()
    whole = torch.compile(module["build"](), backend="eager", fullgraph=True)
    given = module["example_input"]()
    whole(*given) if isinstance(given, tuple) else whole(given)
    whole = True
except Exception:
    whole = False
print(max(graphs - 1, 0 if whole else 1), whole)
"""


def breaks(text: str) -> int:
    """Graphs but one; at least 1 if not all of it is one graph, also where none is compiled.

    Raises:
        RuntimeError: the module does not run.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "module.py")
        path.write_text(text, encoding="utf-8")
        command = [sys.executable, "-c", COUNT, str(path)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    return int(done.stdout.split()[0])


async def run(python: Path) -> int:
    engine = Engine(python)
    await engine.start()
    await engine.ready()
    ended = clean = 0.0
    seconds: list[float] = []
    try:
        for name, models in MODELS.items():
            path = FOLDER / f"{name}.py"
            text = path.read_text(encoding="utf-8")
            request = analyze_request(
                name=str(path),
                text=text,
                generation="1",
                settings=Settings(),
                project=FOLDER,
            )
            result = await fixed(engine, request, grades=("safe", "unsafe"))
            before, after = breaks(text), breaks(result.text)
            seconds += [fix.seconds for fix in result.applied]
            share = (before - after) / before
            ended += share * sum(models.values())
            clean += len(models) if not after else 0
            rewrites = ", ".join(fix.candidate.rewrite for fix in result.applied)
            print(
                f"{name:10} {before} to {after} breaks, {len(models)} models: {rewrites}",
                flush=True,
            )
    finally:
        await engine.close()
    total = sum(sum(models.values()) for models in MODELS.values())
    count = sum(len(models) for models in MODELS.values())
    print(f"{ended:.0f} of {total} breaks ended ({100 * ended / total:.0f} %; GraphMend 107)")
    print(f"{clean:.0f} of {count} models without breaks (GraphMend 21)")
    if seconds:
        print(f"seconds to a fix: median {sorted(seconds)[len(seconds) // 2]:.2f}")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    return asyncio.run(run(parser.parse_args().python))


if __name__ == "__main__":
    sys.exit(main())
