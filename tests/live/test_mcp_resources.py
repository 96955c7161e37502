"""Resources and prompts of npm's server-everything: by the command line as its users run it, and as tools."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.outcome import Answered
from ferrule.sources.mcp.config import StdioTransport, read_config
from ferrule.sources.mcp.options import ResourceAccess
from live.mcp_world import (
    answer,
    call_tool,
    everything,
    everything_on_http,
    free_port,
    open_servers,
    own,
    own_on_http,
    web,
)
from waiting import PATIENCE

pytestmark = pytest.mark.live
_DOCUMENT = "demo://resource/static/document/architecture.md"


def mcp_json(folder: Path, **more: Any) -> Path:
    transport = everything().transport
    assert isinstance(transport, StdioTransport)
    entry = {"command": transport.command, "args": list(transport.args), **more}
    path = folder / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"every": entry}}), encoding="utf-8")
    return path


@pytest.fixture
def ferrule(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    config = mcp_json(tmp_path)

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        program = Path(sys.executable).with_name("ferrule")
        options = ("--wait", str(PATIENCE), "--config", str(config))
        return subprocess.run(
            [program, "mcp", *words, *options],
            check=False,
            capture_output=True,
            encoding="utf-8",
            timeout=PATIENCE,
            cwd=tmp_path,
        )

    return run


def test_resources_are_listed_read_and_kept_by_the_command_line(
    ferrule: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    rows = [line.split("\t") for line in ferrule("resources", "every").stdout.splitlines()]
    assert [_DOCUMENT, "architecture.md", "text/markdown"] in rows
    assert ["demo://resource/dynamic/text/{resourceId}", "Dynamic Text Resource", "template"] in rows
    text = ferrule("resources", "every", "demo://resource/dynamic/text/3").stdout
    assert text.startswith("Resource 3: This is a plaintext resource created at ")
    named = ferrule("resources", "every", "demo://resource/dynamic/blob/3").stdout
    assert named.startswith("[file: demo://resource/dynamic/blob/3, text/plain, ")
    ferrule("resources", "every", "demo://resource/dynamic/blob/3", "--output", "blob.txt")
    assert (tmp_path / "blob.txt").read_text().startswith("Resource 3: This is a base64 blob created at ")
    wrong = ferrule("resources", "every", "demo://resource/nothing")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "not found" in wrong.stderr
    assert "hint: What there is: ferrule mcp resources every." in wrong.stderr


def test_prompts_are_listed_and_filled_in_by_the_command_line(
    ferrule: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    rows = [line.split("\t") for line in ferrule("prompts", "every").stdout.splitlines()]
    described = "A prompt with two arguments, one required and one optional"
    assert ["args-prompt", "city, state?", described] in rows
    filled = ferrule("prompts", "every", "args-prompt", '{"city": "Oslo"}').stdout
    assert filled == "user:\nWhat's weather in Oslo?\n"
    wrong = ferrule("prompts", "every", "args-prompt")
    assert (wrong.returncode, wrong.stdout) == (1, "")
    assert "hint: What there is: ferrule mcp prompts every." in wrong.stderr


def test_a_model_reads_what_the_entry_allows_and_nothing_that_a_server_would_make_of_it(tmp_path: Path) -> None:
    documents, prompts = {"allow": ["demo://resource/dynamic/*"], "deny": ["*/blob/*"]}, True

    async def story() -> None:
        config = read_config(mcp_json(tmp_path, resources=documents, prompts=prompts))
        async with open_servers(*config.servers) as source:
            effects = {one.name: one.side_effects for one in await source.tools()}
            for name in ("list_resources", "read_resource", "list_prompts", "get_prompt"):
                assert effects[f"every_{name}"] is False
            listed = await answer(source, "every_list_resources")
            assert not listed["resources"]
            assert len(listed["templates"]) == 2
            (part,) = await answer(source, "every_read_resource", uri="demo://resource/dynamic/text/3")
            assert part["text"].startswith("Resource 3: ")
            # The server reads each of them as another URI, which the entry does not allow.
            for uri in (
                _DOCUMENT,
                "demo://resource/dynamic/../static/document/architecture.md",
                "demo://resource/dynamic/%2e%2e/static/document/architecture.md",
                "demo://resource/dynamic/.\t./static/document/architecture.md",
                "demo://resource/dynamic/blob/3",
                "demo://resource/dynamic/b\tlob/3",
            ):
                refused = await call_tool(source, "every_read_resource", uri=uri)
                assert isinstance(refused, Answered), uri
                assert (refused.is_error, refused.code) == (True, "bad_request"), uri
                assert "the configuration does not allow" in refused.content, uri
            filled = await answer(source, "every_list_prompts")
            assert "args-prompt" in [one["name"] for one in filled["prompts"]]

    asyncio.run(story())


def test_the_server_would_have_read_another_resource_than_the_uri_shows(tmp_path: Path) -> None:
    """Otherwise the test above shows nothing."""

    async def story() -> None:
        config = read_config(mcp_json(tmp_path, resources=True))
        async with open_servers(*config.servers) as source:
            for uri in (
                "demo://resource/dynamic/../static/document/architecture.md",
                "demo://resource/dynamic/.\t./static/document/architecture.md",
            ):
                (part,) = await answer(source, "every_read_resource", uri=uri)
                assert part["uri"] == _DOCUMENT

    asyncio.run(story())


def test_an_image_is_media_over_both_transports_and_in_both_eras() -> None:
    async def story() -> None:
        port, older = free_port(), free_port()
        with own_on_http(port), everything_on_http(older):
            servers = [replace(one, resources=ResourceAccess()) for one in (own(), web(port), web(older, "older"))]
            async with open_servers(*servers) as source:
                for name in ("own", "web"):
                    chart = await call_tool(source, f"{name}_read_resource", uri="chart://sales/one")
                    assert isinstance(chart, Answered)
                    (image,) = chart.media
                    assert (image.media_type, image.name) == ("image/png", "chart://sales/one")
                    assert image.content == b"\x89PNG\r\n\x1a\n of a resource"
                (part,) = await answer(source, "older_read_resource", uri=_DOCUMENT)
                assert "architecture" in part["text"].lower()
                assert {one.protocol_version for one in source.servers} == {"2026-07-28", "2025-11-25"}

    asyncio.run(story())


def test_without_a_word_in_the_entry_a_model_has_none_of_it() -> None:
    async def story() -> None:
        async with open_servers(everything()) as source:
            names = {one.name for one in await source.tools()}
            assert "every_echo" in names
            assert not names & {f"every_{name}" for name in ("list_resources", "read_resource", "list_prompts")}

    asyncio.run(story())
