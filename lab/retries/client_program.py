"""A client with its default settings, in the virtual environment of its SDK: `client_program.py NAME URL`.

It reads one JSON object a line, with `text` and `stream`, and prints one with the `answer` or the `error`.
"""

import asyncio
import json
import sys
from collections.abc import Callable
from typing import Any


def openai_chat(url: str) -> Callable[[str, bool], str]:
    from openai import OpenAI

    client = OpenAI(base_url=f"{url}/v1", api_key="x")

    def ask(text: str, stream: bool) -> str:
        messages: Any = [{"role": "user", "content": text}]
        if not stream:
            return client.chat.completions.create(model="m", messages=messages).choices[0].message.content or ""
        chunks = client.chat.completions.create(model="m", messages=messages, stream=True)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)

    return ask


def anthropic_messages(url: str) -> Callable[[str, bool], str]:
    from anthropic import Anthropic

    client = Anthropic(base_url=url, api_key="x")

    def ask(text: str, stream: bool) -> str:
        fields: Any = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": text}]}
        if not stream:
            return "".join(getattr(part, "text", "") for part in client.messages.create(**fields).content)
        with client.messages.stream(**fields) as events:
            return "".join(events.text_stream)

    return ask


def langchain_openai(url: str) -> Callable[[str, bool], str]:
    from langchain_openai import ChatOpenAI

    model = ChatOpenAI(base_url=f"{url}/v1", api_key="x", model="m")

    def ask(text: str, stream: bool) -> str:
        if not stream:
            return str(model.invoke(text).content)
        return "".join(str(chunk.content) for chunk in model.stream(text))

    return ask


def agents_sdk(url: str) -> Callable[[str, bool], str]:
    from agents import Agent, OpenAIResponsesModel, Runner, set_tracing_disabled
    from openai import AsyncOpenAI

    set_tracing_disabled(True)

    async def run(text: str, stream: bool) -> str:
        model = OpenAIResponsesModel("m", AsyncOpenAI(base_url=f"{url}/v1", api_key="x"))
        agent = Agent(name="Payer", model=model)
        if not stream:
            return str((await Runner.run(agent, text)).final_output)
        result = Runner.run_streamed(agent, text)
        async for _ in result.stream_events():
            pass
        return str(result.final_output)

    return lambda text, stream: asyncio.run(run(text, stream))


CLIENTS = {one.__name__: one for one in (openai_chat, anthropic_messages, langchain_openai, agents_sdk)}


def main() -> None:
    ask = CLIENTS[sys.argv[1]](sys.argv[2])
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer: dict[str, Any] = {"answer": ask(question["text"], question["stream"])}
        # Whatever a client raises is what its user sees.
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
