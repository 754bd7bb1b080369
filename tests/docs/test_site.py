"""The pages of the documentation site: complete, in its navigation, and without broken links."""

from __future__ import annotations

import importlib.util
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fullgraph.cli.command_line import COMMANDS
from fullgraph.domain.codes import CODES
from fullgraph.session.settings import list_declarations, tomllib

ROOT = Path(__file__).parents[2]


def load_script(name: str = "site") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"docs_{name}", ROOT / "scripts" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
    # A dataclass looks up its module.
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)
    sys.path[:] = before
    return module


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "pages"
    assert load_script().write_site(folder) == []
    return folder


def pages_in(entries: Any) -> Iterator[str]:
    for entry in entries:
        (value,) = entry.values()
        yield from pages_in(value) if isinstance(value, list) else [value]


def test_every_page_is_in_the_navigation(site: Path) -> None:
    config = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))
    listed = list(pages_in(config["project"]["nav"]))
    assert sorted(listed) == sorted(page.name for page in site.glob("*.md"))


def test_every_code_setting_and_command_is_documented(site: Path) -> None:
    for code in CODES:
        page = site / "codes" / f"{code.name.replace('/', '-')}.md"
        assert page.read_text(encoding="utf-8").startswith(f"# {code.name}\n")
    settings = (site / "settings.md").read_text(encoding="utf-8")
    assert all(f"\n## {one.name}\n" in settings for one in list_declarations())
    commands = (site / "commands.md").read_text(encoding="utf-8")
    assert all(f"\n## fullgraph {name}\n" in commands for name in COMMANDS)


def test_the_summary_for_models_lists_the_pages(site: Path) -> None:
    summary = (site / "llms.txt").read_text(encoding="utf-8")
    assert "- [Get started in five minutes](start.md)\n" in summary
    assert "- [Try it](try.md)\n" in summary


@pytest.mark.parametrize(
    ("link", "words"),
    [
        ("gone.md", "which does not exist"),
        ("start.md#nowhere", "which has no such heading"),
        ("#nowhere", "which has no such heading"),
    ],
)
def test_a_broken_link_is_found(tmp_path: Path, link: str, words: str) -> None:
    (tmp_path / "start.md").write_text("# Start\n\n## Next step\n")
    text = f"# Page\n\n[good](start.md#next-step) `[code]({link}x)` [bad]({link})\n"
    (tmp_path / "page.md").write_text(text)
    (problem,) = load_script().broken_links(tmp_path)
    assert problem == f"page.md links to {link}, {words}."


# -- recorded samples; what a reader sees of them is tested in site.test.mjs ----------------------


def test_every_sample_is_recorded() -> None:
    samples = (ROOT / "docs" / "samples").glob("*.py")
    assert sorted(load_script("record_samples").SAMPLES) == sorted(one.stem for one in samples)


def test_without_torch_the_build_names_the_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sys, "argv", ["record_samples.py", str(tmp_path / "samples.js")])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as raised:
        runpy.run_path(str(ROOT / "scripts" / "record_samples.py"), run_name="__main__")
    assert raised.value.code == (
        "The step of `make docs` that records the samples (scripts/record_samples.py) needs torch, "
        f"which {sys.executable} does not have: run `{sys.executable} -m pip install torch`."
    )


def test_a_fix_becomes_a_difference_of_lines() -> None:
    script = load_script("record_samples")
    before = "def f(x):\n    print(x)\n\n    return x\n"
    place = {"line": 1, "character": 0}
    edits = [
        {"range": {"start": place, "end": {"line": 2, "character": 0}}, "newText": ""},
        {"range": {"start": {"line": 3, "character": 11}, "end": {"line": 3, "character": 12}}}
        | {"newText": "x + 1"},
    ]
    after = script.apply_edits(before, edits)
    assert after == "def f(x):\n\n    return x + 1\n"
    lines = [
        line.change + "".join(text for _, text in line.tokens)
        for line in script.diff_lines(before, after)
    ]
    removed, added = "-    return x", "+    return x + 1"
    assert lines == [" def f(x):", "-    print(x)", " ", removed, added]


def test_tokens_of_a_text_are_its_lines() -> None:
    script = load_script("record_samples")
    text = '\n\ndef f():\n    """One.\n\n    Two."""\n\n    return 1\n'
    lines = script.highlight(text)
    assert "\n".join("".join(part for _, part in line) for line in lines) == text.rstrip("\n")
    assert ("k", "def") in lines[2] and ("sd", '    Two."""') in lines[5]
