// The list of what has to work, done with a user's hands in one window, in the order of the list.

import assert from "node:assert/strict";
import fs from "node:fs/promises";
import path from "node:path";
import { after, afterEach, before, test } from "node:test";

import * as files from "./files.mjs";
import { Host, VSIX, until } from "./host.mjs";
import { User } from "./user.mjs";

const VERSION = process.env.HOST ?? "4.100.3";
const LONG = { timeout: 600_000 };

let host;
let user;

before(async () => {
  host = await Host.start(VERSION, {
    // What people's folders are called.
    folder: "o'neil & söhne \"x\"",
    files: {
      "broken.py": files.BROKEN,
      "unprobed.py": files.UNPROBED,
      "probes.py": files.PROBES,
      "operators.py": files.OPERATORS,
      "slow.py": files.SLOW,
    },
  });
  await host.open();
  user = new User(host);
}, LONG);

afterEach(async (context) => {
  if (context.error) {
    const name = context.name.replaceAll(/\W+/g, "-");
    await user?.screenshot(`failed-${name}`).catch(() => undefined);
  }
});

after(async () => {
  await user?.screenshot("end").catch(() => undefined);
  await host?.stop();
}, LONG);

test("the package is small", async () => {
  const { size } = await fs.stat(VSIX);
  assert.ok(size < 2.5 * 2 ** 20, `${size} bytes`);
});

test("a squiggle is under the right characters", LONG, async () => {
  await user.file("broken.py");
  assert.equal(await user.squiggled(), files.BREAK.text);
  await user.screenshot("squiggle");
});

test("inlay hints say what was seen", LONG, async () => {
  const hinted = await until("inlay hints", async () => {
    const lines = await user.lines();
    return lines.find((line) => line.includes("hidden: f32[b, 16]"));
  });
  assert.match(hinted, /hidden: f32\[b, 16\] = self\.first\(x\)\.relu\(\)/);
});

test("problems list the finding", LONG, async () => {
  await user.keys("Control+Shift+m");
  const problem = await until("a problem", async () =>
    (await user.problems()).find((label) => label.includes("graph-break/GB")),
  );
  assert.match(problem, /Graph break/);
  await user.screenshot("problems");
  await user.keys("Control+Shift+m");
});

test("hover says why, and leads to the trace", LONG, async () => {
  await user.file("broken.py");
  const words = await user.hover(user.squiggles().first(), "Full text");
  assert.match(words, /Hint/);
  // What to do comes first, then the cost, then the words of Dynamo.
  const order = ["Graph break: Dynamo does not trace `print`; remove it", "Cost: ", "Dynamo: "];
  const places = order.map((part) => words.indexOf(part));
  assert.ok(places.every((place, index) => place > (index ? places[index - 1] : -1)), words);
  assert.match(words, /Trace/);
  await user.screenshot("hover");
  await user.keys("Escape");
});

test("the lens counts, and opens the trace view", LONG, async () => {
  const lens = await until("a lens", async () =>
    (await user.lenses()).find((text) => text.includes("2 graphs")),
  );
  assert.match(lens, /2 graphs · 1 break/);
  await user.lens("2 graphs").click();
  const view = await user.traceView();
  await until("two graphs and a break", async () => {
    const titles = await view.locator(".course h2").allTextContents();
    return (
      titles.length === 3 &&
      titles[0].startsWith("Graph 1") &&
      titles[1].startsWith("Break") &&
      titles[2].startsWith("Graph 2")
    );
  });
  assert.match(await view.locator("header").textContent(), /2 graphs/);
  const strip = view.locator(".strip button");
  assert.deepEqual(
    await strip.evaluateAll((all) => all.map((one) => one.getAttribute("aria-label").split(" ")[0])),
    ["Graph", "Break:", "Graph"],
  );
  await user.screenshot("trace");
});

test("a break's card says what to do, folds the words of Dynamo, and has buttons", LONG, async () => {
  const view = await user.traceView();
  const card = view.locator(".card.cut").first();
  assert.match(await card.locator("h2").textContent(), /^Break: Dynamo does not trace print; remove it/);
  assert.match(await card.locator(".cost").textContent(), /^Cost: .*ops?/);
  const fold = card.locator("details");
  assert.equal(await fold.locator("p").isVisible(), false);
  await fold.locator("summary").click();
  assert.match(await fold.locator("p").textContent(), /^Failed to trace builtin operator/);
  const text = fold.locator(".text").first();
  await until("kept line breaks", async () =>
    (await text.evaluate((one) => getComputedStyle(one).whiteSpace)) === "pre-line",
  );
  await user.screenshot("card");
  await fold.locator("summary").click();
  const buttons = card.locator(".actions button");
  const labels = await until("a verified fix", async () => {
    const found = await buttons.allTextContents();
    return found.length > 2 && found;
  });
  assert.deepEqual(labels.slice(-2), ["Create minimal repro", "Make faster"]);
  assert.match(await buttons.first().getAttribute("title"), /^removes /);
  await user.screenshot("card-fixes");
});

test("a click in the trace view leads to the line, as do keys", LONG, async () => {
  const view = await user.traceView();
  await view.locator(".card.cut .line").click();
  await until("the cursor at the break", async () => (await user.line()) === files.BREAK.line);
  await view.locator(".strip button").first().focus();
  await user.keys("ArrowRight");
  assert.match(
    await view.evaluate(() => document.activeElement.getAttribute("aria-label")),
    /^Break/,
  );
});

test("guards are grouped", LONG, async () => {
  const view = await user.traceView();
  const group = view.locator(".guards details").first();
  await group.locator("summary").click();
  await group.locator("li code").first().waitFor();
  assert.ok((await group.locator("li").count()) > 0);
  await user.screenshot("guards");
});

test("the trace view is readable in a light theme", LONG, async () => {
  await user.command("Preferences: Toggle between Light/Dark Themes");
  const view = await user.traceView();
  await until("a light page", () =>
    view.evaluate(() => document.body.classList.contains("vscode-light")),
  );
  await user.screenshot("trace-light");
  await user.command("Preferences: Toggle between Light/Dark Themes");
  await until("a dark page", () =>
    view.evaluate(() => document.body.classList.contains("vscode-dark")),
  );
});

test("the trace view has every run of a target", LONG, async () => {
  // The focus is in the view, and files open where it is.
  await user.file("broken.py");
  await user.file("probes.py");
  const view = await user.traceView();
  const runs = view.locator("#runs");
  await until("two runs", async () => (await runs.locator("option").count()) === 2);
  assert.deepEqual(
    (await runs.locator("option").allTextContents()).map((words) => words.split(" · ").slice(2)),
    [
      ["1 graph", "no breaks"],
      ["2 graphs", "1 break"],
    ],
  );
  const steps = view.locator(".course h2");
  assert.equal(await steps.count(), 1);
  await runs.focus();
  await user.keys("ArrowDown");
  await until("the steps of the second", async () => (await steps.count()) === 3);
  assert.match(await view.locator(".course").textContent(), /f32\[2, 3\]/);
  assert.equal(await view.evaluate(() => document.activeElement.id), "runs");
  await user.screenshot("runs");
  // Its code is that of the run that is shown.
  await view.locator(".action", { hasText: "Graph code" }).click();
  await user.tab("f.probe2.graph.py").first().waitFor();
  const code = await until("its text", async () => {
    const lines = await user.lines();
    return lines.some((line) => line.includes("class Graph2")) && lines.join("\n");
  });
  assert.match(code, /# f32\[2, 3\] from line 5/);
  assert.doesNotMatch(code, /# f32\[4\] from line 4/);
  assert.equal(await steps.count(), 3);
  await user.tab("f.probe2.graph.py").first().click();
  await user.command("View: Close Editor");
  await user.file("probes.py");
});

test("the gutter shows graphs and breaks when it is asked to", LONG, async () => {
  await user.file("broken.py");
  await user.command("fullgraph: Show or Hide Graphs in the Gutter");
  await user.cursor(files.BREAK.line);
  const marks = user.page.locator(".editor-instance .glyph-margin-widgets .cgmr");
  await until("three marks", async () => (await marks.count()) >= 3);
  await user.screenshot("gutter");
  await user.command("fullgraph: Show or Hide Graphs in the Gutter");
  await until("no marks", async () => (await marks.count()) === 0);
});

test("an edit removes the break, and everything follows", LONG, async () => {
  await user.file("broken.py");
  await user.cursor(files.BREAK.line);
  await user.keys("Control+Shift+k");
  await until("no squiggle", async () => (await user.squiggles().count()) === 0);
  await until("a lens with one graph", async () =>
    (await user.lenses()).some((text) => text.includes("1 graph · no breaks")),
  );
  const view = await user.traceView();
  await until("one graph in the view", async () => {
    const titles = await view.locator(".course h2").allTextContents();
    return titles.length === 1 && titles[0].startsWith("Graph 1");
  });
  await user.screenshot("mended");
  await user.keys("Control+z");
  assert.equal(await user.squiggled(), files.BREAK.text);
});

test("a quick fix hides a finding by a comment", LONG, async () => {
  await user.file("broken.py");
  await user.squiggled();
  await user.cursor(files.BREAK.line, files.BREAK.column);
  await user.action("Ignore graph-break");
  await until("no squiggle", async () => (await user.squiggles().count()) === 0);
  const lines = await user.lines();
  assert.ok(lines.some((line) => line.includes(`${files.BREAK.text}  # fullgraph: ignore[graph-break/`)));
  // The trace tells of it all the same.
  const view = await user.traceView();
  await until("the break in the view", async () =>
    (await view.locator(".card.cut").first().textContent()).includes(files.BREAK.text),
  );
  await user.screenshot("ignored");
  await user.cursor(files.BREAK.line);
  await user.keys("Control+z");
  assert.equal(await user.squiggled(), files.BREAK.text);
});

test("an action writes the probe that was found", LONG, async () => {
  await user.file("unprobed.py");
  await user.cursor(5, 8);
  await until("a probe that was found", async () =>
    (await user.lenses()).some((text) => text.includes("guessed inputs")),
  );
  await user.action("Write the probe");
  await until("a probe comment", async () =>
    (await user.lines()).some((line) => line.startsWith("# fullgraph: ")),
  );
  await until("a trace", async () =>
    // Above the comment, which says with what.
    (await user.lenses()).some((text) => /1 break$/.test(text.trim())),
  );
  assert.equal(await user.squiggled(), "print(x.shape)");
  await user.screenshot("probe");
});

test("completion lists operators", LONG, async () => {
  await user.file("operators.py");
  await user.cursor(2);
  await user.keys("Control+End");
  const row = await until("a list of operators", async () => {
    await user.keys("Escape", "Control+End", "Shift+Home", "Delete");
    await user.type("torch.ops.aten.add");
    const first = user.page.locator(".suggest-widget.visible .monaco-list-row", { hasText: "add" });
    await first.first().waitFor({ timeout: 10_000 });
    return first.first().textContent();
  });
  assert.match(row, /add/);
  await user.screenshot("completion");
  await user.keys("Escape");
});

test("signature help follows the arguments", LONG, async () => {
  await until("signatures", async () => {
    await user.keys("Escape", "Control+End", "Shift+Home", "Delete");
    await user.type("torch.max(");
    const widget = user.page.locator(".parameter-hints-widget.visible");
    await widget.waitFor({ timeout: 10_000 });
    return (await widget.textContent()).includes("input");
  });
  await user.screenshot("signatures");
  await user.keys("Escape");
});

test("a long trace can be cancelled", LONG, async () => {
  await user.file("slow.py");
  await user.command("fullgraph: Analyze File");
  const view = await user.traceView();
  await until("what is being traced", async () =>
    (await view.locator(".nothing").textContent()).startsWith("slow is being traced"),
  );
  const toast = await until("progress with a button", async () => {
    const all = user.page.locator(".notifications-toasts .notification-list-item", {
      hasText: "Tracing slow.py",
    });
    return (await all.count()) ? all.first() : undefined;
  });
  await toast.hover();
  await user.screenshot("progress");
  await toast.locator(".monaco-button", { hasText: "Cancel" }).click();
  await until("the end of it", async () => (await toast.count()) === 0);
  // What was found until then stays.
  assert.equal(await user.squiggled(), "time.sleep(600)");
  await user.command("View: Close Editor");
});

test("a repro opens beside the code, which keeps the focus", LONG, async () => {
  await user.file("broken.py");
  await user.cursor(files.BREAK.line, files.BREAK.column + 1);
  await user.action("Create minimal repro");
  await user.tab("gb").first().waitFor({ timeout: 300_000 });
  assert.equal(await user.line(), files.BREAK.line);
  const folder = path.join(host.workspace, "fullgraph-repros");
  assert.equal(await fs.readFile(path.join(folder, ".gitignore"), "utf8"), "*\n");
  const [name] = (await fs.readdir(folder)).filter((each) => each.endsWith(".py"));
  assert.match(await fs.readFile(path.join(folder, name), "utf8"), /torch\.compile/);
  await user.screenshot("repro");
});

test("virtual documents open", LONG, async () => {
  await user.file("broken.py");
  await user.cursor(files.BREAK.line);
  await user.command("fullgraph: Show Graph Code");
  await until("the graph code", async () => (await user.tab("Net.graph.py").count()) > 0);
  await until("its text", async () =>
    (await user.lines()).some((line) => line.includes("class Graph1")),
  );
  await user.screenshot("graph-code");
});

test("the status tells versions and the last run", LONG, async () => {
  await user.file("broken.py");
  await user.page.locator('[id="status.languageStatus"]').click();
  const words = await until("the status", async () => {
    const text = await user.page.locator(".hover-language-status").allTextContents();
    return text.some((one) => one.includes("last run")) && text.join(" ");
  });
  assert.match(words, /ready/);
  assert.match(words, /torch 2\..*Python 3\./);
  assert.match(words, /last run/);
  await user.screenshot("status");
  await user.keys("Escape");
});

test("the sample of the walkthrough has a finding", LONG, async () => {
  await user.command("fullgraph: Open Sample File");
  await user.tab("sample.py").waitFor();
  await until("its squiggle", async () => (await user.squiggled()) === files.BREAK.text);
  await user.screenshot("sample");
  await user.command("View: Close Editor");
});

test("the engine can be restarted", LONG, async () => {
  const before = await host.enginePid();
  assert.ok(before);
  await user.command("fullgraph: Restart Engine");
  await until("another engine, alone", async () => {
    const now = await host.enginePids();
    return now.length === 1 && now[0] !== before;
  });
  await mend();
  await user.keys("Control+z");
  assert.equal(await user.squiggled(), files.BREAK.text);
});

/** Removes the break: what is typed is traced. */
async function mend() {
  await user.file("broken.py");
  await user.cursor(files.BREAK.line);
  await user.keys("Control+Shift+k");
  await until("a lens with one graph", async () =>
    (await user.lenses()).some((text) => text.includes("1 graph · no breaks")),
  );
}

for (const [what, find, words] of [
  ["the engine", () => host.enginePid(), /engine/],
  ["the server", () => host.serverPid(), /server ended unexpectedly/],
]) {
  test(`a killed process is started again, with one message: ${what}`, LONG, async () => {
    await user.file("broken.py");
    await user.squiggled();
    await user.command("Notifications: Clear All Notifications");
    const killed = await until(what, find);
    process.kill(killed, "SIGKILL");
    await until("another one", async () => {
      const now = await find();
      return now && now !== killed;
    });
    await until("a message", async () => (await user.toasts()).some((text) => words.test(text)));
    assert.equal(await user.squiggled(), files.BREAK.text);
    await mend();
    const told = await user.notifications();
    assert.equal(told.length, 1, told.join("\n"));
    await user.screenshot(`killed-${what.split(" ")[1]}`);
    await user.keys("Control+z");
    await user.squiggled();
  });
}
