"""Build the calls to trace: from probe comments, annotations and conventions of the file.

``plan_written_probes`` only reads the text and looks up attributes; ``Probe.build`` runs user code.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

from ..protocol import ProbeInfo
from . import notation, tensors
from .annotations import AnnotatedParameter
from .configurations import (
    configuration_classes,
    default_configuration,
    required_parameters,
    small_configuration,
)
from .context import CallContext
from .discovery import Target, WrittenProbe
from .notation import Arguments, Notation, Value
from .notation import FurtherCall as WrittenCall
from .signatures import find_misfit
from .sites import CallSite
from .tensors import Built, DynamicDimension, ProbeError

Namespace = dict[str, Any]

ENCLOSING_SECONDS = 20.0
"""Maximum seconds to run code that calls the targets, in order to see their inputs."""

_SITES = 4
"""Maximum number of module-level calls traced per target (function or module class)."""


class NoProbe(ProbeError):
    """Raised when the code from which a target's inputs should be taken does not provide a call to
    trace.

    ``uncalled``: the code that uses the target was executed without calling the target.
    """

    uncalled = False


@dataclass
class BuiltFurtherCall:
    """A second or later call of the traced object, with its own inputs and modes of torch."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic: tuple[DynamicDimension, ...]
    context: CallContext
    method: str = ""
    """Name of the called method; empty if it is the method of the first call."""

    @contextlib.contextmanager
    def enter(self) -> Iterator[None]:
        """Execute the ``with`` block in the modes of the call; the module stays in its training or
        evaluation mode."""
        switch_mode(self.function, self.context)
        with self.context.enter():
            yield

    @property
    def words(self) -> str:
        """The call as the text of a probe comment: ``then f32[5, 16]``, with its method and modes
        if they differ from the first call's."""
        inputs = tensors.describe_inputs(self.args, self.kwargs, self.dynamic, facts=True)
        called = f"{self.method}({inputs})" if self.method else inputs
        text = self.context.text
        return f"then {called}" + (f" under({text})" if text else "")


@dataclass
class Call:
    """A call to trace: ``function`` (an uncompiled ``nn.Module``, function or bound method) with
    its arguments.

    ``init`` is the constructor call as text. ``source`` describes where the inputs come from, if
    this is known only after the call was built; ``comment`` is then a probe comment to suggest.
    ``is_doubtful``: the call may raise although the program is correct; ``otherwise``, if it is not
    None, then builds another call. ``same_as`` names the target in whose run the call was observed.
    ``iterated`` gives the type of each argument that was an iterable and has been unpacked, by
    parameter. ``uncalled``: the target's callers did not call it, so the inputs are from another
    source.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic: tuple[DynamicDimension, ...] = ()
    init: str = ""
    source: str = ""
    comment: str = ""
    same_as: str = ""
    is_doubtful: bool = False
    otherwise: Callable[[], Call] | None = field(default=None, repr=False)
    iterated: Mapping[str, type] = field(default_factory=dict)
    uncalled: bool = False
    context: CallContext = field(default_factory=CallContext)
    """Modes and settings of torch, such as ``no_grad``, in which the call is made."""
    then: tuple[BuiltFurtherCall, ...] = ()
    """Further calls of the same object, made in this order after the first one."""
    unusual: str = ""
    """Reason why guessed inputs are unusual although the code accepts them, in words; empty if they
    are not."""
    shortened: str = ""
    """Description of the guessed sizes over which the code loops, and of numbers of layers, that
    were made small; empty for none."""
    guess_note: str = ""
    """Note to the user that the code raises with the guessed inputs and with all others that were
    tried; empty otherwise."""
    is_stated: bool = False
    """True if the inputs were built from text such as ``f32[4](requires_grad)``, which states which
    tensors require grad."""

    @property
    def inputs(self) -> str:
        """Inputs of all calls as the text of a probe comment (example inputs)."""
        first = tensors.describe_inputs(self.args, self.kwargs, self.dynamic, facts=self.is_stated)
        return " ".join([first, *(one.words for one in self.then)])

    def fits_real_tensors(self) -> bool:
        """Whether the call can be executed with real tensors: memory suffices, and its devices
        exist."""
        from .. import tracing

        things = [self.function, getattr(self.function, "__self__", None), self.args, self.kwargs]
        things += [(one.args, one.kwargs) for one in self.then]
        return (
            tracing.storage_bytes(things) <= tracing.REAL_BYTES
            and not tracing.was_kernel_launched()
            and all(tracing.has_device(kind) for kind in tracing.device_types(things))
        )

    @property
    def all_dynamic(self) -> tuple[DynamicDimension, ...]:
        """Symbolic dimensions, such as ``b`` in ``f32[b, 16]``, in the inputs of all calls."""
        return (*self.dynamic, *(wish for one in self.then for wish in one.dynamic))


@dataclass(frozen=True)
class Probe:
    """One set of example inputs with which a target (a function or module class) can be traced, and
    how to make them.

    ``waits``: the probe is used only if a run with an earlier probe reports through
    ``count_further`` that the call exists. ``after`` names targets whose runs should end first.
    ``users`` names the targets that call this one; probes with the same users share one execution
    of the users.
    """

    info: ProbeInfo
    _build: Callable[[Namespace], Call] = field(repr=False)
    _further: Callable[[Namespace], int] | None = field(default=None, repr=False)
    waits: bool = False
    after: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    from_attribute: bool = False
    """True if the inputs are an attribute of the module instance, such as ``dummy_inputs``."""
    written: WrittenProbe | None = None
    """Comment in the file that states the inputs; None if they have another origin."""
    _enclosing: Callable[[], Sequence[Enclosing]] | None = field(default=None, repr=False)
    _full: Callable[[Namespace], Call] | None = field(default=None, repr=False)
    """Function that makes the call of a model with its default number of layers; None if the call
    has them anyway."""

    def build(self, namespace: Namespace) -> Call:
        """Make the callable and its inputs, with the globals ``namespace`` of the executed file.
        Runs user code, whose exceptions propagate.

        Raises:
            ProbeError: the inputs do not fit the target; the message is one sentence for the
                user.
        """
        return self._build(namespace)

    def count_further(self, namespace: Namespace) -> int:
        """Return the number of the target's probes with ``waits`` for which a call exists.

        Runs user code; an exception that it raises ends the count.
        """
        return self._further(namespace) if self._further is not None else 0

    @property
    def is_guess(self) -> bool:
        """Whether the user did not state the inputs for this target, so that the calls that other
        targets make of it are examples of the same quality."""
        return bool(self.users) or self.from_attribute or self.info.origin == "synthesis"

    def enclosing(self) -> Sequence[Enclosing]:
        """Callers (other targets or programs) to execute in order to observe the target's inputs;
        empty for other sources of inputs."""
        return self._enclosing() if self._enclosing is not None else ()


@dataclass(frozen=True)
class Enclosing:
    """A caller of a wanted target (another target, or a program), executed to observe the inputs of
    the target.

    ``is_program``: the caller is a program, such as a ``__main__`` block.
    """

    name: str
    probe: Probe
    seconds: float = field(default_factory=lambda: ENCLOSING_SECONDS)
    """Maximum seconds from the start of the caller to the first call of the wanted target."""
    further_seconds: float = field(default_factory=lambda: ENCLOSING_SECONDS)
    """Maximum seconds of a second execution of the caller, which looks for calls with other dtypes,
    ranks or flags of the inputs."""
    is_program: bool = False
    is_doubtful: bool = False
    """True if the caller may be outdated code, whose calls may raise although the target is
    correct."""
    if_uncalled: bool = False
    """True if the caller is executed only for targets that no other caller called."""

    @property
    def is_shared(self) -> bool:
        """Whether one process can execute the caller for all targets that it calls."""
        return not (self.is_program or self.is_doubtful)


def is_confirmed(target: Target, namespace: Namespace) -> bool:
    """Whether the executed module contains the target as a function or module class, as its text
    suggests.

    Return False for a class without probe comment that does not derive from ``nn.Module``, for a
    name that cannot be called, and for an overwritten definition. A missing name returns True: its
    statement failed, and the run should report it.
    """
    if target.pairs or target.kind == "call" or target.definition not in namespace:
        return True
    found = namespace[target.definition]
    if isinstance(found, type):
        import torch

        if target.get_module or not _is_torch_class(found, torch):
            return target.get_module or bool(target.written)
        return not target.repeated or _defined_in(target, _code_of_class(found))
    if target.kind == "module":
        return not inspect.isfunction(found) and callable(found)
    if not callable(found):
        return False
    return not target.repeated or _defined_in(
        target, getattr(unwrap_compiled(found), "__code__", None)
    )


def _is_torch_class(found: type, torch: Any) -> bool:
    return issubclass(found, torch.nn.Module)


def _code_of_class(found: type) -> types.CodeType | None:
    for value in vars(found).values():
        code = getattr(unwrap_compiled(value), "__code__", None)
        if isinstance(code, types.CodeType):
            return code
    return None


def _defined_in(target: Target, code: types.CodeType | None) -> bool:
    if code is None:
        return True
    return target.body.start.line <= code.co_firstlineno - 1 <= target.body.end.line


def unwrap_compiled(function: Any) -> Any:
    """Return the original module, function or method behind the result of ``torch.compile``."""
    for _ in range(8):
        attributes = getattr(function, "__dict__", {})
        # A compiled module also has a ``_torchdynamo_orig_callable``, which is only its
        # ``forward``.
        children = attributes.get("_modules")
        # A TorchScript module stores children in another type.
        original = children.get("_orig_mod") if isinstance(children, dict) else None
        if original is None:
            original = attributes.get("_torchdynamo_orig_callable")
        if original is None and isinstance(function, types.MethodType):
            inner = unwrap_compiled(function.__func__)
            if inner is not function.__func__:
                original = types.MethodType(inner, function.__self__)
        if original is None:
            return function
        function = original
    return function


def plan_written_probes(target: Target, namespace: Namespace) -> list[Probe]:
    """Return the probes (example inputs) that the file states: in comments, else in annotations,
    else by conventions.

    Conventions are names such as ``get_inputs`` and ``example_input_array``.
    """
    return (
        _from_comments(target, namespace)
        or _from_annotations(target, namespace)
        or _from_conventions(target, namespace)
    )


# -- comments and annotations -----------------------------------------------------------------


def _from_comments(target: Target, namespace: Namespace) -> list[Probe]:
    probes = []
    for written in target.written:
        inputs = _inputs_of(target, written)
        said = written.notation
        info = ProbeInfo(
            origin="comment",
            inputs=notation.show_arguments(inputs) if inputs is not None else "",
            init=notation.show_arguments(said.init) if said.init is not None else "",
            source=f"line {written.line + 1}",
            context=said.context.words if said.context is not None else "",
        )
        if inputs is not None and said.then:
            further = (notation.show_further(one) for one in said.then)
            info = replace(info, inputs=" ".join([info.inputs, *further]))
        if inputs is not None:
            probes.append(Probe(info, _WrittenBuilder(target, said, inputs), written=written))
            continue
        # The comment has only ``init(…)``: take the inputs from conventions.
        for other in _from_conventions(target, namespace, init=said.init) or []:
            probes.append(other)
    return probes


def _inputs_of(target: Target, written: WrittenProbe) -> Arguments | None:
    """Return the inputs that a comment states, completed from shapes in annotations; None if a
    required input has neither."""
    said = written.notation
    ours = said.method in ("", target.method, target.subject)
    if not ours:
        return said.inputs
    if said.inputs is None:
        annotated = _with_annotated_shapes(target.parameters, Arguments())
        return annotated if annotated is not None else None
    return _with_annotated_shapes(target.parameters, said.inputs) or said.inputs


def _with_annotated_shapes(
    parameters: tuple[AnnotatedParameter, ...], given: Arguments
) -> Arguments | None:
    """Return the arguments ``given``, with missing ones added from annotated shapes.

    None if a required parameter has neither a given value nor an annotated shape.
    """
    named = dict(given.named)
    positional = list(given.positional)
    left = len(positional)
    for parameter in parameters:
        if parameter.variadic:
            continue
        if left > 0 and not parameter.keyword_only:
            left -= 1
            continue
        if parameter.name in named:
            continue
        if not parameter.required:
            continue
        if parameter.shape is None:
            return None
        if parameter.positional_only:
            positional.append(parameter.shape)
        else:
            named[parameter.name] = parameter.shape
    return _in_order(parameters, positional, named, {name for name, _ in given.named})


def _in_order(
    parameters: tuple[AnnotatedParameter, ...],
    positional: list[Value],
    named: dict[str, Value],
    chosen: set[str],
) -> Arguments:
    """Return the arguments of a call, passed by position where possible.

    ``chosen`` names the arguments that must stay keyword arguments.
    """
    rest = [
        parameter
        for parameter in parameters
        if not parameter.keyword_only and not parameter.variadic
    ][len(positional) :]
    for parameter in rest:
        if not parameter.required or parameter.name not in named or parameter.name in chosen:
            break
        positional.append(named.pop(parameter.name))
    return Arguments(tuple(positional), tuple(named.items()))


def _from_annotations(target: Target, namespace: Namespace) -> list[Probe]:
    if not any(parameter.shape is not None for parameter in target.parameters):
        return []
    inputs = _with_annotated_shapes(target.parameters, Arguments())
    if inputs is None or not _is_constructible(target, namespace):
        return []
    info = ProbeInfo(
        origin="annotation",
        inputs=notation.show_arguments(inputs),
        init=f"{target.init_from}()" if _uses_init_from(target, namespace) else "",
        source="annotations",
    )
    return [Probe(info, _WrittenBuilder(target, Notation(inputs=inputs), inputs))]


def call_of(target: Target, said: Notation, namespace: Namespace) -> Call:
    """Build the call that a probe comment states (``said`` is its parsed text).

    Runs user code, whose exceptions propagate.
    """
    return _WrittenBuilder(target, said, said.inputs or Arguments())(namespace)


@dataclass(frozen=True)
class _WrittenBuilder:
    """A callable that builds the call that a probe comment (example inputs) states."""

    target: Target
    notation: Notation
    inputs: Arguments

    def __call__(self, namespace: Namespace) -> Call:
        said = self.notation
        sizes = notation.choose_sizes(said.init, self.inputs, *(one.inputs for one in said.then))
        subject, init = _build_subject(self.target, namespace, said.init, sizes)
        function = self.bind_method(subject, said.method, namespace)
        built = tensors.build_inputs(self.inputs, sizes, namespace)
        _check_inputs(self.target, function, built)
        call = Call(function, built.args, built.kwargs, built.dynamic, init, is_stated=True)
        call.then = tuple(self.make_further(subject, one, sizes, namespace) for one in said.then)
        return put_in_context(call, said.context) if said.context is not None else call

    def bind_method(self, subject: Any, method: str, namespace: Namespace) -> Any:
        if self.target.is_method or method not in ("", self.target.method, self.target.subject):
            return _find_method(self.target, subject, method or self.target.method)
        found = self.target.kind == "module" and _named_callable(namespace, self.target.subject)
        if not isinstance(found, type) or _is_module(subject):
            return subject
        for name in (method or self.target.method, "__call__"):
            if callable(getattr(subject, name, None)):
                return unwrap_compiled(getattr(subject, name))
        words = (
            f"{self.target.name} is not an nn.Module, so name the method to call, such as step(…)."
        )
        raise ProbeError(words)

    def make_further(
        self, subject: Any, said: WrittenCall, sizes: dict[str, int], namespace: Namespace
    ) -> BuiltFurtherCall:
        method = said.method or self.notation.method
        function = self.bind_method(subject, method, namespace)
        built = tensors.build_inputs(said.inputs, sizes, namespace)
        _check_inputs(self.target, function, built)
        context = _check_context(said.context, function).with_device(
            _device_type((built.args, built.kwargs))
        )
        name = method if method != (self.notation.method or self.target.method) else ""
        return BuiltFurtherCall(function, built.args, built.kwargs, built.dynamic, context, name)


def put_in_context(call: Call, context: CallContext) -> Call:
    """Return the call with the modes and settings of ``context`` added, and switch its module to
    training or evaluation mode."""
    call.context = _check_context(context, call.function).with_device(
        _device_type((call.args, call.kwargs))
    )
    switch_mode(call.function, context)
    return call


def switch_mode(function: Any, context: CallContext) -> None:
    """Switch the module of a method, or a module, to the training or evaluation mode of
    ``context``, if the context states one."""
    module = _module_of(function)
    if context.training is not None and module is not None:
        module.train(context.training)


def _module_of(function: Any) -> Any:
    owner = function if _is_module(function) else getattr(function, "__self__", None)
    return owner if _is_module(owner) else None


def _check_context(context: CallContext, function: Any) -> CallContext:
    """Return the context (modes and settings of torch) if the function and this torch support it.

    Raises:
        ProbeError: they do not have a mode or setting that the context names.
    """
    if context.training is not None and _module_of(function) is None:
        word = "train" if context.training else "eval"
        raise ProbeError(
            f"The probe has {word}, but the function that it calls is not an nn.Module.", word
        )
    from ..torch_internals import dynamo

    for name, _ in context.settings:
        if not hasattr(dynamo.config, name):
            raise ProbeError(f"torch._dynamo.config has no setting {name} in this torch.", name)
    return context


def _device_type(inputs: Any) -> str:
    """Return the device type of the first tensor in the inputs, such as ``"cuda"``."""
    import torch

    from ..torch_internals.trees import pytree

    found = (one for one in pytree.tree_leaves(inputs) if isinstance(one, torch.Tensor))
    return next((one.device.type for one in found), "cpu")


def _find_method(target: Target, function: Any, method: str) -> Callable[..., Any]:
    found = getattr(function, method, None)
    if not callable(found):
        words = f"The probe calls {method}(…), but {target.name} has no such method."
        raise ProbeError(words, method)
    return unwrap_compiled(found)  # type: ignore[no-any-return]


def _check_inputs(target: Target, function: Any, built: Built) -> None:
    """Raise a ProbeError with a message for the user if the inputs do not fit the signature."""
    called = _signature_owner(function)
    found = find_misfit(called, built.args, built.kwargs)
    if found is not None:
        name = f"{target.name}.forward" if _is_module(function) else target.name
        words = f"The probe does not fit the signature of {name}: {found.reason}."
        raise ProbeError(words, found.keyword)


def _signature_owner(function: Any) -> Any:
    """Return the callable whose signature the inputs must fit: the ``forward`` of a module, else
    the function itself."""
    return function.forward if _is_module(function) else function


def _is_module(value: Any) -> bool:
    import torch

    return isinstance(value, torch.nn.Module)


# -- the callable of a target ------------------------------------------------------------------


def _named_callable(namespace: Namespace, name: str) -> Any:
    if name not in namespace:
        raise ProbeError(
            f"{name} does not exist after the file has run; "
            "the statement that defines it failed or was not reached."
        )
    return namespace[name]


def _build_subject(
    target: Target,
    namespace: Namespace,
    init: Arguments | None,
    sizes: dict[str, int] | None = None,
) -> tuple[Any, str]:
    """Return the callable of a target, and the constructor's arguments as text.

    For a class, the callable is a new instance. ``init`` are the constructor's arguments, or None
    if no comment states them. ``sizes`` are the numbers of symbolic sizes in ``init``.
    """
    found = _named_callable(namespace, target.subject)
    if not isinstance(found, type):
        if init is not None:
            words = f"{target.name} is not a class, so it has no constructor for init(…)."
            raise ProbeError(words, "init")
        return unwrap_compiled(found), ""
    if init is not None:
        built = tensors.build_inputs(init, sizes or {}, namespace)
        args, kwargs, shown = built.args, built.kwargs, notation.show_arguments(init)
    elif target.init_from and callable(namespace.get(target.init_from)):
        args, kwargs = fit_inputs(found, namespace[target.init_from](), is_pair=True)
        shown = tensors.describe_inputs(args, kwargs)
    else:
        subject, shown, _ = _build_configured(target, namespace, small=False)
        return subject, shown
    wrong = find_misfit(found, args, kwargs)
    if wrong is not None:
        way_out = "" if init is not None else _WAY_OUT
        words = f"{target.name} cannot be constructed: {wrong.reason}{way_out}."
        raise ProbeError(words, wrong.keyword if init is not None else "")
    return unwrap_compiled(found(*args, **kwargs)), shown


_WAY_OUT = "; give its arguments as init(…) in a probe comment"


def _build_configured(
    target: Target, namespace: Namespace, *, small: bool
) -> tuple[Any, str, tuple[str, ...]]:
    """Return a new instance of a class whose constructor requires only configurations, the
    arguments as text, and a phrase for each number of layers that was made small.

    With ``small``, numbers of layers are small if the constructors accept them.

    Raises:
        ProbeError: the parameters need too much memory for real tensors.
    """
    found = _named_callable(namespace, target.subject)
    classes = configuration_classes(found, namespace) or {}
    build = small_configuration if small else default_configuration
    made = {name: build(kind) for name, kind in classes.items()}
    kwargs = {name: one.value for name, one in made.items()}
    wrong = find_misfit(found, (), kwargs)
    if wrong is not None:
        raise ProbeError(f"{target.name} cannot be constructed: {wrong.reason}{_WAY_OUT}.")
    changes = tuple(words for one in made.values() for words in one.changes)
    try:
        with tensors.limit_real_parameters():
            subject = unwrap_compiled(found(**kwargs))
    except Exception as error:
        if not changes or isinstance(error, tensors.TooManyParameters):
            raise
        return _build_configured(target, namespace, small=False)
    return subject, ", ".join(f"{name}={one.code}" for name, one in made.items()), changes


def fit_inputs(
    function: Any, value: Any, *, is_pair: bool = False
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return a value that user code provides as inputs, split into positional and keyword arguments
    of ``function``.

    The value may be one argument, a sequence of arguments, a dictionary of keywords, or a sequence
    and keywords: ``[x, {"mask": m}]`` or ``[[x], {"mask": m}]``. ``is_pair`` prefers the last form
    if several fit.
    """
    called = _signature_owner(function)
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return ((), dict(value)) if not find_misfit(called, (), value) else ((value,), {})
    if type(value) in (list, tuple):
        args = tuple(value)
        last = args[-1] if args else None
        if isinstance(last, dict) and len(args) >= 2 and all(isinstance(k, str) for k in last):
            if (
                len(args) == 2
                and type(args[0]) in (list, tuple)
                and (is_pair or find_misfit(called, args, {}))
                and not find_misfit(called, tuple(args[0]), last)
            ):
                return tuple(args[0]), last
            if find_misfit(called, args, {}) and not find_misfit(called, args[:-1], last):
                return args[:-1], last
        if find_misfit(called, args, {}) and not find_misfit(called, (value,), {}):
            return (value,), {}
        return args, {}
    return (value,), {}


def _uses_init_from(target: Target, namespace: Namespace) -> bool:
    return bool(target.init_from) and target.init_from in namespace


def _is_constructible(target: Target, namespace: Namespace) -> bool:
    """Whether a class can be constructed although no comment states arguments.

    It can if a function of the file returns them, or if it requires only configuration objects or
    nothing.
    """
    found = namespace.get(target.subject)
    if not isinstance(found, type):
        return True
    return _uses_init_from(target, namespace) or configuration_classes(found, namespace) is not None


# -- conventions ------------------------------------------------------------------------------


def _from_conventions(
    target: Target, namespace: Namespace, init: Arguments | None = None
) -> list[Probe]:
    """Return the probes (example inputs) of the first convention that the file follows, such as a
    function ``get_inputs``.

    For module-level calls of the target, each call is a probe.
    """
    if target.is_method:
        return []
    able = init is not None or _is_constructible(target, namespace)
    shown = notation.show_arguments(init) if init is not None else ""
    if target.inputs_from and target.inputs_from in namespace and able:
        if init is None and _uses_init_from(target, namespace):
            shown = f"{target.init_from}()"
        info = ProbeInfo("convention", f"{target.inputs_from}()", shown, target.inputs_from)
        return [Probe(info, _Returned(target, init))]
    if target.get_module:
        return [Probe(ProbeInfo("convention", "", "", "get_module"), _GetModule(target))]
    if target.pairs:
        return [
            Probe(
                ProbeInfo("convention", pair.example, "", f"{pair.builder} and {pair.example}"),
                _Paired(target, pair.builder, pair.example),
            )
            for pair in target.pairs
        ]
    if able:
        for attribute in _input_attributes(target, namespace):
            info = ProbeInfo("convention", attribute, shown, attribute)
            build = _Attribute(target, attribute, init)
            may_be_small = build.has_default_configuration(namespace)
            full = replace(build, full=True) if may_be_small else None
            return [Probe(info, build, from_attribute=True, _full=full)]
    if init is None and target.sites:
        explicit = [site for site in target.sites if site.explicit] or list(target.sites)
        unique = {(site.form, site.subject, site.arguments): site for site in reversed(explicit)}
        return [
            Probe(
                ProbeInfo("convention", site.arguments[1:-1], "", _site_place(site)),
                _Called(target, site),
            )
            for site in sorted(unique.values(), key=lambda one: one.range.start.line)[:_SITES]
        ]
    if init is not None and not any(one.required or one.variadic for one in target.parameters):
        info = ProbeInfo("comment", "", shown, f"line {target.written[0].line + 1}")
        return [Probe(info, _WrittenBuilder(target, Notation(init=init), Arguments()))]
    return []


def _site_place(site: CallSite) -> str:
    return f"line {site.range.start.line + 1}"


def _input_attributes(target: Target, namespace: Namespace) -> list[str]:
    found = list(target.attributes)
    subject = namespace.get(target.subject)
    # Hugging Face's base classes have ``dummy_inputs`` as a property.
    inherited = isinstance(subject, type) and inspect.getattr_static(subject, "dummy_inputs", None)
    if inherited and "dummy_inputs" not in found:
        found.append("dummy_inputs")
    return found


def in_full_size(probe: Probe) -> Probe | None:
    """Return a probe with the default numbers of layers if ``probe`` may have fewer; else None."""
    return replace(probe, _build=probe._full) if probe._full is not None else None


def are_from_attributes(found: Sequence[Probe]) -> bool:
    """Whether the example inputs are attributes of the module instance, such as
    ``dummy_inputs``."""
    return any(one.from_attribute for one in found)


@dataclass(frozen=True)
class _Returned:
    """A callable that builds a call with the inputs that the file's function ``get_inputs()``
    returns."""

    target: Target
    init: Arguments | None

    def __call__(self, namespace: Namespace) -> Call:
        sizes = notation.choose_sizes(self.init)
        function, shown = _build_subject(self.target, namespace, self.init, sizes)
        name = self.target.inputs_from
        args, kwargs = fit_inputs(function, _value_of_name(namespace, name))
        return Call(function, args, kwargs, (), shown)


@dataclass(frozen=True)
class _Attribute:
    """A callable that builds a call with the instance's ``example_input_array`` or ``dummy_inputs``
    as inputs.

    If the instance is made from default configurations, their numbers of layers are small, unless
    ``full`` is true.
    """

    target: Target
    attribute: str
    init: Arguments | None
    full: bool = False

    def __call__(self, namespace: Namespace) -> Call:
        changes: tuple[str, ...] = ()
        if self.has_default_configuration(namespace) and not self.full:
            function, shown, changes = _build_configured(self.target, namespace, small=True)
        else:
            sizes = notation.choose_sizes(self.init)
            function, shown = _build_subject(self.target, namespace, self.init, sizes)
        value = getattr(function, self.attribute, None)
        if callable(value) and not isinstance(value, type):
            value = value()
        if value is None:
            raise ProbeError(
                f"{self.target.name}.{self.attribute} is None after construction; "
                "write a probe comment instead."
            )
        args, kwargs = fit_inputs(function, value)
        call = Call(function, args, kwargs, (), shown, shortened=" and ".join(changes))
        # The attribute may come from a library's base class, and apply to other kinds of models.
        call.is_doubtful = True
        if changes:
            call.otherwise = lambda: replace(self, full=True)(namespace)
        return call

    def has_default_configuration(self, namespace: Namespace) -> bool:
        """Whether the class is constructed with default configurations, because neither a comment
        nor a function of the file gives other arguments."""
        found = namespace.get(self.target.subject)
        return (
            self.init is None
            and isinstance(found, type)
            and not _uses_init_from(self.target, namespace)
            and bool(configuration_classes(found, namespace))
        )


@dataclass(frozen=True)
class _Paired:
    """A callable that builds a call of the model from the file's ``build()``, with the result of
    ``example_input()``."""

    target: Target
    builder: str
    example: str

    def __call__(self, namespace: Namespace) -> Call:
        builder = tensors.look_up(self.builder, namespace)
        function = unwrap_compiled(builder() if not _is_module(builder) else builder)
        if isinstance(function, type):
            function = function()
        value = _value_of_name(namespace, self.example)
        if isinstance(function, tuple) and function and callable(function[0]):
            function = unwrap_compiled(function[0])
        if not callable(function):
            raise ProbeError(
                f"{self.builder}() returned {type(function).__name__}, which cannot be called."
            )
        args, kwargs = fit_inputs(function, value)
        return Call(function, args, kwargs)


def _value_of_name(namespace: Namespace, name: str) -> Any:
    """Return the value of a name of the file; if the value is a function, the result of calling
    it.
    """
    found = tensors.look_up(name, namespace)
    import torch

    if callable(found) and not isinstance(found, torch.Tensor):
        return found()
    return found


@dataclass(frozen=True)
class _GetModule:
    """A callable that builds a call with the model and inputs that ``Model(…).get_module()``
    returns together."""

    target: Target

    # The arguments that TorchBench's models require.
    KNOWN: ClassVar[dict[str, Any]] = {
        "test": "eval",
        "device": "cpu",
        "batch_size": None,
        "extra_args": [],
        "jit": False,
    }

    def __call__(self, namespace: Namespace) -> Call:
        found = _named_callable(namespace, self.target.subject)
        required = required_parameters(found)
        unknown = [name for name in required if name not in self.KNOWN]
        if unknown:
            raise ProbeError(
                f"{self.target.name} takes the argument {unknown[0]}, whose value fullgraph does "
                "not know; write a probe comment above the model itself."
            )
        given = found(**{name: self.KNOWN[name] for name in required}).get_module()
        if not isinstance(given, (tuple, list)) or len(given) != 2:
            raise ProbeError(
                f"{self.target.name}.get_module() returned {type(given).__name__}, "
                "not a model and its inputs."
            )
        function = unwrap_compiled(given[0])
        args, kwargs = fit_inputs(function, given[1])
        return Call(function, args, kwargs)


@dataclass(frozen=True)
class _Called:
    """A callable that builds a call that the file makes at module level: the same callable with the
    same arguments."""

    target: Target
    site: CallSite

    def __call__(self, namespace: Namespace) -> Call:
        site = self.site
        function = unwrap_compiled(self.evaluate(site.subject, namespace))
        given = dict(namespace)
        given["__collect__"] = lambda *args, **kwargs: (args, kwargs)
        args, kwargs = self.evaluate(f"__collect__{site.arguments}", given)
        if site.form == "call":
            return Call(function, args, kwargs)
        for name in ("model", "mod", "func", "f"):
            if name in kwargs and (not args or name != "f"):
                kwargs.pop(name)
                break
        else:
            args = args[1:]
        if site.form == "export":
            return _exported_call(function, args, kwargs)
        if site.form == "onnx":
            return _onnx_call(function, args, kwargs)
        if site.form == "trace":
            return _jit_traced_call(function, args, kwargs)
        return _summarized_call(function, args, kwargs, batch=site.form == "torchsummary")

    def evaluate(self, text: str, namespace: Namespace) -> Any:
        tree = ast.parse(text, mode="eval")
        for node in ast.walk(tree):
            if isinstance(node, (ast.expr, ast.keyword)):
                node.lineno = node.end_lineno = self.site.range.start.line + 1
                node.col_offset = self.site.range.start.byte
                node.end_col_offset = (
                    self.site.range.end.byte
                    if self.site.range.end.line == self.site.range.start.line
                    else node.col_offset
                )
        code = compile(tree, str(namespace.get("__file__", "<probe>")), "eval")
        return eval(code, namespace)


def _take_argument(args: tuple[Any, ...], kwargs: dict[str, Any], at: int, *names: str) -> Any:
    """Return the argument at index ``at`` or with one of the names; None if it is missing."""
    if len(args) > at:
        return args[at]
    return next((kwargs[name] for name in names if name in kwargs), None)


def _exported_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Return the call that ``torch.export.export`` would trace, from the arguments that the file
    passes to it."""
    inputs = _take_argument(args, kwargs, 0, "args", "example_inputs")
    named = _take_argument(args, kwargs, 1, "kwargs") or {}
    found = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    call = Call(function, found if inputs is not None else (), dict(named))
    shapes = kwargs.get("dynamic_shapes")
    call.dynamic = _dynamic_shapes(call, shapes)
    return call


def _dynamic_shapes(call: Call, shapes: Any) -> tuple[DynamicDimension, ...]:
    """Return the symbolic dimensions of a call's inputs that the ``dynamic_shapes`` argument of an
    export declares."""
    if not shapes:
        return ()
    called = _signature_owner(call.function)
    try:
        bound = inspect.signature(called).bind(*call.args, **call.kwargs).arguments
    except (TypeError, ValueError):
        return ()
    found: list[DynamicDimension] = []
    pairs = (
        [(f"args[{name}]", bound[name], spec) for name, spec in shapes.items() if name in bound]
        if isinstance(shapes, dict)
        else [
            (f"args[{at}]", value, spec)
            for at, (value, spec) in enumerate(zip(bound.values(), shapes, strict=False))
        ]
    )
    for path, value, spec in pairs:
        _collect_dynamic(path, value, spec, found)
    return tuple(found)


def _collect_dynamic(path: str, value: Any, spec: Any, found: list[DynamicDimension]) -> None:
    import torch

    if isinstance(value, torch.Tensor):
        dims = (
            spec.items()
            if isinstance(spec, dict)
            else enumerate(spec)
            if isinstance(spec, (list, tuple))
            else ()
        )
        for dim, size in dims:
            name = getattr(size, "__name__", None) or getattr(size, "name", None)
            if size is None or isinstance(size, int) or name in (None, "STATIC"):
                continue
            symbol = f"d{dim}" if name in ("AUTO", "DYNAMIC") else str(name)
            found.append(DynamicDimension(path, value, int(dim), str(symbol)))
    elif isinstance(value, (list, tuple)) and isinstance(spec, (list, tuple)):
        for at, (inner, one) in enumerate(zip(value, spec, strict=False)):
            _collect_dynamic(f"{path}[{at}]", inner, one, found)
    elif isinstance(value, dict) and isinstance(spec, dict):
        for key, one in spec.items():
            if key in value:
                _collect_dynamic(f"{path}[{key!r}]", value[key], one, found)


def _onnx_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Return the call that ``torch.onnx.export`` would trace, from the arguments that the file
    passes to it.

    A dictionary at the end of its ``args`` holds keywords.
    """
    inputs = _take_argument(args, kwargs, 0, "args")
    named = dict(kwargs.get("kwargs") or {})
    if not isinstance(inputs, tuple):
        inputs = (inputs,) if inputs is not None else ()
    if inputs and isinstance(inputs[-1], dict) and not named:
        called = _signature_owner(function)
        if not find_misfit(called, inputs[:-1], inputs[-1]):
            inputs, named = inputs[:-1], inputs[-1]
    return Call(function, inputs, named)


def _jit_traced_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
    """Return the call that ``torch.jit.trace`` would trace, from the arguments that the file passes
    to it."""
    inputs = _take_argument(args, kwargs, 0, "example_inputs")
    named = dict(kwargs.get("example_kwarg_inputs") or {})
    if inputs is None:
        return Call(function, (), named)
    return Call(function, inputs if isinstance(inputs, tuple) else (inputs,), named)


def _summarized_call(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], *, batch: bool
) -> Call:
    """Return the call that ``torchinfo.summary`` would make, from the arguments that the file
    passes to it.

    With ``batch``, a batch dimension is added to the input sizes, as ``torchsummary`` does.
    """
    import torch

    data = _take_argument(args, kwargs, 1, "input_data") if not batch else None
    if data is not None:
        found, named = fit_inputs(function, data)
        return Call(function, found, named)
    size = _take_argument(args, kwargs, 0, "input_size")
    if isinstance(size, torch.Tensor):  # torchsummary's fork takes tensors here too
        return Call(function, (size,), {})
    if size is None:
        return Call(function, (), {})
    several = bool(size) and isinstance(size[0], (list, tuple, torch.Size))
    shapes = [tuple(one) for one in size] if several else [tuple(size)]
    dtypes = kwargs.get("dtypes") or [torch.float32] * len(shapes)
    device = kwargs.get("device")
    made = []
    for shape, dtype in zip(shapes, dtypes, strict=False):
        whole = (2, *shape) if batch else shape
        if "batch_dim" in kwargs and kwargs["batch_dim"] is not None and not batch:
            at = int(kwargs["batch_dim"])
            whole = (*shape[:at], 1, *shape[at:])
        name = notation.dtype_abbreviations()[dtype]
        made.append(tensors.example_tensor(name, whole, None, str(device) if device else None))
    return Call(function, tuple(made), {})
