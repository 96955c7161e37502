"""The runs of real clients against the gateway, as a table: which client, which function, which API."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRun:
    """One way to use a client. `venv` is where it is installed, `op` the worker's operation.

    `calls` is the minimum number of calls; `max_calls` None means no maximum. `tool` is the tool that was named.
    """

    client: str
    name: str
    venv: str
    op: str
    api: str
    is_streamed: bool = False
    calls: int = 1
    max_calls: int | None = None
    tool: str = ""

    @property
    def label(self) -> str:
        return f"{self.client}, {self.name}"


_OPENAI: Final = "OpenAI's client"
_ANTHROPIC: Final = "Anthropic's client"
_AGENTS: Final = "OpenAI Agents SDK"
_PYDANTIC: Final = "Pydantic AI"
_WEATHER: Final = "get_weather"


def _chat(name: str, op: str, *, is_streamed: bool = False, most: int | None = None, tool: str = "") -> ClientRun:
    return ClientRun(
        client=_OPENAI,
        name=f"chat, {name}",
        venv="openai",
        op=f"live_openai.{op}",
        api="chat",
        is_streamed=is_streamed,
        max_calls=most,
        tool=tool,
    )


def _response(name: str, op: str, *, is_streamed: bool = False, most: int | None = None, tool: str = "") -> ClientRun:
    return ClientRun(
        client=_OPENAI,
        name=f"Responses, {name}",
        venv="openai",
        op=f"live_openai.{op}",
        api="responses",
        is_streamed=is_streamed,
        max_calls=most,
        tool=tool,
    )


def _message(name: str, op: str, *, is_streamed: bool = False, most: int | None = None, tool: str = "") -> ClientRun:
    return ClientRun(
        client=_ANTHROPIC,
        name=name,
        venv="anthropic",
        op=f"live_anthropic.{op}",
        api="messages",
        is_streamed=is_streamed,
        max_calls=most,
        tool=tool,
    )


def _loop(client: str, venv: str, name: str, op: str, api: str, *, is_streamed: bool = False) -> ClientRun:
    return ClientRun(client=client, name=name, venv=venv, op=op, api=api, is_streamed=is_streamed)


CHAT: Final[Sequence[ClientRun]] = (
    _chat("create, required", "chat_create"),
    _chat("create, required, stream=True", "chat_chunks", is_streamed=True),
    _chat("stream(), required, with usage", "chat_stream", is_streamed=True),
    _chat("create, one named tool", "chat_named", tool=_WEATHER),
    _chat("create, parallel_tool_calls off", "chat_one_call", most=1),
    _chat("create, parallel_tool_calls on", "chat_parallel"),
    _chat("parse(), a tool as a Pydantic model", "chat_parse_tool", tool="book_table"),
)
RESPONSES: Final[Sequence[ClientRun]] = (
    _response("create, required", "response_create"),
    _response("create, required, stream=True", "response_events", is_streamed=True),
    _response("stream(), required", "response_stream", is_streamed=True),
    _response("create, one named tool", "response_named", tool=_WEATHER),
    _response("create, parallel_tool_calls off", "response_one_call", most=1),
    _response("create, parallel_tool_calls on", "response_parallel"),
    _response("parse(), a tool as a Pydantic model", "response_parse_tool", tool="book_table"),
)
MESSAGES: Final[Sequence[ClientRun]] = (
    _message("create, any", "create"),
    _message("create, any, stream=True", "events", is_streamed=True),
    _message("stream(), any", "stream", is_streamed=True),
    _message("create, one named tool", "named_tool", tool=_WEATHER),
    _message("create, disable_parallel_tool_use", "one_call", most=1),
    _message("tool_runner()", "run_tools"),
    _message("tool_runner(stream=True)", "run_tools_streamed", is_streamed=True),
)
AGENTS: Final[Sequence[ClientRun]] = (
    _loop(_AGENTS, "agents", "Responses, run", "live_agents.run", "responses"),
    _loop(_AGENTS, "agents", "Responses, run_streamed", "live_agents.run_streamed", "responses", is_streamed=True),
    _loop(_AGENTS, "agents", "chat, run", "live_agents.run_chat", "chat"),
    _loop(_AGENTS, "agents", "chat, run_streamed", "live_agents.run_chat_streamed", "chat", is_streamed=True),
)
PYDANTIC_AI: Final[Sequence[ClientRun]] = (
    _loop(_PYDANTIC, "pydantic-ai", "chat, run", "live_pydantic_ai.run", "chat"),
    _loop(_PYDANTIC, "pydantic-ai", "chat, run_stream", "live_pydantic_ai.run_streamed", "chat", is_streamed=True),
    _loop(_PYDANTIC, "pydantic-ai", "Responses, run", "live_pydantic_ai.run_responses", "responses"),
)
CLIENT_RUNS: Final[Sequence[ClientRun]] = (*CHAT, *RESPONSES, *MESSAGES, *AGENTS, *PYDANTIC_AI)
