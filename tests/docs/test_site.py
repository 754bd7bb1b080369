"""The pages of the documentation site: complete, in its navigation, and without broken links."""

from __future__ import annotations

import importlib.util
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


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("site_pages", ROOT / "scripts" / "site.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    before = list(sys.path)
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
