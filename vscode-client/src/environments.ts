// The environments that the Python extensions have active. Both are optional, and both may be
// slow, absent or switched off: then there is simply nothing to be had from them.

import * as vscode from "vscode";

const ENVIRONMENTS = "ms-python.vscode-python-envs";
const PYTHON = "ms-python.python";

/** Milliseconds that an extension gets to wake up or to answer, before we go on without it. */
const PATIENCE = 8000;

/** What we use of the Python environments extension. */
interface EnvironmentsApi {
  getEnvironment(scope: vscode.Uri | undefined): Promise<Environment | undefined>;
  readonly onDidChangeEnvironment: vscode.Event<unknown>;
}

interface Environment {
  readonly execInfo?: {
    readonly run?: { readonly executable?: string };
    readonly activatedRun?: { readonly executable?: string };
  };
}

/** What we use of the Python extension. */
interface PythonApi {
  readonly environments: {
    getActiveEnvironmentPath(resource?: vscode.Uri): { readonly path: string };
    resolveEnvironment(path: {
      readonly path: string;
    }): Promise<{ readonly executable: { readonly uri?: vscode.Uri } } | undefined>;
    readonly onDidChangeActiveEnvironmentPath: vscode.Event<unknown>;
  };
}

interface Provider {
  readonly name: string;
  active(scope: vscode.Uri | undefined): Promise<string | undefined>;
  readonly onDidChange: vscode.Event<unknown>;
}

export class Environments implements vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<void>();
  readonly #disposables: vscode.Disposable[] = [this.#changed];
  #providers: Promise<readonly Provider[]> | undefined;

  /** Maybe another environment is active. Often fired for nothing. */
  readonly onDidChange = this.#changed.event;

  constructor(private readonly log: vscode.LogOutputChannel) {
    this.#disposables.push(
      vscode.extensions.onDidChange(() => {
        this.#providers = undefined;
        this.#changed.fire();
      }),
    );
  }

  /** The interpreter of the environment that is active, and who says so. */
  async active(
    scope: vscode.Uri | undefined,
  ): Promise<{ readonly path: string; readonly from: string } | undefined> {
    this.#providers ??= this.#connect();
    for (const provider of await this.#providers) {
      try {
        const path = await timely(provider.active(scope), `${provider.name} to answer`);
        if (path) {
          return { path, from: provider.name };
        }
      } catch (error) {
        this.log.warn(`No environment from ${provider.name}: ${words(error)}`);
      }
    }
    return undefined;
  }

  /** The command with which the user chooses, if one of the extensions is there. */
  static get selectCommand(): string | undefined {
    return vscode.extensions.getExtension(PYTHON) ? "python.setInterpreter" : undefined;
  }

  async #connect(): Promise<readonly Provider[]> {
    const found: Provider[] = [];
    for (const [id, connect] of [
      [ENVIRONMENTS, environmentsProvider],
      [PYTHON, pythonProvider],
    ] as const) {
      const extension = vscode.extensions.getExtension<unknown>(id);
      if (!extension) {
        continue;
      }
      try {
        const api = await timely(Promise.resolve(extension.activate()), `${id} to start`);
        const provider = connect(api);
        if (provider) {
          found.push(provider);
          this.#disposables.push(provider.onDidChange(() => this.#changed.fire()));
        }
      } catch (error) {
        this.log.warn(`${id} is not used: ${words(error)}`);
      }
    }
    return found;
  }

  dispose(): void {
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

function environmentsProvider(api: unknown): Provider | undefined {
  const environments = api as Partial<EnvironmentsApi> | undefined;
  if (!environments?.getEnvironment || !environments.onDidChangeEnvironment) {
    return undefined;
  }
  const { onDidChangeEnvironment } = environments;
  return {
    name: "the Python environments extension",
    active: async (scope) => {
      const { execInfo } = (await environments.getEnvironment?.(scope)) ?? {};
      return execInfo?.activatedRun?.executable ?? execInfo?.run?.executable;
    },
    onDidChange: onDidChangeEnvironment,
  };
}

function pythonProvider(api: unknown): Provider | undefined {
  const environments = (api as Partial<PythonApi> | undefined)?.environments;
  if (!environments) {
    return undefined;
  }
  return {
    name: "the Python extension",
    active: async (scope) => {
      const active = environments.getActiveEnvironmentPath(scope);
      const resolved = await environments.resolveEnvironment(active);
      return resolved?.executable.uri?.fsPath;
    },
    onDidChange: environments.onDidChangeActiveEnvironmentPath,
  };
}

async function timely<T>(work: Promise<T>, wait: string): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(
      () => reject(new Error(`waited ${PATIENCE / 1000} seconds for ${wait}`)),
      PATIENCE,
    );
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function words(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
