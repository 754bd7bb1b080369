"""Every setting, declared once.

A field of :class:`Settings` declares name, type, default, description, scope and command-line
option. The parsers of all sources (an editor's configuration, ``[tool.fullgraph]`` in
pyproject.toml, the command line), ``--help``, ``fullgraph doctor`` and the VS Code manifest use
these declarations.

Names are written ``kebab-case`` in pyproject.toml and on the command line, ``camelCase`` in
editors, ``snake_case`` in Python. Every source accepts all three spellings. The settings of one
feature share a prefix. It ends with a dot in editors, and may be the name of a table elsewhere:
``fullgraph.completion.mode``, ``completion-mode = "full"`` or ``completion = { mode = "full" }``.
"""

# ruff: noqa: RUF009 (``_setting`` returns a dataclass field, which is what a default may be)

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib
import os
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fullgraph.domain.codes import Severity
from fullgraph.session.setting_kinds import (
    Allowances,
    Arguments,
    Choice,
    Codes,
    FlagKind,
    Folders,
    InterpreterKind,
    NumberKind,
    SettingKind,
    Severities,
    SeverityKind,
    TextKind,
    Texts,
)
from fullgraph_engine.protocol import (
    Allowance,
    CompilerCheck,
    ExampleKind,
    Limits,
    Mode,
    ProgramRequest,
)

# ``tomllib`` is in the standard library since Python 3.11; before, ``tomli`` is a dependency.
tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

Scope = Literal["application", "machine", "machine-overridable", "window", "resource"]
TraceOn = Literal["change", "save", "manual"]
CompletionMode = Literal["default", "full", "off"]
ShapeHints = Literal["changed", "all", "off"]
FixSearch = Literal["background", "off"]
ProcessStart = Literal["auto", "fork", "spawn"]
FileProbes = Literal["all", "main", "docstrings", "off"]
Effort = Literal["quick", "normal", "thorough"]
Command = Literal["check", "diff", "doctor", "fix", "mcp", "op", "repro", "show"]
"""Commands with options that set settings."""


# -- declarations -----------------------------------------------------------------------------


@dataclass(frozen=True)
class CommandOption:
    """The option that sets a setting on the command line, for example ``--jobs``."""

    commands: tuple[Command, ...]
    name: str = ""
    """Name without dashes; empty: the name of the setting."""
    also: tuple[str, ...] = ()
    """Other spellings, with dashes."""
    help: str = ""
    """Text for ``--help``; empty: the first sentence of the description, with the default value."""
    hidden: bool = False
    """True if ``--help`` does not list the option."""


@dataclass(frozen=True)
class Declaration:
    """The declaration of one setting: its name, type, default and documentation."""

    field: str
    """Name of the field of :class:`Settings`."""
    default: Any
    kind: SettingKind
    description: str
    scope: Scope
    editor: bool
    feature: str
    users: bool
    """True if only the user may set it, in user settings or on the command line, but not the
    workspace.
    """
    retraces: bool
    """True if the setting affects the results of traces, so that a change traces files again."""
    option: CommandOption | None

    @property
    def name(self) -> str:
        """Name in pyproject.toml."""
        return self.field.replace("_", "-")

    @property
    def option_name(self) -> str:
        """Name on the command line, without dashes."""
        return (self.option.name if self.option is not None else "") or self.name

    @property
    def editor_name(self) -> str:
        group = f"{_to_camel_case(self.feature)}." if self.feature else ""
        return group + _to_camel_case(self.field.removeprefix(f"{self.feature}_"))

    def option_help(self) -> str:
        """Return the help of the option as one paragraph without Markdown."""
        if self.option is not None and self.option.help:
            return self.option.help
        parts = [self.description.split(". ")[0].rstrip(".")]
        if isinstance(self.kind, Choice):
            parts += [f"{word}: {text.rstrip('.')}" for word, text in self.kind.words]
        if isinstance(self.default, bool):
            parts.append(f"Default: {'on' if self.default else 'off'}")
        elif self.default:
            parts.append(f"Default: {format_value(self.default)}".replace('"', ""))
        return ". ".join(parts).replace("`", "") + "."


def _to_camel_case(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def _setting(
    default: Any,
    kind: SettingKind,
    description: str,
    scope: Scope = "resource",
    *,
    option: CommandOption | None = None,
    editor: bool = True,
    feature: str = "",
    users: bool = False,
    retraces: bool = False,
) -> Any:
    declaration = Declaration(
        "", default, kind, description, scope, editor, feature, users, retraces, option
    )
    metadata = {"declaration": declaration}
    if isinstance(default, Mapping):
        return dataclasses.field(default_factory=lambda: dict(default), metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


# The commands that a setting applies to: all that trace, all that trace whole files, and so on.
_ALL: tuple[Command, ...] = ("check", "diff", "fix", "mcp", "show", "repro")
_FILES: tuple[Command, ...] = ("check", "diff", "fix")
_CHECKS: tuple[Command, ...] = ("check", "diff")
_CHECK: tuple[Command, ...] = ("check",)


@dataclass(frozen=True)
class Settings:
    """The settings in force for one project, editor window or command line."""

    interpreter: str = _setting(
        "",
        InterpreterKind("PYTHON"),
        "Python interpreter whose torch traces the code. Empty: the first of these that has torch: "
        "the environment that is active in the editor, `VIRTUAL_ENV`, `.venv` in the project root "
        "or above, `CONDA_PREFIX`, the Python in which fullgraph is installed, `python3` on PATH.",
        # A workspace that could choose the executed program would control the machine.
        "machine-overridable",
        option=CommandOption(
            ("check", "fix", "mcp", "show", "repro", "op", "doctor"),
            "python",
            also=("--interpreter",),
        ),
        retraces=True,
    )
    mode: Mode = _setting(
        "auto",
        Choice(
            (
                ("auto", "Fake tensors, and real tensors if fake tensors cannot continue."),
                ("fake", "Only fake tensors: without data, kernels or a GPU."),
                ("real", "Real tensors on real devices, as with `torch.compile` itself."),
            )
        ),
        "Tensors that the code is traced with.",
        option=CommandOption(_ALL),
        retraces=True,
    )
    select: tuple[str, ...] = _setting(
        (),
        Codes("CODE"),
        "Finding codes to show: a whole code (`graph-break/GB0059`), its id (`GB0059`) or its "
        "family (`graph-break`). Empty: all codes.",
        option=CommandOption(_FILES),
    )
    ignore: tuple[str, ...] = _setting(
        (),
        Codes("CODE"),
        "Finding codes to hide, written as in `select`. If both `select` and `ignore` match a "
        "finding, the more specific code decides: a whole code, then an id, then a family.",
        option=CommandOption(_FILES),
    )
    severity: Mapping[str, Severity] = _setting(
        {},
        Severities(),
        "Severity of findings by code: error, warning, information, hint or off. For example "
        '`{"graph-break": "error", "recompile": "off"}`. If several codes match a finding, the '
        "most specific one decides: a whole code, then an id (`GB0059`), then a family.",
        option=CommandOption(_CHECKS),
    )
    exit_severity: Severity = _setting(
        Severity.WARNING,
        SeverityKind(),
        "Lowest severity of a finding that makes the exit status 1; off: findings do not change "
        "the exit status.",
        option=CommandOption(_CHECKS),
        editor=False,
    )
    baseline: str = _setting(
        "",
        TextKind("FILE"),
        "File of accepted findings that `fullgraph check` hides, relative to the project root; "
        "`--update-baseline` writes it.",
        editor=False,
    )
    jobs: int = _setting(
        0,
        NumberKind(0),
        "Maximum number of traces that run at the same time; 0: one per processor, at most 8.",
        "machine-overridable",
        option=CommandOption(_FILES, also=("-j",)),
    )
    engine_processes: ProcessStart = _setting(
        "auto",
        Choice(
            (
                ("auto", "Fork on Linux unless the engine uses a GPU; spawn in all other cases."),
                ("fork", "Fork a process that has imported torch; fast, but only on Linux."),
                ("spawn", "Start a new Python for each process; slower."),
            )
        ),
        "How the engine (the process that imports torch) starts processes that execute code. A "
        "change takes effect when the engine starts again.",
        "machine-overridable",
        option=CommandOption(_CHECKS),
        feature="engine",
    )
    engine_keep: float = _setting(
        10.0,
        NumberKind(0, "minutes", whole=False),
        "Minutes that the engine (the process that imports torch) stays after its last use, so "
        "that later commands and editors start faster. 0: it ends with the command or the editor "
        "window, which is the default if the environment variable `CI` is set. The environment "
        "variable `FULLGRAPH_ENGINE_KEEP` overrides `CI` and pyproject.toml. A change takes effect "
        "when the engine starts again.",
        "machine-overridable",
        option=CommandOption(_CHECK),
        feature="engine",
    )
    effort: Effort = _setting(
        "normal",
        Choice(
            (
                (
                    "quick",
                    "Trace each function and module once, search for inputs for 1 second, and "
                    "spend at most 30 seconds on each file.",
                ),
                (
                    "normal",
                    "Also trace with dynamic sizes and on other paths, and do not limit the "
                    "time for a file.",
                ),
                ("thorough", "Do the same as `normal`, and also forecast recompilations."),
            )
        ),
        "Amount of work of `fullgraph check` and `fullgraph diff`. Sets the defaults of "
        "`try-dynamic`, `try-paths`, `search-seconds` and `file-timeout`, and whether "
        "recompilations are forecast.",
        option=CommandOption(_CHECKS),
        editor=False,
    )
    timeout: float = _setting(
        60.0,
        NumberKind(0.1, "seconds", whole=False),
        "Time limit in seconds for the import of a file, and for each trace of a function or "
        "module in it.",
        option=CommandOption(_ALL),
        retraces=True,
    )
    file_timeout: float = _setting(
        120.0,
        NumberKind(0, "seconds", whole=False),
        "Time limit in seconds for tracing a file; 0 means no limit. In an editor, functions on "
        "the screen are traced first, and code lenses trace the functions that are left out. "
        "`fullgraph check` does not have a limit by default, except with `--effort quick`.",
        option=CommandOption(
            _CHECKS,
            help="Time limit in seconds for tracing a file; 0: no limit. Functions that were not "
            "started by then are reported as not traced. Default: 30 with --effort quick, else 0.",
        ),
        retraces=True,
    )
    search_seconds: float = _setting(
        6.0,
        NumberKind(0.1, "seconds", whole=False),
        "Time limit in seconds of processor time for the search for example inputs of a function "
        "or module.",
        option=CommandOption(_CHECKS),
        retraces=True,
    )
    time_limit: float = _setting(
        0.0,
        NumberKind(0, "seconds", whole=False),
        "Time limit in seconds for a whole check; 0 means no limit. Files that were not analyzed "
        "by then are reported, and the exit status is 2.",
        option=CommandOption(_CHECK),
        editor=False,
    )
    memory_limit: int = _setting(
        4096,
        NumberKind(256, "MiB"),
        "Memory limit in MiB for each process that traces code.",
        "machine-overridable",
        option=CommandOption(_FILES),
        retraces=True,
    )
    max_targets: int = _setting(
        200,
        NumberKind(1),
        "Maximum number of functions and modules to trace in one file; a note reports that a file "
        "has more.",
        option=CommandOption(_FILES),
        retraces=True,
    )
    trace_nested: bool = _setting(
        True,
        FlagKind(),
        "Trace each function and module separately, even if another trace in the same file already "
        "calls it. If off, fullgraph traces separately only with example inputs that you state, "
        "and for code that the other traces do not reach.",
        option=CommandOption(_CHECKS),
        retraces=True,
    )
    try_dynamic: bool = _setting(
        True,
        FlagKind(),
        "Trace a second time with dynamic first dimensions of the inputs, to find dimensions that "
        "the code specializes. Skipped if the probe comment names symbolic dimensions.",
        option=CommandOption(_CHECKS),
        retraces=True,
    )
    try_paths: bool = _setting(
        True,
        FlagKind(),
        "Also trace code that the example inputs do not reach: in the other mode (training or "
        "evaluation), with other values of flags and optional arguments, and on other branches "
        "that depend on tensor data. fullgraph does this last, and only if no trace has reached "
        "some lines.",
        option=CommandOption(_FILES),
        retraces=True,
    )
    cache: bool = _setting(
        True,
        FlagKind(),
        "Save results in the user's cache folder, and reuse them in later sessions while the code, "
        "what it imports and reads, torch and the settings are unchanged.",
        option=CommandOption(_CHECK),
    )
    methods: tuple[str, ...] = _setting(
        (),
        Texts(),
        "Names of methods of `nn.Module` classes to trace in addition to `forward`, such as "
        "`generate` or `training_step`.",
        retraces=True,
    )
    probes_from_file: FileProbes = _setting(
        "all",
        Choice(
            (
                ("all", "The `__main__` block and the examples in docstrings."),
                ("main", "Only the `__main__` block."),
                ("docstrings", "Only the examples in docstrings."),
                ("off", "No code except what runs when the file is imported."),
            )
        ),
        "Code of the file to execute to find example inputs of its functions and modules. It is "
        "executed in the sandbox for a few seconds.",
        option=CommandOption(_CHECKS),
        retraces=True,
    )
    probes_from_tests: bool = _setting(
        False,
        FlagKind(),
        "Execute pytest tests that import the file, to find example inputs of its functions and "
        "modules. The tests are executed in the sandbox for a few seconds.",
        option=CommandOption(_CHECKS),
        retraces=True,
    )
    program_run: bool = _setting(
        True,
        FlagKind(),
        "Run a file that is a program, as `python FILE` would, and report what it compiles. A "
        "program has a `__main__` block, or top-level code that calls what it compiles. It runs in "
        "the sandbox without network, and its writes are discarded.",
        option=CommandOption(_CHECK),
        feature="program",
        retraces=True,
    )
    program_seconds: float = _setting(
        20.0,
        NumberKind(1, "seconds", whole=False),
        "Time limit in seconds for running a program. What it has compiled by then is reported.",
        option=CommandOption(_CHECK),
        feature="program",
        retraces=True,
    )
    program_arguments: tuple[str, ...] = _setting(
        (),
        Arguments("ARGUMENT"),
        "Command-line arguments for programs, as a list. A comment `# fullgraph: run(--steps 2)` "
        "in the program's file overrides them.",
        option=CommandOption(_CHECK, hidden=True),
        feature="program",
        retraces=True,
    )
    program_files: tuple[str, ...] = _setting(
        (),
        Texts(),
        "Programs of the workspace to run for the files that they import, as patterns relative to "
        "the project root (`scripts/*.py`). A pattern that begins with `!` excludes programs. "
        "Empty: at most three programs that import the file, the most recently changed first.",
        feature="program",
        retraces=True,
    )
    program_backend: str = _setting(
        "",
        TextKind("NAME"),
        "Backend that compiles the graphs of a program, such as `inductor`; empty: graphs run as "
        "captured, without a compiler.",
        option=CommandOption(
            _CHECK,
            help="Backend that compiles the graphs of a program, such as inductor. Without it, "
            "graphs run as captured.",
        ),
        feature="program",
        retraces=True,
    )
    program_uncompiled: bool = _setting(
        False,
        FlagKind(),
        "Also trace functions and modules that the program does not compile.",
        option=CommandOption(_CHECK),
        feature="program",
        retraces=True,
    )
    export: bool = _setting(
        False,
        FlagKind(),
        "Also export each function and module with `torch.export`, strict and non-strict, and "
        "report all problems.",
        option=CommandOption(("check", "fix")),
        retraces=True,
    )
    backend: CompilerCheck = _setting(
        "off",
        Choice(
            (
                ("off", "Trace with Dynamo only."),
                (
                    "aot",
                    "Trace with Dynamo, and make the forward and backward graphs with AOTAutograd.",
                ),
                (
                    "inductor",
                    "Do the same as `aot`, and also lower the graphs to kernels with Inductor.",
                ),
            )
        ),
        "Compiler for the graphs of each function and module after the trace. Errors, operators "
        "for which Inductor generates no kernel and inputs that are changed in place are "
        "reported at their lines. Kernels are generated but not built.",
        option=CommandOption(_CHECK),
        retraces=True,
    )
    backend_timeout: float = _setting(
        60.0,
        NumberKind(1, "seconds", whole=False),
        "Time limit in seconds for compiling one function or module with the setting `backend`. "
        "When it ends, the findings of the trace remain.",
        option=CommandOption(("check", "fix")),
        retraces=True,
    )
    forecast: bool = _setting(
        True,
        FlagKind(),
        "Predict recompilations in the editor: after each trace, while the text is not edited, "
        "call the code again with other sizes and values at low priority. `fullgraph check` does "
        "this only with `--forecast` or `--effort thorough`.",
    )
    fixes: FixSearch = _setting(
        "background",
        Choice(
            (
                ("background", "After each trace, at low priority, while the text is not edited."),
                ("off", "Only with `fullgraph fix`."),
            )
        ),
        "When the editor searches for fixes of graph breaks. A rewrite that was traced and gives "
        "the same results is offered as a quick fix.",
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
                    "Only what other language servers cannot complete: `torch.ops`, and the "
                    "arguments of functions written in C++ with their values.",
                ),
                ("full", "All of `torch`, if no other language server completes it."),
                ("off", "Nothing."),
            )
        ),
        "Names of torch that the editor completes.",
        feature="completion",
    )
    code_lens_enabled: bool = _setting(
        True,
        FlagKind(),
        "Show the result of the trace above each function and module, or above each of its probe "
        "comments.",
        feature="code_lens",
    )
    untraced_faded: bool = _setting(
        False,
        FlagKind(),
        "Fade the lines of functions and modules that no trace has reached.",
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
        "Where to show the dtypes and shapes of the last trace as inlay hints.",
        feature="inlay_hints",
    )
    inlay_hints_parameters: bool = _setting(
        True,
        FlagKind(),
        "Show the dtypes and shapes of parameters as inlay hints.",
        feature="inlay_hints",
    )
    inlay_hints_returns: bool = _setting(
        True,
        FlagKind(),
        "Show the dtypes and shapes of returned values as inlay hints.",
        feature="inlay_hints",
    )
    inlay_hints_constants: bool = _setting(
        False,
        FlagKind(),
        "Also show inlay hints for values that are the same constant in each call of the traced "
        "code.",
        feature="inlay_hints",
    )
    repro_folder: str = _setting(
        "fullgraph-repros",
        TextKind(),
        "Folder for repros (minimal scripts that reproduce a finding), relative to the project "
        "root. Existing files are never overwritten.",
        feature="repro",
    )
    repro_time_budget: float = _setting(
        30.0,
        NumberKind(1, "seconds", whole=False),
        "Time limit in seconds for making a repro (a minimal script that reproduces a finding).",
        option=CommandOption(("repro",), "time-budget"),
        feature="repro",
    )
    repro_data: bool = _setting(
        False,
        FlagKind(),
        "Always save the contents of tensors in files beside a repro (a minimal script that "
        "reproduces a finding), even if random numbers reproduce the finding too.",
        option=CommandOption(("repro",), "data"),
        feature="repro",
    )
    sandbox_allow: tuple[Allowance, ...] = _setting(
        (),
        Allowances("ENTRY"),
        "What the sandbox allows traced code to do: `write:FOLDER` (relative to the workspace "
        "folder; `~` is the home folder), `network`, `read-env:NAME` (an environment variable that "
        "looks like a secret), `subprocess` (start programs), and for libraries `cpp-extensions` "
        "(compilers, and torch's folder of extensions), `triton-cache` and `huggingface-cache`. "
        "This applies to all workspaces; the settings of a workspace cannot change it.",
        "machine",
        option=CommandOption(
            (*_ALL, "doctor"),
            "allow",
            help="What the sandbox allows traced code to do: write:FOLDER, network, read-env:NAME "
            "(an environment variable that looks like a secret), subprocess (start programs), "
            "cpp-extensions, triton-cache, huggingface-cache. Default: none of these.",
        ),
        feature="sandbox",
        users=True,
        retraces=True,
    )
    extra_paths: tuple[str, ...] = _setting(
        (),
        Folders("FOLDER"),
        "Folders to add to `sys.path`, before the folder of the file. They are relative to the "
        "project root.",
        option=CommandOption(_FILES),
        retraces=True,
    )
    exclude: tuple[str, ...] = _setting(
        (),
        Texts("PATTERN"),
        "Files and folders not to trace, as .gitignore patterns relative to the project root. A "
        "file named on the command line is always traced.",
        option=CommandOption(_FILES),
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
            search_seconds=self.search_seconds,
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
        compile_seconds = self.backend_timeout if self.backend != "off" else 0.0
        return ProgramRequest(
            seconds=self.program_seconds + compile_seconds if self.program_run else 0.0,
            arguments=self.program_arguments,
            backend=self.program_backend,
            compiler=self.backend,
            uncompiled=self.program_uncompiled,
        )

    def tracing_key(self) -> tuple[object, ...]:
        """Return the values of all settings that affect the results of traces."""
        return tuple(getattr(self, one.field) for one in list_declarations() if one.retraces)

    def import_roots(self, project: Path | None) -> tuple[str, ...]:
        """Return the folders in the setting ``extra_paths`` as absolute paths; relative ones start
        at the project's root folder.
        """
        base = project if project is not None else Path.cwd()
        return tuple(str(base / expand_path(path, base)) for path in self.extra_paths)


@functools.cache
def list_declarations() -> tuple[Declaration, ...]:
    """Return the declarations of all settings, in the order in which the user manual lists them."""
    return tuple(
        dataclasses.replace(field.metadata["declaration"], field=field.name)
        for field in dataclasses.fields(Settings)
    )


# -- sources ----------------------------------------------------------------------------------

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
            names = {
                declaration.name: declaration.option_name for declaration in list_declarations()
            }
            name = _to_kebab_case(key)
            return f"--{names.get(name, name)}"
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
                        f"{source.describe_key(key)} is ignored: only your own settings and the "
                        "command line can allow more in the sandbox."
                    )
                continue
            try:
                value = declaration.kind.read_value(raw)
            except ValueError as error:
                kept = "is used" if declaration.field not in values else "is still used"
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
    """Return the contents of the section ``fullgraph`` if ``raw`` has one, else ``raw``; empty if
    it is not a mapping.
    """
    inner = raw.get("fullgraph", raw) if isinstance(raw, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


KEEP_VARIABLE = "FULLGRAPH_ENGINE_KEEP"
_NO = ("", "0", "false", "no", "off")


def environment_source(environment: Mapping[str, str]) -> SettingsSource:
    """Return the source for the setting ``engine-keep`` from its environment variable.

    In CI (variable ``CI``), the setting is 0 by default, so that no engine process stays after the
    command.
    """
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
    """A project: the folder whose pyproject.toml has the settings, and to which relative paths
    refer.
    """

    root: Path
    source: SettingsSource
    problems: tuple[str, ...] = ()


def find_project(start: Path) -> Project:
    """Return the nearest folder at or above ``start`` with ``[tool.fullgraph]``.

    Without one, use the nearest folder that looks like a project (see :func:`is_project`), or else
    ``start``. If ``start`` is inside a package, use the folder from which the package is imported.
    """
    folder = start if start.is_dir() else start.parent
    folder = folder.absolute()
    marked: Path | None = None
    problems: list[str] = []
    for candidate in (folder, *folder.parents):
        manifest = candidate / "pyproject.toml"
        if manifest.is_file():
            table, problem = _read_table(manifest)
            if problem:
                problems.append(problem)
            if table is not None:
                return Project(candidate, SettingsSource(str(manifest), table), tuple(problems))
        marked = marked or (candidate if is_project(candidate) else None)
        if (candidate / ".git").exists():
            # Settings above the repository belong to another project.
            break
    root = marked or _import_folder(folder)
    return Project(root, SettingsSource("pyproject.toml", {}), tuple(problems))


def is_project(folder: Path) -> bool:
    """Return whether a folder has a pyproject.toml, a virtual environment or a repository."""
    return any((folder / name).exists() for name in ("pyproject.toml", ".venv", ".git"))


def _import_folder(folder: Path) -> Path:
    """Return the folder that contains the outermost package around ``folder``; ``folder`` itself if
    it is not a package."""
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _read_table(manifest: Path) -> tuple[Mapping[str, Any] | None, str]:
    try:
        table = settings_table(manifest.read_text(encoding="utf-8"))
    except OSError as error:
        return None, f"Cannot read {manifest}: {error.strerror}; its settings are not used."
    except ValueError as error:
        return None, f"{manifest} is not valid TOML ({error}); its settings are not used."
    if table is None:
        return None, ""
    if not isinstance(table, Mapping):
        return None, f"[tool.fullgraph] in {manifest} must be a table; it is not used."
    return table, ""


def settings_table(text: str) -> object:
    """Return the value of ``[tool.fullgraph]`` in the text of a pyproject.toml; None without it.

    Raises:
        ValueError: The text is not valid TOML.
    """
    tool = tomllib.loads(text).get("tool", {})
    return tool.get("fullgraph") if isinstance(tool, Mapping) else None


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
