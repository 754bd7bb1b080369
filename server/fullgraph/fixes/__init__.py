"""Rewrites of the user's code that may end a graph break, and what was verified of each.

``rewrites`` make candidates from the text and a finding, without executing anything. Only what was
tried (``verification``) is offered as a fix, with the grade that it reached.
"""
