"""An image, a recording or a file keeps its bytes through every API, in both directions."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from ferrule import ChatMessage, DefinitionError, Media, ToolCall, ToolCallRequest, ToolResult
from ferrule.dialects.anthropic import media as anthropic_media
from ferrule.dialects.anthropic.request_decoder import read_request as read_messages
from ferrule.dialects.anthropic.request_encoder import request_body as messages_body
from ferrule.dialects.ollama.request_encoder import request_body as ollama_body
from ferrule.dialects.openai_chat.media import takes_media as takes_in_chat
from ferrule.dialects.openai_chat.request_decoder import read_request as read_chat
from ferrule.dialects.openai_chat.request_encoder import request_body as chat_body
from ferrule.dialects.openai_responses.media import takes_media as takes_in_responses
from ferrule.dialects.openai_responses.request_decoder import read_request as read_responses_request
from ferrule.dialects.openai_responses.request_encoder import request_body as responses_body

DATA = base64.b64encode(bytes(range(256))).decode()
URL = f"data:image/png;base64,{DATA}"
PNG = Media("image", "image/png", data=DATA)
WAV = Media("audio", "audio/wav", data=DATA)
PDF = Media("file", "application/pdf", data=DATA, name="a.pdf")
REMOTE = Media("image", url="https://example.com/a.png")
CALL = {"id": "c1", "type": "function", "function": {"name": "shoot", "arguments": "{}"}}


def result_of(request: ToolCallRequest) -> ToolResult:
    return next(result for message in request.messages for result in message.results)


def test_the_chat_apis_parts_are_read_from_users_and_tools() -> None:
    parts = [
        {"type": "text", "text": "Look:"},
        {"type": "image_url", "image_url": {"url": URL, "detail": "high"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "file", "file": {"file_data": f"data:application/pdf;base64,{DATA}", "filename": "a.pdf"}},
        {"type": "file", "file": {"file_id": "file-1"}},
    ]
    expected = (
        Media("image", "image/png", data=DATA, detail="high"),
        *(REMOTE, WAV, PDF, Media("file", file_id="file-1", provider="openai")),
    )
    request = read_chat(
        {
            "messages": [
                {"role": "user", "content": parts},
                {"role": "assistant", "tool_calls": [CALL]},
                {"role": "tool", "tool_call_id": "c1", "content": parts},
            ]
        }
    )
    assert request.messages[0].content == "Look:"
    assert request.messages[0].media == expected
    assert (result_of(request).name, result_of(request).text, result_of(request).media) == ("shoot", "Look:", expected)


def test_the_responses_apis_parts_are_read_from_users_and_outputs() -> None:
    parts = [
        {"type": "input_text", "text": "Look:"},
        {"type": "input_image", "image_url": URL, "detail": "high"},
        {"type": "input_image", "file_id": "file-1", "detail": "auto"},
        {"type": "input_file", "file_data": f"data:application/pdf;base64,{DATA}", "filename": "a.pdf"},
        {"type": "input_file", "file_url": "https://example.com/a.pdf"},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
    ]
    expected = (
        Media("image", "image/png", data=DATA, detail="high"),
        Media("image", file_id="file-1", provider="openai", detail="auto"),
        *(PDF, Media("file", url="https://example.com/a.pdf"), WAV),
    )
    request = read_responses_request(
        {
            "model": "m",
            "input": [
                {"role": "user", "content": parts},
                {"type": "function_call", "call_id": "c1", "name": "shoot", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "c1", "output": parts},
            ],
        }
    )
    assert request.messages[0].media == expected
    assert (result_of(request).text, result_of(request).media) == ("Look:", expected)


def test_the_messages_apis_blocks_are_read_from_users_and_results() -> None:
    base64_source = {"type": "base64", "media_type": "image/png", "data": DATA}
    pdf_source = {"type": "base64", "media_type": "application/pdf", "data": DATA}
    blocks = [
        {"type": "text", "text": "Look:"},
        {"type": "image", "source": base64_source},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
        {"type": "document", "title": "a.pdf", "source": pdf_source},
        {"type": "document", "title": "notes", "source": {"type": "text", "media_type": "text/plain", "data": "Hi."}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "image", "source": base64_source}]}},
    ]
    expected = (PNG, REMOTE, Media("image", file_id="file_1", provider="anthropic"), PDF, PNG)
    tool_use = {"type": "tool_use", "id": "c1", "name": "shoot", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "c1", "content": blocks}
    request = read_messages(
        {
            "model": "m",
            "max_tokens": 9,
            "messages": [
                {"role": "user", "content": blocks},
                {"role": "assistant", "content": [tool_use]},
                {"role": "user", "content": [result]},
            ],
        }
    )
    assert request.messages[0].media == expected
    assert "notes\nHi." in request.messages[0].content
    assert result_of(request).media == expected
    assert result_of(request).text == "Look:notes\nHi."


READERS: dict[str, Callable[[dict[str, Any]], ToolCallRequest]] = {
    "image_url": lambda part: read_chat({"messages": [{"role": "user", "content": [part]}]}),
    "input_image": lambda part: read_responses_request({"model": "m", "input": [{"role": "user", "content": [part]}]}),
    "image": lambda part: read_messages(
        {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": [part]}]}
    ),
}


@pytest.mark.parametrize(
    "part, path",
    [
        ({"type": "image_url", "image_url": {"url": "data:image/png;base64,?"}}, "content[0].image_url.url"),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, "content[0].image_url.url"),
        ({"type": "input_image", "image_url": "data:image/png;base64,AAA"}, "content[0].image_url"),
        ({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "?"}}, "source.data"),
        ({"type": "image", "source": {"type": "wishes"}}, "source.type"),
    ],
)
def test_a_damaged_part_is_refused_with_its_path(part: dict[str, Any], path: str) -> None:
    with pytest.raises(DefinitionError) as refused:
        READERS[part["type"]](part)
    assert path in (refused.value.param or "")


def conversation(*media: Media) -> ToolCallRequest:
    calls = [ToolCall("c1", name="shoot"), ToolCall("c2", name="shoot")]
    return ToolCallRequest(
        messages=(
            ChatMessage("user", ["Look:", *media]),
            ChatMessage.assistant(tool_calls=calls),
            ChatMessage("tool", [ToolResult("c1", "shoot", "", media=media)]),
            ChatMessage("tool", [ToolResult("c2", "shoot", "nothing")]),
            ChatMessage.user("And?"),
        )
    )


def test_the_chat_api_gets_the_images_of_results_after_the_last_of_them() -> None:
    body = chat_body(conversation(PNG, WAV, PDF), model="m", stream=False)
    asked, _, first, second, shown, _ = body["messages"]
    parts = [
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "input_audio", "input_audio": {"data": DATA, "format": "wav"}},
        {"type": "file", "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"}},
    ]
    assert asked["content"] == [{"type": "text", "text": "Look:"}, *parts]
    assert (first["role"], second["role"], shown["role"]) == ("tool", "tool", "user")
    assert first["content"] == "The result is in the next message."
    assert shown["content"] == [{"type": "text", "text": "The result of shoot (c1):"}, *parts]


def test_the_responses_api_gets_them_in_the_output() -> None:
    body = responses_body(conversation(PNG, PDF), model="m", stream=False)
    parts = [
        {"type": "input_image", "detail": "auto", "image_url": URL},
        {"type": "input_file", "filename": "a.pdf", "file_data": f"data:application/pdf;base64,{DATA}"},
    ]
    assert body["input"][0]["content"] == [{"type": "input_text", "text": "Look:"}, *parts]
    outputs = [item["output"] for item in body["input"] if item["type"] == "function_call_output"]
    assert outputs == [parts, "nothing"]


def test_the_messages_api_gets_them_in_the_result() -> None:
    body = messages_body(conversation(PNG, PDF), model="m", stream=False)
    source = {"type": "base64", "media_type": "image/png", "data": DATA}
    document = {"type": "base64", "media_type": "application/pdf", "data": DATA}
    blocks = [{"type": "image", "source": source}, {"type": "document", "source": document, "title": "a.pdf"}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "Look:"}, *blocks]
    first, second = body["messages"][2]["content"]
    assert (first["content"], second["content"]) == (blocks, "nothing")


def test_ollama_gets_images_as_base64() -> None:
    body = ollama_body(conversation(PNG), model="m", stream=False)
    assert [message.get("images") for message in body["messages"]] == [[DATA], None, [DATA], None, None]


@pytest.mark.parametrize(
    "read, write",
    [
        (read_chat, chat_body),
        (read_responses_request, responses_body),
        (read_messages, messages_body),
    ],
)
def test_what_an_api_writes_it_reads_back(
    read: Callable[[dict[str, Any]], ToolCallRequest], write: Callable[..., dict[str, Any]]
) -> None:
    request = read(write(conversation(PNG, PDF), model="m", stream=False))
    media = [
        one for message in request.messages for one in (*message.media, *(m for r in message.results for m in r.media))
    ]
    assert [(one.media_type, one.data) for one in media] == [(one.media_type, one.data) for one in (PNG, PDF)] * 2


def test_each_api_says_what_it_has_no_part_for() -> None:
    theirs = Media("file", file_id="file_1", provider="anthropic")
    ours = Media("file", file_id="file-1", provider="openai")
    ogg = Media("audio", "audio/ogg", data=DATA)
    remote_pdf = Media("file", url="https://example.com/a.pdf")
    samples = (PNG, REMOTE, WAV, ogg, PDF, remote_pdf, ours, theirs)
    assert [takes_in_chat(one) for one in samples] == [True, True, True, False, True, False, True, False]
    assert [takes_in_responses(one) for one in samples] == [True, True, True, False, True, True, True, False]
    assert [anthropic_media.takes_media(one) for one in samples] == [True, True, False, False, True, True, False, True]
