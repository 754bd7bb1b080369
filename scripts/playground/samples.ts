// The recordings of the sample programs, as `scripts/record_samples.py` writes them.

import type { Fix, Trace } from "../../vscode-client/src/trace/content";

/** The syntax tokens of a line: a CSS class and the text. */
export type Tokens = readonly (readonly [kind: string, text: string])[];

export interface Document {
  readonly target: string;
  readonly kind: "graph" | "guards";
  readonly lines: readonly Tokens[];
}

export interface Recording {
  readonly lines: readonly Tokens[];
  readonly traces: readonly Trace[];
  readonly documents: readonly Document[];
}

export interface DiffLine {
  readonly change: " " | "-" | "+";
  readonly tokens: Tokens;
}

export interface AppliedFix {
  readonly fix: Fix;
  readonly diff: readonly DiffLine[];
  readonly after: Recording;
}

export interface Sample {
  readonly name: string;
  readonly title: string;
  readonly before: Recording;
  readonly fixes: readonly AppliedFix[];
}

declare global {
  const fullgraphSamples: readonly Sample[];
}
