// The built documentation site in Chromium: pages render, and the recorded traces can be clicked.
//
// A reader opens "Get started", follows the link "Try it", clicks a graph break in the trace view
// and sees its line in the source and its reason; clicks a line and sees the step; clicks a fix and
// sees the difference and one graph; reads the graph code; and looks at every sample. Nothing is
// requested from another host, and the console has no errors.

import assert from "node:assert/strict";
import { once } from "node:events";
import fs from "node:fs/promises";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";

import { launchBrowser } from "../clients/vscode/host.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
const SITE = path.join(ROOT, "build/html");
const SAMPLES = ["print", "item", "branch", "sizes", "training", "clean"];
const TYPES = {
  ".html": "text/html",
  ".css": "text/css",
  ".js": "text/javascript",
  ".json": "application/json",
  ".svg": "image/svg+xml",
};

let server, browser, address;

before(async () => {
  server = http.createServer((request, response) => void answer(request, response));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  address = `http://127.0.0.1:${server.address().port}/`;
  browser = await launchBrowser();
});

after(async () => {
  await browser?.close();
  server?.close();
});

async function answer(request, response) {
  const { pathname } = new URL(request.url, address);
  const file = path.join(SITE, pathname.endsWith("/") ? `${pathname}index.html` : pathname);
  try {
    const content = await fs.readFile(file);
    response.setHeader("content-type", TYPES[path.extname(file)] ?? "application/octet-stream");
    response.end(content);
  } catch {
    response.statusCode = 404;
    response.end();
  }
}

/** Opens a page of the site, and collects what goes wrong in it in `problems`. */
async function open(name, { width = 1400, height = 900, scheme = "light" } = {}) {
  const page = await browser.newPage({ viewport: { width, height }, colorScheme: scheme });
  const problems = [];
  page.on("pageerror", (error) => problems.push(`error: ${error.message}`));
  page.on("requestfailed", (request) => problems.push(`failed: ${request.url()}`));
  page.on("request", (request) => {
    if (!request.url().startsWith(address)) {
      problems.push(`request to another host: ${request.url()}`);
    }
  });
  page.on("response", (response) => {
    if (!response.ok()) {
      problems.push(`${response.status()}: ${response.url()}`);
    }
  });
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) {
      problems.push(`${message.type()}: ${message.text()}`);
    }
  });
  await page.goto(address + name, { waitUntil: "networkidle" });
  return { page, view: page.frameLocator("#playground iframe"), problems };
}

const selectedRow = (page) => page.locator("#playground .row.selected");

test("a reader clicks through a graph break, its line, its fix and its graphs", async () => {
  const { page, view, problems } = await open("start/");
  await page.getByRole("heading", { name: "Get started in five minutes" }).waitFor();
  await page.locator("article").getByRole("link", { name: "Try it" }).click();
  await view.getByRole("heading", { name: "Classifier", exact: true }).waitFor();

  await view.locator(".strip .cut").first().click();
  const card = view.locator(".card.cut").first();
  assert.match(await card.locator("h2").innerText(), /Dynamo does not trace `?print`?; remove it/);
  assert.match(await card.innerText(), /Cost: cuts 5 ops into 3 \+ 2/);
  assert.match(await selectedRow(page).innerText(), /^16\s*print\("mean activation"/);

  await page.locator("#playground .row", { hasText: "return self.output" }).click();
  const here = view.locator(".here");
  await here.waitFor();
  assert.match(await here.innerText(), /return self\.output/);

  await card.getByRole("button", { name: "Print only when not compiling" }).click();
  await view.locator(".facts", { hasText: "no breaks" }).waitFor();
  const added = await page.locator("#playground .row.added").allInnerTexts();
  assert.match(added.join("\n"), /is_compiling\(\):[^]*print\("mean activation"/);
  assert.equal(await page.locator("#playground .row.removed").count(), 1);
  assert.match(await page.locator("#playground .state").first().innerText(), /removes the break/);
  await page.getByRole("button", { name: "Undo" }).click();
  await view.locator(".facts", { hasText: "1 break" }).waitFor();
  assert.equal(await page.locator("#playground .row.added").count(), 0);

  for (const [button, text] of [
    ["Graph code", /class Graph1\(torch\.nn\.Module\)/],
    ["Open as text", /TYPE_MATCH: type\(self\) is print\.Classifier/],
  ]) {
    await view.getByRole("button", { name: button }).click();
    const dialog = page.locator("#playground dialog");
    await dialog.waitFor();
    assert.match(await dialog.innerText(), text);
    await dialog.getByRole("button", { name: "Close" }).click();
    await dialog.waitFor({ state: "hidden" });
  }
  assert.deepEqual(problems, []);
  await page.close();
});

test("every sample shows its trace, and no button that needs an engine", async () => {
  const { page, view, problems } = await open("try/");
  const facts = {};
  for (const name of SAMPLES) {
    await page.locator(`#playground [data-sample="${name}.py"]`).click();
    const source = await page.locator("#playground .source").innerText();
    const [, target] = source.split("# fullgraph:")[1].match(/(?:class|def) (\w+)/);
    await view.getByRole("heading", { name: target, exact: true }).waitFor();
    facts[name] = await view.locator(".facts").innerText();
    const buttons = await view.locator(".action:visible").allInnerTexts();
    assert.ok(buttons.includes("Graph code"));
    assert.deepEqual(
      buttons.filter((words) => /Trace again|Make faster|minimal repro/.test(words)),
      [],
    );
  }
  assert.match(facts.item, /2 graphs[^]*1 break/);
  assert.match(facts.branch, /2 graphs[^]*1 break/);
  assert.match(facts.sizes, /2 graphs[^]*no breaks[^]*1 recompile/);
  assert.match(facts.training, /breaks/);
  assert.match(facts.clean, /1 graph[^s][^]*no breaks/);
  assert.deepEqual(problems, []);
  await page.close();
});

test("on a narrow dark screen the view is below the source, and nothing is cut off", async () => {
  const { page, view, problems } = await open("try/#item.py", { width: 400, scheme: "dark" });
  await view.getByRole("heading", { name: "Normalize", exact: true }).waitFor();
  const source = await page.locator("#playground .source").boundingBox();
  const frame = await page.locator("#playground iframe").boundingBox();
  assert.ok(frame.y >= source.y + source.height - 1);
  const fits = () => document.documentElement.scrollHeight <= window.innerHeight;
  const inside = page.frames().find((one) => one.url().endsWith("frame.html"));
  await inside.waitForFunction(fits);
  const { scrollWidth, clientWidth } = await page.evaluate(() => {
    const { scrollWidth, clientWidth } = document.documentElement;
    return { scrollWidth, clientWidth };
  });
  assert.ok(scrollWidth <= clientWidth);
  // The button is far below the words about what it changed, to which the page scrolls.
  await view.getByRole("button", { name: "Keep the value as a tensor" }).click();
  await page.getByRole("button", { name: "Undo" }).waitFor();
  await page.waitForFunction(() => {
    const { top, bottom } = document.querySelector("#playground .state").getBoundingClientRect();
    return top > 0 && bottom < window.innerHeight;
  });
  const background = () => getComputedStyle(document.body).backgroundColor;
  const dark = await page.evaluate(background);
  assert.equal(await inside.evaluate(background), dark);
  await page.locator("label[title='Switch to light mode']").click();
  await page.waitForFunction((dark) => getComputedStyle(document.body).backgroundColor !== dark, dark);
  const light = await page.evaluate(background);
  await inside.waitForFunction(
    (light) => getComputedStyle(document.body).backgroundColor === light,
    light,
  );
  assert.deepEqual(problems, []);
  await page.close();
});

test("the page about a code renders, and the recordings have no folders of this machine", async () => {
  const { page, problems } = await open("codes/recompile-size/");
  await page.getByRole("heading", { name: "recompile/size" }).waitFor();
  assert.deepEqual(problems, []);
  await page.close();
  const recordings = await fs.readFile(path.join(SITE, "playground/samples.js"), "utf8");
  for (const folder of [ROOT, os.tmpdir() + "/", "site-packages"]) {
    assert.ok(!recordings.includes(folder), folder);
  }
});
