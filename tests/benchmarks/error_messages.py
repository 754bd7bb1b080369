"""Compare recorded breaks with Dynamo's own words on PyTorch's tests of its error messages.

    python error_messages.py .../pytorch/test/dynamo/test_error_messages.py

Every call of a function that a test of that file compiles is made in four ways, each test in a
process of its own:

- plainly with ``fullgraph=True``, with nothing compiled before it; the first break is an exception;
- plainly without, in the test's order; breaks are log records;
- by the engine, with nothing compiled before it, to be compared with the first;
- by the engine, in the test's order, to be compared with the second.

The plain ones know nothing of the engine. What has to agree, break by break and in order:

- number, the ``GB…`` of the page that the message links to;
- words, the whole message with explanation, hints and context, of every break of a chain;
- stack, path, line and function of every user frame;
- what Dynamo did then (resumed, skipped the rest, skipped the frame).

The tests' own assertions are not run: they hold for the torch that they were written with. The
first line of each expected message is compared too, as the file's word against the running torch's.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import inspect
import logging
import re
import sys
import types
import unittest
import unittest.mock
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "engine"))

from markers import forked

FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+), in (?P<name>\S+)', re.M)
LINK = re.compile(r"compile-graph-break-site/gb/gb(\d+)\.html")
ENGINE_ROLES = ("alone", "ours")
CHAINED = "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"
OUTCOMES = {
    "Failed to handle graph break gracefully": "frame-skipped",
    "Encountered graph break that we cannot resume from": "rest-skipped",
    "Encountered graph break when attempting to trace": "resumed",
}
RESUMED = re.compile(r"^(?:torch_dynamo_resume_in_)+(?P<name>.+?)(?:_at_\d+)+$")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", type=Path, help="pytorch's test/dynamo/test_error_messages.py")
    parser.add_argument("--quiet", action="store_true", help="print the figures only")
    options = parser.parse_args()
    path = str(options.file.resolve())
    roles = ("raised", "logged", "alone", "ours")
    said = {role: forked(run_file, path, role, seconds=900) for role in roles}
    for role, answer in said.items():
        if "error" in answer:
            print(f"{role}: {answer['error']}", file=sys.stderr)
            return 2
    result = Agreement()
    for test, plain in said["raised"].items():
        if plain["skipped"]:
            result.not_run(test, plain["skipped"])
            continue
        compare_raised(test, plain["calls"], said["alone"][test]["calls"], result)
        compare_logged(test, said["logged"][test]["calls"], said["ours"][test]["calls"], result)
    if not options.quiet:
        print("\n".join(result.trouble))
    print("\n" + "\n".join(result.figures()))
    return 0


class Agreement:
    """Counts what agrees, and keeps what does not in words."""

    def __init__(self) -> None:
        self.trouble: list[str] = []
        self._same: Counter[str] = Counter()
        self._all: Counter[str] = Counter()
        self._left_out = 0

    def not_run(self, test: str, reason: str) -> None:
        self._left_out += 1
        self.trouble.append(f"{test}: not run: {reason}")

    def check(self, call: str, what: str, plain: Any, ours: Any) -> None:
        self._same[what] += plain == ours
        self._all[what] += 1
        if plain != ours:
            self.trouble.append(
                f"{call}: {what}\n    torch: {_shown(plain)}\n    ours:  {_shown(ours)}"
            )

    def figures(self) -> list[str]:
        return [
            *(f"{what}: {self._same[what]} of {total}" for what, total in self._all.items()),
            f"tests that cannot run here: {self._left_out}",
        ]


Calls = list[dict[str, Any]]

# -- the two comparisons ----------------------------------------------------------------------


def compare_raised(test: str, plain: Calls, ours: Calls, result: Agreement) -> None:
    """The exception of ``fullgraph=True`` is our first break, or the failure if there is none."""
    result.check(test, "number of calls", len(plain), len(ours))
    for index, (one, other) in enumerate(zip(plain, ours, strict=False)):
        call, error = f"{test}[{index}]", one["error"]
        found = next((x for x in (*other["breaks"], other["error"]) if x is not None), None)
        if error is None:
            result.check(call, "fullgraph=True: nothing to find", None, found)
            continue
        if one["expected"] is not None:
            first = error["words"].split("\n")[0]
            result.check(call, "the file's first line", one["expected"], first)
        label = "fullgraph=True: "
        result.check(call, label + "found", error["words"], found and error["words"])
        if found is not None:
            words = found["words"].split(CHAINED)[0]
            result.check(call, label + "number", _number(error["words"]), found["number"])
            result.check(call, label + "words", error["words"], words)
            result.check(call, label + "stack", error["stack"], found["stack"])


def compare_logged(test: str, plain: Calls, ours: Calls, result: Agreement) -> None:
    """The log records of a call are our breaks, in order."""
    label = "fullgraph=False: "
    for index, (one, other) in enumerate(zip(plain, ours, strict=False)):
        call = f"{test}[{index}]"
        result.check(call, label + "how many", len(one["breaks"]), len(other["breaks"]))
        for logged, found in zip(one["breaks"], other["breaks"], strict=False):
            result.check(call, label + "number", _number(logged["words"]), found["number"])
            result.check(call, label + "words", logged["words"], found["words"])
            result.check(call, label + "outcome", logged["outcome"], found["outcome"])
            result.check(call, label + "place", logged["place"], found["stack"][-1][:2])
            if logged["stack"]:  # left out of repeated ones
                result.check(call, label + "stack", logged["stack"], found["stack"])


def _shown(value: Any) -> str:
    return str(value).replace("\n", "\n           ")


def _number(words: str) -> str:
    match = LINK.search(words)
    return f"GB{match[1]}" if match else ""


# -- running the file -------------------------------------------------------------------------


def run_file(path: str, role: str) -> dict[str, Any]:
    """Every test of the file in one role, each in a fork of this process."""
    import torch
    import torch._dynamo

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    stand_in()
    spec = importlib.util.spec_from_file_location("test_error_messages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    if role in ENGINE_ROLES:
        from fullgraph_engine import tracing

        tracing.warm_up()
    cases = [
        (case, name)
        for case in vars(module).values()
        if isinstance(case, type) and issubclass(case, Calm) and case is not Calm
        for name in unittest.defaultTestLoader.getTestCaseNames(case)
    ]
    return {name: forked(run_test, case, name, path, role, seconds=120) for case, name in cases}


def run_test(case: type[Calm], name: str, path: str, role: str) -> dict[str, Any]:
    import torch

    test = case(name)
    watch = Watch(path, role)
    nested = {"nested_graph_breaks": True} if issubclass(case, Nested) else {}
    original = torch.compile
    watch.compile = original
    torch.compile = watch.spied  # type: ignore[assignment]
    skipped = ""
    try:
        with torch._dynamo.config.patch(**nested):
            test.watch = watch
            getattr(test, name)()
    except unittest.SkipTest as reason:
        skipped = str(reason) or "skipped"
    except Exception as error:
        # The body was written for assertions that are not run.
        if not watch.calls:
            skipped = f"{type(error).__name__}: {error}"
    finally:
        torch.compile = original
    return {"calls": watch.calls, "skipped": skipped}


class Watch:
    """Stands in for ``torch.compile`` where the file calls it, and notes what comes of it."""

    def __init__(self, path: str, role: str) -> None:
        self.path, self.role = path, role
        self.compile: Callable[..., Any] = lambda: None
        self.calls: list[dict[str, Any]] = []
        self.expected: str | None = None

    def spied(self, model: Any = None, **options: Any) -> Any:
        caller = inspect.stack()[1].filename
        if caller != self.path:
            return self.compile(model, **options)
        if model is None:
            return lambda function: self.called(function, options)
        return self.called(model, options)

    def called(self, function: Any, options: dict[str, Any]) -> Callable[..., Any]:
        import torch

        whole = self.role == "raised"
        compiled = self.compile(function, **{**options, "fullgraph": whole})

        def call(*args: Any, **kwargs: Any) -> Any:
            note: dict[str, Any] = {"breaks": [], "error": None, "expected": self.expected}
            self.calls.append(note)
            if self.role in ("raised", "alone"):
                torch._dynamo.reset()
            if self.role in ENGINE_ROLES:
                traced(function, args, kwargs, note)
            else:
                try:
                    with logged(note["breaks"], self.path):
                        compiled(*args, **kwargs)
                except BaseException as error:
                    note["error"] = of_error(error)
            # What the rest of the test goes on with.
            with torch.compiler.set_stance("force_eager"), contextlib.suppress(BaseException):
                return function(*args, **kwargs)
            return None

        return call


def of_error(error: BaseException) -> dict[str, Any]:
    body, _, trace = str(error).partition("\n\nfrom user code:")
    body = body.partition("\n\nSet TORCHDYNAMO_VERBOSE")[0]
    return {"type": type(error).__name__, "words": steady(body), "stack": frames(trace)}


@contextlib.contextmanager
def logged(notes: list[dict[str, Any]], path: str) -> Iterator[None]:
    """What ``TORCH_LOGS=graph_breaks`` prints meanwhile."""
    import torch._logging

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            text = record.getMessage()
            head, _, rest = text.partition("Graph Break Reason: ")
            if not rest:
                if "cannot properly resume" in text and record.exc_info:
                    error = of_error(record.exc_info[1] or Exception())
                    stack = frames(text)
                    place = stack[-1][:2] if stack else ["", 0]
                    notes.append(
                        {**error, "stack": stack, "place": place, "outcome": "frame-skipped"}
                    )
                return
            reason, _, trace = rest.partition("\n\nUser code traceback:\n")
            # Where the values on Python's stack came from is added by the log, not by the break.
            reason = reason.partition("\n\nStack variable source attribution:")[0]
            trace = trace.partition("\nNOTE: ")[0]
            outcome = "resumed"
            for prefix, known in OUTCOMES.items():
                if reason.startswith(prefix):
                    outcome = known
                    reason = reason.partition("\n\n")[2]
            where = re.search(r"in user code at (?P<path>\S+):(?P<line>\d+)", head)
            assert where is not None, head
            notes.append(
                {
                    "words": steady(reason),
                    "outcome": outcome,
                    "stack": frames(trace),
                    "place": [Path(where["path"]).name, int(where["line"])],
                }
            )

    torch._logging.set_logs(graph_breaks=True)
    name = "torch._dynamo.symbolic_convert.__graph_breaks"
    loggers = [
        logging.getLogger(key)
        for key in list(logging.Logger.manager.loggerDict)
        if key.endswith(".__graph_breaks")
    ] or [logging.getLogger(name)]
    handler = Notes(logging.DEBUG)
    before = [(logger, logger.handlers[:]) for logger in loggers]
    for logger in loggers:
        logger.handlers = [handler]
    try:
        yield
    finally:
        for logger, handlers in before:
            logger.handlers = handlers


def frames(text: str) -> list[list[Any]]:
    """(file, line, function) of a printed traceback, below this file, as the user wrote them.

    Left out are Dynamo's polyfills and ``Module.__call__``, which stand between any two frames; a
    function that is continued behind a break is one frame, at its last line.
    """
    found: list[list[Any]] = []
    for match in FRAME.finditer(text):
        path, name = match["path"], match["name"]
        if path == __file__:
            found.clear()
            continue
        if "/torch/_dynamo/" in path:
            continue
        if path.endswith("/nn/modules/module.py") and name in PASSAGES:
            continue
        resumed = RESUMED.match(name)
        plain = resumed["name"] if resumed else name
        if resumed and found and found[-1][0] == Path(path).name and found[-1][2] == plain:
            found.pop()
        found.append([Path(path).name, int(match["line"]), plain])
    return found


PASSAGES = ("_wrapped_call_impl", "_call_impl", "inner")


def traced(function: Any, args: Any, kwargs: Any, note: dict[str, Any]) -> None:
    """The same call through the engine."""
    from torch._dynamo.exc import format_graph_break_message

    from fullgraph_engine import tracing

    with tracing.tensor_mode(False):
        recording = tracing.trace(function, args, kwargs)

    def words(causes: Any, operator: str = "") -> str:
        text = CHAINED.join(
            format_graph_break_message(
                cause.kind, cause.context, cause.explanation, list(cause.hints)
            )
            for cause in causes
        )
        if operator:
            text = text.replace("\n", f"\n  Higher Order Operator: {operator}\n", 1)
        return steady(text)

    def stack(entries: Any) -> list[list[Any]]:
        return [[Path(f.path).name, f.line + 1, f.function] for f in entries]

    for one in recording.breaks:
        note["breaks"].append(
            {
                "number": one.id,
                "words": words(one.causes, one.operator),
                "outcome": one.outcome,
                "stack": stack(one.stack),
            }
        )
    failure = recording.failure
    if failure is not None:
        text = steady(failure.message)
        if failure.causes:
            text = words(failure.causes, failure.operator)
        if failure.causes and failure.kind == "UncapturedHigherOrderOpError":
            text = f"{failure.message} Got graph break/error:\n\n{text}"
        note["error"] = {
            "type": failure.kind,
            "number": _number(text),
            "words": text,
            "stack": stack(failure.stack),
        }


def steady(words: str) -> str:
    """Without what differs from process to process."""
    words = re.sub(r"0x[0-9A-Fa-f]+", "0x", words)
    return "\n".join(line.rstrip() for line in words.strip().split("\n"))


# -- in place of PyTorch's test harness -------------------------------------------------------


class Calm(unittest.TestCase):
    """A test case that asserts nothing."""

    watch: Watch

    def assertExpectedInlineMunged(
        self, _kind: Any, call: Callable[[], Any], expected: str, **_options: Any
    ) -> None:
        self.watch.expected = expected.split("\n")[0]
        try:
            with contextlib.suppress(Exception):
                call()
        finally:
            self.watch.expected = None

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("assert") or name == "assertExpectedInlineMunged":
            return super().__getattribute__(name)
        if "Raises" in name or "Warns" in name:
            return lambda *args, **kwargs: contextlib.suppress(Exception)
        return lambda *args, **kwargs: None


class Nested(unittest.TestCase):
    """Marks the tests that run with ``nested_graph_breaks``."""


def stand_in() -> None:
    """The harness needs packages that torch does not bring, and asserts."""
    import torch._dynamo.testing

    def skipping(_function: Any) -> Any:
        def skip(*_args: Any, **_kwargs: Any) -> None:
            raise unittest.SkipTest("needs a C++ compiler")

        return skip

    def make_logging_test(**_options: Any) -> Any:
        def decorate(function: Any) -> Any:
            def test(self: Any) -> Any:
                return function(self, unittest.mock.MagicMock())

            return test

        return decorate

    def module(name: str, **members: Any) -> None:
        made = types.ModuleType(name)
        vars(made).update(members)
        sys.modules[name] = made
        parent, _, last = name.rpartition(".")
        if parent in sys.modules:
            setattr(sys.modules[parent], last, made)

    older = sys.version_info < (3, 12)
    module("torch._dynamo.test_case", TestCase=Calm, TestCaseWithNestedGraphBreaks=Nested)
    testing: Any = torch._dynamo.testing
    testing.skipIfNotPy312 = unittest.skipIf(older, "needs Python 3.12")
    testing.skipIfOnlyNotPy312 = unittest.skipIf(older, "needs Python 3.12")
    module("torch.testing._internal", __path__=[])
    module(
        "torch.testing._internal.common_utils",
        IS_FBCODE=False,
        munge_exc=lambda *args, **kwargs: "",
        scoped_load_inline=skipping,
    )
    module(
        "torch.testing._internal.logging_utils",
        LoggingTestCase=Calm,
        make_logging_test=make_logging_test,
    )


if __name__ == "__main__":
    sys.exit(main())
