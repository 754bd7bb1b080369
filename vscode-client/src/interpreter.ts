// Which Python traces the code, folder by folder, and which one runs the server.

import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as fs from "node:fs/promises";
import * as os from "node:os";
import * as path from "node:path";

import * as vscode from "vscode";

import { Environments } from "./environments";

const execute = promisify(execFile);

const SETTING = "fullgraph.interpreter";

/** Where the last interpreter that could run the server is kept, as `stateOf` has it. */
const SUITABLE = "fullgraph.suitable";

/** Milliseconds of quiet after which a change of environments is looked at. */
const QUIET = 300;

/** Milliseconds that an interpreter gets to say its version. */
const PATIENCE = 20_000;

export class NoInterpreter extends Error {}

/** `set`: by the user, so that it traces whatever it has; another has to have torch. */
export interface Chosen {
  readonly path: string;
  readonly set: boolean;
}

export class Interpreters implements vscode.Disposable {
  readonly #environments: Environments;
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #disposables: vscode.Disposable[] = [this.#changed];
  #known = new Map<string, string>();
  #timer: NodeJS.Timeout | undefined;

  /** For some folder another interpreter traces the code: never fired for nothing. */
  readonly onDidChange = this.#changed.event;

  constructor(
    private readonly log: vscode.LogOutputChannel,
    private readonly memory: vscode.Memento,
  ) {
    this.#environments = new Environments(log);
    this.#disposables.push(
      this.#environments,
      this.#environments.onDidChange(() => this.#lookSoon()),
    );
  }

  /**
   * The interpreter for a folder, where one is set or active. Without one, or where the active one
   * has no torch, the server takes the first that has it of VIRTUAL_ENV, `.venv`, CONDA_PREFIX and
   * PATH.
   */
  async of(scope: vscode.Uri | undefined): Promise<Chosen | undefined> {
    const found = await this.#find(scope);
    this.#known.set(key(scope), found?.path ?? "");
    return found;
  }

  /**
   * The interpreter that will trace a text that is open and speaks of torch, if it has torch: where
   * one is set or active. Others the server finds.
   */
  async ofOpen(): Promise<string | undefined> {
    const open = vscode.workspace.textDocuments.find(
      (document) => document.languageId === "python" && document.getText().includes("torch"),
    );
    const folder = open && vscode.workspace.getWorkspaceFolder(open.uri);
    const found = open && (await this.of(folder?.uri));
    return found && path.isAbsolute(found.path) ? found.path : undefined;
  }

  /** Interpreters to run the server, the best first. */
  async *candidates(): AsyncIterable<string> {
    const folder = vscode.workspace.workspaceFolders?.[0];
    const chosen = await this.of(folder?.uri);
    if (chosen) {
      yield absolute(chosen.path, folder?.uri);
    }
    if (process.env["VIRTUAL_ENV"]) {
      yield* pythonsOf(process.env["VIRTUAL_ENV"]);
    }
    if (folder) {
      yield* pythonsOf(path.join(folder.uri.fsPath, ".venv"));
    }
    if (process.env["CONDA_PREFIX"]) {
      yield* pythonsOf(process.env["CONDA_PREFIX"]);
    }
    yield* process.platform === "win32" ? ["python", "py"] : ["python3", "python"];
  }

  /**
   * The first interpreter that can run the server.
   *
   * @throws NoInterpreter with a sentence that says why none can.
   */
  async forServer(): Promise<string> {
    const refused: string[] = [];
    for await (const candidate of this.candidates()) {
      const state = await stateOf(candidate);
      if (state && this.memory.get(SUITABLE) === state) {
        return candidate;
      }
      const problem = await problemOf(candidate);
      if (!problem) {
        void this.memory.update(SUITABLE, state);
        return candidate;
      }
      this.log.info(`${candidate} cannot run the server: ${problem}`);
      refused.push(`${candidate} ${problem}`);
    }
    const older = refused.find((words) => words.includes("older than"));
    throw new NoInterpreter(
      older
        ? `fullgraph needs Python 3.10 or newer, but ${older}.`
        : "fullgraph found no Python. Select one, 3.10 or newer, that has torch.",
    );
  }

  async #find(scope: vscode.Uri | undefined): Promise<Chosen | undefined> {
    const set = vscode.workspace.getConfiguration(undefined, scope ?? null).get<string>(SETTING);
    if (set?.trim()) {
      return { path: set.trim(), set: true };
    }
    const active = await this.#environments.active(scope);
    if (active && this.#known.get(key(scope)) !== active.path) {
      this.log.info(`${scope?.fsPath ?? "Files"}: ${active.path}, from ${active.from}.`);
    }
    return active && { path: active.path, set: false };
  }

  #lookSoon(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#look().catch((error: unknown) => this.log.error(String(error)));
    }, QUIET);
  }

  async #look(): Promise<void> {
    const before = new Map(this.#known);
    let other = false;
    for (const [scope, known] of before) {
      const now = await this.of(scope ? vscode.Uri.parse(scope) : undefined);
      other ||= (now?.path ?? "") !== known;
    }
    if (other) {
      this.#changed.fire();
    }
  }

  dispose(): void {
    clearTimeout(this.#timer);
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

/** Equal for as long as the file of an interpreter is the same; undefined where that is not known. */
async function stateOf(interpreter: string): Promise<string | undefined> {
  if (!path.isAbsolute(interpreter)) {
    return undefined;
  }
  try {
    const { mtimeMs, size } = await fs.stat(interpreter);
    return JSON.stringify([interpreter, mtimeMs, size]);
  } catch {
    return undefined;
  }
}

/** Why an interpreter cannot run the server, as the end of a sentence; empty if it can. */
async function problemOf(interpreter: string): Promise<string> {
  const program = "import sys; print('%d.%d' % sys.version_info[:2])";
  try {
    const { stdout } = await execute(interpreter, ["-I", "-S", "-c", program], {
      timeout: PATIENCE,
    });
    const [major = 0, minor = 0] = stdout.trim().split(".").map(Number);
    const supported = major > 3 || (major === 3 && minor >= 10);
    return supported ? "" : `is Python ${stdout.trim()}, older than 3.10`;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT"
      ? "does not exist"
      : `does not run (${typeof code === "string" ? code : "it failed"})`;
  }
}

/** A Python that was found, and the version of its torch; `torch` is empty without it. */
export interface Installed {
  readonly path: string;
  readonly name: string;
  readonly version: string;
  readonly torch: string;
}

/**
 * Environments in the usual places: of the folder, of conda, of pyenv, and what is active; and
 * `current`, the Python in use.
 */
export async function installedPythons(
  folder: vscode.Uri | undefined,
  current: string,
): Promise<Installed[]> {
  const home = os.homedir();
  const conda = process.env["CONDA_PREFIX"];
  const inside = [folder?.fsPath, path.join(home, ".virtualenvs"), path.join(home, ".pyenv/versions")];
  for (const base of ["miniconda3", "anaconda3", "miniforge3", "mambaforge"]) {
    inside.push(path.join(home, base, "envs"));
  }
  const roots = [process.env["VIRTUAL_ENV"], conda, ...(await foldersIn(inside))];
  const pythons = new Map<string, string>();
  for (const root of roots) {
    for await (const python of root ? pythonsOf(root) : []) {
      pythons.set(python, path.basename(root ?? ""));
    }
  }
  if (current && !pythons.has(current)) {
    pythons.set(current, nameOf(current));
  }
  const known = new Set(pythons.keys());
  if (!pythons.has("python3")) {
    pythons.set("python3", "python3 on PATH");
  }
  const found = await Promise.all([...pythons].map(([python, name]) => describe(python, name)));
  // That on PATH is often one of the others.
  return found
    .filter((one) => one !== undefined)
    .filter(({ path: python }, at) => at < known.size || !known.has(python));
}

/** The environment's folder of a Python in `bin` or `Scripts`. */
function nameOf(python: string): string {
  const folder = path.dirname(python);
  const inside = ["bin", "Scripts"].includes(path.basename(folder));
  return path.basename(inside ? path.dirname(folder) : folder);
}

/** Asks a Python for its version, and whether it has torch, without importing it. */
const DESCRIBE = `
import importlib.util, json, os, re, sys
spec = importlib.util.find_spec("torch")
version = ""
if spec is not None and spec.origin:
    version = "of unknown version"
    try:
        with open(os.path.join(os.path.dirname(spec.origin), "version.py")) as file:
            version = re.search("__version__ = '([^']+)'", file.read()).group(1)
    except (OSError, AttributeError):
        pass
print(json.dumps([sys.executable, "%d.%d.%d" % sys.version_info[:3], version]))
`;

/** Undefined where it does not run. */
async function describe(python: string, name: string): Promise<Installed | undefined> {
  try {
    const { stdout } = await execute(python, ["-I", "-c", DESCRIBE], { timeout: PATIENCE });
    const [executable, version, torch] = JSON.parse(stdout) as [string, string, string];
    const absolutePath = path.isAbsolute(python) ? python : executable;
    return { path: absolutePath, name, version: `Python ${version}`, torch };
  } catch {
    return undefined;
  }
}

async function foldersIn(folders: readonly (string | undefined)[]): Promise<string[]> {
  const all: string[] = [];
  for (const folder of folders) {
    if (folder) {
      const entries = await fs.readdir(folder, { withFileTypes: true }).catch(() => []);
      // An environment may be a link to where it really is.
      const likely = entries.filter((entry) => entry.isDirectory() || entry.isSymbolicLink());
      all.push(...likely.map(({ name }) => path.join(folder, name)));
    }
  }
  return all;
}

async function* pythonsOf(environment: string): AsyncIterable<string> {
  // On Windows, conda has its Python at the top.
  const windows = process.platform === "win32";
  const names = windows ? ["Scripts/python.exe", "python.exe"] : ["bin/python", "bin/python3"];
  for (const relative of names) {
    const python = path.join(environment, relative);
    try {
      await fs.access(python);
    } catch {
      continue;
    }
    yield python;
    return;
  }
}

/** A setting as something that can be started. */
function absolute(interpreter: string, folder: vscode.Uri | undefined): string {
  let written = interpreter;
  if (folder) {
    written = written.replaceAll("${workspaceFolder}", folder.fsPath);
  }
  if (written === "~" || written.startsWith("~/")) {
    written = path.join(os.homedir(), written.slice(1));
  }
  const command = !written.includes("/") && !written.includes(path.sep);
  return command || path.isAbsolute(written) || !folder
    ? written
    : path.join(folder.fsPath, written);
}

function key(scope: vscode.Uri | undefined): string {
  return scope?.toString() ?? "";
}
