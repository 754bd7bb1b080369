"""Starts the server that comes with the extension: ``python -I -S start.py server``.

Isolated and without site-packages: neither what is installed in the interpreter nor its settings
reach the server, which brings all that it needs. Written for any Python 3, to be able to refuse.
"""

# ruff: noqa: E402, PTH100, PTH118, PTH120, UP031, UP036

import sys

sys.dont_write_bytecode = not sys.pycache_prefix if sys.version_info >= (3, 8) else True
if sys.version_info < (3, 10):
    sys.stderr.write(
        "fullgraph needs Python 3.10 or newer; %s is %d.%d.\n"
        % (sys.executable, sys.version_info[0], sys.version_info[1])
    )
    sys.exit(2)

import os

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "libs"))

from fullgraph.cli import main

sys.exit(main())
