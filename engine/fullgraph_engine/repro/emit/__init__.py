"""Source text of a generated program that recreates live values, functions and classes."""
