"""Stand-ins for names that a failed top-level statement would have bound."""

from __future__ import annotations

from typing import Any, NoReturn


class Unavailable(ImportError):
    """A name was used that the module could not bind. ``line`` is zero-based."""

    def __init__(self, name: str, line: int, reason: str) -> None:
        self.beginning = f"`{name}` is not available: line {line + 1} failed"
        super().__init__(f"{self.beginning} ({reason})")
        self.missing = name
        self.line = line
        self.reason = reason


class Placeholder:
    """Can be passed around and named in an annotation; every other use raises ``Unavailable``.

    Special methods and attributes are answered with AttributeError as for any plain object:
    libraries look for them on whatever they meet.
    """

    __slots__ = ("_unavailable",)

    def __init__(self, name: str, line: int, reason: str) -> None:
        object.__setattr__(self, "_unavailable", (name, line, reason))

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        raise unavailable(self)

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise unavailable(self)

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise unavailable(self)

    def __getitem__(self, key: Any) -> NoReturn:
        raise unavailable(self)

    def __iter__(self) -> NoReturn:
        raise unavailable(self)

    def __exit__(self, *args: object) -> None:
        raise unavailable(self)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> NoReturn:
        raise unavailable(self)

    def __repr__(self) -> str:
        return f"<{self._unavailable[0]}: not available>"


def _refuse(self: Placeholder, *args: Any) -> NoReturn:
    raise unavailable(self)


_OPERATIONS = """
abs add and bool contains delitem divmod enter float floordiv ge gt index int invert le len lshift
lt matmul mod mul neg next or pos pow radd rand rdivmod rfloordiv rlshift rmatmul rmod rmul ror
round rpow rrshift rshift rsub rtruediv rxor setitem sub truediv xor
"""
for _name in _OPERATIONS.split():
    setattr(Placeholder, f"__{_name}__", _refuse)  # identity answers == and !=


def describe(placeholder: Placeholder) -> Unavailable:
    """The exception that using this one raises."""
    name, line, reason = object.__getattribute__(placeholder, "_unavailable")
    return Unavailable(name, line, reason)


touched: list[Unavailable] = []
"""What was raised in this process."""


def behind(message: str) -> Unavailable | None:
    """The missing name that an error message comes from, perhaps a longer one, or one whose end
    was cut off."""
    return next((error for error in touched if error.beginning in message), None)


def unavailable(placeholder: Placeholder) -> Unavailable:
    """The exception for a use of this placeholder, recorded in ``touched``."""
    error = describe(placeholder)
    touched.append(error)
    return error


def origin(error: BaseException | None) -> Unavailable | None:
    """The missing name behind an exception, if that is what it comes from."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, Unavailable):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None
