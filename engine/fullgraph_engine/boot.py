"""Start the engine in the user's interpreter: ``python boot.py --read FD --write FD``.

``--index no`` skips the operator index: it is neither built nor announced. ``--processes`` selects
how the engine starts its child processes: ``fork``, ``spawn`` or ``auto``. A spawned child gets
``--spare`` with an argument that ``host`` provides. ``--allowed`` is a protocol ``Allowed`` as
JSON: the permissions that user code has beyond the default ones. ``--without`` lists sandbox layers
to leave out, separated by commas, to measure what each layer contributes.

This script runs before anything is known about the interpreter. It must load on Pythons that the
rest of the engine does not support, so that it can report them. No file of the user's project may
shadow a module that it imports: the script removes its own folder from ``sys.path`` at once, and
moves the folders of ``PYTHONPATH`` to the end until user code runs.
"""
# This script supports every Python 3 and imports few modules, so it does not follow these rules:
# ruff: noqa: PTH100, PTH110, PTH112, PTH118, PTH120, PTH123, UP031, UP036

import sys

_UNSET = -1
_ENGINE = "fullgraph_engine"


def main(arguments: list) -> int:  # type: ignore[type-arg]
    """Serve requests on the read descriptor until it is closed; return the exit status."""
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
    user_path = _reorder_sys_path()
    from importlib import import_module

    if options["--spare"]:
        _load_engine()
        host = import_module(_ENGINE + ".host")
        return int(host.await_order(options["--spare"], user_path, options["--pipeline"]))

    import json
    import os
    import platform

    def send_event(kind: str, **fields: object) -> None:
        line = json.dumps(dict(fields, type=kind)) + "\n"
        os.write(write, line.encode())

    send_event(
        "Starting",
        version=_protocol_version(),
        pid=os.getpid(),
        python=platform.python_version(),
        executable=sys.executable or "",
    )
    if sys.version_info < (3, 10):
        send_event(
            "Unusable",
            reason="Python %s (%s) is older than 3.10, which fullgraph needs."
            % (platform.python_version(), sys.executable),
            next_step="Choose an interpreter with Python 3.10 or newer and torch 2.8 or newer.",
        )
        return 1
    _load_engine()
    wants_index = options["--index"] == "yes"
    indexed = not wants_index
    try:
        if wants_index and not options["--pipeline"]:
            # Reuse a complete index before loading the rest of the engine, which takes longer.
            installed = import_module(_ENGINE + ".operators.stages").InstalledOperators
            found = installed.find_installed(options["--yaml"])
            index_file = found.cached_index() if found is not None else None
            if index_file is not None:
                send_event("IndexWritten", path=str(index_file), complete=True)
                indexed = True
    except Exception:
        indexed = False  # The index is built again later, and errors are reported then.
    try:
        serve = import_module(_ENGINE + ".host").serve
    except Exception as error:
        send_event(
            "Unusable",
            reason="fullgraph cannot load its engine with the interpreter %s: %s: %s."
            % (sys.executable, type(error).__name__, error),
            next_step="Reinstall fullgraph. The files of its engine are in %s." % _engine_folder(),
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


def _engine_folder() -> str:
    import os

    return os.path.dirname(os.path.abspath(__file__))


def _reorder_sys_path() -> list:  # type: ignore[type-arg]
    """Move the interpreter's folders to the front of ``sys.path``; return the original order for
    user code.

    ``site`` loads ``os`` before any script, so importing it here reads no file of the user.
    """
    import os

    own_folders = {os.path.realpath(_engine_folder()), ""}
    user_path = [
        entry for entry in sys.path if entry and os.path.realpath(entry) not in own_folders
    ]
    listed = "" if sys.flags.ignore_environment else os.environ.get("PYTHONPATH", "")
    from_pythonpath = (
        {os.path.abspath(entry) for entry in listed.split(os.pathsep)} if listed else set()
    )

    def contains_torch(entry: str) -> bool:
        # A torch that the user keeps on PYTHONPATH is the torch to use; a file named torch.py is
        # not.
        return os.path.exists(os.path.join(entry, "torch", "version.py"))

    moved = [
        e for e in user_path if os.path.abspath(e) in from_pythonpath and not contains_torch(e)
    ]
    sys.path[:] = [e for e in user_path if e not in moved] + moved
    return user_path


def _protocol_version() -> int:
    """Read ``VERSION`` from the text of ``protocol``, because an old Python cannot import it."""
    import os
    import re

    with open(os.path.join(_engine_folder(), "protocol", "__init__.py")) as source:
        found = re.search(r"^VERSION = (\d+)", source.read(), re.MULTILINE)
    return int(found.group(1)) if found else _UNSET


def _load_engine() -> None:
    """Import the engine package from its own folder without adding anything to ``sys.path``.

    Its modules get a private copy of the builtins, so the engine still works after user code in the
    same process replaces ``builtins.open`` or ``print``.
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
            base = os.path.join(_engine_folder(), *name.split(".")[1:])
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
