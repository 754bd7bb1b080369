"""Compare the behavior of the original and of the changed source code of a file.

Test calls (cases) are made with both. ``search`` chooses the calls by executing the original.
``observing`` makes them, with each version in its own process, and writes down what they did.
``comparing`` decides in a third process, without user code.
"""
