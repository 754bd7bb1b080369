"""The half of fullgraph that runs beside the user's torch.

Nothing here may import anything but the standard library and torch, and nothing but
``protocol`` may be imported from outside: the server speaks to this package through a pipe.
"""
