"""Executing the module of a text."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.engine.hosts import STUB, Engine, spot


def test_a_failed_import_is_one_finding_on_its_name(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import os, absent.thing as thing, sys
        def uses():  # target
            return thing.x + 1
        def does_not():  # target
            return os.name + sys.platform
        class Base(thing.Base):  # target
            pass
        y = thing.constant * 2
        """
    )
    finding = result.trouble()
    assert finding.code == "trace/import-error"
    assert finding.range == spot(0, 11, 32)
    assert finding.message == "Cannot import `absent.thing`: No module named 'absent'"
    assert f"{sys.executable} -m pip install absent" in finding.hints[0]
    assert result.status("does_not") == "traced"
    assert result.status("uses") == "failed"
    assert result.status("Base") == "failed"
    assert "line 1" in (result.reports["uses"].error or "")


def test_from_import_of_a_missing_module(engine: Engine) -> None:
    result = engine.analyze(
        "def f():  # target\n    return 1\nfrom  absent.sub import (a,\n    b)\n"
    )
    assert result.trouble().range == spot(2, 6, 16)
    assert result.value("f") == "1"


def test_from_import_of_a_missing_name_binds_the_others(engine: Engine) -> None:
    result = engine.analyze(
        "from os.path import join, nonsense, sep\ndef f():  # target\n    return join('a', sep)\n"
    )
    finding = result.trouble()
    assert finding.range == spot(0, 26, 34)
    assert finding.message.startswith("Cannot import `os.path.nonsense`")
    assert result.value("f") == "'/'"


def test_annotations_do_not_need_what_they_name(engine: Engine) -> None:
    result = engine.analyze(
        """\
        import absent
        class C:  # target
            def show(self, x: absent.Array) -> absent.Other: ...
            def __repr__(self): return "a C"
        """
    )
    assert result.value("C") == "a C"


def test_a_guarded_import_is_no_finding(engine: Engine) -> None:
    result = engine.analyze(
        """\
        try:
            import absent
        except ImportError:
            absent = None
        def f():  # target
            return absent
        """
    )
    assert result.value("f") == "None"
    assert not result.troubles


def test_statements_after_a_failing_one_are_executed(engine: Engine) -> None:
    result = engine.analyze(
        """\
        rate = {}["rate"]
        twice = rate * 2
        def f():  # target
            return 5
        def g():  # target
            return twice
        """
    )
    finding = result.trouble()
    assert (finding.code, finding.range.start.line) == ("trace/eager-error", 0)
    assert "KeyError: 'rate'" in finding.message
    assert result.value("f") == "5"
    if sys.version_info >= (3, 11):
        assert finding.range == spot(0, 7, 17)


def test_the_user_stack_of_a_module_error(engine: Engine) -> None:
    result = engine.analyze(
        "def inner():\n    raise ValueError('no')\ndef f():  # target\n    pass\ninner()\n"
    )
    finding = result.trouble()
    assert [(frame.function, frame.line) for frame in finding.stack] == [
        ("<module>", 4),
        ("inner", 1),
    ]
    assert finding.range.start.line == 1


def test_the_module_looks_like_a_module(engine: Engine, tmp_path: Path) -> None:
    package = tmp_path / "pack" / "sub"
    package.mkdir(parents=True)
    (tmp_path / "pack" / "__init__.py").write_text("from .sub.model import Net\n")
    (package / "__init__.py").write_text("")
    (package / "near.py").write_text("where = __name__\n")
    path = package / "model.py"
    path.write_text("raise RuntimeError('the file on disk is not what is analyzed')\n")
    result = engine.analyze(
        '''\
        """Doc."""
        from __future__ import annotations
        import inspect, sys
        from . import near
        from pack.sub.near import where
        x: undefined_name = 1
        class Net: ...
        def f():  # target
            """Source."""
            import pack
            same = pack.Net is Net and sys.modules[__name__].f is f
            return (__name__, __package__, __file__, __doc__, where, same, __spec__.name)
        def g():  # target
            return inspect.getsource(g).splitlines()[0]
        if __name__ == "__main__":
            raise SystemExit
        ''',
        path=str(path),
    )
    assert not result.troubles
    assert eval(result.value("f")) == (
        "pack.sub.model",
        "pack.sub",
        str(path),
        "Doc.",
        "pack.sub.near",
        True,
        "pack.sub.model",
    )
    assert result.value("g") == repr("def g():  # target")


def test_a_package_that_fails_is_one_finding(engine: Engine, tmp_path: Path) -> None:
    # Python would not execute the file at all, so the finding is on what needs the package first.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "__init__.py").write_text("early = 1\nimport nowhere_to_be_found\n")
    (tmp_path / "broken" / "near.py").write_text("x = 4\n")
    result = engine.analyze(
        """\
        import os
        from .near import x
        from broken import early, something, __version__
        def f():  # target
            return x, early
        def g():  # target
            return something.x
        """,
        path=str(tmp_path / "broken" / "model.py"),
    )
    assert result.value("f") == "(4, 1)"
    finding = result.trouble()
    assert finding.range.start.line == 1
    assert "nowhere_to_be_found" in finding.message
    assert [Path(related.path).parent.name for related in finding.related] == ["broken"]
    assert result.status("g") == "failed"
    assert "nowhere_to_be_found" in (result.reports["g"].error or "")


def test_namespace_packages_are_found_below_a_root(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "name" / "space").mkdir(parents=True)
    (tmp_path / "name" / "near.py").write_text("x = 8\n")
    path = tmp_path / "name" / "space" / "model.py"
    result = engine.analyze(
        "from ..near import x\ndef f():  # target\n    return x, __name__\n",
        path=str(path),
        roots=(str(tmp_path),),
    )
    assert result.value("f") == "(8, 'name.space.model')"


def test_an_error_inside_an_imported_module(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("\n\ndef go():\n    return 1 / 0\ngo()\n")
    path = tmp_path / "model.py"
    result = engine.analyze("import mine\ndef f():  # target\n    pass\n", path=str(path))
    finding = result.trouble()
    assert (finding.code, finding.range) == ("trace/import-error", spot(0, 7, 11))
    assert [Path(related.path).name for related in finding.related] == ["mine.py", "mine.py"]
    assert finding.related[0].range.start.line == 3


@pytest.mark.parametrize("name", ["torch.py", "typing.py", "json.py", "a-b.v2.py", "untitled:1"])
def test_files_with_names_that_shadow(engine: Engine, tmp_path: Path, name: str) -> None:
    path = name if ":" in name else str(tmp_path / name)
    result = engine.analyze(
        "import json\ndef f():  # target\n    return json.dumps([1]), __name__\n", path=path
    )
    value, own = eval(result.value("f"))
    assert value == "[1]"
    assert own not in sys.stdlib_module_names


def test_missing_cuda_is_retried_with_fake_tensors(engine: Engine) -> None:
    stub = STUB.rpartition(":")[0]
    result = engine.analyze(
        f"""\
        import sys
        Pipeline = next(m.Pipeline for m in list(sys.modules.values())
                        if getattr(m, "__file__", "") == {stub!r})
        def cuda():
            if not Pipeline.in_fake_mode:
                raise AssertionError("Torch not compiled with CUDA enabled")
            return "fake"
        def big():
            if not Pipeline.in_fake_mode:
                raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
            return "fake"
        x, y = cuda(), big()
        def f():  # target
            return x, y
        """
    )
    assert not result.troubles
    assert result.value("f") == "('fake', 'fake')"
