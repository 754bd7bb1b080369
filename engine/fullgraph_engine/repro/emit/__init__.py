"""Source text of a program that recreates live values, functions and classes."""
