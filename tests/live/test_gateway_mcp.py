"""A gateway with real MCP servers: their tools run inside one stream, under prefixed names, from lists kept current."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lab.gateway_process import gateway_process
from live.gated_mcp import GatedServer, offered, on_http, serve_arguments, wait_for_tools
from live.openai_stream import Streamed, openai_program
from live.scripted_model import Said, results_in, scripted_model
from waiting import PATIENCE, eventually

pytestmark = pytest.mark.live
USER = [{"role": "user", "content": "Go."}]


def call(url: str, name: str, **arguments: Any) -> Any:
    """Call a tool of the gateway from outside, and return its content."""
    body = json.dumps({"name": name, "arguments": arguments}).encode()
    request = urllib.request.Request(f"{url}/v1/tools/call", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        told = json.load(answer)
    assert not told["is_error"], told
    return told["content"]


def text_of(content: Any) -> str:
    """What a tool of the SDK returned, whichever way it is wrapped."""
    return content["result"] if isinstance(content, dict) else content


def kinds(stream: Streamed) -> list[str]:
    """What the gateway reported of its tools."""
    return [key for extension in stream.extensions for key in extension if key.startswith("tool_")]


# The ways to have a server, and the prefix that its tools get.
PREFIXES = {"--mcp-command": "mcp", "--mcp-config over stdio": "near", "--mcp-config over HTTP": "far"}


@contextmanager
def one_server(way: str, folder: Path, model_url: str) -> Generator[tuple[GatedServer, list[str]]]:
    """A server, and the arguments of a gateway that has it."""
    near = GatedServer("near", folder)
    match way:
        case "--mcp-config over HTTP":
            with on_http("far", folder) as far:
                yield far, serve_arguments(folder, model_url, [far])
        case "--mcp-config over stdio":
            yield near, serve_arguments(folder, model_url, [near])
        case _:
            arguments = serve_arguments(folder, model_url, [])
            with (folder / "ferrule.toml").open("a") as config:
                config.write("[sources]\nmcp_trusted = true\n")
            yield near, [*arguments, "--mcp-command", sys.executable, "--mcp-args", *near.arguments]


@pytest.mark.parametrize("way", PREFIXES)
def test_the_stream_pauses_while_a_tool_runs_and_goes_on_several_times_in_a_row(way: str, tmp_path: Path) -> None:
    prefix = PREFIXES[way]

    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        results = results_in(messages)
        match len(results):
            case 0:
                return Said("One. ", [(f"{prefix}_step", {"number": 1})])
            case 1:
                return Said("Two. ", [(f"{prefix}_step", {"number": 2}), (f"{prefix}_step", {"number": 3})])
            case 3:
                return Said("Three. ", [(f"{prefix}_look", {"place": "é😀"})])
            case _:
                return Said(f"I read {json.dumps(results, ensure_ascii=False)}.")

    with (
        scripted_model(reply) as model,
        one_server(way, tmp_path, model.url) as (server, arguments),
        gateway_process(arguments, engine=None) as gateway,
        openai_program(gateway.url) as program,
    ):
        wait_for_tools(gateway.url, {f"{prefix}_step", f"{prefix}_look"})
        stream = program.create(model="m", messages=USER)
        stream.until("One. ")
        # The tool runs, and the stream waits for it: the model has not been asked again.
        eventually(lambda: server.calls() == [{"tool": "step", "arguments": {"number": 1}}])
        assert (len(model.requests), stream.finish) == (1, None)
        server.open(1)
        stream.until("One. Two. ")
        assert kinds(stream)[:3] == ["tool_call", "tool_started", "tool_finished"]
        # Two at once: both have begun before either may end.
        eventually(lambda: len(server.calls()) == 3)
        assert (len(model.requests), stream.finish) == (2, None)
        server.open(3)
        server.open(2)
        done = stream.rest()
        read = [f"{server.name} did {number}" for number in (1, 2, 3)]
        read.append(f"{server.name} sees é😀")
        assert done.text.startswith("One. Two. Three. I read [")
        assert all(one in done.text for one in read)
        assert [done.text.index(one) for one in read] == sorted(done.text.index(one) for one in read)
        # One answer: one end, and no call for a caller that has no tools.
        assert (done.finish, done.calls, len(model.requests)) == ("stop", {}, 4)
        assert sorted(kinds(done)) == ["tool_call"] * 4 + ["tool_finished"] * 4 + ["tool_started"] * 4
        assert [one["tool"] for one in server.calls()] == ["step", "step", "step", "look"]


def test_tools_of_one_name_on_two_servers_have_prefixes_and_each_reaches_its_own_server(tmp_path: Path) -> None:
    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        results = results_in(messages)
        if results:
            return Said(json.dumps(results))
        places = {"near_look": "north", "far_look": "south", "near_step": 1, "far_step": 2}
        return Said("", [(name, {"number" if "step" in name else "place": where}) for name, where in places.items()])

    near = GatedServer("near", tmp_path)
    with scripted_model(reply) as model, on_http("far", tmp_path) as far:
        arguments = serve_arguments(tmp_path, model.url, [near, far])
        with gateway_process(arguments, engine=None) as gateway, openai_program(gateway.url) as program:
            names = {f"{server}_{tool}" for server in ("near", "far") for tool in ("look", "step", "grow", "shrink")}
            wait_for_tools(gateway.url, names)
            assert offered(gateway.url) == names
            near.open(1)
            near.open(2)
            answer = program.create(model="m", messages=USER).rest()
            # The model knows them by the prefixed names, and each result is of the server that the prefix names.
            assert set(model.tool_names(0)) == names
            results = json.loads(answer.text)
            found = ["near sees north", "far sees south", "near did 1", "far did 2"]
            assert len(results) == 4
            assert all(expected in result for expected, result in zip(found, results, strict=True)), results
            # The servers were called by their own names for the tools.
            for server, place, number in ((near, "north", 1), (far, "south", 2)):
                assert sorted(server.calls(), key=lambda one: one["tool"]) == [
                    {"tool": "look", "arguments": {"place": place}},
                    {"tool": "step", "arguments": {"number": number}},
                ]
            # The same over the gateway's own API.
            assert text_of(call(gateway.url, "far_look", place="west")) == "far sees west"
            assert text_of(call(gateway.url, "near_look", place="east")) == "near sees east"
            assert (near.calls()[-1]["arguments"], far.calls()[-1]["arguments"]) == (
                {"place": "east"},
                {"place": "west"},
            )


@pytest.mark.parametrize("tells", [True, False], ids=["on notice", "at the interval"])
def test_a_changed_list_is_offered_and_called_whoever_reports_the_change(tells: bool, tmp_path: Path) -> None:
    """With notices, the interval is far longer than the test; without, only the interval can find the change."""

    def reply(messages: list[dict[str, Any]], names: list[str]) -> Said:
        results = results_in(messages)
        added = [name for name in names if name.endswith("_extra")]
        return Said(json.dumps(results)) if results else Said("", [(name, {"text": "hi"}) for name in sorted(added)])

    near = GatedServer("near", tmp_path)
    with scripted_model(reply) as model, on_http("far", tmp_path) as far:
        seconds = "3600" if tells else "1"
        arguments = serve_arguments(tmp_path, model.url, [near, far], "--mcp-tool-refresh-seconds", seconds)
        config = json.loads((tmp_path / "mcp.json").read_text())
        config["mcpServers"]["broken"] = {"command": str(tmp_path / "no such program")}
        (tmp_path / "mcp.json").write_text(json.dumps(config))
        with gateway_process(arguments, engine=None) as gateway, openai_program(gateway.url) as program:
            wait_for_tools(gateway.url, {"near_look", "far_look"})
            # Twice, so that a list that is read only once more is not enough.
            for _ in range(2):
                assert not {"near_extra", "far_extra"} & offered(gateway.url)
                for name in ("near", "far"):
                    call(gateway.url, f"{name}_grow", tool="extra", tells=tells)
                wait_for_tools(gateway.url, {"near_extra", "far_extra"})
                answer = program.create(model="m", messages=USER).rest()
                assert "far has extra: hi" in answer.text
                assert "near has extra: hi" in answer.text
                for name in ("near", "far"):
                    call(gateway.url, f"{name}_shrink", tool="extra", tells=tells)
                eventually(lambda: not {"near_extra", "far_extra"} & offered(gateway.url))
                # A model is not offered what is gone.
                program.create(model="m", messages=USER).rest()
                assert not {"near_extra", "far_extra"} & set(model.tool_names())
            assert [one["tool"] for one in near.calls() if one["tool"] == "extra"] == ["extra"] * 2
