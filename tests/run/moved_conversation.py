"""One step of a conversation in a process of its own: `moved_conversation.py KIND STEP`, the saved text on stdin.

It prints what the step gave and the conversation, saved again. The model is a function of what it reads, so that a
message that was lost or changed on the way changes its answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from ferrule import ChatMessage, Reasoning, Reply, Role, ToolCall, ToolConversation, ToolDefinition, ToolResult, tool
from ferrule.core.message import messages_as_json
from ferrule.core.reply import events_of
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import with_receipts
from ferrule.events import Event

ECHO = ToolDefinition.build("echo").parameter("value", {}).done()


@tool
def echo(value: Any) -> Any:
    """Returns what it gets."""
    return {"echoed": value}


@tool(side_effects=True)
def post(text: str) -> str:
    """Posts a text, which can be seen in what the process writes."""
    sys.stderr.write(f"posted {text!a}\n")
    return f"posted {text}"


TOOLS: Mapping[str, Any] = {"runs": [echo, post], "hands out": [ECHO]}


class AttentiveModel(Engine):
    """Calls what the user writes as JSON; answers results, and everything else, with all that it has read."""

    traits = Traits(name="attentive", honours=ALL_CHOICES)

    async def stream_request(self, request: Any) -> AsyncGenerator[Event, None]:
        for event in events_of(with_receipts(self._reply(request.messages))):
            yield event

    async def close(self) -> None:
        return

    @staticmethod
    def _reply(messages: tuple[ChatMessage, ...]) -> Reply:
        if messages[-1].role is not Role.USER or not messages[-1].content.startswith("["):
            return Reply.of(Reasoning("I read it all."), json.dumps(messages_as_json(messages)))
        calls = [
            ToolCall.of(name, arguments, id=f"call_{len(messages)}_{at}")
            for at, (name, arguments) in enumerate(json.loads(messages[-1].content))
        ]
        return Reply.of(Reasoning("Tools help."), "I call them.", *calls)


def decide_later(call: ToolCall) -> None:
    return None


def take_step(talk: ToolConversation, step: Mapping[str, Any]) -> dict[str, Any]:
    """Do one step; return what its caller sees."""
    match step:
        case {"say": str(text)}:
            turn = talk.send_message_sync(text)
        case {"results": values}:
            results = [ToolResult(call.id, "", value) for call, value in zip(talk.last.calls, values, strict=True)]
            turn = talk.submit_tool_results_sync(results)
        case _:
            turn = talk.resume_sync()
    calls = [call.as_openai() for call in turn.calls]
    return {"text": turn.text, "calls": calls, "state": turn.state.value, "unfinished": talk.is_unfinished}


def main(kind: str, step: Mapping[str, Any], saved: str) -> None:
    approves = "approve" in step
    options: dict[str, Any] = {"decide": (lambda call: True) if approves else decide_later}
    if saved:
        talk = ToolConversation.load(json.loads(saved), AttentiveModel(), TOOLS[kind], **options)
    else:
        talk = ToolConversation(AttentiveModel(), TOOLS[kind], system="Be brief.", **options)
    seen = take_step(talk, step)
    print(json.dumps({"seen": seen, "saved": json.dumps(talk.save())}))


if __name__ == "__main__":
    main(sys.argv[1], json.loads(sys.argv[2]), sys.stdin.buffer.read().decode())
