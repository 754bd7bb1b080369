"""Settings from every source, and what a user is told about bad ones."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fullgraph.cli.file_settings import NearestSettings
from fullgraph.domain.codes import Severity
from fullgraph.session.request import analyze_request
from fullgraph.session.settings import (
    Resolved,
    Settings,
    SettingsSource,
    command_line_source,
    editor_source,
    environment_source,
    find_project,
    list_declarations,
    resolve_settings,
    vscode_configuration,
)


def from_pyproject(folder: Path, table: str) -> Resolved:
    (folder / "pyproject.toml").write_text(f"[tool.fullgraph]\n{table}\n")
    project = find_project(folder)
    assert project.root == folder
    return resolve_settings(project.source)


def test_nothing_chosen_is_all_defaults() -> None:
    assert resolve_settings() == Resolved(Settings(), {}, ())


@pytest.mark.parametrize("key", ["memory-limit", "memory_limit", "memoryLimit"])
def test_pyproject_may_spell_a_setting_in_any_way(tmp_path: Path, key: str) -> None:
    resolved = from_pyproject(tmp_path, f"{key} = 1024")
    assert resolved.settings.memory_limit == 1024
    assert resolved.origins == {"memory-limit": str(tmp_path / "pyproject.toml")}
    assert resolved.problems == ()


def test_pyproject_holds_every_kind_of_value(tmp_path: Path) -> None:
    resolved = from_pyproject(
        tmp_path,
        """
        mode = "fake"
        select = ["graph-break", "op/not-pt2-compliant"]
        ignore = ["GB0059"]
        severity = { "graph-break" = "error", "guard/*" = "hint", recompile = "off" }
        exit-severity = "error"
        timeout = 2.5
        try-dynamic = false
        """,
    )
    assert resolved.problems == ()
    assert resolved.settings == Settings(
        mode="fake",
        select=("graph-break", "op/not-pt2-compliant"),
        ignore=("GB0059",),
        severity={
            "graph-break": Severity.ERROR,
            "guard": Severity.HINT,
            "recompile": Severity.OFF,
        },
        exit_severity=Severity.ERROR,
        timeout=2.5,
        try_dynamic=False,
    )


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"mode": "fast"}, 'must be "auto", "fake" or "real"; "auto" is used.'),
        ({"timeout": 0}, "must be a number of seconds, at least 0.1; 60 is used."),
        ({"timeout": float("nan")}, "must be a number of seconds, at least 0.1; 60 is used."),
        ({"jobs": 1.5}, "must be a whole number, at least 0; 0 is used."),
        ({"jobs": True}, "must be a whole number, at least 0; 0 is used."),
        ({"memory-limit": "lots"}, "must be a whole number of MiB, at least 256; 4096 is used."),
        ({"try-dynamic": "yes"}, "must be true or false; true is used."),
        ({"exclude": {"a": 1}}, "must be a list of strings; [] is used."),
        (
            {"select": ["grph-break"]},
            "names 'grph-break', which is not a finding code or the beginning of one; [] is used.",
        ),
        (
            {"severity": {"graph-break": "loud"}},
            'must map finding codes to "error", "warning", "information", "hint" or "off", '
            "but 'graph-break' has 'loud'; {} is used.",
        ),
    ],
)
def test_a_bad_value_is_one_sentence_and_the_default_stays(
    values: dict[str, object], problem: str
) -> None:
    resolved = resolve_settings(SettingsSource("setup", values))
    key = next(iter(values))
    assert resolved.problems == (f"Setting '{key}' of setup {problem}",)
    assert resolved.settings == Settings()


@pytest.mark.parametrize(
    ("word", "kinds"),
    [
        ("all", ("main", "docstring")),
        ("main", ("main",)),
        ("docstrings", ("docstring",)),
        ("off", ()),
    ],
)
def test_what_of_a_file_is_executed_for_probes(word: str, kinds: tuple[str, ...]) -> None:
    settings = resolve_settings(command_line_source({"probes-from-file": word})).settings
    request = analyze_request(
        name="model.py", text="", generation="v", settings=settings, project=None
    )
    assert request.examples == kinds
    # What was traced otherwise is traced again.
    assert (settings.tracing_key() == Settings().tracing_key()) == (word == "all")


def test_a_misspelt_setting_is_named_with_the_one_that_was_meant() -> None:
    resolved = resolve_settings(SettingsSource("setup", {"timout": 3}))
    assert resolved.problems == ("Setting 'timout' of setup is unknown; did you mean 'timeout'?",)


def test_a_bad_later_value_leaves_the_earlier_one_in_force() -> None:
    resolved = resolve_settings(
        SettingsSource("one", {"jobs": 3}), command_line_source({"jobs": "many"})
    )
    assert resolved.settings.jobs == 3
    assert resolved.problems == ("--jobs must be a whole number, at least 0; 3 is still used.",)


def test_the_command_line_wins_and_flags_not_given_say_nothing() -> None:
    resolved = resolve_settings(
        SettingsSource("pyproject.toml", {"timeout": 5, "mode": "real"}),
        command_line_source({"timeout": "7", "mode": None, "severity": ["op=error", "GB0059=off"]}),
    )
    assert resolved.settings.timeout == 7
    assert resolved.settings.mode == "real"
    assert resolved.settings.severity == {"op": Severity.ERROR, "GB0059": Severity.OFF}
    assert resolved.origins == {
        "timeout": "the command line",
        "mode": "pyproject.toml",
        "severity": "the command line",
    }


@pytest.mark.parametrize(
    ("variables", "minutes"),
    [
        ({}, 5),
        ({"CI": "false"}, 5),
        ({"CI": "true"}, 0),
        ({"FULLGRAPH_ENGINE_KEEP": "0"}, 0),
        ({"FULLGRAPH_ENGINE_KEEP": "0.5", "CI": "1"}, 0.5),
        ({"FULLGRAPH_ENGINE_KEEP": ""}, 5),
    ],
)
def test_how_long_an_engine_stays(variables: dict[str, str], minutes: float) -> None:
    project = SettingsSource("pyproject.toml", {"engine": {"keep": 5}})
    assert resolve_settings(project, environment_source(variables)).settings.engine_keep == minutes
    typed = command_line_source({"engine-keep": "7"})
    assert resolve_settings(project, environment_source(variables), typed).settings.engine_keep == 7


def test_a_bad_variable_is_named() -> None:
    resolved = resolve_settings(environment_source({"FULLGRAPH_ENGINE_KEEP": "yes"}))
    assert resolved.problems == (
        "Setting 'engine-keep' of FULLGRAPH_ENGINE_KEEP must be a number of minutes, at least 0; "
        "10 is used.",
    )


def test_what_an_editor_sends_overrides_the_project_even_with_a_default() -> None:
    editor = editor_source({"fullgraph": {"timeout": Settings().timeout, "traceOn": "save"}})
    resolved = resolve_settings(SettingsSource("pyproject.toml", {"timeout": 5, "jobs": 1}), editor)
    assert resolved.settings == Settings(jobs=1, trace_on="save")
    assert resolved.origins["timeout"] == "the editor"
    assert resolved.problems == ()


@pytest.mark.parametrize("raw", [None, [], "", 3, {"fullgraph": None}])
def test_an_editor_that_sends_nonsense_changes_nothing(raw: object) -> None:
    assert resolve_settings(editor_source(raw)).settings == Settings()


@pytest.mark.parametrize("trace", [{"trace": {"server": "verbose"}}, {"trace.server": "verbose"}])
def test_settings_of_the_client_alone_are_no_mistakes(trace: dict[str, Any]) -> None:
    resolved = resolve_settings(editor_source({**trace, "mode": "real"}))
    assert resolved.problems == ()
    assert resolved.settings.mode == "real"


def test_the_nearest_table_is_the_project_but_not_beyond_a_repository(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.fullgraph]\njobs = 1\n")
    repository = tmp_path / "repository"
    package = repository / "package"
    package.mkdir(parents=True)
    (package / "pyproject.toml").write_text("[project]\nname = 'p'\n")
    assert find_project(package).root == tmp_path
    (repository / ".git").mkdir()
    assert find_project(package).root == package
    (repository / "pyproject.toml").write_text("[tool.fullgraph]\njobs = 2\n")
    project = find_project(package / "model.py")
    assert (project.root, project.source.values) == (repository, {"jobs": 2})


def test_an_environment_marks_a_project(tmp_path: Path) -> None:
    package = tmp_path / "models" / "vision"
    package.mkdir(parents=True)
    assert find_project(package).root == package
    (tmp_path / ".venv").mkdir()
    assert find_project(package / "net.py").root == tmp_path


def test_the_project_of_a_package_is_the_folder_around_it(tmp_path: Path) -> None:
    package = tmp_path / "models" / "vision"
    package.mkdir(parents=True)
    for folder in (package, package.parent):
        (folder / "__init__.py").write_text("")
    assert find_project(package / "net.py").root == tmp_path


def test_the_checked_folder_is_the_project_of_files_without_one(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "vision"
    package.mkdir(parents=True)
    other = tmp_path / "other"
    (other / ".git").mkdir(parents=True)
    nearest = NearestSettings(tmp_path, {})
    assert nearest.find(package / "net.py").project.root == tmp_path
    assert nearest.find(other / "net.py").project.root == other
    assert NearestSettings(package, {}).find(package / "net.py").project.root == package


@pytest.mark.parametrize(
    ("content", "part"),
    [(b"[tool", "is not valid TOML"), (b"\xff", "is not valid TOML")],
)
def test_a_broken_pyproject_is_said_and_not_used(tmp_path: Path, content: bytes, part: str) -> None:
    (tmp_path / "pyproject.toml").write_bytes(content)
    project = find_project(tmp_path)
    assert project.source.values == {}
    (problem,) = project.problems
    assert part in problem and problem.endswith("its settings are not used.")


def test_a_table_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool]\nfullgraph = 3\n")
    assert "must be a table" in find_project(tmp_path).problems[0]


def test_folders_of_the_project_become_absolute(tmp_path: Path) -> None:
    settings = Settings(extra_paths=("lib", "/opt/x", "${workspaceFolder}/gen"))
    assert settings.import_roots(tmp_path) == (
        str(tmp_path / "lib"),
        "/opt/x",
        str(tmp_path / "gen"),
    )


def test_the_manifest_describes_every_setting_of_editors() -> None:
    properties = vscode_configuration()["properties"]
    fields = {field.name for field in dataclasses.fields(Settings)}
    assert {declaration.field for declaration in list_declarations()} == fields
    assert "fullgraph.exitSeverity" not in properties
    assert properties["fullgraph.traceOn"] == {
        "type": "string",
        "enum": ["change", "save", "manual"],
        "markdownEnumDescriptions": [
            "While typing.",
            "When the file is saved or opened.",
            "Only on command.",
        ],
        "default": "change",
        "markdownDescription": "When the editor traces a file.",
        "scope": "resource",
    }
    for name, property_ in properties.items():
        assert property_["markdownDescription"].endswith("."), name
        assert "type" in property_ and "default" in property_, name


@pytest.mark.parametrize(
    "table",
    ['completion-mode = "full"', 'completion.mode = "full"', 'completion = { mode = "full" }'],
)
def test_a_setting_of_a_feature_may_be_in_a_table_of_its_own(tmp_path: Path, table: str) -> None:
    resolved = from_pyproject(tmp_path, table)
    assert resolved.problems == ()
    assert resolved.settings == Settings(completion_mode="full")
    assert list(resolved.origins) == ["completion-mode"]


def test_editors_say_settings_of_a_feature_nested_or_with_a_dot() -> None:
    assert "fullgraph.completion.mode" in vscode_configuration()["properties"]
    for raw in ({"completion": {"mode": "off"}}, {"completion.mode": "off"}):
        assert resolve_settings(editor_source(raw)).settings == Settings(completion_mode="off")


def test_a_misspelt_setting_in_the_table_of_a_feature() -> None:
    resolved = resolve_settings(
        SettingsSource("setup", {"completion": {"mod": "full", "mode": "fast"}})
    )
    assert resolved.problems == (
        "Setting 'completion.mod' of setup is unknown; did you mean 'completion-mode'?",
        "Setting 'completion.mode' of setup must be "
        '"default", "full" or "off"; "default" is used.',
    )
