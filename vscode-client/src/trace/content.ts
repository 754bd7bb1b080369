// What `fullgraph/trace` answers, and what the page of the trace view and the extension say to
// each other. Shared by both, so it imports nothing.

export interface Position {
  readonly line: number;
  readonly character: number;
}

export interface Range {
  readonly start: Position;
  readonly end: Position;
}

export interface Edit {
  readonly range: Range;
  readonly newText: string;
}

export interface Fix {
  readonly title: string;
  /** What a verified fix was shown to do; empty for others. */
  readonly detail: string;
  readonly edits: readonly Edit[];
}

/** A line of the file, how many operators of a graph come from it, and what became of it there. */
export interface Line {
  readonly line: number;
  readonly ops: number;
  readonly text: string;
  readonly shapes: readonly string[];
}

/** A graph that was captured. `elsewhere`: operators that come from no line of the file. */
export interface Graph {
  readonly kind: "graph";
  readonly number: number;
  readonly function: string;
  readonly ops: number;
  readonly elsewhere: number;
  readonly seconds: number;
  readonly lines: readonly Line[];
}

/** Where a graph ended. */
export interface Break {
  readonly kind: "break";
  /** Identifier of its finding. */
  readonly id: string;
  readonly function: string;
  readonly code: string;
  readonly title: string;
  readonly cost: string;
  readonly outcome: string;
  /** Only the call that led to it is here: it is told once more where it is. */
  readonly through: boolean;
  /** Dynamo's own text, with its line breaks. */
  readonly explanation: string;
  readonly hints: readonly string[];
  readonly href: string;
  readonly range: Range;
  readonly text: string;
  readonly fixes: readonly Fix[];
  readonly reproducible: boolean;
}

export type Step = Graph | Break;

export interface Guard {
  readonly subject: string;
  readonly conditions: readonly string[];
  readonly line: number | null;
}

export interface GuardGroup {
  readonly name: string;
  readonly count: number;
  readonly guards: readonly Guard[];
}

/** A finding that is no break. */
export interface Remark {
  readonly code: string;
  readonly severity: "error" | "warning" | "information" | "hint";
  readonly message: string;
  readonly range: Range;
  readonly href: string;
  readonly fixes: readonly Fix[];
}

/** How the run with one probe ended. */
export interface Run {
  /** That of the probe, from 0. */
  readonly number: number;
  readonly status: string;
  readonly error: string;
  readonly mode: string;
  /** In words; it begins with `inputs`, which is probe notation. */
  readonly probe: string;
  readonly inputs: string;
  /** Null where the torch in use does not show what is counted. */
  readonly graphs: number | null;
  readonly ops: number | null;
  readonly breaks: number | null;
  readonly guards: number | null;
  readonly recompiles: number | null;
  readonly seconds: number;
}

/**
 * What is known of a target, and of one of its runs. `status` is "tracing" while the first goes on;
 * before that has found the targets, `target` is empty.
 */
export interface Trace extends Run {
  readonly uri: string;
  readonly file: string;
  readonly target: string;
  readonly targets: readonly string[];
  readonly range: Range;
  readonly current: boolean;
  readonly busy: boolean;
  /** Which of the runs this is, from 0. */
  readonly run: number;
  /** It is the run with the probe that was asked for, by its number or its comment. */
  readonly atProbe: boolean;
  readonly runs: readonly Run[];
  readonly steps: readonly Step[];
  readonly guardGroups: readonly GuardGroup[];
  readonly remarks: readonly Remark[];
}

/** From the extension to the page. */
export type ToPage =
  | { readonly type: "trace"; readonly trace: Trace }
  | { readonly type: "nothing"; readonly words: string }
  | { readonly type: "cursor"; readonly line: number };

/** From the page to the extension. */
export type FromPage =
  | { readonly type: "ready" }
  | { readonly type: "reveal"; readonly uri: string; readonly range: Range; readonly focus: boolean }
  | { readonly type: "fix"; readonly uri: string; readonly fix: Fix }
  | { readonly type: "repro"; readonly uri: string; readonly id: string; readonly range: Range }
  | { readonly type: "target"; readonly target: string }
  | { readonly type: "run"; readonly run: number }
  | { readonly type: "document"; readonly kind: "graph" | "guards" }
  | { readonly type: "measure" }
  | { readonly type: "analyze" };
