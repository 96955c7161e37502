"""OpenAI's own harmony library: conversations to text, and text to messages.

The library would download its vocabulary; `scripts/setup-oracles` has stored the file, and this module points to it.
"""

import importlib
import json
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, TypedDict


class Message(TypedDict):
    role: str
    name: str | None
    channel: str | None
    recipient: str | None
    content_type: str | None
    text: str


def render(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> str:
    """A conversation (OpenAI messages) as text. `reasoning` of an assistant message goes to the analysis channel."""
    library = _library()
    messages_out: list[Any] = []
    if tools:
        described = [library.ToolDescription.new(**_description(tool)) for tool in tools]
        content = library.DeveloperContent.new().with_function_tools(described)
        messages_out.append(library.Message.from_role_and_content(library.Role.DEVELOPER, content))
    for message in messages:
        messages_out.extend(_messages(library, message))
    encoding = _encoding()
    return encoding.decode(encoding.render_conversation(library.Conversation.from_messages(messages_out)))


def parse(text: str) -> list[Message]:
    """The messages of a completion, which begins where the prompt's `<|start|>assistant` ended."""
    encoding = _encoding()
    tokens = encoding.encode(text, allowed_special="all")
    parsed = encoding.parse_messages_from_completion_tokens(tokens, _library().Role.ASSISTANT)
    return [
        {
            "role": message.author.role.value,
            "name": message.author.name,
            "channel": message.channel,
            "recipient": message.recipient,
            "content_type": message.content_type,
            "text": "".join(part.text for part in message.content),
        }
        for message in parsed
    ]


def _messages(library: Any, message: Mapping[str, Any]) -> list[Any]:
    make = library.Message.from_role_and_content
    role, content = message["role"], message.get("content")
    match role:
        case "assistant":
            return _assistant_messages(library, message)
        case "tool":
            author = library.Author.new(library.Role.TOOL, f"functions.{message['name']}")
            return [
                library.Message.from_author_and_content(author, content)
                .with_channel("commentary")
                .with_recipient("assistant")
            ]
        case "system":
            instructions = library.DeveloperContent.new().with_instructions(content)
            return [make(library.Role.DEVELOPER, instructions)]
        case _:
            return [make(library.Role(role), content)]


def _assistant_messages(library: Any, message: Mapping[str, Any]) -> list[Any]:
    make, assistant = library.Message.from_role_and_content, library.Role.ASSISTANT
    calls: Sequence[Mapping[str, Any]] = message.get("tool_calls") or ()
    result: list[Any] = []
    if message.get("reasoning"):
        result.append(make(assistant, message["reasoning"]).with_channel("analysis"))
    if message.get("content"):
        result.append(make(assistant, message["content"]).with_channel("commentary" if calls else "final"))
    for call in calls:
        function = call["function"]
        arguments = function["arguments"]
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        result.append(
            make(assistant, text)
            .with_channel("commentary")
            .with_recipient(f"functions.{function['name']}")
            .with_content_type("<|constrain|>json")
        )
    return result


def _description(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = tool.get("function", tool)
    return {
        "name": function["name"],
        "description": function.get("description", ""),
        "parameters": function.get("parameters"),
    }


@cache
def _library() -> Any:
    os.environ["TIKTOKEN_RS_CACHE_DIR"] = str(Path(sys.prefix).parents[1] / "harmony")
    return importlib.import_module("openai_harmony")


@cache
def _encoding() -> Any:
    library = _library()
    return library.load_harmony_encoding(library.HarmonyEncodingName.HARMONY_GPT_OSS)
