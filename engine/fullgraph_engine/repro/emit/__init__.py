"""Live values, functions and classes as the text of a program."""
