"""Every setting, declared once.

The fields of :class:`Settings` are the declaration: name, type, default, description and scope.
The parser of each source (an editor's configuration, ``[tool.fullgraph]`` in pyproject.toml,
command line flags), ``fullgraph doctor`` and the VS Code manifest are all read from it.

Names are written ``kebab-case`` in pyproject.toml and on the command line, ``camelCase`` in
editors, ``snake_case`` in Python. Every source accepts all three spellings. Those of one feature
have its name before a dot in editors and may be a table of their own elsewhere:
``fullgraph.completion.mode``, ``completion-mode = "full"`` or ``completion = { mode = "full" }``.
"""

# ruff: noqa: RUF009 (``_setting`` returns a dataclass field, which is what a default may be)

from __future__ import annotations

import dataclasses
import difflib
import importlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from fullgraph.domain.codes import Severity, is_known_selector
from fullgraph.session import allowances
from fullgraph_engine.protocol import Allowance, ExampleKind, Limits, Mode, ProgramRequest

# ``tomllib`` is in the standard library since Python 3.11; before, ``tomli`` is a dependency.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

Scope = Literal["application", "machine", "machine-overridable", "window", "resource"]
TraceOn = Literal["change", "save", "manual"]
CompletionMode = Literal["default", "full", "off"]
ShapeHints = Literal["changed", "all", "off"]
FixSearch = Literal["background", "off"]
ProcessStart = Literal["auto", "fork", "spawn"]
FileProbes = Literal["all", "main", "docstrings", "off"]


# -- types of values --------------------------------------------------------------------------


class SettingKind(Protocol):
    """The type of a setting: parses raw values and describes itself as JSON schema."""

    def read_value(self, raw: object) -> Any:
        """Return the parsed value, or raise ValueError with the end of a sentence that begins with
        the setting: "must be ...".
        """

    def json_schema(self) -> dict[str, Any]: ...


@dataclass(frozen=True)
class TextKind:
    """The type of settings with a string as the value; surrounding whitespace is removed."""

    def read_value(self, raw: object) -> str:
        if not isinstance(raw, str):
            raise ValueError("must be a text")
        return raw.strip()

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string"}


@dataclass(frozen=True)
class FlagKind:
    """The type of settings with a boolean as the value."""

    def read_value(self, raw: object) -> bool:
        if not isinstance(raw, bool):
            raise ValueError("must be true or false")
        return raw

    def json_schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@dataclass(frozen=True)
class NumberKind:
    """The type of settings with a number of at least ``least`` as the value; with ``whole`` an
    integer, which may be written ``2.0``.
    """

    least: float
    unit: str = ""
    whole: bool = True

    def read_value(self, raw: object) -> int | float:
        wanted = "a whole number" if self.whole else "a number"
        unit = f" of {self.unit}" if self.unit else ""
        complaint = f"must be {wanted}{unit}, at least {self.least:g}"
        if isinstance(raw, bool) or not isinstance(raw, (int, float, str)):
            raise ValueError(complaint)
        try:
            value = float(raw)
        except ValueError:
            raise ValueError(complaint) from None
        # NaN fails this comparison as well, and infinity cannot become an integer.
        if not self.least <= value < float("inf") or (self.whole and value != int(value)):
            raise ValueError(complaint)
        return int(value) if self.whole else value

    def json_schema(self) -> dict[str, Any]:
        return {"type": "integer" if self.whole else "number", "minimum": self.least}


@dataclass(frozen=True)
class Choice:
    """The type of settings with one of a few words as the value, each with its description."""

    words: tuple[tuple[str, str], ...]

    def read_value(self, raw: object) -> str:
        names = [word for word, _ in self.words]
        value = raw.strip().lower() if isinstance(raw, str) else raw
        if not isinstance(value, str) or value not in names:
            raise ValueError(f"must be {_join_alternatives(names)}")
        return value

    def json_schema(self) -> dict[str, Any]:
        return {
            "type": "string",
            "enum": [word for word, _ in self.words],
            "markdownEnumDescriptions": [description for _, description in self.words],
        }


@dataclass(frozen=True)
class SeverityName:
    """The type of settings with the name of a severity as the value."""

    names: tuple[str, ...]

    def read_value(self, raw: object) -> Severity:
        value = raw.strip().lower() if isinstance(raw, str) else raw
        if value not in self.names:
            raise ValueError(f"must be {_join_alternatives(self.names)}")
        return Severity(value)

    def json_schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.names)}


@dataclass(frozen=True)
class Texts:
    """The type of settings with a list of strings as the value; a single string is split at commas,
    as on a command line.
    """

    def read_value(self, raw: object) -> tuple[str, ...]:
        if isinstance(raw, str):
            raw = raw.split(",")
        if not isinstance(raw, (list, tuple)) or not all(isinstance(item, str) for item in raw):
            raise ValueError("must be a list of texts")
        return tuple(item.strip() for item in raw if item.strip())

    def json_schema(self) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}}


@dataclass(frozen=True)
class Allowances(Texts):
    """The type of the setting with a list of the permissions that the sandbox grants to user
    code.
    """

    def read_value(self, raw: object) -> tuple[Allowance, ...]:  # type: ignore[override]
        return tuple(
            dict.fromkeys(allowances.parse_allowance(text) for text in super().read_value(raw))
        )

    def json_schema(self) -> dict[str, Any]:
        patterns = [f"^{kind}:.+" for kind in allowances.WITH_VALUE]
        items = [{"enum": list(allowances.PLAIN)}, *({"pattern": one} for one in patterns)]
        return {
            "type": "array",
            "uniqueItems": True,
            "items": {"type": "string", "anyOf": items},
        }


@dataclass(frozen=True)
class Codes(Texts):
    """The type of settings with a list of finding codes, or of their prefixes up to a slash."""

    def read_value(self, raw: object) -> tuple[str, ...]:
        selectors = tuple(_clean_selector(text) for text in super().read_value(raw))
        _check_selectors(selectors)
        return selectors


@dataclass(frozen=True)
class Severities:
    """The type of settings with a mapping from finding codes to severities."""

    def read_value(self, raw: object) -> Mapping[str, Severity]:
        names = [severity.value for severity in Severity]
        wanted = f"must map finding codes to {_join_alternatives(names)}"
        if isinstance(raw, (str, list, tuple)):
            raw = _split_pairs(Texts().read_value(raw), wanted)
        if not isinstance(raw, Mapping):
            raise ValueError(wanted)
        chosen: dict[str, Severity] = {}
        for code, name in raw.items():
            if not isinstance(name, str) or name.lower() not in names:
                raise ValueError(f"{wanted}, but {code!r} has {name!r}")
            chosen[_clean_selector(str(code))] = Severity(name.lower())
        _check_selectors(chosen)
        return chosen

    def json_schema(self) -> dict[str, Any]:
        names = [severity.value for severity in Severity]
        return {"type": "object", "additionalProperties": {"type": "string", "enum": names}}


def _split_pairs(texts: Iterable[str], wanted: str) -> dict[str, str]:
    pairs = {}
    for text in texts:
        code, equals, name = text.partition("=")
        if not equals:
            raise ValueError(f"{wanted}, written CODE=SEVERITY, but {text!r} has no '='")
        pairs[code.strip()] = name.strip()
    return pairs


def _clean_selector(text: str) -> str:
    return text.strip().removesuffix("*").rstrip("/")


def _check_selectors(selectors: Iterable[str]) -> None:
    for selector in selectors:
        if not is_known_selector(selector):
            raise ValueError(f"names {selector!r}, which is no finding code or beginning of one")


def _join_alternatives(words: Iterable[str]) -> str:
    *head, last = [f'"{word}"' for word in words]
    return f"{', '.join(head)} or {last}" if head else last


# -- declarations -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Declaration:
    """The declaration of one setting: its name, type, default and documentation."""

    field: str
    default: Any
    kind: SettingKind
    description: str
    scope: Scope
    editor: bool
    feature: str
    users: bool
    """True if a workspace must not set it, only the user."""

    @property
    def name(self) -> str:
        """Name in pyproject.toml and on the command line."""
        return self.field.replace("_", "-")

    @property
    def editor_name(self) -> str:
        group = f"{_to_camel_case(self.feature)}." if self.feature else ""
        return group + _to_camel_case(self.field.removeprefix(f"{self.feature}_"))


def _to_camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _setting(
    default: Any,
    kind: SettingKind,
    description: str,
    scope: Scope = "resource",
    *,
    editor: bool = True,
    feature: str = "",
    users: bool = False,
) -> Any:
    metadata = {
        "kind": kind,
        "description": description,
        "scope": scope,
        "editor": editor,
        "feature": feature,
        "users": users,
    }
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Settings:
    """The settings in force for one project, editor window or command line."""

    interpreter: str = _setting(
        "",
        TextKind(),
        "Python interpreter whose torch traces the code. Empty: the first that has torch of the "
        "environment that the editor has active, `VIRTUAL_ENV`, `.venv` beside the project root, "
        "`CONDA_PREFIX`, the Python that fullgraph is installed in, and `python3` on PATH.",
        # A workspace that could choose the executed program would control the machine.
        "machine-overridable",
    )
    mode: Mode = _setting(
        "auto",
        Choice(
            (
                ("auto", "Fake tensors; real ones where fake tensors cannot go on."),
                ("fake", "Fake tensors only: no memory, no kernels, no GPU needed."),
                ("real", "Real tensors on real devices, as `torch.compile` itself would see."),
            )
        ),
        "How a run sees tensors.",
    )
    select: tuple[str, ...] = _setting(
        (),
        Codes(),
        'Finding codes to show, whole or up to a slash (`"graph-break"`, '
        '`"graph-break/GB0059"`). Empty: all.',
    )
    ignore: tuple[str, ...] = _setting(
        (),
        Codes(),
        "Finding codes not to show. Between `select` and `ignore` the more "
        "specific one decides: a whole code, then an id (`GB0059`), then a family.",
    )
    severity: Mapping[str, Severity] = _setting(
        {},
        Severities(),
        "Severity per finding code or beginning of one, for example "
        '`{"graph-break": "error", "recompile": "off"}`. The most specific one that fits decides: '
        "a whole code, then an id (`GB0059`), then a family.",
    )
    exit_severity: Severity = _setting(
        Severity.WARNING,
        SeverityName(("error", "warning", "information", "hint", "off")),
        "Lowest severity of a finding that makes `fullgraph check` exit with status 1; "
        '`"off"`: none does.',
        editor=False,
    )
    jobs: int = _setting(
        0,
        NumberKind(0),
        "How many runs go on at once. 0: one per processor, at most 8.",
        "machine-overridable",
    )
    engine_processes: ProcessStart = _setting(
        "auto",
        Choice(
            (
                ("auto", "Fork on Linux, unless the engine holds a GPU; else spawn."),
                ("fork", "Fork on Linux: fast, and imports are kept between edits."),
                ("spawn", "Start each process afresh: slower, and needs no fork."),
            )
        ),
        "How the engine starts the processes that execute code. Takes effect when the engine is "
        "started the next time.",
        "machine-overridable",
        feature="engine",
    )
    engine_keep: float = _setting(
        10.0,
        NumberKind(0, "minutes", whole=False),
        "Minutes that the engine of a command or an editor stays for others once nobody uses it: "
        "these need not import torch then. 0: it ends with the command or the editor's window, as "
        "where the environment variable `CI` is set. The variable `FULLGRAPH_ENGINE_KEEP` has "
        "precedence over both. Takes effect when the engine is started the next time.",
        "machine-overridable",
        feature="engine",
    )
    timeout: float = _setting(
        60.0,
        NumberKind(0.1, "seconds", whole=False),
        "Seconds that the run of one target may take.",
    )
    memory_limit: int = _setting(
        4096,
        NumberKind(256, "MiB"),
        "MiB of memory that one run may use.",
        "machine-overridable",
    )
    max_targets: int = _setting(
        200,
        NumberKind(1),
        "How many targets of one file are traced; a note says so where there are more.",
    )
    try_dynamic: bool = _setting(
        True,
        FlagKind(),
        "Trace a second time with the first dimension of each input as dynamic, where the probe "
        "names no symbolic dimension, to find dimensions that the code fixes to one size.",
    )
    try_paths: bool = _setting(
        True,
        FlagKind(),
        "Trace what the inputs of a probe do not lead to: the other of training and evaluation "
        "mode, flags and optional arguments, and conditions on the data of tensors. Only where "
        "lines are left that no trace came to, and after everything else.",
    )
    cache: bool = _setting(
        True,
        FlagKind(),
        "Keep results in the user's cache folder. `fullgraph check` takes them from there where "
        "neither the file nor anything that it imports or reads has changed, nor torch or a "
        "setting; an editor shows them until the file is traced.",
    )
    methods: tuple[str, ...] = _setting(
        (),
        Texts(),
        "Methods of `nn.Module` classes that are traced besides `forward`, by name: `generate`, "
        "`encode`, `training_step`.",
    )
    probes_from_file: FileProbes = _setting(
        "all",
        Choice(
            (
                ("all", "The `__main__` block and the examples in docstrings."),
                ("main", "The `__main__` block alone."),
                ("docstrings", "The examples in docstrings alone."),
                ("off", "Nothing: only what importing the file executes."),
            )
        ),
        "Which code of the file besides its definitions is executed, in the sandbox and for a few "
        "seconds, to see what it calls the file's classes and functions with.",
    )
    probes_from_tests: bool = _setting(
        False,
        FlagKind(),
        "Execute tests of the workspace that import the file, by pytest, in the sandbox and for a "
        "few seconds, to see what they call its classes and functions with.",
    )
    program_run: bool = _setting(
        True,
        FlagKind(),
        "Run a file that is a program as `python FILE` would, in the sandbox, and report what it "
        "compiles: a file with a `__main__` block, or with top-level code that calls what it "
        "compiles. Its writes are discarded and it has no network.",
        feature="program",
    )
    program_seconds: float = _setting(
        20.0,
        NumberKind(1, "seconds", whole=False),
        "Seconds after which a program is stopped. What it compiled until then is reported.",
        feature="program",
    )
    program_arguments: tuple[str, ...] = _setting(
        (),
        Texts(),
        "Command-line arguments of programs, as a list. A comment `# fullgraph: run(--steps 2)` in "
        "a file has precedence.",
        feature="program",
    )
    program_files: tuple[str, ...] = _setting(
        (),
        Texts(),
        "Programs of the workspace that are run for files which they import, as patterns relative "
        "to the project root (`scripts/*.py`); a pattern behind `!` excludes programs. Empty: any, "
        "the most recently changed first, at most three.",
        feature="program",
    )
    program_backend: str = _setting(
        "",
        TextKind(),
        "Backend that compiles the graphs of a program, such as `inductor`. Empty: graphs run as "
        "they were captured.",
        feature="program",
    )
    program_uncompiled: bool = _setting(
        False,
        FlagKind(),
        "Also trace the classes and functions of a program that it does not compile, with inputs "
        "found as for any other file.",
        feature="program",
    )
    export: bool = _setting(
        False,
        FlagKind(),
        "Also put each target through `torch.export`, strictly and not, and show all that it "
        "refuses, each at its line.",
    )
    forecast: bool = _setting(
        True,
        FlagKind(),
        "In the editor, after each trace and while the text is not edited, call each target again "
        "with other sizes and values at low priority, to say what will recompile. "
        "`fullgraph check` does so only with `--forecast`.",
    )
    fixes: FixSearch = _setting(
        "background",
        Choice(
            (
                ("background", "After each trace, at low priority, while the text is not edited."),
                ("off", "Only with `fullgraph fix`."),
            )
        ),
        "When the editor tries rewrites that may end a graph break. What was traced and does the "
        "same becomes a quick fix.",
    )
    trace_on: TraceOn = _setting(
        "change",
        Choice(
            (
                ("change", "While typing."),
                ("save", "When the file is saved or opened."),
                ("manual", "Only on command."),
            )
        ),
        "When the editor traces a file.",
    )
    completion_mode: CompletionMode = _setting(
        "default",
        Choice(
            (
                (
                    "default",
                    "What other language servers cannot know: everything under `torch.ops`, "
                    "arguments of functions written in C++, and their values.",
                ),
                ("full", "Everything under `torch`, where no other language server completes it."),
                ("off", "Nothing."),
            )
        ),
        "What is offered while a name of torch is typed.",
        feature="completion",
    )
    code_lens_enabled: bool = _setting(
        True,
        FlagKind(),
        "Show above each target, or above each of its probe comments, how it was traced.",
        feature="code_lens",
    )
    untraced_faded: bool = _setting(
        False,
        FlagKind(),
        "Fade the lines of each target that no run came to.",
        feature="untraced",
    )
    inlay_hints_shapes: ShapeHints = _setting(
        "changed",
        Choice(
            (
                ("changed", "Only where the dtype or shape changes."),
                ("all", "At every assignment."),
                ("off", "Nowhere, neither at parameters nor returns."),
            )
        ),
        "Where the dtypes and sizes that were seen in the last trace are shown in the text.",
        feature="inlay_hints",
    )
    inlay_hints_parameters: bool = _setting(
        True, FlagKind(), "Show what the parameters of functions were.", feature="inlay_hints"
    )
    inlay_hints_returns: bool = _setting(
        True, FlagKind(), "Show what functions returned.", feature="inlay_hints"
    )
    inlay_hints_constants: bool = _setting(
        False,
        FlagKind(),
        "Show values that are the same constant in every call of the traced code.",
        feature="inlay_hints",
    )
    repro_folder: str = _setting(
        "fullgraph-repros",
        TextKind(),
        "Folder that minified repros are written to, relative to the project root. No file in it "
        "is ever overwritten.",
        feature="repro",
    )
    repro_time_budget: float = _setting(
        30.0,
        NumberKind(1, "seconds", whole=False),
        "Seconds that making one minified repro may take.",
        feature="repro",
    )
    repro_data: bool = _setting(
        False,
        FlagKind(),
        "Keep the contents of tensors in minified repros, in files beside the script, also where "
        "random numbers show the same.",
        feature="repro",
    )
    sandbox_allow: tuple[Allowance, ...] = _setting(
        (),
        Allowances(),
        "What traced code may do that the sandbox refuses: `write:FOLDER` (relative to the "
        "workspace folder; `~` is the home folder), `network`, `read-env:NAME` (a variable that "
        "looks like a secret), `subprocess` (start programs), and for libraries "
        "`cpp-extensions` (compilers, and torch's folder of extensions), `triton-cache` and "
        "`huggingface-cache`. It holds for all workspaces; settings of a workspace cannot give it.",
        "machine",
        feature="sandbox",
        users=True,
    )
    extra_paths: tuple[str, ...] = _setting(
        (),
        Texts(),
        "Folders put on `sys.path` of a run, relative to the project root, before the file's own.",
    )
    exclude: tuple[str, ...] = _setting(
        (),
        Texts(),
        "Files and folders that are not traced, as .gitignore patterns relative to the project "
        "root. A file named on the command line is always traced.",
    )

    @property
    def parallel(self) -> int:
        """Maximum number of parallel processes, from the setting ``jobs``."""
        return self.jobs or max(1, min(8, os.cpu_count() or 1))

    @property
    def engine_keep_seconds(self) -> float:
        """Number of seconds that a shared engine stays after its last client, from the setting
        ``engine_keep``.
        """
        return 60 * self.engine_keep

    def run_limits(self) -> Limits:
        """Return the limits on time, memory and number of targets of runs, from the settings."""
        return Limits(
            seconds=self.timeout,
            module_seconds=self.timeout,
            memory=self.memory_limit,
            targets=self.max_targets,
        )

    def example_kinds(self) -> tuple[ExampleKind, ...]:
        """Return the kinds of example code from which inputs may be taken, by the settings
        ``probes_from_file`` and ``probes_from_tests``.
        """
        kinds: dict[FileProbes, tuple[ExampleKind, ...]] = {
            "all": ("main", "docstring"),
            "main": ("main",),
            "docstrings": ("docstring",),
            "off": (),
        }
        tests: tuple[ExampleKind, ...] = ("test",) if self.probes_from_tests else ()
        return kinds[self.probes_from_file] + tests

    def program_request(self) -> ProgramRequest:
        """Return the part of a trace request that controls the execution of programs that import
        the file.
        """
        return ProgramRequest(
            seconds=self.program_seconds if self.program_run else 0.0,
            arguments=self.program_arguments,
            backend=self.program_backend,
            uncompiled=self.program_uncompiled,
        )

    def tracing_key(self) -> tuple[object, ...]:
        """Return the values of all settings that affect the results of traces."""
        return (
            *(self.interpreter, self.mode, self.try_dynamic, self.try_paths, self.extra_paths),
            self.export,
            self.methods,
            self.example_kinds(),
            self.run_limits(),
            self.program_request(),
            self.program_files,
            self.sandbox_allow,
        )

    def import_roots(self, project: Path | None) -> tuple[str, ...]:
        """Return the folders in the setting ``extra_paths`` as absolute paths; relative ones start
        at the project's root folder.
        """
        base = project if project is not None else Path.cwd()
        return tuple(str(base / expand_path(path, base)) for path in self.extra_paths)


def list_declarations() -> tuple[Declaration, ...]:
    """Return all settings in the order of the manual."""
    defaults = Settings()
    return tuple(
        Declaration(
            field=field.name,
            default=getattr(defaults, field.name),
            kind=field.metadata["kind"],
            description=field.metadata["description"],
            scope=field.metadata["scope"],
            editor=field.metadata["editor"],
            feature=field.metadata["feature"],
            users=field.metadata["users"],
        )
        for field in dataclasses.fields(Settings)
    )


# -- sources ----------------------------------------------------------------------------------

_FLAGS = {"sandbox-allow": "allow"}
"""Command-line flags with shorter names than the names of their settings."""
_COMMAND_LINE = "the command line"
_EDITOR = "the editor"


@dataclass(frozen=True)
class SettingsSource:
    """Unparsed settings from one source; ``origin`` names the source for users, such as a path or
    "the editor".

    ``users``: the source belongs to the user, not to the workspace.
    """

    origin: str
    values: Mapping[str, Any]
    users: bool = False

    def describe_key(self, key: object) -> str:
        """Return the name of a setting as the user wrote it in this source, for the beginning of a
        sentence.
        """
        if self.origin == _COMMAND_LINE:
            return f"--{_FLAGS.get(_to_kebab_case(key), _to_kebab_case(key))}"
        return f"Setting {str(key)!r} of {self.origin}"


@dataclass(frozen=True)
class Resolved:
    """The settings merged from all sources, the source that set each one, and the problems with
    invalid values.
    """

    settings: Settings
    origins: Mapping[str, str]
    problems: tuple[str, ...]


# Editor settings in the section ``fullgraph`` that only the client uses.
_CLIENT_ONLY = frozenset({"trace", "server", "enable", "gutter"})


def resolve_settings(*sources: SettingsSource) -> Resolved:
    """Merge the settings of all sources; later sources win, and invalid values are skipped."""
    known = {declaration.name: declaration for declaration in list_declarations()}
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    problems: list[str] = []
    for source in sources:
        for key, raw in _flatten_tables(source.values, known):
            name = _to_kebab_case(key)
            declaration = known.get(name)
            if declaration is None:
                if source.origin != _EDITOR or str(key).split(".")[0] not in _CLIENT_ONLY:
                    problems.append(_unknown_problem(source, str(key), known))
                continue
            if raw is None:
                continue
            if declaration.users and not source.users:
                if raw:
                    problems.append(
                        f"{source.describe_key(key)} is not used: only settings of your own and "
                        "the command line may say what the sandbox allows."
                    )
                continue
            try:
                value = declaration.kind.read_value(raw)
            except ValueError as error:
                kept = "is used" if declaration.field not in values else "stays in force"
                now = values.get(declaration.field, declaration.default)
                problems.append(f"{source.describe_key(key)} {error}; {format_value(now)} {kept}.")
                continue
            values[declaration.field] = value
            origins[name] = source.origin
    return Resolved(Settings(**values), origins, tuple(problems))


def _flatten_tables(
    values: Mapping[str, Any], known: Mapping[str, Declaration]
) -> Iterable[tuple[str, Any]]:
    """Yield name and value of all settings of a source, including settings inside the table of a
    feature.
    """
    features = {_to_kebab_case(declaration.feature) for declaration in known.values()} - {""}
    for key, raw in values.items():
        if _to_kebab_case(key) in features and isinstance(raw, Mapping):
            yield from ((f"{key}.{inner}", value) for inner, value in raw.items())
        else:
            yield key, raw


def editor_source(raw: object, *, users: bool = False) -> SettingsSource:
    """Return the source for settings that an editor sent.

    Every value counts as set by the user, because clients omit unset ones. ``users``: settings that
    a workspace must not set are accepted.
    """
    return SettingsSource(_EDITOR, dict(without_section(raw)), users)


def without_section(raw: object) -> Mapping[str, Any]:
    """Return the contents of the section ``fullgraph`` if the settings are inside one, else the
    settings; empty if they are not a mapping.
    """
    inner = raw.get("fullgraph", raw) if isinstance(raw, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


KEEP_VARIABLE = "FULLGRAPH_ENGINE_KEEP"
_NO = ("", "0", "false", "no", "off")


def environment_source(environment: Mapping[str, str]) -> SettingsSource:
    """Return the source for environment variables; in CI the engine does not outlive the
    command."""
    kept = environment.get(KEEP_VARIABLE, "")
    if kept:
        return SettingsSource(KEEP_VARIABLE, {"engine-keep": kept}, users=True)
    is_ci = environment.get("CI", "").lower() not in _NO
    return SettingsSource("CI", {"engine-keep": 0} if is_ci else {}, users=True)


def command_line_source(flags: Mapping[str, Any]) -> SettingsSource:
    """Return the source for command-line flags; a value of None means not given."""
    given = {k: v for k, v in flags.items() if v is not None}
    return SettingsSource(_COMMAND_LINE, given, users=True)


@dataclass(frozen=True)
class Project:
    """The folder that settings and relative paths refer to."""

    root: Path
    source: SettingsSource
    problems: tuple[str, ...] = ()


def find_project(start: Path) -> Project:
    """Return the nearest folder at or above ``start`` with ``[tool.fullgraph]``.

    Fall back to the nearest folder with a pyproject.toml or a repository, then to ``start``.
    """
    folder = start if start.is_dir() else start.parent
    folder = folder.absolute()
    marked: Path | None = None
    problems: list[str] = []
    for candidate in (folder, *folder.parents):
        manifest = candidate / "pyproject.toml"
        if manifest.is_file():
            marked = marked or candidate
            table, problem = _read_table(manifest)
            if problem:
                problems.append(problem)
            if table is not None:
                return Project(candidate, SettingsSource(str(manifest), table), tuple(problems))
        if (candidate / ".git").exists():
            marked = marked or candidate
            # Settings above the repository belong to another project.
            break
    return Project(marked or folder, SettingsSource("pyproject.toml", {}), tuple(problems))


def _read_table(manifest: Path) -> tuple[Mapping[str, Any] | None, str]:
    try:
        document = tomllib.loads(manifest.read_text(encoding="utf-8"))
    except OSError as error:
        return None, f"Cannot read {manifest}: {error.strerror}; its settings are not used."
    except ValueError as error:
        return None, f"{manifest} is not valid TOML ({error}); its settings are not used."
    tool = document.get("tool", {})
    table = tool.get("fullgraph") if isinstance(tool, Mapping) else None
    if table is None:
        return None, ""
    if not isinstance(table, Mapping):
        return None, f"[tool.fullgraph] in {manifest} must be a table; it is not used."
    return table, ""


def expand_path(text: str, folder: Path) -> str:
    """Return a path setting with ``~`` and ``${workspaceFolder}`` replaced."""
    return str(Path(text.replace("${workspaceFolder}", str(folder))).expanduser())


def _to_kebab_case(key: object) -> str:
    text = re.sub(r"(?<=[a-z0-9])([A-Z])", r"-\1", str(key))
    return text.replace("_", "-").replace(".", "-").lower()


def _unknown_problem(source: SettingsSource, key: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(_to_kebab_case(key), list(known), n=1)
    hint = f"; did you mean {close[0]!r}?" if close else " and is not used."
    return f"{source.describe_key(key)} is unknown{hint}"


def format_value(value: object) -> str:
    """Return a value as a user would write it."""
    if isinstance(value, Severity):
        return f'"{value.value}"'
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (int, float)):
        return f"{value:g}"
    if isinstance(value, (str, Allowance)):
        return f'"{value}"'
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(format_value(item) for item in value) + "]"
    return str(value)


# -- manifest of the VS Code extension --------------------------------------------------------


def vscode_configuration() -> dict[str, Any]:
    """Return ``contributes.configuration`` of the VS Code extension."""
    properties: dict[str, Any] = {}
    for declaration in list_declarations():
        if not declaration.editor:
            continue
        properties[f"fullgraph.{declaration.editor_name}"] = {
            **declaration.kind.json_schema(),
            "default": _to_json_value(declaration.default),
            "markdownDescription": declaration.description,
            "scope": declaration.scope,
        }
    return {"title": "fullgraph", "properties": properties}


def _to_json_value(value: Any) -> Any:
    if isinstance(value, Severity):
        return value.value
    if isinstance(value, Mapping):
        return {key: _to_json_value(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_to_json_value(item) for item in value]
    return value
