"""A file in a package is the module that Python would import, made of the edited text."""

from __future__ import annotations

import ast
import sys
import textwrap
import types
from pathlib import Path

import pytest
from tests.engine.hosts import Engine, Result

from fullgraph_engine.host import import_failures, import_hook
from fullgraph_engine.host.reads import Reads
from fullgraph_engine.protocol import Importing, Limits


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return root


def counted(result: Result, what: str) -> int:
    return result.log("stdout").count(f"{what} is executed")


# -- names and places ---------------------------------------------------------------------------


def placed(path: Path, *roots: Path, text: str = "", installed: Path | None = None) -> str:
    user_path = (str(installed),) if installed is not None else ()
    folders = [str(root) for root in roots]
    found = import_hook.locate_module(str(path), folders, user_path, ast.parse(text))
    return found.name


def test_a_file_below_packages_has_their_names(tmp_path: Path) -> None:
    tree(tmp_path, {"src/pack/__init__.py": "", "src/pack/sub/__init__.py": ""})
    assert placed(tmp_path / "src/pack/sub/x.py", tmp_path) == "pack.sub.x"
    assert placed(tmp_path / "src/pack/sub/__init__.py", tmp_path) == "pack.sub"
    found = import_hook.locate_module(str(tmp_path / "src/pack/sub/x.py"), [str(tmp_path)])
    assert found.search == (str(tmp_path), str(tmp_path / "src"))
    assert found.beside == str(tmp_path / "src/pack/sub")


def test_a_namespace_is_part_of_the_name_where_imports_need_it(tmp_path: Path) -> None:
    tree(tmp_path, {"space/pack/__init__.py": "", "space/other.py": ""})
    path = tmp_path / "space/pack/x.py"
    assert placed(path, tmp_path) == "pack.x"
    assert placed(path, tmp_path, text="from space import other") == "space.pack.x"
    assert placed(path, tmp_path, text="from .. import other") == "space.pack.x"
    assert placed(path, tmp_path / "space", text="from space import other") == "pack.x"
    site = tree(tmp_path / "site-packages", {"space/pack/__init__.py": ""})
    assert placed(site / "space/pack/x.py", installed=site) == "space.pack.x"


def test_a_folder_that_is_called_like_a_package_is_no_namespace_of_it(tmp_path: Path) -> None:
    tree(tmp_path, {"work/famous/script.py": "", "site-packages/famous/__init__.py": ""})
    site = tmp_path / "site-packages"
    path = tmp_path / "work/famous/script.py"
    assert placed(path, tmp_path / "work", text="import famous", installed=site) == "script"


def test_a_script_finds_its_neighbors_before_the_workspace(tmp_path: Path) -> None:
    tree(tmp_path, {"tools/script.py": "", "tools/near.py": "", "near.py": ""})
    found = import_hook.locate_module(str(tmp_path / "tools/script.py"), [str(tmp_path)])
    assert found.search == (str(tmp_path / "tools"), str(tmp_path))


def test_the_checkout_that_a_file_is_in_goes_before_another_of_the_same_name(
    tmp_path: Path,
) -> None:
    tree(tmp_path, {"one/pack/__init__.py": "", "two/pack/__init__.py": ""})
    found = import_hook.locate_module(str(tmp_path / "two/pack/x.py"), [str(tmp_path / "one")])
    assert found.search[0] == str(tmp_path / "two")


def test_an_editable_install_may_call_a_folder_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree(tmp_path, {"lib/__init__.py": "", "lib/sub/__init__.py": ""})
    install = types.ModuleType("__editable___pack_1_0_finder")
    vars(install)["MAPPING"] = {"space.pack": str(tmp_path / "lib")}
    finder = type("_EditableFinder", (), {"__module__": install.__name__})
    monkeypatch.setitem(sys.modules, install.__name__, install)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, finder])
    assert placed(tmp_path / "lib" / "sub" / "x.py", tmp_path) == "space.pack.sub.x"
    assert placed(tmp_path / "lib" / "sub" / "__init__.py", tmp_path) == "space.pack.sub"
    assert placed(tmp_path / "x.py", tmp_path) == "x"


# -- as Python ----------------------------------------------------------------------------------


def test_the_package_above_has_executed_when_the_text_does(engine: Engine, tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "pack/__init__.py": "__version__ = '1.2'\nfrom .settings import level\n",
            "pack/settings.py": "level = 3\n",
        },
    )
    result = engine.analyze(
        "from . import __version__, level\nimport pack\n"
        "def f():  # target\n    return __version__, level, pack.settings.level, __name__\n",
        path=str(tmp_path / "pack" / "model.py"),
    )
    assert not result.troubles
    assert eval(result.value("f")) == ("1.2", 3, 3, "pack.model")


def test_a_package_that_imports_the_file_gets_the_edited_text(
    engine: Engine, tmp_path: Path
) -> None:
    tree(
        tmp_path,
        {
            "pack/__init__.py": """\
                before = 'before'
                from .model import Net, f
                from .user import Sub
                after = Net.size + 1
                """,
            "pack/user.py": "from .model import Net\nclass Sub(Net): ...\n",
            "pack/model.py": "raise RuntimeError('the file on disk')\n",
        },
    )
    text = """\
        from . import before
        class Net:
            size = {}
        def f():  # target
            import pack, pack.user
            return before, pack.after, pack.Net is Net, issubclass(pack.Sub, Net)
        """
    for size in (1, 5):
        result = engine.analyze(text.format(size), path=str(tmp_path / "pack" / "model.py"))
        assert not result.troubles
        assert eval(result.value("f")) == ("before", size + 1, True, True)


def test_an_error_in_a_text_that_its_package_imports_loses_nothing_else(
    engine: Engine, tmp_path: Path
) -> None:
    tree(
        tmp_path,
        {
            "pack/__init__.py": "from .model import table, Net\nfrom .user import Sub\n",
            "pack/user.py": "from .model import table\nclass Sub(table): ...\n",
        },
    )
    result = engine.analyze(
        """\
        table = {}["missing"]
        class Net:  # target
            def __repr__(self): return "a Net"
        def f():  # target
            return table
        from .user import Sub
        def g():  # target
            from pack import Net as same
            return same is Net
        """,
        path=str(tmp_path / "pack" / "model.py"),
    )
    # What cannot be imported because of the first line is no finding of its own.
    assert result.troubles == [("trace/eager-error", 0)]
    assert result.value("Net") == "a Net"
    assert result.value("g") == "True"


def test_lazy_packages_type_checking_and_optional_imports(engine: Engine, tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "pack/__init__.py": """\
                import importlib
                from typing import TYPE_CHECKING
                if TYPE_CHECKING:
                    from .absent import Type
                def __getattr__(name):
                    if name == "lazy":
                        return importlib.import_module(".part", __name__).lazy
                    raise AttributeError(name)
                """,
            "pack/part.py": """\
                try:
                    import not_installed
                except ImportError:
                    not_installed = None
                lazy = "from part"
                """,
        },
    )
    result = engine.analyze(
        """\
        from typing import TYPE_CHECKING
        from pack import lazy
        from .part import not_installed
        if TYPE_CHECKING:
            from pack.absent import Type
        def f(x: "Type" = None):  # target
            return lazy, not_installed
        """,
        path=str(tmp_path / "pack" / "model.py"),
    )
    assert not result.troubles
    assert result.value("f") == "('from part', None)"


def test_a_src_layout_without_configuration(engine: Engine, tmp_path: Path) -> None:
    tree(tmp_path, {"src/pack/__init__.py": "x = 1\n", "src/pack/near.py": "y = 2\n"})
    result = engine.analyze(
        "from pack import x\nfrom pack.near import y\n"
        "def f():  # target\n    return x, y, __name__\n",
        path=str(tmp_path / "src" / "pack" / "model.py"),
        roots=(str(tmp_path),),
    )
    assert result.value("f") == "(1, 2, 'pack.model')"


def test_a_namespace_package_holds_one_module_not_two(engine: Engine, tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "space/pack/__init__.py": "",
            "space/pack/model.py": "raise RuntimeError('the file on disk')\n",
            "space/pack/user.py": "from space.pack.model import f\n",
        },
    )
    result = engine.analyze(
        "import space.pack\ndef f():  # target\n    from space.pack import user\n"
        "    return user.f is f, __name__\n",
        path=str(tmp_path / "space" / "pack" / "model.py"),
        roots=(str(tmp_path),),
    )
    assert result.value("f") == "(True, 'space.pack.model')"


def test_a_script_inside_a_package_imports_its_neighbors(engine: Engine, tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "pack/__init__.py": "",
            "pack/near.py": "import further\nx = further.x\n",
            "pack/further.py": "x = 6\n",
        },
    )
    result = engine.analyze(
        """\
        try:
            import further  # Python has no module of this name
        except ImportError:
            further = None
        import near
        def f():  # target
            return near.x, further
        """,
        path=str(tmp_path / "pack" / "train.py"),
    )
    assert not result.troubles
    assert result.value("f") == "(6, None)"


# -- what fails in Python too -------------------------------------------------------------------


def test_an_import_that_fails_deep_is_one_finding_at_its_root(
    engine: Engine, tmp_path: Path
) -> None:
    tree(
        tmp_path,
        {
            "lib/__init__.py": "",
            "lib/a.py": "from .b import x\n",
            "lib/b.py": """\
                def load():
                    try:
                        from . import c
                    except ImportError as error:
                        raise RuntimeError("lib.b cannot work") from error
                load()
                """,
            "lib/c.py": "import not_installed_at_all\n",
        },
    )
    result = engine.analyze(
        """\
        import os
        from lib.a import x, y, z
        from lib.a import w
        import lib.b as b
        def f():  # target
            return os.sep
        def g():  # target
            return b.x
        """,
        path=str(tmp_path / "model.py"),
    )
    finding = result.trouble()
    assert finding.range.start.line == 1
    assert finding.message == "Cannot import `lib.a`: No module named 'not_installed_at_all'"
    assert [Path(related.path).name for related in finding.related] == [
        "c.py",
        "b.py",
        "b.py",
        "b.py",
        "a.py",
    ]
    assert finding.related[0].message == "No module named 'not_installed_at_all'"
    assert "pip install not_installed_at_all" in finding.hints[0]
    assert result.value("f") == "'/'"
    assert result.status("g") == "failed"


def test_names_that_a_module_lacks_are_still_one_finding_each(
    engine: Engine, tmp_path: Path
) -> None:
    result = engine.analyze(
        "from os import nonsense, sep, rubbish\ndef f():  # target\n    return sep\n",
        path=str(tmp_path / "model.py"),
    )
    assert [f.range.start.byte for f in result.findings if f.code == "trace/import-error"] == [
        15,
        30,
    ]


def test_a_package_that_ends_the_process(engine: Engine, tmp_path: Path) -> None:
    tree(tmp_path, {"pack/__init__.py": "import os\nos._exit(3)\n", "pack/near.py": "x = 4\n"})
    result = engine.analyze(
        "from .near import x\ndef f():  # target\n    return x\n",
        path=str(tmp_path / "pack" / "model.py"),
    )
    finding = result.trouble()
    assert finding.code == "trace/crashed"
    assert "without importing its parent packages" in finding.notes[0]
    assert result.value("f") == "4"


def test_a_package_that_takes_for_ever(engine: Engine, tmp_path: Path) -> None:
    tree(tmp_path, {"pack/__init__.py": "while True: pass\n"})
    result = engine.analyze(
        "def f():  # target\n    return 1\n",
        path=str(tmp_path / "pack" / "model.py"),
        limits=Limits(module_seconds=0.5),
    )
    assert result.trouble().code == "trace/timeout"
    assert result.value("f") == "1"


def test_the_root_of_exceptions_that_cause_one_another() -> None:
    first, second = ValueError("first"), ImportError("second")
    second.__cause__ = first
    first.__cause__ = second
    assert import_failures.root_cause(second) is second
    first.__cause__ = None
    assert import_failures.root_cause(second) is first


# -- once ---------------------------------------------------------------------------------------


def test_an_edit_below_the_imports_does_not_execute_the_packages_again(
    engine: Engine, tmp_path: Path, reimports: int
) -> None:
    shout = "import time\ntime.sleep(0.1)\nprint('{} is executed', flush=True)\n"
    tree(
        tmp_path,
        {
            "pack/__init__.py": shout.format("pack") + "from .sub import x\n",
            "pack/sub/__init__.py": shout.format("sub") + "x = 1\n",
        },
    )
    path = tmp_path / "pack" / "sub" / "model.py"
    text = "from . import x\nimport pack\ny = {}\ndef f():  # target\n    return x, y\n"
    first = engine.analyze(text.format(0), path=str(path))
    assert (counted(first, "pack"), counted(first, "sub")) == (1, 1)
    path.write_text(text.format(0))  # saving it changes nothing
    for number in (1, 2):
        again = engine.analyze(text.format(number), path=str(path))
        assert again.value("f") == f"(1, {number})"
        assert (counted(again, "pack"), counted(again, "sub")) == (reimports, reimports)
    # But the package itself may change.
    (tmp_path / "pack" / "sub" / "__init__.py").write_text(shout.format("sub") + "x = 22\n")
    assert engine.analyze(text.format(3), path=str(path)).value("f") == "(22, 3)"


def test_what_a_preamble_depends_on(tmp_path: Path) -> None:
    site = tree(
        tmp_path / "site-packages",
        {"mine/__init__.py": "", "mine/model.py": "", "other/__init__.py": ""},
    )
    opened = [str(path) for path in site.rglob("*.py")] + [str(tmp_path / "own.py")]
    (tmp_path / "own.py").write_text("")

    def files(path: Path) -> set[str]:
        reads = Reads(str(path), [str(site)], str(tmp_path / "scratch"))
        reads.opened.update(opened)
        return {str(Path(state.path).relative_to(tmp_path)) for state in reads.file_states()}

    assert files(tmp_path / "model.py") == {"own.py", "site-packages"}
    # Whoever edits an installed package edits more than one file of it.
    assert files(site / "mine" / "model.py") == {
        "own.py",
        "site-packages",
        "site-packages/mine/__init__.py",
    }


@pytest.mark.slow
def test_what_a_package_imports_after_the_file_is_imported_ahead_of_it(
    engine: Engine, tmp_path: Path, reimports: int
) -> None:
    shout = "import time\ntime.sleep(0.1)\nprint('{} is executed', flush=True)\n"
    tree(
        tmp_path,
        {
            "pack/__init__.py": """\
                import time
                time.sleep(0.1)
                from .model import Net
                from . import heavy
                from .user import Sub
                late = 1
                from .cautious import late_as_seen
                """,
            "pack/heavy.py": shout.format("heavy") + "import pack.heavier\n",
            "pack/heavier.py": shout.format("heavier"),
            # Needs the text.
            "pack/user.py": shout.format("user") + "from .model import Net\nclass Sub(Net): ...\n",
            # Would see something else if it were executed before `late` is there.
            "pack/cautious.py": """\
                try:
                    from pack import late as late_as_seen
                except ImportError:
                    late_as_seen = None
                """,
        },
    )
    text = """\
        import time
        class Net:
            size = {}
        def f():  # target
            import pack
            own = issubclass(pack.Sub, Net), pack.Sub.size
            return own, pack.late_as_seen, pack.heavier.__name__
        """
    for number in range(3):
        result = engine.analyze(text.format(number), path=str(tmp_path / "pack" / "model.py"))
        assert not result.troubles, (result.trouble(), result.log("engine"))
        assert eval(result.value("f")) == ((True, number), 1, "pack.heavier")
        again = reimports if number else 1
        assert (counted(result, "heavy"), counted(result, "heavier")) == (again, again)
        assert counted(result, "user") == 1
    # They are dependencies from then on.
    (tmp_path / "pack" / "heavier.py").write_text("print('changed is executed')\n")
    result = engine.analyze(text.format(7), path=str(tmp_path / "pack" / "model.py"))
    assert counted(result, "changed") == 1


def test_slow_imports_are_named_while_they_go_on(engine: Engine, tmp_path: Path) -> None:
    tree(
        tmp_path,
        {
            "pack/__init__.py": "import slow_one.part\n",
            "slow_one/__init__.py": "",
            "slow_one/part.py": "import time\ntime.sleep(0.3)\nimport slow_one.other\n",
            "slow_one/other.py": "",
        },
    )
    result = engine.analyze(
        "import json\ndef f():  # target\n    import slow_one.part\n    return 1\n",
        path=str(tmp_path / "pack" / "model.py"),
    )
    named = [event.module for event in result.events if isinstance(event, Importing)]
    assert named == ["pack", "slow_one", "slow_one.other"]
