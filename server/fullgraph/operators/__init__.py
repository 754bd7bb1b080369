"""What the code around a cursor means in terms of torch's operators.

Knows no LSP and no engine: texts and offsets in, entries of the index out.
"""
