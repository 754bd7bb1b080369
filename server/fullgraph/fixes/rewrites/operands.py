"""Find the parameters of a custom operator that executes some code, and their types.

The parameters are the local variables and attributes of ``self`` that the code reads. Types are
spelled as annotations for operator schemas. A value of unknown type is assumed to be a tensor;
verification of the rewrite detects errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from fullgraph.fixes.rewrites.names import code_of, descendants, find_all, walk
from fullgraph.fixes.rewrites.syntax import Syntax, arguments, bound_variables, dotted_name, targets

PLAIN = ("int", "float", "bool", "str")
"""Types of plain Python values."""
_CONVERSIONS = {"int": "int", "len": "int", "float": "float", "bool": "bool", "str": "str"}
_NO_TENSORS = ("device", "dtype", "finfo", "iinfo", "Size", "Generator", "compile")
"""Functions and classes of torch whose results are not tensors."""
_APART = ("chunk", "unbind", "tensor_split")
"""Functions and methods that split a tensor into several tensors."""
_NUMBERS = ("int", "float", "bool")
_SIZES = ("size", "dim", "numel", "ndimension")
_SCOPES = (cst.ClassDef, cst.FunctionDef)


def tensor_type(syntax: Syntax) -> str:
    """Return the name that the file uses for the type of tensors: ``torch.Tensor`` or
    ``Tensor``.
    """
    return syntax.spelled("torch.Tensor")


def of_signature(syntax: Syntax, function: cst.FunctionDef) -> list[tuple[str, str]]:
    """Return (name, type) of each parameter of a function; empty if a custom operator cannot have
    these parameters.
    """
    params = function.params
    others = (params.kwonly_params, params.posonly_params, params.star_kwarg)
    if any(others) or isinstance(params.star_arg, cst.Param):
        return []
    found: list[tuple[str, str]] = []
    for number, one in enumerate(params.params):
        kind = _of_parameter(syntax, function, number)
        if kind is None:
            return []
        found.append((one.name.value, kind or tensor_type(syntax)))
    return found


def _of_parameter(syntax: Syntax, function: cst.FunctionDef, number: int) -> str | None:
    """Return the type of the parameter with the index ``number``.

    The type comes from the parameter's annotation, its default, the calls in the file or the trace.
    Empty if the type is unknown; None for a type that operators do not support.
    """
    one, tensor = function.params.params[number], tensor_type(syntax)
    written = one.annotation.annotation if one.annotation is not None else None
    if written is not None:
        return _of_annotation(syntax, written)
    seen = _of_trace(syntax, function, one.name.value)
    if one.default is None:
        return _of_calls(syntax, function, number) or seen
    if code_of(one.default) == "None":
        kinds = set(syntax.text.locals_seen(function).get(one.name.value, ())) - {"other"}
        of_value = kinds.pop() if len(kinds) == 1 else "tensor"
        return f"{of_value if of_value in PLAIN else tensor} | None"
    of_default = kind_of(syntax, one.default, {})
    if {seen, of_default} == {"int", "float"}:
        return "float"
    return of_default or (None if number else "")


def _of_trace(syntax: Syntax, function: cst.FunctionDef, name: str) -> str:
    """Return the type of a parameter or local variable in the trace, if it is a number, a boolean
    or a string; else ""."""
    kind = syntax.text.kind_of_local(function, name)
    return kind if kind is not None and kind in PLAIN else ""


_LISTS = (
    *("list", "tuple", "typing.List", "typing.Tuple", "typing.Sequence", "typing.Iterable"),
    "collections.abc.Sequence",
)


def _of_annotation(syntax: Syntax, written: cst.BaseExpression) -> str | None:
    """Return the type that the annotation ``written`` names, as schemas of operators spell it.

    None for a type that they do not support.
    """
    tensor = tensor_type(syntax)
    if isinstance(written, cst.Subscript):
        of = [one.slice.value for one in written.slice if isinstance(one.slice, cst.Index)]
        name = syntax.name(written.value)
        inner = _of_annotation(syntax, of[0]) if of else None
        if name == "typing.Optional":
            return f"{tensor} | None" if inner == tensor else None
        alike = len(of) == 1 or isinstance(of[1], cst.Ellipsis)
        return (
            f"list[{inner}]" if name in _LISTS and alike and inner in (tensor, *_NUMBERS) else None
        )
    if isinstance(written, cst.BinaryOperation) and code_of(written.right) == "None":
        inner = _of_annotation(syntax, written.left)
        return f"{tensor} | None" if inner == tensor else None
    kind = tensor if syntax.name(written) == "torch.Tensor" else code_of(written)
    return kind if kind == tensor or kind in PLAIN else None


def _of_calls(syntax: Syntax, function: cst.FunctionDef, number: int) -> str:
    """Return the type of the constants that all calls of a function pass for the parameter with the
    index ``number``.

    Empty if some call passes anything other than a constant.
    """
    name, place = function.name.value, number
    owner = syntax.text.around(function, _SCOPES)
    if isinstance(owner, cst.ClassDef):
        place -= not any(
            dotted_name(one.decorator) == "staticmethod" for one in function.decorators
        )
        name = owner.name.value if name == "__init__" else name
    parameter = function.params.params[number].name.value
    kinds: set[str] = set()
    for call in syntax.text.once(_calls_of_function):
        receiver, _, called = dotted_name(call.func).rpartition(".")
        if called != name or receiver.partition(".")[0] in syntax.imported:
            continue
        named = [one.value for one in call.args if _keyword_value(one) == parameter]
        plain = [one.value for one in call.args if one.keyword is None]
        given = named or plain[place : place + 1]
        if any(one.star for one in call.args) or not given:
            return ""
        kinds.add(kind_of(syntax, given[0], _known_at(syntax, call)))
    return kinds.pop() if len(kinds) == 1 else ""


def _calls_of_function(module: cst.Module) -> tuple[cst.Call, ...]:
    return tuple(one for one in find_all(module, cst.Call))


def _known_at(syntax: Syntax, node: cst.CSTNode) -> dict[str, str]:
    """Return the types of variables and attributes that the code at ``node`` can read, as far as
    the source shows them.

    The function around the code and its class are searched for assignments.
    """
    function = syntax.text.around(node, cst.FunctionDef)
    span = syntax.text.span(node)
    if function is None or span is None:
        return {}
    given = {
        one.name.value: code_of(one.annotation.annotation)
        for one in function.params.params
        if one.annotation is not None and code_of(one.annotation.annotation) in PLAIN
    }
    return _assigned_before(syntax, function, span[0], given)


def _keyword_value(arg: cst.Arg) -> str:
    return arg.keyword.value if arg.keyword is not None else ""


def kind_of(syntax: Syntax, node: cst.BaseExpression, known: Mapping[str, str]) -> str:
    """Return the type of an expression other than a tensor: a number, string, size, or list of
    numbers or tensors.

    Empty if the type is unknown. ``known`` has the types of variables.
    """
    if isinstance(node, cst.Name):
        return "bool" if node.value in ("True", "False") else known.get(node.value, "")
    if isinstance(node, (cst.Integer, cst.Float, cst.SimpleString)):
        return {cst.Integer: "int", cst.Float: "float", cst.SimpleString: "str"}[type(node)]
    if isinstance(node, cst.UnaryOperation):
        inner = kind_of(syntax, node.expression, known)
        return "bool" if inner and isinstance(node.operator, cst.Not) else inner
    if isinstance(node, (cst.Tuple, cst.List)):
        if any(isinstance(one, cst.StarredElement) for one in node.elements):
            return ""
        return _list_of(syntax, [one.value for one in node.elements], known)
    if isinstance(node, cst.ListComp):
        return _list_of(syntax, [node.elt], known)
    if isinstance(node, cst.BinaryOperation):
        sides = [node.left, node.right]
        pair = {kind_of(syntax, side, known) for side in sides}
        lists = {one for one in pair if _element_type(one) in _NUMBERS}
        if isinstance(node.operator, cst.Add) and any(isinstance(one, cst.List) for one in sides):
            # A list with unknown elements most likely has numbers.
            return lists.pop() if lists else "list[int]"
        if not pair <= set(_NUMBERS):
            return ""
        whole = pair <= {"int", "bool"} and not isinstance(node.operator, (cst.Divide, cst.Power))
        return "int" if whole else "float"
    if is_size(syntax, node):
        return "int"
    if isinstance(node, cst.Subscript):
        return _element_type(kind_of(syntax, node.value, known)) if _is_index(node) else ""
    if isinstance(node, cst.Call):
        name = syntax.called(node)
        if name.startswith("math."):
            return "float"
        if name.rpartition(".")[2] in _APART and isinstance(node.func, cst.Attribute):
            return f"list[{tensor_type(syntax)}]"
        if name in ("min", "max") and len(node.args) > 1:
            kinds = {kind_of(syntax, one.value, known) for one in node.args}
            return kinds.pop() if len(kinds) == 1 else ""
        return _CONVERSIONS.get(name, "")
    return ""


def _list_of(
    syntax: Syntax, elements: Sequence[cst.BaseExpression], known: Mapping[str, str]
) -> str:
    """Return the type of a list with these elements; empty if operators do not support it."""
    kinds = {kind_of(syntax, one, known) for one in elements}
    one = "float" if kinds == {"int", "float"} else next(iter(kinds), "None")
    if kinds == {""} and all(isinstance(each, _VALUES) for each in elements):
        none = any(code_of(each) == "None" for each in elements)
        return "" if none else f"list[{tensor_type(syntax)}]"
    return f"list[{one}]" if one in _NUMBERS and kinds <= {"int", one} else ""


_VALUES = (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.BinaryOperation)


def is_size(syntax: Syntax, node: cst.BaseExpression) -> bool:
    """Whether an expression counts elements or dimensions, so that its value is an integer of at
    least zero."""
    if isinstance(node, cst.Subscript):
        return _is_index(node) and is_shape(node.value)
    if isinstance(node, cst.Attribute):
        return node.attr.value == "ndim"
    if not isinstance(node, cst.Call):
        return False
    method = node.func.attr.value if isinstance(node.func, cst.Attribute) else ""
    sized = method in _SIZES and (method == "size") == bool(node.args)
    return sized or syntax.called(node) in ("len", "torch.numel")


def _element_type(kind: str) -> str:
    """Return the type of the elements, for a list type such as ``List[int]``; else ""."""
    return kind[len("list[") : -1] if kind.startswith("list[") else ""


def is_shape(node: cst.BaseExpression) -> bool:
    """Whether an expression is the shape of a tensor: ``x.shape``, ``x.size()``, or a slice of a
    shape."""
    if isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice):
        node = node.value
    if isinstance(node, cst.Call) and not node.args:
        return isinstance(node.func, cst.Attribute) and node.func.attr.value == "size"
    return isinstance(node, cst.Attribute) and node.attr.value == "shape"


def _is_index(node: cst.Subscript) -> bool:
    return len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index)


def of_locals(syntax: Syntax, function: cst.FunctionDef, before: int) -> dict[str, str]:
    """Return the types of a function's local variables, except tensors, by name.

    Only assignments that end before byte ``before`` of the file are considered.
    """
    tensor = tensor_type(syntax)
    seen = {name: _of_trace(syntax, function, name) for name in syntax.text.locals_seen(function)}
    found = {name: kind for name, kind in seen.items() if kind}
    for number, one in enumerate(function.params.params):
        kind = _of_parameter(syntax, function, number)
        if kind and kind != tensor:
            found[one.name.value] = kind
    return _assigned_before(syntax, function, before, found)


def _assigned_before(
    syntax: Syntax, function: cst.FunctionDef, before: int, found: dict[str, str]
) -> dict[str, str]:
    """Add the types of variables that a function assigns to ``found``, and return them all.

    Only assignments before the byte ``before`` of the file are considered.
    """
    for node in walk(function.body):
        span = syntax.text.span(node)
        if not isinstance(node, (cst.Assign, cst.AugAssign, cst.AnnAssign)) or span is None:
            continue
        if span[0] >= before or node.value is None:
            continue
        for target in targets(node):
            sizes = isinstance(target, (cst.Tuple, cst.List)) and is_shape(node.value)
            names = _each_of(target) if sizes else bound_variables(target) or []
            kind = "int" if sizes else kind_of(syntax, node.value, found)
            if isinstance(node.value, cst.List) and not node.value.elements:
                kind = _list_of(syntax, _appended_values(function, target), found)
            for name in names:
                found.pop(name, None)
                is_whole = sizes or isinstance(target, cst.Name)
                seen = (kind if is_whole else "") or _of_trace(syntax, function, name)
                if seen:
                    found[name] = seen
    return found


def _appended_values(
    function: cst.FunctionDef, target: cst.BaseExpression
) -> list[cst.BaseExpression]:
    """Return the values that a function appends to the list ``target``."""
    method = f"{dotted_name(target)}.append"
    return [
        one.args[0].value
        for one in walk(function.body)
        if isinstance(one, cst.Call) and dotted_name(one.func) == method and len(one.args) == 1
    ]


def _each_of(target: cst.CSTNode) -> list[str]:
    """Return the variables among the parts of an assignment target such as ``a, b``, which unpacks
    a value.
    """
    return [
        one.value.value
        for one in getattr(target, "elements", ())
        if isinstance(one, cst.Element) and isinstance(one.value, cst.Name)
    ]


def of_module(
    syntax: Syntax,
    function: cst.FunctionDef,
    nodes: Sequence[cst.CSTNode],
    asked: Sequence[cst.Call],
) -> dict[str, tuple[str, list[cst.Attribute]]] | None:
    """Return the tensors and constants of ``self`` that code of a method reads.

    The result maps the name of each attribute to its type and the nodes that read it. None if a
    type is unknown, or if the code uses ``self`` in another way. Calls of ``hasattr`` in ``asked``
    are allowed.
    """
    cls = syntax.text.around(function, _SCOPES)
    first = function.params.params[:1]
    if not isinstance(cls, cst.ClassDef) or not first:
        return {}
    kinds = _of_attributes(syntax, cls)
    itself = {id(one.args[0].value) for one in asked}
    found: dict[str, tuple[str, list[cst.Attribute]]] = {}
    for node in (one for each in nodes for one in descendants(each)):
        if not isinstance(node, cst.Name) or node.value != first[0].name.value:
            continue
        place = syntax.text.parent(node)
        if node in (getattr(place, "attr", None), getattr(place, "keyword", None)):
            continue  # the name of an attribute or a keyword, not a variable
        if id(node) in itself:
            continue
        if not isinstance(place, cst.Attribute):
            return None
        name, user = place.attr.value, syntax.text.parent(place)
        called = isinstance(user, cst.Call) and user.func is place
        stored = isinstance(user, (cst.AssignTarget, cst.AugAssign, cst.AnnAssign)) and (
            user.target is place
        )
        if called or stored or not kinds.get(name):
            return None
        found.setdefault(name, (kinds[name], []))[1].append(place)
    return found


def asked_for(
    syntax: Syntax, function: cst.FunctionDef, nodes: Sequence[cst.CSTNode]
) -> list[cst.Call]:
    """Return the calls of ``hasattr(self, …)`` in a method that test an attribute assigned by
    ``__init__``.
    """
    cls = syntax.text.around(function, _SCOPES)
    first = function.params.params[:1]
    if not isinstance(cls, cst.ClassDef) or not first:
        return []
    made = {
        dotted_name(target)
        for one in cls.body.body
        if isinstance(one, cst.FunctionDef) and one.name.value == "__init__"
        for line in one.body.body
        if isinstance(line, cst.SimpleStatementLine)
        for small in line.body
        if isinstance(small, (cst.Assign, cst.AnnAssign))
        for target in targets(small)
    }
    itself = first[0].name.value
    found: list[cst.Call] = []
    for node in (one for each in nodes for one in descendants(each)):
        if not isinstance(node, cst.Call) or dotted_name(node.func) != "hasattr":
            continue
        given = arguments(node)
        if given is None or len(given) != 2 or code_of(given[0]) != itself:
            continue
        name = given[1].evaluated_value if isinstance(given[1], cst.SimpleString) else None
        if isinstance(name, str) and f"self.{name}" in made:
            found.append(node)
    return found


def _of_attributes(syntax: Syntax, cls: cst.ClassDef) -> dict[str, str]:
    """Return the types of a module's attributes, from the values that its class assigns to them."""
    tensor = tensor_type(syntax)
    found: dict[str, set[str]] = {"training": {"bool"}}
    for name, kind in _assigned_types(syntax, cls):
        found.setdefault(name, set()).add(kind)
    kinds: dict[str, str] = {}
    for name, several in found.items():
        if several == {tensor, "None"}:
            kinds[name] = f"{tensor} | None"
        elif len(several) == 1:
            kinds[name] = several.pop().replace("None", "")
    return kinds


def _assigned_types(syntax: Syntax, cls: cst.ClassDef) -> Iterator[tuple[str, str]]:
    for method in cls.body.body:
        if not isinstance(method, cst.FunctionDef) or not method.params.params:
            continue
        itself = method.params.params[0].name.value
        known = {
            one.name.value: _of_parameter(syntax, method, number) or ""
            for number, one in enumerate(method.params.params)
        }
        for node in walk(method.body):
            if isinstance(node, cst.Call) and dotted_name(node.func) in (
                f"{itself}.register_buffer",
                f"{itself}.register_parameter",
            ):
                given = arguments(node) or [arg.value for arg in node.args]
                first = given[0] if given else None
                text = first.evaluated_value if isinstance(first, cst.SimpleString) else None
                if isinstance(text, str) and len(given) > 1:
                    yield text, _of_value(syntax, given[1], known, buffer=True)
            if not isinstance(node, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
                continue
            for target in targets(node):
                head, _, name = dotted_name(target).partition(".")
                if head == itself and name and "." not in name and node.value is not None:
                    yield name, _of_value(syntax, node.value, known)


def _of_value(
    syntax: Syntax, node: cst.BaseExpression, known: Mapping[str, str], *, buffer: bool = False
) -> str:
    if code_of(node) == "None":
        return "None"
    if buffer:
        return tensor_type(syntax)
    package, _, function = syntax.called(node).rpartition(".")
    if package == "torch" and function not in _NO_TENSORS:
        return tensor_type(syntax)
    if syntax.called(node) in ("torch.nn.Parameter", "torch.nn.parameter.Parameter"):
        return tensor_type(syntax)
    kind = kind_of(syntax, node, known)
    # A list of other values most likely has layers, which an operator cannot get.
    return "" if kind == f"list[{tensor_type(syntax)}]" else kind
