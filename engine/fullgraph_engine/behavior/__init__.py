"""Behavior comparison of an original and a changed text of a file.

Both texts run the same calls, which are observed. ``search`` chooses the calls (cases) by executing
the original. ``observing`` executes them, each text in its own process, and writes down what they
did. ``comparing`` decides in a third process, without user code.
"""
