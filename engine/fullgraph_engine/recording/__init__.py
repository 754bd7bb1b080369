"""Record how a user's own program constructs and calls the modules of a workspace.

``start/sitecustomize.py`` loads the recorder into each Python process of the program. ``watch``
observes the calls, ``values`` converts arguments to probe notation, and ``merging`` combines the
recordings of several processes.
"""
