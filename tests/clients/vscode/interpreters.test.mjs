// The interpreters of the Python extensions are used; another one restarts the engine, once, and
// events that say nothing in the end restart nothing.

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

/** A window with one file in it, and with extensions that know of two interpreters. */
async function withExtensions(names, work) {
  const base = await fs.mkdtemp(path.join(os.tmpdir(), "fullgraph-python-"));
  const bare = path.join(base, "bare");
  await execute(PYTHON, ["-m", "venv", "--without-pip", bare]);
  const without = path.join(bare, "bin/python");
  const extensions = [];
  for (const name of names) {
    extensions.push(await packaged(path.join(HERE, name), base));
  }
  const host = await Host.start(VERSION, {
    python: "",
    env: { VIRTUAL_ENV: "", CONDA_PREFIX: "" },
    files: {
      "broken.py": files.BROKEN,
      "interpreters.txt": `${PYTHON}\n${without}\n`,
      "environments.txt": `${PYTHON}\n${without}\n`,
    },
    extensions,
  });
  try {
    await host.open();
    await work(new User(host, "interpreter-"), host);
  } finally {
    await host.stop();
    await fs.rm(base, { recursive: true, force: true });
  }
}

const LONG = { timeout: 600_000 };

test("the interpreter of the Python extension", LONG, () =>
  withExtensions(["python-extension"], async (user, host) => {
    await user.file("broken.py");
    assert.equal(await user.squiggled(), files.BREAK.text);
    const [server, engine] = [await host.serverPid(), await host.enginePid()];

    // Nothing changed, whatever the event says.
    await user.command("Stub: Say That Nothing Changed");
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
  }),
);

test("two extensions that do not agree", LONG, () =>
  withExtensions(["python-extension", "environments-extension"], async (user, host) => {
    await user.file("broken.py");
    assert.equal(await user.squiggled(), files.BREAK.text);
    const [server, engine] = [await host.serverPid(), await host.enginePid()];
    const same = async () => {
      await user.page.waitForTimeout(3000);
      assert.deepEqual([await host.serverPid(), await host.enginePids()], [server, [engine]]);
    };

    // One changes the environment again and again, the other changes it back.
    await user.command("Stub: Quarrel over the Environment");
    await same();
    // Only what the environments extension says counts, as long as it says something.
    await user.command("Stub: Switch Interpreter");
    await same();
    assert.deepEqual(await user.notifications(), []);
    await user.keys("Escape");

    await user.command("Stub: Next Environment");
    await until("a message", async () =>
      (await user.toasts()).some((text) => text.includes("No torch")),
    );
    await user.command("Stub: Switch Interpreter");
    // It has none any more: the Python extension has the word.
    await user.command("Stub: Next Environment");
    assert.equal(await user.squiggled(), files.BREAK.text);
    assert.equal((await user.notifications()).length, 1);
    await user.screenshot("of-two");
    assert.equal(await host.serverPid(), server);
    assert.equal((await host.enginePids()).length, 1);
  }),
);
