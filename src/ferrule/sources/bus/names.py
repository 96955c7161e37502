"""Names: under which name each capability is offered, and the way back, by table and never by cutting a name apart.

A name once given keeps its meaning for as long as the bus is open: a worker that comes later cannot take it over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ferrule.core.json_text import fingerprint
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.bus.subject import Capability


class Names:
    """With `bindings`, those tools and no others, each where its capability is served; else everything served."""

    def __init__(self, bindings: Iterable[ToolDefinition] | None = None) -> None:
        self._bindings = None if bindings is None else tuple(bindings)
        self._capabilities: dict[str, Capability] = {}
        self._given: dict[tuple[str, int], str] = {}
        for tool in self._bindings or ():
            if tool.bound_capability is None:
                raise DefinitionError(f"{tool.name} is bound to no capability", hint="Use .bound_to(capability).")
            self._capabilities[tool.name] = Capability.read(tool.bound_capability, tool.bound_version)

    @property
    def are_bound(self) -> bool:
        """Whether the definitions are those of the bindings and not the workers'."""
        return self._bindings is not None

    def capability_of(self, name: str) -> Capability | None:
        return self._capabilities.get(name)

    def offer(self, served: Mapping[Capability, ToolDefinition]) -> tuple[ToolDefinition, ...]:
        """The tools to offer, given what is served."""
        if self._bindings is not None:
            wanted = self._capabilities
            return tuple(tool for tool in self._bindings if any(one.serves(wanted[tool.name]) for one in served))
        self._give({capability: tool.name for capability, tool in served.items()})
        return tuple(
            replace(tool, name=self._given[capability.name, capability.major])
            for capability, tool in sorted(served.items())
        )

    def _give(self, wished: Mapping[Capability, str]) -> None:
        new = {one: name for one, name in sorted(wished.items()) if (one.name, one.major) not in self._given}
        # Of newcomers that wish for the same name none gets it: neither came first.
        wishes = Counter(new.values())
        for capability, name in new.items():
            longer = f"{capability.server}_{name}"
            choices = [name] if wishes[name] == 1 else []
            choices += [longer, f"{name[:64]}_{fingerprint([capability.name, capability.major])}"]
            chosen = next(one for one in choices if one not in self._capabilities and _is_name(one))
            self._capabilities[chosen] = capability
            self._given[capability.name, capability.major] = chosen
        for capability in wished:
            # The newest minor version that is served, so that a newer one is not asked of an older worker.
            self._capabilities[self._given[capability.name, capability.major]] = capability


def _is_name(name: str) -> bool:
    try:
        ToolDefinition(name)
    except DefinitionError:
        return False
    return True
