"""Expressions that create tensors, with random contents unless the contents matter.

The expressions keep shape, dtype, device, strides, ``requires_grad`` and ``is_leaf``. Small
integers, booleans, constants and masks keep their contents, because they may affect control flow;
large integers keep their range. If the generated program has a store, all contents are kept: few
elements in the text, many in a file.
"""
