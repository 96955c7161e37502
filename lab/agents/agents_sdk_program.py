"""An agent with one tool, made with OpenAI's Agents SDK; its answers are streamed. Arguments: URL, model, question."""

import asyncio
import importlib
import os
import subprocess
import sys
from typing import Any


def bash(command: str) -> str:
    """Run a command."""
    return subprocess.run(["sh", "-c", command], check=False, capture_output=True, encoding="utf-8").stdout


async def main() -> None:
    url, model, question = sys.argv[1:]
    # Otherwise the SDK sends traces to OpenAI.
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    agents: Any = importlib.import_module("agents")
    openai: Any = importlib.import_module("openai")
    client = openai.AsyncOpenAI(api_key="none", base_url=f"{url}/v1")
    agent = agents.Agent(
        name="worker",
        tools=[agents.function_tool(bash)],
        model=agents.OpenAIResponsesModel(model=model, openai_client=client),
    )
    result = agents.Runner.run_streamed(agent, question)
    async for _ in result.stream_events():
        pass
    print(result.final_output)


if __name__ == "__main__":
    asyncio.run(main())
