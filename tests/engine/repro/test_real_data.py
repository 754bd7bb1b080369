"""From a file whose finding only its data show to a script with that data beside it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from textwrap import dedent

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

import reproducing
import torch

from fullgraph_engine.protocol import Analyze, Reproduce, Reproduced, ReproFound, Wanted

pytestmark = [pytest.mark.real_engine, pytest.mark.timeout(600)]

SAMPLER = """
    import pathlib

    import torch
    from torch import nn


    def counted():
        return torch.load(pathlib.Path(__file__).with_name("counts.pt"))


    class Sampler(nn.Module):  # fullgraph: forward(x=f32[4, 8])
        def __init__(self):
            super().__init__()
            self.register_buffer("frequencies", counted())
            self.scale = nn.Linear(8, 8)

        def forward(self, x):
            h = self.scale(x).relu()
            print(h.shape)
            return h * torch.histc(self.frequencies, 8)
"""


class Host(reproducing.Host):  # type: ignore[misc]
    """Traces with real tensors."""

    def _analysis(self, path: Path, targets: object) -> Analyze:
        return replace(super()._analysis(path, targets), mode="real")

    def reproduced(self, path: Path, code: str, folder: Path, *, data: bool) -> ReproFound:
        (finding,) = [each for each in self.findings(path) if each.code == code]
        wanted = Wanted(code, finding.range, finding.target, finding.run, real=True, data=data)
        analyze = self._analysis(path, (finding.target,))
        last: ReproFound | None = None
        request = Reproduce(analyze.request, analyze, wanted, 120.0, str(folder))
        for event in self.answers(request):
            if isinstance(event, ReproFound):
                last = event
            elif isinstance(event, Reproduced):
                assert event.verified, event.reason
        assert last is not None and last.verified
        return last


@pytest.fixture(scope="module")
def host() -> Iterator[Host]:
    host = Host()
    yield host
    host.close()


@pytest.fixture
def sampler(tmp_path: Path) -> Path:
    counts = torch.rand(512)
    counts[256] = torch.nan
    torch.save(counts, tmp_path / "counts.pt")
    path = tmp_path / "sampler.py"
    path.write_text(dedent(SAMPLER))
    return path


def ran(script: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd="/")


@pytest.mark.slow
def test_what_only_a_table_shows_has_the_table_beside_it(
    host: Host, sampler: Path, tmp_path: Path
) -> None:
    given, repros = tmp_path / "given", tmp_path / "repros"
    given.mkdir()
    found = host.reproduced(sampler, "trace/eager-error", given, data=False)
    # The weights of the layer have nothing to do with it.
    (name,) = found.data
    assert (given / name).read_bytes() == torch.load(tmp_path / "counts.pt").numpy().tobytes()
    assert f"The script needs data/{name}, next to the script (2.0 KiB)." in found.script

    (repros / "data").mkdir(parents=True)
    script = repros / "script.py"
    script.write_text(found.script)
    shutil.copy(given / name, repros / "data")
    ended = ran(script)
    assert ended.returncode == 1 and "warn" not in ended.stderr, ended.stderr
    shutil.rmtree(repros / "data")
    ended = ran(script)
    assert ended.returncode == 0, ended.stdout
    assert "missing or damaged: other data is used" in ended.stderr


@pytest.mark.slow
def test_data_is_kept_on_wish_alone(host: Host, sampler: Path, tmp_path: Path) -> None:
    break_ = "graph-break/GB0059"
    assert host.reproduced(sampler, break_, tmp_path, data=False).data == ()
    given = tmp_path / "given"
    given.mkdir()
    found = host.reproduced(sampler, break_, given, data=True)
    (name,) = found.data
    assert f'stored("{name}", torch.randn(4, 8' in found.script
    assert (given / name).stat().st_size == 4 * 8 * 4
