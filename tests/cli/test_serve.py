"""`ferrule serve`: flags override file and environment, engines get readable names, and the banner is printed."""

from __future__ import annotations

import asyncio
import json
from argparse import ArgumentParser, Namespace
from pathlib import Path

import pytest

from cli.command_line import run
from engines.endpoints import Endpoint, serve_endpoint
from ferrule.cli.serve import banner, config_of, curl
from ferrule.cli.serve_flags import add_flags, layer_of, name_of, probe_model
from ferrule.core.tool import ToolDefinition
from ferrule.server.config.config import Config, EngineConfig, KeyConfig, ModelConfig, ServerConfig

FAKE = Config(engines=(EngineConfig(name="it's", use="fake:hi"),))


def parse_config(*argv: str) -> Namespace:
    parser = ArgumentParser()
    add_flags(parser)
    return parser.parse_args(argv)


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "use, name",
    [
        ("llama:models/SmolLM2-135M-Instruct.Q4_1.gguf?threads=1", "SmolLM2-135M-Instruct.Q4_1"),
        ("openai:gpt-x?url=http://127.0.0.1:1/v1", "gpt-x"),
        ("anthropic:some-model", "some-model"),
        ("ollama:smol:135m", "smol:135m"),
        ("vllm:http://127.0.0.1:1?model=Qwen/Q", "Qwen/Q"),
        ("vllm:http://127.0.0.1:1", "vllm"),
        ("fake:hello", "fake"),
        ("nonsense", "nonsense"),
    ],
)
def test_an_engine_without_a_name_is_called_as_its_model_is(use: str, name: str) -> None:
    assert name_of(use) == name


@pytest.mark.parametrize(
    "expected, name",
    [("meta/Llama", "meta/Llama"), ("/models/q.gguf", "q"), ("/data/Qwen3/", "Qwen3"), ("", "vllm")],
)
def test_a_server_is_asked_for_its_models_name(expected: str, name: str) -> None:
    assert (
        name_of(
            "vllm:http://gpu:8000?key=k", lambda url, key: expected if (url, key) == ("http://gpu:8000", "k") else "?"
        )
        == name
    )


def test_a_server_that_lists_models_says_its_name_and_one_that_is_not_there_says_nothing() -> None:
    with serve_endpoint(Endpoint()) as url:
        assert asyncio.run(probe_model(f"{url}/")) == "small"
        assert asyncio.run(probe_model(url.removesuffix("/v1") + "/nowhere")) == ""
    assert asyncio.run(probe_model("http://127.0.0.1:9", "key")) == ""


@pytest.mark.usefixtures("empty")
def test_flags_alone_make_a_gateway() -> None:
    config = config_of(parse_config("--engine", "fake:hello", "--port", "0"))
    assert [model.name for model in config.served_models] == ["fake"]
    assert (config.server.host, config.server.port) == ("127.0.0.1", 0)


def test_every_flag_comes_to_its_setting(empty: Path) -> None:
    key = "[[keys]]\nname = 'a'\nsha256 = '" + "0" * 64 + "'\n"
    (empty / "x.toml").write_text(f"{key}[server]\nport = 1\nworkers = 9\n[sources]\nfunctions = ['gone.py']\n")
    argv = ["--config", "x.toml", "--engine", "a=fake:1", "--engine", "b=fake:2", "--model", "m", "--host", "0.0.0.0"]
    argv += ["--port", "2", "--workers", "3", "--ledger", "l.db", "--tools", "t.py:A", "--tools", "t.py:B"]
    argv += ["--mcp-command", "npx", "--mcp-args", "-y some server", "--mcp-config", "mcp.json"]
    argv += ["--mcp-tool-refresh-seconds", "7", "--nats", "nats://127.0.0.1:4222", "--insecure"]
    config = config_of(parse_config(*argv))
    assert config.models == (ModelConfig(name="m", engines=("a", "b")),)
    listening = config.server
    assert (listening.host, listening.port, listening.workers, listening.insecure) == ("0.0.0.0", 2, 3, True)
    named = config.sources
    assert (config.ledger, named.functions, named.mcp_config) == ("l.db", ("t.py:A", "t.py:B"), "mcp.json")
    assert (named.mcp_command, named.mcp_args) == ("npx", ("-y", "some", "server"))
    assert (named.mcp_tool_refresh_seconds, named.nats) == (7.0, "nats://127.0.0.1:4222")


def test_arguments_of_a_server_are_one_text_or_several() -> None:
    for argv in (["--mcp-args", "a b", "c"], ["--mcp-args", "a b", "--mcp-args", "c"]):
        assert layer_of(parse_config(*argv), str)["sources", "mcp_args"].value == ["a b", "c"]
    assert layer_of(parse_config("--mcp-args=-y"), str)["sources", "mcp_args"].value == ["-y"]
    assert layer_of(parse_config("--mcp-args", "'a b' c"), str)["sources", "mcp_args"].value == ["a b", "c"]
    assert not layer_of(parse_config(), str)


@pytest.mark.parametrize(
    "argv, arguments",
    [
        (["--mcp-args=--arg1,arg2"], ["--arg1", "arg2"]),
        (["--mcp-args", "a,b"], ["a", "b"]),
        (["--mcp-args", "a,b c"], ["a,b", "c"]),
        (["--mcp-args", "a,b", "c"], ["a,b", "c"]),
        (["--mcp-args", "'a,b'"], ["a,b"]),
    ],
)
def test_arguments_may_be_joined_by_commas_as_the_specification_writes_them(
    argv: list[str], arguments: list[str]
) -> None:
    assert layer_of(parse_config(*argv), str)["sources", "mcp_args"].value == arguments


def test_mcp_servers_may_be_trusted_by_a_flag() -> None:
    assert ("sources", "mcp_trusted") not in layer_of(parse_config(), str)
    assert layer_of(parse_config("--mcp-trusted"), str)["sources", "mcp_trusted"].value is True


def test_tools_of_the_mcp_command_are_chosen_by_patterns() -> None:
    flags = ["--mcp-allow", "get_*", "--mcp-allow", "put_*", "--mcp-deny", "*_secret", "--mcp-read-only", "get_*"]
    given = layer_of(parse_config(*flags), str)
    assert given["sources", "mcp_allow"].value == ["get_*", "put_*"]
    assert given["sources", "mcp_deny"].value == ["*_secret"]
    assert given["sources", "mcp_read_only"].value == ["get_*"]


@pytest.mark.usefixtures("empty")
@pytest.mark.parametrize(
    "argv, expected",
    [
        ((), "no engine is configured"),
        (("--engine", "fake:x", "--host", "0.0.0.0"), "--host: server.host: 0.0.0.0 is reachable from other machines"),
        (("--engine", "fake:a", "--engine", "fake:b"), "two engines are named 'fake'"),
        (("--model", "m"), "--model needs --engine"),
        (("--engine", "fake:x", "--port", "70000"), "--port: server.port cannot be 70000. Give at most 65535"),
        (("--engine", "fake:x", "--tools", "nowhere:T"), "nowhere cannot be loaded"),
        (("--engine", "fake:x", "--mcp-config", "none.json"), "none.json cannot be read"),
        (("--engine", "fake:x", "--config", "none.toml"), "none.toml cannot be read"),
    ],
)
def test_what_cannot_be_served_is_refused_before_anything_is_started(argv: tuple[str, ...], expected: str) -> None:
    ran = run("serve", "--port", "0", *argv)
    assert (ran.code, ran.raw) == (1, b"")
    assert expected in ran.err
    assert "hint: " in ran.err


def test_the_banner_lists_what_is_served_and_a_command_to_try() -> None:
    tools = [
        ToolDefinition("look", "", {"type": "object"}),
        ToolDefinition("order", "", {"type": "object"}, side_effects=True),
    ]
    text = banner(FAKE, 81, tools)
    assert text.startswith("serving on http://127.0.0.1:81\n  console http://127.0.0.1:81/console/\n")
    assert "tools   2: look; with approval for each call: order\n" in text
    assert "anyone on this machine" in text
    assert "in memory" in text
    assert "clients may supply their own tools" in banner(FAKE, 81, [])


def test_the_line_to_try_is_what_a_shell_takes() -> None:
    import shlex

    words = shlex.split(curl(FAKE, 81))
    assert words[:2] == ["curl", "http://127.0.0.1:81/v1/chat/completions"]
    assert json.loads(words[-1])["model"] == "it's"
    everywhere = Config(
        engines=FAKE.engines,
        server=ServerConfig(host="::"),
        keys=(KeyConfig(name="a", sha256="0" * 64),),
        ledger="postgresql://me:pw@h/d",
    )
    assert "http://[::1]:81/" in curl(everywhere, 81)
    assert "Bearer $FERRULE_KEY" in curl(everywhere, 81)
    text = banner(everywhere, 81, [])
    assert text.startswith("serving on http://[::]:81\n  console http://[::1]:81/console/\n")
    assert "pw" not in text


def test_a_name_with_hidden_characters_is_spelled_out() -> None:
    hidden = Config(engines=(EngineConfig(name="a\x1b[2Jb", use="fake:hi"),))
    assert "\x1b" not in banner(hidden, 1, [])
