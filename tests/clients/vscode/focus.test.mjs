// Nothing gets between a user and the text: what comes later waits, beside or behind a button.

import assert from "node:assert/strict";
import { after, afterEach, before, test } from "node:test";

import * as files from "./files.mjs";
import { Host, until } from "./host.mjs";
import { User } from "./user.mjs";

const VERSION = process.env.HOST ?? "4.100.3";
const LONG = { timeout: 600_000 };

let host;
let user;

before(async () => {
  host = await Host.start(VERSION, {
    files: { "broken.py": files.BROKEN, "other.py": "words = 1\n", "slow.py": files.SLOW },
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

test("a repro waits behind a button while one types elsewhere", LONG, async () => {
  await user.file("broken.py");
  await user.cursor(files.BREAK.line, files.BREAK.column + 1);
  await user.action("Emit minified repro");
  await user.file("other.py");
  await user.cursor(1);
  const offered = user.page.locator(".notifications-toasts .notification-list-item", {
    hasText: /gb.*\.py: .* lines?/,
  });
  let typed = "";
  let link = "";
  const links = user.page.locator(".notifications-toasts .notification-list-item-message a");
  await until(
    "the message",
    async () => {
      await user.type("x");
      typed += "x";
      link ||= (await links.allTextContents()).join();
      return (await offered.count()) > 0;
    },
    300_000,
  );
  assert.equal(link, "Change time limit…");
  await user.type("yz");
  const line = (await user.lines()).find((one) => one.includes("words = 1"));
  assert.equal(line, `${typed}yzwords = 1`);
  await offered.first().hover();
  await user.screenshot("repro-offered");
  await offered.first().locator(".monaco-button", { hasText: "Open" }).click();
  await user.tab("gb").first().waitFor();
  await user.screenshot("repro");
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
