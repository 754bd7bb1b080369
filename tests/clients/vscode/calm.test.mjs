// What cannot work is said once, calmly, and with a way on; and nothing runs without trust.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { after, test } from "node:test";
import { promisify } from "node:util";

import * as files from "./files.mjs";
import { Host, PYTHON, until } from "./host.mjs";
import { User } from "./user.mjs";

const VERSION = process.env.HOST ?? "4.100.3";
const execute = promisify(execFile);
const LONG = { timeout: 600_000 };

const folders = [];

after(() => Promise.all(folders.map((one) => fs.rm(one, { recursive: true, force: true }))));

async function scratch() {
  const folder = await fs.mkdtemp(path.join(os.tmpdir(), "fullgraph-calm-"));
  folders.push(folder);
  return folder;
}

/** A window with one file in it, for as long as the test takes. */
async function withWindow(options, work) {
  const host = await Host.start(VERSION, { files: { "broken.py": files.BROKEN }, ...options });
  try {
    await host.open();
    const user = new User(host, "calm-");
    try {
      await work(user, host);
    } catch (error) {
      await user.screenshot("failed").catch(() => undefined);
      throw error;
    }
  } finally {
    await host.stop();
  }
}

/** With VSCODE_CLI the window does not ask a login shell for another PATH. */
const without = (folder) => ({ PATH: folder, VIRTUAL_ENV: "", VSCODE_CLI: "1" });

test("nothing is executed in a workspace that is not trusted", LONG, async () => {
  await withWindow({ trusted: false }, async (user, host) => {
    // Whether to trust is asked at once, or behind a banner.
    const dialog = user.page.locator(".monaco-dialog-box", { hasText: "trust" });
    if (await dialog.waitFor({ timeout: 15_000 }).then(() => true, () => false)) {
      await dialog.locator(".monaco-button", { hasText: /No|Restricted/ }).click();
    }
    await user.file("broken.py");
    await until("restricted mode", async () => {
      const bar = await user.page.locator(".statusbar").textContent();
      return bar.includes("Restricted Mode");
    });
    // As long as it takes elsewhere until there is a squiggle, and some more.
    await new Promise((resolve) => setTimeout(resolve, 15_000));
    assert.equal(await user.squiggles().count(), 0);
    assert.deepEqual(await host.processes("start.py"), []);
    assert.deepEqual(await host.processes("boot.py"), []);
    const entry = user.page.locator(".statusbar-item", { hasText: "fullgraph" });
    assert.match(await entry.textContent(), /fullgraph not trusted/);
    await user.screenshot("untrusted");
    await entry.click();
    await user.page.getByText("Trust", { exact: true }).first().click();
    await until("a server", () => host.serverPid());
    await until("no such entry", async () => (await entry.filter({ hasText: "not trusted" }).count()) === 0);
  });
});

test("no Python at all: one message, which leads to the choice", LONG, async () => {
  const python = "/nowhere/bin/python";
  const empty = await scratch();
  await withWindow({ python, env: without(empty) }, async (user, host) => {
    await user.file("broken.py");
    await until("a message", async () =>
      (await user.toasts()).some((text) => text.includes("found no Python")),
    );
    assert.equal((await user.notifications()).length, 1);
    const button = user.page.locator(".notification-list-item .monaco-button", {
      hasText: "Select Interpreter",
    });
    await button.first().waitFor();
    await user.screenshot("no-python");
    assert.deepEqual(await host.processes("start.py"), []);
  });
});

test("a Python without torch: one message, which says what to do", LONG, async () => {
  const environment = await scratch();
  await execute(PYTHON, ["-m", "venv", "--without-pip", environment]);
  await withWindow({ python: path.join(environment, "bin/python") }, async (user) => {
    await user.file("broken.py");
    await until("a message", async () =>
      (await user.toasts()).some((text) => /No torch|older than/.test(text)),
    );
    assert.equal((await user.notifications()).length, 1);
    await user.screenshot("no-torch");
  });
});

test("a .venv of another platform: one message says which, and the server is there", LONG, async () => {
  const python = ".venv/bin/python";
  const all = { "broken.py": files.BROKEN, [python]: "MZ\u0000\u0000 not for here" };
  await withWindow({ python: "", env: { VIRTUAL_ENV: "" }, files: all, programs: [python] }, async (user, host) => {
    await user.file("broken.py");
    await until("a message", async () =>
      (await user.toasts()).some((text) => text.includes(".venv")),
    );
    assert.equal((await user.notifications()).length, 1);
    assert.ok(await host.serverPid());
    await user.screenshot("foreign-venv");
  });
});
