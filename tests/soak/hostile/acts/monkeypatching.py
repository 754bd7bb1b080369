"""What the interpreter, torch and the engine rely on, replaced."""

from __future__ import annotations

from tests.soak.hostile.case import table

CASES = table(
    r"""
== builtins | trace/compile-error + trace/replaced-builtins: replaced | module | no break
import builtins
def broken(*a, **k): raise RuntimeError("replaced")
for name in ("len", "isinstance", "open", "getattr", "callable"):
    setattr(builtins, name, broken)
== no builtins at all | trace/crashed + trace/replaced-builtins: fullgraph's own code failed | module | no break
import builtins
builtins.__dict__.clear()
== the import statement | crashes: fullgraph's own code failed | module | no break
import builtins
def broken(*a, **k): raise ImportError("replaced")
builtins.__import__ = broken
== functions of os | crashes: fullgraph's own code failed | module | no break
def broken(*a, **k): raise RuntimeError("replaced")
for name in dir(os):
    if callable(getattr(os, name)) and name[0] != "_" and name != "PathLike": setattr(os, name, broken)
== functions of os, in a run | trace/compile-error: replaced | run
def broken(*a, **k): raise RuntimeError("replaced")
for name in dir(os):
    if callable(getattr(os, name)) and name[0] != "_" and name != "PathLike": setattr(os, name, broken)
== JSON and pickle | crashes: fullgraph's own code failed | module | no break
import json, pickle
json.dumps = json.loads = pickle.dumps = pickle.loads = None
json.JSONEncoder.default = json.JSONEncoder.encode = None
== clocks | trace/compile-error: NaN | module | no break
time.time = time.monotonic = time.perf_counter = lambda: float("nan")
== a clock that goes backwards, in a run | traced | run
count = itertools.count()
time.time = time.monotonic = time.perf_counter = lambda: -float(next(count))
== all modules are forgotten | crashes: fullgraph's own code failed | module | no break
sys.modules.clear()
== modules of torch are forgotten | crashes: fullgraph's own code failed | module | no break
for name in list(sys.modules):
    if name.startswith("torch"): del sys.modules[name]
== modules are None | trace/compile-error: None in sys.modules | module | no break
for name in ("os", "json", "ast", "re", "inspect", "traceback", "linecache", "dis", "types"):
    sys.modules[name] = None
== this module is another one | traced
sys.modules[__name__] = type(sys)("other")
== a module that is no module | traced
class Lazy:
    def __getattr__(self, name): raise RuntimeError(name)
sys.modules["lazy"] = sys.modules["torch.lazy"] = Lazy()
== the search path | traced
sys.path[:] = sys.meta_path[:] = sys.path_hooks[:] = []
sys.path_importer_cache.clear()
== the finder of the engine | traced
del sys.meta_path[0]
== hooks of the interpreter | traced
def broken(*a, **k): raise RuntimeError("replaced")
sys.excepthook = sys.unraisablehook = sys.displayhook = threading.excepthook = broken
== a tracer | traced
sys.settrace(lambda *a: None)
threading.settrace(lambda *a: None)
== a tracer that raises, in a run | raises: traced | run
def broken(*a): raise RuntimeError("traced")
sys.settrace(broken)
== the garbage collector | traced
gc.set_threshold(500)
gc.callbacks.append(lambda *a: [].pop())
== warnings are errors | traced
import warnings
warnings.simplefilter("error")
== logging raises | traced
import logging
class Raises(logging.Handler):
    def handle(self, record): raise RuntimeError("logged")
logging.getLogger().addHandler(Raises())
logging.getLogger().setLevel(0)
== the environment | traced
os.environ.clear()
os.environ.update(TORCH_LOGS="+dynamo", PYTHONHOME="/nowhere", LD_PRELOAD="/nowhere.so")
== the working folder | traced
os.chdir("/proc/self/fd")
== Dynamo is disabled | trace/disabled | module | no break
torch._dynamo.config.disable = True
== Dynamo's settings | traced
config = torch._dynamo.config
config.suppress_errors = config.verbose = config.assume_static_by_default = False
config.recompile_limit = config.cache_size_limit = 1
== torch.compile | trace/incomplete: unless the file replaces | module | no break
torch.compile = torch._dynamo.optimize = torch._dynamo.reset = None
== Dynamo itself | trace/compile-error | module | no break
import torch._dynamo.symbolic_convert as convert
convert.InstructionTranslator.run = None
== Dynamo's explanation | trace/compile-error: division by zero | module | no break
import torch._dynamo.exc as errors
errors.Unsupported.__str__ = lambda self: 1 / 0
== modules of torch | trace/eager-error | module | no break
nn.Module.__call__ = lambda *a, **k: 1 / 0
== tensors | trace/eager-error | module | no break
torch.Tensor.__mul__ = lambda *a: 1 / 0
== fake tensors | raises: division by zero | module | no break
from torch._subclasses import FakeTensorMode
FakeTensorMode.__enter__ = lambda self: 1 / 0
== the default device | traced
torch.set_default_device("meta")
torch.set_default_dtype(torch.float64)
== a mode for all functions | raises: mode | module | no break
from torch.overrides import TorchFunctionMode
class Mode(TorchFunctionMode):
    def __torch_function__(self, call, types, given=(), named=None): raise RuntimeError("mode")
Mode().__enter__()
== gradients off, and inference for good | traced
torch.set_grad_enabled(False)
torch.inference_mode().__enter__()
== random numbers | crashes: fullgraph's own code failed | module | no break
import random
random.seed = torch.manual_seed = torch.random.manual_seed = lambda *a: 1 / 0
== the engine's sandbox is opened | refused: Read-only file system
gc.unfreeze()
for held in gc.get_objects():
    if type(held).__name__ == "Sandbox": held.root = ""; held.forking = True
open(PROJECT + "/weights.pt", "w")
== the engine's sandbox is opened, for programs | refused: Operation not permitted
gc.unfreeze()
for held in gc.get_objects():
    if type(held).__name__ == "Sandbox": held.forking = True
subprocess.run(["/bin/touch", PROJECT + "/made"])
== the engine's rules are replaced | refused: Read-only file system
import fullgraph_engine.host.sandbox as box
box.Sandbox._writes.__code__ = (lambda self, path: None).__code__
open(PROJECT + "/weights.pt", "w")
== the engine reports what it is told to | timeout | module | no break
import fullgraph_engine.host.wire as wire
wire.write_message = lambda *a: None
== the engine knows no findings | crashes: fullgraph's own code failed | module | no break
import fullgraph_engine.protocol as protocol
protocol.Finding = protocol.FindingFound = protocol.to_plain = None
== the engine's last words | crashes: exited with status 3
import fullgraph_engine.host.blackbox as blackbox
blackbox.at_stack = blackbox.at_place = blackbox.at_statement = lambda *a: 1 / 0
os._exit(3)
== the engine's classes by the collector | traced | module | no break
for held in gc.get_objects():
    if type(held).__name__ in ("Clock", "Execution", "ImportProgress"): held.__dict__.clear()
== regular expressions, paths and texts | traced | module | no break
import re, ast, textwrap, inspect, linecache
def broken(*a, **k): raise RuntimeError("replaced")
re.compile = re.match = ast.parse = ast.walk = textwrap.dedent = inspect.signature = broken
inspect.getsource = inspect.getsourcelines = linecache.getline = linecache.getlines = broken
== dataclasses and types | crashes: fullgraph's own code failed | module | no break
import dataclasses, typing, enum, types
dataclasses.replace = dataclasses.fields = dataclasses.asdict = typing.get_type_hints = None
== codecs | traced
import codecs
codecs.register(lambda name: 1 / 0)
codecs.lookup = codecs.encode = None
== locks that are never free | traced | module | no break
threading.Lock = threading.RLock = threading.Condition = lambda *a: 1 / 0
== signals | traced
signal.signal = signal.setitimer = signal.pthread_sigmask = lambda *a: None
== the limit of statements | traced
sys.setswitchinterval(1e9)
sys.set_int_max_str_digits(640)
"""
)
