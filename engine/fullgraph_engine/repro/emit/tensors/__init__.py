"""Tensors as expressions: random if the contents do not matter, else with their contents.

Shape, dtype, device, strides, ``requires_grad`` and ``is_leaf`` are kept. Contents are kept where
they affect control flow: small integers, booleans, constants and masks; large integers keep their
range. A generated program with a store keeps all contents: few numbers in the text, many in a file.
"""
