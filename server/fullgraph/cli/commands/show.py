"""Show what torch.compile makes of a function or module: its graphs, guards, bytecode or shape
events.

Exit status: 0 if everything was shown, 1 if the function or module does not exist, something is
missing or the events differ, 2 if torch is not installed.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from fullgraph.cli import options
from fullgraph.cli.exit_status import CLEAN, FOUND, UNABLE
from fullgraph.cli.options import Parser, UsageError
from fullgraph.cli.setting_options import add_settings, given_settings
from fullgraph.cli.terminal import write
from fullgraph_engine.protocol.documents import DOCUMENT_KINDS


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "kind",
        metavar="KIND",
        type=options.one_of(DOCUMENT_KINDS),
        help=f"What to show: {', '.join(DOCUMENT_KINDS)}. "
        "`events` is the history of symbolic shapes.",
    )
    parser.arguments.add_argument(
        "place",
        metavar="FILE[:LINE|::TARGET]",
        help="File, or one function or class of it: by name, or by a line in it.",
    )
    parser.options.add_argument(
        "--save", metavar="FILE", type=Path, help="Also write the events to a file."
    )
    parser.options.add_argument(
        "--compare",
        metavar="FILE",
        type=Path,
        help="Show how the events differ from the events in a file that --save wrote.",
    )
    options.add_flag(parser, "-q", "--quiet", help="Print no progress.")
    add_settings(parser, "show")


def run(arguments: Namespace) -> int:
    from fullgraph.cli import interruption
    from fullgraph.cli.check import EngineUnusable
    from fullgraph.cli.progress import ProgressLine
    from fullgraph.cli.project import common_folder, engine_for, load_settings
    from fullgraph.cli.show import (
        ChosenPlace,
        NoTarget,
        read_events,
        serialize_events,
        write_documents,
    )
    from fullgraph.cli.sources import UnreadableFile

    if arguments.kind != "events" and (arguments.save or arguments.compare):
        raise UsageError("--save and --compare work only with events.")
    try:
        before = read_events(arguments.compare) if arguments.compare else ()
    except UnreadableFile as error:
        raise UsageError(f"--compare: {error}") from None
    chosen = ChosenPlace.parse(arguments.place)
    project, resolved = load_settings(common_folder([chosen.file]), given_settings(arguments))
    progress = ProgressLine(wanted=not arguments.quiet)
    try:
        documents = interruption.run(
            write_documents(
                arguments.kind,
                chosen,
                settings=resolved.settings,
                project=project.root,
                tracer=lambda: engine_for(resolved.settings, project),
                show_progress=progress.show,
                save=arguments.save is not None,
                compare=before,
            )
        )
    except NoTarget as error:
        progress.hide()
        write(sys.stderr, f"{error}\n")
        return FOUND
    except (UnreadableFile, EngineUnusable) as error:
        progress.hide()
        write(sys.stderr, f"error: {error}\n")
        return UNABLE
    finally:
        progress.hide()
    if arguments.save is not None:
        try:
            arguments.save.write_text(serialize_events(documents.saved), encoding="utf-8")
        except OSError as error:
            write(sys.stderr, f"error: {arguments.save} cannot be written: {error.strerror}.\n")
            return UNABLE
    write(sys.stdout, documents.text)
    return CLEAN if documents.complete and not documents.differs else FOUND
