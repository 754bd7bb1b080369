"""Rewrites of output, clocks and other effects, which compiled code cannot have and often does not
need.

With most of these rewrites, compiled code behaves differently; only reordering output is
equivalent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.names import descendants, find_all
from fullgraph.fixes.rewrites.syntax import (
    COMPILING,
    Small,
    Syntax,
    assigned_value,
    bound_variables,
    dotted_name,
    reads,
    targets,
    words,
)
from fullgraph.fixes.site import Change, Site

_OUTPUT = words(
    """
    print pprint.pprint rich.print warnings.warn warnings.warn_explicit warnings.simplefilter
    warnings.filterwarnings logging.debug logging.info logging.warning logging.warn
    logging.error logging.exception logging.critical logging.log sys.stdout.write
    sys.stderr.write sys.stdout.flush sys.stderr.flush tqdm.tqdm.write traceback.print_exc
    traceback.print_stack wandb.log
    """
)
_DEBUGGERS = frozenset(["breakpoint", "pdb.set_trace", "ipdb.set_trace", "IPython.embed"])
_SYNCHRONIZATION = words(
    """
    torch.cuda.synchronize torch.cuda.empty_cache torch.cuda.reset_peak_memory_stats
    torch.cuda.reset_max_memory_allocated gc.collect time.sleep torch.mps.synchronize
    torch.mps.empty_cache torch.xpu.synchronize torch.xpu.empty_cache
    torch.autograd.set_detect_anomaly
    """
)
_SEEDS = words(
    """
    torch.manual_seed torch.random.manual_seed torch.seed torch.cuda.manual_seed
    torch.cuda.manual_seed_all torch.set_rng_state torch.cuda.set_rng_state random.seed
    numpy.random.seed
    """
)
_LOGGING = words(
    """
    debug info warning warn error exception critical log warning_once
    """
)
_LOGGER = re.compile(r"(?i)^_*(?:get_?)?(?:\w+_)?log(?:ger|ging)?$")
_BARS = frozenset(["set_description", "set_postfix", "set_description_str", "set_postfix_str"])
_CLOCKS = words(
    """
    time.time time.perf_counter time.monotonic time.process_time time.thread_time time.time_ns
    time.perf_counter_ns time.monotonic_ns time.process_time_ns timeit.default_timer
    datetime.datetime.now datetime.datetime.utcnow torch.cuda.memory_allocated
    torch.cuda.max_memory_allocated torch.cuda.memory_reserved torch.cuda.max_memory_reserved
    """
)
_NUMBERS = _CLOCKS - {"datetime.datetime.now", "datetime.datetime.utcnow"}
"""Clocks that return a number, which a constant can replace."""
_PURE = words(
    """
    abs bool complex divmod dict float format getattr hasattr hex id int isinstance len list max
    min repr round set sorted str sum tuple type zip enumerate range
    """
)
_PURE_MODULES = ("math.", "numpy.", "torch.linalg.", "datetime.")
_QUERIES = words(
    """
    item tolist mean sum max min abs norm std var median float int long double bool half detach
    cpu numpy size dim numel shape clone any all count_nonzero isnan isinf isfinite argmax
    argmin unique nonzero format join total_seconds elapsed_time isoformat strftime upper lower
    strip square sqrt exp log reshape view flatten squeeze unsqueeze amax amin prod to round
    """
)
"""Methods of tensors and strings that do not change anything."""


def not_when_compiling(site: Site) -> Iterator[Candidate]:
    """Yield rewrites that skip statements in compiled code which only print, measure time or
    wait.
    """
    syntax = Syntax(site)
    small = syntax.small
    if small is None:
        return
    slice_ = _Slice(syntax)
    if not slice_.add(small.node):
        return
    what = sorted(slice_.kinds)
    lost = " and ".join(what) if len(what) < 3 else f"{', '.join(what[:-1])} and {what[-1]}"
    gives_up = f"Compiled code leaves out {lost}."
    if slice_.attributes:
        gives_up += f" It does not set {', '.join(slice_.attributes)}."
    if slice_.calls:
        gives_up += f" It does not make its calls of {', '.join(dict.fromkeys(slice_.calls))}."
    verb = "Print only" if what == ["this output"] else "Execute this only"
    yield Candidate(
        "not-when-compiling",
        f"{verb} when not compiling",
        syntax.guarded(slice_.nodes),
        gives_up=gives_up,
        is_same_eagerly=True,
    )


class _Slice:
    """A statement and all statements that read its results, to skip together if they only produce
    output.
    """

    def __init__(self, syntax: Syntax) -> None:
        self._syntax = syntax
        self.nodes: list[cst.BaseSmallStatement] = []
        self.kinds: set[str] = set()
        self.attributes: list[str] = []
        self.calls: list[str] = []
        """Calls in the arguments of output functions, which may have other effects."""

    def add(self, node: cst.BaseSmallStatement) -> bool:
        """Add a statement and all statements that read its results.

        Return False if some of them do more than output.
        """
        if any(node is one for one in self.nodes):
            return True
        kind = _lost_effect(self._syntax, node)
        if kind:
            self.nodes.append(node)
            self.kinds.add(kind)
            assert isinstance(node, cst.Expr) and isinstance(node.value, cst.Call)
            for arg in node.value.args:
                self.calls += _unknown_calls(self._syntax, arg.value)
            return True
        if isinstance(node, cst.AnnAssign) and node.value is None:
            return False
        value = assigned_value(node)
        if value is None or isinstance(node, cst.Expr) or not _is_pure(self._syntax, value):
            return False
        names: list[str] = []
        for target in targets(node):
            variables = bound_variables(target)
            if variables is None:
                # Elements of tensors may be visible to other code, and other code may read an
                # attribute.
                if not self._only_set(target, value):
                    return False
                self.attributes.append(f"`{self._syntax.site.code(target)}`")
                variables = []
            names += variables
        self.nodes.append(node)
        self.kinds.add("the time" if _has_clock(self._syntax, value) else "this value")
        return all(self._needed(name) for name in names)

    def _only_set(self, target: cst.BaseExpression, value: cst.BaseExpression) -> bool:
        """Whether an assignment only stores a number in an attribute of ``self`` that the module
        never reads.

        ``target`` is the attribute, or an entry of a dictionary in the attribute.
        """
        by_key = isinstance(target, cst.Subscript)
        attribute = target.value if isinstance(target, cst.Subscript) else target
        if not isinstance(attribute, cst.Attribute) or dotted_name(attribute.value) != "self":
            return False
        if not (_has_clock(self._syntax, value) if by_key else _is_number(self._syntax, value)):
            return False
        name = m.Attribute(attr=m.Name(attribute.attr.value))
        place = m.Subscript(value=name) | name
        stored = m.AssignTarget(place) | m.AnnAssign(place) | m.AugAssign(place)
        found = (m.findall(self._syntax.module, kind) for kind in (name, stored))
        return len({len(one) for one in found}) == 1

    def _needed(self, name: str) -> bool:
        function = self._syntax.function
        if function is None:
            return False
        for use in reads(function, name):
            small = self._syntax.small_of(use)
            if small is None:
                return False
            if any(small.node is one for one in self.nodes):
                continue
            if not _is_read(small, name) and not isinstance(small.node, (cst.Global, cst.Nonlocal)):
                continue
            if self._syntax.text.parent(use) is None or not self.add(small.node):
                return False
        return True


def _is_read(small: Small, name: str) -> bool:
    """Whether a statement reads the variable ``name``, and does not only assign it."""
    value = assigned_value(small.node)
    if isinstance(small.node, (cst.Assign, cst.AnnAssign)) and value is not None:
        stored = [target for target in targets(small.node) if bound_variables(target) is None]
        return any(reads(one, name) for one in (value, *stored))
    return True


def _lost_effect(syntax: Syntax, node: cst.BaseSmallStatement) -> str:
    """Describe the only effect of a statement, such as "printing"; empty if it has other
    effects.
    """
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return ""
    call = node.value
    name = syntax.called(call)
    if name in _OUTPUT:
        return "this output"
    if name in _DEBUGGERS:
        return "the debugger"
    if name in _SYNCHRONIZATION:
        return f"`{dotted_name(call.func)}`"
    if name in _SEEDS:
        return "this seed"
    if isinstance(call.func, cst.Attribute):
        method, owner = call.func.attr.value, call.func.value
        if isinstance(owner, cst.Call):
            owner = owner.func
        last = dotted_name(owner).rpartition(".")[2]
        if method in _LOGGING and _LOGGER.match(last):
            return "this output"
        if method in _BARS or (method.startswith("add_") and last in ("writer", "tb", "tb_writer")):
            return "this output"
    return ""


def watches(syntax: Syntax, node: cst.CSTNode) -> bool:
    """Whether a statement only prints, measures time, waits, or imports functions that do so."""
    if isinstance(node, (cst.Import, cst.ImportFrom)):
        return True
    return isinstance(node, cst.Expr) and bool(_lost_effect(syntax, node))


def _is_pure(syntax: Syntax, value: cst.BaseExpression) -> bool:
    """Whether evaluating an expression does not change anything visible to other code."""
    binds = (cst.Await, cst.Yield, cst.NamedExpr)
    if any(isinstance(node, binds) for node in descendants(value)):
        return False
    return not _unknown_calls(syntax, value)


def _is_query(call: cst.Call) -> bool:
    """Whether a call is a method of a tensor or string that does not change anything, such as
    ``mean``.
    """
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value not in _QUERIES:
        return False
    # ``self.norm(x)`` is a layer rather than a method of a tensor.
    owner = dotted_name(call.func.value).partition(".")
    return owner[0] != "self" or bool(owner[1] and not call.args)


def _unknown_calls(syntax: Syntax, value: cst.BaseExpression) -> list[str]:
    """Return the calls inside an expression that may change something, as source code."""
    found: list[str] = []
    for node in find_all(value, cst.Call):
        if not asks_only(syntax, node):
            found.append(f"`{syntax.site.code(node.func)}`")
    return list(dict.fromkeys(found))


def asks_only(syntax: Syntax, call: cst.Call) -> bool:
    """Whether a call, such as ``time.time()`` or ``len(x)``, only reads values and changes nothing
    that other code can see."""
    name = syntax.called(call)
    known = name in _PURE or name in _CLOCKS or name.startswith(_PURE_MODULES)
    return known or _is_query(call)


def _is_number(syntax: Syntax, value: cst.BaseExpression) -> bool:
    """Whether an expression seems to be a number or a string, and not a tensor."""
    if isinstance(value, cst.BinaryOperation):
        return _is_number(syntax, value.left) or _has_clock(syntax, value)
    if m.matches(value, m.Call(func=m.Attribute(attr=m.Name("item") | m.Name("format")))):
        return True
    if isinstance(value, cst.FormattedString):
        return True
    return syntax.called(value) in _CLOCKS | {"float", "int", "bool", "round", "len"}


def _has_clock(syntax: Syntax, value: cst.BaseExpression) -> bool:
    return any(syntax.called(node) in _CLOCKS for node in descendants(value))


def clock_without_time(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that replaces clock readings by zero in compiled code, in the whole
    function.
    """
    syntax = Syntax(site)
    if syntax.function is None or not any(syntax.calls(*_NUMBERS)):
        return
    changes: list[tuple[cst.CSTNode, Change]] = []
    for call in descendants(syntax.function.body):
        name = syntax.called(call)
        if name in _NUMBERS:
            zero = "0" if name.endswith("_ns") or name.startswith("torch.") else "0.0"
            code = f"{zero} if {COMPILING} else {site.code(call)}"
            changes.append((call, syntax.fitted(call, code)))
    clocks = " and ".join(sorted({f"`{site.code(call)}`" for call, _ in changes}))
    yield Candidate(
        "clock-when-not-compiling",
        "Read the clock only when not compiling",
        site.replaced(changes, imports=syntax.lacking("torch")),
        gives_up=f"In compiled code the result of {clocks} is zero.",
    )


def reordered_output(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that lets Dynamo call an output function, such as ``print``, after the graph.

    It adds the function to a list in Dynamo's settings.
    """
    syntax = Syntax(site)
    functions = sorted({syntax.called(node) for node in syntax.here} & _REORDERED)
    if syntax.small is not None and not functions:
        whole = assigned_value(syntax.small.node)
        functions = [syntax.called(whole)] if whole is not None else []
    for name in functions:
        if name not in _REORDERED:
            continue
        text = syntax.with_setting(
            f"torch._dynamo.config.reorderable_logging_functions.add({syntax.spelled(name)})"
        )
        if text is not None:
            yield Candidate(
                "reorder-output",
                f"Delay `{syntax.spelled(name)}` until the compiled graph has run",
                text,
                gives_up=(
                    f"In compiled code, all calls of `{syntax.spelled(name)}` in the program run "
                    "only after the graph around them."
                ),
            )


_REORDERED = frozenset(["print", "warnings.warn", "logging.info", "logging.warning"])


def ignored_logger(site: Site) -> Iterator[Candidate]:
    """Yield a rewrite that makes Dynamo ignore calls of a logging function.

    It adds the function to a list in Dynamo's settings.
    """
    syntax = Syntax(site)
    for call in syntax.here:
        if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute):
            continue
        owner, method = call.func.value, call.func.attr.value
        if method not in _LOGGING or not isinstance(owner, cst.Name):
            continue
        if not _LOGGER.match(owner.value) and syntax.name(owner) not in ("logging", "warnings"):
            continue
        line = f"torch._dynamo.config.ignore_logging_functions.add({site.code(call.func)})"
        text = _behind_definition(syntax, owner.value, line)
        if text is not None:
            yield Candidate(
                "ignore-logger",
                f"Let Dynamo ignore `{site.code(call.func)}`",
                text,
                gives_up=f"The compiled code does not call `{site.code(call.func)}`.",
            )


def _behind_definition(syntax: Syntax, name: str, line: str) -> str | None:
    """Return the new source code with the statement ``line`` added at module level.

    It comes after the assignment of ``name``, or after the imports; None if the file has neither.
    """
    if name in syntax.imported:
        return syntax.with_setting(line)
    for statement in syntax.module.body:
        if not isinstance(statement, cst.SimpleStatementLine):
            continue
        for node in statement.body:
            if any(name in (bound_variables(target) or ()) for target in targets(node)):
                return syntax.site.replaced(
                    [(statement, cst.FlattenSentinel([statement, syntax.line(line)]))],
                    imports=syntax.lacking("torch"),
                )
    return None
