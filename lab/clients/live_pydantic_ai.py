"""Pydantic AI against a gateway: its tool loop, with a function whose types it checks itself."""

import asyncio
import importlib
import json
from collections.abc import Mapping
from typing import Any

from lab.clients import task

Given = Mapping[str, Any]
Told = Mapping[str, Any]


def run(given: Given) -> Told:
    return asyncio.run(_run(given, "chat", is_streamed=False))


def run_streamed(given: Given) -> Told:
    return asyncio.run(_run(given, "chat", is_streamed=True))


def run_responses(given: Given) -> Told:
    return asyncio.run(_run(given, "responses", is_streamed=False))


async def _run(given: Given, api: str, *, is_streamed: bool) -> Told:
    library: Any = importlib.import_module("pydantic_ai")
    models: Any = importlib.import_module("pydantic_ai.models.openai")
    providers: Any = importlib.import_module("pydantic_ai.providers.openai")
    limits: Any = importlib.import_module("pydantic_ai.usage")
    kinds = {"chat": models.OpenAIChatModel, "responses": models.OpenAIResponsesModel}
    provider = providers.OpenAIProvider(base_url=f"{given['url']}/v1", api_key=given.get("key", "none"))
    ran: list[list[str]] = []
    agent = library.Agent(
        kinds[api](given.get("model", "smol"), provider=provider),
        instructions=task.INSTRUCTIONS,
        tools=[_tool(library, name, ran) for name in task.SCHEMAS],
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
        told: dict[str, Any] = {"text": text, "finish": "completed"}
    except library.UsageLimitExceeded:
        told = {"text": "", "finish": "max_turns"}
    return {**told, "calls": ran}


def _tool(library: Any, name: str, ran: list[list[str]]) -> Any:
    def invoked(**arguments: Any) -> str:
        ran.append([f"{name}-{len(ran)}", name, json.dumps(arguments)])
        return task.ANSWERS[name]

    return library.Tool.from_schema(
        invoked, name=name, description=task.ABOUT[name], json_schema=task.SCHEMAS[name], takes_ctx=False
    )
