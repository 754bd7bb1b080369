// What else people open: long files, notebooks, documents that are no files, several windows and
// several folders. All of it in one host.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import fs from "node:fs/promises";
import path from "node:path";
import { after, afterEach, before, test } from "node:test";
import { promisify } from "node:util";

import * as files from "./files.mjs";
import { Host, PYTHON, until } from "./host.mjs";
import { User } from "./user.mjs";

const VERSION = process.env.HOST ?? "4.100.3";
const execute = promisify(execFile);
const LONG = { timeout: 600_000 };

let host;
let user;

before(async () => {
  host = await Host.start(VERSION, {
    files: {
      "broken.py": files.BROKEN,
      "fixed.py": files.BROKEN,
      "long.py": files.LONG,
      "cells.ipynb": files.NOTEBOOK,
    },
    settings: {
      "files.readonlyInclude": { "**/fixed.py": true },
      "editor.autoClosingBrackets": "never",
      "editor.autoClosingQuotes": "never",
      "editor.acceptSuggestionOnEnter": "off",
    },
  });
  await host.open();
  user = new User(host, "odd-");
}, LONG);

afterEach(async (context) => {
  if (context.error) {
    await user?.screenshot(`failed-${context.name.replaceAll(/\W+/g, "-")}`).catch(() => undefined);
  }
});

after(() => host?.stop(), LONG);

async function quiet() {
  assert.deepEqual(await user.notifications(), []);
  await user.keys("Escape");
}

test("a file that is read-only is traced", LONG, async () => {
  await user.file("fixed.py");
  assert.equal(await user.squiggled(), files.BREAK.text);
  await quiet();
});

test("one types in a cell of a notebook without a message", LONG, async () => {
  await user.file("cells.ipynb");
  const cell = user.page.locator(".notebookOverlay .cell .view-lines").first();
  await cell.waitFor();
  await cell.click();
  await user.keys("Control+End", "Enter");
  await user.type("torch.nn");
  await until("what was typed", async () => (await cell.textContent()).includes("torch.nn"));
  await user.keys("Escape");
  await quiet();
  await user.screenshot("notebook");
  await user.command("View: Revert and Close Editor");
});

test("what is no file, and what is none yet", LONG, async () => {
  await user.file("broken.py");
  await user.squiggled();
  await user.cursor(1);
  await user.type("# edited");
  // The other side of it is a document that only the window has.
  await user.command("File: Compare Active File with Saved");
  const side = (name) => user.page.locator(`.monaco-diff-editor .editor.${name}`);
  await until("the squiggle of the file", async () =>
    (await side("modified").locator(".squiggly-warning").count()) > 0,
  );
  assert.ok((await side("original").locator(".view-line").count()) > 0);
  assert.equal(await side("original").locator("[class*=squiggly]").count(), 0);
  await user.screenshot("compared");
  await user.command("View: Close Editor");
  await until("the file alone", async () => (await side("original").count()) === 0);
  await user.command("View: Revert and Close Editor");
  await until("no file", async () => (await user.tab("broken.py").count()) === 0);
  await user.command("File: New Untitled Text File");
  await user.type('import torch\ndef f(x: "f32[4]"): return print(x)\n');
  await user.keys("Escape");
  await user.command("Change Language Mode");
  await user.page.locator(".quick-input-widget:visible input").fill("python");
  await user.keys("Enter");
  assert.equal(await user.squiggled(), "print(x)");
  await quiet();
  await user.screenshot("untitled");
  await user.command("View: Revert and Close Editor");
});

test("five megabytes: one statement, and typing goes on", LONG, async () => {
  await user.file("long.py");
  await user.cursor(20);
  const began = "typed = 0";
  await user.type(began);
  await until("what was typed", async () => (await user.lines()).some((line) => line.startsWith(began)));
  await user.keys("Control+Shift+m");
  const problems = await until("a statement", async () => {
    const all = await user.problems();
    return all.some((label) => label.includes("trace/too-long")) && all;
  });
  assert.equal(problems.filter((label) => label.includes("trace/")).length, 1);
  await quiet();
  await user.screenshot("long");
  await user.keys("Control+Shift+m");
  await user.command("View: Revert and Close Editor");
});

test("two windows of one folder", LONG, async () => {
  const other = new User(host, "odd-", await host.window());
  await other.file("broken.py");
  assert.equal(await other.squiggled(), files.BREAK.text);
  await user.page.bringToFront();
  await user.file("broken.py");
  assert.equal(await user.squiggled(), files.BREAK.text);
  assert.equal((await host.processes("bundled/start.py", "server")).length, 2);
  await user.cursor(files.BREAK.line);
  await user.keys("Control+Shift+k", "Control+s");
  for (const one of [user, other]) {
    await one.page.bringToFront();
    await until("no squiggle", async () => (await one.squiggles().count()) === 0);
    await until("one graph", async () =>
      (await one.lenses()).some((text) => text.includes("1 graph · no breaks")),
    );
  }
  await other.page.close();
});

/** An environment that finds what stands in a folder. */
async function environment(folder, found) {
  await execute(PYTHON, ["-m", "venv", "--without-pip", folder]);
  const python = path.join(folder, "bin/python");
  const where = "import sysconfig; print(sysconfig.get_path('purelib'))";
  const { stdout } = await execute(python, ["-c", where]);
  await fs.writeFile(path.join(stdout.trim(), "found.pth"), `${found}\n`);
  return python;
}

/** With an interpreter that its settings name from the start, or one that is chosen later. */
async function folder(name, text, python) {
  const made = path.join(host.base, name);
  await fs.mkdir(path.join(made, ".vscode"), { recursive: true });
  await fs.writeFile(path.join(made, `${name}.py`), text);
  const choose = (python) =>
    fs.writeFile(
      path.join(made, ".vscode/settings.json"),
      JSON.stringify({ "fullgraph.interpreter": python }),
    );
  if (python) {
    await choose(python);
  }
  return { path: made, file: path.join(made, `${name}.py`), choose };
}

test("each folder has its interpreter, and one with a torch that is too old says so", LONG, async () => {
  const { stdout } = await execute(PYTHON, ["-c", "import os, torch; print(os.path.dirname(os.path.dirname(torch.__file__)))"]);
  const aged = path.join(host.base, "aged");
  await fs.mkdir(path.join(aged, "torch"), { recursive: true });
  await fs.writeFile(path.join(aged, "torch/version.py"), '__version__ = "1.13.1"\n');
  await fs.writeFile(path.join(aged, "torch/__init__.py"), "from .version import __version__\n");
  const torch = await environment(path.join(host.base, "environment"), stdout.trim());
  const aging = await environment(path.join(host.base, "old-environment"), aged);
  const second = await folder("second", files.BROKEN, torch);
  const old = await folder("old", files.BROKEN);
  const folders = [{ path: host.workspace }, { path: second.path }, { path: old.path }];
  const workspace = path.join(host.base, "several.code-workspace");
  await fs.writeFile(workspace, JSON.stringify({ folders }));
  // Windows that are gone keep theirs for a while: they may come back.
  const before = await host.enginePids();
  /** The engines that were started since by each of the interpreters. */
  const ours = async () => {
    const engines = (await host.engines()).filter(({ pid }) => !before.includes(pid));
    return [PYTHON, torch].map((python) =>
      engines.filter(({ command }) => command.startsWith(`${python} `)).map(({ pid }) => pid),
    );
  };
  user = new User(host, "odd-", await host.severalFolders(workspace));
  await user.find(path.join(host.workspace, "fixed.py"));
  assert.equal(await user.squiggled(), files.BREAK.text);
  await user.find(second.file);
  assert.equal(await user.squiggled(), files.BREAK.text);
  await quiet();
  // What is set may be known only after the file was traced with another interpreter.
  const engines = await until("an engine for each folder", async () => {
    const found = await ours();
    return found.every((pids) => pids.length > 0) && found;
  });

  await user.find(old.file);
  assert.equal(await user.squiggled(), files.BREAK.text);
  await old.choose(aging);
  await until("a message", async () =>
    (await user.toasts()).some((text) => /torch 1\.13\.1 .*older than 2\.8/.test(text)),
  );
  const loud = await user.notifications();
  assert.equal(loud.length, 1, loud.join("\n"));
  const button = user.page.locator(".notification-list-item .monaco-button", {
    hasText: "Select Interpreter",
  });
  await button.first().waitFor();
  await user.screenshot("too-old");
  await user.keys("Escape");
  // The other folders go on as they were.
  const still = await ours();
  assert.deepEqual(still[1], engines[1]);
  assert.ok(engines[0].some((pid) => still[0].includes(pid)));
  await user.find(second.file);
  assert.equal(await user.squiggled(), files.BREAK.text);
});
