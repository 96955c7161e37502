"""Generate the page of the Python API, `docs/reference/api.md`.

It decides where each name appears; the description comes from the docstring when the site is built.
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

Generated from `ferrule.__all__` by `scripts/docs --pages`; a test checks that it is current. The descriptions are the
docstrings, which the built site shows below the lists.

Import everything under the headings before *Modules* from `ferrule` itself, for example
`from ferrule import load_engine`. Names that begin with an underscore, and modules that are not on this page, may
change without notice.
"""
_MODULES_HEAD = """
## Modules

Import these by the module's own name. The picture shows the packages and their allowed imports; a test checks every
import against it:

<div class="picture" markdown>

![Packages, each above those it imports from; errors and core at the bottom, bench and cli on top](../images/layout.svg)

</div>
"""
# A module is imported by its full name, so its heading shows the full name.
_WHOLE_NAME = "    options:\n      show_root_full_path: true\n"


@dataclass(frozen=True, slots=True)
class Group:
    """Public names that belong together."""

    title: str
    about: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "Tools and calls",
        "Tool definitions, tool calls and tool results.",
        ("tool", "FunctionTool", "ToolDefinition", "JsonSchema", "ToolCall", "FunctionCall", "ToolResult", "Fault"),
    ),
    Group(
        "Asking a model",
        "Engines and requests.",
        (
            *("load_engine", "Engine", "TextOptions", "ToolCallRequest", "ChatMessage", "Role", "Text", "Reasoning"),
            *("ToolChoice", "ChoiceMode", "ChoicePolicy"),
        ),
    ),
    Group(
        "Replies and events",
        "A reply is the fold of its events; every call in it has a receipt.",
        (
            *("Reply", "Receipt", "fold", "Event", "TextDelta", "ReasoningDelta", "CallStart", "ArgumentsDelta"),
            *("CallEnd", "Diagnostic", "Finish", "FinishReason", "Usage", "RuleShown", "WireText"),
        ),
    ),
    Group(
        "Conversations",
        "The loop that runs the tools that a model calls.",
        ("ToolConversation", "ConversationTurn", "ToolExecutor", "Decision", "CallContext"),
    ),
    Group(
        "Text that models write",
        "Formats, and parsing and rendering calls without an engine.",
        (
            *("Parser", "parse", "parse_tool_calls", "render", "render_results", "format_with_tools"),
            *("has_native_support", "Format", "formats", "get_format", "preset", "register"),
        ),
    ),
)
MODULES = (
    *("engines.registry", "engines.fake", "run.ledger.address", "run.policy"),
    *("sources.source", "sources.functions", "sources.mcp.servers", "sources.bus.bus", "sources.bus.worker"),
    *("sources.adapters", "sources.combined_sources", "sources.fake"),
)
# Enumerations, counts and aliases without a docstring. The list of names needs a sentence for each.
_WITHOUT_DOCSTRING = {
    "Event": "Any of the events of a streaming answer that are listed here.",
    "FinishReason": "Why an answer ended.",
    "Role": "The role of a message: system, user, assistant or tool.",
    "Usage": "How many tokens the prompt and the answer have.",
}


def api_page() -> str:
    errors = tuple(name for name in ferrule.__all__ if _is_error(name))
    errors_note = "See [all errors](errors.md) with their codes and hints."
    groups = (*GROUPS, Group("Errors to catch", errors_note, errors))
    return _HEAD + "".join(map(_section, groups)) + _modules()


def listed_names() -> list[str]:
    """Every public name on the page, to be compared with `ferrule.__all__`."""
    return [*(name for group in GROUPS for name in group.names), *filter(_is_error, ferrule.__all__)]


def integrations() -> Iterator[str]:
    """The adapters for frameworks. They are not imported, because each needs its framework."""
    for path in sorted((Path(ferrule.__file__).parent / "integrations").iterdir()):
        # An adapter has the name of its extra; shared modules do not.
        if path.stem.replace("_", "-") in (metadata("ferrule").get_all("Provides-Extra") or ()):
            yield f"integrations.{path.stem}"


def _section(group: Group) -> str:
    rows = ((f"[{code(name)}](#ferrule.{name})", about(name)) for name in group.names)
    entries = "".join(f"\n::: ferrule.{name}\n" for name in group.names)
    return f"\n## {group.title}\n\n{group.about}\n\n{table(('name', 'what it is'), rows)}{entries}"


def _modules() -> str:
    entries = "".join(f"\n::: ferrule.{name}\n{_WHOLE_NAME}" for name in (*MODULES, *integrations()))
    return f"{_MODULES_HEAD}{entries}"


def _is_error(name: str) -> bool:
    value = getattr(ferrule, name)
    return isinstance(value, type) and issubclass(value, FerruleError)


def about(name: str) -> str:
    """The first sentence of a name's docstring, or the text from the table above."""
    value = getattr(ferrule, name)
    text = "" if name in _WITHOUT_DOCSTRING else inspect.getdoc(value) or ""
    first = " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    return f"{first}." if first else _WITHOUT_DOCSTRING[name]
