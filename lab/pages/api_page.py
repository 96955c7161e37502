"""Generate the page of the Python API, `docs/reference/api.md`.

It decides where each name appears; the description comes from the docstring when the site is built.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import metadata
from pathlib import Path

import ferrule
from ferrule.errors import FerruleError
from lab.pages.markdown import code, table

_HEAD = """# Python API

Generated from the `__all__` of each public module by `scripts/docs --pages`; a test checks that it is current. The
descriptions are the docstrings, which the built site shows below the lists.

## Public modules

These modules are public. **Everything else is private**: modules that are not listed here, and names that are not in
a module's `__all__` or that begin with an underscore, may change in any version without notice. `import ferrule` is
enough to use every module but the adapters of frameworks: `ferrule.sources.mcp("mcp.json")`. Nothing is imported
before it is used.

"""
_PACKAGES = """
## Private packages

The picture shows the packages inside and their allowed imports; a test checks every import against it:

<div class="picture" markdown>

![Packages, each above those it imports from; errors and core at the bottom, bench and cli on top](../images/layout.svg)

</div>
"""
_WHOLE_NAME = "    options:\n      show_root_full_path: true\n"
# A module's own docstring; its names follow in a table.
_MODULE_ONLY = f"{_WHOLE_NAME}      heading_level: 2\n      members: false\n"
# The groups of `ferrule` have headings of their own.
_IN_GROUP = "    options:\n      heading_level: 4\n"
# A function with the name of its package: the site's generator takes that path for the package.
_FULL_PATHS = {"ferrule.sources.mcp": "ferrule.sources.mcp.mcp"}
MODULES = (
    "events",
    "sources",
    "ledger",
    "gateway",
    "hooks",
    "testing",
    "formats",
    "engines",
    "errors",
    "integrations",
    "specification",
)
"""The public modules beside `ferrule` and the adapters, in the order of the page."""


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
        (
            *("tool", "FunctionTool", "ToolDefinition", "TextGrammar", "JsonSchema"),
            *("ToolCall", "FunctionCall", "ToolResult", "Media", "Fault"),
        ),
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
        ("ToolConversation", "ConversationTurn", "ToolExecutor", "Decision", "DeferralSettings", "CallContext"),
    ),
    Group(
        "Text that models write",
        "Calls in text, without an engine. [`ferrule.formats`](#ferrule.formats) has the formats themselves.",
        ("parse_tool_calls", "format_with_tools", "has_native_support"),
    ),
)
# Constants and aliases have no docstring, and some classes have none. The list of names needs a sentence for each.
_WITHOUT_DOCSTRING = {
    "ARGS": "All arguments of a call as JSON.",
    "BODY": "The text of a tool's result.",
    "DEFAULT_TOOLS": "The specification's default tools, for `Bus(url, bindings=DEFAULT_TOOLS)`.",
    "Event": "Any of the events of a streaming answer that are listed here.",
    "FinishReason": "Why an answer ended.",
    "ID": "The id of a call.",
    "JSON": "The notation of JSON.",
    "JSON_COMPACT": "The notation of JSON without spaces.",
    "KEY": "The name of an argument, in `fields`.",
    "KIND": "The type of an argument, in `fields`.",
    "LoopEvent": "Any event of a running loop: those of replies and those of tools.",
    "NAME": "The name of a tool.",
    "Outcome": "What became of a call: `Answered`, `NotDelivered` or `Unknown`.",
    "PYTHON": "The notation of Python literals.",
    "Role": "The role of a message: system, user, assistant or tool.",
    "THINK_TAGS": "The reasoning tags of most families, with the newlines that belong to them.",
    "Usage": "How many tokens the prompt and the answer have.",
    "VALUE": "The value of an argument, in `fields`.",
}


def api_page() -> str:
    errors = tuple(name for name in ferrule.__all__ if _is_error(name))
    errors_note = "See [all errors](errors.md) with their codes and hints."
    groups = (*GROUPS, Group("Errors to catch", errors_note, errors))
    adapters = "".join(f"\n::: ferrule.{name}\n{_WHOLE_NAME}" for name in integrations())
    return (
        _HEAD
        + table(("module", "what it is for"), _module_rows())
        + _PACKAGES
        + "\n## ferrule\n\nWhat most programs need: `from ferrule import load_engine`.\n"
        + "".join(map(_section, groups))
        + "".join(map(_module_section, MODULES))
        + adapters
    )


def listed_names() -> list[str]:
    """Every name of `ferrule` on the page, to be compared with `ferrule.__all__`."""
    return [*(name for group in GROUPS for name in group.names), *filter(_is_error, ferrule.__all__)]


def public_names(module: str) -> tuple[str, ...]:
    """The names of a public module beside `ferrule`."""
    return tuple(import_module(f"ferrule.{module}").__all__)


def integrations() -> Iterator[str]:
    """The adapters for frameworks. They are not imported, because each needs its framework."""
    for path in sorted((Path(ferrule.__file__).parent / "integrations").iterdir()):
        # An adapter has the name of its extra; shared modules do not.
        if path.stem.replace("_", "-") in (metadata("ferrule").get_all("Provides-Extra") or ()):
            yield f"integrations.{path.stem}"


def _module_rows() -> Iterator[tuple[str, str]]:
    yield "[`ferrule`](#ferrule)", "What most programs need."
    for name in MODULES:
        text = inspect.getdoc(import_module(f"ferrule.{name}")) or ""
        yield f"[{code(f'ferrule.{name}')}](#ferrule.{name})", text.partition("\n")[0]
    for name in integrations():
        extra = name.rpartition(".")[2].replace("_", "-")
        yield f"[{code(f'ferrule.{name}')}](#ferrule.{name})", f"The adapter of the extra `{extra}`."


def _section(group: Group) -> str:
    rows = ((f"[{code(name)}](#ferrule.{name})", about(name)) for name in group.names)
    entries = "".join(f"\n::: ferrule.{name}\n{_IN_GROUP}" for name in group.names)
    return f"\n### {group.title}\n\n{group.about}\n\n{table(('name', 'what it is'), rows)}{entries}"


def _module_section(module: str) -> str:
    head = f"\n::: ferrule.{module}\n{_MODULE_ONLY}"
    if module == "errors":
        return f"{head}\n[All errors](errors.md), with their codes and hints.\n"
    rows = ((_link(name), about(name, module)) for name in public_names(module))
    entries = "".join(f"\n::: {_path(module, name)}\n" for name in _described_here(module))
    return f"{head}\n{table(('name', 'what it is'), rows)}{entries}"


def _described_here(module: str) -> Iterable[str]:
    """The names of a module that are not described elsewhere. A constant needs no more than its row."""
    earlier = {name for other in MODULES[: MODULES.index(module)] for name in public_names(other)}
    for name in public_names(module):
        if name not in ferrule.__all__ and name not in earlier and not name.isupper():
            yield name


def _link(name: str) -> str:
    if name.isupper():
        return code(name)
    if name in ferrule.__all__:
        return f"[{code(name)}](#ferrule.{name})"
    home = next(one for one in MODULES if name in public_names(one))
    return f"[{code(name)}](#{_path(home, name)})"


def _path(module: str, name: str) -> str:
    path = f"ferrule.{module}.{name}"
    return _FULL_PATHS.get(path, path)


def _is_error(name: str) -> bool:
    value = getattr(ferrule, name)
    return isinstance(value, type) and issubclass(value, FerruleError)


def about(name: str, module: str = "") -> str:
    """The first sentence of a name's docstring, or the text from the table above."""
    value = getattr(import_module(f"ferrule.{module}" if module else "ferrule"), name)
    text = "" if name in _WITHOUT_DOCSTRING else inspect.getdoc(value) or ""
    first = " ".join(text.split("\n\n")[0].split()).partition(". ")[0].rstrip(".")
    return f"{first}." if first else _WITHOUT_DOCSTRING[name]
