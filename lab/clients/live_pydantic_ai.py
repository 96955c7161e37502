"""Pydantic AI against a gateway: its tool loop, with a function whose types it checks itself."""

import asyncio
import importlib
import json
from collections.abc import Mapping
from typing import Any

from lab.clients import task

Given = Mapping[str, Any]
Told = Mapping[str, Any]


def run(options: Given) -> Told:
    return asyncio.run(_run(options, "chat", is_streamed=False))


def run_streamed(options: Given) -> Told:
    return asyncio.run(_run(options, "chat", is_streamed=True))


def run_responses(options: Given) -> Told:
    return asyncio.run(_run(options, "responses", is_streamed=False))


async def _run(options: Given, api: str, *, is_streamed: bool) -> Told:
    library: Any = importlib.import_module("pydantic_ai")
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    limits: Any = importlib.import_module("pydantic_ai.usage")
    kinds = {"chat": models.OpenAIChatModel, "responses": models.OpenAIResponsesModel}
    provider = providers.OpenAIProvider(base_url=f"{options['url']}/v1", api_key=options.get("key", "none"))
    executed: list[list[str]] = []
    agent = library.Agent(
        kinds[api](options.get("model", "smol"), provider=provider),
        instructions=task.INSTRUCTIONS,
        tools=[_tool(library, name, executed) for name in task.SCHEMAS],
        model_settings={
            "max_tokens": task.MAX_TOKENS,
            "temperature": task.TEMPERATURE,
            "extra_body": dict(task.FIRST_HOP),
        },
    )
    most = limits.UsageLimits(request_limit=task.MOST_TURNS)
    try:
        if is_streamed:
            async with agent.run_stream(task.QUESTION, usage_limits=most) as result:
                text = await result.get_output()
        else:
            text = (await agent.run(task.QUESTION, usage_limits=most)).output
        summary: dict[str, Any] = {"text": text, "finish": "completed"}
    except library.UsageLimitExceeded:
        summary = {"text": "", "finish": "max_turns"}
    return {**summary, "calls": executed}


def _tool(library: Any, name: str, executed: list[list[str]]) -> Any:
    def invoke(**arguments: Any) -> str:
        executed.append([f"{name}-{len(executed)}", name, json.dumps(arguments)])
        return task.ANSWERS[name]

    return library.Tool.from_schema(
        invoke, name=name, description=task.ABOUT[name], json_schema=task.SCHEMAS[name], takes_ctx=False
    )
