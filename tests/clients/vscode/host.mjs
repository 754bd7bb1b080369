// A real VS Code with the packaged extension, served by code-server and shown by Chromium.

import { spawn, execFile } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs/promises";
import net from "node:net";
import os from "node:os";
import path from "node:path";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const HERE = path.dirname(fileURLToPath(import.meta.url));
const ROOT = path.resolve(HERE, "../../..");
const require = createRequire(path.join(ROOT, "vscode-client", "package.json"));
const { chromium } = require("playwright-core");

const execute = promisify(execFile);

export const VSIX = process.env.VSIX ?? path.join(ROOT, "vscode-client/dist/fullgraph.vsix");
export const SCREENS = process.env.SCREENS ?? path.join(ROOT, "tests/clients/hosts/screenshots");
export const PYTHON = process.env.PYTHON ?? path.join(ROOT, ".venv/bin/python");

/** Milliseconds after which something that has to come does not come any more. */
export const PATIENCE = Number(process.env.PATIENCE ?? 120_000);

const CHROMIUM = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

const SETTINGS = {
  "files.autoSave": "off",
  "workbench.startupEditor": "none",
  "workbench.colorTheme": "Default Dark Modern",
  "workbench.tips.enabled": false,
  "window.commandCenter": false,
  "chat.commandCenter.enabled": false,
  "chat.disableAIFeatures": true,
  "workbench.secondarySideBar.defaultVisibility": "hidden",
  "extensions.ignoreRecommendations": true,
  "editor.minimap.enabled": false,
  "editor.fontFamily": "DejaVu Sans Mono",
  "editor.fontSize": 13,
  "editor.wordBasedSuggestions": "off",
  "editor.occurrencesHighlight": "off",
  "git.enabled": false,
  "telemetry.telemetryLevel": "off",
  "security.workspace.trust.untrustedFiles": "open",
};

/** Starts Chromium without a window. */
export async function launchBrowser() {
  const executablePath = process.env.CHROMIUM ?? (await which("chromium", "google-chrome"));
  return chromium.launch({ executablePath, args: CHROMIUM });
}

/** Polls until there is something; what it is. */
export async function until(what, look, patience = PATIENCE) {
  const end = Date.now() + patience;
  let last;
  for (;;) {
    try {
      const found = await look();
      if (found) {
        return found;
      }
      last = undefined;
    } catch (error) {
      last = error;
    }
    if (Date.now() > end) {
      throw new Error(`There was never: ${what}${last ? ` (${last.message})` : ""}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

export class Host {
  /** `version` is that of code-server; a host of this version has to be installed. */
  static async start(
    version,
    {
      files = {},
      programs = [],
      settings = {},
      trusted = true,
      env = {},
      python = PYTHON,
      folder = "work",
      extensions: others = [],
      ours = true,
    } = {},
  ) {
    const installed = path.join(ROOT, "tests/clients/hosts", `code-server-${version}`);
    const node = (await fs.readFile(path.join(installed, "ready"), "utf8")).trim();
    const entry = path.join(installed, "node_modules/code-server/out/node/entry.js");
    const base = await fs.mkdtemp(path.join(os.tmpdir(), "fullgraph-vscode-"));
    const workspace = path.join(base, folder);
    const user = path.join(base, "user");
    const extensions = path.join(base, "extensions");
    await fs.mkdir(workspace, { recursive: true });
    for (const [name, text] of Object.entries(files)) {
      await fs.mkdir(path.dirname(path.join(workspace, name)), { recursive: true });
      await fs.writeFile(path.join(workspace, name), text);
    }
    for (const name of programs) {
      await fs.chmod(path.join(workspace, name), 0o755);
    }
    const written = async (name, values) => {
      await fs.mkdir(path.join(user, name), { recursive: true });
      await fs.writeFile(path.join(user, name, "settings.json"), JSON.stringify(values));
    };
    await written("User", { ...SETTINGS, ...settings });
    // Where a window that is served from elsewhere looks for paths.
    await written("Machine", python ? { "fullgraph.interpreter": python } : {});
    const where = ["--config", "/dev/null", "--user-data-dir", user, "--extensions-dir", extensions];
    const environment = { ...process.env, ...env };
    delete environment.VSCODE_IPC_HOOK_CLI;
    for (const vsix of ours ? [...others, VSIX] : others) {
      await execute(node, [entry, ...where, "--install-extension", vsix], { env: environment });
    }
    const port = await freePort();
    const child = spawn(
      node,
      [
        ...[entry, "--auth", "none", "--bind-addr", `127.0.0.1:${port}`],
        ...["--disable-telemetry", "--disable-update-check", "--disable-getting-started-override"],
        ...(trusted ? ["--disable-workspace-trust"] : []),
        ...where,
        workspace,
      ],
      { env: environment, stdio: ["ignore", "pipe", "pipe"], detached: true },
    );
    const host = new Host(version, base, workspace, child, port);
    child.stdout.on("data", (data) => host.output.push(String(data)));
    child.stderr.on("data", (data) => host.output.push(String(data)));
    await until("a host that answers", async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/healthz`);
      return answer.ok;
    });
    return host;
  }

  constructor(version, base, workspace, child, port) {
    this.version = version;
    this.base = base;
    this.workspace = workspace;
    this.output = [];
    this.child = child;
    this.port = port;
  }

  /** Opens the window of the workspace in a browser of its own. */
  async open({ width = 1400, height = 900 } = {}) {
    this.browser = await launchBrowser();
    this.context = await this.browser.newContext({
      viewport: { width, height },
      permissions: ["clipboard-read", "clipboard-write"],
    });
    this.page = await this.window();
    return this.page;
  }

  /** One more window: of the workspace, or of what the query of the address says. */
  async window(query = { folder: this.workspace }) {
    const page = await this.context.newPage();
    const url = `http://127.0.0.1:${this.port}/?${new URLSearchParams(query)}`;
    await page.goto(url, { timeout: PATIENCE });
    await page.waitForSelector(".monaco-workbench", { timeout: PATIENCE });
    return page;
  }

  /**
   * One more window: of the folders that a workspace file names. A host that sees such a file for
   * the first time may show a workspace without folders, and stays with that.
   */
  async severalFolders(file) {
    const page = await this.window({ workspace: file });
    const roots = page.locator(".explorer-folders-view .monaco-list-row");
    await until("folders", async () => {
      const shown = await roots.first().waitFor({ timeout: 10_000 }).then(
        () => true,
        () => false,
      );
      if (!shown) {
        await page.reload({ timeout: PATIENCE });
      }
      return shown;
    });
    return page;
  }

  /** Processes of this host whose command line has these words in it, as `{pid, command}`. */
  async processes(...words) {
    const found = [];
    for (const name of await fs.readdir("/proc")) {
      if (!/^\d+$/.test(name)) {
        continue;
      }
      try {
        const raw = await fs.readFile(`/proc/${name}/cmdline`, "utf8");
        const command = raw.replaceAll("\0", " ");
        if (command.includes(this.base) && words.every((word) => command.includes(word))) {
          found.push({ pid: Number(name), command });
        }
      } catch {
        // It has ended meanwhile.
      }
    }
    return found;
  }

  /** The process of a server, and that of an engine; undefined where there is none. */
  async serverPid() {
    return (await this.processes("bundled/start.py", "server"))[0]?.pid;
  }

  async enginePid() {
    return (await this.enginePids())[0];
  }

  async enginePids() {
    return (await this.engines()).map(({ pid }) => pid);
  }

  async engines() {
    const all = await this.processes("fullgraph_engine/boot.py", "--read");
    // Its runs are forks of it, with the same command line.
    const pids = new Set(all.map(({ pid }) => pid));
    const engines = [];
    for (const engine of all) {
      const stat = await fs.readFile(`/proc/${engine.pid}/stat`, "utf8").catch(() => "");
      const parent = Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1]);
      if (stat && !pids.has(parent)) {
        engines.push(engine);
      }
    }
    return engines;
  }

  async stop() {
    await this.browser?.close();
    if (this.child.exitCode === null) {
      const ended = once(this.child, "exit");
      process.kill(-this.child.pid, "SIGTERM");
      const timer = setTimeout(() => process.kill(-this.child.pid, "SIGKILL"), 10_000);
      await ended;
      clearTimeout(timer);
    }
    await fs.rm(this.base, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** An extension of the tests as a .vsix in a folder. */
export async function packaged(source, folder) {
  const vsce = path.join(ROOT, "vscode-client/node_modules/@vscode/vsce/vsce");
  const vsix = path.join(folder, `${path.basename(source)}.vsix`);
  const options = ["--no-dependencies", "--skip-license", "--allow-missing-repository"];
  await execute("node", [vsce, "package", ...options, "--out", vsix], { cwd: source });
  return vsix;
}

async function freePort() {
  const server = net.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

async function which(...names) {
  for (const name of names) {
    try {
      const { stdout } = await execute("sh", ["-c", `command -v ${name}`]);
      return stdout.trim();
    } catch {
      // The next one.
    }
  }
  throw new Error(`Install ${names[0]}: none of ${names.join(", ")} is there.`);
}
