"""The text that a model reads before it uses the tools of the server."""

from __future__ import annotations

INSTRUCTIONS = """\
fullgraph runs PyTorch's real TorchDynamo on a Python file and reports what torch.compile does with
it: graph breaks, recompiles, guards, operators that fail. Use it before and after you change code
that torch.compile compiles. Do not guess from the source whether a graph breaks.

Work in this order:
1. `check` lists the findings of a file, the one to change first at the top, each with an id.
2. `explain` gives the reason, stack, guards and shapes of one finding. Skip it if `check` is clear.
3. `fix` searches for edits that remove a finding, and verifies each by a trace and by comparing
   results and gradients. A fix with the grade `safe` can be applied as it is; read `doubt` of an
   `unsafe` one. fullgraph never writes your files: apply the diff yourself.
4. Without a fix, edit the code yourself. Pass your edit as a diff or as the whole new text to
   `verify` before you write it: it says which findings are gone, remain or are new, and whether
   results and gradients stay the same.

`graph` shows the captured graph code with shapes, `repro` makes a short script for a bug report,
`compare` compares a file with an earlier git revision or in two Pythons, `operator` shows the
schema of a torch name. In a long file, pass `target` to trace only one function or class. The diff
of a notebook has a part for each cell, below a line such as `--- a/model.ipynb:cell 3`.

Targets are the functions and module classes that are traced. fullgraph needs example inputs for
them. It finds many itself. For a target that is "not traced", add a comment in the line above it:
`# fullgraph: x=f32[8, 16], n=3`, for the constructor of a module `# fullgraph: init(dim=16)
f32[4, 16]`.

Every answer has the `hash` of the text that was analyzed. Pass it to the next call: the call is
refused if the file has changed since. `text` analyzes unsaved content instead of the file.
If a search takes long, call the tool again with the same arguments for its answer.
Locations are `path:line:column`, counted from 1. An answer that exceeds `budget` tokens has a
`cursor`; pass it to the same tool for the rest.

The code of a file is executed, in a sandbox. In folders that the user does not trust, no tool
executes anything; ask the user to run `fullgraph trust FOLDER`.
"""
