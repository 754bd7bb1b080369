// What was refused is allowed by a quick fix in the user's settings, and by no workspace.

import assert from "node:assert/strict";
import fs from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";

import { Host, PATIENCE, until } from "./host.mjs";
import { User } from "./user.mjs";

const VERSION = process.env.HOST ?? "4.100.3";
const LONG = { timeout: 600_000 };
const SETTING = "fullgraph.sandbox.allow";

const REFUSED = `import subprocess

import torch

subprocess.run(["true"])


# fullgraph: f32[2]
def f(x):
    return x + 1
`;

/** What the user's settings allow: those of the window, and of the machine that it is served from. */
async function allowed(host) {
  const found = [];
  for (const name of ["User", "Machine"]) {
    const text = await fs.readFile(path.join(host.base, "user", name, "settings.json"), "utf8");
    found.push(...(JSON.parse(text)[SETTING] ?? []));
  }
  return found;
}

test("a quick fix sets what a workspace cannot", LONG, async () => {
  const workspace = JSON.stringify({ [SETTING]: ["subprocess"] });
  const files = { "refused.py": REFUSED, ".vscode/settings.json": workspace };
  const host = await Host.start(VERSION, { files });
  try {
    await host.open();
    const user = new User(host, "allow-");
    await user.file("refused.py");
    assert.equal(await user.squiggled("info"), 'subprocess.run(["true"])');
    const before = await host.enginePid();
    await user.cursor(5, 1);
    await user.screenshot("refused");
    await user.action("Allow subprocess (user settings)");
    await until("no squiggle", async () => (await user.squiggles("info").count()) === 0);
    assert.deepEqual(await allowed(host), ["subprocess"]);
    const after = await until("one engine", async () => {
      const pids = await host.enginePids();
      return pids.length === 1 && pids[0];
    });
    assert.notEqual(after, before);
    await user.page.locator('[id="status.languageStatus"]').click();
    const item = user.page.locator(".hover-language-status", { hasText: "Sandbox" });
    await item.waitFor({ timeout: PATIENCE });
    assert.match(await item.textContent(), /Sandbox active|layers active/);
    await user.screenshot("allowed");
  } finally {
    await host.stop();
  }
});
