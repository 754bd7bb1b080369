"""Modes and settings of torch in which a call is made, such as ``no_grad``: parse, describe and
enter them.

Their text form is ``no_grad, autocast=bf16, eval, stance=force_eager, config.recompile_limit=2``.
It is written between the parentheses of ``under(…)`` in a probe comment (a comment with example
inputs), and stored as ``under`` with a recorded call. Torch is only imported to enter a context.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ..protocol.contexts import AUTOCAST_DTYPES, CONFIG, KEYS, STANCES, WORDS

_DEVICES = ("cpu", "cuda", "xpu", "mps")
"""Device types whose autocast state is checked when the modes of a call are determined."""

Plain = bool | int | float | str | None


@dataclass(frozen=True)
class ContextItem:
    """One item of a call's context in text form: ``no_grad``, or ``autocast=bf16@cuda`` with a
    value.

    ``value`` is the text of a name, or the value of a literal. ``given`` is true if the item has a
    value.
    """

    name: str
    value: Plain = None
    given: bool = False


class ContextError(ValueError):
    """Raised for an invalid item in a text such as ``no_grad, autocast=bf16``; ``item`` is its
    index."""

    def __init__(self, message: str, item: int) -> None:
        super().__init__(message)
        self.message = message
        self.item = item


@dataclass(frozen=True)
class CallContext:
    """The modes and settings of torch in which a call is made, such as ``no_grad``.

    ``autocast`` has a device type and a dtype for each enabled autocast, as in ``bf16@cuda``; an
    empty device type means the device of the inputs. ``training`` is None if the module keeps its
    mode. ``settings`` are options of ``torch._dynamo.config``.
    """

    grad: bool = True
    inference: bool = False
    autocast: tuple[tuple[str, str], ...] = ()
    training: bool | None = None
    stance: str = ""
    settings: tuple[tuple[str, Plain], ...] = ()

    @classmethod
    def from_items(cls, items: Iterable[ContextItem]) -> CallContext:
        """Return the context that the items of a text such as ``no_grad, autocast=bf16`` describe.

        Raises:
            ContextError: an item is unknown or contradicts another one.
        """
        context = cls()
        for number, item in enumerate(items):
            try:
                context = context._with_item(item)
            except ValueError as error:
                raise ContextError(str(error), number) from None
        return context

    @classmethod
    def of_running_code(cls, function: Any = None) -> CallContext:
        """Return the modes and settings active now, for a call of ``function``, whose training mode
        is included."""
        import torch

        autocast = []
        for device in _DEVICES:
            if _is_autocast(device):
                dtype = str(torch.get_autocast_dtype(device)).removeprefix("torch.")
                autocast += [(device, n) for n, full in AUTOCAST_DTYPES.items() if full == dtype]
        is_eval = isinstance(function, torch.nn.Module) and not function.training
        return cls(
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            tuple(autocast),
            training=False if is_eval else None,
        )

    def with_device(self, device: str) -> CallContext:
        """Return a copy in which an autocast without a device type gets the type ``device``."""
        autocast = tuple((given or device, dtype) for given, dtype in self.autocast)
        return replace(self, autocast=autocast)

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Execute the ``with`` block in this context; the caller must switch modules to training or
        evaluation mode."""
        if self == CallContext():
            yield
            return
        import torch

        from ..torch_internals import dynamo

        with contextlib.ExitStack() as stack:
            if self.settings:
                stack.enter_context(dynamo.config.patch(**dict(self.settings)))
            if self.stance:
                stack.enter_context(torch.compiler.set_stance(self.stance))
            if self.inference:
                stack.enter_context(torch.inference_mode())
            elif not self.grad:
                stack.enter_context(torch.no_grad())
            for device, name in self.autocast:
                dtype = getattr(torch, AUTOCAST_DTYPES[name])
                stack.enter_context(torch.autocast(device or "cpu", dtype=dtype))
            yield

    @property
    def text(self) -> str:
        """The context as text, such as ``no_grad, autocast=bf16``, which parses as an equal
        context."""
        parts = ["inference_mode" if self.inference else "" if self.grad else "no_grad"]
        parts += [
            f"autocast={dtype}" + (f"@{device}" if device else "")
            for device, dtype in self.autocast
        ]
        parts += ["" if self.training is None else "train" if self.training else "eval"]
        parts += [f"stance={self.stance}" if self.stance else ""]
        parts += [f"{CONFIG}{name}={value!r}" for name, value in self.settings]
        return ", ".join(filter(None, parts))

    @property
    def words(self) -> str:
        """Modes and settings in words: ``in eval mode, without gradients, under autocast to
        bfloat16``; empty for the defaults."""
        mode = "" if self.training is None else "training" if self.training else "eval"
        parts = [f"in {mode} mode" if mode else ""]
        grad = "" if self.grad else "without gradients"
        parts += ["in inference mode" if self.inference else grad]
        parts += [f"under autocast to {AUTOCAST_DTYPES[dtype]}" for _, dtype in self.autocast]
        parts += [f"under the stance {self.stance}" if self.stance else ""]
        parts += [f"with {name}={value!r}" for name, value in self.settings]
        return ", ".join(filter(None, parts))

    def _with_item(self, item: ContextItem) -> CallContext:
        name = item.name
        if name in WORDS:
            if item.given:
                raise ValueError(f"{name} takes no value")
            return self._with_word(name)
        if name not in KEYS and not name.startswith(CONFIG):
            raise ValueError(
                f"'{name}' is unknown in under(…); write {', '.join(WORDS)}, autocast=bf16, "
                "stance=force_eager or config.NAME=VALUE"
            )
        if not item.given:
            raise ValueError(f"{name} needs a value: {name}={_EXAMPLES.get(name, 'True')}")
        if name == "autocast":
            return self._with_autocast(str(item.value))
        if name == "stance":
            return self._with_stance(str(item.value))
        setting = name.removeprefix(CONFIG)
        if setting in dict(self.settings):
            raise ValueError(f"{name} is given twice")
        return replace(self, settings=(*self.settings, (setting, item.value)))

    def _with_word(self, name: str) -> CallContext:
        if name in ("eval", "train"):
            if self.training is not None:
                raise ValueError("a call has only one mode, eval or train")
            return replace(self, training=name == "train")
        if not self.grad:
            raise ValueError("write either no_grad or inference_mode, once")
        return replace(self, grad=False, inference=name == "inference_mode")

    def _with_autocast(self, value: str) -> CallContext:
        name, _, device = value.partition("@")
        shorter = {full: short for short, full in AUTOCAST_DTYPES.items()}
        dtype = shorter.get(name, name)
        if dtype not in AUTOCAST_DTYPES:
            raise ValueError(f"'{name}' is not a dtype that autocast takes; write bf16 or f16")
        if device and device not in _DEVICES:
            raise ValueError(f"'{device}' is not a device type; write one of {', '.join(_DEVICES)}")
        if device in dict(self.autocast):
            raise ValueError("autocast is given twice for one device")
        return replace(self, autocast=(*self.autocast, (device, dtype)))

    def _with_stance(self, value: str) -> CallContext:
        if value not in STANCES:
            raise ValueError(f"'{value}' is not a stance; write one of {', '.join(STANCES)}")
        if self.stance:
            raise ValueError("stance is given twice")
        return replace(self, stance=value)


_EXAMPLES = {"autocast": "bf16", "stance": "force_eager"}


def _is_autocast(device: str) -> bool:
    import torch

    try:
        return bool(torch.is_autocast_enabled(device))
    except RuntimeError:  # this torch does not know the device
        return False
