"""The page of the Python API: `docs/reference/api.md` is this and nothing else.

It says which names stand where; what is said of each comes from its docstring when the site is built.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import metadata
from pathlib import Path

import ferrule
from ferrule.errors import FerruleError
from lab.pages.markdown import code, table

_HEAD = """# Python API

Made from `ferrule.__all__` by `scripts/docs --pages`; a test keeps it true. What is said of each name is its docstring,
which the built site shows below the lists.

Everything that is listed under a heading before *Modules* is imported from `ferrule` itself, as in
`from ferrule import load_engine`. Names that begin with an underscore, and modules that are not on this page, may change
without notice.
"""
_MODULES_HEAD = """
## Modules

What is imported by the module's own name. The rooms that these modules are in stand on each other like this; a test
reads every import and holds it to it:

<div class="picture" markdown>

![Rooms, each above those that it imports from; errors and core below all, bench and cli on top](../images/house.svg)

</div>
"""
# A module is imported by its whole name, so that is what its heading says.
_WHOLE_NAME = "    options:\n      show_root_full_path: true\n"


@dataclass(frozen=True, slots=True)
class Group:
    """Public names that a reader looks for together."""

    title: str
    about: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "Tools and calls",
        "What a model may call, what it called, and what came of it.",
        ("tool", "FunctionTool", "ToolDefinition", "JsonSchema", "ToolCall", "FunctionCall", "ToolResult", "Fault"),
    ),
    Group(
        "Asking a model",
        "An engine, and what it is asked.",
        (
            *("load_engine", "Engine", "TextOptions", "ToolCallRequest", "ChatMessage", "Role", "Text", "Reasoning"),
            *("ToolChoice", "ChoiceMode", "ChoicePolicy"),
        ),
    ),
    Group(
        "What comes back",
        "A reply is the fold of its events; every call in it carries a receipt.",
        (
            *("Reply", "Receipt", "fold", "Event", "TextDelta", "ReasoningDelta", "CallStart", "ArgumentsDelta"),
            *("CallEnd", "Diagnostic", "Finish", "FinishReason", "Usage", "RuleShown", "WireText"),
        ),
    ),
    Group(
        "Conversations",
        "The loop that runs what a model calls.",
        ("ToolConversation", "ConversationTurn", "ToolExecutor", "Decision", "CallContext"),
    ),
    Group(
        "Text that models write",
        "Wire formats, and reading and writing calls in them without an engine.",
        (
            *("Parser", "parse", "parse_tool_calls", "render", "render_results", "format_with_tools"),
            *("has_native_support", "Format", "formats", "get_format", "preset", "register"),
        ),
    ),
)
MODULES = (
    *("engines.pick", "engines.fake", "run.ledger.address", "run.policy"),
    *("sources.source", "sources.functions", "sources.mcp.servers", "sources.bus.bus", "sources.bus.worker"),
    *("sources.wrapped", "sources.joined", "sources.fake"),
)
# Plain enumerations, counts and aliases: their members say it all in the code, and a list of names needs a sentence.
_WITHOUT_DOCSTRING = {
    "Event": "Any of the steps of a streaming answer that are listed here.",
    "FinishReason": "Why an answer ended.",
    "Role": "Who speaks: system, user, assistant or tool.",
    "Usage": "How many tokens were read and written.",
}


def api_page() -> str:
    errors = tuple(name for name in ferrule.__all__ if _is_error(name))
    said = "[All errors](errors.md), with codes and hints, have a page of their own."
    groups = (*GROUPS, Group("Errors to catch", said, errors))
    return _HEAD + "".join(map(_section, groups)) + _modules()


def listed_names() -> list[str]:
    """Every public name that has a place on the page, to be compared with `ferrule.__all__`."""
    return [*(name for group in GROUPS for name in group.names), *filter(_is_error, ferrule.__all__)]


def integrations() -> Iterator[str]:
    """The adapters that there are. They are not imported: each needs a framework of its own."""
    for path in sorted((Path(ferrule.__file__).parent / "integrations").iterdir()):
        # Each is called as its extra is; what they share is called otherwise.
        if path.stem.replace("_", "-") in (metadata("ferrule").get_all("Provides-Extra") or ()):
            yield f"integrations.{path.stem}"


def _section(group: Group) -> str:
    rows = ((f"[{code(name)}](#ferrule.{name})", about(name)) for name in group.names)
    shown = "".join(f"\n::: ferrule.{name}\n" for name in group.names)
    return f"\n## {group.title}\n\n{group.about}\n\n{table(('name', 'what it is'), rows)}{shown}"


def _modules() -> str:
    shown = "".join(f"\n::: ferrule.{name}\n{_WHOLE_NAME}" for name in (*MODULES, *integrations()))
    return f"{_MODULES_HEAD}{shown}"


def _is_error(name: str) -> bool:
    held = getattr(ferrule, name)
    return isinstance(held, type) and issubclass(held, FerruleError)


def about(name: str) -> str:
    """What a name is, in a sentence: the first of its own docstring, where it has one."""
    held = getattr(ferrule, name)
    told = "" if name in _WITHOUT_DOCSTRING else inspect.getdoc(held) or ""
    first = " ".join(told.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    return f"{first}." if first else _WITHOUT_DOCSTRING[name]
