"""Placeholder values for names that a failed top-level statement, such as an import, would have
assigned."""

from __future__ import annotations

from typing import Any, NoReturn


class Unavailable(ImportError):
    """Raised when user code uses a name that its module could not assign.

    ``line`` is the zero-based line of the statement that failed, ``reason`` its error.
    """

    def __init__(self, name: str, line: int, reason: str) -> None:
        self.message_start = f"`{name}` is not available: line {line + 1} failed"
        super().__init__(f"{self.message_start} ({reason})")
        self.missing = name
        self.line = line
        self.reason = reason


class Placeholder:
    """A value for a name that could not be assigned; it may be passed on and named in annotations.

    Other uses raise ``Unavailable``. Missing special attributes raise AttributeError as on any
    plain object, because libraries look them up on all objects.
    """

    __slots__ = ("_unavailable",)

    def __init__(self, name: str, line: int, reason: str) -> None:
        object.__setattr__(self, "_unavailable", (name, line, reason))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise recorded_error(self)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise recorded_error(self)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise recorded_error(self)

    def __getitem__(self, key: Any) -> NoReturn:
        raise recorded_error(self)

    def __iter__(self) -> NoReturn:
        raise recorded_error(self)

    def __exit__(self, *args: object) -> None:
        raise recorded_error(self)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        raise recorded_error(self)

    def __repr__(self) -> str:
        return f"<{self._unavailable[0]}: not available>"


def _raise_unavailable(self: Placeholder, *args: Any) -> NoReturn:
    raise recorded_error(self)


_OPERATIONS = """
abs add and bool contains delitem divmod enter float floordiv ge gt index int invert le len lshift
lt matmul mod mul neg next or pos pow radd rand rdivmod rfloordiv rlshift rmatmul rmod rmul ror
round rpow rrshift rshift rsub rtruediv rxor setitem sub truediv xor
"""
for _name in _OPERATIONS.split():
    setattr(Placeholder, f"__{_name}__", _raise_unavailable)  # == and != compare by identity


def error_of_use(placeholder: Placeholder) -> Unavailable:
    """Return the exception that any use of this placeholder raises, without adding it to
    ``raised_errors``."""
    name, line, reason = object.__getattribute__(placeholder, "_unavailable")
    return Unavailable(name, line, reason)


raised_errors: list[Unavailable] = []
"""Exceptions that placeholders raised in this process, in order."""


def find_raised_error(message: str) -> Unavailable | None:
    """Return the exception in ``raised_errors`` with whose message an error message begins; None
    without one.

    The error message may continue after it, or be cut off inside it.
    """
    return next((error for error in raised_errors if error.message_start in message), None)


def recorded_error(placeholder: Placeholder) -> Unavailable:
    """Return the exception for a use of this placeholder, and add it to ``raised_errors``."""
    error = error_of_use(placeholder)
    raised_errors.append(error)
    return error


def find_unavailable(error: BaseException | None) -> Unavailable | None:
    """Return the ``Unavailable`` error among an exception's causes and contexts, or None."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Unavailable):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None
