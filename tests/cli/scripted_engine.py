"""A stand-in for a Python interpreter with torch: an engine that says what the file tells it to.

Started the way the real one is, with the boot script as first argument. Events stand in the
analyzed text as comments ``#! {...}``; ``#! die``, ``#! hang`` and ``#! jobs`` are orders. What it
says when it is asked for a repro stands there as ``#? {...}``, with the same orders; the data of
one is ``numbers``.
``SCRIPTED_HIDDEN`` in the environment lists facts that its torch does not show, by commas; with
``SCRIPTED_SANDBOX`` it has a sandbox with layers of every kind.
``SCRIPTED_TORCH`` in the environment is the version of its torch; what stands in comments like
``#2.6.0! {...}`` is said by that torch only. ``SCRIPTED_INDEX`` is the path of an operator index,
``SCRIPTED_STATIC`` that of an incomplete one; ``SCRIPTED_SLOW`` are the seconds that the import of
torch takes.
"""

import json
import math
import os
import sys
import time
from pathlib import Path
from typing import cast

boot, arguments = Path(sys.argv[1]), sys.argv[2:]
sys.path.insert(0, str(boot.parent.parent))

from fullgraph_engine import protocol  # noqa: E402
from fullgraph_engine.protocol.facts import Fact  # noqa: E402
from fullgraph_engine.protocol.sandbox import SandboxLayer  # noqa: E402

UNUSABLE = os.environ.get("SCRIPTED_UNUSABLE")
LOG = os.environ.get("SCRIPTED_LOG")
TORCH = os.environ.get("SCRIPTED_TORCH", "2.13.0")

incoming = os.fdopen(int(arguments[arguments.index("--read") + 1]), "rb")
outgoing = os.fdopen(int(arguments[arguments.index("--write") + 1]), "wb", 0)


def say(message: protocol.Message) -> None:
    outgoing.write(protocol.encode(message))


def note(text: str) -> None:
    if LOG:
        with Path(LOG).open("a") as log:
            log.write(text + "\n")


note(f"started {os.getpid()}")
note(f"processes {arguments[arguments.index('--processes') + 1]}")
if "--allowed" in arguments:
    note(f"allowed {arguments[arguments.index('--allowed') + 1]}")
say(protocol.Starting(protocol.VERSION, os.getpid(), "3.11.7", sys.executable))
for variable, complete in (("SCRIPTED_STATIC", False), ("SCRIPTED_INDEX", True)):
    if path := os.environ.get(variable):
        say(protocol.IndexWritten(path, complete))
if UNUSABLE:
    say(protocol.Unusable(UNUSABLE, "Install torch."))
    sys.exit(1)
time.sleep(float(os.environ.get("SCRIPTED_SLOW", "0")))
HIDDEN = os.environ.get("SCRIPTED_HIDDEN", "")
degraded = tuple(
    protocol.Degraded(cast("Fact", fact), "it has no name for them")
    for fact in HIDDEN.split(",")
    if fact
)
layers = (
    (
        SandboxLayer("seccomp"),
        SandboxLayer("Landlock", "old", partly=True),
        SandboxLayer("pid namespace", "EPERM"),
    )
    if "SCRIPTED_SANDBOX" in os.environ
    else ()
)
untested = "SCRIPTED_UNTESTED" in os.environ
say(protocol.Ready(TORCH, 0.1, degraded, untested, protocol.SandboxLevel(layers)))
hanging = 0
for line in incoming:
    request = protocol.decode(line)
    if isinstance(request, protocol.Shutdown):
        break
    if isinstance(request, protocol.SelfCheck):
        hooks = (
            protocol.Hook("breaks", True, "graph breaks with their ids"),
            protocol.Hook("schemas", "SCRIPTED_DEGRADED" not in os.environ, "operators", "gone"),
        )
        say(protocol.SelfChecked(request.request, "2.13.0", "3.11.7", hooks))
    if isinstance(request, protocol.Cancel) and hanging == request.request:
        note("cancelled")
        say(protocol.Reproduced(request.request, 2.0, 7, verified=False, cancelled=True))
        hanging = 0
    if isinstance(request, protocol.Analyze):
        limits, parts = request.limits, ",".join(request.parts)
        search, file = limits.search_seconds, limits.file_seconds
        note(f"parts {parts} search={search:g} file={file:g} nested={request.nested}")
        if request.without:
            note(f"without {','.join(request.without)}")
        jobs = f"jobs={request.jobs} keep={request.keep}"
        note(f"analyze {request.path} {jobs} mode={request.mode} cwd={request.cwd}")
        for recorded in request.recorded:
            note(f"recorded {recorded.name} {[call.forward for call in recorded.calls]}")
        text, mark = request.text.replace(f"#{TORCH}! ", "#! "), "#! "
    elif isinstance(request, protocol.Reproduce):
        wanted, only = request.wanted, ",".join(request.analyze.only)
        data = " with data" if wanted.data else ""
        what = f"{wanted.code} {wanted.target} {wanted.backend} {only}"
        # What it took to find the finding is no longer there.
        note(f"reproduce {what} {math.ceil(request.seconds)}{data}")
        text, mark = request.analyze.text, "#? "
    else:
        continue
    for order in text.splitlines():
        if not order.startswith(mark):
            continue
        if order == mark + "die":
            os._exit(7)
        if order == mark + "wait":
            time.sleep(1.2)
            continue
        if order == mark + "hang":
            note("hanging")
            if mark == "#! ":
                time.sleep(600)
            hanging = request.request
            break
        event = json.loads(order[3:])
        event["request"] = request.request
        for name in event.get("data", ()):
            if isinstance(request, protocol.Reproduce) and request.folder:
                Path(request.folder, name).write_bytes(b"numbers")
        outgoing.write(json.dumps(event).encode() + b"\n")
    if isinstance(request, protocol.Analyze):
        say(protocol.Analyzed(request.request, request.generation, 0.25))
