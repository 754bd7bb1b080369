"""The commands for people, such as ``check``, ``diff``, ``show`` and ``doctor``."""

from __future__ import annotations

import dataclasses
import os
import sys
import typing
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from fullgraph import __version__
from fullgraph.cli import interruption, sources
from fullgraph.cli.check import EngineUnusable
from fullgraph.cli.check_command import (
    CLEAN,
    COLORS,
    FORMATS,
    FOUND,
    UNABLE,
    CheckJob,
    common_folder,
    engine_for,
    load_settings,
    resolve_folders,
    resolve_here,
    run_piped,
    split_values,
)
from fullgraph.cli.doctor import examine
from fullgraph.cli.interruption import Interrupted
from fullgraph.cli.progress import ProgressLine
from fullgraph.cli.sources import UnreadableFile
from fullgraph.cli.terminal import as_utf8, paint_for, write
from fullgraph.domain.codes import is_known_selector
from fullgraph.engines import InterpreterNotFound, find_interpreter
from fullgraph.render.paint import Style
from fullgraph.session.settings import list_declarations
from fullgraph.session.trust import TrustedFolders, trusted_folders_file
from fullgraph_engine.protocol.documents import DOCUMENT_KINDS
from fullgraph_engine.protocol.repro import Backend

# First sentence of each setting's documentation.
_HELP = {
    declaration.name: declaration.description.split(". ")[0].rstrip(".").replace("`", "") + "."
    for declaration in list_declarations()
}

app = typer.Typer(
    name="fullgraph",
    help="See what torch.compile will do to your code: graph breaks, operators that do not suit "
    "it, dimensions that your code fixes, each at its line.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main(arguments: Sequence[str]) -> int:
    """Parse the arguments of ``fullgraph``, run the command that they name, and return its exit
    status."""
    try:
        app(args=list(arguments), prog_name="fullgraph")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(bool(end.code))
    return CLEAN


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"fullgraph {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version",
            "-V",
            help="Print the version and exit.",
            is_eager=True,
            callback=_print_version,
        ),
    ] = False,
) -> None:
    pass


@app.command("server", help="Start the language server. Editors do this.")
def _server_command(
    stdio: Annotated[bool, typer.Option(help="Use standard streams (default).")] = False,
    tcp: Annotated[str | None, typer.Option(metavar="HOST:PORT")] = None,
) -> None:
    # Only here so that `--help` lists the command; ``fullgraph.cli.main`` starts the server itself.
    from fullgraph.cli.server import main as server

    raise typer.Exit(server(["--tcp", tcp] if tcp else []))


def _setting_option(name: str, *more: str, **kinds: Any) -> Any:
    """Return the command line option of a setting, with the help from the setting's declaration."""
    return typer.Option(f"--{name}", *more, help=_HELP[name], show_default=False, **kinds)


_Texts = list[str] | None
_Text = str | None

# Options that several commands share.
_Mode = Annotated[_Text, _setting_option("mode", metavar="auto|fake|real")]
_Select = Annotated[_Texts, _setting_option("select", metavar="CODE,...")]
_Ignore = Annotated[_Texts, _setting_option("ignore", metavar="CODE,...")]
_SeverityFlag = Annotated[_Texts, _setting_option("severity", metavar="CODE=SEVERITY,...")]
_ExitSeverity = Annotated[_Text, _setting_option("exit-severity", metavar="SEVERITY")]
_Jobs = Annotated[_Text, _setting_option("jobs", "-j", metavar="N")]
_EngineProcesses = Annotated[_Text, _setting_option("engine-processes", metavar="auto|fork|spawn")]
_EngineKeep = Annotated[_Text, _setting_option("engine-keep", metavar="MINUTES")]
_Timeout = Annotated[_Text, _setting_option("timeout", metavar="SECONDS")]
_MemoryLimit = Annotated[_Text, _setting_option("memory-limit", metavar="MIB")]
_MaxTargets = Annotated[_Text, _setting_option("max-targets", metavar="N")]
_TryDynamic = Annotated[
    bool | None,
    typer.Option("--try-dynamic/--no-try-dynamic", help=_HELP["try-dynamic"], show_default=False),
]
_TryPaths = Annotated[
    bool | None,
    typer.Option("--try-paths/--no-try-paths", help=_HELP["try-paths"], show_default=False),
]
_Cache = Annotated[
    bool | None,
    typer.Option("--cache/--no-cache", help=_HELP["cache"], show_default=False),
]
_Export = Annotated[
    bool | None,
    typer.Option("--export/--no-export", help=_HELP["export"], show_default=False),
]
_ProbesFromFile = Annotated[
    _Text, _setting_option("probes-from-file", metavar="all|main|docstrings|off")
]
_ProbesFromTests = Annotated[
    bool | None,
    typer.Option(
        "--probes-from-tests/--no-probes-from-tests",
        help=_HELP["probes-from-tests"],
        show_default=False,
    ),
]
_Forecast = Annotated[
    bool,
    typer.Option(
        "--forecast",
        help="Call each target again with other sizes and values, to say what will compile "
        "again. Takes three to four times as long.",
    ),
]
_ProgramRun = Annotated[
    bool | None,
    typer.Option("--program-run/--no-program-run", help=_HELP["program-run"], show_default=False),
]
_ProgramSeconds = Annotated[_Text, _setting_option("program-seconds", metavar="SECONDS")]
_ProgramArguments = Annotated[
    _Texts, _setting_option("program-arguments", metavar="ARGUMENT", hidden=True)
]
_ProgramUncompiled = Annotated[
    bool | None,
    typer.Option(
        "--program-uncompiled/--no-program-uncompiled",
        help=_HELP["program-uncompiled"],
        show_default=False,
    ),
]
_Backend = Annotated[
    _Text,
    typer.Option("--backend", metavar="NAME", help=_HELP["program-backend"], show_default=False),
]
_ExtraPaths = Annotated[_Texts, _setting_option("extra-paths", metavar="FOLDER,...")]
_Allow = Annotated[
    _Texts,
    typer.Option(
        "--allow",
        metavar="ENTRY,...",
        help="What traced code may do that the sandbox refuses: write:FOLDER, network, "
        "read-env:NAME, subprocess, cpp-extensions, triton-cache, huggingface-cache.",
        show_default=False,
    ),
]
_Exclude = Annotated[_Texts, _setting_option("exclude", metavar="PATTERN,...")]
_Color = Annotated[str, typer.Option("--color", metavar="auto|always|never", help="Colors.")]


@app.command("check")
def _check_command(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATHS", help="Files and folders; - is standard input."),
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", metavar="text|json|sarif|github", help="How findings are written."
        ),
    ] = "text",
    python: Annotated[_Text, typer.Option("--python", help=_HELP["interpreter"])] = None,
    mode: _Mode = None,
    select: _Select = None,
    ignore: _Ignore = None,
    severity: _SeverityFlag = None,
    exit_severity: _ExitSeverity = None,
    jobs: _Jobs = None,
    engine_processes: _EngineProcesses = None,
    engine_keep: _EngineKeep = None,
    timeout: _Timeout = None,
    memory_limit: _MemoryLimit = None,
    max_targets: _MaxTargets = None,
    try_dynamic: _TryDynamic = None,
    try_paths: _TryPaths = None,
    export: _Export = None,
    cache: _Cache = None,
    probes_from_file: _ProbesFromFile = None,
    probes_from_tests: _ProbesFromTests = None,
    program_run: _ProgramRun = None,
    program_seconds: _ProgramSeconds = None,
    program_arguments: _ProgramArguments = None,
    program_uncompiled: _ProgramUncompiled = None,
    backend: _Backend = None,
    forecast: _Forecast = False,
    measure: Annotated[
        bool,
        typer.Option(
            "--measure",
            help="Also take the time of each target, as it is, compiled by Inductor, and compiled "
            "with the fixes that were verified.",
        ),
    ] = False,
    timings: Annotated[
        bool,
        typer.Option(
            "--timings", help="Also show where the time went, for each file and each run."
        ),
    ] = False,
    allow: _Allow = None,
    extra_paths: _ExtraPaths = None,
    exclude: _Exclude = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            "--baseline",
            metavar="FILE",
            help="Show only what is not in this report of an earlier check, one of --format json.",
        ),
    ] = None,
    stdin_filename: Annotated[
        _Text, typer.Option(metavar="PATH", help="What standard input is called in findings.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write findings to a file."),
    ] = None,
    color: Annotated[
        str, typer.Option("--color", metavar="auto|always|never", help="Colors in text.")
    ] = "auto",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only findings: no summaries, no progress.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show what the traced code prints, on stderr.")
    ] = False,
) -> None:
    """Trace Python files and show what torch.compile would do to them.

    A file that is a program is run, and what it compiles is reported: `fullgraph check train.py`,
    or with its own arguments `fullgraph check -- train.py --steps 2`.

    Runs the code of the files, in processes of its own with limits on time, memory and access.

    Exit status: 0 nothing at or above --exit-severity, 1 findings, 2 something could not be
    analyzed, such as a target without inputs.
    """
    if baseline is not None and output is not None and baseline.resolve() == output.resolve():
        raise typer.BadParameter(
            f"{output} is the baseline, and would keep only what is new; write the new one "
            "without --baseline.",
            param_hint="--output",
        )
    flags: dict[str, Any] = {
        "interpreter": resolve_here(python),
        "mode": mode,
        "select": split_values(select),
        "ignore": split_values(ignore),
        "severity": split_values(severity),
        "exit-severity": exit_severity,
        "jobs": jobs,
        "engine-processes": engine_processes,
        "engine-keep": "0" if measure else engine_keep,
        "timeout": timeout,
        "memory-limit": memory_limit,
        "max-targets": max_targets,
        "try-dynamic": try_dynamic,
        "try-paths": try_paths,
        "export": export,
        "cache": cache,
        "probes-from-file": probes_from_file,
        "probes-from-tests": probes_from_tests,
        "program-run": program_run,
        "program-seconds": program_seconds,
        "program-arguments": program_arguments or None,
        "program-backend": backend,
        "program-uncompiled": program_uncompiled,
        "sandbox-allow": split_values(allow),
        "extra-paths": resolve_folders(split_values(extra_paths)),
        "exclude": split_values(exclude),
    }
    job = CheckJob(
        paths=tuple(dict.fromkeys(paths)),
        stdin_name=stdin_filename or "<stdin>",
        form=_parse_word("--format", form, FORMATS),
        color=_parse_word("--color", color, COLORS),
        quiet=quiet,
        verbose=verbose,
        forecast=forecast,
        measure=measure,
        timings=timings,
        baseline=baseline,
        output=output,
    )
    raise typer.Exit(run_piped(lambda: job.run(flags)))


@app.command("diff")
def _diff_command(
    paths: Annotated[
        list[str] | None, typer.Argument(metavar="[PATHS]", help="Files and folders.")
    ] = None,
    python: Annotated[
        _Texts,
        typer.Option("--python", help="The interpreter of both sides; twice: of old, of new."),
    ] = None,
    rev: Annotated[
        _Texts,
        typer.Option(
            "--rev",
            metavar="REVISION",
            help="A revision of the repository; a second one is the new side, else the files as "
            "they are now.",
        ),
    ] = None,
    report: Annotated[
        list[Path] | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Twice, instead of paths: what `fullgraph check --format json` wrote.",
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="text|json|markdown", help="How it is written.")
    ] = "text",
    mode: _Mode = None,
    select: _Select = None,
    ignore: _Ignore = None,
    severity: _SeverityFlag = None,
    exit_severity: _ExitSeverity = None,
    jobs: _Jobs = None,
    engine_processes: _EngineProcesses = None,
    timeout: _Timeout = None,
    memory_limit: _MemoryLimit = None,
    max_targets: _MaxTargets = None,
    try_dynamic: _TryDynamic = None,
    try_paths: _TryPaths = None,
    probes_from_file: _ProbesFromFile = None,
    probes_from_tests: _ProbesFromTests = None,
    forecast: _Forecast = False,
    allow: _Allow = None,
    extra_paths: _ExtraPaths = None,
    exclude: _Exclude = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the difference to a file."),
    ] = None,
    color: _Color = "auto",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the difference: no progress, no notes.")
    ] = False,
) -> None:
    """Show what another torch, or a change of the code, changes.

    Checks the same files twice, with two interpreters or of two revisions, or takes two reports.

    Exit status: 0 nothing new at or above --exit-severity, 1 something is new or not traced
    anymore, 2 a side could not be checked.
    """
    from fullgraph.cli.diff.command import DiffChecks, DiffOutput, Variant, compare_reports

    settings_of_checks: dict[str, Any] = {
        "mode": mode,
        "severity": split_values(severity),
        "jobs": jobs,
        "engine-processes": engine_processes,
        "timeout": timeout,
        "memory-limit": memory_limit,
        "max-targets": max_targets,
        "try-dynamic": try_dynamic,
        "try-paths": try_paths,
        "probes-from-file": probes_from_file,
        "probes-from-tests": probes_from_tests,
        "sandbox-allow": split_values(allow),
        "extra-paths": resolve_folders(split_values(extra_paths)),
        "exclude": split_values(exclude),
        "select": split_values(select),
        "ignore": split_values(ignore),
    }
    paths, pythons, revisions = paths or [], python or [], rev or []
    _check_sides(paths, pythons, revisions, report, {**settings_of_checks, "forecast": forecast})
    output_options = DiffOutput(
        _parse_word("--format", form, ("text", "json", "markdown")),
        output,
        _parse_word("--color", color, COLORS),
        quiet,
    )
    flags = {**settings_of_checks, "exit-severity": exit_severity}
    if len(pythons) == 1:
        flags["interpreter"] = resolve_here(pythons[0])
    project, resolved = load_settings(common_folder(paths), flags)
    for problem in resolved.problems:
        output_options.print_message("warning", Style.WARNING, problem)
    settings = resolved.settings
    if report:
        raise typer.Exit(
            run_piped(lambda: compare_reports(report, output_options, settings.exit_severity))
        )
    both = pythons if len(pythons) == 2 else [settings.interpreter] * 2
    found = []
    for text in both:
        try:
            found.append(find_interpreter(resolve_here(text), project.root, os.environ).path)
        except InterpreterNotFound as error:
            output_options.print_error(str(error))
            raise typer.Exit(UNABLE) from None
    names = pythons if len(pythons) == 2 else ["", ""]
    old, new = (
        Variant(name, path, revision)
        for name, path, revision in zip(names, found, [*revisions, "", ""][:2], strict=True)
    )
    checks = DiffChecks(
        paths=tuple(dict.fromkeys(paths)),
        variants=(old, new),
        settings=settings,
        project=project.root,
        forecast=forecast,
        engine=lambda settings, root: engine_for(
            settings, dataclasses.replace(project, root=root), None
        ),
        output=output_options,
    )
    raise typer.Exit(run_piped(checks.run))


@app.command("op")
def _op_command(
    name: Annotated[
        str,
        typer.Argument(metavar="NAME", help="torch.max, Tensor.add_, F.gelu, aten::max.dim, max"),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    python: Annotated[
        _Text, typer.Option("--python", "--interpreter", help=_HELP["interpreter"])
    ] = None,
    color: Annotated[
        str, typer.Option("--color", metavar="auto|always|never", help="Colors in text.")
    ] = "auto",
) -> None:
    """Say of an operator or a name of torch what hover says: signatures, schemas, kernels, tags.

    Exit status: 0 found, 1 torch has nothing of that name, 2 there is no torch to ask.
    """
    from fullgraph.cli.op import NoIndex, UnknownName, look_up_pages

    color = _parse_word("--color", color, COLORS)
    project, resolved = load_settings(Path.cwd(), {"interpreter": resolve_here(python)})
    try:
        interpreter = find_interpreter(resolved.settings.interpreter, project.root, os.environ)
        pages = interruption.run(look_up_pages(name, interpreter.path, project.root))
    except Interrupted as end:
        raise typer.Exit(end.status) from None
    except UnknownName as error:
        write(sys.stderr, f"{error}\n")
        raise typer.Exit(FOUND) from None
    except (InterpreterNotFound, NoIndex) as error:
        write(sys.stderr, f"error: {error}\n")
        raise typer.Exit(UNABLE) from None
    if as_json:
        with as_utf8(sys.stdout) as out:
            out.write(pages.format_json() + "\n")
    else:
        write(sys.stdout, pages.format_text(paint_for(sys.stdout, color)) + "\n")


@app.command(
    "record",
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": True},
)
def _record_command(
    command: Annotated[
        list[str], typer.Argument(metavar="-- COMMAND...", help="As you would start it yourself.")
    ],
    root: Annotated[
        Path | None,
        typer.Option("--root", metavar="FOLDER", help="Whose modules are recorded. Default: here."),
    ] = None,
    eager: Annotated[
        bool,
        typer.Option(
            "--eager",
            help="Run with torch.compile off, to see also what compiled modules call.",
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No summary.")] = False,
) -> None:
    """Run a program and note what its modules are made and called with, as probes.

    They go to fullgraph.probes.json in the root, which check and the editor use from then on.
    The program runs as it always does, outside of the sandbox.

    Exit status: the program's; 2 if what it did could not be written down.
    """
    from fullgraph.cli.record import record_program

    folder = (root or Path.cwd()).absolute()
    if not folder.is_dir():
        raise typer.BadParameter(f"{root} is no folder.", param_hint="--root")
    raise typer.Exit(record_program(command, folder, eager=eager, quiet=quiet))


@app.command("show")
def _show_command(
    kind: Annotated[str, typer.Argument(metavar="graph|guards|events|bytecode")],
    place: Annotated[
        str,
        typer.Argument(metavar="FILE[:LINE|::TARGET]", help="Without a target all of the file."),
    ],
    python: Annotated[_Text, typer.Option("--python", help=_HELP["interpreter"])] = None,
    mode: Annotated[_Text, _setting_option("mode", metavar="auto|fake|real")] = None,
    timeout: Annotated[_Text, _setting_option("timeout", metavar="SECONDS")] = None,
    allow: _Allow = None,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Also write the events to a file."),
    ] = None,
    compare: Annotated[
        Path | None,
        typer.Option("--compare", metavar="FILE", help="Show how the events differ from a file."),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    """Show what torch.compile made of a target: graphs, guards, events of sizes, bytecode.

    Exit status: 0 shown, 1 no such target, something is missing, or the events differ,
    2 there is no torch to ask.
    """
    from fullgraph.cli.show import (
        ChosenPlace,
        NoTarget,
        read_events,
        serialize_events,
        write_documents,
    )

    word = _parse_word("KIND", kind, DOCUMENT_KINDS)
    if word != "events" and (save or compare):
        raise typer.BadParameter("--save and --compare are about events.")
    try:
        before = read_events(compare) if compare else ()
    except UnreadableFile as error:
        raise typer.BadParameter(str(error), param_hint="--compare") from None
    chosen = ChosenPlace.parse(place)
    flags = {
        "interpreter": resolve_here(python),
        "mode": mode,
        "timeout": timeout,
        "sandbox-allow": split_values(allow),
    }
    project, resolved = load_settings(common_folder([chosen.file]), flags)
    progress = ProgressLine(wanted=not quiet)
    try:
        documents = interruption.run(
            write_documents(
                word,
                chosen,
                settings=resolved.settings,
                project=project.root,
                tracer=lambda: engine_for(resolved.settings, project),
                show_progress=progress.show,
                save=save is not None,
                compare=before,
            )
        )
    except Interrupted as end:
        raise typer.Exit(end.status) from None
    except NoTarget as error:
        progress.hide()
        write(sys.stderr, f"{error}\n")
        raise typer.Exit(FOUND) from None
    except (UnreadableFile, EngineUnusable) as error:
        progress.hide()
        write(sys.stderr, f"error: {error}\n")
        raise typer.Exit(UNABLE) from None
    finally:
        progress.hide()
    if save is not None:
        try:
            save.write_text(serialize_events(documents.saved), encoding="utf-8")
        except OSError as error:
            write(sys.stderr, f"error: {save} cannot be written: {error.strerror}.\n")
            raise typer.Exit(UNABLE) from None
    write(sys.stdout, documents.text)
    raise typer.Exit(CLEAN if documents.complete and not documents.differs else FOUND)


@app.command("repro")
def _repro_command(
    place: Annotated[
        str,
        typer.Argument(metavar="FILE:LINE", help="The line of a finding; FILE::TARGET for any."),
    ],
    code: Annotated[
        str, typer.Option("--code", metavar="CODE", help="Which finding, where several are there.")
    ] = "",
    target: Annotated[
        str, typer.Option("--target", metavar="NAME", help="Which target reaches it.")
    ] = "",
    backend: Annotated[
        str,
        typer.Option(
            "--backend",
            metavar="inductor|aot_eager|eager",
            help="Compile the target with it and reduce what fails, instead of a finding.",
        ),
    ] = "",
    accuracy: Annotated[
        bool,
        typer.Option(
            "--accuracy", help="Reduce what the backend (default inductor) computes wrongly."
        ),
    ] = False,
    time_budget: Annotated[
        float | None,
        typer.Option(
            "--time-budget",
            metavar="SECONDS",
            min=1,
            help=_HELP["repro-time-budget"],
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        bool, typer.Option("--data", help=_HELP["repro-data"], show_default=False)
    ] = False,
    out: Annotated[
        _Text,
        typer.Option(
            "--out",
            "-o",
            metavar="FOLDER|FILE.py|-",
            help="Where the script goes; nothing is overwritten. Default: fullgraph-repros/ in the "
            "project.",
        ),
    ] = None,
    form: Annotated[
        str, typer.Option("--format", metavar="text|json", help="The format of the result.")
    ] = "text",
    issue: Annotated[
        bool, typer.Option("--issue", help="Print Markdown to paste into an issue.")
    ] = False,
    python: Annotated[_Text, typer.Option("--python", help=_HELP["interpreter"])] = None,
    mode: Annotated[_Text, _setting_option("mode", metavar="auto|fake|real")] = None,
    timeout: Annotated[_Text, _setting_option("timeout", metavar="SECONDS")] = None,
    allow: _Allow = None,
    color: Annotated[
        str, typer.Option("--color", metavar="auto|always|never", help="Colors in text.")
    ] = "auto",
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Only the result: no summary, no progress.")
    ] = False,
) -> None:
    """Make a small script that shows a finding with nothing but torch, and write it to a file.

    Prints the path of the file. Ctrl-C keeps the best script so far.

    Exit status: 0 written, and verified in a fresh Python; 1 not verified, or there is none;
    2 fullgraph could not do its work.
    """
    from fullgraph.cli.delivery import Delivery, ScriptDestination
    from fullgraph.cli.repro import ReproRequest
    from fullgraph.cli.show import ChosenPlace
    from fullgraph.session.repro_files import folder_of

    chosen = ChosenPlace.parse(place)
    backend = backend or ("inductor" if accuracy else "")
    if code and not is_known_selector(code):
        raise typer.BadParameter(
            f"{code!r} is no finding code or beginning of one.", param_hint="--code"
        )
    if code and backend:
        raise typer.BadParameter("--backend is not about a finding.", param_hint="--code")
    request = ReproRequest(
        chosen,
        code,
        target or chosen.target,
        _parse_word("--backend", backend, _BACKENDS),
        accuracy,
    )
    flags = {
        "interpreter": resolve_here(python),
        "mode": mode,
        "timeout": timeout,
        "sandbox-allow": split_values(allow),
        "repro-time-budget": time_budget,
        "repro-data": data or None,
    }
    project, resolved = load_settings(common_folder([chosen.file]), flags)
    try:
        destination = ScriptDestination.parse(out, folder_of(resolved.settings, project.root))
    except FileExistsError:
        raise typer.BadParameter(
            f"{out} is there already, and no file is overwritten.", param_hint="--out"
        ) from None
    delivery = Delivery(
        request,
        destination,
        form=_parse_word("--format", form, ("text", "json")),
        issue=issue,
        color=_parse_word("--color", color, COLORS),
        quiet=quiet,
    )
    raise typer.Exit(
        delivery.run(
            resolved.settings, project.root, lambda: engine_for(resolved.settings, project)
        )
    )


@app.command("fix")
def _fix_command(
    paths: Annotated[list[str], typer.Argument(metavar="PATHS", help="Files and folders.")],
    diff: Annotated[
        bool, typer.Option("--diff", help="Show the changes and write nothing.")
    ] = False,
    unsafe: Annotated[
        bool,
        typer.Option(
            "--unsafe",
            help="Also apply fixes that were verified only on the inputs tried, or that give "
            "something up.",
        ),
    ] = False,
    backend: Annotated[
        bool,
        typer.Option(
            "--backend", help="Also compile with Inductor what is changed, and compare with that."
        ),
    ] = False,
    form: Annotated[
        str, typer.Option("--format", metavar="text|json", help="How fixes are written.")
    ] = "text",
    python: Annotated[_Text, typer.Option("--python", help=_HELP["interpreter"])] = None,
    mode: _Mode = None,
    select: _Select = None,
    ignore: _Ignore = None,
    jobs: _Jobs = None,
    timeout: _Timeout = None,
    memory_limit: _MemoryLimit = None,
    max_targets: _MaxTargets = None,
    try_paths: _TryPaths = None,
    export: _Export = None,
    forecast: _Forecast = False,
    allow: _Allow = None,
    extra_paths: _ExtraPaths = None,
    exclude: _Exclude = None,
    color: _Color = "auto",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Also show what was tried in vain, and why.")
    ] = False,
) -> None:
    """Rewrite code that breaks the graph, where a rewrite was tried and does the same.

    Each fix was traced, and compared with the original in eager mode on real tensors. Files are
    changed in place; only safe fixes are applied without --unsafe.

    Exit status: 0 no break is left, 1 some are, 2 something that was asked for could not be done.
    """
    from fullgraph.cli.fix import file_diff, fix_files
    from fullgraph.render.fixes import FixedFile, fixed_json, fixed_text

    form = _parse_word("--format", form, ("text", "json"))
    flags: dict[str, Any] = {
        "interpreter": resolve_here(python),
        "mode": mode,
        "select": split_values(select),
        "ignore": split_values(ignore),
        "jobs": jobs,
        "timeout": timeout,
        "memory-limit": memory_limit,
        "max-targets": max_targets,
        "try-paths": try_paths,
        "export": export,
        "sandbox-allow": split_values(allow),
        "extra-paths": resolve_folders(split_values(extra_paths)),
        "exclude": split_values(exclude),
    }
    project, resolved = load_settings(common_folder(paths), flags)
    found = sources.find_sources(
        tuple(dict.fromkeys(paths)), resolved.settings.exclude, project.root
    )
    progress = ProgressLine(wanted=not quiet)
    out, err = (
        paint_for(stream, _parse_word("--color", color, COLORS))
        for stream in (sys.stdout, sys.stderr)
    )

    def print_problem(sentence: str) -> None:
        write(sys.stderr, f"{err(Style.ERROR, 'error:')} {sentence}\n")

    def print_result(file: FixedFile) -> None:
        progress.hide()
        if form == "json":
            return
        text = file_diff(file) if diff else ""
        summary = fixed_text(file, out, verbose=verbose)
        write(sys.stdout, text)
        write(sys.stderr if diff else sys.stdout, f"{summary}\n" if summary else "")

    for sentence in (*resolved.problems, *found.problems):
        print_problem(sentence)
    try:
        run = interruption.run(
            fix_files(
                found.files,
                settings=resolved.settings,
                project=project.root,
                engine=lambda: engine_for(resolved.settings, project),
                grades=("safe", "unsafe") if unsafe else ("safe",),
                backend=backend,
                forecast=forecast,
                write=not diff,
                show_progress=progress.show,
                on_file_done=print_result,
            )
        )
    except Interrupted as end:
        raise typer.Exit(end.status) from None
    except EngineUnusable as error:
        print_problem(str(error))
        raise typer.Exit(UNABLE) from None
    finally:
        progress.hide()
    for file in run.files:
        if file.problem or file.fixed.problem:
            print_problem(file.problem or file.fixed.problem)
    if form == "json":
        with as_utf8(sys.stdout) as stream:
            stream.write(fixed_json(run.files, run.torch, found.problems) + "\n")
    if run.incomplete or found.problems:
        raise typer.Exit(UNABLE)
    raise typer.Exit(FOUND if run.left else CLEAN)


@app.command("trust")
def _trust_command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[FOLDERS]...", help="Projects; without any, the current folder."),
    ] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Trust them no more.")] = False,
) -> None:
    """Let editors without a list of trusted projects execute the code below these folders.

    VS Code keeps its own list. The commands here execute what they are given, trusted or not.
    """
    known = TrustedFolders(trusted_folders_file(os.environ))
    chosen = folders or [Path.cwd()]
    missing = next((folder for folder in chosen if not remove and not folder.is_dir()), None)
    if missing is not None:
        print(f"fullgraph: {missing} is no folder; name the folder of a project.", file=sys.stderr)
        raise typer.Exit(UNABLE)
    try:
        (known.remove if remove else known.add)(chosen)
    except OSError as error:
        why = error.strerror or str(error)
        print(f"fullgraph: The list of trusted folders cannot be written: {why}.", file=sys.stderr)
        raise typer.Exit(UNABLE) from None


@app.command("engine")
def _engine_command(
    action: Annotated[str, typer.Argument(metavar="status|stop")] = "status",
) -> None:
    """Show or stop the engines that stay for later commands, so that these need not import torch.

    Exit status: 0 done, 2 an engine does not answer.
    """
    from fullgraph.cli.kept_engines import kept_engines
    from fullgraph.engines.background import BackgroundUnavailable

    stop = _parse_word("ACTION", action, ("status", "stop")) == "stop"
    try:
        found = interruption.run(kept_engines(os.environ, stop=stop))
    except Interrupted as end:
        raise typer.Exit(end.status) from None
    except BackgroundUnavailable as error:
        write(sys.stderr, f"error: {error}\n")
        raise typer.Exit(UNABLE) from None
    for kept_engine in found:
        if kept_engine.problem:
            write(sys.stderr, f"error: {kept_engine.problem}\n")
        else:
            write(sys.stdout, f"{'Stopped ' if stop else ''}{kept_engine.format_line()}\n")
    if not found:
        write(sys.stdout, "No engine is kept.\n")
    raise typer.Exit(UNABLE if any(kept_engine.problem for kept_engine in found) else CLEAN)


@app.command("doctor")
def _doctor_command(
    python: Annotated[_Text, typer.Option("--python", help=_HELP["interpreter"])] = None,
    allow: _Allow = None,
    color: Annotated[
        str, typer.Option("--color", metavar="auto|always|never", help="Colors.")
    ] = "auto",
) -> None:
    """Say which interpreter and torch are used, whether the engine works, and the settings.

    Exit status: 0 all is well, 1 something is degraded, 2 the engine cannot work.
    """
    color = _parse_word("--color", color, COLORS)
    flags = {"interpreter": resolve_here(python), "sandbox-allow": split_values(allow)}
    project, resolved = load_settings(Path.cwd(), flags)
    try:
        examination = interruption.run(examine(project, resolved, os.environ))
    except Interrupted as end:
        raise typer.Exit(end.status) from None
    write(sys.stdout, examination.format_text(paint_for(sys.stdout, color)) + "\n")
    raise typer.Exit(examination.status)


def _check_sides(
    paths: Sequence[str],
    pythons: Sequence[str],
    revisions: Sequence[str],
    reports: Sequence[Path] | None,
    settings_of_checks: Mapping[str, Any],
) -> None:
    """Check that the arguments of ``diff`` describe two sides: interpreters, revisions or reports.

    ``settings_of_checks`` are the settings by name; reports cannot be combined with them.

    Raises:
        typer.BadParameter: The arguments describe fewer or more than two sides.
    """
    if reports is not None:
        if len(reports) != 2:
            raise typer.BadParameter("Give two reports, old and new.", param_hint="--report")
        arguments = {"PATHS": paths, "--python": pythons, "--rev": revisions}
        flags = {f"--{name}": value for name, value in settings_of_checks.items()}
        for name, value in {**arguments, **flags}.items():
            if value:
                raise typer.BadParameter(
                    f"Reports are of checks that are done: {name} does nothing.",
                    param_hint="--report",
                )
        return
    if len(pythons) > 2:
        raise typer.BadParameter("Give at most two, old and new.", param_hint="--python")
    if len(revisions) > 2:
        raise typer.BadParameter("Give at most two, old and new.", param_hint="--rev")
    if len(pythons) < 2 and not revisions:
        raise typer.BadParameter(
            "Give two sides: --python OLD --python NEW, --rev OLD, or --report OLD --report NEW."
        )
    if not paths:
        raise typer.BadParameter("Name the files and folders to check.", param_hint="PATHS")
    if sources.STANDARD_INPUT in paths:
        raise typer.BadParameter("Standard input has no second side.", param_hint="PATHS")


_BACKENDS = typing.get_args(Backend)
_Word = TypeVar("_Word", bound=str)


def _parse_word(flag: str, text: str, known: Sequence[_Word]) -> _Word:
    for word in known:
        if text == word:
            return word
    raise typer.BadParameter(f"{text!r} is not one of {', '.join(known)}.", param_hint=flag)
