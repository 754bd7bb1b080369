"""The commands of ``fullgraph``: one module each, with its arguments and the function to run.

The docstring of a module is its help text. Modules import what only their command needs in ``run``,
so that other commands and ``--help`` start fast.
"""
