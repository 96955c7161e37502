"""Tools, and then a structured answer: JSON that matches a schema, converted to the program's own type."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

from engine_option import engine_of, options

from ferrule import ChoicePolicy, FinishReason, ToolCallRequest, ToolConversation, ToolExecutor, tool
from ferrule.sources.functions import Functions


@dataclass(frozen=True, slots=True)
class Advice:
    city: str
    degrees: int
    sky: Literal["sunny", "cloudy", "rainy"]


SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "degrees": {"type": "integer", "minimum": -60, "maximum": 60},
        "sky": {"enum": ["sunny", "cloudy", "rainy"]},
    },
    "required": ["city", "degrees", "sky"],
    "additionalProperties": False,
}


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"{city}: rainy, 21 degrees"


def main() -> None:
    engine = engine_of(options(__doc__).parse_args())
    request = ToolCallRequest(
        messages=(),
        tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP,
        parallel_tool_calls=False,
        response_schema=SCHEMA,  # constrains every answer; calls are constrained by the schemas of their tools
        max_tokens=80,
        temperature=0.0,
    )
    tools = ToolExecutor(Functions([get_weather]), max_iterations=1)
    talk = ToolConversation(engine, tools, request=request)
    question = "How is the weather in Rome?"
    print(f"you: {question}")
    turn = talk.send_message_sync(question)
    for message in talk.messages:
        for call in message.tool_calls:
            print(f"calls: {call.name} {call.function.arguments}")
        for result in message.results:
            print(f"{result.name} returned: {result.text}")
    print(f"model: {turn.text}")
    if turn.reply.finish_reason is FinishReason.LENGTH:
        raise SystemExit("the answer was cut off: raise max_tokens")
    # No validation is needed here: the engine enforced the schema, or Ferrule checked the answer.
    advice = Advice(**json.loads(turn.text))
    print(f"as a value: {advice}")
    print("take an umbrella" if advice.sky == "rainy" else "leave the umbrella")


if __name__ == "__main__":
    main()
