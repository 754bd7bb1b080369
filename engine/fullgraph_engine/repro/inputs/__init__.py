"""Real inputs out of one process and into another: byte by byte, with every property kept.

The writer makes a function that loads the inputs, the reader is what the function is called with.
The reader's source is pasted into scripts, so it knows torch and the standard library alone.
"""

from .annotated import arguments
from .reader import InputReader
from .writer import InputWriter, reader_source

__all__ = ["InputReader", "InputWriter", "arguments", "reader_source"]
