"""Examination: asks every probe, several times, and gives the profile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from ferrule.engines.doctor.client import Asker, Question
from ferrule.engines.doctor.continuation_cost import price_of_going_on
from ferrule.engines.doctor.elicitation import Found, Lever, find_lever
from ferrule.engines.doctor.observations import View
from ferrule.engines.doctor.probe import Asked, Probe
from ferrule.engines.doctor.probes import PROBES
from ferrule.engines.doctor.sample_tools import HELLO, body_of
from ferrule.engines.doctor.verdicts import Sight, concluded, is_enough, is_kept, is_loose, nothing
from ferrule.engines.http import Http
from ferrule.engines.profile import Finding, Profile, Verdict
from ferrule.errors import EngineError

_Given = TypeVar("_Given")
CALLS = "calls"
"""The finding that stands before all others: whether the model can be brought to call a tool."""
TOTAL = len(PROBES) + 1
"""How many findings an examination gives."""
_LIMIT_FIELDS = ("max_tokens", "max_completion_tokens")


async def examine(
    http: Http,
    model: str,
    *,
    runs: int = 3,
    advance: Callable[[Finding], None] = lambda _: None,
    probes: Sequence[Probe] = PROBES,
) -> Profile:
    """What the model at `http` honours. `advance` is given each finding as it is made: `TOTAL` of all probes.

    `EngineError` where the endpoint does not even say hello, or is lost on the way.
    """
    asker = await _greeted(http, model)
    found = await find_lever(asker, runs)
    first = _of_lever(found)
    advance(first)

    async def finding(probe: Probe) -> Finding:
        made = await _finding(asker, probe, found.lever, runs)
        advance(made)
        return made

    safe = await _together([finding(probe) for probe in probes if not probe.is_last])
    # Alone, and before what may break it: it is a matter of time.
    price = await price_of_going_on(http, model)
    risky = [await finding(probe) for probe in probes if probe.is_last]
    return Profile(http.base, model, datetime.now(UTC).date().isoformat(), (first, *safe, *risky), price)


async def _greeted(http: Http, model: str) -> Asker:
    """Somebody who knows how to ask there at all."""
    refusal = ""
    for limit_field in _LIMIT_FIELDS:
        asker = Asker(http, model, limit_field)
        answer = await asker.answer(Question(body_of(HELLO)), 1)
        if not answer.refusal:
            return asker
        refusal = refusal or f"{answer.status or ''} {answer.refusal}".strip()
    raise EngineError(
        f"{http.base} does not answer a plain question: {refusal}",
        code="engine_refused",
        hint="See whether the address, the model's name and the key are right.",
    )


async def _finding(asker: Asker, probe: Probe, lever: Lever | None, runs: int) -> Finding:
    if probe.needs_call and lever is None:
        return Finding(probe.name, Verdict.UNKNOWN, "The model could not be brought to call a tool.")
    pull = lever or Lever()
    sights = await _sights(asker, probe.asked, probe.seen, pull, range(runs))
    if not is_enough(sights, runs):
        # A weak model does not do each time what it is asked; it gets as many chances again.
        sights += await _sights(asker, probe.asked, probe.seen, pull, range(runs, 2 * runs))
    without: list[Sight] | None = None
    if probe.without and (is_kept(sights, runs) or is_loose(sights)):
        without = await _sights(asker, probe.without, probe.seen, pull, range(len(sights)))
    return concluded(probe.name, sights, runs, without)


async def _sights(asker: Asker, asked: Asked, seen: View, lever: Lever, runs: range) -> list[Sight]:
    async def once(run: int) -> Sight:
        questions = [question for question in asked(lever, run) if question is not None]
        if not questions:
            return nothing("could not be told it in the format that it copies")
        # One after the other: some show only after what was asked before them.
        return seen([await asker.answer(question, run + 1) for question in questions])

    return await _together([once(run) for run in runs])


async def _together(work: Sequence[Coroutine[Any, Any, _Given]]) -> list[_Given]:
    """All at once; where one fails, the others are stopped and the failure is the outcome."""
    tasks = [asyncio.ensure_future(each) for each in work]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()


def _of_lever(found: Found) -> Finding:
    if found.lever is None:
        told = "It made no call, neither asked in words nor given one to repeat in the common formats."
        return Finding(CALLS, Verdict.UNKNOWN, told)
    count = f"It called the tool in {found.moved} of {found.tried} runs when {found.lever}."
    return Finding(CALLS, Verdict.HONOURED if found.moved * 2 >= found.tried else Verdict.PARTLY, count)
