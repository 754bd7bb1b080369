"""Whether a changed text behaves as the original: the same calls of both, observed and compared.

``search`` chooses cases by executing the original, ``observing`` executes them and writes down what
they did, each text in a process of its own, and ``comparing`` decides in one without user code.
"""
