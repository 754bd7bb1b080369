"""Starts the engine in the user's interpreter: ``python boot.py --read FD --write FD``.

``--index no`` is for those who have no use for the operator index: none is made or announced.
``--processes`` says how the engine starts others: ``fork``, ``spawn`` or ``auto``. One that it
spawns is started with ``--spare`` and what ``host`` gives it. ``--allowed`` is what user code may
do beyond what every run may: an ``Allowed`` of the protocol as JSON. ``--without`` names layers of
the sandbox, with commas between them, that are left out: to measure what each is good for.

It runs before anything is known about the interpreter, so it must load on Pythons that the rest
does not support, to be able to say so. Nothing of the user's project may shadow what it imports:
this folder leaves ``sys.path`` at once, and the folders of ``PYTHONPATH`` go behind the others
until user code runs.
"""
# Written for any Python 3, and loading next to nothing:
# ruff: noqa: PTH100, PTH110, PTH112, PTH118, PTH120, PTH123, UP031, UP036

import sys

_UNSET = -1
_ENGINE = "fullgraph_engine"


def main(arguments: list) -> int:  # type: ignore[type-arg]
    """Serve on the two descriptors until the first of them ends."""
    options = {
        "--read": "0",
        "--write": "1",
        "--pipeline": "",
        "--yaml": "",
        "--index": "yes",
        "--processes": "auto",
        "--allowed": "{}",
        "--spare": "",
        "--without": "",
    }
    for name, value in zip(arguments[::2], arguments[1::2]):  # noqa: B905
        if name not in options:
            sys.stderr.write("boot.py: unknown option " + name + "\n")
            return 2
        options[name] = value
    read, write = int(options["--read"]), int(options["--write"])
    user_path = _own_path()
    from importlib import import_module

    if options["--spare"]:
        _load_engine()
        host = import_module(_ENGINE + ".host")
        return int(host.await_order(options["--spare"], user_path, options["--pipeline"]))

    import json
    import os
    import platform

    def say(kind: str, **fields: object) -> None:
        line = json.dumps(dict(fields, type=kind)) + "\n"
        os.write(write, line.encode())

    say(
        "Starting",
        version=_protocol_version(),
        pid=os.getpid(),
        python=platform.python_version(),
        executable=sys.executable or "",
    )
    if sys.version_info < (3, 10):
        say(
            "Unusable",
            reason="Python %s (%s) is older than 3.10, which fullgraph needs."
            % (platform.python_version(), sys.executable),
            next_step="Choose an interpreter with Python 3.10 or newer and torch 2.8 or newer.",
        )
        return 1
    _load_engine()
    wanted = options["--index"] == "yes"
    indexed = not wanted
    try:
        if wanted and not options["--pipeline"]:
            # Before the rest is loaded, which takes longer than to find this.
            installed = import_module(_ENGINE + ".operators.stages").InstalledOperators
            found = installed.find_installed(options["--yaml"])
            kept = found.cached_index() if found is not None else None
            if kept is not None:
                say("IndexWritten", path=str(kept), complete=True)
                indexed = True
    except Exception:
        indexed = False  # the index is made anew; what is wrong is told then
    try:
        serve = import_module(_ENGINE + ".host").serve
    except Exception as error:
        say(
            "Unusable",
            reason="The engine does not load in %s: %s: %s."
            % (sys.executable, type(error).__name__, error),
            next_step="Reinstall fullgraph; its engine is in %s." % _here(),
        )
        return 1
    return int(
        serve(
            read,
            write,
            user_path=user_path,
            pipeline=options["--pipeline"],
            yaml=options["--yaml"],
            indexed=indexed,
            processes=options["--processes"],
            allowed=options["--allowed"],
            without=[name for name in options["--without"].split(",") if name],
        )
    )


def _here() -> str:
    import os

    return os.path.dirname(os.path.abspath(__file__))


def _own_path() -> list:  # type: ignore[type-arg]
    """Put the interpreter's own folders first; returns ``sys.path`` as user code shall see it.

    ``os`` is loaded by ``site`` before any script, so importing it here reads no user file.
    """
    import os

    ours = {os.path.realpath(_here()), ""}
    user_path = [entry for entry in sys.path if entry and os.path.realpath(entry) not in ours]
    listed = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    moved = {os.path.abspath(entry) for entry in listed.split(os.pathsep)} if listed else set()

    def brings_torch(entry: str) -> bool:
        # A torch that the user keeps on PYTHONPATH is the torch to use; a file torch.py is not.
        return os.path.exists(os.path.join(entry, "torch", "version.py"))

    behind = [e for e in user_path if os.path.abspath(e) in moved and not brings_torch(e)]
    sys.path[:] = [e for e in user_path if e not in behind] + behind
    return user_path


def _protocol_version() -> int:
    """Read from the text of ``protocol``, which an old Python could not import."""
    import os
    import re

    with open(os.path.join(_here(), "protocol", "__init__.py")) as source:
        found = re.search(r"^VERSION = (\d+)", source.read(), re.MULTILINE)
    return int(found.group(1)) if found else _UNSET


def _load_engine() -> None:
    """Import the package from its own folder without adding anything to ``sys.path``.

    Its modules get a private copy of the builtins: user code may replace ``builtins.open`` or
    ``print``, and the engine goes on working in the same process.
    """
    import builtins
    import os
    from importlib import machinery, util

    private = dict(builtins.__dict__)

    class EngineLoader(machinery.SourceFileLoader):
        def exec_module(self, module):  # type: ignore[no-untyped-def]
            module.__dict__["__builtins__"] = private
            super(EngineLoader, self).exec_module(module)  # noqa: UP008

    class EngineFinder(object):  # noqa: UP004
        @staticmethod
        def find_spec(name, path=None, target=None):  # type: ignore[no-untyped-def]
            if name != _ENGINE and not name.startswith(_ENGINE + "."):
                return None
            base = os.path.join(_here(), *name.split(".")[1:])
            package = os.path.isdir(base)
            file = os.path.join(base, "__init__.py") if package else base + ".py"
            if not os.path.exists(file):
                return None
            return util.spec_from_file_location(
                name,
                file,
                loader=EngineLoader(name, file),
                submodule_search_locations=[base] if package else None,
            )

    sys.meta_path.insert(0, EngineFinder)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
