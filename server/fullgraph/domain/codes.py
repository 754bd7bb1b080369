"""Table of the finding codes: default severity, title and documentation of each.

Codes are paths. A row applies to its code and to all codes below it: ``graph-break`` also covers
``graph-break/GB0059`` unless the table has a row for that code. ``python -m
fullgraph.domain.codes`` prints ``docs/codes.md``, which is generated from this table.
"""

from __future__ import annotations

import enum
import functools
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

_GRAPH_BREAK_SITE = "https://meta-pytorch.github.io/compile-graph-break-site/gb"
_PAGE = "https://github.com/fullgraph/fullgraph/blob/main/docs/codes.md"
GRAPH_BREAK_ID = re.compile(r"GB(\d{4,})")
"""Pattern of PyTorch's id of a kind of graph break."""


class Severity(str, enum.Enum):
    """Severity of a finding. Findings with ``OFF`` are not shown."""

    ERROR = "error"
    WARNING = "warning"
    INFORMATION = "information"
    HINT = "hint"
    OFF = "off"

    @property
    def number(self) -> int:
        """Number of the severity in the Language Server Protocol, from 1 (error) to 4 (hint); 5 for
        ``OFF``."""
        return _NUMBERS[self]

    def reaches(self, threshold: Severity) -> bool:
        """Whether this severity is at least as severe as ``threshold``; False if either is
        ``OFF``."""
        return Severity.OFF not in (self, threshold) and self.number <= threshold.number


EAGER_ERROR = "trace/eager-error"
"""Code of findings of exceptions that the code also raises in eager mode."""

_NUMBERS = {severity: number for number, severity in enumerate(Severity, start=1)}


def heading_anchor(title: str) -> str:
    """Return the anchor of a heading in Markdown, as GitHub generates it."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


@dataclass(frozen=True)
class Code:
    """A row of the table of finding codes.

    ``help`` is Markdown that explains what happened and what to do. ``next_step`` is a sentence to
    show with findings that do not have hints of their own.
    """

    name: str
    severity: Severity
    title: str
    help: str
    next_step: str = ""

    @property
    def href(self) -> str:
        return f"{_PAGE}#{self.anchor}"

    @property
    def anchor(self) -> str:
        """Anchor of this code's heading in ``docs/codes.md``, in lower case and without
        punctuation, as GitHub generates it.
        """
        return heading_anchor(self.name)


CODES: tuple[Code, ...] = (
    Code(
        "graph-break",
        Severity.WARNING,
        "Dynamo ended a graph here",
        "Dynamo could not put this operation into the graph. It compiled what came before, left "
        "this operation to Python, and continued in a new graph. Each break costs launch overhead "
        "and prevents fusion across it; with `fullgraph=True`, it is an error. Dynamo wrote the "
        "message, the explanation and the hints. The id (`GB0059`) links to PyTorch's page on this "
        "kind of break. For a break without an id, fullgraph derives the code from the title of "
        "the break.",
    ),
    Code(
        "frame-skipped",
        Severity.WARNING,
        "Dynamo did not compile this function",
        "Dynamo gave up on a whole function and ran it as ordinary Python: none of its own "
        "operations are compiled, although functions that it calls may be. The usual reason is a "
        "graph break inside a `with` or `try` block, or in a loop, where Dynamo cannot resume.",
    ),
    Code(
        "frame-skipped/no-ops",
        Severity.HINT,
        "A function has nothing to compile",
        "Dynamo looked at this function and did not find a tensor operation, so it runs as "
        "ordinary Python. This is fine unless you expected one.",
    ),
    Code(
        "op",
        Severity.WARNING,
        "A problem with an operator",
        "A finding about one operator of the graph.",
    ),
    Code(
        "op/not-pt2-compliant",
        Severity.WARNING,
        "A custom operator is not known to be safe under torch.compile",
        "The operator does not have the `pt2_compliant_tag`, so its author does not promise that "
        "its fake kernel, its autograd and its aliasing are correct under `torch.compile`. Dynamo "
        "puts it into the graph, where it may give wrong results or fail later. Define it with "
        "`torch.library.custom_op`, give it a fake kernel with `register_fake`, check it with "
        "`torch.library.opcheck`, then tag it.",
        "Define it with `torch.library.custom_op` and `register_fake`, check it with "
        "`torch.library.opcheck`, then tag it `torch.Tag.pt2_compliant_tag`.",
    ),
    Code(
        "guard",
        Severity.OFF,
        "The compiled code is only valid while this condition is true",
        "A guard is checked on every call; if it fails, the function is recompiled. An ordinary "
        "model has hundreds of guards, so they are hidden unless you set a severity.",
    ),
    Code(
        "guard/specialized-dimension",
        Severity.WARNING,
        "A dynamic dimension was fixed to one size",
        "A dimension is dynamic, but this line allows only one size. Each new size recompiles or "
        "raises an error, and `mark_dynamic` on the dimension raises an error. Take sizes from "
        "`x.shape` instead of a constant, and avoid `int(...)` and Python branches on the size. If "
        "one size is enough, write the number in the probe. If the probe has only numbers, "
        "fullgraph traces a second time with a dynamic batch size. Sizes that a parameter or a "
        "layer determines are not reported.",
    ),
    Code(
        "guard/limited-dimension",
        Severity.INFORMATION,
        "A dynamic dimension is limited to a range of sizes",
        "The probe makes a dimension dynamic, but a number on this line works only for some sizes, "
        "for example the kernel size of a pooling layer or a number in a shape. Other sizes "
        "recompile, or raise an error even in eager mode. Compute the number from the size, or "
        "leave it to torch (`-1` in a shape, `chunk`, `adaptive_avg_pool2d`).",
    ),
    Code(
        "guard/equal-dimensions",
        Severity.INFORMATION,
        "Two dimensions have to be equal",
        "The probe gives two dimensions different letters, so that each could be any size, and "
        "this line needs them to be equal, or one to be a multiple of the other. Other sizes raise "
        "an error or recompile. If the two dimensions always have the same size, give them the "
        "same letter (`f32[b, 16], f32[b, 16]`); the finding then disappears.",
    ),
    Code(
        "guard/mutated",
        Severity.WARNING,
        "The code changes a value that its guards check",
        "The traced code reads a Python value and then changes it. The compiled code is only "
        "valid for the old value, so the next call recompiles. Counters in `forward` (`self.step "
        "+= 1`) recompile at every call until the limit of recompiles is reached; then the "
        "function runs without compilation. A cache that starts as `None` recompiles once. Keep "
        "changing values in a tensor (`register_buffer`), or change them outside the compiled "
        "code.",
        "Keep the value in a tensor (a buffer), or change it outside the compiled code.",
    ),
    Code(
        "guard/value",
        Severity.INFORMATION,
        "An argument is specialized to a constant",
        "The guards check the value of a number or string that is an argument of the target: a "
        "call with another value recompiles. For the second number, Dynamo makes the argument "
        "symbolic if the code allows it. Arguments left at their default, flags and `None` are not "
        "reported. If the value varies from call to call, read a size from the shape of a tensor "
        "argument, and pass any other number as a tensor.",
        "If the value varies: read a size from a tensor's shape, and pass any other number as a "
        "tensor.",
    ),
    Code(
        "guard/global",
        Severity.INFORMATION,
        "A global that functions assign is specialized to a constant",
        "The compiled code depends on the value of a global variable, or of one of its entries or "
        "attributes (`CONFIG['width']`), and a function of this file assigns it. Any other value "
        "recompiles. Assignments during the import of the file are not reported. Pass the value as "
        "an argument, or keep it in a tensor.",
        "Pass the value as an argument, or keep it in a tensor.",
    ),
    Code(
        "guard/identity",
        Severity.INFORMATION,
        "An object is guarded by identity",
        "The guards compare the identity of an argument, or of a global that a function of this "
        "file assigns. Another object recompiles the code, even if the two are equal. Enumeration "
        "members and functions are compared by identity; a function that Dynamo traces is compared "
        "by its code. Make the object once and use it for all calls.",
        "Make the object once and use it for all calls.",
    ),
    Code(
        "guard/data-dependent",
        Severity.INFORMATION,
        "A condition on the data of a tensor",
        "A size that depends on data (`u0`) must satisfy this condition, because the code relies "
        "on it. It is checked whenever the graph runs, and raises an error if it is false. You can "
        "write it as `torch._check(...)` before this line.",
    ),
    Code(
        "export",
        Severity.WARNING,
        "torch.export cannot export this code",
        "fullgraph exported the target with `torch.export` and the same probe, because `export` "
        "is set. It reports every problem in one pass, as `torch.export.draft_export` does.",
    ),
    Code(
        "export/data-dependent",
        Severity.WARNING,
        "torch.export cannot decide a condition on data",
        "The line needs the value of a condition that depends on data, such as a size from "
        "`nonzero` or `item`. State with `torch._check` what is always true, or express both "
        "branches with `torch.cond` or `torch.where`.",
    ),
    Code(
        "export/constraint",
        Severity.WARNING,
        "A dimension of the probe cannot be dynamic",
        "The probe makes the dimension symbolic, but the line needs one size, or the size of "
        "another dimension. Write the size in the probe, or change the line.",
    ),
    Code(
        "export/missing-fake-kernel",
        Severity.WARNING,
        "A custom operator does not have a fake kernel",
        "Export traces with fake tensors, which do not have data. The operator therefore needs a "
        "kernel that only computes shapes: register one with `torch.library.register_fake`.",
    ),
    Code(
        "export/mismatched-fake-kernel",
        Severity.WARNING,
        "A fake kernel disagrees with the real one",
        "The kernel that `torch.library.register_fake` registered gives other shapes, strides or "
        "types than the operator does on data.",
    ),
    Code(
        "export/opcheck",
        Severity.WARNING,
        "A custom operator fails torch.library.opcheck",
        "The operator changes or returns an argument that its schema does not mark, or its fake "
        "kernel gives other results than the operator. It was called with the target's own inputs "
        "and with other sizes.",
    ),
    Code(
        "export/failed",
        Severity.WARNING,
        "torch.export fails",
        "Export ended with an exception at this line. The code after it was not exported.",
    ),
    Code(
        "export/strict",
        Severity.INFORMATION,
        "torch.export fails only with `strict=True`",
        "Strict mode traces Python with TorchDynamo and refuses code that Dynamo cannot trace. "
        "The default mode exports the target.",
    ),
    Code(
        "export/dynamic-shapes",
        Severity.INFORMATION,
        "The sizes that may vary in the exported program",
        "Pass the value in the message to `torch.export.export` as `dynamic_shapes`. All other "
        "sizes are constants of the exported program.",
    ),
    Code(
        "numerics/wrong-result",
        Severity.ERROR,
        "Compiled code computes a wrong result",
        "Inductor's code gives a result or a gradient that differs from eager mode by more than "
        "rounding: the same computation in float64 agrees with eager mode. `fullgraph check "
        "--numerics` reports the first operation at which this happens. `fullgraph repro --backend "
        "inductor --accuracy` writes a script for a bug report; `torch.compiler.disable` on the "
        "function avoids the wrong result. If the message says that Dynamo captures another "
        'computation, `backend="eager"` gives the wrong result too, for example because the code '
        "checks `torch.compiler.is_compiling()`.",
    ),
    Code(
        "backend",
        Severity.WARNING,
        "A problem of AOTAutograd or Inductor",
        "fullgraph compiled the target's graphs with AOTAutograd and Inductor after the trace, "
        "because `backend` is set. It compiles for training, with a backward pass, if the result "
        "requires gradients, and for inference. Kernels are generated but not built, so a C++ "
        "compiler or a GPU is not needed.",
    ),
    Code(
        "backend/error",
        Severity.WARNING,
        "AOTAutograd or Inductor fails",
        "AOTAutograd or Inductor raised an error for the graph that Dynamo captured here, or the "
        "compiled code raised an error when it ran. `torch.compile` raises the same error. The "
        "finding is at the operation that failed; for an error in the backward pass, it is at the "
        "forward operation. `fullgraph repro` makes a script with the smallest graph that fails.",
    ),
    Code(
        "backend/fallback",
        Severity.INFORMATION,
        "Inductor calls PyTorch's kernel for an operator",
        "Inductor does not generate code for this operator, or not for its dtype, such as complex "
        "numbers. It calls PyTorch's own kernel. The result is correct, but the operations before "
        "and after it are not fused with it. Operators whose kernel is faster than generated code, "
        "such as attention and convolutions, and your own custom operators are not reported.",
    ),
    Code(
        "backend/donated-buffer",
        Severity.WARNING,
        "A compiled backward pass cannot run twice",
        "The backward graph reuses the memory of saved tensors (donated buffers), so "
        "`backward(retain_graph=True)` and `create_graph=True` raise. Add the losses and call "
        "`backward()` once, or set `torch._functorch.config.donated_buffer = False` before the "
        "code is compiled, which needs more memory.",
    ),
    Code(
        "backend/mutated-input",
        Severity.INFORMATION,
        "A compiled graph changes a tensor that it did not create",
        "The graph changes an argument, or another tensor that it did not create, in place. If the "
        "tensor needs gradients, AOTAutograd computes a new tensor and copies it back after the "
        'graph. Otherwise the change prevents CUDA graphs (`mode="reduce-overhead"`): they would '
        "need the tensor at the same address in each call. Parameters and buffers are not "
        "reported.",
        "Return a new tensor, or register the tensor as a buffer of the module.",
    ),
    Code(
        "backend/repeated-block",
        Severity.INFORMATION,
        "A graph repeats the same block",
        "Several objects of a module class, such as the layers of a transformer, do the same "
        "operations in one graph. The compile time grows with their number, although the code that "
        "Inductor generates for one of them could be used for all. A nested region is compiled "
        "once and called for each object. Operations of different blocks are then not fused.",
        "Write `@torch.compiler.nested_compile_region` above the class's `forward`, or compile "
        "each block with `block.compile()` in place of the whole model. `fullgraph fix "
        "--compile-time` makes the first change, and measures the compile time with and without "
        "it.",
    ),
    Code(
        "backend/no-compiler",
        Severity.WARNING,
        "A compiler for Inductor's kernels is missing",
        "Inductor needs a C++ compiler for code on the CPU, and Triton for code on a GPU. Without "
        "it, `torch.compile` raises when it compiles the first graph. fullgraph itself does not "
        "need these compilers.",
    ),
    Code(
        "backend/incomplete",
        Severity.WARNING,
        "Compiling a function or module did not finish",
        "The process that compiled the target's graphs reached its time limit, ran out of memory, "
        "crashed, or could not compile for a device. The findings of the trace are complete, but "
        "errors of AOTAutograd and Inductor may be missing.",
        "Give the probe smaller sizes, or raise the setting `backend-timeout`.",
    ),
    Code(
        "recompile",
        Severity.INFORMATION,
        "The function is compiled more than once",
        "A guard failed on a later call, and the function was recompiled for the new case. "
        "After `recompile_limit` (8) compilations Dynamo gives up and runs it as Python.",
    ),
    Code(
        "recompile/size",
        Severity.INFORMATION,
        "Recompiled for another size",
        "The code was compiled for tensors of one size and called with another. Automatic dynamic "
        "shapes make the dimension symbolic on the second size; `torch._dynamo.mark_dynamic` does "
        "so on the first and saves a compilation.",
    ),
    Code(
        "recompile/tensor",
        Severity.INFORMATION,
        "Recompiled for a tensor with other properties",
        "The data type, device, strides, `requires_grad` or class of a tensor changed. Convert "
        "inputs to one form before you call compiled code.",
    ),
    Code(
        "recompile/value",
        Severity.INFORMATION,
        "Recompiled for another Python value",
        "A number, string or flag became a constant of the compiled code. Each other value "
        "recompiles, until `recompile_limit` is reached. If a value changes from call to call, "
        "pass it as a tensor, or do not use it in compiled code.",
    ),
    Code(
        "recompile/type",
        Severity.INFORMATION,
        "Recompiled for a value of another type",
        "The code was compiled for one type, or for `None`, and called with another.",
    ),
    Code(
        "recompile/identity",
        Severity.INFORMATION,
        "Recompiled for another object",
        "The code was compiled for exactly one object: a function, a class, a module. Create the "
        "object once and use it for all calls.",
    ),
    Code(
        "recompile/structure",
        Severity.INFORMATION,
        "Recompiled for another number of entries",
        "Lists, dictionaries and attributes are compiled entry by entry; another length or other "
        "keys recompile.",
    ),
    Code(
        "recompile/mode",
        Severity.INFORMATION,
        "Recompiled because grad mode or a similar setting changed",
        "The compiled code depends on grad mode, autocast, the default data type and similar "
        "settings.",
    ),
    Code(
        "recompile/limit",
        Severity.ERROR,
        "Compiled so often that Dynamo gave up",
        "A function was compiled `torch._dynamo.config.recompile_limit` (8) times and runs as "
        "plain Python from then on. PyTorch reports this only with `TORCH_LOGS=recompiles`. With "
        "`fullgraph=True` the call raises instead. Look at what changes from call to call: the "
        "finding names it.",
    ),
    Code(
        "recompile/every-call",
        Severity.WARNING,
        "Every call recompiles",
        "Called again with the same inputs, the target is recompiled each time: something that "
        "it reads has changed since the previous call, such as its own counter. After "
        "`recompile_limit` (8) compilations Dynamo gives up.",
    ),
    Code(
        "recompile/every-size",
        Severity.WARNING,
        "Each new size recompiles",
        "The target was called again with other sizes, and recompiled for each of them. Dynamo "
        "tried to make the dimension dynamic, but the code on this line needs the size as a "
        "number.",
    ),
    Code(
        "compile",
        Severity.INFORMATION,
        "A finding about a call of `torch.compile` or `torch.export`",
        "A finding about a call of `torch.compile`, `Module.compile` or `torch.export.export` in a "
        "program.",
    ),
    Code(
        "compile/warning",
        Severity.INFORMATION,
        "Dynamo warns about this code",
        "Dynamo issued this warning while the program ran, for example that it ignores a "
        "`functools.lru_cache` and traces the wrapped function.",
    ),
    Code(
        "compile/never-called",
        Severity.INFORMATION,
        "A compiled object was never called",
        "The program ran to its end and never called the object that this line compiles, so the "
        "line does nothing. `torch.compile` returns a new object: call this new object, or use "
        "`model.compile()`, which compiles the model in place.",
        "Call the object that `torch.compile` returns, or remove the call.",
    ),
    Code(
        "compile/no-graph",
        Severity.WARNING,
        "A compiled function ran without any graph",
        "The program called this compiled function or module, but Dynamo captured no graph in it: "
        "every call ran in eager mode.",
    ),
    Code(
        "compile/different-code",
        Severity.HINT,
        "Compiled calls take another branch than calls in eager mode",
        "A condition depends on `torch.compiler.is_compiling()` or a function like it. Dynamo "
        "evaluates the function while it traces, so the compiled code has one branch of the "
        "condition, and calls without `torch.compile` take the other. This is fine for logging and "
        "checks. If the branches compute something, compare their results.",
    ),
    Code(
        "program",
        Severity.HINT,
        "A problem while fullgraph ran a program",
        "fullgraph runs files that are programs, to find out what they compile. These findings "
        "report that a program did not run to its end, for example because the sandbox refused an "
        "operation.",
    ),
    Code(
        "program/exited",
        Severity.HINT,
        "The program exited with an error status",
        "The program or its argument parser called `sys.exit` or `os._exit` with a status other "
        "than 0. If the program requires arguments, write them in a comment of the file, "
        "`# fullgraph: run(--steps 2)`, or on the command line: "
        "`fullgraph check -- train.py --steps 2`.",
    ),
    Code(
        "program/refused",
        Severity.INFORMATION,
        "The sandbox refused something that the program needs",
        "Programs that fullgraph runs cannot use the network, start processes or send signals to "
        "other processes. They can write only to some folders, and what they write there is "
        "discarded. What comes after this line was not run. Allow what the program needs with the "
        "entry of the setting `sandbox.allow` that the finding names; only your own settings and "
        "the command line can allow something.",
    ),
    Code(
        "program/limit",
        Severity.HINT,
        "The program reached a limit of fullgraph",
        "The program needed more memory, or wrote a larger file, than the setting `memory-limit` "
        "allows. What comes after this line was not run.",
    ),
    Code(
        "program/no-input",
        Severity.HINT,
        "The program reads standard input",
        "Standard input is empty when fullgraph runs a program. What comes after this line was "
        "not run. Give the program its input by arguments or files.",
    ),
    Code(
        "program/data-missing",
        Severity.HINT,
        "The program needs data this machine does not have",
        "The program opened a file that does not exist, or asked the network for data. Traced code "
        "cannot reach the network unless you allow it. What comes after this "
        "line was not run.",
    ),
    Code(
        "trace",
        Severity.ERROR,
        "The target could not be traced to its end",
        "An error ended the trace before Dynamo started, or while Dynamo traced the target.",
    ),
    Code(
        "trace/syntax-error",
        Severity.ERROR,
        "The file is not Python",
        "The Python interpreter that traces cannot parse the file, so nothing in it is traced. The "
        "file may use the syntax of a newer Python.",
    ),
    Code(
        "trace/import-error",
        Severity.ERROR,
        "An import failed",
        "The file was executed without this import. Targets that do not use it are traced. The "
        "message says why the deepest import failed. The related places show the chain of imports, "
        "which may begin in a parent package of the file. Install the missing package into the "
        "interpreter that traces (`fullgraph doctor` shows it), or add its folder to the setting "
        "`extra-paths`.",
    ),
    Code(
        EAGER_ERROR,
        Severity.ERROR,
        "The code raised an exception",
        "This is an error of the code itself, with the probe's inputs, and would happen without "
        "`torch.compile` too. Either the code or the probe is wrong.",
    ),
    Code(
        "trace/compile-error",
        Severity.ERROR,
        "Dynamo or its backend raised an exception",
        "The code runs as ordinary Python, but compiling it failed with an error other than a "
        "graph break. `torch.compile` would raise it as well.",
    ),
    Code(
        "trace/needs-real-tensors",
        Severity.WARNING,
        "The trace ended early because it had only fake tensors",
        "The code needs the data of a tensor, for example for `.numpy()` or a C extension, and "
        "fake tensors do not have data. The code was not run with real tensors, because the model "
        "is too large or its device is absent. What comes after this line was not traced.",
    ),
    Code(
        "trace/timeout",
        Severity.ERROR,
        "The trace reached its time limit",
        "The trace was still at this line when it reached its time limit. Use smaller "
        "example inputs, or raise the setting `timeout`.",
        "Use smaller example inputs, or raise the setting `timeout`.",
    ),
    Code(
        "trace/crashed",
        Severity.ERROR,
        "The process of the trace died",
        "The process ended while it executed this line: a crash in native code, `os._exit`, or "
        "more memory than the setting `memory-limit` allows.",
    ),
    Code(
        "trace/sandboxed",
        Severity.INFORMATION,
        "The sandbox refused an operation",
        "Traced code cannot write files outside its own scratch folder, use the network or start "
        "processes, and does not see environment variables that look like secrets. The call raised "
        "`PermissionError`, or `KeyError` for a variable. Put such code below `if __name__ == "
        '"__main__":`, where refusals are not reported, or allow it with the entry of the setting '
        "`sandbox.allow` in the finding. Only your own settings and the command line can allow "
        "something.\n\nCode also runs without a GPU, even on a machine with one, so traces do not "
        'use GPU memory. `torch.cuda.is_available()` is False. Tensors on `"cuda"` are fake, also '
        "in a probe (`f32[4, 16]@cuda`). Statements that need a real GPU "
        "(`torch.cuda.get_device_name()`) fail, and names that they define are missing.",
        "Move this operation to code that is not traced, such as that below `if __name__ == "
        '"__main__":`.',
    ),
    Code(
        "trace/too-long",
        Severity.INFORMATION,
        "The file is too long to trace after each edit",
        "Tracing a file of megabytes takes minutes and gigabytes of memory, so the editor does "
        "not do it after every edit. The editor's command `Analyze File` and `fullgraph check` "
        "trace it once.",
        "Trace it with the editor's command `Analyze File`, or split the file.",
    ),
    Code(
        "trace/disabled",
        Severity.WARNING,
        "TorchDynamo is disabled",
        "`torch._dynamo.config.disable` is set when targets are traced: by the file, by what it "
        "imports, or by the environment variable `TORCH_COMPILE_DISABLE`. `torch.compile` then "
        "runs everything in eager mode.",
        "Remove the statement that sets `torch._dynamo.config.disable`. If `TORCH_COMPILE_DISABLE` "
        "is set, unset it and restart the editor.",
    ),
    Code(
        "trace/replaced-builtins",
        Severity.INFORMATION,
        "The file replaces builtin functions",
        "The module replaced functions such as `len` or `isinstance`. fullgraph restores the "
        "original functions before it traces, because fullgraph and Dynamo call them. The trace "
        "therefore does not show what the replacements do.",
    ),
    Code(
        "trace/interrupted",
        Severity.WARNING,
        "The file could not be traced",
        "The engine died twice while it traced the file, or the system could not start another "
        "process. The results that are still shown are from an earlier trace, and may be "
        "incomplete.",
        "Save the file to trace it again.",
    ),
    Code(
        "trace/untraced",
        Severity.HINT,
        "These lines were not traced",
        "This finding is only shown on request. Dynamo entered this function, but did not trace "
        "these lines with the inputs of the probe, or on other paths that fullgraph tried. They "
        "may run in eager mode, because the function was skipped, or need a condition that is "
        "false for all inputs of the probe.",
        "Write a probe with inputs that reach these lines.",
    ),
    Code(
        "trace/incomplete",
        Severity.WARNING,
        "A part of the trace could not be recorded",
        "fullgraph itself failed while it recorded a trace, so findings of this target may be "
        "missing. The trace itself was not affected.",
        "Run `fullgraph doctor`, and report its output with the message: this is a bug in "
        "fullgraph, unless the file replaces functions that fullgraph uses.",
    ),
    Code(
        "probe",
        Severity.HINT,
        "A finding about the inputs that a target is traced with",
        "A finding about probes.",
    ),
    Code(
        "probe/missing",
        Severity.HINT,
        "fullgraph doesn't know the inputs of this function",
        "The target was not traced, because fullgraph does not know its inputs: it did not find a "
        "probe, a call from another traced target, or arguments by search. Write a probe above "
        "it, `# fullgraph: x=f32[8, 16]`, with constructor arguments as `# fullgraph: init(d=16) "
        'forward(f32[b, t, 16])`; or annotate the parameters (`x: "f32[b, 16]"`); or write `# '
        "fullgraph: off` to skip it.",
        "Write the inputs above the function, as `# fullgraph: x=f32[8, 16]`, or "
        "`# fullgraph: off` to skip it.",
    ),
    Code(
        "probe/invalid",
        Severity.ERROR,
        "A probe cannot be read or does not fit",
        "A comment that begins with `# fullgraph:` is not in probe notation, or does not fit its "
        "target, so the target was not traced with it. Or the code raises with the inputs of this "
        "comment, but runs with other inputs; a quick fix then changes the comment to those "
        "inputs. Tensors are written `f32[8, 16]`, with names `x=f32[b, 16]`; other values are "
        "Python literals.",
        "Change the probe to inputs that the target accepts, or remove the probe; fullgraph then "
        "searches for inputs.",
    ),
    Code(
        "ignore",
        Severity.HINT,
        "A finding about an ignore comment",
        "A finding about a comment such as `# fullgraph: ignore[GB0059]`.",
    ),
    Code(
        "ignore/unused",
        Severity.HINT,
        "An ignore comment hides nothing",
        "The comment, or some of its codes, does not hide a finding of its line. Remove it with "
        "`fullgraph check --fix` or the quick fix, so that it cannot hide a later finding. "
        "fullgraph reports this only if it traced all functions and modules of the file to their "
        "end, including other execution paths, and reached the whole statement. It checks codes of "
        "recompiles, and comments without codes, only with a forecast (`--forecast`), and "
        "`export/…` only with `--export`. Comments about other codes are never reported, nor are "
        "codes that your settings turn off.",
    ),
    Code(
        "schema",
        Severity.ERROR,
        "A finding about the definition of an operator",
        "A finding about the schema of an operator, or about a part that an operator needs but "
        "does not have, such as a fake kernel.",
    ),
    Code(
        "schema/invalid",
        Severity.ERROR,
        "torch will refuse this operator definition",
        "A call of `torch.library.define`, `Library.define`, `custom_op` or `triton_op` has a "
        "schema or a name that torch does not accept, so the call raises when the file is "
        "executed. The parser of your torch read the schema, and stopped at the marked token. A "
        'schema is `"(Tensor x, Tensor(a!) out, int n=1) -> Tensor"`: types before names, `T[]` '
        "for lists, `T?` for optional values, `(a!)` for a mutated argument, and `-> ()` for "
        "nothing. Without a schema, `custom_op` makes it from the type annotations of the "
        "function.",
    ),
    Code(
        "schema/no-fake-kernel",
        Severity.INFORMATION,
        "An operator cannot be traced without a fake kernel",
        "After the file was executed, this operator had neither a fake implementation nor a kernel "
        "for `Meta` or a composite kernel. Calls work in eager mode, but `torch.compile` and "
        "`torch.export` cannot know the shapes of its results. Register a function that makes "
        "empty tensors of the right shape, dtype and device with `torch.library.register_fake`. If "
        "another module registers the fake kernel, hide this finding with an ignore comment.",
    ),
    Code(
        "schema/fake-signature",
        Severity.WARNING,
        "A fake kernel has other parameters than its operator",
        "The function that was registered with `register_fake` cannot be called with the arguments "
        "of the operator, so calls of the operator break the graph or raise an error under "
        "`torch.compile` and `torch.export`. PyTorch leaves out arguments that equal their "
        "defaults; a fake kernel therefore needs the same defaults as the schema.",
    ),
    Code(
        "schema/unmarked-mutation",
        Severity.INFORMATION,
        "A schema does not mark an argument as mutated",
        "The schema does not mark an argument as mutated, although the operator returns nothing, "
        "or has a name that ends in `_`, as operators that write to their first argument do. If it "
        "writes to an argument, mark the argument: `Tensor(a!) x` in a schema, `mutates_args` for "
        "`custom_op`. Without a mark, the results under `torch.compile` are wrong, and the "
        "compiler may remove calls of an operator that returns nothing.",
    ),
)

_FORMER = {"guard/specialised-dimension": "guard/specialized-dimension"}
"""Current names of codes that were renamed, by their former names, which users may still write."""
_FORMER_TAILS = {old.rpartition("/")[2]: new.rpartition("/")[2] for old, new in _FORMER.items()}

_UNKNOWN = Code("", Severity.WARNING, "A finding", "")
_ROWS: Mapping[str, Code] = {code.name: code for code in CODES}
_HEADS = frozenset(name.partition("/")[0] for name in _ROWS)


def current_name(name: str) -> str:
    """Return the current name of a finding code, or of a family of codes, which may have been
    renamed since the user wrote ``name`` in a setting or comment.
    """
    return _FORMER.get(name) or _FORMER_TAILS.get(name, name)


@functools.lru_cache(maxsize=1024)
def find_row(code: str) -> Code:
    """Return the row of the table for a finding code, or for its nearest parent in the table.

    The parent of ``graph-break/GB0059`` is ``graph-break``.
    """
    parts = current_name(code).split("/")
    for length in range(len(parts), 0, -1):
        found = _ROWS.get("/".join(parts[:length]))
        if found is not None:
            return found
    return _UNKNOWN


def documentation_url(code: str) -> str:
    """Return the URL of a code's documentation; empty for an unknown code."""
    identifier = graph_break_id(code)
    if identifier:
        return f"{_GRAPH_BREAK_SITE}/{identifier.lower()}.html"
    found = find_row(code)
    return found.href if found.name else ""


def graph_break_id(code: str) -> str:
    """Return the id in a graph break's code: ``GB0059`` for ``graph-break/GB0059``.

    The result is empty for codes without an id.
    """
    head, _, tail = code.partition("/")
    return tail if head == "graph-break" and GRAPH_BREAK_ID.fullmatch(tail) else ""


def effective_severity(code: str, chosen: Mapping[str, Severity]) -> Severity:
    """Return the severity of a finding code, given the severities that the user has set.

    The most specific entry of ``chosen`` that matches the code decides, else the default.
    """
    best = max(chosen, key=functools.partial(specificity, code), default="")
    return chosen[best] if matches_selector(code, best) else find_row(code).severity


def is_selected(code: str, select: Iterable[str], ignore: Iterable[str]) -> bool:
    """Whether findings with this code are shown, given the user's settings ``select`` and
    ``ignore``.

    The more specific matching entry wins; ``ignore`` wins a tie. An empty ``select`` selects all
    codes.
    """
    select = tuple(select)
    wanted = max((specificity(code, each) for each in select), default=0)
    unwanted = max((specificity(code, each) for each in ignore), default=0)
    return (wanted > 0 or not select) and (wanted > unwanted or not unwanted)


def may_be_selected(
    beginning: str, select: Iterable[str], ignore: Iterable[str], chosen: Mapping[str, Severity]
) -> bool:
    """Whether the user's settings may show a finding whose code begins with ``beginning``; True if
    uncertain.

    ``beginning`` is a code or a family such as ``graph-break/``. ``select`` and ``ignore`` are
    lists of codes, ``chosen`` the severities set by the user.
    """
    select, ignore = tuple(select), tuple(ignore)
    family = beginning.rstrip("/")
    if not family:
        return True

    def is_inside_family(selector: str) -> bool:
        return selector.startswith(family + "/") or ("/" not in selector and selector not in _HEADS)

    if select and not any(
        matches_selector(family, selector) or is_inside_family(selector) for selector in select
    ):
        return False
    if any(matches_selector(family, selector) for selector in ignore) and not any(
        map(is_inside_family, select)
    ):
        return False
    off = effective_severity(family, chosen) is Severity.OFF
    return not off or any(
        is_inside_family(selector) and chosen[selector] is not Severity.OFF for selector in chosen
    )


def specificity(code: str, selector: str) -> int:
    """Return how specifically an entry of the user's settings (``selector``) names a code; 0 if it
    does not match.

    The full code is the most specific selector, then its last part alone (``GB0059``), then its
    parents from the longest to the shortest.
    """
    code, selector = current_name(code), current_name(selector)
    parts = code.count("/") + 1
    if selector == code:
        return parts + 1
    if code.endswith("/" + selector):
        return parts
    return selector.count("/") + 1 if code.startswith(selector + "/") else 0


def matches_selector(code: str, selector: str) -> bool:
    """Whether an entry of the user's settings (``selector``) selects a finding code.

    The entry may be the code itself, one of its parents (``graph-break``), or its last part
    (``GB0059``).
    """
    return specificity(code, selector) > 0


def is_known_selector(selector: str) -> bool:
    """Whether ``selector`` matches a code that a finding can have; if not, it is misspelled."""
    if GRAPH_BREAK_ID.fullmatch(selector):
        return True
    if find_row(selector).name and "/" not in selector:
        return True
    # torch names the codes of these families, so any text may follow the family's name.
    if selector.startswith(("graph-break/", "frame-skipped/", "guard/", "recompile/")):
        return True
    return any(matches_selector(name, selector) for name in _ROWS)


def codes_page() -> str:
    """Return the Markdown text of ``docs/codes.md``, which documents all codes."""
    parts = [
        "# Finding codes",
        "",
        "<!-- Generated by `python -m fullgraph.domain.codes`; edit domain/codes.py instead. -->",
        "",
        "A code also covers the codes below it: `graph-break` selects, ignores or sets the",
        "severity of `graph-break/GB0059` as well. An id (`GB0059`) is short for its code.",
        "If several match, a whole code takes precedence over an id, and an id over a family.",
        "Severities can be changed with the setting `severity`.",
        "",
        "| code | severity | |",
        "|---|---|---|",
        *(f"| [`{c.name}`](#{c.anchor}) | {c.severity.value} | {c.title} |" for c in CODES),
    ]
    for code in CODES:
        parts += ["", f"## {code.name}", "", f"{code.title}. Default: {code.severity.value}.", ""]
        parts += [code.help]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    sys.stdout.write(codes_page())
