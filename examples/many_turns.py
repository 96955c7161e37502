"""A conversation of several turns, in which Ferrule runs the tools, and which goes on after it was saved and loaded.

`ToolConversation` is the loop of `tool_calling.py`: it asks, runs what is called, tells the model, and asks again until
the model answers or a limit is reached.
"""

from __future__ import annotations

import json

from engine_option import engine_of, options

from ferrule import ChatMessage, ChoicePolicy, Role, ToolCallRequest, ToolConversation, ToolExecutor, tool
from ferrule.sources.functions import Functions

SHOPPING: list[str] = []


@tool
def add_item(item: str) -> str:
    """Adds an item to the shopping list."""
    SHOPPING.append(item)
    return f"The list is now: {', '.join(SHOPPING)}."


REQUEST = ToolCallRequest(
    messages=(),
    # A call before the first answer of each turn; after that the model may do as it likes.
    tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
    parallel_tool_calls=False,
    max_tokens=40,
    temperature=0.0,
)


def show(messages: list[ChatMessage]) -> None:
    """What a turn has added to the conversation."""
    for message in messages:
        for call in message.tool_calls:
            print(f"  calls: {call.name} {call.function.arguments}")
        for result in message.results:
            print(f"  {result.name} {'failed' if result.is_error else 'gave'}: {result.text}")
        if message.role is Role.ASSISTANT and message.content.strip():
            print(f"model: {message.content.strip()}")


def say(talk: ToolConversation, text: str) -> None:
    known = len(talk.messages)
    print(f"\nyou: {text}")
    talk.send(text)
    show(talk.messages[known + 1 :])
    print(f"  ({len(talk.messages)} messages so far)")


def main() -> None:
    engine = engine_of(options(__doc__).parse_args())
    # At most two rounds of calls a turn. A model that wants more is told so and asked for its answer.
    tools = ToolExecutor(Functions([add_item]), max_iterations=2)
    talk = ToolConversation(engine, tools, request=REQUEST)
    say(talk, "Add milk to the shopping list.")
    say(talk, "Add bread to the shopping list.")

    # The whole conversation is JSON: keep it in a file, send it elsewhere. Engine and tools are given again.
    saved = json.dumps(talk.save())
    print(f"\nsaved: {len(saved)} bytes of JSON")
    loaded = ToolConversation.load(json.loads(saved), engine, tools, request=REQUEST)
    say(loaded, "Add apples to the shopping list.")
    print(f"\nthe list: {', '.join(SHOPPING)}")


if __name__ == "__main__":
    main()
