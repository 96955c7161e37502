"""Tools that Anthropic defines and the client runs, by their dated types: a request names them without a schema.

Anthropic's own models know them. Other models get a description and a schema like any tool's. Names, commands and
fields are those of Anthropic's guides (bash tool, text editor tool, computer use tool) and of the types of its Python
SDK 2.8.0 (`ToolBash20250124Param`, `BetaMemoryTool20250818Command`, `BetaToolComputerUse20251124Param`). Older guides
of the editor call the inserted text `new_str`, so both fields are there.

Tools that Anthropic runs itself are listed by the beginning of their type; see `server_tool`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field

_SERVER_TOOLS = (
    "web_search",
    "web_fetch",
    "code_execution",
    "advisor",
    "tool_search_tool_regex",
    "tool_search_tool_bm25",
)
TOOL_SEARCH = frozenset({"tool_search_tool_regex", "tool_search_tool_bm25"})
_DIGITS = frozenset("0123456789")


def server_tool(kind: str) -> str:
    """Return the name of a tool that Anthropic runs itself, without the date; empty if the type is not one."""
    name, _, date = kind.rpartition("_")
    if len(date) == 8 and _DIGITS.issuperset(date) and name in _SERVER_TOOLS:
        return name
    return kind if kind in TOOL_SEARCH else ""


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _integers(count: int, description: str) -> dict[str, Any]:
    items = {"type": "integer", "minimum": 0}
    return {"type": "array", "items": items, "minItems": count, "maxItems": count, "description": description}


_LINES = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "For view: the first and the last line. -1 is the end of the file.",
}


def _bash(entry: Field) -> dict[str, Any]:
    properties = {
        "command": _string("The command to run. Left out only for a restart."),
        "restart": {"type": "boolean", "description": "True to restart the shell."},
    }
    return {"type": "object", "properties": properties, "anyOf": [{"required": ["command"]}, {"required": ["restart"]}]}


def _editor(*, undoes: bool) -> Callable[[Field], dict[str, Any]]:
    commands = ["view", "create", "str_replace", "insert", *(["undo_edit"] if undoes else [])]
    properties = {
        "command": {"type": "string", "enum": commands},
        "path": _string("The path of the file. For view it may be a folder."),
        "view_range": _LINES,
        "file_text": _string("For create: the content of the new file."),
        "old_str": _string("For str_replace: the text to replace. It must occur exactly once."),
        "new_str": _string("For str_replace: the new text."),
        "insert_line": {
            "type": "integer",
            "description": "For insert: the line after which to insert; 0 is the start.",
        },
        "insert_text": _string("For insert: the text to insert."),
    }
    return lambda entry: {"type": "object", "properties": properties, "required": ["command", "path"]}


def _memory(entry: Field) -> dict[str, Any]:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    properties = {
        "command": {"type": "string", "enum": commands},
        "path": _string("The path of a file or folder under /memories. For every command but rename."),
        "view_range": _LINES,
        "file_text": _string("For create: the content of the file."),
        "old_str": _string("For str_replace: the text to replace. It must occur exactly once."),
        "new_str": _string("For str_replace: the new text."),
        "insert_line": {
            "type": "integer",
            "description": "For insert: the line after which to insert; 0 is the start.",
        },
        "insert_text": _string("For insert: the text to insert."),
        "old_path": _string("For rename: the path now."),
        "new_path": _string("For rename: the new path."),
    }
    return {"type": "object", "properties": properties, "required": ["command"]}


_ACTIONS = (
    *("key", "hold_key", "type", "cursor_position", "mouse_move", "left_mouse_down", "left_mouse_up", "left_click"),
    *("left_click_drag", "right_click", "middle_click", "double_click", "triple_click", "scroll", "wait", "screenshot"),
)


def _computer(*, zooms: bool) -> Callable[[Field], dict[str, Any]]:
    def schema(entry: Field) -> dict[str, Any]:
        width, height = entry["display_width_px"].positive(), entry["display_height_px"].positive()
        _ = entry["display_number"].optional(Field.integer)
        can_zoom = zooms and entry["enable_zoom"].or_else(Field.boolean, False)
        properties: dict[str, Any] = {
            "action": {"type": "string", "enum": [*_ACTIONS, *(["zoom"] if can_zoom else [])]},
            "coordinate": _integers(2, f"x and y in pixels. The screen is {width} wide and {height} high."),
            "start_coordinate": _integers(2, "For left_click_drag: where the drag begins."),
            "text": _string("For type: the text. For key and hold_key: the keys, such as ctrl+s."),
            "scroll_direction": {"type": "string", "enum": ["up", "down", "left", "right"]},
            "scroll_amount": {"type": "integer", "minimum": 0},
            "duration": {"type": "number", "minimum": 0, "description": "For hold_key and wait: seconds."},
        }
        if can_zoom:
            properties["region"] = _integers(4, "For zoom: x and y of two opposite corners.")
        return {"type": "object", "properties": properties, "required": ["action"]}

    return schema


@dataclass(frozen=True, slots=True)
class _PublishedTool:
    name: str
    description: str
    schema: Callable[[Field], dict[str, Any]]


def _by_date(dates: str, tool: _PublishedTool, kind: str) -> dict[str, _PublishedTool]:
    return {f"{kind}_{date}": tool for date in dates.split()}


_EDIT = "View, create and edit files."
PUBLISHED_TOOLS: Mapping[str, _PublishedTool] = {
    **_by_date(
        "20241022 20250124",
        _PublishedTool(
            "bash", "Run a command in a shell that stays open between calls, and return what it prints.", _bash
        ),
        "bash",
    ),
    **_by_date("20241022 20250124", _PublishedTool("str_replace_editor", _EDIT, _editor(undoes=True)), "text_editor"),
    **_by_date(
        "20250429 20250728", _PublishedTool("str_replace_based_edit_tool", _EDIT, _editor(undoes=False)), "text_editor"
    ),
    **_by_date(
        "20250818",
        _PublishedTool(
            "memory", "Read and write files under /memories, which are kept between conversations.", _memory
        ),
        "memory",
    ),
    **_by_date(
        "20250124",
        _PublishedTool("computer", "Use the screen, mouse and keyboard of a computer.", _computer(zooms=False)),
        "computer",
    ),
    **_by_date(
        "20251124",
        _PublishedTool("computer", "Use the screen, mouse and keyboard of a computer.", _computer(zooms=True)),
        "computer",
    ),
}


def define_published_tool(entry: Field, kind: str) -> ToolDefinition:
    """Return the definition of a tool by its dated type, which is a key of `PUBLISHED_TOOLS`."""
    published = PUBLISHED_TOOLS[kind]
    _ = entry["max_characters"].optional(Field.integer)
    name = entry["name"].or_else(Field.string, published.name)
    return entry["name"].build(lambda: ToolDefinition(name, published.description, published.schema(entry)))
