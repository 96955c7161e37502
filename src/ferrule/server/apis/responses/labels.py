"""The gateway's tools as clients of the Responses API name them: by the label of a server, or of a source.

The label "ferrule" stands for all of them. Also here: who a kept response is of, with what he may use now.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.openai_responses.hosted_tools import HostedTool, Hosts
from ferrule.errors import AuthorityError
from ferrule.run.executor import ToolExecutor
from ferrule.run.policy import Policy
from ferrule.server.answer.turn import ToolOwner
from ferrule.server.apis.responses.resume_record import Plan
from ferrule.server.auth.keys import principal_of
from ferrule.server.config.config import Config, KeyConfig
from ferrule.server.gateway import Gateway
from ferrule.server.tool_catalog import Toolbox

ALL = "ferrule"


class Labels:
    """Which label each of the gateway's tools has; worked out anew when the list of tools was read anew."""

    def __init__(self, toolbox: Toolbox) -> None:
        self._toolbox = toolbox
        self._tools: Mapping[str, ToolDefinition] = {}
        self._labels: dict[str, str] = {}

    def hosts(self, principal: Principal) -> dict[str, tuple[HostedTool, ...]]:
        """What this principal may use, by label."""
        if self._tools is not self._toolbox.tools:
            self._tools, self._labels = self._toolbox.tools, _labels(self._toolbox)
        asks = self._toolbox.settings.tools_require_confirmation_for_side_effects
        found: dict[str, list[HostedTool]] = {}
        for tool in self._toolbox.offered(principal):
            for label in dict.fromkeys((self._labels.get(tool.name, ALL), ALL)):
                found.setdefault(label, []).append(HostedTool(tool, label, waits=asks and tool.side_effects))
        everything = found.pop(ALL, [])
        told = {label: tuple(tools) for label, tools in found.items()}
        return {**told, ALL: tuple(everything)} if everything else told


def hosted_in(plan: Plan, hosts: Hosts) -> dict[str, HostedTool]:
    """The tools that the gateway runs for a response, by the names that the model knows; of two labels the first."""
    if plan.whose is not ToolOwner.GATEWAY:
        return {}
    found: dict[str, HostedTool] = {}
    for label in plan.labels or tuple(hosts):
        for tool in hosts.get(label, ()):
            name = tool.definition.name
            if plan.names is None or name in plan.names:
                found.setdefault(name, replace(tool, waits=tool.waits or name in plan.asked))
    return found


def principal_named(config: Config, name: str, tenant: str) -> Principal:
    """Who a kept response is of, with the rights that he has now. Whoever has lost his key goes on with nothing."""
    if not config.keys:
        return Principal(name, tenant)
    keys = _keys(config, name, tenant)
    if not keys:
        raise AuthorityError(f"{name} has no key any more", hint="Ask again with another.")
    return principal_of(keys[0])


@dataclass(slots=True)
class AskingExecutor(ToolExecutor):
    """An executor that also asks for leave where the client wants it, and counts all calls where he limits them."""

    asked: frozenset[str] = frozenset()
    most_calls: int | None = None

    @property
    def policy(self) -> Policy:
        # Named, because a class with slots is made twice and the short form would mean the first.
        return replace(ToolExecutor.policy.__get__(self), calls=self.most_calls)

    def requires_confirmation(self, call: ToolCall) -> bool:
        return call.name in self.asked or ToolExecutor.requires_confirmation(self, call)


def executor_of(gateway: Gateway, plan: Plan, principal: Principal) -> AskingExecutor:
    made = gateway.toolbox.executor(principal, plan.names)
    return AskingExecutor(
        made.bus,
        made.tools,
        max_iterations=made.max_iterations,
        per_tool_timeout_seconds=made.per_tool_timeout_seconds,
        max_concurrent=made.max_concurrent,
        confirms_side_effects=made.confirms_side_effects,
        asked=plan.asked,
        most_calls=plan.max_tool_calls,
    )


def _labels(toolbox: Toolbox) -> dict[str, str]:
    """By what sources say of themselves, since any of them may be seen through a pane, and be several behind it."""
    found = {name: source.id for name, source in toolbox.source.owners.items()}
    return found | {name: one.name for one in toolbox.source.standings for name in one.tools or ()}


def _keys(config: Config, name: str, tenant: str) -> list[KeyConfig]:
    return [key for key in config.keys if (key.name, key.tenant) == (name, tenant)]
