"""A conversation of several turns in which Ferrule runs the tools. It is saved, loaded and resumed.

`ToolConversation` runs the loop of `tool_calling.py`: it sends the messages, runs the calls, sends the results, and
repeats until the model answers or a limit is reached.
"""

from __future__ import annotations

import json

from engine_option import engine_of, options

from ferrule import ChatMessage, ChoicePolicy, Role, ToolCallRequest, ToolConversation, ToolExecutor, tool
from ferrule.sources import Functions

SHOPPING: list[str] = []


@tool
def add_item(item: str) -> str:
    """Adds an item to the shopping list."""
    SHOPPING.append(item)
    return f"The list is now: {', '.join(SHOPPING)}."


REQUEST = ToolCallRequest(
    messages=(),
    # The model must call a tool before it answers in each turn; after that it is free to choose.
    tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
    parallel_tool_calls=False,
    max_tokens=40,
    temperature=0.0,
)


def show(messages: list[ChatMessage]) -> None:
    """Print the messages that a turn has added."""
    for message in messages:
        for call in message.tool_calls:
            print(f"  calls: {call.name} {call.function.arguments}")
        for result in message.results:
            print(f"  {result.name} {'failed' if result.is_error else 'returned'}: {result.text}")
        if message.role is Role.ASSISTANT and message.content.strip():
            print(f"model: {message.content.strip()}")


def say(talk: ToolConversation, text: str) -> None:
    previous = len(talk.messages)
    print(f"\nyou: {text}")
    talk.send_message_sync(text)
    show(talk.messages[previous + 1 :])
    print(f"  ({len(talk.messages)} messages so far)")


def main() -> None:
    engine = engine_of(options(__doc__).parse_args())
    # At most two rounds of calls per turn. After that the model must answer.
    tools = ToolExecutor(Functions([add_item]), max_iterations=2)
    talk = ToolConversation(engine, tools, request=REQUEST)
    say(talk, "Add milk to the shopping list.")
    say(talk, "Add bread to the shopping list.")

    # The whole conversation is JSON: save it to a file or send it. Pass the engine and the tools again to load it.
    saved = json.dumps(talk.save())
    print(f"\nsaved: {len(saved)} bytes of JSON")
    loaded = ToolConversation.load(json.loads(saved), engine, tools, request=REQUEST)
    say(loaded, "Add apples to the shopping list.")
    print(f"\nthe list: {', '.join(SHOPPING)}")


if __name__ == "__main__":
    main()
