"""Remove environment variables that look like secrets, so that user code cannot read them."""

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
"""Words that mark a variable as secret when its name, split at underscores, contains one."""
_ENDINGS = ("APIKEY", "PASSWORD", "PASSWD", "TOKEN", "SECRET")
_NAMES = frozenset({"MYSQL_PWD", "SSHPASS", "KRB5CCNAME", "NETRC"})
_LOGIN = re.compile(r"://[^/\s:@]*:[^/\s@]+@")
"""Pattern of a URL that contains a user name and a password."""


def is_secret(name: str, value: str) -> bool:
    """Whether the name or the value of an environment variable looks like a password, key or
    token."""
    upper = name.upper()
    return (
        upper in _NAMES
        or upper.endswith(_ENDINGS)
        or not _WORDS.isdisjoint(upper.split("_"))
        or _LOGIN.search(value) is not None
    )


def remove_secrets(kept: Iterable[str] = ()) -> frozenset[str]:
    """Remove environment variables that look like secrets from this process, also from its memory
    that ``/proc`` shows.

    Call it before a second thread starts. Variables named in ``kept`` stay. Return the names of the
    removed ones.
    """
    kept = frozenset(kept)
    found = {
        name for name, value in os.environ.items() if name not in kept and is_secret(name, value)
    }
    if sys.platform.startswith("linux"):
        _overwrite_values({os.fsencode(name) for name in found})
    for name in found:
        del os.environ[name]
    return frozenset(found)


def _overwrite_values(names: set[bytes]) -> None:
    """Overwrite in memory the values of the removed variables ``names``, since ``/proc`` would
    still show them."""
    pointers = ctypes.POINTER(ctypes.c_void_p).in_dll(ctypes.CDLL(None), "environ")
    index = 0
    while pointers and (address := pointers[index]):
        text = ctypes.string_at(address)
        name, _, value = text.partition(b"=")
        if name in names:
            ctypes.memset(address + len(name) + 1, 0, len(value))
        index += 1
