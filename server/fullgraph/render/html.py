"""Format the results of a check as one HTML page that works offline, with filters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from html import escape

from fullgraph.domain.findings import FileFinding
from fullgraph.domain.phrases import amount
from fullgraph.domain.wording import finding_lines, message_lines
from fullgraph.render.breaks import cause_words, cost_clause
from fullgraph.render.checked import CheckedFile, CheckResults
from fullgraph.render.stack import is_library
from fullgraph.render.summary import target_line
from fullgraph.render.terminal import extent_words, severity_words, untraced_words
from fullgraph_engine.protocol import BreakCause, TargetReport

_MOST_SEGMENTS = 40
"""Maximum number of segments in the bar that shows the graphs of a function; each segment is a
graph.
"""
_MOST_CAUSES = 10
"""Maximum number of rows in the table of the most frequent causes."""

_STYLE = """
:root { color-scheme: light dark; --line: light-dark(#d8d8de, #3c3c44);
  --dim: light-dark(#5c5c66, #a0a0aa); --error: light-dark(#b3261e, #ff8a80);
  --warning: light-dark(#8a5a00, #ffc453); --graph: light-dark(#2e8b63, #46a77b); }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.6rem } h2 { font-size: 1.1rem; margin-top: 2rem; font-family: monospace }
code, pre { font: 13px/1.45 ui-monospace, monospace } .dim { color: var(--dim) }
table { border-collapse: collapse } td, th { text-align: left; padding: .2rem 1rem .2rem 0 }
form { display: flex; gap: 1rem; flex-wrap: wrap; padding: .8rem 0; border: solid var(--line);
  border-width: 1px 0; position: sticky; top: 0; background: Canvas }
details { border-bottom: 1px solid var(--line); padding: .4rem 0 }
summary { cursor: pointer } .error { color: var(--error) } .warning { color: var(--warning) }
.strip { display: flex; gap: 4px; max-width: 30rem; margin: .2rem 0 }
.strip i { height: 8px; flex: 1; background: var(--graph); border-radius: 2px }
pre { overflow-x: auto; padding: .5rem; border: 1px solid var(--line) } [hidden] { display: none }
"""

_SCRIPT = """
const form = document.querySelector("form");
function show() {
  const chosen = new FormData(form), words = chosen.get("words").toLowerCase();
  let count = 0;
  for (const one of document.querySelectorAll("details")) {
    const fits = ["severity", "family", "origin", "cost"].every(
      (name) => !chosen.get(name) || one.dataset[name] === chosen.get(name));
    one.hidden = !fits || !one.textContent.toLowerCase().includes(words);
    count += !one.hidden;
  }
  for (const file of document.querySelectorAll("section"))
    file.hidden = (words || [...chosen.values()].some(Boolean))
      && !file.querySelector("details:not([hidden])");
  document.querySelector("output").textContent = `${count} shown`;
}
form.addEventListener("input", show);
form.addEventListener("submit", (event) => event.preventDefault());
show();
"""


def check_html(checked: CheckResults) -> str:
    """Format the results of a check as an HTML page without references to other files.

    The page has a summary, the most frequent causes of graph breaks, filters by severity, family of
    codes, library and cost, and for each file its functions and classes with their graphs, and its
    findings.
    """
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>fullgraph report</title><style>{_STYLE}</style></head><body>",
        *_summary_parts(checked),
        *_cause_parts(checked),
        *_filter_parts(checked),
    ]
    for file in checked.files:
        if file.targets or file.findings or file.problem:
            parts += _file_parts(file)
    parts.append(f"<script>{_SCRIPT}</script></body></html>")
    return "\n".join(parts)


def _summary_parts(checked: CheckResults) -> Iterator[str]:
    yield "<h1>What torch.compile does to this code</h1>"
    found = ", ".join(severity_words(checked)) or "No findings"
    incomplete = " in the code that could be checked" if checked.incomplete else ""
    yield f"<p><strong>{escape(found)}</strong>{incomplete}; "
    yield f"{escape(', '.join(extent_words(checked)))}.</p>"
    for sentence in untraced_words(checked):
        yield f"<p>{escape(sentence)}</p>"
    for problem in checked.problems:
        yield f'<p class="error">{escape(problem)}</p>'


def _cause_parts(checked: CheckResults) -> Iterator[str]:
    """Yield a table of the causes with the most graph breaks."""
    counts: Counter[str] = Counter()
    causes: dict[str, tuple[BreakCause, CheckedFile, FileFinding]] = {}
    for file, item in [(one, item) for one in checked.files for item in one.findings]:
        for cause in item.finding.causes:
            counts[cause.identity] += 1
            causes.setdefault(cause.identity, (cause, file, item))
    if not counts:
        return
    yield "<h2>Most frequent causes of graph breaks</h2><table>"
    yield "<tr><th>breaks</th><th>cause</th><th>first found</th></tr>"
    for identity, count in counts.most_common(_MOST_CAUSES):
        cause, file, item = causes[identity]
        line = item.finding.range.start.line
        place = f"{file.path}:{line + 1}"
        words = _prose(place if cause.kind == "place" else cause_words(cause, line))
        message = _prose(message_lines(item.finding)[0])
        yield f"<tr><td>{count}</td><td>{words}</td><td>{message}</td></tr>"
    yield "</table>"


def _filter_parts(checked: CheckResults) -> Iterator[str]:
    items = list(checked.findings())
    yield '<form><input name="words" type="search" placeholder="Filter" aria-label="Filter">'
    yield _select("severity", (item.severity.value for item in items))
    yield _select("family", map(_family, items))
    yield _select("origin", map(_origin, items))
    yield _select("cost", map(_cost, items))
    yield "<output></output></form>"


def _select(name: str, values: Iterable[str]) -> str:
    choices = "".join(f"<option>{escape(value)}</option>" for value in sorted(set(values)))
    return (
        f'<select name="{name}" aria-label="{name}"><option value="">any {name}</option>'
        f"{choices}</select>"
    )


def _file_parts(file: CheckedFile) -> Iterator[str]:
    yield f"<section><h2>{escape(file.path)}</h2>"
    if file.problem:
        yield f'<p class="error">{escape(file.problem)}</p>'
    for report in file.targets:
        yield f'<div><strong>{escape(report.name)}</strong> <span class="dim">'
        yield f"{escape(target_line(report))}</span>{_strip(report)}</div>"
    for item in file.findings:
        yield from _finding_parts(file, item)
    yield "</section>"


def _strip(report: TargetReport) -> str:
    """Return a bar with a segment for each graph; empty if the target was not traced."""
    if report.status != "traced" or not report.graphs:
        return ""
    shown = min(report.graphs, _MOST_SEGMENTS)
    more = f", of which {shown} are shown" if shown < report.graphs else ""
    title = f"{amount(report.graphs, 'graph')}{more}"
    return f'<div class="strip" title="{escape(title)}">{"<i></i>" * shown}</div>'


def _finding_parts(file: CheckedFile, item: FileFinding) -> Iterator[str]:
    finding = item.finding
    first, *more = finding_lines(finding)
    line = finding.range.start.line
    data = {
        "severity": item.severity.value,
        "family": _family(item),
        "origin": _origin(item),
        "cost": _cost(item),
    }
    attributes = " ".join(f'data-{name}="{escape(value)}"' for name, value in data.items())
    yield f'<details {attributes}><summary><span class="{item.severity.value}">'
    yield f"{item.severity.value}</span> line {line + 1} "
    yield f"<code>{escape(finding.target)}</code>: {_prose(first)}</summary>"
    source = "\n".join(
        f"{number + 1:>5}  {file.text.line(number)}"
        for number in range(line - 1, line + 2)
        if 0 <= number < len(file.text)
    )
    yield f"<pre>{escape(source)}</pre>"
    for words in more:
        yield f"<p>{_prose(words)}</p>"
    if finding.cost is not None:
        yield f"<p>Cost: {_prose(cost_clause(finding.cost))}</p>"
    if finding.hints:
        hints = "".join(f"<li>{_prose(hint)}</li>" for hint in finding.hints)
        yield f"<ul>{hints}</ul>"
    name = escape(finding.code)
    link = f'<a href="{escape(item.href)}">{name}</a>' if item.href else name
    yield f'<p class="dim">{link}</p></details>'


def _prose(text: str) -> str:
    """Convert text with code in backticks to HTML."""
    return re.sub(r"`([^`\n]+)`", r"<code>\1</code>", escape(text))


def _family(item: FileFinding) -> str:
    return item.finding.code.partition("/")[0]


def _origin(item: FileFinding) -> str:
    """Return "library" if the innermost frame of a finding is in library code, else "own code"."""
    stack = item.finding.stack
    return "library" if stack and is_library(stack[-1].path) else "own code"


def _cost(item: FileFinding) -> str:
    cost = item.finding.cost
    if cost is None:
        return "unknown"
    return "worth fixing" if cost.worth_fixing else "cheap"
