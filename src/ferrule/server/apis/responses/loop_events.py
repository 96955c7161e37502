"""LoopEventEncoder: encodes the events of a loop as response events."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict

from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.dialects.openai_responses.hosted_tools import HostedTool
from ferrule.dialects.openai_responses.open_item import Events
from ferrule.run.events import (
    ConfirmationRequired,
    LoopEnded,
    LoopEvent,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ferrule.run.machine import State
from ferrule.server.answer.resume_record import ResumeRecord

_LIST_TOOLS = "mcp_list_tools"


class LoopEventEncoder:
    """`hosted` are the tools that the gateway runs, by the model's names."""

    def __init__(self, encoder: HostedEncoder, resume_record: ResumeRecord, hosted: Mapping[str, HostedTool]) -> None:
        self.encoder = encoder
        self._are_handed_out = resume_record.are_handed_out
        output = encoder.response["output"]
        answered = {item.get("approval_request_id") for item in output}
        self._approval_requests = {
            call: approval for call, approval in resume_record.approvals.items() if approval not in answered
        }
        listed = {item["server_label"] for item in output if item["type"] == _LIST_TOOLS}
        self._servers_to_list = {
            label: [tool for tool in hosted.values() if tool.label == label]
            for label in resume_record.labels_to_list
            if label not in listed
        }
        self.approvals: dict[str, str] = {}
        """The approvals that calls of this response wait for, by call id."""

    @property
    def has_output(self) -> bool:
        return any(item["type"] != _LIST_TOOLS for item in self.encoder.response["output"])

    def begin(self) -> Events:
        """Return the events before any output of the model."""
        events = self.encoder.begin()
        for label, tools in self._servers_to_list.items():
            events += self.encoder.list_tools(label, tools)
        self._servers_to_list = {}
        return events

    def encode(self, event: LoopEvent) -> Events:
        match event:
            case ToolStarted(call):
                return self.encoder.start_tool(call, self._approval_requests.pop(call.id, ""))
            case ToolProgressed(call_id, progress):
                return self.encoder.report_progress(call_id, asdict(progress))
            case ToolFinished(result):
                return self.encoder.finish_tool(result)
            case ConfirmationRequired(call, approval):
                self.approvals[call.id] = approval
                return self.encoder.request_approval(call, approval)
            case LoopEnded(state, _, calls):
                # Those of a round that waited were in the response before.
                late_calls = () if self._are_handed_out else calls
                is_waiting = state is State.WAITING
                return self.encoder.finish(waits=is_waiting, completed_at=int(time.time()), late_calls=late_calls)
            case _:
                return self.encoder.feed(event)
