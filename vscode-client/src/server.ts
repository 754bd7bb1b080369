// The server's process and the connection to it: one for each window.

import * as path from "node:path";

import * as vscode from "vscode";
import {
  type ClientCapabilities,
  CloseAction,
  type CloseHandlerResult,
  DidChangeConfigurationNotification,
  ErrorAction,
  type FeatureState,
  LanguageClient,
  MessageType,
  type Middleware,
  ShowMessageNotification,
  type StaticFeature,
  State as ClientState,
} from "vscode-languageclient/node";

import { showBeside } from "./documents";
import { hoverWithLinks } from "./findings";
import { type Interpreters, NoInterpreter } from "./interpreter";
import * as protocol from "./protocol";
import { LongProgress } from "./progress";
import { chosen, declared } from "./settings";
import type { LanguageStatus } from "./status";

/** Commands of this extension that the server may name in what it sends. */
const COMMANDS = [
  "fullgraph.showTarget",
  "fullgraph.explainFile",
  "fullgraph.copyIssue",
  "fullgraph.allow",
];

/** What the server asks for, and the beginning of each setting's name. */
const SECTION = "fullgraph";

const SELECTOR = [
  { scheme: "file", language: "python" },
  { scheme: "untitled", language: "python" },
  { notebook: "jupyter-notebook", language: "python" },
];

/** A server that ends this often within these milliseconds is not started again. */
const MOST_ENDS = 4;
const SPAN = 180_000;

export class Server implements vscode.Disposable {
  readonly #changed = new vscode.EventEmitter<{ uri: vscode.Uri; final: boolean }>();
  readonly #progress = new LongProgress(
    () => this.client,
    () => this.status.current?.state === "starting",
  );
  readonly #disposables: vscode.Disposable[] = [this.#changed, this.#progress];
  #client: LanguageClient | undefined;
  #work: Promise<void> = Promise.resolve();
  #ends: number[] = [];

  /** What is known of a text has changed. */
  readonly onDidChange = this.#changed.event;

  constructor(
    private readonly context: vscode.ExtensionContext,
    private readonly interpreters: Interpreters,
    private readonly status: LanguageStatus,
    private readonly log: vscode.LogOutputChannel,
  ) {
    this.#disposables.push(
      interpreters.onDidChange(() => void this.#interpreterChanged()),
      vscode.workspace.onDidChangeConfiguration((event) => {
        // A server that found no Python to run has nobody to tell of another setting.
        if (event.affectsConfiguration("fullgraph.interpreter") && !this.client) {
          void this.restart();
        }
      }),
      vscode.window.onDidChangeWindowState(({ focused }) => {
        if (focused) {
          void this.client?.sendNotification(protocol.focused, {});
        }
      }),
    );
  }

  /** The client, while the server is there to answer. */
  get client(): LanguageClient | undefined {
    return this.#client?.state === ClientState.Running ? this.#client : undefined;
  }

  start(): Promise<void> {
    return this.#inTurn(() => this.#start());
  }

  restart(): Promise<void> {
    this.#ends = [];
    return this.#inTurn(async () => {
      await this.#stop();
      await this.#start();
    });
  }

  stop(): Promise<void> {
    return this.#inTurn(() => this.#stop());
  }

  /** A command of the server; undefined, and a calm message, where it is not there or refuses. */
  async command<T>(name: string, ...parameters: unknown[]): Promise<T | undefined> {
    const client = this.client;
    if (!client) {
      void vscode.window.showInformationMessage("fullgraph: The server is not running yet.");
      return undefined;
    }
    try {
      return await client.sendRequest<T>("workspace/executeCommand", {
        command: name,
        arguments: parameters,
      });
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      this.log.warn(`${name}: ${words}`);
      void vscode.window.showInformationMessage(`fullgraph: ${words}`);
      return undefined;
    }
  }

  /** What has to happen one after the other, whoever asks for it meanwhile. */
  #inTurn(work: () => Promise<void>): Promise<void> {
    this.#work = this.#work.then(work).catch((error: unknown) => {
      this.log.error(error instanceof Error ? (error.stack ?? error.message) : String(error));
    });
    return this.#work;
  }

  async #start(): Promise<void> {
    this.status.starting();
    let interpreter: string;
    try {
      interpreter = await this.interpreters.forServer();
    } catch (error) {
      if (error instanceof NoInterpreter) {
        this.status.stopped(error.message);
        void this.#tell(MessageType.Warning, error.message, "Select Interpreter");
        return;
      }
      throw error;
    }
    const client = this.#made(interpreter, await this.interpreters.ofOpen());
    this.#client = client;
    try {
      await client.start();
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      this.log.error(`The server did not start with ${interpreter}: ${words}`);
      this.status.stopped("The server did not start.");
      void this.#tell(MessageType.Error, "The server did not start.", "Restart Server");
    }
  }

  async #stop(): Promise<void> {
    const client = this.#client;
    this.#client = undefined;
    this.#progress.clear();
    if (client) {
      try {
        await client.dispose(5000);
      } catch (error) {
        this.log.debug(`While the server was stopped: ${String(error)}`);
      }
    }
  }

  /** `tracing`: the interpreter that imports torch while everything else still starts. */
  #made(interpreter: string, tracing: string | undefined): LanguageClient {
    const script = this.context.asAbsolutePath(path.join("bundled", "start.py"));
    const cache = vscode.Uri.joinPath(this.context.globalStorageUri, "pycache").fsPath;
    this.log.info(`The server runs in ${interpreter}.`);
    // Isolated: no PYTHON* variables, no folder of the workspace and no site-packages.
    const parameters = ["-I", "-S", "-X", `pycache_prefix=${cache}`, script, "server"];
    const program = { command: interpreter, args: [...parameters] };
    if (tracing) {
      program.args.push("--engine", tracing);
    }
    const client: LanguageClient = new LanguageClient(
      "fullgraph",
      "fullgraph",
      program,
      {
        documentSelector: SELECTOR,
        outputChannel: this.log,
        diagnosticCollectionName: "fullgraph",
        initializationOptions: { trusted: vscode.workspace.isTrusted },
        markdown: { isTrusted: false, supportHtml: false },
        diagnosticPullOptions: { onChange: true, onSave: true },
        middleware: this.#middleware(),
        errorHandler: {
          error: (_error, _message, count) => ({
            action: (count ?? 0) <= 3 ? ErrorAction.Continue : ErrorAction.Shutdown,
            handled: true,
          }),
          closed: (): CloseHandlerResult => {
            // Until it is started again, another interpreter may have been chosen.
            program.args = parameters;
            return this.#closed(client);
          },
        },
      },
    );
    client.registerFeature(new ExperimentalCapabilities());
    client.onNotification(protocol.status, (status) => this.status.said(status));
    client.onNotification(protocol.changed, ({ uri, final }) => {
      this.#changed.fire({ uri: client.protocol2CodeConverter.asUri(uri), final });
    });
    client.onNotification(ShowMessageNotification.type, ({ type, message }) => {
      void this.#tell(type, message, this.#remedy(type));
    });
    return client;
  }

  #middleware(): Middleware {
    return {
      provideHover: hoverWithLinks,
      window: { showDocument: showBeside },
      handleWorkDoneProgress: (token, value, next) => {
        this.#progress.heard(token, value);
        next(token, value);
      },
      workspace: {
        configuration: (parameters) => {
          const names = declared(this.context.extension, SECTION);
          return Promise.all(
            parameters.items.map(async (item) => {
              const scope = item.scopeUri ? vscode.Uri.parse(item.scopeUri) : undefined;
              const interpreter = await this.interpreters.of(
                scope ?? vscode.workspace.workspaceFolders?.[0]?.uri,
              );
              const set = chosen(names, SECTION, scope);
              const name = interpreter?.set ? "interpreter" : "activeInterpreter";
              return interpreter ? { ...set, [name]: interpreter.path } : set;
            }),
          );
        },
      },
    };
  }

  /** The server asks for the settings again, and starts another engine if they need one. */
  async #interpreterChanged(): Promise<void> {
    this.log.info("Another interpreter is active.");
    const client = this.client;
    if (client) {
      await client.sendNotification(DidChangeConfigurationNotification.type, { settings: null });
    } else {
      await this.restart();
    }
  }

  /** The connection is gone, and nobody asked for that. */
  #closed(client: LanguageClient): CloseHandlerResult {
    this.#progress.clear();
    if (this.#client !== client) {
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    const now = Date.now();
    this.#ends = [...this.#ends.filter((end) => now - end < SPAN), now];
    if (this.#ends.length >= MOST_ENDS) {
      const words = "The server ended several times and is not restarted.";
      this.status.stopped(words);
      void this.#tell(MessageType.Error, words, "Restart Server");
      return { action: CloseAction.DoNotRestart, handled: true };
    }
    this.status.starting();
    if (this.#ends.length === 1) {
      const words = "The server ended unexpectedly and was started again.";
      void this.#tell(MessageType.Warning, words);
    }
    return { action: CloseAction.Restart, handled: true };
  }

  #remedy(type: MessageType): Remedy | undefined {
    switch (this.status.current?.state) {
      case "unusable":
        return "Select Interpreter";
      case "crashed":
        // Below an error it is started again by itself.
        return type === MessageType.Error ? "Restart Engine" : undefined;
      default:
        return undefined;
    }
  }

  /** A message with a button that leads on; whatever else there is to know is in the log. */
  async #tell(type: MessageType, message: string, remedy?: Remedy): Promise<void> {
    const words = message.startsWith("fullgraph") ? message : `fullgraph: ${message}`;
    this.log.info(words);
    const show =
      type === MessageType.Error
        ? vscode.window.showErrorMessage
        : type === MessageType.Warning
          ? vscode.window.showWarningMessage
          : vscode.window.showInformationMessage;
    const buttons: (Remedy | "Show Logs")[] = remedy ? [remedy, "Show Logs"] : ["Show Logs"];
    const chosen = await show(words, ...buttons);
    if (chosen) {
      await vscode.commands.executeCommand(BUTTONS[chosen]);
    }
  }

  dispose(): void {
    vscode.Disposable.from(...this.#disposables).dispose();
  }
}

type Remedy = "Select Interpreter" | "Restart Engine" | "Restart Server";

const BUTTONS: Record<Remedy | "Show Logs", string> = {
  "Select Interpreter": "fullgraph.selectInterpreter",
  "Restart Engine": "fullgraph.restartEngine",
  "Restart Server": "fullgraph.restartServer",
  "Show Logs": "fullgraph.showLogs",
};

/** Tells the server what this client can do that LSP has no word for. */
class ExperimentalCapabilities implements StaticFeature {
  fillClientCapabilities(capabilities: ClientCapabilities): void {
    // The list of Ctrl+. leaves out disabled actions, and with them why there is no fix (yet).
    delete capabilities.textDocument?.codeAction?.disabledSupport;
    // Of several servers VS Code takes the tokens of one: ours must not replace those of Python's.
    // A grammar of this extension colors probe comments.
    delete capabilities.textDocument?.semanticTokens;
    const known: unknown = capabilities.experimental;
    capabilities.experimental = {
      ...(typeof known === "object" ? known : {}),
      commands: COMMANDS,
      changed: true,
      // Those of machines, which VS Code takes from no workspace.
      userSettings: true,
      icons: true,
    };
  }

  initialize(): void {}

  getState(): FeatureState {
    return { kind: "static" };
  }

  clear(): void {}
}
