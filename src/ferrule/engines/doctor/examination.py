"""Examination: runs every probe several times and makes the profile."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from ferrule.core.json_text import dumps
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.lenient_json import entries, text
from ferrule.engines.doctor.client import ProbeClient, ProbeRequest
from ferrule.engines.doctor.elicitation import CallElicitation, ElicitationResult, find_elicitation
from ferrule.engines.doctor.observations import Observer
from ferrule.engines.doctor.probe import BuildRequests, Probe
from ferrule.engines.doctor.probes import PROBES
from ferrule.engines.doctor.sample_tools import HELLO, request_body
from ferrule.engines.doctor.verdicts import (
    Observation,
    RunOutcome,
    conclude,
    has_enough_evidence,
    is_cut_off,
    is_honoured,
    no_evidence,
)
from ferrule.engines.http import ByteStream, HttpClient
from ferrule.engines.profile import Finding, Profile, Verdict
from ferrule.errors import EngineError

# Continuation cost: measures the cost of one more request on a prompt that the endpoint has just read, in tokens.
#
# Skipping forced text pays this cost: each appended text ends one request and starts another. Must not know what the
# cost is used for.

PATH = "/v1/completions"
_TOKENS = 24
_ROUNDS = 3
_STEPS = 4
# As long as a prompt with a few tools, so that an endpoint without a prompt cache shows a high cost.
_LINES = 40
# Like an argument's name between two values.
_APPENDED = '", "name": "'


class StreamingClient(Protocol):
    """The part of `HttpClient` that is needed here."""

    def stream(self, path: str, body: dict[str, Any]) -> ByteStream | AsyncGenerator[bytes, None]: ...


@dataclass(frozen=True, slots=True)
class _TimedCompletion:
    """The seconds until a completion's first piece, from there to its last piece, and the number of pieces."""

    first: float
    rest: float
    pieces: int
    text: str


async def measure_continuation_cost(
    http: StreamingClient, model: str, clock: Callable[[], float] = time.monotonic
) -> float | None:
    """Return how many tokens the endpoint could have generated while one more request reached its first token.

    None if that cannot be measured: the endpoint has no raw completions, or sends its answer in a single piece.
    """
    prompt = _prompt()
    tokens: list[float] = []
    requests: list[float] = []
    try:
        await _time_completion(http, model, prompt, 1, clock)
        for _ in range(_ROUNDS):
            completion = await _time_completion(http, model, prompt, _TOKENS, clock)
            if completion.pieces < _TOKENS // 2 or completion.rest <= 0:
                return None
            tokens.append(completion.rest / (completion.pieces - 1))
            text_so_far = prompt + completion.text
            for _ in range(_STEPS):
                text_so_far += _APPENDED
                requests.append((await _time_completion(http, model, text_so_far, 1, clock)).first)
    except EngineError as refusal:
        if not refusal.is_refusal:
            raise
        return None
    # The first token of a request would have been generated in any case.
    return max(statistics.median(requests) / statistics.median(tokens) - 1, 0.0)


async def _time_completion(
    http: StreamingClient, model: str, prompt: str, max_tokens: int, clock: Callable[[], float]
) -> _TimedCompletion:
    body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True, "seed": 1}
    framing = SseObjects()
    moments: list[float] = []
    answer = ""
    started = clock()
    async with aclosing(http.stream(PATH, body)) as data_chunks:
        async for data in data_chunks:
            for chunk in framing.feed(data):
                piece = "".join(text(choice.get("text")) for choice in entries(chunk.get("choices")))
                if piece:
                    moments.append(clock())
                    answer += piece
    if not moments:
        return _TimedCompletion(clock() - started, 0.0, 0, "")
    return _TimedCompletion(moments[0] - started, moments[-1] - moments[0], len(moments), answer)


def _prompt() -> str:
    """A prompt that a model can continue for a while: a numbered list."""
    return "".join(f"{dumps({'number': number, 'square': number * number})}\n" for number in range(_LINES))


_T = TypeVar("_T")
CALLS = "calls"
"""The first finding: whether the model can be prompted to call a tool."""
TOOLS = "tools accepted"
"""The first finding instead, if the endpoint refuses every request that offers a tool."""
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
        result = await _run_probe(client, probe, elicited, runs)
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


async def _run_probe(client: ProbeClient, probe: Probe, elicited: ElicitationResult, runs: int) -> Finding:
    if probe.needs_call and elicited.elicitation is None:
        why = (
            "Requests with tools are refused."
            if elicited.refusal
            else "The model could not be prompted to call a tool."
        )
        return Finding(probe.name, Verdict.UNKNOWN, why)
    chosen = elicited.elicitation or CallElicitation()
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
    if result.refusal:
        return conclude(TOOLS, [Observation(RunOutcome.REFUSAL, result.refusal)], result.runs, None)
    if result.elicitation is None:
        evidence = "It made no call, neither when instructed to nor when asked to repeat one in the common formats."
        return Finding(CALLS, Verdict.UNKNOWN, evidence)
    count = f"It called the tool in {result.successes} of {result.runs} runs when {result.elicitation}."
    return Finding(CALLS, Verdict.HONOURED if result.successes * 2 >= result.runs else Verdict.PARTLY, count)
