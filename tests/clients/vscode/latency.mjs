// What the extension costs the person in front of it, against the same host without it, side by
// side and in turn: printed, not judged.
//
// 1. Typing while a trace runs. A keystroke ends with the second frame behind it, in which its
//    character is on the screen.
// 2. From the load of the page to the first squiggle, against a language server that does nothing:
//    the first time, and when results of an earlier session are kept.
//
//   HOST     the version of code-server
//   ROUNDS   how often each is measured
//   KEYS     keystrokes of one round

import fs from "node:fs/promises";
import { createRequire } from "node:module";
import os from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

import { BROKEN } from "./files.mjs";
import { Host, PATIENCE, packaged, until } from "./host.mjs";
import { User } from "./user.mjs";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const VERSION = process.env.HOST ?? "4.100.3";
const ROUNDS = Number(process.env.ROUNDS ?? 3);
const KEYS = Number(process.env.KEYS ?? 200);

/** Something that takes some seconds to trace, so that there is always a trace while one types. */
const SLOW = `import torch
import torch.nn as nn


# fullgraph: init() forward(f32[b=4, 16, 64])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(64, 4, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 6)

    def forward(self, x):
        return self.encoder(x)


text = ""
`;

const FILES = { "slow.py": SLOW, "broken.py": BROKEN };

/** The language server that does nothing, as an extension. */
async function trivial(folder) {
  const require = createRequire(path.join(HERE, "../../../vscode-client/package.json"));
  const source = path.join(HERE, "trivial-server");
  const made = path.join(folder, "trivial-server");
  await fs.cp(source, made, { recursive: true });
  await require("esbuild").build({
    entryPoints: [path.join(source, "extension.js")],
    outfile: path.join(made, "extension.js"),
    nodePaths: [path.join(HERE, "../../../vscode-client/node_modules")],
    allowOverwrite: true,
    bundle: true,
    platform: "node",
    external: ["vscode"],
  });
  return packaged(made, folder);
}

/** Milliseconds from each key to the frame in which its character is on the screen. */
async function keystrokes(user) {
  await user.page.bringToFront();
  await user.file("slow.py");
  await user.keys("Control+End");
  await user.page.evaluate(() => {
    window.waits = [];
    if (window.watched) {
      return;
    }
    window.watched = true;
    document.addEventListener(
      "keydown",
      (event) => {
        if (event.key !== "a") {
          return;
        }
        const began = event.timeStamp;
        requestAnimationFrame(() =>
          requestAnimationFrame(() => window.waits.push(performance.now() - began)),
        );
      },
      true,
    );
  });
  for (let count = 0; count < KEYS; count += 1) {
    // As people type, now and then with a pause in which a trace begins.
    await user.page.keyboard.type("a");
    await user.page.waitForTimeout(count % 20 === 19 ? 700 : 60);
  }
  return until("all of them", () =>
    user.page.evaluate((count) => window.waits.length >= count && window.waits, KEYS),
  );
}

/** Milliseconds from the load of a page, which shows a file at once, to the first squiggle. */
async function loading(host) {
  const file = `vscode-remote://127.0.0.1:${host.port}${path.join(host.workspace, "broken.py")}`;
  const payload = JSON.stringify([["openFile", file]]);
  const began = performance.now();
  const page = await host.window({ folder: host.workspace, payload });
  await page.locator(".squiggly-warning").first().waitFor({ state: "attached", timeout: PATIENCE });
  const took = performance.now() - began;
  await page.close();
  return took;
}

const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
const ordered = (all) => [...all].sort((one, other) => one - other);
const told = (milliseconds) => milliseconds.toFixed(1).padStart(8);

function compare(title, ours, others, quantiles) {
  const [with_, without] = [ordered(ours), ordered(others)];
  console.log(title);
  for (const [name, part] of quantiles) {
    const [one, other] = [at(with_, part), at(without, part)];
    console.log(`  ${name.padEnd(10)} ${told(one)} ms against ${told(other)} ms: ${told(one - other)} ms`);
  }
}

const folder = await fs.mkdtemp(path.join(os.tmpdir(), "fullgraph-latency-"));
const hosts = [];
async function started(options) {
  const host = await Host.start(VERSION, { files: FILES, ...options });
  hosts.push(host);
  await host.open();
  return host;
}

try {
  const ours = await started({});
  const bare = await started({ ours: false });
  const users = [new User(ours), new User(bare)];
  for (const user of users) {
    await user.page.bringToFront();
    await user.file("slow.py");
  }
  await users[0].page.bringToFront();
  await until("a lens", async () => (await users[0].lenses()).length > 0);
  const waits = [[], []];
  for (let round = 0; round < ROUNDS; round += 1) {
    const found = [];
    for (const [index, user] of users.entries()) {
      found[index] = await keystrokes(user);
      waits[index].push(...found[index]);
    }
    const longest = found.map((all) => Math.max(...all));
    console.log(`round ${round + 1}: longest ${told(longest[0])} ms against ${told(longest[1])} ms`);
  }
  compare(`${ROUNDS} × ${KEYS} keystrokes while a trace runs, against no extension`, ...waits, [
    ["median", 0.5],
    ["90 of 100", 0.9],
    ["99 of 100", 0.99],
    ["longest", 1],
  ]);
  await bare.stop();
  hosts.pop();

  const nothing = await started({ ours: false, extensions: [await trivial(folder)] });
  const loads = [[], []];
  for (let round = 0; round <= ROUNDS; round += 1) {
    for (const [index, host] of [ours, nothing].entries()) {
      loads[index].push(await loading(host));
    }
    const [one, other] = [loads[0][round], loads[1][round]];
    console.log(`round ${round + 1}: ${told(one)} ms against ${told(other)} ms`);
  }
  const [one, other] = loads.map((all) => all.shift());
  console.log(`The first load of the page: ${told(one)} ms against ${told(other)} ms`);
  compare("From each other load of the page to a squiggle", ...loads, [
    ["shortest", 0],
    ["median", 0.5],
    ["longest", 1],
  ]);
} finally {
  for (const host of hosts) {
    await host.stop();
  }
  await fs.rm(folder, { recursive: true, force: true });
}
