// What the server says and takes beyond LSP. Positions are those of LSP, in UTF-16 units.

import { NotificationType, RequestType, type Range } from "vscode-languageclient/node";

import type { Trace } from "./trace/content";

export type State =
  | "stopped"
  | "untrusted"
  | "starting"
  | "ready"
  | "tracing"
  | "unusable"
  | "crashed";

export interface Status {
  readonly state: State;
  readonly message: string;
  readonly nextStep: string;
  readonly torch: string;
  readonly python: string;
  readonly interpreter: string;
  /** Why this interpreter is used, and why others are not. */
  readonly why: string;
  /** How far the sandbox holds, in a short line; empty until that is known. */
  readonly sandbox: string;
  readonly busy: boolean;
}

/** The engine or what it works on is in another state. */
export const status = new NotificationType<Status>("fullgraph/status");

/** What is known of a text is not what it was. `final`: the run that found it has ended. */
export const changed = new NotificationType<{ readonly uri: string; readonly final: boolean }>(
  "fullgraph/changed",
);

/** The user came back to the window: what kept an engine from starting may have been put right. */
export const focused = new NotificationType<Record<string, never>>("fullgraph/focused");

/** What of a file is asked for: the target that is named, or that is at a line or above it. */
export interface About {
  readonly target?: string;
  readonly line?: number;
  /** Which of its runs, one for each probe, from 0. */
  readonly run?: number;
  /** The run with the probe of this number. */
  readonly probe?: number;
}

/** What a run did. */
export const trace = new RequestType<
  About & { readonly uri: string },
  Trace | null,
  void
>("fullgraph/trace");

/** A function or module that was not traced, with the zero-based line of its name. */
export interface NotTraced {
  readonly name: string;
  readonly line: number;
  /** The reason, as the end of a sentence. */
  readonly why: string;
}

/** What was traced in a file and what was not. `lines` are sentences for the user. */
export interface FileSummary {
  readonly uri: string;
  readonly version: number;
  /** Errors and warnings, which the explorer counts as well. */
  readonly problems: number;
  readonly notes: number;
  readonly traced: number;
  readonly targets: number;
  readonly tracing: boolean;
  /** False where there is no code for torch. */
  readonly relevant: boolean;
  readonly title: string;
  /** Empty where nothing was traced: then the absence of findings means nothing. */
  readonly findings: string;
  readonly lines: readonly string[];
  /** Lines of traced functions that no trace reached, from 0. */
  readonly missedLines: readonly number[];
  readonly notTraced: readonly NotTraced[];
}

/** What was traced in a file. */
export const file = new RequestType<{ readonly uri: string }, FileSummary | null, void>(
  "fullgraph/file",
);

/** Commands of the server; the language client registers them under the same names. */
export const server = {
  analyze: "fullgraph.server.analyze",
  cancel: "fullgraph.server.cancel",
  restartEngine: "fullgraph.server.restartEngine",
  debugInformation: "fullgraph.server.debugInformation",
  showGraph: "fullgraph.server.showGraph",
  showGuards: "fullgraph.server.showGuards",
  showEvents: "fullgraph.server.showEvents",
  showBytecode: "fullgraph.server.showBytecode",
  showTimings: "fullgraph.server.showTimings",
  measure: "fullgraph.server.measure",
  applyMeasured: "fullgraph.server.applyMeasured",
  toggleGuards: "fullgraph.server.toggleGuards",
  toggleUntraced: "fullgraph.server.toggleUntraced",
  repro: "fullgraph.server.repro",
  reproIssue: "fullgraph.server.reproIssue",
  allow: "fullgraph.server.allow",
  explainFixes: "fullgraph.server.explainFixes",
} as const;

/** Where a code lens or an action of the server points to. */
export interface Place {
  readonly uri: string;
  readonly target?: string;
  /** The number of one of its probes. */
  readonly probe?: number;
}

/** Findings that the server made, as the hover and the trace view show them. */
export interface FindingData {
  readonly rendered?: string;
  readonly targets?: readonly string[];
}

export type { Range };
