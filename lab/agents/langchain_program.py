"""An agent with one tool, made with LangChain; its answers are streamed. Arguments: URL, model, question."""

import importlib
import subprocess
import sys
from typing import Any


def bash(command: str) -> str:
    """Run a command."""
    return subprocess.run(["sh", "-c", command], check=False, capture_output=True, encoding="utf-8").stdout


def main() -> None:
    url, model, question = sys.argv[1:]
    agents: Any = importlib.import_module("langchain.agents")
    tools: Any = importlib.import_module("langchain_core.tools")
    openai: Any = importlib.import_module("langchain_openai")
    chat = openai.ChatOpenAI(model=model, base_url=f"{url}/v1", api_key="none", streaming=True)
    agent = agents.create_agent(chat, [tools.tool(bash)])
    messages: list[Any] = [{"role": "user", "content": question}]
    for update in agent.stream({"messages": messages}, stream_mode="values"):
        messages = update["messages"]
    print(messages[-1].content)


if __name__ == "__main__":
    main()
