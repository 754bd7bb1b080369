"""``python -m fullgraph``."""

import sys

from fullgraph.cli import main

sys.exit(main())
