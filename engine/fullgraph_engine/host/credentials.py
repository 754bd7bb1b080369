"""Environment variables that look like secrets: user code does not get to see them."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterable

_WORDS = frozenset(
    {
        "APIKEY",
        "AUTH",
        "COOKIE",
        "CREDENTIAL",
        "CREDENTIALS",
        "DSN",
        "JWT",
        "KEY",
        "KEYS",
        "PASSPHRASE",
        "PASSWD",
        "PASSWORD",
        "PAT",
        "SECRET",
        "SECRETS",
        "TOKEN",
        "TOKENS",
    }
)
"""What a name consists of, between its underscores."""
_ENDINGS = ("APIKEY", "PASSWORD", "PASSWD", "TOKEN", "SECRET")
_NAMES = frozenset({"MYSQL_PWD", "SSHPASS", "KRB5CCNAME", "NETRC"})
_LOGIN = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
"""A user and a password, in a URL."""


def is_secret(name: str, value: str) -> bool:
    """Whether a variable looks as if it held a secret."""
    upper = name.upper()
    return (
        upper in _NAMES
        or upper.endswith(_ENDINGS)
        or not _WORDS.isdisjoint(upper.split("_"))
        or _LOGIN.search(value) is not None
    )


def remove(kept: Iterable[str] = ()) -> frozenset[str]:
    """Take secrets out of the environment of this process, and out of what the kernel shows of it.

    To be called before there is another thread. ``kept`` are variables to be left alone; returns
    those that were removed.
    """
    kept = frozenset(kept)
    found = {
        name for name, value in os.environ.items() if name not in kept and is_secret(name, value)
    }
    if sys.platform.startswith("linux"):
        _overwrite({os.fsencode(name) for name in found})
    for name in found:
        del os.environ[name]
    return frozenset(found)


def _overwrite(names: set[bytes]) -> None:
    """Unsetting a variable leaves its text where it was, which is what ``/proc`` shows."""
    pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while pointers and (address := pointers[index]):
        text = ctypes.string_at(address)
        name, _, value = text.partition(b"=")
        if name in names:
            ctypes.memset(address + len(name) + 1, 0, len(value))
        index += 1
