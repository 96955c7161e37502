"""Labels: clients of the Responses API name the gateway's tools by the label of a server or source.

The label "ferrule" means all of them. Tools of OpenAI's service that are bound to tools of the gateway come last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace

from ferrule.core.context import Principal
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.openai_responses.hosted_tools import HostedTool, Hosts, bound_label
from ferrule.server.answer.plan import ToolOwner
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.config.config import HostedConfig
from ferrule.server.tool_catalog import ToolCatalog

ALL = "ferrule"
_MAX_HOSTS = 256


class Labels:
    """The label of each of the gateway's tools. Recomputed when the list of tools was reloaded.

    `bindings` returns the settings as they are now: which tools stand for those of OpenAI's service.
    """

    def __init__(self, tool_catalog: ToolCatalog, bindings: Callable[[], HostedConfig] = HostedConfig) -> None:
        self._tool_catalog = tool_catalog
        self._bindings = bindings
        self._bound = HostedConfig()
        self._tools: Mapping[str, ToolDefinition] = {}
        self._labels: dict[str, str] = {}
        self._hosts: dict[int, tuple[Sequence[ToolDefinition], Hosts]] = {}
        """What `hosts` returned, by the `id` of the catalog's offer, which is kept with it."""

    def hosts(self, principal: Principal) -> Hosts:
        """Return the tools that this principal may use, by label."""
        has_changed = self._tools is not self._tool_catalog.tools or self._bound != self._bindings()
        if has_changed or len(self._hosts) >= _MAX_HOSTS:
            self._bound = self._bindings()
            self._tools, self._labels = self._tool_catalog.tools, _labels(self._tool_catalog)
            self._hosts = {}
        offered = self._tool_catalog.tools_for(principal)
        if id(offered) not in self._hosts:
            self._hosts[id(offered)] = (offered, self._hosts_of(offered))
        return self._hosts[id(offered)][1]

    def _hosts_of(self, offered: Sequence[ToolDefinition]) -> Hosts:
        needs_approval = self._tool_catalog.settings.tools_require_confirmation_for_side_effects
        policy = self._tool_catalog.approval_policy
        tools_by_label: dict[str, list[HostedTool]] = {}
        for tool in offered:
            for label in dict.fromkeys((self._labels.get(tool.name, ALL), ALL)):
                may_need_approval = (needs_approval and tool.side_effects) or policy.may_require(
                    tool.name, side_effects=tool.side_effects
                )
                tools_by_label.setdefault(label, []).append(
                    HostedTool(tool, label, may_need_approval=may_need_approval)
                )
        all_tools = tools_by_label.pop(ALL, [])
        hosts = {label: tuple(tools) for label, tools in tools_by_label.items()}
        by_name = {tool.definition.name: tool for tools in (all_tools, *hosts.values()) for tool in tools}
        settings = {field.name: getattr(self._bound, field.name) for field in fields(HostedConfig)}
        bound = {bound_label(kind): (by_name[name],) for kind, name in settings.items() if name in by_name}
        return {**hosts, **({ALL: tuple(all_tools)} if all_tools else {}), **bound}


def hosted_tools_of(resume_record: ResumeRecord, hosts: Hosts) -> dict[str, HostedTool]:
    """Return the tools that the gateway runs for a response, by the model's names. The first label counts."""
    if resume_record.tool_owner is not ToolOwner.GATEWAY:
        return {}
    tools: dict[str, HostedTool] = {}
    for label in resume_record.labels or tuple(hosts):
        for tool in hosts.get(label, ()):
            name = tool.definition.name
            if resume_record.tool_names is None or name in resume_record.tool_names:
                tools.setdefault(
                    name,
                    replace(tool, may_need_approval=tool.may_need_approval or name in resume_record.approval_required),
                )
    return tools


def _labels(tool_catalog: ToolCatalog) -> dict[str, str]:
    """Return the label of each tool, as reported by the sources: a wrapper may combine several of them."""
    labels = {name: source.id for name, source in tool_catalog.source.owners.items()}
    return labels | {name: one.name for one in tool_catalog.source.statuses for name in one.tools or ()}
