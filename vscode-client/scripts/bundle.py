"""Puts the server and the engine, and what the server needs, into ``bundled/libs``.

Only pure Python: one package for every platform and every Python from 3.10 on.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
LIBS = HERE / "bundled" / "libs"
OURS = (ROOT / "server" / "fullgraph", ROOT / "engine" / "fullgraph_engine")
# There are no wheels of these without a compiled part, but they work without that part: the last
# release of LibCST that does parses Python as of 3.8, and is slower.
PARTLY_COMPILED = ("pyyaml==6.0.3", "libcst==1.8.2")

# Not used by the rewrites.
LIBCST_TOOLS = ("codegen", "codemod", "display", "testing")
# Not used by a server that an editor starts.
LEFT_OUT = (
    *("bin", "cattr", "fullgraph/lsp/joined", "fullgraph/mcp", "fullgraph/testing"),
    "cattrs/preconf",  # for formats other than JSON of the language server protocol
    "fullgraph_engine/recording",  # for fullgraph record and pytest
)
ONLY_FOR_REPORTS = (
    *("diffs", "fingerprints", "github", "gitlab", "html", "junit", "markdown", "sarif"),
)
"""Modules of `fullgraph.render` that only commands import."""
CLI = {
    *("__init__.py", "command_line.py", "exit_status.py", "options.py", "terminal.py"),
    *("commands/__init__.py", "commands/server.py"),
}
"""Modules of the command line that `fullgraph server` imports."""


def main() -> None:
    shutil.rmtree(LIBS, ignore_errors=True)
    # The oldest Python, which needs most, and no platform at all.
    _install(
        *("--platform", "any", "--python-version", "3.10", "--implementation", "py"),
        *("--abi", "none", "--requirement", str(HERE / "bundled" / "requirements.txt")),
    )
    for package in PARTLY_COMPILED:
        _install(package)
    for compiled in [*LIBS.rglob("*.so"), *LIBS.rglob("*.pyd")]:
        compiled.unlink()
    shutil.rmtree(LIBS / "_yaml", ignore_errors=True)
    _replace(
        LIBS / "libcst" / "_parser" / "entrypoints.py",
        'os.environ.get("LIBCST_PARSER_TYPE")',
        '"pure"',
    )
    for tests in [*(LIBS / "libcst").rglob("tests"), *(LIBS / "libcst").rglob("commands")]:
        shutil.rmtree(tests, ignore_errors=True)
    (LIBS / "libcst" / "tool.py").unlink()
    for folder in LIBCST_TOOLS:
        shutil.rmtree(LIBS / "libcst" / folder)
    for package in OURS:
        for source in package.rglob("*"):
            if source.suffix in {".py", ".md"}:
                copy = LIBS / package.name / source.relative_to(package)
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, copy)
    for name in LEFT_OUT:
        shutil.rmtree(LIBS / name, ignore_errors=True)
    for stub in LIBS.rglob("*.pyi"):
        stub.unlink()
    for name in ONLY_FOR_REPORTS:
        (LIBS / "fullgraph" / "render" / f"{name}.py").unlink()
    (LIBS / "fullgraph" / "incremental" / "projects.py").unlink()  # for check --changed-since
    cli = LIBS / "fullgraph" / "cli"
    for path in cli.rglob("*.py"):
        if path.relative_to(cli).as_posix() not in CLI:
            path.unlink()
    # The server of the extension must start, and find fixes, without the modules left out.
    start = [sys.executable, "-I", "-S", str(HERE / "bundled" / "start.py"), "server", "--help"]
    subprocess.run(start, check=True, stdout=subprocess.DEVNULL)
    imported = f"import sys; sys.path.insert(0, {str(LIBS)!r}); import fullgraph.fixes.measuring"
    subprocess.run([sys.executable, "-B", "-I", "-S", "-c", imported], check=True)
    for info in LIBS.glob("*.dist-info"):
        _only_licenses(info)


def _install(*what: str) -> None:
    subprocess.run(
        [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"),
            *("--only-binary", ":all:", "--disable-pip-version-check"),
            *("--root-user-action", "ignore", "--upgrade", "--target", str(LIBS), *what),
        ],
        check=True,
    )


def _replace(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text, f"{file} is another one than expected"
    file.write_text(text.replace(old, new), encoding="utf-8")


def _only_licenses(info: Path) -> None:
    """Remove metadata that only pip needs; author and license stay beside the code."""
    for metadata in info.glob("METADATA"):
        headers, _, _ = metadata.read_text(encoding="utf-8").partition("\n\n")
        metadata.write_text(headers + "\n", encoding="utf-8")
    for path in sorted(info.rglob("*"), reverse=True):
        named = path.name.upper().startswith(("LICENSE", "LICENSE", "COPYING", "METADATA"))
        if path.is_file() and not named:
            path.unlink()
        elif path.is_dir() and not any(path.iterdir()):
            path.rmdir()


if __name__ == "__main__":
    main()
