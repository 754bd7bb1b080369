"""Write a minimal script that reproduces a finding with nothing but torch.

Prints the path of the script. Ctrl-C keeps the shortest script found so far.

Exit status: 0 if the script was written and verified in a new Python process, 1 if it was not
verified or could not be made, 2 if fullgraph could not do its work.
"""

from __future__ import annotations

from argparse import Namespace
from typing import get_args

from fullgraph.cli import options
from fullgraph.cli.options import Parser, UsageError
from fullgraph.cli.setting_options import add_settings, given_settings
from fullgraph.domain.codes import is_known_selector
from fullgraph_engine.protocol.repro import Backend


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "place",
        metavar="FILE:LINE|FILE::TARGET",
        help="Line of the finding, or a function or class to reproduce one of its findings.",
    )
    parser.options.add_argument(
        "--code", default="", metavar="CODE", help="Code of the finding, if the line has several."
    )
    parser.options.add_argument(
        "--target",
        default="",
        metavar="NAME",
        help="Function or class to reproduce the finding with, if several have it.",
    )
    parser.options.add_argument(
        "--backend",
        default="",
        type=options.one_of(get_args(Backend)),
        metavar="|".join(filter(None, get_args(Backend))),
        help="Reproduce a failure of this backend instead of a finding.",
    )
    options.add_flag(
        parser,
        "--accuracy",
        help="Reproduce wrong results of the backend instead of a failure. Default backend: "
        "inductor.",
    )
    parser.options.add_argument(
        "-o",
        "--out",
        metavar="FOLDER|FILE.py|-",
        help="Where to write the script; - is standard output. Existing files are not overwritten. "
        "Default: the setting repro-folder.",
    )
    options.add_choice(parser, "--format", ("text", "json"), "Format of the result.")
    options.add_flag(parser, "--issue", help="Print Markdown to paste into an issue.")
    options.add_color(parser)
    options.add_flag(
        parser, "-q", "--quiet", help="Print only the result: no summary, no progress."
    )
    add_settings(parser, "repro")


def run(arguments: Namespace) -> int:
    import dataclasses

    from fullgraph.cli.delivery import Delivery, ScriptDestination
    from fullgraph.cli.project import common_folder, engine_for, load_settings
    from fullgraph.cli.repro import ReproRequest
    from fullgraph.cli.show import ChosenPlace
    from fullgraph.session.repro_files import folder_of

    chosen = ChosenPlace.parse(arguments.place)
    backend: Backend = arguments.backend or ("inductor" if arguments.accuracy else "")
    if arguments.code and not is_known_selector(arguments.code):
        raise UsageError(
            f"--code: {arguments.code!r} is not a finding code or the beginning of one."
        )
    if arguments.code and backend:
        raise UsageError(
            "--code: The failure of a backend has no finding code; omit --code or --backend."
        )
    request = ReproRequest(
        chosen, arguments.code, arguments.target or chosen.target, backend, arguments.accuracy
    )
    project, resolved = load_settings(common_folder([chosen.file]), given_settings(arguments))
    settings = resolved.settings
    if arguments.code.startswith("backend") and settings.backend == "off":
        settings = dataclasses.replace(settings, backend="inductor")
    try:
        destination = ScriptDestination.parse(arguments.out, folder_of(settings, project.root))
    except FileExistsError:
        raise UsageError(
            f"--out: {arguments.out} exists already, and existing files are not overwritten."
        ) from None
    delivery = Delivery(
        request,
        destination,
        form=arguments.format,
        issue=arguments.issue,
        color=arguments.color,
        quiet=arguments.quiet,
    )
    return delivery.run(settings, project.root, lambda: engine_for(settings, project))
