"""ToolNames: maps each capability to a tool name and back, by a table and never by splitting a name.

Once assigned, a name keeps its meaning for as long as the bus is open: a worker that starts later cannot take it over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ferrule.core.json_text import fingerprint
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.bus.subject import Capability


class ToolNames:
    """The names of the offered tools. With `bindings` only those tools are offered, otherwise everything served."""

    def __init__(self, bindings: Iterable[ToolDefinition] | None = None) -> None:
        self._bindings = None if bindings is None else tuple(bindings)
        self._capabilities: dict[str, Capability] = {}
        self._assigned_names: dict[tuple[str, int], str] = {}
        for tool in self._bindings or ():
            if tool.bound_capability is None:
                raise DefinitionError(f"{tool.name} is not bound to a capability", hint="Use .bound_to(capability).")
            self._capabilities[tool.name] = Capability.read(tool.bound_capability, tool.bound_version)

    @property
    def uses_bindings(self) -> bool:
        """Whether the definitions come from the bindings and not from the workers."""
        return self._bindings is not None

    def capability_of(self, name: str) -> Capability | None:
        return self._capabilities.get(name)

    def offer(self, served: Mapping[Capability, ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """The tools to offer, from the capabilities that are served."""
        if self._bindings is not None:
            capabilities = self._capabilities
            return tuple(
                tool
                for tool in self._bindings
                if any(available.serves(capabilities[tool.name]) for available in served)
            )
        self._assign({capability: tool.name for capability, tool in served.items()})
        return tuple(
            replace(tool, name=self._assigned_names[capability.name, capability.major])
            for capability, tool in sorted(served.items())
        )

    def _assign(self, preferred: Mapping[Capability, str]) -> None:
        new = {
            candidate: name
            for candidate, name in sorted(preferred.items())
            if (candidate.name, candidate.major) not in self._assigned_names
        }
        # If several new capabilities claim the same name, none gets it: neither was first.
        claims = Counter(new.values())
        for capability, name in new.items():
            qualified_name = f"{capability.server}_{name}"
            candidates = [name] if claims[name] == 1 else []
            candidates += [qualified_name, f"{name[:64]}_{fingerprint([capability.name, capability.major])}"]
            assigned = next(
                candidate for candidate in candidates if candidate not in self._capabilities and _is_name(candidate)
            )
            self._capabilities[assigned] = capability
            self._assigned_names[capability.name, capability.major] = assigned
        for capability in preferred:
            # The newest minor version that is served now, so that an older worker is not asked for a newer one.
            self._capabilities[self._assigned_names[capability.name, capability.major]] = capability


def _is_name(name: str) -> bool:
    try:
        ToolDefinition(name)
    except DefinitionError:
        return False
    return True
