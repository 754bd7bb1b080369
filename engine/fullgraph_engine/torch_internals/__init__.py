"""The border to torch: every private name of torch that the engine uses is bound here.

One module for each family of names. A name that another release may spell differently is an
:class:`~.binding.Internal`: looked up with its spellings by release, and with the fact that is
degraded where this torch has none of them. Names that every supported release has are bound as
they are. Nothing outside this package imports ``torch._…`` or ``torch.fx.experimental``
(``make check`` sees to that).
"""
