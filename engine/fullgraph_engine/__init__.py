"""The part of fullgraph that runs in the user's Python interpreter, with the user's torch.

Modules here import only the standard library and torch. Code outside this package may import only
``protocol``: the server communicates with the engine through a pipe.
"""
