"""Find the targets of a file (functions, module classes and calls to trace), from its text without
executing it."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace

from ..protocol import Finding, Range, TargetKind, node_range, place_words
from . import comments as marks
from . import examples, notation_parser, pairs, sites
from .annotations import AnnotatedParameter, read_parameters
from .comments import Comment, Comments
from .examples import Example
from .notation import Notation, NotationError
from .pairs import Pair
from .sites import CallSite
from .source import (
    FileDefinitions,
    Function,
    body_range,
    byte_lines,
    name_range,
    read_definitions,
    required_parameters,
)

_TEXT_LIMIT = 60


@dataclass(frozen=True)
class WrittenProbe:
    """A probe comment: a ``# fullgraph:`` comment that states example inputs of a target, with its
    parsed text."""

    notation: Notation
    comment: Comment

    @property
    def line(self) -> int:
        return self.comment.line


@dataclass(frozen=True)
class Target:
    """A function, module class, call or statement of the user's file that can be traced.

    ``range`` covers its name, ``body`` the whole statement with decorators. ``subject`` is the
    expression that evaluates to the callable. ``parameters`` are the parameters of the function or
    of ``forward``, and ``init`` the parameters of the constructor. ``used_by`` names targets whose
    code mentions this one; their traces include it.
    """

    name: str
    kind: TargetKind
    range: Range
    body: Range
    subject: str
    written: tuple[WrittenProbe, ...] = ()
    parameters: tuple[AnnotatedParameter, ...] = ()
    init: tuple[AnnotatedParameter, ...] = ()
    method: str = "forward"
    sites: tuple[CallSite, ...] = ()
    pairs: tuple[Pair, ...] = ()
    inputs_from: str = ""
    """Name of the file's function that returns the target's inputs, such as ``get_inputs``; empty
    without one."""
    init_from: str = ""
    """Name of the file's function that returns the constructor's arguments, such as
    ``get_init_inputs``; empty without one."""
    attributes: tuple[str, ...] = ()
    """Names of the instance's attributes that contain inputs, such as ``example_input_array``."""
    get_module: bool = False
    repeated: bool = False
    """True if a later definition in the file has the same name, so that this one is overwritten."""
    body_of_call: Range | None = None
    """Source range of the function that a call of the target executes: the function itself, or the
    class's own ``forward``; None if the file does not define it in the target's body."""
    used_by: tuple[str, ...] = ()
    definition: str = ""
    """Name of the file's function or class that a call or assignment refers to; empty for other
    targets."""
    examples: tuple[Example, ...] = ()
    """Example code of the file that mentions the target (its ``__main__`` block, docstrings); the
    target's own docstring comes first."""

    @property
    def is_method(self) -> bool:
        """Whether the target is a method of a module class, other than ``forward``."""
        return self.kind == "module" and self.method != "forward"

    @property
    def bare_context(self) -> WrittenProbe | None:
        """Comment with only the modes of the call (``under(…)``); None if a comment states
        inputs."""
        if any(one.notation.inputs is not None for one in self.written):
            return None
        found = (one for one in self.written if one.notation.inputs is None)
        return next((one for one in found if one.notation.context is not None), None)

    @property
    def constructed_by(self) -> WrittenProbe | None:
        """Comment with only the constructor call (``init(…)``); None if a comment states inputs."""
        if any(one.notation.inputs is not None for one in self.written):
            return None
        return next((one for one in self.written if one.notation.init is not None), None)


@dataclass(frozen=True)
class Discovery:
    """The targets (functions, module classes and calls to trace) of a file in text order, and
    findings about its ``# fullgraph:`` comments."""

    targets: tuple[Target, ...] = ()
    off: bool = False
    findings: tuple[Finding, ...] = ()


def discover(
    text: str, path: str = "", methods: Collection[str] = (), functions: Collection[str] = ()
) -> Discovery:
    """Find the targets of a file (functions, module classes and calls to trace), without executing
    it.

    ``methods`` names methods of module classes to include as targets, in addition to ``forward``.
    ``functions`` names functions to include although nothing says that they are compiled.

    Raises:
        SyntaxError: the text does not parse.
    """
    source = read_definitions(text)
    comments = marks.read_comments(text)
    if marks.file_off(comments, source.tree) is not None:
        return Discovery(off=True)
    names = frozenset(methods) - {"forward", "__init__"}, frozenset(functions)
    finder = _TargetFinder(source, comments, *names)
    finder.find()
    ordered = sorted(
        finder.targets, key=lambda target: (target.range.start.line, target.range.start.byte)
    )
    found = _with_examples(source, _with_users(source, ordered))
    return Discovery(found, False, tuple(finder.findings))


class _TargetFinder:
    def __init__(
        self,
        source: FileDefinitions,
        comments: Comments,
        methods: frozenset[str],
        functions: frozenset[str],
    ) -> None:
        self.source = source
        self.methods = methods
        self.functions = functions
        self.comments = comments
        self.lines = byte_lines(source.text)
        self.targets: list[Target] = []
        self.findings: list[Finding] = []
        self.claimed: set[int] = set()
        self.sites, self.compiled = sites.find_sites(source)
        self.pairs = pairs.find_pairs(source)
        self.off: set[str] = set()
        names = Counter(node.name for node in source.definitions)
        self.repeated = {name for name, count in names.items() if count > 1}

    def find(self) -> None:
        self.report_unhidden()
        modules = [
            node
            for node in self.source.definitions
            if isinstance(node, ast.ClassDef) and self.source.is_module(node)
        ]
        main = self._main_modules(modules)
        for node in self.source.definitions:
            if isinstance(node, ast.ClassDef):
                self.class_target(node, inputs=node.name in main)
            else:
                self.function_target(node)
        self.call_targets()
        self.statement_targets()
        self.pair_targets()
        self.report_unclaimed()

    # -- definitions --

    def _main_modules(self, modules: list[ast.ClassDef]) -> set[str]:
        """Return the names of the module classes that the file's ``get_inputs`` provides inputs
        for.
        """
        names = [node.name for node in modules if self.source.has_forward(node)]
        named = {name for name in names if name in ("Model", "ModelNew")}
        return named or set(names[-1:])

    def method_targets(self, node: ast.ClassDef) -> None:
        """Add the methods of a module class that the user's settings name as targets."""
        if any(comment.off for comment in marks.comments_of_definition(self.comments, node)):
            return
        for method in marks.method_definitions(node):
            if method.name not in self.methods:
                continue
            found = marks.comments_of_definition(self.comments, method)
            written = self.read(found, method=method.name)
            if any(comment.off for comment in found):
                continue
            self.targets.append(
                Target(
                    name=f"{node.name}.{method.name}",
                    kind="module",
                    range=name_range(method, self.lines),
                    body=body_range(method),
                    subject=node.name,
                    written=tuple(written),
                    parameters=self.parameters(method, method=True),
                    init=self.init_parameters(node, self.source.method(node, "__init__")),
                    method=method.name,
                )
            )

    def class_target(self, node: ast.ClassDef, *, inputs: bool) -> None:
        source = self.source
        if source.is_module(node):
            self.method_targets(node)
        own = marks.comments_of_definition(self.comments, node)
        by_method = [
            (method.name, marks.comments_of_definition(self.comments, method))
            for method in marks.method_definitions(node)
            if method.name != "__init__"
        ]
        written = self.read(own, method="")
        written += [one for name, found in by_method for one in self.read(found, method=name)]
        off = any(comment.off for comment in own) or any(
            comment.off for name, found in by_method for comment in found if name == "forward"
        )
        if off:
            self.off.add(node.name)
            return
        gives_module = self._gives_module(node)
        is_module = source.is_module(node)
        if not gives_module and not written and not (is_module and source.has_forward(node)):
            return
        init = source.method(node, "__init__")
        forward = source.method(node, "forward")
        # In a file with builder functions, an example input belongs to the modules that they build.
        example = "" if self.pairs else self._example_function()
        self.targets.append(
            Target(
                name=node.name,
                kind="module",
                range=name_range(node, self.lines),
                body=body_range(node),
                subject=node.name,
                written=tuple(sorted(written, key=lambda one: one.line)),
                parameters=self.parameters(forward, method=True),
                init=self.init_parameters(node, init),
                body_of_call=body_range(forward) if forward in node.body else None,
                sites=tuple(site for site in self.sites if site.owner == node.name),
                inputs_from=(self._function_if_defined("get_inputs") or example) if inputs else "",
                init_from=self._function_if_defined("get_init_inputs") if inputs else "",
                attributes=self._input_attributes(node),
                get_module=gives_module,
                repeated=node.name in self.repeated,
                definition=node.name,
            )
        )

    def init_parameters(
        self, node: ast.ClassDef, init: Function | None
    ) -> tuple[AnnotatedParameter, ...]:
        if init is not None:
            return self.parameters(init, method=True)
        if not any(_is_dataclass(decorator) for decorator in node.decorator_list):
            return ()
        fields = []
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                fields.append(
                    AnnotatedParameter(
                        statement.target.id,
                        required=statement.value is None,
                        annotation=ast.unparse(statement.annotation),
                        default="" if statement.value is None else ast.unparse(statement.value),
                    )
                )
        return tuple(fields)

    def function_target(self, node: Function) -> None:
        own = marks.comments_of_definition(self.comments, node)
        written = self.read(own, method="")
        if any(comment.off for comment in own):
            self.off.add(node.name)
            return
        found = self.parameters(node, method=False)
        decorated = any(
            sites.is_compile(self.source, decorator) for decorator in node.decorator_list
        )
        compiled = any(one.owner == node.name for one in self.compiled)
        called = tuple(site for site in self.sites if site.owner == node.name)
        wanted = (
            written
            or decorated
            or compiled
            or any(site.explicit for site in called)
            or any(parameter.shape is not None for parameter in found)
            or node.name in self.functions
        )
        if not wanted:
            return
        self.targets.append(
            Target(
                name=node.name,
                kind="function",
                range=name_range(node, self.lines),
                body=body_range(node),
                subject=node.name,
                written=tuple(written),
                parameters=found,
                method="",
                body_of_call=body_range(node),
                sites=called,
                repeated=node.name in self.repeated,
                definition=node.name,
            )
        )

    def parameters(
        self, function: Function | None, *, method: bool
    ) -> tuple[AnnotatedParameter, ...]:
        if function is None:
            return ()
        return read_parameters(function, self.source.assignments, method=method)

    def _function_if_defined(self, name: str) -> str:
        function = self.source.functions.get(name)
        if function is None:
            return name if name in self.source.imports else ""
        return "" if required_parameters(function) else name

    def _example_function(self) -> str:
        names = ("example_input", "example_inputs", "get_example_inputs", "sample_inputs")
        return next((found for name in names if (found := self._function_if_defined(name))), "")

    def _input_attributes(self, node: ast.ClassDef) -> tuple[str, ...]:
        found = []
        for name in ("example_input_array", "dummy_inputs"):
            if name in self.source.text and any(
                _mentions_attribute(current, name) for current in self.source.bases(node)
            ):
                found.append(name)
        return tuple(found)

    def _gives_module(self, node: ast.ClassDef) -> bool:
        """Whether a class has a ``get_module()`` that returns a model and its inputs."""
        if self.source.is_module(node):
            return False
        method = self.source.method(node, "get_module")
        if method is not None and len(required_parameters(method)) <= 1:
            return True
        return node.name == "Model" and any(
            name.rpartition(".")[2].endswith("BenchmarkModel") or name.endswith("ModelTask")
            for name in self.source.outside_bases(node)
        )

    # -- calls, pairs, assignments --

    def call_targets(self) -> None:
        """Add targets for module-level calls, and for names assigned from ``torch.compile``, if the
        file does not define the callable."""
        owners = {target.definition for target in self.targets} | self.off
        called: set[str] = set()
        for site in self.sites:
            if site.owner in owners or not site.explicit:
                continue
            statement = self._statement_at(site.range)
            if statement is not None and self._is_off(statement):
                continue
            called.add(site.subject)
            self.targets.append(
                Target(
                    name=_shorten(site.text),
                    kind="call",
                    range=site.range,
                    body=node_range(statement) if statement is not None else site.range,
                    subject=site.subject,
                    method="",
                    sites=(site,),
                )
            )
        for one in self.compiled:
            if one.owner in owners or one.bound in called:
                continue
            statement = self._statement_at(one.range)
            if statement is None or self._is_off(statement):
                continue
            written = self.read(marks.comments_of_statement(self.comments, statement), method="")
            self.targets.append(
                Target(
                    name=one.bound,
                    kind="call",
                    range=one.range,
                    body=node_range(statement),
                    subject=one.bound,
                    written=tuple(written),
                    method="",
                )
            )

    def statement_targets(self) -> None:
        """Add a target for each assignment whose comment states example inputs, as in ``model =
        Net() # fullgraph: f32[4]``."""
        known = {target.name for target in self.targets if target.kind == "call"}
        for statement in self.source.statements:
            if not self.comments.marked:
                return
            found = marks.comments_of_statement(self.comments, statement)
            if not found:
                continue
            name = _assigned_name(statement)
            off = [comment for comment in found if comment.off]
            self.claimed.update(comment.line for comment in off)
            if name is None or name.id in known or off:
                continue
            written = self.read(found, method="")
            if written:
                self.targets.append(
                    Target(
                        name=name.id,
                        kind="call",
                        range=node_range(name),
                        body=node_range(statement),
                        subject=name.id,
                        written=tuple(written),
                        method="",
                    )
                )

    def pair_targets(self) -> None:
        for builder in dict.fromkeys(pair.builder for pair in self.pairs):
            found = tuple(pair for pair in self.pairs if pair.builder == builder)
            if builder in self.off:
                continue
            node = self.source.functions.get(builder)
            existing = next((t for t in self.targets if t.name == builder), None)
            if existing is not None and existing.written:
                continue
            self.targets.append(
                Target(
                    name=f"{builder}()",
                    kind="call",
                    range=found[0].range,
                    body=body_range(node) if node is not None else found[0].range,
                    subject=builder,
                    pairs=found,
                    method="",
                    definition=found[0].definition,
                )
            )

    def _statement_at(self, place: Range) -> ast.stmt | None:
        line = place.start.line + 1
        for statement in self.source.statements:
            if statement.lineno <= line <= (statement.end_lineno or statement.lineno):
                return statement
        return None

    def _is_off(self, statement: ast.stmt) -> bool:
        found = marks.comments_of_statement(self.comments, statement)
        self.claimed.update(comment.line for comment in found if comment.off)
        return any(comment.off for comment in found)

    # -- comments --

    def read(self, found: tuple[Comment, ...], *, method: str) -> list[WrittenProbe]:
        """Parse comments with example inputs; report syntax errors in them as findings.

        ``method`` is the method that the comments are attached to, empty for a function.
        """
        written = []
        for comment in found:
            if comment.line in self.claimed:
                continue
            self.claimed.add(comment.line)
            if comment.off:
                continue
            try:
                probe = notation_parser.parse_probe(comment.text)
            except NotationError as error:
                self.findings.append(
                    _invalid_comment(error.message, comment.span(error.start, error.end))
                )
                continue
            if method and not probe.method and probe.inputs is not None:
                probe = replace(probe, method=method)
            written.append(WrittenProbe(probe, comment))
        if any(one.notation.inputs is not None for one in written):
            for one in written:
                if one.notation.inputs is None and one.notation.context is not None:
                    self.findings.append(_invalid_comment(_CONTEXT_ALONE, one.comment.range))
        return written

    def report_unhidden(self) -> None:
        """Report malformed ``# fullgraph: ignore[…]`` comments, so that they are not parsed as
        comments with example inputs."""
        for line, comment in sorted(self.comments.marked.items()):
            if comment.ignore:
                self.claimed.add(line)
                self.findings.append(_invalid_comment(_HIDES_NOTHING, comment.range))

    def report_unclaimed(self) -> None:
        coroutines = {
            comment.line
            for node in self.source.tree.body
            if isinstance(node, ast.AsyncFunctionDef)
            for comment in marks.comments_of_definition(self.comments, node)
        }
        for line, comment in sorted(self.comments.marked.items()):
            if line not in self.claimed:
                message = _OF_COROUTINE if line in coroutines else _OF_NOTHING
                self.findings.append(_invalid_comment(message, comment.range))


_OF_NOTHING = (
    "this comment is not above code that can be traced; write it directly above a module-level "
    "class, function or assignment"
)
_OF_COROUTINE = (
    "an `async def` is not traced; write the probe above a function without `async` that it calls"
)
_CONTEXT_ALONE = (
    "this under(…) has no effect here, because another comment states the inputs; write it after "
    "those inputs"
)
_HIDES_NOTHING = (
    "this comment hides nothing; write `# fullgraph: ignore[CODE]` at the end of the line that "
    "has the finding"
)


def _invalid_comment(message: str, place: Range) -> Finding:
    text = f"Probe comment: {message}."
    return Finding(
        code="probe/invalid",
        message=text,
        range=place,
        hints=("Example: # fullgraph: init(d=16) forward(f32[b, 16], mask=bool[b])",),
        identity=f"probe/invalid@{place_words(place)}",
    )


def _shorten(text: str) -> str:
    return text if len(text) <= _TEXT_LIMIT else text[: _TEXT_LIMIT - 1] + "…"


def _assigned_name(statement: ast.stmt) -> ast.Name | None:
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
    elif isinstance(statement, ast.AnnAssign):
        target = statement.target
    else:
        return None
    return target if isinstance(target, ast.Name) else None


def _is_dataclass(decorator: ast.expr) -> bool:
    expression = decorator.func if isinstance(decorator, ast.Call) else decorator
    return (isinstance(expression, ast.Name) and expression.id == "dataclass") or (
        isinstance(expression, ast.Attribute) and expression.attr == "dataclass"
    )


def _mentions_attribute(node: ast.ClassDef, name: str) -> bool:
    """Whether a class has an attribute ``name``: assigned as ``self.name`` or at class level, or a
    property."""
    for statement in node.body:
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            return True
        assigned = _assigned_name(statement)
        if assigned is not None and assigned.id == name:
            return True
    return any(
        isinstance(inner, ast.Attribute)
        and inner.attr == name
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
        for inner in ast.walk(node)
    )


def _with_users(source: FileDefinitions, targets: list[Target]) -> tuple[Target, ...]:
    """Return the targets with ``used_by`` set: the names of targets that mention a target's
    definition, directly or indirectly."""
    reached: dict[str, set[str]] = {}
    for target in targets:
        start = {target.definition} if target.definition else {site.owner for site in target.sites}
        if not target.definition:
            start |= {target.subject}
        for name in source.reached_names(start) - start:
            reached.setdefault(name, set()).add(target.name)

    def users_of(target: Target) -> tuple[str, ...]:
        if target.kind == "call":
            return ()
        return tuple(sorted(reached.get(target.definition, set()) - {target.name}))

    return tuple(replace(target, used_by=users_of(target)) for target in targets)


def _with_examples(source: FileDefinitions, targets: tuple[Target, ...]) -> tuple[Target, ...]:
    found = examples.find_examples(source, (target.definition for target in targets))

    def examples_of(target: Target) -> tuple[Example, ...]:
        reaching = [one for one in found if target.definition in one.reaches]
        # First come examples in the target's own docstring, then direct callers, which need the
        # shortest runs.
        reaching.sort(
            key=lambda one: (one.owner != target.definition, target.definition not in one.direct)
        )
        return tuple(reaching)

    return tuple(replace(target, examples=examples_of(target)) for target in targets)
