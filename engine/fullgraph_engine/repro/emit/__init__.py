"""Live values, functions and classes written as the source text of a program."""
