"""One string names an engine and its options; an invalid string is refused with a message that lists the valid ones."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tools import make_request
from ferrule import DefinitionError, Reply
from ferrule.engines import registry
from ferrule.engines.chat.engine import ChatEngine
from ferrule.engines.fake import FakeEngine
from ferrule.engines.registry import (
    ENGINES,
    EngineSpec,
    address_and_model,
    check_engine_spec,
    load_engine,
    parse_engine_spec,
)
from ferrule.engines.text.engine import TextEngine
from ferrule.engines.text.prompt import FallbackMode
from ferrule.errors import EngineError, FormatError


@pytest.mark.parametrize("name", ["vllm", "sglang", "llama-server"])
def test_engines_on_an_address_take_text_options(name: str) -> None:
    engine = load_engine(f"{name}:http://127.0.0.1:8000/v1?format=hermes&any_order=yes&fallback_mode=always&first=9")
    assert isinstance(engine, TextEngine)
    assert (engine.traits.name, engine.options.format) == (name, "hermes")
    assert (engine.options.any_order, engine.options.fallback_mode) == (True, FallbackMode.ALWAYS)


@pytest.mark.parametrize(
    "name, label",
    [
        ("openai:smol?url=http://127.0.0.1:8000/v1&repairs=0", "chat"),
        ("openai:smol?url=http://127.0.0.1:8000/v1&repairs=0&api=responses&honours=auto,one", "responses"),
        ("anthropic:smol?url=http://127.0.0.1:8000&repairs=0&strict=yes", "messages"),
        ("ollama:smol:135m?repairs=0&think=low", "chat"),
    ],
)
def test_engines_by_an_api_take_the_model_and_chat_options(name: str, label: str) -> None:
    engine = load_engine(name)
    assert isinstance(engine, ChatEngine)
    assert (engine.options.repairs, engine.api.label) == (0, label)
    body = engine.api.request_body(make_request(), stream=True)
    assert body["model"] in ("smol", "smol:135m")


def test_a_keyword_overrides_the_string() -> None:
    engine = load_engine("vllm:http://127.0.0.1:8000?max_tokens=5", max_tokens=7)
    assert isinstance(engine, TextEngine)
    assert engine.options.max_tokens == 7


@given(st.text(min_size=1).filter(lambda text: "?" not in text))
def test_the_fake_engine_answers_with_its_text(text: str) -> None:
    assert load_engine(f"fake:{text}").generate(make_request()).text == text


def test_a_key_may_hold_a_plus_and_what_is_escaped() -> None:
    engine = load_engine("openai:m?url=http://127.0.0.1:1&key=a+b%26c")
    assert isinstance(engine, ChatEngine)
    assert engine.api.headers["Authorization"] == "Bearer a+b&c"


def test_an_unknown_name_lists_the_known_ones_and_what_to_install() -> None:
    with pytest.raises(DefinitionError) as caught:
        load_engine("model.gguf")
    assert caught.value.code == "unknown_engine"
    assert all(f"{name}:" in caught.value.hint for name in ENGINES)
    assert "ferrule[llama]" in caught.value.hint


@pytest.mark.parametrize(
    "name, message",
    [
        ("openai:", "engine 'openai' needs a model name: openai:MODEL"),
        ("vllm:http://127.0.0.1:1?thread=2", "no option 'thread'"),
        ("llama:model.gguf?threads=two", "'threads' cannot be 'two'"),
        ("vllm:http://127.0.0.1:1?any_order=maybe", "'any_order' cannot be 'maybe'"),
        ("vllm:http://127.0.0.1:1?format", "the options after vllm:http://127.0.0.1:1"),
    ],
)
def test_an_invalid_string_is_refused(name: str, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        load_engine(name)


@pytest.mark.parametrize("name", ["nonsense", "openai:", "openai:m?kye=1", "openai:m?tries=x", "openai:m?key=a&s3cret"])
def test_checking_and_loading_raise_the_same_error_and_repeat_no_secret(name: str) -> None:
    with pytest.raises(DefinitionError) as load_error:
        load_engine(name)
    with pytest.raises(DefinitionError) as check_error:
        check_engine_spec(name)
    assert check_error.value.message == load_error.value.message
    assert "s3cret" not in check_error.value.message


def test_checking_makes_no_engine_and_parsing_keeps_the_text() -> None:
    check_engine_spec("llama:no-such-file.gguf?threads=2")
    assert parse_engine_spec("openai:m?key=a%26b&url=http://h?x") == EngineSpec(
        "openai", "m", {"key": "a&b", "url": "http://h?x"}
    )


def test_a_missing_model_file_is_reported() -> None:
    with pytest.raises(EngineError, match="no-such"):
        load_engine("llama:no-such.gguf?threads=2&format=hermes")


def test_a_package_adds_an_engine_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("parrot", f"{__name__}:parrot", registry.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: parrot)
    monkeypatch.setattr(registry, "entry_points", lambda group: [point])
    assert load_engine("parrot:Polly?loud=1").generate(make_request()).text == "Polly 1"
    with pytest.raises(DefinitionError) as caught:
        load_engine("cockatoo:Polly")
    assert "parrot" in caught.value.hint


def parrot(on: str, **options: Any) -> FakeEngine:
    return FakeEngine([Reply.of(f"{on} {options['loud']}")])


@pytest.mark.parametrize(
    "name, expected",
    [
        ("openai:small?url=http://one:1/v1&key=k", ("http://one:1/v1", "small")),
        ("openai:gpt-x", ("https://api.openai.com/v1", "gpt-x")),
        ("vllm:http://one:1?model=small", ("http://one:1", "small")),
        ("llama-server:http://one:1", ("http://one:1", "")),
        ("ollama:small", ("", "small")),
        ("llama:model.gguf", ("", "")),
        ("fake:hello", ("", "")),
        ("never:heard", ("", "")),
        ("e0", ("", "")),
    ],
)
def test_a_string_gives_the_address_and_the_model(name: str, expected: tuple[str, str]) -> None:
    assert address_and_model(name) == expected


@pytest.mark.parametrize("address", ["127.0.0.1:8000", "localhost", "gpu-box:8000/v1", "[::1]:8000"])
def test_an_address_may_lack_its_scheme(address: str) -> None:
    assert isinstance(load_engine(f"vllm:{address}"), TextEngine)
    assert address_and_model(f"vllm:{address}")[0] == f"http://{address}"
    assert address_and_model(f"openai:smol?url={address}") == (f"http://{address}", "smol")


@pytest.mark.parametrize("argument", ["Qwen/Qwen3-8B", "gpu-box", "model:latest"])
def test_what_is_no_address_is_refused_with_the_form_of_one(argument: str) -> None:
    with pytest.raises(DefinitionError, match="needs a URL") as refusal:
        load_engine(f"vllm:{argument}")
    assert refusal.value.hint == "Write vllm:http://HOST:PORT."


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.gguf"
    file.write_text("not a model", encoding="utf-8")
    with pytest.raises(FormatError, match=r"notes\.gguf is not a GGUF file") as refusal:
        load_engine(f"llama:{file}")
    assert refusal.value.hint == "Pass the .gguf file of a model."
