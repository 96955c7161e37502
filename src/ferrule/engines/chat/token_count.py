"""Ask a server how many tokens a prompt has, where it has an address for that beside its chat API.

| where | what it says |
|---|---|
| `POST /apply-template`, then `POST /tokenize` | the rendered prompt, and its tokens: llama.cpp's server |
| `POST /tokenize` with messages | `count`: vLLM |

A server without either counts nothing: a guess from the length of the text would be taken for a count. Both count text
only, so a prompt with images is not counted.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

from ferrule.engines.http import HttpClient
from ferrule.errors import EngineError

CountTokens = Callable[[HttpClient, dict[str, Any]], Awaitable[int | None]]
"""Counts the tokens of a body of the chat API; None if the server cannot."""
_NO_SUCH_PATH = frozenset({404, 405, 501})


async def count_openai_tokens(http: HttpClient, body: dict[str, Any]) -> int | None:
    """Ask a server with OpenAI's chat API. Both addresses are beside `/v1`."""
    root = HttpClient(http.base.removesuffix("/v1"), http.headers, http.deadlines)
    prompt = {name: body[name] for name in ("messages", "tools") if body.get(name)}
    try:
        rendered = _fields(await _post(root, "/apply-template", prompt)).get("prompt")
        if isinstance(rendered, str):
            # As llama.cpp reads prompts of its chat API.
            text = {"content": rendered, "add_special": True, "parse_special": True}
            tokens = _fields(await _post(root, "/tokenize", text)).get("tokens")
            return len(cast("list[object]", tokens)) if isinstance(tokens, list) else None
        counted = await _post(root, "/tokenize", {"model": body.get("model"), **prompt, "add_generation_prompt": True})
        count = _fields(counted).get("count")
        return count if type(count) is int else None
    finally:
        await root.close()


async def _post(http: HttpClient, path: str, body: dict[str, Any]) -> object:
    """The answer; None if the server has no such address. Raises if it refuses this conversation."""
    try:
        return await http.post(path, body)
    except EngineError as refusal:
        if refusal.upstream_status not in _NO_SUCH_PATH:
            raise
        return None


def _fields(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
