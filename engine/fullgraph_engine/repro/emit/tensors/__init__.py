"""Tensors as expressions: random where the contents say nothing, and else as they are.

Shape, dtype, device, strides, gradness and leafness are kept. Contents are kept where they decide
what happens: small integers and booleans, constants, masks; of larger integers the range. A program
with a store keeps all: few numbers in the text, many in a file that the program loads.
"""
