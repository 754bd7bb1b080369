"""The page of what the cursor is on, or of what was asked for by name."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from fullgraph.domain.phrases import amount, listing
from fullgraph.operators.index import OperatorIndex
from fullgraph.operators.signature_text import annotation, label, parameter_text, returns_text
from fullgraph.operators.subject import Subject
from fullgraph.render.operators import sections
from fullgraph.render.operators.facts import facts_of, is_out
from fullgraph.render.operators.page import Called, OperatorPage, Section
from fullgraph_engine.protocol.operators import Name, Operator, Overload, Parameter, Signature

_TENSOR = "torch.Tensor."
_INCOMPLETE = "From the files of torch; the running torch has not been asked yet."


def page_of(index: OperatorIndex, subject: Subject, receiver: str = "") -> OperatorPage | None:
    """The page of a subject; None where the index knows nothing of it.

    ``receiver`` is the code in front of a method's name, to be named where it had to be guessed.
    """
    if subject.operator is not None:
        page = _operator(subject, subject.operator, subject.overload)
    elif subject.name is not None:
        page = _name(index, subject, subject.name)
    else:
        return None
    if subject.parameter:
        found = _parameter(page, subject)
        if found is None:
            return None
        page = found
    remarks = [*_certainty(subject, receiver), *page.remarks]
    if not index.header.complete:
        remarks.append(_INCOMPLETE)
    return dataclasses.replace(page, remarks=tuple(remarks))


# -- names ------------------------------------------------------------------------------------


def _name(index: OperatorIndex, subject: Subject, name: Name) -> OperatorPage:
    shown = _shown(subject.path)
    current = [signature for signature in name.signatures if not signature.deprecated]
    called = tuple(_called(index, current or name.signatures)) or tuple(_namesake(index, name))
    base = [one for one in called if not is_out(one.overload)] or called
    signatures = tuple(_signature(signature, shown) for signature in current)
    if not signatures or name.kind == "property":
        signatures = (_declaration(name, shown),)
    remarks = []
    if name.deprecated:
        remarks.append(f"Deprecated: {name.deprecated}")
    if name.path != subject.path:
        remarks.append(f"The same as `{name.path}`.")
    if name.kind == "module" and (members := index.members(name.path)):
        remarks.append(f"A module of {amount(len(members), 'name')}.")
    return OperatorPage(
        path=subject.path,
        kind=name.kind,
        signatures=signatures,
        summary=name.summary,
        remarks=tuple(remarks),
        facts=facts_of(base),
        sections=_filled(
            Section("Python", code=(f"{shown}{name.python}",) if current and name.python else ()),
            _deprecated(name.signatures, shown),
            sections.schemas(called),
            sections.aliasing(called),
            sections.kernels(called),
            sections.derivatives(base),
            sections.tags(base),
            Section("Calls", items=_listed(name.calls)),
            sections.names(called, subject.path, name.path),
        ),
        href=name.href,
        name=name,
        overloads=called,
    )


def _called(index: OperatorIndex, signatures: Sequence[Signature]) -> Iterator[Called]:
    """The overloads behind signatures, each once, those that write to ``out`` last."""
    paths = [*(s.operator for s in signatures), *(s.out for s in signatures)]
    for path in dict.fromkeys(filter(None, paths)):
        name, _, overload_name = path.partition(".")
        operator = index.operator(name)
        for overload in operator.overloads if operator is not None else ():
            if operator is not None and overload.name == overload_name:
                yield Called(operator, overload)


def _namesake(index: OperatorIndex, name: Name) -> Iterator[Called]:
    """For a binding made by hand, which does not say what it calls: the operator of its name.

    Upstream makes them by hand where generated code would not do for a function of that name in
    native_functions.yaml (``SKIP_PYTHON_BINDINGS``).
    """
    parent, _, leaf = name.path.rpartition(".")
    operator = index.operator(f"aten::{leaf}")
    if operator is None or not name.signatures or parent not in ("torch", "torch.Tensor"):
        return
    for overload in operator.overloads:
        if overload.origin in ("native", "generated"):
            yield Called(operator, overload)


def _signature(signature: Signature, shown: str) -> str:
    if not signature.structure:
        return label(signature, shown)[0]
    text, _ = label(dataclasses.replace(signature, returns=()), shown)
    fields = ", ".join(field.name for field in signature.returns)
    return f"{text} -> {signature.structure}({fields})"


def _declaration(name: Name, shown: str) -> str:
    """What to show of a name that no binding was generated for."""
    if name.kind in ("function", "method"):
        return f"{shown}{name.python or '(...)'}"
    if name.kind == "property" and name.signatures:
        return f"(property) {shown}: {returns_text(name.signatures[0].returns)}"
    return f"({name.kind.replace('_', ' ')}) {shown}{name.python}"


def _deprecated(signatures: Iterable[Signature], shown: str) -> Section:
    old = [signature for signature in signatures if signature.deprecated]
    return Section(
        "Deprecated forms",
        items=tuple(
            f"`{_without_types(signature, shown)}`"
            + (f": write `{signature.instead}`" if signature.instead else "")
            for signature in old
        ),
    )


def _without_types(signature: Signature, shown: str) -> str:
    bare = tuple(dataclasses.replace(p, type="", choices=()) for p in signature.parameters)
    return label(dataclasses.replace(signature, parameters=bare, returns=()), shown)[0]


def _shown(path: str) -> str:
    """``Tensor.max`` for a method of tensors, as the documentation of torch writes them."""
    return path.removeprefix("torch.") if path.startswith(_TENSOR) else path


# -- operators --------------------------------------------------------------------------------


def _operator(subject: Subject, operator: Operator, overload: Overload | None) -> OperatorPage:
    chosen = operator.overloads if overload is None else (overload,)
    called = tuple(Called(operator, one) for one in chosen)
    dispatched = [one for one in called if one.overload.origin != "torchscript"] or called
    base = [one for one in dispatched if not is_out(one.overload)] or dispatched
    return OperatorPage(
        path=subject.path,
        kind="operator" if overload is None else "overload",
        signatures=tuple(one.overload.schema for one in called),
        remarks=tuple(_advice(called)),
        facts=facts_of(base),
        sections=_filled(
            sections.aliasing(dispatched),
            sections.kernels(dispatched),
            sections.derivatives(base),
            sections.tags(base),
            sections.names(called),
        ),
        overloads=called,
    )


def _advice(called: Sequence[Called]) -> Iterator[str]:
    for place in dict.fromkeys(one.overload.place for one in called if one.overload.place):
        yield f"Registered at `{place}`."
    for one in called:
        if one.overload.fake == "missing" and one.overload.origin == "registered":
            yield (
                "Fake tensors cannot get through it: give it a fake kernel with "
                f'`@torch.library.register_fake("{one.full}")`.'
            )


# -- parameters -------------------------------------------------------------------------------


def _parameter(page: OperatorPage, subject: Subject) -> OperatorPage | None:
    """The page of a keyword argument: what it takes, and which signatures have it."""
    name = page.name
    wanted = subject.parameter
    current = [s for s in name.signatures if not s.deprecated] if name is not None else []
    found = [(s, p) for s in current for p in s.parameters if p.name == wanted]
    texts = [parameter_text(parameter) for _, parameter in found]
    if not found:
        texts = list(_declared(page, wanted))
    if not texts:
        return None
    shown = _shown(page.path)
    remarks = [f"A parameter of `{shown}`{_where(current, found)}."]
    remarks += dict.fromkeys(words for _, p in found for words in _rules(p))
    documented = name.documented_choices(wanted) if name is not None else ()
    if documented and not any(parameter.choices for _, parameter in found):
        remarks.append(f"Documented values: {listing(f'`{value}`' for value in documented)}.")
    having = tuple(_signature(signature, shown) for signature, _ in found)
    return OperatorPage(
        path=f"{page.path}({wanted})",
        kind="parameter",
        signatures=tuple(dict.fromkeys(texts)),
        remarks=tuple(remarks),
        sections=_filled(Section("Signatures", code=having, numbered=len(having) > 1)),
        href=page.href,
        name=name,
    )


def _declared(page: OperatorPage, wanted: str) -> Iterator[str]:
    """The parameter as Python source or a schema declares it."""
    if page.name is not None:
        yield from _of_source(page.name.python, wanted)
    for called in page.overloads if page.name is None else ():
        schema = sections.schema_of(called.overload)
        for argument in schema.arguments if schema is not None else ():
            if argument.name == wanted:
                default = f"={argument.default}" if argument.default else ""
                yield f"{argument.type} {argument.name}{default}"


def _of_source(python: str, wanted: str) -> Iterator[str]:
    try:
        (function,) = ast.parse(f"def f{python}: ...").body
    except (SyntaxError, ValueError):
        return
    if not isinstance(function, ast.FunctionDef):
        return
    given = function.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults))
    pairs = zip(
        [*positional, *given.kwonlyargs],
        [*defaults, *given.defaults, *given.kw_defaults],
        strict=True,
    )
    for argument, default in pairs:
        if argument.arg == wanted:
            equals = " = " if argument.annotation else "="
            yield ast.unparse(argument) + (f"{equals}{ast.unparse(default)}" if default else "")


def _where(current: Sequence[Signature], found: Sequence[tuple[Signature, Parameter]]) -> str:
    if not found or len(current) == 1 or len(found) == len(current):
        return ""
    numbers = [str(current.index(signature) + 1) for signature, _ in found]
    plural = "s" if len(numbers) > 1 else ""
    return f", in signature{plural} {listing(numbers)} of {len(current)}"


def _rules(parameter: Parameter) -> Iterator[str]:
    """What its declaration does not say."""
    if parameter.variadic:
        yield "Its items may be given as separate arguments."
    elif parameter.size == 1:
        yield "A single number stands for a list with it alone."
    elif parameter.size:
        yield f"A single number stands for a list of {parameter.size} of it."
    if parameter.choices:
        yield f"One of {listing(f'`{choice}`' for choice in parameter.choices)}."
    elif not annotation(parameter):
        yield "Its type is not known."


# -- remarks ----------------------------------------------------------------------------------


def _certainty(subject: Subject, receiver: str) -> Iterator[str]:
    leaf = subject.path.rpartition(".")[2]
    if subject.certainty == "traced":
        yield "The receiver was a Tensor when this was last traced."
    elif subject.certainty == "unambiguous":
        yield f"Taken for a Tensor's method: no other known class has a `{leaf}`."
    elif subject.certainty == "guess":
        what = f"`{receiver}`" if receiver else "the receiver"
        yield f"A guess: {what} was not traced; `torch.Tensor` has a method of this name."


def _listed(paths: Iterable[str]) -> tuple[str, ...]:
    shown = ", ".join(f"`{path}`" for path in paths)
    return (shown,) if shown else ()


def _filled(*found: Section) -> tuple[Section, ...]:
    return tuple(section for section in found if section.code or section.items)
