// Cuts the pictures of the extension's README out of what the tests have seen.

import fs from "node:fs/promises";
import { createRequire } from "node:module";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../../..");
const require = createRequire(path.join(ROOT, "vscode-client", "package.json"));
const { chromium } = require("playwright-core");

const SCREENS = process.env.SCREENS ?? path.join(ROOT, "tests/clients/hosts/screenshots");
const PICTURES = {
  hover: { x: 348, y: 30, width: 900, height: 350 },
  trace: { x: 348, y: 30, width: 1052, height: 690 },
};

const folder = path.join(SCREENS, process.env.HOST ?? "4.100.3");
const names = await fs.readdir(folder);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu"],
});
const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
for (const [name, clip] of Object.entries(PICTURES)) {
  const screen = names.find((one) => one.endsWith(`-${name}.png`));
  await page.goto(`file://${path.join(folder, screen)}`);
  await page.addStyleTag({ content: "body { margin: 0 } img { transform: none !important }" });
  await page.screenshot({ path: path.join(ROOT, "vscode-client/images", `${name}.png`), clip });
}
await browser.close();
