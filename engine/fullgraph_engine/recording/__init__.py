"""Record how a user's own program constructs and calls the modules (``nn.Module``) of a workspace.

``start/sitecustomize.py`` loads the recorder into each Python process of the program. ``watch``
observes the calls, ``values`` converts arguments to the notation of example inputs (``f32[4,
16]``), and ``merging`` combines the recordings of several processes.
"""
