"""Findings as an editor shows them, from the text to the squiggle."""

from __future__ import annotations

from typing import Any

import pytest
from lsprotocol import types

NET = """\
import torch.nn as nn
class Net(nn.Module):
    def forward(self, x):
        print(x)  # break: Call to print
        return x
"""
BREAK = ("Call to print", "print(x)")

TWO = """\
class A(nn.Module):
    first()  # break: in A
class B(nn.Module):
    second()  # break: in B
"""


async def test_a_break_is_underlined_where_it_is(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    (diagnostic,) = await editor.diagnostics(uri)
    assert diagnostic.code == "graph-break/GB0059"
    assert diagnostic.severity == types.DiagnosticSeverity.Warning
    assert diagnostic.source == "fullgraph"
    assert "Hint: Do not do this." in diagnostic.message


async def test_a_diagnostic_brings_the_whole_story(editor: Any) -> None:
    text = (
        "class Net(nn.Module):\n"
        "    call()  # break: A break\n"
        "    other  # related: Called from here\n"
        "    # unnecessary\n"
    )
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, ("A break", "call()"))
    (diagnostic,) = await editor.diagnostics(uri)
    assert "graph-break/GB0059" in diagnostic.data["rendered"]
    assert "^^^^^^" in diagnostic.data["rendered"]
    assert diagnostic.data["targets"] == ["Net"]
    assert list(diagnostic.tags) == [types.DiagnosticTag.Unnecessary]
    (related,) = diagnostic.related_information
    assert related.message == "Called from here"
    assert related.location.uri == uri and related.location.range.start.line == 2
    described = diagnostic.code_description is not None
    assert diagnostic.data["href"].startswith("https://")
    # Neovim does not say that it can show a link.
    assert described == (editor.profile == "vscode")


PRINTS = """\
class Net(nn.Module):
    first()  # break: A break
    # cause: print
    second()  # break: A break
    # cause: print
    third()  # break: A break
    # cause: other
    fourth()  # break: A break
    # cause: print
    # cause: other
"""


async def test_breaks_of_one_cause_are_one_problem(editor: Any) -> None:
    uri = editor.open("model.py", PRINTS)
    await editor.until_state("ready")
    await editor.until_seen(
        uri,
        ("A break", "first()"),
        ("Same cause as line 2: A break", "second()"),
        ("A break", "third()"),
        ("Same cause as line 2: A break", "fourth()"),
    )
    first, second, third, fourth = await editor.diagnostics(uri)
    assert "\nThe same cause breaks graphs on lines 4 and 8.\n" in first.message
    mild, warning = types.DiagnosticSeverity.Information, types.DiagnosticSeverity.Warning
    severities = [one.severity for one in (first, second, third, fourth)]
    assert severities == [warning, mild, warning, mild]
    places = [related.location.range for related in first.related_information]
    assert places == [second.range, fourth.range]
    (back,) = second.related_information
    assert (back.location.uri, back.location.range) == (uri, first.range)
    assert third.related_information is None


async def test_where_the_first_of_a_cause_is_ignored_the_next_is_the_first(editor: Any) -> None:
    text = PRINTS.replace("# break: A break", "# fullgraph: ignore  # break: A break", 1)
    uri = editor.open("model.py", text)
    await editor.until_state("ready")
    second, third, fourth = await editor.diagnostics(uri)
    mild, warning = types.DiagnosticSeverity.Information, types.DiagnosticSeverity.Warning
    assert [one.severity for one in (second, third, fourth)] == [warning, warning, mild]
    assert fourth.message == "Same cause as line 4: A break"


async def test_pushed_or_pulled_but_never_both(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    if editor.profile == "vscode":
        assert editor.pulls and editor.published == []
        assert editor.client.diagnostic_refresh_count > 0
    else:
        # Neovim 0.11 can pull, but cannot be told that there is something new.
        assert not editor.pulls and editor.published
        report = await editor.client.text_document_diagnostic_async(
            types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri))
        )
        assert not report.items


@pytest.mark.parametrize("profile_name", ["vscode"])
async def test_a_pull_without_news_says_so(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    result, _ = editor.results[uri]
    # Another version of the text, with the same findings at the same places.
    editor.edit(uri, "return x\n", "return x\n\n")
    await editor.until_state("ready")
    report = await editor.client.text_document_diagnostic_async(
        types.DocumentDiagnosticParams(types.TextDocumentIdentifier(uri), previous_result_id=result)
    )
    assert (report.kind, report.result_id) == ("unchanged", result)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_columns_are_counted_as_agreed(open_editor: Any, encoding: str) -> None:
    editor = await open_editor(encoding=encoding)
    assert editor.encoding == encoding
    text = 'class Net(nn.Module):\n    s = "é😀"; print(s, "ü😀")  # break: A break\n'
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, ("A break", 's = "é😀"; print(s, "ü😀")'))
    # Edits behind such characters must hit the same place here as there.
    editor.edit(uri, "print(s, ", '"😀" and print(s, ')
    editor.edit(uri, '"ü😀")', '"ü😀", ö)')
    await editor.until_seen(uri, ("A break", 's = "é😀"; "😀" and print(s, "ü😀", ö)'))


async def test_client_order_decides_the_encoding(editor: Any) -> None:
    assert editor.encoding == {"neovim": "utf-8", "vscode": "utf-16"}[editor.profile]


async def test_lines_end_where_python_ends_them(editor: Any) -> None:
    text = "x = 1\n\x0c\ny = '\u2028'\r\nclass Net(nn.Module):\r\n    call()  # break: A break\n"
    uri = editor.open("model.py", text)
    await editor.until_seen(uri, ("A break", "call()"))
    editor.edit(uri, "call()", "call(1)")
    await editor.until_seen(uri, ("A break", "call(1)"))


async def test_old_findings_move_with_the_text(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    # The text does not parse, so nothing new can come: what is shown was moved.
    editor.edit(uri, "import torch.nn as nn\n", "import torch.nn as nn\n\n\ndef f(\n")
    await editor.until_rest()
    assert await editor.seen(uri) == [BREAK]
    assert (await editor.diagnostics(uri))[0].range.start.line == 6
    assert counter.analyzed == 1


async def test_a_finding_that_is_edited_is_gone_until_it_is_found_again(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "print(x)", "print(x")
    await editor.until_seen(uri)
    editor.edit(uri, "print(x", "print(x)")
    await editor.until_seen(uri, BREAK)


async def test_findings_of_each_target_stay_until_that_target_is_traced(editor: Any) -> None:
    uri = editor.open("model.py", TWO.replace("    second", "    # here\n    second"))
    await editor.until_seen(uri, ("in A", "first()"), ("in B", "second()"))
    editor.edit(uri, "first()  # break: in A", "pass")
    editor.edit(uri, "# here", "pass  # slow: 60")
    # A was traced and has no break any more. B is still on its way.
    await editor.until_tracing(uri, False, True)
    await editor.until_seen(uri, ("in B", "second()"))
    editor.edit(uri, "pass  # slow: 60", "")
    await editor.until_seen(uri, ("in B", "second()"))


async def test_findings_come_as_they_are_found(editor: Any) -> None:
    uri = editor.open("model.py", TWO.replace("class B", "# slow: 60\nclass B"))
    await editor.until_seen(uri, ("in A", "first()"))
    assert editor.statuses[-1]["state"] == "tracing"
    await editor.command("fullgraph.server.cancel", uri)
    await editor.until_state("ready")
    # What was found until then stays.
    assert await editor.seen(uri) == [("in A", "first()")]


async def test_an_edit_ends_the_run_of_the_text_before(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TWO.replace("class B", "# slow: 60\nclass B"))
    await editor.until_seen(uri, ("in A", "first()"))
    editor.edit(uri, "# slow: 60\n", "size = 1\n")
    await editor.until_seen(uri, ("in A", "first()"), ("in B", "second()"))
    assert counter.words == ["start", "analyze", "cancel", "analyze"]


async def test_many_edits_make_one_run(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    for letter in "abcdefghij":
        editor.edit(uri, "return x", f"return x{letter}")
        editor.edit(uri, f"return x{letter}", "return x")
        editor.edit(uri, "return x", f"return x.{letter}()")
    await editor.until(lambda: counter.analyzed == 2)
    await editor.until_state("ready")
    assert await editor.seen(uri) == [BREAK]
    assert counter.analyzed == 2
    assert counter.lines[-1].split()[1].startswith("31:")


async def test_taking_an_edit_back_needs_no_run(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    editor.edit(uri, "print(x)", "prin(x)")
    editor.edit(uri, "prin(x)", "print(x)")
    await editor.until_seen(uri, BREAK)
    editor.save(uri)
    await editor.until_rest()
    assert counter.analyzed == 1


async def test_a_text_that_does_not_parse_is_not_traced_and_keeps_its_findings(
    editor: Any, counter: Any
) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "return x", "return (x")
    await editor.until_rest()
    assert await editor.seen(uri) == [BREAK]
    assert counter.analyzed == 1
    editor.edit(uri, "return (x", "return (x + 1)")
    await editor.until(lambda: counter.analyzed == 2)
    await editor.until_seen(uri, BREAK)


async def test_an_engine_of_a_newer_python_decides_what_parses(
    open_editor: Any, counter: Any
) -> None:
    editor = await open_editor(engine="python=9.9.0")
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "class Net", "def broken(\nclass Net")
    await editor.until_seen(uri, ("invalid syntax", "def"), BREAK)
    assert counter.analyzed == 2


async def test_a_broken_text_is_told_when_it_is_saved(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.edit(uri, "class Net", "def broken(\nclass Net")
    editor.save(uri)
    await editor.until_seen(uri, ("invalid syntax", "def"), BREAK)
    editor.edit(uri, "def broken(\n", "")
    await editor.until_seen(uri, BREAK)
    # It is underlined; that is enough.
    assert editor.client.messages == []


async def test_a_client_that_sends_whole_texts(editor: Any) -> None:
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    editor.replace(uri, NET.replace("class Net", "# é\nclass Net(\nclass Net"))
    await editor.until_rest()
    assert await editor.seen(uri) == [BREAK]
    assert (await editor.diagnostics(uri))[0].range.start.line == 5


async def test_findings_of_a_closed_file_are_gone(editor: Any, counter: Any) -> None:
    uri = editor.open("model.py", TWO.replace("class B", "# slow: 60\nclass B"))
    await editor.until_seen(uri, ("in A", "first()"))
    editor.close(uri)
    await editor.until(lambda: "cancel" in counter.words)
    await editor.until_seen(uri)
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)


async def test_a_file_that_is_nowhere_on_disk(editor: Any) -> None:
    uri = editor.open("untitled:Untitled-1", NET)
    await editor.until_seen(uri, BREAK)


async def test_only_python_is_traced(editor: Any, counter: Any) -> None:
    other = editor.open("notes.md", NET, language="markdown")
    cell = editor.open("vscode-notebook-cell:/a.ipynb#W0", NET)
    installed = editor.open("lib/site-packages/model.py", NET)
    uri = editor.open("model.py", NET)
    await editor.until_seen(uri, BREAK)
    await editor.until_state("ready")
    assert counter.analyzed == 1
    for ignored in (other, cell, installed):
        assert await editor.seen(ignored) == []


async def test_a_text_without_targets_starts_no_engine(editor: Any, counter: Any) -> None:
    plain = editor.open("plain.py", "import json\n\n\ndef f(x):\n    return json.dumps(x)\n")
    answer = await editor.command("fullgraph.server.analyze", plain)
    assert answer["completed"] and answer["findings"] == 0
    assert counter.lines == [] and editor.statuses == []
    editor.replace(plain, NET)
    await editor.until_seen(plain, BREAK)
    editor.replace(plain, "x = 1\n")
    await editor.until_seen(plain)


async def test_saving_a_module_traces_those_that_import_it_again(editor: Any, counter: Any) -> None:
    layers = editor.open("layers.py", "x = 1\n")
    uri = editor.open("model.py", "from layers import x\n" + NET)
    other = editor.open("other.py", NET)
    for one in (uri, other):
        await editor.until_seen(one, BREAK)
    await editor.until_state("ready")
    before = counter.analyzed
    editor.save(layers)
    await editor.until(lambda: counter.analyzed == before + 1)
    await editor.until_state("ready")
    assert counter.analyzed == before + 1
