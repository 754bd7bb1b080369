// How much longer a keystroke takes while a trace runs than without the extension: printed, not
// judged. A keystroke ends with the second frame behind it, in which its character is on the screen.

import { Host, until } from "./host.mjs";
import { User } from "./user.mjs";

const KEYS = 200;

/** Something that takes some seconds to trace, so that there is always a trace while one types. */
const FILE = `import torch
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

/** Milliseconds from each key to the frame in which its character is on the screen. */
async function keystrokes(user) {
  await user.file("latency.py");
  await user.keys("Control+End");
  await user.page.evaluate(() => {
    window.waits = [];
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
  const waits = await until("all of them", () =>
    user.page.evaluate((count) => window.waits.length >= count && window.waits, KEYS),
  );
  return waits.sort((one, other) => one - other);
}

async function measured(version, ours) {
  const host = await Host.start(version, { files: { "latency.py": FILE }, ours });
  try {
    await host.open();
    const user = new User(host);
    await user.file("latency.py");
    if (ours) {
      await until("a lens", async () => (await user.lenses()).length > 0);
    } else {
      await user.page.waitForTimeout(15_000);
    }
    return await keystrokes(user);
  } finally {
    await host.stop();
  }
}

const version = process.env.HOST ?? "4.100.3";
const without = await measured(version, false);
const traced = await measured(version, true);
const at = (waits, part) => waits[Math.min(waits.length - 1, Math.floor(waits.length * part))];
for (const [name, part] of [
  ["median", 0.5],
  ["99 of 100", 0.99],
  ["longest", 1],
]) {
  const [one, other] = [at(without, part), at(traced, part)];
  console.log(`${name}: ${one.toFixed(1)} ms without, ${other.toFixed(1)} ms while tracing`);
}
