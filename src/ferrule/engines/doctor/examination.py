"""Examination: runs every probe several times and makes the profile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from ferrule.engines.doctor.client import ProbeClient, ProbeRequest
from ferrule.engines.doctor.continuation_cost import measure_continuation_cost
from ferrule.engines.doctor.elicitation import CallElicitation, ElicitationResult, find_elicitation
from ferrule.engines.doctor.observations import Observer
from ferrule.engines.doctor.probe import BuildRequests, Probe
from ferrule.engines.doctor.probes import PROBES
from ferrule.engines.doctor.sample_tools import HELLO, request_body
from ferrule.engines.doctor.verdicts import (
    Observation,
    conclude,
    has_enough_evidence,
    is_cut_off,
    is_honoured,
    no_evidence,
)
from ferrule.engines.http import HttpClient
from ferrule.engines.profile import Finding, Profile, Verdict
from ferrule.errors import EngineError

_T = TypeVar("_T")
CALLS = "calls"
"""The first finding: whether the model can be prompted to call a tool."""
TOTAL = len(PROBES) + 1
"""How many findings an examination makes."""
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")


async def examine(
    http: HttpClient,
    model: str,
    *,
    runs: int = 3,
    advance: Callable[[Finding], None] = lambda _: None,
    probes: Sequence[Probe] = PROBES,
) -> Profile:
    """Examine which features the model at `http` honours. `advance` gets each finding as it is made, `TOTAL` in all.

    Raises `EngineError` if the endpoint does not answer a plain request, or becomes unreachable.
    """
    client = await _connect(http, model)
    elicited = await find_elicitation(client, runs)
    first = _elicitation_finding(elicited)
    advance(first)

    async def run(probe: Probe) -> Finding:
        result = await _run_probe(client, probe, elicited.elicitation, runs)
        advance(result)
        return result

    safe = await _gather([run(probe) for probe in probes if not probe.is_last])
    # This measures time, so nothing else may run; and it comes before the probes that may crash the endpoint.
    cost = await measure_continuation_cost(http, model)
    risky = [await run(probe) for probe in probes if probe.is_last]
    return Profile(http.base, model, datetime.now(UTC).date().isoformat(), (first, *safe, *risky), cost)


async def _connect(http: HttpClient, model: str) -> ProbeClient:
    """Return a client that uses a token limit field that the endpoint accepts."""
    refusal = ""
    for limit_field in _LIMIT_FIELDS:
        client = ProbeClient(http, model, limit_field)
        response = await client.send(ProbeRequest(request_body(HELLO)), 1)
        if not response.refusal:
            return client
        refusal = refusal or f"{response.status or ''} {response.refusal}".strip()
    raise EngineError(
        f"{http.base} does not answer a plain request: {refusal}",
        code="engine_refused",
        hint="Check the address, the model's name and the key.",
    )


async def _run_probe(client: ProbeClient, probe: Probe, elicitation: CallElicitation | None, runs: int) -> Finding:
    if probe.needs_call and elicitation is None:
        return Finding(probe.name, Verdict.UNKNOWN, "The model could not be prompted to call a tool.")
    chosen = elicitation or CallElicitation()
    observations = await _observe_runs(client, probe.requests, probe.observe, chosen, range(runs))
    if not has_enough_evidence(observations, runs):
        # A weak model does not follow every prompt, so it gets as many runs again.
        observations += await _observe_runs(client, probe.requests, probe.observe, chosen, range(runs, 2 * runs))
    control: list[Observation] | None = None
    if probe.control and (is_honoured(observations, runs) or is_cut_off(observations)):
        control = await _observe_runs(client, probe.control, probe.observe, chosen, range(len(observations)))
    return conclude(probe.name, observations, runs, control)


async def _observe_runs(
    client: ProbeClient, build_requests: BuildRequests, observe: Observer, elicitation: CallElicitation, runs: range
) -> list[Observation]:
    async def once(run: int) -> Observation:
        requests = [request for request in build_requests(elicitation, run) if request is not None]
        if not requests:
            return no_evidence("could not be given this call in the format that it copies")
        # One after the other: a later request may depend on the effect of an earlier one.
        return observe([await client.send(request, run + 1) for request in requests])

    return await _gather([once(run) for run in runs])


async def _gather(work: Sequence[Coroutine[Any, Any, _T]]) -> list[_T]:
    """Run all at once; if one fails, cancel the others and raise its error."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _elicitation_finding(result: ElicitationResult) -> Finding:
    if result.elicitation is None:
        evidence = "It made no call, neither when instructed to nor when asked to repeat one in the common formats."
        return Finding(CALLS, Verdict.UNKNOWN, evidence)
    count = f"It called the tool in {result.successes} of {result.runs} runs when {result.elicitation}."
    return Finding(CALLS, Verdict.HONOURED if result.successes * 2 >= result.runs else Verdict.PARTLY, count)
