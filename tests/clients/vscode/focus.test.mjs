// Nothing gets between a user and the text: what comes later waits, beside or behind a button.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import * as files from "./files.mjs";
import { Host, until } from "./host.mjs";
import { User } from "./user.mjs";

const VERSION = process.env.HOST ?? "4.100.3";
const LONG = { timeout: 600_000 };

const COMMENTED = `import torch
import torch.nn as nn


# A network of one layer.
# fullgraph: f32[b=4, 16]
# fullgraph: f32[4, 17]
class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(16, 2)

    def forward(self, x, mask=None):
        return self.layer(x)
`;

// Each print costs two entries into compiled code, so the fix is faster beyond any noise.
const PRINTS = `import torch
from torch import nn


class Steps(nn.Module):
    def forward(self, x):  # fullgraph: x=f32[64, 16]
        x = x * 2
        print("doubled")
        x = x + 1
        print("added")
        return x * x
`;

let host;
let user;

before(async () => {
  host = await Host.start(VERSION, {
    files: {
      "broken.py": files.BROKEN,
      "laborious.py": files.LABORIOUS,
      "other.py": "words = 1\n",
      "slow.py": files.SLOW,
      "commented.py": COMMENTED,
      "prints.py": PRINTS,
    },
  });
  await host.open({ width: 1800 });
  user = new User(host, "focus-");
}, LONG);

afterEach(async (context) => {
  if (context.error) {
    const name = context.name.replaceAll(/\W+/g, "-");
    await user?.screenshot(`failed-${name}`).catch(() => undefined);
  }
});

after(() => host?.stop(), LONG);

test("the icon in the title shows the target under the cursor", LONG, async () => {
  await user.file("broken.py");
  await user.squiggled();
  await user.cursor(files.BREAK.line);
  const icon = user.page.locator(".editor-actions .codicon-git-compare");
  await icon.first().waitFor();
  await icon.first().click();
  const view = await user.traceView();
  await until("the trace of Net", async () =>
    (await view.locator("header h1").textContent()).includes("Net"),
  );
  await user.screenshot("title");
});

test("graph code opens beside the text and the trace, and leaves the focus", LONG, async () => {
  await user.cursor(files.BREAK.line);
  await user.command("fullgraph: Show Graph Code");
  await user.tab("Net.graph.py").first().waitFor();
  assert.equal(await user.tab("Net.graph.py").count(), 1);
  const groups = user.page.locator(".editor-group-container .tab.active");
  const names = await until("three columns", async () => {
    const all = await groups.allTextContents();
    return all.length === 3 ? all : undefined;
  });
  assert.match(names[0], /broken\.py/);
  assert.match(names[1], /Trace of Net/);
  assert.match(names[2], /Net\.graph\.py/);
  assert.equal(await user.line(), files.BREAK.line);
  await user.screenshot("graph-code");
  const view = await user.traceView();
  await view.locator(".action", { hasText: "Open as text" }).click();
  await user.tab("Net.guards").first().waitFor();
  assert.equal(await groups.count(), 3);
});

test("timings open beside the text, are in the menu, and leave the focus", LONG, async () => {
  await user.file("broken.py");
  await user.cursor(files.BREAK.line);
  const entry = user.page.locator('[id="fullgraph.fullgraph.menu"], [id$="fullgraph.menu"]').first();
  await entry.click();
  const row = user.page.locator(".quick-input-list .monaco-list-row", { hasText: "Show Timings" });
  await user.type("Show Timings");
  await row.first().click();
  await user.tab("broken.py.timings.txt").first().waitFor();
  const shown = user.page.locator(".editor-group-container .view-line");
  await until("the frames of the run", async () =>
    (await shown.allTextContents()).some((line) => /frame.forward,.line.\d+:/.test(line)),
  );
  assert.equal(await user.line(), files.BREAK.line);
  await user.screenshot("timings");
});

test("a measurement is asked for by a lens, opens beside, and leaves the focus", LONG, async () => {
  await user.file("broken.py");
  await user.cursor(files.BREAK.line);
  await until("its lens", async () => (await user.lenses()).some((text) => text.includes("make faster")));
  await user.lens("make faster").click();
  await user.tab("broken.py.measured.txt").first().waitFor({ timeout: 300_000 });
  const shown = user.page.locator(".editor-group-container .view-line");
  await until("its times", async () =>
    (await shown.allTextContents()).some((line) => /^eager.+(µs|ms)/.test(line.trim())),
  );
  assert.equal(await user.line(), files.BREAK.line);
  await user.screenshot("measured");
});

test("one click applies the fixes that make a function faster, and one undo reverts them", LONG, async () => {
  await user.file("prints.py");
  await user.squiggled();
  const lens = (words) => async () => (await user.lenses()).find((text) => text.includes(words));
  await until("the lens", lens("make faster"));
  await user.lens("make faster").click();
  const gain = await until("the gain", lens("apply: "), 300_000);
  assert.match(gain, /apply: 3 graphs → 1, \d+\.\d\d× faster, identical output in \d+ tests?/);
  await user.screenshot("make-faster");
  await user.lens("apply: ").click();
  // The document with the measurements has the same line behind a plus sign.
  const isFixed = async () =>
    (await user.lines()).some((line) => /^ +if not torch\.compiler\.is_compiling/.test(line));
  await until("the fix", isFixed);
  await user.screenshot("made-faster");
  await user.cursor(1);
  await user.keys("Control+z");
  await until("the text from before", async () => !(await isFixed()));
});

test("a repro opens beside while one types elsewhere", LONG, async () => {
  await user.file("laborious.py");
  await user.squiggled();
  await user.cursor(files.LABORIOUS_BREAK.line, files.LABORIOUS_BREAK.column + 1);
  await user.action("Create minimal repro");
  await user.file("other.py");
  await user.cursor(1);
  const opened = user.tab("gb");
  let typed = "";
  let link = "";
  const links = user.page.locator(".notifications-toasts .notification-list-item-message a");
  await until(
    "the script",
    async () => {
      await user.type("x");
      typed += "x";
      link ||= (await links.allTextContents()).join();
      return (await opened.count()) > 0;
    },
    300_000,
  );
  assert.equal(link, "Change time limit…");
  await user.type("yz");
  const line = (await user.lines()).find((one) => one.includes("words = 1"));
  assert.equal(line, `${typed}yzwords = 1`);
  await user.screenshot("repro");
});

test("the status bar counts the findings of the file, and has every command", LONG, async () => {
  await user.file("broken.py");
  await user.squiggled();
  const entry = user.page.locator('[id="fullgraph.fullgraph.menu"], [id$="fullgraph.menu"]').first();
  await until("one finding", async () => (await entry.textContent()).trim() === "fullgraph 1");
  await entry.click();
  const rows = user.page.locator(".quick-input-list .monaco-list-row");
  await rows.filter({ hasText: "Show Graph Code" }).first().waitFor();
  await user.screenshot("menu");
  await user.keys("Escape");
  await user.cursor(1);
  await user.command("fullgraph: Go to Next Finding");
  await until("the cursor at the break", async () => (await user.line()) === files.BREAK.line);
});

test("probe comments have lenses, completion and colors", LONG, async () => {
  await user.file("commented.py");
  // And one for the guards of the run that went through.
  await until("two lenses", async () => (await user.lenses()).length === 3);
  assert.deepEqual(
    (await user.lenses()).filter((text) => !text.includes("guard")).map((text) => text.trim()),
    ["1 graph · no breaks", "failed: RuntimeError: mat1 and mat2 shapes …"],
  );
  assert.equal(await user.squiggled("error"), "f32[4, 17]");
  await user.screenshot("probe-comments");
  await user.cursor(14);
  await user.command("fullgraph: Show Trace");
  const view = await user.traceView();
  await user.cursor(7, 3);
  await until("the run of the second probe", async () =>
    (await view.locator("header").textContent()).includes("failed"),
  );
  await user.cursor(7, 24);
  const row = user.page.locator(".suggest-widget.visible .monaco-list-row", { hasText: "mask=" });
  await until("the parameters", async () => {
    await user.keys("Escape", "End");
    await user.type(", ");
    await row.first().waitFor({ timeout: 8000 });
    return true;
  });
  await user.screenshot("probe-completion");
  await user.keys("Escape");
  await user.command("Revert File");
});

test("a trace that nobody asked for is no message", LONG, async () => {
  await user.file("slow.py");
  const view = await user.traceView();
  await until("what is being traced", async () =>
    (await view.locator(".nothing").textContent()).startsWith("slow is being traced"),
  );
  // It is in the status bar, longer than a message would wait to come.
  const bar = user.page.locator(".statusbar .statusbar-item", { hasText: "Tracing slow.py" });
  await bar.first().waitFor();
  await new Promise((resolve) => setTimeout(resolve, 8000));
  assert.equal(await bar.count(), 1);
  assert.deepEqual((await user.toasts()).filter((words) => words.includes("Tracing")), []);
  await user.screenshot("tracing");
  await user.command("fullgraph: Cancel Analysis");
});
