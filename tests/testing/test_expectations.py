"""Files of expectations: tests that use them, and updates."""

from __future__ import annotations

import json
from typing import Any

import pytest
from projects import Project

pytestmark = pytest.mark.real_engine

SPEAKS = """
def test_net(fullgraph):
    fullgraph.check(Net(speaks=True), x, expected="net.json")
"""


def entries(project: Project, test: str = "test_it.py::test_net", file: str = "net.json") -> Any:
    return json.loads((project.folder / file).read_text())["tests"][test]


def change_entry(project: Project, **keys: Any) -> None:
    path = project.folder / "net.json"
    plain = json.loads(path.read_text())
    plain["tests"]["test_it.py::test_net"][0] |= keys
    path.write_text(json.dumps(plain))


def test_an_update_writes_the_causes_and_the_test_passes_from_then_on(project: Project) -> None:
    project.write_tests(SPEAKS)
    before = project.run()
    assert "net.json does not exist; write it with `pytest --fullgraph-update`" in before.output
    assert "Updated net.json." in project.run("--fullgraph-update").output
    (entry,) = entries(project)
    assert entry["code"].startswith("graph-break/")
    assert entry["file"] == "test_it.py" and entry["function"] == "Net.forward"
    assert entry["source"] == 'print("forward")' and "print" in entry["message"]
    assert "line" not in entry and "graphs" not in entry
    assert project.run().outcomes == {"test_net": "PASSED"}
    assert "Unchanged: net.json." in project.run("--fullgraph-update").output


def test_an_entry_survives_edits_elsewhere_and_another_code(project: Project) -> None:
    project.write_tests(SPEAKS)
    project.run("--fullgraph-update")
    path = project.folder / "test_it.py"
    path.write_text("# A new line.\n\n" + path.read_text().replace("y.relu()", "y.sigmoid()"))
    change_entry(project, code="graph-break/GB9999", message="Another torch says this")
    assert project.run().outcomes == {"test_net": "PASSED"}


def test_an_unexpected_break_fails_with_its_code(project: Project) -> None:
    project.write_tests(SPEAKS)
    project.run("--fullgraph-update")
    path = project.folder / "test_it.py"
    path.write_text(path.read_text().replace("return y.relu()", "print(2)\n        return y"))
    shown = project.run().section("test_net")
    assert shown.startswith("Expected no other graph breaks than in net.json, found 1:\n")
    assert "print(2)" in shown and "= hint: " in shown and shown.count(" --> ") == 1
    assert "add them to net.json with `pytest --fullgraph-update`" in shown


def test_a_second_break_in_the_line_of_an_entry_fails(project: Project) -> None:
    project.write_tests(SPEAKS)
    project.run("--fullgraph-update")
    path = project.folder / "test_it.py"
    path.write_text(path.read_text().replace('print("forward")', 'print("forward") or y.tolist()'))
    assert project.run().outcomes == {"test_net": "FAILED"}


def test_a_recompile_is_expected_by_the_value_that_changes(project: Project) -> None:
    project.write_tests("""
        def test_net(fullgraph):
            fullgraph.check(Counter(), x, calls=3, expected="net.json")
    """)
    project.run("--fullgraph-update")
    (entry,) = entries(project)
    assert entry["code"].startswith("recompile/") and entry["message"] == "`self.calls` changed"
    assert project.run().outcomes == {"test_net": "PASSED"}
    change_entry(project, message="`self.other` changed")
    shown = project.run().section("test_net")
    assert shown.startswith("Expected no other recompiles than in net.json, found 1:\n")


def test_an_entry_that_does_not_occur_fails_unless_it_may_be_missing(project: Project) -> None:
    project.write_tests(SPEAKS)
    project.run("--fullgraph-update")
    project.write_tests(SPEAKS.replace("speaks=True", ""))
    shown = project.run().section("test_net")
    assert 'in `Net.forward` of test_it.py, at `print("forward")`, but it did not occur' in shown
    assert "Remove it with `pytest --fullgraph-update`" in shown
    change_entry(project, may=True, reason="only on some machines")
    assert project.run().outcomes == {"test_net": "PASSED"}
    project.run("--fullgraph-update")
    assert entries(project)[0]["reason"] == "only on some machines"
    change_entry(project, may=False)
    project.run("--fullgraph-update")
    assert "net" not in json.loads((project.folder / "net.json").read_text())["tests"]


def test_conditions_and_reasons_stay(project: Project) -> None:
    project.write_tests(SPEAKS)
    project.run("--fullgraph-update")
    change_entry(project, **{"if": "torch>=2", "reason": "It is a demo."})
    assert project.run("--fullgraph-update").outcomes == {"test_net": "PASSED"}
    (entry,) = entries(project)
    assert (entry["if"], entry["reason"]) == ("torch>=2", "It is a demo.")
    change_entry(project, **{"if": "torch>=99"})
    assert project.run().outcomes == {"test_net": "FAILED"}


def test_the_marker_parameters_and_second_checks_have_their_own_entries(project: Project) -> None:
    project.write_tests("""
        @pytest.mark.fullgraph(expected="net.json")
        def test_marked():
            torch.compile(Net(speaks=True), backend="eager")(x)


        @pytest.mark.parametrize("speaks", [True, False])
        def test_both(fullgraph, speaks):
            fullgraph.check(Net(speaks), x, expected="net.json")
            fullgraph.check(Counter(), x, calls=2, expected="net.json")
    """)
    assert set(project.run("--fullgraph-update").outcomes.values()) == {"PASSED"}
    tests = json.loads((project.folder / "net.json").read_text())["tests"]
    assert list(tests) == [
        "test_it.py::test_both[False]#2",
        "test_it.py::test_both[True]",
        "test_it.py::test_both[True]#2",
        "test_it.py::test_marked",
    ]
    assert set(project.run().outcomes.values()) == {"PASSED"}


def test_an_update_does_not_record_a_test_that_fails(project: Project) -> None:
    project.write_tests("""
        def test_net(fullgraph):
            fullgraph.check(Net(speaks=True), torch.ones(2, 5), expected="net.json")


        def test_nothing(fullgraph):
            fullgraph.check(lambda x: x, 1, expected="net.json")
    """)
    session = project.run("--fullgraph-update")
    assert session.outcomes == {"test_net": "FAILED", "test_nothing": "FAILED"}
    assert not (project.folder / "net.json").exists()


def test_breaks_in_an_installed_package_are_named_there(project: Project) -> None:
    project.write(
        "site-packages/lib/layers.py",
        """
        def speak(x):
            print("one")
            x = x + 1
            print("two")
            return x
        """,
    )
    project.write("site-packages/lib/__init__.py", "")
    project.write("conftest.py", "import sys\n\nsys.path.append('site-packages')\n")
    project.write_tests("""
        from lib.layers import speak


        def test_net(fullgraph):
            fullgraph.check(lambda x: speak(x) * 2, x, expected="net.json")


        def test_own(fullgraph):
            fullgraph.check(
                lambda x: speak(x) * 2, x, expected="own.json", library_breaks=None
            )
    """)
    project.run("--fullgraph-update")
    assert [(one["file"], one["function"], one["source"]) for one in entries(project)] == [
        ("lib/layers.py", "speak", 'print("one")'),
        ("lib/layers.py", "speak", 'print("two")'),
    ]
    assert json.loads((project.folder / "own.json").read_text())["tests"] == {}
    assert set(project.run().outcomes.values()) == {"PASSED"}
    path = project.folder / "site-packages" / "lib" / "layers.py"
    path.write_text(path.read_text().replace("return x", "print(3)\n    return x"))
    session = project.run()
    assert session.outcomes == {"test_net": "FAILED", "test_own": "PASSED"}
    assert "Expected no other graph breaks of installed packages" in session.section("test_net")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("<<<<<<< ours\n{}\n=======\n{}\n>>>>>>> theirs\n", "has conflict markers of a merge"),
        ("{", "is not valid JSON"),
        ("[]", "is not a file of expectations"),
        ('{"version": 2, "tests": {}}', "has version 2, and this fullgraph reads version 1"),
        ('{"version": 1, "tests": {"a": [{"code": "x"}]}}', "has an entry without 'file'"),
        ('{"version": 1, "tests": []}', "has an entry without"),
        (
            '{"version": 1, "tests": {"a": [{"code": "", "file": "", "function": "", "source": "",'
            ' "message": "", "if": "torch >> 2"}]}}',
            "has the condition torch >> 2, which is neither",
        ),
    ],
)
@pytest.mark.parametrize("options", [(), ("--fullgraph-update",)])
def test_an_invalid_file_fails_with_one_sentence_and_stays(
    project: Project, text: str, words: str, options: tuple[str, ...]
) -> None:
    project.write_tests(SPEAKS)
    path = project.write("net.json", text)
    before = path.read_text()
    shown = project.run(*options).section("test_net")
    assert f"net.json {words}" in shown and shown.count("\n") <= 2
    assert path.read_text() == before
