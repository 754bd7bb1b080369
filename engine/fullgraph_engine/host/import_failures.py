"""Explain failed imports with one finding at the original cause, however many names are
affected."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterable

from .. import texts
from ..protocol import Finding, Frame, Range, Related
from ..protocol.evidence import ImportEvidence
from . import frames

# Distributions whose names differ from the modules that they install.
_DISTRIBUTIONS = {
    "attr": "attrs",
    "bs4": "beautifulsoup4",
    "cv2": "opencv-python",
    "dateutil": "python-dateutil",
    "dotenv": "python-dotenv",
    "einops_exts": "einops-exts",
    "hydra": "hydra-core",
    "pytorch_lightning": "pytorch-lightning",
    "OpenGL": "PyOpenGL",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "PyYAML",
}

TIME_USED_UP = "the time limit for executing the file was reached"


class ModuleTimeIsUp(BaseException):
    """Raised inside a top-level statement of the user's file when the time limit for executing the
    file is reached."""


def failure_reason(error: BaseException) -> str:
    """Return Python's own error message for a failed statement, as one line."""
    if isinstance(error, SystemExit):
        code = "" if error.code is None else texts.safe_repr(error.code)
        return f"sys.exit({code})"
    if isinstance(error, ModuleTimeIsUp):
        return TIME_USED_UP
    text = " ".join(texts.error_message(error).split())
    if isinstance(error, ImportError) and text:
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def root_cause(error: BaseException) -> BaseException:
    """Return the exception that originally caused ``error``, following ``raise ... from ...``."""
    seen: set[int] = set()
    while error.__cause__ is not None and id(error) not in seen:
        seen.add(id(error))
        error = error.__cause__
    return error


def stack_of(error: BaseException) -> tuple[Frame, ...]:
    """Return the stack frames from ``error`` down to its original cause, outermost first."""
    stack: list[Frame] = []
    last, current = root_cause(error), error
    while True:
        stack += [f for f in frames.of_traceback(current.__traceback__) if f not in stack]
        if current is last or current.__cause__ is None:
            return tuple(stack)
        current = current.__cause__


def related_frames(stack: Iterable[Frame], path: str, why: str = "") -> tuple[Related, ...]:
    """Return the frames of a stack that the analyzed file called, innermost first, as related
    locations of a finding.

    ``path`` is the analyzed file; ``why`` is the message at the first of them.
    """
    found: list[Related] = []
    for frame in stack:
        if frame.path == path:
            found.clear()
            continue
        words = f"in `{frame.function}`"
        if why and frame.function == "<module>":
            words = "imported from here"
        found.append(Related(frame.path, frames.range_of(frame, []), words))
    if why and found:
        found[-1] = Related(found[-1].path, found[-1].range, why)
    return tuple(reversed(found[-5:]))


def same_root(error: BaseException, path: str) -> object:
    """Return a key that identifies the original cause of ``error``; failed imports with the same
    cause have equal keys.

    ``path`` is the analyzed file.
    """
    last = root_cause(error)
    deepest = related_frames(stack_of(error), path)[:1]
    return failure_reason(last), [(place.path, place.range) for place in deepest].__repr__()


def statement_finding(name: str, error: BaseException, where: Range, path: str) -> Finding:
    """Create the finding for a failed import statement at ``where``, which imports the module
    ``name``."""
    return _import_finding(f"Cannot import `{name}`", name, error, where, path, "import-error")


def package_finding(name: str, error: BaseException, where: Range, path: str) -> Finding:
    """Create the finding for an exception in the parent packages of the file; ``name`` is the
    innermost package."""
    if isinstance(error, ModuleTimeIsUp):
        stack = stack_of(error)
        return Finding(
            code="trace/timeout",
            message=f"Importing `{name}`, the package of this file, reached the time limit",
            range=where,
            stack=stack,
            related=related_frames(stack, path),
            notes=(
                "fullgraph executed only statements of the file that define or import something.",
            ),
            mode="real",
            identity=f"trace/timeout:{name}",
        )
    begin = f"Cannot import `{name}`, the package of this file"
    return _import_finding(begin, name, error, where, path, "import-error:package")


def _import_finding(
    begin: str, name: str, error: BaseException, where: Range, path: str, identity: str
) -> Finding:
    last, stack = root_cause(error), stack_of(error)
    why = failure_reason(last)
    return Finding(
        code="trace/import-error",
        message=f"{begin}: {why}",
        range=where,
        hints=_import_hints(last),
        stack=stack,
        related=related_frames(stack, path, why),
        mode="real",
        identity=f"{identity}:{name}",
        evidence=ImportEvidence(str(getattr(last, "name", None) or name)),
    )


def _import_hints(error: BaseException) -> tuple[str, ...]:
    missing = getattr(error, "name", None)
    if not isinstance(error, ModuleNotFoundError) or not isinstance(missing, str) or not missing:
        return ()
    top = missing.partition(".")[0]
    if top != missing and _module_exists(top):
        return (f"`{top}` was found, but does not have `{missing}`: check its version.",)
    distribution = _DISTRIBUTIONS.get(top, top)
    return (
        f"Install it into the interpreter that fullgraph uses: "
        f"`{sys.executable} -m pip install {distribution}`",
        "Your own modules are searched for in the workspace folders and in the folder of "
        "this file.",
    )


def _module_exists(name: str) -> bool:
    try:
        return name in sys.modules or importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False
