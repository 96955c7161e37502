"""OpenAI's Agents SDK against a gateway: its tool loop, over the Responses API (its own default) and over chat."""

import asyncio
import importlib
import os
from collections.abc import Mapping
from typing import Any

from lab.clients import task

Given = Mapping[str, Any]
Told = Mapping[str, Any]


def run(given: Given) -> Told:
    return asyncio.run(_run(given, "responses", is_streamed=False))


def run_streamed(given: Given) -> Told:
    return asyncio.run(_run(given, "responses", is_streamed=True))


def run_chat(given: Given) -> Told:
    return asyncio.run(_run(given, "chat", is_streamed=False))


def run_chat_streamed(given: Given) -> Told:
    return asyncio.run(_run(given, "chat", is_streamed=True))


async def _run(given: Given, api: str, *, is_streamed: bool) -> Told:
    # Otherwise it tries to tell its maker what was done.
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    agents: Any = importlib.import_module("agents")
    openai: Any = importlib.import_module("openai")
    client = openai.AsyncOpenAI(api_key=given.get("key", "none"), base_url=f"{given['url']}/v1")
    kinds = {"responses": agents.OpenAIResponsesModel, "chat": agents.OpenAIChatCompletionsModel}
    ran: list[list[str]] = []
    agent = agents.Agent(
        name="host",
        instructions=task.INSTRUCTIONS,
        tools=[_tool(agents, name, ran) for name in task.SCHEMAS],
        model=kinds[api](model=given.get("model", "smol"), openai_client=client),
        # It asks for a call once, and leaves it to the model when the result is there: the SDK's own rule.
        model_settings=agents.ModelSettings(
            tool_choice="required", max_tokens=task.MAX_TOKENS, temperature=task.TEMPERATURE
        ),
    )
    try:
        if is_streamed:
            result = agents.Runner.run_streamed(agent, task.QUESTION, max_turns=task.MOST_TURNS)
            async for _ in result.stream_events():
                pass
        else:
            result = await agents.Runner.run(agent, task.QUESTION, max_turns=task.MOST_TURNS)
        told: dict[str, Any] = {"text": str(result.final_output), "finish": "completed"}
    except agents.MaxTurnsExceeded:
        # So small a model may go on calling: every call counts, and the loop is the SDK's to end.
        told = {"text": "", "finish": "max_turns"}
    except agents.ModelBehaviorError as cut:
        # Over Responses the SDK raises for an answer that ran out of its budget, here that after the tools' results.
        if "max_output_tokens" not in str(cut):
            raise
        told = {"text": "", "finish": "incomplete"}
    await client.close()
    return {**told, "calls": ran}


def _tool(agents: Any, name: str, ran: list[list[str]]) -> Any:
    async def invoked(context: Any, arguments: str) -> str:
        ran.append([str(context.tool_call_id), name, arguments])
        return task.ANSWERS[name]

    return agents.FunctionTool(
        name=name,
        description=task.ABOUT[name],
        params_json_schema=task.SCHEMAS[name],
        on_invoke_tool=invoked,
        strict_json_schema=False,
    )
