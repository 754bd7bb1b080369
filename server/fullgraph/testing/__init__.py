"""A pytest plugin that checks what ``torch.compile`` does in a test.

It is the only part of this package that runs in the process of the user's code. ``plugin`` has what
pytest calls and imports nothing until a test uses it; ``checks`` observes a test with the engine's
recorder; ``expectations`` compares what was found with what the test expects.
"""
