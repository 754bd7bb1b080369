"""One part of the files of a check, from the option ``--shard``."""

from __future__ import annotations

import argparse
import hashlib
from dataclasses import dataclass


@dataclass(frozen=True)
class Shard:
    """One of ``count`` parts into which a check divides its files; ``number`` starts at 1."""

    number: int
    count: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Parse ``2/8``.

        Raises:
            argparse.ArgumentTypeError: The text does not have this form.
        """
        number, _, count = text.partition("/")
        if number.isdecimal() and count.isdecimal() and 1 <= int(number) <= int(count):
            return cls(int(number), int(count))
        raise argparse.ArgumentTypeError(f"{text!r} must be NUMBER/COUNT, for example 2/8.")

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    def has(self, name: str) -> bool:
        """Whether the file with this path, relative to its project, belongs to the shard."""
        digest = hashlib.sha256(name.encode("utf-8", "surrogateescape")).digest()
        return int.from_bytes(digest[:8], "big") % self.count == self.number - 1
