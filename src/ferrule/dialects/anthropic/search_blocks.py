"""The blocks of a search among deferred tools, as Anthropic's API shows it in an answer and in the history.

Shapes: `ServerToolUseBlock` and `ToolSearchToolResultBlock` of Anthropic's Python SDK 2.8.0.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.call import TOOL_SEARCH as SEARCH_CALL
from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.event import ToolSearch
from ferrule.core.json_text import digest
from ferrule.core.message import ChatMessage, Role
from ferrule.core.tool_search import (
    DeclaredSearch,
    error_of,
    error_text,
    found_names,
    found_text,
    nothing_found,
)
from ferrule.dialects.anthropic.published_tools import TOOL_SEARCH
from ferrule.dialects.lenient_json import entries, text

_PREFIX = "srvtoolu_"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_DEFAULT = "tool_search_tool_bm25"


def use_block(search: ToolSearch) -> dict[str, Any]:
    """Return the call of a search."""
    try:
        input = search.call.arguments
    except ValueError:
        input = dict[str, Any]()
    # A search that was declared in another API has another name.
    name = search.declared if search.declared in TOOL_SEARCH else _DEFAULT
    return {"type": "server_tool_use", "id": block_id(search.call.id), "name": name, "input": input}


def result_block(search: ToolSearch) -> dict[str, Any]:
    """Return what a search found, or why it failed."""
    if search.error:
        content: dict[str, Any] = {"type": "tool_search_tool_result_error", "error_code": search.error}
    else:
        references = [{"type": "tool_reference", "tool_name": name} for name in search.found]
        content = {"type": "tool_search_tool_search_result", "tool_references": references}
    return {"type": "tool_search_tool_result", "tool_use_id": block_id(search.call.id), "content": content}


def declaration(search: DeclaredSearch) -> dict[str, Any]:
    """Return the tool by which a request declares the search."""
    name = search.name if search.name in TOOL_SEARCH else _DEFAULT
    return {"type": f"{name}_20251119", "name": name}


def search_at(messages: tuple[ChatMessage, ...], at: int) -> ToolSearch | None:
    """Return the search that a message of the assistant ends with, if the next one has its result."""
    message, following = messages[at], messages[at + 1 : at + 2]
    call = message.parts[-1] if message.role is Role.ASSISTANT and message.parts else None
    if not isinstance(call, ToolCall) or call.type != SEARCH_CALL:
        return None
    results = [result for one in following for result in one.results if result.tool_call_id == call.id]
    if not results:
        return None
    return ToolSearch(call, results[0], found_names(results[0].text), call.name, error_of(results[0].text))


def search_of(search: DeclaredSearch, id: str, arguments: str, result: dict[str, Any]) -> ToolSearch:
    """Return the search of an answer: its call, and the content of the block with its result."""
    references = entries(result.get("tool_references"))
    found = tuple(filter(None, (text(one.get("tool_name")) for one in references)))
    call = ToolCall(search_id(id), FunctionCall(search.name, arguments), SEARCH_CALL)
    error = text(result.get("error_code"))
    words = error_text(error) if error else found_text(found) or nothing_found("")
    return ToolSearch(call, ToolResult(call.id, call.name, words), found, search.name, error)


def block_id(id: str) -> str:
    """Return the id of a search's blocks. The API takes only ids of this form."""
    if id.startswith(_PREFIX):
        return id
    return f"{_PREFIX}{id if id and _PLAIN.issuperset(id) else digest(id)[:24]}"


def search_id(id: str) -> str:
    """Return the id of a search's call, from that of its blocks: the one that the model's own call had."""
    return id.removeprefix(_PREFIX)
