// The files of the tests, as users might have them.

export const BROKEN = `import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(16, 16)
        self.second = nn.Linear(16, 16)

    # A size that is named by a letter is a symbolic one.
    def forward(self, x: "f32[b=4, 16]"):
        hidden = self.first(x).relu()
        print("mean", hidden.mean())
        return self.second(hidden)
`;

/** The break of BROKEN, one-based, and its text. */
export const BREAK = { line: 14, column: 9, text: 'print("mean", hidden.mean())' };

export const UNPROBED = `import torch
import torch.nn as nn


class Double(nn.Module):
    def forward(self, x):
        print(x.shape)
        return torch.relu(x) * 2
`;

export const PROBES = `import torch


# fullgraph: f32[4]
# fullgraph: f32[2, 3]
def f(x):
    y = x * 2
    if x.dim() == 2:
        print("here")
        y = y + 1
    return y
`;

export const OPERATORS = `import torch

`;

/** What takes longer to trace than anybody waits: five megabytes. */
export const LONG = `${BROKEN}\n\n${"number = 1  # one of many lines\n".repeat(160_000)}`;

export const NOTEBOOK = JSON.stringify({
  cells: [
    {
      cell_type: "code",
      execution_count: null,
      metadata: {},
      outputs: [],
      source: ["import torch\n", "def cell(x: 'f32[4]'):\n", "    print(x)\n", "    return x"],
    },
  ],
  metadata: { language_info: { name: "python" } },
  nbformat: 4,
  nbformat_minor: 5,
});

export const SLOW = `import time

import torch


def slow(x: "f32[4]"):
    time.sleep(600)
    return x + 1
`;

/** BROKEN, with a slow `__init__`: a repro calls it so often that it takes longer than `PATIENCE` of progress.ts. */
export const LABORIOUS = BROKEN.replace("import torch\n", "import time\n\nimport torch\n").replace(
  "        super().__init__()\n",
  "        super().__init__()\n        time.sleep(1)\n",
);

/** The break of LABORIOUS. */
export const LABORIOUS_BREAK = { ...BREAK, line: BREAK.line + 3 };
