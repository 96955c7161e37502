"""OpenAI's Agents SDK against a gateway: its tool loop, over the Responses API (its own default) and over chat."""

import asyncio
import importlib
import os
from collections.abc import Mapping
from typing import Any

from lab.clients import task

RunOptions = Mapping[str, Any]
RunSummary = Mapping[str, Any]


def run(options: RunOptions) -> RunSummary:
    return asyncio.run(_run(options, "responses", is_streamed=False))


def run_streamed(options: RunOptions) -> RunSummary:
    return asyncio.run(_run(options, "responses", is_streamed=True))


def run_chat(options: RunOptions) -> RunSummary:
    return asyncio.run(_run(options, "chat", is_streamed=False))


def run_chat_streamed(options: RunOptions) -> RunSummary:
    return asyncio.run(_run(options, "chat", is_streamed=True))


async def _run(options: RunOptions, api: str, *, is_streamed: bool) -> RunSummary:
    # Otherwise the SDK sends traces to OpenAI.
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    agents: Any = importlib.import_module("agents")
    openai: Any = importlib.import_module("openai")
    client = openai.AsyncOpenAI(api_key=options.get("key", "none"), base_url=f"{options['url']}/v1")
    kinds = {"responses": agents.OpenAIResponsesModel, "chat": agents.OpenAIChatCompletionsModel}
    executed: list[list[str]] = []
    agent = agents.Agent(
        name="host",
        instructions=task.INSTRUCTIONS,
        tools=[_tool(agents, name, executed) for name in task.SCHEMAS],
        model=kinds[api](model=options.get("model", "smol"), openai_client=client),
        # The SDK requires a call once, and lets the model decide after the result.
        # One call at a time: the SDK runs none of a reply that the token limit ends, and a weak model goes on and on.
        model_settings=agents.ModelSettings(
            tool_choice="required",
            parallel_tool_calls=False,
            max_tokens=task.MAX_TOKENS,
            temperature=task.TEMPERATURE,
        ),
    )
    try:
        if is_streamed:
            result = agents.Runner.run_streamed(agent, task.QUESTION, max_turns=task.MOST_TURNS)
            async for _ in result.stream_events():
                pass
        else:
            result = await agents.Runner.run(agent, task.QUESTION, max_turns=task.MOST_TURNS)
        summary: dict[str, Any] = {"text": str(result.final_output), "finish": "completed"}
    except agents.MaxTurnsExceeded:
        # So small a model may keep calling. Every call counts, and the SDK ends the loop.
        summary = {"text": "", "finish": "max_turns"}
    except agents.ModelBehaviorError as cut:
        # Over Responses the SDK raises if an answer reaches its token limit, here the answer after the tool results.
        if "max_output_tokens" not in str(cut):
            raise
        summary = {"text": "", "finish": "incomplete"}
    await client.close()
    return {**summary, "calls": executed}


def _tool(agents: Any, name: str, executed: list[list[str]]) -> Any:
    async def invoke(context: Any, arguments: str) -> str:
        executed.append([str(context.tool_call_id), name, arguments])
        return task.ANSWERS[name]

    return agents.FunctionTool(
        name=name,
        description=task.ABOUT[name],
        params_json_schema=task.SCHEMAS[name],
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )
