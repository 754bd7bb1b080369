"""Let editors without a list of trusted projects execute the code in these folders.

VS Code has its own list. The commands of fullgraph execute the files that they are given, trusted
or not.
"""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from pathlib import Path

from fullgraph.cli import options
from fullgraph.cli.exit_status import CLEAN, UNABLE
from fullgraph.cli.options import Parser


def configure(parser: Parser) -> None:
    parser.arguments.add_argument(
        "folders",
        nargs="*",
        type=Path,
        metavar="FOLDERS",
        help="Folders of projects. Default: the current folder.",
    )
    options.add_flag(
        parser, "--remove", help="Remove the folders from the list of trusted folders."
    )


def run(arguments: Namespace) -> int:
    from fullgraph.session.trust import TrustedFolders, trusted_folders_file

    known = TrustedFolders(trusted_folders_file(os.environ))
    chosen = arguments.folders or [Path.cwd()]
    missing = next(
        (folder for folder in chosen if not arguments.remove and not folder.is_dir()), None
    )
    if missing is not None:
        print(
            f"fullgraph: {missing} is not a folder; name the folder of a project.", file=sys.stderr
        )
        return UNABLE
    try:
        (known.remove if arguments.remove else known.add)(chosen)
    except OSError as error:
        why = error.strerror or str(error)
        print(f"fullgraph: The list of trusted folders cannot be written: {why}.", file=sys.stderr)
        return UNABLE
    return CLEAN
