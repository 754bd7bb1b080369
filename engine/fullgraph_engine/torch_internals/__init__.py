"""Bindings to every private name of torch that the engine uses.

Each module covers one family of names. A name whose spelling depends on the release of torch is an
:class:`~.binding.Internal`. It lists the spellings by release, and the fact that the engine cannot
show if no spelling exists. A name in every supported release is imported directly. No module
outside this package imports ``torch._…`` or ``torch.fx.experimental``; ``make check`` enforces
this.
"""
