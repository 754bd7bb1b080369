// The interpreter of the Python extension is used; another one restarts the engine, once, and events
// that say nothing in the end restart nothing.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs/promises";
import os from "node:os";
import path from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import * as files from "./files.mjs";
import { Host, PYTHON, packaged, until } from "./host.mjs";
import { User } from "./user.mjs";

const execute = promisify(execFile);
const HERE = path.dirname(fileURLToPath(import.meta.url));
const VERSION = process.env.HOST ?? "4.100.3";

test("the interpreter of the Python extension", { timeout: 600_000 }, async () => {
  const base = await fs.mkdtemp(path.join(os.tmpdir(), "fullgraph-python-"));
  const bare = path.join(base, "bare");
  await execute(PYTHON, ["-m", "venv", "--without-pip", bare]);
  const without = path.join(bare, "bin/python");
  const host = await Host.start(VERSION, {
    python: "",
    env: { VIRTUAL_ENV: "" },
    files: { "broken.py": files.BROKEN, "interpreters.txt": `${PYTHON}\n${without}\n` },
    extensions: [await packaged(path.join(HERE, "python-extension"), base)],
  });
  try {
    await host.open();
    const user = new User(host, "interpreter-");
    await user.file("broken.py");
    assert.equal(await user.squiggled(), files.BREAK.text);
    const [server, engine] = [await host.serverPid(), await host.enginePid()];

    // Nothing changed, whatever the event says.
    await user.command("Stub: Say That Nothing Changed");
    await user.command("Stub: Switch to and fro");
    await user.page.waitForTimeout(3000);
    assert.deepEqual([await host.serverPid(), await host.enginePid()], [server, engine]);

    await user.command("Stub: Switch Interpreter");
    await until("a message", async () =>
      (await user.toasts()).some((text) => text.includes("No torch")),
    );
    await user.screenshot("without-torch");
    assert.equal(await host.serverPid(), server);

    const before = new Set(await host.enginePids());
    const began = new Set();
    const watch = setInterval(async () => {
      for (const pid of await host.enginePids()) {
        began.add(pid);
      }
    }, 200);
    await user.command("Stub: Switch Interpreter");
    await user.command("Stub: Say That Nothing Changed");
    await until("another engine", () => [...began].some((pid) => !before.has(pid)));
    await user.command("Stub: Say That Nothing Changed");
    assert.equal(await user.squiggled(), files.BREAK.text);
    clearInterval(watch);
    assert.equal([...began].filter((pid) => !before.has(pid)).length, 1);
    assert.equal(await host.serverPid(), server);
  } finally {
    await host.stop();
    await fs.rm(base, { recursive: true, force: true });
  }
});
