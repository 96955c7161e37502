"""Asks an agent of one framework ten questions, with a Ferrule model, two tools and the framework's default choice.

Runs in the interpreter of the framework's venv, with Ferrule's sources on the path. Arguments: the framework and the
engine's spec. Writes a line of JSON for each question: the calls that ran, the answer, and the error if there was one.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any

from ferrule import tool

QUESTIONS = (
    "How is the weather in Rome?",
    "What is 12 times 34?",
    "Is it snowing in Oslo right now? Use the tool.",
    "Multiply 17 by 23.",
    "Tell me the weather in Paris.",
    "I need the product of 99 and 101.",
    "What should I wear in Rome today? Look up the weather there.",
    "Compute 7 * 8 with the tool.",
    "Weather in Oslo, please.",
    "How much is 250 multiplied by 4?",
)
INSTRUCTIONS = "You answer questions with the help of your tools."
MAX_TOKENS = 160
_ran: list[tuple[str, dict[str, Any]]] = []


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    _ran.append(("get_weather", {"city": city}))
    return {"Paris": "sunny, 24 degrees", "Rome": "showers, 21 degrees", "Oslo": "snow, 2 degrees"}.get(city, "fair")


@tool
def multiply(a: int, b: int) -> int:
    """Multiplies two numbers."""
    _ran.append(("multiply", {"a": a, "b": b}))
    return a * b


TOOLS = [get_weather, multiply]
Ask = Callable[[str], str]


def langchain(spec: str) -> Ask:
    from langchain.agents import create_agent

    from ferrule.integrations.langchain import ChatFerrule, export_tools

    model = ChatFerrule(spec, temperature=0, max_tokens=MAX_TOKENS)
    agent: Any = create_agent(model, export_tools(TOOLS), system_prompt=INSTRUCTIONS)
    return lambda question: str(agent.invoke({"messages": [("user", question)]})["messages"][-1].content)


def llamaindex(spec: str) -> Ask:
    from llama_index.core.agent.workflow import FunctionAgent

    from ferrule.integrations.llamaindex import FerruleLLM, export_tools

    model = FerruleLLM(spec, temperature=0.0, max_tokens=MAX_TOKENS)
    agent: Any = FunctionAgent(tools=export_tools(TOOLS), llm=model, system_prompt=INSTRUCTIONS)
    loop = asyncio.new_event_loop()

    async def run(question: str) -> str:
        return str(await agent.run(question))

    return lambda question: loop.run_until_complete(run(question))


def crewai(spec: str) -> Ask:
    from crewai import Agent, Crew, Task

    from ferrule.integrations.crewai import FerruleLLM, export_tools

    model = FerruleLLM(spec, temperature=0.0, max_tokens=MAX_TOKENS)

    def ask(question: str) -> str:
        agent: Any = Agent(
            role="assistant", goal="answer questions", backstory="brief", llm=model, tools=export_tools(TOOLS)
        )
        task: Any = Task(description=question, expected_output="one sentence", agent=agent)
        return str(Crew(agents=[agent], tasks=[task]).kickoff().raw)

    return ask


def pydantic_ai(spec: str) -> Ask:
    from pydantic_ai import Agent

    from ferrule.integrations.pydantic_ai import FerruleModel, export_tools

    agent: Any = Agent(FerruleModel(spec), toolsets=export_tools(TOOLS), instructions=INSTRUCTIONS)
    settings: Any = {"temperature": 0.0, "max_tokens": MAX_TOKENS}
    return lambda question: str(agent.run_sync(question, model_settings=settings).output)


def openai_agents(spec: str) -> Ask:
    from agents import Agent, ModelSettings, Runner

    from ferrule.integrations.openai_agents import FerruleModel, export_tools

    settings = ModelSettings(temperature=0.0, max_tokens=MAX_TOKENS)
    agent: Any = Agent(
        name="assistant",
        instructions=INSTRUCTIONS,
        model=FerruleModel(spec),
        model_settings=settings,
        tools=export_tools(TOOLS),
    )
    return lambda question: str(Runner.run_sync(agent, question).final_output)


FRAMEWORKS: dict[str, Callable[[str], Ask]] = {
    "langchain": langchain,
    "llamaindex": llamaindex,
    "crewai": crewai,
    "pydantic-ai": pydantic_ai,
    "openai-agents": openai_agents,
}


def main() -> None:
    ask = FRAMEWORKS[sys.argv[1]](sys.argv[2])
    for question in QUESTIONS:
        _ran.clear()
        answer = error = ""
        try:
            answer = ask(question)
        # A framework may raise anything for a question, and the next one is asked all the same.
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"[:300]
        # Frameworks print to stdout, so the lines have a mark.
        print("RESULT " + json.dumps({"question": question, "ran": _ran, "answer": answer, "error": error}), flush=True)


if __name__ == "__main__":
    main()
