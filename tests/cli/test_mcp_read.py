"""`ferrule mcp resources` and `ferrule mcp prompts`, on a server that says what it wants."""

from __future__ import annotations

import base64
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import Ran, run
from sources.mcp_servers import PLAIN, tool

PNG = b"\x89PNG\r\n and more"
IMAGE = {"uri": "wiki://a.png", "mimeType": "image/png", "blob": base64.b64encode(PNG).decode()}
HOSTILE = "\x1b[2Jnot \u202ehere\na new line\tand a tab"


def ferrule(folder: Path, results: dict[str, Any], *words: str, on_terminal: bool = False) -> Ran:
    path = folder / "mcp.json"
    # The entry keeps all of it from models, and has a tool of its own in the way.
    arguments = [str(PLAIN), json.dumps([[tool("read_resource")]]), json.dumps(results)]
    entry = {"command": sys.executable, "args": arguments, "deny": ["*"], "resources": {"allow": []}}
    path.write_text(json.dumps({"mcpServers": {"s": entry}}), encoding="utf-8")
    return run("mcp", *words, "--wait", "300", "--config", str(path), on_terminal=on_terminal)


def contents(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"resources/read": {"contents": list(parts)}}


def test_lists_have_all_pages_and_every_character_of_a_name_is_visible(tmp_path: Path) -> None:
    listed = [
        {"resources": [{"uri": "wiki://a", "name": HOSTILE, "mimeType": "text/plain"}], "nextCursor": "1"},
        {"resources": [{"uri": f"wiki://{HOSTILE}", "name": "b"}]},
    ]
    templates = {"resourceTemplates": [{"uriTemplate": "wiki://{name}", "name": "page"}]}
    ran = ferrule(tmp_path, {"resources/list": listed, "resources/templates/list": templates}, "resources", "s")
    words = "\\x1b[2Jnot \\u202ehere a new line and a tab"
    assert ran.out.splitlines() == [
        f"wiki://a\t{words}\ttext/plain",
        f"wiki://{words}\tb\t",
        "wiki://{name}\tpage\ttemplate",
    ]
    named = {"name": HOSTILE, "description": HOSTILE, "arguments": [{"name": "a\x1b", "required": True}, {"name": "b"}]}
    ran = ferrule(tmp_path, {"prompts/list": {"prompts": [named]}}, "prompts", "s")
    assert ran.out == f"{words}\ta\\x1b, b?\t{words}\n"


def test_a_terminal_does_not_obey_a_resource_and_a_program_gets_its_text(tmp_path: Path) -> None:
    results = contents({"uri": "wiki://a", "text": HOSTILE})
    assert ferrule(tmp_path, results, "resources", "s", "wiki://a").out == f"{HOSTILE}\n"
    shown = ferrule(tmp_path, results, "resources", "s", "wiki://a", on_terminal=True).out
    assert shown == "\\x1b[2Jnot \\u202ehere\na new line\tand a tab\n"


def test_an_image_is_named_and_written_to_a_file_byte_for_byte(tmp_path: Path) -> None:
    assert ferrule(tmp_path, contents(IMAGE), "resources", "s", "wiki://a.png").out.startswith(
        "[image: wiki://a.png, image/png, "
    )
    file = tmp_path / "a.png"
    ran = ferrule(tmp_path, contents(IMAGE), "resources", "s", "wiki://a.png", "--output", str(file))
    assert (ran.code, ran.out, file.read_bytes()) == (0, "", PNG)
    text = contents({"uri": "wiki://a", "text": "a\r\nb"})
    ferrule(tmp_path, text, "resources", "s", "wiki://a", "--output", str(file))
    assert file.read_bytes() == b"a\r\nb"


@pytest.mark.parametrize(
    "output, parts, words",
    [
        ("a.png", (IMAGE, IMAGE), "the resource has 2 parts"),
        ("a.png", (IMAGE, {"uri": "wiki://a", "text": "and words"}), "the resource has 2 parts"),
        ("a.png", (), "the resource has 0 parts"),
        ("a.png", ({**IMAGE, "blob": "%%%"},), "damaged"),
        ("no/such/folder/a.png", (IMAGE,), "cannot be written"),
    ],
)
def test_a_file_that_would_not_be_the_resource_is_not_written(
    tmp_path: Path, output: str, parts: tuple[dict[str, Any], ...], words: str
) -> None:
    file = tmp_path / output
    ran = ferrule(tmp_path, contents(*parts), "resources", "s", "wiki://a", "--output", str(file))
    assert ran.code == 1
    assert words in ran.err
    assert "hint:" in ran.err
    assert not file.exists()


def test_a_prompt_is_written_with_who_says_what(tmp_path: Path) -> None:
    message = {"role": "user", "content": {"type": "text", "text": "How is Oslo?"}}
    results = {"prompts/get": {"messages": [message]}}
    assert ferrule(tmp_path, results, "prompts", "s", "ask", '{"city": "Oslo"}').out == "user:\nHow is Oslo?\n"


@pytest.mark.parametrize(
    "results, words, error",
    [
        ({}, ["resources", "s"], "s has no resources"),
        ({"resources/list": {}}, ["prompts", "s"], "s has no prompts"),
        ({}, ["resources", "t"], "has no server 't'"),
        ({"resources/list": {}}, ["resources", "s", "wiki://a"], "method not found"),
        ({"resources/list": {}}, ["resources", "s", "--output", "x"], "--output is for one resource"),
        ({"prompts/list": {}}, ["prompts", "s", "ask", "Oslo"], "not JSON"),
        ({"prompts/list": {}}, ["prompts", "s", "ask", '{"city": 1}'], "do not fit"),
        ({"prompts/list": {}}, ["prompts", "s", "ask", '["Oslo"]'], "do not fit"),
        ({"resources/list": [{"resources": [], "nextCursor": "0"}]}, ["resources", "s"], "more than 200 pages"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_a_hint(
    tmp_path: Path, results: dict[str, Any], words: list[str], error: str
) -> None:
    ran = ferrule(tmp_path, results, *words)
    assert (ran.code, ran.out) == (1, "")
    assert error in ran.err
    assert "hint:" in ran.err


def test_a_server_that_does_not_start_exits_with_5(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"s": {"command": "no-such-program-anywhere"}}}), encoding="utf-8")
    ran = run("mcp", "resources", "s", "--wait", "300", "--config", str(path))
    assert ran.code == 5
    assert "there is no program 'no-such-program-anywhere' in the PATH" in ran.err
