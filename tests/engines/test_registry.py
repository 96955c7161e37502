"""One string names an engine with its options; what it does not understand it refuses with the words that it knows."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.tools import asked
from ferrule import DefinitionError, Reply
from ferrule.engines import registry as picking
from ferrule.engines.chat.engine import ChatEngine
from ferrule.engines.fake import FakeEngine
from ferrule.engines.registry import ENGINES, Parts, check, load_engine, parts_of, place_of
from ferrule.engines.text.engine import TextEngine
from ferrule.engines.text.prompt import FallbackMode
from ferrule.errors import EngineError


@pytest.mark.parametrize("name", ["vllm", "sglang", "llama-server"])
def test_engines_on_an_address_take_text_options(name: str) -> None:
    engine = load_engine(f"{name}:http://127.0.0.1:8000/v1?format=hermes&is_bounded=false&fallback_mode=always&first=9")
    assert isinstance(engine, TextEngine)
    assert (engine.traits.name, engine.options.format) == (name, "hermes")
    assert (engine.options.is_bounded, engine.options.fallback_mode) == (False, FallbackMode.ALWAYS)


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
    body = engine.api.request_body(asked(), stream=True)
    assert body["model"] in ("smol", "smol:135m")


def test_a_keyword_counts_before_the_string() -> None:
    engine = load_engine("vllm:http://127.0.0.1:8000?max_tokens=5", max_tokens=7)
    assert isinstance(engine, TextEngine)
    assert engine.options.max_tokens == 7


@given(st.text(min_size=1).filter(lambda text: "?" not in text))
def test_the_fake_says_what_it_is_told(text: str) -> None:
    assert load_engine(f"fake:{text}").generate(asked()).text == text


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
    "name, told",
    [
        ("openai:", "does not say what it is on"),
        ("vllm:http://127.0.0.1:1?thread=2", "no option 'thread'"),
        ("llama:model.gguf?threads=two", "'threads' cannot be 'two'"),
        ("vllm:http://127.0.0.1:1?is_bounded=maybe", "'is_bounded' cannot be 'maybe'"),
        ("vllm:http://127.0.0.1:1?format", "something after vllm:http://127.0.0.1:1"),
    ],
)
def test_what_cannot_be_understood_is_refused(name: str, told: str) -> None:
    with pytest.raises(DefinitionError, match=told):
        load_engine(name)


@pytest.mark.parametrize("name", ["nonsense", "openai:", "openai:m?kye=1", "openai:m?tries=x", "openai:m?key=a&s3cret"])
def test_a_string_is_checked_as_it_is_picked_and_no_secret_is_repeated(name: str) -> None:
    with pytest.raises(DefinitionError) as picked:
        load_engine(name)
    with pytest.raises(DefinitionError) as checked:
        check(name)
    assert checked.value.message == picked.value.message
    assert "s3cret" not in checked.value.message


def test_checking_makes_nothing_and_parts_are_what_was_written() -> None:
    check("llama:no-such-file.gguf?threads=2")
    assert parts_of("openai:m?key=a%26b&url=http://h?x") == Parts("openai", "m", {"key": "a&b", "url": "http://h?x"})


def test_a_model_file_that_is_not_there_is_told() -> None:
    with pytest.raises(EngineError, match="no-such"):
        load_engine("llama:no-such.gguf?threads=2&format=hermes")


def test_a_package_adds_an_engine_by_an_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("parrot", f"{__name__}:parrot", picking.ENTRY_POINTS)
    monkeypatch.setattr(EntryPoint, "load", lambda self: parrot)
    monkeypatch.setattr(picking, "entry_points", lambda group: [point])
    assert load_engine("parrot:Polly?loud=1").generate(asked()).text == "Polly 1"
    with pytest.raises(DefinitionError) as caught:
        load_engine("cockatoo:Polly")
    assert "parrot" in caught.value.hint


def parrot(on: str, **options: Any) -> FakeEngine:
    return FakeEngine([Reply.of(f"{on} {options['loud']}")])


@pytest.mark.parametrize(
    "name, place",
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
def test_a_string_says_where_and_for_which_model_it_asks(name: str, place: tuple[str, str]) -> None:
    assert place_of(name) == place
