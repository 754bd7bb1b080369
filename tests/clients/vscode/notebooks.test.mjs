// Notebooks: findings, hovers and fixes in the cells that they are about.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import * as files from "./files.mjs";
import { Host, PATIENCE, until } from "./host.mjs";
import { User } from "./user.mjs";

const VERSION = process.env.HOST;
const LONG = { timeout: 600_000 };

const cell = (kind, source) => ({
  cell_type: kind,
  metadata: {},
  source,
  ...(kind === "code" ? { execution_count: null, outputs: [] } : {}),
});
const NOTEBOOK = JSON.stringify({
  nbformat: 4,
  nbformat_minor: 5,
  metadata: { language_info: { name: "python" } },
  cells: [
    cell("markdown", "# A small model"),
    cell("code", "%matplotlib inline\nimport random\nimport torch\nfrom torch import nn"),
    cell(
      "code",
      "class Net(nn.Module):\n" +
        "    def forward(self, x):  # fullgraph: x=f32[4, 16]\n" +
        "        x = x * random.random()\n" +
        "        return x + 1",
    ),
    cell("code", "model = torch.compile(Net())\nmodel(torch.ones(4, 16))"),
  ],
});

let host;
let user;

before(async () => {
  host = await Host.start(VERSION, {
    files: { "broken.py": files.BROKEN, "model.ipynb": NOTEBOOK },
    settings: { "notebook.lineNumbers": "on" },
  });
  await host.open({ width: 1500 });
  user = new User(host, "notebooks-");
  // The window must know the editor of notebooks before a notebook is opened.
  await user.file("broken.py");
  await user.squiggled();
  await user.file("model.ipynb");
}, LONG);

afterEach(async (context) => {
  if (context.error) {
    const name = context.name.replaceAll(/\W+/g, "-");
    await user?.screenshot(`failed-${name}`).catch(() => undefined);
  }
});

after(() => host?.stop(), LONG);

const cells = () => user.page.locator(".notebookOverlay .cell-list-container .monaco-list-row");

test("a graph break is underlined in its cell", LONG, async () => {
  const squiggles = user.page.locator(".notebookOverlay .squiggly-warning");
  await squiggles.first().waitFor({ state: "attached", timeout: PATIENCE });
  await user.screenshot("break");
  const marked = cells().filter({ has: user.page.locator(".squiggly-warning") });
  assert.equal(await marked.count(), 1);
  assert.match(await marked.first().textContent(), /random\.random/);
});

test("a quick fix changes its cell only", LONG, async () => {
  const line = user.page.locator(".notebookOverlay .view-line", { hasText: "random.random" });
  await until("the fix", async () => {
    await user.page.keyboard.press("Escape");
    await line.first().click();
    await user.page.keyboard.press("Home");
    for (let at = 0; at < 14; at++) {
      await user.page.keyboard.press("ArrowRight");
    }
    await user.page.keyboard.press("Control+.");
    const row = user.page
      .locator(".action-widget .monaco-list-row", { hasText: "removes the break" })
      .first();
    await row.waitFor({ timeout: 5000 });
    await user.screenshot("fix");
    const box = await row.boundingBox();
    await user.page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
    return true;
  });
  const fixed = user.page.locator(".notebookOverlay .view-line", { hasText: "random.uniform" });
  await fixed.first().waitFor({ timeout: PATIENCE });
  const lens = user.page.locator(".notebookOverlay .codelens-decoration", { hasText: "no breaks" });
  await lens.first().waitFor({ timeout: PATIENCE });
  await user.screenshot("fixed");
});
