"""Python's own functions and statements that Dynamo does not trace, by others that it does."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import libcst as cst
import libcst.matchers as m

from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.rewrites.effects import asks_only, watches
from fullgraph.fixes.rewrites.names import descendants
from fullgraph.fixes.rewrites.operands import is_shape, is_size
from fullgraph.fixes.rewrites.syntax import (
    COMPILING,
    Syntax,
    arguments,
    bound,
    callee,
    dotted,
    import_name,
    names_in,
    targets,
    words,
)
from fullgraph.fixes.site import Change, Replacing, Site


def random_numbers(site: Site) -> Iterator[Candidate]:
    """``random.random()`` by a function that Dynamo knows, which draws the same number."""
    syntax = Syntax(site)
    if syntax.imported.get("random") != "random":
        return
    for call in syntax.calls("random.random"):
        yield Candidate(
            "random-uniform",
            "Draw by `random.uniform`",
            # Its definition is ``a + (b - a) * random()``, which is exact for 0 and 1.
            syntax.replaced(call, "random.uniform(0.0, 1.0)"),
            preserves=True,
        )
        return


def copies(site: Site) -> Iterator[Candidate]:
    """``copy.deepcopy`` of tensors by ``clone``."""
    syntax = Syntax(site)
    for call in syntax.calls("copy.deepcopy", "copy.copy"):
        given = arguments(call)
        if given is None or len(given) != 1:
            continue
        of = syntax.operand(given[0])
        if syntax.called(call) == "copy.copy":
            yield Candidate(
                "clone", "Share the data by `detach`", syntax.replaced(call, f"{of}.detach()")
            )
            return
        for code in (f"{of}.detach().clone()", f"{of}.clone()"):
            yield Candidate("clone", f"Copy by `{code[len(of) :]}`", syntax.replaced(call, code))
        each = (
            f"torch.utils._pytree.tree_map_only(torch.Tensor, lambda leaf: leaf.detach().clone(),"
            f" {site.code(given[0])})"
        )
        yield Candidate(
            "clone",
            "Copy the tensors in it by `clone`",
            syntax.replaced(call, each, torch=True),
            gives_up="What is neither a tensor nor a list, a tuple or a dict is not copied.",
        )
        return


def sorted_tensors(site: Site) -> Iterator[Candidate]:
    """``sorted(tensors)`` and ``sorted(tensor)`` by ``torch.sort``, which makes tensors anew."""
    syntax = Syntax(site)
    title = getattr(site.finding.evidence, "title", "")
    if "sort with" not in title and "builtin sorted" not in site.finding.context:
        return
    for call in syntax.calls("sorted"):
        if len(call.args) == 1 and not call.args[0].star:
            value = call.args[0].value
            for made in (syntax.operand(value), f"torch.stack({site.code(value)})"):
                yield Candidate(
                    "sort-tensors",
                    "Sort by `torch.sort`",
                    syntax.replaced(call, f"list({made}.sort().values)", torch=True),
                    loses=("aliasing",),
                )


def unique_numbers(site: Site) -> Iterator[Candidate]:
    """``np.unique`` of numbers as a sorted list: an array is a tensor to Dynamo, whose elements are
    data."""
    syntax = Syntax(site)
    names = {one.value for one in syntax.here if isinstance(one, cst.Name)}
    for small in m.findall(syntax.function, m.Assign()) if syntax.function is not None else ():
        assert isinstance(small, cst.Assign)
        value = small.value
        if m.matches(value, m.Call(m.Attribute(m.Call(), m.Name("astype")))):
            value = cst.ensure_type(cst.ensure_type(value, cst.Call).func, cst.Attribute).value
        given = arguments(value) if isinstance(value, cst.Call) else None
        stored = {name for target in targets(small) for name in bound(target) or ()}
        if syntax.called(value) == "numpy.unique" and given and len(given) == 1 and stored & names:
            yield Candidate(
                "unique-numbers",
                "Sort a set of numbers in place of `np.unique`",
                site.replaced(
                    [(small.value, syntax.expression(f"sorted(set({site.code(given[0])}))"))]
                ),
                gives_up="It is a list, and one number alone is an error.",
            )
            return


def numpy_numbers(site: Site) -> Iterator[Candidate]:
    """An attribute that a constructor works out with NumPy, whose numbers are tensors to Dynamo, as
    a number of Python."""
    syntax = Syntax(site)
    if not site.finding.code.startswith("graph-break"):
        return
    read = {dotted(one) for one in syntax.here if isinstance(one, cst.Attribute)}
    for constructor in site.constructors:
        made: set[str] = set()
        for small in m.findall(constructor.body, m.Assign()):
            assert isinstance(small, cst.Assign)
            if not any(
                syntax.called(one).startswith("numpy.")
                or (isinstance(one, cst.Name) and one.value in made)
                for one in descendants(small.value)
            ):
                continue
            places = targets(small)
            made |= {name for place in places for name in bound(place) or ()}
            attributes = [dotted(one) for one in places if isinstance(one, cst.Attribute)]
            name = next((one for one in attributes if one in read), None)
            if name is None:
                continue
            value = f"{syntax.spelled('numpy.asarray')}({site.code(small.value)}).item()"
            yield Candidate(
                "python-number",
                f"Make a number of Python of `{name}`",
                site.replaced([(small.value, syntax.expression(value))]),
                gives_up=f"`{name}` is a number of Python in place of NumPy's.",
                loses=("state",),
            )


def listed_generator(site: Site) -> Iterator[Candidate]:
    """``max(f(x) for x in xs)`` with a list: these functions come to the end of it anyway."""
    syntax = Syntax(site)
    for call in syntax.calls("max", "min", "sum", "sorted", "list", "tuple", "set", "dict"):
        made = call.args[0].value if call.args else None
        if isinstance(made, cst.GeneratorExp) and not call.args[0].star:
            listed = cst.ListComp(made.elt, made.for_in)
            yield Candidate(
                "list-generator",
                "Make a list of it first",
                syntax.replaced(made, site.code(listed)),
                preserves=True,
            )
            return


def rounded(site: Site) -> Iterator[Candidate]:
    """``round(tensor, 2)`` by ``torch.round``, which is what it calls."""
    syntax = Syntax(site)
    if "__round__" not in site.finding.context:
        return
    for call in syntax.calls("round"):
        given = arguments(call)
        if given is None or len(given) not in (1, 2):
            continue
        decimals = f", decimals={site.code(given[1])}" if len(given) == 2 else ""
        code = f"torch.round({site.code(given[0])}{decimals})"
        text = syntax.replaced(call, code, torch=True)
        yield Candidate("torch-round", "Round by `torch.round`", text)
        return


_FAMILIES = words(
    """
    bernoulli beta binomial categorical dirichlet exponential gamma geometric gumbel laplace
    multivariatenormal normal poisson uniform onehotcategorical independent transformed
    """
)


def divergences(site: Site) -> Iterator[Candidate]:
    """``kl_divergence(p, q)`` by the function that torch registers for the two families."""
    syntax = Syntax(site)
    for call in syntax.calls(
        "torch.distributions.kl_divergence", "torch.distributions.kl.kl_divergence"
    ):
        mentioned = {name.lower() for name in names_in(site.module)}
        for family in sorted(_FAMILIES & mentioned):
            code = f"torch.distributions.kl._kl_{family}_{family}"
            yield Candidate(
                "kl-of-families",
                f"Call what `kl_divergence` calls for two of `{family}`",
                syntax.replaced(call.func, code, torch=True),
                gives_up="It is for these two distributions alone.",
            )
        return


def inner_class(site: Site) -> Iterator[Candidate]:
    """A class that a function defines, moved in front of the function."""
    if "__build_class__" not in getattr(site.finding.evidence, "title", ""):
        return
    syntax = Syntax(site)
    start = syntax.text.offset(site.finding.range.start)
    defined: cst.ClassDef | None = site.enclosing(cst.ClassDef)
    if defined is None:
        defined = syntax.text.smallest(cst.ClassDef, start, start)
    if defined is None:
        return
    path = list(syntax.text.ancestors(defined))
    function = next((node for node in path if isinstance(node, cst.FunctionDef)), None)
    top = next((node for node in path if node in site.module.body), None)
    if function is None or top is None or isinstance(path[0], cst.Module):
        return
    if names_in(defined) & _locals(function, defined):
        return
    block = syntax.text.parent(defined)
    alone = isinstance(block, cst.IndentedBlock) and len(block.body) == 1
    rest: Change = cst.parse_statement("pass") if alone else cst.RemoveFromParent()
    remaining = top.visit(Replacing([(defined, rest)]))
    for body in (defined.body, _named(defined, path)):
        moved = defined.with_changes(
            body=body, leading_lines=[cst.EmptyLine(indent=False), *defined.leading_lines]
        )
        yield Candidate(
            "move-class",
            f"Define `{defined.name.value}` once, outside of the function",
            site.replaced([(top, cst.FlattenSentinel([moved, remaining]))]),
        )


def _named(defined: cst.ClassDef, path: Sequence[cst.CSTNode]) -> cst.IndentedBlock:
    """The body of a class with the qualified name that it has in functions."""
    parts = [defined.name.value]
    for node in path:
        if isinstance(node, cst.FunctionDef):
            parts.append("<locals>")
        if isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            parts.append(node.name.value)
    name = cst.parse_statement(f'__qualname__ = "{".".join(reversed(parts))}"')
    if isinstance(defined.body, cst.IndentedBlock):
        return defined.body.with_changes(body=_behind_docstring(defined.body, [name]))
    assert isinstance(defined.body, cst.SimpleStatementSuite)
    return cst.IndentedBlock([name, cst.SimpleStatementLine(defined.body.body)])


def _behind_docstring(
    block: cst.IndentedBlock, lines: Sequence[cst.BaseStatement]
) -> list[cst.BaseStatement]:
    """The statements of a body with others before them, but behind its docstring."""
    first, *rest = block.body
    text = isinstance(first, cst.SimpleStatementLine) and m.matches(
        first.body[0], m.Expr(m.SimpleString())
    )
    return [first, *lines, *rest] if text else [*lines, first, *rest]


def _locals(function: cst.FunctionDef, without: cst.ClassDef) -> set[str]:
    """Names that a function may bind, other than in one of its classes."""
    found: set[str] = set()
    inside = {id(node) for node in descendants(without)}
    for node in descendants(function):
        if id(node) in inside:
            continue
        if isinstance(node, cst.Param):
            found.add(node.name.value)
        elif isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.NamedExpr, cst.For)):
            found |= names_in(node.target)
        elif isinstance(node, (cst.FunctionDef, cst.ClassDef)):
            found.add(node.name.value)
        elif isinstance(node, cst.ImportAlias):
            found.add(import_name(node))
    return found


_DISABLED = re.compile(r"<(?:bound method|function) (?:\w+\.|<locals>\.)*(\w+)")
_DELAYED = "Unsupported function call (delayed)"
_DISABLING = frozenset(["torch.compiler.disable", "torch._dynamo.disable", "torch._dynamo.skip"])


def disabled_by_decorator(site: Site) -> Iterator[Candidate]:
    """A function of the file that is kept from being compiled, without what does that."""
    title = getattr(site.finding.evidence, "title", "")
    if "disable" not in title and title != _DELAYED:
        return
    syntax = Syntax(site)
    # Of a module that was disabled, Dynamo does not say which it is.
    names = _disabled_names(syntax) if title != _DELAYED else names_in(site.module)
    found = [one for node in descendants(site.module) for one in _enabled(syntax, node, names)]
    yield from (_let_compile(site, [one]) for one in found)
    if found and _calls_argument(syntax):
        # Calls with other functions of the file are the same finding.
        names = names_in(site.module)
        found = [one for node in descendants(site.module) for one in _enabled(syntax, node, names)]
        if len(found) > 1:
            yield _let_compile(site, found)


def _let_compile(site: Site, disabled: Sequence[tuple[str, cst.CSTNode, Change]]) -> Candidate:
    names = _listed(f"`{name}`" for name, _, _ in disabled)
    by = _listed(dict.fromkeys(f"`{_short(site, old)}`" for _, old, _ in disabled))
    return Candidate(
        "enable",
        f"Let {names} be compiled",
        site.replaced([(old, new) for _, old, new in disabled]),
        gives_up=f"{names} {'is' if len(disabled) == 1 else 'are'} compiled, which {by} prevented.",
    )


def _listed(words: Iterable[str]) -> str:
    *rest, last = words
    return f"{', '.join(rest)} and {last}" if rest else last


def _calls_argument(syntax: Syntax) -> bool:
    """Whether the break is in a call of what the function was given."""
    given = syntax.function.params if syntax.function is not None else None
    parameters = m.findall(given, m.Param()) if given is not None else ()
    called = {dotted(one.func) for one in syntax.here if isinstance(one, cst.Call)}
    return any(isinstance(one, cst.Param) and one.name.value in called for one in parameters)


def _disabled_names(syntax: Syntax) -> set[str]:
    """What the function may be called that the finding is about."""
    match = _DISABLED.search(syntax.site.finding.context)
    names = {match.group(1)} if match else set()
    called = [node.func for node in syntax.here if isinstance(node, cst.Call)]
    return names | {dotted(one).rpartition(".")[2] for one in called} - {""}


def _enabled(
    syntax: Syntax, node: cst.CSTNode, names: set[str]
) -> Iterator[tuple[str, cst.CSTNode, Change]]:
    """The name of a function that something here disables, what does that, and what is left."""
    if isinstance(node, cst.FunctionDef) and node.name.value in names:
        for decorator in node.decorators:
            if _disables(syntax, decorator.decorator):
                yield node.name.value, decorator, cst.RemoveFromParent()
    if isinstance(node, cst.Call) and node.args and _disables(syntax, node.func):
        # ``step = disable(step)``, and ``disable(step)(x)``.
        value, parent = node.args[0].value, syntax.text.parent(node)
        given = dotted(value).rpartition(".")[2]
        stored = targets(parent) if isinstance(parent, cst.Assign) else []
        bound_to = {dotted(one).rpartition(".")[2] for one in stored}
        if not node.args[0].keyword and given and ({given} | bound_to) & names:
            yield given, node, value


def _disables(syntax: Syntax, node: cst.BaseExpression) -> bool:
    """Whether this is one of torch's functions that disable, or of the file's that call one."""
    name = syntax.name(callee(node))
    if name in _DISABLING:
        return True
    for one in syntax.module.body:
        if isinstance(one, cst.FunctionDef) and one.name.value == name:
            return any(syntax.name(inner) in _DISABLING for inner in descendants(one.body))
        small = one.body[0] if isinstance(one, cst.SimpleStatementLine) else None
        if isinstance(small, cst.Assign) and name in map(dotted, targets(small)):
            return any(syntax.name(inner) in _DISABLING for inner in descendants(small.value))
    return False


def _short(site: Site, node: cst.CSTNode) -> str:
    decorated = node.decorator if isinstance(node, cst.Decorator) else node
    return site.code(decorated.func if isinstance(decorated, cst.Call) else decorated)


def watching_call(site: Site) -> Iterator[Candidate]:
    """A call of a disabled function of the file that only keeps what it sees for others."""
    if "disable" not in getattr(site.finding.evidence, "title", ""):
        return
    syntax = Syntax(site)
    small = syntax.small
    if small is None or not isinstance(small.node, cst.Expr):
        return
    names = _disabled_names(syntax)
    for node in descendants(site.module):
        if not isinstance(node, cst.FunctionDef) or node.name.value not in names:
            continue
        kept = _only_watched(site, node)
        if kept is None:
            continue
        what = f"`{node.name.value}`"
        yield Candidate(
            "not-when-compiling",
            f"Call {what} only when not compiling",
            syntax.guarded([small.node]),
            gives_up=f"The compiled code does not call {what}{_unchanged(kept)}.",
        )


def watching_function(site: Site) -> Iterator[Candidate]:
    """A function that only keeps or writes what it sees: it returns at once in compiled code."""
    syntax = Syntax(site)
    function = syntax.function if syntax.around or syntax.small is not None else None
    if function is None or function.name.value in ("forward", "__init__", "__call__"):
        return
    leaves = (cst.Yield, cst.Await)
    if any(
        isinstance(one, leaves) or (isinstance(one, cst.Return) and one.value is not None)
        for one in descendants(function.body)
    ):
        return
    kept = _only_watched(site, function)
    if kept is None or not isinstance(function.body, cst.IndentedBlock):
        return
    made = cst.parse_statement(
        f"if {COMPILING}:\n    return\n", config=site.module.config_for_parsing
    )
    assert isinstance(made, cst.If)
    new = _behind_docstring(function.body, [made])
    what = f"`{function.name.value}`"
    yield Candidate(
        "return-when-compiling",
        f"Leave {what} at once when compiling",
        site.replaced(
            [(function.body, function.body.with_changes(body=new))],
            imports=syntax.lacking("torch"),
        ),
        gives_up=f"The compiled code does not do what {what} does{_unchanged(kept)}.",
    )


def _unchanged(kept: list[str]) -> str:
    told = ", ".join(f"`{one}`" for one in kept)
    return f", so that it does not change {told}" if told else ""


def _only_watched(site: Site, function: cst.FunctionDef) -> list[str] | None:
    """What a function keeps, where nothing else in the file reads it; None if something does, or
    it may change something else."""
    functions: list[cst.FunctionDef] = []
    kept = _kept(Syntax(site), function, functions)
    if kept is None or any(_read_elsewhere(site.module, functions, one) for one in kept):
        return None
    return kept


_WRITING = words("torch.save numpy.save numpy.savez json.dump pickle.dump wandb.log")
_NOTING = words(
    """
    append extend insert pop popleft add get items keys values setdefault update clear exists
    is_file is_dir mkdir write flush close replace startswith endswith split
    add_scalar add_scalars add_histogram add_image log_metric
    """
)
"""Methods that change nothing but the object that they belong to."""


def _kept(
    syntax: Syntax, function: cst.FunctionDef, functions: list[cst.FunctionDef]
) -> list[str] | None:
    """Attributes and globals that a function changes; None if it may change something else.
    ``functions`` gets it, and those of the file that it calls."""
    functions.append(function)
    own = {one.name.value for one in descendants(function.params) if isinstance(one, cst.Param)}
    found: dict[str, None] = {}
    for node in descendants(function.body):
        places: list[cst.BaseExpression] = []
        if isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)):
            places = [one for one in targets(node) if not isinstance(one, (cst.Name, cst.Tuple))]
        elif isinstance(node, cst.Call):
            name, owner = syntax.called(node), getattr(node.func, "value", None)
            statement = cst.Expr(node)
            if asks_only(syntax, node) or name in _WRITING or watches(syntax, statement):
                continue
            if isinstance(node.func, cst.Name) or dotted(owner) == "self":
                inner = _of_function(syntax, name.rpartition(".")[2], functions)
                if inner is None:
                    return None
                found |= dict.fromkeys(inner)
            elif isinstance(node.func, cst.Attribute) and node.func.attr.value in _NOTING:
                places = [node.func.value]
            elif not name.startswith("os."):
                return None
        for place in places:
            while isinstance(place, (cst.Subscript, cst.Call)):
                place = place.value if isinstance(place, cst.Subscript) else place.func
            kept = dotted(place).rpartition(".")[2]
            if not kept or kept in own:
                return None
            found[kept] = None
    return list(found)


def _of_function(syntax: Syntax, name: str, functions: list[cst.FunctionDef]) -> list[str] | None:
    """The same of a function or a method of the file; None if there is none, or several."""
    called = [
        one
        for one in descendants(syntax.module)
        if isinstance(one, cst.FunctionDef) and one.name.value == name
    ]
    if len(called) != 1:
        return None
    return [] if called[0] in functions else _kept(syntax, called[0], functions)


def _read_elsewhere(module: cst.Module, functions: Sequence[cst.FunctionDef], name: str) -> bool:
    """Whether anything but these functions, and an assignment, mentions a name or an attribute."""
    if any(
        isinstance(one, cst.SimpleString) and one.raw_value == name for one in descendants(module)
    ):
        return True  # a buffer, or the like
    known = {id(node) for one in functions for node in descendants(one)}
    for node in descendants(module):
        stored = targets(node) if isinstance(node, (cst.Assign, cst.AnnAssign)) else []
        places = [one for one in stored if dotted(one).rpartition(".")[2] == name]
        if isinstance(node, cst.ImportAlias):
            places = [node.name, *([node.asname.name] if node.asname is not None else [])]
        known |= {id(inner) for one in places for inner in descendants(one)}
    mentioned = (one for one in descendants(module) if isinstance(one, cst.Name))
    return any(one.value == name and id(one) not in known for one in mentioned)


def products(site: Site) -> Iterator[Candidate]:
    """``np.prod`` of sizes by ``math.prod``."""
    syntax = Syntax(site)
    for call in syntax.calls("numpy.prod"):
        given = arguments(call)
        if given is None or len(given) != 1:
            continue
        parent = syntax.text.parent(call)
        outer = syntax.text.parent(parent) if isinstance(parent, cst.Arg) else None
        is_int = isinstance(outer, cst.Call) and syntax.called(outer) == "int"
        old = outer if is_int and isinstance(outer, cst.Call) and len(outer.args) == 1 else call
        code = f"math.prod({site.code(given[0])})"
        yield Candidate(
            "math-prod",
            "Multiply by `math.prod`",
            site.replaced([(old, syntax.expression(code))], imports=syntax.lacking("math")),
            # Sizes are integers, and so is their product then.
            preserves=old is outer and is_shape(given[0]),
        )
        return


_ARANGE = frozenset(["torch.arange", "numpy.arange"])
_INTEGERS = words("int torch.int torch.int32 torch.int64 torch.long numpy.int32 numpy.int64")


def ranges(site: Site) -> Iterator[Candidate]:
    """The numbers of ``torch.arange(…).tolist()`` by ``range``, where they are integers."""
    syntax = Syntax(site)
    for call in syntax.here:
        made = _before_tolist(call)
        if made is None or syntax.called(made) not in _ARANGE:
            continue
        given = [one.value for one in made.args if one.keyword is None and not one.star]
        options = {one.keyword.value: one.value for one in made.args if one.keyword is not None}
        if len(given) + len(options) != len(made.args) or not 1 <= len(given) <= 3:
            return
        if not options.keys() <= {"dtype", "device"} or any(map(_may_be_fraction, given)):
            return
        if "dtype" in options and syntax.name(options["dtype"]) not in _INTEGERS:
            return
        code = f"list(range({', '.join(map(site.code, given))}))"
        yield Candidate(
            "range",
            "Count by `range`",
            syntax.replaced(call, code),
            preserves=len(given) == 1
            and (isinstance(given[0], cst.Integer) or is_size(syntax, given[0])),
            # `arange` raises where the end is before the start.
            extends=True,
        )
        return


def _before_tolist(node: cst.CSTNode) -> cst.Call | None:
    """The call whose result ``.tolist()`` is called of here."""
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute):
        made = node.func.value
        if node.func.attr.value == "tolist" and isinstance(made, cst.Call):
            return made
    return None


def _may_be_fraction(node: cst.CSTNode) -> bool:
    """Whether an expression shows that it may be no integer."""
    return any(
        isinstance(one, (cst.Float, cst.Divide))
        or (isinstance(one, cst.Name) and one.value == "float")
        for one in descendants(node)
    )
