"""Write the pages of the documentation site into a folder.

``python scripts/site.py FOLDER`` copies the pages of ``docs/`` and generates pages about settings,
commands and finding codes. It fails if a link to a page, a heading or a file does not resolve.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "server"), str(ROOT / "engine")]

from fullgraph.cli.command_line import COMMANDS, command_parser, load_command  # noqa: E402
from fullgraph.domain.codes import CODES, Code, heading_anchor  # noqa: E402
from fullgraph.session.setting_kinds import Choice  # noqa: E402
from fullgraph.session.settings import format_value, list_declarations  # noqa: E402

SOURCE = "https://github.com/fullgraph/fullgraph/blob/main"
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s]+)\)")
_CODE = re.compile(r"^(```|~~~).*?^\1|`[^`\n]+`", re.MULTILINE | re.DOTALL)


def write_site(folder: Path) -> list[str]:
    """Write all pages to ``folder``, and return a sentence for each link that does not resolve."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(ROOT / "docs", folder)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (folder / "index.md").write_text(_move_links(readme, ROOT, folder), encoding="utf-8")
    shutil.copy(ROOT / "vscode-client" / "images" / "trace.png", folder / "images")
    scripts = shutil.ignore_patterns("*.ts", "*.json")
    shutil.copytree(ROOT / "scripts" / "playground", folder / "playground", ignore=scripts)
    shutil.copy(ROOT / "vscode-client" / "media" / "trace.css", folder / "playground")
    (folder / "settings.md").write_text(settings_page(), encoding="utf-8")
    (folder / "commands.md").write_text(commands_page(), encoding="utf-8")
    (folder / "codes").mkdir()
    for code in CODES:
        (folder / "codes" / f"{_slug(code)}.md").write_text(code_page(code), encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        text = _move_links(page.read_text(encoding="utf-8"), page.parent, folder)
        (folder / page.name).write_text(text, encoding="utf-8")
    (folder / "llms.txt").write_text(summary_for_models(folder), encoding="utf-8")
    return list(broken_links(folder))


def settings_page() -> str:
    """Return the Markdown of a page about all settings, from their declarations."""
    parts = [
        "# Settings",
        "Write them under `[tool.fullgraph]` in `pyproject.toml`, give them on the command line, "
        "or set them in your editor, whose settings have precedence.",
    ]
    for one in list_declarations():
        parts += [f"## {one.name}", one.description]
        if isinstance(one.kind, Choice):
            parts.append("\n".join(f"- `{word}`: {text}" for word, text in one.kind.words))
        facts = [f"Default: `{format_value(one.default)}`"]
        if one.option is not None:
            facts.append(f"command line: `--{one.option_name}`")
        if one.editor:
            facts.append(f"editors: `fullgraph.{one.editor_name}`")
        parts.append("; ".join(facts) + ".")
    return "\n\n".join(parts) + "\n"


def commands_page() -> str:
    """Return the Markdown of a page with the help of each command."""
    parts = ["# Commands"]
    for name in COMMANDS:
        text = command_parser(name, load_command(name)).format_help()
        parts += [f"## fullgraph {name}", f"```\n{text.strip()}\n```"]
    return "\n\n".join(parts) + "\n"


def code_page(code: Code) -> str:
    """Return the Markdown of the page about one finding code."""
    above = [one for one in CODES if code.name.startswith(f"{one.name}/")]
    below = [one for one in CODES if one.name.startswith(f"{code.name}/")]
    parts = [f"# {code.name}", f"{code.title}.", code.help]
    if code.next_step:
        parts.append(code.next_step)
    parts.append(
        f"Its severity is `{code.severity.value}` by default. Change it with the setting "
        f'[`severity`](../settings.md#severity), for example `{{ "{code.name}" = "off" }}`, or end '
        f"a line with `# fullgraph: ignore[{code.name}]`."
    )
    for title, others in (("Belongs to", above), ("More precise codes", below)):
        if others:
            links = ", ".join(f"[`{one.name}`]({_slug(one)}.md)" for one in others)
            parts.append(f"{title}: {links}.")
    return "\n\n".join(parts) + "\n"


def summary_for_models(folder: Path) -> str:
    """Return the text of ``llms.txt``: what fullgraph is, and its pages with their titles."""
    pages = sorted(folder.glob("*.md"))
    lines = [f"- [{_title(page)}]({page.name})" for page in pages]
    return "\n".join(
        [
            "# fullgraph",
            "",
            "> Shows what torch.compile does to Python code: graph breaks, recompiles, guards and "
            "fixes, on the command line (`fullgraph check FILE`), in editors, and in pytest.",
            "",
            *lines,
            "",
        ]
    )


def broken_links(folder: Path) -> Iterator[str]:
    """Yield a sentence for each relative link of a page whose file or heading does not exist."""
    for page in sorted(folder.rglob("*.md")):
        for target in _links(page.read_text(encoding="utf-8")):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, heading = target.partition("#")
            file = page.parent / name if name else page
            if not file.exists():
                yield f"{page.relative_to(folder)} links to {target}, which does not exist."
            elif heading and file.suffix == ".md" and heading not in _headings(file):
                yield f"{page.relative_to(folder)} links to {target}, which has no such heading."


def _links(text: str) -> list[str]:
    return [match[2] for match in _LINK.finditer(_CODE.sub("", text))]


def _headings(page: Path) -> set[str]:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return set(map(heading_anchor, titles))


def _move_links(text: str, origin: Path, folder: Path) -> str:
    """Make the links of a page of the repository fit the site; other files are linked on GitHub."""

    def move(match: re.Match[str]) -> str:
        label, target = match[1], match[2]
        name, mark, heading = target.partition("#")
        path = (origin / name).resolve()
        if re.match(r"[a-z]+:|#", target) or not path.is_relative_to(ROOT):
            return match[0]
        if path.is_relative_to(ROOT / "docs"):
            name = path.relative_to(ROOT / "docs").as_posix()
        elif path.suffix == ".png":
            name = f"images/{path.name}"
        elif path == ROOT / "README.md":
            name = "index.md"
        else:
            name = f"{SOURCE}/{path.relative_to(ROOT).as_posix()}"
        return f"{label}({name}{mark}{heading})"

    return _LINK.sub(move, text)


def _slug(code: Code) -> str:
    return code.name.replace("/", "-")


def _title(page: Path) -> str:
    text = page.read_text(encoding="utf-8")
    return next(line for line in text.splitlines() if line.startswith("# ")).lstrip("# ")


if __name__ == "__main__":
    problems = write_site(Path(sys.argv[1]))
    print(*problems, sep="\n", end="\n" if problems else "")
    sys.exit(bool(problems))
