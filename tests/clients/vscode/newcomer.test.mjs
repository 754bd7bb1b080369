// A workspace with nothing but an environment that has torch: what was not traced says so, the
// walkthrough works, and all displays count alike.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs/promises";
import path from "node:path";
import { after, afterEach, before, test } from "node:test";
import { promisify } from "node:util";

import * as files from "./files.mjs";
import { Host, PYTHON, until } from "./host.mjs";
import { User } from "./user.mjs";

const execute = promisify(execFile);
const VERSION = process.env.HOST ?? "4.100.3";
const LONG = { timeout: 600_000 };

const MODELS = `import torch
import torch.nn as nn


# fullgraph: f32[4, 16]
class Attention(nn.Module):
    def __init__(self, flash=False):
        super().__init__()
        self.flash = flash
        self.project = nn.Linear(16, 16)

    def forward(self, x):
        if self.flash:
            x = x * 2
            print("flash")
        return self.project(x)

    def generate(self, x):
        return self.forward(x).argmax(-1)


class Unknown(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.size = config.model.sizes["hidden"]

    def forward(self, batch):
        return batch["tokens"][batch["index"]].reshape(self.size, 7)


# fullgraph: f32[4]
def twice(x):
    print(x.shape)
    return x * 2


# fullgraph: f32[4]
def thrice(x):
    print(x.dtype)  # fullgraph: ignore
    return x * 3
`;

const MANY = Array.from(
  { length: 300 },
  (_, number) => `class Net${number}(nn.Module):
    def forward(self, x):
        print(x.shape)
        return torch.relu(x) * ${number}
`,
);

const PACKAGE = ".venv/lib/site-packages/package.py";

let host;
let user;

before(async () => {
  host = await Host.start(VERSION, {
    python: "",
    env: { VIRTUAL_ENV: "", CONDA_PREFIX: "" },
    files: {
      "models.py": MODELS,
      "plain.py": "words = 1\n",
      "laborious.py": files.LABORIOUS,
      "many.py": `import torch\nimport torch.nn as nn\n\n\n${MANY.join("\n\n")}`,
    },
  });
  await environment(path.join(host.workspace, ".venv"));
  await environment(path.join(host.workspace, "bare"), { torch: false });
  await fs.mkdir(path.dirname(path.join(host.workspace, PACKAGE)), { recursive: true });
  await fs.writeFile(path.join(host.workspace, PACKAGE), files.BROKEN);
  await host.open();
  user = new User(host, "newcomer-");
}, LONG);

afterEach(async (context) => {
  if (context.error) {
    const name = context.name.replaceAll(/\W+/g, "-");
    await user?.screenshot(`failed-${name}`).catch(() => undefined);
  }
});

after(() => host?.stop(), LONG);

/** An environment that links the packages of the tests' own, with torch, or has none. */
async function environment(folder, { torch = true } = {}) {
  await execute(PYTHON, ["-m", "venv", "--without-pip", folder]);
  if (torch) {
    const words = "import sysconfig; print(sysconfig.get_path('purelib'))";
    const { stdout: packages } = await execute(PYTHON, ["-c", words]);
    const { stdout: own } = await execute(path.join(folder, "bin/python"), ["-c", words]);
    await fs.writeFile(path.join(own.trim(), "linked.pth"), packages);
  }
}

const entry = () =>
  user.page.locator('[id="fullgraph.fullgraph.menu"], [id$="fullgraph.menu"]').first();

const shown = (words) =>
  until(`"${words}" in the status bar`, async () => (await entry().textContent()).includes(words));

test("the walkthrough leads from a finding to a fix and a measured gain", LONG, async () => {
  const openWalkthrough = async () => {
    await user.command("Welcome: Open Walkthrough");
    const rows = user.page.locator(".quick-input-list .monaco-list-row", { hasText: "fullgraph" });
    await rows.first().click();
  };
  await openWalkthrough();
  const step = (words) =>
    user.page.locator(".getting-started-step", { hasText: words }).first();
  await step("See a graph break").click();
  await user.screenshot("walkthrough");
  await user.page.locator(".getting-started-step .monaco-button", { hasText: "Open Sample" }).click();
  await user.tab("sample.py").first().waitFor();
  await until("its squiggle", async () => (await user.squiggled()) === files.BREAK.text);
  assert.deepEqual(await user.toasts(), []);
  await until("its lens", async () => (await user.lenses()).some((text) => text.includes("2 graphs")));
  await user.screenshot("walkthrough-sample");

  await step("Fix it").click();
  const row = user.page.locator(".action-widget .monaco-list-row", { hasText: "Print only when" });
  const button = (words) =>
    user.page.locator(".getting-started-step .monaco-button", { hasText: words }).first();
  // Escape without an open list may leave the walkthrough for the welcome page.
  const closeList = () =>
    until("the list closed", async () => {
      const open = (await user.page.locator(".action-widget:visible").count()) > 0;
      if (open) {
        await user.page.keyboard.press("Escape");
      }
      return !open;
    });
  await until("a fix", async () => {
    await button("Graph Break").click({ timeout: 10_000 });
    try {
      await row.first().waitFor({ timeout: 5000 });
      return true;
    } catch {
      // It is still being tried.
      await closeList();
      return false;
    }
  });
  await user.screenshot("walkthrough-fix");
  await closeList();

  await until("the next step", async () => {
    // Steps are disabled while the welcome page is shown.
    if (await step("Make it faster").isDisabled()) {
      await openWalkthrough();
    }
    await step("Make it faster").click({ timeout: 5000 });
    return true;
  });
  await button("Make This Faster").click();
  await user.tab("sample.py.measured.txt").first().waitFor({ timeout: 300_000 });
  const lines = user.page.locator(".editor-group-container .view-line");
  await until(
    "its times",
    async () =>
      (await lines.allTextContents()).some((line) => /^with.+fix.+(µs|ms)/.test(line.trim())),
    300_000,
  );
  // The sample stays open beside the walkthrough.
  assert.equal(await user.tab("sample.py").filter({ hasNotText: "measured" }).count(), 1);
  await user.screenshot("walkthrough-measured");
  await user.command("View: Close All Editors");
});

test("what was not traced is said, and lines that no trace reached are marked", LONG, async () => {
  await user.file("models.py");
  await shown("3 of 4 traced");
  const marks = user.page.locator(".editor-instance .glyph-margin-widgets .cgmr");
  await until("two quiet marks", async () => (await marks.count()) === 2);
  const words = await user.hover(entry(), "3 of 4");
  assert.match(words, /ready, 1 finding, 3 of 4 traced, 1 without inputs/);
  assert.match(words, /No inputs are known for Unknown/);
  assert.match(words, /No trace calls these methods: Attention\.generate/);
  await user.screenshot("untraced");
  const tooltip = await user.lens("1 graph · no breaks").getAttribute("title");
  assert.match(tooltip, /2 of \d+ lines were not reached: lines 14-15/);
  await entry().click();
  const row = user.page.locator(".quick-input-list .monaco-list-row", { hasText: "Unknown" }).first();
  await row.waitFor();
  await user.screenshot("untraced-menu");
  await row.click();
  await until("the cursor at the class", async () => (await user.line()) === 22);
});

test("a long file has its first lens while the rest is traced", LONG, async () => {
  await user.file("many.py");
  await until("a lens during the trace", async () => {
    const some = (await user.lenses()).some((text) => text.includes("1 break"));
    return some && (await user.page.locator(".statusbar").textContent()).includes("Tracing many.py");
  });
  await user.screenshot("many");
  await user.command("View: Close Editor");
});

test("the list of fixes says that they are being looked for", LONG, async () => {
  await user.file("laborious.py");
  await user.squiggles().first().waitFor({ state: "attached", timeout: 120_000 });
  await user.cursor(files.LABORIOUS_BREAK.line, files.LABORIOUS_BREAK.column);
  const rows = user.page.locator(".action-widget .monaco-list-row");
  await until("words of the search", async () => {
    await user.keys("Escape", "Control+.");
    await rows.filter({ hasText: "Looking for fixes" }).first().waitFor({ timeout: 2000 });
    return true;
  });
  await user.screenshot("looking");
  await user.keys("Escape");
  await user.command("View: Close Editor");
});

test("lens, squiggles, badge and status bar count alike", LONG, async () => {
  await user.file("models.py");
  await shown("1, 3 of 4");
  assert.equal(await user.squiggles().count(), 1);
  const badge = user.page.locator(".explorer-folders-view .monaco-list-row", { hasText: "models.py" });
  await until("the badge", async () => {
    const words = await badge.first().locator(".monaco-icon-label").getAttribute("aria-label");
    return /1 problem/.test(words ?? "");
  });
  await user.cursor(33);
  await until("lenses of both breaks", async () => {
    const all = (await user.lenses()).join("\n");
    return /· 1 break ·|· 1 break$/m.test(all) && all.includes("1 break (not shown)");
  });
  await user.screenshot("counts");
});

test("a file of an environment says that it was not traced", LONG, async () => {
  await user.find(path.join(host.workspace, PACKAGE));
  await until("a lens", async () =>
    (await user.lenses()).some((text) => text.includes("installed packages are traced only on command")),
  );
  await shown("not traced");
  assert.equal(await user.squiggles().count(), 0);
  const words = await user.hover(entry(), "not traced");
  assert.doesNotMatch(words, /no findings/);
  await user.screenshot("installed");
  await user.lens("Not traced").click();
  assert.equal(await user.squiggled(), files.BREAK.text);
  await user.command("View: Close Editor");
  await user.file("plain.py");
  await user.hover(entry(), "no PyTorch code");
});

test("the list of interpreters marks the one in use, and those without torch", LONG, async () => {
  await user.file("models.py");
  await shown("1");
  await user.command("fullgraph: Select Interpreter");
  const rows = user.page.locator(".quick-input-list .monaco-list-row");
  await rows.filter({ hasText: "bare" }).first().waitFor();
  const words = await rows.allTextContents();
  await user.screenshot("interpreters");
  assert.match(words[0], /\.venv.*torch \d.*in use/);
  const browse = words.findIndex((text) => text.includes("Browse"));
  const bare = words.findIndex((text) => text.includes("bare"));
  assert.ok(bare > browse, words.join("\n"));
  assert.match(words[bare], /no torch/);
  await user.keys("Escape");
});

test("debug information leaves nothing to save", LONG, async () => {
  await user.command("fullgraph: Show Debug Information");
  const tab = user.tab("debug information");
  await tab.first().waitFor();
  await until("its text", async () => (await user.lines()).some((line) => line.includes("VS Code:")));
  await user.screenshot("debug");
  await tab.first().click();
  await user.type("x");
  assert.equal(await user.page.locator(".tabs-container .tab.dirty").count(), 0);
  await user.command("View: Close Editor");
  await until("no tab", async () => (await tab.count()) === 0);
  assert.equal(await user.page.locator(".monaco-dialog-box").count(), 0);
});
