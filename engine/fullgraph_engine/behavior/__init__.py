"""Compare the behavior of a file's original source code with the behavior of a changed version.

The same test calls (cases) are made with both versions. ``search`` chooses the calls by executing
the original. ``observing`` makes them, with each version in its own process, and writes down what
they did. ``comparing`` compares these records in a third process, without user code.
"""
