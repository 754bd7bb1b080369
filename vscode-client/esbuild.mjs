// Bundles the extension, and the page of the trace view, into dist/.
import { build } from "esbuild";

const shared = { bundle: true, minify: true, logLevel: "warning", legalComments: "none" };

await build({
  ...shared,
  entryPoints: ["src/extension.ts"],
  outfile: "dist/extension.js",
  platform: "node",
  format: "cjs",
  target: "node20",
  external: ["vscode"],
  // The package offers ES modules first, which reach for Node's modules in a way of their own.
  mainFields: ["main", "module"],
});
await build({
  ...shared,
  entryPoints: ["src/trace/page/page.ts"],
  outfile: "dist/trace.js",
  platform: "browser",
  format: "iife",
  target: "chrome120",
});
