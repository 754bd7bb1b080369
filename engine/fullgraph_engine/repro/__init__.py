"""Make repros: minimal scripts that show one finding (such as a graph break) and depend only on
torch.
"""
