"""Build the documentation page of a Python name of torch, an operator or a parameter."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from fullgraph.domain.phrases import amount, listing
from fullgraph.operators.index import OperatorIndex
from fullgraph.operators.signature_text import (
    parameter_annotation,
    parameter_text,
    returns_text,
    signature_label,
)
from fullgraph.operators.subject import Subject
from fullgraph.render.operators import sections
from fullgraph.render.operators.facts import facts_of, is_out
from fullgraph.render.operators.page import CalledOverload, OperatorPage, PageSection, non_empty
from fullgraph_engine.protocol.operators import Name, Operator, Overload, Parameter, Signature

_TENSOR = "torch.Tensor."
_INCOMPLETE = (
    "These signatures were read from torch's files and not yet compared with the imported torch."
)


def page_of(index: OperatorIndex, subject: Subject, receiver: str = "") -> OperatorPage | None:
    """Return the documentation page of a name, operator or parameter; None if the index of torch
    lacks it.

    ``receiver`` is the code before a method's name, such as ``x`` in ``x.max``. The page quotes it
    if its type was guessed.
    """
    if subject.operator is not None:
        page = _operator_page(subject, subject.operator, subject.overload)
    elif subject.name is not None:
        page = _name_page(index, subject, subject.name)
    else:
        return None
    if subject.parameter:
        found = _parameter_page(page, subject)
        if found is None:
            return None
        page = found
    remarks = [*_certainty_remarks(subject, receiver), *page.remarks]
    if not index.header.complete:
        remarks.append(_INCOMPLETE)
    return dataclasses.replace(page, remarks=tuple(remarks))


# -- names ------------------------------------------------------------------------------------


def _name_page(index: OperatorIndex, subject: Subject, name: Name) -> OperatorPage:
    display_name = _display_path(subject.path)
    current = [signature for signature in name.signatures if not signature.deprecated]
    called = tuple(_called_overloads(index, current or name.signatures)) or tuple(
        _namesake_overloads(index, name)
    )
    base = [call for call in called if not is_out(call.overload)] or called
    signatures = tuple(_signature_text(signature, display_name) for signature in current)
    if not signatures or name.kind == "property":
        signatures = (_declaration_text(name, display_name),)
    remarks = []
    if name.deprecated:
        remarks.append(f"Deprecated: {name.deprecated}")
    if name.path != subject.path:
        remarks.append(f"Another name for `{name.path}`.")
    if name.kind == "module" and (members := index.members(name.path)):
        remarks.append(f"A module of {amount(len(members), 'name')}.")
    return OperatorPage(
        path=subject.path,
        kind=name.kind,
        signatures=signatures,
        summary=name.summary,
        remarks=tuple(remarks),
        facts=facts_of(base),
        sections=non_empty(
            PageSection(
                "Python", code=(f"{display_name}{name.python}",) if current and name.python else ()
            ),
            _deprecated_section(name.signatures, display_name),
            sections.schemas_section(called),
            sections.aliasing_section(called),
            sections.kernels_section(called),
            sections.derivatives_section(base),
            sections.tags_section(base),
            PageSection("Calls", items=_list_paths(name.calls)),
            sections.names_section(called, subject.path, name.path),
        ),
        href=name.href,
        name=name,
        overloads=called,
    )


def _called_overloads(
    index: OperatorIndex, signatures: Sequence[Signature]
) -> Iterator[CalledOverload]:
    """Yield the operator overloads that the signatures call, without repetitions; variants with
    ``out`` come last."""
    paths = [*(s.operator for s in signatures), *(s.out for s in signatures)]
    for path in dict.fromkeys(filter(None, paths)):
        name, _, overload_name = path.partition(".")
        operator = index.operator(name)
        for overload in operator.overloads if operator is not None else ():
            if operator is not None and overload.name == overload_name:
                yield CalledOverload(operator, overload)


def _namesake_overloads(index: OperatorIndex, name: Name) -> Iterator[CalledOverload]:
    """Yield the overloads of the operator with the same name as a function with a handwritten
    binding.

    A handwritten binding does not show which operators it calls. PyTorch writes a binding by hand
    where generated code would not suit the function (``SKIP_PYTHON_BINDINGS``).
    """
    parent, _, leaf = name.path.rpartition(".")
    operator = index.operator(f"aten::{leaf}")
    if operator is None or not name.signatures or parent not in ("torch", "torch.Tensor"):
        return
    for overload in operator.overloads:
        if overload.origin in ("native", "generated"):
            yield CalledOverload(operator, overload)


def _signature_text(signature: Signature, display_name: str) -> str:
    if not signature.structure:
        return signature_label(signature, display_name)[0]
    text, _ = signature_label(dataclasses.replace(signature, returns=()), display_name)
    fields = ", ".join(field.name for field in signature.returns)
    return f"{text} -> {signature.structure}({fields})"


def _declaration_text(name: Name, display_name: str) -> str:
    """Return the declaration to show for a name that does not have signatures from generated
    bindings.
    """
    if name.kind in ("function", "method"):
        return f"{display_name}{name.python or '(...)'}"
    if name.kind == "property" and name.signatures:
        return f"(property) {display_name}: {returns_text(name.signatures[0].returns)}"
    return f"({name.kind.replace('_', ' ')}) {display_name}{name.python}"


def _deprecated_section(signatures: Iterable[Signature], display_name: str) -> PageSection:
    old = [signature for signature in signatures if signature.deprecated]
    return PageSection(
        "Deprecated forms",
        items=tuple(
            f"`{_without_types(signature, display_name)}`"
            + (f": write `{signature.instead}`" if signature.instead else "")
            for signature in old
        ),
    )


def _without_types(signature: Signature, display_name: str) -> str:
    bare = tuple(dataclasses.replace(p, type="", choices=()) for p in signature.parameters)
    return signature_label(
        dataclasses.replace(signature, parameters=bare, returns=()), display_name
    )[0]


def _display_path(path: str) -> str:
    """Shorten a path as torch's documentation writes it: ``Tensor.max`` for a method of tensors."""
    return path.removeprefix("torch.") if path.startswith(_TENSOR) else path


# -- operators --------------------------------------------------------------------------------


def _operator_page(subject: Subject, operator: Operator, overload: Overload | None) -> OperatorPage:
    chosen = operator.overloads if overload is None else (overload,)
    called = tuple(CalledOverload(operator, candidate) for candidate in chosen)
    dispatched = [
        candidate for candidate in called if candidate.overload.origin != "torchscript"
    ] or called
    base = [candidate for candidate in dispatched if not is_out(candidate.overload)] or dispatched
    return OperatorPage(
        path=subject.path,
        kind="operator" if overload is None else "overload",
        signatures=tuple(candidate.overload.schema for candidate in called),
        remarks=tuple(_operator_remarks(called)),
        facts=facts_of(base),
        sections=non_empty(
            sections.aliasing_section(dispatched),
            sections.kernels_section(dispatched),
            sections.derivatives_section(base),
            sections.tags_section(base),
            sections.names_section(called),
        ),
        overloads=called,
    )


def _operator_remarks(called: Sequence[CalledOverload]) -> Iterator[str]:
    for place in dict.fromkeys(call.overload.place for call in called if call.overload.place):
        yield f"Registered at `{place}`."
    for call in called:
        if call.overload.fake == "missing" and call.overload.origin == "registered":
            yield (
                "This operator fails on fake tensors: add a fake kernel with "
                f'`@torch.library.register_fake("{call.full}")`.'
            )


# -- parameters -------------------------------------------------------------------------------


def _parameter_page(page: OperatorPage, subject: Subject) -> OperatorPage | None:
    """Return the page of a parameter (keyword argument): its declarations and the signatures in
    which it occurs."""
    name = page.name
    wanted = subject.parameter
    current = [s for s in name.signatures if not s.deprecated] if name is not None else []
    found = [(s, p) for s in current for p in s.parameters if p.name == wanted]
    texts = [parameter_text(parameter) for _, parameter in found]
    if not found:
        texts = list(_parameter_declarations(page, wanted))
    if not texts:
        return None
    display_name = _display_path(page.path)
    remarks = [f"A parameter of `{display_name}`{_signature_numbers(current, found)}."]
    remarks += dict.fromkeys(words for _, p in found for words in _parameter_rules(p))
    documented = name.documented_choices(wanted) if name is not None else ()
    if documented and not any(parameter.choices for _, parameter in found):
        remarks.append(f"Documented values: {listing(f'`{value}`' for value in documented)}.")
    having = tuple(_signature_text(signature, display_name) for signature, _ in found)
    return OperatorPage(
        path=f"{page.path}({wanted})",
        kind="parameter",
        signatures=tuple(dict.fromkeys(texts)),
        remarks=tuple(remarks),
        sections=non_empty(PageSection("Signatures", code=having, numbered=len(having) > 1)),
        href=page.href,
        name=name,
    )


def _parameter_declarations(page: OperatorPage, wanted: str) -> Iterator[str]:
    """Yield the declarations of the parameter ``wanted`` on a page, from Python source or operator
    schemas.
    """
    if page.name is not None:
        yield from _python_declarations(page.name.python, wanted)
    for called in page.overloads if page.name is None else ():
        schema = sections.schema_of(called.overload)
        for argument in schema.arguments if schema is not None else ():
            if argument.name == wanted:
                default = f"={argument.default}" if argument.default else ""
                yield f"{argument.type} {argument.name}{default}"


def _python_declarations(python: str, wanted: str) -> Iterator[str]:
    try:
        (function,) = ast.parse(f"def f{python}: ...").body
    except (SyntaxError, ValueError):
        return
    if not isinstance(function, ast.FunctionDef):
        return
    parameters = function.args
    positional = [*parameters.posonlyargs, *parameters.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(parameters.defaults))
    pairs = zip(
        [*positional, *parameters.kwonlyargs],
        [*defaults, *parameters.defaults, *parameters.kw_defaults],
        strict=True,
    )
    for argument, default in pairs:
        if argument.arg == wanted:
            equals = " = " if argument.annotation else "="
            yield ast.unparse(argument) + (f"{equals}{ast.unparse(default)}" if default else "")


def _signature_numbers(
    current: Sequence[Signature], found: Sequence[tuple[Signature, Parameter]]
) -> str:
    if not found or len(current) == 1 or len(found) == len(current):
        return ""
    numbers = [str(current.index(signature) + 1) for signature, _ in found]
    plural = "s" if len(numbers) > 1 else ""
    return f", in signature{plural} {listing(numbers)} of {len(current)}"


def _parameter_rules(parameter: Parameter) -> Iterator[str]:
    """Yield sentences about values of a parameter that its declaration does not show."""
    if parameter.variadic:
        yield "Its items can also be passed as separate arguments, without a list."
    elif parameter.size == 1:
        yield "A single number is read as a list with one item."
    elif parameter.size:
        yield f"If one number is passed, it is used for all {parameter.size} items."
    if parameter.choices:
        yield f"One of {listing(f'`{choice}`' for choice in parameter.choices)}."
    elif not parameter_annotation(parameter):
        yield "Its type is not known."


# -- remarks ----------------------------------------------------------------------------------


def _certainty_remarks(subject: Subject, receiver: str) -> Iterator[str]:
    leaf = subject.path.rpartition(".")[2]
    if subject.certainty == "traced":
        yield "The receiver was a Tensor in the last trace."
    elif subject.certainty == "unambiguous":
        yield f"Assumed to be a method of Tensor: no other known class has a `{leaf}`."
    elif subject.certainty == "guess":
        what = f"`{receiver}`" if receiver else "the receiver"
        yield (
            f"This is a guess: {what} was not traced, but `torch.Tensor` has a method of this name."
        )


def _list_paths(paths: Iterable[str]) -> tuple[str, ...]:
    shown = ", ".join(f"`{path}`" for path in paths)
    return (shown,) if shown else ()
