// Runs in the frame before the trace view, and stands in for VS Code: forwards the messages of the
// view to the page, and applies the colors of the site.

import type { FromPage, ToPage } from "../../vscode-client/src/trace/content";

import type { Colors, Height } from "./messages";

function send(message: FromPage | Height): void {
  window.parent.postMessage(message, "*");
}

Object.assign(window, { acquireVsCodeApi: () => ({ postMessage: send }) });

window.addEventListener("message", ({ data }: MessageEvent<ToPage | Colors>) => {
  if (data.type === "colors") {
    const { style, classList } = document.documentElement;
    classList.toggle("dark", data.dark);
    for (const [name, color] of Object.entries(data.variables)) {
      style.setProperty(name, color);
    }
  } else if (data.type === "cursor") {
    // The view marks the line when this message arrives there too.
    requestAnimationFrame(() => document.querySelector(".here")?.scrollIntoView({ block: "nearest" }));
  }
});

new ResizeObserver(() => {
  send({ type: "height", height: Math.ceil(document.body.getBoundingClientRect().height) });
}).observe(document.body);
