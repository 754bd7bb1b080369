// What a user's hands do in the window, and what a user's eyes see there.

import fs from "node:fs/promises";
import path from "node:path";

import { PATIENCE, SCREENS, until } from "./host.mjs";

const MODIFIER = "Control";

export class User {
  /** `prefix` is what the names of screenshots begin with. */
  constructor(host, prefix = "", page = host.page) {
    this.host = host;
    this.prefix = prefix;
    this.page = page;
    this.shots = 0;
  }

  // -- hands ----------------------------------------------------------------------------------

  /** Runs a command of the palette by its title. */
  async command(title) {
    await this.#picked(`>${title}`, title);
  }

  /** Opens a file by its path; the hosts cannot search for names. */
  async find(file) {
    const name = path.basename(file);
    await this.#picked(file, name);
    await this.tab(name).first().waitFor({ timeout: PATIENCE });
  }

  async #picked(words, title) {
    const input = this.page.locator(".quick-input-widget:visible .quick-input-box input");
    // A key that is pressed while the focus goes elsewhere is lost.
    await until("the palette", async () => {
      await this.page.keyboard.press("Escape");
      await this.page.keyboard.press("F1");
      await input.waitFor({ timeout: 5000 });
      await input.fill(words, { timeout: 5000 });
      return true;
    });
    const rows = this.page.locator(".quick-input-list .monaco-list-row");
    const row = rows.filter({ hasText: title }).first();
    await row.waitFor({ timeout: PATIENCE });
    await row.click();
  }

  /** Opens a file at the root of the workspace, with the focus in it. */
  async file(name) {
    await until(`the editor of ${name}`, async () => {
      const tab = this.tab(name);
      if (await tab.count()) {
        await tab.first().click();
      } else {
        const row = this.page.locator(".explorer-folders-view .monaco-list-row", { hasText: name });
        await row.first().dblclick({ timeout: 10_000 });
      }
      await tab.first().waitFor({ timeout: 10_000 });
      return true;
    });
  }

  tab(name) {
    return this.page.locator(".tabs-container .tab", { hasText: name });
  }

  /** Puts the cursor at a one-based line and column. */
  async cursor(line, column = 1) {
    await this.page.keyboard.press("Escape");
    await this.page.keyboard.press(`${MODIFIER}+g`);
    const input = this.page.locator(".quick-input-widget:visible .quick-input-box input");
    await input.waitFor({ timeout: PATIENCE });
    await input.fill(`:${line}:${column}`);
    const rows = this.page.locator(".quick-input-list .monaco-list-row");
    await rows.filter({ hasText: `line ${line}` }).first().waitFor({ timeout: PATIENCE });
    await this.page.keyboard.press("Enter");
    await input.waitFor({ state: "hidden", timeout: PATIENCE });
  }

  async type(text) {
    await this.page.keyboard.type(text, { delay: 20 });
  }

  async keys(...all) {
    for (const one of all) {
      await this.page.keyboard.press(one);
    }
  }

  /** Chooses a code action at the cursor by words of its title. */
  async action(words) {
    await until(`the action "${words}"`, async () => {
      await this.page.keyboard.press("Escape");
      await this.page.keyboard.press(`${MODIFIER}+.`);
      const row = this.page.locator(".action-widget .monaco-list-row", { hasText: words }).first();
      await row.waitFor({ timeout: 5000 });
      // Something transparent lies over everything while the list is open.
      const box = await row.boundingBox();
      await this.page.mouse.click(box.x + box.width / 2, box.y + box.height / 2);
      await row.waitFor({ state: "hidden", timeout: 5000 });
      return true;
    });
  }

  // -- eyes -----------------------------------------------------------------------------------

  squiggles(severity = "warning") {
    return this.page.locator(`.editor-instance .squiggly-${severity}`);
  }

  /** The text that stands above the first squiggle, measured on the screen. */
  async squiggled(severity = "warning") {
    await this.squiggles(severity).first().waitFor({ state: "attached", timeout: PATIENCE });
    return this.page.evaluate((kind) => {
      const squiggle = document.querySelector(`.editor-instance .squiggly-${kind}`);
      const box = squiggle.getBoundingClientRect();
      let found = "";
      for (const line of document.querySelectorAll(".editor-instance .view-line")) {
        const place = line.getBoundingClientRect();
        const middle = box.top + box.height / 2;
        if (middle < place.top || middle > place.bottom) {
          continue;
        }
        const walker = document.createTreeWalker(line, NodeFilter.SHOW_TEXT);
        for (let node = walker.nextNode(); node; node = walker.nextNode()) {
          for (let at = 0; at < node.length; at++) {
            const range = document.createRange();
            range.setStart(node, at);
            range.setEnd(node, at + 1);
            const { left, width } = range.getBoundingClientRect();
            const center = left + width / 2;
            if (center > box.left && center < box.right) {
              found += node.data[at];
            }
          }
        }
      }
      return found.replaceAll("\u00a0", " ");
    }, severity);
  }

  /** All lines of the editor that are on the screen, as they look: with inlay hints. */
  async lines() {
    const found = await this.page.evaluate(() =>
      [...document.querySelectorAll(".editor-instance .view-line")]
        .map((line) => ({ top: line.getBoundingClientRect().top, text: line.textContent }))
        .sort((one, other) => one.top - other.top)
        .map(({ text }) => text),
    );
    return found.map((text) => text.replaceAll("\u00a0", " "));
  }

  async lenses() {
    const all = await this.page.locator(".codelens-decoration a").allTextContents();
    return all.map((text) => text.replaceAll("\u00a0", " "));
  }

  lens(words) {
    return this.page.locator(".codelens-decoration a", { hasText: words }).first();
  }

  async problems() {
    const rows = this.page.locator(".markers-panel .monaco-list-row");
    return rows.allTextContents();
  }

  async toasts() {
    const all = await this.page.locator(".notifications-toasts .notification-list-item-message");
    return all.allTextContents();
  }

  /**
   * Warnings and errors in the notification center, which this opens: toasts vanish by themselves.
   * Progress stands there as well.
   */
  async notifications() {
    await this.command("Notifications: Show Notifications");
    const center = this.page.locator(".notifications-center.visible");
    await center.waitFor({ timeout: PATIENCE });
    const loud = center.locator(".notification-list-item", {
      has: this.page.locator(".codicon-warning, .codicon-error"),
    });
    return loud.locator(".notification-list-item-message").allTextContents();
  }

  /** Moves the mouse onto something until the hover has these words. */
  async hover(locator, words) {
    return until(`a hover with "${words}"`, async () => {
      await this.page.mouse.move(5, 5);
      await locator.scrollIntoViewIfNeeded({ timeout: 2000 }).catch(() => undefined);
      const box = await locator.boundingBox();
      await this.page.mouse.move(box.x + 12, box.y + box.height / 2, { steps: 4 });
      const hover = this.page.locator(".monaco-hover:visible", { hasText: words }).first();
      await hover.waitFor({ timeout: 6000 });
      return hover.textContent();
    });
  }

  /** The page inside the trace view. */
  async traceView() {
    return until("the page of the trace view", async () => {
      for (const frame of this.page.frames()) {
        if (await frame.$("#view > header, #view > .nothing").catch(() => null)) {
          return frame;
        }
      }
      return undefined;
    });
  }

  /** The one-based line that the cursor is in. */
  async line() {
    const place = await this.page.locator('[id="status.editor.selection"]').textContent();
    return Number(/Ln (\d+)/.exec(place)?.[1]);
  }

  /** Keeps what is on the screen. */
  async screenshot(name, options = {}) {
    this.shots += 1;
    const folder = path.join(SCREENS, this.host.version);
    await fs.mkdir(folder, { recursive: true });
    const number = this.prefix || `${String(this.shots).padStart(2, "0")}-`;
    // As it is once everything that fades in is there.
    const picture = { path: path.join(folder, `${number}${name}.png`), animations: "disabled" };
    await this.page.screenshot({ ...picture, ...options });
  }
}
