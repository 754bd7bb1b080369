"""Check files on the workers of a Dask cluster, with the option ``--scheduler``.

The command sends the workers trace requests and receives the events of their engines, so that
everything else in a check is the same as with a local engine. Only ``connection`` imports Dask in
the process of the command, and only ``worker`` in the processes of the workers.
"""
