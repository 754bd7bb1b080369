"""Behavior comparison of an original and a changed text: both run the same calls, which are
observed.

``search`` chooses cases by executing the original. ``observing`` executes them, each text in its
own process, and writes down what they did. ``comparing`` decides in a third process, without user
code.
"""
