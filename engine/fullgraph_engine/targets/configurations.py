"""Arguments for constructors that take only configuration objects, such as ``Model(config)`` with
``config: BertConfig``.

A default configuration often has many equal layers. The findings of two layers are the findings of
twelve, and their trace takes a sixth of the time, so the numbers of layers are made small.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

FEW = 2
"""Number of layers used if the default is larger."""

_NOT_CONFIGURATIONS = frozenset({"builtins", "typing", "collections", "torch", "numpy"})
"""Packages whose classes are not configurations."""


@dataclass(frozen=True)
class Configuration:
    """A configuration object and the code that makes it, such as ``BertConfig()``.

    ``changes`` has a phrase for each default that was made smaller: ```num_hidden_layers` is 2
    instead of 12``.
    """

    value: Any
    code: str
    changes: tuple[str, ...] = ()


def is_depth(name: str) -> bool:
    """Whether a parameter's name means a number of repetitions, such as ``num_layers``, which can
    be small."""
    return bool(
        re.fullmatch(
            r".*(n|num)_?.*(layers?|blocks?|hidden_layers)|depth|n_layers?|(en|de)coder_layers",
            name.lower(),
        )
    )


def has_many_layers(name: str, value: Any) -> bool:
    """Whether a parameter is a number of layers larger than ``FEW``."""
    return type(value) is int and value > FEW and is_depth(name)


def required_parameters(found: type) -> list[str]:
    """Return the names of the constructor's parameters without a default; empty if the signature is
    unknown."""
    return [one.name for one in _parameters(found) if one.default is one.empty]


def configuration_classes(found: type, namespace: Mapping[str, Any]) -> dict[str, type] | None:
    """Return the configuration class for each parameter that a constructor requires.

    The classes come from annotations (``config: BertConfig``) or from the ``config_class`` of
    pretrained models. None if the constructor requires other arguments.
    """
    made: dict[str, type] = {}
    for parameter in required_parameters(found):
        kind = _annotated_class(found, parameter, namespace)
        if kind is None and parameter == "config":
            kind = getattr(found, "config_class", None)
        if not _is_configuration_class(kind) or required_parameters(kind):
            return None
        made[parameter] = kind
    return made


def default_configuration(kind: type) -> Configuration:
    """Construct a configuration without arguments. Runs user code, whose exceptions propagate."""
    return Configuration(kind(), f"{kind.__name__}()")


def small_configuration(kind: type) -> Configuration:
    """Construct a configuration with ``FEW`` layers where its defaults, and the defaults of
    configurations in it, have more.

    A class that rejects all these changes gets only the changes that it accepts one by one.
    Exceptions of the constructor without arguments propagate.
    """
    default = default_configuration(kind)
    smaller = _smaller_arguments(kind, default.value)
    if not smaller:
        return default
    try:
        return _construct(kind, smaller)
    except Exception:
        accepted = {name: one for name, one in smaller.items() if _accepts(kind, {name: one})}
    if accepted and _accepts(kind, accepted):
        return _construct(kind, accepted)
    return default


def _smaller_arguments(kind: type, default: Any) -> dict[str, Configuration]:
    """Return smaller values for the parameters of a configuration class; ``default`` is an instance
    made without arguments."""
    smaller: dict[str, Configuration] = {}
    for one in _parameters(kind):
        # A property may raise any exception, so only stored values are read.
        value = inspect.getattr_static(default, one.name, None)
        if has_many_layers(one.name, value):
            words = f"`{one.name}` is {FEW} instead of {value:,}"
            smaller[one.name] = Configuration(FEW, str(FEW), (words,))
        elif _is_configuration_class(type(value)) and type(value) is not kind:
            inner = _inner_configuration(type(value))
            if inner is not None and inner.changes:
                smaller[one.name] = inner
    return smaller


def _inner_configuration(kind: type) -> Configuration | None:
    """Construct a configuration that is an attribute of another one; None if its class rejects a
    call without arguments."""
    if required_parameters(kind):
        return None
    try:
        return small_configuration(kind)
    except Exception:
        return None


def _construct(kind: type, arguments: Mapping[str, Configuration]) -> Configuration:
    code = ", ".join(f"{name}={one.code}" for name, one in arguments.items())
    changes = [words for one in arguments.values() for words in one.changes]
    values = {name: one.value for name, one in arguments.items()}
    return Configuration(kind(**values), f"{kind.__name__}({code})", tuple(dict.fromkeys(changes)))


def _accepts(kind: Callable[..., Any], arguments: Mapping[str, Configuration]) -> bool:
    try:
        kind(**{name: one.value for name, one in arguments.items()})
    except Exception:
        return False
    return True


def _is_configuration_class(kind: Any) -> bool:
    return isinstance(kind, type) and kind.__module__.partition(".")[0] not in _NOT_CONFIGURATIONS


def _parameters(found: type) -> list[inspect.Parameter]:
    """Return the constructor's parameters that can be passed by keyword; empty if the signature is
    unknown."""
    try:
        parameters = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one for one in parameters if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]


def _annotated_class(found: type, parameter: str, namespace: Mapping[str, Any]) -> Any:
    """Return the class in the annotation of a constructor's parameter, also if the annotation is a
    string; None without one."""
    annotation = inspect.signature(found).parameters[parameter].annotation
    if isinstance(annotation, str):
        annotation = namespace.get(annotation)
    return None if annotation is inspect.Parameter.empty else annotation
