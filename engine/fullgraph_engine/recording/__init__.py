"""Notes what the modules of a workspace are constructed and called with while its own program runs.

``start/sitecustomize.py`` brings it into the program's processes, ``watch`` notes, ``values`` puts
arguments into probe notation, ``merging`` makes one recording of many.
"""
