"""Engines get what they take, byte for byte, and the name of what they do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from engines.providers import QUICK, CannedResponse, chat_completion, chunk, json_response, provider, sse
from ferrule import ChatMessage, DefinitionError, Diagnostic, Media, Reply, ToolCallRequest, load_engine
from ferrule.core.named_media import MEDIA_NAMED
from ferrule.engines.anthropic import anthropic
from ferrule.engines.chat.engine import ChatEngine, ChatOptions
from ferrule.engines.ollama import ollama
from ferrule.engines.openai import openai
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.testing import FakeGenerator

PNG = Media("image", "image/png", data=bytes(range(200)), name="shot.png")
WAV = Media("audio", "audio/wav", data=b"RIFF", name="a.wav")
LINE = "[image 1: shot.png, image/png, 200 bytes; this model cannot see images]"
ANSWER = sse(chunk({"content": "A cat."}), chunk({}, "stop"), done=True)
NOT_FOUND = json_response({"error": {"message": "no such page"}}, 404)


def run_engine(
    make: Callable[[str], ChatEngine], answers: Sequence[CannedResponse], *media: Media
) -> tuple[Reply, list[tuple[str, dict[str, Any]]], ChatEngine]:
    async def work() -> tuple[Reply, list[tuple[str, dict[str, Any]]], ChatEngine]:
        async with provider(*answers) as server, make(server.url) as engine:
            request = ToolCallRequest(messages=(ChatMessage("user", ["What is it?", *media]),))
            reply = await engine.generate_with_tools(request)
            return reply, [(one.path, one.body) for one in server.requests], engine

    return asyncio.run(work())


def openai_factory(**settings: Any) -> Callable[[str], ChatEngine]:
    options = ChatOptions(media=settings.pop("media", None))
    return lambda url: openai("m", options, url=f"{url}/v1", deadlines=QUICK, **settings)


def named(reply: Reply) -> list[Diagnostic]:
    return [one for one in reply.diagnostics if one.code == MEDIA_NAMED]


def sent_content(body: dict[str, Any]) -> Any:
    return body["messages"][-1]["content"]


def test_a_server_that_is_said_to_take_images_gets_them_without_being_asked() -> None:
    reply, [(path, body)], _ = run_engine(openai_factory(media=["image"]), [ANSWER], PNG)
    assert path == "/v1/chat/completions"
    assert sent_content(body)[1] == {"type": "image_url", "image_url": {"url": PNG.address}}
    assert not named(reply)


OPENROUTER = json_response({"data": [{"id": "m", "architecture": {"input_modalities": ["text", "image"]}}]})
LLAMA_MODELS = json_response({"data": [{"id": "other.gguf", "object": "model"}]})


@pytest.mark.parametrize(
    "answers, paths",
    [
        ([OPENROUTER], ["/v1/models"]),
        ([LLAMA_MODELS, json_response({"modalities": {"vision": True, "audio": False}})], ["/v1/models", "/props"]),
    ],
    ids=["list of models", "props of llama.cpp"],
)
def test_a_server_that_says_that_it_takes_images_gets_them(answers: list[CannedResponse], paths: list[str]) -> None:
    reply, requests, engine = run_engine(openai_factory(), [*answers, ANSWER], PNG, WAV)
    assert [path for path, _ in requests] == [*paths, "/v1/chat/completions"]
    content = sent_content(requests[-1][1])
    assert content[1] == {"type": "image_url", "image_url": {"url": PNG.address}}
    assert content[2]["text"] == "[audio 1: a.wav, audio/wav, 4 bytes; this model cannot hear audio]"
    assert engine.traits.media == {"image"}
    (diagnostic,) = named(reply)
    assert "1 audio" in diagnostic.message


@pytest.mark.parametrize(
    "answers",
    [
        [NOT_FOUND, NOT_FOUND],
        [LLAMA_MODELS, json_response({"modalities": {"vision": False, "audio": False}})],
        [json_response([1]), json_response("x")],
    ],
)
def test_a_server_that_says_nothing_gets_the_name(answers: list[CannedResponse]) -> None:
    reply, requests, _ = run_engine(openai_factory(), [*answers, ANSWER], PNG)
    assert sent_content(requests[-1][1]) == [
        {"type": "text", "text": "What is it?"},
        {"type": "text", "text": f"\n{LINE}"},
    ]
    assert "1 image" in named(reply)[0].message


def test_a_request_of_text_asks_the_server_nothing() -> None:
    _, requests, _ = run_engine(openai_factory(), [ANSWER])
    assert [path for path, _ in requests] == ["/v1/chat/completions"]


def test_openai_itself_takes_images_and_files_and_no_audio() -> None:
    engine = openai("m", key="k")
    assert engine.traits.media == {"image", "file"}


def test_the_responses_api_of_a_server_gets_the_image() -> None:
    item = {"type": "message", "content": [{"type": "output_text", "text": "A cat."}]}
    answer = json_response({"object": "response", "status": "completed", "output": [item]})
    settings = ChatOptions(is_streamed=False, media=["image"])
    make = lambda url: openai("m", settings, url=f"{url}/v1", api="responses", deadlines=QUICK)  # noqa: E731
    _, [(_, body)], _ = run_engine(make, [answer], PNG)
    assert body["input"][0]["content"][1] == {"type": "input_image", "detail": "auto", "image_url": PNG.address}


def test_anthropics_list_of_models_says_whether_it_takes_images() -> None:
    capabilities = {"image_input": {"supported": True}, "pdf_input": {"supported": False}}
    body = {"type": "message", "content": [{"type": "text", "text": "A cat."}], "stop_reason": "end_turn", "usage": {}}
    make = lambda url: anthropic("m", ChatOptions(is_streamed=False), url=url, deadlines=QUICK)  # noqa: E731
    answers = [json_response({"id": "m", "capabilities": capabilities}), json_response(body)]
    _, requests, engine = run_engine(make, answers, PNG)
    source = {"type": "base64", "media_type": "image/png", "data": PNG.data}
    assert [path for path, _ in requests] == ["/v1/models/m", "/v1/messages"]
    assert sent_content(requests[1][1])[1] == {"type": "image", "source": source}
    assert engine.traits.media == {"image"}


def test_ollama_says_whether_a_model_sees() -> None:
    answer = json_response({"message": {"role": "assistant", "content": "A cat."}, "done": True, "done_reason": "stop"})
    make = lambda url: ollama("m", ChatOptions(is_streamed=False), url=url, deadlines=QUICK)  # noqa: E731
    _, requests, _ = run_engine(make, [json_response({"capabilities": ["completion", "vision"]}), answer], PNG)
    assert [path for path, _ in requests] == ["/api/show", "/api/chat"]
    assert requests[1][1]["messages"][0]["images"] == [PNG.data]


def test_a_text_engine_reads_the_name_in_its_prompt() -> None:
    generator = FakeGenerator(["I cannot see it."])
    engine = TextEngine(generator, TextOptions(format="hermes"))
    reply = engine.ask_sync([ChatMessage("user", ["What is it?", PNG])])
    assert f"What is it?\n{LINE}" in generator.requests[0].prompt
    assert PNG.data not in generator.requests[0].prompt
    assert named(reply)


def test_the_option_lists_kinds() -> None:
    assert load_engine("openai:m?url=http://127.0.0.1:1/v1&media=image,audio").traits.media == {"image", "audio"}
    assert load_engine("openai:m?url=http://127.0.0.1:1/v1&media=none").traits.media == frozenset()
    with pytest.raises(DefinitionError):
        load_engine("openai:m?url=http://127.0.0.1:1/v1&media=smell")


def test_the_images_of_an_answer_that_is_not_streamed_are_the_same() -> None:
    options = ChatOptions(is_streamed=False, media=["image"])
    make = lambda url: openai("m", options, url=f"{url}/v1", deadlines=QUICK)  # noqa: E731
    _, [(_, body)], _ = run_engine(make, [chat_completion({"content": "A cat."}, "stop")], PNG)
    assert sent_content(body)[1]["image_url"]["url"] == PNG.address
