"""Connects the questions of MCP servers to the gateway's approvals, and their requests for samples to its models."""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.context import Principal
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Engine
from ferrule.run.elicitation import ApprovalElicitationHandler
from ferrule.run.sampling import ApprovalSamplingHandler
from ferrule.run.server_questions import ServerQuestions
from ferrule.server.gateway import Gateway
from ferrule.server.tools.mcp_servers import mcp_servers
from ferrule.sources.mcp.sampling import SamplingRequest
from ferrule.sources.source import Source


def answer_questions(gateway: Gateway, sources: Iterable[Source]) -> None:
    """Let people answer what MCP servers ask, where the program that made the sources does not answer itself."""
    patience = gateway.config.sources.mcp_question_seconds
    if patience <= 0:
        return
    drain = gateway.telemetry.drain
    # A gateway that drains takes no decisions any more.
    questions = ServerQuestions(gateway.ledger, patience, needs_call=True, is_ending=lambda: drain.has_begun)
    elicit = ApprovalElicitationHandler(gateway.ledger, questions=questions)

    async def engine_of(request: SamplingRequest, asked: ToolCallRequest) -> Engine:
        callers = {caller.principal for caller in request.callers}
        # The caller's right to use a model is not extended by the server whose tool it calls.
        engines = [gateway.engine(request.limits.model, principal) for principal in callers or {Principal()}]
        await gateway.request_limits.check(asked)
        return engines[0]

    sample = ApprovalSamplingHandler(gateway.ledger, engine_of, questions=questions)
    for servers in mcp_servers(sources):
        servers.answer_with(elicit, sample)
    gateway.shutdown_callbacks.append(questions.close)
