"""Reads an MCP server's tool list. An invalid tool is left out and reported; the others remain.

Plain JSON in, values out; no SDK, no connection. The list is untrusted: only the fields that are used are kept, and
each only in the type that the protocol defines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import canonical, digest, loads
from ferrule.sources.status import ToolSnapshot

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TASK_SUPPORT = ("forbidden", "optional", "required")


@dataclass(frozen=True, slots=True)
class ListedTool:
    """One tool as its server describes it. The hints are only claims of the server."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output: Mapping[str, Any] | None = None
    hints: Mapping[str, bool] = field(default_factory=dict[str, bool])
    needs_task: bool = False

    @property
    def claims_read_only(self) -> bool:
        return self.hints.get("readOnlyHint") is True

    def fingerprint(self, server_identity: str) -> str:
        """The hash of everything that a pin covers, including the server's identity."""
        return digest(self._pinned_fields(server_identity))

    def pinned_text(self, server_identity: str) -> str:
        """The text that `fingerprint` hashes."""
        return canonical(self._pinned_fields(server_identity))

    def _pinned_fields(self, server_identity: str) -> list[object]:
        snapshot_of = [self.name, self.description, self.parameters, self.output, self.hints, self.needs_task]
        return [server_identity, snapshot_of]


def raw_digest(raw: Sequence[object]) -> str:
    """The hash of a list as it was sent, to see that it has not changed. Empty if it cannot be written as JSON."""
    try:
        # Not `canonical`: another order of the keys only costs a conversion.
        return hashlib.sha256(json.dumps(raw).encode()).hexdigest()
    except (ValueError, RecursionError):
        return ""


def valid_tools(raw: Sequence[object], *, is_modern: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """The valid tools, reduced to the fields that are used, and messages about the others."""
    tools: list[dict[str, Any]] = []
    faults: list[str] = []
    for number, entry in enumerate(raw):
        tool = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            faults.append(f"tool {number + 1} in the list has no name and is not offered")
        elif not isinstance(tool.get("inputSchema"), dict):
            faults.append(f"{name} has no input schema and is not offered")
        elif not _is_json(tool):
            faults.append(f"{name} contains a number that is not JSON, or is nested too deeply, and is not offered")
        else:
            tools.append(_clean_tool(name, tool, is_modern))
    return tools, faults


def tool_of(tool: Mapping[str, Any]) -> ListedTool:
    """Convert one valid tool."""
    return ListedTool(
        tool["name"],
        tool.get("description") or "",
        tool["inputSchema"],
        tool.get("outputSchema"),
        {key: value for key, value in _mapping(tool.get("annotations")).items() if key in _HINTS},
        _mapping(tool.get("execution")).get("taskSupport") == "required",
    )


def snapshot_of(agreed: str) -> ToolSnapshot | None:
    """Parse a pinned text for display. None if `pinned_text` cannot have produced it: it may come from a file."""
    try:
        value: Any = loads(agreed)
        fingerprint = digest(value)
    except (ValueError, RecursionError):
        return None
    match value:
        case [str(), [str(), str(), dict(), _, dict(), bool()]]:
            _, description, parameters, output, hints, needs_task = cast("list[Any]", value[1])
            more = {"server": value[0], "output": output, "hints": hints, "needs_task": needs_task}
            return ToolSnapshot(description, parameters, fingerprint, more)
        case _:
            return None


def _clean_tool(name: str, tool: Mapping[str, Any], is_modern: bool) -> dict[str, Any]:
    # Some servers list "type": null or no type for a tool without arguments; the protocol requires "object".
    schema = {**tool["inputSchema"], "type": "object"}
    cleaned: dict[str, Any] = {"name": name, "inputSchema": schema}
    description, output = tool.get("description"), tool.get("outputSchema")
    if isinstance(description, str):
        cleaned["description"] = description
    # Before 2026 an output schema must have type object, and the SDK rejects the whole list otherwise.
    if isinstance(output, dict) and (is_modern or cast("dict[str, Any]", output).get("type") == "object"):
        cleaned["outputSchema"] = output
    hints = _mapping(tool.get("annotations"))
    cleaned["annotations"] = {hint: hints[hint] for hint in _HINTS if isinstance(hints.get(hint), bool)}
    support = _mapping(tool.get("execution")).get("taskSupport")
    if support in _TASK_SUPPORT:
        cleaned["execution"] = {"taskSupport": support}
    return cleaned


def _is_json(tool: Mapping[str, Any]) -> bool:
    """Whether the tool is valid JSON. The SDK accepts NaN and Infinity, which cannot be hashed or passed on."""
    try:
        canonical(tool)
    except (ValueError, RecursionError):
        return False
    return True


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
