"""``docs/check.schema.json`` describes the reports of ``fullgraph check --format json``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
from tests.cli.conftest import CommandLine, on
from tests.cli.test_check import BREAK, REPORT, model

from fullgraph_engine.protocol import Finding, Fix, Frame, Related, TextEdit

SCHEMA = Path(__file__).parents[2] / "docs" / "check.schema.json"


@pytest.fixture
def report(command_line: CommandLine) -> dict[str, Any]:
    path = str(command_line.folder / "a.py")
    fix = Fix("Write a probe", (TextEdit(on(3, 0, 0), "# fullgraph: f32[8]\n"),))
    related = Related(path, on(4, 4, 7), "here")
    finding = Finding(
        "trace/eager-error",
        "m",
        on(5, 19, 33),
        "Net",
        stack=(Frame(path, "f", 4, 4),),
        fixes=(fix,),
        related=(related,),
    )
    command_line.write("a.py", model(BREAK, finding))
    ran = command_line.check("--format", "json", "--timings", "a.py", "gone.py")
    plain: dict[str, Any] = json.loads(ran.out)
    return plain


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def problems(validator: Any, report: dict[str, Any]) -> list[str]:
    return [f"{error.json_path} {error.message}" for error in validator.iter_errors(report)]


def test_a_report_fits_the_schema(validator: Any, report: dict[str, Any]) -> None:
    (file,) = report["files"]
    assert file["findings"] and file["targets"] and report["errors"]
    assert problems(validator, report) == []


def test_the_schema_names_every_field(validator: Any, report: dict[str, Any]) -> None:
    parts = validator.schema["$defs"]
    (file,) = report["files"]
    optional = {"measured", "numerics", "timings"}
    assert set(file) - optional <= set(parts["file"]["properties"])
    for name in ("findings", "targets"):
        for entry in file[name]:
            assert set(entry) <= set(parts[name[:-1]]["properties"])
            data = entry.get("data", {})
            assert set(data) - {"evidence"} <= set(
                parts["finding"]["properties"]["data"]["properties"]
            )


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        ("findings", "severity", "fatal"),
        ("findings", "range", None),
        ("targets", "graphs", -1),
        ("targets", "status", "unknown"),
    ],
)
def test_another_report_does_not_fit(
    validator: Any, report: dict[str, Any], part: str, key: str, value: object
) -> None:
    report["files"][0][part][0][key] = value
    assert problems(validator, report)
    del report["files"][0][part][0][key]
    (problem,) = problems(validator, report)
    assert problem.endswith(f"'{key}' is a required property")


def test_the_statuses_are_those_of_reports(validator: Any) -> None:
    assert REPORT.status in validator.schema["$defs"]["target"]["properties"]["status"]["enum"]
