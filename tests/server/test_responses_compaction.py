"""`/v1/responses/compact`: a long conversation as the user's messages and a summary that the model reads again."""

from __future__ import annotations

import asyncio
import base64
from typing import Any

import pytest

from dialects.openai_responses.codex_requests import EXEC, call, output
from ferrule.core.message import ChatMessage, Role, Text
from ferrule.core.reply import Reply
from ferrule.core.request import ChoiceMode
from ferrule.dialects.openai_responses.compaction import open_summary, seal_summary
from ferrule.dialects.openai_responses.request_decoder import read_responses_request
from server.client import gateway_of, scripted_engine
from server.responses_world import PATH, text_of

WORK: list[dict[str, Any]] = [
    {"role": "developer", "content": "You edit files."},
    {"role": "user", "content": "Read it."},
    call("c1", "exec_command", '{"cmd": "cat a"}'),
    output("c1", "ferrule"),
    {"role": "user", "content": "And now?"},
]


def texts(messages: tuple[ChatMessage, ...]) -> list[tuple[Role, str]]:
    return [
        (message.role, "".join(part.text for part in message.parts if isinstance(part, Text))) for message in messages
    ]


def test_the_output_is_the_next_input_and_the_model_reads_the_summary_after_the_users_messages() -> None:
    async def story() -> None:
        engine = scripted_engine("The word is ferrule.", "done")
        async with gateway_of(engine) as client:
            body = {"input": WORK, "tools": [EXEC], "instructions": "Be brief.", "tool_choice": "required"}
            compacted = (await client.post(f"{PATH}/compact", body)).json()
            assert compacted["object"] == "response.compaction"
            assert [item["type"] for item in compacted["output"]] == ["message", "message", "compaction"]
            asked = engine.requests[0]
            assert asked.tool_choice.mode is ChoiceMode.NONE
            # The prompt begins as those of the conversation do, so that an engine has most of it in its cache.
            request = read_responses_request(body).request
            assert asked.messages[:-1] == request.messages
            assert asked.tools == request.tools
            following = {"input": [*compacted["output"], {"role": "user", "content": "Continue."}]}
            assert text_of((await client.post(PATH, following)).json()) == "done"
            assert texts(engine.requests[1].messages) == [
                (Role.USER, "Read it."),
                (Role.USER, "And now?"),
                (Role.ASSISTANT, "Summary of the conversation so far:\nThe word is ferrule."),
                (Role.USER, "Continue."),
            ]

    asyncio.run(story())


def test_a_stored_conversation_is_compacted_with_everything_before_it() -> None:
    async def story() -> None:
        engine = scripted_engine("one", "sum")
        async with gateway_of(engine) as client:
            first = (await client.post(PATH, {"input": "a"})).json()
            body = {"input": "b", "previous_response_id": first["id"]}
            compacted = (await client.post(f"{PATH}/compact", body)).json()
            shown = [item["content"][0]["text"] for item in compacted["output"][:-1]]
            assert shown == ["a", "b"]
            assert [text for _, text in texts(engine.requests[1].messages)][:3] == ["a", "one", "b"]

    asyncio.run(story())


@pytest.mark.parametrize("reply", ["", " \n"])
def test_a_summary_that_was_not_written_is_an_error_and_not_an_empty_conversation(reply: str) -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine(Reply.of(reply))) as client:
            answer = await client.post(f"{PATH}/compact", {"input": "a"})
            assert (answer.status, answer.json()["error"]["code"]) == (502, "engine_failed")

    asyncio.run(story())


def test_the_images_of_the_user_are_kept() -> None:
    async def story() -> None:
        engine = scripted_engine("A chart.", "done")
        async with gateway_of(engine) as client:
            image = {"type": "input_image", "detail": "high", "image_url": "data:image/png;base64,AAAA"}
            asked = {"role": "user", "content": [{"type": "input_text", "text": "What is it?"}, image]}
            compacted = (await client.post(f"{PATH}/compact", {"input": [asked]})).json()
            assert compacted["output"][0]["content"] == asked["content"]
            following = {"input": [*compacted["output"], {"role": "user", "content": "And now?"}]}
            assert (await client.post(PATH, following)).status == 200
            assert engine.requests[1].messages[0].media == engine.requests[0].messages[0].media

    asyncio.run(story())


DEEP = "ferrule1." + base64.urlsafe_b64encode(b'{"summary": ' + b"[" * 100_000).decode()


@pytest.mark.parametrize("content", [DEEP, "c2VhbGVk", "ferrule1.%%", "ferrule1.W10=", "ferrule1.", "ferrule1.\u00e9"])
def test_a_compaction_of_another_service_is_taken_and_not_given_to_the_model(content: str) -> None:
    items = [{"role": "user", "content": "a"}, {"type": "compaction", "encrypted_content": content}]
    request = read_responses_request({"input": items}).request
    assert (request.messages, request.ignored) == (
        (ChatMessage.user("a"),),
        ("input[].encrypted_content=compaction",),
    )


def test_a_summary_that_cannot_be_read_is_named_in_the_answer_to_the_next_compaction() -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("sum")) as client:
            items = [{"role": "user", "content": "a"}, {"type": "compaction", "encrypted_content": "c2VhbGVk"}]
            answer = await client.post(f"{PATH}/compact", {"input": items})
            assert answer.headers["ferrule-ignored"] == "input[].encrypted_content=compaction"

    asyncio.run(story())


@pytest.mark.parametrize("summary", ["", "a", "é\n\x00" * 9])
def test_a_summary_comes_back_as_it_was(summary: str) -> None:
    assert (open_summary(seal_summary(summary)) or "").endswith(summary)
