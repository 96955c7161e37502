"""What an MCP server lists, read with care: one tool that is malformed is left out and told of, the others stay.

Plain JSON in, values out; it knows neither the SDK nor a connection. A listing comes from a stranger: only the fields
that are used are kept, and each only in the type that the protocol gives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.json_text import canonical, digest, loads
from ferrule.sources.status import Described

_HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_TASK_SUPPORT = ("forbidden", "optional", "required")


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool as its server describes it. The hints are the server's own word and no more."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict[str, Any])
    output: Mapping[str, Any] | None = None
    hints: Mapping[str, bool] = field(default_factory=dict[str, bool])
    needs_task: bool = False

    @property
    def says_it_only_reads(self) -> bool:
        return self.hints.get("readOnlyHint") is True

    def definition(self, server_identity: str) -> str:
        """The hash of everything that somebody agrees to when he trusts the tool: whose it is, too."""
        return digest(self._agreed(server_identity))

    def agreed(self, server_identity: str) -> str:
        """All that, as the text that is hashed."""
        return canonical(self._agreed(server_identity))

    def _agreed(self, server_identity: str) -> list[object]:
        described = [self.name, self.description, self.parameters, self.output, self.hints, self.needs_task]
        return [server_identity, described]


def sound_tools(raw: Sequence[object], *, is_modern: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """The tools that can be read, with only what is used of each; and what is wrong with the others."""
    kept: list[dict[str, Any]] = []
    faults: list[str] = []
    for number, entry in enumerate(raw):
        tool = cast("dict[str, Any]", entry) if isinstance(entry, dict) else {}
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            faults.append(f"tool number {number + 1} of the list has no name and is not offered")
        elif not isinstance(tool.get("inputSchema"), dict):
            faults.append(f"{name} has no schema of its arguments and is not offered")
        elif not _is_json(tool):
            faults.append(f"{name} holds a number that is not JSON, or is nested too deeply, and is not offered")
        else:
            kept.append(_sound(name, tool, is_modern))
    return kept, faults


def listed(tool: Mapping[str, Any]) -> Listed:
    """The value of one sound tool."""
    return Listed(
        tool["name"],
        tool.get("description") or "",
        tool["inputSchema"],
        tool.get("outputSchema"),
        {key: value for key, value in _mapping(tool.get("annotations")).items() if key in _HINTS},
        _mapping(tool.get("execution")).get("taskSupport") == "required",
    )


def described(agreed: str) -> Described | None:
    """What was agreed to, as it is shown. None for what `Listed.agreed` does not give: it may come from a file."""
    try:
        value: Any = loads(agreed)
        fingerprint = digest(value)
    except (ValueError, RecursionError):
        return None
    match value:
        case [str(), [str(), str(), dict(), _, dict(), bool()]]:
            _, description, parameters, output, hints, needs_task = cast("list[Any]", value[1])
            more = {"server": value[0], "output": output, "hints": hints, "needs_task": needs_task}
            return Described(description, parameters, fingerprint, more)
        case _:
            return None


def _sound(name: str, tool: Mapping[str, Any], is_modern: bool) -> dict[str, Any]:
    # Some servers list "type": null or none at all for a tool without arguments; the protocol wants an object.
    schema = {**tool["inputSchema"], "type": "object"}
    sound: dict[str, Any] = {"name": name, "inputSchema": schema}
    description, output = tool.get("description"), tool.get("outputSchema")
    if isinstance(description, str):
        sound["description"] = description
    # Before 2026 an output schema is that of an object, and the SDK refuses the list for one that is not.
    if isinstance(output, dict) and (is_modern or cast("dict[str, Any]", output).get("type") == "object"):
        sound["outputSchema"] = output
    hints = _mapping(tool.get("annotations"))
    sound["annotations"] = {hint: hints[hint] for hint in _HINTS if isinstance(hints.get(hint), bool)}
    support = _mapping(tool.get("execution")).get("taskSupport")
    if support in _TASK_SUPPORT:
        sound["execution"] = {"taskSupport": support}
    return sound


def _is_json(tool: Mapping[str, Any]) -> bool:
    """The SDK reads NaN and Infinity, which nobody can hash or pass on."""
    try:
        canonical(tool)
    except (ValueError, RecursionError):
        return False
    return True


def _mapping(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
